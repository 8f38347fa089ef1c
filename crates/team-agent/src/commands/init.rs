//! `init`

use team_engine::ops;

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Write a first team into this directory
///
/// What exists is never overwritten.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {}

pub(crate) fn run(ui: &Ui, context: &Context, _args: &InitArgs) -> Result<u8, CliError> {
    let root = context.shared.workspace.clone().unwrap_or_else(|| ".".into());
    let written = ops::init(&root)?;
    Ok(ui.answer(&written, None, |ui| {
        if written.files.is_empty() {
            ui.line(&format!(
                "Nothing to write: there is a team in {} already.",
                written.team_directory.display()
            ));
            ui.line("Run `team-agent compile` to check it, or `team-agent quick-start` to start it.");
            return;
        }
        for file in &written.files {
            ui.line(&format!("wrote {}", file.display()));
        }
        ui.line("Edit these files, then run `team-agent quick-start`.");
    }))
}
