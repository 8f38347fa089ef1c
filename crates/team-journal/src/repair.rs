//! Putting the files of the log in order under the lock: the end, rotation, restoring, room on disk.
//! Knows files and positions; an event is opaque.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::digest::Digest;
use crate::end::End;
use crate::error::{Doing as _, Error, Result};
use crate::journal::{Journal, Writing, known_log_id, locked, make_dir};
use crate::line::{Frame, Line, LogFact, Parsed, Payload, Wire, encode};
use crate::lock::LockFile;
use crate::read::Finding;
use crate::segment::{self, FileId, Segment, is_absent, read_at};
use crate::{scan, stamp};

const BALLAST: usize = 1 << 20;
/// No more than this of a tail is kept.
const KEPT_TAIL: u64 = 1 << 20;

impl<B: Serialize + DeserializeOwned + Clone, E: Payload> Journal<B, E> {
    /// Refuses if there is no log to lock.
    pub(crate) fn check_there(&self) -> Result<()> {
        if self.places.active().exists() || !segment::sealed(&self.places)?.is_empty() {
            return Ok(());
        }
        Err(self.gone()?)
    }

    fn gone(&self) -> Result<Error> {
        Ok(match known_log_id(&self.places)?.or_else(|| self.log_id()) {
            Some(log_id) => self.missing(log_id),
            None => Error::NoLog { path: self.places.active() },
        })
    }

    /// Opens the active file and finds its end and its size; restores it or finishes a rotation if it is not there.
    pub(crate) fn open_for_append(&self, lock: &LockFile) -> Result<(Writing, u64)> {
        let path = self.places.active();
        for _ in 0..3 {
            let mut emptied = false;
            match fs::metadata(&path) {
                Ok(meta) if meta.len() > 0 => {
                    let id = FileId::of(&meta);
                    let kept = locked(&self.writing).clone().filter(|writing| writing.id == id);
                    let (file, known) = if let Some(kept) = kept {
                        (kept.file, Some(kept.end))
                    } else {
                        self.adopt();
                        self.keep_ballast();
                        let file =
                            OpenOptions::new().read(true).append(true).open(&path).doing("write", &path)?;
                        (Arc::new(file), None)
                    };
                    let meta = if known.is_some() { meta } else { file.metadata().doing("read", &path)? };
                    let id = FileId::of(&meta);
                    let fits = |end: &End| end.offset == meta.len() && end.file == Some(id);
                    let end = match known.filter(fits).or_else(|| lock.known_end().filter(fits)) {
                        Some(end) if stands(&file, &path, &end)? => end,
                        _ => self.find_end(&file, &path, &meta)?,
                    };
                    return Ok((Writing { file, id, end }, meta.len()));
                }
                Ok(_) => emptied = true,
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(error).doing("read", &path),
            }
            if let Some(file) = self.last_copy()? {
                self.restore(&file)?;
            } else if !(self.resume_rotation(lock)? || emptied && self.begin_behind_loss(lock)?) {
                return Err(self.gone()?);
            }
        }
        Err(self.gone()?)
    }

    fn find_end(&self, file: &File, path: &Path, meta: &fs::Metadata) -> Result<End> {
        let version = self.options.version;
        let last = scan::last_line(file, path, meta.len(), version)?;
        let first = segment::first_seq(file, path, version)?;
        let (Some(last), Some(first)) = (last, first) else { return Err(self.gone()?) };
        let sealed = self.seals(&last.bytes)?;
        Ok(End {
            first,
            offset: last.end,
            seq: last.header.seq,
            hash: last.digest,
            len: last.bytes.len() as u64,
            ts: last.header.ts,
            sealed,
            file: Some(FileId::of(meta)),
        })
    }

    fn seals(&self, line: &[u8]) -> Result<bool> {
        Ok(match Wire::<B, E>::parse(line, self.options.version)? {
            Parsed::Line(line, _) => matches!(line.event.as_log(), Some(LogFact::Sealed { .. })),
            Parsed::Bad => false,
        })
    }

    /// Keeps what lies behind the last line in a file of its own and cuts it off.
    pub(crate) fn set_aside(&self, file: &File, end: End, size: u64) -> Result<()> {
        let path = self.places.active();
        let keep = usize::try_from((size - end.offset).min(KEPT_TAIL)).unwrap_or(0);
        let mut tail = Vec::new();
        read_at(file, &path, end.offset, keep, &mut tail)?;
        let side = self.places.set_aside().join(format!("{}-{}", end.seq + 1, end.offset));
        let saved = make_dir(&self.places.set_aside())
            .and_then(|()| crate::journal::write_whole(&side, &tail, self.options.sync));
        match saved {
            // Nobody was promised these bytes; a full disk must not stop the log.
            Err(Error::NoSpace { .. }) | Ok(()) => {}
            Err(error) => return Err(error),
        }
        self.options.fail_at("tail:before_cut")?;
        file.set_len(end.offset).doing("write", &path)
    }

