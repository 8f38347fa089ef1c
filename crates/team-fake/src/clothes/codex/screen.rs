//! The screen: a client of the server with an input box.

mod keys;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::look::{Dialog, Kind, View};
use super::server::SCREEN;
use super::wire::{Peer, sleep};
use super::{MODELS, Refusal, Start, script};
use crate::composer::Composer;
use crate::control::{self, Command};
use crate::input::{Event, Parser};
use crate::logs::Logs;
use crate::signals::Signals;
use crate::term::{self, Terminal};

/// How long to wait before a server that does not answer is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// What a request of ours asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Initialize,
    /// A conversation, new or an earlier one.
    Conversation,
    Other,
}

struct Screen<'a> {
    start: &'a Start,
    terminal: Terminal,
    signals: Signals,
    parser: Parser,
    composer: Composer,
    picture: crate::screen::Screen,
    view: View,
    dialog: Option<Dialog>,
    title: String,
    logs: Option<Logs>,
    /// What the terminal gave before there was a conversation to log it under.
    unlogged: Vec<Vec<u8>>,
    peer: Option<Peer>,
    next: u64,
    asked: BTreeMap<u64, Asked>,
    thread: Option<String>,
    turn: Option<String>,
    /// Nothing more is to be had of the conversation.
    lost: bool,
    last_key: Option<Instant>,
    in_burst: bool,
    /// An Enter within this time of any input is a line end.
    eats_enter: Option<Duration>,
    retry_at: Option<Instant>,
    escape_at: Option<Instant>,
    over: Option<(i32, String)>,
}

/// Shows a conversation until somebody leaves.
pub(super) fn run(start: &Start) -> Result<i32, Refusal> {
    if start.socket.is_none() {
        return Err(Refusal::NoSocket);
    }
    if !term::is_terminal() {
        return Err(Refusal::NoTerminal);
    }
    start.logs.create()?;
    let script = script()?;
    let signals = [Signal::SIGWINCH, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT];
    let cwd = start.cwd.to_string_lossy().into_owned();
    let setting =
        |name: &str, default: &str| start.settings.get(&[name]).as_str().unwrap_or(default).to_owned();
    let mut screen = Screen {
        start,
        signals: Signals::catch(&signals)?,
        terminal: Terminal::open()?,
        parser: Parser::default(),
        composer: Composer::default(),
        picture: crate::screen::Screen::default(),
        view: View::new(
            &cwd,
            &setting("model", "gpt-6.2-sol"),
            &setting("model_reasoning_effort", "default"),
        ),
        dialog: None,
        title: String::new(),
        logs: None,
        unlogged: Vec::new(),
        peer: None,
        next: 0,
        asked: BTreeMap::new(),
        thread: start.thread.clone(),
        turn: None,
        lost: false,
        last_key: None,
        in_burst: false,
        eats_enter: None,
        retry_at: None,
        escape_at: None,
        over: None,
    };
    for command in script {
        screen.obey(command);
    }
    if asks_for_trust(start) {
        screen.dialog = Some(Dialog::trust(&cwd));
    } else {
        screen.trusted();
    }
    Ok(screen.go())
}

/// The model that is offered in place of the one that was asked for, unless it was refused before.
fn offer(start: &Start) -> Option<&'static str> {
    let model = start.settings.get(&["model"]).as_str()?;
    let newer = MODELS.iter().find(|it| it.0 == model)?.2?;
    (start.settings.get(&["notice", "model_migrations", model]) != newer).then_some(newer)
}

/// A folder under version control that nobody has trusted is asked about.
fn asks_for_trust(start: &Start) -> bool {
    let trusted = |it: &Path| {
        let folder = it.to_string_lossy();
        start.settings.get(&["projects", &folder, "trust_level"]) == "trusted"
    };
    start.cwd.ancestors().any(|it| it.join(".git").exists()) && !start.cwd.ancestors().any(trusted)
}

