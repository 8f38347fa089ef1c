//! What is wrong with this machine or workspace, each with the next step.

use std::ffi::OsStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::files::read_team;
use super::{Engine, Scope};
use crate::error::{EngineError, whole};
use crate::workspace::WorkspaceError;
use crate::{guardian, launch, process, room, workspace};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckLevel {
    /// As it should be.
    Ok,
    /// Neither good nor bad.
    Info,
    /// Worth knowing.
    Warn,
    /// Stops the work.
    Fail,
}

/// One finding.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Check {
    /// What was looked at.
    pub id: String,
    /// How bad it is.
    pub level: CheckLevel,
    /// What was found.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

/// What was found.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Doctor {
    /// Each finding.
    pub checks: Vec<Check>,
}

impl Doctor {
    /// Lists what stops the work.
    pub fn failures(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|it| it.level == CheckLevel::Fail)
    }
}

fn check(id: &str, level: CheckLevel, message: impl Into<String>, hint: Option<&str>) -> Check {
    Check { id: id.to_owned(), level, message: message.into(), hint: hint.map(str::to_owned) }
}

/// Looks at the machine and the workspace; changes nothing.
pub fn doctor(scope: &Scope) -> Doctor {
    let mut checks = Vec::new();
    let path = process::search_path().to_string_lossy().into_owned();
    match team_tmux::find_tmux(OsStr::new(&path)) {
        Err(error) => {
            checks.push(check("tmux", CheckLevel::Fail, error.to_string(), error.hint().as_deref()));
        }
        Ok(tmux) => match team_tmux::supported_version(&tmux) {
            Ok(version) => {
                checks.push(check(
                    "tmux",
                    CheckLevel::Ok,
                    format!("tmux {version} ({})", tmux.display()),
                    None,
                ));
            }
            Err(error) => {
                checks.push(check("tmux", CheckLevel::Fail, error.to_string(), error.hint().as_deref()));
            }
        },
    }
    checks.push(locale());
    checks.extend(providers(&path));
    checks.extend(place(scope));
    checks.extend(team(scope, &path));
    Doctor { checks }
}

/// Whether the team's files are right and its programs are there, for a team that could be started.
fn team(scope: &Scope, path: &str) -> Vec<Check> {
    let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let Ok(root) = workspace::discover(scope.workspace.as_deref(), &cwd) else { return Vec::new() };
    let spec = match read_team(&root, None, scope.team.as_deref()) {
        Ok((_, spec)) => spec,
        Err(EngineError::Spec(errors)) => {
            let count = match errors.0.len() {
                1 => "an error".to_owned(),
                many => format!("{many} errors, the first"),
            };
            let message = format!("the team's files have {count}: {}", first_line(&errors));
            return vec![check(
                "team",
                CheckLevel::Fail,
                message,
                Some("run `team-agent compile` to see all of them"),
            )];
        }
        // No team here, or none under that name: that is no fault of the machine.
        Err(_) => return Vec::new(),
    };
    let count = spec.seats.len();
    let agents = if count == 1 { "agent" } else { "agents" };
    let mut checks = vec![check(
        "team",
        CheckLevel::Ok,
        format!("team {} ({}), {count} {agents}", spec.name, spec.key),
        None,
    )];
    let mut seen = Vec::new();
    for seat in &spec.seats {
        let Some(provider) = team_provider::providers().iter().find(|it| it.name == seat.provider) else {
            continue;
        };
        if !provider.listed || seen.contains(&provider.program) {
            continue;
        }
        seen.push(provider.program);
        if launch::find_program(provider.program, path).is_none() {
            let message =
                format!("agent {} needs `{}`, which is not on the PATH", seat.name, provider.program);
            let hint = format!("install `{}`, or put its directory on the PATH", provider.program);
            checks.push(check("team.provider", CheckLevel::Fail, message, Some(&hint)));
        }
    }
    checks
}

fn first_line(errors: &team_spec::SpecErrors) -> String {
    let Some(it) = errors.0.first() else { return String::new() };
    let place = if it.line == 0 { it.file.clone() } else { format!("{}:{}", it.file, it.line) };
    format!("{} ({place})", it.message)
}

fn locale() -> Check {
    let named = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|it| std::env::var(it).ok().filter(|it| !it.is_empty()));
    match named {
        Some(name) if name.to_lowercase().replace('-', "").contains("utf8") => {
            check("locale", CheckLevel::Ok, format!("the locale is {name}"), None)
        }
        Some(name) => check(
            "locale",
            CheckLevel::Warn,
            format!("the locale `{name}` is not UTF-8; panes use UTF-8 all the same"),
            Some("run `export LANG=C.UTF-8` to see other scripts in this terminal"),
        ),
        None => check(
            "locale",
            CheckLevel::Warn,
            "no locale is set; panes use UTF-8 all the same",
            Some("run `export LANG=C.UTF-8` to see other scripts in this terminal"),
        ),
    }
}

/// The program of a provider that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramFound {
    /// The provider.
    pub name: &'static str,
    /// Whether it is built in.
    pub own: bool,
    /// Whether it is on the PATH.
    pub installed: bool,
}

/// Lists the providers that can be started, and whether their programs are there.
pub fn programs() -> Vec<ProgramFound> {
    let path = process::search_path().to_string_lossy().into_owned();
    let found = |it: &team_provider::Known| {
        let own = matches!(it.provider().program(), team_provider::Program::Own(_));
        let installed = own || launch::find_program(it.program, &path).is_some();
        Some(ProgramFound { name: it.name, own, installed })
    };
    team_provider::providers().iter().filter_map(found).collect()
}

