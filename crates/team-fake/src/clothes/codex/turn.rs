//! A turn, step by step. A step that must wait leaves the server free.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::conversation::{Conversation, Knobs, Out, Question};
use super::tools::Called;
use crate::child::{Process, Start};
use crate::clock;
use crate::directive::Directive;

/// How long a call waits for a server that is starting.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// Variables of ours that the model's shell does not get.
const OURS: &[&str] = &["FAKE_SCRIPT"];

/// A text for the model.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) text: String,
    pub(super) client_id: Option<String>,
    /// Who sent it: `typed`, `outside`, `queue`, `control`.
    pub(super) source: &'static str,
    pub(super) queued: bool,
}

/// One thing to do in a turn.
#[derive(Debug)]
pub(super) enum Step {
    Pause(Duration),
    /// The record begins, or goes on.
    Open,
    Take(Message),
    Do(Directive),
    /// A call again that waited for its server.
    Call {
        tool: String,
        arguments: Value,
        until: Instant,
    },
    ToolDone,
    Compact,
    Fail,
    End,
}

/// What a turn waits for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Nothing,
    Time { at: Instant, in_tool: bool },
    Servers(Instant),
    Tool(String, u64),
    Shell,
    Answer,
}

/// A tool that runs.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) namespace: Option<String>,
    pub(super) arguments: Value,
}

impl Call {
    fn new(name: &str, namespace: Option<&str>, arguments: &Value) -> Self {
        let id = format!("call_{}", uuid::Uuid::new_v4().simple());
        let (name, namespace) = (name.to_owned(), namespace.map(|it| format!("mcp__{it}")));
        Self { id, name, namespace, arguments: arguments.clone() }
    }

    /// How clients see it.
    pub(super) fn item(&self, status: &str, text: &str) -> Value {
        match &self.namespace {
            Some(server) => json!({
                "type": "mcpToolCall", "id": self.id, "server": server.trim_start_matches("mcp__"), "tool": self.name,
                "arguments": self.arguments, "status": status, "result": text,
            }),
            None => json!({
                "type": "commandExecution", "id": self.id, "command": self.arguments["cmd"], "status": status,
                "aggregatedOutput": text,
            }),
        }
    }
}

/// The turn that runs.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) id: String,
    pub(super) steps: VecDeque<Step>,
    pub(super) wait: Wait,
    /// Messages that came while it ran and are not taken.
    pub(super) steered: VecDeque<Message>,
    pub(super) call: Option<Call>,
    pub(super) shell: Option<Process>,
    /// The answer so far.
    pub(super) said: Option<String>,
    /// Its message is in the record.
    taken: bool,
    compacted: bool,
}

impl Turn {
    pub(super) fn new(steps: VecDeque<Step>) -> Self {
        Self {
            id: uuid::Uuid::now_v7().to_string(),
            steps,
            wait: Wait::Nothing,
            steered: VecDeque::new(),
            call: None,
            shell: None,
            said: None,
            taken: false,
            compacted: false,
        }
    }

    /// Whether the model could take another message now: no tool runs, nothing is asked.
    fn listens(&self) -> bool {
        self.taken && matches!(self.wait, Wait::Nothing | Wait::Time { in_tool: false, .. })
    }
}

impl Conversation {
    /// Does steps until one has to wait. Returns the code with which the program is to end, if a text wants that.
    pub(super) fn advance(&mut self, knobs: &Knobs) -> Option<i32> {
        while let Some(turn) = &mut self.turn {
            if turn.listens()
                && let Some(message) = turn.steered.pop_front()
            {
                let directives = self.receive(&message);
                let Some(turn) = &mut self.turn else { break };
                let at = turn.steps.iter().position(|it| matches!(it, Step::End)).unwrap_or(turn.steps.len());
                for (offset, directive) in directives.into_iter().enumerate() {
                    turn.steps.insert(at + offset, Step::Do(directive));
                }
                continue;
            }
            match turn.wait {
                Wait::Nothing => {}
                Wait::Time { at, .. } | Wait::Servers(at) if at <= Instant::now() => {
                    turn.wait = Wait::Nothing;
                }
                _ => return None,
            }
            let step = turn.steps.pop_front().unwrap_or(Step::End);
            if let Step::Do(Directive::Exit(code)) = step {
                return Some(code);
            }
            self.step(step, knobs);
        }
        None
    }

