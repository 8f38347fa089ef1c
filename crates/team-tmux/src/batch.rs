//! The quoting rules of tmux's command language, formats and content search.
//!
//! Pure text. Scripts are handed to `source-file -`, so there is no limit of length and one rule of
//! quoting for everything.

use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;

/// Quotes one argument of a command so that it arrives byte for byte.
///
/// Between double quotes `"`, `\`, `$` and a leading `~` are special; whitespace after a newline
/// would be lost, so control characters, and bytes that are no UTF-8, are written as octal escapes.
pub(crate) fn quote(arg: impl AsRef<OsStr>) -> String {
    let bytes = arg.as_ref().as_bytes();
    let mut quoted = String::with_capacity(bytes.len() + 2);
    quoted.push('"');
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '"' | '\\' | '$' | '~' => quoted.extend(['\\', char]),
                '\0'..='\x1f' | '\x7f' => octal(&mut quoted, char as u8),
                _ => quoted.push(char),
            }
        }
        chunk.invalid().iter().for_each(|byte| octal(&mut quoted, *byte));
    }
    quoted.push('"');
    quoted
}

fn octal(text: &mut String, byte: u8) {
    let _ = write!(text, "\\{byte:03o}");
}

/// Escapes a text for a place where tmux expands formats, so that it stays as it is.
///
/// A `#` is doubled, except in a run before `[`, which tmux takes for a style and leaves alone.
pub(crate) fn literal_format(text: &OsStr) -> std::ffi::OsString {
    use std::os::unix::ffi::OsStringExt;
    let mut rest = text.as_bytes();
    let mut escaped = Vec::with_capacity(rest.len());
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'#' {
            let run = rest.iter().take_while(|byte| **byte == b'#').count();
            let copies = if rest.get(run) == Some(&b'[') { run } else { run * 2 };
            escaped.extend(std::iter::repeat_n(b'#', copies));
            rest = &rest[run..];
        } else {
            escaped.push(first);
            rest = tail;
        }
    }
    std::ffi::OsString::from_vec(escaped)
}

/// One line of a script: commands to be run if a condition holds and others if it does not.
///
/// The condition is about the target, or about the server if there is none. A target that does not
/// exist is not an error: formats about it are then empty.
pub(crate) fn when(target: Option<&str>, condition: &str, act: &str, otherwise: &str) -> String {
    let target = target.map(|target| format!(" -t {}", quote(target))).unwrap_or_default();
    format!("if-shell -F{target} {} {{ {act} }} {{ {otherwise} }}\n", quote(condition))
}

/// Joins conditions, each a format that is true or false, into one that is true if all are.
pub(crate) fn all(conditions: impl IntoIterator<Item = String>) -> String {
    conditions
        .into_iter()
        .reduce(|all, condition| format!("#{{&&:{all},{condition}}}"))
        .unwrap_or_else(|| "1".to_owned())
}

/// A condition that a format has exactly this value, which must be free of `#`, `,` and `}`.
pub(crate) fn equals(format: &str, value: impl std::fmt::Display) -> String {
    format!("#{{==:#{{{format}}},{value}}}")
}

/// A condition that a format is empty or 0.
pub(crate) fn is_not(format: &str) -> String {
    format!("#{{?{format},0,1}}")
}

/// A format with the number of the first screen line that contains a text, or 0.
///
/// tmux searches by extended regular expression here, because its plain search gives a meaning to
/// `*`, `?` and `[`.
pub(crate) fn line_containing(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 8);
    for char in text.chars() {
        match char {
            // Of the regular expression.
            '\\' | '.' | '[' | ']' | '(' | ')' | '*' | '+' | '?' | '{' | '|' | '^' | '$' => {
                pattern.extend(['\\', char]);
            }
            // Of the format.
            '#' | ',' => pattern.extend(['#', char]),
            // Of both: a class keeps it away from the regular expression's own braces.
            '}' => pattern.push_str("#}"),
            _ => pattern.push(char),
        }
    }
    format!("#{{C/r:{pattern}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_quoted_for_the_command_language() {
        assert_eq!(quote("a b"), r#""a b""#);
        assert_eq!(quote(r#"$HOME "x" \;'"#), r#""\$HOME \"x\" \\;'""#);
        assert_eq!(quote("~/x"), r#""\~/x""#);
        assert_eq!(quote("a\n  #b\t"), r#""a\012  #b\011""#);
        assert_eq!(quote(OsStr::from_bytes(b"\xff\xe4\xb8\xad")), "\"\\377中\"");
        assert_eq!(quote(""), r#""""#);
    }

    #[test]
    fn a_hash_stays_a_hash_where_formats_are_expanded() {
        let check = |text: &str, escaped: &str| assert_eq!(literal_format(OsStr::new(text)), escaped);
        check("a#b##c", "a##b####c");
        check("#{pane_id}", "##{pane_id}");
        check("x#[y##[z#", "x#[y##[z##");
    }

    #[test]
    fn conditions_are_joined_in_pairs() {
        assert_eq!(all([]), "1");
        assert_eq!(all(["a".to_owned()]), "a");
        assert_eq!(all(["a".to_owned(), "b".to_owned(), "c".to_owned()]), "#{&&:#{&&:a,b},c}");
    }
}
