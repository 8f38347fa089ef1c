//! Which workspace a `.team` directory is, and where its state lies.
//!
//! Told by its id file, by the records in the state directories, and by its log. Agents may write everything in
//! `.team/`: what it says of itself counts only where a private directory outside of it says the same. Writes nothing.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::process;
use crate::workspace::{WorkspaceError, check_private, short_socket, state_root, usual_state_root};

/// What the state directory says of its workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) id: String,
    machine: String,
    device: u64,
    inode: u64,
    /// When `.team` was made, where the file system tells: numbers of inodes are given out again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<u64>,
    pub(crate) path: PathBuf,
}

impl Record {
    pub(crate) fn of(id: &str, meta: &fs::Metadata, root: &Path) -> Self {
        Self {
            id: id.to_owned(),
            machine: process::machine_id(),
            device: meta.dev(),
            inode: meta.ino(),
            born: born(meta),
            path: root.to_owned(),
        }
    }

    /// The same inode is the same workspace, wherever it lies; another one at another place is a copy.
    pub(crate) fn is_of(&self, meta: &fs::Metadata) -> bool {
        self.inode == meta.ino() && self.device == meta.dev() && self.machine == process::machine_id()
    }
}

fn born(meta: &fs::Metadata) -> Option<u64> {
    let since = meta.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// Which workspace it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// One with state.
    Same {
        /// Its id.
        id: String,
        /// Where its state lies.
        state_dir: PathBuf,
    },
    /// One without.
    New {
        /// The id that it carries, but that is another one's.
        copied_from: Option<String>,
    },
}

/// Finds out which workspace lies below `root`; `meta` is of its `.team`.
pub(crate) fn find(root: &Path, meta: &fs::Metadata) -> Result<Found, WorkspaceError> {
    let team_root = root.join(".team");
    let said = read_id(&team_root);
    let has_log = team_root.join("logs/events.jsonl").exists();
    // Where this user's state is kept, under the id that it says it has.
    let mut is_known = false;
    for dir in said.id.iter().flat_map(|it| places_of(it)) {
        if let Some(record) = read_record(&dir).filter(|it| Some(&it.id) == said.id.as_ref()) {
            is_known = true;
            if record.is_of(meta) {
                return Ok(Found::Same { id: record.id, state_dir: dir });
            }
        }
    }
    // There, whatever it says: the id file may have been changed, or removed with everything that git ignores.
    let here = records(None).into_iter().filter(|(dir, it)| {
        // What was all thrown away while nothing ran is begun anew.
        it.is_of(meta) && is_proved(dir, it, meta, root) && (has_log || is_running(dir, &it.id))
    });
    let latest = here
        .max_by_key(|(dir, _)| fs::metadata(dir.join("workspace.json")).and_then(|it| it.modified()).ok());
    if let Some((state_dir, record)) = latest {
        return Ok(Found::Same { id: record.id, state_dir });
    }
    // Where it says itself: a caller with another home, or with none, is a caller of the same team.
    if let Some(dir) = said.state.filter(|it| it.is_absolute() && !it.starts_with(root)) {
        if meta.uid() != me() && is_anothers(&dir) {
            return Err(WorkspaceError::NotOurs { root: root.to_owned(), state: dir });
        }
        if let Some(record) = read_record(&dir) {
            is_known |= Some(&record.id) == said.id.as_ref();
            if record.is_of(meta) && said.id.as_ref().is_none_or(|it| *it == record.id) {
                check_private(&dir)?;
                return Ok(Found::Same { id: record.id, state_dir: dir });
            }
        }
    }
    match said.id {
        // What its log tells of can only be acted on by those who know the state that goes with it.
        Some(id) if !has_log && !is_known => Ok(Found::Same { state_dir: state_root()?.join(&id), id }),
        copied_from => Ok(Found::New { copied_from }),
    }
}

/// Where this user's state of that id may be: where this environment keeps it, in the usual place, and where a pointer
/// there says.
fn places_of(id: &str) -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = state_root().ok().map(|it| it.join(id)).into_iter().collect();
    if let Some(usual) = usual_state_root() {
        let pointed = fs::read_to_string(usual.join(format!("{id}.at"))).ok().map(PathBuf::from);
        let others = [Some(usual.join(id)), pointed.filter(|it| it.is_absolute())].into_iter().flatten();
        places.extend(others.filter(|it| check_private(it).is_ok()));
    }
    places
}

/// Lists the state directories of this user with their records, and those below another place.
pub(crate) fn records(beside: Option<PathBuf>) -> Vec<(PathBuf, Record)> {
    let roots: BTreeSet<PathBuf> =
        [state_root().ok(), usual_state_root(), beside].into_iter().flatten().collect();
    let entries = roots.iter().filter_map(|it| fs::read_dir(it).ok()).flatten().filter_map(Result::ok);
    entries
        .filter_map(|it| {
            let path = it.path();
            let is_pointer = path.extension().is_some_and(|it| it == "at");
            let dir = if is_pointer { fs::read_to_string(&path).ok()?.into() } else { path };
            let record = read_record(&dir)?;
            Some((dir, record))
        })
        .collect()
}

/// Whether a record with the same inode is of this very directory, and not of one that was there before: it was made
/// at the same time, or its log is the one that the state belongs to.
fn is_proved(dir: &Path, record: &Record, meta: &fs::Metadata, root: &Path) -> bool {
    if dir.starts_with(root) || check_private(dir).is_err() {
        return false;
    }
    match (record.born, born(meta)) {
        (Some(before), Some(now)) => before == now,
        _ => log_id(root)
            .is_some_and(|it| fs::read_to_string(dir.join("log-id")).is_ok_and(|known| known.trim() == it)),
    }
}

