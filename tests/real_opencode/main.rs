//! The whole program with the real OpenCode, whose model is the stub on loopback.
//!
//! Each test is a few real starts long, so each shows several things. Without npm they are skipped, by name.

mod pane;
mod spine;
mod starts;
mod support;
