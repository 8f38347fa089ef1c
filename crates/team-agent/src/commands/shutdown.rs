//! `shutdown`

use team_engine::ops::Engine;

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// End a team's sessions; everything is kept for `restart`
#[derive(Debug, clap::Args)]
pub(crate) struct ShutdownArgs {
    /// Do not wait for turns that run
    #[arg(long)]
    now: bool,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &ShutdownArgs) -> Result<u8, CliError> {
    let mut engine: Engine = context.look()?;
    let done = engine.shutdown(args.now)?;
    if ui.is_json() {
        ui.json(&done);
        return Ok(0);
    }
    if done.already {
        ui.line(&format!("Team {} was stopped already.", done.team));
    } else {
        ui.line(&format!("Team {} is stopped: {}.", done.team, done.stopped.join(", ")));
    }
    if done.open_tasks > 0 {
        ui.say(&format!("{} tasks are open; they are kept", done.open_tasks));
    }
    if done.uncollected > 0 {
        ui.say(&format!("{} results wait: run `team-agent collect`", done.uncollected));
    }
    ui.line(&format!("Go on with `{}`.", done.restart));
    Ok(0)
}
