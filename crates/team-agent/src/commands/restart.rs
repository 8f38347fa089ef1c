//! `restart`

use std::path::PathBuf;

use team_engine::ops::Engine;

use super::grant::starting;
use super::quick_start::{show_progress, show_started};
use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Go on with a stopped team: the same agents, with their conversations
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  team-agent restart\n  team-agent restart .team/web --headless")]
pub(crate) struct RestartArgs {
    /// The workspace, or the team's directory
    dir: Option<PathBuf>,
    /// Go on without a leader
    #[arg(long)]
    headless: bool,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &RestartArgs) -> Result<u8, CliError> {
    let scope = match &args.dir {
        Some(dir) => Engine::scope_of(&context.scope(), dir),
        None => context.scope(),
    };
    ui.on_interrupt_starts_go_on();
    let started = starting(ui, &scope, None, || {
        Engine::restart(&scope, args.headless, &mut |it| show_progress(ui, it))
    })?;
    Ok(show_started(ui, &started))
}
