//! What hook calls and transcript lines of `gemini` mean.
//!
//! Knows one record at a time. Must not remember the one before.

use serde_json::{Value, json};

use super::forgotten;
use crate::claude_like::SERVER;
use crate::claude_like::hooks::{cut, text};
use crate::fact::{Fact, TurnOutcome};
use crate::lines;
use crate::screen::Question;

/// Longest summary of what a tool wants to do, in bytes.
const SUMMARY_MAX: usize = 4096;

/// Keys of a permission question that say what is asked for.
const ASKED: &[&str] =
    &["command", "filePath", "fileName", "fileDiff", "urls", "prompt", "serverName", "toolName"];

/// Returns what a hook call proves.
pub(super) fn hook(event: &str, stdin: &Value) -> Vec<Fact> {
    let native_id = text(stdin, "session_id");
    match event {
        "SessionStart" => native_id
            .map(|native_id| Fact::SessionStarted {
                native_id,
                source: text(stdin, "source").unwrap_or_else(|| "startup".to_owned()),
                transcript: text(stdin, "transcript_path").filter(|it| !it.is_empty()).map(Into::into),
            })
            .into_iter()
            .collect(),
        "BeforeAgent" => {
            vec![Fact::TurnStarted { native_id, prompt: text(stdin, "prompt"), prompt_id: None }]
        }
        // It comes after errors and interrupts, too; the transcript says which.
        "AfterAgent" => vec![Fact::TurnEnded {
            native_id,
            outcome: TurnOutcome::Unstated,
            text: text(stdin, "prompt_response"),
        }],
        _ if is_question(event, stdin) => vec![permission(stdin, native_id)],
        _ => Vec::new(),
    }
}

/// Says whether a call tells that the program's dialog asks for permission.
pub(super) fn is_question(event: &str, stdin: &Value) -> bool {
    event == "Notification" && text(stdin, "notification_type").as_deref() == Some("ToolPermission")
}

/// The tool that runs a command.
const SHELL: &str = "run_shell_command";

/// Reads a question for permission.
fn permission(stdin: &Value, native_id: Option<String>) -> Fact {
    let details = &stdin["details"];
    let asked: serde_json::Map<String, Value> =
        ASKED.iter().filter_map(|key| Some(((*key).to_owned(), details.get(*key)?.clone()))).collect();
    let tool = match text(details, "type").as_deref() {
        Some("exec") => SHELL.to_owned(),
        Some("mcp") => server_tool(details),
        Some(other) => other.to_owned(),
        None => String::new(),
    };
    Fact::ApprovalRequested {
        native_id,
        tool,
        input_summary: cut(&json!(asked).to_string(), SUMMARY_MAX),
        choices: vec!["allow".to_owned(), "deny".to_owned()],
        tool_use_id: None,
    }
}

/// The name of a server's tool as the model sees it; only our own server's tools may be taken for ours.
fn server_tool(details: &Value) -> String {
    let tool = text(details, "toolName").unwrap_or_default();
    let server = text(details, "serverName").unwrap_or_default();
    if server == SERVER { format!("mcp_{server}_{tool}") } else { tool }
}

/// Says whether the question on the screen is the one that was told: the whole command, the file and what is added to
/// it, the server and its tool. What is shown in part only is not known again.
pub(super) fn is_about(shown: &Question, tool: &str, input: &str) -> bool {
    let Ok(asked) = serde_json::from_str::<Value>(input) else { return false };
    let part = |key: &str| asked[key].as_str();
    match (tool, part("command"), part("fileName"), part("serverName")) {
        (SHELL, Some(command), ..) => shown.boxes(command),
        ("edit", _, Some(file), _) => {
            let diff = part("fileDiff").unwrap_or_default().lines().skip_while(|it| !it.starts_with("@@"));
            let mut changed =
                diff.filter_map(|it| it.strip_prefix(['+', '-'])).filter(|it| !it.trim().is_empty());
            shown.names(file) && changed.all(|it| shown.names(it))
        }
        (_, _, _, Some(server)) => shown.names(server) && part("toolName").is_some_and(|it| shown.names(it)),
        _ => {
            let urls: Vec<&str> =
                asked["urls"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            !urls.is_empty() && urls.iter().all(|it| shown.names(it))
        }
    }
}

/// Returns what a transcript line proves; what is not readable proves nothing.
pub(super) fn line(line: &str) -> Vec<Fact> {
    lines::records(line).flat_map(|it| record(&it)).collect()
}

/// Reads one record.
fn record(record: &Value) -> Vec<Fact> {
    let content = &record["content"];
    match record["type"].as_str() {
        Some("user") => user(content),
        Some("info") if content.as_str().is_some_and(|it| it.starts_with("Request cancelled")) => {
            vec![Fact::TurnEnded { native_id: None, outcome: TurnOutcome::Interrupted, text: None }]
        }
        Some("error") => error(content.as_str().unwrap_or_default()),
        _ => Vec::new(),
    }
}

/// Reads a record of the user's side: a text that was taken, or what tools have answered.
fn user(content: &Value) -> Vec<Fact> {
    let parts = || content.as_array().into_iter().flatten();
    let said = parts().filter_map(|it| it["text"].as_str());
    let texts: Vec<&str> = said.filter(|it| !forgotten::is_own(it)).collect();
    if parts().any(|it| it.get("functionResponse").is_some()) {
        return vec![Fact::ApprovalResolved { native_id: None, tool_use_id: None }];
    }
    if texts.is_empty() {
        return Vec::new();
    }
    vec![Fact::TurnStarted { native_id: None, prompt: Some(texts.join("\n")), prompt_id: None }]
}

/// Reads an error that ended a turn.
fn error(said: &str) -> Vec<Fact> {
    let limit = ["daily quota", "RESOURCE_EXHAUSTED", "\"code\":429"].iter().any(|it| said.contains(it));
    let kind = if limit { "rate_limit".to_owned() } else { kind(said) };
    let text = Some(said.to_owned());
    let mut facts =
        vec![Fact::TurnEnded { native_id: None, outcome: TurnOutcome::Error { kind }, text: text.clone() }];
    // The limit outlasts the turn, so it comes last.
    facts.extend(limit.then(|| Fact::Limited { until: None, text: said.to_owned() }));
    facts
}

/// Returns the service's word for an error, if the text holds it.
fn kind(said: &str) -> String {
    let status = said.find('{').and_then(|from| {
        let error = serde_json::Deserializer::from_str(&said[from..]).into_iter::<Value>().next()?.ok()?;
        error["error"]["status"].as_str().map(str::to_lowercase)
    });
    status.unwrap_or_else(|| "error".to_owned())
}
