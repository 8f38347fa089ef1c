//! The link of the hash chain. Knows bytes; knows nothing of lines, files or events.

use std::fmt;

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// The first 8 bytes of the SHA-256 of a line without its newline; shown as 16 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Digest([u8; 8]);

impl Digest {
    /// What the first line of a log has as its predecessor.
    pub const ZERO: Self = Self([0; 8]);

    /// Digests the bytes of one line.
    pub fn of(line: &[u8]) -> Self {
        let full = Sha256::digest(line);
        let mut short = [0; 8];
        short.copy_from_slice(&full[..8]);
        Self(short)
    }

    /// Reads 16 hex digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 16 {
            return None;
        }
        let mut bytes = [0; 8];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Some(Self(bytes))
    }

    pub(crate) fn push_hex(self, out: &mut Vec<u8>) {
        for byte in self.0 {
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
        }
    }
}

/// The whole SHA-256 of some bytes, as 64 hex digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        out.push(char::from(HEX[usize::from(byte >> 4)]));
        out.push(char::from(HEX[usize::from(byte & 15)]));
    }
    out
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Hex;
        impl Visitor<'_> for Hex {
            type Value = Digest;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("16 hex digits")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Digest, E> {
                Digest::from_hex(text).ok_or_else(|| E::custom("not 16 hex digits"))
            }
        }
        deserializer.deserialize_str(Hex).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_survives_being_written_and_read() {
        let digest = Digest::of(b"line");
        assert_eq!(Digest::from_hex(&digest.to_string()), Some(digest));
        assert_eq!(serde_json::from_str::<Digest>(&format!("\"{digest}\"")).unwrap(), digest);
        assert_eq!(Digest::from_hex("9F2c000000000000"), None);
        assert_eq!(Digest::from_hex("00"), None);
    }
}
