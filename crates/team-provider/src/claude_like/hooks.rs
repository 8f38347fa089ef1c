//! What hook calls of this family mean, how they are registered and answered.
//!
//! Knows the JSON that goes in and out. Must not run anything.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::places;
use crate::fact::{ApprovalAnswer, EndReason, Fact, HookContext, HookSession, TurnOutcome};

/// Longest summary of a tool's input, in bytes.
const SUMMARY_MAX: usize = 4096;

/// Event name under which our command hands out waiting messages.
pub(crate) const DRAIN: &str = "drain";

/// The event at which the program asks for permission.
pub(crate) const ASKS: &str = "PermissionRequest";

/// What the model is told where a no comes without words.
const DENIED: &str = "A person has denied this.";

/// Events of which we are told. None of them fires for each tool.
const TOLD: &[&str] = &[
    "SessionStart",
    "UserPromptSubmit",
    "PermissionRequest",
    "Stop",
    "StopFailure",
    "PreCompact",
    "PostCompact",
    "ConfigChange",
    "SessionEnd",
];

/// Events at which waiting messages are handed out: at the start, at the bell, and at a turn's end for the
/// gap in which the bell is not yet watched.
const DRAINED: &[&str] = &["SessionStart", "FileChanged", "Stop"];

/// Seconds that one of our commands may take.
const TIMEOUT_S: u32 = 30;

/// Seconds that a permission question may wait for a person: a week. Over 2,147,483 the program ends it at once.
const QUESTION_TIMEOUT_S: u32 = 7 * 86_400;

/// Returns the `hooks` part of the settings.
pub(crate) fn registration(self_exe: &str, seat_file: &str, argv: bool, bell: bool) -> Value {
    let mut hooks = Map::new();
    let mut add = |event: &str, entry: Value| {
        let list = hooks.entry(event).or_insert_with(|| json!([{ "hooks": [] }]));
        if let Some(entries) = list[0]["hooks"].as_array_mut() {
            entries.push(entry);
        }
    };
    for event in TOLD {
        add(event, command(self_exe, seat_file, event, argv));
    }
    if bell {
        for event in DRAINED {
            let mut entry = command(self_exe, seat_file, DRAIN, argv);
            entry["asyncRewake"] = json!(true);
            entry["rewakeMessage"] = json!("Message from your team:");
            entry["rewakeSummary"] = json!("message from your team");
            add(event, entry);
        }
    }
    Value::Object(hooks)
}

/// Returns one hook entry that runs our command.
fn command(self_exe: &str, seat_file: &str, event: &str, argv: bool) -> Value {
    let timeout = if event == ASKS { QUESTION_TIMEOUT_S } else { TIMEOUT_S };
    if argv {
        let words = [self_exe, "hook", "--seat-file", seat_file, event];
        return json!({ "type": "command", "argv": words, "timeout": timeout });
    }
    // The program hands this line to a shell; `exec` leaves no shell waiting beside our command.
    let line = format!("exec {} hook --seat-file {} {event}", quote(self_exe), quote(seat_file));
    json!({ "type": "command", "command": line, "timeout": timeout })
}

/// Quotes a word for a POSIX shell.
pub(crate) fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns what our command prints for an event.
pub(crate) fn answer(event: &str, context: &HookContext<'_>) -> Option<String> {
    let mut output = Map::new();
    match event {
        "SessionStart" => {
            if context.bell {
                let bell = places::bell(context.seat_dir);
                output.insert("watchPaths".to_owned(), json!([bell.to_str()?]));
            }
        }
        "UserPromptSubmit" => {}
        _ => return None,
    }
    if let Some(text) = context.add_context {
        output.insert("additionalContext".to_owned(), json!(text));
    }
    if output.is_empty() {
        return None;
    }
    output.insert("hookEventName".to_owned(), json!(event));
    Some(json!({ "hookSpecificOutput": output }).to_string())
}

/// Says whether a call asks for a yes or a no; a question with answers of its own is for the pane.
pub(crate) fn asks(event: &str, stdin: &Value) -> bool {
    event == ASKS && text(stdin, "tool_name").is_some_and(|it| it != "AskUserQuestion")
}

/// Returns what answers a permission question.
pub(crate) fn approval_answer(event: &str, answer: &ApprovalAnswer<'_>) -> Option<String> {
    let decision = if answer.allow {
        json!({ "behavior": "allow" })
    } else {
        json!({ "behavior": "deny", "message": answer.message.unwrap_or(DENIED) })
    };
    (event == ASKS)
        .then(|| json!({ "hookSpecificOutput": { "hookEventName": ASKS, "decision": decision } }).to_string())
}

