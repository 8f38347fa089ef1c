//! Turns: from a prompt to the end of the answer, step by step. A step that must wait leaves the loop free.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::servers::{Called, START_PATIENCE};
use super::{Agent, Phase, Role, Timer};
use crate::child::{Process, Start};
use crate::clock;
use crate::dialog::{Dialog, Kind};
use crate::directive::{self, Directive, Item};
use crate::settings::Answer;
use crate::transcript;

/// Who sent a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Typed,
    Argument,
    Control,
    Notification,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Self::Typed => "typed",
            Self::Argument => "argument",
            Self::Control => "control",
            Self::Notification => "notification",
        }
    }
}

/// A text that waits for the running turn.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) text: String,
    pub(super) source: Source,
}

/// A directive that waits for a sender.
#[derive(Debug)]
pub(super) struct Armed {
    from: String,
    each: bool,
    directive: Directive,
}

/// One thing to do in a turn.
#[derive(Debug)]
enum Step {
    Pause(Duration),
    SubmitHook,
    Record,
    Do(Directive),
    /// Gives a tool's result to the model.
    ToolDone {
        text: String,
        is_error: bool,
    },
    /// Tries a tool call again that waited for its server.
    Call {
        tool: String,
        arguments: Value,
        until: Instant,
    },
    Answer,
    Stop,
    Fail {
        kind: String,
        text: String,
    },
    End,
    Compact(u8),
}

/// What a turn waits for.
#[derive(Debug, PartialEq, Eq)]
enum Wait {
    Nothing,
    Time(u64),
    Hooks(u64),
    Tool(String, u64),
    /// A server that starts, until a timer.
    Server(u64),
    Shell,
    Permission,
}

/// The running turn.
#[derive(Debug)]
pub(super) struct Turn {
    id: u64,
    pub(super) prompt_id: String,
    prompt: String,
    source: Source,
    from_queue: bool,
    started: Instant,
    steps: VecDeque<Step>,
    wait: Wait,
    /// The answer so far.
    said: Option<String>,
    /// Something came out: an interrupt leaves a trace.
    output: bool,
    /// A tool just ended: queued texts are taken up here.
    after_tool: bool,
    stop_active: bool,
    stop_hooks: usize,
    tool_use: Option<String>,
    contexts: Vec<String>,
    shell: Option<u64>,
    /// The words of the limit dialog that follows.
    limit: Option<String>,
}

impl Agent {
    /// Takes a text for the model: now, or after what runs.
    pub(super) fn submit(&mut self, text: &str, source: Source) {
        let queued = self.turn.is_some() || self.blocked();
        self.logs.submission(text, source.name(), queued);
        if queued {
            self.transcript.queue("enqueue", Some(text));
            self.queue.push_back(Queued { text: text.to_owned(), source });
        } else {
            self.start_turn(text.to_owned(), source, false);
        }
        if let Some(after) = self.knobs.dialog_after_enter
            && source == Source::Typed
        {
            self.timer(after, Timer::AskAfterEnter);
        }
    }

    /// Hands over what a background hook has for the model.
    pub(super) fn notify_model(&mut self, text: String) {
        let busy = self.turn.is_some() || self.blocked();
        self.logs.submission(&text, Source::Notification.name(), busy);
        self.transcript.queue("enqueue", Some(&text));
        if busy {
            self.queue.push_back(Queued { text, source: Source::Notification });
        } else {
            self.transcript.queue("dequeue", None);
            self.start_turn(text, Source::Notification, false);
        }
    }

    fn start_turn(&mut self, prompt: String, source: Source, from_queue: bool) {
        if source != Source::Notification {
            self.view.say(&format!("> {prompt}"));
        }
        let mut steps = VecDeque::new();
        if !self.knobs.late_receipt.is_zero() {
            steps.push_back(Step::Pause(self.knobs.late_receipt));
        }
        steps.extend([Step::SubmitHook, Step::Record]);
        self.begin(prompt, source, from_queue, steps);
    }

