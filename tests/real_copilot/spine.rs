//! From the first message to the one after the restart, without a key.

use crate::support::Team;

#[test]
fn messages_come_by_the_extension_results_by_mcp_and_a_restart_forgets_nothing() {
    let Some(team) = Team::started() else { return };
    let ws = &team.crew.ws;
    assert_eq!(team.coder()["activity"]["state"], "idle");
    assert_eq!(team.crew.status()["ready"], true);

    // A task: it comes without a key, and its result is collected once.
    let report = r#"stub: call team_orchestrator-report_result {"summary":"did it","status":"success"}"#;
    let sent = ws.json(["send", "--watch-result", "coder", &format!("the word is heron\n{report}")]);
    assert_eq!(sent["watching"], true, "{sent}");
    team.wait("task 1 ends", || ws.run(["wait", "--task", "1", "--timeout", "60"]).code == Some(0));
    let collected = ws.json(["collect"]);
    assert_eq!(collected["collected"], 1, "{collected}");
    assert_eq!(collected["results"][0]["via"], "mcp");
    team.wait_for("idle");
    team.was_taken_once("the word is heron");
    assert!(
        team.asked("the word is heron").body.to_string().contains("You are coder"),
        "it was told its role"
    );
    let turn = |kind: &str| {
        team.crew.events_of(kind).pop().expect("a turn was seen")["event"]["proof"]["source"].clone()
    };
    assert_eq!(turn("turn.started"), "hook");
    assert_eq!(turn("turn.ended"), "hook");

    // Two while it works, for longer than a bell may go unheard: they wait in the program's own queue, in order.
    let slow = team.send("stub: think 10000\nstub: say slow");
    team.wait_for("working");
    let first = team.send("/x is broken\n\n!this is prose, too\nstub: say first\n# ünï 请检查");
    let second = team.send("stub: say second");
    for id in [&first, &second] {
        team.wait_for_step(id, "submitted");
    }
    assert_eq!(team.coder()["activity"]["state"], "working");
    for id in [&slow, &first, &second] {
        team.wait_for_step(id, "answered");
        assert_eq!(team.receipt(id)["channel"], "bell");
        assert_eq!(team.receipt(id)["attempts"], 1);
    }
    for text in ["stub: say slow", "this is prose, too", "stub: say second"] {
        team.was_taken_once(text);
    }
    let said = team.asked("stub: say second").body.to_string();
    assert!(said.contains("this is prose, too"), "the first came before the second");
    team.wait_for("idle");

    // A long one comes whole.
    let long = format!("{}\nthis is the end of it", "a line of some length\n".repeat(3000));
    let sent = ws.run_with_input(["send", "coder", "-", "--wait", "answered", "--timeout", "60"], &long);
    assert_eq!(sent.code, Some(0), "{}", sent.snapshot());
    let asked = team.asked("this is the end of it").texts.concat();
    assert_eq!(asked.matches("a line of some length").count(), 3000);

    // The conversation goes on after a stop.
    let native = team.crew.native("coder");
    ws.ok(["shutdown"]);
    ws.ok(["restart", "--headless"]);
    assert_eq!(team.crew.native("coder"), native);
    assert_eq!(team.crew.events_of("restart.fresh_spawn").len(), 0);
    let again = team.send("stub: say again");
    team.wait_for_step(&again, "answered");
    assert!(team.asked("stub: say again").body.to_string().contains("the word is heron"));
    team.wait_for("idle");
    team.no_keys_were_pressed();
    team.finish();
}
