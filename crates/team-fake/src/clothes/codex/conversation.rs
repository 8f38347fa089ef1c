//! One conversation of the server: its turns, its record, its tools. Says what clients are to be told; knows no
//! connection.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::rollout::Rollout;
use super::tools::{Said, Tools};
use super::turn::{Call, Message, Step, Turn, Wait};
use super::{MODELS, Refusal, Start, queue_file};
use crate::child::{Pipe, Process};
use crate::control::ControlFile;
use crate::directive::{self, Directive, Item};
use crate::logs::{Logs, replace};

/// Behaviour that control lines change, of all conversations of a server.
#[derive(Debug)]
pub(super) struct Knobs {
    pub(super) answer_after: Duration,
    pub(super) late_receipt: Duration,
    pub(super) api_error: Option<String>,
    /// Seconds until the limit ends.
    pub(super) limit: Option<u64>,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            answer_after: Duration::from_millis(5),
            late_receipt: Duration::ZERO,
            api_error: None,
            limit: None,
        }
    }
}

/// Something for the clients, or for the server.
#[derive(Debug)]
pub(super) enum Out {
    /// A notification for every client.
    All(&'static str, Value),
    /// A notification for those that follow this conversation.
    Followers(&'static str, Value),
    /// A request to those, under this id.
    Ask(u64, Value),
    /// A frame for this client.
    One(u64, Value),
}

/// A question that is open.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) id: u64,
    pub(super) params: Value,
}

/// A directive that waits for a sender.
#[derive(Debug)]
struct Armed {
    from: String,
    each: bool,
    directive: Directive,
}

/// The conversation.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) id: String,
    pub(super) cwd: String,
    pub(super) model: String,
    pub(super) home: PathBuf,
    pub(super) instructions: Option<String>,
    pub(super) rollout: Rollout,
    pub(super) logs: Logs,
    pub(super) tools: Tools,
    pub(super) control: ControlFile,
    /// Texts of `codex queue`, read once, and those that are not taken yet with where they end.
    pub(super) queue: ControlFile,
    pub(super) queued: VecDeque<(Message, u64)>,
    pub(super) turn: Option<Turn>,
    pub(super) question: Option<Question>,
    /// The last turn failed.
    pub(super) failed: bool,
    /// The last turn was interrupted: the queue waits until another has run.
    held: bool,
    armed: Vec<Armed>,
    pub(super) out: Vec<Out>,
}

impl Conversation {
    /// Loads a conversation, with its tools and its files.
    pub(super) fn load(start: &Start, id: &str, cwd: &str, rollout: Rollout) -> Result<Self, Refusal> {
        let settings = &start.settings;
        let mut logs = Logs::open(&start.logs, id)?;
        let mut names: Vec<String> =
            std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
        names.sort_unstable();
        let argv: Vec<String> = std::env::args_os().map(|it| it.to_string_lossy().into_owned()).collect();
        logs.event("start", json!({"argv": argv, "cwd": cwd, "pid": std::process::id(), "env_names": names}));
        // What it is told of itself is told once, when it begins.
        let instructions = settings.get(&["developer_instructions"]).as_str().filter(|_| !rollout.exists());
        if let Some(text) = instructions {
            let copy = start.logs.events(id).with_extension("system-prompt");
            replace(&copy, text)?;
            logs.event("system_prompt", json!({"bytes": text.len(), "copy": copy}));
        }
        let control = ControlFile::open(Path::new(cwd).join(start.logs.control(id)));
        let queue = ControlFile::open(queue_file(&start.home, id));
        for folder in [&control, &queue].into_iter().filter_map(|it| it.path.parent()) {
            std::fs::create_dir_all(folder)?;
        }
        let mut tools = Tools::new(settings, cwd);
        tools.start(Path::new(cwd), &logs);
        let mut conversation = Self {
            id: id.to_owned(),
            cwd: cwd.to_owned(),
            model: settings.get(&["model"]).as_str().unwrap_or(MODELS[0].0).to_owned(),
            home: start.home.clone(),
            instructions: instructions.map(str::to_owned),
            rollout,
            logs,
            tools,
            control,
            queue,
            queued: VecDeque::new(),
            turn: None,
            question: None,
            failed: false,
            held: false,
            armed: Vec::new(),
            out: Vec::new(),
        };
        conversation.read_queue();
        Ok(conversation)
    }

