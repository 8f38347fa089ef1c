//! Ends: shutdown, delete, and attaching to a screen.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use schemars::JsonSchema;
use serde::Serialize;
use team_model::{SeatState, Team, TeamKey, TeamState};

use super::{Caller, Engine};
use crate::coordinator::{Answer, Request};
use crate::decide::{self, Refusal};
use crate::error::EngineError;
use crate::{guardian, process, room};

/// How long a shutdown may take before the command says that it is still going on.
const SHUTDOWN: Duration = Duration::from_secs(20);
/// How long a seat may take to end everything below it.
const ENDS: Duration = Duration::from_secs(5);
/// How long a coordinator may take to end after it said so.
const LAST_STEPS: Duration = Duration::from_secs(2);

/// The words with which the coordinator refuses.
const CODES: &[&str] = &[
    "not_allowed",
    "team_running",
    "no_such_team",
    "unknown_agent",
    "no_such_request",
    "closed",
    "already_answered",
    "no_channel",
    "not_as_asked",
];

/// A team that was shut down.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ShutDown {
    /// The team.
    pub team: String,
    /// The agents that ended now.
    pub stopped: Vec<String>,
    /// The agents whose turn was cut off.
    pub at_work: Vec<AtWork>,
    /// Results that nobody has collected.
    pub uncollected: usize,
    /// Tasks that are open.
    pub open_tasks: usize,
    /// Whether it was stopped before.
    pub already: bool,
    /// How it can go on.
    pub restart: String,
}

/// An agent whose turn was cut off.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AtWork {
    /// The agent.
    pub agent: String,
    /// The task that this turn was about.
    pub task: Option<String>,
}

/// A team that was deleted.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Deleted {
    /// The team.
    pub team: String,
    /// What stays on disk.
    pub kept: Vec<PathBuf>,
}

/// The command that shows a screen.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Attach {
    /// The program and its arguments.
    pub argv: Vec<String>,
}

/// What `attach` runs.
#[derive(Debug, Clone)]
pub struct AttachTarget {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Variables that the program must not have.
    pub env_remove: Vec<String>,
}

fn at_work(team: &Team) -> Vec<AtWork> {
    let busy = team.seats.iter().filter(|(_, it)| it.state.is_live() && it.turn.is_some());
    busy.map(|(name, seat)| {
        let messages = seat.turn.iter().flat_map(|it| &it.messages);
        let task = messages.filter_map(|it| team.message(it)?.task).find(|it| team.tasks.contains_key(it));
        AtWork { agent: name.to_string(), task: task.map(|it| it.to_string()) }
    })
    .collect()
}

impl Engine {
    pub(super) fn ask(&self, request: &Request) -> Result<(), EngineError> {
        // The coordinator asks the kernel who its caller is. Who is an agent's by its own word is one all the same.
        if self.caller != Caller::Person {
            let what = match request {
                Request::Shutdown { .. } => "shut a team down",
                Request::Delete { .. } => "delete a team",
                Request::Approve { .. } => "answer a permission question",
            };
            return Err(Refusal::new("not_allowed", format!("an agent may not {what}: it is for a person"))
                .with_hint("report what you have, and ask the leader: send to `leader`")
                .into());
        }
        let value = serde_json::to_value(request).unwrap_or_default();
        let answer = guardian::request(&self.workspace, &value).map_err(|error| self.who_waits(error))?;
        let answer: Answer = serde_json::from_value(answer)
            .map_err(|error| EngineError::Coordinator(format!("gave an answer that is none: {error}")))?;
        if answer.ok {
            return Ok(());
        }
        if answer.code.as_deref() == Some("no_space") {
            let message = answer.message.unwrap_or_default();
            return Err(EngineError::NoRoom { message, hint: answer.hint });
        }
        let code = CODES.iter().find(|it| Some(**it) == answer.code.as_deref()).unwrap_or(&"refused");
        Err(Refusal { code, message: answer.message.unwrap_or_default(), hint: answer.hint }.into())
    }

