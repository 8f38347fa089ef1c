//! The protocol of the program's server.
//!
//! Long: one state machine, whose parts read each other's fields.
//!
//! Knows paths, bodies and events. Must not know files, sockets or the log.
//!
//! We make the conversation and tell the screen to show it. A message is handed over while no turn runs, under ids of
//! ours for itself and for its text: the server takes the same ids again without effect, so it may be sent again
//! whenever it is not known whether it arrived. It counts as taken when the server shows its text. A person's own
//! texts can wait behind a running turn; the server then says only once, at the very end, that it is idle: which turn
//! runs is known from the text that an answer belongs to.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bridge::{Bridge, BridgeContext, Input, Output};
use crate::fact::{ActivityKind, Fact, TurnOutcome};

/// How often the screen is told which conversation to show: it may not listen yet, and does not answer.
const SHOWS: u32 = 5;
/// How long to wait before the screen is told again, the first time; then twice as long each time.
const SHOW_AGAIN: Duration = Duration::from_secs(1);
/// How long to wait before a message is sent again that the server refused.
const AGAIN: Duration = Duration::from_secs(5);
/// The most of a question that is told.
const SUMMARY: usize = 4096;
/// The most of an error that is told.
const ERROR: usize = 200;

/// What a request of ours asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    /// A new conversation.
    Create,
    /// Whether an earlier one is there.
    Known,
    /// What the conversations do.
    Status,
    /// Which questions are open.
    Questions,
    /// What was said so far, to know what runs.
    Said,
    /// Whether a message is there.
    Look { key: String },
    /// To take a message.
    Prompt { key: String },
    /// Anything whose answer changes nothing.
    Other,
}

/// A message on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Message {
    key: String,
    text: String,
    /// Whether it was sent over the present connection.
    sent: bool,
}

/// A turn that runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Turn {
    /// Id of the text it began with; of a turn that began before us it is learned later.
    id: Option<String>,
    /// The last words of the model.
    text: Option<String>,
    /// Whether the model came to the end of an answer.
    answered: bool,
    /// How it fails, if it does.
    error: Option<TurnOutcome>,
}

/// A question for permission that is open.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Question {
    tool: String,
    /// Whether yes and no are all the answers there are.
    plain: bool,
}

/// The state machine.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is one independent thing that the server has said or not"
)]
#[derive(Debug)]
pub(super) struct Protocol {
    next: u64,
    asked: BTreeMap<u64, Asked>,
    session: Option<String>,
    /// What a new conversation is called.
    title: String,
    /// Whether a bridge before us may have told of a turn that has ended since.
    again: bool,
    connected: bool,
    /// Whether what the conversation does is known.
    settled: bool,
    /// Whether the server has told it since we asked.
    heard: bool,
    /// Whether the server has said that a turn runs.
    active: bool,
    /// Whether it waits for a limit to end.
    limited: bool,
    /// Whether nothing is sent for a while.
    pausing: bool,
    turn: Option<Turn>,
    /// Texts of persons: whether each was told.
    users: BTreeMap<String, bool>,
    /// Texts that wait behind the running turn.
    queue: Vec<(String, String)>,
    message: Option<Message>,
    questions: BTreeMap<String, Question>,
    /// The summary that is being written.
    summary: Option<String>,
    shows: u32,
}

impl Protocol {
    pub(super) fn new(context: &BridgeContext<'_>) -> Self {
        Self {
            next: 0,
            asked: BTreeMap::new(),
            session: context.native_id.map(str::to_owned),
            title: context.agent.to_owned(),
            again: context.again,
            connected: false,
            settled: false,
            heard: false,
            active: false,
            limited: false,
            pausing: false,
            turn: None,
            users: BTreeMap::new(),
            queue: Vec::new(),
            message: None,
            questions: BTreeMap::new(),
            summary: None,
            shows: 0,
        }
    }