    fn begin(&mut self, prompt: String, source: Source, from_queue: bool, steps: VecDeque<Step>) {
        self.next_turn += 1;
        self.turn = Some(Turn {
            id: self.next_turn,
            prompt_id: uuid::Uuid::new_v4().to_string(),
            prompt,
            source,
            from_queue,
            started: Instant::now(),
            steps,
            wait: Wait::Nothing,
            said: None,
            output: false,
            after_tool: false,
            stop_active: false,
            stop_hooks: 0,
            tool_use: None,
            contexts: Vec::new(),
            shell: None,
            limit: None,
        });
        self.write_status();
    }

    /// Does steps until one has to wait.
    pub(super) fn advance(&mut self) {
        while self.phase == Phase::Running && !self.blocked() {
            let Some(turn) = &mut self.turn else {
                let Some(next) = self.queue.pop_front() else { return };
                self.transcript.queue("dequeue", None);
                self.start_turn(next.text, next.source, true);
                continue;
            };
            if turn.wait != Wait::Nothing {
                return;
            }
            if std::mem::take(&mut turn.after_tool) {
                self.take_up_queue();
                continue;
            }
            let step = turn.steps.pop_front().unwrap_or(Step::End);
            self.step(step);
        }
    }

    fn step(&mut self, step: Step) {
        let Some(turn) = &mut self.turn else { return };
        match step {
            Step::Pause(time) => self.pause(time),
            Step::SubmitHook => {
                let prompt = turn.prompt.clone();
                let batch = self.fire("UserPromptSubmit", json!({"prompt": prompt}));
                self.wait_for_hooks(batch);
            }
            Step::Record => self.record_prompt(),
            Step::Do(directive) => self.obey_directive(directive),
            Step::ToolDone { text, is_error } => {
                turn.after_tool = true;
                let id = turn.tool_use.take().unwrap_or_default();
                self.transcript.tool_result(&id, &text, is_error);
                self.view.say(&format!("  ⎿  {text}"));
            }
            Step::Call { tool, arguments, until } => self.try_call(tool, arguments, until),
            Step::Answer => {
                let text = turn.said.clone().unwrap_or_else(|| "ok".to_owned());
                turn.said = Some(text.clone());
                turn.output = true;
                self.transcript.assistant(&text);
                self.view.say(&format!("● {text}"));
            }
            Step::Stop => {
                turn.stop_hooks = self.settings.hooks("Stop").len();
                let fields = json!({
                    "stop_hook_active": turn.stop_active, "last_assistant_message": turn.said,
                    "background_tasks": [],
                });
                let batch = self.fire("Stop", fields);
                self.wait_for_hooks(batch);
            }
            Step::Fail { kind, text } => {
                turn.steps = VecDeque::from([Step::End]);
                turn.output = true;
                let status = if kind == "rate_limit" { 429 } else { 500 };
                self.transcript.api_error(&kind, &text, status);
                self.view.say(&format!("● {text}"));
                let batch = self.fire("StopFailure", json!({"error": kind, "last_assistant_message": text}));
                self.wait_for_hooks(batch);
                if let Some(turn) = self.turn.as_mut().filter(|_| kind == "rate_limit") {
                    turn.limit = Some(text);
                }
            }
            Step::End => self.end_turn(),
            Step::Compact(part) => self.compact_step(part),
        }
    }

    fn pause(&mut self, time: Duration) {
        self.next_child += 1;
        let timer = self.next_child;
        if let Some(turn) = &mut self.turn {
            turn.wait = Wait::Time(timer);
            self.timer(time, Timer::Turn(timer));
        }
    }

    fn wait_for_hooks(&mut self, batch: Option<u64>) {
        if let (Some(turn), Some(batch)) = (&mut self.turn, batch) {
            turn.wait = Wait::Hooks(batch);
        }
    }

