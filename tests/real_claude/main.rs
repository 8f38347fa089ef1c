//! The whole program with the real Claude Code, whose model is the stub on loopback.
//!
//! Each test is a few real starts long, so each shows several things. Without npm they are skipped, by name.

mod approvals;
mod compact;
mod keys;
mod pane;
mod spine;
mod starts;
mod support;
