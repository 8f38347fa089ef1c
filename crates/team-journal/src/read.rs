//! Reading from a position: complete lines only, across segments, damage noticed and stepped over.
//! Writes nothing and takes no lock.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::Result;
use crate::journal::Journal;
use crate::line::{Header, Line, LogFact, Parsed, Payload, Wire};
use crate::scan::{self, Flow};
use crate::segment::{self, Segment, read_at};

/// Lines are read in pieces of this size.
const CHUNK: usize = 1 << 20;

/// A position in the log: behind a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    /// The seq of the segment's first line.
    pub segment: u64,
    /// Where in the segment the next line begins.
    pub offset: u64,
    /// The seq of the line before.
    pub seq: u64,
    /// The hash of the line before.
    pub hash: Digest,
}

/// Something wrong that a reader came across.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// These lines cannot be read any more.
    Damaged {
        /// The first lost seq.
        from: u64,
        /// The last lost seq.
        to: u64,
    },
    /// The line was changed, removed or slipped in after it was written.
    Tampered {
        /// Its seq.
        seq: u64,
    },
}

impl Finding {
    pub(crate) fn fact(self) -> LogFact {
        match self {
            Self::Damaged { from, to } => LogFact::Damaged { from, to },
            Self::Tampered { seq } => LogFact::Tampered { seq },
        }
    }
}

/// What a reading came across besides lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadReport {
    /// How many lines were handed out.
    pub lines: u64,
    /// Damage and tampering, in order; the journal's next append records what is not recorded yet.
    pub findings: Vec<Finding>,
    /// Bytes stepped over because they are no lines.
    pub skipped: u64,
    /// Bytes behind the last complete line: an append under way, or one that was never finished.
    pub unfinished: u64,
    /// The file being read has no name any more.
    pub deleted: bool,
}

/// Why reading a piece ended.
enum Piece {
    /// This many bytes were understood; more may follow.
    Used(usize),
    /// The segment ends here.
    Sealed,
    /// Something does not fit: look again before believing it.
    Doubt,
}

impl<B: Serialize + DeserializeOwned + Clone, E: Payload> Journal<B, E> {
    /// Returns the position before the first line that still exists.
    pub fn cursor_start(&self) -> Result<Cursor> {
        let first = match segment::sealed(&self.places)?.keys().next() {
            Some(first) => *first,
            None => match Segment::open_active(&self.places, self.options.version)? {
                Some(active) => active.first,
                None => 1,
            },
        };
        self.cursor_at(first)
    }

    /// Returns the position at the beginning of a segment.
    pub(crate) fn cursor_at(&self, first: u64) -> Result<Cursor> {
        let mut hash = Digest::ZERO;
        if first > 1 {
            // Nothing before it is there to compare with: believe what its first line says.
            if let Some(segment) = self.segment(first)? {
                let size = segment.meta()?.len();
                scan::lines(&segment.file, &segment.path, 0, size, |_, line| {
                    if let Ok(Some(header)) = Header::parse(line, u32::MAX) {
                        hash = header.prev;
                    }
                    Flow::Stop
                })?;
            }
        }
        Ok(Cursor { segment: first, offset: 0, seq: first.saturating_sub(1), hash })
    }

    /// Hands every complete line behind the cursor to `each` and moves the cursor behind it.
    ///
    /// Lines of one append come together or not at all. With nothing new this is one `fstat`.
    pub fn read_new(&self, cursor: &mut Cursor, each: &mut dyn FnMut(&Line<B, E>)) -> Result<ReadReport> {
        let mut report = ReadReport::default();
        let outcome = self.read_on(cursor, &mut report, each);
        self.note(&report.findings);
        outcome.map(|()| report)
    }

