//! `selftest`

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;
use team_engine::ErrorKind;
use team_selftest::{Check, Plan};

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Try what must hold for an agent program
///
/// Makes a team of one agent in a directory and home of its own and removes them again. No account and no network are
/// needed: the built-in agent is tried as itself and in the clothes of each program that it can play, or with `--real`
/// the installed programs talk to a model of ours.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  team-agent selftest
  team-agent selftest --provider claude
  team-agent selftest --real --provider claude")]
pub(crate) struct SelftestArgs {
    /// Only this provider
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Try the installed programs instead of the built-in one
    #[arg(long)]
    real: bool,
}

/// What held and what did not.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Selftest {
    /// Every promise.
    checks: Vec<Check>,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &SelftestArgs) -> Result<u8, CliError> {
    let providers = providers(args)?;
    let program = std::env::current_exe()
        .map_err(|error| CliError::new(ErrorKind::Bug, "no_program", error.to_string()))?;
    let base = team_engine::workspace::state_root().map_err(team_engine::EngineError::from)?;
    team_selftest::take_signals()
        .map_err(|error| CliError::new(ErrorKind::Environment, "selftest", error.to_string()))?;
    let mut checks = Vec::new();
    for provider in providers {
        let played = !args.real && plays(&provider);
        if !ui.is_json() {
            let how = if played { ", played by the built-in agent" } else { "" };
            ui.line(&format!("{provider}{how}:"));
        }
        let plan = Plan { program: program.clone(), base: base.clone(), provider, played };
        let mut tell = |check: &Check| {
            if !ui.is_json() {
                ui.line(&line(check));
            }
        };
        let found = team_selftest::run(&plan, &mut tell)
            .map_err(|error| CliError::new(ErrorKind::Environment, "selftest", error.to_string()))?;
        checks.extend(found);
        if let Some(code) = team_selftest::exit_code() {
            let message = "it was ended before everything was tried; what it had started has ended, too";
            let failure = CliError::new(ErrorKind::User, "interrupted", message);
            ui.answer(&Selftest { checks }, Some(&failure), |_| {});
            return Ok(code);
        }
    }
    let failed = checks.iter().filter(|it| it.tried && !it.ok).count();
    let failure = (failed > 0).then(|| {
        CliError::new(ErrorKind::User, "checks_failed", format!("{failed} of {} checks failed", checks.len()))
            .with_hint(format!("run `{}` to see what is installed", context.paste("doctor")))
    });
    Ok(ui.answer(&Selftest { checks }, failure.as_ref(), |_| {}))
}

/// Whether the built-in agent can play the program of a provider.
fn plays(provider: &str) -> bool {
    team_fake::clothes().contains(&provider)
}

/// Which providers are tried.
fn providers(args: &SelftestArgs) -> Result<Vec<String>, CliError> {
    let all = team_engine::ops::programs();
    let Some(name) = &args.provider else {
        let tried = |own: bool, installed: bool, name: &str| {
            if args.real { !own && installed } else { own || plays(name) }
        };
        let wanted = all.iter().filter(|it| tried(it.own, it.installed, it.name));
        let wanted: Vec<String> = wanted.map(|it| it.name.to_owned()).collect();
        if wanted.is_empty() {
            return Err(CliError::new(ErrorKind::Environment, "no_program", "no agent program is installed")
                .with_hint("install one, or leave out `--real`"));
        }
        return Ok(wanted);
    };
    let Some(found) = all.iter().find(|it| it.name == name.as_str()) else {
        let names: Vec<&str> = all.iter().map(|it| it.name).collect();
        return Err(CliError::usage(
            format!("there is no provider `{name}`"),
            format!("there is: {}", names.join(", ")),
        ));
    };
    if !found.own && !args.real && !plays(found.name) {
        return Err(CliError::usage(
            format!("the built-in agent does not play `{name}`"),
            format!("try the installed one: `team-agent selftest --real --provider {name}`"),
        ));
    }
    if args.real && !found.installed {
        let message = format!("the program of `{name}` is not on the PATH");
        return Err(CliError::new(ErrorKind::Environment, "no_program", message)
            .with_hint("run `team-agent doctor` to see what is installed"));
    }
    Ok(vec![found.name.to_owned()])
}

/// A promise in one line.
fn line(check: &Check) -> String {
    let word = match (check.tried, check.ok) {
        (false, _) => "--  ",
        (true, true) => "ok  ",
        (true, false) => "FAIL",
    };
    let mut text = format!("  {word} {:<22} {}", check.name, check.detail);
    if let (Some(start), Some(memory)) = (check.figures.start_ms, check.figures.memory_kib) {
        let _ = write!(text, "; {}.{} s, {} MB", start / 1000, start % 1000 / 100, memory / 1024);
    }
    text
}
