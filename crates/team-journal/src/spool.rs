//! Observations that must not wait: files beside the log that the next holder of the lock takes in.
//! Knows drafts as JSON; knows no event.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::digest::Digest;
use crate::error::{Doing as _, Error, Result};
use crate::guard::{Guard, Priority};
use crate::journal::{Journal, locked, make_dir, write_whole};
use crate::line::{Draft, Frame, Header, Line, Payload, encode};
use crate::options::{Options, Places};
use crate::redact::Redactor;
use crate::segment::is_absent;
use crate::stamp;

/// Longer than any tick of a file system's clock.
const TICK: Duration = Duration::from_secs(2);

/// What became of an observation.
#[derive(Debug, Clone, PartialEq)]
pub enum Observed<B, E> {
    /// It is in the log; see [`Guard::append_as`] for the order.
    Appended(Vec<Line<B, E>>),
    /// It waits beside the log.
    Spooled,
}

#[derive(Serialize)]
struct Out<'a, B, E> {
    #[serde(with = "stamp")]
    at: DateTime<Utc>,
    drafts: &'a [Draft<B, E>],
}

/// A spooled record; its events stay as they were written, even if they are newer than this program.
#[derive(Deserialize)]
struct In {
    #[serde(with = "stamp")]
    at: DateTime<Utc>,
    drafts: Vec<RawDraft>,
}

#[derive(Deserialize)]
struct RawDraft {
    team: Option<String>,
    by: Box<RawValue>,
    event: Box<RawValue>,
}

impl<B: Serialize + DeserializeOwned + Clone, E: Payload> Journal<B, E> {
    /// Records what was seen, without folding and without waiting longer than `wait`: if the lock
    /// is not free by then, the observation goes into the spool.
    pub fn observe(
        &self,
        now: DateTime<Utc>,
        drafts: Vec<Draft<B, E>>,
        wait: Duration,
    ) -> Result<Observed<B, E>> {
        if drafts.iter().any(|draft| draft.event.as_log().is_some()) {
            return Err(Error::Reserved);
        }
        let mut guard = match self.lock(wait) {
            Ok(guard) => guard,
            Err(Error::Busy { .. } | Error::LogMissing { .. }) => {
                put(&self.places, &self.redactor(), self.options.sync, now, &drafts)?;
                return Ok(Observed::Spooled);
            }
            Err(error) => return Err(error),
        };
        let kept = drafts.clone();
        match guard.append_as(Priority::Outcome, now, drafts) {
            Ok(lines) => Ok(Observed::Appended(lines)),
            // The state directory may lie on another disk.
            Err(Error::NoSpace { .. }) => {
                put(&self.places, &self.redactor(), self.options.sync, now, &kept)?;
                Ok(Observed::Spooled)
            }
            Err(error) => Err(error),
        }
    }
}

/// Spools an observation without opening the log, for callers that were refused at opening it.
pub fn spool<B: Serialize, E: Serialize>(
    places: &Places,
    options: &Options<B>,
    now: DateTime<Utc>,
    drafts: &[Draft<B, E>],
) -> Result<()> {
    put(places, &options.redactor, options.sync, now, drafts)
}

fn put<B: Serialize, E: Serialize>(
    places: &Places,
    redactor: &Redactor,
    sync: bool,
    now: DateTime<Utc>,
    drafts: &[Draft<B, E>],
) -> Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let dir = places.spool();
    make_dir(&dir)?;
    let mut bytes = serde_json::to_vec(&Out { at: now, drafts }).map_err(Error::Serialize)?;
    redactor.redact_json(&mut bytes, 0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let name = format!("{:020}-{:010}-{count:06}.json", since.as_nanos(), std::process::id());
    write_whole(&dir.join(name), &bytes, sync)
}

