//! `approvals`

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Show what agents ask permission for
#[derive(Debug, clap::Args)]
pub(crate) struct ApprovalsArgs {
    /// Show the questions of this agent only
    agent: Option<String>,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &ApprovalsArgs) -> Result<u8, CliError> {
    let open = context.look()?.approvals(args.agent.as_deref())?;
    Ok(ui.answer(&open, None, |ui| {
        if open.approvals.is_empty() {
            ui.line("Nobody asks for permission.");
        }
        for it in &open.approvals {
            let since = it.since.as_deref().unwrap_or_default();
            ui.line(&format!("{} {} {} {since}", it.request_id, it.agent, ui.loud(&it.tool)));
            for line in it.input.iter().flat_map(|it| it.lines()) {
                ui.line(&format!("    {line}"));
            }
            match &it.answering {
                Some(answer) => ui.line(&format!("    is being answered: {answer}")),
                None => ui.line(&format!("  {}", it.command)),
            };
        }
    }))
}
