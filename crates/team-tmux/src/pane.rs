//! What a pane is, what is asked for when one is opened, and what is known about one.
//! Plain data: no call to tmux is made here.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The width every window is pinned to.
pub const WIDTH: u16 = 200;
/// The height every window is pinned to.
pub const HEIGHT: u16 = 50;

/// A text that is not an id of tmux.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a tmux id")]
pub struct ParseIdError(String);

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $sigil:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(u32);

        impl $name {
            /// Makes the id with this number.
            pub const fn new(number: u32) -> Self {
                Self(number)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($sigil, "{}"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                text.strip_prefix($sigil)
                    .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
                    .and_then(|digits| digits.parse().ok())
                    .map(Self)
                    .ok_or_else(|| ParseIdError(text.to_owned()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = ParseIdError;

            fn try_from(text: String) -> Result<Self, ParseIdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }
    };
}

id! {
    /// A pane's id, such as `%3`: unique in the life of one server, starting at `%0` in the next.
    PaneId, "%"
}
id! {
    /// A window's id, such as `@3`.
    WindowId, "@"
}

/// One pane and nobody else's: its id and the process that was started in it.
///
/// The id alone would name a stranger after a restart of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Pane {
    /// The id that tmux gave.
    pub id: PaneId,
    /// The process that tmux started in it.
    pub pid: u32,
}

/// A pane to be opened, in a window of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenPane {
    /// The session, which is created when there is none of that name.
    pub session: String,
    /// The window's name. For people; nothing is found by it.
    pub window_name: String,
    /// The working directory, which must exist.
    pub cwd: PathBuf,
    /// The program and its arguments: at least two words, executed without a shell.
    pub argv: Vec<OsString>,
    /// A mark to find the pane by, kept as a user option of the pane.
    pub tag: Option<String>,
}

/// A pane that has been opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenedPane {
    /// Which place in the request it had.
    pub index: usize,
    /// The pane.
    pub pane: Pane,
    /// Its window.
    pub window: WindowId,
    /// The mark it was given.
    pub tag: Option<String>,
}

/// How a pane's program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// A signal ended it; the number, or the name where tmux gives one.
    Signal(String),
    /// It ended and tmux does not say how.
    Unknown,
}

/// How many people look at a pane's session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Viewers {
    /// All attached clients.
    pub attached: u32,
    /// Those of them that are able to type.
    pub can_type: u32,
}

/// What tmux knows about one pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaneInfo {
    /// Its id and process.
    pub pane: Pane,
    /// How its program ended; `None` while it runs.
    pub exit: Option<Exit>,
    /// Its window.
    pub window: WindowId,
    /// The window's name.
    pub window_name: String,
    /// Its session's name.
    pub session: String,
    /// The mark it was opened with.
    pub tag: Option<String>,
    /// What was last typed into it, as the typing was marked.
    pub typed: Option<String>,
    /// The title that the program has set.
    pub title: String,
    /// Whether it shows copy mode or another mode of tmux.
    pub in_mode: bool,
    /// Whether input to it is switched off.
    pub input_off: bool,
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
    /// Column and row of the cursor, from 0.
    pub cursor: (u16, u16),
    /// The second in which its window last changed.
    pub activity: u64,
    /// Who is looking.
    pub viewers: Viewers,
}

/// What became of a request to close a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// It is closed.
    Done,
    /// There is no such pane, or the id now belongs to another one, which was left alone.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_what_they_print_and_refuse_anything_else() {
        let id: PaneId = "%12".parse().unwrap();
        assert_eq!(id, PaneId::new(12));
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"%12\"");
        assert_eq!(serde_json::from_str::<PaneId>("\"%12\"").unwrap(), id);
        for bad in ["", "%", "12", "@12", "%-1", "%+1", "%1 ", "%99999999999", "%1;kill-server"] {
            assert!(bad.parse::<PaneId>().is_err(), "`{bad}` was taken for an id");
        }
    }
}
