//! The draft: what has been typed and pasted but not sent. Knows no keys and no screen.

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Pasted { label: String, text: String },
}

/// The text in the input box.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Composer {
    pieces: Vec<Piece>,
    pastes: u32,
}

impl Composer {
    /// Adds typed text at the end.
    pub(crate) fn insert(&mut self, text: &str) {
        if let Some(Piece::Text(last)) = self.pieces.last_mut() {
            last.push_str(text);
        } else if !text.is_empty() {
            self.pieces.push(Piece::Text(text.to_owned()));
        }
    }

    /// Adds pasted text at the end; line ends become line feeds. `label` says what stands for a text and its number.
    pub(crate) fn paste(&mut self, text: &str, label: impl Fn(&str, u32) -> Option<String>) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        self.pastes += 1;
        match label(&text, self.pastes) {
            Some(label) => self.pieces.push(Piece::Pasted { label, text }),
            None => self.insert(&text),
        }
    }

    /// Removes the last character, or the last labelled paste as a whole.
    pub(crate) fn backspace(&mut self) {
        if let Some(Piece::Text(text)) = self.pieces.last_mut() {
            text.pop();
            if !text.is_empty() {
                return;
            }
        }
        self.pieces.pop();
    }

    /// Removes the last line, or the line end before it when the line is empty.
    pub(crate) fn clear_line(&mut self) {
        while let Some(piece) = self.pieces.pop() {
            let Piece::Text(text) = piece else { continue };
            if let Some(at) = text.rfind('\n') {
                let keep = if at + 1 == text.len() { at } else { at + 1 };
                self.insert(&text[..keep]);
                return;
            }
        }
    }

    /// Empties the box; labels go on counting.
    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the whole text, pastes expanded.
    pub(crate) fn text(&self) -> String {
        self.pieces
            .iter()
            .map(|it| match it {
                Piece::Text(text) | Piece::Pasted { text, .. } => text.as_str(),
            })
            .collect()
    }

    /// Returns what the box shows.
    pub(crate) fn shown(&self) -> String {
        let mut shown = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => shown.push_str(text),
                Piece::Pasted { label, .. } => shown.push_str(label),
            }
        }
        shown
    }

    /// Puts other text in place of the typed end `from`, as a completion does.
    pub(crate) fn complete(&mut self, from: &str, with: &str) {
        if let Some(Piece::Text(text)) = self.pieces.last_mut()
            && text.ends_with(from)
        {
            text.truncate(text.len() - from.len());
            text.push_str(with);
        }
    }

    /// Takes the text out for sending, without the one line end that closes it.
    pub(crate) fn take(&mut self) -> String {
        let mut text = self.text();
        if text.ends_with('\n') {
            text.pop();
        }
        self.clear();
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(text: &str, number: u32) -> Option<String> {
        crate::clothes::find(None)?.label(text, number)
    }

    #[test]
    fn a_long_paste_is_shown_by_a_label_and_sent_whole() {
        let mut composer = Composer::default();
        composer.insert("see: ");
        composer.paste(&"x\r\n".repeat(60), label);
        assert_eq!(composer.shown(), "see: [Pasted text #1 +60 lines]");
        assert_eq!(composer.take(), format!("see: {}", "x\n".repeat(60).trim_end()));
        assert!(composer.is_empty());
    }

    #[test]
    fn a_short_paste_joins_what_was_typed() {
        let mut composer = Composer::default();
        composer.insert("a");
        composer.paste("b\nc", label);
        composer.insert("d");
        assert_eq!((composer.shown(), composer.text()), ("ab\ncd".to_owned(), "ab\ncd".to_owned()));
    }

    #[test]
    fn backspace_takes_a_labelled_paste_as_one() {
        let mut composer = Composer::default();
        composer.insert("a");
        composer.paste(&"y".repeat(900), label);
        assert_eq!(composer.shown(), "a[Pasted text #1]");
        composer.backspace();
        assert_eq!(composer.text(), "a");
        composer.backspace();
        assert!(composer.is_empty());
    }

    #[test]
    fn clearing_a_line_leaves_the_lines_before_it() {
        let mut composer = Composer::default();
        composer.insert("one\ntwo");
        composer.clear_line();
        assert_eq!(composer.text(), "one\n");
        composer.clear_line();
        assert_eq!(composer.text(), "one");
        composer.clear_line();
        assert!(composer.is_empty());
    }
}
