//! What the screen shows: conversation, dialog or input box, footer. Knows no connection.

use std::collections::VecDeque;

use serde_json::Value;

use crate::input::Event;
use crate::screen::{Frame, Line, text_width, wrap};

/// Lines of conversation that are kept.
const HISTORY: usize = 400;
const PLACEHOLDER: &str = "Ask Codex to do anything";

/// What a dialog is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Trust,
    /// The request of the server.
    Permission(u64),
    Nudge,
    /// Of a newer model, at the start.
    Offer,
}

/// A dialog over the input box.
#[derive(Debug, Clone)]
pub(super) struct Dialog {
    pub(super) kind: Kind,
    body: Vec<String>,
    choices: Vec<String>,
    /// The letters that pick a choice beside its number.
    letters: &'static str,
    hint: &'static str,
    highlighted: usize,
}

impl Dialog {
    pub(super) fn trust(cwd: &str) -> Self {
        let words = "Trust this folder? Codex can read, edit, and run files here, subject to your permission settings. \
                     Continue only if you trust these files. Your trust decision will be saved.";
        Self::new(
            Kind::Trust,
            &["Folder access", cwd, "", words],
            &["Trust and continue", "Back to Agent Command Center"],
            "",
            "enter continue · esc back",
        )
    }

    pub(super) fn permission(request: u64, params: &Value) -> Self {
        let word = |name: &str| params[name].as_str().unwrap_or_default();
        let command = format!("$ {}", word("command"));
        let reason = format!("Reason: {}", word("reason"));
        let again = "Yes, and don't ask again for commands like this (p)";
        Self::new(
            Kind::Permission(request),
            &[
                "Would you like to run the following command?",
                "",
                "Environment: local",
                "",
                &reason,
                "",
                &command,
            ],
            &["Yes, proceed (y)", again, "No, and tell Codex what to do differently (esc)"],
            "ypn",
            "Press enter to confirm or esc to cancel",
        )
    }

    pub(super) fn nudge() -> Self {
        Self::new(
            Kind::Nudge,
            &["Approaching rate limits", "Switch to gpt-6-luna for lower credit usage?"],
            &["Switch to gpt-6-luna", "Keep current model", "Keep current model (never show again)"],
            "",
            "enter select · esc back",
        )
    }

    pub(super) fn offer(newer: &str) -> Self {
        Self::new(
            Kind::Offer,
            &[&format!("Meet {newer}"), "", "Choose how you'd like to go on."],
            &["Try new model", "Use existing model"],
            "",
            "Press enter to continue",
        )
    }

    fn new(kind: Kind, body: &[&str], choices: &[&str], letters: &'static str, hint: &'static str) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|it| (*it).to_owned()).collect();
        Self { kind, body: owned(body), choices: owned(choices), letters, hint, highlighted: 0 }
    }

    /// Takes a key; returns the number of the choice, from 1, 0 for none of them. Pastes go nowhere.
    pub(super) fn key(&mut self, event: &Event) -> Option<usize> {
        let last = self.choices.len() - 1;
        match event {
            Event::Up => self.highlighted = self.highlighted.saturating_sub(1),
            Event::Down => self.highlighted = last.min(self.highlighted + 1),
            Event::Enter => return Some(self.highlighted + 1),
            Event::Escape | Event::CtrlC => return Some(0),
            Event::Char(char) => {
                let digit = char.to_digit(10).and_then(|it| usize::try_from(it).ok());
                let number = digit.or_else(|| self.letters.find(*char).map(|it| it + 1));
                return number.filter(|it| (1..=last + 1).contains(it));
            }
            _ => {}
        }
        None
    }

    fn lines(&self, columns: usize) -> Vec<Line> {
        let mut texts: Vec<String> = Vec::new();
        for text in &self.body {
            texts.extend(wrap(text, columns.saturating_sub(3)).iter().map(|it| format!("  {it}")));
        }
        texts.push(String::new());
        for (index, choice) in self.choices.iter().enumerate() {
            let mark = if index == self.highlighted { '›' } else { ' ' };
            texts.push(format!("{mark} {}. {choice}", index + 1));
        }
        texts.push(String::new());
        let mut lines: Vec<Line> = texts.into_iter().map(Line::plain).collect();
        lines.push(Line::dim(format!("  {}", self.hint)));
        lines
    }
}

