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

/// The most bytes of a role's instructions that are told again.
const INSTRUCTIONS: usize = 8 * 1024;

/// Renders what an agent is told again after its conversation was shortened.
pub(crate) fn reminder(store: &Store, team: &Team, agent: &AgentName, tools: &ToolNames) -> Option<String> {
    let seat = team.seats.get(agent)?;
    let role = Some(&seat.spec.role).filter(|it| !it.is_empty());
    let role = role.map(|it| format!(" ({it})")).unwrap_or_default();
    let goal = team.goal.as_ref().map(|it| format!(" The team's goal: {it}")).unwrap_or_default();
    let owed: Vec<String> = team
        .owed_by(agent)
        .map(|(id, task)| {
            let message = task.message.as_ref().map(|it| format!(", message {it}")).unwrap_or_default();
            format!("- task {id}{message}, from {}: {}", task.creator, task.subject)
        })
        .collect();
    let owed = if owed.is_empty() {
        "You owe no result.".to_owned()
    } else {
        format!(
            "You still owe a result for each of these; report it with {}:\n{}\nThe texts of your messages: {}.",
            tools.report,
            owed.join("\n"),
            tools.read
        )
    };
    let instructions = match store.line(seat.added).ok().flatten().map(|it| it.event.0) {
        Some(Event::AgentAdded { spec, .. }) => store.text_of(&spec.instructions).unwrap_or_default(),
        _ => String::new(),
    };
    let instructions = Some(instructions.trim()).filter(|it| (1..=INSTRUCTIONS).contains(&it.len()));
    let instructions =
        instructions.map(|it| format!("\n\nYour role's instructions, again:\n{it}")).unwrap_or_default();
    Some(format!(
        "Your conversation was shortened. You are still `{agent}`{role} in the team `{}`.{goal}\n\n{owed}{instructions}",
        team.name
    ))
}

/// Renders what an agent is told again of a conversation that its program has not taken along whole, line by line as a
/// quotation; `None` if nothing is missing.
pub(crate) fn forgotten(texts: &[String]) -> Option<String> {
    let line = |it: &str| ["> ", it, "\n"].concat();
    let quoted: Vec<String> = texts.iter().map(|it| it.lines().map(line).collect()).collect();
    (!quoted.is_empty()).then(|| {
        format!(
            "Your program has lost these messages from the beginning of this conversation when it was started again. You \
             have had them before: know them, and do nothing a second time.\n\n{}",
            quoted.join("\n")
        )
    })
}

/// What a receiver gets in place of a message that its channel would cut or change: the head, and where the text lies.
/// `read` is our tool that shows it, too: a program may not be allowed to read a file outside of its folder.
pub(crate) fn pointer(text: &str, file: &std::path::Path, read: &str) -> String {
    let head: Vec<&str> = text.lines().take(2).collect();
    format!(
        "{}\nThis message is in a file: {} ({} characters) - read all of it before you go on. \
         If you may not read the file, {read} shows the message.",
        head.join("\n"),
        file.display(),
        text.chars().count()
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
        answers: message.request,
    };
    Ok(frame_message(&heading, &body))
}
