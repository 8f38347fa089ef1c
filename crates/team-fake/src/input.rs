//! Bytes of a terminal in, keys and pastes out. Knows no composer; the result never depends on how the
//! bytes were split into reads.

/// What the person, or tmux, did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    Char(char),
    /// Text between the marks of a bracketed paste.
    Paste(Vec<u8>),
    Enter,
    /// A line feed, or Enter with Alt: a new line in the composer.
    Newline,
    Tab,
    Backspace,
    Escape,
    Up,
    Down,
    CtrlC,
    CtrlD,
    CtrlS,
    CtrlU,
    /// Bytes that mean nothing here. They are logged, never guessed at.
    Unknown(Vec<u8>),
}

const PASTE_END: &[u8] = b"\x1b[201~";
/// Longer than any key; keeps a stray introducer from swallowing text for ever.
const MAX_SEQUENCE: usize = 64;

/// Splits a byte stream into events.
#[derive(Debug, Default)]
pub(crate) struct Parser {
    pending: Vec<u8>,
    paste: Option<Vec<u8>>,
}

enum Token {
    /// An event and the number of bytes it took.
    Event(Event, usize),
    PasteStart(usize),
    Incomplete,
}

impl Parser {
    /// Takes what one read gave and returns what is complete by now.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Vec<Event> {
        self.pending.extend_from_slice(bytes);
        let mut events = Vec::new();
        let mut at = 0;
        loop {
            let rest = &self.pending[at..];
            if let Some(paste) = &mut self.paste {
                if let Some(end) = find(rest, PASTE_END) {
                    paste.extend_from_slice(&rest[..end]);
                    at += end + PASTE_END.len();
                    events.push(Event::Paste(self.paste.take().unwrap_or_default()));
                    continue;
                }
                let keep = rest.len().min(PASTE_END.len() - 1);
                paste.extend_from_slice(&rest[..rest.len() - keep]);
                at = self.pending.len() - keep;
                break;
            }
            match token(rest) {
                Token::Incomplete => break,
                Token::PasteStart(length) => {
                    at += length;
                    self.paste = Some(Vec::new());
                }
                Token::Event(event, length) => {
                    at += length;
                    events.push(event);
                }
            }
        }
        self.pending.drain(..at);
        events
    }

    /// Tells whether a key may be half read, so that silence decides what it was.
    pub(crate) fn waiting(&self) -> bool {
        self.paste.is_none() && !self.pending.is_empty()
    }

    /// Ends a half-read key: nothing more came.
    pub(crate) fn flush(&mut self) -> Option<Event> {
        if !self.waiting() {
            return None;
        }
        let bytes = std::mem::take(&mut self.pending);
        Some(if bytes == b"\x1b" { Event::Escape } else { Event::Unknown(bytes) })
    }
}

fn token(bytes: &[u8]) -> Token {
    let Some(&first) = bytes.first() else { return Token::Incomplete };
    let event = match first {
        b'\x1b' => return escape(bytes),
        b'\r' => Event::Enter,
        b'\n' => Event::Newline,
        b'\t' => Event::Tab,
        0x7f | 0x08 => Event::Backspace,
        0x03 => Event::CtrlC,
        0x04 => Event::CtrlD,
        0x13 => Event::CtrlS,
        0x15 => Event::CtrlU,
        0x00..0x20 => Event::Unknown(vec![first]),
        0x20..0x7f => Event::Char(char::from(first)),
        0x80.. => return utf8(bytes),
    };
    Token::Event(event, 1)
}

