//! The handle of one log: opening, making, and the files it keeps open. Knows where things are;
//! what is written and how is in `guard.rs`, what is read in `read.rs`.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write as _;
use std::marker::PhantomData;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::end::{End, Known};
use crate::error::{Doing as _, Error, Result};
use crate::index::Index;
use crate::line::{LogFact, Parsed, Payload, Wire};
use crate::lock::LockFile;
use crate::options::{Options, Places};
use crate::read::{Cursor, Finding, ReadReport};
use crate::redact::Redactor;
use crate::scan::{self, Flow};
use crate::segment::{self, FileId, Segment, is_absent, open_if_there};

/// The append-only log: lines of events `E`, each written by some `B`.
#[derive(Debug)]
pub struct Journal<B, E> {
    pub(crate) places: Places,
    pub(crate) options: Options<B>,
    redactor: RwLock<Arc<Redactor>>,
    log_id: Mutex<Option<String>>,
    /// When the spool was last seen empty, by the time of its directory.
    pub(crate) empty_spool: Mutex<Option<SystemTime>>,
    /// Segments kept open for reading, the latest last.
    open: Mutex<Vec<Arc<Segment>>>,
    pub(crate) writing: Mutex<Option<Writing>>,
    /// A descriptor from which the active file may be restored.
    pub(crate) lent: Mutex<Option<Arc<File>>>,
    /// Whether the active file was restored and no line says so yet.
    pub(crate) restored: AtomicBool,
    /// The first and the last line of an active file that was emptied, if no line says so yet.
    pub(crate) lost: Mutex<Option<(u64, u64)>>,
    buffer: Mutex<Vec<u8>>,
    findings: Mutex<Vec<Finding>>,
    pub(crate) indexes: Mutex<HashMap<u64, Index>>,
    events: PhantomData<fn() -> E>,
}

/// The active file, open for appending, and its end as it was last known.
#[derive(Debug, Clone)]
pub(crate) struct Writing {
    pub(crate) file: Arc<File>,
    pub(crate) id: FileId,
    pub(crate) end: End,
}

/// What a check of the whole log came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verification {
    /// Where the log ends.
    pub end: Cursor,
    /// What the reading came across.
    pub report: ReadReport,
    /// Whether the end differs from what the state directory remembers of it.
    pub end_differs: bool,
}

impl Verification {
    /// Whether nothing at all is wrong.
    pub fn is_clean(&self) -> bool {
        self.report.findings.is_empty() && self.report.unfinished == 0 && !self.end_differs
    }
}

impl<B: Serialize + DeserializeOwned + Clone, E: Payload> Journal<B, E> {
    /// Opens a log for reading, and for writing once it is locked. Creates nothing.
    ///
    /// Where no log ever was, reading gives nothing. Where one is known but gone, this refuses.
    pub fn open(places: Places, options: Options<B>) -> Result<Self> {
        let known = known_log_id(&places)?;
        let journal = Self::new(places, options, None);
        let found = journal.find_log_id()?;
        match (found, known) {
            (Found::Nothing, None) => {}
            (Found::Nothing, Some(log_id)) => return Err(journal.missing(log_id)),
            (Found::Log(Some(found)), Some(known)) if found != known => {
                return Err(Error::Foreign { path: journal.places.active(), found, known });
            }
            (Found::Log(found), known) => *locked(&journal.log_id) = found.or(known),
        }
        Ok(journal)
    }

    /// Makes a new log with its first line.
    pub fn create(places: Places, options: Options<B>, log_id: &str) -> Result<Self> {
        if let Some(log_id) = known_log_id(&places)? {
            let path = places.active();
            return Err(if path.exists() {
                Error::Exists { path }
            } else {
                Error::LogMissing { path, log_id }
            });
        }
        make_dir(&places.logs)?;
        let journal = Self::new(places, options, Some(log_id.to_owned()));
        journal.make_state()?;
        let lock = journal.acquire(std::time::Duration::from_secs(5))?;
        if journal.places.active().exists() || !segment::sealed(&journal.places)?.is_empty() {
            return Err(Error::Exists { path: journal.places.active() });
        }
        journal.begin_segment(&lock, &End::nothing(), (journal.options.clock)())?;
        journal.options.fail_at("create:before_id")?;
        journal.remember_id(log_id)?;
        journal.keep_ballast();
        drop(lock);
        Ok(journal)
    }

    fn new(places: Places, options: Options<B>, log_id: Option<String>) -> Self {
        Self {
            redactor: RwLock::new(Arc::new(options.redactor.clone())),
            places,
            options,
            log_id: Mutex::new(log_id),
            empty_spool: Mutex::default(),
            open: Mutex::default(),
            writing: Mutex::default(),
            lent: Mutex::default(),
            restored: AtomicBool::new(false),
            lost: Mutex::default(),
            buffer: Mutex::default(),
            findings: Mutex::default(),
            indexes: Mutex::default(),
            events: PhantomData,
        }
    }