    fn ask(&mut self, asked: Asked, method: &str, path: &str, body: Option<Value>) -> Output {
        self.next += 1;
        self.asked.insert(self.next, asked);
        let mut frame = json!({ "tag": self.next, "method": method, "path": path });
        if let Some(body) = body {
            frame["body"] = body;
        }
        Output::Send(frame)
    }

    fn get(&mut self, asked: Asked, path: &str) -> Output {
        self.ask(asked, "GET", path, None)
    }

    fn fact(record: &str, fact: Fact) -> Output {
        Output::Fact { record: record.to_owned(), fact }
    }

    fn activity(&self, kind: ActivityKind) -> Output {
        Self::fact("session.status", Fact::Activity { native_id: self.session.clone(), kind })
    }

    /// The path of our conversation, with something behind it.
    fn path(&self, rest: &str) -> String {
        format!("/session/{}{rest}", self.session.as_deref().unwrap_or_default())
    }

    fn reply(&mut self, tag: u64, status: u64, body: &Value) -> Vec<Output> {
        let Some(asked) = self.asked.remove(&tag) else { return Vec::new() };
        let fine = (200..300).contains(&status);
        match asked {
            Asked::Create if fine => {
                self.session = body["id"].as_str().map(str::to_owned);
                let mut out = self.began("startup");
                out.extend(self.show());
                out
            }
            Asked::Create => {
                // Asked again as long as nobody answers.
                self.pausing = true;
                vec![Output::Wake(AGAIN)]
            }
            Asked::Known if fine => self.began("resume"),
            Asked::Known if status == 404 => {
                vec![Output::End { why: "the program does not know the conversation any more".to_owned() }]
            }
            Asked::Known => {
                self.pausing = true;
                vec![Output::Wake(AGAIN)]
            }
            Asked::Status if fine && !self.heard => {
                let status = body[self.session.as_deref().unwrap_or_default()].clone();
                self.status(if status.is_object() { &status } else { &Value::Null })
            }
            Asked::Questions if fine => self.open_questions(body),
            Asked::Said if fine => self.said(body),
            Asked::Look { key } => self.found(&key, status),
            Asked::Prompt { key } if !fine && status != 0 => self.refused(&key),
            _ => Vec::new(),
        }
    }

    /// We have a conversation.
    fn began(&mut self, source: &str) -> Vec<Output> {
        let Some(native_id) = self.session.clone() else { return Vec::new() };
        let source = source.to_owned();
        self.heard = false;
        vec![
            Self::fact("session.created", Fact::SessionStarted { native_id, source, transcript: None }),
            self.get(Asked::Status, "/session/status"),
            self.get(Asked::Questions, "/permission"),
        ]
    }

    /// Tells the screen which conversation to show.
    fn show(&mut self) -> Vec<Output> {
        if self.shows >= SHOWS {
            return Vec::new();
        }
        let after = SHOW_AGAIN * 2_u32.pow(self.shows);
        self.shows += 1;
        let body = json!({ "sessionID": self.session });
        vec![self.ask(Asked::Other, "POST", "/tui/select-session", Some(body)), Output::Wake(after)]
    }

    /// What the server says that our conversation does; it says nothing of one that is idle.
    fn status(&mut self, status: &Value) -> Vec<Output> {
        let first = !std::mem::replace(&mut self.settled, true);
        let mut out = Vec::new();
        match status["type"].as_str() {
            Some("busy") => {
                if first && self.turn.is_none() && self.again {
                    // Whoever was here before us has told of it.
                    self.turn = Some(Turn::default());
                    let path = self.path("/message");
                    out.push(self.get(Asked::Said, &path));
                }
                let was_active = std::mem::replace(&mut self.active, true);
                // Something that a person does beside all turns.
                let beside = !was_active && self.turn.is_none();
                if std::mem::take(&mut self.limited) || beside {
                    out.push(self.activity(ActivityKind::Working));
                }
            }
            Some("retry") => {
                self.active = true;
                let text = status["message"].as_str().unwrap_or_default().to_owned();
                if is_limit(&text) {
                    self.limited = true;
                    let until = status["next"].as_i64().map(|it| it.saturating_add(999) / 1000);
                    out.push(Self::fact("session.status", Fact::Limited { until, text }));
                }
            }
            _ => out.extend(self.idle(first)),
        }
        out
    }

