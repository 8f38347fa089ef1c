//! The Messages API, with and without streaming.
//!
//! Knows its requests, replies, events and errors. Must not know how directives are written.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::http::{Connection, Events, HttpRequest};
use crate::script::{self, Act, Directive, Role, Turn};
use crate::{Kind, Outcome, Request, Shared, pieces};

const JSON: (&str, &str) = ("content-type", "application/json");
const TITLE: &str = "Stubbed session";
/// How the last text begins when a conversation is to be summed up. It may stand behind texts that were answered
/// already, because the program leaves out what it keeps.
const SUMMARY_WANTED: &str = "CRITICAL: Respond with TEXT ONLY";

const DEFAULT_TEXT: &str = "ok";

/// Answers `POST /v1/messages`.
pub(super) fn messages(
    shared: &Shared,
    request: &HttpRequest,
    connection: &mut Connection<'_>,
) -> io::Result<()> {
    let record = recorded(request);
    let body = std::sync::Arc::clone(&record.body);
    let kind = record.kind;
    let session = record.session.clone();
    let number = shared.arrived(record);
    let turns = turns(&body);
    let length = script::length(&turns);
    let plan = match kind {
        Kind::Side => vec![Part::Text { text: side_text(&body), lasts: Duration::ZERO }],
        _ => plan(
            &turns,
            &script::next_acts(&turns, |act| shared.has_refused(session.as_deref(), act, length)),
            &SHELL,
        ),
    };
    let refusal = plan.iter().find_map(|part| match part {
        Part::Refuse { act, .. } => Some(act.clone()),
        _ => None,
    });
    if let Some(act) = refusal {
        shared.refuse(session.as_deref(), &act, length);
    }
    let model = body["model"].as_str().unwrap_or("stub").to_owned();
    let mut outcome = Outcome { status: 200, said: String::new(), called: Vec::new(), finished: false };
    let sent = if body["stream"].as_bool().unwrap_or(false) {
        stream(&model, &plan, connection, &mut outcome)
    } else {
        whole(&model, &plan, connection, &mut outcome)
    };
    outcome.finished = sent.is_ok();
    shared.answered(number, outcome);
    sent
}

/// Answers `POST /v1/messages/count_tokens`.
pub(super) fn count_tokens(
    shared: &Shared,
    request: &HttpRequest,
    connection: &mut Connection<'_>,
) -> io::Result<()> {
    let mut record = recorded(request);
    record.kind = Kind::Count;
    let number = shared.arrived(record);
    let count = json!({ "input_tokens": tokens(request.body.len()) });
    let sent = connection.reply(200, &[JSON], count.to_string().as_bytes());
    let outcome = Outcome { status: 200, said: String::new(), called: Vec::new(), finished: sent.is_ok() };
    shared.answered(number, outcome);
    sent
}

/// One thing in a reply.
#[derive(Debug)]
pub(super) enum Part {
    Text { text: String, lasts: Duration },
    Wait(Duration),
    Call { id: String, tool: String, input: Value },
    Refuse { act: Act, status: u16, retry_after: Option<u64> },
}

/// How a program's shell tool is called, and how ids of calls begin.
pub(super) struct Shell {
    pub(super) id: &'static str,
    pub(super) tool: &'static str,
    pub(super) input: fn(&str) -> Value,
}

/// The shell tool of the programs that speak this protocol.
const SHELL: Shell = Shell {
    id: "toolu_",
    tool: "Bash",
    input: |command| json!({ "command": command, "description": "Runs what the script says" }),
};

/// Turns acts into the parts of a reply; there is always something in it.
pub(super) fn plan(turns: &[Turn], acts: &[Act], shell: &Shell) -> Vec<Part> {
    let at_once = |text: String| Part::Text { text, lasts: Duration::ZERO };
    let call = |act: &Act, tool: &str, input: Value| Part::Call {
        id: act.call_id(shell.id, &Uuid::new_v4().simple().to_string()),
        tool: tool.to_owned(),
        input,
    };
    let mut plan: Vec<Part> = acts
        .iter()
        .map(|act| match &act.directive {
            Directive::Say(text) => at_once(text.clone()),
            Directive::Call { tool, input } => call(act, tool, input.clone()),
            Directive::Bash(command) | Directive::Ask(command) => {
                call(act, shell.tool, (shell.input)(command))
            }
            Directive::Think(time) => Part::Wait(*time),
            Directive::Error { status, retry_after } => {
                Part::Refuse { act: act.clone(), status: *status, retry_after: *retry_after }
            }
            Directive::Recall(back) => {
                at_once(script::recall(turns, *back).unwrap_or("nothing was said there").to_owned())
            }
            Directive::Slow { lasts, text } => Part::Text { text: text.clone(), lasts: *lasts },
            Directive::Bad(body) => at_once(format!("this directive was not understood: {body}")),
        })
        .collect();
    if plan.iter().all(|part| matches!(part, Part::Wait(_))) {
        plan.push(at_once(DEFAULT_TEXT.to_owned()));
    }
    plan
}

