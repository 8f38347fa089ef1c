//! The clothes of GitHub Copilot CLI: its plugin, extension, sessions, hooks, screens and habits.

mod dialogs;
mod extension;
mod records;
mod start;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use self::extension::Extension;
use self::records::Event;
use self::start::{Flags, Found};
use super::{Call, Clothes, Look, Manners, Moment, Scene, Seen, Wire};
use crate::args::{Args, ArgsError};
use crate::clock;
use crate::dialog::{Dialog, Kind};
use crate::screen::{self, Line};
use crate::settings::Answer;
use crate::setup::{Given, StartError};
use crate::transcript::{Of, Record};

/// Plays `copilot`.
#[derive(Debug, Default)]
pub(crate) struct Copilot {
    state: RefCell<State>,
}

#[derive(Debug, Default)]
struct State {
    flags: Flags,
    found: Found,
    wire: Option<Wire>,
    extension: Option<Extension>,
    resumed: bool,
    /// This process has taken a prompt of the session.
    begun: bool,
    /// The prompt that is being taken is the first one.
    first: bool,
    /// The running turn's prompt, once it is recorded.
    prompt: Option<String>,
    /// The id of the open permission question.
    request: Option<String>,
    /// Hooks that were called, with the ids under which they are recorded.
    running: Vec<(&'static str, String)>,
    /// Hooks that have ended since the last line.
    ended: Vec<Event>,
    /// The id of the last line.
    last: Option<String>,
}

/// The name under which the team's server is allowed.
const SERVER: &str = "team_orchestrator";
/// What the model says it is doing.
const INTENTION: &str = "Runs what the script says";

impl Copilot {
    /// Turns events into lines and tells the extension of them.
    fn write(&self, events: Vec<Event>) -> Vec<Value> {
        let mut state = self.state.borrow_mut();
        let all: Vec<Event> = std::mem::take(&mut state.ended).into_iter().chain(events).collect();
        let line = |(kind, data): Event| {
            if let Some(extension) = &state.extension {
                extension.event(kind, &data);
            }
            let id = uuid::Uuid::new_v4().to_string();
            let parent = state.last.replace(id.clone());
            json!({"type": kind, "data": data, "id": id, "timestamp": clock::now_iso(), "parentId": parent})
        };
        all.into_iter().map(line).collect()
    }

    /// The extension joins a session that begins, and only the seat's.
    fn join(&self, session: &str) {
        let state = &mut *self.state.borrow_mut();
        let folders = &state.found.extensions;
        state.extension = state.wire.as_ref().and_then(|it| Extension::join(folders, session, it));
    }

    /// What is recorded when a prompt is taken, before its hooks.
    fn begin(&self, scene: &Scene<'_>) -> Option<Event> {
        let home = start::home();
        records::list(&home, scene.session, Some(true));
        let mut state = self.state.borrow_mut();
        state.first = !std::mem::replace(&mut state.begun, true);
        if !state.first {
            return None;
        }
        if state.resumed {
            records::lock(&home, scene.session);
        }
        let kind = if state.resumed { "session.resume" } else { "session.start" };
        let data = json!({
            "sessionId": scene.session, "copilotVersion": crate::version(self), "context": {"cwd": scene.cwd},
        });
        Some((kind, data))
    }