    fn step(&mut self, step: Step, knobs: &Knobs) {
        match step {
            Step::Pause(time) => self.pause(time, false),
            Step::Open => self.open(),
            Step::Take(message) => {
                let directives = self.receive(&message);
                let pause = directives.is_empty().then_some(Step::Pause(knobs.answer_after));
                let Some(turn) = &mut self.turn else { return };
                if knobs.limit.is_some() || knobs.api_error.is_some() {
                    turn.steps.push_back(Step::Fail);
                    return;
                }
                turn.steps.extend(pause);
                turn.steps.extend(directives.into_iter().map(Step::Do));
                turn.steps.push_back(Step::End);
            }
            Step::Do(directive) => self.obey(directive),
            Step::Call { tool, arguments, until } => self.try_call(tool, arguments, until),
            Step::ToolDone => self.end_call("", false),
            Step::Compact => {
                let item = json!({"type": "contextCompaction", "id": uuid::Uuid::new_v4().to_string()});
                self.item("item/started", &item);
                self.rollout.write("compacted", json!({"message": "", "replacement_history": []}));
                self.record(
                    "item_completed",
                    json!({"item": {"type": "ContextCompaction", "id": item["id"]}}),
                );
                self.item("item/completed", &item);
                self.logs.event("compacted", json!({}));
                if let Some(turn) = &mut self.turn {
                    turn.compacted = true;
                }
            }
            Step::Fail => self.fail(knobs),
            Step::End => self.answer(),
        }
    }

    fn pause(&mut self, time: Duration, in_tool: bool) {
        if let Some(turn) = &mut self.turn {
            turn.wait = Wait::Time { at: Instant::now() + time, in_tool };
        }
    }

    fn open(&mut self) {
        if !self.rollout.exists() {
            let made = self.rollout.create(&self.id, &self.cwd, self.instructions.as_deref());
            if let Err(error) = made {
                self.logs.event("no_record", json!({"error": error.to_string()}));
            }
        }
        let Some(turn) = &self.turn else { return };
        let queued = |it: &Step| matches!(it, Step::Take(message) if message.source == "queue");
        let trigger = if turn.steps.iter().any(queued) { "queue" } else { "user" };
        let turn = turn.id.clone();
        self.record("task_started", json!({"turn_attribution": {"turn_trigger": trigger}}));
        self.rollout.write("turn_context", json!({"turn_id": turn, "cwd": self.cwd, "model": self.model}));
    }

    /// The model gets a message: recorded, told, counted; returns what it asks for.
    fn receive(&mut self, message: &Message) -> Vec<Directive> {
        let id = uuid::Uuid::new_v4().to_string();
        let content = json!([{"type": "text", "text": message.text, "text_elements": []}]);
        let recorded =
            json!({"type": "UserMessage", "id": id, "client_id": message.client_id, "content": content});
        self.record("item_completed", json!({"item": recorded}));
        self.logs.submission(&message.text, message.source, message.queued);
        self.rollout.said.push(message.text.clone());
        let item =
            json!({"type": "userMessage", "id": id, "clientId": message.client_id, "content": content});
        self.item("item/completed", &item);
        if let Some(turn) = &mut self.turn {
            turn.taken = true;
        }
        self.plan(&message.text)
    }

    fn obey(&mut self, directive: Directive) {
        match directive {
            Directive::Call { tool, arguments } => {
                let (server, name) = self.tools.place(&tool);
                self.begin_call(Call::new(name, Some(&server), &arguments));
                self.try_call(tool, arguments, Instant::now() + START_PATIENCE);
            }
            Directive::Busy(time) => {
                let command = format!("sleep {}", time.as_secs_f64());
                self.begin_call(Call::new("exec_command", None, &json!({"cmd": command})));
                if let Some(turn) = &mut self.turn {
                    turn.steps.push_front(Step::ToolDone);
                }
                self.pause(time, true);
            }
            Directive::Think(time) => self.pause(time, false),
            Directive::Say(text) => self.say(text),
            Directive::Recall(number) => {
                // Not counting the text that asks.
                let said = self.rollout.said.split_last().map_or(&[][..], |it| it.1);
                let back = usize::try_from(number.unsigned_abs()).unwrap_or(usize::MAX);
                let index = if number < 0 { said.len().checked_sub(back) } else { back.checked_sub(1) };
                let text = index.and_then(|it| said.get(it)).cloned();
                self.say(text.unwrap_or_else(|| format!("nothing to recall at {number}")));
            }
            Directive::Bad(reason) => {
                self.logs.event("bad_directive", json!({"reason": reason}));
                self.say(format!("fake: {reason}"));
            }
            Directive::Touch(path) => {
                let path = std::path::Path::new(&self.cwd).join(path);
                self.begin_call(Call::new(
                    "exec_command",
                    None,
                    &json!({"cmd": format!("touch {}", path.display())}),
                ));
                let touched = std::fs::OpenOptions::new().append(true).create(true).open(&path);
                let text = touched.as_ref().map_or_else(ToString::to_string, |_| String::new());
                self.end_call(&text, touched.is_err());
            }
            Directive::Shell(command) => self.shell(&command),
            Directive::AskPermission { tool, input } => self.ask(&tool, &input),
            Directive::Exit(_) => {}
        }
    }

    fn say(&mut self, text: String) {
        if let Some(turn) = &mut self.turn {
            turn.said = Some(text);
        }
    }

