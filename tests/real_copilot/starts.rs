//! How it starts with a profile.

use crate::support::Team;

const KEY: &str = "invented-for-a-test-0123456789abcdefghij";

#[test]
fn a_key_of_a_profile_is_seen_by_the_service_alone_and_the_persons_home_by_nobody() {
    let Some(team) = Team::written(true) else { return };
    let profile = team.use_profile(KEY, &format!("{}/v1", team.stub.url()));
    team.crew.ws.ok(["quick-start", "--headless"]);
    let sent = team.send("stub: say hello");
    team.wait_for_step(&sent, "answered");
    let request = team.stub.turns().pop().expect("it asked its model");
    assert_eq!(request.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(request.model.as_deref(), Some("stub-model"));
    team.key_is_only_in(&profile, KEY);
    team.finish();
}
