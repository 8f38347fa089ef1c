//! `init`

use team_engine::ops;

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Write a first team into this directory
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {}

pub(crate) fn run(ui: &Ui, context: &Context, _args: &InitArgs) -> Result<u8, CliError> {
    let root = context.shared.workspace.clone().unwrap_or_else(|| ".".into());
    let written = ops::init(&root)?;
    if ui.is_json() {
        ui.json(&written);
    } else if written.files.is_empty() {
        ui.line("Nothing to write: the team is there already.");
    } else {
        for file in &written.files {
            ui.line(&format!("wrote {}", file.display()));
        }
        ui.line("Edit these files, then run `team-agent quick-start`.");
    }
    Ok(0)
}
