//! Turns: from a prompt to the end of the answer, step by step. A step that must wait leaves the loop free.

use std::collections::VecDeque;
use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::queue::{Queued, Source};
use super::{Agent, Phase, Timer};
use crate::clock;
use crate::clothes::Moment;
use crate::dialog::Kind;
use crate::directive::{self, Directive};
use crate::settings::Answer;
use crate::transcript;

/// One thing to do in a turn.
#[derive(Debug)]
pub(super) enum Step {
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
    /// Stands at a usage limit.
    Limited {
        text: String,
    },
    Fail {
        kind: String,
        text: String,
    },
    End,
    Compact(u8),
}

/// What a turn waits for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Nothing,
    Time(u64),
    Hooks(u64),
    Tool(String, u64),
    /// A server that starts, until a timer.
    Server(u64),
    Shell,
    Permission,
    /// A usage limit, until it is over.
    Limit,
}

/// The running turn.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is told apart from the others by the records")]
pub(super) struct Turn {
    pub(super) id: u64,
    pub(super) prompt_id: String,
    pub(super) prompt: String,
    pub(super) source: Source,
    pub(super) from_queue: bool,
    pub(super) started: Instant,
    pub(super) steps: VecDeque<Step>,
    pub(super) wait: Wait,
    /// The answer so far.
    pub(super) said: Option<String>,
    /// Something came out: an interrupt leaves a trace.
    pub(super) output: bool,
    /// A tool just ended: queued texts are taken up here.
    pub(super) after_tool: bool,
    pub(super) stop_active: bool,
    pub(super) stop_hooks: usize,
    pub(super) tool_use: Option<String>,
    /// A tool that asked may run; its call is recorded already.
    pub(super) permitted: bool,
    /// The name and input of the running tool.
    pub(super) tool: Option<(String, Value)>,
    pub(super) contexts: Vec<String>,
    pub(super) shell: Option<u64>,
    /// The words of the limit dialog that follows.
    pub(super) limit: Option<String>,
}

