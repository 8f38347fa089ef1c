//! From the first message to the one after the restart, without a key.

use crate::support::Team;

// Acceptance 2.
#[test]
fn messages_come_by_the_bell_results_by_mcp_and_a_restart_forgets_nothing() {
    let Some(team) = Team::started() else { return };
    let ws = &team.crew.ws;
    assert_eq!(team.coder()["activity"]["state"], "idle");
    assert_eq!(team.crew.status()["ready"], true);

    // A task: it comes without a key, and its result is collected once.
    let report =
        r#"stub: call mcp__team_orchestrator__report_result {"summary":"did it","status":"success"}"#;
    let sent = ws.json(["send", "--watch-result", "coder", &format!("the word is heron\n{report}")]);
    assert_eq!(sent["watching"], true, "{sent}");
    let waited = ws.run(["wait", "--task", "1", "--timeout", "60"]);
    team.wait("task 1 ends", || waited.code == Some(0));
    let collected = ws.json(["collect"]);
    assert_eq!(collected["collected"], 1, "{collected}");
    assert_eq!(collected["results"][0]["summary"], "did it");
    assert_eq!(collected["results"][0]["via"], "mcp");
    assert_eq!(ws.json(["collect"])["collected"], 0);
    team.wait_for("idle");
    team.was_taken_once("the word is heron");

    // Everything about its state was pushed.
    let turn = |kind: &str| {
        team.crew.events_of(kind).pop().expect("a turn was seen")["event"]["proof"]["source"].clone()
    };
    assert_eq!(turn("turn.started"), "hook");
    assert_eq!(turn("turn.ended"), "hook");

    // A second one while it works.
    let slow = team.send("stub: think 4000\nstub: say that was slow");
    team.wait_for("working");
    let meanwhile = team.send("stub: say seen in passing");
    team.wait_for_step(&meanwhile, "answered");
    team.wait_for_step(&slow, "answered");
    team.wait_for("idle");
    team.was_taken_once("stub: say seen in passing");
    team.was_taken_once("stub: say that was slow");
    assert_eq!(team.receipt(&meanwhile)["channel"], "bell");
    assert_eq!(team.receipt(&meanwhile)["attempts"], 1);

    // A long one comes whole.
    let long = format!("{}\nthis is the end of it", "a line of some length\n".repeat(3000));
    let sent = ws.run_with_input(["send", "coder", "-", "--wait", "answered", "--timeout", "60"], &long);
    assert_eq!(sent.code, Some(0), "{}", sent.snapshot());
    let asked = team.asked("this is the end of it").texts.concat();
    assert_eq!(asked.matches("a line of some length").count(), 3000);

    // The conversation goes on after a stop.
    let native = team.crew.native("coder");
    ws.ok(["shutdown"]);
    assert_eq!(team.home.theirs().changes_since(&team.before), Vec::<String>::new());
    ws.ok(["restart", "--headless"]);
    assert_eq!(team.crew.native("coder"), native);
    assert_eq!(team.crew.events_of("restart.fresh_spawn").len(), 0);
    let again = team.send("stub: recall 4");
    team.wait_for_step(&again, "answered");
    let said = team.asked("stub: recall 4").outcome.expect("it was answered").said;
    assert!(said.contains("the word is heron"), "{said}");
    team.wait_for("idle");
    team.no_keys_were_pressed();
    team.finish();
}
