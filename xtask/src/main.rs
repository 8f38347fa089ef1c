//! Our scripts: `cargo xtask demo`, `test`, `check`, `schema` and `bench`.
//!
//! Knows the repository: where things are, which tools it wants, what must hold for every file. Must not know how the
//! program works inside: it runs it as a person would.

mod bench;
mod check;
mod demo;
mod repo;
mod say;
mod schema;
mod setup;
mod test;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
Usage: cargo xtask COMMAND

  demo [--keep]           run a small team on the built-in agent, watch it, and check what came of it
  test [OPTIONS] [ARGS]   run all tests; ARGS go to the test runner
      --real-all          also those that need all pinned agent programs (several hundred megabytes)
      --sweep             also the long fault sweep
  check [STEP...]         format, lints, tests, docs, licences, generated files, borders
  schema [--check]        write docs/schema from the program, or say what is stale
  bench [ARGS]            measure

Nothing needs to be set up first: what is missing is installed, or one line says how.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            say::talk(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<ExitCode> {
    let Some((command, rest)) = arguments.split_first() else {
        say::talk(HELP);
        return Ok(ExitCode::from(2));
    };
    if command == "--help" || command == "-h" || rest.iter().any(|it| it == "--help") && command != "test" {
        say::line(HELP);
        return Ok(ExitCode::SUCCESS);
    }
    match command.as_str() {
        "demo" => demo::run(rest),
        "test" => test::run(rest),
        "check" => check::run(rest),
        "schema" => schema::run(rest),
        "bench" => bench::run(rest),
        other => bail!("there is no command `{other}`; run `cargo xtask --help`"),
    }
}
