//! What may happen: a state and a wish become events or a refusal. Pure.
//!
//! Nothing here reads a clock, a file or a process: what is needed comes in as an argument, so that every rule is one
//! call in a test.

mod message;
mod result;
mod team;

pub use message::{Address, PriorMessage, SendCommand, SendOutcome, SentMessage, accept_message, near_names, resolve};
pub use result::{ReportCommand, ReportOutcome, Reporter, ask_human, collect, report};
pub use team::{
    StartCommand, StartSeat, claim, delete_team, may_claim, plan_stop, restart_team, start_team,
};

/// A wish that was not carried out; nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// A word for programs.
    pub code: &'static str,
    /// A sentence for people and models.
    pub message: String,
    /// One thing to do now.
    pub hint: Option<String>,
}

impl Refusal {
    /// Makes a refusal without advice.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None }
    }

    /// Adds the next step.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
