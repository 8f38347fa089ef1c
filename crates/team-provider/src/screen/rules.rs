//! Rules that read a screen, kept as data in `data/screens/`.
//!
//! Knows boxes, marks and words. Must not know any program's name.

use serde::{Deserialize, Serialize};

use super::{Composer, Dialog, Screen, ScreenReading};

/// The rules of one program's screens.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScreenRules {
    /// How its input box looks.
    pub(super) composer: BoxRule,
    /// Words below a dialog that say which key closes it.
    pub(super) dialog_footers: Vec<String>,
    /// Its dialogs; the first that matches counts.
    pub(crate) dialogs: Vec<DialogRule>,
}

/// An input box between two horizontal rules.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BoxRule {
    /// Character that the rules are made of.
    rule: char,
    /// Fewest of them in a row that begin a rule.
    rule_min: usize,
    /// Blanks before the mark.
    #[serde(default)]
    indent: usize,
    /// Marks in front of the text.
    glyphs: Vec<char>,
    /// Marks in front of a text that would run as a command.
    shell_glyphs: Vec<char>,
    /// Most lines that may be below the box.
    footer_max: usize,
    /// Marks of a menu's chosen entry; a menu below the box means that Enter is not the box's.
    pub(super) menu_marks: Vec<String>,
    /// Beginnings of texts that stand for something longer.
    chips: Vec<String>,
    /// Beginnings of the hints that an empty box may show.
    placeholders: Vec<String>,
    /// Whole hints of a program that draws them in a colour of their own and never leaves an empty box without one.
    /// They count only with the drawn cursor in front of them.
    #[serde(default)]
    hints: Vec<String>,
}

/// A dialog, how it is recognised and what answers it beforehand.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DialogRule {
    /// Short name.
    pub name: String,
    /// What it is about.
    pub kind: DialogKind,
    /// Texts that must all be on the screen, blanks counting as one.
    pub all: Vec<String>,
    /// Texts of which one must be on the screen, if any are given.
    #[serde(default)]
    pub any: Vec<String>,
    /// Whether it may come before the first input box.
    #[serde(default)]
    pub at_start: bool,
    /// What says yes once, where answering by a key was tried: the whole text of a choice, whose number is pressed. A
    /// number is a harmless draft should the dialog have gone, which an Enter would not be.
    #[serde(default)]
    pub allow: Option<String>,
    /// What says no, in the same way, or `Escape`; it may end the turn, too.
    #[serde(default)]
    pub deny: Option<String>,
    /// The choice that is marked when it opens; another one is there because somebody has moved to it.
    #[serde(default = "first")]
    pub opens_at: u8,
    /// What answers it before it is shown, for people.
    #[serde(default)]
    pub answered_by: Option<String>,
    /// What a person can do about it.
    #[serde(default)]
    pub next: Option<String>,
}

fn first() -> u8 {
    1
}

/// What a dialog is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DialogKind {
    /// Whether the folder is trusted.
    Trust,
    /// Whether a tool may run.
    Permission,
    /// A usage limit.
    Limit,
    /// A newer version.
    Update,
    /// Which servers may run.
    Mcp,
    /// How to log in.
    Login,
    /// Something else.
    Other,
}

impl ScreenRules {
    /// Reads rules from their file's text.
    pub(crate) fn parse(yaml: &str) -> Result<Self, serde_saphyr::Error> {
        serde_saphyr::from_str(yaml)
    }

    /// Returns what a screen shows.
    pub(crate) fn read(&self, screen: &Screen) -> ScreenReading {
        if let Some(composer) = self.composer.read(screen) {
            return ScreenReading { composer, dialog: None };
        }
        if screen.is_blank() {
            return ScreenReading { composer: Composer::Absent, dialog: None };
        }
        let dialog = self.dialog(screen);
        let composer = if dialog.is_some() { Composer::Absent } else { Composer::Unknown };
        ScreenReading { composer, dialog }
    }

    /// Returns the dialog on a screen that has no input box.
    fn dialog(&self, screen: &Screen) -> Option<Dialog> {
        let shown = flat(screen);
        let known = self.dialogs.iter().find(|rule| rule.matches(&shown));
        if let Some(rule) = known {
            return Some(Dialog { name: rule.name.clone(), kind: rule.kind });
        }
        let menu = screen.lines.iter().any(|line| self.composer.is_menu_line(line))
            || self.dialog_footers.iter().any(|footer| shown.trim_end().ends_with(footer.as_str()));
        menu.then(|| Dialog { name: "unnamed".to_owned(), kind: DialogKind::Other })
    }
}

impl DialogRule {
    /// Says whether the dialog is on a screen of this text.
    fn matches(&self, shown: &str) -> bool {
        self.all.iter().all(|text| shown.contains(text.as_str()))
            && (self.any.is_empty() || self.any.iter().any(|text| shown.contains(text.as_str())))
    }
}

