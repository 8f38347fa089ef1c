//! `cargo xtask check`: everything that must hold before a change is taken, step by step, all of them to the end.

mod borders;
mod docs;
mod edges;
mod rules;

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::{repo, say, schema, test};

/// What a step found to complain about; nothing if all is well.
type Found = Vec<String>;

struct Step {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result<Found>,
}

const STEPS: [Step; 8] = [
    Step { name: "fmt", about: "the format of the code", run: fmt },
    Step { name: "borders", about: "what may stand where", run: all_borders },
    Step { name: "references", about: "what the documents name", run: docs::check },
    Step { name: "clippy", about: "lints", run: clippy },
    Step { name: "doc", about: "the documentation of the code", run: doc },
    Step { name: "generated", about: "files that are written by programs", run: generated },
    Step { name: "deny", about: "licences, bans and sources of what we depend on", run: deny },
    Step { name: "test", about: "all tests", run: tests },
];

/// Runs the named steps, or all.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    if let Some(unknown) = arguments.iter().find(|it| STEPS.iter().all(|step| step.name != it.as_str())) {
        let names: Vec<&str> = STEPS.iter().map(|it| it.name).collect();
        bail!("there is no step `{unknown}`; there are {}", names.join(", "));
    }
    let wanted = |step: &&Step| arguments.is_empty() || arguments.iter().any(|it| it == step.name);
    let mut summary = Vec::new();
    let mut good = true;
    for step in STEPS.iter().filter(wanted) {
        say::step(&format!("{}: {}", step.name, step.about));
        let begun = Instant::now();
        // A step that cannot be run is a step that has failed; the others are run all the same.
        let found = (step.run)().unwrap_or_else(|error| vec![format!("{error:#}")]);
        for complaint in &found {
            say::line(complaint);
        }
        good &= found.is_empty();
        let word = if found.is_empty() { "ok" } else { "FAILED" };
        summary.push(format!("  {word:<7} {:<11} {:.1} s", step.name, begun.elapsed().as_secs_f64()));
    }
    say::step("all steps");
    for line in summary {
        say::line(&line);
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn all_borders() -> Result<Found> {
    let mut found = borders::check()?;
    found.extend(edges::check()?);
    Ok(found)
}

fn fmt() -> Result<Found> {
    cargo(&["fmt", "--all", "--check"], "run `cargo fmt --all`")
}

fn clippy() -> Result<Found> {
    cargo(
        &["clippy", "--workspace", "--all-targets", "--quiet", "--", "--deny", "warnings"],
        "clippy has complaints",
    )
}

fn doc() -> Result<Found> {
    let mut command = repo::cargo();
    command.args(["doc", "--workspace", "--no-deps", "--document-private-items", "--quiet"]);
    command.env("RUSTDOCFLAGS", "--deny warnings");
    Ok(complaint_unless(repo::succeeds(&mut command)?, "rustdoc has complaints"))
}

fn tests() -> Result<Found> {
    Ok(complaint_unless(test::run(&[])? == ExitCode::SUCCESS, "not all tests pass"))
}

/// The schemas are compared with what the program prints; the list of tools with what its crate says.
fn generated() -> Result<Found> {
    let tools = ["test", "--quiet", "--package", "team-mcp", "--lib", "the_reference_is_what_the_table_says"];
    let mut found = cargo(&tools, "docs/mcp-tools.md is stale: run `UPDATE_DOCS=1 cargo test -p team-mcp`")?;
    let stale = schema::stale(&repo::program()?)?;
    found.extend(stale.iter().map(|it| format!("docs/schema/{it} is stale: run `cargo xtask schema`")));
    Ok(found)
}

/// Advisories need a database that is fetched from elsewhere, so they are not part of this.
fn deny() -> Result<Found> {
    let tools = repo::root().join("target/tools");
    let own = tools.join("bin/cargo-deny");
    let there = repo::answers(Command::new("cargo-deny").arg("--version"));
    if !there && !own.is_file() {
        say::line("cargo-deny is missing: installing it into target/tools; this takes some minutes, once");
        let mut install = repo::cargo();
        install.args(["install", "--locked", "--quiet", "cargo-deny", "--root"]).arg(&tools);
        if !repo::succeeds(&mut install)? {
            return Ok(vec!["cargo-deny could not be installed".to_owned()]);
        }
    }
    let mut command = if there { Command::new("cargo-deny") } else { Command::new(&own) };
    command.current_dir(repo::root()).args(["--offline", "check", "licenses", "bans", "sources"]);
    let good = repo::succeeds(&mut command).context("failed to run cargo-deny")?;
    say::line("advisories are not looked at: their database lies elsewhere");
    Ok(complaint_unless(good, "cargo-deny has complaints"))
}

fn cargo(arguments: &[&str], complaint: &str) -> Result<Found> {
    Ok(complaint_unless(repo::succeeds(repo::cargo().args(arguments))?, complaint))
}

fn complaint_unless(good: bool, complaint: &str) -> Found {
    if good { Vec::new() } else { vec![complaint.to_owned()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_crosses_the_borders_between_crates() {
        assert_eq!(all_borders().unwrap(), Found::new());
    }

    #[test]
    fn the_documents_name_what_there_is() {
        assert_eq!(docs::check().unwrap(), Found::new());
    }
}
