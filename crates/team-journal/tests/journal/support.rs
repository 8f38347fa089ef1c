//! A log in a temporary directory, with events that mean nothing.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use team_journal::{Cursor, Draft, Journal, Line, LogFact, Options, Payload, Places};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub(crate) enum Event {
    #[serde(rename = "log.opened")]
    Opened { log_id: String, format: u32, prev_seq: u64, prev_hash: String },
    #[serde(rename = "log.sealed")]
    Sealed { last_seq: u64 },
    #[serde(rename = "log.damaged")]
    Damaged { from: u64, to: u64 },
    #[serde(rename = "log.restored")]
    Restored {},
    #[serde(rename = "log.tampered")]
    Tampered { at: u64 },
    #[serde(rename = "log.tail_set_aside")]
    TailSetAside { bytes: u64 },
    #[serde(rename = "note.added")]
    Noted { id: u64, text: String },
    #[serde(other)]
    Unknown,
}

impl Payload for Event {
    fn from_log(fact: LogFact) -> Self {
        match fact {
            LogFact::Opened { log_id, format, prev_seq, prev_hash } => {
                Self::Opened { log_id, format, prev_seq, prev_hash }
            }
            LogFact::Sealed { last_seq } => Self::Sealed { last_seq },
            LogFact::Damaged { from, to } => Self::Damaged { from, to },
            LogFact::Restored {} => Self::Restored {},
            LogFact::Tampered { seq } => Self::Tampered { at: seq },
            LogFact::TailSetAside { bytes } => Self::TailSetAside { bytes },
        }
    }

    fn as_log(&self) -> Option<LogFact> {
        Some(match self.clone() {
            Self::Opened { log_id, format, prev_seq, prev_hash } => {
                LogFact::Opened { log_id, format, prev_seq, prev_hash }
            }
            Self::Sealed { last_seq } => LogFact::Sealed { last_seq },
            Self::Damaged { from, to } => LogFact::Damaged { from, to },
            Self::Restored {} => LogFact::Restored {},
            Self::Tampered { at } => LogFact::Tampered { seq: at },
            Self::TailSetAside { bytes } => LogFact::TailSetAside { bytes },
            Self::Noted { .. } | Self::Unknown => return None,
        })
    }

    fn keys(&self) -> Vec<String> {
        match self {
            Self::Noted { id, .. } => vec![format!("n-{id}"), format!("mod:{}", id % 3)],
            _ => Vec::new(),
        }
    }

    fn read_quickly(json: &str) -> Option<Self> {
        // Some lines go the quick way, the others the usual one.
        serde_json::from_str(json).ok().filter(|event| matches!(event, Self::Noted { id, .. } if id % 2 == 0))
    }
}

pub(crate) type Log = Journal<String, Event>;
pub(crate) type Written = Line<String, Event>;

pub(crate) const WAIT: Duration = Duration::from_secs(20);

pub(crate) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp(1_767_225_600, 0).expect("a valid time")
}

pub(crate) fn note(id: u64) -> Draft<String, Event> {
    text(id, "hello")
}

pub(crate) fn text(id: u64, text: &str) -> Draft<String, Event> {
    Draft { team: Some("current".into()), by: "person".into(), event: Event::Noted { id, text: text.into() } }
}

/// The places of one log; the directory goes with it.
pub(crate) struct World {
    dir: tempfile::TempDir,
}

impl World {
    /// A directory with a fresh log.
    pub(crate) fn new() -> Self {
        let world = Self::empty();
        world.create();
        world
    }

    pub(crate) fn empty() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    pub(crate) fn places(&self) -> Places {
        Self::places_in(self.dir.path())
    }

    pub(crate) fn places_in(dir: &Path) -> Places {
        Places { logs: dir.join("team/logs"), state: dir.join("state"), cache: dir.join("team/runtime") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn create(&self) -> Log {
        Journal::create(self.places(), options(), "log-1").expect("a fresh log")
    }

    pub(crate) fn open(&self) -> Log {
        self.open_with(|_| {})
    }

    pub(crate) fn open_with(&self, change: impl FnOnce(&mut Options<String>)) -> Log {
        let mut options = options();
        change(&mut options);
        Journal::open(self.places(), options).expect("a log that opens")
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        fs::read(self.places().active()).expect("an active file")
    }

    pub(crate) fn put(&self, bytes: &[u8]) {
        fs::write(self.places().active(), bytes).expect("a writable file");
    }

    pub(crate) fn dump(&self) -> String {
        String::from_utf8(self.bytes()).expect("text")
    }
}

pub(crate) fn options() -> Options<String> {
    let mut options = Options::new("journal".to_owned());
    options.clock = Arc::new(now);
    options.sync = false;
    options.holder = "the test".into();
    options
}

pub(crate) fn append(log: &Log, drafts: Vec<Draft<String, Event>>) -> Vec<Written> {
    let mut guard = log.lock(WAIT).expect("the lock");
    let lines = guard.append(now(), drafts).expect("an append");
    guard.unlock_and_sync().expect("an unlock");
    lines
}

pub(crate) fn append_notes(log: &Log, ids: std::ops::Range<u64>) {
    for id in ids {
        append(log, vec![note(id)]);
    }
}

pub(crate) fn read(log: &Log, cursor: &mut Cursor) -> Vec<Written> {
    let mut lines = Vec::new();
    log.read_new(cursor, &mut |line| lines.push(line.clone())).expect("a reading");
    lines
}

pub(crate) fn read_all(log: &Log) -> Vec<Written> {
    read(log, &mut log.cursor_start().expect("a start"))
}

/// The events of a log, in short.
pub(crate) fn kinds(lines: &[Written]) -> Vec<String> {
    lines
        .iter()
        .map(|line| match &line.event {
            Event::Noted { id, .. } => format!("{} note {id}", line.seq),
            Event::Damaged { from, to } => format!("{} damaged {from}-{to}", line.seq),
            Event::Tampered { at } => format!("{} tampered {at}", line.seq),
            Event::TailSetAside { bytes } => format!("{} tail {bytes}", line.seq),
            Event::Opened { .. } => format!("{} opened", line.seq),
            Event::Sealed { .. } => format!("{} sealed", line.seq),
            Event::Restored {} => format!("{} restored", line.seq),
            Event::Unknown => format!("{} unknown", line.seq),
        })
        .collect()
}

pub(crate) fn ids(lines: &[Written]) -> Vec<u64> {
    lines
        .iter()
        .filter_map(|line| match &line.event {
            Event::Noted { id, .. } => Some(*id),
            _ => None,
        })
        .collect()
}

/// A failpoint that fires the first time it is passed.
pub(crate) fn fail_once(at: &'static str) -> team_journal::Fail {
    let armed = Mutex::new(true);
    Arc::new(move |point| {
        let mut armed = armed.lock().expect("no panic inside");
        let fires = point == at && *armed;
        *armed &= !fires;
        fires
    })
}
