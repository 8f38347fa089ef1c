//! Profiles as files: made once, read only while nobody else can.
//!
//! Knows names, modes and places. Must not know what the keys mean.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::dotenv::LineError;
use crate::known::AuthMode;
use crate::profile::{Profile, line_error, parse_profile};

/// The folder below a team's directory that holds its profiles.
pub const PROFILES_DIR: &str = "profiles";

/// The largest profile that is read, in bytes.
const LARGEST: u64 = 64 * 1024;

/// Why there is no profile to use.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The name cannot be a file's name.
    #[error("`{name}` cannot name a profile")]
    BadName {
        /// The refused name.
        name: String,
    },
    /// There is no such file.
    #[error("profile not found: `{name}`")]
    NotFound {
        /// The profile's name.
        name: String,
        /// The mode for the line that makes it.
        auth_mode: AuthMode,
    },
    /// `profile init` found a file in its place.
    #[error("profile already exists: `{}`", path.display())]
    AlreadyExists {
        /// The file.
        path: PathBuf,
    },
    /// Others may read the file.
    #[error("profile `{name}` can be read by others (mode {mode:03o})")]
    Readable {
        /// The profile's name.
        name: String,
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is a link, a directory or something else.
    #[error("profile `{name}` is not a plain file")]
    NotAFile {
        /// The profile's name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// Some lines cannot be read or used.
    #[error("profile `{name}` has {} wrong {}", lines.len(), if lines.len() == 1 { "line" } else { "lines" })]
    Lines {
        /// The profile's name.
        name: String,
        /// The file.
        path: PathBuf,
        /// Every wrong line.
        lines: Vec<LineError>,
    },
    /// Reading or writing failed.
    #[error("failed to {action} `{}`", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl ProfileError {
    /// Says what to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::BadName { .. } => {
                Some("use letters, digits, `-`, `_` and `.`, for example `claude-work`".to_owned())
            }
            Self::NotFound { name, auth_mode } => {
                Some(format!("run `team-agent profile init {name} --auth-mode {auth_mode}`"))
            }
            Self::AlreadyExists { .. } => Some("edit it, or choose another name".to_owned()),
            Self::Readable { path, .. } => Some(format!("run `chmod 600 {}`", shell_word(path))),
            Self::NotAFile { .. } => Some("put the file itself there, not a link to it".to_owned()),
            Self::Lines { lines, .. } => {
                let hint = lines.iter().find_map(|it| it.hint);
                lines.first().map(|it| hint.map_or_else(|| it.to_string(), |hint| format!("{it}: {hint}")))
            }
            Self::Io { .. } => None,
        }
    }
}

/// Refuses names that could not be a file's name on every system.
pub fn check_name(name: &str) -> Result<(), ProfileError> {
    let good = name.chars().next().is_some_and(char::is_alphanumeric)
        && name.chars().count() <= 64
        && name.len() <= 200
        && !name.contains("..")
        && name.chars().all(|it| it.is_alphanumeric() || matches!(it, '-' | '_' | '.'));
    if good { Ok(()) } else { Err(ProfileError::BadName { name: name.to_owned() }) }
}

/// Writes a commented profile below a team's directory and returns its file.
pub fn init_profile(team_dir: &Path, name: &str, auth_mode: AuthMode) -> Result<PathBuf, ProfileError> {
    check_name(name)?;
    let dir = team_dir.join(PROFILES_DIR);
    let path = dir.join(format!("{name}.env"));
    let failed = |action, path: &Path| {
        let path = path.to_path_buf();
        move |source| ProfileError::Io { action, path, source }
    };
    fs::create_dir_all(team_dir).map_err(failed("create", team_dir))?;
    match fs::DirBuilder::new().mode(0o700).create(&dir) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed("create", &dir)(cause));
        }
        _ => {}
    }
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {
            return Err(ProfileError::AlreadyExists { path });
        }
        Err(cause) => return Err(failed("create", &path)(cause)),
    };
    let text = match auth_mode {
        AuthMode::Subscription => include_str!("../../../profiles/subscription.env"),
        AuthMode::OfficialApi => include_str!("../../../profiles/official_api.env"),
        AuthMode::CompatibleApi => include_str!("../../../profiles/compatible_api.env"),
    };
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed("write", &path))?;
    Ok(path)
}

/// Reads a profile from a folder of profiles; `wanted` is the mode that the hint
/// names when there is none.
pub fn read_profile(dir: &Path, name: &str, wanted: AuthMode) -> Result<Profile, ProfileError> {
    check_name(name)?;
    let path = dir.join(format!("{name}.env"));
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => ProfileError::NotFound { name: name.to_owned(), auth_mode: wanted },
        _ => ProfileError::Io { action: "read", path: path.clone(), source },
    };
    let found = fs::symlink_metadata(&path).map_err(failed)?;
    if !found.is_file() {
        return Err(ProfileError::NotAFile { name: name.to_owned(), path });
    }
    let file = fs::File::open(&path).map_err(failed)?;
    let opened = file.metadata().map_err(failed)?;
    // Between the look and the opening somebody may have put a link there.
    if (opened.dev(), opened.ino()) != (found.dev(), found.ino()) {
        return Err(ProfileError::NotAFile { name: name.to_owned(), path });
    }
    let mode = opened.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(ProfileError::Readable { name: name.to_owned(), path, mode });
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        let lines = vec![line_error(1, "the file is larger than 64 KiB", None)];
        return Err(ProfileError::Lines { name: name.to_owned(), path, lines });
    }
    parse_profile(name, &bytes).map_err(|lines| ProfileError::Lines { name: name.to_owned(), path, lines })
}

/// Returns a path as one word for a shell.
fn shell_word(path: &Path) -> String {
    let path = path.display().to_string();
    let plain =
        |it: char| it.is_alphanumeric() || matches!(it, '/' | '.' | '-' | '_' | '+' | ',' | '@' | ':');
    if path.chars().all(plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}
