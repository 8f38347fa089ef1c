//! The cache of a fold: a state and the position it was taken at. Knows positions; a state is opaque.

use std::fs;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::digest::sha256_hex;
use crate::error::{Error, Result};
use crate::journal::{Journal, make_dir, write_parts, write_whole};
use crate::line::Payload;
use crate::read::Cursor;
use crate::scan;
use crate::segment;

/// What has to match before a snapshot is believed.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    log_id: Option<String>,
    version: u32,
    format: String,
    cursor: Cursor,
    bytes: u64,
    sha256: String,
}

impl<B: Serialize + DeserializeOwned + Clone, E: Payload> Journal<B, E> {
    /// Returns the saved state and its position, if it fits this log and this fold in every respect.
    pub fn load_snapshot<S: DeserializeOwned>(&self, format: &str) -> Option<(S, Cursor)> {
        let bytes = fs::read(self.places.snapshot()).ok()?;
        let newline = memchr::memchr(b'\n', &bytes)?;
        let (head, state) = (&bytes[..newline], &bytes[newline + 1..]);
        // The cache lies where agents may write; the mark does not.
        let mark = fs::read_to_string(self.places.snapshot_mark()).ok();
        if mark.as_ref().is_some_and(|it| it.trim() != sha256_hex(head)) {
            return None;
        }
        let head: Head = serde_json::from_slice(head).ok()?;
        let fits = head.log_id == self.log_id()
            && head.version == self.options.version
            && head.format == format
            && head.bytes == state.len() as u64
            && head.sha256 == sha256_hex(state)
            && (self.is_position(&head.cursor).unwrap_or(false)
                || (mark.is_some() && self.is_lost(&head.cursor).unwrap_or(false)));
        if !fits {
            return None;
        }
        Some((serde_json::from_slice(state).ok()?, head.cursor))
    }

    /// Saves a state as the fold of everything before `cursor`. `format` names the fold.
    pub fn save_snapshot<S: Serialize>(&self, state: &S, cursor: &Cursor, format: &str) -> Result<()> {
        let state = serde_json::to_vec(state).map_err(Error::Serialize)?;
        let head = Head {
            log_id: self.log_id(),
            version: self.options.version,
            format: format.to_owned(),
            cursor: *cursor,
            bytes: state.len() as u64,
            sha256: sha256_hex(&state),
        };
        let head = serde_json::to_vec(&head).map_err(Error::Serialize)?;
        make_dir(&self.places.cache)?;
        self.make_state()?;
        write_whole(&self.places.snapshot_mark(), sha256_hex(&head).as_bytes(), false)?;
        self.options.fail_at("snapshot:between")?;
        // Not forced to the disk: after a power failure the hash tells.
        write_parts(&self.places.snapshot(), &[&head, b"\n", &state], false)
    }

    /// Whether the segment of a position is gone, with all before it: then only this cache knows what was in it.
    fn is_lost(&self, cursor: &Cursor) -> Result<bool> {
        if !segment::sealed(&self.places)?.is_empty() {
            return Ok(false);
        }
        let active = segment::Segment::open_active(&self.places, self.options.version)?;
        Ok(active.map_or(cursor.seq > 0, |it| it.first > cursor.seq))
    }

    /// Whether a line with the cursor's seq and hash ends at its offset.
    pub(crate) fn is_position(&self, cursor: &Cursor) -> Result<bool> {
        if cursor.seq == 0 {
            return Ok(cursor.offset == 0 && self.cursor_start()? == *cursor);
        }
        let mut first = cursor.segment;
        let mut offset = Some(cursor.offset);
        if cursor.offset == 0 {
            // Between two segments: the line is the last one of the segment before.
            match segment::sealed(&self.places)?.range(..cursor.segment).next_back() {
                Some((before, _)) => first = *before,
                None => return Ok(self.cursor_start()? == *cursor),
            }
            offset = None;
        }
        let Some(segment) = self.segment(first)? else { return Ok(false) };
        let size = segment.meta()?.len();
        let offset = offset.unwrap_or(size);
        if offset > size {
            return Ok(false);
        }
        let line = scan::line_ending_at(&segment.file, &segment.path, offset, self.options.version)?;
        Ok(line.is_some_and(|(header, hash)| header.seq == cursor.seq && hash == cursor.hash))
    }
}
