//! From a command line to an agent that is ready to run: which session it is, what it was given.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::agent::{Agent, Parts};
use crate::args::Args;
use crate::clothes::{self, Worn};
use crate::control::{self, Command, ControlFile};
use crate::dialog::Kind;
use crate::logs::{Logs, replace};
use crate::mcp::{self, McpConfigError, ServerConfig};
use crate::place::Home;
use crate::settings::{Settings, SettingsError};
use crate::term::{self, Terminal};
use crate::transcript::Transcript;
use crate::watch::Watcher;

/// Why the program does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("standard input and output must be a terminal")]
    NoTerminal,
    #[error("Session ID {0} is already in use.")]
    InUse(String),
    #[error("No conversation found with session ID: {0}")]
    NoConversation(String),
    #[error("file `{path}` cannot be read")]
    File { path: String, source: std::io::Error },
    #[error("script line `{line}` is not understood: {reason}")]
    Script { line: String, reason: String },
    #[error("home `{path}` cannot be made ready")]
    Home { path: String, source: std::io::Error },
    #[error("the terminal cannot be used")]
    Terminal(#[source] std::io::Error),
    #[error("those who connect cannot be heard")]
    Wire(#[source] std::io::Error),
    #[error("files cannot be watched")]
    Watch(#[source] std::io::Error),
    #[error("signals cannot be caught")]
    Signals(#[source] std::io::Error),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Mcp(#[from] McpConfigError),
}

/// How a session came to be, as SessionStart tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    Startup,
    Resume,
    /// A picker is open: the word after `--resume` is no session.
    Picker,
}

/// What a start was given by flags and files.
#[derive(Debug, Default)]
pub(crate) struct Given {
    pub(crate) settings: Settings,
    pub(crate) servers: BTreeMap<String, ServerConfig>,
    /// Dialogs that stand before everything, with what they are about.
    pub(crate) questions: Vec<(Kind, String)>,
}

impl Given {
    /// Reads what the agent's own flags name.
    pub(crate) fn by_flags(args: &Args) -> Result<Self, StartError> {
        let settings = args.settings.as_deref().map(Settings::load).transpose()?.unwrap_or_default();
        let servers = args.mcp_config.as_deref().map(mcp::load).transpose()?.unwrap_or_default();
        Ok(Self { settings, servers, questions: Vec::new() })
    }
}

struct Session {
    id: String,
    origin: Origin,
    transcript: Transcript,
    /// The session and transcript that a fork was made from.
    source: Option<(String, PathBuf)>,
}

/// Prepares everything that can fail, and switches the terminal to raw mode last.
pub(crate) fn start(clothes: Worn, args: Args) -> Result<Agent, StartError> {
    let cwd = std::env::current_dir()
        .map_err(|source| StartError::File { path: ".".to_owned(), source })?
        .to_string_lossy()
        .into_owned();
    let home = Home::from_env(&*clothes, Path::new(&cwd));
    let session = session(&clothes, &args, &home, &cwd)?;
    let given = clothes.given(&args, home.records(), &cwd)?;
    let script = script(&args)?;
    if !args.headless && !term::is_terminal() {
        return Err(StartError::NoTerminal);
    }
    let in_home = |source| StartError::Home { path: home.root().display().to_string(), source };
    home.create().map_err(in_home)?;
    let mut logs = Logs::open(&home, &session.id).map_err(in_home)?;
    let mut names: Vec<String> =
        std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    let argv: Vec<String> = std::env::args_os().map(|it| it.to_string_lossy().into_owned()).collect();
    logs.event("start", json!({"argv": argv, "cwd": cwd, "pid": std::process::id(), "env_names": names}));
    if let Some(path) = &args.system_prompt {
        let prompt = std::fs::read_to_string(path)
            .map_err(|source| StartError::File { path: path.display().to_string(), source })?;
        let copy = home.events(&session.id).with_extension("system-prompt");
        replace(&copy, &prompt).map_err(in_home)?;
        logs.event("system_prompt", json!({"bytes": prompt.len(), "copy": copy}));
    }
    for command in &script {
        if let Command::SlowStart(time) = command {
            logs.event("slow_start", json!({"ms": u64::try_from(time.as_millis()).unwrap_or(u64::MAX)}));
            std::thread::sleep(*time);
        }
    }
    let mut watcher = Watcher::new().map_err(StartError::Watch)?;
    let control = ControlFile::open(Path::new(&cwd).join(home.control(&session.id)));
    if let Some(folder) = control.path.parent() {
        std::fs::create_dir_all(folder)
            .map_err(|source| StartError::File { path: folder.display().to_string(), source })?;
    }
    watcher
        .watch(&control.path)
        .map_err(|source| StartError::File { path: control.path.display().to_string(), source })?;
    let (wire, receiver) = clothes::pair().map_err(StartError::Wire)?;
    clothes.connect(wire);
    let terminal = if args.headless { Ok(Terminal::none()) } else { Terminal::open() };
    let terminal = terminal.map_err(StartError::Terminal)?;
    let parts = Parts {
        home,
        cwd,
        session: session.id,
        origin: session.origin,
        transcript: session.transcript,
        source: session.source,
        given,
        wire: receiver,
        logs,
        watcher,
        control,
        terminal,
        clothes,
        script,
        args,
    };
    Agent::new(parts).map_err(StartError::Signals)
}

fn session(clothes: &Worn, args: &Args, home: &Home, cwd: &str) -> Result<Session, StartError> {
    let home = home.records();
    let model = args.model.clone().unwrap_or_else(|| "fake-1".to_owned());
    let new_id = || args.session_id.clone().unwrap_or_else(|| clothes.new_id());
    let transcript = |path: PathBuf, id: &str| Transcript::new(clothes.clone(), path, id, cwd, &model);
    let Some(resume) = &args.resume else {
        let id = new_id();
        if clothes.transcript(home, cwd, &id).is_some() {
            return Err(StartError::InUse(id));
        }
        let transcript = transcript(clothes.new_transcript(home, cwd, &id), &id);
        return Ok(Session { id, origin: Origin::Startup, transcript, source: None });
    };
    let path = if resume.contains('/') && Path::new(resume).extension().is_some_and(|it| it == "jsonl") {
        PathBuf::from(resume)
    } else if let Some(path) = clothes.transcript(home, cwd, resume) {
        path
    } else if clothes.is_id(resume) {
        return Err(StartError::NoConversation(resume.clone()));
    } else {
        let id = new_id();
        let transcript = transcript(clothes.new_transcript(home, cwd, &id), &id);
        return Ok(Session { id, origin: Origin::Picker, transcript, source: None });
    };
    if !path.exists() {
        return Err(StartError::NoConversation(resume.clone()));
    }
    let old = if clothes.is_id(resume) {
        resume.clone()
    } else {
        path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    };
    let read = |source| StartError::File { path: path.display().to_string(), source };
    if !args.fork {
        let mut transcript = transcript(path.clone(), &old);
        transcript.load(&path).map_err(read)?;
        return Ok(Session { id: old, origin: Origin::Resume, transcript, source: None });
    }
    let id = new_id();
    if clothes.transcript(home, cwd, &id).is_some() {
        return Err(StartError::InUse(id));
    }
    let mut transcript = transcript(clothes.new_transcript(home, cwd, &id), &id);
    transcript.fork(&path).map_err(read)?;
    Ok(Session { id, origin: Origin::Resume, transcript, source: Some((old, path)) })
}

/// Reads `--script` and `FAKE_SCRIPT`; the latter may also be the text itself.
fn script(args: &Args) -> Result<Vec<Command>, StartError> {
    let mut text = String::new();
    let file = |path: &Path| {
        std::fs::read_to_string(path)
            .map_err(|source| StartError::File { path: path.display().to_string(), source })
    };
    if let Some(path) = &args.script {
        text.push_str(&file(path)?);
        text.push('\n');
    }
    if let Ok(value) = std::env::var("FAKE_SCRIPT") {
        let is_file = !value.contains('\n') && Path::new(&value).is_file();
        text.push_str(&if is_file { file(Path::new(&value))? } else { value });
    }
    text.lines()
        .filter_map(|line| {
            let understood = |it: Result<Command, String>| {
                it.map_err(|reason| StartError::Script { line: line.to_owned(), reason })
            };
            control::parse(line).map(understood)
        })
        .collect()
}
