//! What each agent is doing: one struct for text, JSON and tools.
//!
//! Long: the one answer with all its parts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use team_model::{
    ActivityKind, AgentName, Cause, Event, Message, MessageId, NoticeCause, ReceiptStep, Seat, SeatState,
    Task, Team, TeamKey, TeamState,
};

use super::Engine;
use super::start::attach_commands;
use crate::decide;
use crate::error::EngineError;
use crate::process;
use crate::room;
use crate::store::Store;

/// How much of what an agent asks permission for is shown, in characters.
const LONGEST_ASKED: usize = 300;

/// A team and its agents.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Status {
    /// The team's key.
    pub team: String,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: String,
    /// Its tmux session.
    pub session_name: String,
    /// What it is for.
    pub goal: Option<String>,
    /// Commands that show a seat's screen.
    pub attach_commands: Vec<String>,
    /// Whether every seat can take a message.
    pub ready: bool,
    /// Its seats.
    pub agents: BTreeMap<String, AgentShown>,
    /// Its results.
    pub results: ResultCounts,
    /// Receipts by step.
    pub messages: BTreeMap<String, u64>,
    /// Questions to humans that are open.
    pub questions: Vec<QuestionShown>,
    /// The person's own agent.
    pub leader: LeaderShown,
    /// The coordinator.
    pub coordinator: CoordinatorShown,
    /// What waits for a person, each with the command to run.
    pub attention: Vec<Attention>,
    /// The other teams of this workspace.
    pub other_teams: Vec<OtherTeam>,
}

/// A question to a human that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct QuestionShown {
    /// Its id, for `send --reply-to`.
    pub id: String,
    /// Who asks.
    pub from: String,
    /// The beginning of the question.
    pub question: String,
    /// The answers it offers; none if it is open.
    pub choices: Vec<String>,
}

/// Another team of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OtherTeam {
    /// Its key.
    pub team: String,
    /// Its state.
    pub state: String,
}

/// Something that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Attention {
    /// `awaiting_approval`, `awaiting_trust`, `limited`, `question`, `returned`, `owes`, `exited`, `failed`, `results`,
    /// `messages`, `stopped`, `lost`, `coordinator` or `disk`.
    pub kind: String,
    /// The agent that it is about.
    pub agent: Option<String>,
    /// What it is, in a sentence.
    pub what: String,
    /// What to run.
    pub command: String,
}

/// A seat.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AgentShown {
    /// Its provider.
    pub provider: String,
    /// Its model.
    pub model: Option<String>,
    /// What it is for.
    pub role: String,
    /// Its session.
    pub session: SessionShown,
    /// What it does.
    pub activity: ActivityShown,
    /// The tasks it owes a result for.
    pub owes: Vec<Owed>,
    /// How many messages wait for it, by reason.
    pub held: BTreeMap<String, u64>,
    /// Whether it can report by its tools; `None` before that is known.
    pub can_report: Option<bool>,
}

/// A session.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SessionShown {
    /// The seat's state.
    pub state: String,
    /// Our id.
    pub id: Option<String>,
    /// The provider's id.
    pub native: Option<String>,
    /// The provider's process.
    pub pid: Option<u32>,
    /// Its pane.
    pub pane: Option<String>,
    /// Why it is as it is.
    pub reason: Option<String>,
    /// The last lines of its screen, where it failed.
    pub last_lines: Vec<String>,
}

/// What a seat does.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ActivityShown {
    /// The word.
    pub state: String,
    /// Since when.
    pub since: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// Until when, for a limit.
    pub until: Option<String>,
    /// What proves it: the source and its record.
    pub evidence: Option<String>,
}

/// A task that an agent owes a result for.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Owed {
    /// The task.
    pub task: String,
    /// What it is.
    pub subject: String,
    /// The message that handed it over.
    pub message_id: Option<String>,
}

/// Counts of results.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct ResultCounts {
    /// All.
    pub total: u64,
    /// Those that wait.
    pub uncollected: u64,
    /// Those that were collected.
    pub collected: u64,
    /// Those that say failed or blocked.
    pub failed: u64,
}

/// The leader.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct LeaderShown {
    /// Whether a pane is bound.
    pub bound: bool,
    /// The pane.
    pub pane: Option<String>,
    /// Why none is bound any more.
    pub reason: Option<String>,
    /// How many things it has not been told.
    pub untold: usize,
}

/// The coordinator.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct CoordinatorShown {
    /// `running`, `stopped`, or `lost` if it ended without a word.
    pub state: String,
    /// Its process.
    pub pid: Option<u32>,
    /// Its version.
    pub version: Option<String>,
    /// Its epoch.
    pub epoch: u64,
}