    /// How clients see it.
    pub(super) fn shown(&self) -> Value {
        json!({
            "id": self.id, "path": self.rollout.path, "cwd": self.cwd, "status": self.status(), "ephemeral": false,
            "threadSource": "user", "parentThreadId": null,
        })
    }

    pub(super) fn status(&self) -> Value {
        match (&self.turn, &self.question) {
            (Some(_), Some(_)) => json!({"type": "active", "activeFlags": ["waitingOnApproval"]}),
            (Some(_), None) => json!({"type": "active", "activeFlags": []}),
            (None, _) if self.failed => json!({"type": "systemError"}),
            (None, _) => json!({"type": "idle"}),
        }
    }

    pub(super) fn tell_status(&mut self) {
        let params = json!({"threadId": self.id, "status": self.status()});
        self.out.push(Out::All("thread/status/changed", params));
    }

    pub(super) fn tell(&mut self, method: &'static str, mut params: Value) {
        params["threadId"] = self.id.clone().into();
        self.out.push(Out::Followers(method, params));
    }

    /// Tells clients of an item of the running turn.
    pub(super) fn item(&mut self, method: &'static str, item: &Value) {
        let turn = self.turn.as_ref().map(|it| it.id.clone());
        self.tell(method, json!({"turnId": turn, "item": item}));
    }

    /// Records an event of the running turn.
    pub(super) fn record(&mut self, kind: &str, mut payload: Value) {
        let turn = self.turn.as_ref().map(|it| it.id.clone());
        (payload["type"], payload["thread_id"], payload["turn_id"]) =
            (kind.into(), self.id.clone().into(), turn.into());
        self.rollout.write("event_msg", payload);
    }

    /// Takes a message: begins a turn with it, or hands it into the one that runs. Returns the turn's id.
    pub(super) fn take(&mut self, message: Message, knobs: &Knobs) -> String {
        if let Some(turn) = &mut self.turn {
            turn.steered.push_back(message);
            return turn.id.clone();
        }
        // A record is made with the first turn, and a little later than clients are told of the turn.
        let first = !self.rollout.exists();
        let mut steps = VecDeque::new();
        if first {
            steps.push_back(Step::Pause(Duration::from_millis(15)));
        }
        steps.push_back(Step::Open);
        let late = Duration::from_millis(if first { 80 } else { 20 });
        steps.extend([Step::Pause(late + knobs.late_receipt), Step::Take(message)]);
        self.begin(steps)
    }

    fn begin(&mut self, steps: VecDeque<Step>) -> String {
        let turn = Turn::new(steps);
        let id = turn.id.clone();
        self.failed = false;
        self.turn = Some(turn);
        self.tell_status();
        self.tell("turn/started", json!({"turn": {"id": id, "status": "inProgress", "items": []}}));
        id
    }

    /// Shortens the history, in a turn of its own.
    pub(super) fn compact(&mut self) -> bool {
        let idle = self.turn.is_none() && self.rollout.exists();
        if idle {
            self.begin(VecDeque::from([Step::Open, Step::Compact]));
        }
        idle
    }

    /// Takes the next text of the queue, if nothing runs.
    pub(super) fn take_queued(&mut self, knobs: &Knobs) {
        if self.turn.is_none()
            && !self.held
            && let Some((message, end)) = self.queued.pop_front()
        {
            self.queue.done(end);
            self.take(message, knobs);
        }
    }

    /// Reads what was put into the queue.
    pub(super) fn read_queue(&mut self) {
        for line in self.queue.appended() {
            let Ok(row) = serde_json::from_str::<Value>(&line.line) else { continue };
            let text = row["text"].as_str().unwrap_or_default().to_owned();
            let client_id = row["client_id"].as_str().map(str::to_owned);
            self.queued.push_back((Message { text, client_id, source: "queue", queued: true }, line.end));
        }
    }

