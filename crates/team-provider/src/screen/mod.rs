//! What a screen shows: an input box that is empty or not, or a dialog.
//!
//! Knows screens as text. Must not decide from them what a program is doing: a
//! screen names a dialog that nothing announces and proves an input box empty, no
//! more. What no rule matches is unknown, never empty.

mod ansi;
mod question;
mod rules;

pub use question::{AnswerKey, Question};
pub(crate) use rules::ScreenRules;
pub use rules::{DialogKind, DialogRule};

/// A captured screen.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Screen {
    /// Its lines, without trailing blanks.
    pub lines: Vec<String>,
    /// How each character of each line is drawn, if the capture told.
    pub marks: Option<Vec<Vec<Mark>>>,
    /// Where the terminal's own cursor stands (column, line), if known.
    pub cursor: Option<(usize, usize)>,
}

/// How a character is drawn, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mark {
    /// Drawn faint.
    pub dim: bool,
    /// Drawn in reverse, as a program draws its own cursor.
    pub reverse: bool,
}

impl Screen {
    /// Reads a capture with its escape sequences.
    pub fn from_ansi(capture: &str) -> Self {
        ansi::read(capture)
    }

    /// Takes a capture without escape sequences: a faint text cannot be told from a draft.
    pub fn plain(capture: &str) -> Self {
        let lines = capture.lines().map(|line| line.trim_end().to_owned()).collect();
        Self { lines, marks: None, cursor: None }
    }

    /// Adds a line made of pieces that are each drawn alike.
    pub fn push_line<'a>(&mut self, pieces: impl IntoIterator<Item = (&'a str, Mark)>) {
        let mut text = String::new();
        let mut drawn = Vec::new();
        for (piece, mark) in pieces {
            text.push_str(piece);
            drawn.extend(piece.chars().map(|_| mark));
        }
        text.truncate(text.trim_end().len());
        self.lines.push(text);
        self.marks.get_or_insert_default().push(drawn);
    }

    /// Says whether nothing at all is shown.
    pub fn is_blank(&self) -> bool {
        self.lines.iter().all(|line| line.trim().is_empty())
    }

    /// Returns how a character is drawn, if known.
    fn mark(&self, line: usize, column: usize) -> Option<Mark> {
        let line = self.marks.as_ref()?.get(line)?;
        Some(line.get(column).copied().unwrap_or_default())
    }
}

/// What a screen shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScreenReading {
    /// The input box.
    pub composer: Composer,
    /// The dialog that is open, if one was recognised.
    pub dialog: Option<Dialog>,
}

/// The state of the input box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Composer {
    /// It is there and holds nothing.
    Empty,
    /// It holds this, as far as it can be seen; wrapped lines count as lines.
    Holds(String),
    /// There is none: a dialog stands in its place, or nothing is drawn yet.
    Absent,
    /// The screen is not one we know.
    Unknown,
}

/// A recognised dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialog {
    /// Name of the rule that matched.
    pub name: String,
    /// What it is about.
    pub kind: DialogKind,
}
