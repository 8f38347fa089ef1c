//! Where a workspace and its state are, and whether it is still the same one.
//!
//! `.team/id` names the workspace. Its state directory lies outside every agent's writable roots and holds a record of
//! the machine and the inode of `.team`: a workspace that was moved keeps its state, one that was copied, or whose state
//! is gone, gets a new id. Which one it is says `identity`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::identity::{self, Found, Record, read_record};
use crate::process;

pub use crate::discover::discover;

/// Ignored by git inside `.team/`.
const IGNORED: &str = "# Written by team-agent.\nlogs/\nruntime/\n*/profiles/*.env\n*/runs/\n*/shared/\n*/worktrees/\n*/spec.json\nmembers/*/private/\nmembers/*/working/\nmembers/session-identity.json\nid\n";

/// Why a workspace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// There is none.
    #[error("no team in `{0}`")]
    NoTeam(PathBuf),
    /// A given directory is none.
    #[error("`{0}` is not a directory")]
    NotADirectory(PathBuf),
    /// Its path cannot be written into the log.
    #[error("the path of the workspace is not UTF-8: `{}`", .0.display())]
    NotUtf8(PathBuf),
    /// The state directory is not private.
    #[error("state directory `{path}` {what}")]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// It is another user's.
    #[error("the team in `{root}` is another user's: its state is in `{state}`")]
    NotOurs {
        /// The workspace.
        root: PathBuf,
        /// Its state directory.
        state: PathBuf,
    },
    /// No home directory is known.
    #[error("there is no home directory for the state of this workspace")]
    NoHome,
    /// A file operation failed.
    #[error("failed to {doing} `{path}`")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl WorkspaceError {
    /// Says what to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoTeam(_) => Some("run `team-agent init` to create one".to_owned()),
            Self::NotADirectory(_) => Some("give a directory with `--workspace DIR`".to_owned()),
            Self::NotUtf8(_) => Some("rename the directory, or work in another one".to_owned()),
            Self::Unsafe { path, .. } => {
                Some(format!("run `chmod 700 '{}'`, or move it away", path.display()))
            }
            Self::NotOurs { .. } => Some("run it as that user, or work on a copy of your own".to_owned()),
            Self::NoHome => Some("set HOME or XDG_STATE_HOME".to_owned()),
            Self::Io { .. } => None,
        }
    }
}

/// A workspace and its places.
#[derive(Debug, Clone)]
pub struct Workspace {
    /// The directory that holds `.team/`.
    pub root: PathBuf,
    /// Its id.
    pub id: String,
    /// Its private state directory.
    pub state_dir: PathBuf,
    /// The id it was copied from, if the log still tells of that workspace.
    pub copied_from: Option<String>,
    /// Whether anything of it is on disk yet.
    pub exists: bool,
}

impl Workspace {
    /// The directory of all teams.
    pub fn team_root(&self) -> PathBuf {
        self.root.join(".team")
    }

    /// The log's directory.
    pub fn logs(&self) -> PathBuf {
        self.team_root().join("logs")
    }

    /// Caches only.
    pub fn runtime(&self) -> PathBuf {
        self.team_root().join("runtime")
    }

    /// The private directory of a seat.
    pub fn seat_dir(&self, team: &str, agent: &str) -> PathBuf {
        self.state_dir.join("seats").join(team).join(agent)
    }

    /// The coordinator's socket.
    pub fn coordinator_socket(&self) -> PathBuf {
        short_socket(&self.state_dir, &self.id, "c")
    }

    /// Where a new tmux server of this workspace listens.
    pub fn tmux_socket(&self) -> Result<PathBuf, team_tmux::TmuxError> {
        team_tmux::socket_path(&self.state_dir, nix::unistd::getuid().as_raw(), &self.id)
    }