    /// Reads what a text asks for, arms what waits for a sender and fires what waited for this one.
    pub(super) fn plan(&mut self, text: &str) -> Vec<Directive> {
        let mut directives = Vec::new();
        for item in directive::read(text) {
            match item {
                Item::Do(directive) => directives.push(directive),
                Item::Arm { from, each, directive } => self.armed.push(Armed { from, each, directive }),
                Item::From(from) => {
                    let fits = |it: &Armed| it.from == "*" || it.from == from;
                    directives.extend(self.armed.iter().filter(|it| fits(it)).map(|it| it.directive.clone()));
                    self.armed.retain(|it| it.each || !fits(it));
                }
            }
        }
        directives
    }

    /// Does a directive, in front of what the running turn still has to do, or in a turn of its own.
    pub(super) fn order(&mut self, line: &str, knobs: &Knobs) {
        if let Some(turn) = &mut self.turn {
            turn.steps.push_front(Step::Do(directive::directive(line)));
        } else {
            let text = format!("fake: {line}");
            self.take(Message { text, client_id: None, source: "control", queued: false }, knobs);
        }
    }

    /// Ends the running turn at once, with its answer.
    pub(super) fn finish(&mut self, answer: Option<String>) {
        let Some(turn) = &mut self.turn else { return };
        turn.said = answer.or(turn.said.take());
        if matches!(turn.wait, Wait::Time { .. } | Wait::Servers(_)) {
            turn.wait = Wait::Nothing;
        }
        turn.steps.retain(|it| matches!(it, Step::Open | Step::Take(_) | Step::ToolDone));
    }

    /// Somebody stops the turn.
    pub(super) fn interrupt(&mut self) {
        if self.turn.is_none() {
            return;
        }
        self.close_question();
        self.end_call("aborted by user", true);
        self.record("turn_aborted", json!({"reason": "interrupted"}));
        self.logs.event("interrupted", json!({}));
        self.over("interrupted", &Value::Null);
    }

    /// The turn is over.
    pub(super) fn over(&mut self, status: &str, error: &Value) {
        let Some(turn) = self.turn.take() else { return };
        self.held = status == "interrupted";
        if let Some(shell) = &turn.shell {
            shell.signal_group(Signal::SIGTERM);
        }
        self.tell_status();
        self.tell(
            "turn/completed",
            json!({"turn": {"id": turn.id, "status": status, "error": error, "items": []}}),
        );
    }

    /// Somebody answers a question; only the first answer counts.
    pub(super) fn answered(&mut self, id: u64, decision: &str, by: &str) {
        if self.question.as_ref().is_none_or(|it| it.id != id) {
            return;
        }
        self.logs.event("dialog_answered", json!({"kind": "perm", "text": decision, "by": by}));
        self.close_question();
        let allowed = matches!(decision, "accept" | "acceptForSession");
        if decision == "cancel" {
            self.interrupt();
            return;
        }
        let text = if allowed { "" } else { "rejected by user" };
        self.end_call(text, !allowed);
        let Some(turn) = &mut self.turn else { return };
        turn.wait = Wait::Nothing;
        // What was asked for is what comes next.
        if !allowed && matches!(turn.steps.front(), Some(Step::Do(Directive::Shell(_) | Directive::Touch(_))))
        {
            turn.steps.pop_front();
        }
        if !allowed {
            // The model thinks about it: what is said beside a no comes into this turn.
            turn.steps.push_front(Step::Pause(Duration::from_millis(50)));
        }
    }

    fn close_question(&mut self) {
        if let Some(question) = self.question.take() {
            self.tell("serverRequest/resolved", json!({"requestId": question.id}));
            self.tell_status();
        }
    }

    /// Says that a tool begins.
    pub(super) fn begin_call(&mut self, call: Call) {
        let payload = json!({
            "type": "function_call", "name": call.name, "namespace": call.namespace, "call_id": call.id,
            "arguments": call.arguments.to_string(),
        });
        self.rollout.write("response_item", payload);
        let item = call.item("inProgress", "");
        if let Some(turn) = &mut self.turn {
            turn.call = Some(call);
        }
        self.item("item/started", &item);
    }