    /// Gives a sealed segment its own name, and a second one where no agent can remove it.
    pub(crate) fn close_segment(&self, end: &End) -> Result<()> {
        let (active, sealed) = (self.places.active(), self.places.sealed(end.first));
        self.options.fail_at("rotate:before_link")?;
        // Best effort: another file system, or a caller in a sandbox.
        let _ = fs::hard_link(&active, self.places.link(end.first));
        self.options.fail_at("rotate:before_rename")?;
        fs::rename(&active, &sealed).doing("rename", &active)?;
        self.options.fail_at("rotate:after_rename")
    }

    /// Makes the active file with its first line, complete before it has its name.
    pub(crate) fn begin_segment(
        &self,
        lock: &LockFile,
        end: &End,
        now: DateTime<Utc>,
    ) -> Result<(Writing, Line<B, E>)> {
        let path = self.places.active();
        let log_id = self.log_id().or(known_log_id(&self.places)?).unwrap_or_default();
        let event = E::from_log(LogFact::Opened {
            log_id,
            format: self.options.version,
            prev_seq: end.seq,
            prev_hash: end.hash.to_string(),
        });
        let by = self.options.by.clone();
        let ts = end.ts.max(stamp::trim(now));
        let frame = Frame { seq: end.seq + 1, ts, v: self.options.version, prev: end.hash, more: 0 };
        let mut bytes = Vec::new();
        encode(&mut bytes, &self.redactor(), frame, None, &by, &event)?;
        match self.place_active(&path, &bytes) {
            Err(Error::NoSpace { .. }) if self.release_ballast() => self.place_active(&path, &bytes)?,
            other => other?,
        }
        self.options.fail_at("rotate:after_create")?;
        let file = OpenOptions::new().read(true).append(true).open(&path).doing("write", &path)?;
        let id = FileId::of(&file.metadata().doing("read", &path)?);
        let end = End {
            first: frame.seq,
            offset: bytes.len() as u64,
            seq: frame.seq,
            hash: Digest::of(&bytes[..bytes.len() - 1]),
            len: bytes.len() as u64 - 1,
            ts,
            sealed: false,
            file: Some(id),
        };
        lock.remember(&end);
        let writing = Writing { file: Arc::new(file), id, end };
        *locked(&self.writing) = Some(writing.clone());
        let Frame { seq, v, prev, .. } = frame;
        Ok((writing, Line { seq, ts, v, prev, team: None, by, event }))
    }

    fn place_active(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        crate::journal::write_whole(path, bytes, self.options.sync)?;
        self.sync_dir()
    }

    /// Forces names to the disk.
    fn sync_dir(&self) -> Result<()> {
        if self.options.sync {
            File::open(&self.places.logs).and_then(|dir| dir.sync_all()).doing("sync", &self.places.logs)?;
        }
        Ok(())
    }

    /// Goes on where a rotation was interrupted between the two names.
    fn resume_rotation(&self, lock: &LockFile) -> Result<bool> {
        let Some((first, path)) = segment::sealed(&self.places)?.pop_last() else { return Ok(false) };
        let Some(segment) = Segment::open_sealed(&self.places, first)? else { return Ok(false) };
        let end = self.find_end(&segment.file, &path, &segment.meta()?)?;
        if !end.sealed || lock.known_end().is_some_and(|known| known.seq > end.seq) {
            return Ok(false);
        }
        self.begin_segment(lock, &end, (self.options.clock)())?;
        Ok(true)
    }

    /// Goes on behind the lines of an active file that somebody emptied: they are lost, and their numbers are not given
    /// out again.
    fn begin_behind_loss(&self, lock: &LockFile) -> Result<bool> {
        let Some(known) = lock.known_end() else { return Ok(false) };
        self.begin_segment(lock, &known, (self.options.clock)())?;
        *locked(&self.lost) = Some((known.first, known.seq));
        Ok(true)
    }

    /// Returns an open descriptor of an active file that has lost its name.
    fn last_copy(&self) -> Result<Option<Arc<File>>> {
        let path = self.places.active();
        let mut copies: Vec<Arc<File>> = locked(&self.lent).iter().cloned().collect();
        copies.extend(locked(&self.writing).as_ref().map(|writing| Arc::clone(&writing.file)));
        if let Some(segment) = self.newest_open() {
            copies.push(Arc::new(segment.file.try_clone().doing("read", &path)?));
        }
        let mut best: Option<(scan::Last, Arc<File>)> = None;
        for file in copies {
            let size = file.metadata().doing("read", &path)?.len();
            if let Some(last) = scan::last_line(&file, &path, size, self.options.version)?
                && best.as_ref().is_none_or(|(best, _)| best.header.seq < last.header.seq)
            {
                best = Some((last, file));
            }
        }
        Ok(match best {
            // A sealed segment is no active file: then a rotation was interrupted.
            Some((last, file)) if !self.seals(&last.bytes)? => Some(file),
            _ => None,
        })
    }

