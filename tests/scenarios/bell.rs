//! Agents that hear a bell: messages without keys, a conversation that a person replaces, a bell that is not heard.

use serde_json::Value;
use team_scenarios::{Crew, SOON};

/// A started team of agents that are handed their messages by hooks.
fn crew(agents: &[&str]) -> Crew {
    let mut crew = Crew::written(agents);
    crew.ws.set("FAKE_CHANNEL", "bell");
    crew.start();
    crew
}

/// Where a message stands.
fn receipt(crew: &Crew, id: &str) -> Value {
    let inbox = crew.ws.json(["inbox", "w1"]);
    let entries = inbox["messages"].as_array().cloned().unwrap_or_default();
    entries.into_iter().find(|it| it["message_id"] == id).unwrap_or_default()["receipt"].clone()
}

fn send(crew: &Crew, text: &str) -> String {
    let sent = crew.ws.json(["send", "w1", text, "--wait", "accepted", "--timeout", "0"]);
    sent["message_id"].as_str().expect("it was accepted").to_owned()
}

fn wait_for_step(crew: &Crew, id: &str, step: &str) {
    crew.ws.wait_until(&format!("{id} is {step}"), || receipt(crew, id)["step"] == step, SOON);
}

/// How many texts that hold `part` the program took.
fn taken(crew: &Crew, part: &str) -> usize {
    crew.texts("w1").iter().filter(|it| it.contains(part)).count()
}

#[test]
fn a_message_comes_without_a_key_to_an_idle_a_busy_and_an_asking_agent_and_leaves_a_draft() {
    let crew = crew(&["w1"]);
    crew.control("w1", "draft half a thought");
    let before = crew.bytes("w1").len();
    crew.ask("w1", "to the idle one");
    let busy = send(&crew, "fake: busy 2");
    crew.wait_for_activity("w1", "working");
    let beside = send(&crew, "to the busy one");
    wait_for_step(&crew, &beside, "answered");
    wait_for_step(&crew, &busy, "answered");
    crew.control("w1", "dialog perm");
    crew.wait_for_activity("w1", "awaiting_approval");
    let behind = send(&crew, "to the asking one");
    crew.wait_for_text("w1", "to the asking one");
    assert_ne!(receipt(&crew, &behind)["step"], "answered");
    assert_eq!(crew.activity("w1"), "awaiting_approval");
    crew.control("w1", "close-dialog");
    wait_for_step(&crew, &behind, "answered");
    for text in ["to the idle one", "to the busy one", "to the asking one"] {
        assert_eq!(taken(&crew, text), 1, "{text}");
    }
    assert_eq!(crew.bytes("w1").len(), before);
    let screen = crew.tmux(&["capture-pane", "-p", "-t", &crew.pane("w1")]);
    assert!(screen.contains("half a thought"), "{screen}");
    crew.finish();
}

#[test]
fn a_conversation_that_a_person_clears_is_followed_and_resumed() {
    let crew = crew(&["w1"]);
    crew.ask("w1", "the word is heron");
    let before = crew.native("w1");
    crew.control("w1", "draft /clear\nenter");
    crew.ws.wait_until("another conversation is known", || crew.native("w1") != before, SOON);
    let after = crew.native("w1");
    crew.ask("w1", "the word is stork");
    assert_eq!(crew.native("w1"), after);
    assert_eq!(crew.events_of("observation.foreign"), Vec::<Value>::new());
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["restart", "--headless"]);
    assert_eq!(crew.native("w1"), after);
    assert_eq!(crew.events_of("restart.fresh_spawn"), Vec::<Value>::new());
    crew.ask("w1", "fake: recall -1");
    let answer = crew.tmux(&["capture-pane", "-p", "-J", "-t", &crew.pane("w1")]);
    assert!(answer.contains("stork"), "{answer}");
    crew.finish();
}

#[test]
fn an_agent_started_inside_an_agent_changes_nothing() {
    let crew = crew(&["w1"]);
    let before = crew.native("w1");
    crew.control("w1", "second-session-start");
    crew.ws.wait_until("it was noted", || !crew.events_of("observation.foreign").is_empty(), SOON);
    assert_eq!(crew.native("w1"), before);
    crew.ask("w1", "still there");
    assert_eq!(crew.native("w1"), before);
    crew.finish();
}

