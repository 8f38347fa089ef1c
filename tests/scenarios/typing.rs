//! What reaches a program's input box: whole texts, byte by byte, each submitted once.

use std::time::Duration;

use serde_json::Value;
use team_scenarios::{Crew, SOON};

/// How an opened bracket of a paste looks on the wire.
const BRACKET: &[u8] = b"\x1b[200~";

/// Sends a text by standard input and waits until the turn that took it has ended.
fn deliver(crew: &Crew, to: &str, text: &str) {
    let arguments = ["send", to, "-", "--wait", "answered", "--timeout", "40"];
    let output = crew.ws.run_with_input(arguments, text);
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
}

/// What a received text says below its two head lines.
fn body(received: &str) -> &str {
    received.splitn(3, '\n').nth(2).unwrap_or_default()
}

/// Delivers a text to a new crew's agent and checks that exactly this arrived, once.
#[track_caller]
fn arrives_as(crew: &Crew, text: &str, expected: &str) {
    let before = crew.texts("w1").len();
    deliver(crew, "w1", text);
    let texts = crew.texts("w1");
    assert_eq!(texts.len(), before + 1, "{texts:?}");
    assert_eq!(body(&texts[before]), expected);
}

fn count(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).filter(|it| *it == part).count()
}

/// Nothing of a text was taken for a command, a shell line or a menu.
#[track_caller]
fn nothing_was_run(crew: &Crew) {
    let odd = ["command", "ran_shell", "completed", "unknown_key", "interrupted", "paste_discarded"];
    let events: Vec<Value> =
        crew.fake_events("w1").into_iter().filter(|it| odd.iter().any(|odd| it["event"] == *odd)).collect();
    assert!(events.is_empty(), "{events:?}");
}

// Case 001.
#[test]
fn three_lines_are_one_submission_though_an_enter_right_after_the_paste_is_eaten() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "eat-enter 150");
    arrives_as(&crew, "one\ntwo\nthree", "one\ntwo\nthree");
    crew.finish();
}

// Case 001.
#[test]
fn a_text_whose_enter_never_counts_is_unknown_and_no_key_goes_on_top_of_it() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "eat-enter 600000");
    let sent = crew.ws.json(["send", "w1", "one\ntwo", "--wait", "submitted", "--timeout", "20"]);
    assert_eq!(sent["receivers"][0]["receipt"]["step"], "unknown", "{sent}");
    let said = sent["receivers"][0]["receipt"]["reason"].as_str().unwrap_or_default();
    assert!(said.contains("composer"), "{sent}");
    assert_eq!(crew.texts("w1").len(), 0);
    // What stands in the box is not sent by the next message, and not joined with it.
    let bytes = crew.bytes("w1");
    let next = crew.ws.json(["send", "w1", "three", "--wait", "submitted", "--timeout", "1"]);
    assert_eq!(next["receivers"][0]["receipt"]["reason"], "dirty", "{next}");
    assert_eq!(crew.bytes("w1"), bytes);
    // A person empties the box; the next message goes, the lost one does not come back.
    crew.control("w1", "eat-enter 0\nescape\nescape");
    crew.wait_for_text("w1", "three");
    assert_eq!(crew.texts("w1").iter().map(|it| body(it)).collect::<Vec<_>>(), ["three"]);
    crew.finish();
}

// Cases 003, 005.
#[test]
fn a_long_line_is_submitted_though_its_first_enters_come_too_early() {
    let crew = Crew::started(&["w1"]);
    let line = "word ".repeat(820);
    crew.control("w1", "eat-enter 100");
    arrives_as(&crew, line.trim_end(), line.trim_end());
    crew.finish();
}

// Case 007.
#[test]
fn twenty_lines_start_one_turn() {
    let crew = Crew::started(&["w1"]);
    let lines: Vec<String> = (1..=20).map(|it| format!("line {it}")).collect();
    arrives_as(&crew, &lines.join("\n"), &lines.join("\n"));
    assert_eq!(crew.events_of("turn.started").len(), 1);
    crew.finish();
}

// Case 007, for a program that does not ask for brackets.
#[test]
fn lines_typed_without_brackets_start_one_turn() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "no-bracket");
    arrives_as(&crew, "one\ntwo\n\nthree", "one\ntwo\n\nthree");
    assert_eq!(count(&crew.bytes("w1"), BRACKET), 0);
    crew.finish();
}

