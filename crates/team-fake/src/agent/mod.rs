//! The running program: one loop over terminal, signals, files, children and timers. Its parts are in the
//! modules below; this one knows only when each has something to do.

mod commands;
mod dialogs;
mod hooks;
mod keys;
mod limits;
mod outside;
mod queue;
mod servers;
mod status;
mod tools;
mod turns;
mod view;
mod wake;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use self::commands::Queue;
use self::dialogs::Permission;
use self::hooks::Batch;
use self::queue::{Armed, Queued};
use self::servers::Server;
use self::turns::Turn;
use self::view::View;
use self::wake::{SIGNALS, Token};
use crate::args::Args;
use crate::child::Process;
use crate::clock;
use crate::clothes::{Manners, Moment, Receiver, Worn};
use crate::composer::Composer;
use crate::control::{Command, ControlFile};
use crate::dialog::{Dialog, Kind};
use crate::input::Parser;
use crate::logs::Logs;
use crate::place::Home;
use crate::screen::Screen;
use crate::settings::{Hook, Settings};
use crate::setup::{Given, Origin};
use crate::signals::Signals;
use crate::term::Terminal;
use crate::transcript::Transcript;
use crate::watch::{Change, SETTLE, Watcher};

/// What a start has put together.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) args: Args,
    pub(crate) home: Home,
    pub(crate) cwd: String,
    pub(crate) session: String,
    pub(crate) origin: Origin,
    pub(crate) transcript: Transcript,
    pub(crate) source: Option<(String, PathBuf)>,
    pub(crate) clothes: Worn,
    pub(crate) given: Given,
    pub(crate) wire: Receiver,
    pub(crate) logs: Logs,
    pub(crate) watcher: Watcher,
    pub(crate) control: ControlFile,
    pub(crate) terminal: Terminal,
    pub(crate) script: Vec<Command>,
}

/// Behaviour that control lines change.
#[derive(Debug)]
struct Knobs {
    eat_enter: Duration,
    late_receipt: Duration,
    answer_after: Duration,
    bell_delay: Duration,
    mcp_delay: Duration,
    dialog_after_enter: Option<Duration>,
    api_error: Option<String>,
    limit: Option<String>,
    switches: Switches,
}

/// The knobs that are on or off.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is one line of a control file")]
struct Switches {
    hooks: bool,
    ignore_signals: bool,
    tabs: bool,
    mcp: bool,
    allow_shell: bool,
}

/// Where the program is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// Dialogs stand before everything: no hook, no server, no status file.
    Starting,
    Running,
    Ending(i32),
    Over(i32),
}

/// What a timer is for.
#[derive(Debug)]
enum Timer {
    Escape,
    Turn(u64),
    Control,
    Settle,
    Bell(Vec<Change>),
    HookTimeout(u64),
    AskAfterEnter,
    StartServer(String),
    ShowPermission(u64),
    PollFiles,
    End,
}