    /// Looks at a workspace without writing anything.
    pub fn look(root: &Path) -> Result<Self, WorkspaceError> {
        let root = absolute(root)?;
        let team_root = root.join(".team");
        let meta = fs::metadata(&team_root).map_err(|_| WorkspaceError::NoTeam(root.clone()))?;
        let exists = team_root.join("id").exists();
        match identity::find(&root, &meta)? {
            Found::Same { id, state_dir } => {
                Ok(Self { root, id, state_dir, copied_from: None, exists: true })
            }
            Found::New { copied_from } => {
                let state_dir = state_root()?.join("new");
                Ok(Self { root, id: String::new(), state_dir, copied_from, exists })
            }
        }
    }

    /// Opens a workspace for writing: makes `.team/`, the id and the state directory where they are missing.
    pub fn open(root: &Path) -> Result<Self, WorkspaceError> {
        let root = absolute(root)?;
        let team_root = root.join(".team");
        prepare(&root)?;
        let seen = Self::look(&root)?;
        let meta = fs::metadata(&team_root).map_err(|source| io_error("read", &team_root, source))?;
        if seen.id.is_empty() {
            let id = uuid::Uuid::new_v4().simple().to_string()[..16].to_owned();
            let state_dir = state_root()?.join(&id);
            let workspace = Self { root, id, state_dir, copied_from: seen.copied_from, exists: true };
            workspace.make_state_dir(&meta)?;
            let file = team_root.join("id");
            if seen.exists {
                workspace.keep_id()?;
            } else if let Err(error) = write_new(&file, &workspace.id_text()) {
                // Two at once: the one whose id file is there first wins.
                let _ = fs::remove_dir_all(&workspace.state_dir);
                if error.kind() == io::ErrorKind::AlreadyExists {
                    return Self::open(&workspace.root);
                }
                return Err(io_error("write", &file, error));
            }
            return Ok(workspace);
        }
        seen.make_state_dir(&meta)?;
        seen.keep_id()?;
        Ok(Self { exists: true, ..seen })
    }

    fn id_text(&self) -> String {
        format!("{}\nstate {}\n", self.id, self.state_dir.display())
    }

    /// Sees to it that `.team/id` says who this is: agents, and `git clean`, may have changed or removed it.
    pub fn keep_id(&self) -> Result<(), WorkspaceError> {
        let (file, text) = (self.team_root().join("id"), self.id_text());
        if fs::read(&file).is_ok_and(|it| it == text.as_bytes()) {
            return Ok(());
        }
        write(&file, &text, 0o644)
    }

    fn make_state_dir(&self, meta: &fs::Metadata) -> Result<(), WorkspaceError> {
        make_dir(&self.state_dir, 0o700)?;
        check_private(&self.state_dir)?;
        let record = Record::of(&self.id, meta, &self.root);
        if read_record(&self.state_dir).as_ref() != Some(&record) {
            let text = serde_json::to_string(&record).unwrap_or_default();
            write(&self.state_dir.join("workspace.json"), &text, 0o600)?;
        }
        self.leave_pointer()?;
        for part in ["locks", "seats", "env"] {
            make_dir(&self.state_dir.join(part), 0o700)?;
        }
        Ok(())
    }

    /// Whoever comes without `XDG_STATE_HOME` looks in the usual place and finds there where the state is.
    fn leave_pointer(&self) -> Result<(), WorkspaceError> {
        let Some(usual) = usual_state_root() else { return Ok(()) };
        if self.state_dir.starts_with(&usual) {
            return Ok(());
        }
        let pointer = usual.join(format!("{}.at", self.id));
        let text = self.state_dir.to_string_lossy();
        if fs::read_to_string(&pointer).is_ok_and(|it| it == text) {
            return Ok(());
        }
        make_dir(&usual, 0o700)?;
        write(&pointer, &text, 0o600)
    }

    /// Lists the other workspaces of this user that have a state directory: id and path.
    pub fn others(&self) -> Vec<(String, PathBuf)> {
        let beside = self.state_dir.parent().map(Path::to_owned);
        let found: BTreeMap<String, PathBuf> = identity::records(beside)
            .into_iter()
            .filter(|(_, it)| it.id != self.id)
            .map(|(_, it)| (it.id, it.path))
            .collect();
        found.into_iter().collect()
    }

