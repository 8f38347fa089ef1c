//! Clothes: what differs between the programs that the agent can play. Knows their forms; runs nothing.
//!
//! The core does the same whatever it wears: it reads keys, keeps a draft and a queue, does turns, obeys `fake:` lines.
//! At each step it asks its clothes how that program is called, where it writes, whom it tells and how it looks. What
//! clothes do not say is as in the built-in agent's own, which has the forms of Claude Code.

mod claude;
mod codex;
mod copilot;
mod gemini;
mod opencode;
mod own;
mod script;
mod wire;

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

pub(crate) use self::script::write as write_script;
pub(crate) use self::wire::{Outside, Receiver, Wire, pair};
use crate::args::{self, Args, ArgsError};
use crate::dialog::{Dialog, Kind};
use crate::place;
use crate::screen::{self, Line};
use crate::settings::Answer;
use crate::setup::{Given, StartError};
use crate::transcript;

/// Clothes that are worn; transcript and agent ask the same.
pub(crate) type Worn = Rc<dyn Clothes>;

/// The programs that can be played, by the name on the person's `PATH`.
pub(crate) const NAMES: &[&str] = &["claude", "codex", "copilot", "gemini", "opencode"];

/// Returns the clothes of this name; without one, the agent's own.
pub(crate) fn find(name: Option<&str>) -> Option<Worn> {
    Some(match name {
        None => Rc::new(own::Own),
        Some("claude") => Rc::new(claude::Claude),
        Some("codex") => Rc::new(codex::Codex),
        Some("copilot") => Rc::new(copilot::Copilot::default()),
        Some("gemini") => Rc::new(gemini::Gemini),
        Some("opencode") => Rc::new(opencode::OpenCode::new()),
        Some(_) => return None,
    })
}

/// A step of the core that a program may tell its hooks, or whoever is connected to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A conversation begins or goes on; fields `source` and `model`.
    SessionStart,
    /// A prompt was taken and its turn begins; field `prompt`. Hooks may block it.
    PromptTaken,
    /// Fields `tool_name`, `tool_input` and `tool_use_id`.
    ToolBegun,
    /// The same fields, `text` and `is_error`.
    ToolEnded,
    /// Fields `tool_name` and `tool_input`. Hooks may answer it.
    PermissionAsked,
    /// The question is on the screen; the fields of the asking.
    PermissionShown,
    /// However it was answered; field `allowed`.
    PermissionSettled,
    /// The turn has its answer, `last_assistant_message`. Hooks may make it go on.
    Answered,
    /// A usage limit is reached and the turn waits for its end; fields `text` and `until_ms`.
    Limited,
    /// The turn goes on.
    LimitOver,
    /// The turn ends by an error; fields `error` and `last_assistant_message`.
    Failed,
    /// A person stopped the turn; field `prompt`.
    Interrupted,
    /// The turn is over, however it ended; nothing can be changed any more. Field `waiting`: how many texts are in the queue.
    TurnOver,
    /// A watched file has changed.
    FileChanged,
    CompactBegun,
    CompactEnded,
    /// Field `reason`.
    SessionEnd,
}

/// What the core knows at a moment.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) session: &'a str,
    pub(crate) transcript: &'a Path,
    pub(crate) cwd: &'a str,
    pub(crate) permission_mode: &'a str,
    /// The id of the running turn's prompt.
    pub(crate) prompt_id: Option<&'a str>,
    /// The running turn's prompt.
    pub(crate) prompt: Option<&'a str>,
    /// The running turn's answer so far.
    pub(crate) said: Option<&'a str>,
}

/// An event of a program's hooks and what they get on standard input.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) event: &'static str,
    pub(crate) input: Value,
    /// Whether the step waits for the answers.
    pub(crate) waits: bool,
}

/// What differs between the programs that the agent can play.
pub(crate) trait Clothes: fmt::Debug {
    /// The name of the program.
    fn name(&self) -> &'static str;

    /// The version it claims where `FAKE_VERSION` names none.
    fn version(&self) -> &'static str;

