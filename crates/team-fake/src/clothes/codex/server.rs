//! The server: a socket with several clients, conversations, one loop over all of it.
//!
//! Knows methods and who is to be told. What a turn does is the conversation's own.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{Signal, raise};
use serde_json::{Value, json};

use super::conversation::{Conversation, Knobs, Out};
use super::rollout::Rollout;
use super::turn::Message;
use super::wire::{Peer, sleep};
use super::{Refusal, Start, script};
use crate::control::{self, Command};
use crate::signals::Signals;
use crate::watch::{SETTLE, Watcher};

/// The name under which our screen says hello.
pub(super) const SCREEN: &str = "codex-tui";
/// How long after `limit` without a time the limit ends, in seconds.
const LIMIT: u64 = 3600;

/// Somebody who is connected.
#[derive(Debug)]
struct Client {
    peer: Peer,
    name: String,
    /// The conversations that it follows.
    follows: BTreeSet<String>,
}

struct Server<'a> {
    start: &'a Start,
    listener: UnixListener,
    clients: BTreeMap<u64, Client>,
    next_client: u64,
    conversations: BTreeMap<String, Conversation>,
    knobs: Knobs,
    watcher: Watcher,
    signals: Signals,
    /// When changes of files are complete that are still being written.
    settle: Option<Instant>,
    over: bool,
}

/// Serves until a signal ends it.
pub(super) fn run(start: &Start) -> Result<i32, Refusal> {
    let socket = start.socket.as_deref().ok_or(Refusal::NoSocket)?;
    start.logs.create()?;
    let script = script()?;
    let _ = std::fs::remove_file(socket);
    let listener = UnixListener::bind(socket)?;
    listener.set_nonblocking(true)?;
    let ends = [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT];
    let mut server = Server {
        start,
        listener,
        clients: BTreeMap::new(),
        next_client: 0,
        conversations: BTreeMap::new(),
        knobs: Knobs::default(),
        watcher: Watcher::new()?,
        signals: Signals::catch(&ends)?,
        settle: None,
        over: false,
    };
    for command in script {
        server.knob(&command);
    }
    server.go();
    let _ = std::fs::remove_file(socket);
    Ok(0)
}

