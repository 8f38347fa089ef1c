//! What a hook call or a record of a program proves.
//!
//! Knows meanings. Must not know how they were read or what follows from them.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// One thing that a record of the program proves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fact", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fact {
    /// A conversation has begun or goes on.
    SessionStarted {
        /// Its id as told; a fork may tell its parent's here.
        native_id: String,
        /// Why: `startup`, `resume`, `clear`, `compact`.
        source: String,
        /// Its transcript, if told.
        transcript: Option<PathBuf>,
    },
    /// A turn has begun.
    TurnStarted {
        /// Conversation.
        native_id: Option<String>,
        /// The whole text the turn began with, if told.
        prompt: Option<String>,
        /// The program's id of that text.
        prompt_id: Option<String>,
    },
    /// A text waits in the program's own queue.
    Enqueued {
        /// The text.
        text: String,
    },
    /// A text was taken up inside the running turn.
    TakenInTurn {
        /// The text.
        text: String,
    },
    /// A turn is over.
    TurnEnded {
        /// Conversation.
        native_id: Option<String>,
        /// How it ended.
        outcome: TurnOutcome,
        /// The last words, if told.
        text: Option<String>,
    },
    /// What the program does now.
    Activity {
        /// Conversation, if told.
        native_id: Option<String>,
        /// The activity.
        kind: ActivityKind,
    },
    /// Which process the status belongs to; a status of another process proves nothing.
    Client {
        /// Conversation.
        native_id: Option<String>,
        /// Process id.
        pid: u32,
        /// Start time of the process in clock ticks since boot, as in field 22 of its stat line.
        started: Option<u64>,
        /// Version of the program.
        version: Option<String>,
    },
    /// The program asks a person for permission.
    ApprovalRequested {
        /// Conversation.
        native_id: Option<String>,
        /// Tool that wants to run.
        tool: String,
        /// What it wants to do, at most 4 KiB.
        input_summary: String,
        /// Answers on offer, the plain ones first.
        choices: Vec<String>,
        /// The program's id of the tool call.
        tool_use_id: Option<String>,
    },
    /// A question asked before is answered.
    ApprovalResolved {
        /// Conversation.
        native_id: Option<String>,
        /// The program's id of the tool call.
        tool_use_id: Option<String>,
    },
    /// The service refuses work until a limit resets.
    Limited {
        /// When it resets, in seconds of the epoch, if the record says so exactly.
        until: Option<i64>,
        /// The program's words, from which [`crate::reset_time`] may read a time.
        text: String,
    },
    /// The history is being shortened.
    Compacting {
        /// Conversation.
        native_id: Option<String>,
    },
    /// The history was shortened.
    Compacted {
        /// Conversation.
        native_id: Option<String>,
    },
    /// The conversation's program is ending.
    SessionEnded {
        /// Conversation.
        native_id: Option<String>,
        /// Why.
        reason: EndReason,
    },
    /// A settings file of the program has changed.
    SettingsChanged {
        /// Which kind of settings.
        source: String,
        /// The file, if told.
        path: Option<PathBuf>,
    },
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum TurnOutcome {
    /// With an answer.
    Answer,
    /// By a person.
    Interrupted,
    /// By an error.
    Error {
        /// The program's word for it.
        kind: String,
    },
    /// Over, the record does not say how; an end told before stands.
    Unstated,
}

/// What a program is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ActivityKind {
    /// Waits for input.
    Idle,
    /// Runs a turn.
    Working,
    /// Waits for a person's permission.
    AwaitingApproval {
        /// What it waits for, in the program's words.
        for_what: String,
    },
    /// Shows a dialog that is not a permission question.
    DialogOpen,
    /// Shortens its history.
    Compacting,
    /// The turn is over, a background command runs on.
    Shell,
    /// Something we do not know.
    Unknown {
        /// The program's word for it.
        word: String,
    },
}

/// Why a conversation's program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum EndReason {
    /// A person left it.
    Exit,
    /// The conversation was cleared; the program goes on with a new one.
    Cleared,
    /// Another reason, often a signal.
    Other {
        /// The program's word for it.
        word: String,
    },
}

/// Which conversation a hook call speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookSession {
    /// Its id.
    pub native_id: String,
    /// Its transcript, if told.
    pub transcript: Option<PathBuf>,
    /// Its folder, if told.
    pub cwd: Option<PathBuf>,
}

/// What our hook command knows when it answers.
#[derive(Debug, Clone, Copy)]
pub struct HookContext<'a> {
    /// Private folder of the seat.
    pub seat_dir: &'a Path,
    /// Whether messages reach the seat by the bell.
    pub bell: bool,
    /// Text to add to the conversation, if any.
    pub add_context: Option<&'a str>,
}

/// What somebody answers to a permission question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApprovalAnswer<'a> {
    /// Whether the tool may run.
    pub allow: bool,
    /// What the model is told with a no.
    pub message: Option<&'a str>,
}

/// Where the records of a running seat are.
#[derive(Debug, Clone, Copy)]
pub struct SeatPlaces<'a> {
    /// `config_home` of the launch.
    pub config_home: &'a Path,
    /// Folder the program runs in, absolute, without links.
    pub cwd: &'a Path,
    /// Id of the conversation, if known.
    pub native_id: Option<&'a str>,
    /// Transcript that a hook told, if it differs from the usual place.
    pub transcript: Option<&'a Path>,
    /// Process id of the program, if known.
    pub provider_pid: Option<u32>,
}

/// A file to watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Where it is, or will be.
    pub path: PathBuf,
    /// How to read it.
    pub kind: RecordKind,
}

/// How a record is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RecordKind {
    /// Grows by lines; each line is a record.
    Transcript,
    /// Replaced as a whole; the file is the record.
    Status,
}