/// Returns which conversation a call speaks of.
pub(crate) fn session(stdin: &Value) -> Option<HookSession> {
    let native_id = text(stdin, "session_id")?;
    Some(HookSession { native_id, transcript: path(stdin, "transcript_path"), cwd: path(stdin, "cwd") })
}

/// Returns what a call proves.
pub(crate) fn read(event: &str, stdin: &Value) -> Vec<Fact> {
    // A subagent's own events say nothing about the seat's turn.
    if stdin.get("agent_id").is_some_and(|id| !id.is_null()) && event != "PermissionRequest" {
        return Vec::new();
    }
    let native_id = text(stdin, "session_id");
    match event {
        "SessionStart" => session_start(stdin, native_id),
        "UserPromptSubmit" => {
            vec![Fact::TurnStarted {
                native_id,
                prompt: text(stdin, "prompt"),
                prompt_id: text(stdin, "prompt_id"),
            }]
        }
        "PermissionRequest" => vec![permission(stdin, native_id)],
        "Stop" => vec![Fact::TurnEnded {
            native_id,
            outcome: TurnOutcome::Answer,
            text: text(stdin, "last_assistant_message"),
        }],
        "StopFailure" => stop_failure(stdin, native_id),
        "PreCompact" => vec![Fact::Compacting { native_id }],
        "PostCompact" => vec![Fact::Compacted { native_id }],
        "SessionEnd" => {
            let word = text(stdin, "reason").unwrap_or_default();
            let reason = match word.as_str() {
                "prompt_input_exit" | "exit" | "logout" => EndReason::Exit,
                "clear" => EndReason::Cleared,
                _ => EndReason::Other { word },
            };
            vec![Fact::SessionEnded { native_id, reason }]
        }
        "ConfigChange" => vec![Fact::SettingsChanged {
            source: text(stdin, "source").unwrap_or_default(),
            path: path(stdin, "file_path"),
        }],
        _ => Vec::new(),
    }
}

/// Reads the beginning of a conversation.
fn session_start(stdin: &Value, native_id: Option<String>) -> Vec<Fact> {
    let Some(native_id) = native_id else { return Vec::new() };
    let source = text(stdin, "source").unwrap_or_else(|| "startup".to_owned());
    vec![Fact::SessionStarted { native_id, source, transcript: path(stdin, "transcript_path") }]
}

/// Reads a question for permission.
fn permission(stdin: &Value, native_id: Option<String>) -> Fact {
    let input = stdin.get("tool_input").map(Value::to_string).unwrap_or_default();
    let mut choices = vec!["allow".to_owned(), "deny".to_owned()];
    for suggestion in stdin.get("permission_suggestions").and_then(Value::as_array).into_iter().flatten() {
        choices.push(cut(&suggestion.to_string(), 512));
    }
    Fact::ApprovalRequested {
        native_id,
        tool: text(stdin, "tool_name").unwrap_or_default(),
        input_summary: cut(&input, SUMMARY_MAX),
        choices,
        tool_use_id: text(stdin, "tool_use_id"),
    }
}

/// Reads a turn that ended by an error.
fn stop_failure(stdin: &Value, native_id: Option<String>) -> Vec<Fact> {
    let kind = text(stdin, "error").unwrap_or_else(|| "unknown".to_owned());
    let said = text(stdin, "last_assistant_message");
    // The limit outlasts the turn, so it comes last.
    let limit =
        (kind == "rate_limit").then(|| Fact::Limited { until: None, text: said.clone().unwrap_or_default() });
    let mut facts = vec![Fact::TurnEnded { native_id, outcome: TurnOutcome::Error { kind }, text: said }];
    facts.extend(limit);
    facts
}

/// Returns a field's text, if it is one.
pub(crate) fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key)?.as_str().map(str::to_owned)
}

/// Returns a field's path, if it is one.
fn path(value: &Value, key: &str) -> Option<PathBuf> {
    text(value, key).filter(|it| !it.is_empty()).map(PathBuf::from)
}

/// Cuts a text to a length in bytes, marking the cut.
pub(crate) fn cut(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let mut end = max - '…'.len_utf8();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

/// Returns a path as text, if it is UTF-8.
pub(crate) fn utf8(path: &Path) -> Option<&str> {
    AsRef::<OsStr>::as_ref(path).to_str()
}
