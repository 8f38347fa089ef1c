//! A workspace keeps its promises to the tests that use it, whatever program runs in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use team_testkit::TestWorkspace;

const SOON: Duration = Duration::from_secs(10);

/// Makes a workspace whose program is a shell script.
fn with_script(directory: &Path, script: &str) -> TestWorkspace {
    let program = directory.join("program");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("the place is writable");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("the file is ours");
    TestWorkspace::with_program(program)
}

fn panics(what: impl FnOnce()) -> String {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(what)).expect_err("it panics");
    caught.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn a_program_sees_only_the_workspace_s_own_world() {
    let place = tempfile::tempdir().unwrap();
    let ws = with_script(
        place.path(),
        "pwd; echo \"$HOME|$XDG_STATE_HOME|$LANG|$TMUX|$CARGO_PKG_NAME\"; echo oops >&2; exit 3",
    );
    let expected = "--- stdout\n$WS\n$HOME|$STATE|C.UTF-8||\n--- stderr\noops\n--- exit 3\n";
    assert_eq!(ws.snapshot::<&str>([]), expected);
    ws.finish();
}

#[test]
fn json_is_asked_for_and_parsed() {
    let place = tempfile::tempdir().unwrap();
    let ws = with_script(place.path(), r#"printf '{"args":"%s"}' "$*""#);
    assert_eq!(ws.json(["status"])["args"], "status --json");
    ws.finish();
}

#[test]
fn a_process_left_running_fails_the_test_and_is_ended() {
    let place = tempfile::tempdir().unwrap();
    let mut ws = with_script(place.path(), "sleep 600 >/dev/null 2>&1 &");
    ws.patience(Duration::from_millis(100));
    ws.run::<&str>([]);
    let pids: Vec<i32> = ws.processes().iter().map(|it| it.pid).collect();
    assert_eq!(pids.len(), 1);
    let message = panics(|| ws.finish());
    assert!(message.contains("sleep 600"), "{message}");
    let state = fs::read_to_string(format!("/proc/{}/stat", pids[0])).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
}

#[test]
fn a_process_that_has_lost_its_environment_is_found_by_its_arguments() {
    let place = tempfile::tempdir().unwrap();
    let mut ws =
        with_script(place.path(), "cd / && : >\"$HOME/f\" && env -i tail -f \"$HOME/f\" >/dev/null 2>&1 &");
    ws.run::<&str>([]);
    ws.patience(Duration::from_millis(100));
    ws.wait_until("tail runs", || ws.processes().iter().any(|it| it.command.starts_with("tail -f ")), SOON);
    let message = panics(|| ws.finish());
    assert!(message.contains("tail -f "), "{message}");
}

#[test]
fn dropping_a_workspace_ends_what_runs_in_it_and_removes_it() {
    let place = tempfile::tempdir().unwrap();
    let ws = with_script(place.path(), "sleep 600 >/dev/null 2>&1 &");
    ws.run::<&str>([]);
    let root: PathBuf = ws.root().to_owned();
    drop(ws);
    assert!(!root.exists());
    let left = team_testkit::leftovers::processes(&[root.to_string_lossy().into_owned()]);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_call_that_hangs_is_ended_and_named() {
    let place = tempfile::tempdir().unwrap();
    let mut ws = with_script(place.path(), "echo so far; exec sleep 600");
    ws.deadline(Duration::from_millis(300));
    let message = panics(|| {
        ws.run(["hang"]);
    });
    assert!(message.contains("hang") && message.contains("so far"), "{message}");
    ws.finish();
}

#[test]
fn the_log_is_read_to_its_last_whole_line() {
    let place = tempfile::tempdir().unwrap();
    let ws = with_script(place.path(), "exit 0");
    ws.write(".team/logs/events.jsonl", "{\"seq\":1}\n{\"seq\":2}\n{\"se");
    assert_eq!(ws.events().len(), 2);
    let found = ws.wait_for_event(|event| event["seq"] == 2, Duration::from_secs(1));
    assert_eq!(found["seq"], 2);
    let message = panics(|| {
        ws.wait_for_event(|event| event["seq"] == 3, Duration::from_millis(20));
    });
    assert!(message.contains("{\"seq\":2}"), "{message}");
    ws.finish();
}

#[test]
fn the_program_under_test_is_found_or_built() {
    let ws = TestWorkspace::new();
    assert!(ws.program().is_file());
    assert_eq!(ws.run(["--version"]).code, Some(0));
    ws.finish();
}
