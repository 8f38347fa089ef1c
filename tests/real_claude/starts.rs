//! How it starts, and what stands in the way.

use std::fs;

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
    ws.ok(["profile", "init", "api", "--auth-mode", "compatible_api"]);
    let profile = ws.path().join(".team/current/profiles/api.env");
    fs::write(&profile, format!("AUTH_MODE=compatible_api\nAPI_KEY={KEY}\nBASE_URL={}\n", team.stub.url()))
        .expect("writable");
    ws.write(
        ".team/current/agents/coder.md",
        "---\nname: coder\nrole: Worker\nprovider: claude\nauth_mode: compatible_api\nprofile: api\n---\n\nWork.\n",
    );
    ws.ok(["quick-start", "--headless"]);
    let sent = team.send("stub: say hello");
    team.wait_for_step(&sent, "answered");
    let request = team.stub.turns().pop().expect("it asked its model");
    assert_eq!(request.headers["x-api-key"], KEY);
    let processes: String = ws
        .processes()
        .iter()
        .map(|it| fs::read(format!("/proc/{}/cmdline", it.pid)).unwrap_or_default())
        .map(|it| String::from_utf8_lossy(&it).into_owned())
        .collect();
    assert!(processes.contains("--session-id") && !processes.contains(KEY), "{processes}");
    ws.ok(["shutdown"]);
    // Neither in the log, nor in anything that is left of the start.
    let mut told = Vec::new();
    for dir in [ws.path().to_owned(), ws.state_home(), ws.home(), ws.root().join("tmp")] {
        files_with(&dir, KEY, &mut told);
    }
    assert_eq!(told, [profile]);
    team.finish();
}

/// Lists the files below a directory that hold a text.
fn files_with(dir: &std::path::Path, text: &str, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_with(&path, text, found),
            Ok(kind) if kind.is_file() => {
                let bytes = fs::read(&path).unwrap_or_default();
                if String::from_utf8_lossy(&bytes).contains(text) {
                    found.push(path);
                }
            }
            _ => {}
        }
    }
}
