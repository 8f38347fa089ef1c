//! From TEAM.md to a collected result.

use team_scenarios::Crew;

#[test]
fn a_task_goes_out_and_its_result_is_collected_once() {
    let crew = Crew::started(&["w1", "w2"]);
    let sent = crew.ws.json([
        "send",
        "--watch-result",
        "w1",
        "fake: send to=w2 text=\"hello from w1\"\nfake: report status=success summary=\"did it\"",
    ]);
    assert_eq!(sent["watching"], true, "{sent}");
    assert_eq!(sent["case_id"], "1", "{sent}");
    crew.ws.ok(["wait", "--task", "1", "--timeout", "20"]);
    crew.wait_for_text("w2", "hello from w1");
    let collected = crew.ws.json(["collect"]);
    assert_eq!(collected["collected"], 1, "{collected}");
    assert_eq!(collected["results"][0]["summary"], "did it");
    assert_eq!(collected["results"][0]["via"], "mcp");
    assert_eq!(crew.ws.json(["collect"])["collected"], 0);
    crew.finish();
}

#[test]
fn a_stopped_team_goes_on_with_what_it_knew() {
    let crew = Crew::started(&["w1"]);
    crew.ws.ok(["send", "w1", "the word is heron", "--wait", "answered", "--timeout", "20"]);
    crew.ws.ok(["shutdown"]);
    assert_eq!(crew.status()["state"], "stopped");
    crew.ws.ok(["restart", "--headless"]);
    crew.ws.ok(["send", "w1", "fake: recall 1", "--wait", "answered", "--timeout", "20"]);
    let texts = crew.texts("w1");
    assert!(texts.iter().any(|it| it.contains("the word is heron")), "{texts:?}");
    assert_eq!(crew.events_of("restart.fresh_spawn").len(), 0);
    crew.finish();
}