    /// Where a disk is too full to write of an end, the processes end all the same.
    fn end_without_record(&self, key: &TeamKey, error: EngineError) -> EngineError {
        let refused = matches!(error, EngineError::NotYet { .. });
        let (Some(full), Some(store), false) = (room::full(&self.workspace), &self.store, refused) else {
            return error;
        };
        if self.caller != Caller::Person {
            return error;
        }
        let teams = &store.state.teams;
        let claimed = |team: &Team| -> Vec<_> {
            let spawns = team.seats.values().filter_map(|it| it.spawn.as_ref());
            spawns.filter_map(|it| it.claimed.clone()).filter(process::is_alive).collect()
        };
        let own = teams.get(key).map(claimed).unwrap_or_default();
        for seat in &own {
            process::signal(seat, Signal::SIGTERM);
        }
        for seat in &own {
            process::wait_for_end(seat, ENDS);
        }
        let left = own.iter().filter(|it| process::is_alive(it)).count();
        // The last team takes the server with it.
        let is_last = teams.iter().filter(|(it, _)| *it != key).all(|(_, it)| claimed(it).is_empty());
        if let Some(server) = store.state.server.as_ref().filter(|_| is_last) {
            process::signal(&server.process, Signal::SIGTERM);
        }
        let ended = match left {
            0 => "its processes have ended".to_owned(),
            many => format!("{many} of its processes still run"),
        };
        EngineError::NoRoom {
            message: format!("the end of team `{key}` cannot be recorded, {ended}: {}", full.what()),
            hint: Some(format!("make room, see `{}`; then shut it down again", full.command())),
        }
    }

    /// Says of which process the answer is missing.
    fn who_waits(&self, error: EngineError) -> EngineError {
        let coordinator = self.store.as_ref().and_then(|it| it.state.coordinator.as_ref());
        match (error, coordinator) {
            (EngineError::NotYet { message, .. }, Some(it)) => {
                let pid = it.process.pid;
                let hint = Some(format!("run `kill -CONT {pid}` if its process was stopped"));
                EngineError::NotYet { message, hint }
            }
            (error, _) => error,
        }
    }

    /// Shuts a team down: sessions end, everything is kept.
    pub fn shutdown(&mut self) -> Result<ShutDown, EngineError> {
        let key = self.team()?;
        let before = self.store()?.state.teams.get(&key).cloned().unwrap_or_default();
        let already = before.state == TeamState::Stopped;
        let coordinator = self.store()?.state.coordinator.clone();
        let live: Vec<String> = before
            .seats
            .iter()
            .filter(|(_, it)| it.state.is_live())
            .map(|(name, _)| name.to_string())
            .collect();
        let at_work = if already { Vec::new() } else { at_work(&before) };
        if !already {
            self.ask(&Request::Shutdown { team: key.to_string() })
                .map_err(|error| self.end_without_record(&key, error))?;
            let limit = self.clock.elapsed() + SHUTDOWN;
            let done = self.follow_tended(limit, |state| {
                let team = state.teams.get(&key);
                let stopped = team.is_none_or(|it| matches!(it.state, TeamState::Stopped | TeamState::Lost));
                let any = state
                    .teams
                    .values()
                    .any(|it| matches!(it.state, TeamState::Running | TeamState::Stopping));
                // The last team takes the server and the coordinator with it.
                (stopped && (any || state.coordinator.is_none())).then_some(())
            })?;
            if done.is_none() {
                let full = room::full(&self.workspace).map(|it| format!(": {}", it.what()));
                return Err(EngineError::NotYet {
                    message: format!("team `{key}` is still shutting down{}", full.unwrap_or_default()),
                    hint: Some(format!(
                        "run `{}` to see what still runs",
                        decide::command_for("status", &key)
                    )),
                });
            }
            self.forget_secrets(&key);
            // It says that it ends, then it does: nothing of ours is left when the caller goes on.
            if let (Some(process), None) = (coordinator, &self.store()?.state.coordinator) {
                process::wait_for_end(&process.process, LAST_STEPS);
            }
        }
        let team = self.store()?.state.teams.get(&key).cloned().unwrap_or_default();
        Ok(ShutDown {
            team: key.to_string(),
            stopped: live,
            at_work,
            uncollected: team.results.uncollected.len(),
            open_tasks: team.tasks.len(),
            already,
            restart: decide::command_for("restart", &key),
        })
    }

