//! Which texts may be typed, and as what.

use proptest::prelude::*;
use team_provider::{Framed, Screen, UnsafeText, provider};

fn frame(text: &str) -> Framed {
    provider("claude").expect("known").frame(text)
}

fn safe(text: &str) -> (String, bool) {
    match frame(text) {
        Framed::Safe { text, changed } => (text, changed),
        Framed::Unsafe(why) => panic!("{why:?}"),
    }
}

#[test]
fn prose_is_typed_as_it_stands() {
    for text in
        ["hello", "请检查 ① 👩‍👩‍👧 é (NFD) ﷽ \u{200b}", "a\n\n  b", "echo hi;", "ends in \\;", "see a/b", "50%"]
    {
        assert_eq!(safe(text), (text.to_owned(), false), "{text}");
    }
}

#[test]
fn a_first_character_that_would_command_gets_a_line_before_it() {
    for text in ["/tmp/x is broken", "!ls", "# title", "@alice hi", "  two blanks", "?", "&x"] {
        let (typed, changed) = safe(text);
        assert_eq!((typed.strip_prefix("Message:\n"), changed), (Some(text), false), "{text}");
    }
    // Inside, the same characters are text.
    assert_eq!(safe("[m-1] from leader\n/tmp/x is broken\n").0, "[m-1] from leader\n/tmp/x is broken");
}

#[test]
fn an_end_that_would_not_submit_gets_a_line_after_it() {
    for text in ["C:\\", "read @README.md", "ask @lead", "mail me@example", "two\nlines and /help"] {
        let (typed, _) = safe(text);
        assert_eq!(typed.strip_suffix("\n(end of message)"), Some(text), "{text}");
    }
    assert_eq!(safe("@alice said so").0, "Message:\n@alice said so");
}

#[test]
fn control_characters_are_shown_and_never_act() {
    assert_eq!(safe("a\u{1b}[201~\rtouch x\r"), ("a␛[201~\ntouch x".to_owned(), true));
    assert_eq!(safe("\u{3}\u{4}\u{15}\0x\u{7f}\u{9b}"), ("␃␄␕␀x␡\u{fffd}".to_owned(), true));
    assert_eq!(safe("a\r\nb"), ("a\nb".to_owned(), true));
    assert_eq!(safe("a\tb"), ("a    b".to_owned(), true));
}

#[test]
fn what_must_not_be_typed_says_why() {
    for text in ["", "  \n \n", "\n"] {
        assert_eq!(frame(text), Framed::Unsafe(UnsafeText::Empty), "{text:?}");
    }
    let long = "x".repeat(100_001);
    assert_eq!(frame(&long), Framed::Unsafe(UnsafeText::TooLong { bytes: 100_001, max: 100_000 }));
}

proptest! {
    #[test]
    fn a_typed_text_neither_acts_nor_commands(text in prop_oneof![
        "\\PC{0,60}",
        "[\\x00-\\x7f]{0,60}",
        "[/!#@?& \\\\a\n\r\t\u{1b}\u{85}]{0,30}",
    ]) {
        for name in ["claude", "fake"] {
            let provider = provider(name).expect("known");
            let Framed::Safe { text: typed, changed } = provider.frame(&text) else { continue };
            prop_assert!(typed.chars().all(|c| !c.is_control() || c == '\n' || (c == '\t' && name == "fake")));
            let first = typed.chars().next().expect("not empty");
            prop_assert!(!provider.typing().risky_first.contains(&first) && !first.is_whitespace());
            prop_assert!(!typed.ends_with(['\\', '\n', ' ']));
            let last = typed.rsplit(char::is_whitespace).next().expect("a word");
            prop_assert!(!last.contains('@'));
            if !changed {
                prop_assert!(typed.contains(text.trim_end_matches('\n')));
            }
        }
    }

    #[test]
    fn no_screen_makes_the_reader_fail_and_none_without_rules_is_empty(
        text in "(─{0,24}|❯ ?|!|[ -~]|\u{1b}\\[[0-9;]{0,6}m|\n|\u{a0}|é){0,60}",
    ) {
        for name in ["claude", "fake"] {
            let provider = provider(name).expect("known");
            for screen in [Screen::from_ansi(&text), Screen::plain(&text)] {
                let reading = provider.read_screen(&screen);
                let rules = screen.lines.iter().filter(|line| line.starts_with("──────────")).count();
                if rules < 2 {
                    prop_assert!(!matches!(reading.composer, team_provider::Composer::Empty));
                }
            }
        }
    }
}
