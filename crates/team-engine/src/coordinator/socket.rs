//! The coordinator's socket: requests that only a person may make, and the line by which seats see that it lives.
//!
//! The caller is who the kernel says it is. A process with a seat among its ancestors is refused.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use team_model::{By, Decision, RequestId, State, TeamKey};
use tokio::net::{UnixListener, UnixStream};

use super::core::Core;
use crate::decide::{self, AnswerCommand, Refusal};
use crate::error::EngineError;
use crate::process;

/// What may be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Shut a team down.
    Shutdown {
        /// Which.
        team: String,
    },
    /// Forget a stopped team.
    Delete {
        /// Which.
        team: String,
    },
    /// Answer a permission question.
    Approve {
        /// The team.
        team: String,
        /// The agent that asks.
        agent: String,
        /// The question.
        request: RequestId,
        /// The answer.
        decision: Decision,
        /// What the model is told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it was done.
    pub ok: bool,
    /// Why not, as a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why not, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What a request comes to: a state, a team and whether it is to be at once become events.
type Plan = fn(&State, &TeamKey) -> Result<Vec<team_model::Event>, Refusal>;

/// Opens the socket, private to this user.
pub(super) fn listen(path: &Path) -> std::io::Result<UnixListener> {
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir)?;
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700))?;
    }
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Who is at the other end.
pub(super) fn peer(stream: &UnixStream) -> Option<u32> {
    stream.peer_cred().ok()?.pid().and_then(|it| u32::try_from(it).ok())
}

impl Core {
    /// Answers one request.
    pub fn answer(&mut self, line: &str, peer: Option<u32>) -> Answer {
        let done = serde_json::from_str::<Request>(line)
            .map_err(|error| EngineError::Refused(Refusal::new("bad_request", error.to_string())))
            .and_then(|request| self.carry_out(&request, peer));
        match done {
            Ok(()) => Answer { ok: true, code: None, message: None, hint: None },
            Err(error) => Answer {
                ok: false,
                code: Some(error.code().to_owned()),
                message: Some(error.to_string()),
                hint: error.hint(),
            },
        }
    }

    fn carry_out(&mut self, request: &Request, peer: Option<u32>) -> Result<(), EngineError> {
        self.store.refresh()?;
        if let Some(agent) = seat_above(&self.store.state, peer) {
            let what = match request {
                Request::Shutdown { team, .. } => format!("shut team `{team}` down"),
                Request::Delete { team } => format!("delete team `{team}`"),
                Request::Approve { agent: asks, .. } => format!("answer for `{asks}`"),
            };
            let refusal = Refusal::new("not_allowed", format!("agent `{agent}` may not {what}"));
            let hint = "ask the person who leads the team to run it in a shell of their own";
            return Err(refusal.with_hint(hint).into());
        }
        if crate::seat::is_marked(peer) {
            return Err(Refusal::new(
                "not_allowed",
                "an agent may not do this: it is for a person or the leader",
            )
            .into());
        }
        let key = |team: &String| TeamKey::new(team).map_err(|it| Refusal::new("bad_name", it.to_string()));
        let (team, events): (&String, Plan) = match request {
            Request::Shutdown { team } => (team, decide::plan_stop),
            Request::Delete { team } => (team, decide::delete_team),
            Request::Approve { team, agent, request, decision, message } => {
                let command = AnswerCommand {
                    team: key(team)?,
                    agent: agent.clone(),
                    request: *request,
                    decision: *decision,
                    by: "person",
                    pattern: None,
                    message: message.clone(),
                };
                return self.answer_question(&command, &By::Person);
            }
        };
        let key = key(team)?;
        let at = self.clock.now();
        self.store.conclude(at, &By::Person, Some(&key), |state| Ok((events(state, &key)?, ())))
    }
}

/// The agent whose seat is above a process.
fn seat_above(state: &State, peer: Option<u32>) -> Option<String> {
    let above = process::ancestors(peer?);
    state.teams.values().flat_map(|it| &it.seats).find_map(|(name, seat)| {
        let claimed = seat.spawn.as_ref()?.claimed.as_ref()?;
        above
            .iter()
            .any(|(pid, stat)| *pid == claimed.pid && stat.start == claimed.start)
            .then(|| name.to_string())
    })
}
