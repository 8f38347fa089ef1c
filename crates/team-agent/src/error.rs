//! Errors as the program shows them, and the one table of exit codes.

use team_engine::{EngineError, ErrorKind};

/// An error with what the reader can do about it.
#[derive(Debug)]
pub(crate) struct CliError {
    /// Which exit code it has.
    pub(crate) kind: ErrorKind,
    /// A word for programs.
    pub(crate) code: String,
    /// What failed, with its causes.
    pub(crate) message: String,
    /// What to do now.
    pub(crate) hint: Option<String>,
    /// Whether the message is complete as it stands, with its own heads.
    pub(crate) verbatim: bool,
}

impl CliError {
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Usage,
            code: "usage".to_owned(),
            message: message.into(),
            hint: Some(hint.into()),
            verbatim: false,
        }
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        Self {
            kind: error.kind(),
            code: error.code().to_owned(),
            hint: error.hint(),
            verbatim: matches!(error, EngineError::Spec(_)),
            message: team_engine::whole(&error),
        }
    }
}

/// Exit codes: 0 ok, 1 refused or failed, 2 usage, 3 environment, 4 not yet (the wish stands), 70 bug.
pub(crate) fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::User => 1,
        ErrorKind::Usage => 2,
        ErrorKind::Environment => 3,
        ErrorKind::NotYet => 4,
        ErrorKind::Bug => 70,
    }
}
