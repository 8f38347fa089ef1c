//! Why something is as it is, from the log: an agent, a message, a task, a result, a question, the leader.

use schemars::JsonSchema;
use serde::Serialize;
use team_model::{
    ActivityKind, AgentName, Cause, Event, MessageId, NoticeCause, RequestId, ResultId, Seat, SeatState,
    TaskId, Team, TeamKey, TeamState,
};

use super::approval::answer_command;
use super::follow::type_of;
use super::message::ReceiptShown;
use super::status::{ActivityShown, activity, cut_off};
use super::{Engine, told};
use crate::decide::{Refusal, command_for};
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

/// Where a message stands with one receiver.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ReceiptOf {
    /// The receiver.
    pub to: String,
    /// Where it stands.
    pub receipt: ReceiptShown,
}

/// An answer to "why".
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Explained {
    /// What it is about.
    pub about: String,
    /// `agent`, `message`, `task`, `result`, `question` or `leader`.
    pub kind: String,
    /// The answer in a sentence.
    pub because: String,
    /// What to run next, where there is something to do.
    pub next: Option<String>,
    /// What the agent does, for an agent.
    pub activity: Option<ActivityShown>,
    /// Where the message stands, for a message, by receiver.
    pub receipts: Vec<ReceiptOf>,
    /// The last lines that led here, oldest first; of an agent those of its present session.
    pub steps: Vec<StepShown>,
    /// The last lines of its screen, where it failed.
    pub last_lines: Vec<String>,
}

/// How many lines are shown.
const LINES: usize = 12;
/// How many lines of the log are looked through for them.
const FAR: u64 = 2000;

impl Explained {
    fn new(about: &str, kind: &str, because: String, next: Option<String>) -> Self {
        Self {
            about: about.to_owned(),
            kind: kind.to_owned(),
            because,
            next,
            activity: None,
            receipts: Vec::new(),
            steps: Vec::new(),
            last_lines: Vec::new(),
        }
    }

    fn with_steps(mut self, lines: &[Line]) -> Self {
        self.steps = lines[lines.len().saturating_sub(LINES)..].iter().map(step).collect();
        self
    }
}

