//! How text gets into a program's input box, and which text may go that way.
//!
//! Knows waiting times and dangerous characters. Must not type.

/// The rules of typing into a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

/// A text judged for typing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Framed {
    /// May be typed as it stands here.
    Safe {
        /// The text to type.
        text: String,
        /// Whether characters were replaced; a reader may want the original elsewhere.
        changed: bool,
    },
    /// Must not be typed.
    Unsafe(UnsafeText),
}

/// Why a text must not be typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsafeText {
    /// There is nothing to read in it.
    Empty,
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
/// Line put after a text whose end would be taken as something else than an end.
const TAIL: &str = "(end of message)";

/// Makes a text safe to type under the given rules.
pub(crate) fn frame(rules: &Typing, text: &str) -> Framed {
    let mut changed = false;
    let mut out = String::with_capacity(text.len() + LEAD.len() + TAIL.len() + 2);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => out.push('\n'),
            '\r' => {
                changed = true;
                if chars.peek() != Some(&'\n') {
                    out.push('\n');
                }
            }
            '\t' if rules.tabs_change => {
                changed = true;
                out.push_str("    ");
            }
            '\t' => out.push('\t'),
            _ if is_control(c) => {
                changed = true;
                out.push(picture(c));
            }
            _ => out.push(c),
        }
    }
    let end = out.trim_end_matches(['\n', ' ', '\t']).len();
    if end < out.len() && rules.trims {
        changed = changed || !out[end..].bytes().all(|b| b == b'\n');
        out.truncate(end);
    }
    if out.trim().is_empty() {
        return Framed::Unsafe(UnsafeText::Empty);
    }
    let first = out.chars().next().unwrap_or(' ');
    if rules.risky_first.contains(&first) || first.is_whitespace() {
        out.insert(0, '\n');
        out.insert_str(0, LEAD);
    }
    if ends_badly(&out) {
        out.push('\n');
        out.push_str(TAIL);
    }
    if out.len() > rules.max_bytes {
        return Framed::Unsafe(UnsafeText::TooLong { bytes: out.len(), max: rules.max_bytes });
    }
    Framed::Safe { text: out, changed }
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

/// Returns a visible stand-in for a control character.
fn picture(c: char) -> char {
    match u32::from(c) {
        code @ 0..=0x1f => char::from_u32(0x2400 + code).unwrap_or('\u{fffd}'),
        0x7f => '\u{2421}',
        _ => '\u{fffd}',
    }
}
