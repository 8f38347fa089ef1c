//! Dialogs: what they show and which key picks what. Knows nothing of what an answer leads to.

use crate::input::Event;
use crate::screen::{Line, text_width, wrap};

/// Which dialog it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Trust,
    Permission,
    Limit,
    Update,
    Mcp,
    Hooks,
    Resume,
    Custom,
}

impl Kind {
    /// Reads the name that control lines and logs use.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "trust" => Self::Trust,
            "perm" => Self::Permission,
            "limit" => Self::Limit,
            "update" => Self::Update,
            "mcp" => Self::Mcp,
            "hooks" => Self::Hooks,
            "resume" => Self::Resume,
            "custom" => Self::Custom,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Permission => "perm",
            Self::Limit => "limit",
            Self::Update => "update",
            Self::Mcp => "mcp",
            Self::Hooks => "hooks",
            Self::Resume => "resume",
            Self::Custom => "custom",
        }
    }

    /// Tells whether the dialog stands before everything else when a script opens it.
    pub(crate) fn at_start(self) -> bool {
        matches!(self, Self::Trust | Self::Mcp | Self::Hooks | Self::Resume | Self::Update)
    }

    /// Tells whether refusing it at the start ends the program.
    pub(crate) fn refusal_ends(self) -> bool {
        matches!(self, Self::Trust | Self::Resume)
    }
}

/// A dialog on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dialog {
    pub(crate) kind: Kind,
    heading: String,
    body: Vec<String>,
    /// Stands in a box of its own below the heading.
    boxed: Option<String>,
    choices: Vec<String>,
    hint: &'static str,
    highlighted: usize,
    /// The number of the choice that means no.
    no: Option<usize>,
    /// The number that only moves to its choice.
    moving: Option<usize>,
    style: Style,
    digits: bool,
}

/// How a program draws its dialogs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// Stands before the choice that Enter takes.
    pub(crate) mark: char,
    /// Whether a frame is drawn around it.
    pub(crate) framed: bool,
}

/// What a key did to a dialog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The choice of this number, from 1, and its text.
    Picked(usize, String),
    Refused,
}

impl Answer {
    /// Tells whether the choice of this number was picked.
    pub(crate) fn is(&self, choice: usize) -> bool {
        matches!(self, Self::Picked(number, _) if *number == choice)
    }
}

const CONFIRM: &str = "Enter to confirm · Esc to cancel";

impl Dialog {
    /// Builds a dialog; `detail` is what it is about: a folder, a tool call, a server, a reset time, or
    /// for `custom` the heading and the choices with `|` between them.
    pub(crate) fn new(kind: Kind, detail: &str) -> Self {
        let mut hint = CONFIRM;
        let (heading, body, choices): (&str, Vec<String>, Vec<&str>) = match kind {
            Kind::Trust => (
                "Accessing workspace:",
                vec![
                    detail.to_owned(),
                    String::new(),
                    "Quick safety check: is this a project you made or one that you trust?".to_owned(),
                ],
                vec!["Yes, I trust this folder", "No, exit"],
            ),
            Kind::Permission => {
                hint = "Esc to cancel";
                (
                    "Tool use",
                    vec![format!("  {detail}"), String::new(), "Do you want to proceed?".to_owned()],
                    vec!["Yes", "Yes, and don't ask again", "No"],
                )
            }
            Kind::Limit => (
                "What do you want to do?",
                vec![detail.to_owned()],
                vec!["Stop and wait for limit to reset", "Upgrade your plan"],
            ),
            Kind::Update => (
                "Update available",
                vec![detail.to_owned()],
                vec!["Update now", "Skip", "Skip until next version"],
            ),
            Kind::Mcp => (
                "New MCP server found in this project:",
                vec![detail.to_owned()],
                vec![
                    "Use this MCP server",
                    "Use this and all future MCP servers in this project",
                    "Continue without using this MCP server",
                ],
            ),
            Kind::Hooks => (
                "Hooks need review",
                vec![detail.to_owned()],
                vec!["Trust all and continue", "Review hooks", "Continue without trusting"],
            ),
            Kind::Resume => ("Resume session", vec!["⌕ Search…".to_owned()], vec![detail]),
            Kind::Custom => {
                let mut parts = detail.split('|');
                (parts.next().unwrap_or_default(), vec![], parts.collect())
            }
        };
        Self {
            kind,
            heading: heading.to_owned(),
            body,
            boxed: None,
            choices: choices.into_iter().map(str::to_owned).collect(),
            hint,
            highlighted: 0,
            no: match kind {
                Kind::Trust => Some(2),
                Kind::Permission => Some(3),
                _ => None,
            },
            moving: None,
            style: Style { mark: '❯', framed: false },
            digits: true,
        }
    }

    /// Builds a dialog with the words and the look of another program; `no` is the number of the choice that refuses.
    pub(crate) fn styled(
        kind: Kind,
        heading: &str,
        body: Vec<String>,
        choices: Vec<String>,
        no: Option<usize>,
        style: Style,
    ) -> Self {
        Self {
            kind,
            heading: heading.to_owned(),
            body,
            boxed: None,
            choices,
            hint: "",
            highlighted: 0,
            no,
            moving: None,
            style,
            digits: true,
        }
    }

    /// The same dialog, in which digits mean nothing.
    pub(crate) fn without_digits(self) -> Self {
        Self { digits: false, ..self }
    }

    /// The number of the choice that Enter takes, from 0.
    pub(crate) fn highlighted(&self) -> usize {
        self.highlighted
    }

