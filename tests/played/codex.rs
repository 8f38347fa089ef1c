//! Codex: its server, its screen and our bridge between them.

use std::fs;

use serde_json::Value;
use team_scenarios::{Crew, SOON};
use team_testkit::process;

const A: &str = "w1";

fn started() -> Crew {
    let crew = Crew::played("codex", &[A]);
    crew.start();
    crew
}

/// Checks that the model was given a text once.
#[track_caller]
fn taken_once(crew: &Crew, text: &str) {
    let times = || crew.texts(A).iter().filter(|it| it.contains(text)).count();
    crew.ws.wait_until(&format!("`{text}` is taken"), || times() > 0, SOON);
    assert_eq!(times(), 1, "{text}");
}

#[track_caller]
fn wait_for_screen(crew: &Crew, text: &str) {
    let shown = process::wait_until(|| crew.screen(A).contains(text), SOON);
    assert!(shown, "`{text}`:\n{}", crew.screen(A));
}

/// The processes of the seat with a word among their arguments.
fn processes_with(crew: &Crew, word: &str) -> Vec<i64> {
    let has = |pid: i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|it| *it == 0).any(|it| it == word.as_bytes())
    };
    crew.ws.processes().iter().filter(|it| has(it.pid)).map(|it| i64::from(it.pid)).collect()
}

fn process_with(crew: &Crew, word: &str) -> i64 {
    processes_with(crew, word).first().copied().unwrap_or_else(|| panic!("no process with `{word}`"))
}

/// Runs the program itself, beside what runs in the seat.
fn codex(crew: &Crew, arguments: &[&str]) -> (Option<i32>, String) {
    let output = crew.ws.command("codex").args(arguments).output().expect("it is on the PATH");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Waits until the seat has ended.
fn wait_for_end(crew: &Crew) {
    let stopped = || crew.status()["agents"][A]["session"]["state"] == "stopped";
    crew.ws.wait_until("its end is known", stopped, SOON);
}

// Case 004.
#[test]
fn a_message_is_submitted_once_without_a_key_where_enter_would_be_eaten() {
    let mut crew = Crew::played("codex", &[A]);
    crew.script("eat-enter 120");
    crew.start();
    crew.ask(A, "one\n\ntwo");
    let texts = crew.texts(A);
    assert_eq!(texts.len(), 1, "{texts:?}");
    assert!(texts[0].ends_with("one\n\ntwo"), "{texts:?}");
    assert_eq!(crew.bytes(A), b"");

    // A person whose keys come in one go: Enter is a line end, the draft stays, a message comes beside it.
    crew.press(A, &["typed at once", "Enter"]);
    let eaten = || crew.fake_events(A).iter().any(|it| it["event"] == "enter_eaten");
    crew.ws.wait_until("the Enter is eaten", eaten, SOON);
    crew.ask(A, "beside the draft");
    wait_for_screen(&crew, "› typed at once");
    assert_eq!(crew.texts(A).len(), 2);
    let sent = || {
        crew.press(A, &["Enter"]);
        crew.texts(A).len() > 2
    };
    crew.ws.wait_until("the draft is sent", sent, SOON);
    taken_once(&crew, "typed at once");
    assert_eq!(crew.texts(A).last().map(String::as_str), Some("typed at once"));
    crew.finish();
}

// Case 062.
#[test]
fn that_the_program_has_accepted_a_text_is_no_receipt_until_its_turn_is_seen() {
    let crew = started();
    crew.ask(A, "the word is heron");

    // The reply to our request comes at once, the message is in no record yet.
    crew.control(A, "late-receipt 4000");
    let sent = crew.ws.run(["send", A, "a late one", "--wait", "submitted", "--timeout", "1"]);
    assert_eq!(sent.code, Some(4), "{}", sent.snapshot());
    let accepted = crew.events_of("message.accepted").pop().expect("it was accepted");
    let id = accepted["event"]["id"].as_str().expect("it has an id");
    assert_eq!(crew.receipt(A, id)["step"], "sending");
    taken_once(&crew, "a late one");
    crew.control(A, "late-receipt 0");
    crew.wait_for_activity(A, "idle");

    // A text of somebody else's in the program's own queue, with nobody to read it: it says that all is well.
    let native = crew.native(A);
    let queue = |text: &str| codex(&crew, &["queue", "--thread", &native, "--message", text]);
    crew.ws.ok(["shutdown"]);
    let (code, said) = queue("from the queue");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with("Queued message"), "{said}");
    assert!(!crew.texts(A).iter().any(|it| it.contains("from the queue")));

    // It comes when the conversation goes on; ours comes as well, and each once.
    crew.ws.ok(["restart", "--headless"]);
    crew.ask(A, "beside the queue");
    taken_once(&crew, "from the queue");
    taken_once(&crew, "beside the queue");
    assert_eq!(codex(&crew, &["queue", "--thread", "nobody", "--message", "x"]).0, Some(1));
    crew.finish();
}

