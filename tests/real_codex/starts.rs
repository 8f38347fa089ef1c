//! How it starts, and what stands in the way.

use std::fs;

use crate::support::{Team, files_with};

const KEY: &str = "sk-proj-invented-for-a-test-0123456789abcdefghij";

#[test]
fn a_folder_that_nobody_trusts_is_named_and_another_conversation_is_followed() {
    let Some(team) = Team::written(false) else { return };
    let started = team.crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(started.code, Some(1), "{}\n{}", started.snapshot(), team.screen());
    for part in ["`coder` is not ready", "folder_trust", "team-agent attach coder --type"] {
        assert!(started.stderr.contains(part), "`{part}`:\n{}", started.snapshot());
    }
    assert_eq!(team.coder()["activity"]["state"], "awaiting_trust");
    let waits = team.send("the word is heron");
    team.wait_for_step(&waits, "held");
    assert!(team.screen().contains("Trust and continue"), "{}", team.screen());

    // A person answers, and it goes on by itself.
    team.press(&["Enter"]);
    team.wait_for_step(&waits, "answered");
    assert_eq!(team.crew.status()["ready"], true);
    team.was_taken_once("the word is heron");

    // The person begins another conversation.
    team.wait_for("idle");
    let before = team.crew.native("coder");
    team.press(&["-l", "/new"]);
    team.wait_for_screen("/new");
    team.press(&["Enter"]);
    team.wait("another conversation is known", || team.crew.native("coder") != before);
    let next = team.send("the word is stork");
    team.wait_for_step(&next, "answered");
    let asked = team.asked("the word is stork").body.to_string();
    assert!(!asked.contains("heron") && asked.contains("Work."), "{asked}");
    let after = team.crew.native("coder");
    team.crew.ws.ok(["shutdown"]);
    team.crew.ws.ok(["restart", "--headless"]);
    assert_eq!(team.crew.native("coder"), after);
    let last = team.send("which word was it?");
    team.wait_for_step(&last, "answered");
    assert!(team.asked("which word was it?").body.to_string().contains("the word is stork"));
    team.finish();
}

#[test]
fn a_key_of_a_profile_is_seen_by_the_service_alone() {
    let Some(team) = Team::written(true) else { return };
    let ws = &team.crew.ws;
    ws.ok(["profile", "init", "api", "--auth-mode", "compatible_api"]);
    let profile = ws.path().join(".team/current/profiles/api.env");
    fs::write(
        &profile,
        format!("AUTH_MODE=compatible_api\nAPI_KEY={KEY}\nBASE_URL={}/v1\n", team.stub.url()),
    )
    .expect("writable");
    ws.write(
        ".team/current/agents/coder.md",
        "---\nname: coder\nrole: Worker\nprovider: codex\nmodel: stub-model\neffort: high\n\
         tools: [fs_read, execute_bash]\nauth_mode: compatible_api\nprofile: api\n---\n\nWork.\n",
    );
    ws.ok(["quick-start", "--headless"]);
    let sent = team.send("stub: bash env >shell-environment\nstub: say hello");
    team.wait_for_step(&sent, "answered");
    let request = team.asked("shell-environment");
    assert_eq!(request.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(request.body["reasoning"]["effort"], "high");
    let shell = fs::read_to_string(ws.path().join("shell-environment")).expect("it wrote its environment");
    assert!(shell.contains("CODEX_HOME=") && !shell.contains(KEY), "{shell}");
    let processes: String = ws
        .processes()
        .iter()
        .map(|it| fs::read(format!("/proc/{}/cmdline", it.pid)).unwrap_or_default())
        .map(|it| String::from_utf8_lossy(&it).into_owned())
        .collect();
    assert!(processes.contains("app-server") && !processes.contains(KEY), "{processes}");
    ws.ok(["shutdown"]);
    // Neither in the log, nor in anything that is left of the start; nothing in the person's home.
    let mut told = Vec::new();
    for dir in [ws.path().to_owned(), ws.state_home(), ws.home(), ws.root().join("tmp")] {
        files_with(&dir, KEY, &mut told);
    }
    assert_eq!(told, [profile]);
    assert!(!team.home.path().join(".codex/sessions").exists());
    team.finish();
}

#[test]
fn a_model_in_whose_place_another_one_is_offered_starts_without_a_question() {
    let Some(team) = Team::written(true) else { return };
    team.role("gpt-5.5");
    team.crew.start();
    assert_eq!(team.crew.status()["ready"], true);
    team.finish();
}

#[test]
fn the_persons_layer_for_workers_counts_where_the_role_says_nothing() {
    let Some(team) = Team::written(true) else { return };
    let home = team.home.path().join(".codex");
    let layer = "model = \"gpt-6-sol\"\nmodel_verbosity = \"high\"\nmodel_reasoning_effort = \"high\"\n\
                 sandbox_mode = \"read-only\"\n";
    fs::write(home.join("team-agent.config.toml"), layer).expect("writable");
    team.role("gpt-5.5");
    team.crew.start();
    let sent = team.send("the word is heron\nstub: bash touch made");
    team.wait_for_step(&sent, "answered");
    let asked = team.asked("the word is heron");
    assert_eq!(asked.model.as_deref(), Some("gpt-5.5"));
    assert_eq!(
        (&asked.body["text"]["verbosity"], &asked.body["reasoning"]["effort"]),
        (&"high".into(), &"high".into())
    );
    assert!(!team.crew.ws.path().join("made").exists());

    // The same in the old form stops no start.
    team.crew.ws.ok(["shutdown"]);
    let settings = fs::read_to_string(home.join("config.toml")).expect("it was written");
    let old = format!("{settings}\n[profiles.team-agent]\nmodel_reasoning_effort = \"high\"\n");
    fs::write(home.join("config.toml"), old).expect("writable");
    team.crew.ws.ok(["restart", "--headless"]);
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
