//! `grant`

use std::path::{Path, PathBuf};

use team_engine::EngineError;
use team_engine::ops::{Engine, GrantsShown, Scope};

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Allow this workspace's teams what only a person may; show what is
///
/// `trust` lets the agents' programs take this workspace's folder, and what is below it, for trusted. `approvals` lets
/// the `allow` patterns in TEAM.md, as they are now, answer permission questions. Agents may not do this.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  team-agent grant
  team-agent grant trust
  team-agent grant approvals --team web
  team-agent grant trust --revoke")]
pub(crate) struct GrantArgs {
    /// What is granted; nothing shows what was
    #[arg(value_enum)]
    what: Option<What>,
    /// With `approvals`: the team's directory, if it lies elsewhere
    #[arg(requires = "what")]
    dir: Option<PathBuf>,
    /// Take it back
    #[arg(long, requires = "what")]
    revoke: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// The folder is trusted
    Trust,
    /// The `allow` patterns of TEAM.md count
    Approvals,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &GrantArgs) -> Result<u8, CliError> {
    let scope = context.scope();
    let granted = match args.what {
        None => context.look()?.grants(),
        Some(What::Trust) if args.dir.is_some() => {
            return Err(CliError::usage(
                "`grant trust` is about the workspace and takes no directory",
                "give the workspace with `--workspace DIR`",
            ));
        }
        Some(What::Trust) => Engine::grant_trust(&scope, !args.revoke)?,
        Some(What::Approvals) => Engine::grant_approvals(&scope, args.dir.as_deref(), !args.revoke)?,
    };
    Ok(ui.answer(&granted, None, |ui| show(ui, &granted)))
}

fn show(ui: &Ui, granted: &GrantsShown) {
    match &granted.trust {
        Some(folder) => ui.line(&format!("trust: `{}` and what is below it", folder.display())),
        None => ui.line("trust: not granted; each program's own settings decide"),
    };
    for (team, patterns) in &granted.approvals {
        ui.paragraph(&format!("approvals of {team}: "), &patterns.join(", "));
    }
    if granted.approvals.is_empty() {
        ui.line("approvals: not granted; a person answers every permission question");
    }
}

/// Carries out a start. Where it needs a grant and a person sits at the terminal, they are asked for it: for what they
/// are shown, and for nothing that is written into the files meanwhile.
pub(crate) fn starting<T>(
    ui: &Ui,
    scope: &Scope,
    dir: Option<&Path>,
    team_id: Option<&str>,
    mut start: impl FnMut() -> Result<T, EngineError>,
) -> Result<T, CliError> {
    match start() {
        Err(EngineError::Refused(refusal)) if refusal.code == "needs_grant" && ui.can_ask() => {
            let missing = Engine::missing_grants(scope, dir, team_id)?;
            ui.say("TEAM.md lets agents do this without asking you:");
            for pattern in &missing.patterns {
                ui.say(&format!("  {pattern}"));
            }
            if !ui.ask("grant it? [y/N] ") {
                return Err(EngineError::Refused(refusal).into());
            }
            Engine::grant_missing(scope, missing)?;
            Ok(start()?)
        }
        other => Ok(other?),
    }
}
