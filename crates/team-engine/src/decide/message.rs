//! Accepting a message: who it goes to, whether it was sent before, which task it makes.
//!
//! Long: every rule of sending, and its tests.

use std::collections::BTreeMap;

use team_model::{
    AgentName, Body, Cause, ClosesOn, Event, MessageId, MessageKind, RequestId, SeatState, State, TaskId,
    Team, TeamKey, TeamState,
};

use super::Refusal;

/// A message that somebody wants to send.
#[derive(Debug, Clone)]
pub struct SendCommand {
    /// The team it goes to.
    pub team: TeamKey,
    /// Who sends, as far as it is proved.
    pub sender: Sender,
    /// How the sender is shown and can be answered.
    pub from: String,
    /// The receivers as written.
    pub to: Vec<String>,
    /// Its kind.
    pub kind: MessageKind,
    /// Its text.
    pub body: Body,
    /// The first line, for the task's subject.
    pub subject: String,
    /// The task it belongs to.
    pub task: Option<TaskId>,
    /// What it answers.
    pub reply_to: Option<MessageId>,
    /// The question it answers.
    pub request: Option<RequestId>,
    /// What is kept of it as the answer to that question.
    pub answer: String,
    /// The sender's own id.
    pub own_id: Option<String>,
    /// An earlier message of that id that has left the state.
    pub prior: Option<PriorMessage>,
    /// A free label.
    pub case_id: Option<String>,
    /// Whether a result is owed for it.
    pub watch_result: bool,
    /// Labels for those who show it.
    pub presentation: BTreeMap<String, String>,
    /// Arguments that were given and do not count.
    pub ignored: BTreeMap<String, String>,
}

/// Who sends a message, as far as it is proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sender {
    /// The person, at the leader's place.
    Person,
    /// A seat of the team.
    Seat(AgentName),
    /// Somebody of another team or workspace.
    Elsewhere,
    /// Nobody in particular: may write to the leader and to nobody else.
    Unknown,
}

impl Sender {
    /// The sender's seat in the team, if it has one.
    fn seat(&self) -> Option<&AgentName> {
        match self {
            Self::Seat(name) => Some(name),
            Self::Person | Self::Elsewhere | Self::Unknown => None,
        }
    }
}

/// A message of the same own id, found in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriorMessage {
    /// Its id.
    pub id: MessageId,
    /// The hash of its text.
    pub hash: String,
}

/// What became of the wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendOutcome {
    /// The messages, one per receiver where each owes a result.
    pub messages: Vec<SentMessage>,
    /// Whether they had been accepted before.
    pub repeated: bool,
}

/// One accepted message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentMessage {
    /// Its id.
    pub id: MessageId,
    /// Its receivers.
    pub to: Vec<AgentName>,
    /// Whether the leader is one of them.
    pub to_leader: bool,
    /// The task it handed over.
    pub task: Option<TaskId>,
}

/// Receivers, resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Address {
    /// The seats.
    pub seats: Vec<AgentName>,
    /// Those of them that were named, not meant by `all`.
    pub named: Vec<AgentName>,
    /// Whether the leader is one of them.
    pub leader: bool,
    /// As shown to the receivers.
    pub shown: String,
}

/// Finds names that look like `wanted`, nearest first.
pub fn near_names<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let folded = team_model::fold_case(wanted);
    let mut near: Vec<(usize, String)> = names
        .map(|name| (strsim::damerau_levenshtein(&folded, &team_model::fold_case(name)), name.to_owned()))
        .filter(|(distance, name)| *distance <= 2.max(name.chars().count() / 3) || name.starts_with(wanted))
        .collect();
    near.sort();
    near.into_iter().take(3).map(|(_, name)| name).collect()
}

