//! Writing: what may be done while the lock is held. Knows order, hash and room; an event is opaque.

use std::fs::File;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::digest::Digest;
use crate::end::End;
use crate::error::{Doing as _, Error, Result};
use crate::journal::{Journal, Writing, locked};
use crate::line::{Draft, Frame, Line, LogFact, Parsed, Payload, Wire, encode};
use crate::lock::LockFile;
use crate::read::{Cursor, ReadReport};
use crate::{scan, stamp};

/// How much an append matters when space runs out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Something new is begun: refused when little space is left.
    Intent,
    /// Something has happened: written as long as the disk, and then the ballast, holds out.
    Outcome,
}

/// The held lock: the only way to write. Dropping it releases the lock.
#[derive(Debug)]
pub struct Guard<'a, B, E> {
    // Before everything else, so that the lock goes first.
    lock: LockFile,
    pub(crate) journal: &'a Journal<B, E>,
    file: Arc<File>,
    end: End,
    /// What a sync has to reach.
    written: Vec<Arc<File>>,
    /// A write went wrong: look at the file again before the next one.
    stale: bool,
    restored: bool,
}

impl<B: Serialize + DeserializeOwned + Clone, E: Payload> Journal<B, E> {
    /// Takes the lock, waiting no longer than `timeout`, and puts the end of the log in order:
    /// an unfinished tail is set aside, an interrupted rotation finished, the spool taken in.
    pub fn lock(&self, timeout: Duration) -> Result<Guard<'_, B, E>> {
        let lock = match self.acquire(timeout) {
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                self.check_there()?;
                self.make_state()?;
                self.acquire(timeout)?
            }
            other => other?,
        };
        let (writing, size) = self.open_for_append(&lock)?;
        let mut guard = Guard {
            lock,
            journal: self,
            file: Arc::clone(&writing.file),
            end: writing.end,
            written: Vec::new(),
            stale: true,
            restored: false,
        };
        guard.settle(writing, size)?;
        guard.drain_spool()?;
        Ok(guard)
    }
}

