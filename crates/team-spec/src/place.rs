//! Where a team's files lie, and how they get below `.team/`.
//!
//! Knows directories. Must not know what is in the files.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use team_model::{NameError, TeamKey, fold_case};

use crate::profile_file::PROFILES_DIR;

/// The folder of a workspace that holds its teams.
pub const TEAM_DIR: &str = ".team";
/// The file that describes a team.
pub const TEAM_FILE: &str = "TEAM.md";
/// The folder that holds role files.
pub const AGENTS_DIR: &str = "agents";
/// The key of the team that is meant when none is named.
pub const DEFAULT_KEY: &str = "current";

/// Folders of `.team/` that are no teams.
const TAKEN: &[&str] = &["context", "id", "logs", "members", "runtime"];

/// A directory that describes a team, and the key under which it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamSource {
    /// The workspace.
    pub workspace: PathBuf,
    /// The team's key.
    pub key: TeamKey,
    /// The directory that is read.
    pub dir: PathBuf,
    /// Whether that directory is the team's own one below `.team/`.
    pub in_place: bool,
    /// Whether role files lie in the directory itself instead of in `agents/`.
    pub flat: bool,
}

/// Why there is no such team.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    /// The key cannot be used.
    #[error("team key `{key}` cannot be used: {reason}")]
    BadKey {
        /// The refused key.
        key: String,
        /// Why.
        reason: String,
        /// What to do.
        hint: Option<String>,
    },
    /// There is no such directory.
    #[error("no directory `{}`", dir.display())]
    NoDirectory {
        /// The directory.
        dir: PathBuf,
    },
    /// The path is a file.
    #[error("`{}` is not a directory", dir.display())]
    NotADirectory {
        /// The path.
        dir: PathBuf,
    },
    /// The directory has neither TEAM.md nor role files.
    #[error("no team in `{}`: neither `TEAM.md` nor `agents/*.md` is there", dir.display())]
    NoTeam {
        /// The directory.
        dir: PathBuf,
        /// The command that would make one there.
        init: Option<String>,
    },
    /// A team below `.team/` runs under its directory's name only.
    #[error("the team in `{}` has the key `{key}`, not `{asked}`", dir.display())]
    OtherKey {
        /// The team's directory.
        dir: PathBuf,
        /// The key it has.
        key: TeamKey,
        /// The key that was asked for.
        asked: TeamKey,
    },
    /// The directory lies below `.team/` but is no team's.
    #[error("`{}` lies inside `.team` and is no team's directory", dir.display())]
    InsideTeamDir {
        /// The directory.
        dir: PathBuf,
    },
    /// Reading failed.
    #[error("failed to read `{}`", path.display())]
    Io {
        /// What was read.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl LocateError {
    /// Says what to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::BadKey { hint, .. } => hint.clone(),
            Self::NotADirectory { dir } => {
                dir.parent().map(|it| format!("name its directory: `{}`", it.display()))
            }
            Self::NoTeam { init: Some(command), .. } => Some(format!("run `{command}` to create one")),
            Self::NoDirectory { .. } | Self::NoTeam { .. } => {
                Some("name a directory that holds `TEAM.md` or `agents/*.md`".to_owned())
            }
            Self::OtherKey { key, .. } => Some(format!("leave `--team-id` out, or write `--team-id {key}`")),
            Self::InsideTeamDir { .. } => {
                Some("name a team's directory, for example `.team/current`".to_owned())
            }
            Self::Io { .. } => None,
        }
    }
}

impl TeamSource {
    /// Returns the team's own directory below `.team/`.
    pub fn home(&self) -> PathBuf {
        if self.in_place { self.dir.clone() } else { self.workspace.join(TEAM_DIR).join(self.key.as_str()) }
    }

    /// Returns the folder of the team's profiles.
    pub fn profiles(&self) -> PathBuf {
        self.home().join(PROFILES_DIR)
    }

    /// Returns the folder that holds the role files.
    pub fn roles(&self) -> PathBuf {
        if self.flat { self.dir.clone() } else { self.dir.join(AGENTS_DIR) }
    }

    /// Returns a path as errors name it: relative to the workspace inside it.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let inside = path.strip_prefix(&self.workspace).ok().filter(|it| !it.as_os_str().is_empty());
        inside.unwrap_or(path).display().to_string()
    }
}

