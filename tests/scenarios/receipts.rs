//! What a sender, a reporter and a collector are told, and that it is true.

use std::fs;

use serde_json::Value;
use team_scenarios::{Crew, SOON};
use team_testkit::TestWorkspace;

fn copies(crew: &Crew, agent: &str, part: &str) -> usize {
    crew.texts(agent).iter().map(|it| it.matches(part).count()).sum()
}

const LIST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;

fn initialize() -> String {
    let client =
        r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}"#;
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{client}}}\n{initialized}")
}

fn call(tool: &str, arguments: &str) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\"arguments\":{arguments}}}}}"
    )
}

fn requests(lines: &[&str]) -> String {
    lines.iter().flat_map(|it| [*it, "\n"]).collect()
}

fn error_of(answer: &Value) -> (String, String, String) {
    assert_eq!(answer["ok"], false, "{answer}");
    let text = |name: &str| answer["error"][name].as_str().unwrap_or_default().to_owned();
    (text("code"), text("message"), text("hint"))
}

// Case 057.
#[test]
fn a_retry_with_the_same_id_makes_no_second_copy() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "busy 60");
    crew.wait_for_activity("w1", "working");
    let send = ["send", "w1", "only once please", "--id", "k1", "--wait", "answered", "--timeout"];
    let first = crew.ws.run(send.iter().chain(&["0.5"]));
    assert_eq!(first.code, Some(4), "{}", first.snapshot());
    assert!(first.stdout.contains("held"), "{}", first.snapshot());
    assert_eq!(crew.ws.run(send.iter().chain(&["0.5"])).code, Some(4));
    crew.control("w1", "idle");
    crew.ws.ok(send.iter().chain(&["20"]));
    let again = crew.ws.json(send.iter().chain(&["20"]));
    assert_eq!(again["repeated"], true, "{again}");
    assert_eq!(again["step"], "answered", "{again}");
    assert_eq!(copies(&crew, "w1", "only once please"), 1);
    assert_eq!(crew.events_of("message.accepted").len(), 1);
    crew.finish();
}

// Case 060.
#[test]
fn an_unknown_receiver_is_refused_with_names_that_are_near() {
    let crew = Crew::started(&["w1", "reviewer"]);
    for (wanted, near) in
        [("W1", "w1"), ("revewer", "reviewer"), ("w", "w1"), ("nosuch", "the team has: reviewer, w1")]
    {
        let output = crew.ws.run(["send", wanted, "hi"]);
        assert_eq!(output.code, Some(1), "{}", output.snapshot());
        assert!(output.stderr.contains(near), "{}", output.snapshot());
    }
    let output = crew.ws.run(["send", "w1,nosuch", "hi"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    assert_eq!(crew.ws.run(["send", "w1", ""]).code, Some(2));
    assert_eq!(crew.ws.run(["send", "w1"]).code, Some(2));
    assert_eq!(crew.events_of("message.accepted").len(), 0);
    assert_eq!(crew.texts("w1"), Vec::<String>::new());
    crew.finish();
}

// Case 061.
#[test]
fn a_text_that_no_record_shows_is_never_called_delivered() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "write-transcript off\nhooks off");
    let output =
        crew.ws.run(["send", "w1", "into the void", "--wait", "answered", "--timeout", "30", "--json"]);
    let answer: Value = serde_json::from_str(&output.stdout).expect("it is JSON");
    assert_eq!(output.code, Some(4), "{answer}");
    assert_eq!(answer["receivers"][0]["receipt"]["step"], "unknown", "{answer}");
    let reason = answer["receivers"][0]["receipt"]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("no turn was seen"), "{answer}");
    assert_eq!(crew.events_of("message.submitted").len(), 0);
    assert_eq!(copies(&crew, "w1", "into the void"), 1);
    // The same id again types nothing.
    crew.control("w1", "write-transcript on\nhooks on");
    let text = crew.ws.ok(["explain", answer["message_id"].as_str().unwrap_or_default()]);
    assert!(text.contains("unknown"), "{text}");
    crew.ask("w1", "a later one");
    assert_eq!(copies(&crew, "w1", "into the void"), 1);
    crew.finish();
}

