//! What directives do inside a turn: tools of servers, shells, files, answers.

use std::time::Instant;

use serde_json::{Value, json};

use super::servers::{Called, START_PATIENCE};
use super::turns::{Step, Wait};
use super::{Agent, Role, Timer};
use crate::child::{Process, Start};
use crate::clothes::Moment;
use crate::directive::{self, Directive};

impl Agent {
    pub(super) fn obey_directive(&mut self, directive: Directive) {
        match directive {
            Directive::Call { tool, arguments } if self.clothes.asks_to_call() => {
                let name = self.tool_name(&tool);
                let until = Instant::now() + START_PATIENCE;
                self.push_front(Step::Call { tool, arguments: arguments.clone(), until });
                self.ask_in_turn(&name, &arguments);
            }
            Directive::Call { tool, arguments } => {
                self.begin_tool(&self.tool_name(&tool), &arguments);
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
            Directive::AskPermission { tool, input } if self.clothes.allows(&tool) => {
                self.begin_tool(&tool, &input);
                self.push_front(Step::ToolDone { text: String::new(), is_error: false });
            }
            Directive::AskPermission { tool, input } => self.ask_in_turn(&tool, &input),
            Directive::Exit(code) => self.end(code, "other"),
        }
    }

    fn ask_in_turn(&mut self, tool: &str, input: &Value) {
        self.ask(tool, input, true);
        if let Some(turn) = &mut self.turn {
            turn.wait = Wait::Permission;
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
            turn.tool_use = Some(id.clone());
            turn.tool = Some((tool.to_owned(), input.clone()));
        }
        self.fire(Moment::ToolBegun, json!({"tool_name": tool, "tool_input": input, "tool_use_id": id}));
    }

    pub(super) fn try_call(&mut self, tool: String, arguments: Value, until: Instant) {
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
        self.logs.event("called", json!({"server": server, "id": id, "text": text, "is_error": is_error}));
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

    /// Calls a tool while the turn is at something else; the answer is only logged.
    pub(super) fn call_beside(&mut self, line: &str) {
        if self.turn.is_none() {
            self.do_now(&format!("call {line}"));
            return;
        }
        let failed = match directive::directive(&format!("call {line}")) {
            Directive::Call { tool, arguments } => {
                let tool_use = self.transcript.tool_use(&self.tool_name(&tool), &arguments);
                match self.call_tool(&tool, &arguments, &tool_use) {
                    Called::Waiting(..) => return,
                    Called::NotYet => format!("Error: No such tool available: {tool}"),
                    Called::Failed(text) => text,
                }
            }
            other => format!("{other:?}"),
        };
        self.logs.event("called", json!({"text": failed, "is_error": true}));
    }

    fn start_shell(&mut self, command: &str) {
        // The tool that was given permission runs now; it is the same call.
        if !self.turn.as_mut().is_some_and(|it| std::mem::take(&mut it.permitted)) {
            self.begin_tool("Bash", &json!({"command": command}));
        }
        let env = self.child_env(true);
        let started = Process::start(Start {
            argv: vec![self.clothes.shell(), "-c".to_owned(), command.to_owned()],
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
        if let Some(turn) = self.turn.as_mut().filter(|_| allowed && self.manners.permission_untold)
            && matches!(turn.steps.front(), Some(Step::Do(Directive::Shell(_))))
        {
            turn.permitted = true;
            self.go_on(&Wait::Permission, None);
            return;
        }
        let done = Step::ToolDone { text: text.to_owned(), is_error: !allowed };
        let Some(turn) = self.turn.as_mut().filter(|it| it.wait == Wait::Permission) else { return };
        turn.wait = Wait::Nothing;
        // A call that was asked about comes next, and brings its own result.
        let call = turn.steps.front().is_some_and(|it| matches!(it, Step::Call { .. }));
        let call = call.then(|| turn.steps.pop_front()).flatten();
        turn.steps.push_front(call.filter(|_| allowed).unwrap_or(done));
    }

    /// The name that a transcript gives to a tool of the team's server.
    fn tool_name(&self, tool: &str) -> String {
        let prefix = self.clothes.tool_prefix();
        if tool.starts_with("mcp__") || tool.starts_with(prefix) {
            tool.to_owned()
        } else {
            format!("{prefix}{tool}")
        }
    }
}
