//! Conversations: what was said in each, what each does, what is asked, and who listens to the events.
//!
//! Knows the forms of records and events. Must not know sockets, nor when a turn begins or ends. An event is folded
//! into the conversation, kept in the conversation's file and told to every listener, in one step: what the server
//! answers is never ahead of its events.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::clock;
use crate::logs::append_line;

/// What became of a text that a client sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Took {
    /// It was recorded and is to be answered.
    New { id: String, text: String },
    /// A text of this id stands there already.
    Again,
}

/// All conversations.
#[derive(Debug)]
pub(crate) struct Book {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    /// The id that the first new conversation gets: the logs bear it from the start.
    first: Option<String>,
    conversations: BTreeMap<String, Conversation>,
    questions: BTreeMap<String, Value>,
    listeners: Vec<Sender<String>>,
    /// Texts that no turn has taken yet.
    waiting: Vec<Said>,
}

#[derive(Debug, Default)]
struct Conversation {
    info: Value,
    /// What it does, if it does anything.
    status: Option<Value>,
    /// Each `{info, parts}`, oldest first.
    messages: Vec<Value>,
}

/// A person's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) session: String,
    pub(crate) id: String,
    text: String,
}

/// An id as the program makes them: those made later sort behind.
pub(crate) fn new_id(prefix: &str) -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("{prefix}_{:012x}{}", clock::wall_ms(), &random[..14])
}

