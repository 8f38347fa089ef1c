//! Frames: from lines of text to the bytes that change a terminal from the last frame to this one.

use std::fmt::Write as _;

use crate::clothes::Seen;

/// One line of a frame, with its style.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) text: String,
    /// Where the dim part starts, as a byte offset; nothing is dim without it.
    pub(crate) dim_from: Option<usize>,
    /// A character drawn in reverse, as a cursor of the program's own, as a byte offset before the dim part.
    pub(crate) reverse_at: Option<usize>,
}

impl Line {
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub(crate) fn dim(text: impl Into<String>) -> Self {
        Self { text: text.into(), dim_from: Some(0), reverse_at: None }
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
                // Erased first: behind a line as wide as the terminal that would take its last cell.
                let _ = write!(out, "\x1b[{};1H\x1b[K", row + 1);
                let reverse = line.reverse_at.filter(|it| *it < plain.len());
                let (before, rest) = plain.split_at(reverse.unwrap_or(plain.len()));
                out.push_str(before);
                let mut rest = rest.chars();
                if let Some(cursor) = rest.next() {
                    let _ = write!(out, "\x1b[7m{cursor}\x1b[0m");
                    out.push_str(rest.as_str());
                }
                if !dim.is_empty() {
                    let _ = write!(out, "\x1b[2m{dim}\x1b[0m");
                }
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

/// Draws the lower part in the agent's own look: an input box between rules, or a dialog below one.
pub(crate) fn lower(seen: &Seen<'_>) -> (Vec<Line>, Option<(usize, usize)>) {
    let rule = Line::plain("─".repeat(seen.columns));
    let mut lines = vec![rule.clone()];
    if let Some(dialog) = seen.dialog {
        lines.extend(dialog.lines(seen.columns));
        return (lines, None);
    }
    let (draft, column) = draft_lines(seen);
    lines.extend(draft);
    let row = lines.len() - 1;
    lines.push(rule);
    lines.push(Line::dim(seen.footer));
    (lines, Some((row, column)))
}

/// The draft, and the column of the cursor in its last line.
fn draft_lines(seen: &Seen<'_>) -> (Vec<Line>, usize) {
    let glyph = seen.glyph;
    let indent = text_width(glyph) + 1;
    if seen.draft.is_empty() {
        let text = format!("{glyph} {}", seen.placeholder);
        return (vec![Line { text, dim_from: Some(glyph.len() + 1), reverse_at: None }], indent);
    }
    let lines = wrap_draft(seen.draft, seen.columns.saturating_sub(indent + 1));
    let column = indent + lines.last().map_or(0, |it| text_width(it));
    let drawn = lines.into_iter().enumerate().map(|(index, line)| {
        let start = if index == 0 { format!("{glyph} ") } else { " ".repeat(indent) };
        Line::plain(format!("{start}{line}"))
    });
    (drawn.collect(), column.min(seen.columns.saturating_sub(1)))
}

/// Breaks a draft into the lines of its box.
pub(crate) fn wrap_draft(draft: &str, columns: usize) -> Vec<String> {
    let mut lines = wrap(draft, columns);
    // Far more than any terminal shows would only cost time.
    let cut = lines.len().saturating_sub(200);
    lines.drain(..cut);
    lines
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
    fn a_line_as_wide_as_the_terminal_keeps_its_last_cell() {
        let frame = Frame { lines: vec![Line::plain("│ x │")], cursor: None };
        let drawn = Screen::default().draw(frame);
        assert!(drawn.contains("\x1b[K│ x │\x1b[?7h"), "{drawn:?}");
    }

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
