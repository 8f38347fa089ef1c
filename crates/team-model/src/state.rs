//! The state: what is true now, folded from the log. Bounded: what is settled leaves it.
//!
//! Long: one tree of types that is written into one snapshot.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    ActivityKind, AgentName, BodyRef, Cause, Channel, ClosesOn, Decision, HoldReason, LeaderBinding,
    MessageId, MessageKind, NoticeCause, Origin, ProcessIdentity, Proof, ReadyFact, ReportStatus, RequestId,
    ResultId, RunId, SeatSpec, SessionId, SpawnId, SpawnMode, TaskId, TeamKey, TurnOutcome,
};

/// Everything that is true in a workspace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The last line folded.
    pub seq: u64,
    /// When that line was written.
    pub ts: Option<DateTime<Utc>>,
    /// The id of the workspace that all this is about.
    #[serde(default)]
    pub workspace: String,
    /// The highest epoch any coordinator has had.
    pub epoch: u64,
    /// The coordinator, until it stopped.
    pub coordinator: Option<Coordinator>,
    /// The tmux server, until it ended.
    pub server: Option<Server>,
    /// The teams that were started and not deleted.
    pub teams: BTreeMap<TeamKey, Team>,
    /// Senders' own message ids with the hash of their text, newest last.
    pub own_ids: VecDeque<(String, MessageId, String)>,
    /// Whether some past line could not be read: what was open across it is `unknown`.
    pub damaged: bool,
}

/// The process that alone touches terminals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coordinator {
    /// Its epoch.
    pub epoch: u64,
    /// Which process.
    pub process: ProcessIdentity,
    /// The version of its program.
    pub version: String,
}

/// The private tmux server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Its socket.
    pub socket: String,
    /// Which process.
    pub process: ProcessIdentity,
    /// Its version.
    pub version: String,
}

/// Whether a team runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TeamState {
    /// Its seats run, or are wanted.
    #[default]
    Running,
    /// It is being shut down.
    Stopping,
    /// It was shut down; everything is kept.
    Stopped,
    /// Its terminal or machine is gone.
    Lost,
}

/// A team that was started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Team {
    /// Whether it runs.
    pub state: TeamState,
    /// The seq of `team.started`: lines before belong to an earlier team of this key.
    pub since: u64,
    /// Its display name.
    pub name: String,
    /// Its tmux session.
    pub session_name: String,
    /// Where its TEAM.md and role files are.
    pub dir: String,
    /// The digest of the spec it was started from.
    pub digest: String,
    /// What it is for.
    pub goal: Option<String>,
    /// Who leads it.
    pub leader: Leader,
    /// Its seats.
    pub seats: BTreeMap<AgentName, Seat>,
    /// Its open tasks.
    pub tasks: BTreeMap<TaskId, Task>,
    /// The number of the last task.
    pub last_task: u64,
    /// Its messages with a receipt that is still open.
    pub messages: BTreeMap<u64, Message>,
    /// Counts of settled receipts by step.
    pub settled: BTreeMap<String, u64>,
    /// Its results.
    pub results: Results,
    /// Open questions to humans.
    pub questions: BTreeMap<RequestId, Question>,
    /// What the leader has been told once.
    pub notices: BTreeSet<(NoticeCause, String)>,
    /// What the leader's pane has not been told yet, oldest first; bounded.
    pub untold: VecDeque<Untold>,
}

/// Something the leader is to be told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Untold {
    /// The line it comes from.
    pub seq: u64,
    /// What it is.
    pub cause: NoticeCause,
    /// What it is about.
    pub about: String,
}

/// The person's own agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Leader {
    /// Its pane, where one is bound.
    pub bound: Option<LeaderBinding>,
    /// Why it is not bound any more.
    pub lost: Option<String>,
    /// It is being told everything up to this line; whether it was is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telling: Option<u64>,
}

/// Whether a seat has a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeatState {
    /// Known, never wanted yet.
    Added,
    /// It is to be started.
    Waiting {
        /// How.
        mode: SpawnMode,
    },
    /// Its process is on the way.
    Starting,
    /// Its session is ready.
    Running,
    /// Its session ended.
    Stopped {
        /// Why.
        cause: Cause,
    },
    /// It could not start.
    Failed {
        /// Why.
        why: String,
    },
}

impl SeatState {
    /// Returns the word for it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Waiting { .. } => "waiting",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopped { .. } => "stopped",
            Self::Failed { .. } => "failed",
        }
    }

    /// Says whether a process of it may exist.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Starting | Self::Running)
    }
}