impl Book {
    /// Opens the book of the conversations in `dir`; the first new one gets the id `first`.
    pub(crate) fn open(dir: PathBuf, first: Option<String>) -> Self {
        let inner = Inner {
            dir,
            first,
            conversations: BTreeMap::new(),
            questions: BTreeMap::new(),
            listeners: Vec::new(),
            waiting: Vec::new(),
        };
        // Without it nothing is kept, and the program goes on.
        let _ = std::fs::create_dir_all(&inner.dir);
        Self { inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a conversation and returns what is known of it.
    pub(crate) fn create(&self, title: Option<&str>) -> Value {
        let mut inner = self.lock();
        let id = inner.first.take().unwrap_or_else(|| new_id("ses"));
        inner.create(&id, title)
    }

    /// Listens to all events from now on.
    pub(crate) fn listen(&self) -> Receiver<String> {
        let (listener, events) = channel();
        let _ = listener.send(json!({"type": "server.connected", "properties": {}}).to_string());
        self.lock().listeners.push(listener);
        events
    }

    /// What is known of a conversation.
    pub(crate) fn session(&self, id: &str) -> Option<Value> {
        self.lock().conversation(id).map(|it| it.info.clone())
    }

    /// What was said in a conversation.
    pub(crate) fn messages(&self, id: &str) -> Option<Vec<Value>> {
        self.lock().conversation(id).map(|it| it.messages.clone())
    }

    /// What each conversation does that does anything.
    pub(crate) fn statuses(&self) -> Value {
        let inner = self.lock();
        inner.conversations.iter().filter_map(|(id, it)| Some((id.clone(), it.status.clone()?))).collect()
    }

    /// The questions that are open.
    pub(crate) fn questions(&self) -> Vec<Value> {
        self.lock().questions.values().cloned().collect()
    }

    /// Takes a text that a client sends, once for each id; `None` without such a conversation.
    pub(crate) fn prompt(&self, session: &str, body: &Value) -> Option<Took> {
        let mut inner = self.lock();
        let conversation = inner.conversation(session)?;
        let id = body["messageID"].as_str().map_or_else(|| new_id("msg"), str::to_owned);
        if conversation.messages.iter().any(|it| it["info"]["id"] == *id) {
            return Some(Took::Again);
        }
        let part = &body["parts"][0];
        let text = part["text"].as_str().unwrap_or_default().to_owned();
        inner.said(session, &id, part["id"].as_str(), &text);
        Some(Took::New { id, text })
    }

    /// A text waits behind the running turn: recorded now, unless a client sent it.
    pub(crate) fn waits(&self, session: &str, text: &str) {
        let mut inner = self.lock();
        if !inner.waiting.iter().any(|it| it.text == text) {
            inner.said(session, &new_id("msg"), None, text);
        }
    }

    /// A turn takes a text, by its id if a client sent it; what is typed is recorded in `session`.
    pub(crate) fn takes(&self, session: &str, id: Option<&str>, text: &str) -> Said {
        let mut inner = self.lock();
        let by_id = inner.waiting.iter().position(|it| Some(it.id.as_str()) == id);
        if let (None, Some(id)) = (by_id, id)
            && let Some(session) = inner.where_is(id)
        {
            // An interrupt came between its coming and its turn.
            return Said { session, id: id.to_owned(), text: text.to_owned() };
        }
        let at = by_id.or_else(|| inner.waiting.iter().position(|it| it.text == text));
        let at = at.unwrap_or_else(|| {
            inner.said(session, &new_id("msg"), None, text);
            inner.waiting.len() - 1
        });
        inner.waiting.remove(at)
    }

    /// Nothing that waits is going to be answered.
    pub(crate) fn forgets(&self) {
        self.lock().waiting.clear();
    }

    /// An answer to a text begins; returns its id.
    pub(crate) fn answers(&self, session: &str, parent: &str, summary: bool) -> String {
        let id = new_id("msg");
        let mut info = json!({"id": id, "sessionID": session, "role": "assistant", "parentID": parent,
            "mode": "build", "time": {"created": clock::wall_ms()}});
        if summary {
            (info["mode"], info["summary"]) = ("compaction".into(), true.into());
        }
        self.lock().tell("message.updated", &json!({"sessionID": session, "info": info}));
        id
    }

    /// Adds a part to an answer; returns its id. A part with an id replaces the one of that id.
    pub(crate) fn part(&self, session: &str, message: &str, mut part: Value) -> String {
        let id = part["id"].as_str().map_or_else(|| new_id("prt"), str::to_owned);
        part["id"] = id.clone().into();
        part["sessionID"] = session.into();
        part["messageID"] = message.into();
        self.lock().tell("message.part.updated", &json!({"sessionID": session, "part": part}));
        id
    }

    /// An answer is over, perhaps by an error.
    pub(crate) fn answered(&self, session: &str, message: &str, error: Option<&Value>) {
        let mut inner = self.lock();
        let known = inner
            .conversation(session)
            .and_then(|it| it.messages.iter().find(|it| it["info"]["id"] == message));
        let Some(mut info) = known.map(|it| it["info"].clone()) else { return };
        match error {
            Some(error) => info["error"] = error.clone(),
            None => info["finish"] = "stop".into(),
        }
        info["time"]["completed"] = clock::wall_ms().into();
        inner.tell("message.updated", &json!({"sessionID": session, "info": info}));
    }

    /// What a conversation does from now on.
    pub(crate) fn status(&self, session: &str, status: &Value) {
        self.lock().tell("session.status", &json!({"sessionID": session, "status": status}));
    }

    /// A turn is over: the conversation is idle, unless a text waits.
    pub(crate) fn over(&self, session: &str) {
        let mut inner = self.lock();
        if !inner.waiting.iter().any(|it| it.session == session) {
            inner.tell("session.status", &json!({"sessionID": session, "status": {"type": "idle"}}));
            inner.tell("session.idle", &json!({"sessionID": session}));
        }
    }

    /// Something went wrong in a conversation.
    pub(crate) fn error(&self, session: &str, error: &Value) {
        self.lock().tell("session.error", &json!({"sessionID": session, "error": error}));
    }

    /// The history of a conversation was shortened.
    pub(crate) fn compacted(&self, session: &str) {
        self.lock().tell("session.compacted", &json!({"sessionID": session}));
    }

    /// Opens a question for permission; returns its id.
    pub(crate) fn asks(&self, session: &str, permission: &str, input: &Value) -> String {
        let id = new_id("per");
        let pattern = input["command"].as_str().map_or_else(|| input.to_string(), str::to_owned);
        let question = json!({"id": id, "sessionID": session, "permission": permission, "patterns": [pattern],
            "always": [pattern], "metadata": input});
        let mut inner = self.lock();
        inner.questions.insert(id.clone(), question.clone());
        inner.tell("permission.asked", &question);
        id
    }

    /// Closes a question, with its answer, or without a word when an interrupt takes it away; false if none is open.
    pub(crate) fn closes(&self, question: &str, reply: Option<&str>) -> bool {
        let mut inner = self.lock();
        let Some(asked) = inner.questions.remove(question) else { return false };
        if let Some(reply) = reply {
            let properties = json!({"sessionID": asked["sessionID"], "requestID": question, "reply": reply});
            inner.tell("permission.replied", &properties);
        }
        true
    }
}

impl Inner {
    fn file(&self, id: &str) -> PathBuf {
        self.dir.join(format!("{id}.jsonl"))
    }

    /// A conversation of this process or one before it.
    fn conversation(&mut self, id: &str) -> Option<&mut Conversation> {
        let plain = id.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
        if plain && !self.conversations.contains_key(id) {
            let mut conversation = Conversation::default();
            let text = std::fs::read_to_string(self.file(id)).ok()?;
            for event in text.lines().filter_map(|it| serde_json::from_str::<Value>(it).ok()) {
                conversation.fold(&event);
            }
            self.conversations.insert(id.to_owned(), conversation);
        }
        self.conversations.get_mut(id)
    }

    /// The conversation in which a message stands.
    fn where_is(&self, message: &str) -> Option<String> {
        let has = |it: &Conversation| it.messages.iter().any(|it| it["info"]["id"] == message);
        self.conversations.iter().find(|(_, it)| has(it)).map(|(id, _)| id.clone())
    }

    fn create(&mut self, id: &str, title: Option<&str>) -> Value {
        let now = clock::wall_ms();
        let title = title.map_or_else(|| format!("New session - {}", clock::now_iso()), str::to_owned);
        let info = json!({"id": id, "title": title, "time": {"created": now, "updated": now}});
        self.tell("session.created", &json!({"sessionID": id, "info": info}));
        info
    }

    fn said(&mut self, session: &str, id: &str, part: Option<&str>, text: &str) {
        if self.conversation(session).is_none() {
            // A person who types is the first to use it.
            self.first.take_if(|it| it == session);
            self.create(session, None);
        }
        self.waiting.push(Said { session: session.into(), id: id.into(), text: text.into() });
        let info =
            json!({"id": id, "sessionID": session, "role": "user", "time": {"created": clock::wall_ms()}});
        self.tell("message.updated", &json!({"sessionID": session, "info": info}));
        let part = part.map_or_else(|| new_id("prt"), str::to_owned);
        let part = json!({"id": part, "sessionID": session, "messageID": id, "type": "text", "text": text});
        self.tell("message.part.updated", &json!({"sessionID": session, "part": part}));
    }

    fn tell(&mut self, kind: &str, properties: &Value) {
        let event = json!({"type": kind, "properties": properties});
        if let Some(id) = event["properties"]["sessionID"].as_str() {
            self.conversations.entry(id.to_owned()).or_default().fold(&event);
            if kind == "session.created" || kind.starts_with("message.") {
                let _ = append_line(&self.file(id), &event);
            }
        }
        let text = event.to_string();
        self.listeners.retain(|it| it.send(text.clone()).is_ok());
    }
}

impl Conversation {
    fn fold(&mut self, event: &Value) {
        let properties = &event["properties"];
        match event["type"].as_str().unwrap_or_default() {
            "session.created" => self.info = properties["info"].clone(),
            "session.status" => {
                let status = &properties["status"];
                self.status = (status["type"] != "idle").then(|| status.clone());
            }
            "message.updated" => {
                let info = &properties["info"];
                match self.messages.iter_mut().find(|it| it["info"]["id"] == info["id"]) {
                    Some(message) => message["info"] = info.clone(),
                    None => self.messages.push(json!({"info": info, "parts": []})),
                }
            }
            "message.part.updated" => {
                let part = &properties["part"];
                let message = self.messages.iter_mut().find(|it| it["info"]["id"] == part["messageID"]);
                let Some(parts) = message.and_then(|it| it["parts"].as_array_mut()) else { return };
                match parts.iter_mut().find(|it| it["id"] == part["id"]) {
                    Some(known) => *known = part.clone(),
                    None => parts.push(part.clone()),
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_one_id_is_taken_once_and_known_to_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Book::open(dir.path().into(), Some("ses_1".to_owned()));
        let book = open();
        assert_eq!(book.create(Some("w1"))["id"], "ses_1");
        assert_ne!(book.create(None)["id"], "ses_1");
        let body = json!({"messageID": "msg_a", "parts": [{"id": "prt_a", "type": "text", "text": "hello"}]});
        let new = Took::New { id: "msg_a".to_owned(), text: "hello".to_owned() };
        assert_eq!(book.prompt("ses_1", &body), Some(new));
        assert_eq!(book.prompt("ses_1", &body), Some(Took::Again));
        assert_eq!(book.prompt("ses_2", &body), None);
        book.waits("ses_1", "hello");
        assert_eq!(book.takes("ses_2", Some("msg_a"), "hello").session, "ses_1");
        let answer = book.answers("ses_1", "msg_a", false);
        book.part("ses_1", &answer, json!({"type": "text", "text": "ok"}));
        book.answered("ses_1", &answer, None);
        book.status("ses_1", &json!({"type": "busy"}));
        let said = book.messages("ses_1").unwrap();
        assert_eq!(said.len(), 2);
        let book = open();
        assert_eq!(book.messages("ses_1").unwrap(), said);
        assert_eq!(said[1]["parts"][0]["text"], "ok");
        assert_eq!(book.statuses(), json!({}));
        assert_eq!(book.session("../ses_1"), None);
    }

    #[test]
    fn events_come_in_order_and_idle_is_told_when_nothing_waits() {
        let dir = tempfile::tempdir().unwrap();
        let book = Book::open(dir.path().into(), Some("ses_1".to_owned()));
        // A person types, and the conversation is there.
        book.takes("ses_1", None, "one");
        assert_ne!(book.create(None)["id"], "ses_1");
        let events = book.listen();
        let question = book.asks("ses_1", "bash", &json!({"command": "ls"}));
        assert_eq!(book.questions()[0]["patterns"], json!(["ls"]));
        assert!(book.closes(&question, Some("once")) && !book.closes(&question, Some("once")));
        book.waits("ses_1", "two");
        book.over("ses_1");
        book.takes("ses_1", None, "two");
        book.over("ses_1");
        let kinds: Vec<Value> =
            events.try_iter().map(|it| serde_json::from_str::<Value>(&it).unwrap()["type"].clone()).collect();
        let expected = [
            "server.connected",
            "permission.asked",
            "permission.replied",
            "message.updated",
            "message.part.updated",
            "session.status",
            "session.idle",
        ];
        assert_eq!(kinds, expected);
    }
}