impl Engine {
    /// Explains an agent's state, a message's way, or what became of a task, a result or a question.
    pub fn explain(&self, about: &str) -> Result<Explained, EngineError> {
        let key = self.team()?;
        let store = self.store()?;
        let team = self.team_state(&key)?;
        if let Some((name, seat)) = team.find_seat(about) {
            return self.explain_agent(&key, team, name, seat);
        }
        if about == "leader" {
            return Ok(explain_leader(&key, team));
        }
        if let Ok(id) = about.parse::<MessageId>() {
            let lines = store.find(&id.to_string())?;
            if !lines.is_empty() {
                return self.explain_message(&key, team, &id, &lines);
            }
        }
        if let Ok(id) = about.parse::<TaskId>()
            && (1..=team.last_task).contains(&id.0)
        {
            return self.explain_task(&key, team, id);
        }
        let line =
            |seq: u64| store.line(seq).map(|it| it.filter(|it| it.team.as_deref() == Some(key.as_str())));
        if let Ok(id) = about.parse::<ResultId>()
            && let Some(line) = line(id.0)?
            && let Event::McpReportResult { agent, status, summary, task, .. } = &line.event.0
        {
            let of = task.map(|it| format!(" for task {it}")).unwrap_or_default();
            let waits = team.results.uncollected.contains_key(&id);
            let collected = if waits { "it waits to be collected" } else { "it was collected" };
            let because = format!("{agent} reported {status}{of}: {summary}; {collected}");
            let next = command_for(if waits { "collect" } else { "results" }, &key);
            return Ok(Explained::new(about, "result", because, Some(next)).with_steps(&[line]));
        }
        if let Ok(id) = about.parse::<RequestId>()
            && let Some(line) = line(id.0)?
            && let Event::HumanAsked { agent, question, .. } = &line.event.0
        {
            let open = team.questions.contains_key(&id);
            let stands = if open { "nobody has answered yet" } else { "it was answered" };
            let running = open && team.state == TeamState::Running;
            let next = running.then(|| command_for(&format!("send --reply-to {id} {agent} 'ANSWER'"), &key));
            let because = format!("{agent} asked: {question}; {stands}");
            return Ok(Explained::new(about, "question", because, next).with_steps(&[line]));
        }
        if let Ok(id) = about.parse::<RequestId>()
            && let Some(line) = line(id.0)?
            && let Event::ApprovalRequested { spawn, tool, .. } = &line.event.0
        {
            let (name, seat) = store.state.seat_of_spawn(*spawn).map_or_else(
                || ("an agent".to_owned(), None),
                |(_, name, seat)| (name.to_string(), Some(seat)),
            );
            let open = seat.and_then(|it| it.approvals.get(&id).map(|open| (it, open)));
            let closed = seat.and_then(|it| it.closed_questions.iter().find(|(closed, _)| *closed == id));
            let (stands, next) = match (open, closed) {
                (Some((seat, open)), _) => match &open.answering {
                    Some(answer) => (format!("the answer is on its way: {}", answer.decision), None),
                    None => {
                        ("nobody has answered yet".to_owned(), Some(answer_command(&key, &name, seat, id)))
                    }
                },
                (None, Some((_, how))) => (how.clone(), None),
                (None, None) => ("it is closed".to_owned(), None),
            };
            let because = format!("{name} asks permission for {tool}; {stands}");
            return Ok(Explained::new(about, "question", because, next).with_steps(&[line]));
        }
        let near = crate::decide::near_names(about, team.seats.keys().map(AgentName::as_str));
        let what = "no agent, message, task, result or question of this team";
        let refusal = Refusal::new("not_found", format!("`{about}` is {what}"));
        Err(match near.first() {
            Some(near) => refusal.with_hint(format!("did you mean `{near}`?")),
            None => refusal.with_hint(format!("run `{}` to see the agents", command_for("status", &key))),
        }
        .into())
    }

    fn explain_agent(
        &self,
        key: &TeamKey,
        team: &Team,
        name: &AgentName,
        seat: &Seat,
    ) -> Result<Explained, EngineError> {
        let store = self.store()?;
        let spawn = seat.spawn.as_ref().map(|it| it.id);
        let began = spawn.map_or(seat.added, |it| it.0);
        let from = store.state.seq.saturating_sub(FAR).max(began).max(1);
        let mut lines = Vec::new();
        for seq in (from..=store.state.seq).rev() {
            if lines.len() >= LINES {
                break;
            }
            let Some(line) = store.line(seq)? else { continue };
            let of_spawn = |it: u64| spawn.filter(|own| own.0 == it).map(|_| name.to_string());
            let ours = line.team.as_deref() == Some(key.as_str())
                && told::agent(&line.event.0, of_spawn).as_deref() == Some(name.as_str());
            if ours {
                lines.push(line);
            }
        }
        lines.reverse();
        let (because, next) = why(key, team, name, seat);
        Ok(Explained {
            activity: Some(activity(seat)),
            last_lines: seat.last_lines.clone(),
            ..Explained::new(name.as_str(), "agent", because, next).with_steps(&lines)
        })
    }