    /// What `--version` prints.
    fn version_line(&self, version: &str) -> String {
        version.to_owned()
    }

    /// Runs a sub-command that is no agent in a terminal and returns its exit code.
    fn command(&self, _words: &[String]) -> Option<i32> {
        None
    }

    /// Reads the arguments that follow the program's name.
    fn args(&self, words: Vec<String>) -> Result<Args, ArgsError> {
        args::parse(words)
    }

    /// The home in which the program keeps its records; the agent's own logs lie in `logs`.
    fn home(&self, logs: &Path) -> PathBuf {
        logs.to_owned()
    }

    /// Reads what a start was given: hooks, servers, and the questions that stand before everything.
    fn given(&self, args: &Args, _home: &Path, _cwd: &str) -> Result<Given, StartError> {
        Given::by_flags(args)
    }

    /// An id for a conversation that nobody chose one for.
    fn new_id(&self) -> String {
        uuid::Uuid::new_v4().to_string()
    }

    /// Tells whether a word has the form of such an id; any other one opens a picker.
    fn is_id(&self, word: &str) -> bool {
        uuid::Uuid::parse_str(word).is_ok()
    }

    /// Where the transcript of a new conversation goes.
    fn new_transcript(&self, home: &Path, cwd: &str, id: &str) -> PathBuf {
        place::transcript(home, cwd, id)
    }

    /// The transcript of a conversation that is there.
    fn transcript(&self, home: &Path, cwd: &str, id: &str) -> Option<PathBuf> {
        Some(place::transcript(home, cwd, id)).filter(|it| it.exists())
    }

    /// The lines that a record is written as; `None` writes it in the agent's own form.
    fn lines(&self, _of: &transcript::Of<'_>, _record: &transcript::Record<'_>) -> Option<Vec<Value>> {
        None
    }

    /// The lines that a moment itself leaves in the transcript, before its hooks are called.
    fn told(&self, _moment: Moment, _fields: &Value, _scene: &Scene<'_>) -> Vec<Value> {
        Vec::new()
    }

    /// The text that a person gave by this line of a transcript.
    fn said(&self, line: &Value) -> Option<String> {
        transcript::said(line)
    }

    /// The hooks to call at a moment. Called at each, so that those who are connected can be told, too.
    fn calls(&self, moment: Moment, fields: Value, scene: &Scene<'_>) -> Vec<Call> {
        own::calls(moment, fields, scene)
    }

    /// Reads the end of a hook.
    fn answer(&self, _event: &str, code: i32, out: &[u8], err: &[u8]) -> Answer {
        Answer::read(code, out, err)
    }

    /// What children learn about the session; `nested` are shells of the model.
    fn child_env(&self, scene: &Scene<'_>, nested: bool) -> Vec<(&'static str, String)> {
        own::child_env(scene, nested)
    }

    /// The shell that runs a command of the model.
    fn shell(&self) -> String {
        "/bin/sh".to_owned()
    }

    /// What stands before the name of a tool of the team's server, as the model sees it.
    fn tool_prefix(&self) -> &'static str {
        "mcp__team_orchestrator__"
    }

    /// Whether a tool of a server is asked about before it is called.
    fn asks_to_call(&self) -> bool {
        false
    }

    /// Whether the arguments allow a tool without a question.
    fn allows(&self, _tool: &str) -> bool {
        false
    }

    /// How it behaves at its terminal.
    fn manners(&self) -> Manners {
        Manners::default()
    }

    /// The words on its screen.
    fn look(&self) -> Look {
        own::look()
    }

    /// The label that stands for a paste, if it is not shown itself.
    fn label(&self, text: &str, number: u32) -> Option<String> {
        own::label(text, number)
    }

    /// Draws the input box or the dialog and what is around it; the cursor's line and column with it.
    fn lower(&self, seen: &Seen<'_>) -> (Vec<Line>, Option<(usize, usize)>) {
        screen::lower(seen)
    }

    /// Builds a dialog.
    fn dialog(&self, kind: Kind, detail: &str) -> Dialog {
        Dialog::new(kind, detail)
    }

    /// A person picked a choice of a dialog, from 1; 0 closes it without one.
    fn picked(&self, _kind: Kind, _number: usize, _home: &Path, _cwd: &str) {}

    /// The title of its window.
    fn title(&self, _doing: Doing, _cwd: &str) -> Option<String> {
        None
    }

    /// What it prints at its end about a conversation that can go on.
    fn goodbye(&self, session: &str) -> String {
        format!("Resume this session with: fake-agent --resume {session}")
    }

    /// Called once before the first frame. Clothes with a server of their own start it here, in a thread, and keep the
    /// wire; what comes over it is [`Outside`].
    fn connect(&self, _wire: Wire) {}
}

