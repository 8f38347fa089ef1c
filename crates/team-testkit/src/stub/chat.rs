//! The Chat Completions API, with and without streaming.
//!
//! Knows its requests, replies and errors. Must not know how directives are written.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::anthropic::{Part, Shell, list, pieces, plan, tokens};
use super::http::{Connection, Events, HttpRequest};
use super::script::{self, Role, Turn};
use super::{Kind, Outcome, Request, Shared};

const JSON: (&str, &str) = ("content-type", "application/json");

/// What a request without tools is answered with.
const TITLE: &str = "Stubbed session";

const SHELL: Shell = Shell {
    id: "call_",
    tool: "bash",
    input: |command| json!({ "command": command, "description": "Runs what the script says" }),
};

/// Answers `POST /v1/chat/completions`.
pub(super) fn completions(
    shared: &Shared,
    request: &HttpRequest,
    connection: &mut Connection<'_>,
) -> io::Result<()> {
    let record = recorded(request);
    let (body, kind) = (Arc::clone(&record.body), record.kind);
    let number = shared.arrived(record);
    let turns = turns(&body);
    let length = script::length(&turns);
    let parts = match kind {
        Kind::Turn => {
            plan(&turns, &script::next_acts(&turns, |act| shared.has_refused(None, act, length)), &SHELL)
        }
        _ => vec![Part::Text { text: TITLE.to_owned(), lasts: Duration::ZERO }],
    };
    for part in &parts {
        if let Part::Refuse { act, .. } = part {
            shared.refuse(None, act, length);
        }
    }
    let model = body["model"].as_str().unwrap_or("stub");
    let mut outcome = Outcome { status: 200, said: String::new(), called: Vec::new(), finished: false };
    let sent = if body["stream"].as_bool().unwrap_or(false) {
        stream(model, &parts, connection, &mut outcome)
    } else {
        whole(model, &parts, connection, &mut outcome)
    };
    outcome.finished = sent.is_ok();
    shared.answered(number, outcome);
    sent
}

fn stream(
    model: &str,
    parts: &[Part],
    connection: &mut Connection<'_>,
    outcome: &mut Outcome,
) -> io::Result<()> {
    // A refusal has a status of its own as long as nothing was said before it.
    let silent = parts.iter().take_while(|part| matches!(part, Part::Wait(_))).count();
    if let Some(Part::Refuse { status, retry_after, .. }) = parts.get(silent) {
        for part in &parts[..silent] {
            if let Part::Wait(time) = part {
                connection.pause(*time)?;
            }
        }
        return refuse(*status, *retry_after, connection, outcome);
    }
    let mut events = connection.events(&[])?;
    send(&mut events, &chunk(model, &json!({ "role": "assistant", "content": "" }), None))?;
    for part in parts {
        match part {
            Part::Wait(time) => events.pause(*time)?,
            Part::Text { text, lasts } => {
                let pieces = if lasts.is_zero() { vec![text.as_str()] } else { pieces(text) };
                let pause = *lasts / u32::try_from(pieces.len()).unwrap_or(1);
                for piece in pieces {
                    send(&mut events, &chunk(model, &json!({ "content": piece }), None))?;
                    outcome.said.push_str(piece);
                    events.pause(pause)?;
                }
            }
            Part::Call { id, tool, input } => {
                let mut call = call(id, tool, input);
                call["index"] = json!(outcome.called.len());
                outcome.called.push(tool.clone());
                send(&mut events, &chunk(model, &json!({ "tool_calls": [call] }), None))?;
            }
            Part::Refuse { status, .. } => {
                outcome.status = *status;
                send(&mut events, &error_body(*status))?;
                return events.end();
            }
        }
    }
    send(&mut events, &chunk(model, &json!({}), Some(outcome)))?;
    events.event("", "[DONE]")?;
    events.end()
}

fn whole(
    model: &str,
    parts: &[Part],
    connection: &mut Connection<'_>,
    outcome: &mut Outcome,
) -> io::Result<()> {
    let mut calls = Vec::new();
    for part in parts {
        match part {
            Part::Wait(time) => connection.pause(*time)?,
            Part::Text { text, lasts } => {
                connection.pause(*lasts)?;
                outcome.said.push_str(text);
            }
            Part::Call { id, tool, input } => {
                outcome.called.push(tool.clone());
                calls.push(call(id, tool, input));
            }
            Part::Refuse { status, retry_after, .. } => {
                return refuse(*status, *retry_after, connection, outcome);
            }
        }
    }
    let mut message = json!({ "role": "assistant", "content": outcome.said });
    if !calls.is_empty() {
        message["tool_calls"] = Value::Array(calls);
    }
    let choice = json!({ "index": 0, "message": message, "finish_reason": finish(outcome) });
    let body = json!({
        "id": "chatcmpl-stub", "object": "chat.completion", "created": 0, "model": model,
        "choices": [choice], "usage": usage(outcome),
    });
    connection.reply(200, &[JSON], body.to_string().as_bytes())
}

