//! The whole program with the real Codex, whose model is the stub on loopback.
//!
//! Each test is a few real starts long, so each shows several things. Without npm they are skipped, by name.

mod faults;
mod models;
mod pane;
mod paste;
mod spine;
mod starts;
mod support;
