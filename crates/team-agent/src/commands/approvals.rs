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
            let since = it.since.as_deref().and_then(|it| it.get(11..19)).unwrap_or_default();
            ui.line(&format!("{} {} {} since {since}", it.request_id, it.agent, ui.loud(&it.tool)));
            for line in it.input.iter().flat_map(|it| what(it)) {
                ui.line(&format!("    {line}"));
            }
            match &it.answering {
                Some(answer) => ui.line(&format!("    is being answered: {answer}")),
                None => {
                    if let Some(words) = it.command.strip_suffix("--allow") {
                        ui.line(&format!("  {words}--deny"));
                    }
                    ui.line(&format!("  {}", it.command))
                }
            };
        }
    }))
}

/// What a tool would do, in lines: a command as it would be typed, else all that it is given.
fn what(input: &str) -> Vec<String> {
    let command = serde_json::from_str::<serde_json::Value>(input).ok();
    let command = command.as_ref().and_then(|it| it.as_object().filter(|it| it.len() == 1));
    let text = command.and_then(|it| it.get("command")?.as_str()).unwrap_or(input);
    text.lines().map(str::to_owned).collect()
}
