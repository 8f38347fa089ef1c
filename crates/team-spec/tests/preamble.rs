//! What a worker is told.

use std::collections::BTreeMap;

use team_spec::{Preamble, WORKER_PREAMBLE, fill};

fn preamble() -> Preamble<'static> {
    Preamble {
        agent: "builder",
        role: "Builds what the plan names",
        team: "demo",
        goal: "Ship {agent}",
        peers: &[("planner", "Lead"), ("tester", "Tries what was built")],
        send_tool: "mcp__team_orchestrator__send_message",
        report_tool: "mcp__team_orchestrator__report_result",
        read_tool: "mcp__team_orchestrator__team_read",
        human_tool: "mcp__team_orchestrator__request_human",
    }
}

#[test]
fn a_worker_is_told_who_it_is_and_how_to_report() {
    insta::assert_snapshot!(preamble().render());
}

#[test]
fn a_worker_alone_without_a_goal_is_told_so() {
    let told = Preamble { goal: " ", peers: &[], ..preamble() }.render();
    assert!(told.contains("nobody else yet") && told.contains("not stated"), "{told}");
}

#[test]
fn the_preamble_uses_no_word_without_a_value_and_stays_short() {
    let words =
        ["agent", "role", "team", "goal", "peers", "send_tool", "report_tool", "read_tool", "human_tool"];
    for word in words {
        assert!(WORKER_PREAMBLE.contains(&format!("{{{word}}}")), "{word}");
    }
    let values: BTreeMap<&str, &str> = words.iter().map(|it| (*it, "")).collect();
    assert!(!fill(WORKER_PREAMBLE, &values).contains(['{', '}']));
    assert!(WORKER_PREAMBLE.len() < 3000);
}

#[test]
fn values_are_put_in_once_and_unknown_words_stay() {
    let values = BTreeMap::from([("a", "{b}"), ("b", "x")]);
    assert_eq!(fill("{a} {b} {c} { {a", &values), "{b} x {c} { {a");
    assert_eq!(fill("{{a}} 研{b}", &values), "{{b}} 研x");
}