fn refuse(
    status: u16,
    retry_after: Option<u64>,
    connection: &mut Connection<'_>,
    outcome: &mut Outcome,
) -> io::Result<()> {
    outcome.status = status;
    let seconds = retry_after.map(|seconds| seconds.to_string());
    let advice = seconds.as_deref().map_or(("x-should-retry", "false"), |seconds| ("retry-after", seconds));
    connection.reply(status, &[JSON, advice], error_body(status).to_string().as_bytes())
}

fn error_body(status: u16) -> Value {
    let (kind, message) = match status {
        401 => ("invalid_request_error", "The stub refuses this key"),
        429 => ("rate_limit_exceeded", "The stub has a limit"),
        400..=499 => ("invalid_request_error", "The stub refuses this request"),
        _ => ("server_error", "Internal server error"),
    };
    json!({ "error": { "type": kind, "code": kind, "message": message } })
}

fn send(events: &mut Events<'_, '_>, data: &Value) -> io::Result<()> {
    events.event("", &data.to_string())
}

fn call(id: &str, tool: &str, input: &Value) -> Value {
    json!({ "id": id, "type": "function", "function": { "name": tool, "arguments": input.to_string() } })
}

/// One piece of a reply; the last one tells why it ends and how much was used.
fn chunk(model: &str, delta: &Value, end: Option<&Outcome>) -> Value {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": end.map(finish) });
    let mut chunk = json!({
        "id": "chatcmpl-stub", "object": "chat.completion.chunk", "created": 0, "model": model,
        "choices": [choice],
    });
    if let Some(outcome) = end {
        chunk["usage"] = usage(outcome);
    }
    chunk
}

fn finish(outcome: &Outcome) -> &'static str {
    if outcome.called.is_empty() { "stop" } else { "tool_calls" }
}

fn usage(outcome: &Outcome) -> Value {
    let said = tokens(outcome.said.len());
    json!({ "prompt_tokens": 10, "completion_tokens": said, "total_tokens": said + 10 })
}

fn recorded(request: &HttpRequest) -> Request {
    let mut record = super::record(request, Kind::Turn);
    let body = Arc::clone(&record.body);
    record.model = body["model"].as_str().map(str::to_owned);
    record.system = list(&body["messages"])
        .filter(|message| matches!(message["role"].as_str(), Some("system" | "developer")))
        .flat_map(|message| texts(&message["content"]))
        .collect::<Vec<_>>()
        .join("\n");
    record.tools = list(&body["tools"])
        .filter_map(|tool| tool["function"]["name"].as_str())
        .map(str::to_owned)
        .collect();
    let turns = turns(&body);
    let answered = turns.iter().rposition(|turn| turn.role == Role::Assistant).map_or(0, |last| last + 1);
    record.texts = turns[answered..].iter().flat_map(|turn| turn.texts.clone()).collect();
    if record.tools.is_empty() {
        record.kind = Kind::Side;
    }
    record
}

/// Returns the conversation; results of tools say nothing in it. What was followed by another text without a word of
/// the model was interrupted.
fn turns(body: &Value) -> Vec<Turn> {
    let mut last = "";
    list(&body["messages"])
        .filter_map(|message| {
            let before = std::mem::replace(&mut last, message["role"].as_str()?);
            let role = match last {
                "assistant" => Role::Assistant,
                "user" => Role::User,
                _ => return None,
            };
            let mut texts = texts(&message["content"]);
            if before == "user" && last == "user" {
                texts.insert(0, script::INTERRUPTED[0].to_owned());
            }
            let calls = list(&message["tool_calls"])
                .filter_map(|call| call["id"].as_str().map(str::to_owned))
                .collect();
            Some(Turn { role, texts, calls })
        })
        .collect()
}

/// Returns the texts of a content, be it a string or a list of parts.
fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        _ => list(content).filter_map(|part| part["text"].as_str()).map(str::to_owned).collect(),
    }
}
