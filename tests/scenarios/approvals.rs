//! Permission questions: seen at once, answered once, by a person or by a rule that a person wrote, never by an agent.

use std::fs;

use serde_json::Value;
use team_scenarios::{Crew, SOON};
use team_testkit::TestPane;

const FAILPOINT: &str = "TEAM_AGENT_FAILPOINT";

/// Lets an agent ask whether it may touch a file, and returns the question as `approvals` shows it.
fn asks(crew: &Crew, agent: &str) -> Value {
    let ask = r#"fake: ask-permission Bash {"command":"touch a"}"#;
    crew.ws.ok(["send", agent, ask, "--wait", "turn_started", "--timeout", "20"]);
    question(crew, agent)
}

/// Waits for a question of an agent.
fn question(crew: &Crew, agent: &str) -> Value {
    let mut found = Value::Null;
    let look = || {
        let shown = crew.ws.json(["approvals", agent]);
        found = shown["approvals"][0].clone();
        !found.is_null()
    };
    crew.ws.wait_until(&format!("{agent} asks"), look, SOON);
    found
}

fn id(question: &Value) -> String {
    question["request_id"].as_str().unwrap_or_default().to_owned()
}

fn none_is_open(crew: &Crew) -> bool {
    crew.ws.json(["approvals"])["approvals"].as_array().is_some_and(Vec::is_empty)
}

fn seen(crew: &Crew, agent: &str, event: &str) -> Vec<Value> {
    crew.fake_events(agent).into_iter().filter(|it| it["event"] == event).collect()
}

/// The ways in which questions were closed.
fn closed(crew: &Crew) -> Vec<Value> {
    crew.events_of("approval.closed").into_iter().map(|it| it["event"]["how"].clone()).collect()
}

/// What an agent's program told its model of the last tool.
fn transcript(crew: &Crew, agent: &str) -> String {
    let dir = crew.fake_home(agent).join("projects");
    let below =
        |dir: std::path::PathBuf| fs::read_dir(dir).into_iter().flatten().flatten().map(|it| it.path());
    below(dir).flat_map(below).map(|it| fs::read_to_string(it).unwrap_or_default()).collect()
}

