//! The record of one conversation. Knows where it lies and the form of its lines; decides nothing.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::clock;
use crate::logs::append_line;

/// The file, and what of it is needed to go on.
#[derive(Debug)]
pub(super) struct Rollout {
    pub(super) path: PathBuf,
    ordinal: u64,
    /// What was said to the model, oldest first.
    pub(super) said: Vec<String>,
}

impl Rollout {
    /// A record that is not there yet: it comes with the first turn.
    pub(super) fn new(home: &Path, thread: &str) -> Self {
        let now = clock::now_iso();
        let (day, time) = now.split_once('T').unwrap_or((&now, ""));
        let time: String = time.chars().take(8).map(|it| if it == ':' { '-' } else { it }).collect();
        let folder = home.join("sessions").join(day.replace('-', "/"));
        Self {
            path: folder.join(format!("rollout-{day}T{time}-{thread}.jsonl")),
            ordinal: 0,
            said: Vec::new(),
        }
    }

    /// Finds the record of an earlier conversation.
    pub(super) fn find(home: &Path, thread: &str) -> Option<Self> {
        let path = find(&home.join("sessions"), &format!("-{thread}.jsonl"))?;
        let text = std::fs::read_to_string(&path).ok()?;
        let records: Vec<Value> = text.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
        let messages = records.iter().filter(|it| it["payload"]["item"]["type"] == "UserMessage");
        let said =
            messages.filter_map(|it| Some(it["payload"]["item"]["content"][0]["text"].as_str()?.to_owned()));
        Some(Self { path, ordinal: records.len() as u64, said: said.collect() })
    }

    /// What was said so far, as clients see it.
    pub(super) fn turns(&self) -> Value {
        let text = std::fs::read_to_string(&self.path).unwrap_or_default();
        let mut turns: Vec<Value> = Vec::new();
        for record in text.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok()) {
            let payload = &record["payload"];
            let item = match (payload["type"].as_str(), payload["item"]["type"].as_str()) {
                (Some("task_started"), _) => {
                    turns.push(json!({"id": payload["turn_id"], "items": []}));
                    continue;
                }
                (_, Some("UserMessage")) => {
                    json!({"type": "userMessage", "content": payload["item"]["content"]})
                }
                (Some("message"), _) if payload["role"] == "assistant" => {
                    json!({"type": "agentMessage", "text": payload["content"][0]["text"]})
                }
                _ => continue,
            };
            if let Some(items) = turns.last_mut().and_then(|it| it["items"].as_array_mut()) {
                items.push(item);
            }
        }
        turns.into()
    }

    pub(super) fn exists(&self) -> bool {
        self.ordinal > 0
    }

    /// Makes the file, with its first lines.
    pub(super) fn create(&mut self, thread: &str, cwd: &str, instructions: Option<&str>) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        self.write(
            "session_meta",
            json!({
                "id": thread, "session_id": thread, "timestamp": clock::now_iso(), "cwd": cwd,
                "originator": "codex-tui", "source": "vscode", "cli_version": super::version(),
            }),
        );
        if let Some(text) = instructions {
            let content = json!([{"type": "input_text", "text": text}]);
            self.write("response_item", json!({"type": "message", "role": "developer", "content": content}));
        }
        Ok(())
    }

    /// Appends a record.
    #[expect(clippy::needless_pass_by_value, reason = "it is made for this call")]
    pub(super) fn write(&mut self, kind: &str, payload: Value) {
        let record =
            json!({"timestamp": clock::now_iso(), "ordinal": self.ordinal, "type": kind, "payload": payload});
        self.ordinal += 1;
        let _ = append_line(&self.path, &record);
    }
}

fn find(folder: &Path, end: &str) -> Option<PathBuf> {
    std::fs::read_dir(folder).ok()?.flatten().find_map(|entry| {
        let path = entry.path();
        if path.is_dir() { find(&path, end) } else { path.to_str()?.ends_with(end).then_some(path) }
    })
}
