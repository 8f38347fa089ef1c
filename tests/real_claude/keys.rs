//! The second way in: keys, where the bell is not heard.

use crate::support::Team;

#[test]
fn where_the_bell_is_not_heard_an_idle_agent_is_typed_into_and_nobody_else() {
    let Some(mut team) = Team::written(true) else { return };
    // The hooks that hand messages out ask for something that there is not.
    team.start_through("sed -i.was 's/ drain\"/ nothing\"/' \"$4\"\nexec PROGRAM \"$@\"");
    team.crew.start();

    let first = team.send("/x is broken\n\n!this is prose, too\nstub: say first");
    team.wait_for_step(&first, "answered");
    let receipt = team.receipt(&first);
    assert_eq!((&receipt["channel"], &receipt["attempts"]), (&"keys".into(), &2.into()), "{receipt}");
    team.was_taken_once("this is prose, too");
    assert!(team.asked("this is prose, too").says("/x is broken\n\n!this is prose, too\nstub: say first"));
    team.wait_for("idle");

    // Not while it works.
    let slow = team.send("stub: think 3000\nstub: say slow");
    team.wait_for("working");
    let after = team.send("stub: say after");
    team.wait_for_step(&after, "held");
    assert_eq!(team.receipt(&after)["reason"], "busy");
    team.wait_for_step(&slow, "answered");
    team.wait_for_step(&after, "answered");

    // Not while it asks.
    team.send("stub: bash touch y");
    team.wait_for("awaiting_approval");
    let behind = team.send("stub: say behind the question");
    team.wait_for_step(&behind, "held");
    assert_eq!(team.receipt(&behind)["reason"], "dialog");
    team.wait_for_screen("Do you want to proceed?");
    assert!(!team.crew.ws.path().join("y").exists());
    team.press(&["1"]);
    team.wait_for_step(&behind, "answered");
    team.wait_for("idle");

    // Not beside what a person has begun to write.
    team.press(&["-l", "half a thought"]);
    team.wait_for_screen("half a thought");
    let beside = team.send("stub: say beside the draft");
    team.wait_for_step(&beside, "held");
    assert_eq!(team.receipt(&beside)["reason"], "draft");
    assert!(team.screen().contains("half a thought"), "{}", team.screen());
    team.press(&["C-u"]);
    team.wait_for_step(&beside, "answered");
    for text in ["stub: say after", "stub: say behind the question", "stub: say beside the draft"] {
        team.was_taken_once(text);
    }
    // What shows elsewhere that nothing was typed shows here what was.
    let typing = team.typing();
    assert!(typing.contains(&"paste-buffer") && typing.contains(&"send-keys"), "{typing:?}");
    team.finish();
}
