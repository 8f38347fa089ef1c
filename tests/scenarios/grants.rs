//! Grants: what only a person allows a team, and who that person is not.

use serde_json::{Value, json};
use team_scenarios::{Crew, SOON};
use team_testkit::TestPane;

const RULES: &str = "---\nname: crew\napprovals:\n  allow: [\"Bash(touch *)\"]\n---\n";

fn written() -> Crew {
    let crew = Crew::written(&["w1"]);
    crew.ws.write(".team/current/TEAM.md", RULES);
    crew
}

/// Lets `w1` ask whether it may touch a file.
fn ask(crew: &Crew, file: &str) {
    let ask = format!("fake: ask-permission Bash {{\"command\":\"touch {file}\"}}");
    crew.ws.ok(["send", "w1", &ask, "--wait", "turn_started", "--timeout", "20"]);
}

fn open(crew: &Crew) -> Value {
    crew.ws.json(["approvals"])["approvals"][0].clone()
}

#[test]
fn rules_that_allow_something_need_a_grant_that_can_be_taken_back() {
    let crew = written();
    let refused = crew.ws.json(["quick-start", "--headless"]);
    assert_eq!(refused["error"]["code"], "needs_grant", "{refused}");
    assert_eq!(
        refused["error"]["hint"],
        "a person runs `team-agent grant approvals` and starts the team then"
    );
    assert!(crew.ws.state_directory().is_none_or(|it| !it.exists()), "nothing has changed");

    let granted = crew.ws.json(["grant", "approvals"]);
    assert_eq!(granted["approvals"], json!({ "current": ["Bash(touch *)"] }), "{granted}");
    crew.ws.ok(["quick-start", "--headless"]);
    ask(&crew, "a");
    crew.ws.wait_until("the rule answers", || crew.events_of("approval.closed").len() == 1, SOON);

    // What was added since is not granted.
    crew.ws.ok(["shutdown"]);
    crew.ws.write(".team/current/TEAM.md", &RULES.replace("touch *)\"", "touch *)\", Read"));
    let refused = crew.ws.json(["restart", "--headless"]);
    assert_eq!(refused["error"]["message"], "TEAM.md allows what nobody has granted: Read", "{refused}");
    crew.ws.write(".team/current/TEAM.md", RULES);
    crew.ws.ok(["restart", "--headless"]);

    // Taken back, it counts no more, also for the team that runs.
    crew.ws.ok(["grant", "approvals", "--revoke"]);
    ask(&crew, "b");
    crew.ws.wait_until("a person is asked", || open(&crew).is_object(), SOON);
    let question = open(&crew)["request_id"].as_str().unwrap_or_default().to_owned();
    crew.ws.ok(["approve", "w1", &question, "--deny"]);
    let told: Vec<Value> = crew
        .events_of("grant.changed")
        .iter()
        .map(|it| json!([it["by"]["kind"], it["event"]["grant"], it["event"]["given"]]))
        .collect();
    assert_eq!(told, [json!(["person", "approvals", true]), json!(["person", "approvals", false])]);

    // A team that is forgotten leaves no right to the next one of its name.
    crew.ws.ok(["grant", "approvals"]);
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["delete", "current", "--confirm"]);
    assert_eq!(crew.ws.json(["grant"])["approvals"], json!({}));
    crew.finish();
}

#[test]
fn no_agent_grants_anything() {
    let crew = Crew::started(&["w1"]);
    for line in ["team-agent grant trust --json", "env -u TEAM_AGENT_SEAT team-agent grant trust --json"] {
        let (said, code) = crew.shell("w1", line);
        assert_eq!(code, 1, "{line}: {said}");
        assert!(said.contains("not_allowed"), "{line}: {said}");
    }
    // Nor does the agent program that leads, which has no seat.
    for mark in ["CLAUDECODE", "CODEX_THREAD_ID", "GEMINI_CLI", "COPILOT_CLI", "OPENCODE"] {
        let mut command = crew.ws.command(crew.ws.program());
        let output = command.args(["grant", "trust", "--json"]).env(mark, "1").output().expect("it runs");
        let answer: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        assert_eq!(answer["error"]["code"], "not_allowed", "{mark}: {answer}");
    }
    assert_eq!(crew.ws.json(["grant"])["trust"], Value::Null);
    let granted = crew.ws.json(["grant", "trust"]);
    assert_eq!(granted["trust"], crew.ws.path().to_str().expect("it is text"), "{granted}");
    crew.ws.ok(["grant", "trust", "--revoke"]);
    assert_eq!(crew.ws.json(["grant"])["trust"], Value::Null);
    crew.finish();
}

#[test]
fn a_person_at_the_terminal_is_asked_and_may_say_no() {
    let crew = written();
    {
        let start = "team-agent quick-start --headless; echo ended with $?; exec cat";
        let person = TestPane::open(&crew.ws, &["sh", "-c", start]);
        person.wait_for("grant it? [y/N]", SOON);
        assert!(person.screen().contains("Bash(touch *)"), "{}", person.screen());
        person.keys(&["Enter"]);
        person.wait_for("ended with 1", SOON);
        assert!(person.screen().contains("team-agent grant approvals"), "{}", person.screen());
        assert!(crew.ws.state_directory().is_none_or(|it| !it.exists()), "nothing has changed");
    }
    {
        let start = "team-agent quick-start --headless; echo ended with $?; exec cat";
        let person = TestPane::open(&crew.ws, &["sh", "-c", start]);
        person.wait_for("grant it? [y/N]", SOON);
        // What is written there while they think is not what they say yes to.
        crew.ws.write(".team/current/TEAM.md", &RULES.replace("touch", "rm"));
        person.keys(&["y", "Enter"]);
        person.wait_for("grant it? [y/N]", SOON);
        person.wait_for("ended with 1", SOON);
        assert!(person.screen().contains("nobody has granted: Bash(rm *)"), "{}", person.screen());
        crew.ws.write(".team/current/TEAM.md", RULES);
        crew.start();
    }
    assert_eq!(crew.ws.json(["grant"])["approvals"], json!({ "current": ["Bash(touch *)"] }));
    crew.finish();
}

#[test]
fn a_question_of_trust_that_was_granted_gets_one_key_and_another_folders_none() {
    for (dialogs, keys, ready) in [
        ("dialog trust", "1", true),
        // Three in a row look like one that no key closes: two tries, then it is a person's.
        ("dialog trust\ndialog trust\ndialog trust", "11", false),
        ("dialog trust /elsewhere", "", false),
    ] {
        let mut crew = Crew::written(&["w1"]);
        crew.script(dialogs);
        crew.ws.ok(["grant", "trust"]);
        let started = crew.ws.run(["quick-start", "--headless"]);
        assert_eq!(started.code, Some(i32::from(!ready)), "{dialogs}: {}", started.snapshot());
        assert_eq!(crew.bytes("w1"), keys.as_bytes(), "{dialogs}");
        assert_eq!(crew.events_of("dialog.pressing").len(), keys.len(), "{dialogs}");
        assert_eq!(crew.activity("w1"), if ready { "idle" } else { "awaiting_trust" }, "{dialogs}");
        crew.finish();
    }
}