impl Server<'_> {
    fn go(&mut self) {
        while !self.over {
            self.advance();
            self.wait();
            for signal in self.signals.raised() {
                self.over |= signal != Signal::SIGCHLD;
            }
            while let Ok((stream, _)) = self.listener.accept() {
                // One that does not say hello is none.
                if let Ok(peer) = Peer::accept(stream) {
                    self.next_client += 1;
                    let client = Client { peer, name: String::new(), follows: BTreeSet::new() };
                    self.clients.insert(self.next_client, client);
                }
            }
            for id in self.clients.keys().copied().collect::<Vec<_>>() {
                let frames = self.clients.get_mut(&id).map(|it| {
                    it.peer.flush();
                    it.peer.receive()
                });
                for frame in frames.into_iter().flatten() {
                    self.frame(id, &frame);
                }
            }
            self.clients.retain(|_, it| !it.peer.gone);
            self.read_files();
        }
        for conversation in self.conversations.values_mut() {
            conversation.end();
        }
    }

    fn wait(&mut self) {
        let look = self.watcher.poll_every().map(|it| Instant::now() + it);
        let due = self.conversations.values().filter_map(Conversation::due);
        let due = due.chain(self.settle).chain(look).min();
        let mut fds = vec![
            PollFd::new(self.signals.fd(), PollFlags::POLLIN),
            PollFd::new(self.listener.as_fd(), PollFlags::POLLIN),
        ];
        fds.extend(self.watcher.fd().map(|it| PollFd::new(it, PollFlags::POLLIN)));
        fds.extend(self.clients.values().map(|it| it.peer.waits()));
        fds.extend(self.conversations.values().flat_map(Conversation::waits));
        sleep(&mut fds, due);
    }

    /// Lets every conversation go on as far as it can, and tells of it.
    fn advance(&mut self) {
        let mut told = Vec::new();
        for conversation in self.conversations.values_mut() {
            conversation.service();
            if let Some(code) = conversation.advance(&self.knobs) {
                conversation.interrupt();
                conversation.out.push(Out::All("fake/exit", json!({"code": code})));
            }
            conversation.take_queued(&self.knobs);
            told.extend(conversation.out.drain(..).map(|it| (conversation.id.clone(), it)));
        }
        for (thread, out) in told {
            let (frame, all) = match out {
                Out::All(method, params) => (json!({"method": method, "params": params}), true),
                Out::Followers(method, params) => (json!({"method": method, "params": params}), false),
                Out::Ask(id, params) => (question(id, &params), false),
                Out::One(client, frame) => {
                    if let Some(client) = self.clients.get_mut(&client) {
                        client.peer.send(&frame);
                    }
                    continue;
                }
            };
            for client in self.clients.values_mut().filter(|it| all || it.follows.contains(&thread)) {
                client.peer.send(&frame);
            }
        }
    }

    fn frame(&mut self, client: u64, frame: &Value) {
        let (id, method) = (&frame["id"], frame["method"].as_str());
        match method {
            Some(method) if !id.is_null() => {
                // What it leads to is told after the reply.
                let reply = match self.request(client, method, &frame["params"]) {
                    Ok(result) => json!({"id": id, "result": result}),
                    Err(message) => json!({"id": id, "error": {"code": -32600, "message": message}}),
                };
                if let Some(client) = self.clients.get_mut(&client) {
                    client.peer.send(&reply);
                }
                self.advance();
            }
            Some(_) => {}
            None => {
                let decision = frame["result"]["decision"].as_str().unwrap_or("cancel");
                let by = self.clients.get(&client).map_or_else(String::new, |it| it.name.clone());
                for conversation in self.conversations.values_mut() {
                    conversation.answered(id.as_u64().unwrap_or(u64::MAX), decision, &by);
                }
            }
        }
    }

    fn request(&mut self, client: u64, method: &str, params: &Value) -> Result<Value, String> {
        let name = self.clients.get(&client).map_or_else(String::new, |it| it.name.clone());
        match method {
            "initialize" => {
                if let Some(client) = self.clients.get_mut(&client) {
                    params["clientInfo"]["name"].as_str().unwrap_or_default().clone_into(&mut client.name);
                }
                return Ok(json!({"userAgent": format!("codex/{}", super::version())}));
            }
            "thread/loaded/list" => {
                return Ok(json!({"data": self.conversations.keys().collect::<Vec<_>>()}));
            }
            "thread/start" => {
                let id = uuid::Uuid::now_v7().to_string();
                let cwd = params["cwd"].as_str().map(str::to_owned);
                let cwd = cwd.unwrap_or_else(|| self.start.cwd.to_string_lossy().into_owned());
                let rollout = Rollout::new(&self.start.home, &id);
                let conversation = self.open(&id, &cwd, rollout).map_err(|error| error.to_string())?;
                if let Some(model) = params["model"].as_str() {
                    model.clone_into(&mut conversation.model);
                }
                let thread = conversation.shown();
                conversation.out.push(Out::All("thread/started", json!({"thread": thread})));
                self.follow(client, &id);
                return Ok(json!({"thread": thread, "cwd": cwd}));
            }
            _ => {}
        }
        let thread = params["threadId"].as_str().unwrap_or_default();
        if method == "thread/resume" {
            return self.resume(client, thread, params["excludeTurns"] != true);
        }
        let loaded = self.conversations.get_mut(thread);
        let conversation = loaded.ok_or_else(|| format!("thread not found: {thread}"))?;
        let running = conversation.turn.as_ref().map(|it| it.id.clone());
        match method {
            "thread/read" => Ok(json!({"thread": conversation.shown()})),
            "turn/start" | "turn/steer" => {
                if method == "turn/steer" && running.as_deref() != params["expectedTurnId"].as_str() {
                    return Err("no such turn is active".to_owned());
                }
                let parts = params["input"].as_array().into_iter().flatten();
                let message = Message {
                    text: parts.filter_map(|it| it["text"].as_str()).collect::<Vec<_>>().join("\n"),
                    client_id: params["clientUserMessageId"].as_str().map(str::to_owned),
                    source: if name == SCREEN { "typed" } else { "outside" },
                    queued: running.is_some(),
                };
                let turn = conversation.take(message, &self.knobs);
                Ok(json!({"turn": {"id": turn, "status": "inProgress"}, "turnId": turn}))
            }
            "turn/interrupt" => {
                conversation.interrupt();
                Ok(json!({}))
            }
            "thread/compact/start" if conversation.compact() => Ok(json!({})),
            "thread/compact/start" => Err("it is not idle, or there is nothing".to_owned()),
            _ => Err(format!("unknown method `{method}`")),
        }
    }

    /// Lets a client follow a conversation, which is taken up again if it was left.
    fn resume(&mut self, client: u64, thread: &str, whole: bool) -> Result<Value, String> {
        let missing = || format!("no rollout found for thread id {thread}");
        let conversation = if let Some(loaded) = self.conversations.get_mut(thread) {
            loaded
        } else {
            let rollout = Rollout::find(&self.start.home, thread).ok_or_else(missing)?;
            let cwd = self.start.cwd.to_string_lossy().into_owned();
            self.open(thread, &cwd, rollout).map_err(|error| error.to_string())?
        };
        if !conversation.rollout.exists() {
            return Err(missing());
        }
        if conversation.turn.is_none() {
            conversation.tell_status();
        }
        if let Some(open) = &conversation.question {
            conversation.out.push(Out::One(client, question(open.id, &open.params)));
        }
        let mut thread = conversation.shown();
        if whole {
            thread["turns"] = conversation.rollout.turns();
        }
        let id = conversation.id.clone();
        self.follow(client, &id);
        Ok(json!({"thread": thread}))
    }

    fn follow(&mut self, client: u64, thread: &str) {
        if let Some(client) = self.clients.get_mut(&client) {
            client.follows.insert(thread.to_owned());
        }
    }

    /// Loads a conversation and watches its files.
    fn open(&mut self, id: &str, cwd: &str, rollout: Rollout) -> Result<&mut Conversation, Refusal> {
        let conversation = Conversation::load(self.start, id, cwd, rollout)?;
        for file in [&conversation.control.path, &conversation.queue.path] {
            self.watcher.watch(file)?;
        }
        Ok(self.conversations.entry(id.to_owned()).or_insert(conversation))
    }

    /// Takes what was appended to control files and queues.
    fn read_files(&mut self) {
        let (_, unsettled) = self.watcher.changes();
        let due = self.settle.is_some_and(|it| it <= Instant::now());
        if due {
            self.watcher.settle();
            self.settle = None;
        } else if unsettled && self.settle.is_none() {
            self.settle = Some(Instant::now() + SETTLE);
        }
        for id in self.conversations.keys().cloned().collect::<Vec<_>>() {
            let Some(conversation) = self.conversations.get_mut(&id) else { continue };
            conversation.read_queue();
            for appended in conversation.control.appended() {
                let refused = match control::parse(&appended.line) {
                    None => None,
                    Some(Ok(command)) => self.command(&id, &command, &appended.line).err(),
                    Some(Err(reason)) => Some(reason),
                };
                let Some(conversation) = self.conversations.get_mut(&id) else { break };
                match refused {
                    None => conversation.logs.event("control", json!({"command": appended.line})),
                    Some(reason) => {
                        let fields = json!({"line": appended.line, "reason": reason});
                        conversation.logs.event("control_error", fields);
                    }
                }
                conversation.control.done(appended.end);
                self.advance();
            }
        }
    }

    /// Obeys a control line; what is the screen's business goes on to it.
    fn command(&mut self, thread: &str, command: &Command, line: &str) -> Result<(), String> {
        if self.knob(command) {
            return Ok(());
        }
        let Some(conversation) = self.conversations.get_mut(thread) else { return Ok(()) };
        let cwd = conversation.cwd.clone();
        match command {
            Command::Busy(time) => conversation.order(&format!("busy {}", time.as_secs_f64()), &self.knobs),
            Command::Do(text) => conversation.order(text, &self.knobs),
            Command::Call(text) => conversation.order(&format!("call {text}"), &self.knobs),
            Command::Submit(text) => {
                let queued = conversation.turn.is_some();
                let message = Message { text: text.clone(), client_id: None, source: "control", queued };
                conversation.take(message, &self.knobs);
            }
            Command::Idle(answer) => conversation.finish(answer.clone()),
            Command::Compact => drop(conversation.compact()),
            Command::Mcp(true) => conversation.tools.start(Path::new(&cwd), &conversation.logs),
            Command::Mcp(false) => conversation.tools.stop(Signal::SIGKILL),
            Command::Exit(code) => conversation.out.push(Out::All("fake/exit", json!({"code": code}))),
            Command::Kill => drop(raise(Signal::SIGKILL)),
            Command::Draft(_) | Command::Enter | Command::Escape | Command::EatEnter(_) => {
                conversation.tell("fake/control", json!({"line": line}));
            }
            _ => return Err("it is not for these clothes".to_owned()),
        }
        Ok(())
    }

    /// Obeys what changes behaviour from now on; says whether it was such a line.
    fn knob(&mut self, command: &Command) -> bool {
        match command {
            Command::AnswerAfter(time) => self.knobs.answer_after = *time,
            Command::LateReceipt(time) => self.knobs.late_receipt = *time,
            Command::ApiError(kind) => self.knobs.api_error.clone_from(kind),
            Command::Limit(text) => {
                self.knobs.limit = text.as_ref().map(|it| it.parse().unwrap_or(LIMIT));
            }
            _ => return false,
        }
        if matches!(command, Command::ApiError(Some(_)) | Command::Limit(Some(_))) {
            for conversation in self.conversations.values_mut().filter(|it| it.turn.is_some()) {
                conversation.fail(&self.knobs);
            }
        }
        true
    }
}

fn question(id: u64, params: &Value) -> Value {
    json!({"id": id, "method": "item/commandExecution/requestApproval", "params": params})
}
