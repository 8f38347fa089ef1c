//! The protocol of the program's server.
//!
//! Long: one state machine, whose parts read each other's fields.
//!
//! Knows methods, notifications and requests. Must not know files, sockets or the log.
//!
//! The screen makes the conversation, or takes up an earlier one; we learn its id from the server. It is told to whom
//! it concerns only once it has a record, which it gets with its first turn: from then on we are subscribed.
//! A message is handed over while no turn runs, by a request that starts one, under an id of ours. The server does not
//! notice a repetition of that id and its reply proves nothing, so what was sent counts as taken only when the server
//! shows it as an item of the conversation, and is sent again only after a look at the record.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::records::said;
use crate::bridge::{Bridge, BridgeContext, Input, Output};
use crate::fact::{ActivityKind, Fact, TurnOutcome};

/// How long to wait before the server is asked again for a conversation that has no record yet.
const AGAIN: Duration = Duration::from_millis(50);
/// How often, for one turn.
const TRIES: u32 = 40;
/// How long nothing is sent after the server has refused a message.
const REFUSED: Duration = Duration::from_secs(1);
/// How long to wait before the record is asked again for a message.
const MISSED: Duration = Duration::from_millis(250);
/// Why a turn has ended that its server took along.
const LOST: &str = "the program's server ended";
/// The most of a question that is told.
const SUMMARY: usize = 4096;

/// What a request of ours asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Initialize,
    /// Which conversations are loaded.
    Loaded,
    /// One of them.
    Read,
    /// To be told about ours.
    Resume,
    /// To start a turn with the message that is under way.
    Turn,
    /// Anything whose reply changes nothing.
    Other,
}

/// A message on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Message {
    key: String,
    text: String,
    /// The turn that the server began for it.
    turn: Option<String>,
    /// Whether the record is to be asked for it.
    look: bool,
    /// Whether it was sent over the present connection: then it will be taken, as long as the server lives.
    sent: bool,
    /// How often the record was asked in vain.
    misses: u32,
}

/// A turn that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Turn {
    id: String,
    /// Whether its beginning was told.
    told: bool,
    /// The last words of the model.
    text: Option<String>,
}

/// A question for permission that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Question {
    /// The id of the server's request, over the present connection.
    request: Value,
    method: String,
}

/// The state machine.
#[expect(clippy::struct_excessive_bools, reason = "each was told or not, independently")]
#[derive(Debug)]
pub(super) struct Protocol {
    tool_prefix: String,
    next: u64,
    asked: BTreeMap<u64, Asked>,
    thread: Option<String>,
    /// Whether the conversation was there before this start.
    earlier: bool,
    /// Whether a bridge before us may have told of a turn that has ended since.
    again: bool,
    connected: bool,
    subscribed: bool,
    /// Whether the screen was told to come.
    opened: bool,
    /// Whether the server has said that a turn runs.
    active: bool,
    /// Whether what the conversation does is known.
    settled: bool,
    /// Whether a turn has ended before we were subscribed to it.
    unseen: bool,
    turn: Option<Turn>,
    message: Option<Message>,
    questions: BTreeMap<String, Question>,
    /// When a limit ends, as the server told last.
    resets: Option<i64>,
    tries: u32,
    /// Whether the server has just refused a message.
    refused: bool,
}

