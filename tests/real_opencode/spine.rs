//! From the first message to the one after the restart.

use serde_json::json;

use crate::support::Team;

#[test]
fn messages_come_over_the_connection_results_by_mcp_and_a_restart_forgets_nothing() {
    let Some(team) = Team::started(&json!({})) else { return };
    let ws = &team.crew.ws;
    assert_eq!(team.coder()["activity"]["state"], "idle");
    assert_eq!(team.crew.status()["ready"], true);

    // A task: its result is collected once.
    let report = r#"stub: call team_orchestrator_report_result {"summary":"did it","status":"success"}"#;
    ws.json(["send", "--watch-result", "coder", &format!("the word is heron\n{report}")]);
    let waited = ws.run(["wait", "--task", "1", "--timeout", "60"]);
    team.wait("task 1 ends", || waited.code == Some(0));
    let collected = ws.json(["collect"]);
    assert_eq!(collected["collected"], 1, "{collected}");
    assert_eq!(collected["results"][0]["summary"], "did it");
    assert_eq!(collected["results"][0]["via"], "mcp");
    assert_eq!(ws.json(["collect"])["collected"], 0);
    team.wait_for("idle");
    team.was_taken_once("the word is heron");
    let first = team.asked("the word is heron");
    assert!(first.system.contains("Work.") && first.offers("team_orchestrator_report_result"));

    // Everything about its state was pushed.
    let turn = |kind: &str| {
        team.crew.events_of(kind).pop().expect("a turn was seen")["event"]["proof"]["source"].clone()
    };
    assert_eq!(turn("turn.started"), "notification");
    assert_eq!(turn("turn.ended"), "notification");

    // Two while it works.
    let slow = team.send("stub: think 3000\nstub: say that was slow");
    team.wait_for("working");
    let one = team.send("stub: say one of two");
    let two = team.send("$HOME `ls` 'it' \"is\" \\n text\n/quit\n!ls");
    team.wait_for_step(&two, "held");
    assert_eq!(team.receipt(&one)["reason"], "busy");
    for (id, text) in [(&slow, "that was slow"), (&one, "one of two"), (&two, "!ls")] {
        team.wait_for_step(id, "answered");
        team.was_taken_once(text);
        assert_eq!(team.receipt(id)["attempts"], 1);
    }
    assert!(team.asked("/quit").says("$HOME `ls` 'it' \"is\" \\n text\n/quit\n!ls"));

    // A long one comes whole.
    let long = format!("{}\nthis is the end of it", "a line of some length\n".repeat(10_000));
    let sent = ws.run_with_input(["send", "coder", "-", "--wait", "answered", "--timeout", "60"], &long);
    assert_eq!(sent.code, Some(0), "{}", sent.snapshot());
    let asked = team.asked("this is the end of it").texts.concat();
    assert_eq!(asked.matches("a line of some length").count(), 10_000);

    // The conversation goes on after a stop.
    let native = team.crew.native("coder");
    ws.ok(["shutdown"]);
    ws.ok(["restart", "--headless"]);
    assert_eq!(team.crew.native("coder"), native);
    assert_eq!(team.crew.events_of("restart.fresh_spawn").len(), 0);
    let again = team.send("which word was it?");
    team.wait_for_step(&again, "answered");
    assert!(team.asked("which word was it?").body.to_string().contains("the word is heron"));
    team.was_taken_once("which word was it?");
    team.wait_for("idle");
    team.finish();
}
