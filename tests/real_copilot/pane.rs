//! What a person does in an agent's pane, and what goes wrong there.

use crate::support::Team;

/// The open question of `coder`, as `approvals` shows it.
fn question(team: &Team) -> (String, String) {
    team.wait_for("awaiting_approval");
    let shown = team.crew.ws.json(["approvals", "coder"]);
    let part = |name: &str| shown["approvals"][0][name].as_str().unwrap_or_default().to_owned();
    (part("request_id"), part("command"))
}

#[test]
fn a_question_is_answered_by_command_and_what_waits_behind_it_comes_once() {
    let Some(team) = Team::started() else { return };
    let (ws, here) = (&team.crew.ws, |name: &str| team.crew.ws.path().join(name).exists());
    let pressed = || {
        // Not where the screen changed under the key.
        let told = team.crew.events_of("approval.pressing");
        told.len() - 2 * told.iter().filter(|it| it["event"]["refused"] == true).count()
    };

    let asks = team.send("stub: bash touch allowed; touch too\nstub: say touched");
    let (request, command) = question(&team);
    assert_eq!(command, format!("team-agent approve coder {request} --allow"));
    let shown = ws.json(["approvals", "coder"]);
    assert_eq!(shown["approvals"][0]["tool"], "bash", "{shown}");
    assert_eq!(shown["approvals"][0]["input"], r#"{"command":"touch allowed; touch too"}"#, "{shown}");
    let behind = team.send("stub: say behind the question");
    team.wait_for_step(&behind, "submitted");
    let said = ws.ok(["approve", "coder", &request, "--allow"]);
    assert!(said.trim_end().ends_with("it was allowed by a person"), "{said}");
    team.wait_for_step(&asks, "answered");
    team.wait_for_step(&behind, "answered");
    assert!(here("allowed") && here("too"));
    team.was_taken_once("stub: say behind the question");
    team.wait_for("idle");

    // Somebody in the pane is faster.
    let asks = team.send("stub: bash touch by-hand\nstub: say touched");
    let (request, _) = question(&team);
    team.wait_for_screen("1. Yes");
    team.press(&["1"]);
    team.wait_for_step(&asks, "answered");
    let late = ws.json(["approve", "coder", &request, "--deny"]);
    assert_eq!(late["error"]["code"], "closed", "{late}");
    assert!(here("by-hand"));
    assert_eq!(pressed(), 1);
    team.wait_for("idle");

    // No, with words: they come as a message of their own, and so does what waited.
    let asks = team.send("stub: bash touch denied\nstub: say touched");
    let (request, _) = question(&team);
    let behind = team.send("stub: say behind the no");
    team.wait_for_step(&behind, "submitted");
    let said = ws.ok(["approve", "coder", &request, "--deny", "--message", "not this one"]);
    assert!(said.contains("it was denied by a person; your words go to it as message m-"), "{said}");
    team.wait_for_step(&asks, "answered");
    team.wait_for_step(&behind, "answered");
    team.was_taken_once("stub: say behind the no");
    team.was_taken_once("was denied: not this one");
    assert!(!here("denied"));
    assert_eq!(pressed(), 2);
    team.wait_for("idle");

    // A file.
    let script = r#"stub: call create {"path":"HERE/n.txt","file_text":"hello\nworld"}"#;
    let writes =
        team.send(&format!("{}\nstub: say written", script.replace("HERE", &ws.path().to_string_lossy())));
    let (request, _) = question(&team);
    ws.ok(["approve", "coder", &request, "--allow"]);
    team.wait_for_step(&writes, "answered");
    assert!(here("n.txt"));
    assert!(team.crew.events_of("approval.not_given").is_empty());
    team.finish();
}

#[test]
fn a_folder_that_nobody_trusts_is_named_and_nothing_is_lost_in_the_pane() {
    let Some(team) = Team::written(false) else { return };
    let started = team.crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(started.code, Some(1), "{}", started.snapshot());
    for part in ["`coder` is not ready", "folder_trust", "team-agent attach coder --type"] {
        assert!(started.stderr.contains(part), "`{part}`:\n{}", started.snapshot());
    }
    assert_eq!(team.coder()["activity"]["state"], "awaiting_trust");
    let waits = team.send("stub: say hello");
    team.wait_for_step(&waits, "held");

    // A person answers, and it goes on by itself.
    team.press(&["Enter"]);
    team.wait_for_step(&waits, "answered");
    assert_eq!(team.crew.status()["ready"], true);

    // An interrupt, with and without a word said before it; what waits in the program's queue is not lost with it.
    for script in ["stub: say begun\nstub: think 60000", "stub: think 60001"] {
        let slow = team.send(script);
        team.wait_for_step(&slow, "turn_started");
        team.asked_at_all(script);
        let queued = team.send(&format!("stub: say behind {}", script.len()));
        team.wait_for_step(&queued, "submitted");
        team.press(&["C-c"]);
        team.wait_for_step(&slow, "answered");
        assert_eq!(team.receipt(&slow)["reason"], "its turn ended: interrupted");
        team.wait_for_step(&queued, "answered");
        team.was_taken_once(&format!("stub: say behind {}", script.len()));
        team.wait_for("idle");
    }

    // An error of the model's service.
    let failed = team.send("stub: error 400");
    team.wait_for_step(&failed, "answered");
    assert_eq!(team.receipt(&failed)["reason"], "its turn ended: error");
    team.wait_for("idle");

    // A question for permission: what is sent meanwhile waits behind it.
    let asks = team.send("stub: bash touch x\nstub: say touched");
    team.wait_for("awaiting_approval");
    let behind = team.send("stub: say behind the question");
    team.wait_for_step(&behind, "submitted");
    assert_eq!(team.coder()["activity"]["state"], "awaiting_approval");
    team.wait_for_screen("1. Yes");
    assert!(!team.crew.ws.path().join("x").exists());
    team.press(&["1"]);
    team.wait_for_step(&asks, "answered");
    team.wait_for_step(&behind, "answered");
    assert!(team.crew.ws.path().join("x").exists());
    team.was_taken_once("stub: say behind the question");
    team.wait_for("idle");

    // A half-written draft stays.
    team.press(&["-l", "half a thought"]);
    team.wait_for_screen("half a thought");
    let beside = team.send("stub: say beside the draft");
    team.wait_for_step(&beside, "answered");
    assert!(team.screen().contains("half a thought"), "{}", team.screen());
    team.no_keys_were_pressed();

    // Killed in the middle of a turn, and resumed.
    let lost = team.send("the word is stork\nstub: think 60002");
    team.wait_for_step(&lost, "turn_started");
    team.asked_at_all("stub: think 60002");
    let native = team.crew.native("coder");
    let pid = team.coder()["session"]["pid"].as_i64().expect("it runs");
    team.crew.kill(pid);
    team.wait("its end is known", || team.coder()["session"]["state"] == "stopped");
    team.crew.ws.ok(["shutdown"]);
    let ws = &team.crew.ws;
    let restarted = ws.run(["restart", "--headless"]);
    // The answer was for that session only, and the program asks again.
    assert_eq!(restarted.code, Some(1), "{}", restarted.snapshot());
    team.press(&["Enter"]);
    let asked = team.send("stub: say and again");
    team.wait_for_step(&asked, "answered");
    assert_eq!(team.crew.native("coder"), native);
    assert!(team.asked("stub: say and again").body.to_string().contains("the word is stork"));
    team.finish();
}

#[test]
fn a_folder_that_a_person_has_granted_is_no_question() {
    let Some(team) = Team::written(false) else { return };
    team.crew.ws.ok(["grant", "trust"]);
    let started = team.crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(started.code, Some(0), "{}\n{}", started.snapshot(), team.screen());
    assert_eq!(team.crew.events_of("dialog.pressing").len(), 1);
    let asked = team.send("stub: say it is here");
    team.wait_for_step(&asked, "answered");
    team.finish();
}
