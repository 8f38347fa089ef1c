//! Finds a line by its seq: the right segment, then halving. Knows frames; knows no event.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::digest::Digest;
use crate::error::Result;
use crate::journal::Journal;
use crate::line::{Header, Line, LogFact, Parsed, Payload, Wire};
use crate::read::Cursor;
use crate::scan::{self, Flow};
use crate::segment::{self, Segment, read_at};

/// Ranges below this size are read through.
const SMALL: u64 = 32 << 10;

/// A line and where it stands.
struct Found {
    /// The first seq of its segment.
    first: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<B: Serialize + DeserializeOwned + Clone, E: Payload> Journal<B, E> {
    /// Returns the line with this seq, if it exists and can be read.
    pub fn read_seq(&self, seq: u64) -> Result<Option<Line<B, E>>> {
        let Some(bytes) = self.raw_line(seq)? else { return Ok(None) };
        Ok(match Wire::parse(&bytes, self.options.version)? {
            Parsed::Line(line, _) => Some(line),
            Parsed::Bad => None,
        })
    }

    /// Returns the position behind the line with this seq; the beginning of the log if there is no such line.
    ///
    /// For readers who want what came later and not all that came before.
    pub fn cursor_behind(&self, seq: u64) -> Result<Cursor> {
        if let Some(Found { first, start, bytes }) = self.find_line(seq)? {
            let sealed = matches!(
                Wire::<B, E>::parse(&bytes, self.options.version)?,
                Parsed::Line(line, _) if matches!(line.event.as_log(), Some(LogFact::Sealed { .. }))
            );
            let hash = Digest::of(&bytes);
            return Ok(if sealed {
                Cursor { segment: seq + 1, offset: 0, seq, hash }
            } else {
                Cursor { segment: first, offset: start + bytes.len() as u64 + 1, seq, hash }
            });
        }
        self.cursor_start()
    }

    /// Returns the lines with this key from `seq` on, read one after the other: for things that began lately.
    pub fn find_since(&self, key: &str, seq: u64) -> Result<Vec<Line<B, E>>> {
        let mut found = Vec::new();
        let mut cursor = self.cursor_behind(seq.saturating_sub(1))?;
        self.read_new(&mut cursor, &mut |line| {
            if line.seq >= seq && line.event.keys().iter().any(|it| it == key) {
                found.push(line.clone());
            }
        })?;
        Ok(found)
    }

    /// Returns the bytes of the line with this seq.
    pub(crate) fn raw_line(&self, seq: u64) -> Result<Option<Vec<u8>>> {
        Ok(self.find_line(seq)?.map(|found| found.bytes))
    }

    fn find_line(&self, seq: u64) -> Result<Option<Found>> {
        let active = Segment::open_active(&self.places, self.options.version)?;
        if let Some(active) = active.filter(|active| active.first <= seq) {
            return self.line_in(&active, seq);
        }
        let Some((first, _)) =
            segment::sealed(&self.places)?.range(..=seq).next_back().map(|(k, v)| (*k, v.clone()))
        else {
            return Ok(None);
        };
        match self.segment(first)? {
            Some(segment) => self.line_in(&segment, seq),
            None => Ok(None),
        }
    }

    fn line_in(&self, segment: &Segment, seq: u64) -> Result<Option<Found>> {
        let size = segment.meta()?.len();
        let (mut low, mut high) = (0, size);
        let mut rough = false;
        let mut buffer = Vec::new();
        while high - low > SMALL {
            let middle = low + (high - low) / 2;
            match next_line(segment, middle, high, &mut buffer, &mut rough)? {
                Some((start, found)) if found <= seq => low = start,
                _ => high = middle,
            }
        }
        let found = self.search(segment, low, size, seq)?;
        if found.is_none() && rough {
            return self.search(segment, 0, size, seq);
        }
        Ok(found)
    }

    fn search(&self, segment: &Segment, from: u64, size: u64, seq: u64) -> Result<Option<Found>> {
        let mut found = None;
        scan::lines(&segment.file, &segment.path, from, size, |start, line| {
            let at = match Header::quick_seq(line) {
                Some(at) => at,
                None => match Header::parse(line, self.options.version) {
                    Ok(Some(header)) => header.seq,
                    _ => return Flow::Go,
                },
            };
            if at == seq && Header::parse(line, u32::MAX).is_ok_and(|header| header.is_some()) {
                found = Some(Found { first: segment.first, start, bytes: line.to_vec() });
            }
            if at < seq { Flow::Go } else { Flow::Stop }
        })?;
        Ok(found)
    }
}

/// Returns the start and the seq of the first line that begins behind `from`.
fn next_line(
    segment: &Segment,
    from: u64,
    below: u64,
    buffer: &mut Vec<u8>,
    rough: &mut bool,
) -> Result<Option<(u64, u64)>> {
    let mut window = 4 << 10;
    loop {
        let left = usize::try_from(below - from).unwrap_or(usize::MAX);
        let want = left.min(window);
        read_at(&segment.file, &segment.path, from, want, buffer)?;
        let mut at = 0;
        while let Some(newline) = memchr::memchr(b'\n', &buffer[at..]) {
            at += newline + 1;
            let line = &buffer[at..];
            match leading_seq(line) {
                Some(seq) => return Ok(Some((from + at as u64, seq))),
                // Cut off by the window, or no line of ours.
                None if line.len() < 32 => break,
                None => *rough = true,
            }
        }
        if want == left || buffer.len() < want {
            return Ok(None);
        }
        window *= 4;
    }
}

fn leading_seq(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"{\"seq\":")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if rest.get(digits) != Some(&b',') {
        return None;
    }
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}
