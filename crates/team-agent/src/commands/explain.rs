//! `explain`

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Say why an agent or a message is where it is
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  team-agent explain coder\n  team-agent explain m-17")]
pub(crate) struct ExplainArgs {
    /// An agent's name or a message's id
    about: String,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &ExplainArgs) -> Result<u8, CliError> {
    let explained = context.look()?.explain(&args.about)?;
    Ok(ui.answer(&explained, None, |ui| {
        ui.line(&explained.because);
        for step in &explained.steps {
            let time = step.ts.get(11..23).unwrap_or(&step.ts);
            ui.line(format!("  {:>6} {time} {:<24} {}", step.seq, step.event, step.what).trim_end());
        }
        if !explained.last_lines.is_empty() {
            ui.line("The last lines of its screen:");
            for line in &explained.last_lines {
                ui.line(&format!("    | {line}"));
            }
        }
    }))
}
