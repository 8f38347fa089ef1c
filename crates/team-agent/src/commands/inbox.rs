//! `inbox`

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Show what was sent to an agent, or to `leader`; marks nothing as read
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  team-agent inbox leader\n  team-agent inbox coder --limit 5")]
pub(crate) struct InboxArgs {
    /// The agent, or `leader`
    agent: String,
    /// Show at most this many, the newest
    #[arg(long, value_parser = super::at_least_one, default_value = "50")]
    limit: usize,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &InboxArgs) -> Result<u8, CliError> {
    let inbox = context.look()?.inbox(&args.agent, args.limit)?;
    Ok(ui.answer(&inbox, None, |ui| {
        if inbox.removed {
            ui.say(&format!(
                "{} was removed at a restart; it is no agent of this team any more",
                inbox.agent
            ));
        }
        if inbox.messages.is_empty() {
            ui.line(&format!("Nothing was sent to {}.", inbox.agent));
        }
        for it in &inbox.messages {
            let step = it.receipt.as_ref().map(|it| format!(", {}", it.step)).unwrap_or_default();
            ui.line(&format!("{} {} from {}{step}", it.message_id, it.ts, it.from));
            for line in it.text.lines() {
                ui.line(&format!("    {line}"));
            }
        }
    }))
}
