//! What a team is: names, ids, events, the state folded from them, and which changes are legal.
//!
//! Knows: the vocabulary of `docs/glossary.md` and every event of `docs/events.md`.
//! Must not know: files, clocks, environment, processes, tmux, providers. Everything here is a plain function of
//! its arguments, so that a log read on another day gives the same state.

mod body;
mod by;
mod event;
mod fold;
mod framing;
mod id;
mod name;
mod process;
mod state;
mod transition;

pub use body::{Body, BodyRef};
pub use by::By;
pub use event::{
    ActivityKind, Artifacts, Cause, Channel, ClosesOn, Decision, Event, FREE_TEXT, HoldReason, LeaderBinding,
    MessageKind, NO_FREE_TEXT, NoticeCause, Origin, Proof, ReadyFact, ReportStatus, ResultSource, SeatSpec,
    SpawnMode, TestRun, TestStatus, TurnOutcome,
};
pub use fold::{CUT_OFF, FOLD_FORMAT};
pub use framing::{Heading, find_message_ids, frame_message, indent_heads};
pub use id::{BadId, MessageId, RequestId, ResultId, RunId, SessionId, SpawnId, TaskId, is_own_message_id};
pub use name::{AgentName, NameError, TeamKey, fold_case};
pub use process::ProcessIdentity;
pub use state::{
    ANSWERED, Activity, Answering, Approval, Attempt, Coordinator, EXITED, IN_PANE, Leader, Message,
    NotGiven, OFF_SCREEN, Question, Receipt, ReceiptStep, Report, Results, Seat, SeatState, Server, Session,
    Spawn, State, TURN_ENDED, Task, Team, TeamState, Turn, Untold,
};
