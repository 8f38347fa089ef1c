//! The seam between the engine and the agent programs.
//!
//! Knows the questions. Must not know any program's answers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::bridge::{Bridge, BridgeContext};
use crate::fact::{ApprovalAnswer, Fact, HookContext, HookSession, RecordKind, SeatPlaces, Watched};
use crate::launch::{Launch, Unsupported};
use crate::screen::{DialogRule, Question, Screen, ScreenReading};
use crate::seat::{Auth, SeatContext};
use crate::typing::{Framed, Typing};
use crate::version::{VersionVerdict, Versions};

/// The variables in which a program looks for what a profile says; empty where it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileKeys {
    /// For `BASE_URL`.
    pub base_url: &'static str,
    /// For `API_KEY`.
    pub api_key: &'static str,
    /// For `AUTH_TOKEN`.
    pub auth_token: &'static str,
}

/// What differs between agent programs, and nothing else.
///
/// It says how to start one and what its records mean; touching the world is the
/// engine's job.
pub trait Provider: Send + Sync {
    /// Returns the name that role files and profiles use.
    fn name(&self) -> &'static str;

    /// Returns other names that mean the same.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    /// Says which program is run.
    fn program(&self) -> Program;

    /// Returns where the program itself may lie, if what is found under its name only starts it.
    fn real_programs(&self, _found: &Path) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Says what the program can do.
    fn capabilities(&self) -> Capabilities;

    /// Returns the model used when nobody names one, if we choose at all.
    fn default_model(&self) -> Option<&'static str> {
        None
    }

    /// Returns the variables in which the program looks for what a profile says.
    fn key_names(&self) -> ProfileKeys;

    /// Says how the program tells which models it knows, if it does.
    fn model_list(&self) -> Option<ModelList> {
        None
    }

    /// Returns the versions that were tried.
    fn known_versions(&self) -> &'static Versions;

    /// Returns our tools' names as the model sees them.
    fn tool_names(&self) -> ToolNames;

    /// Describes the start of a seat.
    fn launch(&self, seat: &SeatContext<'_>) -> Result<Launch, Unsupported>;

    /// Returns the protocol of its live connection, if it has one.
    fn bridge(&self, _context: &BridgeContext<'_>) -> Option<Box<dyn Bridge>> {
        None
    }

    /// Says whether its channel takes a message only while the program is idle, and is never replaced by keys.
    fn takes_when_idle(&self) -> bool {
        false
    }

    /// Says whether the very process that runs our hooks starts our tool server, so that one with another parent belongs to
    /// a program in the seat's shell. Needed where such a program inherits our settings.
    fn starts_servers(&self) -> bool {
        false
    }

    /// Returns where a program that was started with this environment keeps its records.
    fn records_home(&self, env: &BTreeMap<String, String>) -> Option<PathBuf>;

    /// Returns the file in which the program keeps whether folders are trusted.
    fn trust_file(&self, env: &BTreeMap<String, String>, home: &Path) -> Option<PathBuf>;

    /// Says whether that file's contents trust a folder or one above it.
    fn trusts(&self, trust_file: &str, cwd: &Path) -> bool;

    /// Returns the file, and its whole contents, by which a person who never used the program says in `home` that a
    /// folder is theirs; for homes that we make ourselves.
    fn trust_note(&self, _home: &Path, _cwd: &Path) -> Option<(PathBuf, String)> {
        None
    }

    /// Returns what stands behind the host in a profile's `BASE_URL` for a service that is like the provider's own.
    fn base_path(&self) -> &'static str {
        ""
    }

    /// Returns the person's settings files, if a start builds on what they hold.
    fn settings_files(&self, _env: &BTreeMap<String, String>, _home: &Path) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Returns which conversation a hook call speaks of.
    fn hook_session(&self, stdin: &Value) -> Option<HookSession>;

    /// Returns what a hook call proves.
    fn read_hook(&self, event: &str, stdin: &Value) -> Vec<Fact>;

    /// Returns what our hook command prints for the program to read.
    fn hook_answer(&self, event: &str, context: &HookContext<'_>) -> Option<String>;

    /// Returns what finds, in the whole transcript of a conversation that has gone on, the texts that the program did not
    /// take along; `None` if it takes along all.
    fn forgotten(&self) -> Option<fn(&str) -> Vec<String>> {
        None
    }

    /// Says whether this hook call is a permission question that is answered by what our command prints. The command
    /// then waits for an answer; the program's own dialog may answer meanwhile.
    fn asks_our_hook(&self, _event: &str, _stdin: &Value) -> bool {
        false
    }

    /// Returns what our hook command prints to answer a permission question.
    fn approval_answer(&self, _event: &str, _answer: &ApprovalAnswer<'_>) -> Option<String> {
        None
    }

    /// Says whether this hook call is a permission question that waits in the program's own dialog and is answered by a
    /// key there, after [`Self::read_question`] has shown it.
    fn answered_by_keys(&self, _event: &str, _stdin: &Value) -> bool {
        false
    }

    /// Returns the permission question that a screen shows, if it is one that a key may answer.
    fn read_question(&self, _screen: &Screen) -> Option<Question> {
        None
    }

    /// Returns the question whether this folder is trusted that a screen shows, if it is one that a key may answer for a
    /// person who has granted it.
    fn read_trust(&self, _screen: &Screen, _folder: &Path) -> Option<Question> {
        None
    }

    /// Says whether the question on the screen is the one that a hook told with this tool and this input.
    fn is_about(&self, _shown: &Question, _tool: &str, _input: &str) -> bool {
        false
    }

    /// Says whether the last lines of the transcript hold such a question without its answer; `None` where the program
    /// does not record questions.
    fn asks_in_record(&self, _transcript: &str, _tool: &str, _input: &str) -> Option<bool> {
        None
    }

    /// Says whether a permission question is about one of our own tools.
    fn is_own_tool(&self, tool: &str) -> bool {
        let rest = tool.strip_prefix(self.tool_names().prefix);
        rest.is_some_and(|it| {
            !it.is_empty() && !it.contains("__") && it.bytes().all(|it| it.is_ascii_lowercase() || it == b'_')
        })
    }

    /// Returns the files whose changes prove something.
    fn files_to_watch(&self, places: &SeatPlaces<'_>) -> Vec<Watched>;

    /// Returns what one transcript line or a whole status file proves.
    fn read_record(&self, kind: RecordKind, record: &str) -> Vec<Fact>;

    /// Returns when a transcript line was written, in milliseconds of the epoch, if it says so.
    ///
    /// A fork's transcript begins with copies of its parent's lines: they are older than
    /// the fork and prove nothing about it.
    fn record_time(&self, record: &str) -> Option<i64>;

    /// Returns what a screen shows.
    fn read_screen(&self, screen: &Screen) -> ScreenReading;

    /// Returns the dialogs we know, with what answers them beforehand.
    fn dialogs(&self) -> &'static [DialogRule];

    /// Returns the rules of typing into the program.
    fn typing(&self) -> Typing;

    /// Makes a text safe to type as prose, or says why it must go another way.
    fn frame(&self, text: &str) -> Framed;

    /// Returns what is laid into the inbox for a text, so that it arrives as it is.
    fn laid(&self, text: String) -> String {
        text
    }

    /// Judges a version of the program.
    fn check_version(&self, version: &str) -> VersionVerdict {
        crate::version::check_version(self.name(), version, false)
    }
}

/// Which program is run for a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// A program found on the person's `PATH`.
    Named(&'static str),
    /// Our own binary, with this first argument.
    Own(&'static str),
}

impl Program {
    /// Returns the file name of the program.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Named(name) => name,
            Self::Own(_) => "team-agent",
        }
    }
}

