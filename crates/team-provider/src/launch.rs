//! The start of a seat's program, described but not done.
//!
//! Knows argument lists, environments and files to write. Must not write them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use crate::bridge::Link;

/// One start of a program, ready to be carried out.
///
/// The environment of the program is the person's cleaned one, less
/// `env_remove`, then `env_set`, then `secret_env`; the later one wins.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Launch {
    /// Program and arguments, to be executed without a shell.
    pub argv: Vec<OsString>,
    /// A server of the program's own that runs behind `argv`, the screen, if it needs one.
    pub server: Option<Vec<OsString>>,
    /// How the program is reached by a live connection, if it is. The screen is started when the bridge says so.
    pub link: Option<Link>,
    /// Variables to set; safe to show.
    pub env_set: BTreeMap<String, String>,
    /// Variables to set whose values must appear nowhere else.
    pub secret_env: BTreeMap<String, String>,
    /// Variables of the person's environment that the program must not get.
    pub env_remove: Vec<String>,
    /// Files to write before the start, in this order; folders are made as needed.
    pub files: Vec<GeneratedFile>,
    /// Links to make before the start, to what is there.
    pub links: Vec<FileLink>,
    /// Id of the conversation, where we choose it.
    pub native_id: Option<String>,
    /// Ids that a session-start hook of this program may carry; a fork first tells its parent's.
    pub start_ids: Vec<String>,
    /// What must have been seen before the seat counts as ready.
    pub ready: Vec<ReadyFact>,
    /// How messages reach the program.
    pub channel: Channel,
    /// What to use where the first way is not proved to work.
    pub fallback: Option<Channel>,
    /// Folder the program keeps its settings and transcripts in.
    pub config_home: PathBuf,
    /// The same folder, if it belongs to the seat and not to the person.
    pub managed_home: Option<PathBuf>,
    /// Sentences the person should read.
    pub notes: Vec<String>,
}

impl fmt::Debug for Launch {
    /// Shows everything but the values of `secret_env`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden: BTreeMap<&str, &str> =
            self.secret_env.keys().map(|name| (name.as_str(), "<hidden>")).collect();
        out.debug_struct("Launch")
            .field("argv", &self.argv)
            .field("server", &self.server)
            .field("link", &self.link)
            .field("env_set", &self.env_set)
            .field("secret_env", &hidden)
            .field("env_remove", &self.env_remove)
            .field("files", &self.files)
            .field("links", &self.links)
            .field("native_id", &self.native_id)
            .field("start_ids", &self.start_ids)
            .field("ready", &self.ready)
            .field("channel", &self.channel)
            .field("fallback", &self.fallback)
            .field("config_home", &self.config_home)
            .field("managed_home", &self.managed_home)
            .field("notes", &self.notes)
            .finish()
    }
}

/// A file that the start needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedFile {
    /// Where it belongs, absolute.
    pub path: PathBuf,
    /// Its whole contents.
    pub contents: String,
    /// Its permission bits.
    pub mode: u32,
    /// Leaves a file that is already there alone.
    pub keep_existing: bool,
}

/// A link that the start needs; where its target is missing there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileLink {
    /// Where it belongs, absolute.
    pub path: PathBuf,
    /// What it leads to, absolute.
    pub target: PathBuf,
}

/// Something that must be seen before a seat counts as ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReadyFact {
    /// Our server was asked for its list of tools.
    ToolsListed,
    /// The program said that its conversation has begun.
    SessionStarted,
    /// The program's own status says idle.
    StatusIdle,
}

/// A way for a message to reach the program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Channel {
    /// A file per message in `inbox`, then one byte appended to `bell`.
    Bell {
        /// The watched file.
        bell: PathBuf,
        /// The folder of waiting messages.
        inbox: PathBuf,
    },
    /// The guarded paste into the pane.
    #[default]
    Keys,
}

/// Why a program cannot be started as asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// The authentication mode is not offered.
    #[error("provider `{provider}` cannot use auth mode `{auth}`")]
    Auth {
        /// Name of the provider.
        provider: &'static str,
        /// Word of the mode.
        auth: &'static str,
    },
    /// The profile lacks what the mode needs.
    #[error("auth mode `{auth}` of provider `{provider}` needs {needs} in the profile")]
    Profile {
        /// Name of the provider.
        provider: &'static str,
        /// Word of the mode.
        auth: &'static str,
        /// What is missing.
        needs: &'static str,
    },
    /// The effort is not one the program knows.
    #[error("provider `{provider}` has no effort `{effort}`")]
    Effort {
        /// Name of the provider.
        provider: &'static str,
        /// Effort asked for.
        effort: String,
        /// Efforts there are.
        known: &'static [&'static str],
    },
    /// An id is not of the form that the program takes.
    #[error("`{id}` is not a session id that provider `{provider}` takes")]
    SessionId {
        /// Name of the provider.
        provider: &'static str,
        /// The id.
        id: String,
    },
    /// A path cannot be written into the program's configuration.
    #[error("provider `{provider}` cannot be given the path `{path}`: it is not UTF-8")]
    Path {
        /// Name of the provider.
        provider: &'static str,
        /// The path, as far as it can be shown.
        path: String,
    },
    /// A conversation goes on only in the folder it was begun in.
    #[error(
        "provider `{provider}` cannot continue in `{folder}` a conversation that was begun in another folder"
    )]
    Elsewhere {
        /// Name of the provider.
        provider: &'static str,
        /// The folder asked for.
        folder: String,
    },
    /// A conversation cannot begin with the history of another.
    #[error("provider `{provider}` cannot begin with the history of another conversation")]
    Fork {
        /// Name of the provider.
        provider: &'static str,
    },
    /// A value would be read as something else on the command line.
    #[error("provider `{provider}` cannot take `{value}` as its {what}")]
    Value {
        /// Name of the provider.
        provider: &'static str,
        /// What the value is for.
        what: &'static str,
        /// The value.
        value: String,
    },
}

impl Unsupported {
    /// Returns one thing the reader can do now, where there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Effort { known: [], .. } => Some("leave `effort` out".to_owned()),
            Self::Effort { known, .. } => Some(format!("use one of: {}", known.join(", "))),
            Self::Profile { needs, .. } => Some(format!("add {needs} to the profile's env file")),
            Self::Auth { .. } => Some("choose another `auth_mode`".to_owned()),
            Self::SessionId { .. } | Self::Elsewhere { .. } => {
                Some("start the agent with a fresh session".to_owned())
            }
            Self::Path { .. } => Some("use a path of plain UTF-8 characters".to_owned()),
            Self::Fork { .. } | Self::Value { .. } => None,
        }
    }
}