    /// Writes the log file anew from a descriptor; the sealed segments come back by their links.
    pub(crate) fn restore(&self, file: &File) -> Result<()> {
        let path = self.places.active();
        make_dir(&self.places.logs)?;
        for first in segment::sealed(&self.places)?.keys() {
            let (name, link) = (self.places.sealed(*first), self.places.link(*first));
            if !name.exists() && fs::hard_link(&link, &name).is_err() {
                fs::copy(&link, &name).doing("restore", &name)?;
            }
        }
        let temporary = self.places.logs.join(format!("events.jsonl.{}.restored", std::process::id()));
        let size = file.metadata().doing("read", &path)?.len();
        self.copy_out(file, size, &temporary).inspect_err(|_| {
            let _ = fs::remove_file(&temporary);
        })?;
        self.options.fail_at("restore:before_rename")?;
        fs::rename(&temporary, &path).doing("restore", &path)?;
        self.sync_dir()?;
        self.restored.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn copy_out(&self, file: &File, size: u64, to: &Path) -> Result<()> {
        let mut options = OpenOptions::new();
        let mut copy =
            options.write(true).create(true).truncate(true).mode(0o600).open(to).doing("restore", to)?;
        let mut buffer = Vec::new();
        let mut at = 0;
        while at < size {
            read_at(file, to, at, 1 << 20, &mut buffer)?;
            if buffer.is_empty() {
                break;
            }
            copy.write_all(&buffer).doing("restore", to)?;
            at += buffer.len() as u64;
        }
        if self.options.sync {
            copy.sync_data().doing("sync", to)?;
        }
        Ok(())
    }

    /// Whether a finding stands in the log already.
    pub(crate) fn is_recorded(&self, finding: Finding) -> Result<bool> {
        let recorded = self.find(finding.fact().key())?;
        Ok(recorded.iter().any(|line| match (line.event.as_log(), finding) {
            (Some(LogFact::Damaged { from, to }), Finding::Damaged { from: first, to: last }) => {
                from <= first && last <= to
            }
            (Some(LogFact::Tampered { seq }), Finding::Tampered { seq: found }) => seq == found,
            _ => false,
        }))
    }

    /// Returns what is free on the disk of the log; unknown counts as plenty.
    pub(crate) fn free(&self) -> u64 {
        self.options.disk.free(&self.places.logs).unwrap_or(u64::MAX)
    }

    /// Refuses something new when little space is left.
    pub(crate) fn check_room(&self) -> Result<()> {
        let free = self.free();
        if free < self.options.reserve {
            let needed = self.options.reserve;
            return Err(Error::NoSpace { path: self.places.active(), free, needed });
        }
        Ok(())
    }

    /// Where the ballast lies: it helps only on the disk of the log.
    fn ballast(&self) -> PathBuf {
        let disk = |path: &Path| fs::metadata(path).map(|meta| meta.dev()).ok();
        if disk(&self.places.state) == disk(&self.places.logs) {
            self.places.state.join("ballast")
        } else {
            self.places.logs.join("ballast")
        }
    }

    /// Puts the ballast (back) in place while there is plenty of room.
    pub(crate) fn keep_ballast(&self) {
        let path = self.ballast();
        let whole = fs::metadata(&path).is_ok_and(|meta| meta.len() == BALLAST as u64);
        if !whole && self.free() >= self.options.reserve.max(4 * BALLAST as u64) {
            // Not zeros, which some file systems would not store.
            let filling: Vec<u8> = (0..BALLAST).map(|at| (at % 251).to_le_bytes()[0] | 1).collect();
            let _ = crate::journal::write_whole(&path, &filling, false);
        }
    }

    /// Gives the ballast's space back to the disk; returns whether there was any.
    pub(crate) fn release_ballast(&self) -> bool {
        let path = self.ballast();
        let there = fs::metadata(&path).is_ok_and(|meta| meta.len() > 0);
        there && fs::remove_file(&path).is_ok()
    }
}

/// Whether the file still ends with the line that is remembered as its last. The size alone says
/// nothing: after a power failure there may be zeros where the line was.
fn stands(file: &File, path: &Path, end: &End) -> Result<bool> {
    let Some(start) = end.offset.checked_sub(end.len + 1) else { return Ok(false) };
    let mut line = Vec::new();
    read_at(file, path, start, usize::try_from(end.len + 1).unwrap_or(0), &mut line)?;
    Ok(line.pop() == Some(b'\n') && Digest::of(&line) == end.hash)
}
