//! Going on: with a stopped team, or with one agent of a team that runs.
//!
//! Knows what is meant and which files count. How seats are started, and followed, is the start's.

use std::path::{Path, PathBuf};

use team_model::{AgentName, TeamKey};

use super::files::{Warning, read_team};
use super::start::{Progress, Started, check_environment, only_people, some_agents, workspace_of};
use super::{Engine, Scope};
use crate::decide::{self, Refusal};
use crate::error::EngineError;
use crate::launch;
use crate::wish;

impl Engine {
    /// What a directory means for a restart: a workspace, or the directory of a team in one.
    pub fn scope_of(scope: &Scope, dir: &Path) -> Scope {
        let given = Scope { workspace: Some(dir.to_owned()), ..scope.clone() };
        let team_below = |teams: &Path, name: &std::ffi::OsStr| {
            let team = scope.team.clone().or_else(|| Some(name.to_string_lossy().into_owned()));
            Some(Scope { workspace: Some(teams.parent()?.to_owned()), team, ..scope.clone() })
        };
        let cwd = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        let here = workspace_of(scope, None, &cwd);
        let Ok(real) = std::fs::canonicalize(dir) else {
            // The bare name of a team of this workspace.
            let name = dir.components().next_back().map(|it| it.as_os_str().to_owned());
            return match (here, name) {
                (Ok(root), Some(name)) if root.join(team_spec::TEAM_DIR).join(&name).is_dir() => {
                    team_below(&root.join(team_spec::TEAM_DIR), &name).unwrap_or(given)
                }
                _ => given,
            };
        };
        if let Some((teams, name)) = real.parent().zip(real.file_name())
            && teams.file_name().is_some_and(|it| it == team_spec::TEAM_DIR)
        {
            return team_below(teams, name).unwrap_or(given);
        }
        if let Ok(root) = here
            && let Ok(teams) = std::fs::read_dir(root.join(team_spec::TEAM_DIR))
        {
            for team in teams.flatten() {
                let original = team_spec::copied_from(&root, &team.file_name().to_string_lossy());
                if original.and_then(|it| std::fs::canonicalize(it).ok()) == Some(real.clone()) {
                    return team_below(&root.join(team_spec::TEAM_DIR), &team.file_name()).unwrap_or(given);
                }
            }
        }
        given
    }

    /// Goes on with a stopped team.
    pub fn restart(scope: &Scope, headless: bool, progress: Progress<'_>) -> Result<Started, EngineError> {
        only_people("start or restart a team")?;
        // What is refused changes nothing: a copy without a team of its own is not made one by this.
        let mut engine = Self::look(scope)?;
        let key = engine.team()?;
        engine.see_lost(&key)?;
        let dir =
            PathBuf::from(engine.store()?.state.teams.get(&key).map(|it| it.dir.clone()).unwrap_or_default());
        let home = engine.workspace.team_root().join(key.as_str());
        let dir = if home.is_dir() { home } else { dir };
        let root = engine.workspace.root.clone();
        let note = copy_again(&root, &key)?;
        let (source, spec) = read_team(&root, Some(&dir), None)?;
        some_agents(&spec, &source)?;
        check_environment(&spec, &source)?;
        super::grant::check(&root, &spec)?;
        let command = engine.start_command(&spec, &source.dir, headless)?;
        launch::capture_env(&engine.workspace, &key)?;
        wish::keep(&engine.workspace, &command, &spec.approvals)?;
        let resumable = engine.resumable(&key);
        let (now, by) = (engine.clock.now(), engine.by());
        engine.store_mut()?.decide(now, &by, Some(&key), |state| {
            Ok((decide::restart_team(state, &command, &resumable)?, ()))
        })?;
        Ok(Started { note, warnings: Warning::all(&spec), ..engine.follow_start(&key, None, progress)? })
    }

    /// The agent that a word for a restart means, if it means one: an agent of the team, and no team's directory.
    /// A word that is neither is refused as an agent's name.
    pub fn agent_meant(scope: &Scope, word: &Path) -> Result<Option<AgentName>, EngineError> {
        let name = word.to_str().and_then(|it| AgentName::new(it).ok());
        let (Some(name), Ok(engine)) = (name, Self::look(scope)) else { return Ok(None) };
        if engine.workspace.team_root().join(word).is_dir() {
            return Ok(None);
        }
        let key = engine.team().ok();
        let teams = engine.store().ok().map(|it| &it.state.teams);
        let Some(team) = key.zip(teams).and_then(|(key, teams)| teams.get(&key)) else { return Ok(None) };
        match team.find_seat(name.as_str()) {
            Some((found, _)) => Ok(Some(found.clone())),
            None if word.exists() => Ok(None),
            None => Err(decide::unknown_agent(team, name.as_str()).into()),
        }
    }

    /// Starts one agent of a running team again that has ended or never began, with what its role file says now.
    pub fn restart_agent(
        scope: &Scope,
        agent: &AgentName,
        progress: Progress<'_>,
    ) -> Result<Started, EngineError> {
        only_people("start or restart an agent")?;
        let mut engine = Self::look(scope)?;
        let key = engine.team()?;
        engine.see_lost(&key)?;
        let dir = engine.workspace.team_root().join(key.as_str());
        let root = engine.workspace.root.clone();
        let (source, mut spec) = read_team(&root, Some(&dir), None)?;
        spec.seats.retain(|it| it.name == *agent);
        let command = engine.start_command(&spec, &source.dir, true)?;
        let Some(seat) = command.seats.into_iter().next() else {
            return Err(Refusal::new("no_role_file", format!("agent `{agent}` has no role file any more"))
                .with_hint(format!("look into `{}`", source.roles().display()))
                .into());
        };
        check_environment(&spec, &source)?;
        let resumable = engine.resumable(&key);
        decide::restart_agent(&engine.store()?.state, &key, &seat, &resumable)?;
        launch::capture_env(&engine.workspace, &key)?;
        wish::keep_seat(&engine.workspace, &key, &seat)?;
        let (now, by) = (engine.clock.now(), engine.by());
        engine.store_mut()?.decide(now, &by, Some(&key), |state| {
            Ok((decide::restart_agent(state, &key, &seat, &resumable)?, ()))
        })?;
        Ok(Started { warnings: Warning::all(&spec), ..engine.follow_start(&key, Some(agent), progress)? })
    }
}

/// Brings what has changed in the original of a team that was copied, unless somebody has changed the copy, too.
fn copy_again(root: &Path, key: &TeamKey) -> Result<Option<String>, EngineError> {
    let Some(original) = team_spec::copied_from(root, key.as_str()) else { return Ok(None) };
    let kept = |why: String| Ok(Some(format!("the team's copy is used as it is: {why}")));
    let Ok(source) = team_spec::locate(root, Some(&original), Some(key.as_str())) else {
        return kept(format!("there is no team in `{}` any more", original.display()));
    };
    // As at a first start: nothing is copied that cannot be read.
    team_spec::compile(&source, &super::files::known())?;
    match team_spec::copy_into(&source) {
        Ok(_) => Ok(None),
        Err(error @ (team_spec::CopyError::Differs { .. } | team_spec::CopyError::OtherRole { .. })) => {
            kept(match &error {
                team_spec::CopyError::Differs { edited: true, .. } => {
                    format!("{error}; {}", error.hint().unwrap_or_default())
                }
                _ => error.to_string(),
            })
        }
        Err(error) => Err(error.into()),
    }
}
