//! `status`: what a person sees, and that programs see the same.

use team_scenarios::{Crew, SOON};

/// Columns of a line, where wide scripts take two each.
fn columns(line: &str) -> usize {
    line.chars().map(|it| if u32::from(it) >= 0x2e80 { 2 } else { 1 }).sum()
}

// Case 072.
#[test]
fn text_and_json_say_the_same_and_the_text_fits_80_columns() {
    let crew = Crew::started(&["busy-one", "idle-one", "研究员"]);
    crew.control("busy-one", "busy 60");
    crew.wait_for_activity("busy-one", "working");
    crew.control("研究员", "dialog perm");
    crew.wait_for_activity("研究员", "awaiting_approval");
    crew.ws.ok(["send", "busy-one", "a question that has to wait"]);
    let output = crew.ws.run(["status"]);
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
    let text = output.stdout;
    assert!(text.lines().all(|it| columns(it) <= 80), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
    // Who waits for a person is loud without color, and what to run stands there to be pasted.
    assert!(text.contains("AWAITING_APPROVAL 研究员: Bash `touch made-by-fake`"), "{text}");
    let question = crew.ws.json(["approvals"])["approvals"][0]["request_id"].clone();
    let command = format!("team-agent approve 研究员 {} --allow", question.as_str().unwrap_or_default());
    assert!(text.lines().any(|it| it.trim() == command), "{text}");
    let status = crew.status();
    let agents = status["agents"].as_object().expect("there are agents");
    assert_eq!(agents.len(), 3, "{status}");
    for (name, agent) in agents {
        let line =
            text.lines().find(|it| it.starts_with(name.as_str())).unwrap_or_else(|| panic!("{name}: {text}"));
        let doing = agent["activity"]["state"].as_str().unwrap_or_default();
        assert!(line.to_lowercase().contains(doing), "{line} - {agent}");
        assert!(line.contains("fake"), "{line}");
    }
    assert_eq!(agents["busy-one"]["held"]["busy"], 1, "{status}");
    assert!(text.contains("1 held: busy"), "{text}");
    let wide: Vec<usize> = text
        .lines()
        .filter(|it| it.contains(" fake "))
        .filter_map(|it| it.find(" fake ").map(|at| columns(&it[..at])))
        .collect();
    assert!(wide.len() == 3 && wide.iter().all(|it| *it == wide[0]), "{text}");
    let waits =
        status["attention"].as_array().into_iter().flatten().find(|it| it["kind"] == "awaiting_approval");
    assert_eq!(waits.map(|it| &it["command"]), Some(&command.into()), "{status}");
    crew.finish();
}

#[test]
fn one_agent_can_be_looked_at_alone() {
    let crew = Crew::started(&["w1", "w2"]);
    let text = crew.ws.ok(["status", "w2"]);
    assert!(text.contains("\nw2 ") && !text.contains("\nw1 "), "{text}");
    let answer = crew.ws.json(["status", "w2"]);
    assert_eq!(answer["agents"].as_object().map(serde_json::Map::len), Some(1), "{answer}");
    crew.finish();
}

#[test]
fn a_stopped_team_says_so() {
    let crew = Crew::started(&["w1"]);
    crew.ws.ok(["send", "--watch-result", "w1", "fake: report summary=\"all of it\""]);
    crew.ws.ok(["wait", "--task", "1", "--timeout", "20"]);
    crew.ws.ok(["shutdown"]);
    insta::assert_snapshot!(crew.ws.snapshot(["status"]), @r"
    --- stdout
    Team current (crew): stopped
    AGENT  PROVIDER  DOING    NOTES
    w1     fake      stopped  shutdown
    1 result: 1 to collect
    Leader: none, results wait here
    One result waits:
      team-agent collect
    The team can go on where it was:
      team-agent restart
    --- exit 0
    ");
    crew.finish();
}

#[test]
fn a_team_whose_terminals_were_taken_away_is_lost_and_says_how_to_go_on() {
    let crew = Crew::started(&["w1"]);
    crew.tmux(&["kill-server"]);
    crew.ws.wait_until("the team is lost", || crew.status()["state"] == "lost", SOON);
    let status = crew.status();
    assert_eq!(status["ready"], false, "{status}");
    let w1 = &status["agents"]["w1"];
    assert_eq!(
        (&w1["session"]["state"], &w1["session"]["pid"]),
        (&"stopped".into(), &serde_json::Value::Null),
        "{w1}"
    );
    assert_eq!(w1["activity"]["state"], "unknown", "{w1}");
    let text = crew.ws.ok(["status"]);
    assert!(text.contains("LOST") && text.contains("\n  team-agent restart\n"), "{text}");
    crew.ws.ok(["restart", "--headless"]);
    assert_eq!(crew.status()["state"], "running");
    crew.finish();
}

// Case 072, for the tools.
#[test]
fn the_tools_say_of_the_agents_what_the_command_says() {
    let crew = Crew::started(&["idle-one", "w1", "w2"]);
    crew.control("idle-one", "dialog perm");
    crew.wait_for_activity("idle-one", "awaiting_approval");
    let before = crew.status();
    crew.ask("w1", r#"fake: call team_read {"what":"tree"}"#);
    let answers = crew.mcp("w1");
    let mut trees =
        answers.iter().filter_map(|it| it["message"]["result"]["structuredContent"]["tree"].as_array());
    let told = trees.next_back().unwrap_or_else(|| panic!("{answers:#?}"));
    assert_eq!(told.len(), 3, "{told:#?}");
    // The one that asks works while it does.
    for said in told.iter().filter(|it| it["name"] != "w1") {
        let shown = &before["agents"][said["name"].as_str().unwrap_or_default()];
        assert_eq!(said["activity"], shown["activity"]["state"], "{said} - {shown}");
        assert_eq!(said["state"], shown["session"]["state"], "{said} - {shown}");
        assert_eq!(said["role"], shown["role"], "{said} - {shown}");
    }
    assert!(told.iter().any(|it| it["activity"] == "awaiting_approval"), "{told:#?}");
    crew.finish();
}
