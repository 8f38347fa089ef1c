//! Operations on what people write: init, compile, profiles.

use std::path::{Path, PathBuf};

use serde::Serialize;
use team_spec::{AuthMode, Known, Spec, TeamSource};

use crate::error::EngineError;

/// What `init` wrote.
#[derive(Debug, Clone, Serialize)]
pub struct Initialized {
    /// The files, relative to the workspace.
    pub files: Vec<PathBuf>,
}

/// Writes a first team into a workspace; never overwrites.
pub fn init(workspace: &Path) -> Result<Initialized, EngineError> {
    let files = team_spec::init_team(workspace)
        .map_err(|source| EngineError::Io { doing: "write a team into", path: workspace.to_owned(), source })?;
    let root = std::fs::canonicalize(workspace).unwrap_or_else(|_| workspace.to_owned());
    let files = files.into_iter().map(|it| it.strip_prefix(&root).map(Path::to_owned).unwrap_or(it)).collect();
    Ok(Initialized { files })
}

/// Writes a profile; one that exists stays untouched.
pub fn init_profile(workspace: &Path, name: &str, auth_mode: AuthMode) -> Result<PathBuf, EngineError> {
    let dir = workspace.join(team_spec::TEAM_DIR).join(team_spec::DEFAULT_KEY);
    Ok(team_spec::init_profile(&dir, name, auth_mode)?)
}

/// A team's files, read.
#[derive(Debug, Clone, Serialize)]
pub struct Compiled {
    /// Its key.
    pub team: String,
    /// Its name.
    pub name: String,
    /// Its tmux session.
    pub session_name: String,
    /// The digest over everything that has a meaning.
    pub digest: String,
    /// Its seats.
    pub agents: Vec<CompiledSeat>,
}

/// A seat as its role file describes it.
#[derive(Debug, Clone, Serialize)]
pub struct CompiledSeat {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: String,
    /// Its provider.
    pub provider: String,
    /// Its model.
    pub model: Option<String>,
    /// Where the model comes from.
    pub model_source: String,
    /// Its effort.
    pub effort: Option<String>,
    /// How it logs in.
    pub auth_mode: String,
    /// Its profile.
    pub profile: Option<String>,
    /// Its tools.
    pub tools: Vec<String>,
    /// The length of its instructions in characters.
    pub instructions: usize,
    /// Its role file.
    pub file: String,
}

/// What this build can start.
pub(crate) fn known() -> Known {
    let names: Vec<&str> =
        team_provider::providers().iter().filter(|it| it.implemented).map(|it| it.name).collect();
    Known::standard(&names)
}

/// Reads a team's files; writes nothing.
pub(crate) fn read_team(
    workspace: &Path,
    dir: Option<&Path>,
    team_id: Option<&str>,
) -> Result<(TeamSource, Spec), EngineError> {
    let source = team_spec::locate(workspace, dir, team_id)?;
    let spec = team_spec::compile(&source, &known())?;
    Ok((source, spec))
}

/// Reads a team's files and shows what they mean.
pub fn compile(workspace: &Path, dir: Option<&Path>, team_id: Option<&str>) -> Result<Compiled, EngineError> {
    let (source, spec) = read_team(workspace, dir, team_id)?;
    if source.in_place {
        spec.save(&source.dir)
            .map_err(|error| EngineError::Io { doing: "write the spec into", path: source.dir.clone(), source: error })?;
    }
    let agents = spec
        .seats
        .iter()
        .map(|seat| CompiledSeat {
            name: seat.name.to_string(),
            role: seat.role.clone(),
            provider: seat.provider.clone(),
            model: seat.model.value.clone(),
            model_source: seat.model.source.to_string(),
            effort: seat.effort.map(|it| it.as_str().to_owned()),
            auth_mode: seat.auth_mode.as_str().to_owned(),
            profile: seat.profile.clone(),
            tools: seat.tool_words(),
            instructions: seat.instructions.chars().count(),
            file: seat.source.clone(),
        })
        .collect();
    Ok(Compiled {
        team: spec.key.to_string(),
        name: spec.name.clone(),
        session_name: spec.session_name.clone(),
        digest: spec.digest.clone(),
        agents,
    })
}
