//! The operations of a team as MCP tools on one stdio server.
//!
//! Knows the protocol, the table of tools and how arguments are checked; it is the only crate that knows rmcp. Must
//! not know terminals, the files of the log, or how an operation is carried out: it asks a [`Backend`].
//!
//! The process that calls [`serve`] is meant to be thin and to outlast every mishap: clients do not start a server
//! again that ended, and an agent without its tools can no longer report.

mod answer;
mod arguments;
mod calls;
mod lines;
mod near;
mod process;
mod reference;
mod resolve;
mod schema;
mod server;
mod table;
mod transport;

pub use crate::{
    answer::{Answer, ToolError},
    calls::{
        IgnoredArg, MessageKind, Presentation, ReportResultArgs, ReportStatus, RequestHumanArgs,
        SendMessageArgs, TeamReadArgs, TeamReadWhat, TestRun, TestStatus, ToolCall, ToolRequest,
    },
    reference::reference,
    server::{ServeError, serve},
};

/// The name under which clients know the server.
pub const SERVER_NAME: &str = "team_orchestrator";

/// Who is calling, and so which tools there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolSet {
    /// A seat.
    Worker,
    /// A seat that may have seats of its own.
    Lead,
    /// The person's own agent.
    Leader,
    /// The tools for lasting members alone.
    Members,
    /// A caller without a valid token: nobody in particular, and never the leader.
    Unbound,
}

/// Returns the names of the tools that a set lists, in order.
pub fn tool_names(set: ToolSet) -> Vec<&'static str> {
    table::listed(set).map(|it| it.name).collect()
}

/// Carries calls out.
///
/// All methods may block; they are called on threads of their own. Calls that change something are made one after the
/// other, in the order in which the client sent them.
pub trait Backend: Send + Sync + 'static {
    /// Returns who is calling. Asked anew for every list and every call.
    fn set(&self) -> ToolSet;

    /// Returns what a client is told of itself besides what the tools are for.
    fn instructions(&self) -> Option<String> {
        None
    }

    /// Carries out one call.
    fn call(&self, call: ToolCall) -> Result<Answer, ToolError>;

    /// Notes that a client has got its list of tools, which shows that it can use them.
    fn listed(&self) {}
}
