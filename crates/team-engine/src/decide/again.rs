//! Sending a message anew that came back, or of which nobody knows whether it came: only because somebody says so.

use team_model::{AgentName, Event, MessageId, ReceiptStep, State, Team, TeamKey, TeamState};

use super::{Refusal, Sender, command_for};

/// A message that somebody wants to be sent anew.
#[derive(Debug, Clone)]
pub struct AgainCommand {
    /// The team.
    pub team: TeamKey,
    /// Who wants it.
    pub sender: Sender,
    /// The message.
    pub id: MessageId,
}

/// Decides whether a message is sent anew; returns to whom.
pub fn send_again(state: &State, command: &AgainCommand) -> Result<(Vec<Event>, Vec<AgentName>), Refusal> {
    let AgainCommand { team: key, sender, id } = command;
    let team = state
        .teams
        .get(key)
        .ok_or_else(|| Refusal::new("no_such_team", format!("no team `{key}` was started here")))?;
    if team.state != TeamState::Running {
        return Err(Refusal::new("team_stopped", format!("team `{key}` is not running"))
            .with_hint(format!("run `{}` first", command_for("restart", key))));
    }
    let explain = format!("run `{}` to see its way", command_for(&format!("explain {id}"), key));
    let Some(message) = team.message(id) else {
        return Err(
            Refusal::new("nothing_to_repeat", format!("message `{id}` did not come back")).with_hint(explain)
        );
    };
    let is_sender = match sender {
        Sender::Person => true,
        Sender::Seat(name) => message.from == name.as_str(),
        Sender::Elsewhere | Sender::Unknown => false,
    };
    if !is_sender {
        return Err(Refusal::new("not_allowed", format!("message `{id}` was sent by `{}`", message.from))
            .with_hint("send a message of your own"));
    }
    let to = lost(team, id);
    if to.is_empty() {
        let steps: Vec<String> =
            message.receipts.iter().map(|(agent, it)| format!("{agent}: {}", it.step.as_str())).collect();
        let message = format!("message `{id}` is not lost ({})", steps.join(", "));
        return Err(Refusal::new("nothing_to_repeat", message).with_hint(explain));
    }
    let again = |it: &AgentName| Event::MessageAgain { id: id.clone(), receiver: it.clone() };
    Ok((to.iter().map(again).collect(), to))
}

/// The receivers from whom a message came back, or of whom nobody knows whether they have it.
fn lost(team: &Team, id: &MessageId) -> Vec<AgentName> {
    let receipts = team.message(id).map(|it| &it.receipts);
    receipts
        .into_iter()
        .flatten()
        .filter(|(_, it)| matches!(it.step, ReceiptStep::Returned | ReceiptStep::Unknown))
        .map(|(agent, _)| agent.clone())
        .collect()
}
