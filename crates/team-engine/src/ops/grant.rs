//! Grants: what a person allows the teams of a workspace beyond what they may by themselves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use team_model::{Event, TeamKey};

use super::files::read_team;
use super::start::workspace_of;
use super::{Engine, Scope, only_people};
use crate::decide::{self, Refusal};
use crate::error::EngineError;
use crate::grants::{self, Grants};
use crate::workspace::Workspace;

/// What is granted in a workspace.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct GrantsShown {
    /// The folder that the agents' programs may take for trusted, with all below it.
    pub trust: Option<PathBuf>,
    /// Patterns that may allow what an agent asks, by team.
    pub approvals: BTreeMap<String, Vec<String>>,
}

/// What a start needs and nobody has granted.
#[derive(Debug, Clone)]
pub struct Missing {
    /// The patterns.
    pub patterns: Vec<String>,
    team: TeamKey,
    root: PathBuf,
}

impl From<Grants> for GrantsShown {
    fn from(grants: Grants) -> Self {
        let approvals = grants.approvals.into_iter();
        Self {
            trust: grants.folder,
            approvals: approvals.map(|(team, them)| (team.to_string(), them.into_iter().collect())).collect(),
        }
    }
}

impl Engine {
    /// Says what is granted; writes nothing.
    pub fn grants(&self) -> GrantsShown {
        Grants::read(&self.workspace).into()
    }

    /// Lets the agents' programs take the workspace's folder for trusted, or not any more.
    pub fn grant_trust(scope: &Scope, given: bool) -> Result<GrantsShown, EngineError> {
        may_grant()?;
        let mut engine = Self::open(scope)?;
        let folder = given.then(|| engine.workspace.root.clone());
        engine.change_grants("trust", given, None, |it| it.folder = folder)
    }

    /// Says which patterns a start of a team needs and nobody has granted; writes nothing.
    pub fn missing_grants(
        scope: &Scope,
        dir: Option<&Path>,
        team_id: Option<&str>,
    ) -> Result<Missing, EngineError> {
        let (root, spec) = meant(scope, dir, team_id)?;
        let grants = Workspace::look(&root).map(|it| Grants::read(&it)).unwrap_or_default();
        Ok(Missing { patterns: grants.missing(&spec.key, &spec.approvals), team: spec.key, root })
    }

    /// Grants what was shown to a person, whatever the files say by now.
    pub fn grant_missing(scope: &Scope, missing: Missing) -> Result<GrantsShown, EngineError> {
        may_grant()?;
        let mut engine = Self::open(&Scope { workspace: Some(missing.root), ..scope.clone() })?;
        let team = missing.team.clone();
        engine.change_grants("approvals", true, Some(&missing.team), |it| {
            it.approvals.entry(team).or_default().extend(missing.patterns);
        })
    }

    /// Lets the rules in a team's TEAM.md allow what its agents ask, as they are now, or not any more.
    pub fn grant_approvals(
        scope: &Scope,
        dir: Option<&Path>,
        given: bool,
    ) -> Result<GrantsShown, EngineError> {
        may_grant()?;
        let (root, spec) = meant(scope, dir, scope.team.as_deref())?;
        if given && spec.approvals.allow.is_empty() {
            let message = format!("the TEAM.md of team `{}` allows nothing", spec.key);
            return Err(Refusal::new("nothing_to_grant", message)
                .with_hint("write `approvals:` with `allow:` into it; `docs/team-files.md` shows how")
                .into());
        }
        let mut engine = Self::open(&Scope { workspace: Some(root), ..scope.clone() })?;
        let key = spec.key.clone();
        engine.change_grants("approvals", given, Some(&spec.key), |it| {
            it.approvals.remove(&key);
            if given {
                it.approvals.insert(key, spec.approvals.allow.iter().cloned().collect());
            }
        })
    }

    /// What is granted lies in the state directory; the line in the log makes it known and gives nobody a right.
    fn change_grants(
        &mut self,
        what: &str,
        given: bool,
        team: Option<&TeamKey>,
        change: impl FnOnce(&mut Grants),
    ) -> Result<GrantsShown, EngineError> {
        let grants = grants::change(&self.workspace, change)?;
        let (now, by) = (self.clock.now(), self.by());
        let event = Event::GrantChanged { grant: what.to_owned(), given };
        self.store_mut()?.decide(now, &by, team, |_| Ok((vec![event.clone()], ())))?;
        Ok(grants.into())
    }
}

/// The team whose start is meant, and its workspace.
fn meant(
    scope: &Scope,
    dir: Option<&Path>,
    team_id: Option<&str>,
) -> Result<(PathBuf, team_spec::Spec), EngineError> {
    let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let root = workspace_of(scope, dir, &cwd)?;
    let dir = dir.map(Path::to_owned).or_else(|| {
        let key = TeamKey::new(team_id?).ok()?;
        Some(root.join(team_spec::TEAM_DIR).join(key.as_str()))
    });
    let (_, spec) = read_team(&root, dir.as_deref(), team_id)?;
    Ok((root, spec))
}

/// A start with rules that nobody granted is refused before anything has changed.
pub(super) fn check(root: &Path, spec: &team_spec::Spec) -> Result<(), EngineError> {
    let grants = Workspace::look(root).map(|it| Grants::read(&it)).unwrap_or_default();
    let missing = grants.missing(&spec.key, &spec.approvals);
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!("TEAM.md allows what nobody has granted: {}", missing.join(", "));
    Err(Refusal::new("needs_grant", message)
        .with_hint(format!(
            "a person runs `{}` and starts the team then",
            decide::command_for("grant approvals", &spec.key)
        ))
        .into())
}

/// Only a person grants: no agent of a team, and no agent program that leads one.
fn may_grant() -> Result<(), EngineError> {
    only_people("grant anything")?;
    let mark = std::env::vars_os()
        .filter_map(|(name, _)| name.into_string().ok())
        .find(|it| team_provider::is_agents_mark(it));
    match mark {
        None => Ok(()),
        Some(mark) => Err(Refusal::new(
            "not_allowed",
            format!("an agent program runs this (`{mark}` is set), and only a person grants"),
        )
        .with_hint("run it in a terminal of your own")
        .into()),
    }
}
