//! What a person does in an agent's pane, and what goes wrong there.

use crate::support::Team;

#[test]
fn a_person_may_interrupt_answer_and_type_and_nothing_is_lost() {
    let Some(team) = Team::started() else { return };

    // An interrupt is told by no hook.
    let slow = team.send("stub: say begun\nstub: think 60000");
    team.wait_for("working");
    team.wait_for_screen("begun");
    team.press(&["Escape"]);
    team.wait_for_step(&slow, "answered");
    assert_eq!(team.receipt(&slow)["reason"], "its turn ended: interrupted");
    assert_eq!(team.coder()["activity"]["state"], "idle");
    assert_eq!(team.coder()["activity"]["reason"], "the turn was interrupted");

    // Before the model has said a word, it leaves hardly a trace.
    let silent = team.send("stub: think 60000");
    team.wait_for_step(&silent, "turn_started");
    team.press(&["Escape"]);
    team.wait_for_step(&silent, "answered");
    assert_eq!(team.receipt(&silent)["reason"], "its turn ended: interrupted");
    team.wait_for("idle");

    // An error of the model's service.
    let failed = team.send("stub: error 500");
    team.wait_for_step(&failed, "answered");
    assert_eq!(team.receipt(&failed)["reason"], "its turn ended: error");
    team.wait_for("idle");
    assert_eq!(team.coder()["activity"]["reason"], "server_error");

    // A question for permission: a message meanwhile waits behind it.
    let asks = team.send("stub: bash touch x");
    team.wait_for("awaiting_approval");
    let behind = team.send("stub: say behind the question");
    team.wait_for_step(&behind, "submitted");
    assert_eq!(team.coder()["activity"]["state"], "awaiting_approval");
    assert!(team.crew.ws.ok(["status"]).contains("AWAITING_APPROVAL"));
    team.wait_for_screen("Do you want to proceed?");
    team.press(&["1"]);
    team.wait_for_step(&behind, "answered");
    team.wait_for_step(&asks, "answered");
    team.wait_for("idle");
    assert!(team.crew.ws.path().join("x").exists());
    team.was_taken_once("stub: say behind the question");

    // A half-written draft stays.
    team.press(&["-l", "half a thought"]);
    team.wait_for_screen("half a thought");
    let beside = team.send("stub: say beside the draft");
    team.wait_for_step(&beside, "answered");
    team.wait_for("idle");
    assert!(team.screen().contains("half a thought"), "{}", team.screen());
    team.no_keys_were_pressed();
    team.finish();
}

#[test]
fn a_cleared_conversation_is_followed_and_a_killed_program_is_told_and_resumed() {
    let Some(team) = Team::started() else { return };
    let first = team.send("the word is heron");
    team.wait_for_step(&first, "answered");
    let before = team.crew.native("coder");
    team.press(&["-l", "/clear"]);
    team.wait_for_screen("/clear");
    team.press(&["Enter"]);
    team.wait("another conversation is known", || team.crew.native("coder") != before);
    team.wait_for("idle");

    // Back to the first, and away again.
    team.press(&["-l", "/resume"]);
    team.wait_for_screen("/resume");
    team.press(&["Enter"]);
    team.wait_for_screen("Ctrl+A to show all projects");
    team.press(&["Enter"]);
    team.wait("the first conversation goes on", || team.crew.native("coder") == before);
    team.wait_for("idle");
    let asked = team.send("which word was it?");
    team.wait_for_step(&asked, "answered");
    assert!(team.asked("which word was it?").body.to_string().contains("the word is heron"));
    team.was_taken_once("which word was it?");
    team.press(&["-l", "/clear"]);
    team.wait_for_screen("/clear");
    team.press(&["Enter"]);
    team.wait("a third conversation is known", || team.crew.native("coder") != before);
    team.wait_for("idle");

    // Of a conversation without a turn there is nothing to resume: the program has noted the command alone.
    team.crew.ws.ok(["shutdown"]);
    team.crew.ws.ok(["restart", "--headless"]);
    let after = team.crew.native("coder");
    let second = team.send("the word is stork");
    team.wait_for_step(&second, "answered");
    team.was_taken_once("the word is stork");
    assert_eq!(team.crew.events_of("observation.foreign"), Vec::<serde_json::Value>::new());

    // Killed in the middle of a turn.
    let lost = team.send("stub: think 60000");
    team.wait_for_step(&lost, "turn_started");
    let pid = team.coder()["session"]["pid"].as_i64().expect("it runs");
    team.crew.kill(pid);
    team.wait("its end is known", || team.coder()["session"]["state"] == "stopped");
    assert_eq!(team.coder()["session"]["reason"], "exit");
    assert_eq!(team.receipt(&lost)["step"], "unknown");
    let notices = team.crew.events_of("notice.raised");
    let told =
        notices.iter().filter(|it| it["event"]["cause"] == "exit" && it["event"]["about"] == "coder").count();
    assert_eq!(told, 1, "{notices:?}");
    team.crew.ws.ok(["shutdown"]);
    team.crew.ws.ok(["restart", "--headless"]);
    let waits = team.send("what was the word?");
    assert_eq!(team.crew.native("coder"), after);
    assert_eq!(team.crew.events_of("restart.fresh_spawn").len(), 0);
    team.wait_for_step(&waits, "answered");
    let asked = team.asked("what was the word?").body.to_string();
    assert!(asked.contains("the word is stork") && !asked.contains("heron"), "{asked}");
    team.no_keys_were_pressed();
    team.finish();
}