impl AgentShown {
    /// Its terminal is gone and nobody has written that down yet.
    fn lose(&mut self) {
        "stopped".clone_into(&mut self.session.state);
        self.session.reason = Some("lost".to_owned());
        (self.session.pid, self.session.pane, self.can_report) = (None, None, None);
        self.activity = ActivityShown {
            state: ActivityKind::Unknown.to_string(),
            since: None,
            reason: Some("the tmux server is gone".to_owned()),
            until: None,
            evidence: None,
        };
    }
}

impl Engine {
    /// Shows a team, or one agent of it.
    pub fn status(&self, only: Option<&str>) -> Result<Status, EngineError> {
        let key = self.team()?;
        let store = self.store()?;
        let team = self.team_state(&key)?;
        let only = match only {
            None => None,
            Some(name) => Some(team.find_seat(name).ok_or_else(|| decide::unknown_agent(team, name))?.0),
        };
        let coordinator = match &store.state.coordinator {
            None => CoordinatorShown {
                state: "stopped".to_owned(),
                epoch: store.state.epoch,
                ..Default::default()
            },
            Some(it) => CoordinatorShown {
                state: if process::is_alive(&it.process) { "running" } else { "lost" }.to_owned(),
                pid: Some(it.process.pid),
                version: Some(it.version.clone()),
                epoch: it.epoch,
            },
        };
        // The log may not know yet what the machine does: a team whose server is gone runs no more.
        let server_gone = team.has_live_seats()
            && store.state.server.as_ref().is_some_and(|it| !process::is_alive(&it.process));
        let state = match team.state {
            TeamState::Running if server_gone => "lost",
            state => team_word(state),
        };
        let agents: BTreeMap<String, AgentShown> = team
            .seats
            .iter()
            .filter(|(name, _)| only.is_none_or(|it| it == *name))
            .map(|(name, seat)| {
                let mut shown = agent(team, name, seat);
                if server_gone && seat.state.is_live() {
                    shown.lose();
                }
                (name.to_string(), shown)
            })
            .collect();
        let mut attention = attention(store, &key, team, state, &agents, &coordinator);
        if let Some(full) = room::full(&self.workspace) {
            let (what, command) = (full.what(), full.command());
            attention.push(Attention { kind: "disk".to_owned(), agent: None, what, command });
        }
        Ok(Status {
            team: key.to_string(),
            name: team.name.clone(),
            state: state.to_owned(),
            session_name: team.session_name.clone(),
            goal: team.goal.clone(),
            attach_commands: attach_commands(&key, team.seats.keys()),
            ready: state == "running" && team.seats.values().all(|it| it.state == SeatState::Running),
            agents,
            results: ResultCounts {
                total: team.results.total,
                uncollected: team.results.uncollected.len() as u64,
                collected: team.results.collected,
                failed: team.results.failed,
            },
            messages: counts(team),
            questions: team
                .questions
                .iter()
                .map(|(id, it)| QuestionShown {
                    id: id.to_string(),
                    from: it.agent.clone(),
                    question: it.question.clone(),
                    choices: choices(store, it.seq),
                })
                .collect(),
            leader: LeaderShown {
                bound: team.leader.bound.is_some(),
                pane: team.leader.bound.as_ref().map(|it| it.pane.clone()),
                reason: team.leader.lost.clone(),
                untold: team.untold.len(),
            },
            coordinator,
            attention,
            other_teams: store
                .state
                .teams
                .iter()
                .filter(|(it, _)| **it != key)
                .map(|(it, team)| OtherTeam { team: it.to_string(), state: team_word(team.state).to_owned() })
                .collect(),
        })
    }

    /// Lists the teams of this workspace.
    pub fn teams(&self) -> Vec<TeamKey> {
        self.store.as_ref().map(|it| it.state.teams.keys().cloned().collect()).unwrap_or_default()
    }
}

fn team_word(state: TeamState) -> &'static str {
    match state {
        TeamState::Running => "running",
        TeamState::Stopping => "stopping",
        TeamState::Stopped => "stopped",
        TeamState::Lost => "lost",
    }
}

/// The answers that a question offers.
fn choices(store: &Store, seq: u64) -> Vec<String> {
    match store.line(seq).ok().flatten().map(|it| it.event.0) {
        Some(Event::HumanAsked { choices, .. }) => choices,
        _ => Vec::new(),
    }
}