impl Agent {
    pub(super) fn start_turn(&mut self, queued: Queued, from_queue: bool) {
        let Queued { text: prompt, source, id } = queued;
        if source != Source::Notification {
            self.view.say(&format!("> {prompt}"));
        }
        let mut steps = VecDeque::new();
        if !self.knobs.late_receipt.is_zero() {
            steps.push_back(Step::Pause(self.knobs.late_receipt));
        }
        steps.extend([Step::SubmitHook, Step::Record]);
        self.begin(prompt, source, from_queue, steps);
        if let (Some(turn), Some(id)) = (&mut self.turn, id) {
            turn.prompt_id = id;
        }
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
            tool: None,
            permitted: false,
            contexts: Vec::new(),
            shell: None,
            limit: None,
        });
        self.write_status();
    }

    /// Does steps until one has to wait.
    pub(super) fn advance(&mut self) {
        while self.phase == Phase::Running && (!self.blocked() || self.owes_receipt()) {
            let Some(turn) = &mut self.turn else {
                let Some(next) = self.queue.pop_front() else { return };
                self.transcript.queue("dequeue", None);
                self.taken(&next);
                self.start_turn(next, true);
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

    /// A prompt that was taken is told and recorded whatever dialog has opened since.
    fn owes_receipt(&self) -> bool {
        let Some(turn) = &self.turn else { return false };
        let next = turn.steps.front();
        matches!(next, Some(Step::SubmitHook | Step::Record))
    }

    fn step(&mut self, step: Step) {
        let Some(turn) = &mut self.turn else { return };
        match step {
            Step::Pause(time) => self.pause(time),
            Step::SubmitHook => {
                let prompt = turn.prompt.clone();
                let batch = self.fire(Moment::PromptTaken, json!({"prompt": prompt}));
                self.wait_for_hooks(batch);
            }
            Step::Record => self.record_prompt(),
            Step::Do(directive) => self.obey_directive(directive),
            Step::ToolDone { text, is_error } => {
                turn.after_tool = self.manners.takes_up_after_tools;
                let id = turn.tool_use.take().unwrap_or_default();
                let (tool, input) = turn.tool.take().unwrap_or_default();
                self.transcript.tool_result(&id, &tool, &text, is_error);
                let fields = json!({
                    "tool_name": tool, "tool_input": input, "tool_use_id": id, "text": text, "is_error": is_error,
                });
                self.fire(Moment::ToolEnded, fields);
                self.view.say(&format!("  ⎿  {text}"));
            }
            Step::Call { tool, arguments, until } => self.try_call(tool, arguments, until),
            Step::Answer => {
                let text = turn.said.clone().unwrap_or_else(|| "ok".to_owned());
                turn.said = Some(text.clone());
                turn.output = true;
                self.transcript.assistant(&text);
                self.view.say(&format!("{}{text}", self.view.answer));
            }
            Step::Stop => {
                turn.stop_hooks = self.settings.hooks("Stop").len();
                let fields = json!({
                    "stop_hook_active": turn.stop_active, "last_assistant_message": turn.said,
                    "background_tasks": [],
                });
                let batch = self.fire(Moment::Answered, fields);
                self.wait_for_hooks(batch);
            }
            Step::Limited { text } => self.stand_at_limit(&text),
            Step::Fail { kind, text } => {
                turn.steps = VecDeque::from([Step::End]);
                turn.output = true;
                let status = if kind == "rate_limit" { 429 } else { 500 };
                self.transcript.api_error(&kind, &text, status);
                self.view.say(&format!("{}{text}", self.view.answer));
                let batch = self.fire(Moment::Failed, json!({"error": kind, "last_assistant_message": text}));
                self.wait_for_hooks(batch);
                let shows =
                    kind == "rate_limit" && self.manners.dialog_at_limit && !self.manners.asks_at_limit;
                if let Some(turn) = self.turn.as_mut().filter(|_| shows) {
                    turn.limit = Some(text);
                }
            }
            Step::End => self.end_turn(),
            Step::Compact(part) => self.compact_step(part),
        }
    }

    pub(super) fn pause(&mut self, time: Duration) {
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

    pub(super) fn go_on(&mut self, wait: &Wait, first: Option<Step>) {
        if let Some(turn) = self.turn.as_mut().filter(|it| it.wait == *wait) {
            turn.wait = Wait::Nothing;
            if let Some(step) = first {
                turn.steps.push_front(step);
            }
        }
    }

    pub(super) fn push_front(&mut self, step: Step) {
        if let Some(turn) = &mut self.turn {
            turn.steps.push_front(step);
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
            self.transcript.context(&context);
        }
        let prompt = turn.prompt.clone();
        if let Some(text) = self.knobs.limit.clone() {
            let failed = self.failed("rate_limit", &text);
            self.push_steps([failed]);
            if !self.manners.waits_at_limit {
                return;
            }
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

    /// Hooks of a turn ended: the prompt may be dropped, a stop may be refused.
    pub(super) fn turn_hooks_ended(&mut self, batch: u64, moment: Moment, answers: &[Answer]) {
        let Some(turn) = self.turn.as_mut().filter(|it| it.wait == Wait::Hooks(batch)) else { return };
        turn.wait = Wait::Nothing;
        let contexts = answers.iter().filter_map(|it| it.context.clone());
        let block = answers.iter().find_map(|it| it.block.clone());
        match (moment, block) {
            (Moment::PromptTaken, Some(reason)) => {
                self.logs.event("prompt_blocked", json!({"reason": reason}));
                self.view.say(&format!("Prompt blocked: {reason}"));
                self.turn = None;
                self.fire(Moment::TurnOver, json!({}));
            }
            (Moment::PromptTaken, None) => {
                turn.contexts.extend(contexts);
                for context in turn.contexts.clone() {
                    self.logs.event("context", json!({"hook": "UserPromptSubmit", "text": context}));
                }
            }
            (Moment::Answered, Some(reason)) => {
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
        self.transcript.turn_over(turn.started.elapsed().as_millis(), turn.stop_hooks);
        self.fire(Moment::TurnOver, json!({"waiting": self.queue.len()}));
        if self.args.once {
            self.print_and_end(turn.said.as_deref().unwrap_or_default());
        }
        if let Some(text) = turn.limit {
            self.show(self.clothes.dialog(Kind::Limit, &text));
        }
        self.write_status();
    }

    /// What a program does that was asked for one answer.
    fn print_and_end(&mut self, answer: &str) {
        let _ = writeln!(std::io::stdout(), "{answer}");
        self.end(0, "other");
    }

    /// A person stops the turn, by Escape or in another way.
    pub(super) fn interrupt(&mut self, for_tool: bool, by_escape: bool) {
        let Some(turn) = self.turn.take() else { return };
        let gives_back = self.manners.gives_back
            // What came from outside was never in the box.
            && turn.source != Source::Outside
            && (self.manners.escape_twice.is_none() || by_escape && self.queue.is_empty());
        if let Some(permission) = self.permission.take() {
            self.fire(Moment::PermissionSettled, json!({"allowed": false}));
            if let Some(batch) = permission.batch {
                self.drop_batch(batch);
            }
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
            let tool = turn.tool.as_ref().map_or("", |it| it.0.as_str());
            let text = "The user doesn't want to proceed with this tool use.";
            self.transcript.tool_result(id, tool, text, true);
        }
        self.transcript.interrupted(for_tool, turn.output || !gives_back);
        if turn.output {
            self.view.say("  ⎿  Interrupted · What should the fake agent do instead?");
        } else if gives_back && self.composer.is_empty() && turn.source != Source::Notification {
            self.paste(&turn.prompt);
        }
        if self.manners.loses_queue && !by_escape {
            self.queue.clear();
        } else if gives_back {
            self.unqueue();
        }
        if self.manners.drops_waiting {
            self.queue.clear();
        }
        self.fire(Moment::Interrupted, json!({"prompt": turn.prompt}));
        self.fire(Moment::TurnOver, json!({"waiting": self.queue.len()}));
        self.write_status();
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
    pub(super) fn finish_turn(&mut self, answer: Option<String>) {
        let Some(turn) = &mut self.turn else { return };
        turn.said = answer.or(turn.said.take());
        if matches!(turn.wait, Wait::Time(_) | Wait::Server(_)) {
            turn.wait = Wait::Nothing;
        }
        turn.steps.retain(|it| matches!(it, Step::ToolDone { .. } | Step::SubmitHook | Step::Record));
        self.push_steps([Step::Answer, Step::Stop, Step::End]);
    }

    /// Makes the running turn, or one made for it, fail.
    pub(super) fn fail_now(&mut self, kind: &str, text: &str) {
        let fail = self.failed(kind, text);
        let goes_on = self.manners.waits_at_limit && matches!(fail, Step::Limited { .. });
        match &mut self.turn {
            Some(turn) if goes_on => turn.steps.push_front(fail),
            Some(turn) => {
                turn.wait = Wait::Nothing;
                turn.steps = VecDeque::from([fail]);
            }
            None => {
                let mut steps = VecDeque::from([Step::SubmitHook, fail]);
                if goes_on {
                    steps.extend([Step::Answer, Step::Stop, Step::End]);
                }
                self.begin("fake: limit".to_owned(), Source::Control, false, steps);
            }
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
            0 => self.fire(Moment::CompactBegun, json!({"trigger": "manual", "custom_instructions": ""})),
            1 => {
                let model = self.transcript.model.clone();
                self.fire(Moment::SessionStart, json!({"source": "compact", "model": model}))
            }
            2 => {
                self.transcript.compact("manual", summary);
                self.fire(Moment::CompactEnded, json!({"trigger": "manual", "compact_summary": summary}))
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
        self.turn.as_ref().map(|_| self.view.work.to_owned())
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
