//! Everything that only a real tmux can show. Each test has a server of its own on a socket in a
//! temporary directory, which is ended with it.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod attached;
mod helpers;
mod panes;
mod screens;
mod server;
mod support;
mod typing;
mod user;
mod wrapper;
