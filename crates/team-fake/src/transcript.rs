//! The conversation on disk: one record a line. Knows the records' forms, nothing of turns.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::clock;
use crate::clothes::Worn;
use crate::logs::append_line;

/// The transcript of one session.
#[derive(Debug)]
pub(crate) struct Transcript {
    clothes: Worn,
    pub(crate) path: PathBuf,
    pub(crate) session: String,
    pub(crate) cwd: String,
    pub(crate) model: String,
    /// Off: nothing is written, as by a program that took a text and lost it.
    pub(crate) on: bool,
    parent: Option<String>,
    texts: Vec<String>,
    /// The transcript to copy when the fork has its first prompt.
    fork_of: Option<PathBuf>,
}

/// Who sent a prompt, as the records name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Typed,
    Queued,
    System,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::Typed => "typed",
            Self::Queued => "queued",
            Self::System => "system",
        }
    }
}

/// Whose record it is.
#[derive(Debug)]
pub(crate) struct Of<'a> {
    pub(crate) session: &'a str,
    pub(crate) cwd: &'a str,
    pub(crate) model: &'a str,
}

/// Something that is written down.
#[derive(Debug)]
pub(crate) enum Record<'a> {
    /// The program is ready for the first or the next prompt.
    Opened {
        resumed: bool,
    },
    User {
        text: &'a str,
        prompt_id: &'a str,
        source: Source,
    },
    /// The program itself tells the model something.
    Meta {
        text: &'a str,
    },
    Assistant {
        text: &'a str,
    },
    ApiError {
        kind: &'a str,
        text: &'a str,
        status: u16,
    },
    ToolUse {
        id: &'a str,
        tool: &'a str,
        input: &'a Value,
    },
    ToolResult {
        id: &'a str,
        tool: &'a str,
        content: &'a str,
        is_error: bool,
    },
    /// A person stopped the turn; `output` says whether anything had come out.
    Interrupted {
        for_tool: bool,
        output: bool,
    },
    /// A text enters or leaves the queue.
    Queue {
        operation: &'static str,
        text: Option<&'a str>,
    },
    /// A queued text is taken up inside a running turn.
    TakenUp {
        text: &'a str,
        prompt_id: &'a str,
        notification: bool,
    },
    /// A hook added this to the prompt.
    Context {
        text: &'a str,
    },
    TurnOver {
        ms: u64,
        stop_hooks: usize,
    },
    Compacted {
        trigger: &'a str,
        summary: &'a str,
    },
}

impl Transcript {
    pub(crate) fn new(clothes: Worn, path: PathBuf, session: &str, cwd: &str, model: &str) -> Self {
        Self {
            clothes,
            path,
            session: session.to_owned(),
            cwd: cwd.to_owned(),
            model: model.to_owned(),
            on: true,
            parent: None,
            texts: Vec::new(),
            fork_of: None,
        }
    }

