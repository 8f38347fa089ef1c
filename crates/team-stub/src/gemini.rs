//! The `generateContent` API, with and without streaming.
//!
//! Knows its requests, replies and errors. Must not know how directives are written.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::anthropic::{Part, Shell, list, plan, tokens};
use crate::http::{Connection, Events, HttpRequest};
use crate::script::{self, Role, Turn};
use crate::{Kind, Outcome, Request, Shared, pieces};

const JSON: (&str, &str) = ("content-type", "application/json");

/// What a request without tools is answered with.
const TITLE: &str = "Stubbed session";

const SHELL: Shell = Shell {
    id: "call_",
    tool: "run_shell_command",
    input: |command| json!({ "command": command, "description": "Runs what the script says" }),
};

/// Answers `POST /v1beta/models/MODEL:METHOD`.
pub(super) fn models(
    shared: &Shared,
    request: &HttpRequest,
    connection: &mut Connection<'_>,
) -> io::Result<()> {
    let method = request.path().rsplit(':').next().unwrap_or_default();
    let record = recorded(request, method);
    let (body, kind) = (Arc::clone(&record.body), record.kind);
    let number = shared.arrived(record);
    let turns = turns(&body);
    let length = script::length(&turns);
    let mut outcome = Outcome { status: 200, said: String::new(), called: Vec::new(), finished: false };
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
    let sent = match method {
        "countTokens" => {
            let count = json!({ "totalTokens": tokens(request.body.len()) });
            connection.reply(200, &[JSON], count.to_string().as_bytes())
        }
        "streamGenerateContent" => stream(&parts, connection, &mut outcome),
        _ => whole(&parts, connection, &mut outcome),
    };
    outcome.finished = sent.is_ok();
    shared.answered(number, outcome);
    sent
}

fn stream(parts: &[Part], connection: &mut Connection<'_>, outcome: &mut Outcome) -> io::Result<()> {
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
    for part in parts {
        match part {
            Part::Wait(time) => events.pause(*time)?,
            Part::Text { text, lasts } => {
                let pieces = if lasts.is_zero() { vec![text.as_str()] } else { pieces(text) };
                let pause = *lasts / u32::try_from(pieces.len()).unwrap_or(1);
                for piece in pieces {
                    send(&mut events, &candidate(&[json!({ "text": piece })], None))?;
                    outcome.said.push_str(piece);
                    events.pause(pause)?;
                }
            }
            Part::Call { id, tool, input } => {
                outcome.called.push(tool.clone());
                send(&mut events, &candidate(&[call(id, tool, input)], None))?;
            }
            Part::Refuse { status, .. } => {
                outcome.status = *status;
                send(&mut events, &error_body(*status, None))?;
                return events.end();
            }
        }
    }
    send(&mut events, &candidate(&[json!({ "text": "" })], Some(outcome)))?;
    events.end()
}

fn whole(parts: &[Part], connection: &mut Connection<'_>, outcome: &mut Outcome) -> io::Result<()> {
    let mut content = Vec::new();
    for part in parts {
        match part {
            Part::Wait(time) => connection.pause(*time)?,
            Part::Text { text, lasts } => {
                connection.pause(*lasts)?;
                outcome.said.push_str(text);
                content.push(json!({ "text": text }));
            }
            Part::Call { id, tool, input } => {
                outcome.called.push(tool.clone());
                content.push(call(id, tool, input));
            }
            Part::Refuse { status, retry_after, .. } => {
                return refuse(*status, *retry_after, connection, outcome);
            }
        }
    }
    connection.reply(200, &[JSON], candidate(&content, Some(outcome)).to_string().as_bytes())
}

fn refuse(
    status: u16,
    retry_after: Option<u64>,
    connection: &mut Connection<'_>,
    outcome: &mut Outcome,
) -> io::Result<()> {
    outcome.status = status;
    connection.reply(status, &[JSON], error_body(status, retry_after).to_string().as_bytes())
}

/// A limit without a time is that of a day; with one, that of a minute.
fn error_body(status: u16, retry_after: Option<u64>) -> Value {
    let (word, message) = match status {
        400 => ("INVALID_ARGUMENT", "The stub refuses this request"),
        401 | 403 => ("PERMISSION_DENIED", "The stub refuses this key"),
        429 => ("RESOURCE_EXHAUSTED", "The stub has a limit"),
        503 | 529 => ("UNAVAILABLE", "Overloaded"),
        _ => ("INTERNAL", "Internal error"),
    };
    let mut details = Vec::new();
    if status == 429 {
        let per = if retry_after.is_some() { "PerMinute" } else { "PerDay" };
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.QuotaFailure",
            "violations": [{ "quotaId": format!("GenerateRequests{per}PerProjectPerModel"), "quotaValue": "50" }],
        }));
    }
    if let Some(seconds) = retry_after {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": format!("{seconds}s"),
        }));
    }
    json!({ "error": { "code": status, "message": message, "status": word, "details": details } })
}

fn send(events: &mut Events<'_, '_>, data: &Value) -> io::Result<()> {
    events.event("", &data.to_string())
}

fn call(id: &str, tool: &str, input: &Value) -> Value {
    json!({ "functionCall": { "id": id, "name": tool, "args": input } })
}

/// One piece of a reply; the last one tells how much was used.
fn candidate(parts: &[Value], end: Option<&Outcome>) -> Value {
    let mut candidate = json!({ "content": { "role": "model", "parts": parts }, "index": 0 });
    let mut reply = json!({ "modelVersion": "stub", "responseId": "stub" });
    if let Some(outcome) = end {
        candidate["finishReason"] = json!("STOP");
        let said = tokens(outcome.said.len());
        reply["usageMetadata"] =
            json!({ "promptTokenCount": 10, "candidatesTokenCount": said, "totalTokenCount": said + 10 });
    }
    reply["candidates"] = json!([candidate]);
    reply
}

fn recorded(request: &HttpRequest, method: &str) -> Request {
    let mut record = crate::record(request, Kind::Turn);
    let body = Arc::clone(&record.body);
    let path = request.path();
    record.model =
        path.strip_prefix("/v1beta/models/").and_then(|it| it.split(':').next()).map(str::to_owned);
    record.system = texts(&body["systemInstruction"]["parts"]).join("\n");
    record.tools = list(&body["tools"])
        .flat_map(|tool| list(&tool["functionDeclarations"]))
        .filter_map(|tool| tool["name"].as_str())
        .map(str::to_owned)
        .collect();
    let turns = turns(&body);
    let answered = turns.iter().rposition(|turn| turn.role == Role::Assistant).map_or(0, |last| last + 1);
    record.texts = turns[answered..].iter().flat_map(|turn| turn.texts.clone()).collect();
    if method == "countTokens" {
        record.kind = Kind::Count;
    } else if record.tools.is_empty() {
        record.kind = Kind::Side;
    }
    record
}

fn turns(body: &Value) -> Vec<Turn> {
    list(&body["contents"])
        .map(|content| {
            let role = if content["role"] == "model" { Role::Assistant } else { Role::User };
            let calls = list(&content["parts"])
                .filter_map(|part| part["functionCall"]["id"].as_str().map(str::to_owned))
                .collect();
            Turn { role, texts: texts(&content["parts"]), calls }
        })
        .collect()
}

/// Returns the texts among parts; calls and their results are none.
fn texts(parts: &Value) -> Vec<String> {
    list(parts).filter_map(|part| part["text"].as_str()).map(str::to_owned).collect()
}