    /// The hook events of a moment; the first prompt of a session has one more.
    fn hook_calls(
        &self,
        moment: Moment,
        fields: &Value,
        scene: &Scene<'_>,
    ) -> Vec<(&'static str, Value, bool)> {
        let field = |name: &str| fields[name].clone();
        let tool = fields["tool_name"].as_str().unwrap_or_default();
        let used = || json!({"toolName": records::tool_name(tool), "toolArgs": field("tool_input")});
        match moment {
            Moment::PromptTaken => {
                let prompt = json!({"prompt": scene.prompt});
                let changed = json!({"transformedPrompt": scene.prompt});
                let mut calls =
                    vec![("userPromptSubmitted", prompt, true), ("userPromptTransformed", changed, false)];
                if self.state.borrow().first {
                    let source = if self.state.borrow().resumed { "resume" } else { "new" };
                    let first = json!({"source": source, "initialPrompt": scene.prompt});
                    calls.insert(0, ("sessionStart", first, true));
                }
                calls
            }
            Moment::ToolBegun => vec![("preToolUse", used(), false)],
            Moment::ToolEnded => {
                let failed = fields["is_error"] == true;
                let mut input = used();
                input[if failed { "error" } else { "toolResult" }] = field("text");
                vec![(if failed { "postToolUseFailure" } else { "postToolUse" }, input, false)]
            }
            Moment::PermissionAsked => {
                let name = records::tool_name(tool).replacen('-', "/", 1);
                vec![("permissionRequest", json!({"toolName": name, "toolInput": field("tool_input")}), true)]
            }
            Moment::PermissionShown => {
                let message = match fields["tool_input"]["command"].as_str() {
                    Some(command) => format!("Run command: {command}"),
                    None => format!("Use tool: {tool}"),
                };
                let input = json!({"notification_type": "permission_prompt", "message": message});
                vec![("notification", input, false)]
            }
            Moment::Answered => {
                let input = json!({
                    "stopReason": "end_turn", "stop_hook_active": field("stop_hook_active"),
                    "transcriptPath": scene.transcript,
                });
                vec![("agentStop", input, true)]
            }
            Moment::Failed => {
                let error = json!({"name": field("error"), "message": field("last_assistant_message")});
                let input = json!({"error": error, "errorContext": "model_call", "recoverable": true});
                vec![("errorOccurred", input, false)]
            }
            Moment::CompactBegun => vec![("preCompact", json!({"trigger": field("trigger")}), true)],
            Moment::SessionEnd => vec![("sessionEnd", json!({"reason": "user_exit"}), true)],
            _ => Vec::new(),
        }
    }

    /// What a moment itself is recorded as.
    fn moment_events(&self, moment: Moment, fields: &Value, scene: &Scene<'_>) -> Vec<Event> {
        let mut state = self.state.borrow_mut();
        match moment {
            Moment::PermissionAsked => {
                let id = uuid::Uuid::new_v4().to_string();
                state.request = Some(id.clone());
                let tool = fields["tool_name"].as_str().unwrap_or_default();
                let asked = records::permission(tool, &fields["tool_input"]);
                vec![("permission.requested", json!({"requestId": id, "permissionRequest": asked}))]
            }
            Moment::PermissionSettled => {
                let kind = if fields["allowed"] == true { "approved" } else { "cancelled" };
                let data = json!({"requestId": state.request.take(), "result": {"kind": kind}});
                vec![("permission.completed", data)]
            }
            Moment::CompactBegun => {
                let data = json!({"trigger": fields["trigger"], "currentTokens": 1000});
                vec![("session.compaction_start", data)]
            }
            Moment::TurnOver => {
                state.prompt = None;
                records::list(&start::home(), scene.session, Some(false));
                Vec::new()
            }
            // A session without a prompt has no record.
            Moment::SessionEnd if state.begun => {
                vec![("session.shutdown", json!({"shutdownType": "routine"}))]
            }
            _ => Vec::new(),
        }
    }
}

impl Clothes for Copilot {
    fn name(&self) -> &'static str {
        "copilot"
    }