    fn try_call(&mut self, tool: String, arguments: Value, until: Instant) {
        let Some(turn) = &mut self.turn else { return };
        let call = turn.call.as_ref().map_or("", |it| it.id.as_str());
        match self.tools.call(&tool, &arguments, call, &self.logs) {
            Called::Waiting(server, id) => turn.wait = Wait::Tool(server, id),
            Called::NotYet if Instant::now() < until => {
                turn.wait = Wait::Servers(until);
                turn.steps.push_front(Step::Call { tool, arguments, until });
            }
            Called::NotYet => self.end_call("the server did not start in time", true),
            Called::Failed(text) => self.end_call(&text, true),
        }
    }

    fn shell(&mut self, command: &str) {
        self.begin_call(Call::new("exec_command", None, &json!({"cmd": command})));
        // It is given to `sh`, which takes what is not ours away.
        let argv: Vec<String> = std::iter::once("env".to_owned())
            .chain(OURS.iter().flat_map(|it| ["-u".to_owned(), (*it).to_owned()]))
            .chain(["/bin/sh", "-c", command].map(str::to_owned))
            .collect();
        let of_home = self.home.to_string_lossy().into_owned();
        let env = [
            ("CODEX_THREAD_ID", self.id.clone()),
            ("CODEX_SESSION_ID", self.id.clone()),
            ("CODEX_HOME", of_home),
            ("CODEX_CI", "1".to_owned()),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let start =
            Start { argv, env, scrub: false, cwd: self.cwd.as_ref(), keep_stdin: false, input: Vec::new() };
        match Process::start(start) {
            Ok(process) => {
                if let Some(turn) = &mut self.turn {
                    (turn.shell, turn.wait) = (Some(process), Wait::Shell);
                }
            }
            Err(error) => self.end_call(&error.to_string(), true),
        }
    }

    fn ask(&mut self, tool: &str, input: &Value) {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let command = input["command"].as_str().map_or_else(|| format!("{tool} {input}"), str::to_owned);
        let call = Call::new("exec_command", None, &json!({"cmd": command}));
        let params = json!({
            "threadId": self.id, "turnId": self.turn.as_ref().map(|it| it.id.clone()), "itemId": call.id,
            "startedAtMs": clock::wall_ms(), "command": command, "cwd": self.cwd, "reason": "it was asked for",
            "availableDecisions": ["accept", "acceptForSession", "decline", "cancel"],
        });
        self.begin_call(call);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        self.question = Some(Question { id, params: params.clone() });
        self.logs.event("dialog", json!({"kind": "perm"}));
        if let Some(turn) = &mut self.turn {
            turn.wait = Wait::Answer;
        }
        self.tell_status();
        self.out.push(Out::Ask(id, params));
    }

    /// The turn ends well.
    fn answer(&mut self) {
        let Some(turn) = &self.turn else { return };
        let said = (!turn.compacted).then(|| turn.said.clone().unwrap_or_else(|| "ok".to_owned()));
        if let Some(text) = &said {
            let item = json!({"type": "agentMessage", "id": uuid::Uuid::new_v4().to_string(), "text": text});
            let content = json!([{"type": "output_text", "text": text}]);
            let message = json!({"type": "message", "role": "assistant", "content": content});
            self.rollout.write("response_item", message);
            self.item("item/completed", &item);
        }
        self.record("task_complete", json!({"last_agent_message": said}));
        self.over("completed", &Value::Null);
    }

    /// The turn ends by an error of the model's service.
    pub(super) fn fail(&mut self, knobs: &Knobs) {
        let (message, told, recorded) = if let Some(seconds) = knobs.limit {
            let resets = clock::wall_ms() / 1000 + seconds;
            let limits = json!({
                "primary": {"usedPercent": 100, "windowDurationMins": 300, "resetsAt": resets}, "secondary": null,
            });
            self.out.push(Out::All("account/rateLimits/updated", json!({"rateLimits": limits})));
            let text =
                format!("You’ve hit your usage limit. Try again at {}.", clock::hour_text(resets * 1000));
            (text, json!("usageLimitExceeded"), json!("usage_limit_exceeded"))
        } else {
            let text = format!("API error: {}", knobs.api_error.as_deref().unwrap_or("server_error"));
            let told = json!({"responseTooManyFailedAttempts": {"httpStatusCode": 500}});
            (text, told, json!({"response_too_many_failed_attempts": {"http_status_code": 500}}))
        };
        let error = json!({"message": message, "codexErrorInfo": told});
        self.end_call("aborted", true);
        let turn = self.turn.as_ref().map(|it| it.id.clone());
        self.tell("error", json!({"error": error, "willRetry": false, "turnId": turn}));
        let recorded = json!({"message": message, "codex_error_info": recorded});
        self.record("task_complete", json!({"last_agent_message": null, "error": recorded}));
        self.failed = true;
        self.over("failed", &error);
    }
}
