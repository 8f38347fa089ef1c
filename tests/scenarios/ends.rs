//! Ends: shutdown, restart, delete, and servers that die.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;
use team_scenarios::{Crew, SOON};
use team_testkit::TestWorkspace;

fn server_pid(crew: &Crew) -> i64 {
    let line = crew.events_of("server.started").pop().expect("a server was started");
    line["event"]["process"]["pid"].as_i64().unwrap_or_default()
}

/// Another workspace of the same person.
fn beside(crew: &Crew, agents: &[&str]) -> Crew {
    let mut ws = TestWorkspace::new();
    ws.set("XDG_STATE_HOME", crew.ws.state_home());
    let there = Crew::written_with(ws, agents, "fake");
    there.start();
    there
}

/// Puts a `tmux` in front of the real one that notes its arguments.
fn logged_tmux(ws: &mut TestWorkspace) -> std::path::PathBuf {
    let real = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|it| it.join("tmux"))
        .find(|it| it.is_file())
        .expect("tmux is there");
    let bin = ws.root().join("wrapped");
    fs::create_dir_all(&bin).expect("it is writable");
    let notes = ws.root().join("tmp/tmux-calls");
    let text = format!(
        "#!/bin/sh\n{{ for it in \"$@\"; do printf '%s\\037' \"$it\"; done; echo; }} >> '{}'\nexec '{}' \"$@\"\n",
        notes.display(),
        real.display()
    );
    let wrapper = bin.join("tmux");
    fs::write(&wrapper, text).expect("it is writable");
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("it is ours");
    ws.path_first(&bin);
    notes
}

// Case 080.
#[test]
fn every_call_of_tmux_names_our_socket() {
    let mut ws = TestWorkspace::new();
    let notes = logged_tmux(&mut ws);
    let crew = Crew::written_with(ws, &["w1", "w2"], "fake");
    crew.start();
    crew.ws.ok([
        "send",
        "--watch-result",
        "w1",
        "fake: send to=w2 text=hello\nfake: report",
        "--wait",
        "answered",
        "--timeout",
        "20",
    ]);
    crew.wait_for_text("w2", "hello");
    crew.ws.ok(["send", "all", &"long ".repeat(4000), "--wait", "submitted", "--timeout", "20"]);
    for verb in [
        vec!["status"],
        vec!["doctor"],
        vec!["attach", "w1", "--json"],
        vec!["collect"],
        vec!["explain", "w1"],
    ] {
        crew.ws.ok(&verb);
    }
    let socket =
        crew.events_of("server.started")[0]["event"]["socket"].as_str().unwrap_or_default().to_owned();
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["restart", "--headless"]);
    crew.ws.ok(["shutdown"]);
    let calls = fs::read_to_string(&notes).expect("it was called");
    let mut counted = 0;
    // A new line may stand inside an argument: calls begin where an option does.
    for call in calls.lines().filter(|it| it.starts_with('-')) {
        let words: Vec<&str> = call.split('\u{1f}').collect();
        if words[0] == "-V" {
            continue;
        }
        counted += 1;
        let at = words.iter().position(|it| *it == "-S").unwrap_or_else(|| panic!("no socket: {call}"));
        assert_eq!(words.get(at + 1), Some(&socket.as_str()), "{call}");
        assert!(at < 6, "{call}");
    }
    assert!(counted > 5, "{calls}");
    crew.finish();
}

// Case 081.
#[test]
fn ending_and_starting_again_at_once_works_every_time() {
    let crew = Crew::started(&["w1"]);
    for round in 0..20 {
        crew.ws.ok(["shutdown"]);
        let verb =
            if round % 2 == 0 { vec!["restart", "--headless"] } else { vec!["quick-start", "--headless"] };
        if round % 2 == 1 {
            crew.ws.ok(["delete", "current", "--confirm"]);
        }
        let output = crew.ws.run(&verb);
        assert_eq!(output.code, Some(0), "round {round}: {}", output.snapshot());
    }
    crew.ask("w1", "after all that");
    crew.finish();
}

