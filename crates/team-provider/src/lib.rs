//! What differs between agent programs, and nothing else.
//!
//! One module per program says how to start it, what its hooks and records
//! mean, what its screens show and how text is typed into it. Everything here is
//! a function of its arguments: no file is opened, no clock is read, no terminal
//! is touched and nothing is written down. Nothing outside this crate names a
//! program; callers ask [`provider()`] for one and talk to the trait.

mod bridge;
mod claude;
mod claude_like;
mod codex;
mod copilot;
mod environment;
mod fact;
mod fake;
mod gemini;
mod launch;
mod lines;
mod moment;
mod opencode;
mod provider;
mod registry;
mod screen;
mod seat;
mod typing;
mod version;

pub use bridge::{Bridge, BridgeContext, Input, Link, Output, SESSION};
pub use environment::{clean_env, is_agents_mark, is_denied};
pub use fact::{
    ActivityKind, ApprovalAnswer, EndReason, Fact, HookContext, HookSession, RecordKind, SeatPlaces,
    TurnOutcome, Watched,
};
pub use launch::{Channel, FileLink, GeneratedFile, Launch, ReadyFact, Unsupported};
pub use moment::reset_time;
pub use provider::{
    AuthModes, Capabilities, ModelList, ModelName, ProfileKeys, Program, Provider, ToolNames,
};
pub use registry::{Known, known, provider, providers, similar};
pub use screen::{
    AnswerKey, Composer, Dialog, DialogKind, DialogRule, Mark, Question, Screen, ScreenReading,
};
pub use seat::{Auth, FolderTrust, SeatContext, Start};
pub use typing::{Framed, Typing, UnsafeText};
pub use version::{VersionRule, VersionVerdict, Versions, check_version, version_rules};