    fn idle(&mut self, first: bool) -> Vec<Output> {
        let was_active = std::mem::replace(&mut self.active, false);
        self.limited = false;
        self.users.clear();
        self.queue.clear();
        self.summary = None;
        // An interrupt answers what was asked, without a word.
        let mut out: Vec<Output> = Vec::new();
        for (key, question) in std::mem::take(&mut self.questions) {
            let (native_id, tool_use_id) = (self.session.clone(), question.plain.then_some(key));
            out.push(Self::fact("session.status", Fact::ApprovalResolved { native_id, tool_use_id }));
        }
        if let Some(turn) = self.turn.take() {
            self.again = false;
            out.push(self.ended(turn));
            return out;
        }
        if first && std::mem::take(&mut self.again) {
            let (native_id, outcome) = (self.session.clone(), TurnOutcome::Unstated);
            out.push(Self::fact("session.status", Fact::TurnEnded { native_id, outcome, text: None }));
        } else if first || was_active {
            out.push(self.activity(ActivityKind::Idle));
        }
        out
    }

    fn ended(&self, turn: Turn) -> Output {
        let outcome = match turn.error {
            Some(error) => error,
            None if turn.id.is_none() => TurnOutcome::Unstated,
            // Interrupted before its answer began, nothing is said of it.
            None if !turn.answered => TurnOutcome::Interrupted,
            None => TurnOutcome::Answer,
        };
        let native_id = self.session.clone();
        Self::fact("session.status", Fact::TurnEnded { native_id, outcome, text: turn.text })
    }

    fn starts(&mut self, id: &str, text: String) -> Output {
        self.turn = Some(Turn { id: Some(id.to_owned()), ..Turn::default() });
        let (native_id, prompt, prompt_id) = (self.session.clone(), Some(text), Some(id.to_owned()));
        Self::fact("message.part.updated", Fact::TurnStarted { native_id, prompt, prompt_id })
    }

    fn event(&mut self, event: &Value) -> Vec<Output> {
        let kind = event["type"].as_str().unwrap_or_default();
        let properties = &event["properties"];
        // An agent of the program's own has a conversation of its own, and its questions are this seat's, too.
        match kind {
            "permission.asked" | "question.asked" => return self.question(kind, properties, true),
            "permission.replied" | "question.replied" | "question.rejected" => {
                return self.resolved(kind, properties);
            }
            _ => {}
        }
        if self.session.is_none() || properties["sessionID"].as_str() != self.session.as_deref() {
            return Vec::new();
        }
        match kind {
            "session.status" => {
                self.heard = true;
                self.status(&properties["status"])
            }
            "message.updated" => self.message_updated(&properties["info"]),
            "message.part.updated" => self.part(&properties["part"]),
            "session.error" => self.error(&properties["error"]),
            "session.compacted" => {
                self.summary = None;
                vec![Self::fact(kind, Fact::Compacted { native_id: self.session.clone() })]
            }
            "session.deleted" => vec![Output::End { why: "its conversation was deleted".to_owned() }],
            _ => Vec::new(),
        }
    }

