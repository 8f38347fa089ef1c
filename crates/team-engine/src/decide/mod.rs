//! What may happen: a state and a wish become events or a refusal. Pure.
//!
//! Nothing here reads a clock, a file or a process: what is needed comes in as an argument, so that every rule is one
//! call in a test.

mod again;
mod approval;
mod message;
mod result;
mod team;

pub use again::{AgainCommand, send_again};
pub(crate) use approval::only_in_terminal;
pub use approval::{AnswerCommand, AnswerTo, answer_approval};
pub use message::{
    Address, PriorMessage, SendCommand, SendOutcome, Sender, SentMessage, accept_message, near_names,
    resolve, unknown_agent,
};
pub use result::{ReportCommand, ReportOutcome, Reporter, ask_human, collect, report};
pub use team::{
    StartCommand, StartSeat, claim, delete_team, may_claim, plan_stop, restart_agent, restart_team,
    start_team,
};

/// A command of ours as somebody can paste it: with `--team` where the team is not the default one.
pub fn command_for(words: &str, team: &team_model::TeamKey) -> String {
    if team.as_str() == team_spec::DEFAULT_KEY {
        format!("team-agent {words}")
    } else {
        format!("team-agent {words} --team {team}")
    }
}

/// Refuses a task that was never there.
pub fn no_such_task(team: &team_model::Team, task: team_model::TaskId) -> Refusal {
    let hint = match team.last_task {
        0 => "no task was given yet: `team-agent send --watch-result AGENT TEXT` gives one".to_owned(),
        1 => "the only task is 1".to_owned(),
        last => format!("the tasks are 1 to {last}"),
    };
    Refusal::new("task_not_found", format!("there is no task `{task}`")).with_hint(hint)
}

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
