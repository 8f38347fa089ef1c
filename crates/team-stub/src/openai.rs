//! The Responses API, streamed.
//!
//! Knows its requests, items, events and errors. Must not know how directives are written.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use uuid::Uuid;

use crate::http::{Connection, Events, HttpRequest};
use crate::script::{self, Act, Directive, Role, Turn};
use crate::{Kind, Outcome, Request, Shared, pieces};

const JSON: (&str, &str) = ("content-type", "application/json");
const TITLE: &str = "Stubbed session";
const SUMMARY: &str = "A summary by the stub";
const DEFAULT_TEXT: &str = "ok";

/// The id of the only account there is.
const ACCOUNT: &str = "stub";

/// How the last text begins when a conversation is to be summed up.
const SUMMARY_WANTED: &str = "You are performing a CONTEXT CHECKPOINT COMPACTION";

/// How the summary of a conversation begins that stands in its place.
const SUMMED_UP: &str = "Another language model started to solve this problem and produced a summary";

/// Names of shell tools, the first offered one is used, and how each takes a command.
const SHELLS: [&str; 3] = ["exec_command", "shell_command", "shell"];

/// Answers `POST /v1/responses`.
pub(super) fn responses(
    shared: &Shared,
    request: &HttpRequest,
    connection: &mut Connection<'_>,
) -> io::Result<()> {
    let record = recorded(request);
    let body = std::sync::Arc::clone(&record.body);
    let (kind, session) = (record.kind, record.session.clone());
    let number = shared.arrived(record);
    let turns = turns(&body);
    let length = script::length(&turns);
    let acts = match kind {
        Kind::Turn => script::next_acts(&turns, |act| shared.has_refused(session.as_deref(), act, length)),
        _ => Vec::new(),
    };
    let mut outcome = Outcome { status: 200, said: String::new(), called: Vec::new(), finished: false };
    let sent =
        answer(shared, &body, kind, session.as_deref(), (&turns, length), &acts, connection, &mut outcome);
    outcome.finished = sent.is_ok();
    shared.answered(number, outcome);
    sent
}

/// Answers what is asked of the service around the model, of which there is little here: an account `stub`.
///
/// An empty object would be taken for somebody who may use nothing.
pub(super) fn around(
    shared: &Shared,
    request: &HttpRequest,
    connection: &mut Connection<'_>,
) -> io::Result<()> {
    let number = shared.arrived(crate::record(request, Kind::Other));
    let (status, body) = if request.path().ends_with("/accounts/check") {
        // Only this form is taken; nobody answers there, so that nothing more is wanted of it.
        let origin = format!("https://{}", request.header("host").unwrap_or("127.0.0.1"));
        let account = json!({
            "id": ACCOUNT, "workspace_backend_origin": origin, "account_routing_override": "NO_CONSTRAINT",
        });
        (200, json!({ "accounts": [account], "default_account_id": ACCOUNT }))
    } else {
        (404, json!({}))
    };
    let mut outcome = Outcome { status, said: String::new(), called: Vec::new(), finished: false };
    let sent = connection.reply(status, &[JSON], body.to_string().as_bytes());
    outcome.finished = sent.is_ok();
    shared.answered(number, outcome);
    sent
}

#[expect(clippy::too_many_arguments, reason = "one call, from one place, with what is at hand there")]
fn answer(
    shared: &Shared,
    body: &Value,
    kind: Kind,
    session: Option<&str>,
    (turns, length): (&[Turn], usize),
    acts: &[Act],
    connection: &mut Connection<'_>,
    outcome: &mut Outcome,
) -> io::Result<()> {
    // A refusal has a status of its own as long as nothing was said before it.
    let silent = acts.iter().take_while(|act| matches!(act.directive, Directive::Think(_))).count();
    if let Some(act @ Act { directive: Directive::Error { status, retry_after }, .. }) = acts.get(silent) {
        for act in &acts[..silent] {
            if let Directive::Think(time) = act.directive {
                connection.pause(time)?;
            }
        }
        shared.refuse(session, act, length);
        return refuse(*status, *retry_after, connection, outcome);
    }
    let mut reply = Reply { events: connection.events(&[])?, output: Vec::new(), outcome };
    reply.begin()?;
    if kind == Kind::Side {
        reply.text(&side_text(body), Duration::ZERO)?;
        return reply.end();
    }
    for act in acts {
        match &act.directive {
            Directive::Say(text) => reply.text(text, Duration::ZERO)?,
            Directive::Slow { lasts, text } => reply.text(text, *lasts)?,
            Directive::Think(time) => reply.events.pause(*time)?,
            Directive::Recall(back) => {
                let text = script::recall(turns, *back).unwrap_or("nothing was said there");
                reply.text(text, Duration::ZERO)?;
            }
            Directive::Bad(words) => {
                reply.text(&format!("this directive was not understood: {words}"), Duration::ZERO)?;
            }
            Directive::Call { tool, input } => reply.call(act, body, tool, input)?,
            Directive::Bash(command) => reply.bash(act, body, command, false)?,
            Directive::Ask(command) => reply.bash(act, body, command, true)?,
            Directive::Error { status, .. } => {
                shared.refuse(session, act, length);
                return reply.fail(*status);
            }
        }
    }
    if reply.output.is_empty() {
        reply.text(DEFAULT_TEXT, Duration::ZERO)?;
    }
    reply.end()
}

