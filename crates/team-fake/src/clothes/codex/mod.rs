//! The clothes of Codex: a server with a socket, the screen that is attached to it, and a queue from outside.
//!
//! Knows the command line. `docs/fake-agent.md` says what these clothes hold.

mod conversation;
mod exec;
mod look;
mod rollout;
mod screen;
mod server;
mod settings;
mod tools;
mod turn;
mod wire;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use self::settings::Settings;
use super::{Clothes, Manners};
use crate::control::{self, Command};
use crate::logs;
use crate::place::Home;

/// What the command line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Screen,
    Resume,
    Server,
    Exec,
    Queue,
    Models,
    Version,
}

/// What a start has put together.
#[derive(Debug)]
struct Start {
    wish: Wish,
    settings: Settings,
    cwd: PathBuf,
    /// The home of the program whose clothes these are.
    home: PathBuf,
    /// Our own: logs and control files.
    logs: Home,
    socket: Option<PathBuf>,
    thread: Option<String>,
    message: Option<String>,
}

/// Why it does not start, or cannot go on.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("unexpected argument '{0}' found")]
    Argument(String),
    #[error("a value is required for '{0}'")]
    NoValue(String),
    #[error("Error loading config.toml: {0} is no setting")]
    Setting(String),
    #[error("in these clothes it needs `--remote unix://SOCKET`, and `app-server` `--listen unix://SOCKET`")]
    NoSocket,
    #[error("no rollout found for thread id {0}")]
    NoThread(String),
    #[error("stdin is not a terminal")]
    NoTerminal,
    #[error("script line `{line}` is not understood: {reason}")]
    Script { line: String, reason: String },
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Plays `codex`.
#[derive(Debug)]
pub(crate) struct Codex;

impl Clothes for Codex {
    fn name(&self) -> &'static str {
        "codex"
    }

    fn version(&self) -> &'static str {
        "0.171.0"
    }

    fn version_line(&self, version: &str) -> String {
        format!("codex-cli {version}")
    }

    fn home(&self, _logs: &Path) -> PathBuf {
        let variable = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
        variable("CODEX_HOME").unwrap_or_else(|| variable("HOME").unwrap_or_default().join(".codex"))
    }

    fn manners(&self) -> Manners {
        Manners { status_file: false, ..Manners::default() }
    }

    fn label(&self, text: &str, _number: u32) -> Option<String> {
        let length = text.chars().count();
        (length > 1000).then(|| format!("[Pasted Content {length} chars]"))
    }

    /// Everything is a command: the agent at a terminal has no part in it.
    fn command(&self, words: &[String]) -> Option<i32> {
        Some(run(words))
    }
}

/// Runs the program with the arguments that follow its name, and returns its exit code.
fn run(words: &[String]) -> i32 {
    let done = read(words).and_then(|start| match start.wish {
        Wish::Version => say(&Codex.version_line(&version())),
        Wish::Models => say(&models()),
        Wish::Exec => exec::run(&start),
        Wish::Queue => queue(&start),
        Wish::Server => server::run(&start),
        Wish::Screen | Wish::Resume => screen::run(&start),
    });
    done.unwrap_or_else(|refusal| {
        let _ = writeln!(io::stderr(), "error: {refusal}");
        if matches!(refusal, Refusal::Argument(_) | Refusal::NoValue(_)) { 2 } else { 1 }
    })
}

fn version() -> String {
    crate::version(&Codex)
}

fn say(text: &str) -> Result<i32, Refusal> {
    writeln!(io::stdout(), "{text}")?;
    Ok(0)
}

