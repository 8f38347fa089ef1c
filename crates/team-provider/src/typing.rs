//! How text gets into a program's input box, and which text may go that way.
//!
//! Knows waiting times and dangerous characters. Must not type.

/// The rules of typing into a program.
#[derive(Debug, Clone, Copy)]
pub struct Typing {
    /// Pause between the paste and the Enter, in milliseconds.
    pub settle_ms: u64,
    /// Time after the Enter without a receipt when the screen is looked at, in milliseconds.
    pub look_after_ms: u64,
    /// Time after the start in which a paste may be lost, in milliseconds.
    pub after_start_ms: u64,
    /// Longest text, in bytes, that goes by keys.
    pub max_bytes: usize,
    /// First characters that make the program do something else than read.
    pub risky_first: &'static [char],
    /// Whether a tab arrives as something else.
    pub tabs_change: bool,
    /// Whether outer white space is lost.
    pub trims: bool,
    /// Which characters are lost, besides those that act as keys.
    pub drops: fn(char) -> bool,
    /// Which texts arrive as another one for other reasons.
    pub changes: fn(&str) -> bool,
}

/// A text judged for typing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Framed {
    /// May be typed as it stands here: the text itself, with lines of ours around it where it needs them.
    Safe(String),
    /// Must not be typed.
    Unsafe(UnsafeText),
}

/// Why a text must not be typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsafeText {
    /// There is nothing to read in it.
    Empty,
    /// It would arrive as another text.
    Changed,
    /// It is longer than keys should carry.
    TooLong {
        /// Its length in bytes.
        bytes: usize,
        /// The longest allowed.
        max: usize,
    },
}

/// Line put before a text whose first character would be taken as a command.
const LEAD: &str = "Message:";
/// Line put after a text whose end would be lost, or taken as something else than an end.
const TAIL: &str = "(end of message)";

/// Makes a text safe to type under the given rules.
pub(crate) fn frame(rules: &Typing, text: &str) -> Framed {
    if text.trim().is_empty() {
        return Framed::Unsafe(UnsafeText::Empty);
    }
    let is_changed = |c: char| match c {
        '\n' => false,
        '\t' => rules.tabs_change,
        _ => is_control(c) || (rules.drops)(c),
    };
    if text.contains(is_changed) || (rules.changes)(text) {
        return Framed::Unsafe(UnsafeText::Changed);
    }
    let mut out = String::with_capacity(text.len() + LEAD.len() + TAIL.len() + 2);
    if text.starts_with(|first: char| rules.risky_first.contains(&first) || first.is_whitespace()) {
        out.push_str(LEAD);
        out.push('\n');
    }
    out.push_str(text);
    if ends_badly(text) {
        out.push('\n');
        out.push_str(TAIL);
    } else if rules.trims {
        out = keep_end(out);
    }
    if out.len() > rules.max_bytes {
        return Framed::Unsafe(UnsafeText::TooLong { bytes: out.len(), max: rules.max_bytes });
    }
    Framed::Safe(out)
}

/// Puts a line after a text whose outer white space would be lost.
pub(crate) fn keep_end(mut text: String) -> String {
    if text.ends_with(char::is_whitespace) {
        text.push('\n');
        text.push_str(TAIL);
    }
    text
}

/// Says whether the program would not take an Enter after this text as its end.
fn ends_badly(text: &str) -> bool {
    let text = text.trim_end();
    let last_line = text.rsplit('\n').next().unwrap_or(text);
    if last_line.ends_with('\\') {
        return true;
    }
    // A last word that begins with one of these opens a list, and Enter picks from it.
    let last_word = last_line.rsplit(char::is_whitespace).next().unwrap_or(last_line);
    last_word.contains('@') || (last_word.starts_with('/') && text.contains('\n'))
}

/// Says whether a character acts instead of being read: C0, DEL, C1.
fn is_control(c: char) -> bool {
    c.is_control()
}
