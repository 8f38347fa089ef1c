//! Profiles: how to log in, which address, which model.
//!
//! Knows the keys of a profile and its file's mode. Must not know under which
//! names a provider wants to be given them.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::dotenv::{LineError, parse_dotenv};
use crate::known::AuthMode;
use crate::role_file::model_problem;
use crate::secret::Secret;

/// The folder below a team's directory that holds its profiles.
pub const PROFILES_DIR: &str = "profiles";

/// The largest profile that is read, in bytes.
const LARGEST: u64 = 64 * 1024;

/// Names that would change which program runs, or what our own programs do.
const REFUSED: &[&str] = &[
    "BASH_ENV",
    "CLAUDECODE",
    "ENV",
    "HOME",
    "IFS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PATH",
    "PERL5LIB",
    "PERL5OPT",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYLIB",
    "RUBYOPT",
    "SHELL",
    "SHELLOPTS",
    "TMPDIR",
    "USER",
];

/// Names that begin like this would do the same.
const REFUSED_PREFIXES: &[&str] =
    &["BASH_FUNC_", "DYLD_", "GIT_", "LD_", "TEAM_AGENT_", "TEAM_SEAT_", "TMUX", "XDG_", "npm_"];

/// What a profile says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// How to log in, where the file says so.
    pub auth_mode: Option<AuthMode>,
    /// The model to use.
    pub model: Option<String>,
    /// The address of the service.
    pub base_url: Option<String>,
    /// A key, sent the way the provider sends keys.
    pub api_key: Option<Secret>,
    /// A token, sent as a bearer.
    pub auth_token: Option<Secret>,
    /// Variables given to the provider's program as they are.
    pub env: BTreeMap<String, Secret>,
    /// The lines that set the known keys.
    #[serde(skip)]
    pub lines: BTreeMap<&'static str, usize>,
}

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
            Self::AlreadyExists { path } => Some(format!("edit it: `{}`", path.display())),
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

/// Reads the text of a profile, or names every line that is wrong.
pub fn parse_profile(name: &str, bytes: &[u8]) -> Result<Profile, Vec<LineError>> {
    let mut profile = Profile {
        name: name.to_owned(),
        auth_mode: None,
        model: None,
        base_url: None,
        api_key: None,
        auth_token: None,
        env: BTreeMap::new(),
        lines: BTreeMap::new(),
    };
    let mut errors = Vec::new();
    // A key without a value counts as absent: templates list keys to be filled in.
    for entry in parse_dotenv(bytes)?.into_iter().filter(|it| !it.value.expose().is_empty()) {
        let line = entry.line;
        let mut wrong = |message: &str, hint| errors.push(line_error(line, message, hint));
        let value = entry.value.expose().to_owned();
        let known = match entry.key.as_str() {
            "AUTH_MODE" => {
                profile.auth_mode = AuthMode::parse(&value);
                if profile.auth_mode.is_none() {
                    let hint = "it is one of `subscription`, `official_api`, `compatible_api`";
                    wrong("`AUTH_MODE` has no such value", Some(hint));
                }
                "AUTH_MODE"
            }
            "MODEL" => {
                if let Some(problem) = model_problem(&value) {
                    wrong(&format!("`MODEL` cannot be used: {problem}"), None);
                }
                profile.model = Some(value);
                "MODEL"
            }
            "BASE_URL" => {
                if let Err((message, hint)) = check_address(&value) {
                    wrong(message, Some(hint));
                }
                profile.base_url = Some(value);
                "BASE_URL"
            }
            "API_KEY" => {
                profile.api_key = Some(entry.value);
                "API_KEY"
            }
            "AUTH_TOKEN" => {
                profile.auth_token = Some(entry.value);
                "AUTH_TOKEN"
            }
            "CAPACITY" => {
                wrong("`CAPACITY` is not supported yet", Some("remove the line; a later version reads it"));
                continue;
            }
            key if REFUSED.contains(&key) || REFUSED_PREFIXES.iter().any(|it| key.starts_with(it)) => {
                let hint = "set it in the shell that starts the team, if it is needed at all";
                wrong(
                    &format!("`{key}` cannot be set by a profile: it changes which programs run"),
                    Some(hint),
                );
                continue;
            }
            _ => {
                profile.env.insert(entry.key, entry.value);
                continue;
            }
        };
        profile.lines.insert(known, line);
    }
    if errors.is_empty() { Ok(profile) } else { Err(errors) }
}

