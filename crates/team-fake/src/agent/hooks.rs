//! Hooks of the running program: fired at events, listened to, and turned into turns when they wake it.

use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{Agent, Phase, Role, Timer};
use crate::child::{Process, Start};
use crate::clothes::{Moment, Scene};
use crate::settings::{Answer, Hook};
use crate::watch::Change;

/// Hooks of one event that somebody waits for.
#[derive(Debug)]
pub(super) struct Batch {
    moment: Moment,
    remaining: usize,
    answers: Vec<Answer>,
}

impl Agent {
    /// Tells a moment and runs its hooks. Returns the batch to wait for, or nothing when none holds it up.
    pub(super) fn fire(&mut self, moment: Moment, fields: Value) -> Option<u64> {
        let scene = self.scene(moment);
        let lines = self.clothes.told(moment, &fields, &scene);
        let calls = self.clothes.calls(moment, fields, &scene);
        self.transcript.add(lines);
        if !self.knobs.switches.hooks {
            return None;
        }
        // Children and batches share one counter.
        self.next_child += 1;
        let batch = self.next_child;
        let mut remaining = 0;
        for call in calls {
            let input = call.input.to_string();
            for hook in self.settings.hooks(call.event).to_vec() {
                let waited_for = call.waits && !hook.in_background();
                let waits = waited_for.then_some(batch);
                if self.start_hook((moment, call.event), hook, waits, &input) && waited_for {
                    remaining += 1;
                }
            }
        }
        if remaining == 0 {
            return None;
        }
        self.batches.insert(batch, Batch { moment, remaining, answers: Vec::new() });
        Some(batch)
    }

