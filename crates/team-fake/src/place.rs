//! Where files lie below the home directory. Creates the directories, knows no format.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::clothes::Clothes;

/// The home directory of the fake agent.
#[derive(Debug, Clone)]
pub(crate) struct Home {
    /// Where the agent's own logs lie.
    root: PathBuf,
    /// Where the program that it plays keeps its records.
    records: PathBuf,
    status_file: bool,
}

impl Home {
    /// Takes `FAKE_HOME`, else `~/.fake-agent`.
    pub(crate) fn from_env(clothes: &dyn Clothes, cwd: &Path) -> Self {
        let root = match std::env::var_os("FAKE_HOME").filter(|it| !it.is_empty()) {
            Some(root) => PathBuf::from(root),
            None => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".fake-agent"),
        };
        let root = cwd.join(root);
        let records = cwd.join(clothes.home(&root));
        Self { root, records, status_file: clothes.manners().status_file }
    }

    /// Makes the directories that every start needs.
    pub(crate) fn create(&self) -> io::Result<()> {
        for name in ["sessions", "bytes", "submissions", "events", "mcp", "control"] {
            DirBuilder::new().recursive(true).mode(0o700).create(self.root.join(name))?;
        }
        let sessions = self.status_file.then(|| self.records.join("sessions"));
        sessions.map_or(Ok(()), |it| DirBuilder::new().recursive(true).mode(0o700).create(it))
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn records(&self) -> &Path {
        &self.records
    }

    /// The live state: the program's own file if it has one, else one for tests alone.
    pub(crate) fn status(&self) -> PathBuf {
        let home = if self.status_file { &self.records } else { &self.root };
        home.join("sessions").join(format!("{}.json", std::process::id()))
    }

    pub(crate) fn bytes(&self, session: &str) -> PathBuf {
        self.root.join("bytes").join(format!("{session}.log"))
    }

    pub(crate) fn submissions(&self, session: &str) -> PathBuf {
        self.root.join("submissions").join(format!("{session}.jsonl"))
    }

    pub(crate) fn events(&self, session: &str) -> PathBuf {
        self.root.join("events").join(format!("{session}.jsonl"))
    }

    pub(crate) fn mcp(&self, session: &str) -> PathBuf {
        self.root.join("mcp").join(format!("{session}.jsonl"))
    }

    /// The control file: `FAKE_CONTROL`, else one named after `FAKE_SEAT` or the session.
    pub(crate) fn control(&self, session: &str) -> PathBuf {
        if let Some(path) = std::env::var_os("FAKE_CONTROL").filter(|it| !it.is_empty()) {
            return PathBuf::from(path);
        }
        let name = std::env::var_os("FAKE_SEAT").filter(|it| !it.is_empty());
        self.root.join("control").join(name.unwrap_or_else(|| session.into()))
    }
}

/// The usual place of the transcript of a session that runs in `cwd`.
pub(crate) fn transcript(home: &Path, cwd: &str, session: &str) -> PathBuf {
    home.join("projects").join(slug(cwd)).join(format!("{session}.jsonl"))
}

/// Turns a directory into the name of its transcripts' folder.
pub(crate) fn slug(cwd: &str) -> String {
    let units: Vec<u16> = cwd.encode_utf16().collect();
    let letters: String = units
        .iter()
        .map(|&unit| match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
            _ => '-',
        })
        .collect();
    if letters.len() <= 200 {
        return letters;
    }
    let hash = units.iter().fold(0_i32, |h, &unit| h.wrapping_mul(31).wrapping_add(i32::from(unit)));
    format!("{}-{}", &letters[..200], base36(hash.unsigned_abs()))
}

fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_replaces_every_unit_that_is_no_ascii_letter_or_digit() {
        assert_eq!(slug("/p/we ird.d_r-1@x/ünï"), "-p-we-ird-d-r-1-x--n-");
    }

    #[test]
    fn a_long_slug_is_cut_and_told_apart_by_a_hash() {
        let (one, two) = (slug(&"/a".repeat(150)), slug(&format!("{}b", "/a".repeat(150))));
        assert_eq!((&one[..200], one.as_bytes()[200]), (&two[..200], b'-'));
        assert_ne!(one, two);
    }
}
