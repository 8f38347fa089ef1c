//! One line of the log, its draft and its form on disk. Knows the frame; an event is opaque.

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::redact::Redactor;
use crate::stamp;

/// What the journal states about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFact {
    /// A segment begins.
    Opened {
        /// The log's own id, the same in all segments.
        log_id: String,
        /// The format of its lines.
        format: u32,
        /// The seq of the line before, 0 at the beginning.
        prev_seq: u64,
        /// The hash of the line before.
        prev_hash: String,
    },
    /// A segment ends with this line.
    Sealed {
        /// The seq of this line.
        last_seq: u64,
    },
    /// These lines cannot be read any more.
    Damaged {
        /// The first lost seq.
        from: u64,
        /// The last lost seq.
        to: u64,
    },
    /// The log file had vanished and was put back.
    Restored {},
    /// The line was changed, removed or slipped in after it was written.
    Tampered {
        /// Its seq.
        seq: u64,
    },
    /// An unfinished end was moved into a file beside the log.
    TailSetAside {
        /// How many bytes.
        bytes: u64,
    },
}

impl LogFact {
    /// The index key under which the journal finds facts of this kind.
    pub(crate) fn key(&self) -> &'static str {
        match self {
            Self::Opened { .. } => "\0opened",
            Self::Sealed { .. } => "\0sealed",
            Self::Damaged { .. } => "\0damaged",
            Self::Restored {} => "\0restored",
            Self::Tampered { .. } => "\0tampered",
            Self::TailSetAside { .. } => "\0tail",
        }
    }
}

/// An event as the journal sees it: opaque, but able to carry the journal's own facts.
///
/// Variants written by a newer program must deserialize to a catch-all of the type.
pub trait Payload: Serialize + DeserializeOwned + Clone {
    /// Wraps a fact of the journal.
    fn from_log(fact: LogFact) -> Self;

    /// Returns the journal's fact, if the event is one.
    fn as_log(&self) -> Option<LogFact>;

    /// Returns the keys under which the event can be found.
    fn keys(&self) -> Vec<String>;

    /// Reads an event from exactly this JSON by a way that is quicker than the usual one, if the type has one for it;
    /// what this returns must be what the usual way returns.
    fn read_quickly(_json: &str) -> Option<Self> {
        None
    }
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line<B, E> {
    /// The order, from 1, without gaps.
    pub seq: u64,
    /// When it was written; never before the line above.
    #[serde(with = "stamp")]
    pub ts: DateTime<Utc>,
    /// The format of the line.
    pub v: u32,
    /// The hash of the line before.
    pub prev: Digest,
    /// The team it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// Who wrote it.
    pub by: B,
    /// What happened.
    pub event: E,
}

/// What is to be written; the journal adds seq, time and hash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Draft<B, E> {
    /// The team it belongs to.
    pub team: Option<String>,
    /// Who writes it.
    pub by: B,
    /// What happened.
    pub event: E,
}

/// A line as it is read: with the count of lines that belong to the same append.
#[derive(Deserialize)]
pub(crate) struct Wire<B, E> {
    seq: u64,
    #[serde(with = "stamp")]
    ts: DateTime<Utc>,
    v: u32,
    prev: Digest,
    #[serde(default)]
    more: u32,
    #[serde(default)]
    team: Option<String>,
    by: B,
    event: E,
}

/// What stands before the event where [`encode`] has written the line.
#[derive(Deserialize)]
struct Front<B> {
    seq: u64,
    #[serde(with = "stamp")]
    ts: DateTime<Utc>,
    v: u32,
    prev: Digest,
    #[serde(default)]
    more: u32,
    #[serde(default)]
    team: Option<String>,
    by: B,
}

/// Between the front of a line and its event. Within a string its quotes would be escaped.
const EVENT: &str = ",\"event\":";

impl<B: DeserializeOwned, E: Payload> Wire<B, E> {
    /// Reads a line without its newline.
    pub(crate) fn parse(bytes: &[u8], known: u32) -> Result<Parsed<B, E>> {
        // Checked as a whole, which is cheaper than string by string.
        let Ok(text) = std::str::from_utf8(bytes) else { return Ok(Parsed::Bad) };
        if let Some(parsed) = Self::parse_quickly(text, known) {
            return Ok(parsed);
        }
        match serde_json::from_str::<Self>(text) {
            Ok(wire) if wire.v <= known => {
                let Self { seq, ts, v, prev, more, team, by, event } = wire;
                Ok(Parsed::Line(Line { seq, ts, v, prev, team, by, event }, more))
            }
            Ok(wire) => Err(Error::Newer { found: wire.v, known }),
            // A newer program's line must not pass for damage.
            Err(_) => Header::parse(bytes, known).map(|_| Parsed::Bad),
        }
    }
}