impl<B: Serialize + DeserializeOwned + Clone, E: Payload> Guard<'_, B, E> {
    /// Reads on from a cursor; with the lock held nothing can come after what this returns.
    pub fn read_new(&self, cursor: &mut Cursor, each: &mut dyn FnMut(&Line<B, E>)) -> Result<ReadReport> {
        self.journal.read_new(cursor, each)
    }

    /// Returns the position behind the last line.
    pub fn cursor(&self) -> Cursor {
        self.end.cursor()
    }

    /// Appends drafts as one record: all of them or none. See [`Guard::append_as`].
    pub fn append(&mut self, now: DateTime<Utc>, drafts: Vec<Draft<B, E>>) -> Result<Vec<Line<B, E>>> {
        self.append_as(Priority::Intent, now, drafts)
    }

    /// Appends drafts as one record, in one `write(2)`.
    ///
    /// Returns every line that was written, in order: the journal's own (a rotation, findings of
    /// earlier readings) come first, the drafts' are the last `drafts.len()`.
    pub fn append_as(
        &mut self,
        priority: Priority,
        now: DateTime<Utc>,
        drafts: Vec<Draft<B, E>>,
    ) -> Result<Vec<Line<B, E>>> {
        if drafts.iter().any(|draft| draft.event.as_log().is_some()) {
            return Err(Error::Reserved);
        }
        if drafts.is_empty() {
            return Ok(Vec::new());
        }
        self.freshen()?;
        if priority == Priority::Intent {
            self.journal.check_room()?;
        }
        let mut lines = self.rotate_if_due(now)?;
        let findings = self.unrecorded()?;
        let mut all: Vec<_> = findings.iter().map(|finding| self.own(finding.fact())).collect();
        all.extend(drafts);
        lines.extend(self.write(priority, now, all)?);
        self.journal.forget_findings(&findings);
        Ok(lines)
    }

    /// Writes whatever lines of the journal's own are due: a rotation, findings of earlier readings. The next append
    /// then begins with the line behind [`Guard::cursor`], so that its lines can be told their own numbers before.
    pub fn write_own_lines(&mut self, now: DateTime<Utc>) -> Result<()> {
        self.freshen()?;
        self.rotate_if_due(now)?;
        let findings = self.unrecorded()?;
        if findings.is_empty() {
            return Ok(());
        }
        let own = findings.iter().map(|finding| self.own(finding.fact())).collect();
        self.write(Priority::Outcome, now, own)?;
        self.journal.forget_findings(&findings);
        Ok(())
    }

    fn freshen(&mut self) -> Result<()> {
        if self.stale {
            let (writing, size) = self.journal.open_for_append(&self.lock)?;
            self.settle(writing, size)?;
        }
        Ok(())
    }

    fn rotate_if_due(&mut self, now: DateTime<Utc>) -> Result<Vec<Line<B, E>>> {
        if self.end.offset < self.journal.options.segment_bytes {
            return Ok(Vec::new());
        }
        match self.rotate(now) {
            // No room for a new segment is no reason to lose what has happened.
            Err(Error::NoSpace { .. }) if !self.end.sealed => Ok(Vec::new()),
            other => other,
        }
    }

    /// Releases the lock, then forces what was appended to the disk: promised lines need it.
    pub fn unlock_and_sync(self) -> Result<()> {
        let Self { lock, journal, written, .. } = self;
        let outcome = journal.options.fail_at("unlock:before");
        drop(lock);
        outcome?;
        journal.options.fail_at("unlock:after")?;
        if journal.options.sync {
            for file in written {
                file.sync_data().doing("sync", &journal.places.active())?;
            }
        }
        Ok(())
    }

    pub(crate) fn own(&self, fact: LogFact) -> Draft<B, E> {
        Draft { team: None, by: self.journal.options.by.clone(), event: E::from_log(fact) }
    }

    pub(crate) fn end(&self) -> &End {
        &self.end
    }

    pub(crate) fn lock_file(&self) -> &LockFile {
        &self.lock
    }

    /// Whether taking this lock put a vanished log file back.
    pub fn restored(&self) -> bool {
        self.restored
    }

    /// Makes the end of the active file fit to be appended to.
    fn settle(&mut self, Writing { file, end, .. }: Writing, size: u64) -> Result<()> {
        self.file = file;
        self.end = end;
        let mut facts = Vec::new();
        if self.journal.restored.load(Ordering::Relaxed) {
            facts.push(LogFact::Restored {});
        }
        let lost = *locked(&self.journal.lost);
        facts.extend(lost.map(|(from, to)| LogFact::Damaged { from, to }));
        if size > end.offset {
            self.journal.set_aside(&self.file, end, size)?;
            facts.push(LogFact::TailSetAside { bytes: size - end.offset });
        }
        let known = self.lock.known_end();
        if let Some(known) = known {
            if known.seq > end.seq {
                // These lines were there once. Their numbers are not given out again.
                facts.push(LogFact::Damaged { from: end.seq + 1, to: known.seq });
                self.end.seq = known.seq;
                self.end.ts = self.end.ts.max(known.ts);
            } else if known.seq == end.seq && known.hash != end.hash {
                facts.push(LogFact::Tampered { seq: end.seq });
            }
        }
        self.stale = false;
        if self.end.sealed {
            self.finish_rotation((self.journal.options.clock)())?;
        }
        if !facts.is_empty() {
            let drafts = facts.into_iter().map(|fact| self.own(fact)).collect();
            self.write(Priority::Outcome, (self.journal.options.clock)(), drafts)?;
            *locked(&self.journal.lost) = None;
            self.restored = self.journal.restored.swap(false, Ordering::Relaxed);
        } else if known != Some(self.end) {
            self.publish();
        }
        Ok(())
    }

    /// Seals the active segment and begins the next one.
    fn rotate(&mut self, now: DateTime<Utc>) -> Result<Vec<Line<B, E>>> {
        let options = &self.journal.options;
        options.fail_at("rotate:before_seal")?;
        let seal = self.own(LogFact::Sealed { last_seq: self.end.seq + 1 });
        let mut lines = self.write(Priority::Outcome, now, vec![seal])?;
        lines.push(self.finish_rotation(now)?);
        Ok(lines)
    }

    /// Does what is left to do once a segment ends with its seal.
    fn finish_rotation(&mut self, now: DateTime<Utc>) -> Result<Line<B, E>> {
        let journal = self.journal;
        // Until the new segment stands, the old end is not one to append to.
        self.stale = true;
        journal.close_segment(&self.end)?;
        let (writing, line) = journal.begin_segment(&self.lock, &self.end, now)?;
        self.file = writing.file;
        self.end = writing.end;
        self.written.push(Arc::clone(&self.file));
        self.stale = false;
        journal.keep_ballast();
        Ok(line)
    }

    /// Writes drafts as one record.
    pub(crate) fn write(
        &mut self,
        priority: Priority,
        now: DateTime<Utc>,
        drafts: Vec<Draft<B, E>>,
    ) -> Result<Vec<Line<B, E>>> {
        let redactor = self.journal.redactor();
        let v = self.journal.options.version;
        let mut bytes = self.journal.take_buffer();
        let mut lines = Vec::with_capacity(drafts.len());
        let mut end = self.end;
        let mut more = u32::try_from(drafts.len()).unwrap_or(u32::MAX);
        end.ts = end.ts.max(stamp::trim(now));
        for Draft { team, by, event } in drafts {
            more -= 1;
            let frame = Frame { seq: end.seq + 1, ts: end.ts, v, prev: end.hash, more };
            let start = bytes.len();
            let redacted = encode(&mut bytes, &redactor, frame, team.as_deref(), &by, &event)?;
            let written = &bytes[start..bytes.len() - 1];
            end.seq += 1;
            end.hash = Digest::of(written);
            end.len = written.len() as u64;
            end.sealed = matches!(event.as_log(), Some(LogFact::Sealed { .. }));
            let mut line = Line { seq: frame.seq, ts: frame.ts, v, prev: frame.prev, team, by, event };
            if redacted {
                // What is folded now must be what will be read later.
                if let Parsed::Line(read, _) = Wire::parse(written, v)? {
                    line = read;
                }
            }
            lines.push(line);
        }
        end.offset += bytes.len() as u64;
        let outcome = self.commit(priority, &bytes, end);
        self.journal.give_buffer(bytes);
        outcome.map(|()| lines)
    }

    /// Puts encoded lines into the file: whole, or not at all.
    pub(crate) fn commit(&mut self, priority: Priority, bytes: &[u8], end: End) -> Result<()> {
        let options = &self.journal.options;
        let path = self.journal.places.active();
        options.fail_at("append:before_write")?;
        let mut retried = false;
        loop {
            let error = match options.disk.write(&self.file, bytes) {
                Ok(written) if written == bytes.len() => break,
                Ok(_) => ErrorKind::StorageFull.into(),
                Err(error) => error,
            };
            self.stale = true;
            self.file.set_len(self.end.offset).doing("write", &path)?;
            self.stale = false;
            let full = matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
            if full && !retried && (priority == Priority::Intent || self.journal.release_ballast()) {
                retried = true;
                continue;
            }
            return Err(match Error::io("write", &path, error) {
                Error::NoSpace { path, .. } => {
                    Error::NoSpace { free: self.journal.free(), needed: bytes.len() as u64, path }
                }
                other => other,
            });
        }
        self.stale = true;
        options.fail_at("append:after_write")?;
        let size = self.file.metadata().doing("read", &path)?.len();
        if size == end.offset {
            self.end = end;
        } else {
            self.check_foreign(size, end)?;
        }
        self.stale = false;
        if !self.written.iter().any(|file| Arc::ptr_eq(file, &self.file)) {
            self.written.push(Arc::clone(&self.file));
        }
        self.publish();
        options.fail_at("append:before_unlock")
    }

    /// Somebody appends without the lock: make sure that our record is whole all the same.
    fn check_foreign(&mut self, size: u64, end: End) -> Result<()> {
        let path = self.journal.places.active();
        match scan::last_line(&self.file, &path, size, self.journal.options.version)? {
            Some(last) if last.digest == end.hash => {
                self.end = End { offset: last.end, ..end };
                Ok(())
            }
            _ => Err(Error::Io {
                doing: "write",
                path,
                source: std::io::Error::other("another program writes into the log"),
            }),
        }
    }

    /// Lets the next holder, here or elsewhere, know the end without reading.
    fn publish(&self) {
        self.lock.remember(&self.end);
        if let Some(id) = self.end.file {
            let writing = Writing { file: Arc::clone(&self.file), id, end: self.end };
            *locked(&self.journal.writing) = Some(writing);
        }
    }

    /// Findings of this process that no line of the log records.
    fn unrecorded(&self) -> Result<Vec<crate::read::Finding>> {
        let noted = self.journal.noted();
        let mut open = Vec::with_capacity(noted.len());
        for finding in noted {
            if self.journal.is_recorded(finding)? {
                self.journal.forget_findings(&[finding]);
            } else {
                open.push(finding);
            }
        }
        Ok(open)
    }
}