    /// Reads to the end of the log.
    pub(crate) fn read_on(
        &self,
        cursor: &mut Cursor,
        report: &mut ReadReport,
        each: &mut dyn FnMut(&Line<B, E>),
    ) -> Result<()> {
        while let Some(segment) = self.segment_for(cursor)? {
            let before = cursor.segment;
            self.read_segment(&segment, cursor, report, &mut |line, _| each(line))?;
            if report.deleted && self.forget_replaced(&segment)? {
                report.deleted = false;
                continue;
            }
            if cursor.segment != before {
                continue;
            }
            // A sealed segment without a readable seal, or one that is no more: whatever is missing, the next one goes on.
            let next = if segment.sealed || report.deleted { self.first_behind(before)? } else { None };
            let Some(next) = next else { break };
            report.skipped += std::mem::take(&mut report.unfinished);
            cursor.segment = next;
            cursor.offset = 0;
        }
        Ok(())
    }

    /// Reads to the end of one segment; a `Sealed` line moves the cursor to the next one.
    pub(crate) fn read_segment(
        &self,
        segment: &Arc<Segment>,
        cursor: &mut Cursor,
        report: &mut ReadReport,
        each: &mut dyn FnMut(&Line<B, E>, u64),
    ) -> Result<()> {
        let meta = segment.meta()?;
        let mut size = meta.len();
        report.deleted |= is_deleted(&meta);
        report.unfinished = 0;
        if size == cursor.offset {
            return Ok(());
        }
        let start = cursor.offset;
        let mut buffer = self.take_buffer();
        let mut reader =
            Reader { version: self.options.version, sure_at: None, report, each, batch: Vec::new() };
        let mut chunk = CHUNK;
        if start > 0 && !ends_line(segment, start, size)? {
            // The file is not the one this position was taken in.
            self.relocate(segment, cursor, size)?;
            reader.sure_at = Some(cursor.offset);
        }
        let outcome = loop {
            if cursor.offset >= size {
                break Ok(());
            }
            let left = usize::try_from(size - cursor.offset).unwrap_or(usize::MAX);
            let want = chunk.min(left);
            if let Err(error) = read_at(&segment.file, &segment.path, cursor.offset, want, &mut buffer) {
                break Err(error);
            }
            match reader.piece(&buffer, cursor) {
                Err(error) => break Err(error),
                Ok(Piece::Sealed) => break Ok(()),
                Ok(Piece::Used(0)) if want < left && buffer.len() == want => chunk = chunk.saturating_mul(2),
                Ok(Piece::Used(0)) => {
                    reader.report.unfinished = buffer.len() as u64;
                    break Ok(());
                }
                Ok(Piece::Used(_)) => {}
                Ok(Piece::Doubt) => {
                    // A torn end may have been cut off and written over while it was being read,
                    // or the file may have been replaced. Only what is seen twice is believed.
                    if cursor.offset == start && start > 0 && reader.sure_at != Some(start) {
                        size = segment.meta()?.len();
                        self.relocate(segment, cursor, size)?;
                    }
                    reader.sure_at = Some(cursor.offset);
                }
            }
        };
        drop(reader);
        self.give_buffer(buffer);
        outcome
    }

    /// Moves the cursor to where the line behind its seq begins in this file.
    fn relocate(&self, segment: &Segment, cursor: &mut Cursor, size: u64) -> Result<()> {
        let mut offset = 0;
        let mut hash = None;
        scan::lines(&segment.file, &segment.path, 0, size, |at, line| {
            match Header::parse(line, self.options.version) {
                Ok(Some(header)) if header.seq > cursor.seq => Flow::Stop,
                Ok(Some(_)) => {
                    offset = at + line.len() as u64 + 1;
                    hash = Some(Digest::of(line));
                    Flow::Go
                }
                Ok(None) => Flow::Go,
                Err(_) => Flow::Stop,
            }
        })?;
        cursor.offset = offset;
        if let Some(hash) = hash {
            cursor.hash = hash;
        }
        Ok(())
    }
}

/// Whether the file has lost its last name.
pub(crate) fn is_deleted(meta: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    meta.nlink() == 0
}

/// Whether a line ends at `offset`, as it must for a position taken in this file.
fn ends_line(segment: &Segment, offset: u64, size: u64) -> Result<bool> {
    if size < offset {
        return Ok(false);
    }
    let mut byte = Vec::new();
    read_at(&segment.file, &segment.path, offset - 1, 1, &mut byte)?;
    Ok(byte == b"\n")
}