    /// Where the workspace of a state directory lies now: it may have been moved since `before`.
    pub fn present_root(state_dir: &Path, before: &Path) -> PathBuf {
        let Some(record) = read_record(state_dir) else { return before.to_owned() };
        let is_there = |root: &Path| fs::metadata(root.join(".team")).is_ok_and(|meta| record.is_of(&meta));
        if is_there(before) {
            return before.to_owned();
        }
        // Moved just now, it may be around this process, which went with it.
        let here = || std::env::current_dir().ok()?.ancestors().find(|it| is_there(it)).map(Path::to_owned);
        let known = Some(record.path.clone()).filter(|it| is_there(it));
        known.or_else(here).unwrap_or_else(|| before.to_owned())
    }

    /// Makes the directory of the sockets, where they do not fit into the state directory.
    pub fn make_socket_dir(&self) -> Result<(), WorkspaceError> {
        let socket = self.coordinator_socket();
        let Some(dir) = socket.parent().filter(|it| *it != self.state_dir) else { return Ok(()) };
        for dir in dir.parent().into_iter().chain([dir]) {
            make_dir(dir, 0o700)?;
            check_private(dir)?;
        }
        Ok(())
    }

    /// Takes away what a coordinator that ends leaves of its sockets.
    pub fn clear_socket_dir(&self) {
        // Nobody listens any more: tmux leaves its socket behind.
        if let Ok(tmux) = self.tmux_socket()
            && std::os::unix::net::UnixStream::connect(&tmux).is_err()
        {
            let _ = fs::remove_file(tmux);
        }
        let socket = self.coordinator_socket();
        if let Some(dir) = socket.parent().filter(|it| *it != self.state_dir) {
            let _ = fs::remove_dir(dir);
        }
    }

    /// Says whether the coordinator's socket lies where nobody else can put one.
    pub fn is_socket_ours(&self) -> bool {
        let socket = self.coordinator_socket();
        let elsewhere = socket.parent().filter(|dir| *dir != self.state_dir);
        let dirs = elsewhere.into_iter().flat_map(|dir| dir.parent().into_iter().chain([dir]));
        dirs.chain([self.state_dir.as_path()]).all(|it| check_private(it).is_ok())
    }
}

/// Where state is without `XDG_STATE_HOME`.
pub(crate) fn usual_state_root() -> Option<PathBuf> {
    process::home_dir().map(|it| it.join(".local/state/team-agent"))
}

pub(crate) fn check_private(dir: &Path) -> Result<(), WorkspaceError> {
    let unsafe_because = |what| WorkspaceError::Unsafe { path: dir.to_owned(), what };
    let meta = fs::symlink_metadata(dir).map_err(|source| io_error("read", dir, source))?;
    if !meta.is_dir() {
        return Err(unsafe_because("is not a directory"));
    }
    if meta.uid() != nix::unistd::getuid().as_raw() {
        return Err(unsafe_because("belongs to another user"));
    }
    if meta.permissions().mode() & 0o077 != 0 {
        return Err(unsafe_because("can be used by others"));
    }
    Ok(())
}

/// Where the state directories of all workspaces are.
pub fn state_root() -> Result<PathBuf, WorkspaceError> {
    let base = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|it| it.is_absolute())
        .or_else(|| process::home_dir().map(|it| it.join(".local/state")))
        .ok_or(WorkspaceError::NoHome)?;
    Ok(base.join("team-agent"))
}

/// A socket path short enough for the kernel, in the state directory if it fits.
pub fn short_socket(state_dir: &Path, id: &str, name: &str) -> PathBuf {
    let inside = state_dir.join(name);
    if inside.as_os_str().len() <= 100 {
        return inside;
    }
    PathBuf::from(format!("/tmp/team-agent-{}", nix::unistd::getuid())).join(id).join(name)
}