/// What a child is for.
#[derive(Debug)]
enum Role {
    Hook { moment: Moment, event: &'static str, batch: Option<u64>, hook: Box<Hook> },
    Server(String),
    Shell(u64),
    Loose(&'static str),
}

/// The program.
#[derive(Debug)]
pub(crate) struct Agent {
    clothes: Worn,
    args: Args,
    home: Home,
    cwd: String,
    session: String,
    origin: Origin,
    source: Option<(String, PathBuf)>,
    settings: Settings,
    questions: Vec<(Kind, String)>,
    wire: Receiver,
    wire_open: bool,
    logs: Logs,
    watcher: Watcher,
    bells: Vec<PathBuf>,
    control: ControlFile,
    commands: Queue,
    terminal: Terminal,
    terminal_open: bool,
    parser: Parser,
    composer: Composer,
    stash: Option<Composer>,
    last_input: Option<Instant>,
    last_quit_key: Option<Instant>,
    last_escape: Option<Instant>,
    screen: Screen,
    view: View,
    knobs: Knobs,
    phase: Phase,
    signals: Signals,
    children: BTreeMap<u64, (Process, Role)>,
    next_child: u64,
    batches: BTreeMap<u64, Batch>,
    timers: Vec<(Instant, Timer)>,
    servers: BTreeMap<String, Server>,
    transcript: Transcript,
    turn: Option<Turn>,
    next_turn: u64,
    queue: VecDeque<Queued>,
    armed: Vec<Armed>,
    dialogs: VecDeque<Dialog>,
    permission: Option<Permission>,
    started_at: u64,
    last_status: Value,
    last_title: String,
    manners: Manners,
}

impl Agent {
    pub(crate) fn new(parts: Parts) -> io::Result<Self> {
        let bell = std::env::var("FAKE_BELL_DELAY_MS").ok().and_then(|it| it.parse().ok()).unwrap_or(0);
        let manners = parts.clothes.manners();
        let servers = parts.given.servers.into_iter().map(|(name, it)| (name, Server::new(it, &parts.cwd)));
        Ok(Self {
            view: View::new(&*parts.clothes, &parts.cwd, &parts.session),
            servers: servers.collect(),
            commands: Queue::new(parts.script),
            args: parts.args,
            home: parts.home,
            cwd: parts.cwd,
            session: parts.session,
            origin: parts.origin,
            source: parts.source,
            settings: parts.given.settings,
            questions: parts.given.questions,
            wire: parts.wire,
            wire_open: true,
            logs: parts.logs,
            watcher: parts.watcher,
            bells: Vec::new(),
            control: parts.control,
            terminal_open: parts.terminal.is_there(),
            terminal: parts.terminal,
            parser: Parser::default(),
            composer: Composer::default(),
            stash: None,
            last_input: None,
            last_quit_key: None,
            last_escape: None,
            screen: Screen::default(),
            knobs: Knobs {
                eat_enter: manners.eat_enter,
                late_receipt: Duration::ZERO,
                answer_after: Duration::from_millis(5),
                bell_delay: Duration::from_millis(bell),
                mcp_delay: Duration::ZERO,
                dialog_after_enter: None,
                api_error: None,
                limit: None,
                switches: Switches {
                    hooks: true,
                    ignore_signals: manners.ignores_signals,
                    tabs: manners.tabs_to_spaces,
                    mcp: true,
                    allow_shell: std::env::var_os("FAKE_ALLOW_SHELL").is_some_and(|it| it == "1"),
                },
            },
            phase: Phase::Starting,
            signals: Signals::catch(SIGNALS)?,
            children: BTreeMap::new(),
            next_child: 0,
            batches: BTreeMap::new(),
            timers: Vec::new(),
            transcript: parts.transcript,
            turn: None,
            next_turn: 0,
            queue: VecDeque::new(),
            armed: Vec::new(),
            dialogs: VecDeque::new(),
            permission: None,
            started_at: clock::wall_ms(),
            last_status: Value::Null,
            last_title: String::new(),
            manners,
            clothes: parts.clothes,
        })
    }

    /// Runs until the program ends, and returns its exit code.
    pub(crate) fn run(mut self) -> i32 {
        self.log_size();
        self.view.bracket = true;
        if self.origin == Origin::Picker {
            let detail = self.args.resume.clone().unwrap_or_default();
            self.show(self.clothes.dialog(Kind::Resume, &detail));
        }
        for (kind, detail) in std::mem::take(&mut self.questions) {
            self.show(self.clothes.dialog(kind, &detail));
        }
        self.read_control();
        self.obey();
        self.ready_if_clear();
        loop {
            self.advance();
            self.obey();
            self.write_status();
            self.draw();
            if let Phase::Over(code) = self.phase {
                self.clean_up();
                return code;
            }
            let tokens = self.wait();
            for token in tokens {
                self.service(token);
            }
            self.run_timers();
        }
    }

    /// Starts everything that waits for the last dialog of the start.
    fn ready_if_clear(&mut self) {
        if self.phase != Phase::Starting || !self.dialogs.is_empty() {
            return;
        }
        self.phase = Phase::Running;
        self.draw();
        self.write_status();
        self.transcript.opened(self.origin == Origin::Resume);
        let source = if self.origin == Origin::Resume { "resume" } else { "startup" };
        self.fire_session_start(source);
        for name in self.servers.keys().cloned().collect::<Vec<_>>() {
            self.timer(self.knobs.mcp_delay, Timer::StartServer(name));
        }
        if let Some(every) = self.watcher.poll_every() {
            self.timer(every, Timer::PollFiles);
        }
        self.logs.event("ready", json!({}));
        if let Some(prompt) = self.args.prompt.take() {
            self.submit(&prompt, queue::Source::Argument);
        }
    }

    fn timer(&mut self, after: Duration, timer: Timer) {
        self.timers.push((Instant::now() + after, timer));
    }

    fn service(&mut self, token: Token) {
        match token {
            Token::Terminal => self.read_terminal(),
            Token::Signal => self.take_signals(),
            Token::Files => self.read_files(),
            Token::Wire => self.read_wire(),
            Token::Child(id, pipe) => {
                let Some((process, role)) = self.children.get_mut(&id) else { return };
                process.service(pipe);
                if let Role::Server(name) = role {
                    let name = name.clone();
                    self.read_server(&name, id);
                }
            }
        }
    }

    fn read_files(&mut self) {
        let (changes, unsettled) = self.watcher.changes();
        if unsettled && !self.timers.iter().any(|it| matches!(it.1, Timer::Settle)) {
            self.timer(SETTLE, Timer::Settle);
        }
        self.files_changed(changes);
    }

    fn files_changed(&mut self, changes: Vec<Change>) {
        let (control, bells): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|it| it.path == self.control.path);
        if !control.is_empty() {
            self.read_control();
        }
        if bells.is_empty() {
        } else if self.knobs.bell_delay.is_zero() {
            self.ring(bells);
        } else {
            self.timer(self.knobs.bell_delay, Timer::Bell(bells));
        }
    }

    fn run_timers(&mut self) {
        let now = Instant::now();
        self.timers.sort_by_key(|it| it.0);
        let later = self.timers.split_off(self.timers.partition_point(|it| it.0 <= now));
        let due = std::mem::replace(&mut self.timers, later);
        for (_, timer) in due {
            match timer {
                Timer::Escape => self.escape_timed_out(),
                Timer::Turn(turn) => self.turn_time_is_up(turn),
                Timer::Control => self.commands.held = false,
                Timer::Settle => {
                    let changes = self.watcher.settle();
                    self.files_changed(changes);
                }
                Timer::Bell(changes) => self.ring(changes),
                Timer::HookTimeout(child) => self.hook_timed_out(child),
                Timer::AskAfterEnter => self.ask_from_outside(),
                Timer::StartServer(name) => self.start_server(&name),
                Timer::ShowPermission(id) => self.show_permission(id),
                Timer::PollFiles => {
                    self.read_files();
                    if let Some(every) = self.watcher.poll_every() {
                        self.timer(every, Timer::PollFiles);
                    }
                }
                Timer::End => {
                    if let Phase::Ending(code) = self.phase {
                        self.phase = Phase::Over(code);
                    }
                }
            }
        }
    }

    fn reap(&mut self) {
        let ids: Vec<u64> = self.children.keys().copied().collect();
        for id in ids {
            let Some(code) = self.children.get_mut(&id).and_then(|it| it.0.try_wait()) else { continue };
            if let Some(name) = self.children.get(&id).and_then(|it| match &it.1 {
                Role::Server(name) => Some(name.clone()),
                _ => None,
            }) {
                self.read_server(&name, id);
            }
            let Some((process, role)) = self.children.remove(&id) else { continue };
            match role {
                Role::Hook { moment, event, batch, hook } => {
                    self.hook_ended((moment, event), batch, &hook, code, &process);
                }
                Role::Server(name) => self.server_ended(&name, code),
                Role::Shell(turn) => self.shell_ended(turn, code, &process),
                Role::Loose(what) => {
                    self.logs.event("child_ended", json!({"what": what, "pid": process.pid(), "code": code}));
                }
            }
        }
    }

    fn adopt(&mut self, process: Process, role: Role) -> u64 {
        self.next_child += 1;
        self.children.insert(self.next_child, (process, role));
        self.next_child
    }

    /// Ends the program: SessionEnd hooks first, for a bounded time.
    fn end(&mut self, code: i32, reason: &str) {
        match self.phase {
            Phase::Starting => self.phase = Phase::Over(code),
            Phase::Running => {
                self.logs.event("end", json!({"code": code, "reason": reason}));
                self.phase = Phase::Ending(code);
                let batch = self.fire(Moment::SessionEnd, json!({"reason": reason}));
                if batch.is_none() {
                    self.phase = Phase::Over(code);
                } else {
                    self.timer(Duration::from_millis(1500), Timer::End);
                }
            }
            Phase::Ending(_) | Phase::Over(_) => {}
        }
    }

    fn clean_up(&mut self) {
        for (process, role) in self.children.values() {
            match role {
                Role::Server(_) => process.signal(Signal::SIGINT),
                Role::Shell(_) => process.signal_group(Signal::SIGTERM),
                Role::Hook { .. } | Role::Loose(_) => {}
            }
        }
        let _ = std::fs::remove_file(self.home.status());
        let words = self.transcript.path.exists().then(|| self.clothes.goodbye(&self.session));
        let goodbye = self.view.goodbye(words.as_deref());
        self.terminal.write(&goodbye);
        self.terminal.restore();
    }
}
