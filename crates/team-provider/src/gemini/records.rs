//! What hook calls and transcript lines of `gemini` mean.
//!
//! Knows one record at a time. Must not remember the one before.

use serde_json::{Value, json};

use super::forgotten;
use crate::claude_like::hooks::{cut, text};
use crate::fact::{Fact, TurnOutcome};
use crate::lines;

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
        "Notification" if text(stdin, "notification_type").as_deref() == Some("ToolPermission") => {
            vec![permission(stdin, native_id)]
        }
        _ => Vec::new(),
    }
}

/// Reads a question for permission.
fn permission(stdin: &Value, native_id: Option<String>) -> Fact {
    let details = &stdin["details"];
    let asked: serde_json::Map<String, Value> =
        ASKED.iter().filter_map(|key| Some(((*key).to_owned(), details.get(*key)?.clone()))).collect();
    let tool = match text(details, "type").as_deref() {
        Some("exec") => "run_shell_command".to_owned(),
        Some("mcp") => text(details, "toolName").unwrap_or_default(),
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
