//! `restart`

use std::path::PathBuf;

use team_engine::ops::Engine;

use super::grant::starting;
use super::quick_start::{show_progress, show_started};
use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Go on with a stopped team, or with one agent that has ended: with their conversations
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  team-agent restart
  team-agent restart coder                 the others are left alone
  team-agent restart .team/web --headless")]
pub(crate) struct RestartArgs {
    /// An agent of the running team, or the team's directory, or the workspace
    #[arg(value_name = "AGENT|DIR")]
    what: Option<PathBuf>,
    /// Go on without a leader
    #[arg(long)]
    headless: bool,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &RestartArgs) -> Result<u8, CliError> {
    ui.on_interrupt_starts_go_on();
    let agent = match &args.what {
        Some(word) => Engine::agent_meant(&context.scope(), word)?,
        None => None,
    };
    if let Some(agent) = agent {
        let started = Engine::restart_agent(&context.scope(), &agent, &mut |it| show_progress(ui, it))?;
        if started.ready {
            return Ok(ui.answer(&started, None, |ui| {
                ui.line(&format!("ready: {agent}"));
            }));
        }
        return Ok(show_started(ui, &started));
    }
    let scope = match &args.what {
        Some(dir) => Engine::scope_of(&context.scope(), dir),
        None => context.scope(),
    };
    let started = starting(ui, &scope, None, scope.team.as_deref(), || {
        Engine::restart(&scope, args.headless, &mut |it| show_progress(ui, it))
    })?;
    Ok(show_started(ui, &started))
}
