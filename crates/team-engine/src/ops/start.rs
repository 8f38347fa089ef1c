//! Starting a team: quick-start and restart. Everything is checked before anything changes; then the wish is written
//! and the log is followed until every seat is ready or has said why not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use team_model::{AgentName, LeaderBinding, SeatState, State, TeamKey, TeamState};

use super::files::{Warning, read_team};
use super::{Engine, Scope};
use crate::decide::{self, Refusal, StartCommand, StartSeat};
use crate::error::EngineError;
use crate::guardian;
use crate::launch;
use crate::process;
use crate::seat_file::SEAT_VARIABLE;
use crate::store::Store;
use crate::wish;
use crate::workspace::{self, Workspace, WorkspaceError};

/// How long a whole start may take; each seat has its own limit below it.
const WHOLE_START: Duration = Duration::from_secs(75);

/// How long a question that only a person may answer is waited for: one who watches may be about to answer it.
const ASKED: Duration = Duration::from_secs(3);

/// How long a coordinator may take to see that a server is gone.
const SEE_LOST: Duration = Duration::from_secs(10);

/// What a start is told.
#[derive(Debug, Clone, Default)]
pub struct StartOptions {
    /// The team's directory.
    pub dir: Option<PathBuf>,
    /// The key for a team that is copied below `.team/`.
    pub team_id: Option<String>,
    /// Without a leader.
    pub headless: bool,
}

/// How far one seat is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SeatProgress {
    /// Its name.
    pub agent: String,
    /// The word for its state.
    pub state: String,
    /// Why, where the word does not say it.
    pub reason: Option<String>,
    /// The last lines of its screen, where it failed.
    pub last_lines: Vec<String>,
    /// What to know of this start besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// How far a start is.
pub type Progress<'a> = &'a mut dyn FnMut(&SeatProgress);

/// A start that was carried out.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Started {
    /// Whether every seat can take a message.
    pub ready: bool,
    /// What proves it, in a word.
    pub ready_signal: String,
    /// The tmux session.
    pub session_name: String,
    /// The team's key.
    pub team: String,
    /// Commands that show a seat's screen.
    pub attach_commands: Vec<String>,
    /// Each seat.
    pub agents: Vec<SeatProgress>,
    /// Whether a leader is bound.
    pub leader_bound: bool,
    /// Patterns of permission questions that are allowed without a person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allows: Vec<String>,
    /// What may be wrong in the team's files and stops nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// What a person should know of it besides.
    pub note: Option<String>,
}

impl Engine {
    /// Starts a team for the first time.
    pub fn quick_start(
        scope: &Scope,
        options: &StartOptions,
        progress: Progress<'_>,
    ) -> Result<Started, EngineError> {
        only_people("start or restart a team")?;
        let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let root = workspace_of(scope, options.dir.as_deref(), &cwd)?;
        let (source, spec) = read_team(&root, options.dir.as_deref(), options.team_id.as_deref())?;
        some_agents(&spec, &source)?;
        check_environment(&spec, &source)?;
        super::grant::check(&root, &spec)?;
        let seen = refuse_started(&root, &spec.key)?;
        let (source, _) = team_spec::copy_into(&source)?;
        let spec = team_spec::compile(&source, &super::files::known())?;
        spec.save(&source.dir).map_err(|error| EngineError::Io {
            doing: "write the spec into",
            path: source.dir.clone(),
            source: error,
        })?;
        let workspace = Workspace::open(&root)?;
        if let Some(store) = seen {
            store.keep_for_others();
        }
        let mut engine = Self::open(&Scope { workspace: Some(workspace.root.clone()), ..scope.clone() })?;
        let command = engine.start_command(&spec, &source.dir, options.headless)?;
        let key = spec.key.clone();
        // Checked against the log before the environment of an earlier start is replaced.
        decide::start_team(&engine.store()?.state, &command)?;
        launch::capture_env(&engine.workspace, &key)?;
        wish::keep(&engine.workspace, &command, &spec.approvals)?;
        let (now, by) = (engine.clock.now(), engine.by());
        engine
            .store_mut()?
            .decide(now, &by, Some(&key), |state| Ok((decide::start_team(state, &command)?, ())))?;
        Ok(Started { warnings: Warning::all(&spec), ..engine.follow_start(&key, None, progress)? })
    }