/// Finds the team that `dir` and `team_id` mean; relative directories count from
/// the workspace.
pub fn locate(
    workspace: &Path,
    dir: Option<&Path>,
    team_id: Option<&str>,
) -> Result<TeamSource, LocateError> {
    let workspace = canonical(workspace)?;
    let teams = fs::canonicalize(workspace.join(TEAM_DIR)).unwrap_or_else(|_| workspace.join(TEAM_DIR));
    let asked = team_id.map(check_key).transpose()?;
    let key = || asked.clone().map_or_else(|| check_key(DEFAULT_KEY), Ok);
    let source =
        |key, dir, in_place, flat| TeamSource { workspace: workspace.clone(), key, dir, in_place, flat };

    let Some(dir) = dir else {
        let key = key()?;
        let home = teams.join(key.as_str());
        return match (shape(&home)?, shape(&workspace)?) {
            (Some(Shape::Team), _) => Ok(source(key, canonical(&home)?, true, false)),
            (_, Some(Shape::Team)) => Ok(source(key, workspace.clone(), false, false)),
            _ => Err(LocateError::NoTeam { dir: home, init: Some(init(&key)) }),
        };
    };

    let dir = workspace.join(dir);
    if !dir.is_dir() {
        let exists = dir.symlink_metadata().is_ok();
        return Err(if exists {
            LocateError::NotADirectory { dir }
        } else {
            LocateError::NoDirectory { dir }
        });
    }
    let mut dir = canonical(&dir)?;
    let is_agents_of = |dir: &Path, parent: &Path| dir == parent.join(AGENTS_DIR);
    if let Some(parent) = dir.parent()
        && is_agents_of(&dir, parent)
        && (parent.parent() == Some(&teams) || parent.join(TEAM_FILE).is_file())
    {
        dir = parent.to_path_buf();
    }
    if dir.parent() == Some(&teams) {
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let key = check_key(&name)?;
        if let Some(asked) = asked.filter(|it| *it != key) {
            return Err(LocateError::OtherKey { dir, key, asked });
        }
        return match shape(&dir)? {
            Some(Shape::Team) => Ok(source(key, dir, true, false)),
            _ => Err(LocateError::NoTeam { dir, init: Some(init(&key)) }),
        };
    }
    if dir.starts_with(&teams) {
        return Err(LocateError::InsideTeamDir { dir });
    }
    match shape(&dir)? {
        Some(Shape::Team) => Ok(source(key()?, dir, false, false)),
        // The top of a workspace holds many `*.md` files that are no roles.
        Some(Shape::Flat) if dir != workspace => Ok(source(key()?, dir, false, true)),
        _ => Err(LocateError::NoTeam { init: (dir == workspace).then(|| "team-agent init".to_owned()), dir }),
    }
}

/// The command that makes a team of this key.
fn init(key: &TeamKey) -> String {
    match key.as_str() {
        DEFAULT_KEY => "team-agent init".to_owned(),
        key => format!("team-agent --team {key} init"),
    }
}

/// Checks the key of a team: the rules of agents' names, and no folder that
/// `.team/` uses otherwise.
pub fn check_key(key: &str) -> Result<TeamKey, LocateError> {
    let bad = |reason: String, hint| LocateError::BadKey { key: key.to_owned(), reason, hint };
    let found = TeamKey::new(key).map_err(|cause: NameError| bad(cause.to_string(), cause.hint()))?;
    if TAKEN.contains(&fold_case(key).as_str()) {
        let reason = "that folder of `.team` serves something else".to_owned();
        return Err(bad(reason, Some(format!("choose another key, for example `{key}-team`"))));
    }
    Ok(found)
}

enum Shape {
    /// `TEAM.md` or `agents/*.md` is there.
    Team,
    /// Only role files are there.
    Flat,
}

fn shape(dir: &Path) -> Result<Option<Shape>, LocateError> {
    if dir.join(TEAM_FILE).symlink_metadata().is_ok() || !role_files(&dir.join(AGENTS_DIR), false)?.is_empty()
    {
        return Ok(Some(Shape::Team));
    }
    Ok((!role_files(dir, true)?.is_empty()).then_some(Shape::Flat))
}

/// Returns the role files of a folder in the order of their names.
pub(crate) fn role_files(dir: &Path, flat: bool) -> Result<Vec<PathBuf>, LocateError> {
    let failed = |source| LocateError::Io { path: dir.to_path_buf(), source };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(cause) if matches!(cause.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        Err(cause) => return Err(failed(cause)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_role = path.extension().is_some_and(|it| it.eq_ignore_ascii_case("md"));
        let is_other = name.starts_with(['.', '#'])
            || (flat && (name == TEAM_FILE || name.to_lowercase().starts_with("readme")));
        if is_role && !is_other {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn canonical(path: &Path) -> Result<PathBuf, LocateError> {
    fs::canonicalize(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => LocateError::NoDirectory { dir: path.to_path_buf() },
        _ => LocateError::Io { path: path.to_path_buf(), source },
    })
}

/// Writes a file under another name first, so that nobody sees half of it.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let draft = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let result = (|| {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&draft)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    })();
    if result.is_err() {
        let _ = fs::remove_file(&draft);
    }
    result
}
