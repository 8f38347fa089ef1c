//! Beginnings and ends of a seat: nothing is typed before it is ready or after it has ended, and only into its own pane.

use std::fs;

use serde_json::Value;
use team_scenarios::{Crew, SOON};

fn session(crew: &Crew, agent: &str) -> Value {
    crew.status()["agents"][agent]["session"].clone()
}

#[track_caller]
fn wait_for_state(crew: &Crew, agent: &str, state: &str) {
    crew.ws.wait_until(&format!("{agent} is {state}"), || session(crew, agent)["state"] == state, SOON);
}

/// A message to an agent that has ended is refused before anything is written.
#[track_caller]
fn is_dead(crew: &Crew, agent: &str) {
    let (bytes, accepted) = (crew.bytes(agent), crew.events_of("message.accepted").len());
    for arguments in
        [vec!["send", agent, "anybody there"], vec!["send", agent, "anybody", "--wait", "submitted"]]
    {
        let output = crew.ws.run(arguments.into_iter().chain(["--json"]));
        assert_eq!(output.code, Some(1), "{}", output.snapshot());
        let refused: Value = serde_json::from_str(&output.stdout).expect("it is JSON");
        assert_eq!(refused["error"]["code"], "dead", "{refused}");
    }
    assert_eq!(crew.bytes(agent), bytes, "no byte was typed");
    assert_eq!(crew.events_of("message.accepted").len(), accepted);
}

// Case 008.
#[test]
fn nothing_is_typed_where_a_program_was() {
    let crew = Crew::started(&["w1"]);
    let pane = crew.pane("w1");
    crew.kill(session(&crew, "w1")["pid"].as_i64().expect("it runs"));
    wait_for_state(&crew, "w1", "stopped");
    is_dead(&crew, "w1");
    assert_eq!(session(&crew, "w1")["reason"], "exit", "{}", crew.status());
    assert!(!crew.tmux(&["capture-pane", "-p", "-t", &pane]).contains("anybody"));
    // What the refusal says to do brings it back.
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["restart", "--headless"]);
    crew.ask("w1", "is anybody there");
    crew.finish();
}

// Case 020.
#[test]
fn long_instructions_reach_the_program_whole() {
    let line = |number: usize| {
        format!("{number:03} mind the gap; \"$HOME\" 'x' \\ `id` #{{y}} — 請 ---------------------------\n")
    };
    let instructions: String = (0..420).map(line).collect();
    assert!(instructions.len() > 30_000);
    let crew = Crew::written(&["w1"]);
    let role = format!("---\nname: w1\nrole: Worker\nprovider: fake\n---\n\n{instructions}");
    crew.ws.write(".team/current/agents/w1.md", &role);
    crew.start();
    let prompt = crew.fake_home("w1").join("events").join(format!("{}.system-prompt", crew.native("w1")));
    let prompt = fs::read_to_string(prompt).expect("it was given");
    assert!(prompt.contains(instructions.trim_end()), "{} of {} bytes", prompt.len(), instructions.len());
    crew.finish();
}