/// Resolves what a sender wrote behind `to`.
pub fn resolve(team: &Team, from: &Sender, to: &[String]) -> Result<Address, Refusal> {
    let sender = from.seat();
    let mut address = Address::default();
    let mut shown: Vec<String> = Vec::new();
    for wanted in to.iter().flat_map(|it| it.split(',')).map(str::trim).filter(|it| !it.is_empty()) {
        match wanted {
            _ if *from == Sender::Unknown && wanted != "leader" => {
                return Err(Refusal::new(
                    "not_allowed",
                    "a caller without a seat may write to `leader` only",
                )
                .with_hint("send to `leader`, or call from the agent's own session"));
            }
            "all" | "*" => {
                let others: Vec<_> = team.seats.keys().filter(|it| Some(*it) != sender).cloned().collect();
                if others.is_empty() {
                    return Err(Refusal::new("nobody_there", "there is no other agent in this team")
                        .with_hint("to add one, write its role file into `agents/`, then run `team-agent shutdown && team-agent restart`"));
                }
                address.seats.extend(others);
                shown.push("all".to_owned());
            }
            "leader" => {
                if *from == Sender::Person {
                    return Err(Refusal::new(
                        "self",
                        "you are the leader: a message to `leader` would go to yourself",
                    )
                    .with_hint(the_team_has(team)));
                }
                address.leader = true;
                shown.push("leader".to_owned());
            }
            "manager" => {
                let Some(seat) = sender.and_then(|it| team.seats.get(it)) else {
                    return Err(Refusal::new("unknown_receiver", "only an agent has a `manager`")
                        .with_hint(the_team_has(team)));
                };
                if let Some(manager) = &seat.manager {
                    address.seats.push(manager.clone());
                    shown.push(manager.to_string());
                } else {
                    address.leader = true;
                    shown.push("leader".to_owned());
                }
            }
            name => {
                let normal = AgentName::new(name).ok();
                let Some(found) = normal.and_then(|it| team.seats.get_key_value(&it)).map(|(it, _)| it)
                else {
                    if matches!(name, "self" | "me" | "user" | "human" | "person") {
                        return Err(yourself(team, from, name));
                    }
                    return Err(unknown_receiver(team, name));
                };
                if Some(found) == sender {
                    return Err(Refusal::new("self", format!("`{name}` is yourself")));
                }
                address.seats.push(found.clone());
                address.named.push(found.clone());
                shown.push(found.to_string());
            }
        }
    }
    if shown.is_empty() {
        return Err(Refusal::new("unknown_receiver", "no receiver is named").with_hint(the_team_has(team)));
    }
    address.seats.sort();
    address.seats.dedup();
    let mut once: Vec<String> = Vec::new();
    for name in shown {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    address.shown = once.join(", ");
    Ok(address)
}

/// Words for the person or the sender, which are no names.
fn yourself(team: &Team, from: &Sender, word: &str) -> Refusal {
    let refusal = Refusal::new("unknown_receiver", format!("`{word}` is no receiver"));
    match from {
        Sender::Person => refusal.with_hint(the_team_has(team)),
        _ if matches!(word, "self" | "me") => refusal.with_hint(the_team_has(team)),
        _ => refusal.with_hint("the person who leads the team is `leader`"),
    }
}

/// Says so where another team of the workspace has an agent of that name.
fn in_another_team(state: &State, command: &SendCommand, refusal: Refusal) -> Refusal {
    let named = || command.to.iter().flat_map(|it| it.split(',')).map(str::trim);
    let mut other = state.teams.iter().filter(|(key, _)| **key != command.team);
    let found =
        other.find_map(|(key, team)| named().find(|it| team.seats.contains_key(*it)).map(|name| (key, name)));
    match found {
        Some((key, name)) if refusal.code == "unknown_receiver" => {
            refusal.with_hint(format!("`{name}` is in team `{key}`: add `--team {key}`"))
        }
        _ => refusal,
    }
}

fn unknown_receiver(team: &Team, name: &str) -> Refusal {
    let names = team.seats.keys().map(AgentName::as_str).chain(["leader", "all"]);
    unknown_name("unknown_receiver", team, name, names)
}

/// Refuses an agent's name that nobody has: with names that look like it, else with all there are.
pub fn unknown_agent(team: &Team, name: &str) -> Refusal {
    unknown_name("unknown_agent", team, name, team.seats.keys().map(AgentName::as_str))
}

fn unknown_name<'a>(
    code: &'static str,
    team: &Team,
    name: &str,
    names: impl Iterator<Item = &'a str>,
) -> Refusal {
    let near = near_names(name, names);
    let refusal = Refusal::new(code, format!("no agent is named `{name}`"));
    if near.is_empty() {
        refusal.with_hint(the_team_has(team))
    } else {
        refusal.with_hint(format!("did you mean `{}`?", near.join("` or `")))
    }
}

fn the_team_has(team: &Team) -> String {
    let names: Vec<_> = team.seats.keys().map(AgentName::as_str).collect();
    if names.is_empty() {
        "the team has no agents".to_owned()
    } else {
        format!("the team has: {}", names.join(", "))
    }
}

