//! Answering a permission question: the first answer counts.

use std::collections::BTreeMap;

use team_model::{
    AgentName, Approval, Body, Decision, Event, MessageId, MessageKind, RequestId, SpawnId, State, Team,
    TeamKey,
};

use super::{Refusal, SendCommand, Sender, accept_message, command_for, unknown_agent};

/// An answer that somebody wants to give.
#[derive(Debug, Clone)]
pub struct AnswerCommand {
    /// The team.
    pub team: TeamKey,
    /// The agent that asks.
    pub agent: String,
    /// The question.
    pub request: RequestId,
    /// What is answered.
    pub decision: Decision,
    /// `person`, `rule` or `own_tool`.
    pub by: &'static str,
    /// The rule that answers.
    pub pattern: Option<String>,
    /// What the model is told.
    pub message: Option<String>,
}

/// Where the answer goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerTo {
    /// The agent.
    pub agent: AgentName,
    /// The name of the question for its program.
    pub key: String,
    /// Whether it is given by a key in the program's own dialog.
    pub by_keys: bool,
}

/// Decides whether an answer counts.
pub fn answer_approval(state: &State, command: &AnswerCommand) -> Result<(Vec<Event>, AnswerTo), Refusal> {
    let team = state.teams.get(&command.team).ok_or_else(|| {
        Refusal::new("no_such_team", format!("no team `{}` was started here", command.team))
    })?;
    let (agent, open, spawn) = open_question(team, command)?;
    let key = open.key.clone().filter(|it| crate::answers::is_key(it));
    let by_keys = open.by_keys;
    if let Some(before) = &open.answering {
        // The same again is no other answer: whoever was not heard asks twice.
        if let Some(key) = key.filter(|_| before.decision == command.decision && before.by == command.by) {
            return Ok((Vec::new(), AnswerTo { agent: agent.clone(), key, by_keys }));
        }
        let message = format!(
            "question {} of `{agent}` is being answered already: {}",
            command.request, before.decision
        );
        return Err(Refusal::new("already_answered", message));
    }
    let Some(key) = key else { return Err(only_in_terminal(command, agent)) };
    // A key says no and nothing more: the words go as a message, in the same append.
    let words = command.message.as_ref().filter(|_| by_keys && command.decision == Decision::Deny);
    let (mut events, message_id) = match words {
        Some(words) => told_by_message(state, command, agent, &open.tool, words)?,
        None => (Vec::new(), None),
    };
    events.push(Event::ApprovalAnswering {
        spawn,
        request: command.request,
        decision: command.decision,
        by: command.by.to_owned(),
        pattern: command.pattern.clone(),
        message: command.message.clone(),
        message_id,
    });
    Ok((events, AnswerTo { agent: agent.clone(), key, by_keys }))
}

/// Refuses what no command can answer.
pub(crate) fn only_in_terminal(command: &AnswerCommand, agent: &AgentName) -> Refusal {
    let message =
        format!("question {} of `{agent}` can only be answered in its own terminal", command.request);
    let words = format!("attach {agent} --type");
    Refusal::new("no_channel", message).with_hint(format!("run `{}`", command_for(&words, &command.team)))
}

/// The message that brings what a model is told with a no.
fn told_by_message(
    state: &State,
    command: &AnswerCommand,
    agent: &AgentName,
    tool: &str,
    words: &str,
) -> Result<(Vec<Event>, Option<MessageId>), Refusal> {
    let text = format!("Your question {} for permission to use {tool} was denied: {words}", command.request);
    let send = SendCommand {
        team: command.team.clone(),
        sender: Sender::Person,
        from: "leader".to_owned(),
        to: vec![agent.to_string()],
        kind: MessageKind::Message,
        body: Body::inline(&text),
        subject: String::new(),
        task: None,
        reply_to: None,
        request: None,
        answer: String::new(),
        own_id: None,
        prior: None,
        case_id: None,
        watch_result: false,
        presentation: BTreeMap::new(),
        ignored: BTreeMap::new(),
    };
    let (events, sent) = accept_message(state, &send)?;
    Ok((events, sent.messages.into_iter().next().map(|it| it.id)))
}

fn open_question<'a>(
    team: &'a Team,
    command: &AnswerCommand,
) -> Result<(&'a AgentName, &'a Approval, SpawnId), Refusal> {
    let request = command.request;
    let (agent, seat) = team.find_seat(&command.agent).ok_or_else(|| unknown_agent(team, &command.agent))?;
    let see = format!("run `{}` to see what is open", command_for("approvals", &command.team));
    if let (Some(open), Some(spawn)) = (seat.approvals.get(&request), &seat.spawn) {
        return Ok((agent, open, spawn.id));
    }
    if let Some((_, how)) = seat.closed_questions.iter().find(|(id, _)| *id == request) {
        return Err(Refusal::new("closed", format!("question {request} of `{agent}` is closed: {how}"))
            .with_hint(see));
    }
    let of_another = team.seats.iter().find(|(_, it)| it.approvals.contains_key(&request));
    let refusal = Refusal::new("no_such_request", format!("`{agent}` has no open question {request}"));
    Err(match of_another {
        Some((other, _)) => refusal.with_hint(format!("it is a question of `{other}`")),
        None => refusal.with_hint(see),
    })
}
