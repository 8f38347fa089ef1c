//! What control lines and script lines do, one after the other.

use std::collections::VecDeque;

use nix::sys::signal::{Signal, raise};
use serde_json::json;

use super::queue::Source;
use super::{Agent, Phase, Role, Timer};
use crate::child::{Process, Start};
use crate::control::{self, Command};

/// Commands that are not obeyed yet.
#[derive(Debug)]
pub(super) struct Queue {
    /// With the offset in the control file to remember; scripts have none.
    waiting: VecDeque<(Command, Option<u64>)>,
    /// A `wait` runs.
    pub(super) held: bool,
}

impl Queue {
    pub(super) fn new(script: Vec<Command>) -> Self {
        Self { waiting: script.into_iter().map(|it| (it, None)).collect(), held: false }
    }
}

impl Agent {
    /// Takes the lines that were appended to the control file.
    pub(super) fn read_control(&mut self) {
        for appended in self.control.appended() {
            match control::parse(&appended.line) {
                None => {}
                // The way out of a dialog must not wait behind what the dialog holds up.
                Some(Ok(Command::CloseDialog)) if self.phase == Phase::Starting => self.close_dialog(),
                Some(Ok(command)) => self.commands.waiting.push_back((command, Some(appended.end))),
                Some(Err(reason)) => {
                    self.logs.event("control_error", json!({"line": appended.line, "reason": reason}));
                }
            }
        }
    }

    /// Obeys commands in order until one must wait.
    pub(super) fn obey(&mut self) {
        while !self.commands.held {
            let starting = self.phase == Phase::Starting;
            match self.commands.waiting.front() {
                Some((command, _)) if !starting || command.at_once() => {}
                _ => break,
            }
            let Some((command, end)) = self.commands.waiting.pop_front() else { break };
            if let Some(end) = end {
                self.control.done(end);
                self.logs.event("control", json!({"command": format!("{command:?}")}));
            }
            self.command(command);
            if self.phase == Phase::Running {
                self.advance();
            }
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Busy(time) => self.do_now(&format!("busy {}", time.as_secs_f64())),
            Command::Idle(answer) => self.finish_turn(answer),
            Command::Do(line) => self.do_now(&line),
            Command::Call(line) => self.call_beside(&line),
            Command::Dialog(kind, detail) => self.open_dialog(kind, &detail),
            Command::CloseDialog => self.close_dialog(),
            Command::EatEnter(time) => self.knobs.eat_enter = time,
            // Done before the terminal was switched to raw mode.
            Command::SlowStart(_) => {}
            Command::Exit(code) => self.end(code, "other"),
            Command::Kill => drop(raise(Signal::SIGKILL)),
            Command::Draft(text) => {
                self.last_input = Some(std::time::Instant::now());
                self.composer.insert(&text);
            }
            Command::Submit(text) => self.submit(&text, Source::Control),
            Command::Enter => self.enter(),
            Command::Escape => self.key(crate::input::Event::Escape),
            Command::Title(title) => self.terminal.write(&format!("\x1b]2;{title}\x07")),
            Command::Bracket(on) => self.view.bracket = on,
            Command::WriteTranscript(on) => self.transcript.on = on,
            Command::Hooks(on) => self.knobs.switches.hooks = on,
            Command::LateReceipt(time) => self.knobs.late_receipt = time,
            Command::DialogAfterEnter(time) => self.knobs.dialog_after_enter = time,
            Command::Footer(text) => self.view.footer = text,
            Command::Placeholder(text) => self.view.placeholder = text,
            Command::Glyph(glyph) => self.view.glyph = glyph,
            Command::IgnoreSignals(on) => self.knobs.switches.ignore_signals = on,
            Command::SpawnChild => self.spawn_child(),
            Command::SecondSessionStart => self.second_session_start(),
            Command::Compact => self.compact(),
            Command::ApiError(kind) => {
                if let Some(kind) = kind.as_deref().filter(|_| self.turn.is_some()) {
                    self.fail_now(kind, &format!("API Error: {kind}"));
                }
                self.knobs.api_error = kind;
            }
            Command::Limit(text) => {
                self.knobs.limit = text.as_deref().map(super::turns::limit_text);
                match self.knobs.limit.clone() {
                    Some(text) if self.turn.is_some() => self.fail_now("rate_limit", &text),
                    Some(_) => {}
                    None => self.limit_is_over(),
                }
            }
            Command::McpDelay(time) => self.knobs.mcp_delay = time,
            Command::Mcp(on) => {
                self.knobs.switches.mcp = on;
                match (on, self.phase == Phase::Running) {
                    (true, true) => self.servers_on(),
                    (false, true) => self.servers_off(),
                    _ => {}
                }
            }
            Command::AnswerAfter(time) => self.knobs.answer_after = time,
            Command::Say(text) => self.view.say(&text),
            Command::Tabs(on) => self.knobs.switches.tabs = on,
            Command::AlternateScreen(on) => {
                self.view.alternate = on;
                self.terminal.write(if on { "\x1b[?1049h" } else { "\x1b[?1049l" });
                self.screen.forget();
            }
            Command::Wait(time) => {
                self.commands.held = true;
                self.timer(time, Timer::Control);
            }
        }
    }

    /// Starts a child that outlives the program unless somebody ends it.
    fn spawn_child(&mut self) {
        self.start_loose("sleeper", ["sleep", "86400"].map(str::to_owned).to_vec());
    }

    /// Starts a program like this one inside it, which fires SessionStart under another id.
    fn second_session_start(&mut self) {
        let Ok(program) = std::env::current_exe() else { return };
        let mut argv = vec![program.to_string_lossy().into_owned()];
        // As a subcommand of another program, its name comes first.
        if let Some(word) = std::env::args().nth(1).filter(|it| it == "fake-agent") {
            argv.push(word);
        }
        if !matches!(self.clothes.name(), "fake-agent") {
            argv.extend(["--as".to_owned(), self.clothes.name().to_owned()]);
        }
        let id = self.clothes.new_id();
        self.logs.event("second_session", json!({"session": id}));
        argv.extend(["--nested-session-start".to_owned(), id]);
        if let Some(settings) = self.args.settings.clone() {
            argv.extend(["--settings".to_owned(), settings]);
        }
        self.start_loose("nested", argv);
    }

    fn start_loose(&mut self, what: &'static str, argv: Vec<String>) {
        let started = Process::start(Start {
            argv,
            env: self.child_env(false),
            scrub: false,
            cwd: self.cwd.as_ref(),
            keep_stdin: false,
            input: Vec::new(),
        });
        match started {
            Ok(process) => {
                self.logs.event("child", json!({"what": what, "pid": process.pid()}));
                self.adopt(process, Role::Loose(what));
            }
            Err(error) => self.logs.event("child_failed", json!({"what": what, "error": error.to_string()})),
        }
    }
}
