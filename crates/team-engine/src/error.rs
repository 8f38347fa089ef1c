//! What can go wrong in an operation, with the kind that decides the exit code.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;

use crate::decide::Refusal;
use crate::seat_file::SeatFileError;
use crate::workspace::WorkspaceError;

/// Which exit code an error has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Refused or failed: 1.
    User,
    /// The words of the call are off: 2.
    Usage,
    /// Something this needs is missing on the machine: 3.
    Environment,
    /// Not yet; the wish stands: 4.
    NotYet,
    /// Ours: 70.
    Bug,
}

/// An operation that did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// A rule refused it; nothing has changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The workspace cannot be used.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The log cannot be used.
    #[error(transparent)]
    Log(#[from] team_journal::Error),
    /// The spec has errors.
    #[error(transparent)]
    Spec(#[from] team_spec::SpecErrors),
    /// A team directory cannot be used.
    #[error(transparent)]
    Locate(#[from] team_spec::LocateError),
    /// A team directory cannot be brought below `.team/`.
    #[error(transparent)]
    Copy(#[from] team_spec::CopyError),
    /// A profile cannot be used.
    #[error(transparent)]
    Profile(#[from] team_spec::ProfileError),
    /// tmux did not do it.
    #[error(transparent)]
    Tmux(#[from] team_tmux::TmuxError),
    /// A provider cannot start like this.
    #[error(transparent)]
    Unsupported(#[from] team_provider::Unsupported),
    /// A seat file cannot be used.
    #[error(transparent)]
    SeatFile(#[from] SeatFileError),
    /// A failpoint was reached.
    #[error(transparent)]
    Died(#[from] crate::failpoint::Died),
    /// A program is not installed.
    #[error("`{program}` is not on the PATH")]
    NoProgram {
        /// Its name.
        program: String,
    },
    /// An agent's program is not on the PATH.
    #[error("agent `{agent}` needs `{program}`, which is not on the PATH")]
    NoProgramFor {
        /// The program.
        program: String,
        /// The agent.
        agent: String,
        /// Its role file.
        file: String,
    },
    /// Something the log should hold is not there.
    #[error("{what} `{id}` is not in the log")]
    Gone {
        /// What kind of thing.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// The coordinator could not be started or did not answer.
    #[error("the coordinator {0}")]
    Coordinator(String),
    /// A disk is full.
    #[error("{message}")]
    NoRoom {
        /// What could not be done, and which disk it is.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// What was wanted has not happened yet.
    #[error("{message}")]
    NotYet {
        /// What has not happened.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// The words of the call are off.
    #[error("{message}")]
    Usage {
        /// What is off.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// A file operation failed.
    #[error("failed to {doing} `{path}`")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
}

impl EngineError {
    /// Says which exit code it has.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused(_)
            | Self::Spec(_)
            | Self::Locate(_)
            | Self::Copy(_)
            | Self::Profile(_)
            | Self::Unsupported(_)
            | Self::Workspace(WorkspaceError::NoTeam(_))
            | Self::Gone { .. } => ErrorKind::User,
            Self::Workspace(_)
            | Self::Log(_)
            | Self::Tmux(_)
            | Self::NoProgram { .. }
            | Self::NoProgramFor { .. }
            | Self::Coordinator(_)
            | Self::SeatFile(_)
            | Self::NoRoom { .. }
            | Self::Io { .. } => ErrorKind::Environment,
            Self::NotYet { .. } => ErrorKind::NotYet,
            Self::Died(_) => ErrorKind::Bug,
            Self::Usage { .. } => ErrorKind::Usage,
        }
    }

    /// Returns a word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.code,
            Self::Workspace(WorkspaceError::NoTeam(_)) => "no_team",
            Self::Workspace(_) => "workspace",
            Self::Log(error) => error.code(),
            Self::Spec(_) => "spec_errors",
            Self::Locate(_) | Self::Copy(_) => "team_directory",
            Self::Profile(_) => "profile",
            Self::Tmux(_) => "tmux",
            Self::Unsupported(_) => "unsupported",
            Self::SeatFile(_) => "seat_file",
            Self::NoProgram { .. } | Self::NoProgramFor { .. } => "no_program",
            Self::Gone { .. } => "not_found",
            Self::Coordinator(_) => "coordinator",
            Self::NotYet { .. } => "not_yet",
            Self::NoRoom { .. } => "no_space",
            Self::Died(_) => "failpoint",
            Self::Usage { .. } => "usage",
            Self::Io { .. } => "io",
        }
    }

    /// Lists what is wrong in files, each with its place.
    pub fn details(&self) -> Vec<ErrorDetail> {
        match self {
            Self::Spec(errors) => errors
                .0
                .iter()
                .map(|it| ErrorDetail {
                    file: it.file.clone(),
                    line: it.line,
                    column: it.column,
                    message: it.message.clone(),
                    hint: it.hint.clone(),
                })
                .collect(),
            Self::Profile(team_spec::ProfileError::Lines { path, lines, .. }) => lines
                .iter()
                .map(|it| ErrorDetail {
                    file: path.display().to_string(),
                    line: it.line,
                    column: 0,
                    message: it.message.clone(),
                    hint: it.hint.map(str::to_owned),
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Says what to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(refusal) => refusal.hint.clone(),
            Self::Workspace(error) => error.hint(),
            Self::Log(error) => error.hint(),
            Self::Locate(error) => error.hint(),
            Self::Copy(error) => error.hint(),
            Self::Profile(error) => error.hint(),
            Self::Tmux(error) => error.hint(),
            Self::Unsupported(error) => error.hint(),
            Self::NoProgram { program } => {
                Some(format!("install `{program}`, or put its directory on the PATH"))
            }
            Self::NoProgramFor { program, file, .. } => {
                Some(format!("install `{program}`, or write `provider: fake` in `{file}` to try without it"))
            }
            Self::Coordinator(_) => {
                Some("run `team-agent coordinator --foreground` to see what it says".to_owned())
            }
            Self::Usage { hint, .. } | Self::NotYet { hint, .. } | Self::NoRoom { hint, .. } => hint.clone(),
            Self::Gone { .. } => Some("run `team-agent doctor` to see whether the log is whole".to_owned()),
            Self::SeatFile(_) => Some("run `team-agent restart` to start its agent anew".to_owned()),
            Self::Io { path, source, .. } => io_hint(path, source),
            Self::Spec(_) | Self::Died(_) => None,
        }
    }
}

/// What can be done about a file that cannot be used.
fn io_hint(path: &std::path::Path, source: &std::io::Error) -> Option<String> {
    use std::io::ErrorKind as K;
    let path = path.display();
    match source.kind() {
        K::PermissionDenied => Some(format!("run `ls -ld '{path}'` to see who may use it")),
        K::StorageFull => Some(format!("make room on the disk that holds `{path}`")),
        K::ReadOnlyFilesystem => Some(format!("`{path}` is on a read-only file system: work elsewhere")),
        _ => None,
    }
}

/// One thing that is wrong at a place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ErrorDetail {
    /// The file, relative to the workspace where it lies inside.
    pub file: String,
    /// The line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// The column in characters, from 1; 0 when the whole line or file is meant.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// Renders an error with its causes in one line.
pub fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}
