//! What is wrong with this machine or workspace, each with the next step.

use std::ffi::OsStr;

use serde::Serialize;

use super::{Engine, Scope};
use crate::{guardian, launch, process};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CheckLevel {
    /// As it should be.
    Ok,
    /// Worth knowing.
    Warn,
    /// Stops the work.
    Fail,
}

/// One finding.
#[derive(Debug, Clone, Serialize)]
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

fn check(id: &str, level: CheckLevel, message: impl Into<String>, hint: Option<&str>) -> Check {
    Check { id: id.to_owned(), level, message: message.into(), hint: hint.map(str::to_owned) }
}

/// Looks at the machine and the workspace; changes nothing.
pub fn doctor(scope: &Scope) -> Vec<Check> {
    let mut checks = Vec::new();
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".to_owned());
    match team_tmux::find_tmux(OsStr::new(&path)) {
        Err(error) => checks.push(check("tmux", CheckLevel::Fail, error.to_string(), error.hint().as_deref())),
        Ok(tmux) => match team_tmux::version(&tmux) {
            Ok(version) => {
                checks.push(check("tmux", CheckLevel::Ok, format!("tmux {version} ({})", tmux.display()), None));
            }
            Err(error) => checks.push(check("tmux", CheckLevel::Fail, error.to_string(), error.hint().as_deref())),
        },
    }
    checks.push(locale());
    checks.extend(providers(&path));
    checks.extend(workspace(scope));
    checks
}

fn locale() -> Check {
    let named = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(|it| std::env::var(it).ok().filter(|it| !it.is_empty()));
    match named {
        Some(name) if name.to_lowercase().replace('-', "").contains("utf8") => {
            check("locale", CheckLevel::Ok, format!("the locale is {name}"), None)
        }
        Some(name) => check(
            "locale",
            CheckLevel::Warn,
            format!("the locale `{name}` is not UTF-8; panes use UTF-8 all the same"),
            Some("set LANG=C.UTF-8 to see other scripts in this terminal"),
        ),
        None => check(
            "locale",
            CheckLevel::Warn,
            "no locale is set; panes use UTF-8 all the same",
            Some("set LANG=C.UTF-8 to see other scripts in this terminal"),
        ),
    }
}

fn providers(path: &str) -> Vec<Check> {
    let mut checks = Vec::new();
    for known in team_provider::providers().iter().filter(|it| it.listed) {
        let id = format!("provider.{}", known.name);
        let Some(program) = launch::find_program(known.program, path) else {
            let message = format!("`{}` is not on the PATH", known.program);
            checks.push(check(&id, CheckLevel::Ok, message, None));
            continue;
        };
        let told = std::process::Command::new(&program)
            .arg("--version")
            .stdin(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .output()
            .ok()
            .filter(|it| it.status.success())
            .map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned());
        let Some(told) = told else {
            let message = format!("`{}` does not tell its version", program.display());
            checks.push(check(&id, CheckLevel::Warn, message, None));
            continue;
        };
        let version: String = told
            .split(|it: char| !(it.is_ascii_digit() || it == '.'))
            .find(|it| it.contains('.') && it.starts_with(|it: char| it.is_ascii_digit()))
            .unwrap_or_default()
            .to_owned();
        checks.push(verdict(&id, known.name, &version));
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

fn workspace(scope: &Scope) -> Vec<Check> {
    let mut checks = Vec::new();
    let engine = match Engine::look(scope) {
        Ok(engine) => engine,
        Err(error) => {
            checks.push(check("workspace", CheckLevel::Ok, error.to_string(), error.hint().as_deref()));
            return checks;
        }
    };
    let workspace = &engine.workspace;
    checks.push(check("workspace", CheckLevel::Ok, format!("workspace {}", workspace.root.display()), None));
    match workspace.tmux_socket() {
        Ok(socket) => checks.push(check("socket", CheckLevel::Ok, format!("tmux socket {}", socket.display()), None)),
        Err(error) => checks.push(check("socket", CheckLevel::Fail, error.to_string(), error.hint().as_deref())),
    }
    let Some(store) = &engine.store else { return checks };
    match store.journal().verify() {
        Ok(found) if found.is_clean() => {
            checks.push(check("log", CheckLevel::Ok, format!("the log is whole ({} lines)", store.state.seq), None));
        }
        Ok(_) => checks.push(check(
            "log",
            CheckLevel::Warn,
            "the log has lines that were lost or changed; what was open across them is `unknown`",
            Some("run `team-agent events` and look for log.damaged and log.tampered"),
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
    if store.state.coordinator.is_some() && guardian::connect(workspace).is_none() {
        checks.push(check(
            "coordinator",
            CheckLevel::Warn,
            "the coordinator ended without a word",
            Some("run any command that changes something, for example `team-agent send`; it starts a successor"),
        ));
    }
    checks
}