    fn explain_message(
        &self,
        key: &TeamKey,
        team: &Team,
        id: &MessageId,
        lines: &[Line],
    ) -> Result<Explained, EngineError> {
        let mut receipts = Vec::new();
        if let Some(Event::MessageAccepted { to, .. }) = lines.first().map(|it| &it.event.0) {
            for agent in to {
                receipts.push(ReceiptOf { to: agent.to_string(), receipt: self.receipt(key, id, agent)? });
            }
        }
        let mut next = None;
        let mut parts = Vec::new();
        for ReceiptOf { to, receipt } in &receipts {
            let seat = team.find_seat(to).map(|it| it.1);
            let asks = seat.is_some_and(|it| it.activity.kind == ActivityKind::AwaitingTrust);
            let words = receipt.reason.as_deref().map(|reason| match (receipt.step.as_str(), asks) {
                ("held", true) => told::held(to, "dialog", key).unwrap_or_default(),
                ("held", false) => told::held(to, reason, key).unwrap_or_else(|| reason.replace('_', " ")),
                _ => reason.to_owned(),
            });
            if receipt.step == "held" && next.is_none() {
                let open = team.find_seat(to).and_then(|(name, seat)| self::asks(key, name, seat));
                next = Some(match open.filter(|_| receipt.reason.as_deref() == Some("dialog")) {
                    Some((.., command)) => command,
                    None if asks || receipt.reason.as_deref() == Some("dialog") => {
                        command_for(&format!("attach {to} --type"), key)
                    }
                    None => command_for(&format!("explain {to}"), key),
                });
            }
            let step = receipt.step.replace('_', " ");
            parts.push(match words {
                Some(words) => format!("{to}: {step}: {words}"),
                None => format!("{to}: {step}"),
            });
        }
        let because = if parts.is_empty() {
            next = Some(command_for("inbox leader", key));
            format!("message {id} waits for the leader")
        } else {
            format!("message {id} to {}", parts.join("; "))
        };
        if receipts.iter().any(|it| matches!(it.receipt.step.as_str(), "returned" | "unknown")) {
            next = Some(command_for(&format!("send --again {id}"), key));
        }
        Ok(Explained {
            receipts,
            ..Explained::new(&id.to_string(), "message", because, next).with_steps(lines)
        })
    }

    fn explain_task(&self, key: &TeamKey, team: &Team, id: TaskId) -> Result<Explained, EngineError> {
        let about = id.to_string();
        let Some(task) = team.tasks.get(&id) else {
            let ended = self.ended(key, id)?;
            let line = ended.seq.map(|it| self.store()?.line(it)).transpose()?.flatten();
            let lines: Vec<_> = line.into_iter().collect();
            return Ok(Explained::new(&about, "task", ended.what, None).with_steps(&lines));
        };
        let owner = task.owner.as_ref().map_or_else(|| "nobody".to_owned(), ToString::to_string);
        let seat = task.owner.as_ref().and_then(|it| Some((it, team.seats.get(it)?)));
        let cut_off = seat.and_then(|(name, _)| cut_off(team, name, task));
        let idle = seat.is_some_and(|(_, it)| it.is_idle());
        let stands = match cut_off {
            Some(_) => "its turn was cut off",
            None if !task.in_progress => "no turn with it was seen to begin",
            None if idle => "its turn has ended without a report",
            None => "its turn has begun",
        };
        let because = format!("task {id} is open: {owner} owes it ({}); {stands}", task.subject);
        let next = match cut_off {
            Some(message) => format!("send --again {message}"),
            None => format!("explain {owner}"),
        };
        let next = command_for(&next, key);
        let lines = match &task.message {
            Some(message) => self.store()?.find(&message.to_string())?,
            None => Vec::new(),
        };
        Ok(Explained::new(&about, "task", because, Some(next)).with_steps(&lines))
    }
}

