//! What the two providers of this family share: flags, hooks and records of one form.
//!
//! Knows the form. Must not know which program it is used for; what differs comes
//! in as a [`Family`].

pub(crate) mod hooks;
pub(crate) mod places;
pub(crate) mod records;
pub(crate) mod start;

use crate::provider::ToolNames;

/// Name under which our server is known to the program.
pub(crate) const SERVER: &str = "team_orchestrator";

/// Our tools as models of this family see them.
pub(crate) const TOOLS: ToolNames = ToolNames {
    send: "mcp__team_orchestrator__send_message",
    report: "mcp__team_orchestrator__report_result",
    read: "mcp__team_orchestrator__team_read",
    human: "mcp__team_orchestrator__request_human",
    prefix: "mcp__team_orchestrator__",
};

/// What differs between the programs of this family when they are started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Family {
    /// Name of the provider.
    pub(crate) name: &'static str,
    /// Arguments before all others.
    pub(crate) first_args: &'static [&'static str],
    /// Whether hooks are given as argument lists, without a shell.
    pub(crate) argv_hooks: bool,
    /// Efforts that can be asked for.
    pub(crate) efforts: &'static [&'static str],
    /// The flag for them; without one the wish is heard and changes nothing.
    pub(crate) effort_flag: Option<&'static str>,
}