// Case 040.
#[test]
fn a_question_shows_at_once_and_the_command_that_is_shown_answers_it() {
    let crew = Crew::started(&["w1"]);
    let asked = asks(&crew, "w1");
    assert_eq!((&asked["tool"], &asked["agent"]), (&"Bash".into(), &"w1".into()), "{asked}");
    assert_eq!(asked["input"], r#"{"command":"touch a"}"#);
    assert_eq!((&asked["choices"][0], &asked["choices"][1]), (&"allow".into(), &"deny".into()));
    assert!(asked["since"].is_string());
    assert_eq!(crew.status()["leader"]["untold"], 1, "the leader is told once");
    let text = crew.ws.ok(["status"]);
    let command = format!("team-agent approve w1 {} --allow", id(&asked));
    assert!(text.contains("AWAITING_APPROVAL w1: Bash `touch a`"), "{text}");
    assert!(text.lines().any(|it| it.trim() == command), "{text}");
    assert!(crew.ws.ok(["approvals"]).lines().any(|it| it.trim() == command));

    let words: Vec<&str> = command.split(' ').skip(1).collect();
    let said = crew.ws.ok(words.clone());
    assert!(said.contains("it was allowed by a person"), "{said}");
    crew.wait_for_activity("w1", "idle");
    assert_eq!(seen(&crew, "w1", "permission_by_hook")[0]["allowed"], true);
    assert!(seen(&crew, "w1", "dialog_answered").is_empty(), "no key was pressed");
    let answering = crew.events_of("approval.answering");
    assert_eq!(answering.len(), 1);
    assert_eq!(
        (&answering[0]["event"]["by"], &answering[0]["by"]["kind"]),
        (&"person".into(), &"person".into())
    );
    assert_eq!(closed(&crew), ["answered"]);
    assert_eq!(crew.status()["leader"]["untold"], 0, "what was answered is no news");
    let late = crew.ws.json(words);
    assert_eq!(late["error"]["code"], "closed", "{late}");
    assert!(late["error"]["message"].as_str().unwrap_or_default().contains("allowed by a person"), "{late}");
    crew.finish();
}

#[test]
fn a_no_comes_with_its_words() {
    let crew = Crew::started(&["w1"]);
    let asked = asks(&crew, "w1");
    crew.ws.ok(["approve", "w1", &id(&asked), "--deny", "--message", "use the other file"]);
    crew.wait_for_activity("w1", "idle");
    assert_eq!(seen(&crew, "w1", "permission_by_hook")[0]["allowed"], false);
    assert!(transcript(&crew, "w1").contains("use the other file"));
    crew.finish();
}

#[test]
fn an_answer_in_the_agents_terminal_closes_the_question() {
    let crew = Crew::started(&["w1"]);
    let ask = "fake: ask-permission\nfake: think 1000";
    crew.ws.ok(["send", "w1", ask, "--wait", "turn_started", "--timeout", "20"]);
    let asked = question(&crew, "w1");
    crew.ws.wait_until("the dialog shows", || !seen(&crew, "w1", "dialog").is_empty(), SOON);
    crew.tmux(&["send-keys", "-t", &crew.pane("w1"), "Enter"]);
    crew.ws.wait_until("nothing is open", || none_is_open(&crew), SOON);
    let late = crew.ws.json(["approve", "w1", &id(&asked), "--deny"]);
    assert_eq!(late["error"]["code"], "closed", "{late}");
    assert!(late["error"]["message"].as_str().unwrap_or_default().contains("own terminal"), "{late}");
    assert_eq!(closed(&crew), ["in_pane"]);
    assert!(crew.events_of("approval.answering").is_empty());
    crew.wait_for_activity("w1", "idle");
    let answers = crew.ws.state_directory().expect("it runs").join("seats/current/w1/answers");
    crew.ws.wait_until("no file is left", || fs::read_dir(&answers).is_ok_and(|it| it.count() == 0), SOON);
    crew.finish();
}

#[test]
fn of_two_answers_at_once_the_first_counts() {
    let crew = Crew::started(&["w1"]);
    let asked = id(&asks(&crew, "w1"));
    let codes: Vec<Value> = std::thread::scope(|scope| {
        let both = ["--allow", "--deny"].map(|it| {
            let (ws, asked) = (&crew.ws, &asked);
            scope.spawn(move || ws.json(["approve", "w1", asked, it]))
        });
        both.into_iter().map(|it| it.join().expect("it ran")).collect()
    });
    let ok = codes.iter().filter(|it| it["ok"] == true).count();
    assert_eq!(ok, 1, "{codes:?}");
    assert_eq!(crew.events_of("approval.answering").len(), 1);
    let said = &crew.events_of("approval.answering")[0]["event"]["decision"];
    crew.wait_for_activity("w1", "idle");
    assert_eq!(seen(&crew, "w1", "permission_by_hook")[0]["allowed"], *said == "allow");
    crew.finish();
}

#[test]
fn a_coordinator_that_dies_with_an_answer_in_its_hand_has_a_successor_who_gives_it() {
    for point in ["answer:before:1", "answer:orphan:1", "answer:after:1"] {
        let mut crew = Crew::written(&["w1"]);
        crew.ws.set(FAILPOINT, point);
        crew.start();
        let asked = id(&asks(&crew, "w1"));
        crew.ws.unset(FAILPOINT);
        let epochs = crew.events_of("coordinator.started").len();
        let answer = crew.ws.json(["approve", "w1", &asked, "--allow"]);
        crew.ws.wait_until("it goes on", || !seen(&crew, "w1", "permission_by_hook").is_empty(), SOON);
        assert!(crew.events_of("coordinator.started").len() > epochs, "{point}");
        assert_eq!(seen(&crew, "w1", "permission_by_hook")[0]["allowed"], true, "{point}: {answer}");
        assert_eq!(crew.events_of("approval.answering").len(), 1, "{point}");
        crew.ws.wait_until("nothing is open", || none_is_open(&crew), SOON);
        assert_eq!(closed(&crew), ["answered"], "{point}");
        crew.finish();
    }
}

// Case 029.
#[test]
fn a_message_while_a_question_is_open_neither_answers_it_nor_is_lost() {
    let crew = Crew::started(&["w1"]);
    let asked = id(&asks(&crew, "w1"));
    crew.ws.ok(["send", "w1", "yes, go on", "--wait", "accepted"]);
    crew.ws.wait_until("it is held", || crew.status()["agents"]["w1"]["held"]["dialog"] == 1, SOON);
    assert_eq!(id(&question(&crew, "w1")), asked);
    assert!(seen(&crew, "w1", "dialog_answered").is_empty());
    crew.ws.ok(["approve", "w1", &asked, "--allow"]);
    crew.wait_for_text("w1", "yes, go on");
    crew.wait_for_activity("w1", "idle");
    crew.finish();
}

#[test]
fn no_agent_answers_itself_or_another_one() {
    let crew = Crew::started(&["w1", "w2"]);
    let asked = id(&asks(&crew, "w1"));
    for line in [
        format!("team-agent approve w1 {asked} --allow --json"),
        format!("env -u TEAM_AGENT_SEAT team-agent approve w1 {asked} --allow --json"),
        format!(
            "setsid -f sh -c 'team-agent approve w1 {asked} --allow --json >said 2>&1'; while ! grep -q error said; do sleep 0.05; done; cat said; false"
        ),
    ] {
        let (said, code) = crew.shell("w2", &line);
        assert_eq!(code, 1, "{line}: {said}");
        assert!(said.contains("not_allowed"), "{line}: {said}");
    }
    assert!(crew.events_of("approval.answering").is_empty());
    assert!(crew.tool_calls("w2").iter().all(|it| !it.contains("\"approve")), "no tool approves");
    crew.ws.ok(["approve", "w1", &asked, "--deny"]);
    crew.wait_for_activity("w1", "idle");

    // While it is asked, an agent acts only by what it left behind.
    let left = "(while ! test -e which; do sleep 0.05; done; team-agent approve w1 $(cat which) --allow --json >own 2>&1; echo >own-done) >/dev/null 2>&1 &";
    crew.shell("w1", left);
    let own = id(&asks(&crew, "w1"));
    crew.ws.write("which", &own);
    crew.ws.wait_until("it has tried", || crew.ws.path().join("own-done").exists(), SOON);
    assert!(crew.ws.read("own").contains("not_allowed"), "{}", crew.ws.read("own"));
    assert_eq!(id(&question(&crew, "w1")), own);
    crew.ws.ok(["approve", "w1", &own, "--deny"]);
    crew.finish();
}

#[test]
fn a_rule_of_the_person_answers_and_says_which_it_was() {
    let crew = Crew::written(&["w1"]);
    let rules =
        "---\nname: crew\napprovals:\n  allow: [\"Bash(touch *)\"]\n  deny: [\"Bash(touch b*)\"]\n---\n";
    crew.ws.write(".team/current/TEAM.md", rules);
    crew.ws.ok(["grant", "approvals"]);
    let started = crew.ws.ok(["quick-start", "--headless"]);
    assert!(started.contains("allowed unasked by TEAM.md: Bash(touch *)"), "{started}");
    // What an agent writes there afterwards changes nothing.
    crew.ws.write(".team/current/TEAM.md", &rules.replace("touch *", "*"));
    let ask = |command: &str| format!("fake: ask-permission Bash {{\"command\":\"{command}\"}}");
    crew.ask("w1", &ask("touch a"));
    crew.ask("w1", &ask("touch b"));
    let answers: Vec<(Value, Value, Value)> = crew
        .events_of("approval.answering")
        .into_iter()
        .map(|it| {
            (it["event"]["decision"].clone(), it["event"]["by"].clone(), it["event"]["pattern"].clone())
        })
        .collect();
    assert_eq!(
        answers,
        [
            ("allow".into(), "rule".into(), "Bash(touch *)".into()),
            ("deny".into(), "rule".into(), "Bash(touch b*)".into())
        ]
    );
    assert_eq!(crew.status()["leader"]["untold"], 0);
    crew.ws.ok(["send", "w1", &ask("touch a; touch c"), "--wait", "turn_started", "--timeout", "20"]);
    let asked = id(&question(&crew, "w1"));
    assert_eq!(crew.status()["leader"]["untold"], 1);
    crew.ws.ok(["approve", "w1", &asked, "--deny"]);
    crew.finish();
}

#[test]
fn a_question_about_the_teams_own_tools_is_allowed_and_written_down() {
    let crew = Crew::started(&["w1"]);
    crew.ask("w1", r#"fake: ask-permission mcp__team_orchestrator__report_result {"summary":"x"}"#);
    let answers = crew.events_of("approval.answering");
    assert_eq!(answers.len(), 1);
    assert_eq!(
        (&answers[0]["event"]["by"], &answers[0]["event"]["decision"]),
        (&"own_tool".into(), &"allow".into())
    );
    crew.ws.ok([
        "send",
        "w1",
        "fake: ask-permission mcp__team_orchestrator2__x {}",
        "--wait",
        "turn_started",
    ]);
    let asked = id(&question(&crew, "w1"));
    crew.ws.ok(["approve", "w1", &asked, "--deny"]);
    crew.finish();
}

#[test]
fn a_question_ends_with_its_agent_and_leaves_nobody_waiting() {
    let crew = Crew::started(&["w1"]);
    let asked = id(&asks(&crew, "w1"));
    let pid = crew.status()["agents"]["w1"]["session"]["pid"].as_i64().expect("it runs");
    crew.kill(pid);
    crew.ws.wait_until("nothing is open", || none_is_open(&crew), SOON);
    let late = crew.ws.json(["approve", "w1", &asked, "--allow"]);
    assert_eq!(late["error"]["code"], "closed", "{late}");
    crew.finish();
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let crew = Crew::started(&["w1", "w2"]);
    let asked = id(&asks(&crew, "w1"));
    for (agent, request, code) in [
        ("w2", asked.as_str(), "no_such_request"),
        ("w1", "q-1", "no_such_request"),
        ("nobody", asked.as_str(), "unknown_agent"),
        ("w1", "17x", "bad_request_id"),
    ] {
        let answer = crew.ws.json(["approve", agent, request, "--allow"]);
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    assert_eq!(crew.ws.run(["approve", "w1", &asked]).code, Some(2), "a yes or a no is needed");
    crew.finish();
}

/// A team whose programs take answers in their own dialog only.
fn by_keys(agents: &[&'static str]) -> Crew {
    let mut crew = Crew::written(agents);
    crew.ws.set("FAKE_ANSWERS", "keys");
    crew
}

/// How often a key was pressed: not where the screen changed under it.
fn pressed(crew: &Crew) -> usize {
    let told = crew.events_of("approval.pressing");
    told.len() - 2 * told.iter().filter(|it| it["event"]["refused"] == true).count()
}

fn answered(crew: &Crew, agent: &str) -> Vec<Value> {
    seen(crew, agent, "dialog_answered").into_iter().map(|it| it["choice"].clone()).collect()
}

#[test]
fn an_answer_where_only_the_dialog_takes_one_is_one_key_of_the_question_that_is_shown() {
    let crew = by_keys(&["w1"]);
    crew.start();
    let asked = asks(&crew, "w1");
    let command = asked["command"].as_str().unwrap_or_default().to_owned();
    assert_eq!(command, format!("team-agent approve w1 {} --allow", id(&asked)));
    let said = crew.ws.ok(command.split(' ').skip(1).collect::<Vec<_>>());
    assert!(said.contains("it was allowed by a person"), "{said}");
    assert_eq!(answered(&crew, "w1"), [1]);
    crew.wait_for_activity("w1", "idle");
    assert_eq!(pressed(&crew), 1);
    assert!(crew.events_of("approval.not_given").is_empty());

    // A no stops the turn; its words come as a message.
    let asked = id(&asks(&crew, "w1"));
    let said = crew.ws.ok(["approve", "w1", &asked, "--deny", "--message", "use the other file"]);
    assert!(said.contains("it was denied by a person; your words go to it as message m-"), "{said}");
    assert_eq!(answered(&crew, "w1"), [1, 3]);
    crew.wait_for_text("w1", "was denied: use the other file");
    crew.wait_for_activity("w1", "idle");
    let answers = crew.ws.state_directory().expect("it runs").join("seats/current/w1/answers");
    crew.ws.wait_until("no note is left", || fs::read_dir(&answers).is_ok_and(|it| it.count() == 0), SOON);
    crew.finish();
}

#[test]
fn a_rule_of_the_person_presses_the_key_too() {
    let mut crew = by_keys(&["w1"]);
    let rules = "---\nname: crew\napprovals:\n  allow: [\"Bash(touch *)\"]\n---\n";
    crew.ws.write(".team/current/TEAM.md", rules);
    crew.ws.ok(["grant", "approvals"]);
    crew.ws.set("FAKE_ANSWERS", "keys");
    crew.start();
    crew.ask("w1", r#"fake: ask-permission Bash {"command":"touch a"}"#);
    crew.ask("w1", r#"fake: ask-permission mcp__team_orchestrator__report_result {"summary":"x"}"#);
    let by: Vec<Value> =
        crew.events_of("approval.answering").into_iter().map(|it| it["event"]["by"].clone()).collect();
    assert_eq!(by, ["rule", "own_tool"]);
    assert_eq!(answered(&crew, "w1"), [1, 1]);
    crew.finish();
}

#[test]
fn a_person_in_the_pane_may_be_faster_than_the_key() {
    let crew = by_keys(&["w1"]);
    crew.start();
    let asked = id(&asks(&crew, "w1"));
    crew.ws.wait_until("the dialog shows", || !seen(&crew, "w1", "dialog").is_empty(), SOON);
    crew.tmux(&["send-keys", "-t", &crew.pane("w1"), "3"]);
    crew.ws.wait_until("nothing is open", || none_is_open(&crew), SOON);
    let late = crew.ws.json(["approve", "w1", &asked, "--allow"]);
    assert_eq!(late["error"]["code"], "closed", "{late}");
    assert!(late["error"]["message"].as_str().unwrap_or_default().contains("own terminal"), "{late}");
    assert!(crew.events_of("approval.pressing").is_empty());
    crew.finish();
}

#[test]
fn no_key_goes_to_another_dialog_nor_to_a_question_that_somebody_is_at() {
    let crew = by_keys(&["w1"]);
    crew.start();
    let asked = id(&asks(&crew, "w1"));
    crew.ws.wait_until("the dialog shows", || !seen(&crew, "w1", "dialog").is_empty(), SOON);
    // Somebody has moved to another choice.
    crew.tmux(&["send-keys", "-t", &crew.pane("w1"), "Down"]);
    let refused = crew.ws.json(["approve", "w1", &asked, "--allow"]);
    assert_eq!(refused["error"]["code"], "not_on_screen", "{refused}");
    let hint = refused["error"]["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("team-agent attach w1 --type"), "{refused}");
    assert!(answered(&crew, "w1").is_empty() && crew.events_of("approval.pressing").is_empty());
    assert_eq!(id(&question(&crew, "w1")), asked, "it is open as before");
    assert_eq!(crew.status()["leader"]["untold"], 1);
    // As it was opened it is answered.
    crew.tmux(&["send-keys", "-t", &crew.pane("w1"), "Up"]);
    crew.ws.ok(["approve", "w1", &asked, "--allow"]);
    assert_eq!(answered(&crew, "w1"), [1]);
    crew.wait_for_activity("w1", "idle");
    crew.finish();
}

#[test]
fn a_successor_presses_what_is_still_shown_and_nothing_twice() {
    for point in ["answer:before:1", "answer:orphan:1", "press:before:1", "press:orphan:1", "press:after:1"] {
        let mut crew = by_keys(&["w1"]);
        crew.ws.set(FAILPOINT, point);
        crew.start();
        let asked = id(&asks(&crew, "w1"));
        crew.ws.unset(FAILPOINT);
        let epochs = crew.events_of("coordinator.started").len();
        let answer = crew.ws.json(["approve", "w1", &asked, "--allow"]);
        crew.ws.wait_until("it goes on", || !answered(&crew, "w1").is_empty(), SOON);
        crew.ws.wait_until("nothing is open", || none_is_open(&crew), SOON);
        crew.wait_for_activity("w1", "idle");
        assert!(crew.events_of("coordinator.started").len() > epochs, "{point}");
        assert_eq!(answered(&crew, "w1"), [1], "{point}: {answer}");
        assert_eq!(crew.events_of("approval.answering").len(), 1, "{point}");
        crew.finish();
    }
}

#[test]
fn no_key_is_pressed_while_somebody_who_may_type_is_there() {
    let crew = by_keys(&["w1"]);
    crew.start();
    let asked = id(&asks(&crew, "w1"));
    {
        let person = TestPane::open(&crew.ws, &["team-agent", "attach", "w1", "--type"]);
        person.wait_for("Do you want to proceed?", SOON);
        let refused = crew.ws.json(["approve", "w1", &asked, "--allow"]);
        assert_eq!(refused["error"]["code"], "not_on_screen", "{refused}");
        let why = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(why.contains("somebody is at its terminal"), "{refused}");
        person.keys(&["C-b", "d"]);
        crew.ws.wait_until("they have left", || person.exit_code() == Some(0), SOON);
    }
    assert!(answered(&crew, "w1").is_empty() && crew.events_of("approval.pressing").is_empty());
    crew.ws.ok(["approve", "w1", &asked, "--allow"]);
    assert_eq!(answered(&crew, "w1"), [1]);
    crew.wait_for_activity("w1", "idle");
    crew.finish();
}

#[test]
fn a_key_answers_one_question_and_not_the_same_one_asked_again() {
    let crew = by_keys(&["w1"]);
    crew.start();
    let ask = r#"fake: ask-permission Bash {"command":"touch a"}"#;
    let twice = format!("{ask}\n{ask}");
    crew.ws.ok(["send", "w1", &twice, "--wait", "turn_started", "--timeout", "20"]);
    let first = id(&question(&crew, "w1"));
    crew.ws.ok(["approve", "w1", &first, "--allow"]);
    let second = id(&question(&crew, "w1"));
    assert_ne!(first, second);
    crew.ws.wait_until("both were shown", || seen(&crew, "w1", "dialog").len() == 2, SOON);
    assert_eq!(answered(&crew, "w1"), [1]);
    let late = crew.ws.json(["approve", "w1", &first, "--allow"]);
    assert_eq!(late["error"]["code"], "closed", "{late}");
    crew.ws.ok(["approve", "w1", &second, "--deny"]);
    assert_eq!(answered(&crew, "w1"), [1, 3]);
    assert_eq!(pressed(&crew), 2);
    crew.wait_for_activity("w1", "idle");
    crew.finish();
}