/// A named place in a team.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seat {
    /// The line that added it; its instructions are read from there.
    pub added: u64,
    /// Where it comes from.
    pub origin: Origin,
    /// Who added it; `None` is the leader.
    pub manager: Option<AgentName>,
    /// Whether it may have agents.
    pub lead: bool,
    /// What starts it; the text of its instructions stays in the log.
    pub spec: SeatSpec,
    /// Whether it has a process.
    pub state: SeatState,
    /// Since when.
    pub since: Option<DateTime<Utc>>,
    /// Whether it is being stopped, and why.
    pub stopping: Option<Cause>,
    /// Its conversation.
    pub session: Option<Session>,
    /// Its present or last process.
    pub spawn: Option<Spawn>,
    /// What it does.
    pub activity: Activity,
    /// The turn that runs.
    pub turn: Option<Turn>,
    /// The turn that ended last.
    pub last_turn: Option<Turn>,
    /// How many turns it has had in this session.
    pub turns: u64,
    /// Open permission questions, by the line that asked.
    pub approvals: BTreeMap<RequestId, Approval>,
    /// Questions that were closed last, with how that came.
    #[serde(default)]
    pub closed_questions: VecDeque<(RequestId, String)>,
    /// How often this spawn was allowed one of the team's own tools.
    #[serde(default)]
    pub own_allowed: u32,
    /// The limit that the leader has heard of: until when, where that is known.
    #[serde(default)]
    pub limit_told: Option<Option<DateTime<Utc>>>,
    /// The last reason for which its activity could not be told.
    #[serde(default)]
    pub unsupported: Option<String>,
    /// The message whose text may still stand in the composer.
    pub dirty: Option<MessageId>,
    /// Screen lines kept when it failed.
    pub last_lines: Vec<String>,
    /// Its tasks that ended last, with the message that handed each over.
    #[serde(default)]
    pub closed: VecDeque<(TaskId, Option<MessageId>)>,
}

/// One conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Our id.
    pub id: SessionId,
    /// The provider's id, where it is known.
    pub native: Option<String>,
    /// Whether the program has confirmed that id.
    pub proved: bool,
    /// Whether it has had a turn, and so can be resumed.
    pub used: bool,
}

/// One start of a seat's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawn {
    /// Its id.
    pub id: SpawnId,
    /// How its session began.
    pub mode: SpawnMode,
    /// How messages reach it.
    pub channel: Channel,
    /// The seat file's name.
    pub seat: String,
    /// When it was planned.
    pub planned: Option<DateTime<Utc>>,
    /// Its pane.
    pub pane: Option<String>,
    /// The process that tmux started in that pane.
    pub pane_pid: Option<u32>,
    /// The seat process that claimed it.
    pub claimed: Option<ProcessIdentity>,
    /// The provider's process.
    pub provider: Option<ProcessIdentity>,
    /// The provider's version.
    pub version: Option<String>,
    /// What must still be seen before it is ready.
    pub needs: BTreeSet<ReadyFact>,
    /// How often a key was announced for a question of its start that a person has answered beforehand.
    #[serde(default)]
    pub pressed: u32,
    /// What a person should know of this start.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The process of its tool server.
    #[serde(default)]
    pub tools: Option<ProcessIdentity>,
    /// Whether that has ended.
    #[serde(default)]
    pub tools_lost: bool,
    /// Whether the provider has ended: its exit code and signal.
    pub exited: Option<(Option<i32>, Option<i32>)>,
}

/// What a seat does, since when, and what proves it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Activity {
    /// The word.
    pub kind: ActivityKind,
    /// Since when.
    pub since: Option<DateTime<Utc>>,
    /// Why, where the word alone does not say it.
    pub reason: Option<String>,
    /// Until when, for a limit.
    pub until: Option<DateTime<Utc>>,
    /// What proves it.
    pub proof: Option<Proof>,
    /// The line it comes from.
    pub seq: u64,
}

/// A turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// The line that began it.
    pub seq: u64,
    /// When.
    pub since: Option<DateTime<Utc>>,
    /// The messages that it took.
    pub messages: Vec<MessageId>,
    /// How it ended.
    pub outcome: Option<TurnOutcome>,
}

/// An open permission question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// The tool it is about.
    pub tool: String,
    /// When it was asked.
    pub since: Option<DateTime<Utc>>,
    /// Under which an answer from outside reaches the program, where one can.
    pub key: Option<String>,
    /// Whether that answer is a key, pressed in its own dialog.
    #[serde(default)]
    pub by_keys: bool,
    /// The answer that is on its way.
    pub answering: Option<Answering>,
    /// Why the last answer did not reach the program.
    #[serde(default)]
    pub not_given: Option<NotGiven>,
}

/// What became of an answer that did not reach the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotGiven {
    /// Why.
    pub why: String,
    /// Whether a key was pressed for it.
    pub pressed: bool,
}