fn stream(
    model: &str,
    plan: &[Part],
    connection: &mut Connection<'_>,
    outcome: &mut Outcome,
) -> io::Result<()> {
    // A refusal has a status of its own as long as nothing was said before it.
    let silent = plan.iter().take_while(|part| matches!(part, Part::Wait(_))).count();
    if let Some(Part::Refuse { status, retry_after, .. }) = plan.get(silent) {
        wait_all(&plan[..silent], connection)?;
        return refuse(*status, *retry_after, connection, outcome);
    }
    let mut events = connection.events(&[("request-id", "req_stub")])?;
    let start = json!({ "type": "message_start", "message": message(model, &[], None) });
    send(&mut events, &start)?;
    send(&mut events, &json!({ "type": "ping" }))?;
    let mut index = 0;
    for part in plan {
        match part {
            Part::Wait(time) => events.pause(*time)?,
            Part::Text { text, lasts } => {
                let start = json!({ "type": "text", "text": "" });
                send(
                    &mut events,
                    &json!({ "type": "content_block_start", "index": index, "content_block": start }),
                )?;
                let pieces = if lasts.is_zero() { vec![text.as_str()] } else { pieces(text) };
                let pause = *lasts / u32::try_from(pieces.len()).unwrap_or(1);
                for piece in pieces {
                    let delta = json!({ "type": "text_delta", "text": piece });
                    send(
                        &mut events,
                        &json!({ "type": "content_block_delta", "index": index, "delta": delta }),
                    )?;
                    outcome.said.push_str(piece);
                    events.pause(pause)?;
                }
                send(&mut events, &json!({ "type": "content_block_stop", "index": index }))?;
                index += 1;
            }
            Part::Call { id, tool, input } => {
                let start = json!({ "type": "tool_use", "id": id, "name": tool, "input": {} });
                send(
                    &mut events,
                    &json!({ "type": "content_block_start", "index": index, "content_block": start }),
                )?;
                let delta = json!({ "type": "input_json_delta", "partial_json": input.to_string() });
                send(&mut events, &json!({ "type": "content_block_delta", "index": index, "delta": delta }))?;
                send(&mut events, &json!({ "type": "content_block_stop", "index": index }))?;
                outcome.called.push(tool.clone());
                index += 1;
            }
            Part::Refuse { status, .. } => {
                outcome.status = *status;
                send(&mut events, &error_body(*status))?;
                return events.end();
            }
        }
    }
    let delta = json!({ "stop_reason": stop_reason(outcome), "stop_sequence": null });
    let usage = json!({ "output_tokens": tokens(outcome.said.len()) });
    send(&mut events, &json!({ "type": "message_delta", "delta": delta, "usage": usage }))?;
    send(&mut events, &json!({ "type": "message_stop" }))?;
    events.end()
}

fn whole(
    model: &str,
    plan: &[Part],
    connection: &mut Connection<'_>,
    outcome: &mut Outcome,
) -> io::Result<()> {
    let mut content = Vec::new();
    for part in plan {
        match part {
            Part::Wait(time) => connection.pause(*time)?,
            Part::Text { text, lasts } => {
                connection.pause(*lasts)?;
                outcome.said.push_str(text);
                content.push(json!({ "type": "text", "text": text }));
            }
            Part::Call { id, tool, input } => {
                outcome.called.push(tool.clone());
                content.push(json!({ "type": "tool_use", "id": id, "name": tool, "input": input }));
            }
            Part::Refuse { status, retry_after, .. } => {
                return refuse(*status, *retry_after, connection, outcome);
            }
        }
    }
    let body = message(model, &content, Some(stop_reason(outcome)));
    connection.reply(200, &[JSON, ("request-id", "req_stub")], body.to_string().as_bytes())
}

