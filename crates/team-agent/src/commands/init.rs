//! `init`

use team_engine::ops;

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Write a first team into this directory; with --team NAME another one, into `.team/NAME`
///
/// What exists is never overwritten.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  team-agent init\n  team-agent --team web init")]
pub(crate) struct InitArgs {}

pub(crate) fn run(ui: &Ui, context: &Context, _args: &InitArgs) -> Result<u8, CliError> {
    ops::only_people("write a team")?;
    let root = context.shared.workspace.clone().unwrap_or_else(|| ".".into());
    let written = ops::init(&root, context.shared.team.as_deref())?;
    Ok(ui.answer(&written, None, |ui| {
        if written.files.is_empty() {
            ui.line(&format!(
                "Nothing to write: there is a team in {} already.",
                written.team_directory.display()
            ));
            let [check, start] = ["compile", "quick-start"].map(|it| context.paste(it));
            ui.line(&format!("Run `{check}` to check it, or `{start}` to start it."));
            return;
        }
        for file in &written.files {
            ui.line(&format!("wrote {}", file.display()));
        }
        ui.line(&format!("Edit these files, then run `{}`.", context.paste("quick-start")));
    }))
}
