//! The log under writers, tears and ends of its coordinator.

use std::fs;
use std::io::Write as _;

use serde_json::Value;
use team_scenarios::{Crew, SOON};

/// No line is missing, but those of which the log itself says so.
fn assert_whole(events: &[Value]) {
    let seqs: Vec<u64> = events.iter().map(|it| it["seq"].as_u64().unwrap_or_default()).collect();
    let lost = |seq: &u64| {
        events.iter().filter(|it| it["event"]["type"] == "log.damaged").any(|it| {
            (it["event"]["from"].as_u64() <= Some(*seq)) && (Some(*seq) <= it["event"]["to"].as_u64())
        })
    };
    let last = seqs.last().copied().unwrap_or_default();
    let wanted: Vec<u64> = (1..=last).filter(|it| !lost(it)).collect();
    assert_eq!(seqs, wanted);
}

fn coordinator(crew: &Crew) -> i64 {
    crew.status()["coordinator"]["pid"].as_i64().unwrap_or_default()
}

fn append(crew: &Crew, bytes: &[u8]) {
    let path = crew.ws.path().join(".team/logs/events.jsonl");
    let mut file = fs::OpenOptions::new().append(true).open(path).expect("the log is there");
    file.write_all(bytes).expect("the log is writable");
}

// Case 065.
#[test]
fn thirty_senders_and_thirty_reporters_at_once_lose_nothing() {
    let crew = Crew::started(&["w1", "w2"]);
    std::thread::scope(|scope| {
        let reports = "for i in $(seq 30); do team-agent report --status success --summary \"result-$i.\" & done\nwait\n";
        let crew = &crew;
        scope.spawn(move || crew.shell("w1", reports));
        for i in 0..30 {
            scope.spawn(move || crew.ws.ok(["send", "w2", &format!("message-{i}."), "--wait", "accepted"]));
        }
    });
    crew.ws.ok(["wait", "--idle", "w2", "--timeout", "40"]);
    let results = crew.events_of("mcp.report_result");
    assert_eq!(results.len(), 30);
    let mine = |it: &&Value| it["event"]["from"] == "leader" && it["event"]["to"][0] == "w2";
    assert_eq!(crew.events_of("message.accepted").iter().filter(mine).count(), 30);
    for i in 0..30 {
        let summary = format!("result-{}.", i + 1);
        assert_eq!(
            results.iter().filter(|it| it["event"]["summary"] == summary.as_str()).count(),
            1,
            "{summary}"
        );
        let text = format!("message-{i}.");
        let copies: usize = crew.texts("w2").iter().map(|it| it.matches(&text).count()).sum();
        assert_eq!(copies, 1, "{text}");
    }
    assert_whole(&crew.ws.events());
    assert_eq!(crew.ws.json(["collect"])["collected"], 30);
    crew.finish();
}

// Case 102.
#[test]
fn a_torn_end_of_a_running_teams_log_is_set_aside() {
    let crew = Crew::started(&["w1"]);
    append(&crew, b"{\"seq\":999,\"ts\":\"2026-01-01T00:00:00.000Z\",\"v\":1,\"pr\0\0\0\0\0\0\0\0");
    let status = crew.status();
    assert_eq!(status["state"], "running", "{status}");
    crew.ask("w1", "after the tear");
    assert_eq!(crew.events_of("log.tail_set_aside").len(), 1);
    // Whatever came after the tear is whole: every line is JSON, and counted.
    assert_whole(&crew.ws.events());
    assert!(crew.texts("w1").iter().any(|it| it.contains("after the tear")));
    crew.finish();
}

// Case 102.
#[test]
fn a_stopped_teams_log_that_is_cut_in_its_last_line_goes_on() {
    for end in [&b""[..], b"\0\0\0\0\0\0\0\0\0\0\0\0"] {
        let crew = Crew::started(&["w1"]);
        crew.ws.ok(["shutdown"]);
        let path = crew.ws.path().join(".team/logs/events.jsonl");
        let log = fs::read(&path).expect("the log is there");
        let mut cut = log[..log.len() - 20].to_vec();
        cut.extend_from_slice(end);
        fs::write(&path, cut).expect("the log is writable");
        let status = crew.ws.run(["status"]);
        assert_eq!(status.code, Some(0), "{}", status.snapshot());
        crew.ws.ok(["restart", "--headless"]);
        crew.ask("w1", "after the cut");
        assert_eq!(crew.events_of("log.tail_set_aside").len(), 1);
        assert_whole(&crew.ws.events());
        crew.finish();
    }
}

