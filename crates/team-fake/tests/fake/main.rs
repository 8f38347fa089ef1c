//! The fake agent on a real pseudo-terminal, without tmux.

mod bell;
mod hooks;
mod servers;
mod sessions;
mod support;
mod terminal;