    /// A team whose server ended with nobody there to see it is recorded as lost first.
    pub(super) fn see_lost(&mut self, key: &TeamKey) -> Result<(), EngineError> {
        let gone = |state: &State| {
            let team =
                state.teams.get(key).is_some_and(|it| it.state == TeamState::Running && it.has_live_seats());
            team && state.server.as_ref().is_some_and(|it| !process::is_alive(&it.process))
        };
        if gone(&self.store()?.state) {
            let _coordinator = guardian::ensure(&self.workspace)?;
            let limit = self.clock.elapsed() + SEE_LOST;
            self.follow_until(limit, |state| (!gone(state)).then_some(()))?;
        }
        Ok(())
    }

    pub(super) fn start_command(
        &self,
        spec: &team_spec::Spec,
        dir: &Path,
        headless: bool,
    ) -> Result<StartCommand, EngineError> {
        let store = self.store()?;
        let mut seats = Vec::new();
        for seat in &spec.seats {
            let mut described = seat.to_event();
            described.instructions = store.body(&seat.instructions, 0)?;
            seats.push(StartSeat { agent: seat.name.clone(), spec: described });
        }
        Ok(StartCommand {
            team: spec.key.clone(),
            name: spec.name.clone(),
            session_name: spec.session_name.clone(),
            dir: dir.to_string_lossy().into_owned(),
            digest: spec.digest.clone(),
            goal: spec.goal_text().map(str::to_owned),
            leader: if headless { None } else { bound_leader() },
            seats,
        })
    }

    /// Says for a seat whether its conversation can be found again.
    pub(super) fn resumable(&self, key: &TeamKey) -> impl Fn(&AgentName) -> Result<bool, String> + use<> {
        let team = self.store.as_ref().and_then(|it| it.state.teams.get(key)).cloned();
        let workspace = self.workspace.clone();
        let key = key.clone();
        move |agent| {
            let Some(seat) = team.as_ref().and_then(|it| it.seats.get(agent)) else { return Ok(false) };
            let Some(native) = seat.session.as_ref().and_then(|it| it.native.clone()) else {
                return Err("the id of its conversation was never proved".to_owned());
            };
            let Some(spawn) = &seat.spawn else { return Ok(true) };
            let path = workspace.seat_dir(key.as_str(), agent.as_str()).join(&spawn.seat);
            let Ok(file) = crate::seat_file::SeatFile::read(&path) else { return Ok(true) };
            let Some(provider) = team_provider::provider(&seat.spec.provider) else { return Ok(false) };
            let places = team_provider::SeatPlaces {
                config_home: &file.config_home,
                cwd: &file.cwd,
                native_id: Some(&native),
                transcript: None,
                provider_pid: None,
            };
            let transcripts: Vec<_> = provider
                .files_to_watch(&places)
                .into_iter()
                .filter(|it| it.kind == team_provider::RecordKind::Transcript)
                .collect();
            match transcripts.iter().find(|it| !it.path.exists()) {
                Some(missing) => Err(format!("its transcript is gone: {}", missing.path.display())),
                None => Ok(true),
            }
        }
    }