    fn go_on(&mut self, wait: &Wait, first: Option<Step>) {
        if let Some(turn) = self.turn.as_mut().filter(|it| it.wait == *wait) {
            turn.wait = Wait::Nothing;
            if let Some(step) = first {
                turn.steps.push_front(step);
            }
        }
    }

    pub(super) fn turn_time_is_up(&mut self, timer: u64) {
        self.go_on(&Wait::Time(timer), None);
        self.go_on(&Wait::Server(timer), None);
    }

    fn record_prompt(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        let source = match turn.source {
            Source::Notification => transcript::Source::System,
            _ if turn.from_queue => transcript::Source::Queued,
            _ => transcript::Source::Typed,
        };
        self.transcript.user(&turn.prompt, &turn.prompt_id, source);
        for context in std::mem::take(&mut turn.contexts) {
            self.transcript.attachment(&json!({"type": "hook_additional_context", "content": [context]}));
        }
        let prompt = turn.prompt.clone();
        if let Some(text) = self.knobs.limit.clone() {
            self.push_steps([Step::Fail { kind: "rate_limit".to_owned(), text }]);
            return;
        }
        if let Some(kind) = self.knobs.api_error.clone() {
            let text = format!("API Error: {kind}");
            self.push_steps([Step::Fail { kind, text }]);
            return;
        }
        let directives = self.plan(&prompt);
        if directives.is_empty() {
            self.push_steps([Step::Pause(self.knobs.answer_after)]);
        }
        self.push_steps(directives.into_iter().map(Step::Do));
        self.push_steps([Step::Answer, Step::Stop, Step::End]);
    }

    fn push_steps(&mut self, steps: impl IntoIterator<Item = Step>) {
        if let Some(turn) = &mut self.turn {
            turn.steps.extend(steps);
        }
    }