fn utf8(bytes: &[u8]) -> Token {
    let window = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(window) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => {
            std::str::from_utf8(&window[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) if error.error_len().is_none() && window.len() < 4 => return Token::Incomplete,
        Err(_) => return Token::Event(Event::Unknown(vec![bytes[0]]), 1),
    };
    match valid.chars().next() {
        Some(char) if char.is_control() => {
            Token::Event(Event::Unknown(bytes[..char.len_utf8()].to_vec()), char.len_utf8())
        }
        Some(char) => Token::Event(Event::Char(char), char.len_utf8()),
        None => Token::Event(Event::Unknown(vec![bytes[0]]), 1),
    }
}

fn escape(bytes: &[u8]) -> Token {
    match bytes.get(1) {
        None => Token::Incomplete,
        Some(b'\x1b') => Token::Event(Event::Escape, 1),
        Some(b'\r' | b'\n') => Token::Event(Event::Newline, 2),
        Some(b'[') => control_sequence(bytes),
        Some(b'O') => match bytes.get(2) {
            None => Token::Incomplete,
            Some(b'A') => Token::Event(Event::Up, 3),
            Some(b'B') => Token::Event(Event::Down, 3),
            Some(_) => Token::Event(Event::Unknown(bytes[..3].to_vec()), 3),
        },
        Some(b']' | b'P' | b'_' | b'^') => string_sequence(bytes),
        Some(_) => Token::Event(Event::Unknown(bytes[..2].to_vec()), 2),
    }
}

fn control_sequence(bytes: &[u8]) -> Token {
    for (index, &byte) in bytes.iter().enumerate().skip(2) {
        let unknown = |length: usize| Token::Event(Event::Unknown(bytes[..length].to_vec()), length);
        match byte {
            0x20..=0x3f if index < MAX_SEQUENCE => {}
            0x40..=0x7e => {
                return match &bytes[2..=index] {
                    b"200~" => Token::PasteStart(index + 1),
                    b"A" => Token::Event(Event::Up, index + 1),
                    b"B" => Token::Event(Event::Down, index + 1),
                    b"13;2u" | b"27;2;13~" => Token::Event(Event::Newline, index + 1),
                    _ => unknown(index + 1),
                };
            }
            _ => return unknown(index),
        }
    }
    Token::Incomplete
}

/// Answers of the terminal that end with BEL or ESC `\`.
fn string_sequence(bytes: &[u8]) -> Token {
    for (index, &byte) in bytes.iter().enumerate().skip(2) {
        let length = match byte {
            0x07 => index + 1,
            b'\x1b' => match bytes.get(index + 1) {
                None => return Token::Incomplete,
                Some(b'\\') => index + 2,
                Some(_) => index,
            },
            _ if index >= MAX_SEQUENCE * 16 => index,
            _ => continue,
        };
        return Token::Event(Event::Unknown(bytes[..length].to_vec()), length);
    }
    Token::Incomplete
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(offset) = haystack[from..].iter().position(|&it| it == needle[0]) {
        let at = from + offset;
        if haystack[at..].starts_with(needle) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole(bytes: &[u8]) -> Vec<Event> {
        let mut parser = Parser::default();
        let mut events = parser.feed(bytes);
        events.extend(parser.flush());
        events
    }

    fn text(events: &[Event]) -> String {
        events
            .iter()
            .map(|it| match it {
                Event::Char(char) => *char,
                other => panic!("{other:?} is no character"),
            })
            .collect()
    }

    /// Bytes that are likely to be near a border: marks, halves of marks, text, garbage.
    fn hostile() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            Just(b"\x1b[200~".to_vec()),
            Just(b"\x1b[201~".to_vec()),
            Just(b"\x1b[20".to_vec()),
            Just(b"\x1b".to_vec()),
            Just(b"\x1bOA\x1b[B\x1b]11;rgb\x07".to_vec()),
            Just("é你👩‍👩‍👧\r\n\t".as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..9),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|it| it.concat())
    }

    proptest! {
        #[test]
        fn events_do_not_depend_on_how_the_bytes_were_split(
            bytes in hostile(),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|it| it.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let mut parser = Parser::default();
            let mut events = Vec::new();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                events.extend(parser.feed(&bytes[from..cut]));
                from = cut;
            }
            events.extend(parser.flush());
            prop_assert_eq!(events, whole(&bytes));
        }

        #[test]
        fn a_paste_keeps_every_byte(body in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assume!(find(&body, PASTE_END).is_none());
            let framed = [b"\x1b[200~".as_slice(), &body, b"\x1b[201~\r"].concat();
            prop_assert_eq!(whole(&framed), vec![Event::Paste(body), Event::Enter]);
        }
    }

    #[test]
    fn text_of_any_script_arrives_as_characters() {
        let sample = "请检查 ① 👩‍👩‍👧 e\u{301} ﷽ \u{200b}";
        assert_eq!(text(&whole(sample.as_bytes())), sample);
    }

    #[test]
    fn a_lone_escape_is_a_key_only_when_nothing_follows() {
        let mut parser = Parser::default();
        assert_eq!(parser.feed(b"\x1b"), vec![]);
        assert!(parser.waiting());
        assert_eq!(parser.flush(), Some(Event::Escape));
        assert_eq!(parser.feed(b"\x1b[B"), vec![Event::Down]);
    }

    #[test]
    fn an_end_mark_without_a_start_is_unknown() {
        assert_eq!(whole(b"\x1b[201~"), vec![Event::Unknown(b"\x1b[201~".to_vec())]);
    }
}
