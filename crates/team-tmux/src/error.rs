//! What can go wrong between us and tmux. Knows no caller and no exit code.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::pane::OpenedPane;

/// Why a call to tmux did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TmuxError {
    /// There is no tmux program where one was expected.
    #[error("no tmux program at `{path}`")]
    NoTmux {
        /// Where it was looked for: a path, or the list of directories searched.
        path: String,
    },
    /// The tmux program is older than what is needed here.
    #[error("`{program}` is tmux {version}; {}.{} or newer is needed", needed.0, needed.1)]
    TooOld {
        /// The program.
        program: PathBuf,
        /// Its version.
        version: String,
        /// The oldest version that will do.
        needed: (u32, u32),
    },
    /// The tmux program could not be run at all.
    #[error("failed to run `{program}`")]
    Spawn {
        /// The program.
        program: PathBuf,
        /// The reason the system gave.
        source: io::Error,
    },
    /// tmux answered with an error; the text is its own.
    #[error("tmux {doing} failed: {text}")]
    Failed {
        /// What was being done, such as `list-panes`.
        doing: &'static str,
        /// What tmux wrote, or its exit status when it wrote nothing.
        text: String,
    },
    /// No server answers on the socket, or it went away during the call.
    #[error("no tmux server answers on `{socket}`")]
    NoServer {
        /// The socket.
        socket: PathBuf,
    },
    /// tmux did not answer in time; whether the call took effect is not known.
    #[error("tmux {doing} did not answer within {} ms", after.as_millis())]
    TimedOut {
        /// What was being done.
        doing: &'static str,
        /// How long it was given.
        after: Duration,
    },
    /// Another holder of a newer (or another) epoch owns this server; nothing was done.
    #[error("the tmux server belongs to epoch {held} of workspace `{workspace}`, not to epoch {ours}")]
    Fenced {
        /// The epoch set on the server; 0 when none is.
        held: u64,
        /// The workspace set on the server.
        workspace: String,
        /// The epoch of the refused caller.
        ours: u64,
    },
    /// An acting call was made before the epoch was claimed.
    #[error("no epoch was claimed on the tmux server")]
    Unclaimed,
    /// The server on the socket is another process than the one that was meant.
    #[error("the tmux server on `{socket}` is process {found}, not {expected}")]
    OtherServer {
        /// The socket.
        socket: PathBuf,
        /// The process that was meant.
        expected: u32,
        /// The process that answers.
        found: u32,
    },
    /// A name or tag has characters that tmux would change or misread.
    #[error("`{name}` cannot be used as a tmux {what}")]
    BadName {
        /// What the name is for.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A pane's program was given as a single word, which tmux would hand to a shell.
    #[error("the program of window `{window}` has fewer than two words")]
    BadArgv {
        /// The window it was meant for.
        window: String,
    },
    /// A pane's working directory does not exist.
    #[error("no directory `{path}`")]
    NoDirectory {
        /// The path.
        path: PathBuf,
    },
    /// A pane's program does not exist.
    #[error("no program `{path}`")]
    NoProgram {
        /// The path.
        path: PathBuf,
    },
    /// Some panes of one request opened and others did not.
    #[error("{} of {asked} panes opened: {text}", opened.len())]
    OpenedSome {
        /// Those that did.
        opened: Vec<OpenedPane>,
        /// How many were asked for.
        asked: usize,
        /// What tmux wrote about the others.
        text: String,
    },
    /// There was no text to paste once control characters were removed.
    #[error("there is no text to paste")]
    EmptyText,
    /// A key that is not one of those this crate may press.
    #[error("`{0}` is not a key that can be pressed")]
    BadKey(String),
    /// The path of the socket would be longer than the system allows.
    #[error("the socket path `{path}` is longer than {limit} bytes")]
    SocketPathTooLong {
        /// The path.
        path: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// A directory that must be private is not.
    #[error("`{path}` cannot hold the tmux socket: {why}")]
    UnsafeDirectory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file operation failed.
    #[error("failed to {doing} `{path}`")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The path.
        path: PathBuf,
        /// The reason the system gave.
        source: io::Error,
    },
    /// tmux printed something this crate does not understand.
    #[error("tmux {doing} printed `{text}`, which is not what was asked for")]
    Unexpected {
        /// What was being done.
        doing: &'static str,
        /// What was printed.
        text: String,
    },
}

impl TmuxError {
    /// Returns one thing a reader can do about it, when there is one.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoTmux { .. } | Self::TooOld { .. } => {
                "install tmux 3.2 or newer and make sure that it is on PATH".to_owned()
            }
            Self::UnsafeDirectory { path, .. } => {
                format!("remove `{}` if it is not yours, then try again", path.display())
            }
            Self::SocketPathTooLong { .. } => "use a workspace with a shorter path".to_owned(),
            Self::NoDirectory { path } => format!("create `{}` or choose another directory", path.display()),
            Self::NoProgram { path } => format!("check that `{}` is installed", path.display()),
            Self::TimedOut { .. } => {
                "check whether the tmux server is stopped or the machine overloaded".to_owned()
            }
            _ => return None,
        };
        Some(hint)
    }

    /// Tells whether no server answered, as opposed to a server that refused or stumbled.
    ///
    /// It says nothing about whether the server is dead; [`Terminal::probe`](crate::Terminal::probe) does.
    pub fn is_no_server(&self) -> bool {
        matches!(self, Self::NoServer { .. })
    }

    /// Tells whether it is certain that the call had no effect.
    pub fn had_no_effect(&self) -> bool {
        match self {
            Self::Failed { .. }
            | Self::NoServer { .. }
            | Self::TimedOut { .. }
            | Self::Unexpected { .. }
            | Self::OpenedSome { .. } => false,
            Self::NoTmux { .. }
            | Self::TooOld { .. }
            | Self::Spawn { .. }
            | Self::Fenced { .. }
            | Self::Unclaimed
            | Self::OtherServer { .. }
            | Self::BadName { .. }
            | Self::BadArgv { .. }
            | Self::NoDirectory { .. }
            | Self::NoProgram { .. }
            | Self::EmptyText
            | Self::BadKey(_)
            | Self::SocketPathTooLong { .. }
            | Self::UnsafeDirectory { .. }
            | Self::Io { .. } => true,
        }
    }
}
