//! A permission question as it stands on a screen: what it is about, and which key says yes or no.
//!
//! Knows boxes, choices and their numbers. What is not exactly a known question, at the very end of the screen and as
//! the program opened it, is none: somebody may be at it.

use std::path::Path;

use super::rules::{BoxRule, ScreenRules};
use super::{DialogKind, Screen};

/// What a dialog's frames are made of.
const FRAME: &[char] = &['│', '╭', '╮', '╰', '╯', '─'];
/// Rows that a long choice may be wrapped to.
const WRAPPED: usize = 2;
/// The most characters of a row that are compared again when the key is pressed.
const ROW: usize = 120;
/// What stands in a rule for the name of a folder.
const FOLDER: &str = "{folder}";
/// The most rows that are compared again.
const ROWS: usize = 16;

/// A permission question on a screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Everything above its choices, without frames.
    pub text: String,
    /// What stands in a box inside it, if there is one.
    pub boxed: Option<String>,
    /// What says yes once.
    pub allow: AnswerKey,
    /// What says no.
    pub deny: AnswerKey,
    /// Parts of rows; where one of them is gone, so is the question.
    pub rows: Vec<String>,
}

/// A key that answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKey {
    /// The number of a choice.
    Digit(u8),
    /// The key of that name.
    Escape,
}

impl Question {
    /// Says whether the box in it holds this and nothing else.
    pub(crate) fn boxes(&self, wanted: &str) -> bool {
        self.boxed.as_deref().is_some_and(|it| spells(it, wanted))
    }

    /// Says whether all of it is this and nothing else.
    pub(crate) fn is(&self, wanted: &str) -> bool {
        spells(&self.text, wanted)
    }

    /// Says whether a row of it is this and nothing else.
    pub(crate) fn says(&self, wanted: &str) -> bool {
        self.text.lines().any(|it| it.trim() == wanted)
    }

    /// Says whether this stands in it as a word of its own, over rows if need be.
    pub(crate) fn names(&self, wanted: &str) -> bool {
        let wanted = wanted.trim();
        let rows: Vec<&str> = self.text.lines().map(row_in_box).collect();
        !wanted.is_empty()
            && (0..rows.len()).any(|first| {
                rows[first].char_indices().any(|(at, _)| {
                    let before = rows[first][..at].chars().next_back();
                    let begins =
                        before.is_none_or(|it| !is_of_a_path(it)) || !wanted.starts_with(is_of_a_path);
                    begins && stands_at(&rows[first..], at, wanted)
                })
            })
    }
}

/// What may stand in a file's name or its path.
fn is_of_a_path(it: char) -> bool {
    it.is_alphanumeric() || "._-/".contains(it)
}

/// A row without the edges of a box inside the frame.
fn row_in_box(row: &str) -> &str {
    let row = row.trim();
    row.strip_prefix('│').and_then(|it| it.strip_suffix('│')).unwrap_or(row).trim()
}

/// Says whether a text that a program has broken into rows is this one, character by character. Only where a row ends may
/// blanks be different: programs break there, and put none or as many as they like.
fn spells(shown: &str, wanted: &str) -> bool {
    let mut rest = wanted.trim();
    let mut any = false;
    for row in shown.lines().map(str::trim).filter(|it| !it.is_empty()) {
        any = true;
        let Some(after) = rest.trim_start().strip_prefix(row) else { return false };
        rest = after;
    }
    any && rest.trim().is_empty()
}

/// Says whether a text begins there and goes on, over the rows, until it is whole and a word of its own.
fn stands_at(rows: &[&str], at: usize, wanted: &str) -> bool {
    let mut rest = wanted;
    for (index, row) in rows.iter().enumerate() {
        let row = if index == 0 { &row[at..] } else { row };
        if let Some(after) = row.strip_prefix(rest) {
            return after.chars().next().is_none_or(|it| !is_of_a_path(it)) || !rest.ends_with(is_of_a_path);
        }
        match rest.strip_prefix(row) {
            Some(left) => rest = left.trim_start(),
            None => return false,
        }
    }
    false
}

/// One entry of a menu.
struct Choice<'a> {
    number: u8,
    label: &'a str,
    chosen: bool,
}

impl ScreenRules {
    /// Returns the permission question on a screen, if it is one that a key may answer.
    pub(crate) fn question(&self, screen: &Screen) -> Option<Question> {
        self.asked(screen, DialogKind::Permission, str::to_owned)
    }

    /// Returns the question on a screen whether a folder is trusted, if it is one that a key may answer: it names this very
    /// folder, by its path or, where the program shows no more, by its name in the choice.
    pub(crate) fn trust_question(&self, screen: &Screen, folder: &Path) -> Option<Question> {
        let name = folder.file_name()?.to_str()?;
        let rule = self.dialogs.iter().find(|it| it.kind == DialogKind::Trust && it.allow.is_some())?;
        let names_it = rule.allow.as_deref().is_some_and(|it| it.contains(FOLDER));
        let question = self.asked(screen, DialogKind::Trust, |label| label.replace(FOLDER, name))?;
        (names_it || question.boxes(folder.to_str()?) || question.says(folder.to_str()?)).then_some(question)
    }