fn is_running(state_dir: &Path, id: &str) -> bool {
    let listens = |it: PathBuf| UnixStream::connect(it).is_ok();
    listens(short_socket(state_dir, id, "c"))
        || team_tmux::socket_path(state_dir, me(), id).is_ok_and(listens)
}

/// The id in the first line of the log.
fn log_id(root: &Path) -> Option<String> {
    use std::io::BufRead as _;
    let mut line = String::new();
    let log = fs::File::open(root.join(".team/logs/events.jsonl")).ok()?;
    std::io::BufReader::new(log).read_line(&mut line).ok()?;
    let line: serde_json::Value = serde_json::from_str(&line).ok()?;
    line["event"]["log_id"].as_str().map(str::to_owned)
}

/// What `.team/id` says, as far as it can be read.
#[derive(Debug, Default)]
struct Said {
    id: Option<String>,
    state: Option<PathBuf>,
}

fn read_id(team_root: &Path) -> Said {
    let text = fs::read(team_root.join("id")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines();
    let id = lines.next().map(|it| it.trim().to_owned());
    let plain = |it: &String| (8..=64).contains(&it.len()) && it.bytes().all(|it| it.is_ascii_alphanumeric());
    let state = lines.find_map(|it| it.strip_prefix("state ")).map(|it| PathBuf::from(it.trim()));
    Said { id: id.filter(plain), state }
}

pub(crate) fn read_record(state_dir: &Path) -> Option<Record> {
    serde_json::from_str(&fs::read_to_string(state_dir.join("workspace.json")).ok()?).ok()
}

fn me() -> u32 {
    nix::unistd::getuid().as_raw()
}

fn is_anothers(dir: &Path) -> bool {
    match fs::symlink_metadata(dir) {
        Ok(meta) => meta.uid() != me(),
        Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const ID: &str = "0123456789abcdef";

    /// A workspace with its state, as its id file says.
    struct World {
        dir: tempfile::TempDir,
        root: PathBuf,
        state: PathBuf,
    }

    impl World {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let (root, state) = (dir.path().join("ws"), dir.path().join("elsewhere").join(ID));
            fs::create_dir_all(root.join(".team/logs")).unwrap();
            fs::create_dir_all(&state).unwrap();
            let world = Self { dir, root, state };
            world.mode(0o700);
            world.says(ID, &world.state);
            world.keeps(&Record::of(ID, &world.meta(), &world.root));
            fs::write(world.root.join(".team/logs/events.jsonl"), "{\"event\":{\"log_id\":\"log\"}}\n")
                .unwrap();
            world
        }

        fn meta(&self) -> fs::Metadata {
            fs::metadata(self.root.join(".team")).unwrap()
        }

        fn mode(&self, mode: u32) {
            fs::set_permissions(&self.state, fs::Permissions::from_mode(mode)).unwrap();
        }

        fn says(&self, id: &str, state: &Path) {
            fs::write(self.root.join(".team/id"), format!("{id}\nstate {}\n", state.display())).unwrap();
        }

        fn keeps(&self, record: &Record) {
            fs::write(self.state.join("workspace.json"), serde_json::to_string(record).unwrap()).unwrap();
        }

        fn found(&self) -> Result<Found, WorkspaceError> {
            find(&self.root, &self.meta())
        }

        fn same(&self) -> Found {
            Found::Same { id: ID.to_owned(), state_dir: self.state.clone() }
        }
    }

    #[test]
    fn the_id_file_is_followed_where_the_state_says_the_same() {
        let world = World::new();
        assert_eq!(world.found().unwrap(), world.same());
        // Also where only its second line can be read.
        world.says("garbage", &world.state);
        assert_eq!(world.found().unwrap(), world.same());
    }

    #[test]
    fn the_id_file_alone_leads_nowhere() {
        let world = World::new();
        let copied = |id: &str| Found::New { copied_from: Some(id.to_owned()) };
        // Another directory's state.
        let other = fs::metadata(world.dir.path()).unwrap();
        world.keeps(&Record::of(ID, &other, &world.root));
        assert_eq!(world.found().unwrap(), copied(ID));
        // Another id's.
        world.keeps(&Record::of("fedcba9876543210", &world.meta(), &world.root));
        assert_eq!(world.found().unwrap(), copied(ID));
        // A place inside of the workspace, where agents write.
        world.keeps(&Record::of(ID, &world.meta(), &world.root));
        let inside = world.root.join("state");
        fs::rename(&world.state, &inside).unwrap();
        world.says(ID, &inside);
        assert_eq!(world.found().unwrap(), copied(ID));
    }

    #[test]
    fn state_that_others_can_use_is_refused_and_not_begun_anew() {
        let world = World::new();
        world.mode(0o755);
        let error = world.found().unwrap_err();
        assert!(matches!(error, WorkspaceError::Unsafe { .. }), "{error}");
        assert!(error.hint().unwrap_or_default().contains("chmod 700"));
    }

    #[test]
    fn a_directory_that_was_made_anew_under_the_same_number_is_another_one() {
        let world = World::new();
        let mut record = Record::of(ID, &world.meta(), &world.root);
        let proved = |record: &Record| is_proved(&world.state, record, &world.meta(), &world.root);
        assert!(record.born.is_none() || proved(&record));
        if let Some(born) = &mut record.born {
            *born -= 1;
            assert!(!proved(&record));
        }
        // Where the file system does not tell, its log does.
        record.born = None;
        fs::write(world.state.join("log-id"), "log\n").unwrap();
        assert!(proved(&record));
        fs::write(world.state.join("log-id"), "another\n").unwrap();
        assert!(!proved(&record));
    }
}
