//! Text with styles, read from what tmux captures. Knows escape sequences, not panes.

/// A colour as the program has set it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Color {
    /// The terminal's own.
    #[default]
    Default,
    /// One of the 256.
    Indexed(u8),
    /// Red, green, blue.
    Rgb(u8, u8, u8),
}

/// The parts of a character's style that carry meaning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a terminal has these attributes, independent of each other"
)]
pub struct Style {
    /// Half as bright.
    pub dim: bool,
    /// Bold.
    pub bold: bool,
    /// Foreground and background swapped, as for a drawn cursor.
    pub reverse: bool,
    /// Not shown at all.
    pub hidden: bool,
    /// The colour of the text.
    pub foreground: Color,
}

impl Style {
    /// Tells whether the text is grey, as placeholders and suggestions are: dim, or a middle grey.
    pub fn is_faint(self) -> bool {
        self.dim
            || match self.foreground {
                Color::Default => false,
                Color::Indexed(index) => index == 8 || (238..=249).contains(&index),
                Color::Rgb(red, green, blue) => {
                    let (low, high) = (red.min(green).min(blue), red.max(green).max(blue));
                    high - low <= 32 && (0x48..=0xb4).contains(&high)
                }
            }
    }
}

/// Some characters of one style.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Span {
    /// The characters.
    pub text: String,
    /// Their style.
    pub style: Style,
}

/// One row of a screen, without the blanks at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Its parts; neighbours differ in style.
    pub spans: Vec<Span>,
}

impl Line {
    /// Makes a line of a plain text.
    pub fn plain(text: impl Into<String>) -> Self {
        let mut line = Self::default();
        line.push(&text.into(), Style::default());
        line
    }

    /// Adds characters of one style.
    pub fn push(&mut self, text: &str, style: Style) {
        match self.spans.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.style == style => last.text.push_str(text),
            _ => self.spans.push(Span { text: text.to_owned(), style }),
        }
    }

    /// Returns all characters.
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }

    /// Returns the characters that are not faint; faint ones become blanks, and those at the end go.
    ///
    /// A single reversed character right before faint text is a cursor drawn over its beginning and
    /// counts as faint.
    pub fn firm_text(&self) -> String {
        let mut firm = String::new();
        for (at, Span { text, style }) in self.spans.iter().enumerate() {
            let next_is_faint = || self.spans.get(at + 1).is_some_and(|next| next.style.is_faint());
            let is_cursor = style.reverse && text.chars().count() == 1 && next_is_faint();
            if style.is_faint() || style.hidden || is_cursor {
                firm.extend(text.chars().map(|_| ' '));
            } else {
                firm.push_str(text);
            }
        }
        firm.truncate(firm.trim_end().len());
        firm
    }
}

/// Reads rows that follow each other: a style goes on until it is changed.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    style: Style,
    drawing: bool,
}

impl Reader {
    pub(crate) fn line(&mut self, raw: &str) -> Line {
        let mut line = Line::default();
        let mut run = String::new();
        let mut rest = raw.chars();
        while let Some(char) = rest.next() {
            match char {
                '\x1b' => {
                    line.push(&std::mem::take(&mut run), self.style);
                    self.escape(&mut rest);
                }
                '\x0e' => self.drawing = true,
                '\x0f' => self.drawing = false,
                _ if self.drawing => run.push(drawn(char)),
                _ => run.push(char),
            }
        }
        line.push(&run, self.style);
        line
    }

