//! Operations on what people write: init, compile, profiles.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;
use team_spec::{AuthMode, Capabilities, Effort, KeyNames, Known, Spec, TeamSource};

use crate::error::EngineError;
use crate::workspace;

/// What `init` wrote.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Initialized {
    /// The files, relative to the workspace; none if a team was there already.
    pub files: Vec<PathBuf>,
    /// The team's directory, relative to the workspace.
    pub team_directory: PathBuf,
}

/// A profile that was written.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ProfileWritten {
    /// Its name.
    pub profile: String,
    /// Its file, relative to the workspace.
    pub path: PathBuf,
    /// How an agent with it logs in.
    pub auth_mode: String,
}

/// Writes a first team into a workspace; never overwrites.
pub fn init(workspace: &Path, team: Option<&str>) -> Result<Initialized, EngineError> {
    let root = workspace::absolute(workspace)?;
    let key = team_spec::check_key(team.unwrap_or(team_spec::DEFAULT_KEY))?;
    workspace::prepare(&root)?;
    let files = team_spec::init_team(&root, key.as_str()).map_err(|source| EngineError::Io {
        doing: "write a team into",
        path: root.clone(),
        source,
    })?;
    let files = files.iter().map(|it| below(&root, it)).collect();
    Ok(Initialized { files, team_directory: Path::new(team_spec::TEAM_DIR).join(key.as_str()) })
}

fn below(root: &Path, path: &Path) -> PathBuf {
    path.strip_prefix(root).unwrap_or(path).to_owned()
}

/// Writes a profile; one that exists stays untouched.
///
/// It may be the first thing that is ever written in a workspace, so what keeps it out of git is written before it.
pub fn init_profile(
    workspace: &Path,
    team: Option<&str>,
    name: &str,
    auth_mode: AuthMode,
) -> Result<ProfileWritten, EngineError> {
    let key = team_model::TeamKey::new(team.unwrap_or(team_spec::DEFAULT_KEY)).map_err(|error| {
        EngineError::Usage {
            message: error.to_string(),
            hint: Some("give the team's directory name below `.team/`, such as `current`".to_owned()),
        }
    })?;
    team_spec::check_name(name)?;
    let root = workspace::absolute(workspace)?;
    workspace::prepare(&root)?;
    let dir = root.join(team_spec::TEAM_DIR).join(key.as_str());
    let path = team_spec::init_profile(&dir, name, auth_mode).map_err(|error| match error {
        team_spec::ProfileError::AlreadyExists { path } => {
            team_spec::ProfileError::AlreadyExists { path: below(&root, &path) }
        }
        other => other,
    })?;
    Ok(ProfileWritten {
        profile: name.to_owned(),
        path: below(&root, &path),
        auth_mode: auth_mode.as_str().to_owned(),
    })
}

/// A team's files, read.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Compiled {
    /// Its key.
    pub team: String,
    /// Its name.
    pub name: String,
    /// Its tmux session.
    pub session_name: String,
    /// The digest over everything that has a meaning.
    pub digest: String,
    /// Patterns of permission questions that are allowed without a person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allows: Vec<String>,
    /// Patterns of permission questions that are denied without a person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denies: Vec<String>,
    /// Its seats.
    pub agents: Vec<CompiledSeat>,
    /// What may be wrong in the files and stops nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// Why the result could not be kept beside the files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_written: Option<String>,
}

/// Something in a team's files that may be wrong and stops nothing.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Warning {
    /// The file, relative to the workspace where it lies inside.
    pub file: String,
    /// The line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// The column in characters, from 1; 0 when the whole file is meant.
    pub column: usize,
    /// What may be wrong.
    pub message: String,
    /// One thing that the reader can do now.
    pub hint: Option<String>,
    /// All of it, with the line itself, for people.
    #[serde(skip)]
    pub shown: String,
}

impl Warning {
    pub(crate) fn all(spec: &Spec) -> Vec<Self> {
        let warning = |it: &team_spec::SpecError| Self {
            file: it.file.clone(),
            line: it.line,
            column: it.column,
            message: it.message.clone(),
            hint: it.hint.clone(),
            shown: format!("warning: {it}"),
        };
        spec.warnings.iter().map(warning).collect()
    }
}

/// A seat as its role file describes it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
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
    let mut known = Known { models: Some(crate::models::of_provider), ..Known::default() };
    for it in team_provider::providers() {
        let (can, keys) = (it.provider().capabilities(), it.provider().key_names());
        let capabilities = Capabilities {
            fast: can.fast,
            efforts: can.effort.iter().filter_map(|it| Effort::parse(it)).collect(),
            auth_modes: can.auth.iter().filter_map(|it| AuthMode::parse(it.as_str())).collect(),
            default_model: it.provider().default_model().map(str::to_owned),
            key_names: KeyNames::new(keys.base_url, keys.api_key, keys.auth_token),
        };
        known.providers.insert(it.name.to_owned(), capabilities);
        known.aliases.extend(it.aliases.iter().map(|alias| ((*alias).to_owned(), it.name.to_owned())));
    }
    known
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
    // Only a cache: what the files mean can be said without it.
    let saved = if source.in_place { spec.save(&source.dir) } else { Ok(()) };
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
        allows: spec.approvals.allow.clone(),
        denies: spec.approvals.deny.clone(),
        agents,
        warnings: Warning::all(&spec),
        not_written: saved.err().map(|it| format!("`spec.json` could not be written: {it}")),
    })
}
