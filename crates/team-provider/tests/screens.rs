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
            // A key says yes or no to a permission question, and yes to a folder that was granted; nothing else.
            let by_key = (rule.allow.is_some(), rule.deny.is_some());
            let may_be = match rule.kind {
                DialogKind::Permission => by_key.0 == by_key.1,
                DialogKind::Trust => !by_key.1,
                _ => by_key == (false, false),
            };
            assert!(may_be, "no key answers {name}: {}", rule.name);
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

/// Reads the question of a saved screen.
fn question(name: &str, title: &str, change: impl Fn(&str) -> String) -> Option<team_provider::Question> {
    let (_, text) = saved(name).into_iter().find(|it| it.0 == title).expect("saved");
    provider(name).expect("known").read_question(&Screen::from_ansi(&change(&text)))
}

#[test]
fn a_question_is_read_with_the_keys_that_answer_it_and_what_it_is_about() {
    use team_provider::AnswerKey::{Digit, Escape};
    let same = str::to_owned;
    let gemini = question("gemini", "permission-shell", same).expect("a question");
    assert_eq!((gemini.allow, gemini.deny), (Digit(1), Digit(3)));
    assert_eq!(gemini.boxed.as_deref(), Some("touch x1; sleep 3"));
    assert_eq!(
        gemini.rows,
        [
            "3. No, suggest changes (esc)",
            "2. Allow for this session",
            "1. Allow once",
            "Allow execution of [Shell]?",
            "touch x1; sleep 3",
            "? Shell  touch x1; sleep 3"
        ]
    );
    let copilot = question("copilot", "permission-shell", same).expect("a question");
    assert_eq!((copilot.allow, copilot.deny, copilot.boxed.as_deref()), (Digit(1), Escape, Some("touch x9")));
    let fake = question("fake", "dialog-perm", same).expect("a question");
    assert_eq!((fake.allow, fake.deny, &fake.boxed), (Digit(1), Digit(3), &None));

    let about = |name: &str, shown, tool: &str, input: &str| {
        provider(name).expect("known").is_about(shown, tool, input)
    };
    assert!(about("gemini", &gemini, "run_shell_command", r#"{"command":"touch x1; sleep 3"}"#));
    assert!(about("copilot", &copilot, "bash", r#"{"command":"touch x9"}"#));
    assert!(about("fake", &fake, "Bash", r#"{"command":"touch made-by-fake"}"#));
    // A part of it, more than it, something else, or what was cut is another question.
    for other in [
        "touch x1; sleep",
        "touch x1; sleep 33",
        "touch x2; sleep 3",
        "",
        "sleep 3",
        "touch x1;sleep 3",
        "touch x1; sleep 3 ─",
    ] {
        let input = serde_json::json!({ "command": other }).to_string();
        assert!(!about("gemini", &gemini, "run_shell_command", &input), "{other}");
        assert!(!about("copilot", &copilot, "bash", &input), "{other}");
        assert!(!about("fake", &fake, "Bash", &input), "{other}");
    }
    assert!(!about("gemini", &gemini, "run_shell_command", r#"{"command":"touch x1; sl"#));
    assert!(!about("gemini", &gemini, "edit", r#"{"fileName":"y","fileDiff":""}"#));
}

#[test]
fn what_is_not_exactly_an_open_question_is_answered_by_no_key() {
    for name in ["claude", "codex", "copilot", "fake", "gemini", "opencode"] {
        for (title, text) in saved(name) {
            let is_question = matches!(
                (name, title.as_str()),
                ("gemini" | "copilot", "permission-shell") | ("fake", "dialog-perm")
            );
            let read = provider(name).expect("known").read_question(&Screen::from_ansi(&text));
            assert_eq!(read.is_some(), is_question, "{name} {title}");
        }
    }
    let changes: [(&str, &str, &str); 8] = [
        ("gemini", "● ", "  "),
        ("gemini", "1.", "2."),
        ("gemini", "2.", "3."),
        ("gemini", "Allow once", "Allow always"),
        ("gemini", "Allow for this session", "Allow once"),
        ("gemini", "╭", " "),
        ("copilot", "❯ ", "  "),
        ("copilot", "3. ", "4. "),
    ];
    for (name, from, to) in changes {
        // Colours stand between a mark and its text.
        let change = |text: &str| {
            let plain: Vec<String> = Screen::from_ansi(text).lines;
            plain.join("\n").replace(from, to)
        };
        assert_eq!(question(name, "permission-shell", change), None, "{name} with `{to}` for `{from}`");
    }
    // More below it: a box, another dialog, a shell.
    for below in ["> hello", "● 1. Allow once", "me@host:~$"] {
        let more = |text: &str| format!("{text}\n{below}\n");
        assert_eq!(question("gemini", "permission-shell", more), None, "{below}");
    }
    // Words of a question that the model said stand above a real one and change nothing.
    let said =
        |text: &str| format!("╭──╮\n│ ● 1. Allow once │\n│   2. No, suggest changes (esc) │\n╰──╯\n{text}");
    let read = question("gemini", "permission-shell", said).expect("a question");
    assert_eq!(read.boxed.as_deref(), Some("touch x1; sleep 3"));
}

#[test]
fn a_change_to_a_file_is_known_by_its_name_and_what_is_added() {
    use team_provider::AnswerKey::{Digit, Escape};
    let gemini = "> write it
╭──────────────────────────╮
│ ? WriteFile  Writing to n.txt │
│ ╭──────────────────────╮ │
│ │ 1 hello              │ │
│ │ 2 world              │ │
│ ╰──────────────────────╯ │
│ Apply this change?       │
│                          │
│ ● 1. Allow once          │
│   2. Allow for this session │
│   3. Modify with external editor │
│   4. No, suggest changes (esc) │
╰──────────────────────────╯
";
    let provider_of = |name: &str| provider(name).expect("known");
    let read = |name: &str, text: &str| provider_of(name).read_question(&Screen::from_ansi(text));
    let shown = read("gemini", gemini).expect("a question");
    assert_eq!((shown.allow, shown.deny), (Digit(1), Digit(4)));
    let about = |file: &str, added: &str| {
        let diff = format!("Index: x\n--- n.txt\n+++ n.txt\n@@ -0,0 +1,2 @@\n+hello\n+{added}\n");
        let input = serde_json::json!({ "fileName": file, "fileDiff": diff }).to_string();
        provider_of("gemini").is_about(&shown, "edit", &input)
    };
    assert!(about("n.txt", "world"));
    // What does not stand there may be hidden, or it is another change.
    assert!(!about("n.txt", "worlds") && !about("m.txt", "world"));

    let copilot = "❯ write it
╭──────────────────────────╮
│ Create file              │
│ ──────────────────────── │
│ n.txt +2 -0              │
│ /w                       │
│                          │
│ 1 +   hello              │
│                          │
│ Do you want to create /w/n.txt? │
│                          │
│ ❯ 1. Yes                 │
│   2. Yes, and don't ask again for file operations when in this directory │
│      (/w)                │
│   3. No, and tell Copilot what to do differently (Esc to stop) │
│                          │
│ ↑/↓ to navigate · enter to select · esc to cancel │
╰──────────────────────────╯
";
    let shown = read("copilot", copilot).expect("a question");
    assert_eq!((shown.allow, shown.deny), (Digit(1), Escape));
    let about = |path: &str| {
        let input = serde_json::json!({ "path": path }).to_string();
        provider_of("copilot").is_about(&shown, "edit", &input)
    };
    assert!(about("/w/n.txt") && !about("/w/n.tx") && !about("/w/n.txt2") && !about("n.txt") && !about(""));
    // Somebody writes what is to be done instead.
    let writing = copilot.replace("No, and tell Copilot what to do differently", "use b");
    assert_eq!(read("copilot", &writing), None);
}

#[test]
fn a_question_for_a_path_opens_at_its_second_choice() {
    let screen = "❯ touch it
╭──────────────────────────╮
│ Allow path access        │
│ ──────────────────────── │
│ This action may read or write the following path outside the paths currently allowed. │
│                          │
│ ╭──────────────────────╮ │
│ │ /tmp/x               │ │
│ ╰──────────────────────╯ │
│                          │
│ Do you want to allow this? │
│                          │
│   1. Yes                 │
│ ❯ 2. Yes, and remember this path for this session │
│   3. No (Esc)            │
│                          │
│ ↑/↓ to navigate · enter to select · esc to cancel │
╰──────────────────────────╯
";
    let copilot = provider("copilot").expect("known");
    let shown = copilot.read_question(&Screen::from_ansi(screen)).expect("a question");
    assert_eq!(shown.allow, team_provider::AnswerKey::Digit(1));
    assert!(copilot.is_about(&shown, "path", r#"{"path":"/tmp/x"}"#));
    assert!(!copilot.is_about(&shown, "path", r#"{"path":"/tmp/xy"}"#));
    let moved = screen.replace("❯ 2.", "  2.").replace("  1. Yes ", "❯ 1. Yes ");
    assert_eq!(copilot.read_question(&Screen::from_ansi(&moved)), None);
}
