//! Who a workspace is, and that its running team is found whatever is done to the files that say so.

use std::fs;

use serde_json::Value;
use team_scenarios::{Crew, SOON};

/// Runs a command of the crew under another home.
fn elsewhere(crew: &Crew, home: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = crew.ws.command(crew.ws.program());
    command.args(arguments).env_remove("XDG_STATE_HOME").env("HOME", home);
    let output = command.output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), format!("{out}{err}"))
}

fn pid(crew: &Crew, agent: &str) -> Value {
    crew.status()["agents"][agent]["session"]["pid"].clone()
}

#[test]
fn another_home_is_no_other_workspace() {
    let crew = Crew::started(&["w1"]);
    let before = pid(&crew, "w1");
    let home = crew.ws.root().join("other-home");
    fs::create_dir(&home).expect("it is writable");
    let home = home.to_string_lossy().into_owned();
    for (arguments, wanted) in [
        (vec!["status"], Some(0)),
        (vec!["send", "w1", "from another home", "--wait", "answered", "--timeout", "20"], Some(0)),
        (vec!["collect"], Some(0)),
        (vec!["restart", "--headless"], Some(1)),
        (vec!["quick-start", "--headless"], Some(1)),
    ] {
        let (code, said) = elsewhere(&crew, &home, &arguments);
        assert_eq!(code, wanted, "{arguments:?}: {said}");
        assert!(!said.contains("no team was started"), "{arguments:?}: {said}");
    }
    assert_eq!(crew.events_of("workspace.adopted").len(), 0);
    assert_eq!(pid(&crew, "w1"), before);
    let (code, said) = elsewhere(&crew, &home, &["shutdown"]);
    assert_eq!(code, Some(0), "{said}");
    crew.finish();
}

#[test]
fn an_id_file_that_is_changed_or_removed_hides_nothing_and_comes_back() {
    let crew = Crew::started(&["w1"]);
    let before = pid(&crew, "w1");
    let file = crew.ws.path().join(".team/id");
    let right = crew.ws.read(".team/id");
    let back = || fs::read_to_string(&file).is_ok_and(|it| it == right);
    for wrong in [Some("garbage\n"), Some(""), Some("0123456789abcdef\nstate /nowhere\n"), None] {
        match wrong {
            Some(text) => fs::write(&file, text).expect("it is writable"),
            None => fs::remove_file(&file).expect("it is there"),
        }
        let (code, said) = elsewhere_as_usual(&crew, &["send", "w1", "are you there?", "--wait", "accepted"]);
        assert_eq!(code, Some(0), "{wrong:?}: {said}");
        crew.ws.wait_until("the id is back", back, SOON);
    }
    // Also where nobody is there to see it.
    crew.ws.ok(["shutdown"]);
    fs::write(&file, "garbage\n").expect("it is writable");
    crew.ws.ok(["restart", "--headless"]);
    crew.ws.wait_until("the id is back", back, SOON);
    assert_eq!(crew.events_of("workspace.adopted").len(), 0);
    assert_ne!(pid(&crew, "w1"), before);
    crew.finish();
}

fn elsewhere_as_usual(crew: &Crew, arguments: &[&str]) -> (Option<i32>, String) {
    let output = crew.ws.run(arguments);
    (output.code, output.snapshot())
}

#[test]
fn a_garbled_id_file_of_a_new_workspace_is_written_anew() {
    for text in ["", "garbage\n", "\u{0}\u{1}"] {
        let crew = Crew::written(&["w1"]);
        crew.ws.write(".team/id", text);
        crew.start();
        crew.ask("w1", "hello");
        crew.finish();
    }
}

#[test]
fn what_git_ignores_may_be_thrown_away_under_a_running_team() {
    let crew = Crew::started(&["w1"]);
    let before = pid(&crew, "w1");
    for it in ["logs", "runtime"] {
        let _ = fs::remove_dir_all(crew.ws.path().join(".team").join(it));
    }
    fs::remove_file(crew.ws.path().join(".team/id")).expect("it is there");
    crew.ws.wait_until("the log is back", || !crew.ws.events().is_empty(), SOON);
    let output = crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    crew.ask("w1", "still the same?");
    assert_eq!(pid(&crew, "w1"), before);
    assert_eq!(crew.events_of("server.started").len(), 1);
    crew.finish();
}

#[test]
fn the_coordinators_socket_may_be_removed_under_a_live_team() {
    let crew = Crew::started(&["w1"]);
    let coordinator = crew.status()["coordinator"]["pid"].clone();
    let socket = crew.ws.state_directory().expect("it has state").join("c");
    fs::remove_file(&socket).expect("it is there");
    crew.ws.wait_until("it is back", || socket.exists(), SOON);
    crew.ws.ok(["shutdown"]);
    let log = crew.events_of("coordinator.started");
    assert_eq!(log.len(), 1, "{log:?}");
    assert_eq!(log[0]["event"]["process"]["pid"], coordinator);
    // Nothing of the servers' is left.
    let left: Vec<_> = ["c", "tmux"].iter().filter(|it| socket.with_file_name(it).exists()).collect();
    assert!(left.is_empty(), "{left:?}");
    crew.finish();
}

#[test]
fn a_stopped_coordinator_does_what_was_asked_when_it_goes_on() {
    let crew = Crew::started(&["w1"]);
    let pid = crew.status()["coordinator"]["pid"].as_i64().unwrap_or_default().to_string();
    let signal = |name: &str| crew.ws.command("kill").args([name, &pid]).status().expect("it runs");
    assert!(signal("-STOP").success());
    let output = crew.ws.run(["shutdown"]);
    assert!(signal("-CONT").success());
    assert_eq!(output.code, Some(4), "{}", output.snapshot());
    assert!(output.stderr.contains(&format!("kill -CONT {pid}")), "{}", output.snapshot());
    crew.ws.wait_until("it is stopped", || crew.status()["state"] == "stopped", SOON);
    crew.finish();
}

#[test]
fn a_state_directory_that_others_can_use_is_refused_with_what_helps() {
    use std::os::unix::fs::PermissionsExt as _;
    let crew = Crew::started(&["w1"]);
    let dir = crew.ws.state_directory().expect("it has state");
    let mode = |mode| fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).expect("it is ours");
    mode(0o777);
    let hint = format!("chmod 700 '{}'", dir.display());
    for (verb, code) in [("doctor", Some(3)), ("shutdown", Some(3))] {
        let output = crew.ws.run([verb]);
        let said = format!("{}{}", output.stdout, output.stderr);
        assert_eq!(output.code, code, "{}", output.snapshot());
        assert!(said.contains(&hint), "{}", output.snapshot());
    }
    mode(0o700);
    crew.ws.ok(["shutdown"]);
    crew.finish();
}
