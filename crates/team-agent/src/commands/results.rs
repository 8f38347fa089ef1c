//! `results`

use super::collect::show_result;
use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Show all results, collected or not; marks nothing
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  team-agent results\n  team-agent results --case parser")]
pub(crate) struct ResultsArgs {
    /// Only those of this case
    #[arg(long, value_name = "ID")]
    case: Option<String>,
    /// Show at most this many, the newest
    #[arg(long, value_parser = super::at_least_one, default_value = "100")]
    limit: usize,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &ResultsArgs) -> Result<u8, CliError> {
    let answer = context.look()?.results(args.case.as_deref(), args.limit)?;
    Ok(ui.answer(&answer, None, |ui| {
        if answer.results.is_empty() {
            ui.line(&match &args.case {
                Some(case) => format!("There are no results of case {case}."),
                None => "There are no results yet.".to_owned(),
            });
        }
        for result in &answer.results {
            show_result(ui, result);
        }
    }))
}
