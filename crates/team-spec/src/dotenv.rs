//! `KEY=VALUE` lines.
//!
//! Knows quotes, comments and line ends. Must not know what any key means, and
//! must not put a value into an error: any line may hold a secret.

use crate::secret::Secret;

/// One line that sets a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value without quotes; it may be empty.
    pub value: Secret,
    /// The line, from 1.
    pub line: usize,
}

/// A line that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct LineError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it, without its value.
    pub message: String,
    /// What the reader can do.
    pub hint: Option<&'static str>,
}

/// Reads all lines, or names every line that cannot be read.
pub fn parse_dotenv(bytes: &[u8]) -> Result<Vec<Entry>, Vec<LineError>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut entries: Vec<Entry> = Vec::new();
    let mut errors = Vec::new();
    for (index, bytes) in bytes.split(|it| *it == b'\n').enumerate() {
        let line = index + 1;
        let wrong = |(message, hint): Problem| LineError { line, message, hint };
        match std::str::from_utf8(bytes).map_err(|_| ("it is not UTF-8".to_owned(), None)).and_then(read_line)
        {
            Ok(None) => {}
            Ok(Some((key, value))) => match entries.iter().find(|it| it.key == key) {
                Some(first) => {
                    let message = format!("`{key}` stands twice, first in line {}", first.line);
                    errors.push(wrong((message, Some("keep one of the two"))));
                }
                None => entries.push(Entry { key: key.to_owned(), value: Secret::new(value), line }),
            },
            Err(problem) => errors.push(wrong(problem)),
        }
    }
    if errors.is_empty() { Ok(entries) } else { Err(errors) }
}

type Problem = (String, Option<&'static str>);

fn read_line(line: &str) -> Result<Option<(&str, String)>, Problem> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    if line.chars().any(|it| it.is_control() && it != '\t') {
        return Err(("it has a control character in it".to_owned(), None));
    }
    let line = line.strip_prefix("export ").map_or(line, str::trim_start);
    let Some((key, value)) = line.split_once('=') else {
        return Err(("it has no `=`".to_owned(), Some("write `KEY=value`, or begin a comment with `#`")));
    };
    let is_key = key.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
        && key.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    if !is_key {
        let message = "what stands before `=` is not a key".to_owned();
        return Err((message, Some("a key is letters, digits and `_`, with no space before `=`")));
    }
    Ok(Some((key, read_value(value.trim())?)))
}

fn read_value(value: &str) -> Result<String, Problem> {
    let Some(quote) = value.chars().next().filter(|it| matches!(it, '"' | '\'')) else {
        // Without quotes a comment begins at a `#` after a blank.
        let end = value
            .char_indices()
            .find(|(at, it)| *it == '#' && (*at == 0 || value[..*at].ends_with([' ', '\t'])))
            .map_or(value.len(), |(at, _)| at);
        return Ok(value[..end].trim_end().to_owned());
    };
    let mut text = String::new();
    let mut rest = value[1..].chars();
    loop {
        match rest.next() {
            None => return Err(("a quote is not closed".to_owned(), Some("close it on the same line"))),
            Some(it) if it == quote => break,
            Some('\\') if quote == '"' => match rest.next() {
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some('r') => text.push('\r'),
                Some(it @ ('"' | '\\' | '$' | '`' | '\'')) => text.push(it),
                _ => {
                    let message = "a `\\` in double quotes has no meaning here".to_owned();
                    return Err((message, Some("double it, or use single quotes")));
                }
            },
            Some(it) => text.push(it),
        }
    }
    let after = rest.as_str().trim_start();
    if after.is_empty() || after.starts_with('#') {
        Ok(text)
    } else {
        Err(("something follows the closing quote".to_owned(), Some("put the whole value in quotes")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(line: &str) -> Result<(String, String), String> {
        let entries = parse_dotenv(line.as_bytes()).map_err(|it| it[0].message.clone())?;
        Ok((entries[0].key.clone(), entries[0].value.expose().to_owned()))
    }

    #[test]
    fn values_are_read_as_people_write_them() {
        for (line, value) in [
            ("A=b", "b"),
            ("A=", ""),
            ("A= b c ", "b c"),
            ("export A=b", "b"),
            ("A=b # comment", "b"),
            ("A=b#c", "b#c"),
            ("A=# comment", ""),
            ("A='b # \\n $c'", "b # \\n $c"),
            ("A=\"b \\\"c\\\" \\\\ \\n\" # comment", "b \"c\" \\ \n"),
            ("A=b=c=", "b=c="),
            ("A=$HOME/`x`", "$HOME/`x`"),
            ("A=研究\r", "研究"),
            ("\u{feff}A=b\r\n\r\n# c\r\n", "b"),
        ] {
            assert_eq!(one(line), Ok(("A".to_owned(), value.to_owned())), "{line:?}");
        }
    }

    #[test]
    fn every_unreadable_line_is_named() {
        let errors =
            parse_dotenv(b"A=b\nnonsense\n1A=b\nA =b\nB='c\nC=\"\\q\"\nD='a'b\nA=c\nE=\xff\nF=\x07x\n")
                .unwrap_err();
        let lines: Vec<usize> = errors.iter().map(|it| it.line).collect();
        assert_eq!(lines, [2, 3, 4, 5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn errors_never_hold_a_value() {
        for line in ["sk-secret", "sk secret=", "A='sk-secret", "A=\"sk-secret\\q\"", "A='x' sk-secret"] {
            assert!(
                !format!("{:?}", parse_dotenv(line.as_bytes()).unwrap_err()).contains("secret"),
                "{line}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_bytes_parse_or_name_a_line(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let lines = bytes.split(|it| *it == b'\n').count();
            match parse_dotenv(&bytes) {
                Ok(entries) => prop_assert!(entries.iter().all(|it| it.line >= 1 && it.line <= lines)),
                Err(errors) => {
                    prop_assert!(!errors.is_empty());
                    prop_assert!(errors.iter().all(|it| it.line >= 1 && it.line <= lines));
                }
            }
        }

        #[test]
        fn likely_lines_parse_or_name_a_line(text in "([A-Z_=#'\" \\\\\t\r\n$a-z]|研){0,60}") {
            if let Err(errors) = parse_dotenv(text.as_bytes()) {
                prop_assert!(errors.iter().all(|it| it.line >= 1 && it.line <= text.matches('\n').count() + 1));
            }
        }

        #[test]
        fn a_single_quoted_value_comes_back_unchanged(value in "[^'\\p{Cc}]{0,40}") {
            let line = format!("A='{value}'");
            prop_assert_eq!(one(&line), Ok(("A".to_owned(), value)));
        }
    }
}