/// A reply under way.
struct Reply<'r, 'c, 'a> {
    events: Events<'c, 'a>,
    output: Vec<Value>,
    outcome: &'r mut Outcome,
}

impl Reply<'_, '_, '_> {
    fn send(&mut self, data: &Value) -> io::Result<()> {
        self.events.event(data["type"].as_str().unwrap_or_default(), &data.to_string())
    }

    fn begin(&mut self) -> io::Result<()> {
        self.send(&json!({ "type": "response.created", "response": { "id": "resp_stub", "output": [] } }))
    }

    fn item(&mut self, item: Value) -> io::Result<()> {
        let index = self.output.len();
        self.send(&json!({ "type": "response.output_item.done", "output_index": index, "item": item }))?;
        self.output.push(item);
        Ok(())
    }

    fn text(&mut self, text: &str, lasts: Duration) -> io::Result<()> {
        let (id, index) = (format!("msg_{}", Uuid::new_v4().simple()), self.output.len());
        let item = |content: Value, status: &str| json!({ "type": "message", "id": id, "role": "assistant", "status": status, "content": content });
        let begun = item(json!([]), "in_progress");
        self.send(&json!({ "type": "response.output_item.added", "output_index": index, "item": begun }))?;
        let pieces = if lasts.is_zero() { vec![text] } else { pieces(text) };
        let pause = lasts / u32::try_from(pieces.len()).unwrap_or(1).max(1);
        for piece in pieces {
            self.send(&json!({
                "type": "response.output_text.delta", "item_id": id, "output_index": index,
                "content_index": 0, "delta": piece,
            }))?;
            self.outcome.said.push_str(piece);
            self.events.pause(pause)?;
        }
        let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
        self.item(item(content, "completed"))
    }

    fn call(&mut self, act: &Act, body: &Value, tool: &str, input: &Value) -> io::Result<()> {
        let id = act.call_id("call_", &Uuid::new_v4().simple().to_string());
        self.outcome.called.push(tool.to_owned());
        let offered = offered(body);
        let function = |namespace: Option<&str>, name: &str| {
            let mut item = json!({
                "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
                "arguments": input.to_string(),
            });
            if let Some(namespace) = namespace {
                item["namespace"] = json!(namespace);
            }
            item
        };
        let item = match offered.iter().find(|it| it.full == tool && it.place != Place::InCode) {
            Some(Offered { place: Place::Namespace(namespace), name, .. }) => function(Some(namespace), name),
            None if offers(&offered, CODE) => return self.code(&id, tool, input),
            // What is kept back until it is searched for may be called at once.
            None if offers(&offered, SEARCH) && tool.starts_with(OF_SERVERS) => {
                let (namespace, name) = tool.rsplit_once("__").unwrap_or_default();
                function(Some(namespace), name)
            }
            _ => function(None, tool),
        };
        self.item(item)
    }

    /// Calls a tool by the tool that takes code.
    fn code(&mut self, id: &str, tool: &str, input: &Value) -> io::Result<()> {
        let (item_id, index) = (format!("ctc_{id}"), self.output.len());
        let name: String = tool.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '_' }).collect();
        // Else the program lets go of what takes long, and the model goes on beside it.
        let code = format!("// @exec: {{\"yield_time_ms\": {LONG}}}\ntext(await tools.{name}({input}));");
        let item = |input: &str, status: &str| {
            json!({
                "type": "custom_tool_call", "id": item_id, "call_id": id, "name": CODE, "input": input,
                "status": status,
            })
        };
        let begun = item("", "in_progress");
        self.send(&json!({ "type": "response.output_item.added", "output_index": index, "item": begun }))?;
        for piece in pieces(&code) {
            self.send(&json!({
                "type": "response.custom_tool_call_input.delta", "item_id": item_id, "output_index": index,
                "delta": piece,
            }))?;
        }
        self.send(&json!({
            "type": "response.custom_tool_call_input.done", "item_id": item_id, "output_index": index,
            "input": code,
        }))?;
        self.item(item(&code, "completed"))
    }

    fn bash(&mut self, act: &Act, body: &Value, command: &str, ask: bool) -> io::Result<()> {
        let offered = offered(body);
        let shell = SHELLS.into_iter().find(|name| offers(&offered, name));
        let shell = shell.unwrap_or(SHELLS[0]);
        let mut input = match shell {
            "exec_command" => json!({ "cmd": command, "yield_time_ms": 60_000 }),
            "shell_command" => json!({ "command": command }),
            _ => json!({ "command": ["bash", "-c", command] }),
        };
        if ask {
            // Outside of its sandbox nothing runs unasked.
            input["sandbox_permissions"] = json!("require_escalated");
            input["justification"] = json!("it is needed");
        }
        self.call(act, body, shell, &input)
    }

    fn fail(mut self, status: u16) -> io::Result<()> {
        self.outcome.status = status;
        let error = json!({ "code": "server_error", "message": format!("The stub fails with {status}") });
        self.send(&json!({ "type": "response.failed", "response": { "id": "resp_stub", "error": error } }))?;
        self.events.end()
    }

    fn end(mut self) -> io::Result<()> {
        let tokens = self.outcome.said.len() / 4 + 1;
        let usage = json!({
            "input_tokens": 10, "input_tokens_details": { "cached_tokens": 0 },
            "output_tokens": tokens, "output_tokens_details": { "reasoning_tokens": 0 },
            "total_tokens": tokens + 10,
        });
        let response = json!({ "id": "resp_stub", "output": self.output, "usage": usage });
        self.send(&json!({ "type": "response.completed", "response": response }))?;
        self.events.end()
    }
}

