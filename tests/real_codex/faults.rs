//! What is killed is started again or told, and no message comes twice.

use std::fs;

use serde_json::Value;

use crate::support::Team;

#[test]
fn a_server_that_ends_before_the_first_turn_ends_the_seat_and_a_restart_delivers() {
    let Some(team) = Team::started() else { return };
    team.crew.kill(team.process_with("app-server"));
    team.wait("its end is known", || team.coder()["session"]["state"] == "stopped");
    team.crew.ws.ok(["shutdown"]);
    team.crew.ws.ok(["restart", "--headless"]);
    let waits = team.send("hello");
    team.wait_for_step(&waits, "answered");
    team.was_taken_once("hello");

    // Longer than the program takes: it is told where to read.
    let long = format!("the head of it\n{}", "x".repeat(1_040_000));
    let sent =
        team.crew.ws.run_with_input(["send", "coder", "-", "--wait", "answered", "--timeout", "60"], &long);
    assert_eq!(sent.code, Some(0), "{}", sent.snapshot());
    assert!(team.asked("This message is in a file:").says("characters) - read all of it"));
    team.finish();
}

#[test]
fn what_a_server_that_stands_still_was_given_counts_as_handed_over_and_no_more() {
    let Some(team) = Team::started() else { return };
    let signal = |name: &str, pid: i64| {
        let told = team.crew.ws.command("kill").args([&format!("-{name}"), &pid.to_string()]).output();
        assert!(told.expect("there is a `kill`").status.success());
    };
    let server = team.process_with("app-server");
    signal("STOP", server);
    let sent = team.send("the word is heron");
    let state = team.crew.ws.state_directory().expect("the team was started");
    let taken = state.join("seats/current/coder/inbox/taken");
    team.wait("the bridge takes it", || fs::read_dir(&taken).is_ok_and(|it| it.count() > 0));
    let stands = team.receipt(&sent);
    assert!(["accepted", "sending"].contains(&stands["step"].as_str().unwrap_or_default()), "{stands}");
    assert!(
        team.crew.events_of("turn.started").is_empty() && team.crew.events_of("message.submitted").is_empty()
    );
    signal("CONT", server);
    team.wait_for_step(&sent, "answered");
    team.was_taken_once("the word is heron");
    assert_eq!(team.receipt(&sent)["attempts"], 1);
    team.finish();
}

#[test]
fn a_killed_server_or_bridge_comes_again_and_a_killed_screen_ends_the_seat() {
    let Some(team) = Team::started() else { return };
    let first = team.send("the word is heron");
    team.wait_for_step(&first, "answered");
    team.wait_for("idle");
    let native = team.crew.native("coder");

    // The bridge, while a turn runs.
    let slow = team.send("stub: think 2500\nstub: say that was slow");
    team.wait_for_step(&slow, "turn_started");
    let bridge = team.process_with("bridge");
    team.crew.kill(bridge);
    team.wait("another bridge runs", || {
        team.has_process_with("bridge") && team.process_with("bridge") != bridge
    });
    let behind = team.send("stub: say behind the bridge");
    team.wait_for_step(&slow, "answered");
    team.wait_for_step(&behind, "answered");
    team.was_taken_once("behind the bridge");

    // The server, while a turn runs.
    let lost = team.send("stub: think 4000\nstub: say never");
    team.wait_for_step(&lost, "turn_started");
    let server = team.process_with("app-server");
    let held = team.send("stub: say behind the server");
    team.wait_for_step(&held, "held");
    team.crew.kill(server);
    team.wait_for_step(&lost, "answered");
    assert_eq!(team.receipt(&lost)["reason"], "its turn ended: error");
    team.wait_for_step(&held, "answered");
    team.wait_for_screen("behind the server");
    for text in ["the word is heron", "that was slow", "behind the bridge", "behind the server"] {
        team.was_taken_once(text);
    }
    assert_ne!(team.process_with("app-server"), server);
    assert_eq!(team.crew.native("coder"), native);
    assert_eq!(team.crew.events_of("session.replaced"), Vec::<Value>::new());
    // Its tools work as before.
    let report = r#"stub: call mcp__team_orchestrator__report_result {"summary":"again","status":"success"}"#;
    team.crew.ws.json(["send", "--watch-result", "coder", report]);
    let waited = team.crew.ws.run(["wait", "--task", "1", "--timeout", "60"]);
    team.wait("task 1 ends", || waited.code == Some(0));

    // The screen: the seat ends with everything in it, and goes on after a restart.
    team.wait_for("idle");
    let pid = team.coder()["session"]["pid"].as_i64().expect("it runs");
    team.crew.kill(pid);
    team.wait("its end is known", || team.coder()["session"]["state"] == "stopped");
    assert!(!team.has_process_with("app-server") && !team.has_process_with("bridge"));
    team.crew.ws.ok(["shutdown"]);
    team.crew.ws.ok(["restart", "--headless"]);
    let waits = team.send("which word was it?");
    assert_eq!(team.crew.native("coder"), native);
    team.wait_for_step(&waits, "answered");
    assert!(team.asked("which word was it?").body.to_string().contains("the word is heron"));
    team.was_taken_once("which word was it?");
    team.finish();
}
