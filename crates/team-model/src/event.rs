//! Every fact the log can hold, named in the past tense.
//!
//! New variants and new optional fields are compatible; anything else is a new variant beside the old one.
//! `docs/events.md` says for each who writes it and what it means.
//!
//! Long: one list of everything that can happen, with the words it is told in.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::{
    AgentName, Body, MessageId, ProcessIdentity, RequestId, ResultId, RunId, SessionId, SpawnId, TaskId,
    TeamKey,
};

macro_rules! words {
    ($(#[$doc:meta])* $type:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $type {
            $($(#[$vdoc])* #[serde(rename = $word)] $variant,)+
        }
        impl $type {
            /// Returns the word used in the log, in JSON and on the screen.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
        }
        impl std::fmt::Display for $type {
            fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                out.pad(self.as_str())
            }
        }
        impl std::str::FromStr for $type {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|it| it.as_str() == text)
                    .ok_or_else(|| Self::ALL.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(", "))
            }
        }
    };
}

words! {
    /// What a message is for.
    MessageKind {
        /// Plain text.
        Message = "message",
        /// A task handed over.
        Brief = "brief",
        /// A receipt in words.
        Ack = "ack",
        /// A plan to be approved.
        Plan = "plan",
        /// A question that wants an answer.
        Question = "question",
        /// News of work in progress.
        Progress = "progress",
        /// A result on its way to a manager.
        Report = "report",
        /// Something the engine tells a manager once.
        Notice = "notice",
        /// A reminder.
        Nudge = "nudge",
        /// A wish that the receiver ends.
        ShutdownRequest = "shutdown_request",
        /// The answer to that wish.
        ShutdownResponse = "shutdown_response",
        /// A question to a human.
        HumanRequest = "human_request",
        /// A run has settled.
        RunSettled = "run_settled",
    }
}
words! {
    /// Why a message waits.
    HoldReason {
        /// The receiver has no session.
        NoSession = "no_session",
        /// No slot is free.
        NoSlot = "no_slot",
        /// The receiver is in a turn and its channel needs it idle.
        Busy = "busy",
        /// Somebody's text stands in the composer.
        Draft = "draft",
        /// A dialog is open.
        Dialog = "dialog",
        /// The provider's limit is reached.
        Limited = "limited",
        /// The pane is in a mode of tmux.
        Mode = "mode",
        /// A person may be typing.
        Person = "person",
        /// An earlier text may still stand in the composer.
        Dirty = "dirty",
        /// The channel without keys is not proved yet.
        NoBell = "no_bell",
    }
}
words! {
    /// How a message reaches a program.
    Channel {
        /// A watched file whose change makes the program fetch its messages; no keys.
        Bell = "bell",
        /// A guarded paste into an idle seat.
        Keys = "keys",
    }
}
words! {
    /// Something that must be seen before a seat is ready.
    ReadyFact {
        /// The tool server has answered `tools/list`.
        ToolsListed = "tools_listed",
        /// The program said that its session began.
        SessionStarted = "session_started",
        /// The program's own record says that it is idle.
        StatusIdle = "status_idle",
    }
}
words! {
    /// What an agent does.
    ActivityKind {
        /// Nothing, and it can take a message.
        Idle = "idle",
        /// A turn runs.
        Working = "working",
        /// A permission question is open.
        AwaitingApproval = "awaiting_approval",
        /// A question of trust (folder, hooks, servers) is open.
        AwaitingTrust = "awaiting_trust",
        /// The provider's limit is reached.
        Limited = "limited",
        /// The conversation is being compacted.
        Compacting = "compacting",
        /// Nothing proves what it does; the reason says why.
        Unknown = "unknown",
    }
}
words! {
    /// What is answered to a permission question.
    Decision {
        /// The tool may run, this once.
        Allow = "allow",
        /// It may not.
        Deny = "deny",
    }
}
words! {
    /// How a turn ended.
    TurnOutcome {
        /// With a final reply.
        Answer = "answer",
        /// By a person.
        Interrupted = "interrupted",
        /// By an error of the provider.
        Error = "error",
    }
}
words! {
    /// How a session begins.
    SpawnMode {
        /// A new conversation.
        Fresh = "fresh",
        /// The same conversation goes on.
        Resume = "resume",
        /// A copy of another conversation.
        Fork = "fork",
    }
}
words! {
    /// Why a seat stopped.
    Cause {
        /// Somebody stopped it.
        Stop = "stop",
        /// The team was shut down.
        Shutdown = "shutdown",
        /// Its run settled.
        Settled = "settled",
        /// Its terminal or machine is gone.
        Lost = "lost",
        /// It ended by itself.
        Exit = "exit",
    }
}
words! {
    /// Where a seat comes from.
    Origin {
        /// A role file.
        Declared = "declared",
        /// A tool or command.
        Added = "added",
        /// A run.
        Run = "run",
        /// A member was launched.
        Launched = "launched",
        /// A copy of a seat without its conversation.
        Cloned = "cloned",
        /// A copy of a seat with its conversation.
        Forked = "forked",
    }
}
words! {
    /// What a report says of its task.
    ReportStatus {
        /// Done.
        Success = "success",
        /// Done in part.
        Partial = "partial",
        /// Not done.
        Failed = "failed",
        /// Cannot go on.
        Blocked = "blocked",
    }
}
words! {
    /// Where a result comes from.
    ResultSource {
        /// The agent reported it.
        Report = "report",
        /// The final reply of a turn.
        Reply = "reply",
        /// The turn limit.
        TurnLimit = "turn_limit",
        /// The end of the process.
        Exit = "exit",
    }
}
words! {
    /// What closes a task.
    ClosesOn {
        /// A report.
        Report = "report",
        /// The final reply of the turn.
        Reply = "reply",
    }
}
words! {
    /// What the leader is told once.
    NoticeCause {
        /// A result has come.
        Result = "result",
        /// An agent ended by itself.
        Exit = "exit",
        /// A permission question is open.
        Approval = "approval",
        /// A seat could not start.
        StartFailed = "start_failed",
        /// A provider's limit is reached.
        Limit = "limit",
        /// A human is asked.
        Human = "human",
        /// A message to the leader has come.
        Message = "message",
        /// The tmux server is gone.
        Lost = "lost",
    }
}
words! {
    /// How a test named in a report ended.
    TestStatus {
        /// It passed.
        Passed = "passed",
        /// It failed.
        Failed = "failed",
        /// It was not run.
        Skipped = "skipped",
    }
}