fn wait_all(parts: &[Part], connection: &mut Connection<'_>) -> io::Result<()> {
    for part in parts {
        if let Part::Wait(time) = part {
            connection.pause(*time)?;
        }
    }
    Ok(())
}

fn refuse(
    status: u16,
    retry_after: Option<u64>,
    connection: &mut Connection<'_>,
    outcome: &mut Outcome,
) -> io::Result<()> {
    outcome.status = status;
    let seconds = retry_after.map(|seconds| seconds.to_string());
    let advice = match &seconds {
        Some(seconds) => [("retry-after", seconds.as_str()), ("x-should-retry", "true")],
        None => [("request-id", "req_stub"), ("x-should-retry", "false")],
    };
    connection.reply(status, &[JSON, advice[0], advice[1]], error_body(status).to_string().as_bytes())
}

fn error_body(status: u16) -> Value {
    let (kind, message) = match status {
        401 => ("authentication_error", "The stub refuses this key"),
        429 => ("rate_limit_error", "The stub has a limit"),
        529 => ("overloaded_error", "Overloaded"),
        400..=499 => ("invalid_request_error", "The stub refuses this request"),
        _ => ("api_error", "Internal server error"),
    };
    json!({ "type": "error", "error": { "type": kind, "message": message }, "request_id": "req_stub" })
}

fn send(events: &mut Events<'_, '_>, data: &Value) -> io::Result<()> {
    events.event(data["type"].as_str().unwrap_or_default(), &data.to_string())
}

fn message(model: &str, content: &[Value], stop_reason: Option<&str>) -> Value {
    json!({
        "id": format!("msg_stub_{}", Uuid::new_v4().simple()),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": null,
        "usage": {
            "input_tokens": 10,
            "output_tokens": 1,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    })
}

fn stop_reason(outcome: &Outcome) -> &'static str {
    if outcome.called.is_empty() { "end_turn" } else { "tool_use" }
}

pub(super) fn tokens(bytes: usize) -> usize {
    bytes / 4 + 1
}

fn recorded(request: &HttpRequest) -> Request {
    let mut record = crate::record(request, Kind::Turn);
    let body = std::sync::Arc::clone(&record.body);
    record.session = request.header("x-claude-code-session-id").map(str::to_owned);
    record.model = body["model"].as_str().map(str::to_owned);
    record.system = texts(&body["system"]).join("\n");
    record.tools = list(&body["tools"]).filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect();
    let turns = turns(&body);
    let answered = turns.iter().rposition(|turn| turn.role == Role::Assistant).map_or(0, |last| last + 1);
    record.texts = turns[answered..].iter().flat_map(|turn| turn.texts.clone()).collect();
    if record.tools.is_empty() || record.texts.last().is_some_and(|text| text.starts_with(SUMMARY_WANTED)) {
        record.kind = Kind::Side;
    }
    record
}

fn turns(body: &Value) -> Vec<Turn> {
    list(&body["messages"])
        .filter(|message| message["role"] != "system" || hands_something_over(message))
        .map(|message| {
            let role = if message["role"] == "assistant" { Role::Assistant } else { Role::User };
            let calls = list(&message["content"])
                .filter(|block| block["type"] == "tool_use")
                .filter_map(|block| block["id"].as_str().map(str::to_owned))
                .collect();
            Turn { role, texts: texts(&message["content"]), calls }
        })
        .collect()
}

/// Tells whether a message in the program's own name passes on what somebody said; the others are lists of tools
/// and the like.
fn hands_something_over(message: &Value) -> bool {
    texts(&message["content"]).iter().any(|text| text.contains("<task-notification>"))
}

/// Returns the texts of a content, be it a string or a list of blocks; tool results are none.
fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        _ => list(content)
            .filter(|block| block["type"] == "text")
            .filter_map(|block| block["text"].as_str().map(str::to_owned))
            .collect(),
    }
}

pub(super) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns what a request without tools is answered with: a title, in the form it asks for.
fn side_text(body: &Value) -> String {
    let schema = &body["output_config"]["format"]["schema"]["properties"];
    if schema["title"].is_object() { json!({ "title": TITLE }).to_string() } else { TITLE.to_owned() }
}
