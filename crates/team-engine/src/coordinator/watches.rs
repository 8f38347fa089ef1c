//! Files and directories that the coordinator keeps an eye on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use notify::{EventKind, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

use crate::error::EngineError;

/// A file, whatever its name.
#[derive(PartialEq, Eq)]
pub(super) struct Inode(u64, u64);

impl Inode {
    pub(super) fn of(meta: std::io::Result<std::fs::Metadata>) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        meta.ok().map(|it| Self(it.dev(), it.ino()))
    }

    pub(super) fn of_path(path: &Path) -> Option<Self> {
        Self::of(std::fs::symlink_metadata(path))
    }
}

/// Beside the socket nothing is news: there lies what this process writes itself, such as its own complaints.
fn is_news(path: &Path, socket: &Path) -> bool {
    path == socket || path.parent() != socket.parent()
}

/// Directories that wake the coordinator when something in them changes.
pub(super) struct Watches {
    watcher: notify::RecommendedWatcher,
    dirs: BTreeSet<PathBuf>,
    /// The log's directory.
    logs: Option<Inode>,
}

impl Watches {
    pub(super) fn new(wake: mpsc::Sender<()>, socket: PathBuf) -> Result<Self, EngineError> {
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Being read is no news: this process would wake itself.
            let news = event.is_ok_and(|it| {
                let access = matches!(it.kind, EventKind::Access(_));
                !access && (it.paths.is_empty() || it.paths.iter().any(|path| is_news(path, &socket)))
            });
            if news {
                let _ = wake.try_send(());
            }
        })
        .map_err(|error| EngineError::Coordinator(format!("cannot watch files: {error}")))?;
        Ok(Self { watcher, dirs: BTreeSet::new(), logs: None })
    }

    /// Watches the log's directory, also where another one has taken its place; says whether it is another one.
    pub(super) fn watch_anew(&mut self, dir: &Path) -> bool {
        let now = Inode::of_path(dir);
        let is_new = now.is_some() && now != self.logs;
        if is_new {
            if self.dirs.remove(dir) {
                let _ = self.watcher.unwatch(dir);
            }
            self.logs = now;
            self.watch(dir);
        }
        is_new
    }

    /// Watches a directory once it exists.
    pub(super) fn watch(&mut self, dir: &Path) {
        if self.dirs.contains(dir) || !dir.is_dir() {
            return;
        }
        if self.watcher.watch(dir, RecursiveMode::NonRecursive).is_ok() {
            self.dirs.insert(dir.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_coordinator_writes_beside_its_socket_does_not_wake_it() {
        let socket = Path::new("/state/id/c");
        let is = |path: &str| is_news(Path::new(path), socket);
        assert!(is("/state/id/c"));
        assert!(is("/ws/.team/logs/events.jsonl"));
        assert!(is("/state/id/seats/current/w1/fake-home/sessions/1.json"));
        assert!(!is("/state/id/coordinator.log"));
        assert!(!is("/state/id/snapshot-mark.1-1.new"));
    }
}