    pub(crate) fn heading(&self) -> &str {
        &self.heading
    }

    pub(crate) fn choices(&self) -> &[String] {
        &self.choices
    }

    /// The same with what it is about in a box, and a hint below the choices.
    pub(crate) fn boxing(mut self, text: &str, hint: &'static str) -> Self {
        self.boxed = Some(text.to_owned());
        self.hint = hint;
        self
    }

    /// The same where one number only moves to its choice.
    pub(crate) fn moving(mut self, number: usize) -> Self {
        self.moving = Some(number);
        self
    }

    /// Takes a key; text and pastes go nowhere.
    pub(crate) fn key(&mut self, event: &Event) -> Option<Answer> {
        let last = self.choices.len().saturating_sub(1);
        match event {
            Event::Up => self.highlighted = self.highlighted.saturating_sub(1),
            Event::Down | Event::Tab => self.highlighted = last.min(self.highlighted + 1),
            // Arrows to the right and to the left.
            Event::Unknown(bytes) if bytes == b"\x1b[C" => self.highlighted = last.min(self.highlighted + 1),
            Event::Unknown(bytes) if bytes == b"\x1b[D" => {
                self.highlighted = self.highlighted.saturating_sub(1);
            }
            Event::Enter => return self.pick(self.highlighted),
            Event::Char(char) if self.digits => {
                let digit = char.to_digit(10).and_then(|it| usize::try_from(it).ok())?;
                if self.moving != Some(digit) {
                    return self.pick(digit.checked_sub(1)?);
                }
                self.highlighted = digit.saturating_sub(1);
            }
            Event::Escape | Event::CtrlC => return Some(Answer::Refused),
            _ => {}
        }
        None
    }

    fn pick(&self, index: usize) -> Option<Answer> {
        Some(Answer::Picked(index + 1, self.choices.get(index)?.clone()))
    }

    /// Tells whether a picked number means no.
    pub(crate) fn refuses(&self, number: usize) -> bool {
        self.no == Some(number)
    }

    /// Draws the dialog, without the rule above it.
    pub(crate) fn lines(&self, columns: usize) -> Vec<Line> {
        if !self.style.framed {
            return self.plain_lines(columns);
        }
        framed(&self.plain_lines(columns.saturating_sub(2)), columns)
    }

    fn plain_lines(&self, columns: usize) -> Vec<Line> {
        let mut lines = vec![Line::plain(format!(" {}", self.heading)), Line::default()];
        if let Some(text) = &self.boxed {
            let inner = columns.saturating_sub(2);
            lines[1] = Line::plain(format!(" {} ", "─".repeat(inner)));
            let text = wrap(text, inner.saturating_sub(4)).into_iter();
            let text: Vec<Line> = text.map(|it| Line::plain(format!(" {it}"))).collect();
            lines.extend(framed(&text, inner).into_iter().map(|it| Line::plain(format!(" {} ", it.text))));
            lines.push(Line::default());
        }
        for text in &self.body {
            lines.extend(
                wrap(text, columns.saturating_sub(1)).into_iter().map(|it| Line::plain(format!(" {it}"))),
            );
        }
        lines.push(Line::default());
        for (index, choice) in self.choices.iter().enumerate() {
            let mark = if index == self.highlighted { self.style.mark } else { ' ' };
            lines.push(Line::plain(format!(" {mark} {}. {choice}", index + 1)));
        }
        lines.push(Line::default());
        if !self.hint.is_empty() {
            lines.push(Line::dim(format!(" {}", self.hint)));
        }
        lines
    }
}

/// Draws a frame around lines.
fn framed(lines: &[Line], columns: usize) -> Vec<Line> {
    let inner = columns.saturating_sub(2);
    let edge = |left: char, right: char| Line::plain(format!("{left}{}{right}", "─".repeat(inner)));
    let row = |it: &Line| {
        let blanks = " ".repeat(inner.saturating_sub(text_width(&it.text)));
        Line::plain(format!("│{}{blanks}│", it.text))
    };
    let rows = lines.iter().map(row);
    std::iter::once(edge('╭', '╮')).chain(rows).chain([edge('╰', '╯')]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enter_picks_what_is_highlighted_and_digits_pick_at_once() {
        let mut dialog = Dialog::new(Kind::Permission, "Bash(touch x)");
        assert_eq!(dialog.key(&Event::Down), None);
        assert_eq!(dialog.key(&Event::Enter), Some(Answer::Picked(2, "Yes, and don't ask again".to_owned())));
        assert_eq!(dialog.key(&Event::Char('3')), Some(Answer::Picked(3, "No".to_owned())));
        assert_eq!(dialog.key(&Event::Char('4')), None);
        assert_eq!(dialog.key(&Event::Escape), Some(Answer::Refused));
    }

    #[test]
    fn text_and_pastes_answer_nothing() {
        let mut dialog = Dialog::new(Kind::Trust, "/w");
        assert_eq!(dialog.key(&Event::Paste(b"1".to_vec())), None);
        assert_eq!(dialog.key(&Event::Char('y')), None);
    }

    #[test]
    fn a_custom_dialog_shows_its_own_words() {
        let dialog = Dialog::new(Kind::Custom, "Shiny?|Of course|Never");
        let shown: Vec<String> = dialog.lines(80).into_iter().map(|it| it.text).collect();
        assert_eq!(shown[0], " Shiny?");
        assert!(shown.contains(&" ❯ 1. Of course".to_owned()) && shown.contains(&"   2. Never".to_owned()));
    }
}