#[test]
fn a_killed_server_or_bridge_comes_again_and_a_killed_screen_ends_the_seat() {
    let crew = started();
    crew.ask(A, "the word is heron");
    crew.wait_for_activity(A, "idle");
    let native = crew.native(A);

    // The bridge, while a turn runs.
    let slow = crew.send(A, "fake: think 1000\nfake: say that was slow");
    crew.wait_for_step(A, &slow, "turn_started");
    let bridge = process_with(&crew, "bridge");
    crew.kill(bridge);
    let another = || processes_with(&crew, "bridge").iter().any(|it| *it != bridge);
    crew.ws.wait_until("another bridge runs", another, SOON);
    let behind = crew.send(A, "behind the bridge");
    crew.wait_for_step(A, &slow, "answered");
    crew.wait_for_step(A, &behind, "answered");

    // The server, while a turn runs.
    let lost = crew.send(A, "fake: think 60000\nfake: say never");
    crew.wait_for_step(A, &lost, "turn_started");
    let server = process_with(&crew, "app-server");
    let held = crew.send(A, "behind the server");
    crew.wait_for_step(A, &held, "held");
    crew.kill(server);
    crew.wait_for_step(A, &lost, "answered");
    assert_eq!(crew.receipt(A, &lost)["reason"], "its turn ended: error");
    crew.wait_for_step(A, &held, "answered");
    wait_for_screen(&crew, "behind the server");
    for text in ["the word is heron", "that was slow", "behind the bridge", "say never", "behind the server"]
    {
        taken_once(&crew, text);
    }
    assert_ne!(process_with(&crew, "app-server"), server);
    assert_eq!(crew.native(A), native);
    assert_eq!(crew.events_of("session.replaced"), Vec::<Value>::new());
    // Its tools work as before.
    crew.ws.json(["send", "--watch-result", A, "fake: report summary=again"]);
    crew.ws.ok(["wait", "--task", "1", "--timeout", "20"]);

    // The screen: the seat ends with everything in it, and goes on after a restart.
    crew.wait_for_activity(A, "idle");
    let pid = crew.status()["agents"][A]["session"]["pid"].as_i64().expect("it runs");
    crew.kill(pid);
    wait_for_end(&crew);
    assert_eq!((processes_with(&crew, "app-server"), processes_with(&crew, "bridge")), (vec![], vec![]));
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["restart", "--headless"]);
    crew.ask(A, "fake: recall 1");
    assert_eq!(crew.native(A), native);
    wait_for_screen(&crew, "the word is heron");
    crew.finish();
}

#[test]
fn a_server_that_ends_before_the_first_turn_ends_the_seat_and_a_restart_delivers() {
    let crew = started();
    crew.kill(process_with(&crew, "app-server"));
    wait_for_end(&crew);
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["restart", "--headless"]);
    crew.ask(A, "hello");
    taken_once(&crew, "hello");
    crew.finish();
}

#[test]
fn tools_that_are_killed_are_missed_and_a_screen_that_leaves_ends_the_seat() {
    let crew = started();
    crew.control(A, "mcp off");
    crew.ws.wait_until("their end is known", || !crew.events_of("tools.lost").is_empty(), SOON);
    crew.ask(A, "fake: report summary=unheard");
    assert!(crew.events_of("mcp.report_result").is_empty());
    crew.control(A, "mcp on");
    crew.ws.json(["send", "--watch-result", A, "fake: report summary=heard"]);
    crew.ws.ok(["wait", "--task", "1", "--timeout", "20"]);

    crew.send(A, "fake: exit 3");
    wait_for_end(&crew);
    let status = crew.status();
    assert_eq!(status["attention"][0]["what"], "w1: its program ended with code 3", "{status}");
    crew.finish();
}

#[test]
fn a_program_inside_the_program_counts_for_nothing() {
    let crew = started();
    let native = crew.native(A);
    let (said, code) = crew.shell(A, "codex exec 'fake: say from the inside'");
    assert_eq!((said.trim(), code), ("from the inside", 0));
    crew.ask(A, "still there");
    assert_eq!(crew.native(A), native);
    assert_eq!(crew.events_of("turn.started").len(), 2, "{:?}", crew.events_of("turn.started"));
    crew.finish();
}