impl Profile {
    /// Names every key that a mode needs and the profile lacks, or the other way round.
    pub fn check_for(&self, mode: AuthMode) -> Result<(), Vec<LineError>> {
        let mut errors = Vec::new();
        let mut refuse = |key: &str, is_set: bool, why| {
            if is_set {
                let line = self.lines.get(key).copied().unwrap_or(0);
                errors.push(line_error(
                    line,
                    &format!("`{key}` has no place in auth mode `{mode}`"),
                    Some(why),
                ));
            }
        };
        let official = "for another service use `compatible_api`";
        match mode {
            AuthMode::Subscription => {
                let why = "a subscription uses the provider's own log-in; for a key use `official_api`";
                refuse("API_KEY", self.api_key.is_some(), why);
                refuse("AUTH_TOKEN", self.auth_token.is_some(), why);
                refuse("BASE_URL", self.base_url.is_some(), official);
            }
            AuthMode::OfficialApi => {
                refuse("BASE_URL", self.base_url.is_some(), official);
                if self.api_key.is_none() && self.auth_token.is_none() {
                    errors.push(line_error(
                        0,
                        "`API_KEY` has no value",
                        Some("write the key after `API_KEY=`"),
                    ));
                }
            }
            AuthMode::CompatibleApi if self.base_url.is_none() => {
                let hint = "write the address of the service after `BASE_URL=`";
                errors.push(line_error(0, "`BASE_URL` has no value", Some(hint)));
            }
            AuthMode::CompatibleApi => {}
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Returns every variable under the name it has in the file, secrets included;
    /// only for the one place that writes a seat's environment.
    pub fn exposed(&self) -> BTreeMap<String, String> {
        let mut all: BTreeMap<String, String> =
            self.env.iter().map(|(key, it)| (key.clone(), it.expose().to_owned())).collect();
        let known = [
            ("BASE_URL", self.base_url.as_deref()),
            ("API_KEY", self.api_key.as_ref().map(Secret::expose)),
            ("AUTH_TOKEN", self.auth_token.as_ref().map(Secret::expose)),
        ];
        all.extend(known.into_iter().filter_map(|(key, it)| Some((key.to_owned(), it?.to_owned()))));
        all
    }

    /// Returns every secret value, for the place that removes them from what is logged.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.api_key.iter().chain(&self.auth_token).chain(self.env.values()).map(Secret::expose)
    }
}

fn line_error(line: usize, message: &str, hint: Option<&'static str>) -> LineError {
    LineError { line, message: message.to_owned(), hint }
}

fn check_address(address: &str) -> Result<(), (&'static str, &'static str)> {
    let rest = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    let host = rest.and_then(|it| it.split(['/', '?', '#']).next()).unwrap_or_default();
    if host.is_empty() || address.chars().any(|it| it.is_whitespace() || it.is_control()) {
        return Err((
            "`BASE_URL` is not an address",
            "write for example `BASE_URL=https://models.example.com/v1`",
        ));
    }
    if host.contains('@') {
        return Err(("`BASE_URL` holds a user name", "write the key after `API_KEY=` or `AUTH_TOKEN=`"));
    }
    Ok(())
}

/// Returns a path as one word for a shell.
fn shell_word(path: &Path) -> String {
    let path = path.display().to_string();
    let plain =
        |it: char| it.is_alphanumeric() || matches!(it, '/' | '.' | '-' | '_' | '+' | ',' | '@' | ':');
    if path.chars().all(plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}