/// Decides whether a message is accepted.
pub fn accept_message(state: &State, command: &SendCommand) -> Result<(Vec<Event>, SendOutcome), Refusal> {
    let team = state.teams.get(&command.team).ok_or_else(|| {
        Refusal::new("no_such_team", format!("no team `{}` was started here", command.team))
            .with_hint(format!("run `team-agent quick-start .team/{}`", command.team))
    })?;
    if let Some(done) = repeated(state, team, command)? {
        return Ok((Vec::new(), done));
    }
    if team.state != TeamState::Running {
        return Err(Refusal::new("team_stopped", format!("team `{}` is not running", command.team))
            .with_hint(format!("run `{}` first", super::command_for("restart", &command.team))));
    }
    let address =
        resolve(team, &command.sender, &command.to).map_err(|it| in_another_team(state, command, it))?;
    if let Some(refusal) = address.named.iter().find_map(|it| dead(team, &command.team, it)) {
        return Err(refusal);
    }
    let closed = command.request.map(|it| answers(team, command, it, &address)).transpose()?;
    if let Some(task) = command.task
        && (task.0 == 0 || task.0 > team.last_task)
    {
        return Err(super::no_such_task(team, task));
    }
    if command.watch_result && (address.seats.is_empty() || address.leader) {
        return Err(Refusal::new("not_an_agent", "only an agent can owe a result")
            .with_hint("leave `leader` out, or leave out `--watch-result`"));
    }
    if command.watch_result && command.own_id.is_some() && address.seats.len() > 1 {
        return Err(Refusal::new("id_conflict", "one own id cannot name the tasks of several agents")
            .with_hint("send to each agent with an id of its own"));
    }
    let groups: Vec<Vec<AgentName>> = if command.watch_result {
        address.seats.iter().map(|it| vec![it.clone()]).collect()
    } else {
        vec![address.seats.clone()]
    };
    let mut events = Vec::new();
    let mut messages = Vec::new();
    let mut last_task = team.last_task;
    for to in groups {
        let seq = state.seq + 1 + events.len() as u64;
        let id = command.own_id.clone().map_or(MessageId::Seq(seq), MessageId::Own);
        let task = command.watch_result.then(|| {
            last_task += 1;
            TaskId(last_task)
        });
        events.push(Event::MessageAccepted {
            id: id.clone(),
            kind: if command.watch_result { MessageKind::Brief } else { command.kind },
            from: command.from.clone(),
            to: to.clone(),
            to_leader: address.leader,
            addressed: address.shown.clone(),
            task: task.or(command.task),
            reply_to: command.reply_to.clone(),
            request: command.request,
            run: None,
            case_id: command.case_id.clone(),
            presentation: command.presentation.clone(),
            ignored: command.ignored.clone(),
            body: command.body.clone(),
        });
        if let Some(task) = task {
            events.push(Event::TaskCreated {
                id: task,
                creator: command.from.clone(),
                subject: command.subject.chars().take(200).collect(),
                owner: to.first().cloned(),
                depends_on: Vec::new(),
                closes_on: ClosesOn::Report,
                run: None,
                message: Some(id.clone()),
                case_id: command.case_id.clone(),
            });
        }
        messages.push(SentMessage { id, to, to_leader: address.leader, task });
    }
    events.extend(closed);
    Ok((events, SendOutcome { messages, repeated: false }))
}

/// A message to the one who asked closes the question.
fn answers(team: &Team, command: &SendCommand, id: RequestId, address: &Address) -> Result<Event, Refusal> {
    let Some(question) = team.questions.get(&id) else {
        let open: Vec<_> = team.questions.keys().map(ToString::to_string).collect();
        let hint = match open.as_slice() {
            [] => "no question is open; leave `--reply-to` out".to_owned(),
            _ => format!("open questions: {}", open.join(", ")),
        };
        return Err(Refusal::new("no_such_question", format!("no question `{id}` is open")).with_hint(hint));
    };
    if command.sender != Sender::Person {
        return Err(Refusal::new("not_allowed", format!("question `{id}` is for a person or the leader"))
            .with_hint("write to the one who asked without `reply_to`"));
    }
    let asker = team.seats.keys().find(|it| it.as_str() == question.agent);
    if let Some(asker) = asker.filter(|it| !address.seats.contains(it)) {
        let words = format!("send --reply-to {id} {asker} 'ANSWER'");
        return Err(Refusal::new("not_the_asker", format!("question `{id}` was asked by `{asker}`"))
            .with_hint(format!("run `{}`", super::command_for(&words, &command.team))));
    }
    Ok(Event::HumanAnswered { id, answer: command.answer.clone() })
}

/// Nobody reads what is sent to an agent whose program has ended by itself or never began.
fn dead(team: &Team, key: &TeamKey, agent: &AgentName) -> Option<Refusal> {
    let how = match &team.seats.get(agent)?.state {
        SeatState::Stopped { cause: Cause::Exit | Cause::Lost } => "its program has ended".to_owned(),
        SeatState::Failed { why } => format!("it could not start: {why}"),
        _ => return None,
    };
    let start = super::command_for(&format!("restart {agent}"), key);
    Some(
        Refusal::new("dead", format!("agent `{agent}` is dead: {how}"))
            .with_hint(format!("run `{start}`; it goes on where it was")),
    )
}

