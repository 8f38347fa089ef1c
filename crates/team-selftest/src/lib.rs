//! What must hold for an agent program, tried on a small team of it.
//!
//! Uses the program as people and scripts do: its command line and its JSON. Must not know the log, tmux, or how a
//! provider works; what the agent was given is told by the other end, the model or the built-in agent's own record.

mod checks;
mod interrupt;
mod other_end;
mod person;
mod world;

use std::path::PathBuf;

pub use interrupt::{exit_code, take_signals};
use schemars::JsonSchema;
use serde::Serialize;

/// What is to be tried.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Our own program.
    pub program: PathBuf,
    /// A directory that only this user may write, below which everything is made and removed again.
    pub base: PathBuf,
    /// The provider.
    pub provider: String,
    /// Whether the built-in agent plays its program, in that program's clothes.
    pub played: bool,
}

/// How one promise fared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    /// The provider.
    pub provider: String,
    /// The promise.
    pub name: &'static str,
    /// Whether it holds.
    pub ok: bool,
    /// Whether it was tried at all.
    pub tried: bool,
    /// How it showed, or what was seen instead.
    pub detail: String,
    /// What was measured on the way.
    pub figures: Figures,
}

/// What a start took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Figures {
    /// From the command to the proof that the agent can take a message, in milliseconds.
    pub start_ms: Option<u64>,
    /// Resident memory of the agent's process and all below it, in KiB.
    pub memory_kib: Option<u64>,
    /// How many processes these are.
    pub processes: Option<usize>,
}

/// Why nothing could be tried.
#[derive(Debug, thiserror::Error)]
pub enum SelftestError {
    /// The provider is not known, or not built.
    #[error("there is no provider `{0}`")]
    Provider(String),
    /// A place to work in could not be made.
    #[error("failed to {doing} `{path}`")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The built-in agent does not play this program.
    #[error("the built-in agent does not play `{0}`")]
    NotPlayed(String),
}

/// Tries everything on one provider; `tell` hears of each promise as it is known.
///
/// Once [`exit_code`] says that the program is to end, nothing more is tried; what was started has ended when this
/// returns.
pub fn run(plan: &Plan, tell: &mut dyn FnMut(&Check)) -> Result<Vec<Check>, SelftestError> {
    let provider = team_provider::provider(&plan.provider)
        .ok_or_else(|| SelftestError::Provider(plan.provider.clone()))?;
    let world = world::World::new(plan, provider)?;
    let mut found = Vec::new();
    checks::run(&world, &mut |check| {
        tell(&check);
        found.push(check);
    });
    Ok(found)
}