/// An answer to a permission question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answering {
    /// What it says.
    pub decision: Decision,
    /// Who gave it: `person`, `rule` or `own_tool`.
    pub by: String,
    /// The message that brings what the model is told with it.
    #[serde(default)]
    pub message: Option<MessageId>,
    /// Whether its key was pressed.
    #[serde(default)]
    pub pressed: bool,
}

impl Approval {
    /// Says whether the key of its answer was pressed, and what that says.
    pub fn pressed(&self) -> Option<Decision> {
        self.answering.as_ref().filter(|it| it.pressed).map(|it| it.decision)
    }

    /// Says how it ended, in words for people.
    pub fn end(&self, how: &str) -> String {
        let by = |it: &Answering| match it.by.as_str() {
            "rule" => "a rule of TEAM.md".to_owned(),
            "own_tool" => "itself, being a question about the team's own tools".to_owned(),
            _ => "a person".to_owned(),
        };
        // A key that was not pressed has answered nothing: somebody there was faster.
        let given = self.answering.as_ref().filter(|it| it.pressed || !self.by_keys);
        let ended = match (how, given) {
            (TURN_ENDED, None) => "its turn has ended".to_owned(),
            (EXITED, None) => "the agent's program has ended".to_owned(),
            (other, None) if other != IN_PANE && self.answering.is_none() => {
                format!("it is closed ({other})")
            }
            (IN_PANE, _) | (_, None) => "it was answered in the agent's own terminal".to_owned(),
            (_, Some(it)) => {
                let done = if it.decision == Decision::Allow { "allowed" } else { "denied" };
                let seen = if how == OFF_SCREEN { "; its dialog is gone, more is not known yet" } else { "" };
                format!("it was {done} by {}{seen}", by(it))
            }
        };
        match self.answering.as_ref().and_then(|it| it.message.as_ref()) {
            Some(id) => format!("{ended}; your words go to it as message {id}"),
            None => ended,
        }
    }
}

/// A question was closed by the answer that was given from outside.
pub const ANSWERED: &str = "answered";
/// A question was answered in the program's own terminal.
pub const IN_PANE: &str = "in_pane";
/// A question is no longer on its program's screen, and its program's records say nothing yet.
pub const OFF_SCREEN: &str = "its question is no longer on the screen";
/// A question went with its turn.
pub const TURN_ENDED: &str = "turn_ended";
/// A question went with its program.
pub const EXITED: &str = "exited";

/// How far a message has come to one receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiptStep {
    /// It is in the log.
    Accepted,
    /// It waits; the receipt says for what.
    Held,
    /// It is on its way.
    Sending,
    /// The program has it.
    Submitted,
    /// A turn has taken it.
    TurnStarted,
    /// That turn ended, or a result names its task.
    Answered,
    /// The program gave it back.
    Returned,
    /// It will never be sent.
    Refused,
    /// Nobody can say whether the program has it.
    Unknown,
    /// Its sender or the engine took it back.
    Withdrawn,
}

impl ReceiptStep {
    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Held => "held",
            Self::Sending => "sending",
            Self::Submitted => "submitted",
            Self::TurnStarted => "turn_started",
            Self::Answered => "answered",
            Self::Returned => "returned",
            Self::Refused => "refused",
            Self::Unknown => "unknown",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// Says whether nothing can follow.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Answered | Self::Returned | Self::Refused | Self::Unknown | Self::Withdrawn)
    }

    /// Says whether this step or a later one of the good way has been reached.
    pub fn has_reached(self, wanted: Self) -> bool {
        self <= Self::Answered && wanted <= Self::Answered && self >= wanted
    }
}

/// The receipt of one receiver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// How far it is.
    pub step: ReceiptStep,
    /// Why it waits.
    pub held: Option<HoldReason>,
    /// How many attempts were begun.
    pub attempts: u32,
    /// The attempt that runs or ran last.
    pub attempt: Option<Attempt>,
    /// Why it ended as it did.
    pub why: Option<String>,
}

/// One attempt to hand a message over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The spawn it goes to.
    pub spawn: SpawnId,
    /// By which channel.
    pub channel: Channel,
    /// The line that announced it.
    pub seq: u64,
    /// When.
    pub since: Option<DateTime<Utc>>,
}

