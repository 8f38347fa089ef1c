//! Permission questions: which are open, and answering one.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use team_model::{Decision, Event, RequestId, Seat, TeamKey};

use super::Engine;
use super::message::Text;
use crate::coordinator::Request;
use crate::decide::{self, Refusal};
use crate::error::EngineError;

/// How long an answer may take to show its effect.
const EFFECT: Duration = Duration::from_secs(5);
/// The same, where a key is pressed once its dialog shows, and looked after.
const PRESSED: Duration = Duration::from_secs(20);
/// The most characters of what a model is told with an answer.
const LONGEST: usize = 2000;

/// The open permission questions.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Approvals {
    /// Each, oldest first.
    pub approvals: Vec<ApprovalShown>,
}

/// An open permission question.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ApprovalShown {
    /// Its id.
    pub request_id: String,
    /// Who asks.
    pub agent: String,
    /// The tool that wants to run.
    pub tool: String,
    /// What it would do, at most 4 KiB, without secrets.
    pub input: Option<String>,
    /// The answers that the agent's program offers.
    pub choices: Vec<String>,
    /// Since when.
    pub since: Option<String>,
    /// The answer that is on its way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answering: Option<String>,
    /// What to run to allow it, or to answer it in the agent's terminal where nothing else can.
    pub command: String,
}

/// A question that was answered.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Approved {
    /// The question.
    pub request_id: String,
    /// Who asked.
    pub agent: String,
    /// `allow` or `deny`.
    pub decision: String,
    /// How it ended.
    pub how: String,
}

impl Engine {
    /// Lists the open permission questions of a team, or of one agent.
    pub fn approvals(&self, only: Option<&str>) -> Result<Approvals, EngineError> {
        let key = self.team()?;
        let store = self.store()?;
        let team = self.team_state(&key)?;
        let only = match only {
            None => None,
            Some(name) => Some(team.find_seat(name).ok_or_else(|| decide::unknown_agent(team, name))?.0),
        };
        let mut approvals = Vec::new();
        for (name, seat) in team.seats.iter().filter(|(name, _)| only.is_none_or(|it| it == *name)) {
            for (id, open) in &seat.approvals {
                let (input, choices) = match store.line(id.0)?.map(|it| it.event.0) {
                    Some(Event::ApprovalRequested { input, choices, .. }) => (input, choices),
                    _ => (None, Vec::new()),
                };
                approvals.push(ApprovalShown {
                    request_id: id.to_string(),
                    agent: name.to_string(),
                    tool: open.tool.clone(),
                    input,
                    choices,
                    since: open.since.map(|it| it.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)),
                    answering: open.answering.as_ref().map(|it| it.decision.to_string()),
                    command: answer_command(&key, name.as_str(), seat, *id),
                });
            }
        }
        approvals.sort_by_key(|it| it.request_id.parse::<RequestId>().map(|it| it.0).unwrap_or_default());
        Ok(Approvals { approvals })
    }

    /// Answers a permission question, and waits for what the agent's program makes of it.
    pub fn approve(
        &mut self,
        agent: &str,
        request: &str,
        decision: Decision,
        message: Option<&str>,
    ) -> Result<Approved, EngineError> {
        let key = self.team()?;
        let see = || format!("run `{}` to see what is open", decide::command_for("approvals", &key));
        let id: RequestId = request.parse().map_err(|it: team_model::BadId| {
            Refusal::new("bad_request_id", it.to_string()).with_hint(see())
        })?;
        let message: Option<String> = message
            .map(|it| Text::clean(it).text.chars().take(LONGEST).collect())
            .filter(|it: &String| !it.trim().is_empty());
        let agent = {
            let team = self.team_state(&key)?;
            team.find_seat(agent).ok_or_else(|| decide::unknown_agent(team, agent))?.0.clone()
        };
        let asked = Request::Approve {
            team: key.to_string(),
            agent: agent.to_string(),
            request: id,
            decision,
            message,
        };
        self.ask(&asked)?;
        let by_keys = {
            let seat = self.team_state(&key)?.seats.get(&agent);
            seat.and_then(|it| it.approvals.get(&id)).is_some_and(|it| it.by_keys)
        };
        let limit = self.clock.elapsed() + if by_keys { PRESSED } else { EFFECT };
        let mut not_given = None;
        let how = self.follow_until(limit, |state| {
            let seat = state.teams.get(&key).and_then(|it| it.seats.get(&agent));
            let open = seat.and_then(|it| it.approvals.get(&id)).filter(|it| it.answering.is_none());
            not_given = open.and_then(|it| it.not_given.clone());
            if not_given.is_some() {
                return Some(String::new());
            }
            let closed = seat.map(|it| it.closed_questions.iter().find(|(closed, _)| *closed == id));
            match closed {
                Some(Some((_, how))) => Some(how.clone()),
                Some(None) => None,
                None => Some("the agent is gone".to_owned()),
            }
        })?;
        if let Some(it) = not_given {
            let code = if it.pressed { "not_taken" } else { "not_on_screen" };
            let message = format!("question {id} of `{agent}` is not answered: {}", it.why);
            let attach = decide::command_for(&format!("attach {agent} --type"), &key);
            return Err(Refusal::new(code, message)
                .with_hint(format!("run `{attach}` to answer it there"))
                .into());
        }
        let Some(how) = how else {
            return Err(EngineError::NotYet {
                message: format!("the answer to {id} is given, and `{agent}` does not go on yet"),
                hint: Some(see()),
            });
        };
        let done = if decision == Decision::Allow { "allowed" } else { "denied" };
        if !how.contains(done) {
            return Err(Refusal::new("closed", format!("question {id} of `{agent}` is closed: {how}")).into());
        }
        Ok(Approved {
            request_id: id.to_string(),
            agent: agent.to_string(),
            decision: decision.to_string(),
            how,
        })
    }
}

/// What to run to allow what a seat asks, or to answer it in its terminal where nothing else can.
pub(super) fn answer_command(key: &TeamKey, agent: &str, seat: &Seat, id: RequestId) -> String {
    let by_command = seat.approvals.get(&id).is_some_and(|it| it.key.is_some());
    let words =
        if by_command { format!("approve {agent} {id} --allow") } else { format!("attach {agent} --type") };
    decide::command_for(&words, key)
}
