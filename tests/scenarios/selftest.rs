//! A self-test that does not come to its end.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use team_scenarios::SOON;
use team_testkit::TestWorkspace;

/// Begins a self-test and waits until its team runs.
fn begun(ws: &TestWorkspace) -> Child {
    let mut command = ws.command(ws.program());
    command.arg("selftest").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("the program starts");
    let agent = || ws.processes().iter().any(|it| it.command.contains(" fake-agent "));
    ws.wait_until("its agent runs", agent, SOON);
    child
}

fn signal(ws: &TestWorkspace, signal: &str, child: &Child) {
    let line = format!("kill -{signal} {}", child.id());
    assert!(ws.command("sh").args(["-c", &line]).status().expect("there is a shell").success());
}

/// Waits for the end of a self-test and returns its exit code.
fn ended(ws: &TestWorkspace, mut child: Child) -> Option<i32> {
    let mut status = None;
    let end = || {
        status = child.try_wait().expect("it is a child");
        status.is_some()
    };
    ws.wait_until("it ends", end, SOON);
    status.and_then(|it| it.code())
}

/// The directories of tries that are left.
fn tries(ws: &TestWorkspace) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(ws.state_home().join("team-agent")).into_iter().flatten().flatten();
    entries.map(|it| it.path()).collect()
}

#[track_caller]
fn nothing_is_left(ws: &TestWorkspace) {
    let left = ws.processes();
    assert!(left.is_empty(), "{left:?}");
    assert_eq!(tries(ws), Vec::<PathBuf>::new());
}

#[test]
fn a_self_test_that_is_asked_to_end_ends_its_team_first() {
    for (name, code) in [("TERM", 143), ("INT", 130), ("HUP", 129)] {
        let ws = TestWorkspace::new();
        let child = begun(&ws);
        assert_eq!(tries(&ws).len(), 1);
        signal(&ws, name, &child);
        assert_eq!(ended(&ws, child), Some(code), "{name}");
        nothing_is_left(&ws);
        ws.finish();
    }
}

#[test]
fn a_self_test_that_is_asked_twice_ends_at_once_and_leaves_nothing() {
    let ws = TestWorkspace::new();
    let mut child = begun(&ws);
    // Its team cannot end in order.
    let coordinator = ws.processes().into_iter().find(|it| it.command.contains(" coordinator"));
    let stop = format!("kill -STOP {}", coordinator.expect("a coordinator runs").pid);
    assert!(ws.command("sh").args(["-c", &stop]).status().expect("there is a shell").success());
    signal(&ws, "INT", &child);
    let since = Instant::now();
    // Two that come in one moment are one: who wants it to end presses again.
    let gone = || {
        let gone = child.try_wait().expect("it is a child").is_some();
        if !gone {
            signal(&ws, "INT", &child);
        }
        gone
    };
    ws.wait_until("it ends", gone, SOON);
    assert_eq!(child.wait().expect("it is a child").code(), Some(130));
    assert!(since.elapsed() < Duration::from_secs(4), "{:?}", since.elapsed());
    nothing_is_left(&ws);
    ws.finish();
}

#[test]
fn what_a_killed_self_test_left_is_ended_by_the_next_one() {
    let ws = TestWorkspace::new();
    let mut child = begun(&ws);
    let abandoned = tries(&ws);
    signal(&ws, "KILL", &child);
    child.wait().expect("it is a child");
    assert!(!ws.processes().is_empty(), "its team goes on");

    let next = ws.command(ws.program()).args(["selftest"]).stdout(Stdio::null()).spawn().expect("it starts");
    let is_gone = || !tries(&ws).contains(&abandoned[0]) && !tries(&ws).is_empty();
    ws.wait_until("the abandoned one is gone", is_gone, SOON);
    let path = abandoned[0].to_string_lossy().into_owned();
    assert!(!ws.processes().iter().any(|it| it.command.contains(&path)));
    signal(&ws, "TERM", &next);
    assert_eq!(ended(&ws, next), Some(143));
    nothing_is_left(&ws);
    ws.finish();
}
