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
    team.wait_for("idle");
    println!("interrupted: {} {}", team.receipt(&slow), team.coder()["activity"]);

    // An error of the model's service.
    let failed = team.send("stub: error 500");
    team.wait("the turn ends", || team.coder()["activity"]["reason"] == "server_error" );
    println!("failed: {} {}", team.receipt(&failed), team.coder()["activity"]);

    // A question for permission: a message meanwhile waits behind it.
    let asks = team.send("stub: bash touch x");
    team.wait_for("awaiting_approval");
    let behind = team.send("stub: say behind the question");
    team.wait_for_step(&behind, "submitted");
    println!("{}", team.screen());
    println!("asks: {} {} {}", team.receipt(&asks), team.receipt(&behind), team.coder()["activity"]);
    team.press(&["1"]);
    team.wait_for_step(&behind, "answered");
    team.wait_for("idle");
    assert_eq!(team.times_taken("stub: say behind the question"), 1);
    println!("{} {}", team.receipt(&asks), team.receipt(&behind));

    // A half-written draft stays.
    team.press(&["-l", "half a thought"]);
    team.wait_for_screen("half a thought");
    let beside = team.send("stub: say beside the draft");
    team.wait_for_step(&beside, "answered");
    team.wait_for("idle");
    assert!(team.screen().contains("half a thought"), "{}", team.screen());
    team.no_keys_were_pressed();
    for event in team.crew.ws.events() { println!("{event}"); }
    team.finish();
}
