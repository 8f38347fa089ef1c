//! From the first message to the one after the restart.

use crate::support::Team;

#[test]
fn messages_are_typed_results_come_by_mcp_and_a_restart_forgets_nothing() {
    let Some(team) = Team::started() else { return };
    let ws = &team.crew.ws;
    assert_eq!(team.coder()["activity"]["state"], "idle");
    assert_eq!(team.crew.status()["ready"], true);

    // A task: its result comes by the tool and is collected once.
    let report = r#"stub: call mcp_team_orchestrator_report_result {"summary":"did it","status":"success"}"#;
    let sent = ws.json(["send", "--watch-result", "coder", &format!("the word is heron\n{report}")]);
    assert_eq!(sent["watching"], true, "{sent}");
    team.wait("task 1 ends", || ws.run(["wait", "--task", "1", "--timeout", "60"]).code == Some(0));
    let collected = ws.json(["collect"]);
    assert_eq!(collected["collected"], 1, "{collected}");
    assert_eq!(collected["results"][0]["via"], "mcp");
    team.wait_for("idle");
    team.was_taken_once("the word is heron");
    let asked = team.asked("the word is heron");
    assert!(asked.body.to_string().contains("You are coder"), "it was told its role");
    let turn = |kind: &str| {
        team.crew.events_of(kind).pop().expect("a turn was seen")["event"]["proof"]["source"].clone()
    };
    assert_eq!(turn("turn.started"), "hook");
    assert_eq!(turn("turn.ended"), "hook");

    // Not while it works: it waits and then comes.
    let slow = team.send("stub: think 3000\nstub: say slow");
    team.wait_for("working");
    let after = team.send("/x is broken\n\n!this is prose, too\nstub: say after\n# ünï 请检查");
    team.wait_for_step(&after, "held");
    assert_eq!(team.receipt(&after)["reason"], "busy");
    team.wait_for_step(&slow, "answered");
    team.wait_for_step(&after, "answered");
    team.was_taken_once("this is prose, too");
    assert!(
        team.asked("this is prose")
            .says("/x is broken\n\n!this is prose, too\nstub: say after\n# ünï 请检查")
    );
    assert_eq!(team.receipt(&after)["attempts"], 1);
    assert_eq!(team.receipt(&after)["channel"], "keys");
    team.wait_for("idle");

    // A long one comes whole, as a label in the box.
    let long = format!("{}\nthis is the end of it", "a line of some length\n".repeat(1000));
    let sent = ws.run_with_input(["send", "coder", "-", "--wait", "answered", "--timeout", "60"], &long);
    assert_eq!(sent.code, Some(0), "{}", sent.snapshot());
    let asked = team.asked("this is the end of it").texts.concat();
    assert_eq!(asked.matches("a line of some length").count(), 1000);

    // The conversation goes on after a stop; a message that waits is not lost in the start.
    let native = team.crew.native("coder");
    ws.ok(["shutdown"]);
    ws.ok(["restart", "--headless"]);
    assert_eq!(team.crew.native("coder"), native);
    assert_eq!(team.crew.events_of("restart.fresh_spawn").len(), 0);
    let again = team.send("stub: say again");
    team.wait_for_step(&again, "answered");
    let asked = team.asked("stub: say again").body.to_string();
    assert!(asked.contains("the word is heron"), "{asked}");
    team.wait_for("idle");
    assert_eq!(team.receipt(&again)["attempts"], 1);
    team.finish();
}

#[test]
fn a_message_that_the_program_does_not_take_along_is_told_again_once() {
    let Some(team) = Team::started() else { return };
    let ws = &team.crew.ws;
    let first = team.send("the word is bittern\nstub: say noted");
    team.wait_for_step(&first, "answered");

    // A person cancels a tool: the program writes its history anew, and joins its own first words with the first message.
    let asks = team.send("stub: bash touch x\nstub: say touched");
    team.wait_for("awaiting_approval");
    team.wait_for_screen("Allow execution of");
    team.press(&["Escape"]);
    team.wait_for_step(&asks, "answered");
    team.wait_for("idle");

    for word in ["once more", "and again"] {
        ws.ok(["shutdown"]);
        ws.ok(["restart", "--headless"]);
        assert_eq!(team.crew.events_of("restart.fresh_spawn").len(), 0);
        let sent = team.send(&format!("stub: say {word}"));
        team.wait_for_step(&sent, "answered");
        let asked = team.asked(&format!("stub: say {word}"));
        let body = asked.body.to_string();
        assert_eq!(body.matches("the word is bittern").count(), 1, "{body}");
        assert_eq!(body.matches("has lost these messages").count(), 1, "{body}");
        assert_eq!(
            asked.says("the word is bittern"),
            word == "once more",
            "it stays in the conversation: {body}"
        );
        assert_eq!(team.receipt(&sent)["attempts"], 1);
        team.wait_for("idle");
    }
    assert!(!ws.path().join("x").exists());
    team.finish();
}