// Case 064.
#[test]
fn an_id_with_another_text_is_a_conflict_and_types_nothing() {
    let crew = Crew::started(&["w1"]);
    crew.ws.ok(["send", "w1", "the first text", "--id", "op-1", "--wait", "answered", "--timeout", "20"]);
    let before = crew.bytes("w1").len();
    let answer = crew.ws.json(["send", "w1", "another text", "--id", "op-1"]);
    assert_eq!(error_of(&answer).0, "id_conflict", "{answer}");
    // Also once the message has long left the state of open things.
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["restart", "--headless"]);
    let output = crew.ws.run(["send", "w1", "another text", "--id", "op-1"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    assert!(output.stderr.contains("op-1"), "{}", output.snapshot());
    assert_eq!(crew.events_of("message.accepted").len(), 1);
    assert_eq!(copies(&crew, "w1", "another text"), 0);
    assert!(before > 0);
    crew.finish();
}

#[test]
fn only_collect_changes_what_is_uncollected() {
    let crew = Crew::started(&["w1"]);
    crew.ws.ok(["send", "--watch-result", "w1", "fake: report summary=\"the one result\""]);
    crew.ws.ok(["wait", "--task", "1", "--timeout", "20"]);
    for looking in [
        vec!["status"],
        vec!["status", "w1"],
        vec!["inbox", "w1"],
        vec!["inbox", "leader"],
        vec!["results"],
        vec!["events"],
        vec!["explain", "w1"],
        vec!["doctor"],
    ] {
        crew.ws.ok(&looking);
        assert_eq!(crew.status()["results"]["uncollected"], 1, "{looking:?}");
    }
    let first = crew.ws.json(["collect"]);
    assert_eq!(first["collected"], 1, "{first}");
    assert_eq!(first["results"][0]["summary"], "the one result");
    assert_eq!(crew.ws.json(["collect"])["collected"], 0);
    assert_eq!(crew.events_of("collect.result").len(), 1);
    let status = crew.status();
    assert_eq!(status["results"]["uncollected"], 0, "{status}");
    assert_eq!(status["results"]["collected"], 1, "{status}");
    assert_eq!(crew.ws.json(["results"])["results"][0]["collected"], true);
    crew.finish();
}

#[test]
fn a_result_whose_output_is_lost_is_not_collected() {
    let crew = Crew::started(&["w1"]);
    crew.ws.ok(["send", "--watch-result", "w1", "fake: report summary=precious"]);
    crew.ws.ok(["wait", "--task", "1", "--timeout", "20"]);
    for arguments in [&["collect"][..], &["collect", "--json"]] {
        let mut command = crew.ws.command(crew.ws.program());
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("the system has one");
        let output = command.args(arguments).stdout(full).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(crew.status()["results"]["uncollected"], 1);
    assert!(crew.ws.ok(["collect"]).contains("precious"));
    assert_eq!(crew.ws.json(["collect"])["collected"], 0);
    crew.finish();
}

#[test]
fn two_collectors_at_once_get_each_result_once() {
    let crew = Crew::started(&["w1"]);
    crew.shell("w1", "for i in 1 2 3 4 5 6; do team-agent report --status success --summary r-$i; done");
    let mut got: Vec<String> = std::thread::scope(|scope| {
        let collectors: Vec<_> = (0..4).map(|_| scope.spawn(|| crew.ws.json(["collect"]))).collect();
        collectors
            .into_iter()
            .flat_map(|it| {
                let answer = it.join().expect("it ends");
                let results = answer["results"].as_array().cloned().unwrap_or_default();
                results.into_iter().map(|it| it["summary"].as_str().unwrap_or_default().to_owned())
            })
            .collect()
    });
    got.sort();
    assert_eq!(got, ["r-1", "r-2", "r-3", "r-4", "r-5", "r-6"]);
    crew.finish();
}

#[test]
fn a_report_closes_the_task_of_its_turn_and_only_once() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "busy 60");
    crew.wait_for_activity("w1", "working");
    for text in ["paint the door", "mend the gate"] {
        crew.ws.ok(["send", "--watch-result", "w1", text, "--timeout", "0"]);
    }
    crew.control("w1", "idle");
    crew.ws.ok(["wait", "--idle", "w1", "--timeout", "20"]);
    // Both are open, and no turn that runs belongs to one of them.
    let report = |more: &str| format!("team-agent report --json --status success --summary done {more}");
    let (said, code) = crew.shell("w1", &report(""));
    let answer: Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!(code, 1, "{said}");
    let (kind, _, hint) = error_of(&answer);
    assert_eq!(kind, "which_task", "{said}");
    assert!(hint.contains("paint the door") && hint.contains("mend the gate"), "{said}");
    let (said, code) = crew.shell("w1", &report("--task 2"));
    assert_eq!(code, 0, "{said}");
    let (said, code) = crew.shell("w1", &report("--task 2"));
    assert_eq!((code, said.contains("already_reported")), (1, true), "{said}");
    let (said, code) = crew.shell("w1", &report("--task 7"));
    assert_eq!((code, said.contains("task_not_found")), (1, true), "{said}");
    // One is left: it is meant without a word.
    let (said, code) = crew.shell("w1", &report(""));
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("\"task\":\"1\""), "{said}");
    assert_eq!(crew.events_of("task.completed").len(), 2);
    assert_eq!(crew.events_of("mcp.report_result").len(), 2);
    crew.finish();
}

