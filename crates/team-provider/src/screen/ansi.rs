//! Reads a terminal capture that carries escape sequences.
//!
//! Knows the few attributes that matter; everything else is skipped.

use super::{Mark, Screen};

/// Splits a capture into lines and attributes.
pub(super) fn read(capture: &str) -> Screen {
    let mut lines = Vec::new();
    let mut marks = Vec::new();
    // Attributes carry over from line to line in a capture.
    let mut now = Mark::default();
    for raw in capture.split('\n') {
        let (text, drawn) = read_line(raw.trim_end_matches('\r'), &mut now);
        lines.push(text);
        marks.push(drawn);
    }
    if capture.ends_with('\n') || capture.is_empty() {
        lines.pop();
        marks.pop();
    }
    Screen { lines, marks: Some(marks), cursor: None }
}

/// Reads one line; a reversed blank at its end stays, because it may be a cursor.
fn read_line(raw: &str, now: &mut Mark) -> (String, Vec<Mark>) {
    let mut text = String::new();
    let mut drawn: Vec<Mark> = Vec::new();
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_sequence(&mut chars, now),
            '\u{e}' | '\u{f}' => {}
            _ => {
                text.push(c);
                drawn.push(*now);
            }
        }
    }
    let keep = text.trim_end().len();
    text.truncate(keep);
    (text, drawn)
}

/// Skips one escape sequence, and takes over what it says about attributes.
fn skip_sequence(chars: &mut std::str::Chars<'_>, now: &mut Mark) {
    match chars.next() {
        Some('[') => {
            let mut parameters = String::new();
            for c in chars.by_ref() {
                if ('\u{40}'..='\u{7e}').contains(&c) {
                    if c == 'm' {
                        select(&parameters, now);
                    }
                    return;
                }
                parameters.push(c);
            }
        }
        // Operating system commands, such as links, run to BEL or ESC \.
        Some(']') => {
            while let Some(c) = chars.next() {
                if c == '\u{7}' {
                    return;
                }
                if c == '\u{1b}' {
                    chars.next();
                    return;
                }
            }
        }
        Some('(' | ')' | '*' | '+') => {
            chars.next();
        }
        _ => {}
    }
}

/// Applies the parameters of a "select graphic rendition" sequence.
fn select(parameters: &str, now: &mut Mark) {
    let mut words = parameters.split(';');
    while let Some(word) = words.next() {
        // A colour in one parameter (`38:5:246`) says nothing here.
        match word {
            "" | "0" | "00" => *now = Mark::default(),
            "2" | "02" => now.dim = true,
            "22" => now.dim = false,
            "7" | "07" => now.reverse = true,
            "27" => now.reverse = false,
            // A colour in several: their numbers are not attributes.
            "38" | "48" | "58" => match words.next() {
                Some("5") => {
                    words.next();
                }
                Some("2") => {
                    words.nth(2);
                }
                _ => {}
            },
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faint_and_reversed_characters_are_told_from_colours() {
        let screen = read("\u{1b}[38;5;2ma\u{1b}[2mb\u{1b}[0;7mc\u{1b}[27md\u{1b}[48;2;7;7;2me\u{1b}[m\n");
        assert_eq!(screen.lines, ["abcde"]);
        let drawn = &screen.marks.expect("marks")[0];
        assert_eq!(drawn.iter().map(|it| it.dim).collect::<Vec<_>>(), [false, true, false, false, false]);
        assert_eq!(drawn.iter().map(|it| it.reverse).collect::<Vec<_>>(), [false, false, true, false, false]);
    }

    #[test]
    fn links_and_unfinished_sequences_leave_no_text() {
        assert_eq!(read("\u{1b}]8;;x\u{1b}\\a\u{1b}]8;;\u{7}b\u{1b}[3").lines, ["ab"]);
        assert_eq!(read("").lines, Vec::<String>::new());
        assert_eq!(read("a\n\nb\n").lines, ["a", "", "b"]);
    }
}
