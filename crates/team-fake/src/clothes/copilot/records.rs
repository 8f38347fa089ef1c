//! The session's files: the record of events, its folder, the list of open sessions.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::clock;
use crate::logs::replace;
use crate::transcript::{Of, Record, Source};

/// One line of the record of events: its type and its data.
pub(super) type Event = (&'static str, Value);

/// The events by which a record is written down.
pub(super) fn events(record: &Record<'_>) -> Vec<Event> {
    match *record {
        Record::User { text, prompt_id, source } => {
            let delivery = if source == Source::Queued { "queued" } else { "idle" };
            vec![message(text, prompt_id, delivery), begun()]
        }
        Record::TakenUp { text, prompt_id, .. } => vec![message(text, prompt_id, "steering")],
        Record::Meta { text } => vec![message(text, &uuid::Uuid::new_v4().to_string(), "idle"), begun()],
        Record::Assistant { text } => vec![said(text, &json!([])), ended()],
        Record::ToolUse { id, tool, input } => {
            let name = tool_name(tool);
            let request = json!([{"toolCallId": id, "name": name, "arguments": input, "type": "function"}]);
            let start = json!({"toolCallId": id, "toolName": name, "arguments": input});
            vec![said("", &request), ("tool.execution_start", start)]
        }
        Record::ToolResult { id, content, is_error, .. } => {
            let mut data = json!({"toolCallId": id, "success": !is_error});
            data[if is_error { "error" } else { "result" }] =
                if is_error { json!({ "message": content }) } else { json!({ "content": content }) };
            vec![("tool.execution_complete", data), ended(), begun()]
        }
        Record::ApiError { kind, text, status } => {
            vec![("session.error", json!({"errorType": kind, "message": text, "statusCode": status}))]
        }
        Record::Interrupted { .. } => vec![ended(), ("abort", json!({"reason": "user_initiated"}))],
        Record::Compacted { .. } => vec![(
            "session.compaction_complete",
            json!({
                "success": true, "outcome": "compacted", "preCompactionTokens": 1000,
                "postCompactionTokens": 100,
            }),
        )],
        Record::Opened { .. } | Record::Queue { .. } | Record::Context { .. } | Record::TurnOver { .. } => {
            Vec::new()
        }
    }
}

fn message(text: &str, id: &str, delivery: &str) -> Event {
    let data = json!({
        "content": text, "transformedContent": text, "attachments": [], "messageId": id, "delivery": delivery,
    });
    ("user.message", data)
}

fn said(text: &str, requests: &Value) -> Event {
    ("assistant.message", json!({"content": text, "toolRequests": requests}))
}

fn begun() -> Event {
    ("assistant.turn_start", json!({}))
}

fn ended() -> Event {
    ("assistant.turn_end", json!({}))
}

/// The program's own name of a tool.
pub(super) fn tool_name(tool: &str) -> &str {
    match tool {
        "Bash" => "bash",
        "Write" => "create",
        other => other,
    }
}

/// What a question for permission is about, as the record of events words it.
pub(super) fn permission(tool: &str, input: &Value) -> Value {
    match (input["command"].as_str(), tool.split_once('-')) {
        (Some(command), _) => json!({
            "kind": "shell", "fullCommandText": command, "intention": super::INTENTION,
            "commands": [{"identifier": command.split_whitespace().next(), "readOnly": false}],
        }),
        (None, Some((server, tool))) => {
            json!({"kind": "mcp", "serverName": server, "toolName": tool, "args": input, "readOnly": false})
        }
        (None, None) => json!({"kind": "custom-tool", "toolName": tool_name(tool), "args": input}),
    }
}

/// The text that a person gave by this line.
pub(super) fn content(line: &Value) -> Option<String> {
    (line["type"] == "user.message").then(|| line["data"]["content"].as_str().map(str::to_owned))?
}

/// Takes the last prompt and what belongs to it out of the file again, as if it had never been sent.
pub(super) fn cut_back(file: &Path, prompt: &str) {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<(usize, Value)> = text
        .split_inclusive('\n')
        .scan(0, |end, line| {
            let at = *end;
            *end += line.len();
            Some((at, serde_json::from_str(line).unwrap_or_default()))
        })
        .collect();
    let is_prompt = |it: &(usize, Value)| it.1["data"]["messageId"] == prompt;
    let Some(mut first) = lines.iter().rposition(is_prompt) else { return };
    // The hooks that were called for it.
    let before =
        |it: &Value| matches!(it["data"]["hookType"].as_str(), Some("sessionStart" | "userPromptSubmitted"));
    while first > 0 && before(&lines[first - 1].1) {
        first -= 1;
    }
    if let Ok(file) = OpenOptions::new().write(true).open(file) {
        let _ = file.set_len(u64::try_from(lines[first].0).unwrap_or_default());
    }
}

/// Makes the folder of a session.
pub(super) fn make_folder(home: &Path, of: &Of<'_>) {
    let folder = super::start::folder(home, of.session);
    let _ = fs::create_dir_all(&folder);
    // Those of earlier processes that were killed are still there.
    for lock in locks(&folder) {
        let _ = fs::remove_file(lock);
    }
    let (id, cwd) = (of.session, of.cwd);
    let name = Path::new(cwd).file_name().unwrap_or_default().to_string_lossy();
    let _ = replace(&folder.join("workspace.yaml"), &format!("id: {id}\ncwd: {cwd}\nname: {name}\n"));
}

/// Says that this process has a session.
pub(super) fn lock(home: &Path, session: &str) {
    let folder = super::start::folder(home, session);
    let pid = std::process::id();
    let _ = fs::write(folder.join(format!("inuse.{pid}.lock")), pid.to_string());
    let _ = fs::write(folder.join(format!("inuse.{pid}.hold")), "");
}

/// Takes this process's locks away.
pub(super) fn unlock(home: &Path, session: &str) {
    let own = format!("inuse.{}.", std::process::id());
    let folder = super::start::folder(home, session);
    for lock in locks(&folder).filter(|it| it.to_string_lossy().contains(&own)) {
        let _ = fs::remove_file(lock);
    }
}

fn locks(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|it| it.file_name().to_string_lossy().starts_with("inuse.")).map(|it| it.path())
}