#[test]
fn a_flipped_byte_is_noticed_and_nothing_is_sent_again() {
    let crew = Crew::started(&["w1"]);
    crew.ask("w1", "said once");
    crew.ws.ok(["shutdown"]);
    let path = crew.ws.path().join(".team/logs/events.jsonl");
    let log = String::from_utf8(fs::read(&path).expect("the log is there")).expect("it is text");
    assert!(log.contains("said once"));
    fs::write(&path, log.replacen("said once", "said 0nce", 1)).expect("the log is writable");
    let doctor = crew.ws.run(["doctor"]);
    assert!(doctor.stdout.contains("lost or changed"), "{}", doctor.snapshot());
    crew.ws.ok(["restart", "--headless"]);
    crew.ask("w1", "something else");
    let texts = crew.texts("w1");
    assert_eq!(texts.iter().filter(|it| it.contains("said ")).count(), 1, "{texts:?}");
    crew.finish();
}

#[test]
fn a_message_behind_a_changed_line_has_the_number_of_its_own_line_and_arrives_once() {
    let crew = Crew::started(&["w1"]);
    crew.ask("w1", "hello one");
    crew.ask("w1", "hello two");
    let path = crew.ws.path().join(".team/logs/events.jsonl");
    let log = fs::read(&path).expect("the log is there");
    let at = log.windows(9).position(|it| it == b"hello one").expect("it was said");
    let file = fs::OpenOptions::new().write(true).open(&path).expect("it is writable");
    std::os::unix::fs::FileExt::write_all_at(&file, b"HELLO", at as u64).expect("it is writable");
    crew.ask("w1", "three");
    crew.ask("w1", "four");
    assert_eq!(crew.events_of("log.tampered").len(), 1);
    for accepted in crew.events_of("message.accepted") {
        assert_eq!(accepted["event"]["id"], format!("m-{}", accepted["seq"]), "{accepted}");
    }
    let texts = crew.texts("w1");
    assert_eq!(texts.len(), 4, "{texts:?}");
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["restart", "--headless"]);
    crew.ask("w1", "five");
    assert_eq!(crew.texts("w1").len(), 5, "{:?}", crew.texts("w1"));
    crew.finish();
}

#[test]
fn a_tool_call_works_without_a_coordinator() {
    let crew = Crew::started(&["w1", "w2"]);
    crew.ws.ok(["send", "--watch-result", "w1", "think about it", "--wait", "answered", "--timeout", "20"]);
    let pid = coordinator(&crew);
    // Killed from inside, so that the very next thing that happens is the call.
    let (said, code) = crew.shell(
        "w1",
        &format!("kill -9 {pid}; team-agent report --json --status success --summary \"all alone\""),
    );
    assert_eq!(code, 0, "{said}");
    let (said, code) = crew.shell("w1", "team-agent send w2 'somebody takes this' --wait accepted");
    assert_eq!(code, 0, "{said}");
    crew.wait_for_text("w2", "somebody takes this");
    let collected = crew.ws.json(["collect"]);
    assert_eq!(collected["results"][0]["summary"], "all alone", "{collected}");
    assert_eq!(collected["results"][0]["task"], "1", "{collected}");
    crew.finish();
}

#[test]
fn a_seat_starts_the_successor_of_a_killed_coordinator() {
    let crew = Crew::started(&["w1", "w2"]);
    for _ in 0..2 {
        let before = coordinator(&crew);
        crew.kill(before);
        // Looking starts nothing: the seats see to it.
        let successor = || coordinator(&crew) != before && crew.status()["coordinator"]["state"] == "running";
        crew.ws.wait_until("a successor runs", successor, SOON);
    }
    crew.ask("w1", "delivery goes on");
    assert_eq!(crew.status()["coordinator"]["epoch"], 3);
    assert_whole(&crew.ws.events());
    crew.finish();
}

