//! OpenCode: a bridge to the server of its program, questions that are answered there and in the pane.

use std::fs;

use team_scenarios::{Crew, SOON};

fn started() -> Crew {
    let crew = Crew::played("opencode", &["w1"]);
    crew.start();
    crew
}

fn send(crew: &Crew, text: &str) -> String {
    crew.send("w1", text)
}

/// Waits until a message is answered; returns how its turn has ended, where that was not by an answer.
fn end_of(crew: &Crew, id: &str) -> String {
    crew.wait_for_step("w1", id, "answered")
}

/// How often a text reached the agent.
fn times(crew: &Crew, text: &str) -> usize {
    crew.texts("w1").iter().map(|it| it.matches(text).count()).sum()
}

/// Waits until the pane shows a text.
fn shows(crew: &Crew, text: &str) {
    crew.ws.wait_until(&format!("the screen shows `{text}`"), || crew.screen("w1").contains(text), SOON);
}

/// The process of the seat with that word in its command line.
fn process(crew: &Crew, word: &str) -> Option<i64> {
    let holds = |pid: i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|it| *it == 0).any(|it| it == word.as_bytes())
    };
    crew.ws.processes().iter().find(|it| holds(it.pid)).map(|it| i64::from(it.pid))
}

fn signal(crew: &Crew, signal: &str, pid: i64) {
    assert!(pid > 1, "{pid} is no process of ours");
    crew.ws
        .command("kill")
        .args([format!("-{signal}"), pid.to_string()])
        .output()
        .expect("there is a `kill`");
}

/// Makes the program deaf and waits until the bridge has sent it this; returns the message and the program.
fn sent_to_the_deaf(crew: &Crew, text: &str) -> (String, i64) {
    let program = process(crew, "--port").expect("it runs");
    signal(crew, "STOP", program);
    let id = send(crew, text);
    let taken = crew.ws.state_directory().expect("it runs").join("seats/current/w1/inbox/taken");
    let is_open = |it: fs::DirEntry| it.path().extension().is_some_and(|it| it == "open");
    let handed = || fs::read_dir(&taken).into_iter().flatten().flatten().any(is_open);
    crew.ws.wait_until("it is handed over", handed, SOON);
    (id, program)
}

/// The question that `approvals` shows.
fn question(crew: &Crew) -> String {
    let mut id = None;
    let look = || {
        let shown = crew.ws.json(["approvals", "w1"]);
        id = shown["approvals"][0]["request_id"].as_str().map(str::to_owned);
        id.is_some()
    };
    crew.ws.wait_until("it asks", look, SOON);
    id.unwrap_or_default()
}

#[test]
fn a_bridge_that_dies_with_a_message_in_its_hands_neither_loses_nor_doubles_it() {
    let crew = started();
    let bridge = process(&crew, "bridge").expect("it runs");
    let (id, program) = sent_to_the_deaf(&crew, "words in its hands");
    signal(&crew, "KILL", bridge);
    crew.ws.wait_until(
        "another bridge runs",
        || process(&crew, "bridge").is_some_and(|it| it != bridge),
        SOON,
    );
    signal(&crew, "CONT", program);
    crew.wait_for_step("w1", &id, "answered");
    // In the middle of a turn.
    let slow = send(&crew, "fake: think 1500\nfake: say slow");
    crew.wait_for_step("w1", &slow, "turn_started");
    signal(&crew, "KILL", process(&crew, "bridge").expect("it runs"));
    let behind = send(&crew, "words behind it");
    assert_eq!(end_of(&crew, &slow), "");
    crew.wait_for_step("w1", &behind, "answered");
    for text in ["words in its hands", "think 1500", "words behind it"] {
        assert_eq!(times(&crew, text), 1, "{text}");
    }
    crew.finish();
}

