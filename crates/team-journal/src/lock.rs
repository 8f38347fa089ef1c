//! The lock of the log: one file that is never renamed or removed. It also says who holds it and,
//! in its second half, where the log ended. Knows processes; knows no line.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::end::{End, Known, Note};
use crate::error::{Doing as _, Error, Holder, Result};
use crate::options::Places;
use crate::segment::open_if_there;

/// Each half of the file is one padded line of JSON.
const HALF: usize = 256;

/// The lock, held; released when dropped.
#[derive(Debug)]
pub(crate) struct LockFile {
    file: File,
    writable: bool,
}

impl LockFile {
    /// Takes the lock or says who holds it. A read-only descriptor is enough, as in a sandbox.
    pub(crate) fn acquire(path: &Path, timeout: Duration, what: &str) -> Result<Self> {
        let begun = Instant::now();
        let mut pause = Duration::from_micros(50);
        let mut opened = Self::open(path)?;
        loop {
            match opened.file.try_lock() {
                Ok(()) => {
                    if opened.file.metadata().doing("read", path)?.nlink() > 0 {
                        opened.say(what);
                        return Ok(opened);
                    }
                    // Somebody removed the directory: what we hold keeps nobody out.
                    opened = Self::open(path)?;
                }
                Err(TryLockError::WouldBlock) => {
                    let waited = begun.elapsed();
                    if waited >= timeout {
                        return Err(Error::Busy { holder: holder(&opened.file), waited });
                    }
                    // The lock is held for some 20 us, so this is short; it cannot wait in the
                    // kernel, where nothing bounds the time.
                    std::thread::sleep(pause.min(timeout.saturating_sub(waited)));
                    pause = (pause * 2).min(Duration::from_millis(2));
                }
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) => return Err(error).doing("lock", path),
            }
        }
    }

    fn open(path: &Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        match options.open(path) {
            Ok(file) => Ok(Self { file, writable: true }),
            Err(error) => match File::open(path) {
                Ok(file) => Ok(Self { file, writable: false }),
                Err(_) => Err(error).doing("lock", path),
            },
        }
    }

    /// Whether this caller may write in the state directory.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable
    }

    /// Reads what the lock file says, without taking the lock.
    pub(crate) fn peek(places: &Places) -> Option<Known> {
        open_if_there(&places.lock()).ok().flatten().map(|file| read(&file))
    }

    pub(crate) fn known_end(&self) -> Option<End> {
        read(&self.file).end
    }

    /// Remembers where the log ends. Only a hint: what the log itself says comes first.
    pub(crate) fn remember(&self, end: &End) {
        if self.writable {
            self.put(HALF as u64, end);
        }
    }

    fn say(&self, what: &str) {
        if self.writable {
            let mut what = what.to_owned();
            let mut fits = what.len().min(128);
            while !what.is_char_boundary(fits) {
                fits -= 1;
            }
            what.truncate(fits);
            self.put(0, &Note { pid: std::process::id(), what });
        }
    }

    fn put<T: serde::Serialize>(&self, at: u64, value: &T) {
        let mut half = Vec::with_capacity(HALF);
        if serde_json::to_writer(&mut half, value).is_ok() && half.len() < HALF {
            half.resize(HALF - 1, b' ');
            half.push(b'\n');
            // If this fails, the next holder reads the log's end instead.
            let _ = self.file.write_all_at(&half, at);
        }
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Explicitly, because a child forked by another thread may still hold the descriptor.
        let _ = self.file.unlock();
    }
}

fn read(file: &File) -> Known {
    let mut bytes = [0; HALF * 2];
    let mut filled = 0;
    while let Ok(read) = file.read_at(&mut bytes[filled..], filled as u64) {
        filled += read;
        if read == 0 || filled == bytes.len() {
            break;
        }
    }
    let half = |at: usize| bytes[at..at + HALF].trim_ascii();
    Known { holder: serde_json::from_slice(half(0)).ok(), end: serde_json::from_slice(half(HALF)).ok() }
}

/// Says who holds the lock: the system's word first, what the holder wrote second.
fn holder(file: &File) -> Holder {
    let note: Option<Note> = read(file).holder;
    match (locking_pid(file), note) {
        (Some(pid), Some(note)) if note.pid == pid => Holder { pid: Some(pid), what: note.what },
        (Some(pid), _) => Holder { pid: Some(pid), what: command_of(pid) },
        (None, Some(note)) => Holder { pid: Some(note.pid), what: note.what },
        (None, None) => Holder { pid: None, what: "unknown".into() },
    }
}

/// Looks the file up among the system's locks.
#[cfg(target_os = "linux")]
fn locking_pid(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let kind = fields.next()?;
        let (_, _) = (fields.next()?, fields.next()?);
        let pid: i64 = fields.next()?.parse().ok()?;
        let place = fields.next()?;
        let ours = kind == "FLOCK" && place.rsplit(':').next() == Some(inode.as_str());
        // Holders in another pid namespace show as 0 or less.
        ours.then(|| u32::try_from(pid).ok().filter(|pid| *pid > 0)).flatten()
    })
}

#[cfg(not(target_os = "linux"))]
fn locking_pid(_: &File) -> Option<u32> {
    None
}

fn command_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm"))
        .map_or_else(|_| "unknown".into(), |name| name.trim().to_owned())
}
