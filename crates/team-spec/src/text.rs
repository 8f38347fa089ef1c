//! One file as text: its lines, its front matter and places in it.
//!
//! Knows encodings, line ends and the `---` fences. Must not know YAML or
//! what any field means.

use std::ops::Range;

use crate::error::{Snippet, SpecError};

/// A file read whole: without byte order mark, lines ended by a line feed.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    /// What the file is called in errors.
    pub(crate) file: String,
    /// The content after the two changes named above.
    pub(crate) content: String,
}

/// The two parts of a file, as ranges of bytes in its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parts {
    /// From the first fence up to, and without, the second.
    pub(crate) head: Range<usize>,
    /// Everything after the line of the second fence.
    pub(crate) body: Range<usize>,
}

impl Text {
    /// Decodes a file, or says at which byte that fails.
    pub(crate) fn decode(file: &str, bytes: &[u8]) -> Result<Self, SpecError> {
        if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            return Err(SpecError::whole_file(file, "the file is UTF-16, not UTF-8")
                .with_hint("save it again with the encoding UTF-8"));
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let content = match std::str::from_utf8(bytes) {
            Ok(content) => content.replace("\r\n", "\n"),
            Err(cause) => {
                let at = cause.valid_up_to();
                let good = String::from_utf8_lossy(&bytes[..at]).into_owned();
                let rest = &bytes[at..];
                let end = rest.iter().position(|it| *it == b'\n').unwrap_or(rest.len()).min(200);
                let whole = format!("{good}{}", String::from_utf8_lossy(&rest[..end]));
                let text = Self { file: file.to_owned(), content: whole };
                return Err(text
                    .error(
                        at..at + 1,
                        format!("the file is not UTF-8: byte 0x{:02x} cannot stand here", bytes[at]),
                    )
                    .with_hint("save it again with the encoding UTF-8"));
            }
        };
        let text = Self { file: file.to_owned(), content };
        if let Some(at) = text.content.find('\0') {
            return Err(text
                .error(at..at + 1, "a NUL byte cannot stand in a text file")
                .with_hint("remove it; most editors show it as `^@`"));
        }
        Ok(text)
    }

    /// Finds the front matter, or says what is missing.
    pub(crate) fn parts(&self) -> Result<Parts, SpecError> {
        let mut lines = self.lines();
        let first = lines.next().unwrap_or(0..0);
        if self.content[first.clone()].trim_end() != "---" {
            return Err(self
                .error(first, "the front matter is missing: the first line must be `---`")
                .with_hint("begin with a line `---`, then `key: value` lines, then another line `---`"));
        }
        for line in lines {
            if matches!(self.content[line.clone()].trim_end(), "---" | "...") && !line.is_empty() {
                let body = (line.end + 1).min(self.content.len())..self.content.len();
                return Ok(Parts { head: 0..line.start, body });
            }
        }
        Err(self
            .error(first, "the front matter is not closed: no second line `---` follows")
            .with_hint("put a line `---` between the `key: value` lines and the text"))
    }

    /// Makes an error about a range of bytes.
    pub(crate) fn error(&self, at: Range<usize>, message: impl Into<String>) -> SpecError {
        let start = self.floor(at.start);
        let (line, begin) = self.line_of(start);
        let end = self.content[begin..].find('\n').map_or(self.content.len(), |it| begin + it);
        let before = self.content[begin..start].chars().count();
        let stop = self.floor(at.end).clamp(start, end);
        SpecError {
            file: self.file.clone(),
            line,
            column: before + 1,
            message: message.into(),
            hint: None,
            snippet: Some(Box::new(Snippet {
                text: self.content[begin..end].to_owned(),
                start: before,
                length: self.content[start..stop].chars().count(),
            })),
        }
    }

    /// Returns the number of the line that holds a byte, from 1.
    pub(crate) fn line(&self, at: usize) -> usize {
        self.line_of(self.floor(at)).0
    }

    fn line_of(&self, at: usize) -> (usize, usize) {
        let before = &self.content[..at];
        (before.matches('\n').count() + 1, before.rfind('\n').map_or(0, |it| it + 1))
    }

    /// Returns the nearest character border at or before a byte.
    fn floor(&self, at: usize) -> usize {
        let mut at = at.min(self.content.len());
        while !self.content.is_char_boundary(at) {
            at -= 1;
        }
        at
    }

    fn lines(&self) -> impl Iterator<Item = Range<usize>> {
        let mut start = 0;
        self.content.split('\n').map(move |line| {
            let range = start..start + line.len();
            start = range.end + 1;
            range
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(content: &str) -> Result<String, String> {
        let text = Text::decode("w1.md", content.as_bytes()).map_err(|it| it.message)?;
        let parts = text.parts().map_err(|it| it.message)?;
        Ok(text.content[parts.body].to_owned())
    }

    #[test]
    fn the_body_is_kept_byte_for_byte() {
        for kept in ["", "x", "\n\nx\n\n", "a\rb\u{85}\tc  \n", "---\nnot a fence\n...\n"] {
            assert_eq!(body(&format!("---\na: b\n---\n{kept}")).unwrap(), kept);
        }
        let long = "研究 text\n".repeat(4000);
        assert_eq!(body(&format!("---\n...\n{long}")).unwrap(), long);
    }

    #[test]
    fn a_byte_order_mark_goes_and_line_ends_become_line_feeds() {
        assert_eq!(body("\u{feff}---\r\na: b\r\n---  \r\nx\r\ny").unwrap(), "x\ny");
    }

    #[test]
    fn a_missing_fence_is_named() {
        assert!(body("").unwrap_err().contains("missing"));
        assert!(body("# Title\n---\n").unwrap_err().contains("missing"));
        assert!(body("---").unwrap_err().contains("not closed"));
        assert!(body("---\na: b\n ---\n").unwrap_err().contains("not closed"));
    }

    #[test]
    fn what_is_not_utf8_is_named_with_its_place() {
        let error = Text::decode("w1.md", b"---\nrole: caf\xe9\n---\n").unwrap_err();
        assert_eq!((error.line, error.column), (2, 10));
        assert!(error.message.contains("0xe9"));
        assert!(Text::decode("w1.md", b"\xff\xfea\0").unwrap_err().message.contains("UTF-16"));
        assert_eq!(Text::decode("w1.md", b"a\nb\0").unwrap_err().line, 2);
    }
}