/// How a program behaves at its terminal.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is one independent habit")]
pub(crate) struct Manners {
    /// An Enter so soon after other input is a new line.
    pub(crate) eat_enter: Duration,
    /// A queued text is taken up when a tool ends, not only when the turn does.
    pub(crate) takes_up_after_tools: bool,
    /// An interrupt puts what waits back into the box, and the prompt itself if nothing had come out.
    pub(crate) gives_back: bool,
    /// Escape stops a turn only when pressed twice within this time; then nothing but Escape gives back, and it does so
    /// only while the queue is empty.
    pub(crate) escape_twice: Option<Duration>,
    /// An interrupt by anything but Escape empties the queue without a word.
    pub(crate) loses_queue: bool,
    /// Texts from outside wait for the turn's end, whatever is taken up before.
    pub(crate) outside_waits: bool,
    /// A tab of a sent text becomes four spaces.
    pub(crate) tabs_to_spaces: bool,
    /// A line that starts with `!` is a shell's.
    pub(crate) shell_mode: bool,
    /// It keeps a file with its live state beside its records.
    pub(crate) status_file: bool,
    /// A usage limit is a question first, 1 to go on and 2 to stop; the turn fails by the answer.
    pub(crate) asks_at_limit: bool,
    /// A turn that failed at a usage limit is followed by a dialog.
    pub(crate) dialog_at_limit: bool,
    /// HUP, TERM and INT do nothing.
    pub(crate) ignores_signals: bool,
    /// A turn waits for the end of a usage limit.
    pub(crate) waits_at_limit: bool,
    /// An interrupt drops what waits.
    pub(crate) drops_waiting: bool,
    /// Nothing tells that a permission was given until the tool that asked has ended.
    pub(crate) permission_untold: bool,
    /// What is typed so soon after the start of a conversation that goes on is lost.
    pub(crate) deaf_after_resume: Duration,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            eat_enter: Duration::ZERO,
            takes_up_after_tools: true,
            gives_back: true,
            escape_twice: None,
            loses_queue: false,
            outside_waits: false,
            tabs_to_spaces: false,
            shell_mode: true,
            status_file: true,
            asks_at_limit: false,
            dialog_at_limit: true,
            ignores_signals: false,
            waits_at_limit: false,
            drops_waiting: false,
            permission_untold: false,
            deaf_after_resume: Duration::ZERO,
        }
    }
}

/// The words on a program's screen.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    /// Its name, in the heading.
    pub(crate) heading: &'static str,
    pub(crate) glyph: &'static str,
    pub(crate) placeholder: &'static str,
    pub(crate) footer: &'static str,
    /// Stands before an answer.
    pub(crate) answer: &'static str,
    /// Said while a turn runs.
    pub(crate) work: &'static str,
    /// Said before what waits.
    pub(crate) queued: &'static str,
}

/// What the lower part of a screen is drawn from.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) columns: usize,
    /// The draft, long pastes as labels.
    pub(crate) draft: &'a str,
    pub(crate) dialog: Option<&'a Dialog>,
    pub(crate) glyph: &'a str,
    pub(crate) placeholder: &'a str,
    pub(crate) footer: &'a str,
}

/// What a program is doing, as its window's title tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    Idle,
    Working,
    Asking,
}
