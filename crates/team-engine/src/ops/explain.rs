//! Why an agent or a message is where it is, from the log.

use schemars::JsonSchema;
use serde::Serialize;
use team_model::{Event, MessageId};

use super::Engine;
use super::follow::type_of;
use super::message::ReceiptShown;
use super::status::{ActivityShown, activity};
use crate::decide::Refusal;
use crate::error::EngineError;
use crate::store::Line;

/// One step on the way.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StepShown {
    /// The line.
    pub seq: u64,
    /// When.
    pub ts: String,
    /// The event's name.
    pub event: String,
    /// What it says, in a few words.
    pub what: String,
}

/// An answer to "why".
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Explained {
    /// What it is about.
    pub about: String,
    /// `agent` or `message`.
    pub kind: String,
    /// The answer in a sentence.
    pub because: String,
    /// What the agent does, for an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<ActivityShown>,
    /// Where the message stands, for a message, by receiver.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<(String, ReceiptShown)>,
    /// The lines that led here, oldest first.
    pub steps: Vec<StepShown>,
    /// The last lines of its screen, where it failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
}

/// How many lines about an agent are shown.
const LINES: usize = 25;

impl Engine {
    /// Explains an agent's state or a message's way.
    pub fn explain(&self, about: &str) -> Result<Explained, EngineError> {
        let key = self.team()?;
        let store = self.store()?;
        let team = self.team_state(&key)?;
        if let Some((name, _)) = team.find_seat(about) {
            let name = name.clone();
            return self.explain_agent(&name);
        }
        if let Ok(id) = about.parse::<MessageId>() {
            let lines = store.find(&id.to_string())?;
            if !lines.is_empty() {
                return self.explain_message(&id, &lines);
            }
        }
        let near = crate::decide::near_names(about, team.seats.keys().map(team_model::AgentName::as_str));
        let refusal = Refusal::new("not_found", format!("`{about}` is no agent and no message of this team"));
        Err(match near.first() {
            Some(near) => refusal.with_hint(format!("did you mean `{near}`?")),
            None => refusal
                .with_hint(format!("run `{}` to see the agents", crate::decide::command_for("status", &key))),
        }
        .into())
    }

    fn explain_agent(&self, name: &team_model::AgentName) -> Result<Explained, EngineError> {
        let key = self.team()?;
        let store = self.store()?;
        let team = store.state.teams.get(&key);
        let seat = team
            .and_then(|it| it.seats.get(name))
            .ok_or_else(|| EngineError::Gone { what: "agent", id: name.to_string() })?;
        let spawn = seat.spawn.as_ref().map(|it| it.id);
        let mut steps = Vec::new();
        let from = store.state.seq.saturating_sub(2000).max(1);
        for seq in (from..=store.state.seq).rev() {
            if steps.len() >= LINES {
                break;
            }
            let Some(line) = store.line(seq)? else { continue };
            if line.team.as_deref() == Some(key.as_str()) && is_about(&line.event.0, name, spawn) {
                steps.push(step(&line));
            }
        }
        steps.reverse();
        let shown = activity(seat);
        let mut because = format!("{name} is {}", seat.state.as_str());
        match &seat.state {
            team_model::SeatState::Failed { why } => because += &[": ", why].concat(),
            team_model::SeatState::Stopped { cause } => because += &[" (", &cause.to_string(), ")"].concat(),
            _ => {
                because += &[" and ", &shown.state].concat();
                if let Some(reason) = &shown.reason {
                    because += &[" (", reason, ")"].concat();
                }
                if let Some(evidence) = &shown.evidence {
                    because += &["; proved by ", evidence].concat();
                }
            }
        }
        Ok(Explained {
            about: name.to_string(),
            kind: "agent".to_owned(),
            because,
            activity: Some(shown),
            receipts: Vec::new(),
            steps,
            last_lines: seat.last_lines.clone(),
        })
    }

    fn explain_message(&self, id: &MessageId, lines: &[Line]) -> Result<Explained, EngineError> {
        let key = self.team()?;
        let mut receipts = Vec::new();
        if let Some(Event::MessageAccepted { to, .. }) = lines.first().map(|it| &it.event.0) {
            for agent in to {
                receipts.push((agent.to_string(), self.receipt(&key, id, agent)?));
            }
        }
        let parts: Vec<String> = receipts
            .iter()
            .map(|(agent, it)| match &it.reason {
                Some(reason) => format!("{agent}: {} ({reason})", it.step),
                None => format!("{agent}: {}", it.step),
            })
            .collect();
        let because = if parts.is_empty() {
            format!("message {id} waits for the leader: run `team-agent inbox leader`")
        } else {
            format!("message {id} - {}", parts.join(", "))
        };
        let lost = receipts.iter().any(|(_, it)| matches!(it.step.as_str(), "returned" | "unknown"));
        let again = crate::decide::command_for(&format!("send --again {id}"), &key);
        let because = if lost { format!("{because}; `{again}` sends it anew") } else { because };
        Ok(Explained {
            about: id.to_string(),
            kind: "message".to_owned(),
            because,
            activity: None,
            receipts,
            steps: lines.iter().map(step).collect(),
            last_lines: Vec::new(),
        })
    }
}

fn step(line: &Line) -> StepShown {
    StepShown {
        seq: line.seq,
        ts: line.ts.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
        event: type_of(&line.event.0),
        what: words(&line.event.0),
    }
}

fn is_about(event: &Event, name: &team_model::AgentName, spawn: Option<team_model::SpawnId>) -> bool {
    let Ok(value) = serde_json::to_value(event) else { return false };
    let is = |field: &str, wanted: &str| value.get(field).and_then(|it| it.as_str()) == Some(wanted);
    is("agent", name.as_str())
        || is("receiver", name.as_str())
        || spawn.is_some_and(|it| is("spawn", &it.to_string()))
}

/// An event in a few words: its fields without what its name says already.
fn words(event: &Event) -> String {
    let Ok(serde_json::Value::Object(fields)) = serde_json::to_value(event) else { return String::new() };
    let mut parts = Vec::new();
    for (name, value) in fields {
        let shown = match (name.as_str(), &value) {
            ("type" | "receiver_process" | "process" | "spec" | "seat" | "agent" | "receiver", _) => continue,
            ("proof", it) => format!(
                "{}: {}",
                it.get("source").and_then(|it| it.as_str()).unwrap_or_default(),
                it.get("record").and_then(|it| it.as_str()).unwrap_or_default()
            ),
            ("body", it) => {
                format!("{} characters", it.get("chars").and_then(serde_json::Value::as_u64).unwrap_or(0))
            }
            (_, serde_json::Value::String(text)) => {
                format!("{name} {}", text.chars().take(80).collect::<String>())
            }
            (_, serde_json::Value::Array(items)) if items.is_empty() => continue,
            (_, other) => format!("{name} {other}"),
        };
        parts.push(shown);
    }
    parts.join(", ")
}