    fn message_updated(&mut self, info: &Value) -> Vec<Output> {
        let Some(id) = info["id"].as_str() else { return Vec::new() };
        if info["role"] == "user" {
            self.users.entry(id.to_owned()).or_insert(false);
            return Vec::new();
        }
        // The last word on one that is over comes behind the end of its turn.
        if info["time"]["completed"].is_number() || info["error"].is_object() {
            if let Some(turn) = &mut self.turn {
                turn.answered |= turn.id.as_deref() == info["parentID"].as_str();
            }
            return Vec::new();
        }
        if info["summary"] == true {
            if self.summary.as_deref() == Some(id) {
                return Vec::new();
            }
            self.summary = Some(id.to_owned());
            return vec![Self::fact("message.updated", Fact::Compacting { native_id: self.session.clone() })];
        }
        let parent = info["parentID"].as_str().unwrap_or_default();
        let Some(at) = self.queue.iter().position(|(id, _)| id == parent) else { return Vec::new() };
        // What stood before it was answered together with it, or by the turn before.
        let (id, text) = self.queue.drain(..=at).next_back().unwrap_or_default();
        let before = self.turn.take();
        let mut out: Vec<Output> = before.map(|it| self.ended(it)).into_iter().collect();
        out.push(self.starts(&id, text));
        out
    }

    fn part(&mut self, part: &Value) -> Vec<Output> {
        let (Some(id), "text") = (part["messageID"].as_str(), part["type"].as_str().unwrap_or_default())
        else {
            return Vec::new();
        };
        let text = part["text"].as_str().unwrap_or_default().to_owned();
        let Some(told) = self.users.get_mut(id) else {
            if let Some(turn) = &mut self.turn
                && !text.is_empty()
            {
                turn.text = Some(text);
            }
            return Vec::new();
        };
        // What the program adds by itself is nobody's text.
        if part["synthetic"] == true || part["ignored"] == true || std::mem::replace(told, true) {
            return Vec::new();
        }
        let mut out = Vec::new();
        if self.turn.is_none() {
            out.push(self.starts(id, text));
        } else if self.turn.as_ref().is_some_and(|it| it.id.as_deref() != Some(id)) {
            self.queue.push((id.to_owned(), text.clone()));
            out.push(Self::fact("message.part.updated", Fact::Enqueued { text }));
        }
        let ours = |it: &mut Message| ids(&it.key, self.session.as_deref()).0 == id;
        if let Some(message) = self.message.take_if(ours) {
            out.push(Output::Taken { key: message.key });
        }
        out
    }

    fn error(&mut self, error: &Value) -> Vec<Output> {
        let name = error["name"].as_str().unwrap_or("error");
        let outcome = if name == "MessageAbortedError" {
            TurnOutcome::Interrupted
        } else {
            let kind = match error["data"]["message"].as_str() {
                Some(message) => cut(format!("{name}: {message}"), ERROR),
                None => name.to_owned(),
            };
            TurnOutcome::Error { kind }
        };
        if let Some(turn) = &mut self.turn {
            turn.error.get_or_insert(outcome);
            return Vec::new();
        }
        // Perhaps it is about the message that is on its way, which then never shows.
        match self.message.as_ref().filter(|it| it.sent).map(|it| it.key.clone()) {
            Some(key) => vec![self.look(key)],
            None => Vec::new(),
        }
    }

    fn open_questions(&mut self, list: &Value) -> Vec<Output> {
        let again = self.again;
        let mut out = Vec::new();
        for question in list.as_array().into_iter().flatten() {
            let asked = self.question("permission.asked", question, !again);
            if again
                && let Some(Output::Fact { fact: Fact::ApprovalRequested { tool, .. }, .. }) = asked.first()
            {
                out.push(self.activity(ActivityKind::AwaitingApproval { for_what: tool.clone() }));
            } else {
                out.extend(asked);
            }
        }
        out
    }