    fn version(&self) -> &'static str {
        "1.0.102"
    }

    fn version_line(&self, version: &str) -> String {
        format!("GitHub Copilot CLI {version}.")
    }

    fn args(&self, words: Vec<String>) -> Result<Args, ArgsError> {
        let (args, flags) = start::args(words)?;
        self.state.borrow_mut().flags = flags;
        Ok(args)
    }

    fn home(&self, _logs: &Path) -> PathBuf {
        start::home()
    }

    fn given(&self, args: &Args, home: &Path, cwd: &str) -> Result<Given, StartError> {
        let state = &mut *self.state.borrow_mut();
        let (given, found) = start::given(args, &state.flags, home, cwd)?;
        state.found = found;
        Ok(given)
    }

    fn new_transcript(&self, home: &Path, _cwd: &str, id: &str) -> PathBuf {
        start::transcript(home, id)
    }

    fn transcript(&self, home: &Path, _cwd: &str, id: &str) -> Option<PathBuf> {
        Some(start::transcript(home, id)).filter(|it| it.exists())
    }

    fn lines(&self, of: &Of<'_>, record: &Record<'_>) -> Option<Vec<Value>> {
        let home = start::home();
        match *record {
            Record::Opened { resumed } => {
                let mut state = self.state.borrow_mut();
                (state.resumed, state.begun, state.last) = (resumed, false, None);
                records::make_folder(&home, of);
                records::list(&home, of.session, Some(false));
                if !resumed {
                    records::lock(&home, of.session);
                }
            }
            Record::User { prompt_id, .. } => self.state.borrow_mut().prompt = Some(prompt_id.to_owned()),
            // Nothing had come out, and the prompt is a draft again. Those who listen are told all the same.
            Record::Interrupted { output: false, .. } => {
                drop(self.write(records::events(record)));
                if let Some(prompt) = self.state.borrow_mut().prompt.take() {
                    records::cut_back(&start::transcript(&home, of.session), &prompt);
                }
                return Some(Vec::new());
            }
            _ => {}
        }
        Some(self.write(records::events(record)))
    }

    fn told(&self, moment: Moment, fields: &Value, scene: &Scene<'_>) -> Vec<Value> {
        let mut events = Vec::new();
        if moment == Moment::PromptTaken {
            events.extend(self.begin(scene));
        }
        events.extend(self.moment_events(moment, fields, scene));
        for (event, input, _) in self.hook_calls(moment, fields, scene) {
            let count = self.state.borrow().found.hooked.iter().filter(|it| *it == event).count();
            for _ in 0..count {
                let id = uuid::Uuid::new_v4().to_string();
                let data = json!({"hookInvocationId": id, "hookType": event, "input": input});
                self.state.borrow_mut().running.push((event, id));
                events.push(("hook.start", data));
            }
        }
        let lines = self.write(events);
        match moment {
            // A session goes on under the same id after a compaction.
            Moment::SessionStart if fields["source"] != "compact" => self.join(scene.session),
            Moment::SessionEnd => {
                let home = start::home();
                records::unlock(&home, scene.session);
                if fields["reason"] == "prompt_input_exit" {
                    records::list(&home, scene.session, None);
                }
                self.state.borrow_mut().extension = None;
            }
            // Told, but not recorded; between texts of the queue it is never idle.
            Moment::TurnOver if fields["waiting"].as_u64().unwrap_or_default() == 0 => {
                if let Some(extension) = &self.state.borrow().extension {
                    extension.event("session.idle", &json!({}));
                }
            }
            _ => {}
        }
        lines
    }

    fn said(&self, line: &Value) -> Option<String> {
        records::content(line)
    }

    fn calls(&self, moment: Moment, fields: Value, scene: &Scene<'_>) -> Vec<Call> {
        let call = |(event, mut input, waits): (&'static str, Value, bool)| {
            input["sessionId"] = scene.session.into();
            input["timestamp"] = clock::wall_ms().into();
            input["cwd"] = scene.cwd.into();
            Call { event, input, waits }
        };
        self.hook_calls(moment, &fields, scene).into_iter().map(call).collect()
    }

    fn answer(&self, event: &str, code: i32, out: &[u8], _err: &[u8]) -> Answer {
        let mut state = self.state.borrow_mut();
        if let Some(at) = state.running.iter().position(|it| it.0 == event) {
            let (event, id) = state.running.remove(at);
            let data = json!({"hookInvocationId": id, "hookType": event, "success": code == 0});
            state.ended.push(("hook.end", data));
        }
        answer(event, code, out)
    }

    fn child_env(&self, scene: &Scene<'_>, nested: bool) -> Vec<(&'static str, String)> {
        let mut env = vec![("COPILOT_HOME", start::home().to_string_lossy().into_owned())];
        if nested {
            env.push(("COPILOT_CLI", "1".to_owned()));
            env.push(("COPILOT_AGENT_SESSION_ID", scene.session.to_owned()));
        }
        env
    }

    fn tool_prefix(&self) -> &'static str {
        "team_orchestrator-"
    }

    fn asks_to_call(&self) -> bool {
        !self.state.borrow().flags.allow(SERVER)
    }

    fn allows(&self, tool: &str) -> bool {
        let name = if tool == "Bash" { "shell" } else { records::tool_name(tool) };
        self.state.borrow().flags.allow(name)
    }

    fn manners(&self) -> Manners {
        Manners {
            escape_twice: Some(Duration::from_millis(200)),
            loses_queue: true,
            outside_waits: true,
            tabs_to_spaces: true,
            status_file: false,
            dialog_at_limit: false,
            ..Manners::default()
        }
    }

    fn look(&self) -> Look {
        Look {
            answer: " ● ",
            heading: "  ╰─╯╰─╯  Copilot",
            glyph: "❯",
            placeholder: "",
            footer: " ← open sidebar · Interactive · Manual Approval · / commands · ? help · tab next tab",
            work: " ◎ Working · esc esc interrupt",
            queued: " Queued: ",
        }
    }

    fn label(&self, text: &str, number: u32) -> Option<String> {
        let lines = text.split('\n').count();
        (lines > 10).then(|| format!("[Paste #{number} - {lines} lines]"))
    }

    fn lower(&self, seen: &Seen<'_>) -> (Vec<Line>, Option<(usize, usize)>) {
        match seen.dialog {
            Some(dialog) => (dialog.lines(seen.columns), None),
            None => screen::lower(seen),
        }
    }

    fn dialog(&self, kind: Kind, detail: &str) -> Dialog {
        dialogs::dialog(kind, detail)
    }

    fn picked(&self, kind: Kind, number: usize, home: &Path, cwd: &str) {
        if kind == Kind::Trust && number == 2 {
            start::trust(home, cwd);
        }
    }

    fn goodbye(&self, session: &str) -> String {
        format!("Resume copilot --resume={session}")
    }

    fn connect(&self, wire: Wire) {
        self.state.borrow_mut().wire = Some(wire);
    }
}

