//! Finding lines by key: one index per segment, built when first needed and kept in the cache
//! directory. A cache: whatever does not fit is built anew. Knows keys and positions; no event.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::Result;
use crate::journal::{Journal, locked, write_parts};
use crate::line::{Line, Parsed, Payload, Wire};
use crate::read::{Cursor, ReadReport};
use crate::scan;
use crate::segment::{self, Segment, read_at};

/// A segment's new part is written into the index file from this size on.
const WORTH_SAVING: u64 = 4 << 20;
const ENTRY: usize = 16;

/// What is known of one segment.
#[derive(Debug)]
pub(crate) struct Index {
    /// The part that lies in the cache directory.
    stored: Option<Stored>,
    /// How far the lines are indexed.
    cursor: Cursor,
    /// Where the stored part ends.
    saved: u64,
    /// The lines behind the stored part, sorted: the hash of a key, the position.
    fresh: Vec<(u64, u64)>,
}

#[derive(Debug)]
struct Stored {
    file: File,
    /// Where the entries begin.
    at: u64,
    entries: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    log_id: Option<String>,
    format: String,
    /// How far the entries reach.
    cursor: Cursor,
    /// The end of the last line that they cover.
    end: u64,
    last_seq: u64,
    last_hash: Digest,
    entries: u64,
}

impl<B: Serialize + DeserializeOwned + Clone, E: Payload> Journal<B, E> {
    /// Returns every line with this key, in order.
    pub fn find(&self, key: &str) -> Result<Vec<Line<B, E>>> {
        let mut lines = Vec::new();
        for first in self.firsts()? {
            lines.extend(self.find_in(first, key)?);
        }
        Ok(lines)
    }

    /// Returns the last line with this key.
    pub fn find_last(&self, key: &str) -> Result<Option<Line<B, E>>> {
        for first in self.firsts()?.into_iter().rev() {
            if let Some(line) = self.find_in(first, key)?.pop() {
                return Ok(Some(line));
            }
        }
        Ok(None)
    }

    /// Lists the segments by their first seq.
    fn firsts(&self) -> Result<Vec<u64>> {
        // The active one first: a rotation in between must not hide it.
        let active = Segment::open_active(&self.places, self.options.version)?.map(|segment| segment.first);
        let mut firsts: Vec<u64> = segment::sealed(&self.places)?.into_keys().collect();
        firsts.extend(active.filter(|first| !firsts.contains(first)));
        firsts.sort_unstable();
        Ok(firsts)
    }

    fn find_in(&self, first: u64, key: &str) -> Result<Vec<Line<B, E>>> {
        let Some(segment) = self.segment(first)? else { return Ok(Vec::new()) };
        let mut indexes = locked(&self.indexes);
        if let std::collections::hash_map::Entry::Vacant(e) = indexes.entry(first) {
            let index = match self.load_index(&segment) {
                Some(index) => index,
                None => Index::new(self.cursor_at(first)?),
            };
            e.insert(index);
        }
        let Some(index) = indexes.get_mut(&first) else { return Ok(Vec::new()) };
        self.extend_index(&segment, index)?;
        let hash = key_hash(key);
        let mut places = match &index.stored {
            Some(stored) => stored.lookup(hash, &self.places.index(first))?,
            None => Vec::new(),
        };
        let from = index.fresh.partition_point(|entry| entry.0 < hash);
        places.extend(index.fresh[from..].iter().take_while(|entry| entry.0 == hash).map(|entry| entry.1));
        drop(indexes);
        places.sort_unstable();
        places.dedup();
        let mut lines = Vec::with_capacity(places.len());
        for place in places {
            // Two keys may share a hash, so the line has the last word.
            lines.extend(
                self.line_at(&segment, place)?.filter(|line| keys_of(&line.event).any(|it| it == key)),
            );
        }
        Ok(lines)
    }

    fn line_at(&self, segment: &Segment, offset: u64) -> Result<Option<Line<B, E>>> {
        let mut found = None;
        let mut window = 4 << 10;
        let mut buffer = Vec::new();
        loop {
            read_at(&segment.file, &segment.path, offset, window, &mut buffer)?;
            if let Some(len) = memchr::memchr(b'\n', &buffer) {
                if let Parsed::Line(line, _) = Wire::parse(&buffer[..len], self.options.version)? {
                    found = Some(line);
                }
                return Ok(found);
            }
            if buffer.len() < window {
                return Ok(None);
            }
            window *= 4;
        }
    }