struct Reader<'a, B, E> {
    version: u32,
    /// The offset behind which a doubt has been looked into.
    sure_at: Option<u64>,
    report: &'a mut ReadReport,
    each: &'a mut dyn FnMut(&Line<B, E>, u64),
    batch: Vec<Whole<B, E>>,
}

/// A line with its place in the segment.
struct Whole<B, E> {
    line: Line<B, E>,
    start: u64,
    end: u64,
    digest: Digest,
}

impl<B: DeserializeOwned, E: Payload> Reader<'_, B, E> {
    /// Goes through the complete lines of a piece that begins at the cursor.
    fn piece(&mut self, buffer: &[u8], cursor: &mut Cursor) -> Result<Piece> {
        let base = cursor.offset;
        let mut start = 0;
        let mut bad = false;
        self.batch.clear();
        while let Some(len) = memchr::memchr(b'\n', &buffer[start..]) {
            let bytes = &buffer[start..start + len];
            let end = start + len + 1;
            match Wire::parse(bytes, self.version)? {
                Parsed::Bad => bad = true,
                Parsed::Line(line, more) => {
                    if bad {
                        // More follows, so what was held back is all that is left of its append.
                        if let Some(piece) = self.flush(cursor) {
                            return Ok(piece);
                        }
                        bad = false;
                    }
                    let digest = Digest::of(bytes);
                    let whole = Whole { line, start: base + start as u64, end: base + end as u64, digest };
                    let piece = if more > 0 {
                        self.batch.push(whole);
                        None
                    } else if self.batch.is_empty() {
                        self.hand_out(&whole, cursor)
                    } else {
                        self.batch.push(whole);
                        self.flush(cursor)
                    };
                    if let Some(piece) = piece {
                        return Ok(piece);
                    }
                }
            }
            start = end;
        }
        Ok(Piece::Used(usize::try_from(cursor.offset - base).unwrap_or(usize::MAX)))
    }

    fn flush(&mut self, cursor: &mut Cursor) -> Option<Piece> {
        let mut batch = std::mem::take(&mut self.batch);
        let piece = batch.iter().find_map(|whole| self.hand_out(whole, cursor));
        batch.clear();
        self.batch = batch;
        piece
    }

    /// Checks seq and hash against the line before, and hands the line out.
    fn hand_out(&mut self, whole: &Whole<B, E>, cursor: &mut Cursor) -> Option<Piece> {
        let Whole { line, start, end, digest } = whole;
        let skipped = start - cursor.offset;
        let expected = cursor.seq + 1;
        if line.seq != expected || skipped > 0 {
            if self.sure_at != Some(cursor.offset) {
                return Some(Piece::Doubt);
            }
            self.report.skipped += skipped;
        }
        if line.seq < expected {
            self.report.findings.push(Finding::Tampered { seq: line.seq });
            cursor.offset = *end;
            cursor.hash = *digest;
            self.sure_at = Some(*end);
            return None;
        }
        if line.seq > expected {
            self.report.findings.push(Finding::Damaged { from: expected, to: line.seq - 1 });
            // A whole segment may be missing; a line cut out of one was cut out by somebody.
            if skipped == 0 && *start > 0 && line.prev != cursor.hash {
                self.report.findings.push(Finding::Tampered { seq: expected });
            }
        } else if skipped > 0 {
            self.report.findings.push(Finding::Tampered { seq: line.seq });
        } else if line.prev != cursor.hash {
            self.report.findings.push(Finding::Tampered { seq: cursor.seq.max(1) });
        }
        (self.each)(line, *start);
        self.report.lines += 1;
        cursor.seq = line.seq;
        cursor.hash = *digest;
        if let Some(LogFact::Sealed { .. }) = line.event.as_log() {
            cursor.segment = line.seq + 1;
            cursor.offset = 0;
            return Some(Piece::Sealed);
        }
        cursor.offset = *end;
        None
    }
}
