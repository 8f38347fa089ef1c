//! What can go wrong with a log. Knows places and holders; knows no event.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The result of everything that touches the log.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Who holds the lock, as far as it can be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The holder's process, if it is in sight.
    pub pid: Option<u32>,
    /// What it said that it was doing, or its command name.
    pub what: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "`{}` (pid {pid})", self.what),
            None => write!(f, "`{}`", self.what),
        }
    }
}

/// Why the log could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The lock was not free in time.
    #[error("the log was busy for {} ms, held by {holder}", .waited.as_millis())]
    Busy {
        /// Who holds it.
        holder: Holder,
        /// How long this caller waited.
        waited: Duration,
    },
    /// There is no log here, and none is known.
    #[error("no log at `{}`", .path.display())]
    NoLog {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// A log is known, but its file is gone or empty.
    #[error("the log `{}` is gone (its id is `{log_id}`)", .path.display())]
    LogMissing {
        /// Where it should be.
        path: PathBuf,
        /// The id that the state directory remembers.
        log_id: String,
    },
    /// The log is not the one that the state directory belongs to.
    #[error("`{}` is the log `{found}`, but this state directory belongs to the log `{known}`", .path.display())]
    Foreign {
        /// The log file.
        path: PathBuf,
        /// The id it carries.
        found: String,
        /// The id that the state directory remembers.
        known: String,
    },
    /// A log exists where a new one was to be made.
    #[error("a log exists already at `{}`", .path.display())]
    Exists {
        /// The log or the record of its id.
        path: PathBuf,
    },
    /// A newer program wrote this log.
    #[error("the log has format {found}, this program knows up to {known}")]
    Newer {
        /// The format in the log.
        found: u32,
        /// The newest format this program knows.
        known: u32,
    },
    /// The place can be read but not written.
    #[error("`{}` cannot be written: the place is read-only", .path.display())]
    ReadOnly {
        /// What was to be written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The disk is full, or too full for anything new.
    #[error("too little space for `{}`: {free} bytes are free, {needed} are needed", .path.display())]
    NoSpace {
        /// What was to be written.
        path: PathBuf,
        /// What is left.
        free: u64,
        /// What has to be free, at least.
        needed: u64,
    },
    /// An event could not be turned into JSON.
    #[error("an event could not be written as JSON")]
    Serialize(#[source] serde_json::Error),
    /// A caller tried to write a fact that only the journal states.
    #[error("only the journal itself writes this kind of event")]
    Reserved,
    /// A body's text does not fit its name.
    #[error("the text `{}` is not the one that was stored", .path.display())]
    BodyChanged {
        /// The body's file.
        path: PathBuf,
    },
    /// The system refused something.
    #[error("failed to {doing} `{}`", .path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A failpoint fired.
    #[error("failpoint `{0}`")]
    Failpoint(&'static str),
}

impl Error {
    /// Returns a stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "log_busy",
            Self::NoLog { .. } => "no_log",
            Self::LogMissing { .. } => "log_missing",
            Self::Foreign { .. } => "log_foreign",
            Self::Exists { .. } => "log_exists",
            Self::Newer { .. } => "log_newer",
            Self::ReadOnly { .. } => "log_read_only",
            Self::NoSpace { .. } => "no_space",
            Self::Serialize(_) => "log_serialize",
            Self::Reserved => "log_reserved",
            Self::BodyChanged { .. } => "body_changed",
            Self::Io { .. } => "log_io",
            Self::Failpoint(_) => "failpoint",
        }
    }

    /// Returns one thing that the reader can do now.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Busy { holder: Holder { pid: Some(pid), .. }, .. } => {
                Some(format!("try again; if it stays busy, look at process {pid}"))
            }
            Self::Busy { .. } => Some("try again in a moment".into()),
            Self::LogMissing { path, .. } => Some(format!(
                "put `{}` back from a backup; a coordinator that still runs does so by itself",
                path.display()
            )),
            Self::Newer { .. } => Some("use the newer program that wrote this log".into()),
            Self::ReadOnly { path, .. } => Some(format!("make `{}` writable", path.display())),
            Self::NoSpace { path, .. } => {
                Some(format!("free some space on the disk that holds `{}`", path.display()))
            }
            _ => None,
        }
    }

    /// Makes the error for a refused call on `path`, telling read-only and full places apart.
    pub(crate) fn io(doing: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path, source },
            io::ErrorKind::PermissionDenied if doing != "read" => Self::ReadOnly { path, source },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { path, free: 0, needed: 1 }
            }
            _ => Self::Io { doing, path, source },
        }
    }
}

/// Adds what was tried, and on what, to an error of the system.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::io(doing, path, source))
    }
}