    fn question(&mut self, kind: &str, asked: &Value, is_new: bool) -> Vec<Output> {
        let Some(key) = asked["id"].as_str().map(safe) else { return Vec::new() };
        if self.questions.contains_key(&key) {
            return Vec::new();
        }
        let plain = kind == "permission.asked";
        let (tool, what, choices) = if plain {
            let patterns = asked["patterns"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let patterns = patterns.collect::<Vec<_>>().join("\n");
            let command = asked["metadata"]["command"].as_str().map(str::to_owned);
            let tool = asked["permission"].as_str().unwrap_or("tool").to_owned();
            let what = match command {
                Some(command) if tool == "bash" => command,
                Some(command) => format!("{patterns}\n{command}"),
                None => patterns,
            };
            (tool, what, ["once", "always", "reject"].map(str::to_owned).to_vec())
        } else {
            let first = &asked["questions"][0];
            let options = first["options"].as_array().into_iter().flatten();
            let choices = options.filter_map(|it| it["label"].as_str()).map(str::to_owned).collect();
            ("question".to_owned(), first["question"].as_str().unwrap_or_default().to_owned(), choices)
        };
        self.questions.insert(key.clone(), Question { tool: tool.clone(), plain });
        let fact = Fact::ApprovalRequested {
            native_id: self.session.clone(),
            tool,
            input_summary: cut(what, SUMMARY),
            choices,
            // Without it nobody tries to answer from outside.
            tool_use_id: plain.then_some(key),
        };
        let record = if is_new { kind } else { "permission" };
        vec![Self::fact(record, fact)]
    }

    fn resolved(&mut self, kind: &str, properties: &Value) -> Vec<Output> {
        let Some(key) = properties["requestID"].as_str().map(safe) else { return Vec::new() };
        let Some(known) = self.questions.remove(&key) else { return Vec::new() };
        let (native_id, tool_use_id) = (self.session.clone(), known.plain.then_some(key));
        let mut out = vec![Self::fact(kind, Fact::ApprovalResolved { native_id, tool_use_id })];
        if let Some(left) = self.questions.values().next() {
            out.push(self.activity(ActivityKind::AwaitingApproval { for_what: left.tool.clone() }));
        }
        out
    }

    fn answer(&mut self, key: &str, allow: bool, message: Option<String>) -> Vec<Output> {
        // What has more than two answers is answered in the pane.
        if !self.questions.get(key).is_some_and(|it| it.plain) {
            return Vec::new();
        }
        let mut body = json!({ "reply": if allow { "once" } else { "reject" } });
        if let Some(message) = message.filter(|_| !allow) {
            body["message"] = json!(message);
        }
        vec![self.ask(Asked::Other, "POST", &format!("/permission/{key}/reply"), Some(body))]
    }

    fn send(&mut self) -> Vec<Output> {
        let Some(message) = &mut self.message else { return Vec::new() };
        message.sent = true;
        let (id, part) = ids(&message.key, self.session.as_deref());
        let key = message.key.clone();
        let body = json!({
            "messageID": id,
            "parts": [{ "id": part, "type": "text", "text": message.text }],
        });
        let path = self.path("/prompt_async");
        vec![self.ask(Asked::Prompt { key }, "POST", &path, Some(body))]
    }

    fn look(&mut self, key: String) -> Output {
        let (id, _) = ids(&key, self.session.as_deref());
        let path = self.path(&format!("/message/{id}"));
        self.get(Asked::Look { key }, &path)
    }

    fn found(&mut self, key: &str, status: u64) -> Vec<Output> {
        let Some(message) = self.message.take_if(|it| it.key == key) else { return Vec::new() };
        match status {
            200 => {
                // Its turn was never seen: it began and ended unobserved.
                let (native_id, prompt) = (self.session.clone(), Some(message.text));
                let prompt_id = Some(key.to_owned());
                let begun = Fact::TurnStarted { native_id: native_id.clone(), prompt, prompt_id };
                let ended = Fact::TurnEnded { native_id, outcome: TurnOutcome::Unstated, text: None };
                let taken = Output::Taken { key: key.to_owned() };
                vec![Self::fact("message", begun), Self::fact("message", ended), taken]
            }
            404 if message.sent => self.put_back(key),
            404 => {
                self.message = Some(message);
                self.send()
            }
            _ => {
                self.message = Some(Message { sent: false, ..message });
                self.pausing = true;
                vec![Output::Wake(AGAIN)]
            }
        }
    }

    fn refused(&mut self, key: &str) -> Vec<Output> {
        match self.message.take_if(|it| it.key == key) {
            Some(message) => self.put_back(&message.key),
            None => Vec::new(),
        }
    }

    fn put_back(&mut self, key: &str) -> Vec<Output> {
        self.pausing = true;
        vec![Output::PutBack { key: key.to_owned() }, Output::Wake(AGAIN)]
    }

    /// What was said last began the turn that runs since before us.
    fn said(&mut self, list: &Value) -> Vec<Output> {
        let Some(turn) = self.turn.as_mut().filter(|it| it.id.is_none()) else { return Vec::new() };
        let last = list.as_array().into_iter().flatten().rfind(|it| it["info"]["role"] == "user");
        let Some(last) = last else { return Vec::new() };
        let id = last["info"]["id"].as_str().unwrap_or_default().to_owned();
        let parts = last["parts"].as_array().into_iter().flatten();
        let text = parts.filter(|it| it["synthetic"] != true).find_map(|it| it["text"].as_str());
        turn.id = Some(id.clone());
        self.users.insert(id, true);
        let text = text.unwrap_or_default().to_owned();
        vec![Self::fact("message", Fact::Enqueued { text })]
    }

    fn connect(&mut self) -> Vec<Output> {
        if self.session.is_some() {
            let path = self.path("");
            return vec![self.get(Asked::Known, &path)];
        }
        // Without a title the model is asked for one.
        let body = json!({ "title": self.title });
        vec![self.ask(Asked::Create, "POST", "/session", Some(body))]
    }

    fn tick(&mut self) -> Vec<Output> {
        if !self.connected {
            return Vec::new();
        }
        if std::mem::take(&mut self.pausing) {
            if !self.settled && self.asked.is_empty() {
                return self.connect();
            }
            if let Some(key) = self.message.as_ref().filter(|it| !it.sent).map(|it| it.key.clone()) {
                return vec![self.look(key)];
            }
        }
        if self.shows > 0 { self.show() } else { Vec::new() }
    }
}

impl Bridge for Protocol {
    fn on(&mut self, input: Input) -> Vec<Output> {
        match input {
            Input::Connected => {
                self.connected = true;
                self.connect()
            }
            Input::Disconnected => {
                self.connected = false;
                self.settled = false;
                self.active = false;
                self.pausing = false;
                // What was told stands until the server says otherwise.
                self.again = true;
                self.turn = None;
                self.users.clear();
                self.queue.clear();
                self.asked.clear();
                // It is handed in again from the files.
                self.message = None;
                Vec::new()
            }
            Input::Frame(frame) => match frame["reply"].as_u64() {
                Some(tag) => self.reply(tag, frame["status"].as_u64().unwrap_or(0), &frame["body"]),
                None => self.event(&frame["event"]),
            },
            Input::Message { key, text, again } => {
                self.message = Some(Message { key: key.clone(), text, sent: false });
                if again { vec![self.look(key)] } else { self.send() }
            }
            Input::Found { .. } => Vec::new(),
            Input::Answer { key, allow, message } => self.answer(&key, allow, message),
            Input::Tick => self.tick(),
        }
    }

    fn is_open(&self) -> bool {
        self.connected
            && self.settled
            && !self.active
            && !self.pausing
            && self.turn.is_none()
            && self.message.is_none()
    }
}

/// The ids that a message has with the server, and its text: all conversations of a person are in one place.
fn ids(key: &str, session: Option<&str>) -> (String, String) {
    let mut rest = session.unwrap_or_default().trim_start_matches("ses_").to_owned();
    for byte in std::iter::once(b'_').chain(key.bytes()) {
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            rest.push(char::from(byte));
        } else {
            let _ = write!(rest, "-{byte:02x}");
        }
    }
    (format!("msg_{rest}"), format!("prt_{rest}"))
}

/// Says whether the service refuses because of a limit, and not because it is out of order.
fn is_limit(text: &str) -> bool {
    let text = text.to_lowercase();
    ["limit", "quota", "too many requests", "usage", "credit", "free tier"].iter().any(|it| text.contains(it))
}

/// Makes a key that can be the name of a file, and part of a path.
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