    fn asked(&self, screen: &Screen, kind: DialogKind, label: impl Fn(&str) -> String) -> Option<Question> {
        let dialog = self.read(screen).dialog.filter(|it| it.kind == kind)?;
        let rule = self.dialogs.iter().find(|it| it.name == dialog.name && it.allow.is_some())?;
        let rows: Vec<&str> = screen.lines.iter().map(|it| unframed(it)).collect();
        let (first, last, choices) = self.choices(&rows)?;
        let is_footer = |row: &&str| row.is_empty() || self.dialog_footers.iter().any(|it| row.ends_with(it));
        // What stands below it would be another dialog, or a box that takes the key for a draft.
        if !rows[last + 1..].iter().all(is_footer) {
            return None;
        }
        // Another choice than the one it opens with is there because somebody has moved to it.
        if choices.iter().any(|it| it.chosen != (it.number == rule.opens_at)) {
            return None;
        }
        let key = |wanted: &str| {
            if wanted == "Escape" {
                return Some(AnswerKey::Escape);
            }
            let wanted = label(wanted);
            let mut found = choices.iter().filter(|it| it.label == wanted);
            let one = found.next().filter(|_| found.next().is_none())?;
            Some(AnswerKey::Digit(one.number))
        };
        let (allow, deny) = (key(rule.allow.as_deref()?)?, key(rule.deny.as_deref().unwrap_or("Escape"))?);
        let top = self.top(screen, first)?;
        let inside = top + 1..first;
        let boxed: Vec<&str> = screen.lines[inside.clone()].iter().filter_map(|it| in_box(it)).collect();
        let compared =
            (top + 1..=last).filter_map(|it| comparable(in_box(&screen.lines[it]).unwrap_or(rows[it])));
        Some(Question {
            text: rows[inside].join("\n"),
            boxed: (!boxed.is_empty()).then(|| boxed.join("\n")),
            allow,
            deny,
            // Those at the end are the choices.
            rows: compared.rev().take(ROWS).map(|it| it.chars().take(ROW).collect()).collect(),
        })
    }

    /// Finds the last menu: its first row, its last one, and its entries, which are numbered from 1 without gaps.
    fn choices<'a>(&self, rows: &[&'a str]) -> Option<(usize, usize, Vec<Choice<'a>>)> {
        let last = rows.iter().rposition(|it| self.composer.choice(it).is_some())?;
        let mut choices = vec![self.composer.choice(rows[last])?];
        let (mut at, mut wrapped) = (last, 0);
        while choices.last()?.number > 1 {
            at = at.checked_sub(1)?;
            match self.composer.choice(rows[at]) {
                Some(it) if it.number + 1 == choices.last()?.number => {
                    choices.push(it);
                    wrapped = 0;
                }
                None if !rows[at].is_empty() && wrapped < WRAPPED => wrapped += 1,
                _ => return None,
            }
        }
        choices.reverse();
        Some((at, last, choices))
    }

    /// Finds the row above a question: the upper edge of its frame, which reaches down to the choices, or a rule.
    fn top(&self, screen: &Screen, first: usize) -> Option<usize> {
        let is_edge = |row: &String| row.trim_start().starts_with('╭');
        let top = (0..first)
            .rev()
            .find(|it| is_edge(&screen.lines[*it]) || self.composer.is_rule(&screen.lines[*it]))?;
        let framed = is_edge(&screen.lines[top]);
        let inside = |row: &String| !framed || row.trim_start().starts_with('│');
        screen.lines[top + 1..=first].iter().all(inside).then_some(top)
    }
}

impl BoxRule {
    /// Reads an entry of a menu.
    fn choice<'a>(&self, row: &'a str) -> Option<Choice<'a>> {
        let chosen = self.menu_marks.iter().any(|mark| row.starts_with(mark.as_str()));
        let row = if chosen { row.trim_start_matches(|it: char| !it.is_ascii_digit()) } else { row };
        let (number, label) = row.split_once(". ")?;
        let number = number.parse().ok().filter(|it| (1..=9).contains(it) && number.len() == 1)?;
        Some(Choice { number, label: label.trim(), chosen })
    }
}

/// A row without one frame and the blanks around it. What stands in a box inside the frame keeps that box's edges.
fn unframed(row: &str) -> &str {
    let row = row.trim();
    let inner = row.strip_prefix('│').and_then(|it| it.strip_suffix('│')).unwrap_or(row).trim();
    if inner.chars().all(|it| FRAME.contains(&it) || it.is_whitespace()) { "" } else { inner }
}

/// What a row shows inside a box inside a frame.
fn in_box(row: &str) -> Option<&str> {
    let row = row.trim().strip_prefix('│')?.strip_suffix('│')?.trim();
    row.strip_prefix('│')?.strip_suffix('│').map(str::trim)
}

/// What of a row can be looked for again: letters that every terminal draws alike, without the mark in front.
fn comparable(row: &str) -> Option<&str> {
    let row = row.trim_start_matches(|it: char| !it.is_ascii_graphic());
    let is_plain = !row.is_empty() && row.bytes().all(|it| (b' '..=b'~').contains(&it) && it != b'%');
    is_plain.then_some(row)
}
