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
    let mut status = context.look()?.status()?;
    if let Some(wanted) = &args.agent {
        if !status.agents.contains_key(wanted) {
            let names: Vec<_> = status.agents.keys().cloned().collect();
            return Err(CliError {
                kind: team_engine::ErrorKind::User,
                code: "unknown_agent".to_owned(),
                message: format!("no agent is named `{wanted}`"),
                hint: Some(format!("the team has: {}", names.join(", "))),
                verbatim: false,
            });
        }
        status.agents.retain(|name, _| name == wanted);
    }
    if ui.is_json() { ui.json(&status) } else { show(ui, &status) }
    Ok(0)
}

fn show(ui: &Ui, status: &Status) {
    ui.line(&format!("Team {} ({}): {}", status.name, status.team, status.state));
    if let Some(goal) = &status.goal {
        ui.line(&format!("Goal: {goal}"));
    }
    let rows: Vec<Vec<String>> = status
        .agents
        .iter()
        .map(|(name, it)| vec![name.clone(), it.provider.clone(), doing(it), notes(it)])
        .collect();
    ui.table(&["AGENT", "PROVIDER", "DOING", "NOTES"], &rows);
    let results = &status.results;
    ui.line(&format!(
        "Results: {} to collect, {} collected, {} failed",
        results.uncollected, results.collected, results.failed
    ));
    for (name, agent) in &status.agents {
        if agent.activity.state == "awaiting_approval" {
            let loud = ui.loud("AWAITING_APPROVAL");
            let what = agent.activity.reason.as_deref().unwrap_or("a question");
            ui.line(&format!("{loud} {name}: {what}. Answer it with `team-agent attach {name} --type`"));
        }
        if agent.activity.state == "awaiting_trust" {
            let loud = ui.loud("AWAITING_TRUST");
            let what = agent.activity.reason.as_deref().unwrap_or("a question");
            ui.line(&format!("{loud} {name}: {what}. Answer it with `team-agent attach {name} --type`"));
        }
    }
    for (id, question) in &status.questions {
        ui.line(&format!("Question {id} from {question}"));
    }
    if results.uncollected > 0 {
        ui.line("Run `team-agent collect` to see the results.");
    }
    if status.state == "lost" || status.state == "stopped" {
        ui.line("Run `team-agent restart` to go on.");
    }
    if status.coordinator.state == "lost" {
        ui.line("The coordinator ended without a word; the next command that needs one starts it.");
    }
}

fn doing(agent: &AgentShown) -> String {
    match agent.session.state.as_str() {
        "running" => match agent.activity.state.as_str() {
            "awaiting_approval" => "AWAITING_APPROVAL".to_owned(),
            "awaiting_trust" => "AWAITING_TRUST".to_owned(),
            other => other.to_owned(),
        },
        other => other.to_owned(),
    }
}

fn notes(agent: &AgentShown) -> String {
    let mut notes = Vec::new();
    if let Some(reason) = agent.session.reason.as_ref().or(agent.activity.reason.as_ref()) {
        notes.push(reason.clone());
    }
    if !agent.owes.is_empty() {
        let tasks: Vec<_> = agent.owes.iter().map(|it| it.task.as_str()).collect();
        notes.push(format!("owes {}", tasks.join(", ")));
    }
    for (reason, count) in &agent.held {
        notes.push(format!("{count} held: {reason}"));
    }
    if agent.can_report == Some(false) && agent.session.state == "running" {
        notes.push("cannot report by its tools; `team-agent report` works in its shell".to_owned());
    }
    notes.join("; ")
}
