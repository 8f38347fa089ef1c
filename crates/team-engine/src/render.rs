//! Texts for agents: the start text of a worker and messages in their received form.

use team_model::{AgentName, Event, Heading, Message, Seat, Team, frame_message};
use team_provider::ToolNames;

use crate::error::EngineError;
use crate::store::Store;

/// The most bytes of messages that are handed over together.
pub(crate) const BLOCK: usize = 64 * 1024;

/// Renders what a worker is told at its start: the common part, then its role's instructions.
pub(crate) fn start_text(
    team: &Team,
    agent: &AgentName,
    seat: &Seat,
    instructions: &str,
    tools: &ToolNames,
) -> String {
    let peers: Vec<(&str, &str)> = team
        .seats
        .iter()
        .filter(|(name, _)| *name != agent)
        .map(|(name, seat)| (name.as_str(), seat.spec.role.as_str()))
        .collect();
    let preamble = team_spec::Preamble {
        agent: agent.as_str(),
        role: &seat.spec.role,
        team: &team.name,
        goal: team.goal.as_deref().unwrap_or_default(),
        peers: &peers,
        send_tool: tools.send,
        report_tool: tools.report,
        read_tool: tools.read,
        human_tool: tools.human,
    };
    let mut text = preamble.render();
    if !instructions.trim().is_empty() {
        text.push_str("\n\n");
        text.push_str(instructions);
    }
    text
}

/// What a receiver gets in place of a message that is too long for its channel: the head, and where the text lies.
pub(crate) fn pointer(text: &str, file: &std::path::Path) -> String {
    let head: Vec<&str> = text.lines().take(2).collect();
    format!(
        "{}\nThis message is long. Its whole text ({} characters) is in the file {} - read all of it before you go on.",
        head.join("\n"),
        text.chars().count(),
        file.display()
    )
}

/// Reads a message from the log and renders it as it is received.
pub(crate) fn received_form(store: &Store, seq: u64, message: &Message) -> Result<String, EngineError> {
    let body = match store.line(seq)?.map(|it| it.event.0) {
        Some(Event::MessageAccepted { body, .. }) => store.text_of(&body)?,
        _ => return Err(EngineError::Gone { what: "message", id: message.id.to_string() }),
    };
    let heading = Heading {
        id: message.id.clone(),
        from: message.from.clone(),
        to: message.addressed.clone(),
        kind: message.kind,
        task: message.task,
    };
    Ok(frame_message(&heading, &body))
}