/// A test that a report names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestRun {
    /// The command.
    pub command: String,
    /// How it ended.
    pub status: TestStatus,
    /// A remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The lists of a report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifacts {
    /// Tests and how they ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<TestRun>,
    /// What was changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// What was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<String>,
    /// What may go wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<String>,
    /// What should come next.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub next_actions: Vec<String>,
    /// What proves it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
    /// What was learned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lessons: Vec<String>,
}

/// Where a fact about a message comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// `hook`, `transcript`, `status_file`, `screen`, `channel` or `process`.
    pub source: String,
    /// The record that proves it, by name.
    pub record: String,
}

/// Everything needed to start a seat without its role file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatSpec {
    /// The line that says what it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub role: String,
    /// The provider's name.
    pub provider: String,
    /// The model, where one is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The effort, where one is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// `subscription`, `official_api` or `compatible_api`.
    pub auth_mode: String,
    /// The profile's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The tools it may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Where it works, relative to the workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_directory: Option<String>,
    /// What its role file tells it.
    #[serde(default)]
    pub instructions: Body,
}

/// The pane of the person's own agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderBinding {
    /// The socket of the person's tmux server.
    pub socket: String,
    /// The pane's id there.
    pub pane: String,
    /// The process of that pane.
    pub process: ProcessIdentity,
    /// The server that holds it.
    pub server: ProcessIdentity,
}

