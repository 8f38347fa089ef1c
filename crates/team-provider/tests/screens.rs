//! Saved screens and what they are read as.

use std::fmt::Write as _;
use std::path::Path;

use team_provider::{Composer, DialogKind, Mark, Provider, Screen, provider};

fn claude() -> &'static dyn Provider {
    provider("claude").expect("known")
}

/// Reads every saved screen of a provider; `␛` stands for the escape character.
fn saved(name: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens").join(name);
    let mut screens: Vec<(String, String)> = std::fs::read_dir(folder)
        .expect("folder")
        .map(|entry| {
            let path = entry.expect("entry").path();
            let text = std::fs::read_to_string(&path).expect("screen").replace('␛', "\u{1b}");
            (path.file_stem().expect("stem").to_string_lossy().into_owned(), text)
        })
        .collect();
    screens.sort();
    screens
}

fn table(name: &str, read: impl Fn(&str) -> Screen) -> String {
    let mut out = String::new();
    for (title, text) in saved(name) {
        let reading = provider(name).expect("known").read_screen(&read(&text));
        let dialog = reading.dialog.map(|it| format!(" {} ({:?})", it.name, it.kind)).unwrap_or_default();
        let composer = match reading.composer {
            Composer::Holds(text) => format!("Holds({:?})", text.chars().take(40).collect::<String>()),
            other => format!("{other:?}"),
        };
        writeln!(out, "{title}: {composer}{dialog}").expect("write");
    }
    out
}

#[test]
fn saved_screens_of_claude_are_read_as_they_are() {
    insta::assert_snapshot!(table("claude", Screen::from_ansi));
}

#[test]
fn without_attributes_a_hint_is_not_taken_for_an_empty_box() {
    let plain = |text: &str| Screen { marks: None, ..Screen::from_ansi(text) };
    insta::assert_snapshot!(table("claude", plain));
}

#[test]
fn saved_screens_of_the_fake_are_read_as_they_are() {
    insta::assert_snapshot!(table("fake", Screen::from_ansi));
}

#[test]
fn saved_screens_of_codex_name_their_dialogs_and_offer_no_box() {
    insta::assert_snapshot!(table("codex", Screen::from_ansi));
}

#[test]
fn saved_screens_of_gemini_are_read_as_they_are() {
    insta::assert_snapshot!(table("gemini", Screen::from_ansi));
}

#[test]
fn saved_screens_of_copilot_are_read_as_they_are() {
    insta::assert_snapshot!(table("copilot", Screen::from_ansi));
}

#[test]
fn without_attributes_no_box_of_gemini_is_empty() {
    for (title, text) in saved("gemini") {
        let plain = Screen { marks: None, ..Screen::from_ansi(&text) };
        assert_ne!(
            provider("gemini").expect("known").read_screen(&plain).composer,
            Composer::Empty,
            "{title}"
        );
    }
}

#[test]
fn saved_screens_of_opencode_name_their_dialogs_and_offer_no_box() {
    insta::assert_snapshot!(table("opencode", Screen::from_ansi));
}

#[test]
fn a_cut_or_changed_screen_is_never_read_as_an_empty_box() {
    // Only screens whose box is empty may be read so, whatever is lost from their top.
    for (title, text) in saved("claude") {
        let whole = claude().read_screen(&Screen::from_ansi(&text));
        let lines: Vec<&str> = text.lines().collect();
        for skip in 1..lines.len() {
            let part = claude().read_screen(&Screen::from_ansi(&lines[skip..].join("\n")));
            if part.composer == Composer::Empty {
                assert_eq!(whole.composer, Composer::Empty, "{title} without its first {skip} lines");
            }
        }
        // Lost from its bottom, a box without its lower rule is no box.
        for keep in 1..lines.len() {
            let part = claude().read_screen(&Screen::from_ansi(&lines[..keep].join("\n")));
            if part.composer == Composer::Empty {
                assert_eq!(whole.composer, Composer::Empty, "{title} with only its first {keep} lines");
            }
        }
        // Another frame is another layout.
        let reframed = claude().read_screen(&Screen::from_ansi(&text.replace('─', "━")));
        assert!(
            !matches!(reframed.composer, Composer::Empty | Composer::Holds(_)),
            "{title} in another frame: {reframed:?}"
        );
        let remarked = claude().read_screen(&Screen::from_ansi(&text.replace('❯', "➤")));
        assert_ne!(remarked.composer, Composer::Empty, "{title} with another mark");
    }
}

