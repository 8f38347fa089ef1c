//! What is wrong in the files of a team, and how it is shown.
//!
//! Knows places in files and how wide characters are. Must not know what any
//! field means.

use std::fmt;

use serde::Serialize;
use unicode_width::UnicodeWidthChar;

/// The widest part of a source line that is shown, in columns.
const WIDEST: usize = 100;
/// How many columns stand for one tab.
const TAB: usize = 4;

/// One thing that is wrong, with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SpecError {
    /// The file, relative to the workspace where it lies inside.
    pub file: String,
    /// The line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// The column in characters, from 1; 0 when the whole file is meant.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// One thing that the reader can do now.
    pub hint: Option<String>,
    /// The line itself, where it may be shown.
    pub snippet: Option<Box<Snippet>>,
}

/// A source line and the part of it that is meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Snippet {
    /// The line without its end.
    pub text: String,
    /// How many characters stand before the marked part.
    pub start: usize,
    /// How many characters are marked; at least one caret is shown.
    pub length: usize,
}

impl SpecError {
    /// Makes an error about a whole file.
    pub fn whole_file(file: impl Into<String>, message: impl Into<String>) -> Self {
        Self { file: file.into(), line: 0, column: 0, message: message.into(), hint: None, snippet: None }
    }

    /// Adds what the reader can do.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gutter = " ".repeat(if self.line == 0 { 1 } else { self.line.to_string().len() });
        out.write_str(&printable(&self.message))?;
        write!(out, "\n{gutter}--> {}", printable(&self.file))?;
        if self.line > 0 {
            write!(out, ":{}:{}", self.line, self.column)?;
        }
        if let Some(snippet) = &self.snippet {
            let (shown, before, marked) = snippet.layout();
            write!(out, "\n{gutter} |\n{} | {shown}", self.line)?;
            write!(out, "\n{gutter} | {}{}", " ".repeat(before), "^".repeat(marked))?;
        }
        if let Some(hint) = &self.hint {
            if self.snippet.is_some() {
                write!(out, "\n{gutter} |")?;
            }
            write!(out, "\n{gutter} = hint: {}", printable(hint))?;
        }
        Ok(())
    }
}

impl std::error::Error for SpecError {}

impl Snippet {
    /// Returns the line as shown, the columns before the carets and the carets.
    fn layout(&self) -> (String, usize, usize) {
        let cells: Vec<(String, usize)> = self.text.chars().map(cell).collect();
        let start = self.start.min(cells.len());
        let end = (start + self.length).min(cells.len());
        let width = |from: usize, to: usize| cells[from..to].iter().map(|it| it.1).sum::<usize>();
        let mut first = 0;
        while first < start && width(first, start) > WIDEST / 2 && width(first, cells.len()) > WIDEST {
            first += 1;
        }
        let mut last = first;
        while last < cells.len() && width(first, last) + cells[last].1 <= WIDEST {
            last += 1;
        }
        let mut shown = String::new();
        let mut before = width(first, start);
        if first > 0 {
            shown.push_str("...");
            before += 3;
        }
        shown.extend(cells[first..last].iter().map(|it| it.0.as_str()));
        if last < cells.len() {
            shown.push_str("...");
        }
        let marked = width(start, end.clamp(start, last.max(start))).max(1);
        (shown.trim_end().to_owned(), before, marked)
    }
}

/// Returns how a character is shown and how many columns it takes.
fn cell(it: char) -> (String, usize) {
    match it {
        '\t' => (" ".repeat(TAB), TAB),
        it if unsafe_to_show(it) => ("\u{fffd}".to_owned(), 1),
        it => (it.to_string(), it.width().unwrap_or(0)),
    }
}

/// Says whether a character could move the cursor, color the terminal or turn
/// the direction of the text.
fn unsafe_to_show(it: char) -> bool {
    it.is_control()
        || matches!(it, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Returns the text with everything that a terminal would obey made visible.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|it| if it != '\n' && unsafe_to_show(it) { '\u{fffd}' } else { it }).collect()
}

/// Returns a value for a message: one line, not too long.
pub(crate) fn quoted(value: &str) -> String {
    let mut shown: String = value.chars().take(60).map(|it| if it == '\n' { ' ' } else { it }).collect();
    if value.chars().nth(60).is_some() {
        shown.push_str("...");
    }
    format!("`{}`", printable(&shown))
}

/// Everything that is wrong in the files of a team, ordered by place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SpecErrors(pub Vec<SpecError>);

impl SpecErrors {
    /// Orders the errors by file, line and column and drops repetitions.
    pub(crate) fn new(mut errors: Vec<SpecError>) -> Self {
        // TEAM.md is what the other files refer to, so it comes first.
        errors.sort_by(|a, b| {
            let key = |it: &SpecError| (!it.file.ends_with("TEAM.md"), it.file.clone(), it.line, it.column);
            key(a).cmp(&key(b))
        });
        errors.dedup();
        Self(errors)
    }

    /// Returns the number of files that have errors.
    pub fn files(&self) -> usize {
        let mut files: Vec<&str> = self.0.iter().map(|it| it.file.as_str()).collect();
        files.sort_unstable();
        files.dedup();
        files.len()
    }
}

impl fmt::Display for SpecErrors {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_str("\n\n")?;
            }
            write!(out, "error: {error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SpecErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str, start: usize, length: usize) -> String {
        SpecError {
            file: "agents/w1.md".to_owned(),
            line: 12,
            column: start + 1,
            message: "no provider is named `x`".to_owned(),
            hint: Some("did you mean `y`?".to_owned()),
            snippet: Some(Box::new(Snippet { text: text.to_owned(), start, length })),
        }
        .to_string()
    }

    #[test]
    fn carets_stand_below_the_value() {
        insta::assert_snapshot!(error("provider: claud", 10, 5));
    }

    #[test]
    fn wide_characters_before_the_value_move_the_carets() {
        insta::assert_snapshot!(error("{役割: 実装, é: x\u{301}, provider: 研究}", 24, 2));
    }

    #[test]
    fn tabs_are_shown_as_spaces_and_counted() {
        insta::assert_snapshot!(error("\tprovider:\tclaud", 11, 5));
    }

    #[test]
    fn long_lines_are_cut_around_the_value() {
        let text = format!("objective: {} provider {}", "word ".repeat(60), "more ".repeat(60));
        insta::assert_snapshot!(error(&text, 312, 8));
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let shown = error("provider: \u{1b}[31mred\u{7}\u{202e}", 10, 9);
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown}");
    }

    #[test]
    fn a_place_past_the_end_gets_one_caret() {
        insta::assert_snapshot!(error("provider:", 99, 3));
    }

    #[test]
    fn errors_come_in_the_order_of_the_files() {
        let at = |file: &str, line| SpecError { line, column: 1, ..SpecError::whole_file(file, "wrong") };
        let errors = SpecErrors::new(vec![at("b.md", 2), at("TEAM.md", 9), at("b.md", 1), at("a.md", 3)]);
        let order: Vec<_> = errors.0.iter().map(|it| (it.file.as_str(), it.line)).collect();
        assert_eq!(order, [("TEAM.md", 9), ("a.md", 3), ("b.md", 1), ("b.md", 2)]);
        assert_eq!(errors.files(), 3);
    }
}