/// A message with an open receipt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// Its kind.
    pub kind: MessageKind,
    /// The sender, as it can be answered.
    pub from: String,
    /// The receivers as addressed.
    pub addressed: String,
    /// The task it hands over or belongs to.
    pub task: Option<TaskId>,
    /// What it answers.
    pub reply_to: Option<MessageId>,
    /// The question it answers.
    #[serde(default)]
    pub request: Option<RequestId>,
    /// A free label.
    pub case_id: Option<String>,
    /// The fingerprint of its text, which stays in the log.
    pub body: BodyRef,
    /// When it was accepted.
    pub since: Option<DateTime<Utc>>,
    /// Whether the leader is among the receivers.
    pub to_leader: bool,
    /// A receipt per receiver.
    pub receipts: BTreeMap<AgentName, Receipt>,
}

/// An open task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// What it is, in one line.
    pub subject: String,
    /// Who made it.
    pub creator: String,
    /// Who is to do it.
    pub owner: Option<AgentName>,
    /// What closes it.
    pub closes_on: ClosesOn,
    /// The message that handed it over.
    pub message: Option<MessageId>,
    /// A free label.
    pub case_id: Option<String>,
    /// Which run it belongs to.
    pub run: Option<RunId>,
    /// The tasks it waits for.
    pub depends_on: Vec<TaskId>,
    /// Raised by each change.
    pub version: u64,
    /// Whether the turn with its brief was proved to begin.
    pub in_progress: bool,
    /// The spawn that had it handed over.
    pub spawn: Option<SpawnId>,
    /// When it was made.
    pub since: Option<DateTime<Utc>>,
}

/// The results of a team.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// All there ever were.
    pub total: u64,
    /// Those that were collected.
    pub collected: u64,
    /// Those with status failed or blocked.
    pub failed: u64,
    /// Those that wait, by id; their texts stay in the log.
    pub uncollected: BTreeMap<ResultId, Report>,
}

/// A result that waits to be collected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The line that holds it.
    pub seq: u64,
    /// Who reported.
    pub agent: String,
    /// What it says.
    pub status: ReportStatus,
    /// Which task it closed.
    pub task: Option<TaskId>,
}

/// A question to a human.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The line that holds it.
    pub seq: u64,
    /// Who asked.
    pub agent: String,
    /// The beginning of the question.
    pub question: String,
    /// When.
    pub since: Option<DateTime<Utc>>,
}

impl State {
    /// Finds the seat that a spawn belongs to, if that spawn is the seat's present one.
    pub fn seat_of_spawn(&self, spawn: SpawnId) -> Option<(&TeamKey, &AgentName, &Seat)> {
        self.teams.iter().find_map(|(key, team)| {
            team.seats
                .iter()
                .find(|(_, seat)| seat.spawn.as_ref().is_some_and(|it| it.id == spawn))
                .map(|(name, seat)| (key, name, seat))
        })
    }

    /// Finds the team that runs a tmux session of this name.
    pub fn team_with_session(&self, session_name: &str) -> Option<(&TeamKey, &Team)> {
        self.teams.iter().find(|(_, team)| team.session_name == session_name)
    }
}

impl Team {
    /// Finds an open message by its id.
    pub fn message(&self, id: &MessageId) -> Option<&Message> {
        match id {
            MessageId::Seq(seq) => self.messages.get(seq),
            MessageId::Own(_) => self.messages.values().find(|it| it.id == *id),
        }
    }

    /// Finds a seat by any spelling of its name.
    pub fn find_seat(&self, name: &str) -> Option<(&AgentName, &Seat)> {
        self.seats.get_key_value(name).or_else(|| self.seats.iter().find(|(it, _)| it.is_same(name)))
    }

    /// Lists the open tasks of an agent, oldest first.
    pub fn owed_by<'a>(&'a self, agent: &'a AgentName) -> impl Iterator<Item = (TaskId, &'a Task)> {
        self.tasks.iter().filter(move |(_, it)| it.owner.as_ref() == Some(agent)).map(|(id, it)| (*id, it))
    }

    /// Says whether any seat may have a process.
    pub fn has_live_seats(&self) -> bool {
        self.seats.values().any(|it| it.state.is_live())
    }
}

/// How long a limit is believed whose end nobody knows.
const UNKNOWN_LIMIT: chrono::TimeDelta = chrono::TimeDelta::minutes(5);

impl Seat {
    /// When its provider's limit ends, if it is at one; where nobody knows, when it may be tried again.
    pub fn limit_ends(&self) -> Option<DateTime<Utc>> {
        let limited = self.activity.kind == ActivityKind::Limited;
        let guess = || self.activity.since.map(|it| it + UNKNOWN_LIMIT);
        if limited { self.activity.until.or_else(guess) } else { None }
    }

    /// Says whether a message could start a turn here now: running, idle, no question open.
    pub fn is_idle(&self) -> bool {
        self.state == SeatState::Running
            && self.activity.kind == ActivityKind::Idle
            && self.approvals.is_empty()
    }
}