// Case 010.
#[test]
fn a_turn_too_short_to_be_seen_busy_is_proved_by_records_and_typed_once() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "answer-after 0");
    for number in 1..=5 {
        arrives_as(&crew, &format!("number {number}"), &format!("number {number}"));
    }
    // An attempt that typed nothing may be followed by another.
    let (begun, nothing) =
        (crew.events_of("message.sending").len(), crew.events_of("message.not_sent").len());
    assert_eq!(begun - nothing, 5);
    let proofs: Vec<Value> =
        crew.events_of("turn.started").into_iter().map(|it| it["event"]["proof"]["source"].clone()).collect();
    assert!(proofs.iter().all(|it| it == "hook" || it == "transcript"), "{proofs:?}");
    crew.finish();
}

// Case 013.
#[test]
fn the_marks_of_a_paste_are_the_terminals_own_and_not_part_of_the_text() {
    let crew = Crew::started(&["w1"]);
    deliver(&crew, "w1", "plain\ntext");
    let bytes = crew.bytes("w1");
    assert_eq!(count(&bytes, BRACKET), 1);
    assert_eq!(count(&bytes, b"\x1b[201~"), 1);
    assert_eq!(count(&bytes, b"200~"), 1);
    assert!(!crew.texts("w1")[0].contains("200~"));
    crew.finish();
}

// Case 014.
#[test]
fn a_text_cannot_end_its_own_paste_and_go_on_as_keys() {
    let crew = Crew::started(&["w1", "w2"]);
    let hostile = "a\x1b[201~\rtouch pwned\r\u{9b}201~\rtouch pwned\r";
    deliver(&crew, "w1", hostile);
    // The same from an agent, by its tool.
    let line = serde_json::json!({ "to": "w1", "content": hostile });
    crew.ask("w2", &format!("fake: call send_message {line}"));
    crew.wait_for_text("w1", "from w2");
    crew.wait_for_activity("w1", "idle");
    let texts = crew.texts("w1");
    assert_eq!(texts.len(), 2, "{texts:?}");
    for text in &texts {
        assert!(!text.chars().any(|it| it.is_control() && it != '\n'), "{text:?}");
        assert!(text.contains("touch pwned"), "{text:?}");
    }
    assert_eq!(count(&crew.bytes("w1"), b"\x1b[201~"), 2);
    assert!(!crew.ws.path().join("pwned").exists());
    let accepted = crew.events_of("message.accepted");
    let cleaned: Vec<u64> =
        accepted.iter().filter_map(|it| it["event"]["body"]["cleaned"].as_u64()).collect();
    assert!(cleaned.iter().filter(|it| **it >= 3).count() >= 2, "{accepted:?}");
    crew.finish();
}

// Case 015.
#[test]
fn control_characters_of_a_text_are_no_keys() {
    let crew = Crew::started(&["w1"]);
    arrives_as(&crew, "x\u{3}\u{3}\u{4}\u{4}\u{15}\0\u{1b}\u{7f}\u{11}\u{1a}y", "xy");
    nothing_was_run(&crew);
    arrives_as(&crew, "still there", "still there");
    let nothing = crew.ws.run_with_input(["send", "w1", "-"], "\u{3}\u{1b}\0\n");
    assert_eq!(nothing.code, Some(2), "{}", nothing.snapshot());
    crew.finish();
}