    /// A stopped team leaves no captured environment behind.
    fn forget_secrets(&self, key: &TeamKey) {
        let _ = std::fs::remove_file(self.workspace.state_dir.join("env").join(format!("{key}.json")));
        crate::wish::forget(&self.workspace, key);
        let seats = self.workspace.state_dir.join("seats").join(key.as_str());
        for seat in std::fs::read_dir(seats).into_iter().flatten().filter_map(Result::ok) {
            crate::launch::forget_env(&seat.path());
        }
    }

    /// Forgets a stopped team: its state goes, what people wrote stays.
    pub fn delete(&mut self, name: &str, confirm: bool) -> Result<Deleted, EngineError> {
        self.team = Some(name.to_owned());
        let key = self.team()?;
        decide::delete_team(&self.store()?.state, &key)?;
        if !confirm {
            return Err(Refusal::new(
                "not_confirmed",
                format!("deleting team `{key}` forgets its tasks, messages and results"),
            )
            .with_hint(format!("run `team-agent delete {key} --confirm` to do it"))
            .into());
        }
        self.ask(&Request::Delete { team: key.to_string() })?;
        let home = self.workspace.team_root().join(key.as_str());
        for part in ["spec.json", "runs", "shared", "runtime"] {
            let path = home.join(part);
            let _ = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        }
        let _ = std::fs::remove_dir_all(self.workspace.state_dir.join("seats").join(key.as_str()));
        self.forget_secrets(&key);
        let _ = crate::grants::forget(&self.workspace, &key);
        let mut kept: Vec<PathBuf> = std::fs::read_dir(&home)
            .map(|it| it.filter_map(|it| Some(it.ok()?.path())).collect())
            .unwrap_or_default();
        kept.sort();
        Ok(Deleted { team: key.to_string(), kept })
    }

    /// What shows a seat's screen, or the whole team's.
    pub fn attach(&self, agent: Option<&str>, may_type: bool) -> Result<AttachTarget, EngineError> {
        let key = self.team()?;
        let store = self.store()?;
        let team = self.team_state(&key)?;
        let restart = format!("run `{}` to start it again", decide::command_for("restart", &key));
        let server =
            store.state.server.as_ref().filter(|it| process::is_alive(&it.process)).ok_or_else(|| {
                Refusal::new("team_stopped", format!("team `{key}` has no terminal: it is not running"))
                    .with_hint(restart)
            })?;
        let pane = match agent {
            None => None,
            Some(name) => {
                let (found, seat) = team.find_seat(name).ok_or_else(|| decide::unknown_agent(team, name))?;
                let live = matches!(seat.state, SeatState::Starting | SeatState::Running);
                let pane = seat.spawn.as_ref().filter(|_| live).and_then(|it| it.pane.clone());
                Some(pane.ok_or_else(|| {
                    Refusal::new(
                        "no_session",
                        format!("agent `{found}` has no session ({})", seat.state.as_str()),
                    )
                    .with_hint(format!(
                        "run `{}` to see why",
                        decide::command_for(&format!("explain {found}"), &key)
                    ))
                })?)
            }
        };
        let tmux = team_tmux::find_tmux(&process::search_path())?;
        let endpoint = team_tmux::Endpoint { tmux, socket: PathBuf::from(&server.socket) };
        if !endpoint.socket.exists() {
            // Looking for a live server whose socket was removed makes it put the socket back.
            let known = team_tmux::ServerInfo {
                pid: server.process.pid,
                start_time: server.process.start,
                version: server.version.clone(),
            };
            let _ = team_tmux::Terminal::probe(&mut team_tmux::Tmux::new(endpoint.clone(), Some(known)));
        }
        let pane = pane
            .map(|it| it.parse())
            .transpose()
            .map_err(|_| EngineError::Gone { what: "pane of", id: agent.unwrap_or_default().to_owned() })?;
        let argv = team_tmux::attach_argv(&endpoint, &team.session_name, pane, !may_type);
        Ok(AttachTarget {
            argv,
            env_remove: team_tmux::ATTACH_REMOVES.iter().map(|it| (*it).to_owned()).collect(),
        })
    }
}