    /// What is known at a moment.
    fn scene(&self, moment: Moment) -> Scene<'_> {
        // A fork's first hook still names what it was made from.
        let source = self.source.as_ref().filter(|_| moment == Moment::SessionStart);
        let (session, transcript) = match source {
            Some((session, path)) => (session.as_str(), path),
            None => (self.session.as_str(), &self.transcript.path),
        };
        let turn = self.turn.as_ref();
        Scene {
            session,
            transcript,
            cwd: &self.cwd,
            permission_mode: self.args.permission_mode.as_deref().unwrap_or("default"),
            prompt_id: turn.map(|it| it.prompt_id.as_str()),
            prompt: turn.map(|it| it.prompt.as_str()),
            said: turn.and_then(|it| it.said.as_deref()),
        }
    }

    fn start_hook(
        &mut self,
        (moment, event): (Moment, &'static str),
        hook: Hook,
        batch: Option<u64>,
        input: &str,
    ) -> bool {
        let started = Process::start(Start {
            argv: hook.argv(),
            env: self.child_env(false),
            scrub: false,
            cwd: self.cwd.as_ref(),
            keep_stdin: false,
            input: input.as_bytes().to_vec(),
        });
        match started {
            Ok(process) => {
                self.logs.event(
                    "hook",
                    json!({"hook": event, "pid": process.pid(), "waited_for": batch.is_some()}),
                );
                let timeout = hook.timeout();
                let id = self.adopt(process, Role::Hook { moment, event, batch, hook: Box::new(hook) });
                self.timer(timeout, Timer::HookTimeout(id));
                true
            }
            Err(error) => {
                self.logs.event("hook_failed", json!({"hook": event, "error": error.to_string()}));
                false
            }
        }
    }

    /// What every child learns about the session; `nested` are shells of the model.
    pub(super) fn child_env(&self, nested: bool) -> Vec<(String, String)> {
        let scene = self.scene(Moment::TurnOver);
        let own = ("FAKE_HOME", self.home.root().to_string_lossy().into_owned());
        let all = self.clothes.child_env(&scene, nested).into_iter().chain([own]);
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    pub(super) fn hook_timed_out(&mut self, child: u64) {
        if let Some((process, Role::Hook { event, .. })) = self.children.get(&child) {
            process.signal_group(Signal::SIGTERM);
            self.logs.event("hook_timed_out", json!({"hook": event, "pid": process.pid()}));
        }
    }

    pub(super) fn hook_ended(
        &mut self,
        (moment, event): (Moment, &'static str),
        batch: Option<u64>,
        hook: &Hook,
        code: i32,
        process: &Process,
    ) {
        self.timers.retain(|it| !matches!(it.1, Timer::HookTimeout(id) if !self.children.contains_key(&id)));
        if code != 0 {
            let err = String::from_utf8_lossy(&process.err).chars().take(300).collect::<String>();
            self.logs.event("hook_exit", json!({"hook": event, "code": code, "stderr": err}));
        }
        if hook.async_rewake {
            if code == 2 {
                self.rewake(hook, &String::from_utf8_lossy(&process.err));
            }
            return;
        }
        let answer = self.clothes.answer(event, code, &process.out, &process.err);
        if moment == Moment::SessionStart {
            self.watch(&answer.watch);
            if let Some(context) = &answer.context {
                self.logs.event("context", json!({"hook": event, "text": context}));
            }
        }
        let Some(id) = batch else { return };
        let Some(waiting) = self.batches.get_mut(&id) else { return };
        waiting.answers.push(answer);
        waiting.remaining -= 1;
        if waiting.remaining == 0
            && let Some(batch) = self.batches.remove(&id)
        {
            self.batch_ended(id, &batch);
        }
    }

    fn batch_ended(&mut self, id: u64, batch: &Batch) {
        match batch.moment {
            Moment::SessionEnd => {
                if let Phase::Ending(code) = self.phase {
                    self.phase = Phase::Over(code);
                }
            }
            Moment::PermissionAsked => self.permission_hook_answered(id, &batch.answers),
            moment => self.turn_hooks_ended(id, moment, &batch.answers),
        }
    }

    /// Stops the hooks of a batch whose answer is no longer wanted.
    pub(super) fn drop_batch(&mut self, id: u64) {
        self.batches.remove(&id);
        for (process, role) in self.children.values() {
            if matches!(role, Role::Hook { batch: Some(batch), .. } if *batch == id) {
                process.signal_group(Signal::SIGKILL);
            }
        }
    }

    pub(super) fn fire_session_start(&mut self, source: &str) {
        let model = self.transcript.model.clone();
        self.fire(Moment::SessionStart, json!({"source": source, "model": model}));
        self.source = None;
    }

    fn watch(&mut self, paths: &[String]) {
        for path in paths.iter().map(PathBuf::from) {
            match self.watcher.watch(&path) {
                Ok(()) => {
                    self.logs.event("watching", json!({"path": path}));
                    self.bells.push(path);
                }
                Err(error) => {
                    self.logs.event("watch_failed", json!({"path": path, "error": error.to_string()}));
                }
            }
        }
    }

    /// Fires FileChanged for each watched file that changed.
    pub(super) fn ring(&mut self, changes: Vec<Change>) {
        if self.phase != Phase::Running {
            return;
        }
        for change in changes {
            let watched = self.bells.iter().any(|it| change.path == *it || change.path.parent() == Some(it));
            if watched {
                self.logs.event("bell", json!({"path": change.path, "change": change.event}));
                self.fire(Moment::FileChanged, json!({"file_path": change.path, "event": change.event}));
            }
        }
    }

    /// A background hook has something for the model.
    fn rewake(&mut self, hook: &Hook, text: &str) {
        if self.phase != Phase::Running {
            return;
        }
        let prefix = hook.rewake_message.as_deref().unwrap_or("Stop hook blocking error from command");
        let summary = hook.rewake_summary.as_deref().unwrap_or("background hook finished");
        let text = text.trim_end();
        let message = format!(
            "<task-notification>\n<summary>{summary}</summary>\n</task-notification>\n\
             <system-reminder>\n{prefix}\n{text}\n</system-reminder>"
        );
        self.view.say(&format!("● {summary}"));
        self.notify_model(message);
    }
}