fn attention(
    store: &Store,
    key: &TeamKey,
    team: &Team,
    state: &str,
    agents: &BTreeMap<String, AgentShown>,
    coordinator: &CoordinatorShown,
) -> Vec<Attention> {
    let mut found = Vec::new();
    let mut add = |kind: &str, agent: Option<&str>, what: String, words: &str| {
        // Several commands in one name their team themselves.
        let command = if words.contains("&&") {
            format!("team-agent {words}")
        } else {
            decide::command_for(words, key)
        };
        found.push(Attention { kind: kind.to_owned(), agent: agent.map(str::to_owned), what, command });
    };
    for (name, agent) in agents {
        let kind = agent.activity.state.as_str();
        if matches!(kind, "awaiting_approval" | "awaiting_trust") {
            let asked =
                team.seats.iter().find(|(it, _)| it.as_str() == name).and_then(|(_, it)| asked(store, it));
            // A dialog has a name for programs; people get its words.
            let reason = agent
                .activity
                .reason
                .as_ref()
                .map(|it| format!("its program asks: {}", it.replace('_', " ")));
            let what = asked.or(reason).unwrap_or_else(|| "its program asks a question".to_owned());
            let words = match question(team, name) {
                Some(id) => format!("approve {name} {id} --allow"),
                None => format!("attach {name} --type"),
            };
            add(kind, Some(name), format!("{name}: {what}"), &words);
        } else if kind == "limited" {
            let until = agent.activity.until.as_ref().map(|it| format!(" until {it}")).unwrap_or_default();
            let what = format!("{name}: its provider's limit is reached{until}; messages wait");
            add(kind, Some(name), what, &format!("explain {name}"));
        } else if agent.session.state == "failed" {
            let what = agent.session.reason.as_deref().unwrap_or("it did not start");
            add("failed", Some(name), format!("{name}: {what}"), &format!("explain {name}"));
        }
    }
    if state == "running" {
        waits_in_running(team, &mut add);
    }
    for (id, it) in &team.questions {
        let words = match it.agent.as_str() {
            // What stands still can be asked nothing.
            _ if state != "running" => "restart".to_owned(),
            "unknown" => format!("send --reply-to {id} all 'ANSWER'"),
            agent => format!("send --reply-to {id} {agent} 'ANSWER'"),
        };
        let choices = match choices(store, it.seq) {
            none if none.is_empty() => String::new(),
            some => format!(" ({})", some.join(", ")),
        };
        let what = format!("{id} from {}: {}{choices}", it.agent, it.question);
        add("question", Some(it.agent.as_str()), what, &words);
    }
    for message in team.messages.values() {
        for (agent, it) in message.receipts.iter().filter(|(_, it)| it.step == ReceiptStep::Returned) {
            let why = it.why.as_deref().unwrap_or("it came back");
            let what = format!("{} to {agent} was given back: {why}", message.id);
            add("returned", Some(agent.as_str()), what, &format!("send --again {}", message.id));
        }
    }
    match team.results.uncollected.len() {
        0 => {}
        1 => add("results", None, "One result waits".to_owned(), "collect"),
        many => add("results", None, format!("{many} results wait"), "collect"),
    }
    match state {
        "stopped" => add("stopped", None, "The team can go on where it was".to_owned(), "restart"),
        "lost" => {
            add("lost", None, "its terminals are gone; its conversations are not".to_owned(), "restart");
        }
        _ => {}
    }
    if coordinator.state == "lost" {
        let what = "The coordinator ended without a word; the next command that changes something starts another one";
        add("coordinator", None, what.to_owned(), "doctor");
    }
    found
}

/// The oldest open question of an agent that a command can answer.
fn question(team: &Team, name: &str) -> Option<team_model::RequestId> {
    let (_, seat) = team.seats.iter().find(|(it, _)| it.as_str() == name)?;
    let (id, open) = seat.approvals.iter().find(|(_, it)| it.answering.is_none())?;
    open.key.as_ref().map(|_| *id)
}

/// What stands still in a team that runs, and will by itself go on standing still.
#[expect(clippy::type_complexity, reason = "the one closure that collects what waits")]
fn waits_in_running(team: &Team, add: &mut dyn FnMut(&str, Option<&str>, String, &str)) {
    for (name, seat) in &team.seats {
        if matches!(seat.state, SeatState::Stopped { cause: Cause::Exit }) {
            let how = exited(seat).map(|it| format!(" {it}")).unwrap_or_default();
            let words = format!("restart {name}");
            add("exited", Some(name.as_str()), format!("{name}: its program ended{how}"), &words);
        }
        if seat.is_idle() {
            for (id, task) in team.owed_by(name).filter(|(_, it)| it.in_progress) {
                let (what, words) = if let Some(message) = cut_off(team, name, task) {
                    (format!("its turn for task {id} was cut off"), format!("send --again {message}"))
                } else {
                    let what = format!("its turn ended without a report for task {id}");
                    (what, format!("send {name} 'Report task {id}.'"))
                };
                add("owes", Some(name.as_str()), format!("{name}: {what}"), &words);
            }
        }
    }
    if team.leader.bound.is_none() {
        let count = team.untold.iter().filter(|it| it.cause == NoticeCause::Message).count();
        match count {
            0 => {}
            1 => add("messages", None, "One message for you".to_owned(), "inbox leader"),
            many => add("messages", None, format!("{many} messages for you"), "inbox leader"),
        }
    }
}

