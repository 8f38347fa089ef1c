//! Operations: what a command or a tool does. Each fetches plain data or carries out one wish.

mod again;
mod approval;
mod doctor;
mod end;
mod explain;
mod files;
mod follow;
mod grant;
mod inbox;
mod message;
mod read;
mod restart;
mod result;
mod start;
mod status;
mod told;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use team_model::{AgentName, By, SpawnId, TeamKey};

use crate::clock::{Clock, RealClock};
use crate::decide::{Refusal, Reporter};
use crate::error::EngineError;
use crate::process;
use crate::seat_file::{SEAT_VARIABLE, SeatFile};
use crate::store::Store;
use crate::workspace::{self, Workspace, WorkspaceError};

pub use approval::{ApprovalShown, Approvals, Approved};
pub use doctor::{Check, CheckLevel, Doctor, ProgramFound, doctor, programs};
pub use end::{AtWork, Attach, AttachTarget, Deleted, ShutDown};
pub use explain::{Explained, ReceiptOf, StepShown};
pub(crate) use files::known;
pub use files::{Compiled, CompiledSeat, Initialized, ProfileWritten, Warning, compile, init, init_profile};
pub use follow::{EventLine, Told, Waited, Wish};
pub use grant::{GrantsShown, Missing};
pub use inbox::{Inbox, InboxEntry};
pub use message::{LONGEST_TEXT, ReceiptShown, SendArgs, Sent, SentTo, Text};
pub use read::{ReadAgent, TeamRead};
pub use result::{Collected, ReportArgs, Reported, ResultShown, Results, TestShown};
pub use start::{Progress, SeatProgress, StartOptions, Started, only_people};
pub use status::{
    ActivityShown, AgentShown, Attention, CoordinatorShown, LeaderShown, OtherTeam, Owed, QuestionShown,
    ResultCounts, SessionShown, Status,
};
pub use told::held;

/// The version of the shape of every answer in JSON.
pub const SCHEMA_VERSION: u32 = 1;

/// Where an operation works.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// `--workspace`.
    pub workspace: Option<PathBuf>,
    /// `--team`: a key, a `name:` or a session name.
    pub team: Option<String>,
    /// A seat file given as an argument.
    pub seat_file: Option<PathBuf>,
}

/// Who calls, as far as it is proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Caller {
    /// A person, outside every seat.
    Person,
    /// A seat, by its seat file and ancestry.
    Seat {
        /// Its team.
        team: TeamKey,
        /// Its name.
        agent: AgentName,
        /// The start that speaks.
        spawn: SpawnId,
    },
    /// Somebody with a seat file that is not theirs.
    Unproved,
}

/// An opened workspace, ready for operations.
pub struct Engine {
    pub(crate) workspace: Workspace,
    pub(crate) store: Option<Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) caller: Caller,
    team: Option<String>,
}

impl Engine {
    /// Opens the workspace that a scope means; writes nothing.
    pub fn look(scope: &Scope) -> Result<Self, EngineError> {
        let named = scope.seat_file.clone().or_else(|| std::env::var_os(SEAT_VARIABLE).map(PathBuf::from));
        let seat = named.as_ref().and_then(|path| Some((path.clone(), SeatFile::read(path).ok()?)));
        let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let root = match (&scope.workspace, &seat) {
            (None, Some((_, seat))) => Workspace::present_root(&seat.state_dir, &seat.workspace),
            (given, _) => workspace::discover(given.as_deref(), &cwd)?,
        };
        let workspace = Workspace::look(&root)?;
        let store = Store::look(&workspace)?;
        let caller = match (&named, seat) {
            // In another workspace a seat is nobody.
            (_, Some((path, seat))) if seat.is_genuine(&path, &workspace) => proved(&path, &seat),
            (Some(_), _) => Caller::Unproved,
            (None, _) if crate::seat::is_above() => Caller::Unproved,
            (None, _) => Caller::Person,
        };
        let team = match (&scope.team, &caller) {
            (None, Caller::Seat { team, .. }) => Some(team.to_string()),
            (given, _) => given.clone(),
        };
        Ok(Self { workspace, store, clock: Arc::new(RealClock::default()), caller, team })
    }

    /// Opens it for a tool server. That speaks for nobody unless a seat vouches for it: it is started by a program, and
    /// a program is never the person.
    pub fn for_tool_server(scope: &Scope) -> Result<Self, EngineError> {
        let mut engine = Self::look(scope)?;
        let nested = scope.seat_file.as_deref().is_some_and(is_of_a_nested_program);
        if nested || engine.caller == Caller::Person {
            engine.caller = Caller::Unproved;
        }
        Ok(engine)
    }

    /// Opens it for writing: the log and the state directory are there afterwards.
    pub fn open(scope: &Scope) -> Result<Self, EngineError> {
        let mut engine = Self::look(scope)?;
        engine.make_writable()?;
        Ok(engine)
    }

    pub(crate) fn make_writable(&mut self) -> Result<(), EngineError> {
        if self.store.is_none() || self.workspace.id.is_empty() {
            self.workspace = Workspace::open(&self.workspace.root)?;
            self.store = Some(Store::open(&self.workspace)?);
        }
        Ok(())
    }

    /// The directory that holds `.team/`.
    pub fn root(&self) -> &Path {
        &self.workspace.root
    }

