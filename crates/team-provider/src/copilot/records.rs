//! What the extension of `copilot`, its hooks and its record of events mean.
//!
//! Knows one record at a time. Must not remember the one before.

use serde_json::{Value, json};

use crate::claude_like::hooks::{cut, text};
use crate::fact::{ActivityKind, Fact, HookSession, TurnOutcome};
use crate::lines;
use crate::screen::Question;

/// Longest summary of what a tool wants to do, in bytes.
const SUMMARY_MAX: usize = 4096;

/// Returns which conversation a call speaks of.
pub(super) fn session(stdin: &Value) -> Option<HookSession> {
    let cwd = text(stdin, "cwd").filter(|it| !it.is_empty()).map(Into::into);
    Some(HookSession { native_id: text(stdin, "sessionId")?, transcript: None, cwd })
}

/// Returns what a call of the extension or of a hook proves.
pub(super) fn hook(event: &str, stdin: &Value) -> Vec<Fact> {
    let native_id = text(stdin, "sessionId");
    let ended = |native_id, outcome, text| Fact::TurnEnded { native_id, outcome, text };
    match event {
        "SessionStart" => native_id
            .map(|native_id| Fact::SessionStarted {
                native_id,
                source: text(stdin, "source").unwrap_or_else(|| "startup".to_owned()),
                transcript: None,
            })
            .into_iter()
            .collect(),
        "enqueued" => text(stdin, "prompt").map(|text| Fact::Enqueued { text }).into_iter().collect(),
        // What is taken up inside a turn begins none; the record of events shows it.
        "user.message" if is_steering(stdin) => Vec::new(),
        "user.message" => vec![Fact::TurnStarted {
            native_id,
            prompt: text(stdin, "content"),
            prompt_id: text(stdin, "messageId"),
        }],
        "session.idle" => vec![ended(native_id, TurnOutcome::Answer, None)],
        "abort" => vec![ended(native_id, TurnOutcome::Interrupted, None)],
        "session.error" => {
            let kind = text(stdin, "errorType").unwrap_or_else(|| "error".to_owned());
            let said = text(stdin, "message");
            // The limit outlasts the turn, so it comes last.
            let limit = (kind == "rate_limit" || stdin["statusCode"] == 429)
                .then(|| Fact::Limited { until: None, text: said.clone().unwrap_or_default() });
            std::iter::once(ended(native_id, TurnOutcome::Error { kind }, said)).chain(limit).collect()
        }
        "permission.completed" => vec![Fact::ApprovalResolved { native_id, tool_use_id: None }],
        "session.compaction_start" => vec![Fact::Compacting { native_id }],
        "session.compaction_complete" if stdin["open"] == true => vec![Fact::Compacted { native_id }],
        "session.compaction_complete" => vec![
            Fact::Compacted { native_id: native_id.clone() },
            Fact::Activity { native_id, kind: ActivityKind::Idle },
        ],
        "notification" => notification(stdin, native_id),
        _ => Vec::new(),
    }
}

/// Says whether a call tells that the program's dialog asks for permission.
pub(super) fn is_question(event: &str, stdin: &Value) -> bool {
    event == "notification" && text(stdin, "notification_type").as_deref() == Some(PERMISSION)
}

/// The kind of notification that says so.
const PERMISSION: &str = "permission_prompt";

/// How the program begins to say what it asks for; the tool, and the key of its input that holds the rest.
const SAID: &[(&str, &str, &str)] = &[
    ("Run command: ", "bash", "command"),
    ("Edit file: ", "edit", "path"),
    ("Path permission needed: ", "path", "path"),
];

/// Reads a question that is on the screen.
fn notification(stdin: &Value, native_id: Option<String>) -> Vec<Fact> {
    let said = text(stdin, "message").unwrap_or_default();
    let (tool, input, choices) = match text(stdin, "notification_type").as_deref() {
        Some(PERMISSION) => {
            let known =
                SAID.iter().find_map(|(begins, tool, key)| Some((*tool, *key, said.strip_prefix(begins)?)));
            let (tool, input) = match known {
                Some((tool, key, rest)) => (tool, json!({ key: rest }).to_string()),
                None => ("permission", said),
            };
            (tool, input, vec!["allow".to_owned(), "deny".to_owned()])
        }
        Some("elicitation_dialog") => ("question", said, Vec::new()),
        _ => return Vec::new(),
    };
    vec![Fact::ApprovalRequested {
        native_id,
        tool: tool.to_owned(),
        input_summary: cut(&input, SUMMARY_MAX),
        choices,
        tool_use_id: None,
    }]
}

/// Says whether the question on the screen is the one that was told: the whole command, or the file.
pub(super) fn is_about(shown: &Question, tool: &str, input: &str) -> bool {
    let asked: Value = serde_json::from_str(input).unwrap_or_default();
    match tool {
        "bash" => asked["command"].as_str().is_some_and(|it| shown.boxes(it)),
        "path" => asked["path"].as_str().is_some_and(|it| shown.boxes(it)),
        "edit" => asked["path"].as_str().filter(|it| !it.is_empty()).is_some_and(|path| {
            let asks = format!(" {path}?");
            shown.text.lines().any(|it| it.ends_with(&asks))
        }),
        // A label, and what it is about.
        _ => input.split_once(": ").is_some_and(|(_, it)| shown.names(it)),
    }
}

/// Says whether the record of events holds a request for this that was not completed.
pub(super) fn asks(record: &str, tool: &str, input: &str) -> bool {
    let asked: Value = serde_json::from_str(input).unwrap_or_default();
    let mut open: Vec<(String, Value)> = Vec::new();
    for line in record.lines() {
        let Ok(mut line) = serde_json::from_str::<Value>(line) else { continue };
        let Some(id) = text(&line["data"], "requestId") else { continue };
        match line["type"].as_str() {
            Some("permission.requested") => open.push((id, line["data"].take())),
            Some("permission.completed") => open.retain(|it| it.0 != id),
            _ => {}
        }
    }
    let is_it = |data: &Value| match tool {
        "bash" => data["permissionRequest"]["fullCommandText"] == asked["command"],
        "path" => data["promptRequest"]["paths"].as_array().is_some_and(|it| it.contains(&asked["path"])),
        _ => data["permissionRequest"]["kind"] != "shell",
    };
    open.iter().any(|(_, it)| is_it(it))
}

fn is_steering(data: &Value) -> bool {
    data["delivery"] == "steering"
}

/// Returns what a line of the record of events proves: which texts were taken. The file may be cut back and is read
/// late, so the order of turns is the extension's to tell.
pub(super) fn line(line: &str) -> Vec<Fact> {
    lines::records(line).flat_map(|it| taken(&it)).collect()
}

/// Reads one event of that record.
fn taken(record: &Value) -> Vec<Fact> {
    let data = &record["data"];
    let (Some("user.message"), Some(said)) = (record["type"].as_str(), text(data, "content")) else {
        return Vec::new();
    };
    if is_steering(data) {
        return vec![Fact::TakenInTurn { text: said }];
    }
    vec![Fact::TurnStarted { native_id: None, prompt: Some(said), prompt_id: text(data, "messageId") }]
}
