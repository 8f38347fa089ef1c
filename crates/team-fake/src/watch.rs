//! Watches files for changes, whether they are written in place or replaced. Knows nothing of what they hold.

use std::fs::Metadata;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a writer that keeps the file open is given before its change counts.
pub(crate) const SETTLE: Duration = Duration::from_millis(3);

/// A change of a watched file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) path: PathBuf,
    /// `add`, `change` or `unlink`.
    pub(crate) event: &'static str,
}

/// What identifies a state of a file: inode, size, time of change.
type Signature = (u64, u64, i64, i64);

#[derive(Debug)]
struct File {
    path: PathBuf,
    known: Option<Signature>,
    /// Written to since the last change was announced.
    dirty: bool,
}

/// Files under watch.
#[derive(Debug)]
pub(crate) struct Watcher {
    source: source::Source,
    files: Vec<File>,
    /// Folders that are watched themselves: each name in them counts.
    folders: Vec<PathBuf>,
}

/// What was seen of one name.
struct Sign {
    path: PathBuf,
    /// The content was touched.
    written: bool,
    /// The writer has let go, so that nothing more is to be waited for.
    complete: bool,
}

impl Watcher {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { source: source::Source::new()?, files: Vec::new(), folders: Vec::new() })
    }

    /// Starts to watch a file, which need not exist, or a folder.
    pub(crate) fn watch(&mut self, path: &Path) -> io::Result<()> {
        let folder = path.is_dir();
        if self.files.iter().any(|it| it.path == path) || self.folders.iter().any(|it| it == path) {
            return Ok(());
        }
        self.source.watch(if folder { path } else { path.parent().unwrap_or(Path::new("/")) })?;
        if folder {
            self.folders.push(path.to_owned());
        } else {
            self.files.push(File { path: path.to_owned(), known: signature(path), dirty: false });
        }
        Ok(())
    }

    /// Returns what to poll; without it `changes` is to be called every `poll_every`.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.source.fd()
    }

    pub(crate) fn poll_every(&self) -> Option<Duration> {
        self.source.poll_every()
    }

    /// Returns the changes that are complete, and whether `settle` should be called after [`SETTLE`].
    pub(crate) fn changes(&mut self) -> (Vec<Change>, bool) {
        let mut changes = Vec::new();
        for sign in self.source.signs(self.files.iter().map(|it| it.path.as_path())) {
            let index = self.files.iter().position(|it| it.path == sign.path);
            let index = match index {
                Some(index) => index,
                None if sign.path.parent().is_some_and(|it| self.folders.iter().any(|f| f == it)) => {
                    self.files.push(File { path: sign.path, known: None, dirty: false });
                    self.files.len() - 1
                }
                None => continue,
            };
            let file = &mut self.files[index];
            file.dirty |= sign.written;
            if sign.complete {
                changes.extend(file.announce());
            }
        }
        (changes, self.files.iter().any(|it| it.dirty))
    }

    /// Announces what writers that keep the file open have done.
    pub(crate) fn settle(&mut self) -> Vec<Change> {
        self.files.iter_mut().filter(|it| it.dirty).filter_map(File::announce).collect()
    }
}

impl File {
    fn announce(&mut self) -> Option<Change> {
        let now = signature(&self.path);
        let dirty = std::mem::take(&mut self.dirty);
        let event = match (self.known, now) {
            (None, None) => return None,
            (None, Some(_)) => "add",
            (Some(_), None) => "unlink",
            (Some(before), Some(now)) if before == now && !dirty => return None,
            (Some(_), Some(_)) => "change",
        };
        self.known = now;
        Some(Change { path: self.path.clone(), event })
    }
}

fn signature(path: &Path) -> Option<Signature> {
    let of = |it: Metadata| (it.ino(), it.size(), it.mtime(), it.mtime_nsec());
    std::fs::metadata(path).ok().map(of)
}

#[cfg(target_os = "linux")]
mod source {
    use std::io;
    use std::os::fd::{AsFd as _, BorrowedFd};
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

    use super::Sign;

    #[derive(Debug)]
    pub(super) struct Source {
        inotify: Inotify,
        folders: Vec<(WatchDescriptor, PathBuf)>,
    }

    impl Source {
        pub(super) fn new() -> io::Result<Self> {
            let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
            Ok(Self { inotify, folders: Vec::new() })
        }