    /// Indexes what has come since.
    fn extend_index(&self, segment: &Arc<Segment>, index: &mut Index) -> Result<()> {
        if index.cursor.segment != segment.first {
            return Ok(());
        }
        let mut report = ReadReport::default();
        let fresh = &mut index.fresh;
        let sorted = fresh.len();
        let mut cursor = index.cursor;
        let outcome = self.read_segment(segment, &mut cursor, &mut report, &mut |line, place| {
            fresh.extend(keys_of(&line.event).map(|key| (key_hash(&key), place)));
        });
        if fresh.len() > sorted {
            // Sorting in runs: a long sorted part with a short new one behind it costs little.
            fresh.sort_by_key(|entry| *entry);
        }
        index.cursor = cursor;
        outcome?;
        let sealed = cursor.segment != segment.first;
        let end = if sealed { segment.meta()?.len() } else { cursor.offset };
        if (sealed || end - index.saved >= WORTH_SAVING) && self.places.cache.is_dir() {
            // Only a cache: without it the lines are read again next time.
            if self.save_index(segment, index, end).is_ok()
                && let Some(stored) = self.load_index(segment)
            {
                *index = stored;
            }
        }
        Ok(())
    }

    fn save_index(&self, segment: &Segment, index: &Index, end: u64) -> Result<()> {
        let path = self.places.index(segment.first);
        let mut entries = Vec::new();
        if let Some(stored) = &index.stored {
            stored.read_all(&path, &mut entries)?;
        }
        entries.extend(&index.fresh);
        entries.sort_unstable();
        entries.dedup();
        let head = Head {
            log_id: self.log_id(),
            format: self.options.index_format.clone(),
            cursor: index.cursor,
            end,
            last_seq: index.cursor.seq,
            last_hash: index.cursor.hash,
            entries: entries.len() as u64,
        };
        let mut bytes = Vec::with_capacity(entries.len() * ENTRY);
        for (hash, place) in entries {
            bytes.extend_from_slice(&hash.to_le_bytes());
            bytes.extend_from_slice(&place.to_le_bytes());
        }
        let head = serde_json::to_vec(&head).map_err(crate::error::Error::Serialize)?;
        write_parts(&path, &[&head, b"\n", &bytes], self.options.sync)
    }

    /// Opens a stored index if it fits the segment in every respect.
    fn load_index(&self, segment: &Segment) -> Option<Index> {
        let path = self.places.index(segment.first);
        let file = File::open(&path).ok()?;
        let size = file.metadata().ok()?.len();
        let mut start = Vec::new();
        read_at(&file, &path, 0, 4 << 10, &mut start).ok()?;
        let newline = memchr::memchr(b'\n', &start)?;
        let head: Head = serde_json::from_slice(&start[..newline]).ok()?;
        let at = newline as u64 + 1;
        let fits = head.log_id == self.log_id()
            && head.format == self.options.index_format
            && size == head.entries.checked_mul(ENTRY as u64)?.checked_add(at)?
            && head.cursor.seq == head.last_seq;
        if !fits {
            return None;
        }
        let version = self.options.version;
        let (last, hash) = scan::line_ending_at(&segment.file, &segment.path, head.end, version).ok()??;
        if last.seq != head.last_seq || hash != head.last_hash {
            return None;
        }
        let stored = Some(Stored { file, at, entries: head.entries });
        Some(Index { stored, cursor: head.cursor, saved: head.end, fresh: Vec::new() })
    }
}

impl Index {
    fn new(cursor: Cursor) -> Self {
        Self { stored: None, cursor, saved: 0, fresh: Vec::new() }
    }
}

impl Stored {
    /// Finds all places of a hash by halving.
    fn lookup(&self, hash: u64, path: &Path) -> Result<Vec<u64>> {
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle, path)?.0 < hash { low = middle + 1 } else { high = middle }
        }
        let mut places = Vec::new();
        while low < self.entries {
            let (found, place) = self.entry(low, path)?;
            if found != hash {
                break;
            }
            places.push(place);
            low += 1;
        }
        Ok(places)
    }

    fn entry(&self, number: u64, path: &Path) -> Result<(u64, u64)> {
        let mut bytes = Vec::new();
        read_at(&self.file, path, self.at + number * ENTRY as u64, ENTRY, &mut bytes)?;
        Ok(decode(&bytes))
    }

    fn read_all(&self, path: &Path, into: &mut Vec<(u64, u64)>) -> Result<()> {
        let mut bytes = Vec::new();
        let len = usize::try_from(self.entries).unwrap_or(0) * ENTRY;
        read_at(&self.file, path, self.at, len, &mut bytes)?;
        into.extend(bytes.chunks_exact(ENTRY).map(decode));
        Ok(())
    }
}

fn decode(bytes: &[u8]) -> (u64, u64) {
    let half = |from: usize| {
        let half = bytes.get(from..from + 8).and_then(|half| half.try_into().ok());
        half.map_or(0, u64::from_le_bytes)
    };
    (half(0), half(8))
}

/// The keys of an event, those of the journal's own facts included.
fn keys_of<E: Payload>(event: &E) -> impl Iterator<Item = String> {
    event.keys().into_iter().chain(event.as_log().map(|fact| fact.key().to_owned()))
}

/// FNV-1a: the same in every build, which the standard hasher does not promise.
fn key_hash(key: &str) -> u64 {
    key.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