    fn escape(&mut self, rest: &mut std::str::Chars<'_>) {
        match rest.next() {
            Some('[') => {
                let mut parameters = String::new();
                for char in rest.by_ref() {
                    match char {
                        'm' => return self.style.apply(&parameters),
                        '@'..='~' => return,
                        _ => parameters.push(char),
                    }
                }
            }
            // A link, for example, up to its terminator.
            Some(']') => {
                while let Some(char) = rest.next() {
                    match char {
                        '\x07' => return,
                        '\x1b' => {
                            rest.next();
                            return;
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

impl Style {
    fn apply(&mut self, parameters: &str) {
        let mut items = parameters.split(';');
        while let Some(item) = items.next() {
            let mut parts = item.split(':');
            let code = parts.next().unwrap_or_default();
            match code {
                "" | "0" => *self = Self::default(),
                "1" => self.bold = true,
                "2" => self.dim = true,
                "7" => self.reverse = true,
                "8" => self.hidden = true,
                "22" => (self.bold, self.dim) = (false, false),
                "27" => self.reverse = false,
                "28" => self.hidden = false,
                "39" => self.foreground = Color::Default,
                "38" | "48" | "58" => {
                    let color = if item.contains(':') {
                        let numbers: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
                        color(&mut numbers.into_iter())
                    } else {
                        color(&mut items)
                    };
                    if code == "38" {
                        self.foreground = color.unwrap_or_default();
                    }
                }
                _ => {
                    if let Ok(code @ (30..=37 | 90..=97)) = code.parse::<u8>() {
                        self.foreground = Color::Indexed(if code < 90 { code - 30 } else { code - 82 });
                    }
                }
            }
        }
    }
}

fn color<'a>(items: &mut impl Iterator<Item = &'a str>) -> Option<Color> {
    let mut number = || items.next()?.parse::<u8>().ok();
    match number()? {
        5 => Some(Color::Indexed(number()?)),
        2 => Some(Color::Rgb(number()?, number()?, number()?)),
        _ => None,
    }
}

/// The line-drawing set of old terminals, which tmux keeps apart from text.
fn drawn(char: char) -> char {
    const FROM_BACKQUOTE: &str = "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·";
    let at = u32::from(char).checked_sub(u32::from('`')).and_then(|at| usize::try_from(at).ok());
    at.and_then(|at| FROM_BACKQUOTE.chars().nth(at)).unwrap_or(char)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(raw: &str) -> Line {
        Reader::default().line(raw)
    }

    #[test]
    fn styles_are_read_and_do_not_show_in_the_text() {
        let line = read("> \x1b[7mT\x1b[0m\x1b[2mry a thing\x1b[0m\x1b[39m\x1b[49m !");
        assert_eq!(line.text(), "> Try a thing !");
        assert_eq!(line.firm_text(), ">             !");
        assert_eq!(read("> \x1b[7mT\x1b[0m\x1b[2mry").firm_text(), ">");
        assert_eq!(read("> dr\x1b[7ma\x1b[0mft").firm_text(), "> draft");
    }

    #[test]
    fn colours_of_all_forms_are_read() {
        let check =
            |raw: &str, color: Color| assert_eq!(read(raw).spans[0].style.foreground, color, "{raw:?}");
        check("\x1b[31mx", Color::Indexed(1));
        check("\x1b[90mx", Color::Indexed(8));
        check("\x1b[38;5;244mx", Color::Indexed(244));
        check("\x1b[1;38;2;108;112;134;48;5;1mx", Color::Rgb(108, 112, 134));
        check("\x1b[38:2::1:2:3mx", Color::Rgb(1, 2, 3));
        check("\x1b[38:5:9mx", Color::Indexed(9));
        check("\x1b[4:3m\x1b[58;5;3mx", Color::Default);
        check("\x1b[31;39mx", Color::Default);
    }

    #[test]
    fn middle_greys_are_faint_and_text_colours_are_not() {
        let faint = |raw: &str| read(raw).spans[0].style.is_faint();
        for grey in ["\x1b[2mx", "\x1b[90mx", "\x1b[38;5;244mx", "\x1b[38;2;108;112;134mx"] {
            assert!(faint(grey), "{grey:?}");
        }
        for firm in ["x", "\x1b[97mx", "\x1b[38;2;0;0;0mx", "\x1b[38;2;255;255;255mx", "\x1b[34mx"] {
            assert!(!faint(firm), "{firm:?}");
        }
    }

    #[test]
    fn a_style_goes_on_in_the_next_row() {
        let mut reader = Reader::default();
        assert!(!reader.line("a\x1b[2m").spans[0].style.dim);
        assert!(reader.line("b").spans[0].style.dim);
    }

    #[test]
    fn links_and_line_drawing_become_plain_characters() {
        let line = read("\x1b]8;id=1;https://example.org/\x1b\\link\x1b]8;;\x1b\\ \x0elqk\x0f lqk");
        assert_eq!(line.text(), "link ┌─┐ lqk");
    }

    proptest! {
        #[test]
        fn any_input_is_read(raw in "[\\x1b\\[\\];:0-9m\\\\ab\\x0e\\x0f]{0,40}") {
            let line = read(&raw);
            prop_assert!(!line.text().contains('\x1b'));
        }
    }
}
