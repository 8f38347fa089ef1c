//! Frames: from lines of text to the bytes that change a terminal from the last frame to this one.

use std::fmt::Write as _;

/// One line of a frame, with its style.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) text: String,
    /// Where the dim part starts, as a byte offset; nothing is dim without it.
    pub(crate) dim_from: Option<usize>,
}

impl Line {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), dim_from: None }
    }

    pub(crate) fn dim(text: impl Into<String>) -> Self {
        Self { text: text.into(), dim_from: Some(0) }
    }
}

/// A whole picture, top line first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) lines: Vec<Line>,
    /// Line and column of the cursor, from 0; hidden without it.
    pub(crate) cursor: Option<(usize, usize)>,
}

/// What the terminal shows now.
#[derive(Debug, Default)]
pub(crate) struct Screen {
    shown: Option<Frame>,
}

impl Screen {
    /// Forgets what is shown, so that the next frame is drawn in full.
    pub(crate) fn forget(&mut self) {
        self.shown = None;
    }

    /// Returns the bytes that draw `frame`; empty when nothing changes.
    pub(crate) fn draw(&mut self, frame: Frame) -> String {
        let mut out = String::new();
        if self.shown.as_ref() == Some(&frame) {
            return out;
        }
        out.push_str("\x1b[?25l\x1b[?7l");
        if self.shown.is_none() {
            out.push_str("\x1b[2J");
        }
        let old = self.shown.take().unwrap_or_default();
        for (row, line) in frame.lines.iter().enumerate() {
            if old.lines.get(row) != Some(line) {
                let (plain, dim) = line.text.split_at(line.dim_from.unwrap_or(line.text.len()));
                let _ = write!(out, "\x1b[{};1H{plain}", row + 1);
                if !dim.is_empty() {
                    let _ = write!(out, "\x1b[2m{dim}\x1b[0m");
                }
                out.push_str("\x1b[K");
            }
        }
        for row in frame.lines.len()..old.lines.len() {
            let _ = write!(out, "\x1b[{};1H\x1b[K", row + 1);
        }
        out.push_str("\x1b[?7h");
        if let Some((row, column)) = frame.cursor {
            let _ = write!(out, "\x1b[{};{}H\x1b[?25h", row + 1, column + 1);
        }
        self.shown = Some(frame);
        out
    }
}

/// Returns how many cells a character takes, as most terminals count.
pub(crate) fn width(char: char) -> usize {
    match u32::from(char) {
        0..0x20
        | 0x7f..0xa0
        | 0x300..=0x36f
        | 0x200b..=0x200f
        | 0xfe00..=0xfe0f
        | 0x1ab0..=0x1aff
        | 0x20d0..=0x20ff => 0,
        0x1100..=0x115f
        | 0x2e80..=0x303e
        | 0x3041..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f64f
        | 0x1f680..=0x1f6ff
        | 0x1f900..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// Returns how many cells a text takes.
pub(crate) fn text_width(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// Breaks a text into lines of at most `columns` cells. Control characters are shown, not sent.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(1);
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let (mut current, mut used) = (String::new(), 0);
        let expanded = line.replace('\t', "    ");
        for char in expanded.chars() {
            let char = if char.is_control() { '\u{fffd}' } else { char };
            let cells = width(char);
            if used + cells > columns && !current.is_empty() {
                lines.push(std::mem::take(&mut current));
                used = 0;
            }
            current.push(char);
            used += cells;
        }
        lines.push(current);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_lines_are_drawn() {
        let mut screen = Screen::default();
        let frame = |text: &str| Frame { lines: vec![Line::plain("same"), Line::plain(text)], cursor: None };
        assert!(screen.draw(frame("one")).contains("same"));
        let change = screen.draw(frame("two"));
        assert!(change.contains("two") && !change.contains("same"), "{change:?}");
        assert_eq!(screen.draw(frame("two")), "");
    }

    #[test]
    fn wide_characters_take_two_cells_when_wrapped() {
        assert_eq!(wrap("请检查ab", 4), ["请检", "查ab"]);
        assert_eq!(wrap("a\x1b[31m\n", 20), ["a\u{fffd}[31m", ""]);
    }
}