impl BoxRule {
    /// Reads the input box, if the screen ends in one.
    fn read(&self, screen: &Screen) -> Option<Composer> {
        let lines = &screen.lines;
        let bottom = lines.iter().rposition(|line| self.is_rule(line))?;
        let top = lines[..bottom].iter().rposition(|line| self.is_rule(line))?;
        let below = &lines[bottom + 1..];
        let footer = below.iter().filter(|line| !line.trim().is_empty()).count();
        if footer > self.footer_max || below.iter().any(|line| self.is_menu_line(line)) {
            return None;
        }
        let first = lines[top + 1..bottom].first()?;
        if first.chars().take(self.indent).any(|c| !is_blank(c)) {
            return None;
        }
        let glyph = first.chars().nth(self.indent)?;
        let shell = self.shell_glyphs.contains(&glyph);
        if !shell && !self.glyphs.contains(&glyph) {
            return None;
        }
        // Between mark and text stands one blank; a mark glued to a word is something else.
        if first.chars().nth(self.indent + 1).is_some_and(|c| !is_blank(c)) {
            return None;
        }
        if self.is_menu_line(first) {
            return None;
        }
        let text = self.text(screen, top + 1, bottom);
        Some(if shell {
            Composer::Holds(format!("{glyph}{}", text.unwrap_or_default()))
        } else {
            self.judge(screen, top + 1, bottom, text)
        })
    }

    /// Returns the text in the box without the hints a program adds to it; `None` if there is none.
    fn text(&self, screen: &Screen, from: usize, to: usize) -> Option<String> {
        let inner: Vec<String> = (from..to)
            .map(|line| {
                screen.lines[line].chars().skip(self.start()).collect::<String>().trim_end().to_owned()
            })
            .collect();
        let whole = inner.join("\n");
        if self.hints.contains(&whole) && screen.mark(from, self.start()).is_some_and(|it| it.reverse) {
            return None;
        }
        if self.chips.iter().any(|chip| whole.contains(chip.as_str())) {
            return Some(whole);
        }
        if screen.marks.is_none() && self.hints.is_empty() {
            return (inner.len() > 1 || !whole.is_empty()).then_some(whole);
        }
        // A hint is faint to its end, but for the cursor drawn over its first character.
        let mut kept = Vec::new();
        for line in from..to {
            let chars: Vec<char> = screen.lines[line].chars().collect();
            let mut end = chars.len();
            while end > self.start() && is_hint(screen, line, end - 1, chars.len()) {
                end -= 1;
            }
            kept.push(chars.get(self.start()..end).unwrap_or_default().iter().collect::<String>());
        }
        let text = kept.join("\n");
        if !self.hints.is_empty() {
            // A box that always shows a hint when it is empty holds something without one, be it blanks.
            return Some(if text.is_empty() { " ".to_owned() } else { text });
        }
        if kept.len() > 1 || !text.is_empty() { Some(text) } else { None }
    }

    /// Turns the text of an ordinary box into a reading.
    fn judge(&self, screen: &Screen, from: usize, to: usize, text: Option<String>) -> Composer {
        let Some(text) = text else {
            return if self.hints.is_empty() && cursor_moved(screen, from, to) {
                Composer::Holds(" ".to_owned())
            } else {
                Composer::Empty
            };
        };
        let mut hints = self.placeholders.iter().chain(&self.hints);
        let could_be_hint = screen.marks.is_none() && hints.any(|hint| text.starts_with(hint.as_str()));
        if could_be_hint { Composer::Unknown } else { Composer::Holds(text) }
    }

    /// Returns the first column of the text.
    fn start(&self) -> usize {
        self.indent + 2
    }

    /// Says whether a line is a rule, with or without a title on it.
    pub(super) fn is_rule(&self, line: &str) -> bool {
        let start = line.chars().take_while(|c| *c == self.rule).count();
        let all = line.chars().count();
        let drawn = line.chars().filter(|c| *c == self.rule).count();
        start >= self.rule_min && (drawn * 2 > all || line.ends_with(self.rule))
    }

    /// Says whether a line is the chosen entry of a menu.
    fn is_menu_line(&self, line: &str) -> bool {
        let line = line.trim_start_matches(|c: char| is_blank(c) || c == '│');
        self.menu_marks.iter().any(|mark| line.starts_with(mark.as_str()))
    }
}

/// Says whether a character is a blank, the unbreakable one included.
fn is_blank(c: char) -> bool {
    c.is_whitespace()
}

/// Returns the words of a screen with single blanks between them, frames left out.
fn flat(screen: &Screen) -> String {
    let mut out = String::new();
    for word in screen.lines.iter().flat_map(|line| line.split(|c: char| is_blank(c) || c == '│')) {
        if !word.is_empty() {
            out.push_str(word);
            out.push(' ');
        }
    }
    out
}

/// Says whether a character is part of a faint hint; the cursor counts if faint text follows it.
fn is_hint(screen: &Screen, line: usize, column: usize, length: usize) -> bool {
    let Some(mark) = screen.mark(line, column) else { return false };
    mark.dim
        || (mark.reverse && column + 1 < length && screen.mark(line, column + 1).is_some_and(|it| it.dim))
}

/// Says whether the drawn cursor stands behind the first place of an otherwise empty box: blanks were typed.
fn cursor_moved(screen: &Screen, from: usize, to: usize) -> bool {
    let Some(marks) = &screen.marks else { return false };
    (from..to).any(|line| marks[line].iter().skip(3).any(|mark| mark.reverse))
        && !(from..to).any(|line| marks[line].get(2).is_some_and(|mark| mark.reverse))
}
