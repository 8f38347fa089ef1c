//! What is on the screen: the conversation, then the composer or a dialog, then the footer.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::{Agent, Phase};
use crate::screen::{Frame, Line, text_width, wrap};

/// Lines of conversation that are kept.
const HISTORY: usize = 400;

/// The screen's own state.
#[derive(Debug)]
pub(super) struct View {
    columns: usize,
    rows: usize,
    heading: [String; 2],
    history: VecDeque<String>,
    pub(super) footer: String,
    pub(super) placeholder: String,
    pub(super) glyph: String,
    pub(super) bracket: bool,
    bracket_shown: Option<bool>,
    pub(super) alternate: bool,
}

impl View {
    pub(super) fn new(cwd: &str, session: &str) -> Self {
        Self {
            columns: 80,
            rows: 24,
            heading: [format!("✻ Fake agent v{} · {session}", crate::version()), format!("  {cwd}")],
            history: VecDeque::new(),
            footer: "  ? for shortcuts".to_owned(),
            placeholder: "Try \"fake: say hello\"".to_owned(),
            glyph: "❯".to_owned(),
            bracket: true,
            bracket_shown: None,
            alternate: false,
        }
    }

    pub(super) fn resize(&mut self, columns: usize, rows: usize) {
        (self.columns, self.rows) = (columns, rows);
    }

    /// Adds to the conversation.
    pub(super) fn say(&mut self, text: &str) {
        // The screen shows no more of a text than it has room for.
        let shown: String = text.chars().take(4000).collect();
        self.history.extend(shown.split('\n').map(str::to_owned));
        self.history.push_back(String::new());
        while self.history.len() > HISTORY {
            self.history.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        self.history.clear();
    }

    /// What to leave on the terminal at the end.
    pub(super) fn goodbye(&self, session: &str, resumable: bool) -> String {
        let mut text = String::from("\x1b[?2004l\x1b[?25h\x1b[?7h");
        text.push_str(if self.alternate { "\x1b[?1049l" } else { "" });
        let _ = write!(text, "\x1b[{};1H\r\n", self.rows);
        if resumable {
            let _ = write!(text, "Resume this session with: fake-agent --resume {session}\r\n");
        }
        text
    }
}

impl Agent {
    /// Draws what has changed.
    pub(super) fn draw(&mut self) {
        if matches!(self.phase, Phase::Over(_)) {
            return;
        }
        let frame = self.frame();
        let mut out = self.screen.draw(frame);
        if self.view.bracket_shown != Some(self.view.bracket) {
            self.view.bracket_shown = Some(self.view.bracket);
            out.push_str(if self.view.bracket { "\x1b[?2004h" } else { "\x1b[?2004l" });
        }
        if !out.is_empty() {
            self.terminal.write(&out);
        }
    }

    fn frame(&self) -> Frame {
        let (columns, rows) = (self.view.columns, self.view.rows);
        let rule = Line::plain("─".repeat(columns));
        let mut lower = vec![rule.clone()];
        let mut cursor = None;
        if let Some(dialog) = self.dialogs.front() {
            lower.extend(dialog.lines(columns));
        } else {
            let draft = self.draft_lines(columns);
            lower.extend(draft.0);
            cursor = Some((lower.len() - 1, draft.1));
            lower.push(rule);
            lower.push(Line::dim(self.footer()));
        }
        let cut = lower.len().saturating_sub(rows);
        lower.drain(..cut);
        let upper = self.upper(rows - lower.len());
        let cursor = cursor.map(|(row, column)| ((upper.len() + row).saturating_sub(cut), column));
        Frame { lines: upper.into_iter().chain(lower).collect(), cursor }
    }

    fn footer(&self) -> String {
        if self.last_quit_key.is_some() {
            return "  Press Ctrl-C again to exit".to_owned();
        }
        let stashed = if self.stash.is_some() { " · draft stashed" } else { "" };
        format!("{}{stashed}", self.view.footer)
    }

    /// The draft, and the column of the cursor in its last line.
    fn draft_lines(&self, columns: usize) -> (Vec<Line>, usize) {
        let glyph = &self.view.glyph;
        let shown = self.composer.shown();
        if shown.is_empty() {
            let text = format!("{glyph} {}", self.view.placeholder);
            let dim_from = Some(glyph.len() + 1);
            return (vec![Line { text, dim_from }], text_width(glyph) + 1);
        }
        let indent = text_width(glyph) + 1;
        let mut lines = wrap(&shown, columns.saturating_sub(indent + 1));
        // Far more than any terminal shows would only cost time.
        let cut = lines.len().saturating_sub(200);
        lines.drain(..cut);
        let column = indent + lines.last().map_or(0, |it| text_width(it));
        let drawn = lines.into_iter().enumerate().map(|(index, line)| {
            let start = if index == 0 { format!("{glyph} ") } else { " ".repeat(indent) };
            Line::plain(format!("{start}{line}"))
        });
        (drawn.collect(), column.min(columns.saturating_sub(1)))
    }

    /// The heading and as much of the conversation as fits.
    fn upper(&self, rows: usize) -> Vec<Line> {
        let mut tail: Vec<Line> = Vec::new();
        if let Some(work) = self.work() {
            tail.extend([Line::plain(work), Line::default()]);
        }
        for queued in &self.queue {
            tail.push(Line::dim(format!("  queued: {}", first_words(&queued.text))));
        }
        let mut lines: Vec<Line> = Vec::new();
        for text in self.view.history.iter().rev() {
            if lines.len() + tail.len() >= rows {
                break;
            }
            lines.extend(wrap(text, self.view.columns).into_iter().rev().map(Line::plain));
        }
        if lines.len() + tail.len() < rows {
            lines.push(Line::default());
            lines.extend(self.view.heading.iter().rev().map(|it| Line::plain(first_words(it))));
        }
        lines.reverse();
        lines.extend(tail);
        let cut = lines.len().saturating_sub(rows);
        lines.drain(..cut);
        lines
    }
}

fn first_words(text: &str) -> String {
    wrap(text, 200).into_iter().next().unwrap_or_default()
}
