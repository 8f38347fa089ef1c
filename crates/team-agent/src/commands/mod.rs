//! One file per command: its arguments, and what it shows.

pub(crate) mod approvals;
pub(crate) mod approve;
pub(crate) mod attach;
pub(crate) mod collect;
pub(crate) mod compile;
pub(crate) mod completions;
pub(crate) mod coordinator;
pub(crate) mod delete;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod hook;
pub(crate) mod inbox;
pub(crate) mod init;
pub(crate) mod mcp;
pub(crate) mod profile;
pub(crate) mod quick_start;
pub(crate) mod report;
pub(crate) mod restart;
pub(crate) mod results;
pub(crate) mod schema;
pub(crate) mod seat;
pub(crate) mod send;
pub(crate) mod shutdown;
pub(crate) mod status;
pub(crate) mod wait;