        pub(super) fn watch(&mut self, folder: &Path) -> io::Result<()> {
            let flags = AddWatchFlags::IN_MODIFY
                | AddWatchFlags::IN_CLOSE_WRITE
                | AddWatchFlags::IN_CREATE
                | AddWatchFlags::IN_DELETE
                | AddWatchFlags::IN_MOVED_FROM
                | AddWatchFlags::IN_MOVED_TO
                | AddWatchFlags::IN_ONLYDIR;
            let descriptor = self.inotify.add_watch(folder, flags)?;
            self.folders.push((descriptor, folder.to_owned()));
            Ok(())
        }

        #[expect(clippy::unnecessary_wraps, reason = "the other platforms' form has nothing to poll")]
        pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
            Some(self.inotify.as_fd())
        }

        #[expect(clippy::unused_self, reason = "the other platforms' form has an answer")]
        pub(super) fn poll_every(&self) -> Option<Duration> {
            None
        }

        pub(super) fn signs<'a>(&self, files: impl Iterator<Item = &'a Path>) -> Vec<Sign> {
            let mut signs = Vec::new();
            let mut overflowed = false;
            while let Ok(events) = self.inotify.read_events() {
                for event in events {
                    overflowed |= event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW);
                    let Some(name) = event.name else { continue };
                    let written = event.mask.intersects(AddWatchFlags::IN_MODIFY | AddWatchFlags::IN_CREATE);
                    // One folder may be watched under several names.
                    let folders = self.folders.iter().filter(|it| it.0 == event.wd);
                    let mut seen: Vec<PathBuf> = folders.map(|it| it.1.join(&name)).collect();
                    seen.dedup();
                    signs.extend(seen.into_iter().map(|path| Sign { path, written, complete: !written }));
                }
            }
            if overflowed {
                // What was lost is found by looking.
                let looked = files.map(|it| Sign { path: it.to_owned(), written: false, complete: true });
                signs.extend(looked);
            }
            signs
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod source {
    use std::io;
    use std::os::fd::BorrowedFd;
    use std::path::Path;
    use std::time::Duration;

    use super::Sign;

    /// Looks at every file again and again.
    #[derive(Debug)]
    pub(super) struct Source;

    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "the form of the Linux source")]
    impl Source {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self)
        }

        pub(super) fn watch(&mut self, _folder: &Path) -> io::Result<()> {
            Ok(())
        }

        pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
            None
        }

        pub(super) fn poll_every(&self) -> Option<Duration> {
            Some(Duration::from_millis(100))
        }

        pub(super) fn signs<'a>(&self, files: impl Iterator<Item = &'a Path>) -> Vec<Sign> {
            files.map(|it| Sign { path: it.to_owned(), written: false, complete: true }).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn events(watcher: &mut Watcher) -> Vec<&'static str> {
        let (mut changes, _) = watcher.changes();
        changes.extend(watcher.settle());
        changes.into_iter().map(|it| it.event).collect()
    }

    #[test]
    fn each_append_and_each_replacement_is_one_change() {
        let dir = tempfile::tempdir().unwrap();
        let bell = dir.path().join("bell");
        let mut watcher = Watcher::new().unwrap();
        watcher.watch(&bell).unwrap();
        std::fs::write(&bell, "1").unwrap();
        assert_eq!(events(&mut watcher), ["add"]);
        std::fs::OpenOptions::new().append(true).open(&bell).unwrap().write_all(b"2").unwrap();
        assert_eq!(events(&mut watcher), ["change"]);
        std::fs::write(dir.path().join("other"), "3").unwrap();
        assert_eq!(events(&mut watcher), [""; 0]);
        std::fs::rename(dir.path().join("other"), &bell).unwrap();
        assert_eq!(events(&mut watcher), ["change"]);
        std::fs::remove_file(&bell).unwrap();
        assert_eq!(events(&mut watcher), ["unlink"]);
    }

    #[test]
    fn a_writer_that_keeps_the_file_open_is_heard() {
        let dir = tempfile::tempdir().unwrap();
        let bell = dir.path().join("bell");
        let mut file = std::fs::File::create(&bell).unwrap();
        let mut watcher = Watcher::new().unwrap();
        watcher.watch(&bell).unwrap();
        file.write_all(b"x").unwrap();
        assert_eq!(events(&mut watcher), ["change"]);
        drop(file);
        assert_eq!(events(&mut watcher), [""; 0]);
    }

    #[test]
    fn a_watched_folder_announces_every_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut watcher = Watcher::new().unwrap();
        watcher.watch(dir.path()).unwrap();
        std::fs::write(dir.path().join("m1"), "x").unwrap();
        assert_eq!(events(&mut watcher), ["add"]);
    }
}