    /// Follows the log until every seat, or the only one that was started, is ready or has failed.
    pub(super) fn follow_start(
        mut self,
        key: &TeamKey,
        only: Option<&AgentName>,
        progress: Progress<'_>,
    ) -> Result<Started, EngineError> {
        let is_started = |name: &AgentName| only.is_none_or(|it| it == name);
        let _coordinator = guardian::ensure(&self.workspace)?;
        let mut shown: Vec<SeatProgress> = Vec::new();
        let limit = self.clock.elapsed() + WHOLE_START;
        let clock = self.clock.clone();
        self.follow_tended(limit, |state| {
            let team = state.teams.get(key)?;
            let now = clock.now();
            let started = || team.seats.iter().filter(|(name, _)| is_started(name));
            let seats: Vec<SeatProgress> = started().map(|(name, seat)| seat_progress(name, seat)).collect();
            for seat in &seats {
                if !shown.contains(seat) {
                    progress(seat);
                }
            }
            shown = seats;
            let settled = started().all(|(_, it)| {
                matches!(it.state, SeatState::Running | SeatState::Failed { .. } | SeatState::Stopped { .. })
                    || waits_for_a_person(it, now)
            });
            (settled || team.state != TeamState::Running).then_some(())
        })?;
        let store = self.store()?;
        let team = store
            .state
            .teams
            .get(key)
            .ok_or_else(|| EngineError::Gone { what: "team", id: key.to_string() })?;
        let started = || team.seats.iter().filter(|(name, _)| is_started(name));
        let agents: Vec<SeatProgress> = started().map(|(name, seat)| seat_progress(name, seat)).collect();
        let ready =
            team.state == TeamState::Running && started().all(|(_, it)| it.state == SeatState::Running);
        let signal = match only {
            _ if !ready => "",
            None => "every agent is proved able to take a message",
            Some(_) => "the agent is proved able to take a message",
        };
        Ok(Started {
            ready,
            ready_signal: signal.to_owned(),
            session_name: team.session_name.clone(),
            team: key.to_string(),
            attach_commands: attach_commands(key, started().map(|it| it.0)),
            agents,
            leader_bound: team.leader.bound.is_some(),
            allows: wish::approvals(&self.workspace, key).allow,
            warnings: Vec::new(),
            note: None,
        })
    }
}

pub(crate) fn attach_commands<'a>(key: &TeamKey, agents: impl Iterator<Item = &'a AgentName>) -> Vec<String> {
    agents.map(|it| decide::command_for(&format!("attach {it}"), key)).collect()
}

fn seat_progress(name: &AgentName, seat: &team_model::Seat) -> SeatProgress {
    let reason = match &seat.state {
        SeatState::Failed { why } => Some(why.clone()),
        SeatState::Stopped { cause } => Some(cause.to_string()),
        SeatState::Running => None,
        _ => seat
            .activity
            .reason
            .clone()
            .filter(|_| seat.activity.kind == team_model::ActivityKind::AwaitingTrust)
            .map(|it| format!("its program asks a person: {it}")),
    };
    let state = match seat.state {
        SeatState::Running => "ready",
        SeatState::Starting if reason.is_some() => seat.activity.kind.as_str(),
        _ => seat.state.as_str(),
    };
    SeatProgress {
        agent: name.to_string(),
        state: state.to_owned(),
        reason,
        last_lines: seat.last_lines.clone(),
        notes: seat.spawn.as_ref().map(|it| it.notes.clone()).unwrap_or_default(),
    }
}

/// Says whether a start stands still because its program asks something that only a person may answer.
fn waits_for_a_person(seat: &team_model::Seat, now: chrono::DateTime<chrono::Utc>) -> bool {
    seat.state == SeatState::Starting
        && seat.activity.kind == team_model::ActivityKind::AwaitingTrust
        && seat.activity.since.is_some_and(|since| (now - since).to_std().is_ok_and(|it| it >= ASKED))
}

/// The workspace of a first start: given, around the team directory, or the nearest, else here.
pub(super) fn workspace_of(scope: &Scope, dir: Option<&Path>, cwd: &Path) -> Result<PathBuf, EngineError> {
    if let Some(given) = &scope.workspace {
        return Ok(workspace::discover(Some(given), cwd)?);
    }
    if let Some(dir) = dir
        && let Ok(dir) = std::fs::canonicalize(cwd.join(dir))
    {
        let below = dir.ancestors().find(|it| it.file_name().is_some_and(|name| name == ".team"));
        if let Some(root) = below.and_then(Path::parent) {
            return Ok(root.to_owned());
        }
    }
    match workspace::discover(None, cwd) {
        Ok(found) => Ok(found),
        Err(_) => std::fs::canonicalize(cwd).map_err(|source| EngineError::Io {
            doing: "enter",
            path: cwd.to_owned(),
            source,
        }),
    }
}

