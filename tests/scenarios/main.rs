//! The whole program as a person and as agents use it, with fake agents on a real private tmux.

mod approvals;
mod bell;
mod cli;
mod dialogs;
mod ends;
mod faults;
mod grants;
mod identity;
mod json;
mod leader;
mod log;
mod lost;
mod models;
mod newcomer;
mod places;
mod receipts;
mod refusals;
mod secrets;
mod selftest;
mod spine;
mod start;
mod status;
mod sweep;
mod typing;
mod unbound;
mod words;