// Case 017.
#[test]
fn semicolons_and_backslashes_at_an_end_arrive() {
    let crew = Crew::started(&["w1"]);
    arrives_as(&crew, "echo hi;", "echo hi;");
    arrives_as(&crew, r"find . -exec ls {} \;", r"find . -exec ls {} \;");
    arrives_as(&crew, ";", ";");
    arrives_as(
        &crew,
        "#{pane_id} $HOME `id` %1 ~ !! ^a \"b\" 'c'",
        "#{pane_id} $HOME `id` %1 ~ !! ^a \"b\" 'c'",
    );
    // A backslash in front of the Enter would make it a new line: a line of ours follows.
    deliver(&crew, "w1", r"C:\work\");
    let last = crew.texts("w1").pop().unwrap_or_default();
    assert!(body(&last).starts_with("C:\\work\\\n"), "{last:?}");
    assert_eq!(crew.texts("w1").len(), 5);
    crew.finish();
}

// Case 019.
#[test]
fn long_texts_are_pasted_whole_or_kept_in_a_file_that_is_named() {
    let crew = Crew::started(&["w1"]);
    let text = |bytes: usize| "0123456789abcde\n".repeat(bytes / 16).trim_end().to_owned();
    arrives_as(&crew, &text(17 * 1024), &text(17 * 1024));
    assert!(crew.events_of("message.sending")[0]["event"]["file"].is_null());
    for bytes in [200 * 1024, 1024 * 1024] {
        let before = crew.texts("w1").len();
        deliver(&crew, "w1", &text(bytes));
        let texts = crew.texts("w1");
        assert_eq!(texts.len(), before + 1);
        let sending = crew.events_of("message.sending").pop().expect("it was sent");
        let file = sending["event"]["file"].as_str().expect("a file holds it").to_owned();
        assert!(texts[before].contains(&file), "{}", texts[before]);
        let kept = std::fs::read_to_string(&file).expect("the file is there");
        assert_eq!(body(&kept), text(bytes));
        let id = sending["event"]["id"].as_str().unwrap_or_default().to_owned();
        assert!(crew.ws.ok(["explain", &id]).contains("file"), "explain names the file");
    }
    let refused = crew.ws.run_with_input(["send", "w1", "-"], &"x".repeat(1024 * 1024 + 1));
    assert_eq!(refused.code, Some(1), "{}", refused.snapshot());
    crew.finish();
}

// Case 023.
#[test]
fn texts_that_begin_like_commands_are_prose() {
    let crew = Crew::started(&["w1"]);
    let texts = [
        "/tmp/x is broken",
        "!ls",
        "# title",
        "@alice hi",
        "/exit",
        "&",
        "?",
        "see @w1",
        "-rf",
        "/clear\n/exit",
    ];
    for (number, text) in texts.iter().enumerate() {
        deliver(&crew, "w1", text);
        let received = crew.texts("w1");
        assert_eq!(received.len(), number + 1, "{received:?}");
        assert!(body(&received[number]).starts_with(text), "{received:?}");
    }
    nothing_was_run(&crew);
    crew.finish();
}

// Case 028.
#[test]
fn every_script_arrives_character_by_character() {
    let crew = Crew::started(&["w1"]);
    let text =
        "请检查 ① 👩‍👩‍👧 e\u{301} ﷽ \u{200b}|\u{2028}|\u{a0}| مرحبا ɐ\u{20dd} \u{1f3f4}\u{e0067}\u{e007f} ก็\tend";
    arrives_as(&crew, text, text);
    let accepted = crew.events_of("message.accepted").pop().expect("it was accepted");
    assert_eq!(accepted["event"]["body"]["chars"], text.chars().count(), "{accepted}");
    let transcripts = crew.fake_home("w1").join("projects");
    let found = walk(&transcripts).into_iter().any(|it| {
        let lines = std::fs::read_to_string(it).unwrap_or_default();
        lines
            .lines()
            .filter_map(|it| serde_json::from_str::<Value>(it).ok())
            .any(|it| it.to_string().contains("مرحبا"))
    });
    assert!(found, "the transcript holds it");
    crew.finish();
}

fn walk(dir: &std::path::Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let paths: Vec<_> = entries.filter_map(|it| Some(it.ok()?.path())).collect();
    paths.into_iter().flat_map(|it| if it.is_dir() { walk(&it) } else { vec![it] }).collect()
}

#[test]
fn messages_that_waited_together_come_in_one_block_oldest_first() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "busy 600");
    crew.wait_for_activity("w1", "working");
    let mut ids = Vec::new();
    for number in 1..=6 {
        let sent = crew.ws.json(["send", "w1", &format!("waiting {number}"), "--wait", "accepted"]);
        assert_eq!(sent["ok"], true, "{sent}");
        ids.push(sent["message_id"].as_str().unwrap_or_default().to_owned());
    }
    crew.ws.wait_until("all are held", || crew.status()["agents"]["w1"]["held"]["busy"] == 6, SOON);
    crew.control("w1", "idle");
    let text = crew.wait_for_text("w1", "waiting 6");
    let places: Vec<Option<usize>> = (1..=6).map(|it| text.find(&format!("waiting {it}"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    assert!(ids.iter().all(|it| text.contains(&format!("(id {it})"))), "{text}");
    assert_eq!(crew.texts("w1").iter().filter(|it| it.contains("waiting")).count(), 1);
    for id in &ids {
        crew.ws.wait_until(
            "it is answered",
            || crew.ws.json(["explain", id])["receipts"][0]["receipt"]["step"] == "answered",
            SOON,
        );
    }
    crew.finish();
}

#[test]
fn messages_to_one_receiver_keep_their_order_and_come_once_each() {
    let crew = Crew::started(&["w1", "w2"]);
    for number in 0..12 {
        let to = if number % 3 == 0 { "all" } else { "w1" };
        crew.ws.ok(["send", to, &format!("number {number:02}."), "--wait", "accepted"]);
    }
    crew.wait_for_text("w1", "number 11.");
    crew.wait_for_text("w2", "number 09.");
    let check = |agent: &str, expected: Vec<String>| {
        let all = crew.texts(agent).join("\n");
        let found: Vec<String> = all.split("number ").skip(1).map(|it| it[..3].to_owned()).collect();
        assert_eq!(found, expected, "{agent}");
    };
    check("w1", (0..12).map(|it| format!("{it:02}.")).collect());
    check("w2", (0..12).step_by(3).map(|it| format!("{it:02}.")).collect());
    crew.finish();
}

// Case 052.
#[test]
fn nobody_sends_to_themselves() {
    let crew = Crew::started(&["w1", "w2"]);
    let leader = crew.ws.run(["send", "leader", "hello"]);
    assert_eq!(leader.code, Some(1), "{}", leader.snapshot());
    let (said, code) = crew.shell("w1", "team-agent send w1 hello");
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("yourself"), "{said}");
    crew.ask("w1", "fake: send to=w1 text=hello");
    let refused = crew.fake_events("w1").into_iter().any(|it| {
        it["event"] == "called" && it["is_error"] == true && it["text"].to_string().contains("yourself")
    });
    // A tool call inside a turn is seen in the traffic, one beside it as an event.
    let traffic = crew.mcp("w1").iter().any(|it| it.to_string().contains("yourself"));
    assert!(refused || traffic, "the tool call was refused");
    // `all` of an agent is everybody else.
    crew.ask("w1", "fake: send to=all text=\"hello everybody\"");
    crew.wait_for_text("w2", "hello everybody");
    assert!(!crew.texts("w1").iter().any(|it| it.starts_with("[Team message from w1")));
    crew.finish();
}

#[test]
fn a_text_left_in_the_box_of_a_program_that_dies_is_not_typed_twice() {
    let crew = Crew::started(&["w1", "w2"]);
    crew.control("w1", "eat-enter 600000");
    let sent = crew.ws.json(["send", "w1", "never entered", "--wait", "accepted"]);
    let id = sent["message_id"].as_str().unwrap_or_default().to_owned();
    crew.ws.wait_until("the text is in the box", || count(&crew.bytes("w1"), b"never entered") == 1, SOON);
    crew.kill(crew.status()["agents"]["w1"]["session"]["pid"].as_i64().expect("it runs"));
    crew.ws.wait_until(
        "w1 is stopped",
        || crew.status()["agents"]["w1"]["session"]["state"] == "stopped",
        SOON,
    );
    crew.ws.wait_until("the attempt has an end", || crew.status()["messages"]["sending"].is_null(), SOON);
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["restart", "--headless"]);
    crew.ws.ok(["send", "w1", "after it", "--wait", "answered", "--timeout", "30"]);
    let copies = crew.texts("w1").iter().filter(|it| it.contains("never entered")).count();
    assert!(copies <= 1, "{:?}", crew.texts("w1"));
    let step = crew.ws.json(["explain", &id])["receipts"][0]["receipt"]["step"].clone();
    assert_eq!(step == "answered", copies == 1, "{step}: {:?}", crew.texts("w1"));
    crew.finish();
}

// Nothing in its place goes while the receipt is not there: no key, no second copy.
#[test]
fn a_message_with_a_late_receipt_is_typed_once() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "late-receipt 3000");
    let sent = crew.ws.json(["send", "w1", "slow to say so", "--wait", "turn_started", "--timeout", "30"]);
    assert_eq!(sent["reached"], true, "{sent}");
    let bytes = crew.bytes("w1");
    assert_eq!(count(&bytes, b"slow to say so"), 1);
    assert_eq!(count(&bytes, b"\r"), 1, "one Enter");
    assert_eq!(crew.texts("w1").len(), 1);
    crew.ws.wait_until("it is idle again", || crew.activity("w1") == "idle", SOON + Duration::from_secs(5));
    crew.finish();
}
