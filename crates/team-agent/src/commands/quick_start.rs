//! `quick-start`

use std::path::PathBuf;

use team_engine::ops::{Engine, SeatProgress, StartOptions, Started};

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Start a team for the first time
#[derive(Debug, clap::Args)]
pub(crate) struct QuickStartArgs {
    /// The team's directory: with a TEAM.md, with agents/*.md, or with role files
    dir: Option<PathBuf>,
    /// Name the team's directory below `.team/` when DIR lies elsewhere
    #[arg(long, value_name = "ID")]
    team_id: Option<String>,
    /// Start without a leader: results wait for `collect` and `wait`
    #[arg(long)]
    headless: bool,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &QuickStartArgs) -> Result<u8, CliError> {
    let options = StartOptions {
        dir: args.dir.as_ref().map(|it| std::fs::canonicalize(it).unwrap_or_else(|_| it.clone())),
        team_id: args.team_id.clone().or_else(|| context.shared.team.clone()),
        headless: args.headless,
    };
    let started = Engine::quick_start(&context.scope(), &options, &mut |it| show_progress(ui, it))?;
    Ok(show_started(ui, &started))
}

pub(crate) fn show_progress(ui: &Ui, seat: &SeatProgress) {
    if ui.is_json() {
        return;
    }
    let reason = seat.reason.as_deref().map(|it| format!(": {it}")).unwrap_or_default();
    ui.say(&format!("  {:<16} {}{reason}", seat.agent, seat.state));
}

pub(crate) fn show_started(ui: &Ui, started: &Started) -> u8 {
    let code = u8::from(!started.ready);
    if ui.is_json() {
        ui.json_with(started.ready, started);
        return code;
    }
    if started.ready {
        ui.line(&format!("ready: {} ({} agents), {}", started.team, started.agents.len(), started.ready_signal));
        if !started.leader_bound {
            ui.line("no leader is bound: results wait in `team-agent collect`");
        }
        for command in &started.attach_commands {
            ui.line(&format!("  {command}"));
        }
        return code;
    }
    let (good, bad): (Vec<_>, Vec<_>) = started.agents.iter().partition(|it| it.state == "ready");
    for seat in &bad {
        let why = seat.reason.clone().unwrap_or_else(|| seat.state.clone());
        ui.say(&format!("error: agent `{}` is not ready: {why}", seat.agent));
        for line in &seat.last_lines {
            ui.say(&format!("    | {line}"));
        }
        ui.say(&format!("hint: run `team-agent explain {}`", seat.agent));
    }
    if good.is_empty() {
        ui.say("no agent runs.");
    } else {
        let names: Vec<_> = good.iter().map(|it| it.agent.as_str()).collect();
        ui.say(&format!("these keep running: {}", names.join(", ")));
    }
    ui.say("run `team-agent shutdown`, mend it, then `team-agent restart`");
    code
}
