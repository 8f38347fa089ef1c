//! Calls that can be carried out, with arguments that have been checked.
//!
//! Knows what a call says. Must not know how it came, nor what is done with it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One checked call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// What is asked for.
    pub request: ToolRequest,
    /// Arguments that were given, are accepted, and change nothing about who speaks.
    pub ignored: Vec<IgnoredArg>,
    /// The name under which the tool was called, where that is not its own.
    pub alias: Option<String>,
    /// What the client said about the call besides its arguments, such as ids of its session and turn.
    pub meta: Map<String, Value>,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolRequest {
    /// `send_message`.
    SendMessage(SendMessageArgs),
    /// `report_result`.
    ReportResult(ReportResultArgs),
    /// `team_read`.
    TeamRead(TeamReadArgs),
    /// `request_human`.
    RequestHuman(RequestHumanArgs),
}

impl ToolRequest {
    /// Returns the name of the tool.
    pub fn tool(&self) -> &'static str {
        match self {
            Self::SendMessage(_) => "send_message",
            Self::ReportResult(_) => "report_result",
            Self::TeamRead(_) => "team_read",
            Self::RequestHuman(_) => "request_human",
        }
    }
}

/// An argument that is accepted and has no effect of its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IgnoredArg {
    /// Its name.
    pub name: String,
    /// The value as given.
    pub value: Value,
}

/// Arguments of `send_message`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SendMessageArgs {
    /// Names as written by the caller; never empty.
    pub to: Vec<String>,
    /// The text; never blank, at most 1 MiB.
    pub content: String,
    /// What sort of message it is.
    #[serde(default)]
    pub kind: MessageKind,
    /// The task it is about.
    pub task: Option<String>,
    /// The message it answers.
    pub reply_to: Option<String>,
    /// The caller's own id, which makes a repeated call harmless.
    pub id: Option<String>,
    /// How it is shown.
    pub presentation: Option<Presentation>,
}

/// The kinds of message that an agent can write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// Anything.
    #[default]
    Message,
    /// A message was understood.
    Ack,
    /// What its sender intends to do.
    Plan,
    /// Something its sender wants to know.
    Question,
    /// How far its sender has come.
    Progress,
}

/// How a message or result is shown and filed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presentation {
    /// A label to find it by.
    pub case_id: Option<String>,
    /// Where it should be shown.
    pub sink: Option<String>,
    /// What sort of text it is.
    pub class: Option<String>,
}

/// Arguments of `report_result`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ReportResultArgs {
    /// What came of it; 1 to 2000 characters.
    pub summary: String,
    /// How the task ended.
    pub status: ReportStatus,
    /// The task, where the caller named one.
    pub task: Option<String>,
    /// The full report.
    pub text: Option<String>,
    /// Commands that were run to check the work.
    #[serde(default)]
    pub tests: Vec<TestRun>,
    /// Files that changed.
    #[serde(default)]
    pub changes: Vec<String>,
    /// Files or links that the work produced.
    #[serde(default)]
    pub artifacts: Vec<String>,
    /// What could be wrong.
    #[serde(default)]
    pub risks: Vec<String>,
    /// What should happen next.
    #[serde(default)]
    pub next_actions: Vec<String>,
    /// What shows that it is so.
    #[serde(default)]
    pub evidence: Vec<String>,
    /// What is worth knowing next time.
    #[serde(default)]
    pub lessons: Vec<String>,
    /// How it is shown.
    pub presentation: Option<Presentation>,
}

/// How a task ended, in the words of the agent that did it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportStatus {
    /// Done.
    Success,
    /// Done, with something left over.
    Partial,
    /// Not done.
    Failed,
    /// Not done, for a reason outside the agent's hands.
    Blocked,
}

/// A command that was run to check the work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestRun {
    /// The command.
    pub command: String,
    /// How it ended.
    pub status: TestStatus,
    /// What to know about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// How such a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestStatus {
    /// As it should.
    Passed,
    /// Not as it should.
    Failed,
    /// It was not run.
    Skipped,
}

/// Arguments of `team_read`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct TeamReadArgs {
    /// The `next` of an earlier answer.
    pub since: Option<u64>,
    /// What to read.
    #[serde(default)]
    pub what: TeamReadWhat,
    /// How many messages at most, 1 to 200.
    pub limit: Option<u16>,
}

/// What `team_read` shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TeamReadWhat {
    /// The agents.
    Tree,
    /// The messages.
    Room,
    /// Both.
    #[default]
    All,
}

/// Arguments of `request_human`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RequestHumanArgs {
    /// The question; 1 to 4000 characters.
    pub question: String,
    /// Answers to choose from, at most 8.
    #[serde(default)]
    pub choices: Vec<String>,
}
