//! What an agent may see of its team: the tree and its part of the room. Marks nothing as read.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use team_model::{Event, SeatState};

use super::message::Text;
use super::{Caller, Engine};
use crate::decide;
use crate::error::EngineError;
use crate::process;
use crate::store::Store;
use crate::workspace::Workspace;

/// The answer of `team_read`.
#[derive(Debug, Clone, Serialize)]
pub struct TeamRead {
    /// What the team is for.
    pub goal: Option<String>,
    /// The caller.
    pub you: BTreeMap<String, Value>,
    /// How many seats are used; only for managers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<BTreeMap<String, u64>>,
    /// The seats.
    pub tree: Vec<ReadAgent>,
    /// The part of the room that the caller may read.
    pub messages: Vec<Value>,
    /// Give this as `since` to see only what is newer.
    pub next: u64,
}

/// A seat in the tree.
#[derive(Debug, Clone, Serialize)]
pub struct ReadAgent {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub role: String,
    /// Who added it.
    pub manager: String,
    /// Its state.
    pub state: String,
    /// What it does.
    pub activity: String,
    /// The task it works on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
}

impl Engine {
    /// Shows the caller its team: `what` is `tree`, `room` or `all`.
    pub fn team_read(&self, since: Option<u64>, what: &str, limit: usize) -> Result<TeamRead, EngineError> {
        let key = self.team()?;
        let store = self.store()?;
        let team = store
            .state
            .teams
            .get(&key)
            .ok_or_else(|| EngineError::Gone { what: "team", id: key.to_string() })?;
        let me = match &self.caller {
            Caller::Seat { agent, .. } => Some(agent.clone()),
            _ => None,
        };
        let all_of_it = self.caller == Caller::Person;
        let mut you = BTreeMap::new();
        let seat = me.as_ref().and_then(|it| team.seats.get(it));
        let nobody = if all_of_it { "leader" } else { "unknown" };
        you.insert("name".to_owned(), Value::from(me.as_ref().map_or(nobody, |it| it.as_str())));
        you.insert("role".to_owned(), Value::from(seat.map(|it| it.spec.role.clone())));
        you.insert("lead".to_owned(), Value::from(seat.map_or(all_of_it, |it| it.lead)));
        you.insert(
            "manager".to_owned(),
            Value::from(seat.map(|it| it.manager.as_ref().map_or("leader".to_owned(), ToString::to_string))),
        );
        let tree = if what == "room" {
            Vec::new()
        } else {
            team.seats
                .iter()
                .map(|(name, seat)| ReadAgent {
                    name: name.to_string(),
                    role: seat.spec.role.clone(),
                    manager: seat.manager.as_ref().map_or("leader".to_owned(), ToString::to_string),
                    state: seat.state.as_str().to_owned(),
                    activity: seat.activity.kind.to_string(),
                    task: team.owed_by(name).next().map(|(id, _)| id.to_string()),
                })
                .collect()
        };
        let mut messages = Vec::new();
        if what != "tree" {
            let from = since.unwrap_or(0).max(team.since);
            for line in store.find("messages")?.into_iter().filter(|it| it.seq > from).rev() {
                if messages.len() >= limit || line.team.as_deref() != Some(key.as_str()) {
                    continue;
                }
                let Event::MessageAccepted { id, kind, from, to, to_leader, addressed, task, body, .. } =
                    line.event.0
                else {
                    continue;
                };
                let mine = me.as_ref().is_some_and(|me| to.contains(me) || from == me.as_str());
                let for_all = addressed == "all";
                if !(all_of_it || mine || for_all) {
                    continue;
                }
                let to: Vec<String> = to
                    .iter()
                    .map(ToString::to_string)
                    .chain(to_leader.then(|| "leader".to_owned()))
                    .collect();
                messages.push(serde_json::json!({
                    "id": id, "kind": kind, "from": from, "to": to, "addressed": addressed,
                    "task": task, "text": store.text_of(&body)?, "seq": line.seq,
                }));
            }
            messages.reverse();
        }
        let manages = all_of_it || seat.is_some_and(|it| it.lead);
        let size = manages.then(|| {
            let used = team
                .seats
                .values()
                .filter(|it| it.state.is_live() || matches!(it.state, SeatState::Waiting { .. }))
                .count();
            BTreeMap::from([("used".to_owned(), used as u64 + 1)])
        });
        Ok(TeamRead { goal: team.goal.clone(), you, size, tree, messages, next: store.state.seq })
    }

    /// Asks a human; the question waits until somebody answers.
    pub fn request_human(&mut self, question: &str, choices: &[String]) -> Result<String, EngineError> {
        let key = self.team()?;
        let (now, by, reporter) = (self.clock.now(), self.by(), self.reporter());
        let question = Text::clean(question).text;
        let id = self.store_mut()?.decide(now, &by, Some(&key), |state| {
            decide::ask_human(state, &key, &reporter, &question, choices)
        })?;
        Ok(id.to_string())
    }

    /// Notes that the tool server has answered `tools/list` for a seat.
    pub fn tools_listed(&self) -> Result<(), EngineError> {
        let Caller::Seat { team, spawn, .. } = &self.caller else { return Ok(()) };
        let by = team_model::By::Seat { spawn: *spawn };
        let listed = Event::ToolsListed { spawn: *spawn, process: Some(process::this_process()) };
        self.store()?.observe(self.clock.now(), &by, Some(team), vec![listed])
    }

    /// Folds what was written since.
    pub fn refresh(&mut self) -> Result<(), EngineError> {
        let root = Workspace::present_root(&self.workspace.state_dir, &self.workspace.root);
        if root != self.workspace.root {
            self.workspace.root = root;
            self.store = Store::look(&self.workspace)?;
        }
        if let Some(store) = &mut self.store {
            store.refresh()?;
        }
        Ok(())
    }

    /// Makes sure that a coordinator runs.
    pub fn ensure_coordinator(&self) -> Result<(), EngineError> {
        crate::guardian::ensure(&self.workspace).map(drop)
    }
}
