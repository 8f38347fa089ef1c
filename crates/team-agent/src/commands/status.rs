//! `status`

use team_engine::ops::{AgentShown, Status};

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Show what each agent is doing
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Show this agent only
    agent: Option<String>,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &StatusArgs) -> Result<u8, CliError> {
    let status = context.look()?.status(args.agent.as_deref())?;
    Ok(ui.answer(&status, None, |ui| show(ui, &status)))
}

fn show(ui: &Ui, status: &Status) {
    let name = if status.name == status.team { String::new() } else { format!(" ({})", status.name) };
    ui.line(&format!("Team {}{name}: {}", status.team, status.state));
    if let Some(goal) = &status.goal {
        ui.paragraph("Goal: ", goal);
    }
    if status.agents.is_empty() {
        ui.line("It has no agents.");
    } else {
        let rows: Vec<Vec<String>> = status
            .agents
            .iter()
            .map(|(name, it)| vec![name.clone(), it.provider.clone(), doing(it), notes(it)])
            .collect();
        ui.table(&["AGENT", "PROVIDER", "DOING", "NOTES"], &rows);
    }
    let results = &status.results;
    ui.line(&match results.total {
        0 => "No results yet".to_owned(),
        total => {
            let noun = if total == 1 { "result" } else { "results" };
            let failed = match results.failed {
                0 => String::new(),
                failed => format!("; {failed} failed"),
            };
            format!("{total} {noun}: {} to collect{failed}", results.uncollected)
        }
    });
    let leader = match (status.leader.bound, &status.leader.pane, &status.leader.reason) {
        (true, Some(pane), _) => format!("in pane {pane}"),
        (true, None, _) => "bound".to_owned(),
        (false, _, Some(reason)) => format!("none any more ({reason})"),
        (false, _, None) => "none, results wait here".to_owned(),
    };
    ui.paragraph("Leader: ", &leader);
    if !status.other_teams.is_empty() {
        let teams: Vec<_> =
            status.other_teams.iter().map(|it| format!("{} ({})", it.team, it.state)).collect();
        ui.paragraph("Other teams here: ", &teams.join(", "));
    }
    for it in &status.attention {
        // What waits for somebody is loud; the rest is a way to go on.
        let head = match it.kind.as_str() {
            "results" | "messages" | "stopped" | "coordinator" => String::new(),
            loud => format!("{} ", ui.loud(&loud.to_uppercase())),
        };
        ui.paragraph(&head, &format!("{}:", it.what));
        ui.line(&format!("  {}", it.command));
    }
}

fn doing(agent: &AgentShown) -> String {
    match (agent.session.state.as_str(), agent.activity.state.as_str()) {
        ("starting" | "running", waits @ ("awaiting_approval" | "awaiting_trust")) => waits.to_uppercase(),
        ("running", other) | (other, _) => other.to_owned(),
    }
}

fn notes(agent: &AgentShown) -> String {
    let mut notes = Vec::new();
    if let Some(reason) = agent.session.reason.as_ref().or(agent.activity.reason.as_ref()) {
        notes.push(reason.clone());
    }
    if let Some(until) = &agent.activity.until {
        notes.push(format!("until {until}"));
    }
    if !agent.owes.is_empty() {
        let tasks: Vec<_> = agent.owes.iter().map(|it| it.task.as_str()).collect();
        notes.push(format!("owes task {}", tasks.join(", ")));
    }
    for (reason, count) in &agent.held {
        notes.push(format!("{count} held: {reason}"));
    }
    if agent.can_report == Some(false) && agent.session.state == "running" {
        notes.push("cannot report by its tools; `team-agent report` works in its shell".to_owned());
    }
    notes.join("; ")
}
