//! A team described elsewhere, copied below `.team/`.
//!
//! Knows which files are copies of ours: only those are ever replaced or removed,
//! and only while nobody changed them. Must not know what is in the files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use team_model::fold_case;

use crate::place::{
    AGENTS_DIR, DEFAULT_KEY, LocateError, TEAM_DIR, TEAM_FILE, TeamSource, role_files, write_whole,
};

/// The file that tells which files of a team's directory are copies.
const COPIED: &str = "copied.json";

/// Where copies came from, and what they held then.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Copied {
    source: String,
    files: BTreeMap<String, String>,
}

/// Why a team could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// A file of the person's stands where a copy would go.
    #[error("`{}` {} differs from `{}`", there.display(), if *edited { "was edited and" } else { "exists and" }, from.display())]
    Differs {
        /// The file below `.team/`.
        there: PathBuf,
        /// The file that was to be copied.
        from: PathBuf,
        /// Whether it was a copy of ours that somebody has changed.
        edited: bool,
        /// Whether the key was chosen for this team.
        named: bool,
    },
    /// The team below `.team/` has a role file that the copied team has not.
    #[error("`{}` belongs to another team than `{}`", there.display(), from.display())]
    OtherRole {
        /// The role file below `.team/`.
        there: PathBuf,
        /// The directory that was to be copied.
        from: PathBuf,
    },
    /// Another team's key differs only in case.
    #[error("a team `{0}` exists already")]
    SameKey(String),
    /// A link leads out of the team's directory.
    #[error("`{}` is a link that leaves its directory", .0.display())]
    Outside(PathBuf),
    /// Listing the role files failed.
    #[error(transparent)]
    Locate(#[from] LocateError),
    /// Reading or writing failed.
    #[error("failed to copy to `{}`", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl CopyError {
    /// Says what to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Differs { there, edited: true, .. } => {
                Some(format!("delete `{}` to have the original again", there.display()))
            }
            Self::Differs { named: true, .. } => {
                Some("start it beside the other team: choose another `--team-id`".to_owned())
            }
            Self::Differs { .. } | Self::OtherRole { .. } => {
                Some("start it beside the other team: add `--team-id NAME`".to_owned())
            }
            Self::SameKey(key) => Some(format!("write `--team-id {key}`, or choose another key")),
            Self::Outside(_) => Some("replace the link by what it points to".to_owned()),
            Self::Locate(cause) => cause.hint(),
            Self::Io { .. } => None,
        }
    }
}

/// Finds the directory that a team below `.team/` was copied from.
pub fn copied_from(workspace: &Path, key: &str) -> Option<PathBuf> {
    let list = fs::read(workspace.join(TEAM_DIR).join(key).join(COPIED)).ok()?;
    let copied: Copied = serde_json::from_slice(&list).ok()?;
    Some(workspace.join(copied.source))
}

/// Copies TEAM.md and the role files below `.team/`, unless they lie there, and
/// returns the team in its place with the files that were written.
pub fn copy_into(source: &TeamSource) -> Result<(TeamSource, Vec<PathBuf>), CopyError> {
    if source.in_place {
        return Ok((source.clone(), Vec::new()));
    }
    let home = source.home();
    let failed = |path: &Path| {
        let path = path.to_path_buf();
        move |source| CopyError::Io { path, source }
    };
    same_key(source)?;
    let agents = home.join(AGENTS_DIR);
    fs::create_dir_all(&agents).map_err(failed(&agents))?;
    let teams = source.workspace.join(TEAM_DIR);
    let teams = fs::canonicalize(&teams).map_err(failed(&teams))?;
    for dir in [&home, &agents] {
        let real = fs::canonicalize(dir).map_err(failed(dir))?;
        if !real.starts_with(&teams) || dir.is_symlink() {
            return Err(CopyError::Outside(dir.clone()));
        }
    }

    let earlier: Copied =
        fs::read(home.join(COPIED)).ok().and_then(|it| serde_json::from_slice(&it).ok()).unwrap_or_default();
    let mut wanted: BTreeMap<String, (PathBuf, Vec<u8>)> = BTreeMap::new();
    let read = |from: &Path| {
        // A link could bring what its reader must not see below `.team/`.
        let real = fs::canonicalize(from).map_err(failed(from))?;
        if !real.starts_with(&source.dir) {
            return Err(CopyError::Outside(from.to_path_buf()));
        }
        fs::read(&real).map_err(failed(from))
    };
    let team_file = source.dir.join(TEAM_FILE);
    if !source.flat && team_file.is_file() {
        let content = read(&team_file)?;
        wanted.insert(TEAM_FILE.to_owned(), (team_file, content));
    }
    for from in role_files(&source.roles(), source.flat)? {
        let content = read(&from)?;
        let name = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
        wanted.insert(format!("{AGENTS_DIR}/{name}"), (from, content));
    }

    // Everything is compared before anything is written.
    let mut writes = Vec::new();
    for (name, (from, content)) in &wanted {
        let there = home.join(name);
        match fs::read(&there) {
            Ok(found) if found == *content => {}
            Ok(found) if earlier.files.get(name) == Some(&hash(&found)) => writes.push((there, content)),
            Ok(_) => {
                let (edited, named) = (earlier.files.contains_key(name), source.key.as_str() != DEFAULT_KEY);
                return Err(CopyError::Differs { there, from: from.clone(), edited, named });
            }
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => writes.push((there, content)),
            Err(cause) => return Err(failed(&there)(cause)),
        }
    }
    let mut stale = Vec::new();
    let existing = role_files(&agents, false)?.into_iter().chain(Some(home.join(TEAM_FILE)));
    for there in existing.filter(|it| it.symlink_metadata().is_ok()) {
        let name = there.strip_prefix(&home).unwrap_or(&there).to_string_lossy().into_owned();
        if wanted.contains_key(&name) {
            continue;
        }
        let found = fs::read(&there).map_err(failed(&there))?;
        if earlier.files.get(&name) != Some(&hash(&found)) {
            return Err(CopyError::OtherRole { there, from: source.dir.clone() });
        }
        stale.push(there);
    }

    let mut written = Vec::new();
    for path in stale {
        fs::remove_file(&path).map_err(failed(&path))?;
    }
    for (path, content) in writes {
        write_whole(&path, content).map_err(failed(&path))?;
        written.push(path);
    }
    // The list comes last: until then the files equal their originals, and a
    // second try after a crash finds nothing to do.
    let copied = Copied {
        source: source.shown(&source.dir),
        files: wanted.iter().map(|(name, (_, content))| (name.clone(), hash(content))).collect(),
    };
    let list = home.join(COPIED);
    let json = serde_json::to_vec_pretty(&copied).expect("texts always serialize");
    write_whole(&list, &json).map_err(failed(&list))?;
    let there = TeamSource { dir: home, in_place: true, flat: false, ..source.clone() };
    Ok((there, written))
}

fn same_key(source: &TeamSource) -> Result<(), CopyError> {
    let Ok(entries) = fs::read_dir(source.workspace.join(TEAM_DIR)) else { return Ok(()) };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != source.key.as_str() && fold_case(&name) == fold_case(source.key.as_str()) {
            return Err(CopyError::SameKey(name));
        }
    }
    Ok(())
}

fn hash(content: &[u8]) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(content) {
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}