#[test]
fn a_coordinator_killed_in_the_middle_of_a_delivery_makes_no_second_copy() {
    let crew = Crew::started(&["w1", "w2"]);
    let mut sent = Vec::new();
    for round in 0..5 {
        let before = coordinator(&crew);
        let text = format!("round {round}.");
        let answer = crew.ws.json(["send", "w1,w2", &text, "--wait", "accepted"]);
        crew.kill(before);
        sent.push((answer["message_id"].as_str().unwrap_or_default().to_owned(), text));
        crew.ws.wait_until("a successor", || coordinator(&crew) != before, SOON);
    }
    let open = || {
        let messages = crew.status()["messages"].clone();
        ["accepted", "held", "sending", "submitted", "turn_started"]
            .iter()
            .any(|it| messages[it].as_u64() > Some(0))
    };
    crew.ws.wait_until("everything is settled", || !open(), SOON);
    for agent in ["w1", "w2"] {
        let inbox = crew.ws.json(["inbox", agent]);
        for (id, text) in &sent {
            let copies: usize = crew.texts(agent).iter().map(|it| it.matches(text.as_str()).count()).sum();
            let entry =
                inbox["messages"].as_array().into_iter().flatten().find(|it| it["message_id"] == id.as_str());
            let step = entry.map(|it| it["receipt"]["step"].clone()).unwrap_or_default();
            match step.as_str() {
                Some("answered") => assert_eq!(copies, 1, "{agent} {text}: {step}"),
                // Nobody knows, and nothing was sent again.
                Some("unknown") => assert!(copies <= 1, "{agent} {text}: {step}"),
                _ => panic!("{agent} {text}: {step}"),
            }
        }
    }
    assert_whole(&crew.ws.events());
    crew.finish();
}

#[test]
fn a_log_that_is_removed_under_a_running_team_comes_back() {
    let crew = Crew::started(&["w1"]);
    crew.ask("w1", "before");
    let before = crew.ws.events().len();
    fs::remove_file(crew.ws.path().join(".team/logs/events.jsonl")).expect("it is there");
    crew.ws.wait_until("the log is back", || crew.ws.events().len() > before, SOON);
    crew.ask("w1", "after");
    assert_eq!(crew.events_of("log.restored").len(), 1);
    assert_whole(&crew.ws.events());
    crew.finish();
}

#[test]
fn a_log_that_is_emptied_under_a_running_team_goes_on() {
    let crew = Crew::started(&["w1"]);
    crew.ask("w1", "before");
    let (pid, before) = (crew.status()["agents"]["w1"]["session"]["pid"].clone(), crew.ws.events().len());
    fs::write(crew.ws.path().join(".team/logs/events.jsonl"), "").expect("it is writable");
    crew.ws.wait_until("the log goes on", || !crew.ws.events().is_empty(), SOON);
    crew.ask("w1", "after");
    assert_eq!(crew.status()["agents"]["w1"]["session"]["pid"], pid);
    let lost = crew.events_of("log.damaged");
    assert_eq!(lost[0]["event"]["from"], 1, "{lost:?}");
    assert!(lost[0]["event"]["to"].as_u64() >= Some(before as u64), "{lost:?}");
    assert_whole(&crew.ws.events());
    crew.ws.ok(["shutdown"]);
    // And that of a stopped one.
    fs::write(crew.ws.path().join(".team/logs/events.jsonl"), "").expect("it is writable");
    assert_eq!(crew.status()["state"], "stopped");
    crew.ws.ok(["restart", "--headless"]);
    crew.ask("w1", "and again");
    crew.finish();
}

#[test]
fn a_known_workspace_without_its_log_is_refused_and_not_begun_anew() {
    let crew = Crew::started(&["w1"]);
    crew.ws.ok(["shutdown"]);
    fs::remove_file(crew.ws.path().join(".team/logs/events.jsonl")).expect("it is there");
    let output = crew.ws.run(["quick-start", "--headless"]);
    assert_ne!(output.code, Some(0), "{}", output.snapshot());
    assert!(!crew.ws.path().join(".team/logs/events.jsonl").exists());
    fs::create_dir_all(crew.ws.path().join(".team/logs")).expect("it is writable");
    let lock = crew.ws.state_directory().expect("it has state").join("locks/log.lock");
    fs::write(crew.ws.path().join(".team/logs/events.jsonl"), "").expect("it is writable");
    fs::remove_file(lock).expect("it is there");
    let doctor = crew.ws.run(["doctor"]);
    assert_eq!(doctor.code, Some(3), "{}", doctor.snapshot());
    assert!(doctor.stdout.contains("is gone"), "{}", doctor.snapshot());
    crew.finish();
}

#[test]
fn caches_may_be_deleted_at_any_moment() {
    let crew = Crew::started(&["w1"]);
    crew.ask("w1", "one");
    fs::remove_dir_all(crew.ws.path().join(".team/runtime")).ok();
    crew.ask("w1", "two");
    crew.ws.ok(["shutdown"]);
    fs::remove_dir_all(crew.ws.path().join(".team/runtime")).ok();
    assert_eq!(crew.status()["state"], "stopped");
    crew.ws.ok(["restart", "--headless"]);
    crew.ask("w1", "three");
    assert_whole(&crew.ws.events());
    crew.finish();
}