/// Only a person makes and starts teams; a seat would start its own.
pub fn only_people(what: &str) -> Result<(), EngineError> {
    if std::env::var_os(SEAT_VARIABLE).is_none() && !crate::seat::is_above() {
        return Ok(());
    }
    Err(Refusal::new("not_allowed", format!("an agent may not {what}"))
        .with_hint("ask the person who leads the team to run it in a shell of their own")
        .into())
}

/// A team of nobody would be ready at once and of no use.
pub(super) fn some_agents(spec: &team_spec::Spec, source: &team_spec::TeamSource) -> Result<(), EngineError> {
    if !spec.seats.is_empty() {
        return Ok(());
    }
    let roles = source.roles();
    let roles = roles.strip_prefix(&source.workspace).unwrap_or(&roles).display().to_string();
    Err(Refusal::new("no_agents", format!("team `{}` has no agents", spec.key))
        .with_hint(format!("write a role file such as `{roles}/coder.md`; `docs/team-files.md` shows one"))
        .into())
}

/// A team with state is not started again, and nothing of it is overwritten.
fn refuse_started(root: &Path, key: &TeamKey) -> Result<Option<Store>, EngineError> {
    let workspace = match Workspace::look(root) {
        Ok(workspace) => workspace,
        Err(WorkspaceError::NoTeam(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Some(store) = Store::look(&workspace)? else { return Ok(None) };
    if store.state.teams.contains_key(key) {
        let command = StartCommand {
            team: key.clone(),
            name: String::new(),
            session_name: String::new(),
            dir: String::new(),
            digest: String::new(),
            goal: None,
            leader: None,
            seats: Vec::new(),
        };
        decide::start_team(&store.state, &command)?;
    }
    Ok(Some(store))
}

/// tmux and every seat's program must be there before anything is written.
pub(super) fn check_environment(
    spec: &team_spec::Spec,
    source: &team_spec::TeamSource,
) -> Result<(), EngineError> {
    let tmux = team_tmux::find_tmux(&process::search_path())?;
    team_tmux::supported_version(&tmux)?;
    let env = std::env::vars_os()
        .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
        .collect();
    for seat in &spec.seats {
        if let Some(provider) = team_provider::provider(&seat.provider) {
            launch::program_of(provider, &env).map_err(|error| match error {
                EngineError::NoProgram { program } => EngineError::NoProgramFor {
                    program,
                    agent: seat.name.to_string(),
                    file: role_file(source, &seat.source),
                },
                other => other,
            })?;
        }
    }
    Ok(())
}

/// A seat's role file as a person finds it from the workspace.
fn role_file(source: &team_spec::TeamSource, named: &str) -> String {
    let path = match Path::new(named).file_name() {
        Some(name) => source.roles().join(name),
        None => source.roles(),
    };
    path.strip_prefix(&source.workspace).unwrap_or(&path).display().to_string()
}

/// The pane this command was started from, if it is one.
fn bound_leader() -> Option<LeaderBinding> {
    let tmux = team_tmux::find_tmux(&std::env::var_os("PATH")?).ok()?;
    let socket = team_tmux::UserPane::socket_of(&std::env::var_os("TMUX")?)?;
    let id = std::env::var("TMUX_PANE").ok()?.parse().ok()?;
    let endpoint = team_tmux::Endpoint { tmux, socket: socket.clone() };
    let pane = team_tmux::UserPane::bind(endpoint, id).ok()??;
    Some(LeaderBinding {
        socket: socket.to_string_lossy().into_owned(),
        pane: pane.pane().id.to_string(),
        process: process::identify(pane.pane().pid)?,
        server: process::identify(pane.server_pid())?,
    })
}