impl<B: DeserializeOwned, E: Payload> Wire<B, E> {
    /// Reads a line of the usual form, so that its event is gone over once; for everything else there is the usual way.
    fn parse_quickly(text: &str, known: u32) -> Option<Parsed<B, E>> {
        let at = memchr::memmem::find(text.as_bytes(), EVENT.as_bytes())?;
        let event = E::read_quickly(text[at + EVENT.len()..].strip_suffix('}')?)?;
        let front: Front<B> = serde_json::from_str(&[&text[..at], "}"].concat()).ok()?;
        let Front { seq, ts, v, prev, more, team, by } = front;
        (v <= known).then(|| Parsed::Line(Line { seq, ts, v, prev, team, by, event }, more))
    }
}

/// What came of reading a line.
pub(crate) enum Parsed<B, E> {
    /// A whole line, and how many lines of its append follow.
    Line(Line<B, E>, u32),
    /// Not a line, or one whose frame alone can be read.
    Bad,
}

/// The frame of a line, readable without knowing its event.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(crate) struct Header {
    pub(crate) seq: u64,
    #[serde(with = "stamp")]
    pub(crate) ts: DateTime<Utc>,
    pub(crate) v: u32,
    pub(crate) prev: Digest,
    #[serde(default)]
    pub(crate) more: u32,
}

impl Header {
    /// Reads the frame; `None` if these bytes are no line.
    pub(crate) fn parse(bytes: &[u8], known: u32) -> Result<Option<Self>> {
        match serde_json::from_slice::<Self>(bytes) {
            Ok(header) if header.v > known => Err(Error::Newer { found: header.v, known }),
            Ok(header) => Ok(Some(header)),
            Err(_) => Ok(None),
        }
    }

    /// Reads only the seq, from the place where the writer puts it.
    pub(crate) fn quick_seq(bytes: &[u8]) -> Option<u64> {
        let rest = bytes.strip_prefix(b"{\"seq\":")?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if rest.get(digits) != Some(&b',') || rest.last() != Some(&b'}') {
            return None;
        }
        std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
    }
}

/// The frame that [`encode`] writes.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) seq: u64,
    pub(crate) ts: DateTime<Utc>,
    pub(crate) v: u32,
    pub(crate) prev: Digest,
    pub(crate) more: u32,
}

/// Writes one line with its newline behind `out`: the one place where lines are made, and therefore
/// where secrets are removed. Returns whether any was.
pub(crate) fn encode<B: Serialize + ?Sized, E: Serialize + ?Sized>(
    out: &mut Vec<u8>,
    redactor: &Redactor,
    frame: Frame,
    team: Option<&str>,
    by: &B,
    event: &E,
) -> Result<bool> {
    out.extend_from_slice(b"{\"seq\":");
    push_number(out, frame.seq);
    out.extend_from_slice(b",\"ts\":\"");
    stamp::push(frame.ts, out);
    out.extend_from_slice(b"\",\"v\":");
    push_number(out, u64::from(frame.v));
    out.extend_from_slice(b",\"prev\":\"");
    frame.prev.push_hex(out);
    out.push(b'"');
    if frame.more > 0 {
        out.extend_from_slice(b",\"more\":");
        push_number(out, u64::from(frame.more));
    }
    let body = out.len();
    if let Some(team) = team {
        out.extend_from_slice(b",\"team\":");
        serde_json::to_writer(&mut *out, team).map_err(Error::Serialize)?;
    }
    out.extend_from_slice(b",\"by\":");
    serde_json::to_writer(&mut *out, by).map_err(Error::Serialize)?;
    out.extend_from_slice(b",\"event\":");
    serde_json::to_writer(&mut *out, event).map_err(Error::Serialize)?;
    let changed = redactor.redact_json(out, body);
    out.extend_from_slice(b"}\n");
    Ok(changed)
}

fn push_number(out: &mut Vec<u8>, mut value: u64) {
    let start = out.len();
    loop {
        out.push(b'0' + u8::try_from(value % 10).unwrap_or(0));
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out[start..].reverse();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_in_the_documented_form() {
        let mut out = Vec::new();
        let frame = Frame {
            seq: 7,
            ts: "2026-01-01T00:00:00.000Z".parse().unwrap(),
            v: 1,
            prev: Digest::of(b""),
            more: 0,
        };
        let event = serde_json::json!({"type": "a.b"});
        let redactor = Redactor::default();
        encode(&mut out, &redactor, frame, Some("current"), &"person", &event).unwrap();
        encode(&mut out, &redactor, Frame { seq: 8, more: 2, ..frame }, None, &"person", &event).unwrap();
        insta::assert_snapshot!(String::from_utf8(out).unwrap(), @r#"
        {"seq":7,"ts":"2026-01-01T00:00:00.000Z","v":1,"prev":"e3b0c44298fc1c14","team":"current","by":"person","event":{"type":"a.b"}}
        {"seq":8,"ts":"2026-01-01T00:00:00.000Z","v":1,"prev":"e3b0c44298fc1c14","more":2,"by":"person","event":{"type":"a.b"}}
        "#);
    }

    #[test]
    fn the_seq_is_found_without_reading_the_event() {
        assert_eq!(Header::quick_seq(br#"{"seq":12,"x":1}"#), Some(12));
        assert_eq!(Header::quick_seq(br#"{"seq":12,"x":"#), None);
        assert_eq!(Header::quick_seq(br#"{"x":1}"#), None);
    }
}
