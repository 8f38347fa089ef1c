//! The text of a message or result as the log keeps it.

use serde::{Deserialize, Serialize};

/// A text: short ones stand in the line, long ones in a file named by their hash.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    /// The text itself, where it is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The file below `logs/bodies/`, where it is long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The length of that file in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub bytes: u64,
    /// Its length in characters.
    pub chars: u64,
    /// First 8 bytes of its SHA-256, in hex.
    pub hash: String,
    /// How many control characters were removed from what was given.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cleaned: u64,
}

/// What the state keeps of a body: enough to compare, never the text.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BodyRef {
    /// Its length in characters.
    pub chars: u64,
    /// First 8 bytes of its SHA-256, in hex.
    pub hash: String,
}

impl Body {
    /// Makes a body whose text stands in the line.
    pub fn inline(text: &str) -> Self {
        Self {
            text: Some(text.to_owned()),
            file: None,
            bytes: 0,
            chars: text.chars().count() as u64,
            hash: short_hash(text),
            cleaned: 0,
        }
    }

    /// Makes a body whose text lies in a file.
    pub fn filed(text: &str, file: String, bytes: u64) -> Self {
        Self { text: None, file: Some(file), bytes, ..Self::inline(text) }
    }

    /// Returns what the state keeps.
    pub fn reference(&self) -> BodyRef {
        BodyRef { chars: self.chars, hash: self.hash.clone() }
    }
}

/// Hashes a text for comparison: the first 8 bytes of its SHA-256 in hex.
pub(crate) fn short_hash(text: &str) -> String {
    use std::fmt::Write as _;

    use sha2::{Digest as _, Sha256};
    let mut hex = String::with_capacity(16);
    for byte in &Sha256::digest(text.as_bytes())[..8] {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
