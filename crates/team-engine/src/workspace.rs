//! Where a workspace and its state are, and whether it is still the same one.
//!
//! `.team/id` names the workspace. Its state directory lies outside every agent's writable roots and holds a record of
//! the machine and the inode of `.team`: a workspace that was moved keeps its state, one that was copied, or whose state
//! is gone, gets a new id. `.team/` can be written by agents: where it says that its state is, is believed only when
//! nothing else is known.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

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
    /// The state directory is not private.
    #[error("state directory `{path}` {what}")]
    Unsafe {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
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
            Self::Unsafe { path, .. } => {
                Some(format!("run `chmod 700 '{}'`, or move it away", path.display()))
            }
            Self::NoHome => Some("set HOME or XDG_STATE_HOME".to_owned()),
            Self::Io { .. } => None,
        }
    }
}

/// What the state directory says of its workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    id: String,
    machine: String,
    device: u64,
    inode: u64,
    path: PathBuf,
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
        let Some(named) = read_id(&team_root) else {
            let state_dir = state_root()?.join("new");
            return Ok(Self { root, id: String::new(), state_dir, copied_from: None, exists: false });
        };
        let state_dir = state_of(&named, &root)?;
        let same = match read_record(&state_dir) {
            Some(record) => record.is_of(&meta),
            // What its log tells of can only be acted on by those who know the state that goes with it.
            None => !team_root.join("logs/events.jsonl").exists(),
        };
        if !same {
            let state_dir = state_root()?.join("new");
            return Ok(Self {
                root,
                id: String::new(),
                state_dir,
                copied_from: Some(named.id),
                exists: true,
            });
        }
        Ok(Self { root, id: named.id, state_dir, copied_from: None, exists: true })
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
            // Two at once: the one whose id file is there first wins.
            let file = team_root.join("id");
            let text = format!("{}\nstate {}\n", workspace.id, workspace.state_dir.display());
            if workspace.copied_from.is_some() {
                write(&file, &text, 0o644)?;
            } else if let Err(error) = write_new(&file, &text) {
                let _ = fs::remove_dir_all(&workspace.state_dir);
                if error.kind() == io::ErrorKind::AlreadyExists {
                    return Self::open(&workspace.root);
                }
                return Err(io_error("write", &file, error));
            }
            return Ok(workspace);
        }
        seen.make_state_dir(&meta)?;
        Ok(Self { exists: true, ..seen })
    }

    fn make_state_dir(&self, meta: &fs::Metadata) -> Result<(), WorkspaceError> {
        make_dir(&self.state_dir, 0o700)?;
        check_private(&self.state_dir)?;
        let record = Record {
            id: self.id.clone(),
            machine: process::machine_id(),
            device: meta.dev(),
            inode: meta.ino(),
            path: self.root.clone(),
        };
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
        let roots: BTreeSet<PathBuf> =
            [state_root().ok(), usual_state_root(), beside].into_iter().flatten().collect();
        let entries = roots.iter().filter_map(|it| fs::read_dir(it).ok()).flatten().filter_map(Result::ok);
        let found: BTreeMap<String, PathBuf> = entries
            .filter_map(|it| {
                let path = it.path();
                let is_pointer = path.extension().is_some_and(|it| it == "at");
                read_record(&if is_pointer { fs::read_to_string(&path).ok()?.into() } else { path })
            })
            .filter(|it| it.id != self.id)
            .map(|it| (it.id, it.path))
            .collect();
        found.into_iter().collect()
    }

    /// Where the workspace of a state directory lies now: it may have been moved since `before`.
    pub fn present_root(state_dir: &Path, before: &Path) -> PathBuf {
        let Some(record) = read_record(state_dir) else { return before.to_owned() };
        let is_there = |root: &Path| fs::metadata(root.join(".team")).is_ok_and(|meta| record.is_of(&meta));
        if is_there(before) || !is_there(&record.path) { before.to_owned() } else { record.path.clone() }
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

    /// Takes away what a coordinator that ends leaves outside the state directory.
    pub fn clear_socket_dir(&self) {
        let socket = self.coordinator_socket();
        if let Some(dir) = socket.parent().filter(|it| *it != self.state_dir) {
            // Nobody listens any more: tmux leaves its socket behind.
            let _ = fs::remove_file(dir.join("tmux"));
            let _ = fs::remove_dir(dir);
        }
    }

    /// Says whether the coordinator's socket lies where nobody else can put one.
    pub fn is_socket_ours(&self) -> bool {
        let socket = self.coordinator_socket();
        socket.parent().is_some_and(|dir| {
            dir == self.state_dir || dir.parent().into_iter().chain([dir]).all(|it| check_private(it).is_ok())
        })
    }
}

/// Finds the state directory of an id: where this environment keeps state, where a pointer in the usual place says, or,
/// for whoever comes without any home, where the workspace itself says.
fn state_of(named: &Named, root: &Path) -> Result<PathBuf, WorkspaceError> {
    let here = state_root()?.join(&named.id);
    if read_record(&here).is_some() {
        return Ok(here);
    }
    if let Some(usual) = usual_state_root() {
        let pointed = fs::read_to_string(usual.join(format!("{}.at", named.id))).ok().map(PathBuf::from);
        let candidates = [Some(usual.join(&named.id)), pointed];
        if let Some(dir) = candidates.into_iter().flatten().find(|it| is_acceptable(it, root, &named.id)) {
            return Ok(dir);
        }
    }
    let said = named.state.clone().filter(|it| is_homeless() && is_acceptable(it, root, &named.id));
    Ok(said.unwrap_or(here))
}

fn is_homeless() -> bool {
    std::env::var_os("HOME").is_none_or(|it| it.is_empty())
}

/// Where state is without `XDG_STATE_HOME`.
fn usual_state_root() -> Option<PathBuf> {
    process::home_dir().map(|it| it.join(".local/state/team-agent"))
}

impl Record {
    /// The same inode is the same workspace, wherever it lies; another one at another place is a copy.
    fn is_of(&self, meta: &fs::Metadata) -> bool {
        self.inode == meta.ino() && self.device == meta.dev() && self.machine == process::machine_id()
    }
}

struct Named {
    id: String,
    state: Option<PathBuf>,
}

fn read_id(team_root: &Path) -> Option<Named> {
    let text = fs::read_to_string(team_root.join("id")).ok()?;
    let mut lines = text.lines();
    let id = lines.next()?.trim().to_owned();
    let plain = (8..=64).contains(&id.len()) && id.bytes().all(|it| it.is_ascii_alphanumeric());
    let state = lines.find_map(|it| it.strip_prefix("state ")).map(|it| PathBuf::from(it.trim()));
    plain.then_some(Named { id, state })
}

/// A place that is private, knows this workspace, and lies outside of it.
fn is_acceptable(dir: &Path, root: &Path, id: &str) -> bool {
    dir.is_absolute()
        && !dir.starts_with(root)
        && check_private(dir).is_ok()
        && read_record(dir).is_some_and(|it| it.id == id)
}

fn read_record(state_dir: &Path) -> Option<Record> {
    serde_json::from_str(&fs::read_to_string(state_dir.join("workspace.json")).ok()?).ok()
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
            let record = Record {
                id: "0123456789abcdef".to_owned(),
                machine: process::machine_id(),
                device: meta.dev(),
                inode: meta.ino(),
                path: path.to_owned(),
            };
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
