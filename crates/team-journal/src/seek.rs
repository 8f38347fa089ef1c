//! Finds a line by its seq: the right segment, then halving. Knows frames; knows no event.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Result;
use crate::journal::Journal;
use crate::line::{Header, Line, Parsed, Payload, Wire};
use crate::scan::{self, Flow};
use crate::segment::{self, Segment, read_at};

/// Ranges below this size are read through.
const SMALL: u64 = 32 << 10;

impl<B: Serialize + DeserializeOwned + Clone, E: Payload> Journal<B, E> {
    /// Returns the line with this seq, if it exists and can be read.
    pub fn read_seq(&self, seq: u64) -> Result<Option<Line<B, E>>> {
        let Some(bytes) = self.raw_line(seq)? else { return Ok(None) };
        Ok(match Wire::parse(&bytes, self.options.version)? {
            Parsed::Line(line, _) => Some(line),
            Parsed::Bad => None,
        })
    }

    /// Returns the bytes of the line with this seq.
    pub(crate) fn raw_line(&self, seq: u64) -> Result<Option<Vec<u8>>> {
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

    fn line_in(&self, segment: &Segment, seq: u64) -> Result<Option<Vec<u8>>> {
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

    fn search(&self, segment: &Segment, from: u64, size: u64, seq: u64) -> Result<Option<Vec<u8>>> {
        let mut found = None;
        scan::lines(&segment.file, &segment.path, from, size, |_, line| {
            let at = match Header::quick_seq(line) {
                Some(at) => at,
                None => match Header::parse(line, self.options.version) {
                    Ok(Some(header)) => header.seq,
                    _ => return Flow::Go,
                },
            };
            if at == seq && Header::parse(line, u32::MAX).is_ok_and(|header| header.is_some()) {
                found = Some(line.to_vec());
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
