//! The real agent programs: how long each takes to start and what it weighs, and what holds for it.
//!
//! Knows where the pinned programs are and the self-test's answer.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result};
use serde_json::Value;
use team_testkit::real;

use crate::say;

/// Measures each pinned program, or those named.
pub(super) fn run(program: &Path, names: &[String]) -> Result<ExitCode> {
    let pins = real::pins();
    let mut good = true;
    say::line("provider     version     start    memory  processes  holds");
    for (name, pin) in pins.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        let client = match real::client(name) {
            Ok(client) => client,
            Err(skip) => {
                say::line(&format!("{name:<12} skipped: {skip}"));
                continue;
            }
        };
        let checks = selftest(program, name, &client.program)?;
        let tried = |it: &&Value| it["tried"] == true;
        let count = checks.iter().filter(tried).count();
        let failed: Vec<&str> = checks
            .iter()
            .filter(tried)
            .filter(|it| it["ok"] != true)
            .filter_map(|it| it["name"].as_str())
            .collect();
        good &= failed.is_empty() && count > 0;
        let figure = |what: &str| {
            checks.iter().find_map(|it| it["figures"][what].as_f64()).map_or(
                "-".to_owned(),
                |it| match what {
                    "start_ms" => format!("{:.1} s", it / 1000.0),
                    "memory_kib" => format!("{:.0} MB", it / 1024.0),
                    _ => format!("{it:.0}"),
                },
            )
        };
        say::line(&format!(
            "{name:<12} {:<11} {:<8} {:<7} {:<10} {} of {count}{}{}",
            pin.version,
            figure("start_ms"),
            figure("memory_kib"),
            figure("processes"),
            count - failed.len(),
            if failed.is_empty() { "" } else { "; not: " },
            failed.join(", "),
        ));
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn selftest(program: &Path, provider: &str, client: &Path) -> Result<Vec<Value>> {
    let first = client.parent().context("a program lies in a directory")?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(first.to_owned()).chain(std::env::split_paths(&path)))?;
    let output = Command::new(program)
        .args(["selftest", "--real", "--provider", provider, "--json"])
        .env("PATH", path)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("failed to run the self-test")?;
    let answer: Value = serde_json::from_slice(&output.stdout).context("the self-test answered no JSON")?;
    if let Some(message) = answer["error"]["message"].as_str().filter(|_| !answer["checks"].is_array()) {
        say::line(&format!("{provider:<12} {message}"));
    }
    Ok(answer["checks"].as_array().cloned().unwrap_or_default())
}