// Case 082.
#[test]
fn windows_have_a_sane_size_and_keep_it() {
    let crew = Crew::started(&["w1"]);
    let size = |crew: &Crew| {
        let sizes: Vec<Value> =
            crew.fake_events("w1").into_iter().filter(|it| it["event"] == "size").collect();
        sizes.iter().map(|it| format!("{}x{}", it["columns"], it["rows"])).collect::<Vec<_>>()
    };
    let shown = || crew.tmux(&["list-panes", "-a", "-F", "#{pane_id} #{pane_width}x#{pane_height}"]);
    let line = format!("{} 200x50", crew.pane("w1"));
    assert!(shown().contains(&line), "{}", shown());
    // A small client looks at it, as a person at a small terminal does.
    let argv = crew.ws.json(["attach", "w1"]);
    let words: Vec<String> = argv["argv"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it.as_str().map(str::to_owned))
        .collect();
    let own = crew.ws.root().join("run/person");
    let quoted: Vec<String> = words.iter().map(|it| format!("'{it}'")).collect();
    let person = |arguments: &[&str]| {
        let output =
            crew.ws.command("tmux").arg("-S").arg(&own).args(["-f", "/dev/null"]).args(arguments).output();
        assert!(output.expect("tmux is there").status.success(), "{arguments:?}");
    };
    let said = crew.ws.root().join("tmp/person-said");
    let command = format!("env -u TMUX {} 2> '{}'", quoted.join(" "), said.display());
    // The coordinator has a client of its own, which shows nothing.
    let looking =
        || crew.tmux(&["list-clients", "-F", "#{client_control_mode} #{client_tty}"]).contains("0 /dev");
    person(&["new-session", "-d", "-x", "60", "-y", "15", "sh", "-c", &command]);
    crew.ws.wait_until(
        "somebody looks",
        || {
            let said = fs::read_to_string(&said).unwrap_or_default();
            assert_eq!(said, "", "{command}");
            looking()
        },
        SOON,
    );
    crew.ask("w1", "are you small?");
    assert!(shown().contains(&line), "{}", shown());
    person(&["kill-server"]);
    crew.ws.wait_until("nobody looks", || !looking(), SOON);
    assert!(shown().contains(&line), "{}", shown());
    let sizes = size(&crew);
    assert!(sizes.iter().all(|it| it == "200x50"), "{sizes:?}");
    crew.finish();
}

// Case 107.
#[test]
fn nothing_that_an_agent_started_outlives_it() {
    let crew = Crew::started(&["w1", "w2"]);
    crew.control("w1", "spawn-child");
    crew.control("w2", "ignore-signals on");
    let (said, code) = crew.shell(
        "w1",
        "setsid sleep 600 > /dev/null 2>&1 &\n(sleep 601 &) &\nnohup sleep 602 > /dev/null 2>&1 &\n",
    );
    assert_eq!(code, 0, "{said}");
    let sleeping = || crew.ws.processes().iter().filter(|it| it.command.starts_with("sleep 60")).count();
    crew.ws.wait_until("they run", || sleeping() == 3, SOON);
    let mut bystander = std::process::Command::new("sleep").arg("609").spawn().expect("it starts");
    crew.ws.ok(["shutdown"]);
    let left: Vec<_> = crew.ws.processes();
    assert_eq!(left, Vec::new());
    assert_eq!(bystander.try_wait().expect("it is ours"), None);
    bystander.kill().expect("it is ours");
    bystander.wait().expect("it is ours");
    crew.finish();
}

// Case 107.
#[test]
fn what_a_killed_seat_process_leaves_is_ended() {
    let crew = Crew::started(&["w1", "w2"]);
    let (_, code) = crew.shell("w1", "setsid sleep 600 > /dev/null 2>&1 &\n");
    assert_eq!(code, 0);
    let claimed = crew.events_of("session.claimed");
    let first = claimed[0]["event"]["process"]["pid"].as_i64().unwrap_or_default();
    let second = claimed[1]["event"]["process"]["pid"].as_i64().unwrap_or_default();
    crew.kill(first);
    crew.kill(second);
    for agent in ["w1", "w2"] {
        crew.ws.wait_until(agent, || crew.status()["agents"][agent]["session"]["state"] == "stopped", SOON);
    }
    let sleeping = || crew.ws.processes().iter().filter(|it| it.command.starts_with("sleep 600")).count();
    crew.ws.wait_until("the leftover has ended", || sleeping() == 0, SOON);
    crew.finish();
}

