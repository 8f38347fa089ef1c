//! What must hold for every provider: the self-test, on the built-in agent, as itself and in the clothes of each program
//! that it plays, and on each real program with the stub.

mod messages;
mod mixed;
mod nested;
mod team;

use std::process::Stdio;

use serde_json::Value;
use team_testkit::{TestWorkspace, real};

/// Runs the self-test and checks that everything that was tried holds.
#[track_caller]
fn everything_holds(ws: TestWorkspace, arguments: &[&str]) {
    let mut command = ws.command(ws.program());
    command.arg("selftest").args(arguments).arg("--json").stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().expect("it runs");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let checks = answer["checks"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let failed: Vec<String> =
        checks.iter().filter(|it| it["tried"] == true && it["ok"] != true).map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(checks.iter().filter(|it| it["tried"] == true).count() >= 10, "{answer}");
    ws.finish();
}

fn of_the_real(provider: &str) {
    let Some(client) = real::client_or_skip(provider) else { return };
    let mut ws = TestWorkspace::new();
    ws.path_first(client.program.parent().expect("a program lies in a directory"));
    everything_holds(ws, &["--real", "--provider", provider]);
}

/// The built-in agent plays the program, so that our module for it is tried where it is not installed.
fn of_the_played(provider: &str) {
    everything_holds(TestWorkspace::new(), &["--provider", provider]);
}

#[test]
fn holds_for_the_built_in_agent() {
    of_the_played("fake");
}

#[test]
fn holds_for_the_played_claude() {
    of_the_played("claude");
}

#[test]
fn holds_for_the_played_codex() {
    of_the_played("codex");
}

#[test]
fn holds_for_the_played_copilot() {
    of_the_played("copilot");
}

#[test]
fn holds_for_the_played_gemini() {
    of_the_played("gemini");
}

#[test]
fn holds_for_the_played_opencode() {
    of_the_played("opencode");
}

#[test]
fn holds_for_the_real_claude() {
    of_the_real("claude");
}

#[test]
fn holds_for_the_real_codex() {
    of_the_real("codex");
}

#[test]
fn holds_for_the_real_copilot() {
    of_the_real("copilot");
}

#[test]
fn holds_for_the_real_gemini() {
    of_the_real("gemini");
}

#[test]
fn holds_for_the_real_opencode() {
    of_the_real("opencode");
}