    /// The workspace's places.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Who calls.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// What is known of a team.
    pub(crate) fn team_state(&self, key: &TeamKey) -> Result<&team_model::Team, EngineError> {
        let found = self.store()?.state.teams.get(key);
        found.ok_or_else(|| EngineError::Gone { what: "team", id: key.to_string() })
    }

    pub(crate) fn by(&self) -> By {
        match &self.caller {
            Caller::Person => By::Person,
            Caller::Seat { agent, spawn, .. } => By::Agent { agent: agent.clone(), spawn: *spawn },
            Caller::Unproved => By::Unknown,
        }
    }

    pub(crate) fn reporter(&self) -> Reporter {
        match &self.caller {
            Caller::Seat { agent, spawn, .. } => Reporter::Agent { agent: agent.clone(), spawn: *spawn },
            Caller::Person | Caller::Unproved => Reporter::Unknown,
        }
    }

    pub(crate) fn store(&self) -> Result<&Store, EngineError> {
        self.store.as_ref().ok_or_else(|| self.no_team())
    }

    pub(crate) fn store_mut(&mut self) -> Result<&mut Store, EngineError> {
        if self.store.is_none() {
            return Err(self.no_team());
        }
        self.store.as_mut().ok_or_else(|| WorkspaceError::NoTeam(PathBuf::new()).into())
    }

    fn no_team(&self) -> EngineError {
        let refusal = Refusal::new(
            "not_started",
            format!("no team was started in `{}`", self.workspace.root.display()),
        );
        let home = self.workspace.team_root().join(self.team.as_deref().unwrap_or(team_spec::DEFAULT_KEY));
        let has_spec = home.join("TEAM.md").is_file() || home.join("agents").is_dir();
        let hint = if !has_spec {
            "run `team-agent init`, then `team-agent quick-start`".to_owned()
        } else if let Some(team) = &self.team {
            format!("run `team-agent quick-start .team/{team}` to start it")
        } else {
            "run `team-agent quick-start` to start it".to_owned()
        };
        refusal.with_hint(hint).into()
    }

    /// The team that the call is about: by key, name or session; else the only one, else the default.
    pub fn team(&self) -> Result<TeamKey, EngineError> {
        let store = self.store()?;
        let teams = &store.state.teams;
        if let Some(wanted) = &self.team {
            let mut found: Vec<&TeamKey> = teams
                .iter()
                .filter(|(key, team)| {
                    key.is_same(wanted) || team.name == *wanted || team.session_name == *wanted
                })
                .map(|(key, _)| key)
                .collect();
            if let Some(exact) = found.iter().position(|it| it.as_str() == wanted) {
                found = vec![found[exact]];
            }
            return match found.as_slice() {
                [only] => Ok((*only).clone()),
                [] => {
                    let refusal =
                        Refusal::new("no_such_team", format!("no team `{wanted}` was started here"));
                    let names: Vec<_> = teams.keys().map(TeamKey::as_str).collect();
                    let hint = if self.workspace.team_root().join(wanted).join("TEAM.md").is_file() {
                        format!("run `team-agent quick-start .team/{wanted}` to start it")
                    } else if names.is_empty() {
                        "run `team-agent quick-start` to start one".to_owned()
                    } else {
                        format!("there is: {}", names.join(", "))
                    };
                    Err(refusal.with_hint(hint).into())
                }
                many => {
                    let keys: Vec<_> = many.iter().map(|it| it.as_str()).collect();
                    let message = format!("`{wanted}` names several teams: {}", keys.join(", "));
                    Err(Refusal::new("ambiguous_team", message)
                        .with_hint(format!("use `--team {}`", keys[0]))
                        .into())
                }
            };
        }
        if let Some(current) = teams.keys().find(|it| it.as_str() == team_spec::DEFAULT_KEY) {
            return Ok(current.clone());
        }
        let mut keys = teams.keys();
        match (keys.next(), keys.next()) {
            (Some(only), None) => Ok(only.clone()),
            (None, _) => Err(self.no_team()),
            (Some(first), Some(_)) => {
                let all: Vec<_> = teams.keys().map(TeamKey::as_str).collect();
                let message = format!("there are several teams: {}", all.join(", "));
                Err(Refusal::new("which_team", message).with_hint(format!("add `--team {first}`")).into())
            }
        }
    }
}

/// A seat file proves its holder only below the process that claimed it.
fn proved(path: &Path, seat: &SeatFile) -> Caller {
    let below =
        SeatFile::claimed_by(path).is_some_and(|claimed| process::is_ancestor(&claimed, std::process::id()));
    if below {
        Caller::Seat { team: seat.team.clone(), agent: seat.agent.clone(), spawn: seat.spawn }
    } else {
        Caller::Unproved
    }
}

/// Says whether this tool server was started by another program than the seat's own, which is known and runs.
fn is_of_a_nested_program(path: &Path) -> bool {
    let Ok(seat) = SeatFile::read(path) else { return false };
    let starts_it =
        team_provider::provider(&seat.provider).is_some_and(team_provider::Provider::starts_servers);
    let live = SeatFile::live(path).map(|it| it.client);
    let client = live.filter(|it| process::identify(it.pid).as_ref() == Some(it));
    starts_it && client.is_some_and(|it| process::parent().as_ref() != Some(&it))
}
