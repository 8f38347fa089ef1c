//! `delete`

use team_engine::ops::Engine;

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Forget a stopped team: tasks, messages and results go, your files stay
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  team-agent delete web --confirm")]
pub(crate) struct DeleteArgs {
    /// The team: its key, its name or its session
    #[arg(value_name = "TEAM_NAME")]
    name: String,
    /// Really do it
    #[arg(long)]
    confirm: bool,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &DeleteArgs) -> Result<u8, CliError> {
    let mut engine: Engine = context.look()?;
    let deleted = engine.delete(&args.name, args.confirm)?;
    Ok(ui.answer(&deleted, None, |ui| {
        ui.line(&format!("Team {} is forgotten. What stays:", deleted.team));
        for path in &deleted.kept {
            ui.line(&format!("  {}", path.display()));
        }
    }))
}
