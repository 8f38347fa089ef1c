//! How it starts, and what stands in the way.

use crate::support::Team;

const KEY: &str = "sk-ant-api03-invented-for-a-test-0123456789abcdefghij";

#[test]
fn a_folder_that_nobody_trusts_is_named_and_nothing_is_pressed_until_a_person_answers() {
    let Some(team) = Team::written(false) else { return };
    let started = team.crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(started.code, Some(1), "{}", started.snapshot());
    for part in ["`coder` is not ready", "folder_trust", "team-agent attach coder --type"] {
        assert!(started.stderr.contains(part), "`{part}`:\n{}", started.snapshot());
    }
    assert_eq!(team.coder()["activity"]["state"], "awaiting_trust");
    assert!(team.screen().contains("Yes, I trust this folder"), "{}", team.screen());
    let waits = team.send("hello");
    team.wait_for_step(&waits, "held");
    team.no_keys_were_pressed();

    // A person answers, and it goes on by itself.
    team.press(&["Enter"]);
    team.wait_for_step(&waits, "answered");
    assert_eq!(team.crew.status()["ready"], true);
    team.no_keys_were_pressed();
    team.crew.ws.ok(["shutdown"]);
    let changes = team.home.theirs().changes_since(&team.before);
    assert_eq!(changes.len(), 1, "the person's own answer, nothing else: {changes:?}");
    team.end();
}

#[test]
fn a_key_of_a_profile_is_seen_by_the_service_alone() {
    let Some(mut team) = Team::written(true) else { return };
    // Started through a script of the person's, as version managers do.
    team.start_through("PROGRAM \"$@\"\nexit $?");
    let ws = &team.crew.ws;
    let profile = team.use_profile(KEY, &team.stub.url());
    ws.ok(["quick-start", "--headless"]);
    let sent = team.send("stub: say hello");
    team.wait_for_step(&sent, "answered");
    let request = team.stub.turns().pop().expect("it asked its model");
    assert_eq!(request.headers["x-api-key"], KEY);
    team.key_is_only_in(&profile, KEY);
    team.finish();
}

#[test]
fn a_folder_that_a_person_has_granted_is_no_question() {
    let Some(team) = Team::written(false) else { return };
    team.crew.ws.ok(["grant", "trust"]);
    let started = team.crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(started.code, Some(0), "{}\n{}", started.snapshot(), team.screen());
    assert_eq!(team.crew.events_of("dialog.pressing").len(), 0);
    let asked = team.send("stub: say it is here");
    team.wait_for_step(&asked, "answered");
    team.finish();
}