/// How a program tells which models it knows: without asking anybody elsewhere, and without a log-in.
#[derive(Debug, Clone, Copy)]
pub struct ModelList {
    /// Its arguments for that.
    pub arguments: &'static [&'static str],
    /// Reads what it then prints.
    pub read: fn(&str) -> Option<Vec<ModelName>>,
}

/// A model's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelName {
    /// The one that the program takes.
    pub slug: String,
    /// The one that the program shows.
    pub display: String,
}

/// Authentication modes that a program offers.
pub type AuthModes = &'static [Auth];

/// What a program can do.
#[expect(clippy::struct_excessive_bools, reason = "each is one independent answer of a table")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether a faster mode of the same model can be asked for.
    pub fast: bool,
    /// Efforts that can be asked for; empty if none.
    pub effort: &'static [&'static str],
    /// Authentication modes.
    pub auth: AuthModes,
    /// Whether an earlier conversation can go on.
    pub resume: bool,
    /// Whether a conversation can begin with the history of another.
    pub fork: bool,
    /// Whether the id of a conversation is ours to choose.
    pub chooses_id: bool,
    /// Whether a message can reach a busy program without keys.
    pub reaches_busy: bool,
    /// Whether permission questions are announced, not only shown.
    pub announces_approvals: bool,
    /// Whether interrupts are told by a record.
    pub tells_interrupts: bool,
    /// Whether a dialog that stops a turn is told, and that a question was answered; if not, only the screen shows it.
    pub tells_dialogs: bool,
}

/// Our tools' names as the model sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolNames {
    /// Sends a message.
    pub send: &'static str,
    /// Reports a result.
    pub report: &'static str,
    /// Reads waiting messages.
    pub read: &'static str,
    /// Asks the person.
    pub human: &'static str,
    /// What stands before every tool's own name.
    pub prefix: &'static str,
}

impl ToolNames {
    /// Returns the name the model sees for any of our tools.
    pub fn full(&self, tool: &str) -> String {
        format!("{}{tool}", self.prefix)
    }
}