    /// Says that the tool that ran has ended.
    pub(super) fn end_call(&mut self, text: &str, is_error: bool) {
        let Some(call) = self.turn.as_mut().and_then(|it| it.call.take()) else { return };
        let item = call.item(if is_error { "failed" } else { "completed" }, text);
        let kind = if call.namespace.is_some() { "McpToolCall" } else { "CommandExecution" };
        let recorded = json!({"type": kind, "id": call.id, "status": item["status"]});
        self.record("item_completed", json!({"item": recorded}));
        let output = json!({"type": "function_call_output", "call_id": call.id, "output": text});
        self.rollout.write("response_item", output);
        self.item("item/completed", &item);
    }

    /// What to wait on.
    pub(super) fn waits(&self) -> Vec<PollFd<'_>> {
        let shell = self.turn.iter().filter_map(|it| it.shell.as_ref());
        self.tools.processes().chain(shell).flat_map(waits_of).collect()
    }

    /// Moves what can be moved through the pipes of children.
    pub(super) fn service(&mut self) {
        for said in self.tools.service(&self.logs) {
            match said {
                Said::Answer { server, id, text, is_error } => {
                    let fields = json!({"server": server, "id": id, "text": text, "is_error": is_error});
                    self.logs.event("called", fields);
                    if self.turn.as_ref().is_some_and(|it| it.wait == Wait::Tool(server, id)) {
                        self.tool_ended(&text, is_error);
                    }
                }
                Said::Changed(server) => {
                    let alive = self.tools.is_alive(&server);
                    let state = if alive { "ready" } else { "ended" };
                    self.logs.event("mcp", json!({"server": server, "state": state}));
                    match self.turn.as_mut().map(|it| &mut it.wait) {
                        Some(wait @ Wait::Servers(_)) => *wait = Wait::Nothing,
                        Some(Wait::Tool(name, _)) if *name == server && !alive => {
                            self.tool_ended("MCP error: connection closed", true);
                        }
                        _ => {}
                    }
                }
            }
        }
        let Some(shell) = self.turn.as_mut().and_then(|it| it.shell.as_mut()) else { return };
        shell.service(Pipe::Stdout);
        shell.service(Pipe::Stderr);
        if let Some(code) = shell.try_wait() {
            let text = [shell.out.as_slice(), &shell.err].concat();
            let text = String::from_utf8_lossy(&text).trim_end().to_owned();
            self.logs.event("shell_ended", json!({"code": code, "bytes": text.len()}));
            if let Some(turn) = &mut self.turn {
                turn.shell = None;
            }
            self.tool_ended(&text, code != 0);
        }
    }

    fn tool_ended(&mut self, text: &str, is_error: bool) {
        self.end_call(text, is_error);
        if let Some(turn) = &mut self.turn {
            turn.wait = Wait::Nothing;
        }
    }

    /// When the turn goes on by itself.
    pub(super) fn due(&self) -> Option<Instant> {
        match self.turn.as_ref()?.wait {
            Wait::Time { at, .. } | Wait::Servers(at) => Some(at),
            _ => None,
        }
    }

    /// Ends everything that was started.
    pub(super) fn end(&mut self) {
        self.tools.stop(Signal::SIGINT);
        if let Some(shell) = self.turn.as_ref().and_then(|it| it.shell.as_ref()) {
            shell.signal_group(Signal::SIGTERM);
        }
    }
}

fn waits_of(process: &Process) -> impl Iterator<Item = PollFd<'_>> {
    [Pipe::Stdin, Pipe::Stdout, Pipe::Stderr].into_iter().filter_map(|pipe| {
        let flag = if pipe == Pipe::Stdin { PollFlags::POLLOUT } else { PollFlags::POLLIN };
        Some(PollFd::new(process.fd(pipe).filter(|_| process.wants(pipe))?, flag))
    })
}