/// The same id with the same text is the same message; with another text it is a conflict.
fn repeated(state: &State, team: &Team, command: &SendCommand) -> Result<Option<SendOutcome>, Refusal> {
    let Some(own) = &command.own_id else { return Ok(None) };
    if !team_model::is_own_message_id(own) {
        return Err(Refusal::new("bad_message_id", format!("`{own}` cannot be a message id of your own"))
            .with_hint("use 1 to 64 of the characters A-Z a-z 0-9 . _ : - and none of our forms (`m-17`)"));
    }
    let known = state
        .own_ids
        .iter()
        .rev()
        .find(|(it, _, _)| it == own)
        .map(|(_, id, hash)| PriorMessage { id: id.clone(), hash: hash.clone() })
        .or_else(|| command.prior.clone());
    let Some(known) = known else { return Ok(None) };
    if known.hash != command.body.hash {
        return Err(Refusal::new(
            "id_conflict",
            format!("message `{own}` was sent before with another text"),
        )
        .with_hint("use another id for another text"));
    }
    let message = team.message(&known.id);
    let sent = SentMessage {
        id: known.id,
        to: message.map(|it| it.receipts.keys().cloned().collect()).unwrap_or_default(),
        to_leader: message.is_some_and(|it| it.to_leader),
        task: message.and_then(|it| it.task),
    };
    Ok(Some(SendOutcome { messages: vec![sent], repeated: true }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn team(names: &[&str]) -> Team {
        let (key, mut state) = (TeamKey::new("current").unwrap(), State::default());
        let spec = || team_model::SeatSpec {
            role: String::new(),
            provider: "fake".to_owned(),
            model: None,
            effort: None,
            auth_mode: "subscription".to_owned(),
            profile: None,
            tools: Vec::new(),
            working_directory: None,
            instructions: Body::default(),
        };
        let seats = names
            .iter()
            .map(|it| crate::decide::StartSeat { agent: AgentName::new(it).unwrap(), spec: spec() })
            .collect();
        let command = crate::decide::StartCommand {
            team: key.clone(),
            name: "crew".to_owned(),
            session_name: "crew".to_owned(),
            dir: String::new(),
            digest: String::new(),
            goal: None,
            leader: None,
            seats,
        };
        let events = crate::decide::start_team(&state, &command).unwrap();
        for (seq, event) in (1..).zip(&events) {
            state.apply(seq, chrono::DateTime::UNIX_EPOCH, Some(&key), event);
        }
        state.teams.remove(&key).unwrap()
    }

    #[expect(clippy::type_complexity, reason = "whole values are compared in a table")]
    fn to(
        team: &Team,
        from: &Sender,
        to: &str,
    ) -> Result<(Vec<String>, bool), (&'static str, Option<String>)> {
        resolve(team, from, &[to.to_owned()])
            .map(|it| (it.seats.iter().map(ToString::to_string).collect(), it.leader))
            .map_err(|it| (it.code, it.hint))
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn a_caller_without_a_seat_reaches_the_leader_and_nobody_else() {
        let team = team(&["w1", "w2"]);
        assert_eq!(to(&team, &Sender::Unknown, "leader"), Ok((Vec::new(), true)));
        for receiver in ["w1", "all", "*", "manager", "leader,w1", "nobody"] {
            assert_eq!(to(&team, &Sender::Unknown, receiver).unwrap_err().0, "not_allowed", "{receiver}");
        }
    }

    #[test]
    fn all_is_everybody_but_the_sender() {
        let team = team(&["w1", "w2"]);
        let seat = Sender::Seat(AgentName::new("w1").unwrap());
        assert_eq!(to(&team, &seat, "all"), Ok((names(&["w2"]), false)));
        assert_eq!(to(&team, &Sender::Person, "*"), Ok((names(&["w1", "w2"]), false)));
        assert_eq!(to(&team, &Sender::Elsewhere, "all"), Ok((names(&["w1", "w2"]), false)));
    }

    #[test]
    fn the_leader_can_be_reached_from_elsewhere_but_not_by_itself() {
        let team = team(&["w1"]);
        assert_eq!(to(&team, &Sender::Elsewhere, "leader"), Ok((Vec::new(), true)));
        assert_eq!(to(&team, &Sender::Person, "leader").unwrap_err().0, "self");
    }

    #[test]
    fn names_count_whole_and_in_their_case() {
        let team = team(&["al", "alice"]);
        assert_eq!(to(&team, &Sender::Person, "al"), Ok((names(&["al"]), false)));
        for wrong in ["ali", "Alice", "AL"] {
            let (code, hint) = to(&team, &Sender::Person, wrong).unwrap_err();
            assert_eq!(code, "unknown_receiver");
            assert!(hint.unwrap_or_default().starts_with("did you mean"), "{wrong}");
        }
        let (_, hint) = to(&team, &Sender::Person, "zzzzzzzz").unwrap_err();
        assert_eq!(hint.as_deref(), Some("the team has: al, alice"));
    }
}
