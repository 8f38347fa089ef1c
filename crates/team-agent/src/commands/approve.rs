//! `approve`

use team_engine::ops::Engine;
use team_model::Decision;

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Answer what an agent asks permission for
///
/// The first answer counts, here or in the agent's own terminal. Exits 0 when the agent's program has taken it, 4 when
/// it does not go on yet, 1 when the question is closed. Agents may not do this.
///
/// Gemini and Copilot take an answer in their own dialog only: its key is pressed once the screen shows that very
/// question and nobody is at the terminal; else 1 (`not_on_screen`), and the question stays open.
#[derive(Debug, clap::Args)]
#[command(
    group(clap::ArgGroup::new("answer").required(true).args(["allow", "deny"])),
    after_help = "Examples:
  team-agent approvals
  team-agent approve coder q-41 --allow
  team-agent approve coder q-41 --deny --message 'use make test instead'"
)]
pub(crate) struct ApproveArgs {
    /// The agent that asks
    agent: String,
    /// The question, as `approvals` and `status` show it
    request: String,
    /// Let the tool run, this once
    #[arg(long)]
    allow: bool,
    /// Do not let it run
    #[arg(long)]
    deny: bool,
    /// Tell the agent why not, with the answer or, where that takes no words, as a message
    #[arg(long, value_name = "TEXT", requires = "deny")]
    message: Option<String>,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &ApproveArgs) -> Result<u8, CliError> {
    let mut engine: Engine = context.look()?;
    let decision = if args.allow { Decision::Allow } else { Decision::Deny };
    let done = engine.approve(&args.agent, &args.request, decision, args.message.as_deref())?;
    Ok(ui.answer(&done, None, |ui| {
        ui.line(&format!("{} of {}: {}", done.request_id, done.agent, done.how));
    }))
}