/// Makes the enum, and beside it one with the same variants that is read without looking ahead: where the type of an
/// event stands among its fields, the usual way has to keep all fields aside until it is known.
macro_rules! events {
    (
        $(#[$meta:meta])*
        pub enum Event {
            $(
                $(#[doc = $doc:literal])*
                #[serde(rename = $name:literal)]
                $variant:ident { $($(#[$fmeta:meta])* $field:ident: $type:ty),* $(,)? },
            )+
            ;
            $(#[$ometa:meta])*
            $other:ident,
        }
    ) => {
        $(#[$meta])*
        pub enum Event {
            $($(#[doc = $doc])* #[serde(rename = $name)] $variant { $($(#[$fmeta])* $field: $type,)* },)+
            $(#[$ometa])*
            $other,
        }

        #[derive(Deserialize)]
        enum Quick {
            $(#[serde(rename = $name)] $variant { $($(#[$fmeta])* $field: $type,)* },)+
        }

        impl Event {
            /// The words of all types, as they stand in the log.
            pub const TYPES: &'static [&'static str] = &[$($name),+];
        }

        impl From<Quick> for Event {
            fn from(quick: Quick) -> Self {
                match quick {
                    $(Quick::$variant { $($field,)* } => Self::$variant { $($field,)* },)+
                }
            }
        }
    };
}

/// Fields with what people, agents and programs wrote; nothing is ever decided by what stands in them.
pub const FREE_TEXT: &[&str] = &[
    "answer",
    "artifacts",
    "case_id",
    "changes",
    "choices",
    "command",
    "evidence",
    "goal",
    "how",
    "ignored",
    "input",
    "last_lines",
    "lessons",
    "message",
    "next_actions",
    "note",
    "notes",
    "presentation",
    "question",
    "reason",
    "risks",
    "subject",
    "summary",
    "text",
    "what",
    "why",
];
/// Fields of those names that hold a word of ours in events of this type.
pub const NO_FREE_TEXT: &[(&str, &str)] = &[("message.held", "why"), ("task.created", "message")];

events! {
/// A fact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
#[expect(missing_docs, reason = "docs/events.md documents each event and field; names say the rest")]
pub enum Event {
    // The log itself.
    #[serde(rename = "log.opened")]
    LogOpened { log_id: String, format: u32, prev_seq: u64, prev_hash: String },
    #[serde(rename = "log.sealed")]
    LogSealed { last_seq: u64 },
    #[serde(rename = "log.damaged")]
    LogDamaged { from: u64, to: u64 },
    #[serde(rename = "log.restored")]
    LogRestored {},
    #[serde(rename = "log.tampered")]
    LogTampered { at: u64 },
    #[serde(rename = "log.tail_set_aside")]
    LogTailSetAside { bytes: u64 },

    // The coordinator and its tmux server.
    #[serde(rename = "coordinator.started")]
    CoordinatorStarted { epoch: u64, process: ProcessIdentity, version: String },
    #[serde(rename = "coordinator.stopped")]
    CoordinatorStopped { epoch: u64, why: String },
    #[serde(rename = "server.started")]
    ServerStarted { socket: String, process: ProcessIdentity, version: String },
    #[serde(rename = "server.lost")]
    ServerLost { process: ProcessIdentity, why: String },
    #[serde(rename = "server.stopped")]
    ServerStopped { process: ProcessIdentity },

    // Rights.
    #[serde(rename = "grant.changed")]
    GrantChanged { grant: String, given: bool },

    // Teams.
    #[serde(rename = "team.started")]
    TeamStarted {
        name: String,
        session_name: String,
        dir: String,
        digest: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        goal: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        leader: Option<LeaderBinding>,
    },
    #[serde(rename = "team.stop_planned")]
    TeamStopPlanned {},
    #[serde(rename = "team.stopped")]
    TeamStopped { clean: bool },
    #[serde(rename = "team.lost")]
    TeamLost { why: String },
    #[serde(rename = "team.deleted")]
    TeamDeleted {},
    #[serde(rename = "leader.bound")]
    LeaderBound { leader: LeaderBinding },
    #[serde(rename = "leader.lost")]
    LeaderLost { why: String },
    #[serde(rename = "leader.telling")]
    LeaderTelling { through: u64 },
    #[serde(rename = "leader.told")]
    LeaderTold {
        through: u64,
        /// Whether nobody saw that it was told.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        unsure: bool,
    },
    #[serde(rename = "leader.not_told")]
    LeaderNotTold { through: u64 },

    // Agents and their processes.
    #[serde(rename = "agent.added")]
    AgentAdded {
        agent: AgentName,
        origin: Origin,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        manager: Option<AgentName>,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        lead: bool,
        spec: SeatSpec,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        member: Option<String>,
    },
    #[serde(rename = "agent.queued")]
    AgentQueued { agent: AgentName, mode: SpawnMode },
    #[serde(rename = "agent.stop_planned")]
    AgentStopPlanned { agent: AgentName, cause: Cause },
    #[serde(rename = "agent.stopped")]
    AgentStopped {
        agent: AgentName,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        cause: Cause,
    },
    #[serde(rename = "agent.failed")]
    AgentFailed {
        agent: AgentName,
        why: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        last_lines: Vec<String>,
    },
    #[serde(rename = "agent.removed")]
    AgentRemoved { agent: AgentName },
    #[serde(rename = "spawn.planned")]
    SpawnPlanned {
        agent: AgentName,
        mode: SpawnMode,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        native: Option<String>,
        needs: Vec<ReadyFact>,
        channel: Channel,
        /// The seat file's name in the state directory.
        seat: String,
        /// What a person should know of this start.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
    },
    #[serde(rename = "spawn.opened")]
    SpawnOpened { spawn: SpawnId, pane: String, pid: u32 },
    #[serde(rename = "session.claimed")]
    SessionClaimed { spawn: SpawnId, process: ProcessIdentity },
    #[serde(rename = "spawn.superseded")]
    SpawnSuperseded { spawn: SpawnId, why: String },
    #[serde(rename = "restart.fresh_spawn")]
    RestartFreshSpawn { agent: AgentName, why: String },

    #[serde(rename = "dialog.pressing")]
    DialogPressing { spawn: SpawnId, dialog: String, attempt: u32 },

    // What was seen of a seat.
    #[serde(rename = "provider.started")]
    ProviderStarted {
        spawn: SpawnId,
        process: ProcessIdentity,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
    },
    #[serde(rename = "provider.exited")]
    ProviderExited {
        spawn: SpawnId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signal: Option<i32>,
    },
    #[serde(rename = "session.started")]
    SessionStarted { spawn: SpawnId, native: String, source: String },
    /// The seat's own program goes on with another conversation, as a person told it to.
    #[serde(rename = "session.replaced")]
    SessionReplaced { spawn: SpawnId, native: String, source: String },
    #[serde(rename = "session.compacted")]
    SessionCompacted { spawn: SpawnId },
    #[serde(rename = "tools.listed")]
    ToolsListed {
        spawn: SpawnId,
        /// The tool server's process.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<ProcessIdentity>,
    },
    #[serde(rename = "tools.lost")]
    ToolsLost { spawn: SpawnId },
    #[serde(rename = "turn.started")]
    TurnStarted {
        spawn: SpawnId,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        messages: Vec<MessageId>,
        chars: u64,
        proof: Proof,
    },
    #[serde(rename = "turn.ended")]
    TurnEnded {
        spawn: SpawnId,
        outcome: TurnOutcome,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        chars: u64,
        proof: Proof,
    },
    #[serde(rename = "activity.observed")]
    ActivityObserved {
        spawn: SpawnId,
        activity: ActivityKind,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<DateTime<Utc>>,
        /// When the program wrote the record this was read from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<DateTime<Utc>>,
        proof: Proof,
    },
    #[serde(rename = "approval.requested")]
    ApprovalRequested {
        spawn: SpawnId,
        tool: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        choices: Vec<String>,
        /// Under which an answer from outside reaches the program; without it only its own terminal can answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        /// Whether that answer is a key, pressed in its own dialog.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_keys: bool,
        proof: Proof,
    },
    #[serde(rename = "approval.answering")]
    ApprovalAnswering {
        spawn: SpawnId,
        request: RequestId,
        decision: Decision,
        /// `person`, `rule`, or `own_tool` for one of the team's tools.
        by: String,
        /// The rule that answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pattern: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// The message that brings those words, where the answer itself cannot.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message_id: Option<MessageId>,
    },
    /// A key is about to be pressed for an answer.
    #[serde(rename = "approval.pressing")]
    ApprovalPressing {
        spawn: SpawnId,
        request: RequestId,
        attempt: u32,
        /// It was not: the screen had changed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        refused: bool,
    },
    /// The answer did not reach the program: the question is open as before.
    #[serde(rename = "approval.not_given")]
    ApprovalNotGiven {
        spawn: SpawnId,
        request: RequestId,
        why: String,
        /// Whether a key was pressed for it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pressed: bool,
    },
    #[serde(rename = "approval.closed")]
    ApprovalClosed {
        spawn: SpawnId,
        /// Which question; without it and without a key, all of the seat.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        how: String,
    },
    #[serde(rename = "provider.classify.unsupported")]
    ProviderClassifyUnsupported { spawn: SpawnId, reason: String },
    #[serde(rename = "observation.foreign")]
    ObservationForeign { spawn: SpawnId, what: String },
    #[serde(rename = "lane.cleared")]
    LaneCleared { agent: AgentName, proof: Proof },

    // Messages.
    #[serde(rename = "message.accepted")]
    MessageAccepted {
        id: MessageId,
        kind: MessageKind,
        from: String,
        to: Vec<AgentName>,
        /// Whether the leader is among the receivers.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        to_leader: bool,
        addressed: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<MessageId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<RequestId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        case_id: Option<String>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        presentation: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        ignored: BTreeMap<String, String>,
        body: Body,
    },
    #[serde(rename = "message.held")]
    MessageHeld { id: MessageId, receiver: AgentName, why: HoldReason },
    #[serde(rename = "message.sending")]
    MessageSending {
        id: MessageId,
        receiver: AgentName,
        attempt: u32,
        channel: Channel,
        spawn: SpawnId,
        receiver_process: ProcessIdentity,
        proof_from: u64,
        /// The file that holds the text where only a pointer to it is handed over.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
    },
    #[serde(rename = "message.submitted")]
    MessageSubmitted {
        id: MessageId,
        receiver: AgentName,
        /// Whether a turn has taken it already.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        in_turn: bool,
        proof: Proof,
    },
    #[serde(rename = "message.not_sent")]
    MessageNotSent { id: MessageId, receiver: AgentName, attempt: u32, proof: Proof },
    #[serde(rename = "message.unknown")]
    MessageUnknown {
        id: MessageId,
        receiver: AgentName,
        attempt: u32,
        why: String,
        /// Whether its text may still stand in the composer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        staged: bool,
    },
    #[serde(rename = "message.again")]
    MessageAgain { id: MessageId, receiver: AgentName },
    #[serde(rename = "message.returned")]
    MessageReturned { id: MessageId, receiver: AgentName, why: String },
    #[serde(rename = "message.refused")]
    MessageRefused { id: MessageId, receiver: AgentName, why: String },
    #[serde(rename = "message.withdrawn")]
    MessageWithdrawn { id: MessageId, receiver: AgentName, why: String },

    // Tasks and results.
    #[serde(rename = "task.created")]
    TaskCreated {
        id: TaskId,
        creator: String,
        subject: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<AgentName>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        depends_on: Vec<TaskId>,
        closes_on: ClosesOn,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        run: Option<RunId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<MessageId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        case_id: Option<String>,
    },
    #[serde(rename = "task.completed")]
    TaskCompleted { id: TaskId, result: ResultId },
    #[serde(rename = "task.failed")]
    TaskFailed { id: TaskId, result: ResultId },
    #[serde(rename = "task.canceled")]
    TaskCanceled { id: TaskId, why: String },
    #[serde(rename = "task.released")]
    TaskReleased { id: TaskId, why: String },
    #[serde(rename = "mcp.report_result")]
    McpReportResult {
        id: ResultId,
        agent: String,
        status: ReportStatus,
        summary: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<TaskId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        case_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<Body>,
        #[serde(default)]
        lists: Artifacts,
        source: ResultSource,
        /// `mcp` or `cli`.
        via: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        late: bool,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        partial: bool,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        presentation: BTreeMap<String, String>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        ignored: BTreeMap<String, String>,
    },
    #[serde(rename = "collect.result")]
    CollectResult { results: Vec<ResultId> },

    // People.
    #[serde(rename = "human.asked")]
    HumanAsked {
        id: RequestId,
        agent: String,
        question: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        choices: Vec<String>,
    },
    #[serde(rename = "human.answered")]
    HumanAnswered { id: RequestId, answer: String },
    #[serde(rename = "notice.raised")]
    NoticeRaised { cause: NoticeCause, about: String },

    /// A workspace was copied: everything before belongs to the original.
    #[serde(rename = "workspace.adopted")]
    WorkspaceAdopted {
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        copied_from: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        teams: Vec<TeamKey>,
    },

    ;
    /// Written by a newer version: kept in the file, ignored by the fold.
    #[serde(other)]
    Unknown,
}
}

impl Event {
    /// Reads an event as a line of the log holds it; what this version cannot read is unknown.
    pub fn read(json: &str) -> Self {
        Self::read_quickly(json).or_else(|| serde_json::from_str(json).ok()).unwrap_or(Self::Unknown)
    }

    /// Reads an event in the form in which lines are written, if it is one of this version: a log is read whole where
    /// there is no snapshot.
    pub fn read_quickly(json: &str) -> Option<Self> {
        let (word, rest) = json.strip_prefix("{\"type\":\"")?.split_once('"')?;
        let rest = rest.strip_prefix(',').or_else(|| (rest == "}").then_some(rest))?;
        let plain = |it: u8| it.is_ascii_lowercase() || matches!(it, b'.' | b'_');
        if !word.bytes().all(plain) {
            return None;
        }
        // The same with the type in front: {"a.b":{..}}.
        let text = ["{\"", word, "\":{", rest, "}"].concat();
        serde_json::from_str::<Quick>(&text).ok().map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_way_reads_what_the_usual_way_reads() {
        let lines = [
            r#"{"type":"log.restored"}"#,
            r#"{"type":"team.stop_planned","now":true}"#,
            r#"{"type":"message.held","id":"m-3","receiver":"w1","why":"busy"}"#,
            r#"{"type":"message.held","id":"m-3","receiver":"w1","why":"busy","from_tomorrow":{"a":[1]}}"#,
            r#"{"type":"turn.started","spawn":"x-3","chars":7,"proof":{"source":"hook","record":"a \"b\""}}"#,
            r#"{"now":true,"type":"team.stop_planned"}"#,
            r#"{ "type" : "team.stop_planned", "now" : true }"#,
            r#"{"type":"from.tomorrow","a":1}"#,
            r#"{"type":"message.held","id":"m-3"}"#,
            r#"{"type":"Unknown"}"#,
            "[]",
        ];
        for line in lines {
            let usual = serde_json::from_str(line).unwrap_or(Event::Unknown);
            assert_eq!(Event::read(line), usual, "{line}");
        }
        // Older lines say how soon.
        assert_eq!(Event::read(lines[1]), Event::TeamStopPlanned {});
    }
}
