//! Where the log ends, and what the lock file remembers of it. Knows positions; opens nothing.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::read::Cursor;
use crate::segment::FileId;
use crate::stamp;

/// The end of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    /// The seq of the active segment's first line.
    pub(crate) first: u64,
    /// The size of the active segment.
    pub(crate) offset: u64,
    /// The seq of the last line.
    pub(crate) seq: u64,
    /// The hash of the last line.
    pub(crate) hash: Digest,
    /// The length of the last line without its newline.
    pub(crate) len: u64,
    /// The time of the last line.
    #[serde(with = "stamp")]
    pub(crate) ts: DateTime<Utc>,
    /// Whether the last line seals the segment.
    pub(crate) sealed: bool,
    /// The active file.
    pub(crate) file: Option<FileId>,
}

impl End {
    /// The end of a log that has no line yet.
    pub(crate) fn nothing() -> Self {
        Self {
            first: 1,
            offset: 0,
            seq: 0,
            hash: Digest::ZERO,
            len: 0,
            ts: DateTime::UNIX_EPOCH,
            sealed: false,
            file: None,
        }
    }

    pub(crate) fn cursor(&self) -> Cursor {
        if self.sealed {
            Cursor { segment: self.seq + 1, offset: 0, seq: self.seq, hash: self.hash }
        } else {
            Cursor { segment: self.first, offset: self.offset, seq: self.seq, hash: self.hash }
        }
    }
}

/// What the lock file says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// Who took the lock last, and could say so.
    pub(crate) holder: Option<Note>,
    /// Where the log ended then.
    pub(crate) end: Option<End>,
}

/// What a holder says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) pid: u32,
    pub(crate) what: String,
}
