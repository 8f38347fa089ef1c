//! Permission questions of the real program, answered by command and in its terminal.

use serde_json::Value;

use crate::support::Team;

/// Has the agent ask whether it may make a file; returns the question.
fn asks(team: &Team, file: &str) -> String {
    team.send(&format!("stub: bash touch {file}\nstub: say went on after {file}"));
    let mut found = Value::Null;
    team.wait("it asks", || {
        found = team.crew.ws.json(["approvals", "coder"])["approvals"][0].clone();
        !found.is_null()
    });
    assert_eq!(found["tool"], "Bash", "{found}");
    assert!(found["input"].as_str().unwrap_or_default().contains(&format!("touch {file}")), "{found}");
    found["request_id"].as_str().unwrap_or_default().to_owned()
}

/// The processes that wait for an answer.
fn waiting(team: &Team) -> usize {
    team.crew.ws.processes().iter().filter(|it| format!("{it:?}").contains("PermissionRequest")).count()
}

#[test]
fn a_command_answers_the_real_program_and_so_does_its_terminal() {
    let Some(team) = Team::started() else { return };
    let ws = &team.crew.ws;
    let there = |file: &str| ws.path().join(file).exists();
    let how = || team.crew.events_of("approval.closed").pop().map(|it| it["event"]["how"].clone());

    let first = asks(&team, "allowed");
    assert!(!there("allowed"));
    ws.ok(["approve", "coder", &first, "--allow"]);
    team.wait("the command runs", || there("allowed"));
    team.wait_for("idle");
    assert_eq!(how(), Some("answered".into()));

    let second = asks(&team, "denied");
    ws.ok(["approve", "coder", &second, "--deny", "--message", "not this one"]);
    team.wait_for("idle");
    assert!(!there("denied"));
    team.wait("the model is told", || {
        team.transcript().iter().any(|it| it.to_string().contains("not this one"))
    });

    // The program's own dialog is open while our command waits, and ends it.
    let third = asks(&team, "by-hand");
    team.wait_for_screen("Do you want to proceed?");
    assert_eq!(waiting(&team), 1, "{:?}", ws.processes());
    team.press(&["1"]);
    team.wait("the command runs", || there("by-hand"));
    team.wait_for("idle");
    let late = ws.json(["approve", "coder", &third, "--deny"]);
    assert_eq!(late["error"]["code"], "closed", "{late}");
    assert_eq!(how(), Some("in_pane".into()));
    team.wait("nobody waits for an answer", || waiting(&team) == 0);
    team.finish();
}
