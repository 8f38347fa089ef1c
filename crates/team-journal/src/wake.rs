//! Being woken when the log may have grown. Knows directories and descriptors; reads no line.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::error::{Doing as _, Error, Result};
use system::Watch;

/// A descriptor that becomes readable when the log may have grown. It costs nothing while idle.
#[derive(Debug)]
pub struct Wake(Watch);

/// What a wake-up was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Woken {
    /// Something was written.
    pub written: bool,
    /// Files were made, renamed or removed.
    pub names: bool,
}

impl Wake {
    pub(crate) fn new(logs: &Path) -> Result<Self> {
        Watch::new(logs).map(Self).doing("watch", logs)
    }

    /// Waits until there is something to look at, or until `deadline`. Does not take it off: see
    /// [`Wake::drain`].
    pub fn wait(&self, deadline: Option<Instant>) -> Result<bool> {
        loop {
            let timeout = match deadline {
                None => PollTimeout::NONE,
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    // Rounded up, so that the last millisecond is not spent in a busy loop.
                    let millis = left.as_nanos().div_ceil(1_000_000);
                    i32::try_from(millis).ok().and_then(|ms| ms.try_into().ok()).unwrap_or(PollTimeout::MAX)
                }
            };
            let mut fds = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, timeout) {
                Ok(0) if deadline.is_some_and(|deadline| Instant::now() >= deadline) => return Ok(false),
                Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => {
                    return Err(Error::Io {
                        doing: "watch",
                        path: self.0.path().into(),
                        source: error.into(),
                    });
                }
            }
        }
    }

    /// Takes off what has come, so that the descriptor is quiet again. Never blocks.
    pub fn drain(&self) -> Result<Woken> {
        self.0.drain().doing("watch", self.0.path())
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::os::fd::{AsFd, BorrowedFd};
    use std::path::{Path, PathBuf};
    use std::sync::Mutex;

    use nix::errno::Errno;
    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

    use super::{Woken, io};
    use crate::journal::locked;

    /// Only what changes a file or a name: reading must not wake the reader.
    const FILES: AddWatchFlags = AddWatchFlags::IN_MODIFY
        .union(AddWatchFlags::IN_CREATE)
        .union(AddWatchFlags::IN_MOVED_TO)
        .union(AddWatchFlags::IN_MOVED_FROM)
        .union(AddWatchFlags::IN_DELETE)
        .union(AddWatchFlags::IN_MOVE_SELF)
        .union(AddWatchFlags::IN_ONLYDIR);
    const PARENT: AddWatchFlags =
        AddWatchFlags::IN_CREATE.union(AddWatchFlags::IN_MOVED_TO).union(AddWatchFlags::IN_ONLYDIR);

    #[derive(Debug)]
    pub(super) struct Watch {
        inotify: Inotify,
        logs: PathBuf,
        dir: Mutex<Option<WatchDescriptor>>,
    }

    impl Watch {
        pub(super) fn new(logs: &Path) -> io::Result<Self> {
            let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
            let watch = Self { inotify, logs: logs.to_path_buf(), dir: Mutex::default() };
            *locked(&watch.dir) = watch.arm()?;
            Ok(watch)
        }

        /// Watches the directory, or as long as it is not there, the nearest one above it.
        fn arm(&self) -> io::Result<Option<WatchDescriptor>> {
            loop {
                match self.inotify.add_watch(&self.logs, FILES) {
                    Ok(dir) => return Ok(Some(dir)),
                    Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                    Err(error) => return Err(error.into()),
                }
                let mut below = self.logs.as_path();
                let Some(above) = self.logs.ancestors().skip(1).find(|dir| {
                    let found = dir.is_dir();
                    if !found {
                        below = dir;
                    }
                    found
                }) else {
                    return Ok(None);
                };
                match self.inotify.add_watch(above, PARENT) {
                    Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                    Err(error) => return Err(error.into()),
                }
                // It may have come while nothing watched for it.
                if above.is_dir() && !below.exists() {
                    return Ok(None);
                }
            }
        }

        pub(super) fn path(&self) -> &Path {
            &self.logs
        }

        pub(super) fn drain(&self) -> io::Result<Woken> {
            let mut woken = Woken::default();
            let mut dir = locked(&self.dir);
            loop {
                let events = match self.inotify.read_events() {
                    Ok(events) => events,
                    Err(Errno::EAGAIN) => break,
                    Err(Errno::EINTR) => continue,
                    Err(error) => return Err(error.into()),
                };
                for event in events {
                    if Some(event.wd) == *dir {
                        if event.mask.contains(AddWatchFlags::IN_MOVE_SELF) {
                            self.inotify.rm_watch(event.wd)?;
                        }
                        if event.mask.intersects(AddWatchFlags::IN_IGNORED | AddWatchFlags::IN_MOVE_SELF) {
                            *dir = None;
                        }
                    }
                    woken.written |= event.mask.contains(AddWatchFlags::IN_MODIFY);
                    woken.names |= event.mask != AddWatchFlags::IN_MODIFY;
                }
            }
            if dir.is_none() {
                *dir = self.arm()?;
                woken.names = true;
            }
            Ok(woken)
        }
    }

    impl AsFd for Watch {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.inotify.as_fd()
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io::{Read as _, Write as _};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::net::UnixStream;
    use std::path::{Path, PathBuf};

    use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

    use super::{Woken, io};

    #[derive(Debug)]
    pub(super) struct Watch {
        _watcher: RecommendedWatcher,
        near: UnixStream,
        logs: PathBuf,
    }

    impl Watch {
        pub(super) fn new(logs: &Path) -> io::Result<Self> {
            let (near, far) = UnixStream::pair()?;
            near.set_nonblocking(true)?;
            far.set_nonblocking(true)?;
            let told = move |event: notify::Result<notify::Event>| {
                // Reading must not wake the reader.
                if !matches!(event, Ok(notify::Event { kind: EventKind::Access(_), .. })) {
                    let _ = (&far).write(b"x");
                }
            };
            let mut watcher = notify::recommended_watcher(told).map_err(io::Error::other)?;
            watcher.watch(logs, RecursiveMode::NonRecursive).map_err(io::Error::other)?;
            Ok(Self { _watcher: watcher, near, logs: logs.to_path_buf() })
        }

        pub(super) fn path(&self) -> &Path {
            &self.logs
        }

        pub(super) fn drain(&self) -> io::Result<Woken> {
            let mut some = [0; 64];
            loop {
                match (&self.near).read(&mut some) {
                    Ok(0) => break,
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            Ok(Woken { written: true, names: true })
        }
    }

    impl AsFd for Watch {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.near.as_fd()
        }
    }
}
