//! `compile`

use std::path::PathBuf;

use team_engine::ops;

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Check a team's files and show what they mean
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  team-agent compile\n  team-agent compile ~/crews/review")]
pub(crate) struct CompileArgs {
    /// The team's directory
    dir: Option<PathBuf>,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &CompileArgs) -> Result<u8, CliError> {
    let dir = args.dir.as_ref().map(|it| std::fs::canonicalize(it).unwrap_or_else(|_| it.clone()));
    let team = context.shared.team.as_deref();
    let compiled = ops::compile(&context.root(), dir.as_deref(), if dir.is_some() { None } else { team })?;
    if let Some(why) = &compiled.not_written {
        ui.say(why);
    }
    Ok(ui.answer(&compiled, None, |ui| {
        for warning in &compiled.warnings {
            ui.say(&warning.shown);
        }
        ui.line(&format!(
            "Team {} ({}), tmux session {}",
            compiled.name, compiled.team, compiled.session_name
        ));
        for (word, patterns) in [("Allowed", &compiled.allows), ("Denied", &compiled.denies)] {
            if !patterns.is_empty() {
                ui.paragraph(&format!("{word} unasked: "), &patterns.join(", "));
            }
        }
        if compiled.agents.is_empty() {
            ui.line("It has no agents: write a role file into its `agents` directory.");
            return;
        }
        let rows: Vec<Vec<String>> = compiled
            .agents
            .iter()
            .map(|it| {
                let model = it.model.clone().unwrap_or_else(|| "-".to_owned());
                vec![it.name.clone(), it.provider.clone(), model, it.model_source.clone(), it.role.clone()]
            })
            .collect();
        ui.table(&["AGENT", "PROVIDER", "MODEL", "MODEL FROM", "ROLE"], &rows);
    }))
}