#[test]
fn a_program_that_dies_with_a_message_in_its_hands_goes_on_and_the_receipt_is_honest() {
    let crew = started();
    let known = send(&crew, "the word is heron");
    crew.wait_for_step("w1", &known, "answered");
    let native = crew.native("w1");
    let (id, program) = sent_to_the_deaf(&crew, "words in its hands");
    signal(&crew, "KILL", program);
    crew.ws.wait_until(
        "its end is known",
        || crew.status()["agents"]["w1"]["session"]["state"] == "stopped",
        SOON,
    );
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["restart", "--headless"]);
    assert_eq!(crew.native("w1"), native);
    let recalled = send(&crew, "fake: recall 1\nwhich word was it?");
    crew.wait_for_step("w1", &recalled, "answered");
    shows(&crew, "the word is heron");
    let step = crew.receipt("w1", &id)["step"].clone();
    assert_eq!((times(&crew, "words in its hands"), step), (0, "unknown".into()));
    crew.finish();
}

#[test]
fn a_question_is_answered_by_the_command_and_in_the_pane() {
    let crew = started();
    let ask = |file: &str| {
        let sent = send(&crew, &format!("fake: ask-permission\nfake: shell env >{file}"));
        let question = question(&crew);
        shows(&crew, "△ Permission required");
        (sent, question)
    };
    let exists = |file: &str| crew.ws.path().join(file).exists();
    let (sent, question) = ask("by-command");
    let waits = send(&crew, "words that wait");
    crew.ws.ok(["approve", "w1", &question, "--allow"]);
    assert_eq!(end_of(&crew, &sent), "");
    crew.wait_for_step("w1", &waits, "answered");
    assert!(!crew.screen("w1").contains("Permission required"));
    // The model's shell has nothing by which it could answer for a person.
    let env = fs::read_to_string(crew.ws.path().join("by-command")).expect("it was allowed");
    assert!(env.contains("OPENCODE=1\n") && !env.contains("OPENCODE_SERVER_PASSWORD"), "{env}");

    let (sent, question) = ask("by-words");
    crew.ws.ok(["approve", "w1", &question, "--deny", "--message", "use another one"]);
    assert_eq!(end_of(&crew, &sent), "");
    // The model is told, and goes on.
    shows(&crew, "use another one");

    let (sent, _) = ask("by-key");
    crew.press("w1", &["Enter"]);
    assert_eq!(end_of(&crew, &sent), "");
    assert!(exists("by-key"));

    let (sent, question) = ask("never");
    crew.press("w1", &["Escape"]);
    crew.wait_for_step("w1", &sent, "answered");
    assert!(!exists("never"));
    let late = crew.ws.json(["approve", "w1", &question, "--allow"]);
    assert_eq!(late["error"]["code"], "closed", "{late}");
    assert_eq!(times(&crew, "words that wait"), 1);
    assert_eq!(crew.events_of("approval.closed").len(), 4);
    crew.finish();
}

#[test]
fn interrupts_errors_limits_and_a_shortened_history_are_told() {
    let crew = started();
    let slow = send(&crew, "fake: think 60000");
    crew.wait_for_step("w1", &slow, "turn_started");
    crew.press("w1", &["Escape"]);
    crew.press("w1", &["Escape"]);
    assert_eq!(end_of(&crew, &slow), "its turn ended: interrupted");

    crew.control("w1", "api-error overloaded");
    let failed = send(&crew, "words of no use");
    assert_eq!(end_of(&crew, &failed), "its turn ended: error");
    crew.control("w1", "api-error off\nlimit");
    let spent = send(&crew, "words at the limit");
    crew.ws.wait_until("it is limited", || crew.activity("w1") == "limited", SOON);
    let held = send(&crew, "words behind the limit");
    crew.wait_for_step("w1", &held, "held");
    assert_eq!(crew.receipt("w1", &held)["reason"], "limited");
    crew.control("w1", "limit off");
    assert_eq!(end_of(&crew, &spent), "");
    crew.wait_for_step("w1", &held, "answered");

    crew.control("w1", "compact");
    crew.ws.wait_until("it is told", || !crew.events_of("session.compacted").is_empty(), SOON);
    crew.ws.wait_until("it is idle", || crew.activity("w1") == "idle", SOON);
    assert_eq!(times(&crew, "words behind the limit"), 1);
    crew.finish();
}
