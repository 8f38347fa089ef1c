//! What is on the screen: the conversation, then the composer or a dialog, then the footer.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::{Agent, Phase};
use crate::clothes::{Clothes, Seen};
use crate::screen::{Frame, Line, wrap};

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
    pub(super) answer: &'static str,
    pub(super) work: &'static str,
    queued: &'static str,
    pub(super) bracket: bool,
    bracket_shown: Option<bool>,
    pub(super) alternate: bool,
}

impl View {
    pub(super) fn new(clothes: &dyn Clothes, cwd: &str, session: &str) -> Self {
        let look = clothes.look();
        let version = crate::version(clothes);
        Self {
            columns: 80,
            rows: 24,
            heading: [format!("{} v{version} · {session}", look.heading), format!("  {cwd}")],
            history: VecDeque::new(),
            footer: look.footer.to_owned(),
            placeholder: look.placeholder.to_owned(),
            glyph: look.glyph.to_owned(),
            answer: look.answer,
            work: look.work,
            queued: look.queued,
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
    pub(super) fn goodbye(&self, words: Option<&str>) -> String {
        let mut text = String::from("\x1b[?2004l\x1b[?25h\x1b[?7h");
        text.push_str(if self.alternate { "\x1b[?1049l" } else { "" });
        let _ = write!(text, "\x1b[{};1H\r\n", self.rows);
        if let Some(words) = words {
            let _ = write!(text, "{words}\r\n");
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
        let draft = self.composer.shown();
        let (mut lower, cursor) = self.clothes.lower(&Seen {
            columns,
            draft: &draft,
            dialog: self.dialogs.front(),
            glyph: &self.view.glyph,
            placeholder: &self.view.placeholder,
            footer: &self.footer(),
        });
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

    /// The heading and as much of the conversation as fits.
    fn upper(&self, rows: usize) -> Vec<Line> {
        let mut tail: Vec<Line> = Vec::new();
        if let Some(work) = self.work() {
            tail.extend([Line::plain(work), Line::default()]);
        }
        for queued in &self.queue {
            tail.push(Line::dim(format!("{}{}", self.view.queued, first_words(&queued.text))));
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
