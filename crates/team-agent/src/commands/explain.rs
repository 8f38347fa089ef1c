//! `explain`

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Say why an agent, message, task, result or question is as it is
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  team-agent explain coder\n  team-agent explain m-17\n  team-agent explain 3"
)]
pub(crate) struct ExplainArgs {
    /// An agent's name, the id of a message, task, result or question, or `leader`
    about: String,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &ExplainArgs) -> Result<u8, CliError> {
    let explained = context.look()?.explain(&args.about)?;
    Ok(ui.answer(&explained, None, |ui| {
        ui.paragraph(
            "",
            &format!("{}{}", explained.because, if explained.next.is_some() { ":" } else { "" }),
        );
        if let Some(next) = &explained.next {
            ui.line(&format!("  {next}"));
        }
        for step in &explained.steps {
            let time = step.ts.get(11..19).unwrap_or(&step.ts);
            ui.line(&ui.fit(&format!("  {:>6} {time} {}", step.seq, step.what.replace('\n', " "))));
        }
        if !explained.last_lines.is_empty() {
            ui.line("The last lines of its screen:");
            for line in &explained.last_lines {
                ui.line(&format!("    | {line}"));
            }
        }
    }))
}