/// Makes `.team/` and sees to it that git ignores what must never be committed, also where the file was there before.
pub(crate) fn prepare(root: &Path) -> Result<(), WorkspaceError> {
    let team_root = root.join(".team");
    make_dir(&team_root, 0o777)?;
    let ignore = team_root.join(".gitignore");
    let old = match fs::read_to_string(&ignore) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return write(&ignore, IGNORED, 0o644),
        Err(source) => return Err(io_error("read", &ignore, source)),
    };
    let missing: Vec<&str> =
        IGNORED.lines().filter(|line| !old.lines().any(|it| it.trim() == *line)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let gap = if old.is_empty() || old.ends_with('\n') { "" } else { "\n" };
    write(&ignore, &format!("{old}{gap}{}\n", missing.join("\n")), 0o644)
}

pub(crate) fn absolute(path: &Path) -> Result<PathBuf, WorkspaceError> {
    let found = fs::canonicalize(path).map_err(|_| WorkspaceError::NotADirectory(path.to_owned()))?;
    if found.to_str().is_none() {
        return Err(WorkspaceError::NotUtf8(found));
    }
    if found.is_dir() { Ok(found) } else { Err(WorkspaceError::NotADirectory(path.to_owned())) }
}

fn io_error(doing: &'static str, path: &Path, source: io::Error) -> WorkspaceError {
    WorkspaceError::Io { doing, path: path.to_owned(), source }
}

pub(crate) fn make_dir(path: &Path, mode: u32) -> Result<(), WorkspaceError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path)
        .map_err(|source| io_error("create", path, source))
}

/// Writes a whole file at once: a reader sees the old or the new one.
pub(crate) fn write(path: &Path, text: &str, mode: u32) -> Result<(), WorkspaceError> {
    write_bytes(path, text.as_bytes(), mode).map_err(|source| io_error("write", path, source))
}

pub(crate) fn write_bytes(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    use std::io::Write as _;
    let name = format!(
        "{}.new-{}",
        path.file_name().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default(),
        std::process::id()
    );
    let new = path.with_file_name(name);
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&new)?;
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    fs::rename(&new, path)
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write as _;
    // Complete before it has its name, so that nobody reads half of it.
    let new = path.with_file_name(format!("id.new-{}", std::process::id()));
    fs::File::create(&new)?.write_all(text.as_bytes())?;
    let linked = fs::hard_link(&new, path);
    let _ = fs::remove_file(&new);
    linked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_not_be_committed_is_ignored_also_by_a_file_that_was_there_before() {
        let dir = tempfile::tempdir().unwrap();
        let ignore = dir.path().join(".team/.gitignore");
        prepare(dir.path()).unwrap();
        assert_eq!(fs::read_to_string(&ignore).unwrap(), IGNORED);
        fs::write(&ignore, "mine\nlogs/").unwrap();
        prepare(dir.path()).unwrap();
        let text = fs::read_to_string(&ignore).unwrap();
        assert!(text.starts_with("mine\nlogs/\n"), "{text}");
        assert!(IGNORED.lines().all(|line| text.lines().any(|it| it == line)), "{text}");
        prepare(dir.path()).unwrap();
        assert_eq!(fs::read_to_string(&ignore).unwrap(), text);
    }

    #[test]
    fn a_moved_workspace_is_the_same_and_another_directory_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let (before, after) = (dir.path().join("before"), dir.path().join("after"));
        let state_dir = dir.path().join("state");
        for it in [&before.join(".team"), &state_dir] {
            fs::create_dir_all(it).unwrap();
        }
        let meta = fs::metadata(before.join(".team")).unwrap();
        let keep = |path: &Path| {
            let record = Record::of("0123456789abcdef", &meta, path);
            fs::write(state_dir.join("workspace.json"), serde_json::to_string(&record).unwrap()).unwrap();
        };
        keep(&before);
        assert_eq!(Workspace::present_root(&state_dir, &before), before);
        fs::rename(&before, &after).unwrap();
        // Nobody has been at the new place yet.
        assert_eq!(Workspace::present_root(&state_dir, &before), before);
        keep(&after);
        assert_eq!(Workspace::present_root(&state_dir, &before), after);
        // Something else stands where it was.
        fs::create_dir_all(before.join(".team")).unwrap();
        assert_eq!(Workspace::present_root(&state_dir, &before), after);
        assert!(!read_record(&state_dir).unwrap().is_of(&fs::metadata(before.join(".team")).unwrap()));
    }
}
