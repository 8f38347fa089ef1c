//! What a person does in an agent's pane, what is asked there, and what goes wrong with the model.

use std::fs;

use serde_json::Value;

use crate::support::Team;

/// Asks for a command outside of the sandbox.
const ASKS: &str = r#"stub: call exec_command {"cmd":"touch FILE","sandbox_permissions":"require_escalated","justification":"it is needed"}"#;

#[test]
fn interrupts_errors_questions_and_limits_are_told_and_nothing_is_lost() {
    let Some(team) = Team::started() else { return };
    let out = team.crew.ws.root().join("outside");

    // The very first turn may be over before we are subscribed to it.
    let first = team.send("stub: say first");
    team.wait_for_step(&first, "answered");

    // A person interrupts.
    let slow = team.send("stub: say begun\nstub: think 60000");
    team.wait_for("working");
    team.wait_for_screen("begun");
    let behind = team.send("stub: say behind the interrupt");
    team.press(&["Escape"]);
    team.wait_for_step(&slow, "answered");
    assert_eq!(team.receipt(&slow)["reason"], "its turn ended: interrupted");
    team.wait_for_step(&behind, "answered");
    team.was_taken_once("behind the interrupt");

    // An error of the model's service.
    let failed = team.send("stub: error 400");
    team.wait_for_step(&failed, "answered");
    assert_eq!(team.receipt(&failed)["reason"], "its turn ended: error");
    team.wait_for("idle");

    // A question for permission: what is sent meanwhile waits; a person answers in the pane.
    let ask = |name: &str| ASKS.replace("FILE", &out.join(name).to_string_lossy());
    fs::create_dir(&out).expect("writable");
    let asks = team.send(&ask("a"));
    team.wait_for("awaiting_approval");
    let waits = team.send("stub: say behind the question");
    team.wait_for_screen("Would you like to run the following command?");
    assert!(!out.join("a").exists());
    team.press(&["y"]);
    team.wait_for_step(&asks, "answered");
    team.wait_for_step(&waits, "answered");
    team.was_taken_once("behind the question");
    assert!(out.join("a").exists());

    // The same, answered by a file.
    for (name, decision, happens) in [("b", "allow", true), ("c", "deny", false)] {
        let asks = team.send(&format!("{}\nstub: say so be it {name}", ask(name)));
        team.wait_for("awaiting_approval");
        team.wait_for_screen("Would you like to run the following command?");
        team.answer(&last_call(&team), decision);
        team.wait_for_step(&asks, "answered");
        assert_eq!(out.join(name).exists(), happens, "{name}");
    }
    let closed = team.crew.events_of("approval.closed");
    assert_eq!(closed.len(), 3, "{closed:?}");
    assert_eq!(team.crew.events_of("approval.requested").len(), 3);

    // A half-written draft stays.
    team.wait_for("idle");
    team.press(&["-l", "half a thought"]);
    team.wait_for_screen("half a thought");
    let beside = team.send("stub: say beside the draft");
    team.wait_for_step(&beside, "answered");
    team.wait_for_screen("half a thought");
    team.press(&["C-u"]);

    // A person types, too.
    let turns = team.crew.events_of("turn.ended").len();
    team.press(&["-l", "stub: say typed by hand"]);
    team.wait_for_screen("stub: say typed by hand");
    team.press(&["Enter"]);
    team.wait("the typed turn ends", || team.crew.events_of("turn.ended").len() > turns);

    // The limit of a plan: what comes behind it is held and goes when it is over.
    let spent = team.send("stub: error 429 6");
    team.wait_for("limited");
    assert!(team.coder()["activity"]["until"].is_string(), "{}", team.coder());
    let held = team.send("stub: say after the limit");
    team.wait_for_step(&held, "held");
    assert_eq!(team.receipt(&held)["reason"], "limited");
    assert_eq!(team.receipt(&spent)["reason"], "its turn ended: error");
    team.wait_for_step(&held, "answered");
    team.was_taken_once("after the limit");
    assert_eq!(team.receipt(&held)["attempts"], 1);

    // The history is shortened.
    team.wait_for("idle");
    team.press(&["-l", "/compact"]);
    team.wait_for_screen("/compact");
    team.press(&["Enter"]);
    team.wait("it is told", || !team.crew.events_of("session.compacted").is_empty());
    team.wait_for("idle");
    let after = team.send("stub: say after all that");
    team.wait_for_step(&after, "answered");
    team.finish();
}

/// The id of the last tool call that the program recorded.
fn last_call(team: &Team) -> String {
    let calls: Vec<Value> = team.record();
    let call = calls.iter().rev().find(|it| it["payload"]["type"] == "function_call");
    call.and_then(|it| it["payload"]["call_id"].as_str()).expect("it called a tool").to_owned()
}