#[test]
fn a_question_is_answered_by_whoever_is_first_and_the_others_are_told() {
    let crew = started();
    let out = crew.ws.root().join("outside");
    fs::create_dir(&out).expect("writable");
    let ask = |name: &str| {
        let command = format!("touch {}", out.join(name).display());
        let input = serde_json::json!({ "command": command });
        let asked = crew.send(A, &format!("fake: ask-permission Bash {input}\nfake: shell {command}"));
        crew.wait_for_activity(A, "awaiting_approval");
        wait_for_screen(&crew, "Would you like to run the following command?");
        asked
    };
    // In its pane; what comes meanwhile waits and answers nothing.
    let asked = ask("a");
    let waits = crew.send(A, "behind the question");
    crew.press(A, &["-l", "x"]);
    assert!(!out.join("a").exists());
    crew.press(A, &["y"]);
    crew.wait_for_step(A, &asked, "answered");
    crew.wait_for_step(A, &waits, "answered");
    assert!(out.join("a").exists());

    // From outside: the dialog goes.
    for (name, answer) in [("b", "--allow"), ("c", "--deny")] {
        let asked = ask(name);
        let open = crew.ws.json(["approvals", A]);
        let request = open["approvals"][0]["request_id"].as_str().expect("it is open").to_owned();
        crew.ws.ok(["approve", A, &request, answer]);
        crew.wait_for_step(A, &asked, "answered");
        crew.ws.wait_until("the dialog is gone", || !crew.screen(A).contains("Would you like"), SOON);
        assert_eq!(out.join(name).exists(), answer == "--allow");
    }

    // A no in its pane stops the turn.
    let asked = ask("d");
    crew.press(A, &["Escape"]);
    crew.wait_for_step(A, &asked, "answered");
    assert_eq!(crew.receipt(A, &asked)["reason"], "its turn ended: interrupted");
    assert!(!out.join("d").exists());
    assert_eq!(crew.events_of("approval.requested").len(), 4);
    assert_eq!(crew.events_of("approval.closed").len(), 4);
    crew.finish();
}

#[test]
fn interrupts_errors_limits_and_a_shorter_history_are_told() {
    let crew = started();
    crew.ask(A, "first");
    let slow = crew.send(A, "fake: busy 60");
    crew.wait_for_step(A, &slow, "turn_started");
    let behind = crew.send(A, "behind the interrupt");
    wait_for_screen(&crew, "esc to interrupt");
    crew.press(A, &["Escape"]);
    crew.wait_for_step(A, &slow, "answered");
    assert_eq!(crew.receipt(A, &slow)["reason"], "its turn ended: interrupted");
    crew.wait_for_step(A, &behind, "answered");

    crew.control(A, "api-error");
    let failed = crew.send(A, "to an error");
    crew.wait_for_step(A, &failed, "answered");
    assert_eq!(crew.receipt(A, &failed)["reason"], "its turn ended: error");
    crew.control(A, "api-error off\nlimit 6");
    let spent = crew.send(A, "to a limit");
    crew.wait_for_activity(A, "limited");
    crew.control(A, "limit off");
    let held = crew.send(A, "after the limit");
    crew.wait_for_step(A, &held, "held");
    assert_eq!(crew.receipt(A, &held)["reason"], "limited");
    assert_eq!(crew.receipt(A, &spent)["reason"], "its turn ended: error");
    // The offer of another model, which Enter would take, was answered beforehand.
    assert!(!crew.screen(A).contains("Approaching rate limits"));
    crew.wait_for_step(A, &held, "answered");

    crew.control(A, "compact");
    crew.ws.wait_until("it is told", || !crew.events_of("session.compacted").is_empty(), SOON);
    crew.wait_for_activity(A, "idle");
    crew.ask(A, "after all that");
    for text in
        ["first", "behind the interrupt", "to an error", "to a limit", "after the limit", "after all that"]
    {
        taken_once(&crew, text);
    }
    crew.finish();
}

#[test]
fn a_folder_that_nobody_trusts_is_named_and_another_conversation_is_followed() {
    let crew = Crew::played("codex", &[A]);
    fs::create_dir(crew.ws.path().join(".git")).expect("writable");
    let started = crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(started.code, Some(1), "{}", started.snapshot());
    assert!(started.stderr.contains("folder_trust"), "{}", started.snapshot());
    crew.wait_for_activity(A, "awaiting_trust");
    let waits = crew.send(A, "the word is heron");
    crew.press(A, &["Enter"]);
    crew.wait_for_step(A, &waits, "answered");

    let before = crew.native(A);
    crew.press(A, &["/new"]);
    let another = || {
        // Too soon after the keys it is a line end, which is cut off.
        crew.press(A, &["Enter"]);
        crew.native(A) != before
    };
    crew.ws.wait_until("another conversation is known", another, SOON);
    crew.ask(A, "the word is stork");
    let after = crew.native(A);
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["restart", "--headless"]);
    assert_eq!(crew.native(A), after);
    crew.ask(A, "fake: recall 1");
    wait_for_screen(&crew, "• [Team message from leader to w1:]");
    assert!(crew.screen(A).contains("the word is stork"));
    crew.finish();
}
