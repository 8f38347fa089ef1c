//! Which texts may be typed, and as what.

use proptest::prelude::*;
use team_provider::{Framed, Screen, UnsafeText, provider};

fn frame(text: &str) -> Framed {
    provider("claude").expect("known").frame(text)
}

fn safe(text: &str) -> String {
    match frame(text) {
        Framed::Safe(text) => text,
        Framed::Unsafe(why) => panic!("{why:?}"),
    }
}

#[test]
fn prose_is_typed_as_it_stands() {
    for text in
        ["hello", "请检查 ① 👩‍👩‍👧 é (NFD) ﷽ \u{200b}", "a\n\n  b", "echo hi;", "ends in \\;", "see a/b", "50%"]
    {
        assert_eq!(safe(text), text, "{text}");
    }
}

#[test]
fn a_first_character_that_would_command_gets_a_line_before_it() {
    for text in ["/tmp/x is broken", "!ls", "# title", "@alice hi", "  two blanks", "?", "&x"] {
        assert_eq!(safe(text).strip_prefix("Message:\n"), Some(text), "{text}");
    }
    // Inside, the same characters are text.
    assert_eq!(safe("[m-1] from leader\n/tmp/x is broken"), "[m-1] from leader\n/tmp/x is broken");
}

#[test]
fn an_end_that_would_not_submit_or_would_be_lost_gets_a_line_after_it() {
    for text in [
        "C:\\",
        "read @README.md",
        "ask @lead",
        "mail me@example",
        "two\nlines and /help",
        "line\n",
        "a \n\n",
    ] {
        assert_eq!(safe(text).strip_suffix("\n(end of message)"), Some(text), "{text}");
    }
    assert_eq!(safe("@alice said so"), "Message:\n@alice said so");
}

#[test]
fn a_text_that_would_arrive_as_another_one_is_not_typed() {
    for text in ["a\u{1b}[201~\rtouch x\r", "\u{3}x", "x\u{7f}", "\u{9b}x", "a\r\nb", "a\tb"] {
        assert_eq!(frame(text), Framed::Unsafe(UnsafeText::Changed), "{text:?}");
    }
    let gemini = provider("gemini").expect("known");
    for text in ["zero\u{200b}width", "\u{feff}mark", "\u{202e}direction", "a\u{200f}b"] {
        assert_eq!(safe(text), text);
        assert_eq!(gemini.frame(text), Framed::Unsafe(UnsafeText::Changed), "{text:?}");
    }
    for text in ["@src/main.rs", "see @a", "x@y.z"] {
        assert_eq!(gemini.frame(text), Framed::Unsafe(UnsafeText::Changed), "{text:?}");
    }
    assert_eq!(gemini.frame("at @ noon, (@)"), Framed::Safe("at @ noon, (@)\n(end of message)".to_owned()));
    let joined = "👩\u{200d}👩\u{200d}👧 a\u{a0}b\u{2028}c";
    assert_eq!(gemini.frame(joined), Framed::Safe(joined.to_owned()));
}

#[test]
fn what_loses_its_end_in_a_program_is_laid_with_a_line_after_it() {
    let laid = |name: &str, text: &str| provider(name).expect("known").laid(text.to_owned());
    assert_eq!(laid("copilot", "a\n\n \n"), "a\n\n \n\n(end of message)");
    assert_eq!(laid("copilot", "a"), "a");
    for name in ["claude", "codex", "opencode"] {
        assert_eq!(laid(name, "a\n"), "a\n", "{name}");
    }
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
            let Framed::Safe(typed) = provider.frame(&text) else { continue };
            prop_assert!(typed.chars().all(|c| !c.is_control() || c == '\n' || (c == '\t' && name == "fake")));
            let first = typed.chars().next().expect("not empty");
            prop_assert!(!provider.typing().risky_first.contains(&first) && !first.is_whitespace());
            prop_assert!(!typed.ends_with(['\\', '\n', ' ']));
            let last = typed.rsplit(char::is_whitespace).next().expect("a word");
            prop_assert!(!last.contains('@'));
            prop_assert!(typed.contains(&text));
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
