//! Operations of a team and the coordinator that carries them out.
//!
//! Knows how the parts work together: log, spec, providers, terminals. Must not know clap, rmcp, or how a provider or
//! tmux works inside. Every feature is here before it has a command or a tool.

pub mod answers;
pub mod bridge;
pub mod clock;
pub mod coordinator;
mod crew;
pub mod decide;
mod discover;
mod error;
pub mod facts;
pub mod failpoint;
pub mod grants;
pub mod guardian;
pub mod hook;
mod identity;
mod launch;
mod models;
pub mod ops;
pub mod process;
mod render;
mod room;
mod screen;
pub mod seat;
pub mod seat_file;
pub mod store;
pub mod wish;
pub mod workspace;

pub use error::{EngineError, ErrorDetail, ErrorKind, whole};