#[test]
fn a_permission_question_is_named_wherever_it_stands() {
    for (title, text) in saved("claude").iter().filter(|(title, _)| title.starts_with("permission")) {
        // A small pane shows only the end.
        let lines: Vec<&str> = text.lines().collect();
        let end = lines[lines.len().saturating_sub(9)..].join("\n");
        for part in [text.as_str(), &end] {
            let reading = claude().read_screen(&Screen::from_ansi(part));
            let dialog = reading.dialog.unwrap_or_else(|| panic!("{title}"));
            assert_eq!(
                (dialog.kind, reading.composer),
                (DialogKind::Permission, Composer::Absent),
                "{title}"
            );
        }
    }
}

#[test]
fn words_of_a_dialog_in_the_conversation_open_none() {
    let (_, idle) = saved("claude").into_iter().find(|(title, _)| title == "start").expect("saved");
    let said = format!("● Yes, I trust this folder\n  No, exit\n❯ 1. Yes\n Esc to cancel\n{idle}");
    let reading = claude().read_screen(&Screen::from_ansi(&said));
    assert_eq!((reading.composer, reading.dialog), (Composer::Empty, None));
}

#[test]
fn a_screen_with_nothing_on_it_has_no_box() {
    for screen in [Screen::default(), Screen::plain("\n\n  \n"), Screen::from_ansi("")] {
        assert_eq!(claude().read_screen(&screen).composer, Composer::Absent);
    }
}

#[test]
fn a_shell_prompt_is_not_a_box() {
    for text in ["me@host:~$ ", "❯ ", "❯", "$ claude\nbash: claude: command not found\n❯ "] {
        let reading = claude().read_screen(&Screen::from_ansi(text));
        assert_eq!((reading.composer, reading.dialog), (Composer::Unknown, None), "{text}");
    }
}

#[test]
fn every_dialog_that_may_come_at_the_start_says_what_to_do() {
    for name in ["claude", "copilot", "fake", "gemini"] {
        let dialogs = provider(name).expect("known").dialogs();
        assert!(dialogs.iter().any(|it| it.at_start && it.kind == DialogKind::Trust), "{name}");
        for rule in dialogs {
            assert!(!rule.all.is_empty() && rule.next.is_some(), "{name}: {}", rule.name);
            assert_eq!(rule.allow_key.is_some(), rule.deny_key.is_some(), "{name}: {}", rule.name);
            // An Enter would submit a draft if the dialog had gone.
            assert_ne!(rule.allow_key.as_deref(), Some("Enter"), "{name}: {}", rule.name);
        }
    }
}

#[test]
fn a_screen_can_be_built_from_pieces() {
    let rule = "─".repeat(20);
    let (plain, dim) = (Mark::default(), Mark { dim: true, reverse: false });
    let build = |text: &str, mark: Mark| {
        let mut screen = Screen::default();
        screen.push_line([(rule.as_str(), plain)]);
        screen.push_line([("❯ ", plain), (text, mark), ("   ", plain)]);
        screen.push_line([(rule.as_str(), plain)]);
        claude().read_screen(&screen).composer
    };
    assert_eq!(build("Try this", dim), Composer::Empty);
    assert_eq!(build("do this", plain), Composer::Holds("do this".to_owned()));
    assert_eq!(build("", plain), Composer::Empty);
}
