//! Claude Code: reached by the bell in the person's own home, which is left as it was.

use std::fs;

use serde_json::{Value, json};
use team_scenarios::{Crew, SOON};

fn notes(crew: &Crew) -> Value {
    let text = fs::read_to_string(crew.ws.home().join(".claude.json")).unwrap_or_default();
    serde_json::from_str(&text).unwrap_or_default()
}

#[test]
fn a_folder_that_nobody_trusts_is_named_and_a_person_trusts_it_in_the_pane() {
    let crew = Crew::played("claude", &["w1"]);
    let begun = crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(begun.code, Some(1), "{}", begun.snapshot());
    assert!(begun.stderr.contains("folder_trust"), "{}", begun.snapshot());
    let waits = crew.send("w1", "after the question");
    crew.wait_for_step("w1", &waits, "held");
    crew.press("w1", &["1"]);
    crew.wait_for_step("w1", &waits, "answered");
    assert_eq!(crew.texts("w1").iter().filter(|it| it.contains("after the question")).count(), 1);
    let folder = crew.ws.path().to_string_lossy().into_owned();
    assert_eq!(notes(&crew)["projects"][&*folder]["hasTrustDialogAccepted"], json!(true));
    assert!(!crew.bytes("w1").windows(5).any(|it| it == b"after"), "it was not typed");
    crew.finish();
}

#[test]
fn a_program_inside_the_program_counts_for_nothing() {
    let crew = Crew::played("claude", &["w1"]);
    let folder = crew.ws.path().to_string_lossy().into_owned();
    let trusted = json!({ "projects": { folder: { "hasTrustDialogAccepted": true } } });
    fs::write(crew.ws.home().join(".claude.json"), trusted.to_string()).expect("a home is writable");
    crew.start();
    let native = crew.native("w1");
    let (said, code) = crew.shell("w1", "claude -p 'fake: say from the inside'");
    assert_eq!((said.trim(), code), ("from the inside", 0));
    crew.control("w1", "second-session-start");
    crew.ws.wait_until("it was noted", || !crew.events_of("observation.foreign").is_empty(), SOON);
    crew.ask("w1", "still there");
    assert_eq!(crew.native("w1"), native);
    assert_eq!(crew.events_of("turn.started").len(), 2, "{:?}", crew.events_of("turn.started"));
    crew.finish();
}
