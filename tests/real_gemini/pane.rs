//! What a person does in an agent's pane, and what goes wrong there.

use std::path::PathBuf;

use team_scenarios::Crew;

use crate::support::Team;

/// The open question of `coder`, as `approvals` shows it.
fn question(team: &Team) -> (String, String) {
    team.wait_for("awaiting_approval");
    let shown = team.crew.ws.json(["approvals", "coder"]);
    let part = |name: &str| shown["approvals"][0][name].as_str().unwrap_or_default().to_owned();
    (part("request_id"), part("command"))
}

/// How often a key was pressed: not where the screen changed under it.
fn pressed(crew: &Crew) -> usize {
    let told = crew.events_of("approval.pressing");
    let refused = told.iter().filter(|it| it["event"]["refused"] == true).count();
    told.len() - 2 * refused
}

#[test]
fn a_question_is_answered_by_command_and_what_waits_behind_it_comes_once() {
    let Some(team) = Team::started() else { return };
    let (ws, here) = (&team.crew.ws, |name: &str| team.crew.ws.path().join(name).exists());

    // Yes, to a command that goes on for a while.
    let asks = team.send("stub: bash touch allowed; sleep 3\nstub: say touched");
    let (request, command) = question(&team);
    assert_eq!(command, format!("team-agent approve coder {request} --allow"));
    let behind = team.send("stub: say behind the question");
    team.wait_for_step(&behind, "held");
    let said = ws.ok(["approve", "coder", &request, "--allow"]);
    assert!(said.contains("it was allowed by a person"), "{said}");
    team.wait_for_step(&asks, "answered");
    team.wait_for_step(&behind, "answered");
    assert!(here("allowed"));
    team.was_taken_once("stub: say behind the question");
    assert_eq!(pressed(&team.crew), 1);
    team.wait_for("idle");

    // A file: its choices are others.
    let script = r#"stub: call write_file {"file_path":"HERE/n.txt","content":"hello\nworld"}"#;
    let writes =
        team.send(&format!("{}\nstub: say written", script.replace("HERE", &ws.path().to_string_lossy())));
    let (request, _) = question(&team);
    let said = ws.ok(["approve", "coder", &request, "--allow"]);
    assert!(said.contains("it was allowed by a person"), "{said}");
    team.wait_for_step(&writes, "answered");
    assert!(here("n.txt"));
    team.wait_for("idle");

    // Somebody in the pane is faster.
    let asks = team.send("stub: bash touch by-hand\nstub: say touched");
    let (request, _) = question(&team);
    team.wait_for_screen("Allow execution of");
    team.press(&["1"]);
    team.wait_for_step(&asks, "answered");
    let late = ws.json(["approve", "coder", &request, "--deny"]);
    assert_eq!(late["error"]["code"], "closed", "{late}");
    assert!(here("by-hand"));
    assert_eq!(pressed(&team.crew), 2);
    team.wait_for("idle");

    // No, with words: they come as a message of their own.
    let asks = team.send("stub: bash touch denied\nstub: say touched");
    let (request, _) = question(&team);
    let said = ws.ok(["approve", "coder", &request, "--deny", "--message", "not this one"]);
    assert!(said.contains("it was denied by a person; your words go to it as message m-"), "{said}");
    team.wait_for_step(&asks, "answered");
    assert_eq!(team.receipt(&asks)["reason"], "its turn ended: interrupted");
    team.was_taken_once("was denied: not this one");
    assert!(!here("denied"));
    assert_eq!(pressed(&team.crew), 3);
    assert!(team.crew.events_of("approval.not_given").is_empty());
    team.finish();
}