/// What an agent does, why, and what a person can do about it.
fn why(key: &TeamKey, team: &Team, name: &AgentName, seat: &Seat) -> (String, Option<String>) {
    let shown = activity(seat);
    let reason = shown.reason.as_ref().map(|it| it.replace('_', " "));
    let because = reason.as_ref().map(|it| format!(": {it}")).unwrap_or_default();
    let command = |words: &str| Some(command_for(words, key));
    let again = || command(&format!("restart {name}"));
    let by_itself = || {
        let exited = seat.spawn.as_ref().and_then(|it| it.exited);
        told::ended(exited.and_then(|it| it.0), exited.and_then(|it| it.1))
    };
    match &seat.state {
        SeatState::Failed { why } => (format!("{name} did not start: {why}"), again()),
        SeatState::Stopped { cause } => {
            let next = if team.state == TeamState::Running { again() } else { command("restart") };
            match cause {
                Cause::Exit => (format!("{name} has ended by itself: {}", by_itself()), next),
                Cause::Shutdown => (format!("{name} is stopped: the team was shut down"), next),
                other => (format!("{name} is stopped ({other})"), next),
            }
        }
        SeatState::Added | SeatState::Waiting { .. } => (format!("{name} waits to be started"), None),
        SeatState::Starting if seat.activity.kind == ActivityKind::AwaitingTrust => {
            let asks = format!("{name} is starting, and its program asks a person{because}");
            (asks, command(&format!("attach {name} --type")))
        }
        SeatState::Starting => {
            let missing = seat.spawn.as_ref().map(crate::coordinator::missing).filter(|it| !it.is_empty());
            let missing = missing.map(|it| format!(": {it}")).unwrap_or_default();
            (format!("{name} is starting; it is not proved ready yet{missing}"), None)
        }
        SeatState::Running => running(key, team, name, seat, &because),
    }
}

fn running(
    key: &TeamKey,
    team: &Team,
    name: &AgentName,
    seat: &Seat,
    because: &str,
) -> (String, Option<String>) {
    let attach = || Some(command_for(&format!("attach {name} --type"), key));
    match seat.activity.kind {
        ActivityKind::Idle => match team.owed_by(name).find(|(_, it)| it.in_progress) {
            Some((id, task)) => match cut_off(team, name, task) {
                Some(message) => (
                    format!("{name} is idle, and its turn for task {id} was cut off"),
                    Some(command_for(&format!("send --again {message}"), key)),
                ),
                None => (
                    format!("{name} is idle, and its turn ended without a report for task {id}"),
                    Some(command_for(&format!("send {name} 'Report task {id}.'"), key)),
                ),
            },
            None => (format!("{name} is idle{because}"), None),
        },
        ActivityKind::Working => (format!("{name} is at work{because}"), None),
        ActivityKind::AwaitingApproval | ActivityKind::AwaitingTrust => match asks(key, name, seat) {
            Some((id, tool, command)) => (format!("{name} asks permission for {tool} ({id})"), Some(command)),
            None => (format!("{name} waits for a person's answer{because}"), attach()),
        },
        ActivityKind::Unknown => (format!("what {name} does is unknown{because}"), attach()),
        other => (format!("{name} is {}{because}", other.to_string().replace('_', " ")), None),
    }
}

/// The first permission question of a seat that nobody has answered: its id, its tool, and what answers it.
fn asks(key: &TeamKey, name: &AgentName, seat: &Seat) -> Option<(RequestId, String, String)> {
    let (id, open) = seat.approvals.iter().find(|(_, it)| it.answering.is_none())?;
    Some((*id, open.tool.clone(), answer_command(key, name.as_str(), seat, *id)))
}

fn explain_leader(key: &TeamKey, team: &Team) -> Explained {
    let untold = team.untold.len();
    let things = if untold == 1 { "1 thing waits".to_owned() } else { format!("{untold} things wait") };
    let because = match (&team.leader.bound, &team.leader.lost) {
        (Some(bound), _) if untold == 0 => {
            format!("the leader is pane {}; it was told of everything", bound.pane)
        }
        (Some(bound), _) => format!(
            "the leader is pane {}; {things} until the agent there is idle with an empty input box",
            bound.pane
        ),
        (None, Some(why)) => format!("no leader is bound any more: {why}; {things}"),
        (None, None) => format!("no leader is bound; {things} to be looked at"),
    };
    let next = if !team.results.uncollected.is_empty() {
        "collect"
    } else if team.untold.iter().any(|it| it.cause == NoticeCause::Message) {
        "inbox leader"
    } else {
        "status"
    };
    Explained::new("leader", "leader", because, Some(command_for(next, key)))
}

fn step(line: &Line) -> StepShown {
    StepShown {
        seq: line.seq,
        ts: line.ts.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
        event: type_of(&line.event.0),
        what: told::words(&line.event.0),
    }
}