impl Protocol {
    pub(super) fn new(context: &BridgeContext<'_>) -> Self {
        Self {
            tool_prefix: context
                .tool_prefix
                .trim_end_matches('_')
                .rsplit("__")
                .next()
                .unwrap_or_default()
                .to_owned(),
            next: 0,
            asked: BTreeMap::new(),
            thread: context.native_id.map(str::to_owned),
            earlier: context.native_id.is_some(),
            again: context.again,
            connected: false,
            subscribed: false,
            opened: false,
            active: false,
            settled: false,
            unseen: false,
            turn: None,
            message: None,
            questions: BTreeMap::new(),
            resets: None,
            tries: 0,
            refused: false,
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "it is made for this call")]
    fn ask(&mut self, asked: Asked, method: &str, params: Value) -> Output {
        self.next += 1;
        self.asked.insert(self.next, asked);
        Output::Send(json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params }))
    }

    fn fact(record: &str, fact: Fact) -> Output {
        Output::Fact { record: record.to_owned(), fact }
    }

    fn resume(&mut self) -> Vec<Output> {
        let Some(thread) = self.thread.clone() else { return Vec::new() };
        if self.asked.values().any(|it| *it == Asked::Resume) {
            return Vec::new();
        }
        let params = json!({ "threadId": thread, "excludeTurns": true });
        vec![self.ask(Asked::Resume, "thread/resume", params)]
    }

    fn is_ours(&self, params: &Value) -> bool {
        self.thread.is_some() && params["threadId"].as_str() == self.thread.as_deref()
    }

    fn reply(&mut self, id: u64, frame: &Value) -> Vec<Output> {
        let Some(asked) = self.asked.remove(&id) else { return Vec::new() };
        let result = frame.get("result");
        match (asked, result) {
            (Asked::Initialize, Some(_)) => {
                let mut out = vec![Output::Send(json!({ "jsonrpc": "2.0", "method": "initialized" }))];
                if self.thread.is_some() {
                    out.extend(self.resume());
                } else {
                    out.push(self.ask(Asked::Loaded, "thread/loaded/list", json!({})));
                }
                out
            }
            (Asked::Initialize, None) => {
                vec![Output::End { why: format!("the server refuses us: {}", frame["error"]["message"]) }]
            }
            (Asked::Loaded, Some(result)) => self.loaded(&result["data"]),
            (Asked::Read, Some(result)) => {
                let thread = &result["thread"];
                if self.thread.is_none() {
                    self.began(thread, "startup")
                } else if thread["id"].as_str() == self.thread.as_deref() && !self.subscribed {
                    self.status(&thread["status"])
                } else {
                    Vec::new()
                }
            }
            (Asked::Resume, Some(result)) => self.resumed(&result["thread"]),
            (Asked::Resume, None) => self.not_resumed(),
            (Asked::Turn, Some(result)) => {
                if let Some(message) = &mut self.message {
                    message.turn = result["turn"]["id"].as_str().map(str::to_owned);
                }
                Vec::new()
            }
            (Asked::Turn, None) => {
                let Some(message) = self.message.take() else { return Vec::new() };
                self.refused = true;
                vec![Output::PutBack { key: message.key }, Output::Wake(REFUSED)]
            }
            _ => Vec::new(),
        }
    }

    fn loaded(&mut self, threads: &Value) -> Vec<Output> {
        let threads: Vec<&str> = threads.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let wanted: Vec<&str> = match self.thread.as_deref() {
            None => threads,
            Some(ours) if threads.contains(&ours) => vec![ours],
            // Without a record nothing is left of it once its server has ended.
            Some(_) if self.tries >= TRIES => {
                return vec![Output::End { why: "the conversation is lost with its server".to_owned() }];
            }
            Some(_) => {
                self.tries += 1;
                return vec![Output::Wake(AGAIN)];
            }
        };
        let wanted: Vec<Value> = wanted.into_iter().map(|it| json!({ "threadId": it })).collect();
        let mut out: Vec<Output> =
            wanted.into_iter().map(|params| self.ask(Asked::Read, "thread/read", params)).collect();
        out.extend(self.open());
        out
    }

    fn open(&mut self) -> Vec<Output> {
        if std::mem::replace(&mut self.opened, true) {
            return Vec::new();
        }
        vec![Output::OpenScreen { native_id: self.thread.clone() }]
    }

    /// A conversation has begun that is not one of the program's own.
    fn began(&mut self, thread: &Value, source: &str) -> Vec<Output> {
        let own = thread["ephemeral"] == true
            || thread["parentThreadId"].is_string()
            || thread["threadSource"].as_str().is_some_and(|it| it != "user");
        let Some(id) = thread["id"].as_str().filter(|_| !own) else { return Vec::new() };
        if self.thread.as_deref() == Some(id) {
            return Vec::new();
        }
        let replaced = self.thread.replace(id.to_owned()).is_some();
        let source = if replaced { "clear" } else { source };
        self.subscribed = false;
        self.turn = None;
        self.questions.clear();
        let mut out = vec![self.session(thread, source)];
        out.extend(self.status(&thread["status"]));
        out
    }

    fn session(&self, thread: &Value, source: &str) -> Output {
        let native_id = thread["id"].as_str().or(self.thread.as_deref()).unwrap_or_default().to_owned();
        let transcript = thread["path"].as_str().map(Into::into);
        Self::fact(
            "thread/started",
            Fact::SessionStarted { native_id, source: source.to_owned(), transcript },
        )
    }

    /// We are told about our conversation from now on.
    fn resumed(&mut self, thread: &Value) -> Vec<Output> {
        self.subscribed = true;
        self.tries = 0;
        let mut out = vec![self.session(thread, "resume")];
        out.extend(self.open());
        out.extend(self.status(&thread["status"]));
        out
    }

    /// It has no record: no turn has begun, or one has just.
    fn not_resumed(&mut self) -> Vec<Output> {
        if self.active && self.tries < TRIES {
            self.tries += 1;
            return vec![Output::Wake(AGAIN)];
        }
        if self.earlier && !self.again && !self.opened {
            // The screen says why it cannot be taken up.
            return self.open();
        }
        vec![self.ask(Asked::Loaded, "thread/loaded/list", json!({}))]
    }

    /// What the server says that our conversation does.
    fn status(&mut self, status: &Value) -> Vec<Output> {
        match status["type"].as_str() {
            Some("active") => {
                self.active = true;
                self.settled = true;
                if self.subscribed { Vec::new() } else { self.resume() }
            }
            Some("idle" | "systemError") => {
                let was_active = std::mem::replace(&mut self.active, false);
                let first = !std::mem::replace(&mut self.settled, true);
                let mut out = Vec::new();
                if !self.subscribed && was_active {
                    // The turn is over before we could be told of it.
                    self.unseen = true;
                    out.extend(self.resume());
                    return out;
                }
                if self.subscribed && self.turn.is_some() && !first {
                    // Its end is told in a moment.
                    return out;
                }
                if let Some(turn) = self.turn.take()
                    && turn.told
                {
                    let outcome = TurnOutcome::Error { kind: LOST.to_owned() };
                    let native_id = self.thread.clone();
                    out.push(Self::fact("thread/status", Fact::TurnEnded { native_id, outcome, text: None }));
                } else if std::mem::take(&mut self.again) {
                    let (native_id, outcome) = (self.thread.clone(), TurnOutcome::Unstated);
                    out.push(Self::fact("thread/status", Fact::TurnEnded { native_id, outcome, text: None }));
                } else if first && status["type"] == "idle" {
                    out.push(self.activity(ActivityKind::Idle));
                }
                // The same is told of a conversation that somebody else has just taken up: it says nothing of a message
                // that is under way.
                if std::mem::take(&mut self.unseen) {
                    out.extend(self.look());
                }
                out
            }
            _ => Vec::new(),
        }
    }

    fn activity(&self, kind: ActivityKind) -> Output {
        Self::fact("thread/status", Fact::Activity { native_id: self.thread.clone(), kind })
    }

    /// Asks the record for a message that should have been taken.
    fn look(&mut self) -> Vec<Output> {
        let Some(message) = &mut self.message else { return Vec::new() };
        message.look = true;
        vec![Output::Look { key: message.key.clone() }]
    }

    /// The record does not hold a message. What a living server was given is never sent twice; what was given to one
    /// before it, or by a bridge before us, is looked for once more.
    fn missed(&mut self) -> Vec<Output> {
        let Some(message) = &mut self.message else { return Vec::new() };
        message.misses += 1;
        if message.misses < if message.sent { TRIES } else { 2 } {
            return vec![Output::Wake(MISSED)];
        }
        if message.sent {
            let key = self.message.take().map(|it| it.key);
            return key.map(|key| Output::Taken { key }).into_iter().collect();
        }
        self.send()
    }

    fn send(&mut self) -> Vec<Output> {
        let Some(thread) = self.thread.clone() else { return Vec::new() };
        let Some(message) = &mut self.message else { return Vec::new() };
        message.sent = true;
        message.look = false;
        message.turn = None;
        let params = json!({
            "threadId": thread,
            "clientUserMessageId": message.key,
            "input": [{ "type": "text", "text": message.text }],
        });
        vec![self.ask(Asked::Turn, "turn/start", params)]
    }

    fn notification(&mut self, method: &str, params: &Value) -> Vec<Output> {
        match method {
            "thread/started" => self.began(&params["thread"], "startup"),
            "account/rateLimits/updated" => {
                let limits = &params["rateLimits"];
                let full = |it: &&Value| it["usedPercent"].as_f64().is_some_and(|it| it >= 100.0);
                let ends = [&limits["primary"], &limits["secondary"]];
                let ends = ends.into_iter().filter(full).filter_map(|it| it["resetsAt"].as_i64());
                self.resets = ends.max();
                Vec::new()
            }
            _ if !self.is_ours(params) => Vec::new(),
            "thread/status/changed" => self.status(&params["status"]),
            "turn/started" => {
                let id = params["turn"]["id"].as_str().unwrap_or_default().to_owned();
                self.active = true;
                self.settled = true;
                if self.turn.as_ref().is_none_or(|it| it.id != id) {
                    self.turn = Some(Turn { id, told: false, text: None });
                }
                Vec::new()
            }
            "item/started" if params["item"]["type"] == "contextCompaction" => {
                let native_id = self.thread.clone();
                vec![Self::fact(method, Fact::Compacting { native_id })]
            }
            "item/completed" => self.item(params),
            "turn/completed" => self.completed(&params["turn"]),
            "serverRequest/resolved" => {
                let request = &params["requestId"];
                let key = self.questions.iter().find(|(_, it)| it.request == *request);
                let Some(key) = key.map(|(key, _)| key.clone()) else { return Vec::new() };
                self.questions.remove(&key);
                let native_id = self.thread.clone();
                vec![Self::fact(method, Fact::ApprovalResolved { native_id, tool_use_id: Some(key) })]
            }
            _ => Vec::new(),
        }
    }

    fn item(&mut self, params: &Value) -> Vec<Output> {
        let item = &params["item"];
        let native_id = self.thread.clone();
        let turn = params["turnId"].as_str().unwrap_or_default();
        match item["type"].as_str() {
            Some("userMessage") => {
                let (text, client) = (said(&item["content"]), item["clientId"].as_str());
                let mut out = Vec::new();
                let running = self.turn.as_ref().is_some_and(|it| it.id == turn && it.told);
                if running {
                    out.push(Self::fact("item/completed", Fact::TakenInTurn { text }));
                } else {
                    self.turn = Some(Turn { id: turn.to_owned(), told: true, text: None });
                    let (prompt, prompt_id) = (Some(text), client.map(str::to_owned));
                    out.push(Self::fact(
                        "item/completed",
                        Fact::TurnStarted { native_id, prompt, prompt_id },
                    ));
                }
                if let Some(message) = self.message.take_if(|it| Some(it.key.as_str()) == client) {
                    out.push(Output::Taken { key: message.key });
                }
                out
            }
            Some("agentMessage") => {
                if let Some(turn) = &mut self.turn {
                    turn.text = item["text"].as_str().map(str::to_owned);
                }
                Vec::new()
            }
            Some("contextCompaction") => {
                vec![Self::fact("item/completed", Fact::Compacted { native_id })]
            }
            _ => Vec::new(),
        }
    }

    fn completed(&mut self, turn: &Value) -> Vec<Output> {
        self.active = false;
        let native_id = self.thread.clone();
        let known = self.turn.take();
        let mut out = Vec::new();
        let error = &turn["error"];
        let outcome = match turn["status"].as_str() {
            Some("interrupted") => TurnOutcome::Interrupted,
            Some("failed") => {
                let kind = error["codexErrorInfo"].as_str().map(str::to_owned);
                let kind = kind.or_else(|| error["codexErrorInfo"].as_object()?.keys().next().cloned());
                TurnOutcome::Error { kind: kind.unwrap_or_else(|| "error".to_owned()) }
            }
            _ => TurnOutcome::Answer,
        };
        let limited = error["codexErrorInfo"] == "usageLimitExceeded";
        self.again = false;
        // Of one that we know nothing of, somebody before us may have told the beginning.
        if known.as_ref().is_none_or(|it| it.told) {
            let text = known.and_then(|it| it.text);
            out.push(Self::fact("turn/completed", Fact::TurnEnded { native_id, outcome, text }));
        } else if !limited {
            out.push(self.activity(ActivityKind::Idle));
        }
        if limited {
            let text = error["message"].as_str().unwrap_or_default().to_owned();
            out.push(Self::fact("turn/completed", Fact::Limited { until: self.resets, text }));
        }
        // The turn that was begun for it is over, and nothing of it was shown.
        let of_message =
            self.message.as_ref().is_some_and(|it| it.sent && it.turn.as_deref() == turn["id"].as_str());
        if of_message {
            out.extend(self.look());
        }
        out
    }

    fn request(&mut self, id: &Value, method: &str, params: &Value) -> Vec<Output> {
        if method == "mcpServer/elicitation/request"
            && params["serverName"].as_str() == Some(&self.tool_prefix)
        {
            return vec![Output::Send(
                json!({ "jsonrpc": "2.0", "id": id, "result": { "action": "accept" } }),
            )];
        }
        let tool = match method {
            "item/commandExecution/requestApproval" => "command",
            "item/fileChange/requestApproval" => "file_change",
            "item/permissions/requestApproval" => "permissions",
            "item/tool/requestUserInput" | "mcpServer/elicitation/request" => "question",
            _ => return Vec::new(),
        };
        let given = ["approvalId", "itemId"].iter().find_map(|it| params[*it].as_str());
        let key = safe(&given.map_or_else(|| format!("request-{id}"), str::to_owned));
        let question = Question { request: id.clone(), method: method.to_owned() };
        if self.questions.insert(key.clone(), question).is_some() {
            // Asked again over a new connection.
            return Vec::new();
        }
        let what = ["command", "reason", "message"].iter().find_map(|it| params[*it].as_str());
        let input_summary = cut(what.map_or_else(|| params.to_string(), str::to_owned), SUMMARY);
        let offered = params["availableDecisions"].as_array().into_iter().flatten();
        let choices: Vec<String> = offered.filter_map(Value::as_str).map(str::to_owned).collect();
        vec![Self::fact(
            method,
            Fact::ApprovalRequested {
                native_id: self.thread.clone(),
                tool: tool.to_owned(),
                input_summary,
                choices,
                tool_use_id: Some(key),
            },
        )]
    }

    fn answer(&mut self, key: &str, allow: bool, message: Option<String>) -> Vec<Output> {
        let Some(question) = self.questions.get(key) else { return Vec::new() };
        let result = match question.method.as_str() {
            "item/commandExecution/requestApproval" | "item/fileChange/requestApproval" => {
                json!({ "decision": if allow { "accept" } else { "decline" } })
            }
            // What else is asked has more than two answers: it is answered in the pane.
            _ => return Vec::new(),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": question.request, "result": result });
        let mut out = vec![Output::Send(answer)];
        let turn = self.turn.as_ref().map(|it| it.id.clone());
        if let (Some(text), Some(turn), Some(thread)) = (message, turn, self.thread.clone()) {
            let input = json!([{ "type": "text", "text": text }]);
            let params = json!({ "threadId": thread, "expectedTurnId": turn, "input": input });
            out.push(self.ask(Asked::Other, "turn/steer", params));
        }
        out
    }

    fn frame(&mut self, frame: &Value) -> Vec<Output> {
        let (id, method) = (frame.get("id"), frame["method"].as_str());
        let params = &frame["params"];
        match (id, method) {
            (Some(id), Some(method)) if self.is_ours(params) || params["threadId"].is_null() => {
                self.request(id, method, params)
            }
            (Some(id), None) => id.as_u64().map(|id| self.reply(id, frame)).unwrap_or_default(),
            (None, Some(method)) => self.notification(method, params),
            _ => Vec::new(),
        }
    }
}