#[test]
fn a_folder_that_nobody_trusts_is_named_and_what_a_person_does_in_the_pane_is_followed() {
    let Some(team) = Team::written(false) else { return };
    let started = team.crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(started.code, Some(1), "{}", started.snapshot());
    for part in ["`coder` is not ready", "folder_trust", "team-agent attach coder --type"] {
        assert!(started.stderr.contains(part), "`{part}`:\n{}", started.snapshot());
    }
    assert_eq!(team.coder()["activity"]["state"], "awaiting_trust");
    let waits = team.send("stub: say hello");
    team.wait_for_step(&waits, "held");
    team.no_keys_were_pressed();

    // A person answers, and it goes on by itself.
    team.press(&["1"]);
    team.wait_for_step(&waits, "answered");
    assert_eq!(team.crew.status()["ready"], true);

    // An interrupt, with and without a word said before it.
    for script in ["stub: say begun\nstub: think 60000", "stub: think 60001"] {
        let slow = team.send(script);
        team.wait_for_step(&slow, "turn_started");
        team.asked_at_all(script);
        team.press(&["Escape"]);
        team.wait_for_step(&slow, "answered");
        assert_eq!(team.receipt(&slow)["reason"], "its turn ended: interrupted");
        team.wait_for("idle");
        assert_eq!(team.coder()["activity"]["reason"], "the turn was interrupted");
    }

    // An error of the model's service.
    let failed = team.send("stub: error 400");
    team.wait_for_step(&failed, "answered");
    assert_eq!(team.receipt(&failed)["reason"], "its turn ended: error");
    assert_eq!(team.coder()["activity"]["reason"], "invalid_argument");

    // A question for permission: what is sent meanwhile waits.
    let asks = team.send("stub: bash touch x; sleep 8\nstub: say touched");
    team.wait_for("awaiting_approval");
    let behind = team.send("stub: say behind the question");
    team.wait_for_step(&behind, "held");
    assert_eq!(team.receipt(&behind)["reason"], "dialog");
    team.wait_for_screen("Allow execution of");
    assert!(!team.crew.ws.path().join("x").exists());
    team.press(&["1"]);
    // That it was answered is told by nothing while the command runs; the screen shows it.
    team.wait_for("working");
    assert_eq!(team.receipt(&asks)["step"], "turn_started");
    team.wait_for_step(&asks, "answered");
    team.wait_for_step(&behind, "answered");
    assert!(team.crew.ws.path().join("x").exists());
    team.wait_for("idle");
    team.was_taken_once("stub: say behind the question");

    team.crew.ws.ok(["shutdown"]);
    let own = team.crew.ws.home().join(".gemini/trustedFolders.json");
    assert_eq!(team.changes(), [own] as [PathBuf; 1], "the person's own answer, nothing else");
    team.end();
}

#[test]
fn a_draft_is_left_alone_a_killed_program_goes_on_and_a_limit_is_seen() {
    let Some(team) = Team::started() else { return };

    // A half-written draft stays, and the message waits for it.
    team.press(&["-l", "half a thought"]);
    team.wait_for_screen("half a thought");
    let beside = team.send("stub: say beside the draft");
    team.wait_for_step(&beside, "held");
    assert_eq!(team.receipt(&beside)["reason"], "draft");
    assert!(team.screen().contains("half a thought"), "{}", team.screen());
    team.press(&["C-c"]);
    team.wait_for_step(&beside, "answered");
    team.was_taken_once("stub: say beside the draft");
    team.wait_for("idle");

    // Killed in the middle of a turn, and resumed.
    let lost = team.send("the word is stork\nstub: think 7000");
    team.wait_for_step(&lost, "turn_started");
    team.asked_at_all("stub: think 7000");
    let native = team.crew.native("coder");
    let pid = team.coder()["session"]["pid"].as_i64().expect("it runs");
    team.crew.kill(pid);
    team.wait("its end is known", || team.coder()["session"]["state"] == "stopped");
    team.crew.ws.ok(["shutdown"]);
    team.crew.ws.ok(["restart", "--headless"]);
    assert_eq!(team.crew.native("coder"), native);
    let asked = team.send("stub: say and again");
    team.wait_for_step(&asked, "answered");
    assert!(team.asked("stub: say and again").body.to_string().contains("the word is stork"));

    // A limit is a dialog that nothing announces.
    let limited = team.send("stub: error 429");
    team.wait_for("limited");
    assert_eq!(team.coder()["activity"]["reason"], "usage_limit");
    let waits = team.send("stub: say later");
    team.wait_for_step(&waits, "held");
    assert_eq!(team.receipt(&waits)["reason"], "limited");
    team.press(&["2"]);
    team.wait_for_step(&limited, "answered");
    assert_eq!(team.coder()["activity"]["state"], "limited");

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
