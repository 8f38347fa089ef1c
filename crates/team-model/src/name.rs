//! Names of agents and teams: what may be one, and when two are the same.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use unicode_normalization::UnicodeNormalization;

/// The greatest length of a name, in characters.
const LONGEST: usize = 32;

/// Words that mean something else where a name is expected.
const RESERVED: [&str; 11] =
    ["leader", "lead", "manager", "all", "everyone", "human", "user", "self", "team", "unknown", "*"];

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing was given.
    #[error("a name cannot be empty")]
    Empty,
    /// More characters than allowed.
    #[error("`{name}` is {length} characters long, 32 are allowed")]
    TooLong {
        /// The refused text.
        name: String,
        /// Its length in characters.
        length: usize,
    },
    /// The first character is no letter.
    #[error("`{0}` does not begin with a letter")]
    NoLetter(String),
    /// A later character is neither letter, digit, `-` nor `_`.
    #[error(
        "`{name}` has `{character}` in it: after the first letter only letters, digits, `-` and `_` may stand"
    )]
    BadCharacter {
        /// The refused text.
        name: String,
        /// The character that cannot stand.
        character: char,
    },
    /// The word is taken.
    #[error("`{0}` is a reserved word")]
    Reserved(String),
}

impl NameError {
    /// Says what to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Reserved(name) => Some(format!("choose another name, for example `{name}-1`")),
            Self::TooLong { name, .. } => {
                Some(format!("shorten it, for example `{}`", name.chars().take(LONGEST).collect::<String>()))
            }
            _ => {
                Some("use a letter first, then letters, digits, `-` or `_`, for example `coder-1`".to_owned())
            }
        }
    }
}

/// Folds a name for comparison: two names equal after this are the same name.
pub fn fold_case(name: &str) -> String {
    if name.is_ascii() {
        return name.to_ascii_lowercase();
    }
    caseless::default_case_fold_str(&name.nfc().collect::<String>()).nfc().collect()
}

/// Says whether a text is plainly a name. Every line of a log has some, so the usual ones are told quickly.
fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let fits = |it: &u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_');
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.len() <= LONGEST
        && bytes.iter().all(fits)
        && !RESERVED.iter().any(|it| it.eq_ignore_ascii_case(text))
}

fn check(text: &str) -> Result<String, NameError> {
    if is_plain(text) {
        return Ok(text.to_owned());
    }
    let name: String = text.nfc().collect();
    let Some(first) = name.chars().next() else { return Err(NameError::Empty) };
    if RESERVED.contains(&fold_case(&name).as_str()) {
        return Err(NameError::Reserved(name));
    }
    if !first.is_alphabetic() {
        return Err(NameError::NoLetter(name));
    }
    let allowed = |it: char| {
        it.is_alphanumeric() || it == '-' || it == '_' || unicode_normalization::char::is_combining_mark(it)
    };
    if let Some(character) = name.chars().find(|it| !allowed(*it)) {
        return Err(NameError::BadCharacter { name, character });
    }
    let length = name.chars().count();
    if length > LONGEST {
        return Err(NameError::TooLong { name, length });
    }
    Ok(name)
}

macro_rules! name_type {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $type(String);

        impl $type {
            /// Checks a text and stores it in NFC.
            pub fn new(text: &str) -> Result<Self, NameError> {
                check(text).map(Self)
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Says whether `other` names the same thing, whatever its case and normal form.
            pub fn is_same(&self, other: &str) -> bool {
                self.0 == other || fold_case(&self.0) == fold_case(other)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.pad(&self.0)
            }
        }

        impl FromStr for $type {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $type {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                if is_plain(&text) {
                    return Ok(Self(text));
                }
                Self::new(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

name_type! {
    /// The name of an agent (a seat) in a team.
    AgentName
}
name_type! {
    /// The key of a team: the name of its directory.
    TeamKey
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_any_script_make_a_name() {
        for name in ["coder", "w1", "研究员", "Ünï-1", "a_b", "дом", "हिन्दी"] {
            assert_eq!(AgentName::new(name).unwrap().as_str(), name.nfc().collect::<String>());
        }
    }

    #[test]
    fn what_cannot_be_a_name_says_why() {
        let check = |text: &str| AgentName::new(text).unwrap_err().to_string();
        assert_eq!(check(""), "a name cannot be empty");
        assert_eq!(check("1a"), "`1a` does not begin with a letter");
        assert_eq!(check("Leader"), "`Leader` is a reserved word");
        assert_eq!(check("*"), "`*` is a reserved word");
        assert!(check("a b").contains("has ` ` in it"));
        assert!(check("a/b").contains("has `/` in it"));
        assert!(check(&"a".repeat(33)).contains("33 characters"));
        assert!(AgentName::new(&"研".repeat(32)).is_ok());
    }

    #[test]
    fn names_are_stored_composed_and_compared_without_case() {
        let composed = AgentName::new("\u{e9}va").unwrap();
        assert_eq!(AgentName::new("e\u{301}va").unwrap(), composed);
        assert!(composed.is_same("E\u{301}VA"));
        assert!(AgentName::new("Straße").unwrap().is_same("STRASSE"));
        assert!(!composed.is_same("evan"));
    }
}
