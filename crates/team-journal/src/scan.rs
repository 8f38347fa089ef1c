//! Walks over the lines of a file without understanding them: forwards in chunks, and backwards
//! from the end in a growing window.

use std::fs::File;
use std::path::Path;

use crate::digest::Digest;
use crate::error::Result;
use crate::line::Header;
use crate::segment::read_at;

/// The first piece is small, for those who want one line; later ones grow.
const FIRST_CHUNK: usize = 4 << 10;
const CHUNK: usize = 256 << 10;
const WINDOW: u64 = 64 << 10;

/// Whether to go on.
#[derive(PartialEq, Eq)]
pub(crate) enum Flow {
    Go,
    Stop,
}

/// Calls `each` with the offset and the bytes of every complete line in the range.
pub(crate) fn lines(
    file: &File,
    path: &Path,
    from: u64,
    to: u64,
    mut each: impl FnMut(u64, &[u8]) -> Flow,
) -> Result<()> {
    let mut at = from;
    let mut chunk = FIRST_CHUNK;
    let mut buffer = Vec::new();
    while at < to {
        let want = chunk.min(usize::try_from(to - at).unwrap_or(chunk));
        read_at(file, path, at, want, &mut buffer)?;
        let mut start = 0;
        while let Some(len) = memchr::memchr(b'\n', &buffer[start..]) {
            if each(at + start as u64, &buffer[start..start + len]) == Flow::Stop {
                return Ok(());
            }
            start += len + 1;
        }
        if start == 0 {
            // Not one whole line: at the end there is nothing more to come.
            if buffer.len() < want || at + buffer.len() as u64 >= to {
                return Ok(());
            }
            chunk *= 2;
        } else if chunk < CHUNK {
            chunk *= 4;
        }
        at += start as u64;
    }
    Ok(())
}

/// The last line that counts.
pub(crate) struct Last {
    pub(crate) header: Header,
    pub(crate) digest: Digest,
    /// The line itself.
    pub(crate) bytes: Vec<u8>,
    /// Where the next line begins.
    pub(crate) end: u64,
}

/// Finds the last complete line below `size` that ends an append. What lies behind it was never
/// finished. The window grows, because fixed steps would read a long unfinished line again and again.
pub(crate) fn last_line(file: &File, path: &Path, size: u64, version: u32) -> Result<Option<Last>> {
    let mut window = WINDOW;
    let mut buffer = Vec::new();
    loop {
        let from = size.saturating_sub(window);
        let len = usize::try_from(size - from).unwrap_or(usize::MAX);
        read_at(file, path, from, len, &mut buffer)?;
        let mut end = memchr::memrchr(b'\n', &buffer);
        while let Some(newline) = end {
            let before = memchr::memrchr(b'\n', &buffer[..newline]);
            let start = match before {
                Some(newline) => newline + 1,
                None if from == 0 => 0,
                None => break,
            };
            let bytes = &buffer[start..newline];
            if let Some(header) = Header::parse(bytes, version)?.filter(|header| header.more == 0) {
                return Ok(Some(Last {
                    header,
                    digest: Digest::of(bytes),
                    bytes: bytes.to_vec(),
                    end: from + newline as u64 + 1,
                }));
            }
            end = before;
        }
        if from == 0 {
            return Ok(None);
        }
        window *= 4;
    }
}

/// Returns the frame and the hash of the line that ends exactly at `offset`.
pub(crate) fn line_ending_at(
    file: &File,
    path: &Path,
    offset: u64,
    version: u32,
) -> Result<Option<(Header, Digest)>> {
    let mut window = 4 << 10;
    let mut buffer = Vec::new();
    loop {
        let from = offset.saturating_sub(window);
        let len = usize::try_from(offset - from).unwrap_or(usize::MAX);
        read_at(file, path, from, len, &mut buffer)?;
        if buffer.len() != len || buffer.last() != Some(&b'\n') {
            return Ok(None);
        }
        let line = &buffer[..len - 1];
        let start = match memchr::memrchr(b'\n', line) {
            Some(newline) => newline + 1,
            None if from == 0 => 0,
            None => {
                window *= 4;
                continue;
            }
        };
        let line = &line[start..];
        return Ok(Header::parse(line, version)?.map(|header| (header, Digest::of(line))));
    }
}