impl Bridge for Protocol {
    fn on(&mut self, input: Input) -> Vec<Output> {
        match input {
            Input::Connected => {
                self.connected = true;
                let client = json!({ "name": "team-agent", "title": "team-agent", "version": env!("CARGO_PKG_VERSION") });
                let params = json!({ "clientInfo": client, "capabilities": { "experimentalApi": true } });
                vec![self.ask(Asked::Initialize, "initialize", params)]
            }
            Input::Disconnected => {
                self.connected = false;
                self.subscribed = false;
                self.active = false;
                self.settled = false;
                self.tries = 0;
                self.asked.clear();
                // It is handed in again from the files.
                self.message = None;
                Vec::new()
            }
            Input::Frame(frame) => self.frame(&frame),
            Input::Message { key, text, again } => {
                self.message = Some(Message { key, text, turn: None, look: again, sent: false, misses: 0 });
                if again { self.look() } else { self.send() }
            }
            Input::Found { key, found, ended } => match self.message.take_if(|it| it.key == key) {
                // Its turn was never seen: it began and ended unobserved.
                Some(message) if found => {
                    let (native_id, prompt) = (self.thread.clone(), Some(message.text));
                    let begun =
                        Fact::TurnStarted { native_id: native_id.clone(), prompt, prompt_id: Some(key) };
                    let lost = || TurnOutcome::Error { kind: LOST.to_owned() };
                    let outcome = ended.unwrap_or_else(lost);
                    let ended = Fact::TurnEnded { native_id, outcome, text: None };
                    vec![Self::fact("record", begun), Self::fact("record", ended)]
                }
                Some(message) => {
                    self.message = Some(message);
                    self.missed()
                }
                None => Vec::new(),
            },
            Input::Answer { key, allow, message } => self.answer(&key, allow, message),
            Input::Tick => {
                self.refused = false;
                let known = self.settled && !self.active;
                let looks = self.message.as_ref().is_some_and(|it| it.look);
                match self.connected {
                    true if !self.subscribed && !known => self.resume(),
                    true if known && looks => self.look(),
                    true if looks => vec![Output::Wake(MISSED)],
                    _ => Vec::new(),
                }
            }
        }
    }

    fn is_open(&self) -> bool {
        self.connected
            && self.thread.is_some()
            && self.settled
            && !self.active
            && self.turn.is_none()
            && self.message.is_none()
            && !self.refused
    }
}

/// Makes a key that can be the name of a file.
fn safe(key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    key.chars().map(|c| if plain(c) { c } else { '_' }).take(120).collect()
}

fn cut(mut text: String, most: usize) -> String {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

#[cfg(test)]
mod tests;