impl<B: Serialize + DeserializeOwned + Clone, E: Payload> Guard<'_, B, E> {
    /// Takes everything in the spool into the log, in the order in which it was put there.
    pub(crate) fn drain_spool(&mut self) -> Result<()> {
        let dir = self.journal.places.spool();
        if !self.lock_file().is_writable() {
            // What cannot be removed would be taken in again and again.
            return Ok(());
        }
        // Listing costs more than all else in a lock, so a directory that was seen empty is listed
        // again only when its time has changed.
        let modified = fs::metadata(&dir).and_then(|meta| meta.modified()).ok();
        if modified.is_some() && *locked(&self.journal.empty_spool) == modified {
            return Ok(());
        }
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(error).doing("read", &dir),
        };
        let mut files: Vec<PathBuf> = Vec::new();
        for entry in entries {
            let path = entry.doing("read", &dir)?.path();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("json" | "taken") => files.push(path),
                Some("new") => drop_stale(&path),
                _ => {}
            }
        }
        if files.is_empty() {
            // A change within the same tick of the clock would not show in the time.
            let settled = modified.filter(|time| time.elapsed().is_ok_and(|age| age > TICK));
            *locked(&self.journal.empty_spool) = settled;
        }
        files.sort();
        files.iter().try_for_each(|path| self.take_in(path))
    }

    fn take_in(&mut self, path: &Path) -> Result<()> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(error).doing("read", path),
        };
        let spooled = match serde_json::from_str::<In>(&text) {
            Ok(spooled) if !text.contains('\n') => spooled,
            _ => return fs::rename(path, path.with_extension("bad")).doing("rename", path),
        };
        if let Some(seq) = taken_as(path)
            && self.holds(seq, &spooled)?
        {
            return fs::remove_file(path).doing("remove", path);
        }
        // The name says where the record goes, so that a crash between the append and the removal
        // does not bring it in twice.
        let base = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.split('.').next());
        let taken = path.with_file_name(format!("{}.{}.taken", base.unwrap_or_default(), self.end().seq + 1));
        fs::rename(path, &taken).doing("rename", path)?;
        self.journal.options.fail_at("spool:before_append")?;
        self.write_raw(&spooled)?;
        self.journal.options.fail_at("spool:before_remove")?;
        fs::remove_file(&taken).doing("remove", &taken)
    }

    /// Whether the record stands in the log at this seq.
    fn holds(&self, seq: u64, spooled: &In) -> Result<bool> {
        let Some(draft) = spooled.drafts.first() else { return Ok(true) };
        let Some(line) = self.journal.raw_line(seq)? else { return Ok(false) };
        let Some(Header { seq, ts, v, prev, more }) = Header::parse(&line, u32::MAX)? else {
            return Ok(false);
        };
        let mut bytes = Vec::new();
        draft.encode(&mut bytes, &self.journal.redactor(), Frame { seq, ts, v, prev, more })?;
        Ok(bytes.strip_suffix(b"\n") == Some(&line))
    }

    fn write_raw(&mut self, spooled: &In) -> Result<()> {
        let redactor = self.journal.redactor();
        let mut bytes = Vec::new();
        let mut end = *self.end();
        end.ts = end.ts.max(stamp::trim(spooled.at));
        let mut more = u32::try_from(spooled.drafts.len()).unwrap_or(u32::MAX);
        for draft in &spooled.drafts {
            more -= 1;
            end.seq += 1;
            let v = self.journal.options.version;
            let start = bytes.len();
            draft.encode(
                &mut bytes,
                &redactor,
                Frame { seq: end.seq, ts: end.ts, v, prev: end.hash, more },
            )?;
            let line = &bytes[start..bytes.len() - 1];
            end.hash = Digest::of(line);
            end.len = line.len() as u64;
        }
        end.offset += bytes.len() as u64;
        if bytes.is_empty() { Ok(()) } else { self.commit(Priority::Outcome, &bytes, end) }
    }
}

impl RawDraft {
    fn encode(&self, out: &mut Vec<u8>, redactor: &Redactor, frame: Frame) -> Result<()> {
        encode(out, redactor, frame, self.team.as_deref(), &self.by, &self.event).map(|_| ())
    }
}

/// The seq in the name of a record whose taking-in was begun.
fn taken_as(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?.strip_suffix(".taken")?;
    name.split_once('.')?.1.parse().ok()
}

/// Removes what a killed process left half written.
fn drop_stale(path: &Path) {
    let old = |modified: SystemTime| modified.elapsed().is_ok_and(|age| age > Duration::from_secs(3600));
    if fs::metadata(path).and_then(|meta| meta.modified()).is_ok_and(old) {
        let _ = fs::remove_file(path);
    }
}