#[test]
fn a_second_report_in_the_same_turn_is_told_so() {
    let crew = Crew::started(&["w1"]);
    let text = "fake: report summary=first\nfake: report summary=second";
    crew.ws.ok(["send", "--watch-result", "w1", text]);
    crew.ws.ok(["wait", "--task", "1", "--timeout", "20"]);
    crew.ws.ok(["wait", "--idle", "w1", "--timeout", "20"]);
    let calls = crew.tool_calls("w1");
    assert!(calls.iter().any(|it| it.contains("already_reported")), "{calls:?}");
    assert_eq!(crew.events_of("mcp.report_result").len(), 1);
    crew.finish();
}

#[test]
fn a_report_of_an_earlier_start_counts_and_is_marked_late() {
    let crew = Crew::started(&["w1"]);
    crew.ws.ok(["send", "--watch-result", "w1", "slow work", "--wait", "answered", "--timeout", "20"]);
    let root = crew.ws.path().display().to_string();
    crew.ws.write("hello", &requests(&[&initialize(), LIST]));
    crew.ws.write("call", &requests(&[&call("report_result", r#"{"summary":"late","status":"success"}"#)]));
    // A tool server whose client has left the session, so that it outlives the start that it belongs to.
    let stay = format!(
        "cd '{root}'\n(cat hello; while ! test -e go; do sleep 0.05; done; cat call; sleep 2) | \"$EXE\" mcp --seat-file \"$SEAT\" > served 2>&1\n"
    );
    crew.ws.write("stay", &stay);
    let lines = format!(
        "setsid env -i PATH=\"$PATH\" EXE=\"$TEAM_AGENT_EXE\" SEAT=\"$TEAM_AGENT_SEAT\" sh '{root}/stay' &\nwhile ! grep -q '\"id\":2' '{root}/served'; do sleep 0.05; done\n"
    );
    let (said, code) = crew.shell("w1", &lines);
    assert_eq!(code, 0, "{said}");
    let claimed = crew.events_of("session.claimed").pop().expect("it was claimed");
    crew.kill(claimed["event"]["process"]["pid"].as_i64().unwrap_or_default());
    crew.ws.wait_until(
        "w1 has stopped",
        || crew.status()["agents"]["w1"]["session"]["state"] == "stopped",
        SOON,
    );
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["restart", "--headless"]);
    crew.ws.write("go", "");
    crew.ws.wait_until("the late report", || crew.events_of("mcp.report_result").len() == 1, SOON);
    let line = crew.events_of("mcp.report_result").remove(0);
    assert_eq!(line["event"]["agent"], "w1", "{line}");
    assert_eq!(line["event"]["late"], true, "{line}");
    assert_eq!(line["event"]["task"], "1", "{line}");
    let collected = crew.ws.json(["collect"]);
    assert_eq!(collected["results"][0]["late"], true, "{collected}");
    crew.finish();
}

#[test]
fn a_report_without_proof_closes_nothing_and_is_told_how() {
    let crew = Crew::started(&["w1"]);
    crew.ws.ok(["send", "--watch-result", "w1", "owed", "--wait", "answered", "--timeout", "20"]);
    let (said, _) = crew.shell("w1", "echo $TEAM_AGENT_SEAT");
    let seat = said.trim();
    assert!(!seat.is_empty());
    // The right file in the wrong hands.
    let mut command = crew.ws.command(crew.ws.program());
    command.env("TEAM_AGENT_SEAT", seat).args([
        "report",
        "--status",
        "success",
        "--summary",
        "it was me",
        "--json",
    ]);
    let output = command.output().expect("it runs");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(answer["proved"], false, "{answer}");
    assert_eq!(answer["task"], Value::Null, "{answer}");
    assert!(answer["message"].as_str().unwrap_or_default().contains("team-agent report"), "{answer}");
    let line = crew.events_of("mcp.report_result").remove(0);
    assert_eq!(line["event"]["agent"], "unknown", "{line}");
    assert_eq!(crew.status()["agents"]["w1"]["owes"][0]["task"], "1");
    // A sender in the arguments is no sender.
    crew.ask("w1", "fake: call report_result {\"summary\":\"mine\",\"status\":\"success\",\"sender\":\"leader\",\"agent_id\":\"w9\"}");
    let line = crew.events_of("mcp.report_result").remove(1);
    assert_eq!(line["event"]["agent"], "w1", "{line}");
    assert_eq!(line["event"]["ignored"]["sender"], "leader", "{line}");
    assert_eq!(line["event"]["task"], "1", "{line}");
    crew.finish();
}

#[test]
fn all_means_every_other_agent_of_the_senders_team() {
    let crew = Crew::started(&["w1", "w2", "w3"]);
    let sent = crew.ws.json(["send", "all", "from outside", "--wait", "answered", "--timeout", "20"]);
    assert_eq!(sent["receivers"].as_array().map(Vec::len), Some(3), "{sent}");
    crew.ask("w1", "fake: send to=all text=\"from the inside\"");
    crew.wait_for_text("w2", "from the inside");
    crew.wait_for_text("w3", "from the inside");
    crew.ws.ok(["wait", "--idle", "w1", "--timeout", "20"]);
    assert_eq!(
        copies(&crew, "w1", "] from the inside") + copies(&crew, "w1", "w1 to all"),
        0,
        "{:?}",
        crew.texts("w1")
    );
    assert_eq!(copies(&crew, "w2", "from outside"), 1);
    crew.finish();
}

#[test]
fn a_message_crosses_to_another_workspace_and_can_be_answered() {
    let here = Crew::started(&["w1"]);
    let mut ws = TestWorkspace::new();
    ws.set("XDG_STATE_HOME", here.ws.state_home()).set("HOME", here.ws.home());
    let there = Crew::written_with(ws, &["peer"], "fake");
    there.start();
    let address = format!("{}::current/peer", there.ws.path().display());
    here.ask("w1", &format!("fake: send to={} text=\"across the border\"", Value::from(address.clone())));
    assert_eq!(here.tool_calls("w1").iter().find(|it| it.contains("\"isError\":true")), None);
    there.wait_for_text("peer", "across the border");
    // It is an entry of the receiver's log, not of the sender's.
    let line = there.events_of("message.accepted").remove(0);
    let from = line["event"]["from"].as_str().unwrap_or_default().to_owned();
    assert_eq!(from, format!("{}::current/w1", here.ws.path().display()), "{line}");
    assert_eq!(here.events_of("message.accepted").len(), 1);
    there.ask("peer", &format!("fake: send to={} text=\"and back\"", Value::from(from)));
    here.wait_for_text("w1", "and back");
    // By the name of its directory, which both have here.
    let output = there.ws.run(["send", "ws::current/w1", "by name", "--wait", "answered", "--timeout", "20"]);
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
    here.wait_for_text("w1", "by name");
    let output = here.ws.run(["send", "nowhere::current/peer", "hi"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    let output = here.ws.run(["send", &format!("{}::current/nobody", there.ws.path().display()), "hi"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    assert!(output.stderr.contains("nobody"), "{}", output.snapshot());
    there.finish();
    here.finish();
}

#[test]
fn a_message_for_a_stopped_team_is_refused_and_says_what_to_do() {
    let crew = Crew::started(&["w1"]);
    crew.ws.ok(["shutdown"]);
    let output = crew.ws.run(["send", "w1", "are you there"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    assert!(output.stderr.contains("team-agent restart"), "{}", output.snapshot());
    assert_eq!(crew.events_of("message.accepted").len(), 0);
    crew.finish();
}

// Case 056.
#[test]
fn a_tool_server_without_an_environment_knows_its_agent_and_workspace() {
    let crew = Crew::started(&["w1"]);
    let requests = crew.ws.write(
        "requests",
        &requests(&[&initialize(), &call("report_result", r#"{"summary":"bare","status":"success"}"#)]),
    );
    let server = format!(
        "cd /\n(cat '{}'; sleep 2) | env -i \"$TEAM_AGENT_EXE\" mcp --seat-file \"$TEAM_AGENT_SEAT\"",
        requests.display()
    );
    let (said, _) = crew.shell("w1", &server);
    assert!(said.contains("\"id\":3"), "{said}");
    let line = crew.events_of("mcp.report_result").pop().expect("it was recorded");
    assert_eq!(line["event"]["agent"], "w1", "{line}");
    assert_eq!(line["event"]["via"], "mcp", "{line}");
    crew.finish();
}

#[test]
fn the_deadline_of_a_wait_is_told_as_not_yet() {
    let crew = Crew::started(&["w1"]);
    crew.ws.ok(["send", "--watch-result", "w1", "no report", "--wait", "answered", "--timeout", "20"]);
    let output = crew.ws.run(["wait", "--task", "1", "--timeout", "0.1"]);
    assert_eq!(output.code, Some(4), "{}", output.snapshot());
    let output = crew.ws.run(["wait", "--task", "9", "--timeout", "0.1"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    crew.finish();
}
