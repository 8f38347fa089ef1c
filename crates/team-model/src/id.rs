//! Ids: the seq of the event that made a thing, behind a letter; tasks are counted per team.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A text that is not an id of the wanted form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {what}: it looks like `{example}`")]
pub struct BadId {
    /// The refused text.
    pub text: String,
    /// What kind of id was wanted.
    pub what: &'static str,
    /// A well-formed one.
    pub example: &'static str,
}

fn decimal(text: &str) -> Option<u64> {
    let plain = !text.is_empty()
        && text.bytes().all(|it| it.is_ascii_digit())
        && !(text.len() > 1 && text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

macro_rules! seq_id {
    ($(#[$doc:meta])* $type:ident, $prefix:literal, $what:literal, $example:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type(pub u64);

        impl fmt::Display for $type {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, concat!($prefix, "{}"), self.0)
            }
        }

        impl FromStr for $type {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                text.strip_prefix($prefix)
                    .and_then(decimal)
                    .map(Self)
                    .ok_or_else(|| BadId { text: text.to_owned(), what: $what, example: $example })
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

seq_id! {
    /// A result: what closes a task.
    ResultId, "r-", "result id", "r-18"
}
seq_id! {
    /// A question that waits for an answer: an approval or a question to a human.
    RequestId, "q-", "request id", "q-19"
}
seq_id! {
    /// One conversation of a provider in a seat.
    SessionId, "s-", "session id", "s-20"
}
seq_id! {
    /// Agents and tasks that were started together.
    RunId, "run-", "run id", "run-21"
}
seq_id! {
    /// One start of a seat's process; never reused.
    SpawnId, "x-", "spawn id", "x-22"
}
seq_id! {
    /// A task of a team, counted from 1.
    TaskId, "", "task id", "3"
}

/// A message: `m-<seq>`, or an id of the sender's own.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MessageId {
    /// Made by us.
    Seq(u64),
    /// Given by the sender, so that a retry is recognised.
    Own(String),
}

/// Says whether a text may be a sender's own message id.
pub fn is_own_message_id(text: &str) -> bool {
    let form = (1..=64).contains(&text.len())
        && text.bytes().all(|it| it.is_ascii_alphanumeric() || b"._:-".contains(&it));
    let ours = ["m-", "r-", "q-", "s-", "run-", "x-"].iter().any(|prefix| {
        text.strip_prefix(prefix).is_some_and(|rest| rest.bytes().all(|it| it.is_ascii_digit()))
    });
    form && !ours && decimal(text).is_none()
}

impl fmt::Display for MessageId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seq(seq) => write!(out, "m-{seq}"),
            Self::Own(own) => out.write_str(own),
        }
    }
}

impl FromStr for MessageId {
    type Err = BadId;
    fn from_str(text: &str) -> Result<Self, BadId> {
        if let Some(seq) = text.strip_prefix("m-").and_then(decimal) {
            return Ok(Self::Seq(seq));
        }
        if is_own_message_id(text) {
            return Ok(Self::Own(text.to_owned()));
        }
        Err(BadId { text: text.to_owned(), what: "message id", example: "m-17" })
    }
}

impl Serialize for MessageId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MessageId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_what_they_print() {
        assert_eq!("x-22".parse(), Ok(SpawnId(22)));
        assert_eq!(SpawnId(22).to_string(), "x-22");
        assert_eq!("3".parse(), Ok(TaskId(3)));
        assert_eq!("m-17".parse(), Ok(MessageId::Seq(17)));
        assert_eq!("build:42".parse(), Ok(MessageId::Own("build:42".to_owned())));
    }

    #[test]
    fn other_forms_are_refused() {
        assert!("task-3".parse::<TaskId>().is_err());
        assert!("03".parse::<TaskId>().is_err());
        assert!("m-x y".parse::<MessageId>().is_err());
        assert!("r-5".parse::<MessageId>().is_err());
        assert!("x-".parse::<SpawnId>().is_err());
        assert!("".parse::<MessageId>().is_err());
    }
}