/// The tool that takes code, where the model is offered that instead of functions.
const CODE: &str = "exec";

/// The tool that finds others, where those of servers are kept back until they are wanted.
const SEARCH: &str = "tool_search";

/// How the names of servers' tools begin.
const OF_SERVERS: &str = "mcp__";

/// How long code may run before the model is told that it still does, in milliseconds.
const LONG: u32 = 600_000;

/// The namespace of the functions that have none.
const PLAIN: &str = "functions";

/// How a tool that code may call is headed in the description of the one that takes code.
const IN_CODE: &str = "### `";

/// Refuses; a 429 that says when to come again is the limit of a plan, one that does not is a passing one.
fn refuse(
    status: u16,
    retry_after: Option<u64>,
    connection: &mut Connection<'_>,
    outcome: &mut Outcome,
) -> io::Result<()> {
    outcome.status = status;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
    let error = match (status, retry_after) {
        (429, Some(seconds)) => json!({
            "type": "usage_limit_reached", "message": "The usage limit has been reached",
            "plan_type": "plus", "resets_at": now + seconds, "resets_in_seconds": seconds,
        }),
        (429, None) => {
            json!({ "type": "rate_limit_exceeded", "code": "rate_limit_exceeded", "message": "The stub has a limit" })
        }
        (400..=499, _) => {
            json!({ "type": "invalid_request_error", "message": "The stub refuses this request" })
        }
        _ => json!({ "type": "server_error", "message": "Internal server error" }),
    };
    let resets = (now + retry_after.unwrap_or(0)).to_string();
    let mut headers = vec![JSON];
    if status == 429 && retry_after.is_some() {
        headers.extend([
            ("x-codex-primary-used-percent", "100"),
            ("x-codex-primary-window-minutes", "300"),
            ("x-codex-primary-reset-at", resets.as_str()),
        ]);
    }
    connection.reply(status, &headers, json!({ "error": error }).to_string().as_bytes())
}