#[test]
fn a_killed_tmux_server_makes_the_team_lost_and_restart_resumes_it() {
    let crew = Crew::started(&["w1", "w2"]);
    crew.ask("w1", "the word is heron");
    crew.ws.ok(["send", "--watch-result", "w1", "owed", "--wait", "answered", "--timeout", "20"]);
    crew.kill(server_pid(&crew));
    crew.ws.wait_until("the team is lost", || crew.status()["state"] == "lost", SOON);
    let text = crew.ws.ok(["status"]);
    assert!(text.contains("team-agent restart"), "{text}");
    let output = crew.ws.run(["attach", "w1"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    assert!(output.stderr.contains("team-agent restart"), "{}", output.snapshot());
    let output = crew.ws.run(["send", "w1", "hello?"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    crew.ws.ok(["restart", "--headless"]);
    assert_eq!(crew.events_of("restart.fresh_spawn").len(), 0);
    let status = crew.status();
    assert_eq!(status["state"], "running", "{status}");
    assert_eq!(status["agents"]["w1"]["owes"][0]["task"], "1", "{status}");
    crew.ask("w1", "fake: report summary=\"after all\"");
    assert!(crew.texts("w1").iter().any(|it| it.contains("the word is heron")));
    assert_eq!(crew.ws.json(["collect"])["results"][0]["task"], "1");
    crew.finish();
}

#[test]
fn a_killed_server_and_coordinator_are_found_lost_by_the_next_command() {
    let crew = Crew::started(&["w1"]);
    crew.ask("w1", "hello");
    let coordinator = crew.status()["coordinator"]["pid"].as_i64().unwrap_or_default();
    let seat = crew.events_of("session.claimed")[0]["event"]["process"]["pid"].as_i64().unwrap_or_default();
    // As a reboot does: everything at once.
    crew.ws
        .command("sh")
        .args(["-c", &format!("kill -9 {coordinator} {} {seat}", server_pid(&crew))])
        .output()
        .expect("it runs");
    crew.ws.wait_until("everything has ended", || crew.ws.processes().is_empty(), SOON);
    let status = crew.status();
    assert_eq!(status["state"], "lost", "{status}");
    assert_eq!(status["ready"], false, "{status}");
    let output = crew.ws.run(["attach", "w1"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    crew.ws.ok(["restart", "--headless"]);
    crew.ask("w1", "fake: recall 1");
    crew.finish();
}

#[test]
fn delete_forgets_the_team_and_keeps_what_people_wrote() {
    let crew = Crew::written(&["w1"]);
    crew.ws.ok(["profile", "init", "lab", "--auth-mode", "official_api"]);
    crew.start();
    crew.ws.ok(["send", "--watch-result", "w1", "work", "--wait", "answered", "--timeout", "20"]);
    let output = crew.ws.run(["delete", "current", "--confirm"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    assert!(output.stderr.contains("team-agent shutdown"), "{}", output.snapshot());
    crew.ws.ok(["shutdown"]);
    let output = crew.ws.run(["delete", "current"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    assert!(output.stderr.contains("--confirm"), "{}", output.snapshot());
    let team = crew.ws.read(".team/current/TEAM.md");
    let role = crew.ws.read(".team/current/agents/w1.md");
    crew.ws.ok(["delete", "current", "--confirm"]);
    assert_eq!(crew.ws.read(".team/current/TEAM.md"), team);
    assert_eq!(crew.ws.read(".team/current/agents/w1.md"), role);
    assert!(crew.ws.path().join(".team/current/profiles/lab.env").is_file());
    assert!(!crew.ws.path().join(".team/current/spec.json").exists());
    let seats = crew.ws.state_directory().expect("it was started").join("seats/current");
    assert!(!seats.exists());
    assert_eq!(crew.ws.run(["status"]).code, Some(1));
    // A new life knows nothing of the old one.
    crew.start();
    let status = crew.status();
    assert_eq!(status["agents"]["w1"]["owes"], Value::Array(Vec::new()), "{status}");
    assert_eq!(crew.ws.json(["results"])["results"], Value::Array(Vec::new()));
    assert_eq!(crew.ws.json(["inbox", "w1"])["messages"], Value::Array(Vec::new()));
    assert_eq!(crew.texts("w1"), Vec::<String>::new());
    crew.finish();
}

#[test]
fn whoever_names_a_seat_ends_no_team_also_from_outside_of_it() {
    let crew = Crew::started(&["w1"]);
    let seats = crew.ws.state_directory().expect("it was started").join("seats/current/w1");
    let file = fs::read_dir(seats)
        .expect("it has a seat")
        .filter_map(|it| Some(it.ok()?.path()))
        .find(|it| it.extension().is_some_and(|it| it == "json"))
        .expect("it has a seat file");
    let mut command = crew.ws.command(crew.ws.program());
    let output = command.arg("shutdown").env("TEAM_AGENT_SEAT", file).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    // Let go of by its agent, it is an agent's still.
    crew.ask("w1", "fake: shell (setsid sh -c 'team-agent shutdown > said 2>&1; echo done >> said' &)");
    crew.ws.wait_until(
        "it has ended",
        || crew.ws.path().join("said").exists() && crew.ws.read("said").contains("done"),
        SOON,
    );
    assert!(crew.ws.read("said").contains("an agent may not"), "{}", crew.ws.read("said"));
    crew.ask("w1", "still there?");
    crew.finish();
}

#[test]
fn an_agent_may_end_or_start_no_team() {
    let crew = Crew::started(&["w1"]);
    for words in ["shutdown", "restart", "quick-start", "delete current --confirm", "shutdown --workspace ."]
    {
        let (said, code) = crew.shell("w1", &format!("team-agent {words}"));
        assert_eq!(code, 1, "{words}: {said}");
        // Nor by forgetting who it is.
        let (said, code) = crew.shell("w1", &format!("env -u TEAM_AGENT_SEAT team-agent {words}"));
        assert_eq!(code, 1, "{words}: {said}");
    }
    assert_eq!(crew.status()["state"], "running");
    assert_eq!(crew.events_of("team.started").len(), 1);
    // A second team would be somebody's that nobody asked for.
    crew.ws.write(".team/second/TEAM.md", "---\nname: second\n---\n");
    crew.ws.write(".team/second/agents/x1.md", "---\nname: x1\nrole: Worker\nprovider: fake\n---\n\nWork.\n");
    for words in ["quick-start .team/second --headless", "quick-start .team/second --workspace . --headless"]
    {
        for before in ["", "env -u TEAM_AGENT_SEAT "] {
            let (said, code) = crew.shell("w1", &format!("{before}team-agent {words}"));
            assert_eq!(code, 1, "{before}{words}: {said}");
            assert!(said.contains("an agent may not start"), "{before}{words}: {said}");
        }
    }
    assert!(!crew.ws.path().join(".team/second/spec.json").exists());
    crew.finish();
}

#[test]
fn an_agent_that_hides_its_seat_is_nobody_and_not_the_leader() {
    let crew = Crew::started(&["w1", "w2"]);
    let (said, code) =
        crew.shell("w1", "env -u TEAM_AGENT_SEAT team-agent send w2 'do as I say' --wait accepted");
    assert_eq!(code, 1, "{said}");
    assert!(!crew.events_of("message.accepted").iter().any(|it| it["event"]["to"][0] == "w2"));
    crew.ask("w1", "fake: report summary=\"for the leader\"");
    for before in ["", "env -u TEAM_AGENT_SEAT "] {
        let (said, code) = crew.shell("w2", &format!("{before}team-agent collect"));
        assert_eq!(code, 1, "{said}");
    }
    assert_eq!(crew.ws.json(["collect"])["collected"], 1);
    crew.finish();
}

#[test]
fn an_agent_is_nobody_in_another_workspace() {
    let here = Crew::started(&["w1"]);
    let there = beside(&here, &["w1"]);
    there.ws.ok(["send", "--watch-result", "w1", "owed there", "--wait", "answered", "--timeout", "20"]);
    let (said, _) = here.shell(
        "w1",
        &format!(
            "team-agent --workspace '{}' report --status success --summary mine --json",
            there.ws.path().display()
        ),
    );
    assert!(said.contains("\"proved\":false"), "{said}");
    assert_eq!(there.status()["agents"]["w1"]["owes"][0]["task"], "1");
    there.finish();
    here.finish();
}

#[test]
fn ends_can_be_asked_for_twice() {
    let crew = Crew::started(&["w1"]);
    crew.ws.ok(["shutdown"]);
    let again = crew.ws.ok(["shutdown"]);
    assert!(again.contains("stopped already"), "{again}");
    let socket = crew.ws.state_directory().expect("it has state");
    let listening = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten().count();
    assert!(listening(&socket.join("env")) == 0);
    crew.finish();
}
