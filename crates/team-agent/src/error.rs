//! Errors as the program shows them, and the one table of exit codes.

use schemars::JsonSchema;
use serde::Serialize;
use team_engine::{EngineError, ErrorDetail, ErrorKind};

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
    /// What is wrong in files, each with its place.
    pub(crate) details: Vec<ErrorDetail>,
    /// What people get to read instead of the message, with its own heads.
    pub(crate) verbatim: Option<Box<str>>,
}

impl CliError {
    pub(crate) fn new(kind: ErrorKind, code: &str, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: code.to_owned(),
            message: message.into(),
            hint: None,
            details: Vec::new(),
            verbatim: None,
        }
    }

    /// Adds the next step.
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, "usage", message).with_hint(hint)
    }
}

/// What every answer in JSON has that says `"ok": false`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Failure {
    /// What went wrong.
    error: ErrorShown,
}

/// An error for programs.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Error")]
struct ErrorShown {
    /// A word for programs.
    code: String,
    /// A sentence for people.
    message: String,
    /// One thing to do now.
    hint: Option<String>,
    /// What is wrong in files, each with its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    details: Vec<ErrorDetail>,
}

impl From<&CliError> for Failure {
    fn from(error: &CliError) -> Self {
        Self {
            error: ErrorShown {
                code: error.code.clone(),
                message: error.message.clone(),
                hint: error.hint.clone(),
                details: error.details.clone(),
            },
        }
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        let whole = team_engine::whole(&error);
        let details = error.details();
        // With carets and lines of its own it is for people; programs find each place in the details.
        let (message, verbatim) = match &error {
            EngineError::Spec(errors) => {
                let count = counted(details.len(), errors.files());
                (count.clone(), Some(format!("{}\n\n{count}", whole.trim_end()).into_boxed_str()))
            }
            _ => (whole, None),
        };
        Self {
            kind: error.kind(),
            code: error.code().to_owned(),
            message,
            hint: error.hint(),
            details,
            verbatim,
        }
    }
}

fn counted(errors: usize, files: usize) -> String {
    let of =
        |count: usize, word: &str| if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") };
    format!("{} in {}", of(errors, "error"), of(files, "file"))
}

/// Exit codes: 0 ok, 1 refused or failed, 2 usage, 3 environment, 4 not yet (the wish stands), 70 bug.
pub(crate) fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::User => 1,
        ErrorKind::Usage => 2,
        ErrorKind::Environment => 3,
        ErrorKind::NotYet => 4,
        ErrorKind::Bug => BUG,
    }
}

/// The exit code for a fault of the program itself.
pub(crate) const BUG: u8 = 70;
