//! Makes a text safe to be typed. Knows nothing of panes.

use std::borrow::Cow;

/// A text without control characters, and how many there were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaned<'a> {
    /// The text that may be typed.
    pub text: Cow<'a, str>,
    /// How many characters were removed or turned into a newline; CRLF as a line end does not count.
    pub removed: usize,
}

/// Removes every character that a terminal or a program could take for a command.
///
/// Newline and tab stay, CRLF and a lone CR become a newline, and all other characters of the C0
/// and C1 ranges and DEL go. A text inside a bracketed paste can then neither end it nor act as a key.
pub fn clean_text(text: &str) -> Cleaned<'_> {
    if !text.chars().any(|char| char.is_control() && char != '\n' && char != '\t') {
        return Cleaned { text: Cow::Borrowed(text), removed: 0 };
    }
    let mut clean = String::with_capacity(text.len());
    let mut removed = 0;
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\r' if chars.peek() == Some(&'\n') => {}
            '\r' => {
                clean.push('\n');
                removed += 1;
            }
            '\n' | '\t' => clean.push(char),
            _ if char.is_control() => removed += 1,
            _ => clean.push(char),
        }
    }
    Cleaned { text: Cow::Owned(clean), removed }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, clean: &str, removed: usize) {
        assert_eq!(clean_text(text), Cleaned { text: Cow::Borrowed(clean), removed });
    }

    #[test]
    fn control_characters_are_removed_and_counted() {
        check("plain", "plain", 0);
        check("a\x1b[201~\rtouch /tmp/pwn\r", "a[201~\ntouch /tmp/pwn\n", 3);
        check("\x03\x04\x15\0x\x7f", "x", 5);
        check("\u{9b}201~ \u{85}", "201~ ", 2);
    }

    #[test]
    fn line_ends_become_newlines_and_tabs_stay() {
        check("a\r\nb\r\n", "a\nb\n", 0);
        check("a\rb\r\r\n", "a\nb\n\n", 2);
        check("\ta\n\n", "\ta\n\n", 0);
    }

    #[test]
    fn other_scripts_and_joiners_are_kept_as_they_are() {
        let text = "请检查 ① 👩‍👩‍👧 e\u{301} ﷽ \u{200b}\u{2028}";
        check(text, text, 0);
    }

    proptest! {
        #[test]
        fn a_cleaned_text_is_clean(text in any::<String>()) {
            let once = clean_text(&text);
            let is_clean = !once.text.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
            prop_assert!(is_clean);
            prop_assert_eq!(clean_text(&once.text).removed, 0);
        }
    }
}