impl Screen<'_> {
    fn go(mut self) -> i32 {
        self.view.size = self.terminal.size();
        self.terminal.write("\x1b[?2004h");
        while self.over.is_none() {
            self.draw();
            self.wait();
            self.take_signals();
            self.read_terminal();
            if self.retry_at.is_some_and(|it| it <= Instant::now()) {
                self.connect();
            }
            self.read_server();
        }
        let (code, words) = self.over.take().unwrap_or_default();
        self.event("end", json!({"code": code}));
        let bottom = self.view.size.1;
        self.terminal.write(&format!("\x1b[?2004l\x1b[?25h\x1b[{bottom};1H\r\n{words}\r\n"));
        self.terminal.restore();
        code
    }

    fn wait(&self) {
        let due = self.retry_at.into_iter().chain(self.escape_at).min();
        let mut fds = vec![
            PollFd::new(self.signals.fd(), PollFlags::POLLIN),
            PollFd::new(self.terminal.fd(), PollFlags::POLLIN),
        ];
        fds.extend(self.peer.as_ref().map(Peer::waits));
        sleep(&mut fds, due);
    }

    fn event(&mut self, name: &str, fields: Value) {
        if let Some(logs) = &mut self.logs {
            logs.event(name, fields);
        }
    }

    fn take_signals(&mut self) {
        for signal in self.signals.raised() {
            match signal {
                Signal::SIGWINCH => {
                    self.view.size = self.terminal.size();
                    self.picture.forget();
                }
                other => self.over = Some((128 + other as i32, String::new())),
            }
        }
    }

    fn draw(&mut self) {
        let state = match (&self.peer, self.lost, &self.turn) {
            (_, true, _) => "This conversation is unavailable",
            (None, _, _) if self.thread.is_some() => "Reconnecting to server…",
            (_, _, Some(_)) => "Working (esc to interrupt)",
            _ => "",
        };
        let frame = self.view.frame(self.dialog.as_ref(), state, &self.composer.shown());
        let mut out = self.picture.draw(frame);
        let folder = self.start.cwd.file_name().unwrap_or_default().to_string_lossy();
        let asks = self.dialog.as_ref().is_some_and(|it| matches!(it.kind, Kind::Permission(_)));
        let title = if asks { format!("[ ! ] Action Required | {folder}") } else { folder.into_owned() };
        if title != self.title {
            let _ = write!(out, "\x1b]2;{title}\x07");
            self.title = title;
        }
        if !out.is_empty() {
            self.terminal.write(&out);
        }
    }

    /// The folder may be worked in: another question, or the server.
    fn trusted(&mut self) {
        match offer(self.start) {
            Some(newer) => self.dialog = Some(Dialog::offer(newer)),
            None => self.retry_at = Some(Instant::now()),
        }
    }

    fn connect(&mut self) {
        self.retry_at = None;
        match self.start.socket.as_deref().map(Peer::connect) {
            Some(Ok(peer)) => {
                self.peer = Some(peer);
                let client = json!({"name": SCREEN, "title": "Codex TUI", "version": super::version()});
                let params = json!({"clientInfo": client, "capabilities": {"experimentalApi": true}});
                self.ask(Asked::Initialize, "initialize", &params);
            }
            _ => self.retry_at = Some(Instant::now() + RETRY),
        }
    }

    fn ask(&mut self, asked: Asked, method: &str, params: &Value) {
        self.next += 1;
        self.asked.insert(self.next, asked);
        self.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
    }

    fn send(&mut self, frame: &Value) {
        if let Some(peer) = &mut self.peer {
            peer.send(frame);
        }
    }

    fn begin(&mut self) {
        let params = json!({"cwd": self.start.cwd, "model": self.start.settings.get(&["model"])});
        self.ask(Asked::Conversation, "thread/start", &params);
    }

    fn read_server(&mut self) {
        let Some(peer) = &mut self.peer else { return };
        peer.flush();
        let frames = peer.receive();
        let gone = peer.gone;
        for frame in frames {
            self.frame(&frame);
        }
        if gone {
            self.peer = None;
            self.asked.clear();
            self.turn = None;
            // What it asked is asked again, if it still is.
            self.dialog = self.dialog.take().filter(|it| !matches!(it.kind, Kind::Permission(_)));
            self.retry_at = Some(Instant::now() + RETRY);
        }
    }

    fn frame(&mut self, frame: &Value) {
        let params = &frame["params"];
        match (frame["id"].as_u64(), frame["method"].as_str()) {
            (Some(id), None) => self.reply(id, frame),
            (Some(id), Some("item/commandExecution/requestApproval")) => {
                self.dialog = Some(Dialog::permission(id, params));
            }
            (None, Some("fake/exit")) => {
                let code = params["code"].as_i64().and_then(|it| i32::try_from(it).ok());
                self.over = Some((code.unwrap_or(1), String::new()));
            }
            (None, Some(method)) if params["threadId"].as_str() == self.thread.as_deref() => {
                self.told(method, params);
            }
            _ => {}
        }
    }

    fn reply(&mut self, id: u64, frame: &Value) {
        let error = frame["error"]["message"].as_str();
        match (self.asked.remove(&id), error) {
            (Some(Asked::Initialize), _) => {
                self.send(&json!({"jsonrpc": "2.0", "method": "initialized"}));
                match self.thread.clone() {
                    Some(thread) => {
                        self.ask(Asked::Conversation, "thread/resume", &json!({"threadId": thread}));
                    }
                    None => self.begin(),
                }
            }
            (Some(Asked::Conversation), None) => {
                let thread = &frame["result"]["thread"];
                let id = thread["id"].as_str().unwrap_or_default().to_owned();
                if self.logs.is_none() || self.thread.as_ref() != Some(&id) {
                    self.logs = Logs::open(&self.start.logs, &id).ok();
                    let (columns, rows) = self.view.size;
                    self.event("size", json!({"columns": columns, "rows": rows}));
                    self.event("ready", json!({"part": "screen", "pid": std::process::id()}));
                }
                self.thread = Some(id);
                self.lost = false;
                self.view.clear();
                let turns = thread["turns"].as_array().into_iter().flatten();
                for item in turns.flat_map(|it| it["items"].as_array().into_iter().flatten()) {
                    self.told("item/completed", &json!({"item": item}));
                }
            }
            (Some(Asked::Conversation), Some(error)) if self.logs.is_none() => {
                self.over = Some((1, format!("Error: {error}")));
            }
            (Some(Asked::Conversation), Some(_)) => self.lost = true,
            (Some(Asked::Other), Some(error)) => self.view.say(&format!("■ {error}")),
            _ => {}
        }
    }

    fn told(&mut self, method: &str, params: &Value) {
        let item = &params["item"];
        let word = |name: &str| item[name].as_str().unwrap_or_default();
        match (method, word("type")) {
            ("turn/started", _) => self.turn = params["turn"]["id"].as_str().map(str::to_owned),
            ("turn/completed", _) => {
                self.turn = None;
                if params["turn"]["status"] == "interrupted" {
                    self.view.say("■ Conversation interrupted - use /feedback if something went wrong");
                }
            }
            ("item/completed", "userMessage") => {
                let text = item["content"][0]["text"].as_str().unwrap_or_default();
                self.view.say(&format!("› {text}"));
            }
            ("item/completed", "agentMessage") => self.view.say(&format!("• {}", word("text"))),
            ("item/started", "commandExecution") => self.view.say(&format!("• Running {}", word("command"))),
            ("item/started", "mcpToolCall") => {
                self.view.say(&format!(
                    "• Calling {}.{}({})",
                    word("server"),
                    word("tool"),
                    item["arguments"]
                ));
            }
            ("item/completed", "contextCompaction") => self.view.say("• Context compacted"),
            ("error", _) => {
                let error = &params["error"];
                self.view.say(&format!("■ {}", error["message"].as_str().unwrap_or_default()));
                let hidden = self.start.settings.get(&["notice", "hide_rate_limit_model_nudge"]) == true;
                if error["codexErrorInfo"] == "usageLimitExceeded" && !hidden {
                    self.dialog = Some(Dialog::nudge());
                }
            }
            ("serverRequest/resolved", _) => {
                let request = params["requestId"].as_u64().unwrap_or(u64::MAX);
                self.dialog = self.dialog.take().filter(|it| it.kind != Kind::Permission(request));
            }
            ("fake/control", _) => {
                if let Some(Ok(command)) = control::parse(params["line"].as_str().unwrap_or_default()) {
                    self.obey(command);
                }
            }
            _ => {}
        }
    }

    /// Obeys a control line; those for the server are its own business.
    fn obey(&mut self, command: Command) {
        match command {
            Command::EatEnter(time) => self.eats_enter = Some(time),
            Command::Draft(text) => self.composer.insert(&text),
            Command::Enter => self.enter(),
            Command::Escape => self.key(&Event::Escape),
            _ => {}
        }
    }
}