    /// Learns what an earlier process wrote to this file.
    pub(crate) fn load(&mut self, from: &Path) -> io::Result<()> {
        let text = String::from_utf8_lossy(&std::fs::read(from)?).into_owned();
        for record in text.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok()) {
            if let Some(uuid) = record["uuid"].as_str() {
                self.parent = Some(uuid.to_owned());
            }
            self.texts.extend(self.clothes.said(&record));
        }
        Ok(())
    }

    /// Learns another conversation, to be copied when this one has its first prompt.
    pub(crate) fn fork(&mut self, from: &Path) -> io::Result<()> {
        self.load(from)?;
        self.fork_of = Some(from.to_owned());
        Ok(())
    }

    /// Returns the user text of this number: from 1, or from the end when negative.
    pub(crate) fn recall(&self, number: i64) -> Option<&str> {
        let index = if number > 0 {
            usize::try_from(number).ok()? - 1
        } else {
            // The last text is the one that asks.
            self.texts.len().checked_sub(usize::try_from(-number).ok()? + 1)?
        };
        self.texts.get(index).map(String::as_str)
    }

    /// Writes a record in the program's form.
    fn put(&mut self, record: &Record<'_>) {
        let of = Of { session: &self.session, cwd: &self.cwd, model: &self.model };
        let Some(lines) = self.clothes.lines(&of, record) else { return self.put_own(record) };
        self.add(lines);
    }

    /// Adds lines in the program's form.
    pub(crate) fn add(&mut self, lines: Vec<Value>) {
        if self.on && !lines.is_empty() {
            self.make_folder();
            for line in lines {
                let _ = append_line(&self.path, &line);
            }
        }
    }

    fn make_folder(&self) {
        if let Some(parent) = self.path.parent() {
            let _ = std::fs::create_dir_all(parent);
        }
    }

    fn write(&mut self, mut record: Value) {
        if !self.on {
            return;
        }
        self.make_folder();
        if let Some(source) = self.fork_of.take() {
            let _ = self.copy(&source);
        }
        if let Some(fields) = record.as_object_mut() {
            fields.insert("timestamp".to_owned(), clock::now_iso().into());
            fields.insert("sessionId".to_owned(), self.session.clone().into());
        }
        let _ = append_line(&self.path, &record);
    }

    /// Writes a record that is part of the chain.
    fn link(&mut self, mut record: Value) {
        let uuid = uuid::Uuid::new_v4().to_string();
        if let Some(fields) = record.as_object_mut() {
            fields.insert("parentUuid".to_owned(), self.parent.clone().into());
            fields.insert("uuid".to_owned(), uuid.clone().into());
            fields.insert("isSidechain".to_owned(), false.into());
            fields.insert("userType".to_owned(), "external".into());
            fields.insert("cwd".to_owned(), self.cwd.clone().into());
            fields.insert("version".to_owned(), crate::version(&*self.clothes).into());
        }
        self.write(record);
        self.parent = Some(uuid);
    }

    fn copy(&self, source: &Path) -> io::Result<()> {
        let text = String::from_utf8_lossy(&std::fs::read(source)?).into_owned();
        for mut record in text.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok()) {
            if record["sessionId"].is_string() {
                record["sessionId"] = self.session.clone().into();
            }
            append_line(&self.path, &record)?;
        }
        Ok(())
    }

    /// The conversation is open; the agent's own file is made at the first prompt only.
    pub(crate) fn opened(&mut self, resumed: bool) {
        self.put(&Record::Opened { resumed });
    }

    pub(crate) fn user(&mut self, text: &str, prompt_id: &str, source: Source) {
        self.texts.push(text.to_owned());
        self.put(&Record::User { text, prompt_id, source });
    }

    /// A text that the program itself gives the model, as after a blocked stop.
    pub(crate) fn meta(&mut self, text: &str) {
        self.put(&Record::Meta { text });
    }

    pub(crate) fn assistant(&mut self, text: &str) {
        self.put(&Record::Assistant { text });
    }

    pub(crate) fn api_error(&mut self, kind: &str, text: &str, status: u16) {
        self.put(&Record::ApiError { kind, text, status });
    }

    /// Records a tool call and returns its id.
    pub(crate) fn tool_use(&mut self, tool: &str, input: &Value) -> String {
        let id = format!("toolu_{}", uuid::Uuid::new_v4().simple());
        self.put(&Record::ToolUse { id: &id, tool, input });
        id
    }

    pub(crate) fn tool_result(&mut self, id: &str, tool: &str, content: &str, is_error: bool) {
        self.put(&Record::ToolResult { id, tool, content, is_error });
    }

    pub(crate) fn interrupted(&mut self, for_tool: bool, output: bool) {
        self.put(&Record::Interrupted { for_tool, output });
    }

    /// A text enters or leaves the queue: `enqueue`, `dequeue` or `remove`.
    pub(crate) fn queue(&mut self, operation: &'static str, text: Option<&str>) {
        self.put(&Record::Queue { operation, text });
    }

    /// A queued text is taken up inside a running turn.
    pub(crate) fn queued_command(&mut self, text: &str, prompt_id: &str, notification: bool) {
        self.texts.push(text.to_owned());
        self.put(&Record::TakenUp { text, prompt_id, notification });
    }

    /// What a hook added to the prompt.
    pub(crate) fn context(&mut self, text: &str) {
        self.put(&Record::Context { text });
    }

    /// The turn is over; `stop_hooks` were run at its end.
    pub(crate) fn turn_over(&mut self, ms: u128, stop_hooks: usize) {
        let ms = u64::try_from(ms).unwrap_or(u64::MAX);
        self.put(&Record::TurnOver { ms, stop_hooks });
    }

    pub(crate) fn compact(&mut self, trigger: &str, summary: &str) {
        self.put(&Record::Compacted { trigger, summary });
    }

    /// Writes a record in the agent's own form.
    fn put_own(&mut self, record: &Record<'_>) {
        match *record {
            Record::Opened { .. } | Record::Interrupted { output: false, .. } => {}
            Record::User { text, prompt_id, source } => {
                let kind = if source == Source::System { "task-notification" } else { "human" };
                self.link(json!({
                    "type": "user", "message": {"role": "user", "content": text}, "promptId": prompt_id,
                    "promptSource": source.name(), "origin": {"kind": kind}, "permissionMode": "default",
                }));
            }
            Record::Meta { text } => self
                .link(json!({"type": "user", "isMeta": true, "message": {"role": "user", "content": text}})),
            Record::Assistant { text } => {
                self.reply(&json!([{"type": "text", "text": text}]), "end_turn", json!({}));
            }
            Record::ApiError { kind, text, status } => {
                let extra = json!({"error": kind, "isApiErrorMessage": true, "apiErrorStatus": status});
                self.reply(&json!([{"type": "text", "text": text}]), "stop_sequence", extra);
            }
            Record::ToolUse { id, tool, input } => {
                let content = json!([{"type": "tool_use", "id": id, "name": tool, "input": input}]);
                self.reply(&content, "tool_use", json!({}));
            }
            Record::ToolResult { id, content, is_error, .. } => self.link(json!({
                "type": "user",
                "message": {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error},
                ]},
            })),
            Record::Interrupted { for_tool, .. } => {
                let text = if for_tool {
                    "[Request interrupted by user for tool use]"
                } else {
                    "[Request interrupted by user]"
                };
                self.link(json!({
                    "type": "user",
                    "message": {"role": "user", "content": [{"type": "text", "text": text}]},
                }));
            }
            Record::Queue { operation, text } => {
                let mut record = json!({"type": "queue-operation", "operation": operation});
                if let Some(text) = text {
                    record["content"] = text.into();
                }
                self.write(record);
            }
            Record::TakenUp { text, notification, .. } => {
                let mode = if notification { "task-notification" } else { "prompt" };
                self.attachment(json!({"type": "queued_command", "prompt": text, "commandMode": mode}));
            }
            Record::Context { text } => {
                self.attachment(json!({"type": "hook_additional_context", "content": [text]}));
            }
            Record::TurnOver { ms, stop_hooks } => {
                if stop_hooks > 0 {
                    self.link(json!({
                        "type": "system", "subtype": "stop_hook_summary", "hookCount": stop_hooks,
                    }));
                }
                self.link(json!({
                    "type": "system", "subtype": "turn_duration", "durationMs": ms, "isMeta": false,
                }));
            }
            Record::Compacted { trigger, summary } => {
                let metadata =
                    json!({"trigger": trigger, "preTokens": 1000, "postTokens": 100, "durationMs": 1});
                self.link(json!({
                    "type": "system", "subtype": "compact_boundary", "compactMetadata": metadata,
                }));
                self.link(json!({
                    "type": "user", "isCompactSummary": true, "message": {"role": "user", "content": summary},
                }));
            }
        }
    }

    fn reply(&mut self, content: &Value, stop_reason: &str, extra: Value) {
        let mut record = json!({
            "type": "assistant",
            "message": {
                "id": format!("msg_{}", uuid::Uuid::new_v4().simple()), "type": "message", "role": "assistant",
                "model": self.model, "content": content, "stop_reason": stop_reason,
                "usage": {"input_tokens": 10, "output_tokens": content.to_string().len() / 4 + 1},
            },
        });
        if let (Some(record), Value::Object(extra)) = (record.as_object_mut(), extra) {
            record.extend(extra);
        }
        self.link(record);
    }

    #[expect(clippy::needless_pass_by_value, reason = "it is made for the call")]
    fn attachment(&mut self, attachment: Value) {
        self.link(json!({"type": "attachment", "attachment": attachment}));
    }
}