    /// Reads what a text asks for, arms what waits for a sender and fires what waited for this one.
    fn plan(&mut self, text: &str) -> Vec<Directive> {
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

    /// Takes queued texts up inside the running turn.
    fn take_up_queue(&mut self) {
        for queued in std::mem::take(&mut self.queue) {
            self.transcript.queue("remove", Some(&queued.text));
            self.transcript.queued_command(&queued.text, queued.source == Source::Notification);
            if queued.source != Source::Notification {
                self.view.say(&format!("> {}", queued.text));
            }
            let directives = self.plan(&queued.text);
            let Some(turn) = &mut self.turn else { return };
            let at = turn.steps.iter().position(|it| matches!(it, Step::Answer)).unwrap_or(turn.steps.len());
            for (offset, directive) in directives.into_iter().enumerate() {
                turn.steps.insert(at + offset, Step::Do(directive));
            }
        }
    }

    fn obey_directive(&mut self, directive: Directive) {
        match directive {
            Directive::Call { tool, arguments } => {
                self.begin_tool(&tool_name(&tool), &arguments);
                self.try_call(tool, arguments, Instant::now() + START_PATIENCE);
            }
            Directive::Busy(time) => {
                self.begin_tool("Bash", &json!({"command": format!("sleep {}", time.as_secs_f64())}));
                self.push_front(Step::ToolDone { text: String::new(), is_error: false });
                self.pause(time);
            }
            Directive::Think(time) => self.pause(time),
            Directive::Say(text) => self.answer_with(text),
            Directive::Recall(number) => {
                let text = self.transcript.recall(number).map(str::to_owned);
                self.answer_with(text.unwrap_or_else(|| format!("nothing to recall at {number}")));
            }
            Directive::Bad(reason) => {
                self.logs.event("bad_directive", json!({"reason": reason}));
                self.answer_with(format!("fake: {reason}"));
            }
            Directive::Touch(path) => {
                let path = std::path::Path::new(&self.cwd).join(path);
                self.begin_tool("Write", &json!({"file_path": path}));
                let touched = std::fs::OpenOptions::new().append(true).create(true).open(&path);
                let text = touched.as_ref().map_or_else(ToString::to_string, |_| "written".to_owned());
                self.push_front(Step::ToolDone { text, is_error: touched.is_err() });
            }
            Directive::Shell(command) => self.start_shell(&command),
            Directive::AskPermission { tool, input } => {
                self.ask(&tool, &input, true);
                if let Some(turn) = &mut self.turn {
                    turn.wait = Wait::Permission;
                }
            }
            Directive::Exit(code) => self.end(code, "other"),
        }
    }

    fn push_front(&mut self, step: Step) {
        if let Some(turn) = &mut self.turn {
            turn.steps.push_front(step);
        }
    }

    fn answer_with(&mut self, text: String) {
        if let Some(turn) = &mut self.turn {
            turn.said = Some(text);
        }
    }

    /// Records that a tool is called.
    pub(super) fn begin_tool(&mut self, tool: &str, input: &Value) {
        let id = self.transcript.tool_use(tool, input);
        let shown: String = input.to_string().chars().take(120).collect();
        self.view.say(&format!("● {tool}({shown})"));
        if let Some(turn) = &mut self.turn {
            turn.output = true;
            turn.tool_use = Some(id);
        }
    }

    fn try_call(&mut self, tool: String, arguments: Value, until: Instant) {
        let Some(turn) = &self.turn else { return };
        let tool_use = turn.tool_use.clone().unwrap_or_default();
        match self.call_tool(&tool, &arguments, &tool_use) {
            Called::Waiting(server, call) => {
                if let Some(turn) = &mut self.turn {
                    turn.wait = Wait::Tool(server, call);
                }
            }
            Called::NotYet if Instant::now() < until => {
                self.next_child += 1;
                let timer = self.next_child;
                if let Some(turn) = &mut self.turn {
                    turn.wait = Wait::Server(timer);
                    turn.steps.push_front(Step::Call { tool, arguments, until });
                }
                self.timers.push((until, Timer::Turn(timer)));
            }
            Called::NotYet => {
                let text = format!("Error: No such tool available: {tool}");
                self.push_front(Step::ToolDone { text, is_error: true });
            }
            Called::Failed(text) => self.push_front(Step::ToolDone { text, is_error: true }),
        }
    }

    /// A server is ready or gone: calls that waited try again.
    pub(super) fn servers_changed(&mut self) {
        if let Some(turn) = self.turn.as_mut().filter(|it| matches!(it.wait, Wait::Server(_))) {
            turn.wait = Wait::Nothing;
        }
    }

    pub(super) fn tool_answered(&mut self, server: &str, id: u64, text: &str, is_error: bool) {
        let done = Step::ToolDone { text: text.to_owned(), is_error };
        self.go_on(&Wait::Tool(server.to_owned(), id), Some(done));
    }

    /// A server ended inside a call.
    pub(super) fn server_lost(&mut self, name: &str) {
        let Some(turn) = &mut self.turn else { return };
        if matches!(&turn.wait, Wait::Tool(server, _) if server == name) {
            turn.wait = Wait::Nothing;
            let text = "MCP error -32000: Connection closed".to_owned();
            turn.steps.push_front(Step::ToolDone { text, is_error: true });
        }
    }

    fn start_shell(&mut self, command: &str) {
        self.begin_tool("Bash", &json!({"command": command}));
        let mut env = self.child_env();
        env.push(("CLAUDE_CODE_CHILD_SESSION".to_owned(), "1".to_owned()));
        let started = Process::start(Start {
            argv: ["/bin/sh", "-c", command].map(str::to_owned).to_vec(),
            env,
            scrub: false,
            cwd: self.cwd.as_ref(),
            keep_stdin: false,
            input: Vec::new(),
        });
        match started {
            Ok(process) => {
                let Some(id) = self.turn.as_ref().map(|it| it.id) else { return };
                let child = self.adopt(process, Role::Shell(id));
                if let Some(turn) = &mut self.turn {
                    (turn.wait, turn.shell) = (Wait::Shell, Some(child));
                }
            }
            Err(error) => self.push_front(Step::ToolDone { text: error.to_string(), is_error: true }),
        }
    }

    pub(super) fn shell_ended(&mut self, turn: u64, code: i32, process: &Process) {
        let mut text = String::from_utf8_lossy(&process.out).into_owned();
        text.push_str(&String::from_utf8_lossy(&process.err));
        self.logs.event("shell_ended", json!({"code": code, "bytes": text.len()}));
        if self.turn.as_ref().is_some_and(|it| it.id == turn) {
            let done = Step::ToolDone { text: text.trim_end().to_owned(), is_error: code != 0 };
            self.go_on(&Wait::Shell, Some(done));
        }
    }

    /// A permission question of this turn was answered.
    pub(super) fn permission_settled(&mut self, text: &str, allowed: bool) {
        let done = Step::ToolDone { text: text.to_owned(), is_error: !allowed };
        self.go_on(&Wait::Permission, Some(done));
    }

    /// Hooks of a turn ended: the prompt may be dropped, a stop may be refused.
    pub(super) fn turn_hooks_ended(&mut self, batch: u64, event: &str, answers: &[Answer]) {
        let Some(turn) = self.turn.as_mut().filter(|it| it.wait == Wait::Hooks(batch)) else { return };
        turn.wait = Wait::Nothing;
        let contexts = answers.iter().filter_map(|it| it.context.clone());
        let block = answers.iter().find_map(|it| it.block.clone());
        match (event, block) {
            ("UserPromptSubmit", Some(reason)) => {
                self.logs.event("prompt_blocked", json!({"reason": reason}));
                self.view.say(&format!("Prompt blocked: {reason}"));
                self.turn = None;
            }
            ("UserPromptSubmit", None) => {
                turn.contexts.extend(contexts);
                for context in turn.contexts.clone() {
                    self.logs.event("context", json!({"hook": event, "text": context}));
                }
            }
            ("Stop", Some(reason)) => {
                turn.stop_active = true;
                turn.said = None;
                self.logs.event("stop_blocked", json!({"reason": reason}));
                self.transcript.meta(&reason);
                let directives = self.plan(&reason);
                if let Some(turn) = &mut self.turn {
                    turn.steps.clear();
                }
                self.push_steps(directives.into_iter().map(Step::Do));
                self.push_steps([Step::Answer, Step::Stop, Step::End]);
            }
            _ => {}
        }
    }

    fn end_turn(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        if turn.stop_hooks > 0 {
            self.transcript.stop_hook_summary(turn.stop_hooks);
        }
        self.transcript.turn_duration(turn.started.elapsed().as_millis());
        if let Some(text) = turn.limit {
            self.show(Dialog::new(Kind::Limit, &text));
        }
        self.write_status();
    }

    /// A person stops the turn.
    pub(super) fn interrupt(&mut self, for_tool: bool) {
        let Some(turn) = self.turn.take() else { return };
        if let Some(batch) = self.permission.take().and_then(|it| it.batch) {
            self.drop_batch(batch);
        }
        self.dialogs.retain(|it| it.kind != Kind::Permission);
        if let Wait::Hooks(batch) = turn.wait {
            self.drop_batch(batch);
        }
        if let Some((process, _)) = turn.shell.and_then(|it| self.children.get(&it)) {
            process.signal_group(nix::sys::signal::Signal::SIGTERM);
        }
        self.logs.event("interrupted", json!({"output": turn.output}));
        if let Some(id) = &turn.tool_use {
            self.transcript.tool_result(id, "The user doesn't want to proceed with this tool use.", true);
        }
        if turn.output {
            self.transcript.interrupted(for_tool);
            self.view.say("  ⎿  Interrupted · What should the fake agent do instead?");
        } else if self.composer.is_empty() && turn.source != Source::Notification {
            self.composer.paste(&turn.prompt);
        }
        self.unqueue();
        self.write_status();
    }

    /// Puts queued prompts back into the composer.
    pub(super) fn unqueue(&mut self) {
        let (prompts, rest): (Vec<_>, Vec<_>) =
            self.queue.drain(..).partition(|it| it.source != Source::Notification);
        self.queue = rest.into();
        for queued in prompts {
            self.transcript.queue("remove", Some(&queued.text));
            if !self.composer.is_empty() {
                self.composer.insert("\n");
            }
            self.composer.paste(&queued.text);
        }
    }

    /// Adds a directive in front of what the turn still has to do, or starts a turn for it.
    pub(super) fn do_now(&mut self, line: &str) {
        if self.turn.is_some() {
            self.push_front(Step::Do(directive::directive(line)));
        } else {
            self.submit(&format!("fake: {line}"), Source::Control);
        }
    }

    /// Ends the running turn at once, with its answer.
    pub(super) fn finish_turn(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        if matches!(turn.wait, Wait::Time(_) | Wait::Server(_)) {
            turn.wait = Wait::Nothing;
        }
        turn.steps.retain(|it| matches!(it, Step::ToolDone { .. } | Step::SubmitHook | Step::Record));
        self.push_steps([Step::Answer, Step::Stop, Step::End]);
    }

    /// Makes the running turn, or one made for it, fail.
    pub(super) fn fail_now(&mut self, kind: &str, text: &str) {
        let fail = Step::Fail { kind: kind.to_owned(), text: text.to_owned() };
        if let Some(turn) = &mut self.turn {
            turn.wait = Wait::Nothing;
            turn.steps = VecDeque::from([fail]);
        } else {
            self.begin(
                "fake: limit".to_owned(),
                Source::Control,
                false,
                VecDeque::from([Step::SubmitHook, fail]),
            );
        }
    }

    pub(super) fn compact(&mut self) {
        if self.turn.is_none() {
            let steps = (0..4).map(Step::Compact).collect();
            self.begin("/compact".to_owned(), Source::Control, false, steps);
        } else {
            self.logs.event("compact_refused", json!({"why": "busy"}));
        }
    }

    fn compact_step(&mut self, part: u8) {
        let summary = "This session continues an earlier one.";
        let batch = match part {
            0 => self.fire("PreCompact", json!({"trigger": "manual", "custom_instructions": ""})),
            1 => {
                let model = self.transcript.model.clone();
                self.fire("SessionStart", json!({"source": "compact", "model": model}))
            }
            2 => {
                self.transcript.compact("manual", summary);
                self.fire("PostCompact", json!({"trigger": "manual", "compact_summary": summary}))
            }
            _ => {
                self.view.say("  ⎿  Compacted");
                self.logs.event("compacted", json!({}));
                self.turn = None;
                None
            }
        };
        self.wait_for_hooks(batch);
    }

    /// What the screen says about work.
    pub(super) fn work(&self) -> Option<String> {
        self.turn.as_ref().map(|_| "✻ Working… (esc to interrupt)".to_owned())
    }
}

/// The words of a reached limit; `text` is a wording number or the words themselves.
pub(super) fn limit_text(text: &str) -> String {
    let in_an_hour = clock::hour_text(clock::wall_ms() + 3_600_000);
    match text {
        "" | "1" => format!("You've hit your limit · resets {in_an_hour}"),
        "2" => format!("Weekly usage limit reached ∙ try again at {in_an_hour}"),
        other => other.to_owned(),
    }
}

/// The name that a transcript gives to a tool of the team's server.
fn tool_name(tool: &str) -> String {
    if tool.starts_with("mcp__") { tool.to_owned() } else { format!("mcp__team_orchestrator__{tool}") }
}