/// Reads what a hook says: this program's answers stand at the top.
fn answer(event: &str, code: i32, out: &[u8]) -> Answer {
    let said: Value = serde_json::from_slice(out).ok().filter(|_| code == 0).unwrap_or_default();
    let text = |name: &str| said[name].as_str().map(str::to_owned);
    let mut answer = Answer { context: text("additionalContext"), ..Answer::default() };
    match event {
        "agentStop" if said["decision"] == "block" => {
            answer.block = Some(text("reason").unwrap_or_default());
        }
        "permissionRequest" => {
            answer.permission = match said["behavior"].as_str() {
                Some("allow") => Some(Ok(())),
                Some("deny") => Some(Err(text("message").unwrap_or_default())),
                _ => None,
            };
        }
        _ => {}
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_hooks_stand_at_the_top() {
        let deny = br#"{"behavior":"deny","message":"no"}"#;
        assert_eq!(answer("permissionRequest", 0, deny).permission, Some(Err("no".to_owned())));
        assert_eq!(answer("permissionRequest", 1, deny), Answer::default());
        let block = br#"{"decision":"block","reason":"why"}"#;
        assert_eq!(answer("agentStop", 0, block).block.as_deref(), Some("why"));
        assert_eq!(answer("userPromptSubmitted", 0, block), Answer::default());
    }

    #[test]
    fn a_paste_of_many_lines_is_labelled() {
        assert_eq!(Copilot::default().label(&"x\n".repeat(9), 1), None);
        assert_eq!(Copilot::default().label(&"x\n".repeat(29), 1).as_deref(), Some("[Paste #1 - 30 lines]"));
    }
}
