//! What transcript lines and status files of this family mean.
//!
//! Knows one record at a time. Must not remember the one before.

use serde_json::Value;

use super::hooks::text;
use crate::fact::{ActivityKind, Fact, RecordKind, TurnOutcome};
use crate::lines;

/// Returns what a record proves; what is not readable proves nothing.
pub(crate) fn read(kind: RecordKind, record: &str) -> Vec<Fact> {
    match kind {
        RecordKind::Status => serde_json::from_str(record).map(|it| status(&it)).unwrap_or_default(),
        RecordKind::Transcript => lines::records(record).flat_map(|it| line(&it)).collect(),
    }
}

/// Returns when a transcript line was written, in milliseconds of the epoch.
pub(crate) fn time(record: &str) -> Option<i64> {
    let record = lines::records(record).next()?;
    crate::moment::epoch_ms(record.get("timestamp")?.as_str()?)
}

/// Reads a whole status file.
fn status(file: &Value) -> Vec<Fact> {
    let native_id = text(file, "sessionId");
    let mut facts = Vec::new();
    if let Some(pid) = file.get("pid").and_then(Value::as_u64).and_then(|pid| u32::try_from(pid).ok()) {
        let started = match file.get("procStart") {
            Some(Value::String(digits)) => digits.parse().ok(),
            Some(number) => number.as_u64(),
            None => None,
        };
        facts.push(Fact::Client {
            native_id: native_id.clone(),
            pid,
            started,
            version: text(file, "version"),
        });
    }
    if let Some(word) = text(file, "status") {
        let kind = activity(&word, text(file, "waitingFor"));
        facts.push(Fact::Activity { native_id, kind });
    }
    facts
}

/// Reads the words of a status file.
fn activity(word: &str, waiting_for: Option<String>) -> ActivityKind {
    match word {
        "idle" => ActivityKind::Idle,
        "busy" => ActivityKind::Working,
        "shell" => ActivityKind::Shell,
        "waiting" => match waiting_for.as_deref() {
            Some("dialog open") => ActivityKind::DialogOpen,
            Some("permission prompt" | "input needed" | "worker request" | "sandbox request") => {
                ActivityKind::AwaitingApproval { for_what: waiting_for.unwrap_or_default() }
            }
            _ => ActivityKind::Unknown { word: format!("waiting for {}", waiting_for.unwrap_or_default()) },
        },
        _ => ActivityKind::Unknown { word: word.to_owned() },
    }
}

/// Reads one transcript line.
fn line(record: &Value) -> Vec<Fact> {
    // A subagent's records stand in the same file.
    if record.get("isSidechain").and_then(Value::as_bool) == Some(true) {
        return Vec::new();
    }
    let native_id = text(record, "sessionId");
    match record.get("type").and_then(Value::as_str) {
        Some("user") => user(record, native_id),
        Some("assistant") => assistant(record, native_id),
        Some("system") => system(record, native_id),
        Some("queue-operation") => match (text(record, "operation").as_deref(), text(record, "content")) {
            (Some("enqueue"), Some(text)) => vec![Fact::Enqueued { text }],
            _ => Vec::new(),
        },
        Some("attachment") => attachment(record),
        _ => Vec::new(),
    }
}

/// Reads a record of the user's side.
fn user(record: &Value, native_id: Option<String>) -> Vec<Fact> {
    let is = |key: &str| record.get(key).and_then(Value::as_bool) == Some(true);
    if is("isMeta") || is("isCompactSummary") {
        return Vec::new();
    }
    let Some(content) = record.pointer("/message/content") else { return Vec::new() };
    let said = words(content);
    if said.as_deref().is_some_and(|it| it.starts_with("[Request interrupted by user")) {
        return vec![Fact::TurnEnded { native_id, outcome: TurnOutcome::Interrupted, text: None }];
    }
    let Some(prompt) = said.filter(|_| record.get("promptSource").is_some_and(Value::is_string)) else {
        return Vec::new();
    };
    let prompt_id = text(record, "promptId");
    vec![Fact::TurnStarted { native_id, prompt: Some(prompt), prompt_id }]
}

/// Reads a record of the model's side: only an error says something about the turn.
fn assistant(record: &Value, native_id: Option<String>) -> Vec<Fact> {
    if record.get("isApiErrorMessage").and_then(Value::as_bool) != Some(true) {
        return Vec::new();
    }
    let kind = text(record, "error").unwrap_or_else(|| "unknown".to_owned());
    let said = record.pointer("/message/content").and_then(words);
    let mut facts = Vec::new();
    if kind == "rate_limit" {
        facts.push(Fact::Limited { until: None, text: said.clone().unwrap_or_default() });
    }
    facts.push(Fact::TurnEnded { native_id, outcome: TurnOutcome::Error { kind }, text: said });
    facts
}

/// Reads a record of the program itself.
fn system(record: &Value, native_id: Option<String>) -> Vec<Fact> {
    match record.get("subtype").and_then(Value::as_str) {
        Some("turn_duration") => {
            vec![Fact::TurnEnded { native_id, outcome: TurnOutcome::Unstated, text: None }]
        }
        Some("compact_boundary") => vec![Fact::Compacted { native_id }],
        _ => Vec::new(),
    }
}

/// Reads something that was added to a running turn.
fn attachment(record: &Value) -> Vec<Fact> {
    let Some(attachment) = record.get("attachment") else { return Vec::new() };
    if attachment.get("type").and_then(Value::as_str) != Some("queued_command") {
        return Vec::new();
    }
    attachment.get("prompt").and_then(words).map(|text| Fact::TakenInTurn { text }).into_iter().collect()
}

/// Returns the text of a message's content, if it is text.
fn words(content: &Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text.clone()),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks
                .iter()
                .filter(|block| block.get("type").and_then(Value::as_str) == Some("text"))
                .filter_map(|block| block.get("text")?.as_str())
                .collect();
            (!texts.is_empty()).then(|| texts.join("\n"))
        }
        _ => None,
    }
}