// Case 022.
#[test]
fn a_message_to_a_program_that_is_not_ready_waits_for_it() {
    let mut crew = Crew::written(&["w1"]);
    crew.script("slow-start 1.5");
    let mut command = crew.ws.command(crew.ws.program());
    command
        .args(["quick-start", "--headless"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut starting = command.spawn().expect("it starts");
    crew.ws.wait_for_event(|it| it["event"]["type"] == "spawn.opened", SOON);
    let sent = crew.ws.json(["send", "w1", "early\nbird", "--wait", "submitted", "--timeout", "0.1"]);
    assert_eq!(sent["receivers"][0]["receipt"]["reason"], "no_session", "{sent}");
    assert!(starting.wait().expect("it ends").success());
    crew.wait_for_text("w1", "early\nbird");
    assert_eq!(crew.texts("w1").len(), 1);
    let sendings = crew.events_of("message.sending");
    assert_eq!(sendings.len(), 1, "{sendings:?}");
    crew.finish();
}

// Case 035.
#[test]
fn a_program_is_started_by_its_arguments_and_by_no_shell() {
    let mut crew = Crew::written(&["w1"]);
    for name in [".bashrc", ".profile", ".bash_profile", ".zshrc", ".config/fish/config.fish"] {
        let path = crew.ws.home().join(name);
        fs::create_dir_all(path.parent().expect("it has one")).expect("the home is writable");
        fs::write(path, "sleep 2; echo noise; touch ~/a-shell-ran\n").expect("the home is writable");
    }
    let profile = crew.ws.home().join(".profile");
    crew.ws.set("SHELL", "/bin/bash").set("ENV", profile);
    crew.start();
    assert!(crew.bytes("w1").is_empty(), "nothing is typed to start it");
    assert!(!crew.ws.home().join("a-shell-ran").exists());
    let started = crew.fake_events("w1").into_iter().find(|it| it["event"] == "start").expect("it started");
    let argv: Vec<&str> =
        started["argv"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let native = crew.native("w1");
    assert!(argv.windows(2).any(|it| it == ["--session-id", native.as_str()]), "{argv:?}");
    crew.ask("w1", "hello");
    crew.finish();
}

// Case 036.
#[test]
fn a_program_that_ends_by_itself_is_never_idle_again() {
    let crew = Crew::started(&["w1", "w2"]);
    crew.control("w1", "exit 0");
    wait_for_state(&crew, "w1", "stopped");
    assert_ne!(crew.activity("w1"), "idle");
    let told = crew.events_of("notice.raised");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((&told[0]["event"]["cause"], &told[0]["event"]["about"]), (&"exit".into(), &"w1".into()));
    assert!(crew.ws.ok(["explain", "w1"]).contains("stopped"));
    is_dead(&crew, "w1");
    crew.ask("w2", "the others go on");
    crew.finish();
}

// Case 039.
#[test]
fn messages_sent_right_at_the_start_come_once_each() {
    let agents = ["w1", "w2", "w3", "w4", "w5"];
    let crew = Crew::started(&agents);
    for round in 0..4 {
        if round > 0 {
            crew.ws.ok(["shutdown"]);
            crew.ws.ok(["restart", "--headless"]);
        }
        crew.ws.ok(["send", "all", &format!("round {round}."), "--wait", "submitted", "--timeout", "40"]);
    }
    for agent in agents {
        crew.wait_for_text(agent, "round 3.");
        let all = crew.texts(agent).join("\n");
        let found: Vec<&str> = all.split("round ").skip(1).map(|it| &it[..2]).collect();
        assert_eq!(found, ["0.", "1.", "2.", "3."], "{agent}");
    }
    crew.finish();
}

// Case 043.
#[test]
fn a_window_closed_by_hand_is_missed_and_no_other_pane_is_touched() {
    let crew = Crew::started(&["w1", "w2"]);
    let other = crew.pane("w2");
    crew.tmux(&["kill-window", "-t", &crew.pane("w1")]);
    wait_for_state(&crew, "w1", "stopped");
    is_dead(&crew, "w1");
    assert_eq!(crew.ws.run(["attach", "w1"]).code, Some(1));
    assert!(crew.bytes("w2").is_empty());
    assert_eq!(crew.pane("w2"), other);
    assert_eq!(session(&crew, "w2")["state"], "running");
    crew.ask("w2", "hello");
    crew.finish();
}

// Case 046.
#[test]
fn a_name_means_that_agent_and_no_longer_one() {
    let crew = Crew::started(&["al", "alice"]);
    crew.ask("al", "only for al");
    let refused = crew.ws.run(["send", "ali", "hello"]);
    assert_eq!(refused.code, Some(1), "{}", refused.snapshot());
    assert!(refused.stderr.contains("alice") || refused.stderr.contains("`al`"), "{}", refused.snapshot());
    crew.kill(session(&crew, "al")["pid"].as_i64().expect("it runs"));
    wait_for_state(&crew, "al", "stopped");
    is_dead(&crew, "al");
    let attach = crew.ws.run(["attach", "al"]);
    assert_eq!(attach.code, Some(1), "{}", attach.snapshot());
    assert!(crew.bytes("alice").is_empty(), "alice got nothing");
    assert_eq!(session(&crew, "alice")["state"], "running");
    crew.finish();
}

// Cases 048, 049.
#[test]
fn a_persons_tmux_configuration_has_no_effect() {
    let crew = Crew::written(&["w1", "w2"]);
    let marker = crew.ws.home().join("hook-ran");
    let config = format!(
        "set -g base-index 1\nset -g pane-base-index 1\nset -g default-command 'sleep 1000'\n\
         set -g prefix C-a\nset -g remain-on-exit off\nset -g automatic-rename on\nset -g renumber-windows on\n\
         set -g default-terminal screen\nset -g mouse on\nset -g destroy-unattached on\n\
         set-hook -g after-new-window 'rename-window hijacked'\nset-hook -g after-new-session 'run-shell \"touch {0}\"'\n\
         set-hook -g after-split-window 'run-shell \"touch {0}\"'\nrun-shell 'touch {0}'\n",
        marker.display()
    );
    fs::write(crew.ws.home().join(".tmux.conf"), &config).expect("the home is writable");
    fs::create_dir_all(crew.ws.home().join(".config/tmux")).expect("the home is writable");
    fs::write(crew.ws.home().join(".config/tmux/tmux.conf"), &config).expect("the home is writable");
    crew.start();
    for agent in ["w1", "w2"] {
        crew.ask(agent, "hello");
    }
    assert_eq!(crew.tmux(&["show-options", "-gv", "base-index"]).trim(), "0");
    assert_eq!(crew.tmux(&["show-options", "-gv", "prefix"]).trim(), "C-b");
    let names = crew.tmux(&["list-windows", "-a", "-F", "#{window_name}"]);
    assert!(names.lines().any(|it| it == "w1") && names.lines().any(|it| it == "w2"), "{names}");
    assert!(!names.contains("hijacked"), "{names}");
    assert!(!marker.exists());
    crew.ws.ok(["attach", "w1", "--json"]);
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["restart", "--headless"]);
    crew.ask("w2", "hello again");
    crew.finish();
}

// Case 050.
#[test]
fn a_renamed_window_is_found_by_its_id() {
    let crew = Crew::started(&["w1", "w2"]);
    let pane = crew.pane("w1");
    crew.control("w1", "rename-title w2");
    crew.tmux(&["rename-window", "-t", &pane, "w2"]);
    crew.tmux(&["rename-window", "-t", &crew.pane("w2"), "[tmux]"]);
    crew.tmux(&["swap-window", "-s", &pane, "-t", &crew.pane("w2")]);
    crew.ask("w1", "for w1");
    assert!(crew.bytes("w2").is_empty());
    crew.ask("w2", "for w2");
    assert_eq!((crew.texts("w1").len(), crew.texts("w2").len()), (1, 1));
    assert_eq!(crew.pane("w1"), pane);
    crew.finish();
}
