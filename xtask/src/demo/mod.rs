//! `cargo xtask demo`: a small team on the built-in agent, run as a person would run it, and checked.
//!
//! Everything it makes lies in one temporary directory: workspace, home, state. At the end nothing of it is left.

mod checks;
mod live;
mod script;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use team_testkit::{TestWorkspace, leftovers, process};

use crate::{repo, say, setup};
use live::Live;

/// How long one call of the program may take.
const CALL: Duration = Duration::from_secs(30);
/// How long processes that were told to end may take.
const GONE: Duration = Duration::from_secs(5);

/// Runs the demo.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let keep = match arguments {
        [] => false,
        [only] if only == "--keep" => true,
        _ => bail!("demo takes `--keep` and nothing else"),
    };
    setup::tmux()?;
    let program = repo::program()?;
    let begun = Instant::now();
    let mut workspace = TestWorkspace::with_program(program);
    workspace.deadline(CALL);
    let demo = Demo { workspace, interrupted: Arc::default() };
    demo.clean_up_when_interrupted()?;
    let outcome = demo.play();
    while demo.interrupted.load(Ordering::SeqCst) {
        // The other thread ends everything, this one included; what failed meanwhile failed because of it.
        thread::park();
    }
    if outcome.is_err() {
        demo.show_end_of_log();
    }
    let kept = if keep { Some(demo.keep()?) } else { None };
    let cleaned = demo.end();
    let time = begun.elapsed();
    outcome.and(cleaned)?;
    say::line("");
    if let Some(path) = kept {
        say::line(&format!("The workspace and its log were kept in {}", path.display()));
    }
    say::line(&say::strong(&format!("The demo has passed in {:.1} s.", time.as_secs_f64())));
    Ok(ExitCode::SUCCESS)
}

/// A workspace with the demo's team in it.
struct Demo {
    workspace: TestWorkspace,
    interrupted: Arc<AtomicBool>,
}

impl Demo {
    /// The whole course, up to the checks.
    fn play(&self) -> Result<()> {
        let team = self.workspace.path().join(".team/current");
        copy(&repo::root().join("templates/demo"), &team)?;
        say::step(&format!("a team of {} agents, all played by the built-in agent", script::PARTS.len()));
        self.shown(&["quick-start", "--headless"])?;

        say::step("tasks");
        let live = Live::follow(self.command(&["events", "--follow", "--json"]))?;
        let mut tasks = Vec::new();
        // Workers first: they must know what to do when the lead writes to them.
        for part in script::PARTS {
            let text = part.task();
            say::line(&prompt(&format!("send --watch-result {} \"{} ...\"", part.agent, part.subject)));
            let sent = self.json(&[
                "send",
                "--watch-result",
                "--wait",
                "turn_started",
                "--timeout",
                "10",
                part.agent,
                &text,
            ])?;
            let task = sent["receivers"][0]["task"].as_str().context("a task has no number")?;
            tasks.push(task.to_owned());
        }
        say::step("results, as they come");
        for task in &tasks {
            self.quiet(&["wait", "--task", task, "--timeout", "20"])?;
        }
        // Everybody has read what was written to them before the team ends.
        for part in script::PARTS {
            self.quiet(&["wait", "--idle", part.agent, "--timeout", "10"])?;
        }
        self.shown(&["status"])?;
        self.shown(&["collect"])?;
        let again = self.json(&["collect"])?;
        if again["collected"] != 0 {
            bail!("a second collect showed {} results again", again["collected"]);
        }
        self.shown(&["shutdown"])?;
        live.end();

        say::step("checks");
        let events = self.workspace.events();
        checks::messages_arrived(&self.workspace)?;
        checks::reports_came_by_mcp(&events)?;
        checks::results_were_collected_once(&events)?;
        checks::nothing_runs(&self.workspace, GONE)?;
        Ok(())
    }

    /// Removes the temporary directory and makes sure of it.
    fn end(self) -> Result<()> {
        let root = self.workspace.root().to_owned();
        drop(self.workspace);
        if root.exists() {
            bail!("`{}` is still there", root.display());
        }
        say::line("  ok  the temporary directory is gone");
        Ok(())
    }

    fn keep(&self) -> Result<std::path::PathBuf> {
        let to = repo::root().join("target/demo");
        if to.exists() {
            fs::remove_dir_all(&to).with_context(|| format!("failed to remove `{}`", to.display()))?;
        }
        copy(self.workspace.path(), &to)?;
        Ok(to)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.workspace.command(self.workspace.program());
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs the program with what it says shown.
    fn shown(&self, arguments: &[&str]) -> Result<()> {
        say::line(&prompt(&arguments.join(" ")));
        let mut command = self.command(arguments);
        let status = command.status().context("failed to start team-agent")?;
        if !status.success() {
            bail!("`team-agent {}` ended with {status}", arguments.join(" "));
        }
        Ok(())
    }

    /// Runs the program and keeps what it says to itself, if all goes well.
    fn quiet(&self, arguments: &[&str]) -> Result<String> {
        let output = process::run(&mut self.command(arguments), CALL)?;
        if output.code != Some(0) {
            bail!("`team-agent {}`:\n{}", arguments.join(" "), output.snapshot());
        }
        Ok(output.stdout)
    }

    fn json(&self, arguments: &[&str]) -> Result<Value> {
        let mut all = vec!["--json"];
        all.extend(arguments);
        serde_json::from_str(&self.quiet(&all)?).context("team-agent printed no JSON")
    }

    fn show_end_of_log(&self) {
        let events = self.workspace.events();
        say::talk("The log ends:");
        for event in events.iter().skip(events.len().saturating_sub(20)) {
            say::talk(&format!("  {event}"));
        }
    }

    /// A person who has seen enough leaves nothing behind, either.
    fn clean_up_when_interrupted(&self) -> Result<()> {
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("failed to watch for signals")?;
        let marks = vec![self.workspace.root().to_string_lossy().into_owned()];
        let root = self.workspace.root().to_owned();
        let interrupted = self.interrupted.clone();
        thread::spawn(move || {
            let Some(signal) = signals.forever().next() else { return };
            interrupted.store(true, Ordering::SeqCst);
            say::talk("interrupted: ending the team");
            process::wait_until(
                || {
                    let running = leftovers::processes(&marks);
                    running.iter().for_each(leftovers::end);
                    running.is_empty()
                },
                GONE,
            );
            // Gone already is as good.
            fs::remove_dir_all(&root).ok();
            // The main thread waits for a program that was just ended.
            std::process::exit(128 + signal);
        });
        Ok(())
    }
}

fn prompt(arguments: &str) -> String {
    say::strong(&format!("$ team-agent {arguments}"))
}

/// Copies a directory; sockets and the like are left out.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("failed to make `{}`", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("failed to read `{}`", from.display()))? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_file() {
            fs::copy(entry.path(), &target)
                .with_context(|| format!("failed to write `{}`", target.display()))?;
        }
    }
    Ok(())
}
