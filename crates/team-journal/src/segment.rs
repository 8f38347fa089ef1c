//! The files that a log consists of: naming, opening, first lines. Knows no event.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::error::{Doing as _, Result};
use crate::line::Header;
use crate::options::Places;
use crate::scan;

/// Tells files apart, whatever their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct FileId {
    dev: u64,
    ino: u64,
}

impl FileId {
    pub(crate) fn of(meta: &fs::Metadata) -> Self {
        Self { dev: meta.dev(), ino: meta.ino() }
    }
}

/// An open segment.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The seq of its first line: its name for life.
    pub(crate) first: u64,
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    /// Whether it was found under a name that only complete segments have.
    pub(crate) sealed: bool,
}

impl Segment {
    /// Opens the active file, if there is one with a readable line.
    pub(crate) fn open_active(places: &Places, version: u32) -> Result<Option<Self>> {
        let path = places.active();
        let Some(file) = open_if_there(&path)? else { return Ok(None) };
        let first = first_seq(&file, &path, version)?;
        Ok(first.map(|first| Self { first, file, path, sealed: false }))
    }

    /// Opens a sealed segment under its name or by the link in the state directory.
    pub(crate) fn open_sealed(places: &Places, first: u64) -> Result<Option<Self>> {
        for path in [places.sealed(first), places.link(first)] {
            if let Some(file) = open_if_there(&path)? {
                return Ok(Some(Self { first, file, path, sealed: true }));
            }
        }
        Ok(None)
    }

    /// Opens the segment that begins with `first`, whether it is sealed or not.
    pub(crate) fn open(places: &Places, first: u64, version: u32) -> Result<Option<Self>> {
        // The order matters: a rotation may happen between the two looks.
        match Self::open_active(places, version)? {
            Some(active) if active.first == first => Ok(Some(active)),
            _ => Self::open_sealed(places, first),
        }
    }

    pub(crate) fn meta(&self) -> Result<fs::Metadata> {
        self.file.metadata().doing("read", &self.path)
    }
}

/// Lists the sealed segments by the seq of their first line.
pub(crate) fn sealed(places: &Places) -> Result<BTreeMap<u64, PathBuf>> {
    let mut found = BTreeMap::new();
    for dir in [places.links(), places.logs.clone()] {
        let entries = match fs::read_dir(&dir) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) || dir != places.logs => continue,
            Err(error) => return Err(error).doing("read", &dir),
        };
        for entry in entries {
            let entry = entry.doing("read", &dir)?;
            if let Some(first) = entry.file_name().to_str().and_then(first_of_name) {
                found.insert(first, entry.path());
            }
        }
    }
    Ok(found)
}

/// Returns the seq of a file's first line, even if that line itself is damaged.
pub(crate) fn first_seq(file: &File, path: &Path, version: u32) -> Result<Option<u64>> {
    let size = file.metadata().doing("read", path)?.len();
    let mut found = None;
    let mut before = 0;
    let mut newer = None;
    scan::lines(file, path, 0, size, |_, line| match Header::parse(line, version) {
        Ok(Some(header)) => {
            found = Some(header.seq.saturating_sub(before));
            scan::Flow::Stop
        }
        Ok(None) => {
            before += 1;
            scan::Flow::Go
        }
        Err(error) => {
            newer = Some(error);
            scan::Flow::Stop
        }
    })?;
    match newer {
        Some(error) => Err(error),
        None => Ok(found),
    }
}

/// Reads a whole range of a file; fewer bytes come back only at its end.
pub(crate) fn read_at(file: &File, path: &Path, offset: u64, len: usize, into: &mut Vec<u8>) -> Result<()> {
    into.resize(len, 0);
    let mut filled = 0;
    while filled < len {
        match file.read_at(&mut into[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).doing("read", path),
        }
    }
    into.truncate(filled);
    Ok(())
}

pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

pub(crate) fn open_if_there(path: &Path) -> Result<Option<File>> {
    match File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error).doing("read", path),
    }
}

fn first_of_name(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("events-")?.strip_suffix(".jsonl")?;
    // Only the spelling that we write ourselves.
    digits.parse().ok().filter(|first: &u64| first.to_string() == digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_spelling_of_a_segment_counts() {
        assert_eq!(first_of_name("events-17.jsonl"), Some(17));
        for name in
            ["events.jsonl", "events-017.jsonl", "events-+7.jsonl", "events-17.jsonl.tmp", "events-.jsonl"]
        {
            assert_eq!(first_of_name(name), None, "{name}");
        }
    }
}
