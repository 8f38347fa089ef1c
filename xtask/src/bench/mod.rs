//! Measures the program as a person and as agents use it, on a log with much behind it, against floors of the same run.
//!
//! Knows the program's commands, what the built-in agent writes down, and the targets. Changes nothing but temporary
//! directories. What the figures were, and how they are to be read: docs/performance.md.

mod bed;
mod crowd;
mod figure;
mod floor;
mod history;
mod machine;
mod real;
mod single;
mod storm;
mod team;

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use self::bed::Bed;
use self::figure::Figures;
use crate::{repo, say, setup};

const HELP: &str = "\
Usage: cargo xtask bench [OPTIONS]

      --quick           few repetitions, a short look at idle agents
      --json            print the figures as JSON
      --idle SECONDS    how long idle agents are watched (60, quick: 10)
      --events N        how many lines lie behind in the log (100000)
      --agents A,B,..   team sizes (1,4,16); most figures are taken with the largest
      --real [NAME..]   only the real agent programs: start, memory, and what holds for each
      --only WORD       only the parts whose name contains WORD: start, send, crowd, report, question, storm, status,
                        turn, takeover, idle, shutdown, program

Takes the program that TEAM_AGENT_BIN names, else builds it with optimizations.";

/// What is to be measured, and how often.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    quick: bool,
    json: bool,
    idle_seconds: u64,
    events: u64,
    agents: Vec<usize>,
    only: Option<String>,
}

impl Plan {
    /// Picks the number of repetitions.
    fn times(&self, full: usize, quick: usize) -> usize {
        if self.quick { quick } else { full }
    }

    fn wants(&self, part: &str) -> bool {
        self.only.as_ref().is_none_or(|it| part.contains(it.as_str()))
    }

    fn wants_any(&self, parts: &[&str]) -> bool {
        parts.iter().any(|it| self.wants(it))
    }

    fn read(arguments: &[String]) -> Result<Self> {
        let mut plan = Self {
            quick: false,
            json: false,
            idle_seconds: 0,
            events: 100_000,
            agents: vec![1, 4, 16],
            only: None,
        };
        let mut rest = arguments.iter();
        while let Some(flag) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("`{flag}` needs a value"));
            match flag.as_str() {
                "--quick" => plan.quick = true,
                "--json" => plan.json = true,
                "--idle" => plan.idle_seconds = value()?.parse().context("--idle wants seconds")?,
                "--events" => plan.events = value()?.parse().context("--events wants a number")?,
                "--agents" => {
                    let sizes: Result<Vec<usize>, _> = value()?.split(',').map(str::parse).collect();
                    plan.agents = sizes.context("--agents wants numbers")?;
                }
                "--only" => plan.only = Some(value()?.clone()),
                other => bail!("there is no option `{other}`\n\n{HELP}"),
            }
        }
        if plan.agents.contains(&0) || plan.agents.is_empty() {
            bail!("a team has at least one agent");
        }
        if plan.idle_seconds == 0 {
            plan.idle_seconds = if plan.quick { 10 } else { 60 };
        }
        Ok(plan)
    }
}

/// Runs the measurements; the exit code says whether every target was met.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    if let Some((command, rest)) = arguments.split_first()
        && command == history::COMMAND
    {
        history::write(rest)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some((_, names)) = arguments.split_first().filter(|(it, _)| *it == "--real") {
        setup::tmux()?;
        return real::run(&program()?, names);
    }
    let plan = Plan::read(arguments)?;
    setup::tmux()?;
    let program = program()?;
    let mut figures = Figures::new(plan.json);
    say::talk(&machine::describe());
    let empty = floor::empty_program()?;
    let mut bed = Bed::new(&program, plan.events)?;
    if plan.wants("program") {
        single::program(&bed, &plan, &empty, &mut figures)?;
    }
    if plan.wants("status") {
        single::status_without_team(&bed, &plan, &mut figures)?;
    }
    let largest = plan.agents.iter().copied().max().unwrap_or(1);
    let needs_team = [
        "start", "send", "crowd", "report", "question", "storm", "status", "turn", "takeover", "idle",
        "shutdown",
    ];
    for size in plan.agents.clone() {
        if !plan.wants_any(&needs_team) {
            break;
        }
        let team = team::start_measured(&mut bed, &plan, size, &mut figures)?;
        if plan.wants("send") {
            single::send(&bed, &team, &plan, &mut figures)?;
        }
        if size == largest {
            whole(&bed, &team, &plan, &mut figures)?;
        }
        team::end(&bed, &team)?;
    }
    if plan.wants("shutdown") {
        team::shutdown_of_the_deaf(&mut bed, largest.min(4), &mut figures)?;
    }
    bed.finish();
    say::talk(&machine::describe());
    figures.finish()
}

/// The program to be measured: named, or built with optimizations.
fn program() -> Result<PathBuf> {
    if std::env::var_os(team_testkit::program::PROGRAM).is_some() {
        return repo::program();
    }
    say::talk("building team-agent with optimizations");
    let mut build = repo::cargo();
    build.args(["build", "--release", "--package", "team-agent", "--bin", "team-agent"]);
    build.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let output = build.output().context("failed to start cargo")?;
    if !output.status.success() {
        bail!("team-agent could not be built");
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find(|it| it["target"]["name"] == "team-agent" && it["executable"].is_string())
        .and_then(|it| it["executable"].as_str().map(PathBuf::from))
        .context("cargo did not say where it put team-agent")
}

/// What is measured with the largest team only.
fn whole(bed: &Bed, team: &team::Team, plan: &Plan, figures: &mut Figures) -> Result<()> {
    if plan.wants("crowd") {
        crowd::broadcast(bed, team, plan, figures)?;
    }
    if plan.wants("turn") {
        crowd::log_per_turn(bed, team, figures)?;
    }
    if plan.wants("report") {
        single::report(bed, team, plan, figures)?;
    }
    if plan.wants("question") {
        single::question(bed, team, plan, figures)?;
    }
    if plan.wants("status") {
        single::status(bed, team, plan, figures)?;
    }
    if plan.wants("storm") {
        storm::measure(bed, team, plan, figures)?;
    }
    if plan.wants("takeover") {
        crowd::take_over(bed, team, plan, figures)?;
    }
    if plan.wants("idle") {
        crowd::idle(bed, team, plan, figures)?;
    }
    Ok(())
}
