//! Looking at what was sent to somebody; marks nothing.

use schemars::JsonSchema;
use serde::Serialize;
use team_model::{AgentName, Event, TeamKey};

use super::Engine;
use super::message::ReceiptShown;
use crate::decide;
use crate::error::EngineError;

/// What was sent to an agent or to the leader.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Inbox {
    /// The receiver.
    pub agent: String,
    /// Whether it was removed from the team since.
    pub removed: bool,
    /// Its messages, newest last.
    pub messages: Vec<InboxEntry>,
}

/// A message in an inbox.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct InboxEntry {
    /// Its id.
    pub message_id: String,
    /// When it was accepted.
    pub ts: String,
    /// Its kind.
    pub kind: String,
    /// The sender.
    pub from: String,
    /// The task it belongs to.
    pub task: Option<String>,
    /// The text.
    pub text: String,
    /// Where it stands with this receiver.
    pub receipt: Option<ReceiptShown>,
}

impl Engine {
    /// Lists what was sent to an agent or to the leader, newest last; marks nothing.
    pub fn inbox(&self, name: &str, limit: usize) -> Result<Inbox, EngineError> {
        let key = self.team()?;
        let store = self.store()?;
        let team = self.team_state(&key)?;
        let agent = if name == "leader" {
            None
        } else {
            match team.find_seat(name) {
                Some((known, _)) => Some(known.clone()),
                None => Some(self.former(&key, name)?.ok_or_else(|| decide::unknown_agent(team, name))?),
            }
        };
        let removed = agent.as_ref().is_some_and(|it| !team.seats.contains_key(it));
        let since = team.since;
        let mut entries = Vec::new();
        for line in store.find("messages")?.into_iter().filter(|it| it.seq > since).rev() {
            if line.team.as_deref() != Some(key.as_str()) || entries.len() >= limit {
                continue;
            }
            let ts = line.ts.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
            let Event::MessageAccepted { id, kind, from, to, to_leader, task, body, .. } = line.event.0
            else {
                continue;
            };
            let ours = agent.as_ref().map_or(to_leader, |it| to.contains(it));
            if !ours {
                continue;
            }
            let receipt = agent.as_ref().map(|it| self.receipt(&key, &id, it)).transpose()?;
            entries.push(InboxEntry {
                message_id: id.to_string(),
                ts,
                kind: kind.to_string(),
                from,
                task: task.map(|it| it.to_string()),
                text: store.text_of(&body)?,
                receipt,
            });
        }
        entries.reverse();
        let agent = agent.map_or_else(|| "leader".to_owned(), |it| it.to_string());
        Ok(Inbox { agent, removed, messages: entries })
    }

    /// An agent that was in the team before and got messages then.
    fn former(&self, key: &TeamKey, name: &str) -> Result<Option<AgentName>, EngineError> {
        let Ok(wanted) = AgentName::new(name) else { return Ok(None) };
        let known = self.store()?.find("messages")?.into_iter().any(|line| {
            line.team.as_deref() == Some(key.as_str())
                && matches!(&line.event.0, Event::MessageAccepted { to, .. } if to.contains(&wanted))
        });
        Ok(known.then_some(wanted))
    }
}
