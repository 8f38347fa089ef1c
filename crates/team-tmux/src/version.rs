//! Which tmux this is and which of its known bugs matter to us. Facts are rows of a table.

use std::cmp::Ordering;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::env::CleanEnv;
use crate::{Result, TmuxError};

/// A version such as `3.3a`, `next-3.6` or `master`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TmuxVersion {
    text: String,
    /// Major, minor, and 0 or the position of the letter. Builds of the main line come after all.
    order: (u32, u32, u32),
}

/// Something that a range of versions does wrong, with what we do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownBug {
    /// A short name that stays the same.
    pub id: &'static str,
    /// What happens.
    pub effect: &'static str,
    /// What this crate does so that it does not matter.
    pub avoided_by: &'static str,
    /// The first version without it: major and minor.
    pub fixed_in: (u32, u32),
}

/// The bugs that have an effect on what this crate does.
pub const KNOWN_BUGS: &[KnownBug] = &[
    KnownBug {
        id: "paste-into-dead-pane",
        effect: "pasting into a pane whose program has ended crashes the server",
        avoided_by: "the server checks for a dead pane in the same step as the paste",
        fixed_in: (3, 4),
    },
    KnownBug {
        id: "global-manual-size",
        effect: "a new window crashes the server when `window-size manual` is set globally",
        avoided_by: "each window is pinned on its own",
        fixed_in: (3, 7),
    },
    KnownBug {
        id: "lost-sigchld",
        effect: "a pane is dead without a code or signal while a helper process runs",
        avoided_by: "the server is sent SIGCHLD and asked again",
        fixed_in: (3, 6),
    },
    KnownBug {
        id: "paste-end-in-text",
        effect: "an end-of-paste mark in a text ends the paste early",
        avoided_by: "control characters are removed from every text",
        fixed_in: (3, 7),
    },
];

/// The oldest version whose commands and formats are all that this crate needs.
pub const MINIMUM_VERSION: (u32, u32) = (3, 2);

/// Asks a tmux program for its version, and refuses one that is too old.
pub fn supported_version(tmux: &Path) -> Result<TmuxVersion> {
    let found = version(tmux)?;
    if found.is_supported() {
        return Ok(found);
    }
    Err(TmuxError::TooOld {
        program: tmux.to_path_buf(),
        version: found.to_string(),
        needed: MINIMUM_VERSION,
    })
}

/// Asks a tmux program for its version.
pub fn version(tmux: &Path) -> Result<TmuxVersion> {
    let output = Command::new(tmux)
        .arg("-V")
        .env_clear()
        .envs(CleanEnv::of_this_process().iter())
        .stdin(Stdio::null())
        .output()
        .map_err(|source| match source.kind() {
            std::io::ErrorKind::NotFound => TmuxError::NoTmux { path: tmux.display().to_string() },
            _ => TmuxError::Spawn { program: tmux.to_path_buf(), source },
        })?;
    let said = String::from_utf8_lossy(&output.stdout);
    let text = said.trim();
    TmuxVersion::parse(text.strip_prefix("tmux ").unwrap_or(text)).ok_or_else(|| {
        let stderr = String::from_utf8_lossy(&output.stderr);
        TmuxError::Unexpected { doing: "-V", text: format!("{text}{}", stderr.trim()) }
    })
}

impl TmuxVersion {
    /// Reads a version as tmux writes it, without the word `tmux`.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text == "master" || text.starts_with("openbsd-") {
            return Some(Self { text: text.to_owned(), order: (u32::MAX, 0, 0) });
        }
        let number = text.strip_prefix("next-").unwrap_or(text);
        let (major, rest) = number.split_once('.')?;
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (minor, suffix) = rest.split_at(digits);
        let letter = match suffix.as_bytes() {
            [letter @ b'a'..=b'z', ..] => u32::from(letter - b'a') + 1,
            _ => 0,
        };
        Some(Self { text: text.to_owned(), order: (major.parse().ok()?, minor.parse().ok()?, letter) })
    }

    /// Tells whether it is this release or a later one.
    pub fn is_at_least(&self, (major, minor): (u32, u32)) -> bool {
        self.order >= (major, minor, 0)
    }

    /// Tells whether everything this crate asks for is there.
    pub fn is_supported(&self) -> bool {
        self.is_at_least(MINIMUM_VERSION)
    }

    /// Lists the known bugs that it has.
    pub fn bugs(&self) -> impl Iterator<Item = &'static KnownBug> {
        KNOWN_BUGS.iter().filter(|bug| !self.is_at_least(bug.fixed_in))
    }

    /// Tells whether pasted text is rewritten unless `paste-buffer -S` is given.
    pub(crate) fn rewrites_pastes(&self) -> bool {
        self.is_at_least((3, 7))
    }
}

impl fmt::Display for TmuxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialOrd for TmuxVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TmuxVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.cmp(&other.order).then_with(|| self.text.cmp(&other.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> TmuxVersion {
        TmuxVersion::parse(text).unwrap()
    }

    #[test]
    fn versions_are_ordered_as_they_were_released() {
        let ordered = ["2.9a", "3.0", "3.2", "3.3", "3.3a", "3.4", "next-3.7", "3.10", "master"];
        for pair in ordered.windows(2) {
            assert!(parse(pair[0]) < parse(pair[1]), "{} is not before {}", pair[0], pair[1]);
        }
        assert_eq!(parse("3.3a").to_string(), "3.3a");
        for bad in ["", "3", "x.y", "-"] {
            assert_eq!(TmuxVersion::parse(bad), None);
        }
    }

    #[test]
    fn each_version_has_the_bugs_that_were_fixed_after_it() {
        let ids = |text: &str| parse(text).bugs().map(|bug| bug.id).collect::<Vec<_>>();
        assert_eq!(
            ids("3.3a"),
            ["paste-into-dead-pane", "global-manual-size", "lost-sigchld", "paste-end-in-text"]
        );
        assert_eq!(ids("3.6a"), ["global-manual-size", "paste-end-in-text"]);
        assert_eq!(ids("3.7"), [""; 0]);
        assert!(parse("3.7b").rewrites_pastes() && !parse("3.6").rewrites_pastes());
        assert!(!parse("3.1c").is_supported() && parse("openbsd-7.4").is_supported());
    }
}