fn recorded(request: &HttpRequest) -> Request {
    let mut record = crate::record(request, Kind::Turn);
    let body = std::sync::Arc::clone(&record.body);
    record.session = ["session_id", "session-id", "conversation_id"]
        .iter()
        .find_map(|it| request.header(it))
        .or_else(|| body["prompt_cache_key"].as_str())
        .map(str::to_owned);
    record.model = body["model"].as_str().map(str::to_owned);
    let developer = list(&body["input"])
        .filter(|it| it["type"] == "message" && it["role"] == "developer")
        .flat_map(|it| texts(&it["content"]));
    record.system = body["instructions"]
        .as_str()
        .map(str::to_owned)
        .into_iter()
        .chain(developer)
        .collect::<Vec<_>>()
        .join("\n");
    record.tools = offered(&body).into_iter().map(|it| it.full).collect();
    let turns = turns(&body);
    let answered = turns.iter().rposition(|turn| turn.role == Role::Assistant).map_or(0, |last| last + 1);
    record.texts = turns[answered..].iter().flat_map(|turn| turn.texts.clone()).collect();
    if record.tools.is_empty() || record.texts.last().is_some_and(|text| text.starts_with(SUMMARY_WANTED)) {
        record.kind = Kind::Side;
    }
    record
}

/// Reduces the items to what scripts need. What one reply brought is one turn, however many items it has.
fn turns(body: &Value) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    for item in list(&body["input"]) {
        let kind = item["type"].as_str().unwrap_or("message");
        let (role, said, call) = match kind {
            // What stands before a summary was answered.
            "message" if texts(&item["content"]).iter().any(|it| it.starts_with(SUMMED_UP)) => {
                (Role::Assistant, texts(&item["content"]), None)
            }
            "message" if item["role"] == "assistant" => (Role::Assistant, texts(&item["content"]), None),
            "message" if item["role"] == "user" => (Role::User, texts(&item["content"]), None),
            "function_call" | "custom_tool_call" => (Role::Assistant, Vec::new(), item["call_id"].as_str()),
            "function_call_output" | "custom_tool_call_output" => (Role::User, Vec::new(), None),
            _ => continue,
        };
        let calls = call.map(str::to_owned);
        match turns.last_mut() {
            Some(last) if last.role == role && role == Role::Assistant => {
                last.texts.extend(said);
                last.calls.extend(calls);
            }
            _ => turns.push(Turn { role, texts: said, calls: calls.into_iter().collect() }),
        }
    }
    turns
}

/// A tool that the model is offered.
struct Offered {
    place: Place,
    name: String,
    full: String,
}

/// Where a tool is offered.
#[derive(PartialEq, Eq)]
enum Place {
    Plain,
    Namespace(String),
    /// To be called by code only.
    InCode,
}

/// Lists the tools offered: beside the conversation, or in an item of its own at its beginning.
fn offered(body: &Value) -> Vec<Offered> {
    let items = list(&body["input"]).filter(|it| it["type"] == "additional_tools");
    let mut all = Vec::new();
    for tool in list(&body["tools"]).chain(items.flat_map(|it| list(&it["tools"]))) {
        let name = tool["name"].as_str().or_else(|| tool["type"].as_str()).unwrap_or_default().to_owned();
        if tool["type"] == "namespace" {
            for inner in list(&tool["tools"]) {
                if name == PLAIN {
                    plain(inner, &mut all);
                    continue;
                }
                let inner = inner["name"].as_str().unwrap_or_default().to_owned();
                let full = format!("{name}__{inner}");
                all.push(Offered { full, place: Place::Namespace(name.clone()), name: inner });
            }
        } else {
            plain(tool, &mut all);
        }
    }
    all
}

fn plain(tool: &Value, all: &mut Vec<Offered>) {
    let name = tool["name"].as_str().or_else(|| tool["type"].as_str()).unwrap_or_default().to_owned();
    if name == CODE && tool["type"] == "custom" {
        let heads = tool["description"].as_str().unwrap_or_default().lines();
        let inside = heads.filter_map(|it| it.trim().strip_prefix(IN_CODE)?.strip_suffix('`'));
        all.extend(inside.map(|it| Offered {
            place: Place::InCode,
            name: it.to_owned(),
            full: it.to_owned(),
        }));
    }
    all.push(Offered { place: Place::Plain, full: name.clone(), name });
}

fn offers(offered: &[Offered], tool: &str) -> bool {
    offered.iter().any(|it| it.full == tool)
}

fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        _ => list(content).filter_map(|part| part["text"].as_str().map(str::to_owned)).collect(),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns what a request without tools is answered with: a title in the form it asks for, or a summary.
fn side_text(body: &Value) -> String {
    let schema = &body["text"]["format"]["schema"]["properties"];
    if schema["title"].is_object() { json!({ "title": TITLE }).to_string() } else { SUMMARY.to_owned() }
}