/// The screen's own state.
#[derive(Debug)]
pub(super) struct View {
    pub(super) size: (usize, usize),
    heading: [String; 2],
    history: VecDeque<String>,
    pub(super) footer: String,
}

impl View {
    pub(super) fn new(cwd: &str, model: &str, effort: &str) -> Self {
        Self {
            size: (80, 24),
            heading: [format!("  >_ OpenAI Codex (v{})", super::version()), format!("     {cwd}")],
            history: VecDeque::new(),
            footer: format!("  {model} {effort} · {cwd}"),
        }
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

    /// The whole picture. `state` stands over the input box.
    pub(super) fn frame(&self, dialog: Option<&Dialog>, state: &str, draft: &str) -> Frame {
        let (columns, rows) = self.size;
        let mut lower = Vec::new();
        let mut cursor = None;
        if let Some(dialog) = dialog {
            lower.extend(dialog.lines(columns));
        } else {
            if !state.is_empty() {
                lower.extend([Line::plain(state), Line::default()]);
            }
            let mut wrapped = wrap(draft, columns.saturating_sub(3));
            let cut = wrapped.len().saturating_sub(rows / 2);
            wrapped.drain(..cut);
            let column = 2 + wrapped.last().map_or(0, |it| text_width(it));
            for (index, line) in wrapped.iter().enumerate() {
                let mark = if index == 0 { "›" } else { " " };
                lower.push(Line::plain(format!("{mark} {line}")));
            }
            if draft.is_empty() {
                let text = format!("› {PLACEHOLDER}");
                lower.pop();
                lower.push(Line { text, dim_from: Some("› ".len()), reverse_at: None });
            }
            cursor = Some((lower.len() - 1, column.min(columns.saturating_sub(1))));
            lower.extend([Line::default(), Line::plain(self.footer.clone())]);
        }
        let cut = lower.len().saturating_sub(rows);
        lower.drain(..cut);
        let upper = self.upper(rows - lower.len());
        let cursor = cursor.map(|(row, column)| ((upper.len() + row).saturating_sub(cut), column));
        Frame { lines: upper.into_iter().chain(lower).collect(), cursor }
    }

    /// The heading and as much of the conversation as fits.
    fn upper(&self, rows: usize) -> Vec<Line> {
        let all = self
            .heading
            .iter()
            .map(String::as_str)
            .chain([""])
            .chain(self.history.iter().map(String::as_str));
        let mut lines: Vec<Line> = all.flat_map(|it| wrap(it, self.size.0)).map(Line::plain).collect();
        let cut = lines.len().saturating_sub(rows);
        lines.drain(..cut);
        lines
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn letters_and_digits_answer_a_question_and_pastes_do_not() {
        let mut dialog = Dialog::permission(7, &json!({"command": "touch x", "reason": "why"}));
        let key = |dialog: &mut Dialog, char| dialog.key(&Event::Char(char));
        assert_eq!(dialog.key(&Event::Paste(b"y".to_vec())), None);
        assert_eq!((key(&mut dialog, 'x'), key(&mut dialog, '4')), (None, None));
        assert_eq!(
            (key(&mut dialog, 'y'), key(&mut dialog, 'p'), key(&mut dialog, '3')),
            (Some(1), Some(2), Some(3))
        );
        assert_eq!(dialog.key(&Event::Down), None);
        assert_eq!((dialog.key(&Event::Enter), dialog.key(&Event::Escape)), (Some(2), Some(0)));
    }
}
