//! A conversation that is shortened.

use crate::support::Team;

// Case 101.
#[test]
fn after_a_compaction_the_real_program_tells_its_model_what_we_add() {
    let Some(team) = Team::started() else { return };
    let task = team.crew.ws.json(["send", "--watch-result", "coder", "repair the parser\nstub: say later"]);
    team.wait_for_step(task["message_id"].as_str().expect("it has an id"), "answered");
    let more = team.send("stub: say more");
    team.wait_for_step(&more, "answered");
    team.wait_for("idle");
    team.press(&["-l", "/compact"]);
    team.wait_for_screen("/compact");
    team.press(&["Enter"]);
    team.wait("it is compacted", || !team.crew.events_of("session.compacted").is_empty());
    team.wait_for("idle");
    let after = team.send("stub: say after");
    team.wait_for_step(&after, "answered");
    let said = team.asked("stub: say after").texts.concat();
    assert_eq!(said.matches("Your conversation was shortened").count(), 1, "{said}");
    assert!(said.contains("task 1") && said.contains("repair the parser"), "{said}");
    team.finish();
}