/// Writes into the list of open sessions whether this one works; `None` takes it out.
pub(super) fn list(home: &Path, session: &str, working: Option<bool>) {
    let file = home.join("open-sessions-state.json");
    let text = fs::read_to_string(&file).unwrap_or_default();
    let mut all: Value = serde_json::from_str(&text).unwrap_or_else(|_| json!({}));
    let now = clock::now_iso();
    match (working, all.as_object_mut()) {
        (None, Some(all)) => drop(all.remove(session)),
        (Some(working), Some(_)) => {
            let opened = all[session]["openedAt"].as_str().unwrap_or(&now).to_owned();
            all[session] = json!({"working": working, "openedAt": opened, "refreshedAt": now});
        }
        (_, None) => return,
    }
    let _ = replace(&file, &all.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_is_taken_back_leaves_what_was_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("events.jsonl");
        let line = |kind: &str, data: Value| format!("{}\n", json!({"type": kind, "data": data}));
        let before = line("session.start", json!({})) + &line("hook.end", json!({"hookType": "agentStop"}));
        let prompt = line("hook.start", json!({"hookType": "userPromptSubmitted"}))
            + &line("user.message", json!({"messageId": "p", "content": "words"}))
            + &line("assistant.turn_start", json!({}));
        fs::write(&file, before.clone() + &prompt).unwrap();
        cut_back(&file, "another");
        assert_eq!(fs::read_to_string(&file).unwrap(), before.clone() + &prompt);
        cut_back(&file, "p");
        assert_eq!(fs::read_to_string(&file).unwrap(), before);
    }

    #[test]
    fn a_turn_with_a_tool_has_two_rounds() {
        let input = json!({"command": "ls"});
        let all = [
            Record::User { text: "t", prompt_id: "p", source: Source::Typed },
            Record::ToolUse { id: "1", tool: "Bash", input: &input },
            Record::ToolResult { id: "1", tool: "Bash", content: "x", is_error: false },
            Record::Assistant { text: "ok" },
        ];
        let kinds: Vec<&str> = all.iter().flat_map(events).map(|it| it.0).collect();
        assert_eq!(
            kinds,
            [
                "user.message",
                "assistant.turn_start",
                "assistant.message",
                "tool.execution_start",
                "tool.execution_complete",
                "assistant.turn_end",
                "assistant.turn_start",
                "assistant.message",
                "assistant.turn_end",
            ]
        );
    }
}