/// How long a program may take to tell its version.
const TELLS: Duration = Duration::from_secs(10);

fn providers(path: &str) -> Vec<Check> {
    let mut checks = Vec::new();
    for known in team_provider::providers().iter().filter(|it| it.listed) {
        let id = format!("provider.{}", known.name);
        let Some(program) = launch::find_program(known.program, path) else {
            let message = format!("{} is not installed (no `{}` on the PATH)", known.name, known.program);
            checks.push(check(&id, CheckLevel::Info, message, None));
            continue;
        };
        let told = crate::models::run(&program, &["--version"], TELLS);
        let Ok(told) = told.as_ref().map(|it| it.trim()) else {
            let why = told.err().unwrap_or_default();
            let message = format!("`{}` does not tell its version: {why}", program.display());
            let hint = format!("run `{} --version` to see what it says", program.display());
            checks.push(check(&id, CheckLevel::Warn, message, Some(&hint)));
            continue;
        };
        let version: String = told
            .split(|it: char| !(it.is_ascii_digit() || it == '.'))
            .map(|it| it.trim_matches('.'))
            .find(|it| it.contains('.') && it.starts_with(|it: char| it.is_ascii_digit()))
            .unwrap_or_default()
            .to_owned();
        checks.push(verdict(&id, known.name, &version));
        if let Some((why, command)) = crate::models::failure(known.provider()) {
            let message = format!("names of models of {} are not checked: asked for them, {why}", known.name);
            let hint = format!("run `{command}` to see what it says");
            checks.push(check(&format!("{id}.models"), CheckLevel::Warn, message, Some(&hint)));
        }
    }
    checks
}

fn verdict(id: &str, name: &str, version: &str) -> Check {
    use team_provider::VersionVerdict as V;
    // Teams run in tmux, so the rules for tmux count.
    match team_provider::check_version(name, version, true) {
        V::Tested => check(id, CheckLevel::Ok, format!("{name} {version}, a tested version"), None),
        V::Bad(rule) => {
            check(id, CheckLevel::Warn, format!("{name} {version}: {}", rule.says), Some(&rule.next))
        }
        V::Newer { tested } | V::Untested { tested } => {
            let message = format!("{name} {version}, not a tested version (tested: {tested})");
            check(id, CheckLevel::Ok, message, None)
        }
        V::Unknown => check(id, CheckLevel::Ok, format!("{name} `{version}`, not yet supported"), None),
    }
}

fn place(scope: &Scope) -> Vec<Check> {
    let mut checks = Vec::new();
    let engine = match Engine::look(scope) {
        Ok(engine) => engine,
        // No workspace here is no fault of the machine.
        Err(error @ EngineError::Workspace(WorkspaceError::NoTeam(_))) => {
            checks.push(check("workspace", CheckLevel::Ok, error.to_string(), error.hint().as_deref()));
            return checks;
        }
        Err(error) => {
            let id = if matches!(error, EngineError::Log(_)) { "log" } else { "workspace" };
            checks.push(check(id, CheckLevel::Fail, whole(&error), error.hint().as_deref()));
            return checks;
        }
    };
    let place = &engine.workspace;
    checks.push(check("workspace", CheckLevel::Ok, format!("workspace {}", place.root.display()), None));
    if let Some(full) = room::full(place) {
        let hint = format!("make room; `{}` shows the disk", full.command());
        checks.push(check("disk", CheckLevel::Fail, full.what(), Some(&hint)));
    }
    if let (Err(error), false) = (workspace::check_private(&place.state_dir), place.id.is_empty()) {
        checks.push(check("state", CheckLevel::Fail, error.to_string(), error.hint().as_deref()));
    }
    match place.tmux_socket() {
        _ if place.id.is_empty() => {}
        Ok(socket) => {
            checks.push(check("socket", CheckLevel::Ok, format!("tmux socket {}", socket.display()), None));
        }
        Err(error) => {
            checks.push(check("socket", CheckLevel::Fail, error.to_string(), error.hint().as_deref()));
        }
    }
    let Some(store) = &engine.store else { return checks };
    match store.journal().verify() {
        Ok(found) if found.is_clean() => {
            checks.push(check(
                "log",
                CheckLevel::Ok,
                match store.state.seq {
                    1 => "the log is whole (1 line)".to_owned(),
                    many => format!("the log is whole ({many} lines)"),
                },
                None,
            ));
        }
        Ok(_) => checks.push(check(
            "log",
            CheckLevel::Warn,
            "the log has lines that were lost or changed; what was open across them is `unknown`",
            Some("run `team-agent events | grep -E 'log.(damaged|tampered)'` to see where"),
        )),
        Err(error) => checks.push(check("log", CheckLevel::Fail, error.to_string(), error.hint().as_deref())),
    }
    for (key, team) in &store.state.teams {
        for (name, seat) in &team.seats {
            let claimed = seat.spawn.as_ref().and_then(|it| it.claimed.as_ref());
            if let Some(process) = claimed.filter(|it| !seat.state.is_live() && process::is_alive(it)) {
                checks.push(check(
                    "leftovers",
                    CheckLevel::Warn,
                    format!("process {} of {key}/{name} runs although the agent has stopped", process.pid),
                    Some(&format!("run `kill {}`", process.pid)),
                ));
            }
        }
    }
    if store.state.coordinator.is_some() && guardian::connect(place).is_none() {
        checks.push(check(
            "coordinator",
            CheckLevel::Warn,
            "the coordinator ended without a word",
            Some("the next command that changes something starts a successor; `team-agent coordinator --foreground` shows what it says"),
        ));
    }
    checks
}
