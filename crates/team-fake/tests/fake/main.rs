//! The fake agent on a real pseudo-terminal, without tmux.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod bell;
mod codex;
mod copilot;
mod hooks;
mod servers;
mod sessions;
mod support;
mod terminal;