/// The message with a task whose turn was cut off: nobody knows how far it came.
pub(super) fn cut_off<'a>(team: &Team, name: &AgentName, task: &'a Task) -> Option<&'a MessageId> {
    let message = task.message.as_ref()?;
    let sent = team.messages.values().find(|it| it.id == *message)?;
    let receipt = sent.receipts.get(name)?;
    (receipt.step == ReceiptStep::Unknown).then_some(message)
}

/// How a seat's program ended, as far as it is known.
fn exited(seat: &Seat) -> Option<String> {
    match seat.spawn.as_ref()?.exited? {
        (Some(code), _) => Some(format!("with code {code}")),
        (None, Some(signal)) => Some(format!("by signal {signal}")),
        (None, None) => None,
    }
}

/// What a seat's program asks permission for: the tool, and what it would do with it.
fn asked(store: &Store, seat: &Seat) -> Option<String> {
    let (id, approval) = seat.approvals.iter().find(|(_, it)| it.answering.is_none())?;
    let input = match store.line(id.0).ok().flatten().map(|it| it.event.0) {
        Some(Event::ApprovalRequested { input, .. }) => input,
        _ => None,
    };
    let Some(input) = input else { return Some(approval.tool.clone()) };
    // A command says most where there is one; else all of it does.
    let command = serde_json::from_str::<serde_json::Value>(&input).ok().and_then(|it| {
        let it = it.as_object()?;
        let only = it.values().next().filter(|_| it.len() == 1);
        it.get("command").or(only)?.as_str().map(str::to_owned)
    });
    let shown = command.unwrap_or(input);
    let short: String = shown.chars().take(LONGEST_ASKED).collect();
    let more = if short.len() < shown.len() { " ..." } else { "" };
    Some(format!("{} `{short}{more}`", approval.tool))
}

fn counts(team: &Team) -> BTreeMap<String, u64> {
    let mut counts = team.settled.clone();
    for receipt in team.messages.values().flat_map(|it| it.receipts.values()) {
        *counts.entry(receipt.step.as_str().to_owned()).or_default() += 1;
    }
    counts
}

fn agent(team: &Team, name: &AgentName, seat: &Seat) -> AgentShown {
    let mut held: BTreeMap<String, u64> = BTreeMap::new();
    let waiting = |it: &&Message| it.receipts.get(name).is_some_and(|it| it.step == ReceiptStep::Held);
    for message in team.messages.values().filter(waiting) {
        if let Some(reason) = message.receipts.get(name).and_then(|it| it.held) {
            *held.entry(reason.to_string()).or_default() += 1;
        }
    }
    let reason = match &seat.state {
        SeatState::Failed { why } => Some(why.clone()),
        SeatState::Stopped { cause } => Some(cause.to_string()),
        _ => None,
    };
    let spawn = seat.spawn.as_ref();
    let live = seat.state.is_live();
    AgentShown {
        provider: seat.spec.provider.clone(),
        model: seat.spec.model.clone(),
        role: seat.spec.role.clone(),
        session: SessionShown {
            state: seat.state.as_str().to_owned(),
            id: seat.session.as_ref().map(|it| it.id.to_string()),
            native: seat.session.as_ref().and_then(|it| it.native.clone()),
            pid: spawn.filter(|_| live).and_then(|it| it.provider.as_ref()).map(|it| it.pid),
            pane: spawn.filter(|_| live).and_then(|it| it.pane.clone()),
            reason,
            last_lines: seat.last_lines.clone(),
        },
        activity: activity(seat),
        owes: team
            .owed_by(name)
            .map(|(id, task)| Owed {
                task: id.to_string(),
                subject: task.subject.clone(),
                message_id: task.message.as_ref().map(ToString::to_string),
            })
            .collect(),
        held,
        can_report: spawn
            .filter(|_| live)
            .map(|it| !it.needs.contains(&team_model::ReadyFact::ToolsListed) && !it.tools_lost),
    }
}

pub(crate) fn activity(seat: &Seat) -> ActivityShown {
    let it = &seat.activity;
    let time = |it: chrono::DateTime<chrono::Utc>| it.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
    let state = if seat.state.is_live() || it.kind == ActivityKind::Unknown {
        it.kind
    } else {
        ActivityKind::Unknown
    };
    ActivityShown {
        state: state.to_string(),
        since: it.since.map(time),
        reason: it.reason.clone(),
        until: it.until.map(time),
        evidence: it.proof.as_ref().map(|it| format!("{}: {}", it.source, it.record)),
    }
}
