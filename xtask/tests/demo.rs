//! The demo works for somebody who has nothing but a checkout.

use std::path::Path;
use std::process::Command;

use team_testkit::program;

/// Runs the demo with only what a person without a home directory has.
fn demo(home: Option<&Path>) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("demo").env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env(program::PROGRAM, program::team_agent().expect("the program is built"));
    command.envs(home.map(|it| ("HOME", it)));
    let output = command.output().expect("xtask can be started");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn the_demo_shows_a_team_at_work_and_leaves_nothing_in_an_empty_home() {
    let home = tempfile::tempdir().unwrap();
    let said = demo(Some(home.path()));
    for wanted in [
        "ready: current (4 agents)",
        r#"planner -> builder  "Start with the parser and keep it small.""#,
        "reports success for task 1, by mcp",
        "Collected 4 results.",
        "ok  6 messages between agents arrived, once each",
        "The demo has passed",
    ] {
        assert!(said.contains(wanted), "`{wanted}` is not in:\n{said}");
    }
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[test]
fn the_demo_works_without_a_home() {
    assert!(demo(None).contains("The demo has passed"));
}
