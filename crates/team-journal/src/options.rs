//! Where a log lies and how it is handled. Knows paths and seams; opens nothing itself.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::error::{Error, Result};
use crate::redact::Redactor;

/// The three directories of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Holds `events.jsonl`, the sealed segments, `bodies/` and `set-aside/`.
    pub logs: PathBuf,
    /// Private (0700): `locks/log.lock`, `spool/`, `segments/` (links), `ballast`, `log-id`.
    pub state: PathBuf,
    /// Caches: the snapshot and the indexes; may be deleted at any moment.
    pub cache: PathBuf,
}

impl Places {
    /// The file that is appended to.
    pub fn active(&self) -> PathBuf {
        self.logs.join("events.jsonl")
    }

    /// The file of a sealed segment.
    pub fn sealed(&self, first: u64) -> PathBuf {
        self.logs.join(format!("events-{first}.jsonl"))
    }

    /// The directory of long texts.
    pub fn bodies(&self) -> PathBuf {
        self.logs.join("bodies")
    }

    /// The lock file.
    pub fn lock(&self) -> PathBuf {
        self.state.join("locks").join("log.lock")
    }

    pub(crate) fn set_aside(&self) -> PathBuf {
        self.logs.join("set-aside")
    }

    pub(crate) fn spool(&self) -> PathBuf {
        self.state.join("spool")
    }

    pub(crate) fn links(&self) -> PathBuf {
        self.state.join("segments")
    }

    pub(crate) fn link(&self, first: u64) -> PathBuf {
        self.links().join(format!("events-{first}.jsonl"))
    }

    pub(crate) fn log_id(&self) -> PathBuf {
        self.state.join("log-id")
    }

    pub(crate) fn snapshot(&self) -> PathBuf {
        self.cache.join("snapshot.json")
    }

    pub(crate) fn snapshot_mark(&self) -> PathBuf {
        self.state.join("snapshot-mark")
    }

    pub(crate) fn index(&self, first: u64) -> PathBuf {
        self.cache.join(format!("index-{first}"))
    }
}

/// What of the disk a test must be able to replace.
pub trait Disk: Send + Sync {
    /// Returns the bytes that this user can still write below `dir`.
    fn free(&self, dir: &Path) -> io::Result<u64>;

    /// Appends by one `write(2)`; may write less than asked.
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize>;
}

/// The disk of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn free(&self, dir: &Path) -> io::Result<u64> {
        let stat = nix::sys::statvfs::statvfs(dir)?;
        #[cfg_attr(target_os = "linux", expect(clippy::useless_conversion, reason = "narrower on macOS"))]
        Ok(u64::from(stat.blocks_available()).saturating_mul(u64::from(stat.fragment_size())))
    }

    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match file.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

/// A hook that is asked at each named point whether the journal should fail there.
pub type Fail = Arc<dyn Fn(&'static str) -> bool + Send + Sync>;

/// Tells the time of the lines that the journal writes of its own accord.
pub type Clock = Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>;

/// How a log is handled.
#[derive(Clone)]
pub struct Options<B> {
    /// Who writes the journal's own lines.
    pub by: B,
    /// What this process does, for those whom it keeps waiting.
    pub holder: String,
    /// What must never reach the log.
    pub redactor: Redactor,
    /// From which size on a segment is sealed.
    pub segment_bytes: u64,
    /// Whether promised lines are forced to the disk.
    pub sync: bool,
    /// The newest `v` that this program knows, and the one it writes.
    pub version: u32,
    /// Changes whenever [`crate::Payload::keys`] does, so that old indexes are dropped.
    pub index_format: String,
    /// New intents are refused when fewer bytes are free.
    pub reserve: u64,
    /// The time of the journal's own lines.
    pub clock: Clock,
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// Failpoints.
    pub fail: Option<Fail>,
}

impl<B> Options<B> {
    /// Makes the usual options; `by` signs the journal's own lines.
    pub fn new(by: B) -> Self {
        Self {
            by,
            holder: "team-agent".into(),
            redactor: Redactor::default(),
            segment_bytes: 32 << 20,
            sync: true,
            version: 1,
            index_format: "1".into(),
            reserve: 64 << 20,
            clock: Arc::new(Utc::now),
            disk: Arc::new(RealDisk),
            fail: None,
        }
    }

    pub(crate) fn fail_at(&self, point: &'static str) -> Result<()> {
        match &self.fail {
            Some(fail) if fail(point) => Err(Error::Failpoint(point)),
            _ => Ok(()),
        }
    }
}

impl<B: std::fmt::Debug> std::fmt::Debug for Options<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("by", &self.by)
            .field("holder", &self.holder)
            .field("segment_bytes", &self.segment_bytes)
            .field("sync", &self.sync)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