    /// Returns where the log lies.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Returns the log's id, if there is a log.
    pub fn log_id(&self) -> Option<String> {
        locked(&self.log_id).clone()
    }

    /// Replaces what is removed from everything that is written from now on.
    pub fn set_redactor(&self, redactor: Redactor) {
        *self.redactor.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(redactor);
    }

    pub(crate) fn redactor(&self) -> Arc<Redactor> {
        Arc::clone(&self.redactor.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the whole log and compares its end with what the state directory remembers.
    pub fn verify(&self) -> Result<Verification> {
        let known = LockFile::peek(&self.places).and_then(|known| known.end);
        let mut end = self.cursor_start()?;
        let mut report = ReadReport::default();
        let mut end_differs = false;
        self.read_on(&mut end, &mut report, &mut |line| {
            end_differs |= known.is_some_and(|known| line.seq == known.seq + 1 && line.prev != known.hash);
        })?;
        end_differs |= known.is_some_and(|known| {
            if end.seq == known.seq { end.hash != known.hash } else { end.seq < known.seq }
        });
        Ok(Verification { end, report, end_differs })
    }

    /// Remembers findings until an append records them.
    pub(crate) fn note(&self, found: &[Finding]) {
        if found.is_empty() {
            return;
        }
        let mut findings = locked(&self.findings);
        for finding in found {
            if !findings.contains(finding) {
                findings.push(*finding);
            }
        }
    }

    pub(crate) fn noted(&self) -> Vec<Finding> {
        locked(&self.findings).clone()
    }

    pub(crate) fn forget_findings(&self, done: &[Finding]) {
        locked(&self.findings).retain(|finding| !done.contains(finding));
    }

    pub(crate) fn take_buffer(&self) -> Vec<u8> {
        std::mem::take(&mut *locked(&self.buffer))
    }

    pub(crate) fn give_buffer(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        if buffer.capacity() <= 4 << 20 {
            *locked(&self.buffer) = buffer;
        }
    }

    /// Returns the segment that begins with `first`, from those kept open if it is among them.
    pub(crate) fn segment(&self, first: u64) -> Result<Option<Arc<Segment>>> {
        if let Some(segment) = locked(&self.open).iter().find(|segment| segment.first == first) {
            return Ok(Some(Arc::clone(segment)));
        }
        let Some(segment) = Segment::open(&self.places, first, self.options.version)? else {
            return Ok(None);
        };
        let segment = Arc::new(segment);
        let mut open = locked(&self.open);
        if open.len() >= 4 {
            open.remove(0);
        }
        open.push(Arc::clone(&segment));
        Ok(Some(segment))
    }

    /// Returns the segment to read next, moving a cursor whose segment is lost to the next one.
    pub(crate) fn segment_for(&self, cursor: &mut Cursor) -> Result<Option<Arc<Segment>>> {
        if let Some(segment) = self.segment(cursor.segment)? {
            return Ok(Some(segment));
        }
        let Some(next) = self.first_behind(cursor.segment)? else { return Ok(None) };
        cursor.segment = next;
        cursor.offset = 0;
        self.segment(next)
    }

    /// Returns the beginning of the next segment that exists.
    pub(crate) fn first_behind(&self, first: u64) -> Result<Option<u64>> {
        if let Some((next, _)) = segment::sealed(&self.places)?.range(first + 1..).next() {
            return Ok(Some(*next));
        }
        let active = Segment::open_active(&self.places, self.options.version)?;
        Ok(active.map(|active| active.first).filter(|active| *active > first))
    }

    /// Drops an open file that lost its name, if another has taken its place.
    pub(crate) fn forget_replaced(&self, old: &Arc<Segment>) -> Result<bool> {
        let Some(new) = Segment::open(&self.places, old.first, self.options.version)? else {
            return Ok(false);
        };
        if FileId::of(&new.meta()?) == FileId::of(&old.meta()?) {
            return Ok(false);
        }
        let mut open = locked(&self.open);
        open.retain(|segment| segment.first != old.first);
        open.push(Arc::new(new));
        Ok(true)
    }

    /// Drops open files whose place was taken by others; for readers that were told of new names.
    pub(crate) fn revalidate(&self) -> Result<()> {
        let open = locked(&self.open).clone();
        for segment in open {
            self.forget_replaced(&segment)?;
        }
        Ok(())
    }

    /// Returns the latest segment that is kept open for reading.
    pub(crate) fn newest_open(&self) -> Option<Arc<Segment>> {
        locked(&self.open).iter().max_by_key(|segment| segment.first).cloned()
    }

    pub(crate) fn missing(&self, log_id: String) -> Error {
        Error::LogMissing { path: self.places.active(), log_id }
    }

    pub(crate) fn acquire(&self, timeout: std::time::Duration) -> Result<LockFile> {
        LockFile::acquire(&self.places.lock(), timeout, &self.options.holder)
    }

    /// Makes the directories of the state, all private.
    pub(crate) fn make_state(&self) -> Result<()> {
        let locks = self.places.state.join("locks");
        for dir in [&self.places.state, &locks, &self.places.spool(), &self.places.links()] {
            make_dir(dir)?;
        }
        Ok(())
    }

    /// Records the id, so that a vanished log is never taken for a new one.
    pub(crate) fn remember_id(&self, log_id: &str) -> Result<()> {
        let path = self.places.log_id();
        write_whole(&path, format!("{log_id}\n").as_bytes(), self.options.sync)
    }

    /// Records the id of a log that came without state, such as a moved one.
    pub(crate) fn adopt(&self) {
        if let Some(log_id) = self.log_id()
            && !self.places.log_id().exists()
        {
            // A caller that may not write here is not the one to adopt it.
            let _ = self.make_state();
            let _ = self.remember_id(&log_id);
        }
    }

    /// Whether somebody emptied the active file.
    pub fn is_emptied(&self) -> bool {
        fs::metadata(self.places.active()).is_ok_and(|it| it.len() == 0) && self.had_lines()
    }

    fn had_lines(&self) -> bool {
        LockFile::peek(&self.places).is_some_and(|known| known.end.is_some())
    }

    fn find_log_id(&self) -> Result<Found> {
        let path = self.places.active();
        if let Some(file) = open_if_there(&path)? {
            if file.metadata().doing("read", &path)?.len() > 0 {
                return Ok(Found::Log(self.id_in(&file, &path)?));
            }
            if self.had_lines() {
                // The next to lock it goes on behind what was lost.
                return Ok(Found::Log(None));
            }
        }
        // Between two segments there is a moment without an active file.
        let Some((first, path)) = segment::sealed(&self.places)?.pop_last() else {
            return Ok(Found::Nothing);
        };
        let Some(segment) = Segment::open_sealed(&self.places, first)? else { return Ok(Found::Nothing) };
        let size = segment.meta()?.len();
        let last = scan::last_line(&segment.file, &path, size, self.options.version)?;
        let known = LockFile::peek(&self.places).and_then(|known: Known| known.end);
        match (last, known) {
            (Some(last), Some(known)) if known.seq > last.header.seq => Ok(Found::Nothing),
            _ => Ok(Found::Log(self.id_in(&segment.file, &path)?)),
        }
    }

    /// Reads the id from a segment's first line, and refuses a newer format.
    fn id_in(&self, file: &File, path: &Path) -> Result<Option<String>> {
        let known = self.options.version;
        let mut id = Ok(None);
        let size = file.metadata().doing("read", path)?.len();
        scan::lines(file, path, 0, size, |_, line| {
            id = match Wire::<B, E>::parse(line, known) {
                Err(error) => Err(error),
                Ok(Parsed::Bad) => Ok(None),
                Ok(Parsed::Line(line, _)) => match line.event.as_log() {
                    Some(LogFact::Opened { format, .. }) if format > known => {
                        Err(Error::Newer { found: format, known })
                    }
                    Some(LogFact::Opened { log_id, .. }) => Ok(Some(log_id)),
                    _ => Ok(None),
                },
            };
            Flow::Stop
        })?;
        id
    }
}

enum Found {
    Nothing,
    /// A log, with its id if that can be read.
    Log(Option<String>),
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the id of the log that the state directory remembers, whether its file is there or not.
pub fn known_log_id(places: &Places) -> Result<Option<String>> {
    let path = places.log_id();
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|id| !id.is_empty())),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error).doing("read", &path),
    }
}

pub(crate) fn make_dir(dir: &Path) -> Result<()> {
    match DirBuilder::new().recursive(true).mode(0o700).create(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other.doing("create", dir),
    }
}

/// Writes a private file so that its name shows either the old or the new content.
pub(crate) fn write_whole(path: &Path, content: &[u8], sync: bool) -> Result<()> {
    write_parts(path, &[content], sync)
}

/// Like [`write_whole`], from several pieces.
pub(crate) fn write_parts(path: &Path, parts: &[&[u8]], sync: bool) -> Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}-{}.new", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)));
    let temporary = Path::new(&name);
    let written = (|| {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(temporary)?;
        for part in parts {
            file.write_all(part)?;
        }
        if sync {
            file.sync_data()?;
        }
        fs::rename(temporary, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(temporary);
    }
    written.doing("write", path)
}
