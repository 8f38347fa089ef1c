//! `report`

use std::collections::BTreeMap;
use std::path::PathBuf;

use team_engine::ErrorKind;
use team_engine::ops::{Engine, ReportArgs as Wanted};
use team_model::{Artifacts, ReportStatus};

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Report a result from a worker's shell
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  team-agent report --status success --summary 'the parser takes tabs; 3 tests added'"
)]
pub(crate) struct ReportArgs {
    /// The result in one to a few sentences
    #[arg(long, allow_hyphen_values = true)]
    summary: String,
    /// How it ended: success, partial, failed or blocked
    #[arg(long, value_parser = status)]
    status: ReportStatus,
    /// The task, where several are open
    #[arg(long, value_name = "ID")]
    task: Option<String>,
    /// The long form
    #[arg(long, allow_hyphen_values = true)]
    text: Option<String>,
    /// Read the long form from this file
    #[arg(short, long, value_name = "FILE", conflicts_with = "text")]
    file: Option<PathBuf>,
    /// A changed file; may be given several times
    #[arg(long, value_name = "PATH")]
    change: Vec<String>,
}

fn status(word: &str) -> Result<ReportStatus, String> {
    word.parse().map_err(|words| format!("use one of: {words}"))
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &ReportArgs) -> Result<u8, CliError> {
    if args.summary.trim().is_empty() {
        return Err(CliError::usage("the summary is empty", "say in a sentence what came out"));
    }
    let length = args.summary.chars().count();
    if length > 2000 {
        let message = format!("the summary has {length} characters, 2000 are allowed");
        return Err(CliError::usage(message, "put the rest into `--text` or `--file`"));
    }
    let text = match &args.file {
        Some(file) => Some(std::fs::read_to_string(file).map_err(|error| {
            CliError::usage(
                format!("failed to read `{}`: {error}", file.display()),
                "give a readable text file",
            )
        })?),
        None => args.text.clone(),
    };
    let wanted = Wanted {
        summary: args.summary.clone(),
        status: args.status,
        task: args.task.clone(),
        task_hint: None,
        text,
        lists: Artifacts { changes: args.change.clone(), ..Artifacts::default() },
        via: "cli",
        presentation: BTreeMap::new(),
        ignored: BTreeMap::new(),
    };
    let mut engine: Engine = context.look()?;
    let reported = engine.report(&wanted)?;
    let _ = engine.ensure_coordinator();
    // It is kept, but whoever waits for it will not take it for an answer.
    let failure = (!reported.proved && reported.task.is_none()).then(|| {
        CliError::new(ErrorKind::User, "unproved", format!("result {} closes no task", reported.result_id))
            .with_hint("report from the agent's own shell, or by its tools")
    });
    Ok(ui.answer(&reported, failure.as_ref(), |ui| {
        ui.line(&reported.message);
    }))
}