/// The text that a person gave by this line of a transcript in the agent's own form.
pub(crate) fn said(record: &Value) -> Option<String> {
    let meta = record["isMeta"] == true || record["isCompactSummary"] == true;
    let text = match record["type"].as_str()? {
        "user" if !meta => record["message"]["content"].as_str(),
        "attachment" if record["attachment"]["type"] == "queued_command" => {
            record["attachment"]["prompt"].as_str()
        }
        _ => None,
    };
    text.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Worn {
        crate::clothes::find(None).unwrap()
    }

    #[test]
    fn a_resumed_session_remembers_and_a_fork_leaves_its_source_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join("p").join(name);
        let mut first = Transcript::new(own(), path("a.jsonl"), "a", "/w", "m");
        assert!(!first.path.exists());
        first.user("one", "p1", Source::Typed);
        first.assistant("ok");
        first.queued_command("two", "p1", true);
        let before = std::fs::read_to_string(&first.path).unwrap();

        let mut again = Transcript::new(own(), path("a.jsonl"), "a", "/w", "m");
        again.load(&path("a.jsonl")).unwrap();
        assert_eq!((again.recall(1), again.recall(2), again.recall(3)), (Some("one"), Some("two"), None));

        let mut fork = Transcript::new(own(), path("b.jsonl"), "b", "/w", "m");
        fork.fork(&path("a.jsonl")).unwrap();
        assert!(!fork.path.exists());
        fork.user("three", "p2", Source::Typed);
        assert_eq!((fork.recall(-1), fork.recall(-3)), (Some("two"), None));
        assert_eq!(std::fs::read_to_string(path("a.jsonl")).unwrap(), before);
        let copied = std::fs::read_to_string(path("b.jsonl")).unwrap();
        assert_eq!(copied.lines().count(), 4);
        assert!(copied.lines().all(|it| it.contains(r#""sessionId":"b""#)), "{copied}");
    }

    #[test]
    fn torn_lines_do_not_stop_a_resume() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.jsonl");
        std::fs::write(&path, b"{\"type\":\"user\",\"message\":{\"content\":\"x\"}}\n\0\0{\"ty").unwrap();
        let mut transcript = Transcript::new(own(), path.clone(), "a", "/w", "m");
        transcript.load(&path).unwrap();
        assert_eq!(transcript.recall(1), Some("x"));
    }
}
