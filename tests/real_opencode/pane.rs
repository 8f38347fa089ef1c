//! What a person does in an agent's pane, what is asked there, and what goes wrong with the model.

use std::fs;

use serde_json::json;

use crate::support::Team;

#[test]
fn interrupts_errors_questions_and_limits_are_told_and_nothing_is_lost() {
    let Some(team) = Team::started(&json!({ "permission": { "bash": "ask" } })) else { return };
    let cwd = team.crew.ws.path().to_owned();

    // A person interrupts.
    let slow = team.send("stub: say it has\nstub: say  begun\nstub: think 60000");
    team.wait_for_screen("it hasbegun");
    let behind = team.send("stub: say behind the interrupt");
    team.wait_for_step(&behind, "held");
    team.press(&["Escape"]);
    team.wait_for_screen("again to interrupt");
    team.press(&["Escape"]);
    team.wait_for_end(&slow, "interrupted");
    team.wait_for_step(&behind, "answered");
    team.was_taken_once("behind the interrupt");

    // An error of the model's service.
    let failed = team.send("stub: error 400");
    team.wait_for_end(&failed, "error");
    team.wait_for("idle");

    // A question for permission, answered in the pane; what is sent meanwhile waits. The model's shell has no secret.
    let asks = team.send("stub: bash env > env.txt\nstub: say it is there");
    team.wait_for("awaiting_approval");
    let waits = team.send("stub: say behind the question");
    team.wait_for_screen("Permission required");
    assert!(!cwd.join("env.txt").exists());
    team.press(&["Enter"]);
    team.wait_for_step(&asks, "answered");
    team.wait_for_step(&waits, "answered");
    team.was_taken_once("behind the question");
    let env = fs::read_to_string(cwd.join("env.txt")).expect("the command ran");
    let password = fs::read_to_string(team.seat_dir().join("server-password")).expect("it has a password");
    assert!(env.contains("TEAM_AGENT_SEAT=") && env.contains("SHELL=/bin/sh\n"), "{env}");
    assert!(!env.contains(&password) && !env.contains("OPENCODE_CONFIG_CONTENT"), "{env}");

    // The same, answered by a file. A command that leaves the folder asks twice.
    let asks = team.send("stub: bash cat /etc/hostname > a.txt\nstub: say so be it");
    for kind in ["external_directory", "bash"] {
        team.wait(kind, || {
            team.crew.events_of("approval.requested").last().is_some_and(|it| it["event"]["tool"] == kind)
        });
        team.answer(&team.open_question(), "allow");
    }
    team.wait_for_step(&asks, "answered");
    assert!(cwd.join("a.txt").exists());
    let asks = team.send("stub: bash touch b.txt\nstub: say so be it");
    team.wait_for("awaiting_approval");
    team.answer(&team.open_question(), "deny");
    team.wait_for_step(&asks, "answered");
    assert!(!cwd.join("b.txt").exists());
    assert_eq!(team.crew.events_of("approval.requested").len(), 4);
    assert_eq!(team.crew.events_of("approval.closed").len(), 4);

    // A half-written draft stays, and goes when the person enters it: behind the turn that runs.
    team.wait_for("idle");
    team.press(&["-l", "stub: say typed by hand"]);
    team.wait_for_screen("stub: say typed by hand");
    let beside = team.send("stub: think 3000\nstub: say beside the draft");
    team.wait_for_step(&beside, "turn_started");
    let turns = team.crew.events_of("turn.ended").len();
    team.press(&["Enter"]);
    team.wait("both turns end", || team.crew.events_of("turn.ended").len() == turns + 2);
    assert_eq!(team.receipt(&beside)["step"], "answered");

    // A limit: what comes behind it is held and goes when it is over.
    let spent = team.send("stub: error 429 6\nstub: say it is over");
    team.wait_for("limited");
    assert!(team.coder()["activity"]["until"].is_string(), "{}", team.coder());
    let held = team.send("stub: say after the limit");
    team.wait_for_step(&held, "held");
    assert_eq!(team.receipt(&held)["reason"], "limited");
    team.wait_for_step(&spent, "answered");
    team.wait_for_step(&held, "answered");
    team.was_taken_once("after the limit");
    assert_eq!(team.receipt(&held)["attempts"], 1);

    // The bridge is killed, while a turn runs.
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
    team.was_taken_once("that was slow");
    team.was_taken_once("behind the bridge");

    // The same, while it hands a message over.
    for word in ["once", "only once"] {
        let bridge = team.process_with("bridge");
        let sent = team.send(&format!("stub: say {word} and no more"));
        team.crew.kill(bridge);
        team.wait_for_step(&sent, "answered");
        team.was_taken_once(&format!("say {word} and"));
        team.wait("another bridge runs", || team.has_process_with("bridge"));
        team.wait_for("idle");
    }

    // The program is killed, and the conversation goes on.
    let native = team.crew.native("coder");
    team.crew.kill(team.process_with("--port"));
    team.wait("its end is known", || team.coder()["session"]["state"] == "stopped");
    assert!(!team.has_process_with("bridge") && !team.seat_dir().join("tmp").exists());
    team.crew.ws.ok(["shutdown"]);
    team.crew.ws.ok(["restart", "--headless"]);
    assert_eq!(team.crew.native("coder"), native);
    let after = team.send("stub: say after all that");
    team.wait_for_step(&after, "answered");
    team.was_taken_once("typed by hand");
    team.was_taken_once("after all that");

    // The history is shortened.
    team.wait_for("idle");
    team.press(&["-l", "/compact"]);
    team.wait_for_screen("/compact");
    team.wait_for_screen("Compact session");
    team.press(&["Enter"]);
    team.wait("it is told", || !team.crew.events_of("session.compacted").is_empty());
    team.wait_for("idle");
    let last = team.send("stub: say after the summary");
    team.wait_for_step(&last, "answered");
    team.was_taken_once("after the summary");
    team.finish();
}