fn read(words: &[String]) -> Result<Start, Refusal> {
    let mut words = words.iter().cloned();
    let present = std::env::current_dir()?;
    let mut start = Start {
        wish: Wish::Screen,
        settings: Settings::default(),
        home: Codex.home(&present),
        logs: Home::from_env(&Codex, &present),
        cwd: present,
        socket: None,
        thread: None,
        message: None,
    };
    let (mut files, mut assigned) = (vec!["config.toml".to_owned()], Vec::new());
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| Refusal::NoValue(word.clone()));
        match (start.wish, word.as_str()) {
            (_, "-c" | "--config") => assigned.push(value()?),
            (_, "-m" | "--model") => assigned.push(format!("model={}", json!(value()?))),
            (Wish::Screen | Wish::Resume, "--profile") => files.push(format!("{}.config.toml", value()?)),
            (Wish::Models, "--bundled") => {}
            (_, "-C" | "--cd") => start.cwd = value()?.into(),
            (Wish::Server, "--listen") | (Wish::Screen | Wish::Resume, "--remote") => {
                start.socket = value()?.strip_prefix("unix://").map(PathBuf::from);
            }
            (Wish::Queue, "--thread") => start.thread = Some(value()?),
            (Wish::Queue, "--message") => start.message = Some(value()?),
            (Wish::Screen, "--version" | "-V") => start.wish = Wish::Version,
            (Wish::Screen, "app-server") => start.wish = Wish::Server,
            (Wish::Screen, "exec") => start.wish = Wish::Exec,
            (Wish::Exec, text) if !text.starts_with('-') => start.message = Some(word),
            (Wish::Screen, "queue") => start.wish = Wish::Queue,
            (Wish::Screen, "debug") if value()? == "models" => start.wish = Wish::Models,
            (Wish::Screen, "resume") => {
                start.wish = Wish::Resume;
                start.thread = Some(value()?);
            }
            _ => return Err(Refusal::Argument(word)),
        }
    }
    for file in files {
        start.settings.read(&std::fs::read_to_string(start.home.join(file)).unwrap_or_default());
    }
    assigned.iter().try_for_each(|it| start.settings.set(it)).map_err(Refusal::Setting)?;
    Ok(start)
}

/// Lines of `FAKE_SCRIPT`, a file or the text itself: those that are good before the first frame.
fn script() -> Result<Vec<Command>, Refusal> {
    let Ok(value) = std::env::var("FAKE_SCRIPT") else { return Ok(Vec::new()) };
    let is_file = !value.contains('\n') && Path::new(&value).is_file();
    let text = if is_file { std::fs::read_to_string(value)? } else { value };
    let understood = |line: &str| {
        let of_these = |command: Command| match command {
            Command::AnswerAfter(_)
            | Command::LateReceipt(_)
            | Command::ApiError(_)
            | Command::Limit(_)
            | Command::EatEnter(_) => Ok(command),
            _ => Err("it is not for the script of these clothes".to_owned()),
        };
        let line = line.to_owned();
        control::parse(&line)
            .map(|it| it.and_then(of_these).map_err(|reason| Refusal::Script { line, reason }))
    };
    text.lines().filter_map(understood).collect()
}

/// A few of the models that the program lists: slug, name on the screen, and what is offered in its place.
const MODELS: &[(&str, &str, Option<&str>)] = &[
    ("gpt-6.2-sol", "GPT-6.2-Sol", None),
    ("gpt-6.2-astra", "GPT-6.2-Astra", None),
    ("gpt-6.1-sol", "GPT-6.1-Sol", None),
    ("gpt-6-sol", "GPT-6-Sol", None),
    ("gpt-6-luna", "GPT-6-Luna", None),
    ("gpt-5.6-sol", "GPT-5.6-Sol", Some("gpt-6-sol")),
    ("gpt-5.5", "GPT-5.5", Some("gpt-6-sol")),
];

fn models() -> String {
    let efforts = ["low", "medium", "high", "xhigh"].map(|it| json!({"effort": it, "description": ""}));
    let model = |(slug, name, upgrade): &(&str, &str, Option<&str>)| {
        json!({
            "slug": slug, "display_name": name, "visibility": "list", "priority": 1,
            "upgrade": upgrade.map(|it| json!({"model": it})),
            "default_reasoning_level": "medium", "supported_reasoning_levels": efforts,
        })
    };
    json!({"models": MODELS.iter().map(model).collect::<Vec<_>>()}).to_string()
}

/// Where the texts lie that wait for a conversation.
fn queue_file(home: &Path, thread: &str) -> PathBuf {
    home.join("queue").join(format!("{thread}.jsonl"))
}

/// Puts a text where the server of the conversation finds it, whether or not there is one.
fn queue(start: &Start) -> Result<i32, Refusal> {
    let thread = start.thread.as_deref().ok_or_else(|| Refusal::NoValue("--thread".to_owned()))?;
    let text = start.message.as_deref().ok_or_else(|| Refusal::NoValue("--message".to_owned()))?;
    if rollout::Rollout::find(&start.home, thread).is_none() {
        return Err(Refusal::NoThread(thread.to_owned()));
    }
    let id = uuid::Uuid::now_v7().to_string();
    let file = queue_file(&start.home, thread);
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    logs::append_line(&file, &json!({"id": id, "client_id": id, "text": text}))?;
    say(&format!("Queued message {id} for thread {thread}."))
}
