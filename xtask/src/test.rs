//! `cargo xtask test`: all tests, whatever runner there is, and one honest closing line.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result};
use team_testkit::real;

use crate::{repo, say, setup};

/// Asks the fault sweep for more than its short form.
const SWEEP: &str = "TEAM_AGENT_SWEEP";

/// How many tests ended how.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// Sets up what is missing and runs all tests.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let begun = Instant::now();
    let (ours, theirs): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|it| matches!(it.as_str(), "--real-all" | "--sweep"));
    let all_clients = ours.iter().any(|it| *it == "--real-all");
    let sweep = ours.iter().any(|it| *it == "--sweep");

    say::step("what the tests need");
    setup::tmux()?;
    setup::clients(all_clients)?;
    // Tests take the program as it lies there.
    repo::program()?;

    let nextest = repo::answers(repo::cargo().args(["nextest", "--version"]));
    let mut command = repo::cargo();
    let chosen = |it: &&String| it.starts_with("-p") || it.starts_with("--package");
    let whole = if theirs.iter().any(chosen) { None } else { Some("--workspace") };
    if nextest {
        command.args(["nextest", "run", "--no-fail-fast"]).args(whole);
        command.args(if all_clients { &["--run-ignored", "all"][..] } else { &[] });
        command.args(&theirs);
    } else {
        command.args(["test", "--no-fail-fast"]).args(whole);
        let has_separator = theirs.iter().any(|it| *it == "--");
        command.args(&theirs);
        if all_clients {
            command.args(if has_separator {
                &["--include-ignored"][..]
            } else {
                &["--", "--include-ignored"]
            });
        }
    }
    command.args(if say::colors() && !theirs.iter().any(|it| *it == "--") && nextest {
        &["--color", "always"][..]
    } else {
        &[]
    });
    let skips = repo::root().join("target").join(format!("skipped-{}.log", std::process::id()));
    std::fs::create_dir_all(repo::root().join("target")).context("failed to make `target`")?;
    command.env(real::SKIP_LOG, &skips);
    if sweep {
        command.env(SWEEP, "1");
    }
    say::step(if nextest { "cargo nextest run" } else { "cargo test (cargo-nextest is not installed)" });
    let (succeeded, output) = shown(&mut command)?;
    let named = std::fs::read_to_string(&skips).unwrap_or_default();
    // A log that was never written need not be removed.
    std::fs::remove_file(&skips).ok();

    let mut counts = count(&output);
    say::line("");
    for (line, times) in skipped(&named) {
        say::line(&format!("{line} ({times} {})", if times == 1 { "test" } else { "tests" }));
        counts.passed = counts.passed.saturating_sub(times);
        counts.skipped += times;
    }
    let real =
        if all_clients { "the full matrix of real programs" } else { "the small set of real programs" };
    say::line(&format!("time: {:.1} s, with {real}", begun.elapsed().as_secs_f64()));
    say::line(&format!(
        "total: {} passed, {} failed, {} skipped",
        counts.passed, counts.failed, counts.skipped
    ));
    Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a command and shows what it writes as it comes; returns whether it went well, and all of it.
fn shown(command: &mut Command) -> Result<(bool, String)> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("failed to start cargo")?;
    let out = child.stdout.take().map(|it| thread::spawn(move || pass_on(it, false)));
    let err = child.stderr.take().map(|it| thread::spawn(move || pass_on(it, true)));
    let status = child.wait().context("failed to wait for cargo")?;
    let mut text = String::new();
    for reader in [out, err].into_iter().flatten() {
        text += &reader.join().unwrap_or_default();
    }
    Ok((status.success(), text))
}

fn pass_on(mut from: impl Read, to_error: bool) -> String {
    let mut all = Vec::new();
    let mut buffer = [0; 8192];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        say::raw(&buffer[..count], to_error);
        all.extend_from_slice(&buffer[..count]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// Adds up the closing lines of either runner.
fn count(output: &str) -> Counts {
    let mut counts = Counts::default();
    let output = plain(output);
    // The summary speaks of the whole run; between its lines are the results of single tries.
    let whole = output.lines().any(|it| it.trim().starts_with("Summary ["));
    for line in output.lines().map(str::trim) {
        let rest = if let Some(rest) = line.strip_prefix("test result: ").filter(|_| !whole) {
            rest
        } else if let Some(rest) = line.strip_prefix("Summary [").and_then(|it| it.split_once("run: ")) {
            rest.1
        } else {
            continue;
        };
        for part in rest.split([';', ',', '.']) {
            let mut words = part.split_whitespace();
            let (Some(number), Some(word)) = (words.next(), words.next()) else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match word {
                "passed" => counts.passed += number,
                "failed" | "exec" | "timed" => counts.failed += number,
                "skipped" | "ignored" => counts.skipped += number,
                _ => {}
            }
        }
    }
    counts
}

/// Takes colors out.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(it) = characters.next() {
        if it == '\u{1b}' {
            characters.by_ref().find(char::is_ascii_alphabetic);
        } else {
            out.push(it);
        }
    }
    out
}

/// Returns each skip once, and how often it was said.
fn skipped(log: &str) -> BTreeMap<&str, u64> {
    let mut times = BTreeMap::new();
    for line in log.lines().filter(|it| !it.is_empty()) {
        *times.entry(line).or_default() += 1;
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_of_cargo_test_are_added_up() {
        let output = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.1s\n\
                      noise: 7 passed\n\
                      test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(count(output), Counts { passed: 14, failed: 3, skipped: 1 });
    }

    #[test]
    fn the_summary_of_nextest_is_read_with_and_without_colors() {
        let line =
            "     Summary [   1.234s] 20 tests run: 17 passed (1 slow), 2 failed, 1 timed out, 4 skipped";
        let wanted = Counts { passed: 17, failed: 3, skipped: 4 };
        assert_eq!(count(line), wanted);
        let colored = "\u{1b}[32;1m     Summary\u{1b}[0m [   1.2s] \u{1b}[1m20\u{1b}[0m tests run: \u{1b}[1m17\u{1b}[0m \
                       \u{1b}[32;1mpassed\u{1b}[0m, 2 failed, 1 timed out, 4 skipped";
        assert_eq!(count(colored), wanted);
        assert_eq!(count("Summary [ 1.2s] 1/3 tests run: 1 failed, 2 skipped").failed, 1);
    }

    #[test]
    fn a_try_that_failed_before_a_later_one_passed_is_no_failure() {
        let output = "TRY 1 FAIL [ 0.7s] a::b\n    test result: FAILED. 0 passed; 1 failed; 0 ignored\n\
                      Summary [ 2.1s] 3 tests run: 3 passed (1 flaky), 1 skipped";
        assert_eq!(count(output), Counts { passed: 3, failed: 0, skipped: 1 });
    }

    #[test]
    fn skips_are_named_once_and_counted() {
        let log = "skipped: claude: npm not found\nskipped: claude: npm not found\n";
        assert_eq!(skipped(log), BTreeMap::from([("skipped: claude: npm not found", 2)]));
    }
}