#[test]
fn a_receipt_says_how_the_turn_ended_that_took_the_message() {
    let crew = crew(&["w1"]);
    crew.control("w1", "api-error server_error");
    let failed = send(&crew, "this one fails");
    wait_for_step(&crew, &failed, "answered");
    assert_eq!(receipt(&crew, &failed)["reason"], "its turn ended: error");
    assert_eq!(crew.status()["agents"]["w1"]["activity"]["reason"], "server_error");
    crew.control("w1", "api-error off");
    let stopped = send(&crew, "fake: say begun\nfake: busy 60");
    crew.wait_for_activity("w1", "working");
    wait_for_step(&crew, &stopped, "turn_started");
    crew.control("w1", "escape");
    wait_for_step(&crew, &stopped, "answered");
    assert_eq!(receipt(&crew, &stopped)["reason"], "its turn ended: interrupted");
    assert_eq!(crew.activity("w1"), "idle");
    let good = send(&crew, "this one does not");
    wait_for_step(&crew, &good, "answered");
    assert_eq!(receipt(&crew, &good)["reason"], Value::Null);
    crew.finish();
}

#[test]
fn a_bell_that_is_not_heard_gives_way_to_the_guarded_paste() {
    let crew = crew(&["w1"]);
    crew.control("w1", "hooks off");
    let id = send(&crew, "not by the bell");
    wait_for_step(&crew, &id, "submitted");
    let shown = receipt(&crew, &id);
    assert_eq!((&shown["channel"], &shown["attempts"]), (&"keys".into(), &2.into()), "{shown}");
    // Heard again, what was taken back is not handed out a second time.
    crew.control("w1", "hooks on");
    crew.ask("w1", "after it");
    assert_eq!(taken(&crew, "not by the bell"), 1);
    assert_eq!(taken(&crew, "after it"), 1);
    crew.finish();
}

// Case 076.
#[test]
fn at_a_limit_messages_wait_until_it_ends_or_somebody_works_again() {
    let crew = crew(&["w1"]);
    // With a time in it, and without.
    for words in ["1", "API Error: Request rejected (429)"] {
        crew.control("w1", &format!("limit {words}"));
        let failed = send(&crew, "this one is refused");
        wait_for_step(&crew, &failed, "answered");
        assert_eq!(receipt(&crew, &failed)["reason"], "its turn ended: error");
        crew.wait_for_activity("w1", "limited");
        let shown = crew.status()["agents"]["w1"]["activity"].clone();
        assert_eq!(shown["until"].is_string(), words == "1", "{shown}");
        assert!(
            shown["reason"].as_str().is_some_and(|it| it.contains("resets") || it.contains("429")),
            "{shown}"
        );
        crew.control("w1", "limit off");
        let waits = send(&crew, "not before the reset");
        wait_for_step(&crew, &waits, "held");
        assert_eq!(receipt(&crew, &waits)["reason"], "limited");
        assert_eq!(crew.activity("w1"), "limited");
        // A person who knows better says so by using it.
        crew.control("w1", "close-dialog\nsubmit hello again");
        wait_for_step(&crew, &waits, "answered");
    }
    assert_eq!(taken(&crew, "not before the reset"), 2);
    crew.finish();
}

#[test]
fn a_question_of_trust_ends_the_waiting_and_its_answer_the_start() {
    let mut crew = Crew::written(&["w1"]);
    crew.ws.set("FAKE_CHANNEL", "bell");
    crew.script("dialog trust");
    let started = crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(started.code, Some(1), "{}", started.snapshot());
    for part in ["`w1` is not ready: its program asks a person", "team-agent attach w1 --type"] {
        assert!(started.stderr.contains(part), "{}", started.snapshot());
    }
    assert_eq!(crew.activity("w1"), "awaiting_trust");
    let waits = send(&crew, "hello");
    wait_for_step(&crew, &waits, "held");
    assert_eq!(crew.bytes("w1"), Vec::<u8>::new());
    // The dialog stands before everything, so nothing says yet that the line was obeyed.
    let control = crew.control_file("w1");
    std::fs::create_dir_all(control.parent().expect("it has a directory")).expect("the home is writable");
    std::fs::write(control, "close-dialog\n").expect("the home is writable");
    wait_for_step(&crew, &waits, "answered");
    assert_eq!(crew.status()["ready"], true);
    crew.finish();
}
