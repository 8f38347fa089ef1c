//! `quick-start`

use std::path::PathBuf;

use team_engine::ErrorKind;
use team_engine::ops::{Engine, SeatProgress, StartOptions, Started};
use team_model::ActivityKind;

use super::grant::starting;
use crate::cli::{Context, paste};
use crate::error::CliError;
use crate::ui::Ui;

/// Start a team for the first time
///
/// Waits until every agent is proved able to take a message; exits 1 and names those that are not. Run from a tmux
/// pane, it binds that pane as the leader.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  team-agent quick-start
  team-agent quick-start .team/current --headless
  team-agent quick-start ~/crews/review --team-id review")]
pub(crate) struct QuickStartArgs {
    /// The team's directory, with a TEAM.md, agents/*.md or role files [default: .team/current]
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
    ui.on_interrupt_starts_go_on();
    let scope = context.scope();
    let started = starting(ui, &scope, options.dir.as_deref(), options.team_id.as_deref(), || {
        Engine::quick_start(&scope, &options, &mut |it| show_progress(ui, it))
    })?;
    Ok(show_started(ui, &started))
}

pub(crate) fn show_progress(ui: &Ui, seat: &SeatProgress) {
    if ui.is_json() {
        return;
    }
    let reason = seat.reason.as_deref().map(|it| format!(": {it}")).unwrap_or_default();
    ui.say(&format!("  {} {}{reason}", ui.pad(&seat.agent, 16), seat.state));
}

pub(crate) fn show_started(ui: &Ui, started: &Started) -> u8 {
    let failure = failure(started);
    ui.answer(started, failure.as_ref(), |ui| {
        for warning in &started.warnings {
            ui.say(&warning.shown);
        }
        if let Some(note) = &started.note {
            ui.say(note);
        }
        for seat in &started.agents {
            for note in &seat.notes {
                ui.say(&format!("note: {}: {note}", seat.agent));
            }
        }
        if started.ready { show_ready(ui, started) } else { show_why(ui, started) }
    })
}

fn show_ready(ui: &Ui, started: &Started) {
    let agents = match started.agents.len() {
        1 => "1 agent".to_owned(),
        many => format!("{many} agents"),
    };
    ui.line(&format!("ready: {} ({agents}), {}", started.team, started.ready_signal));
    if started.leader_bound {
        ui.line("this pane is the leader's: results, messages and questions are told here");
    } else {
        ui.line(&format!("no leader is bound: results wait in `{}`", paste("collect", Some(&started.team))));
    }
    if !started.allows.is_empty() {
        ui.paragraph("allowed unasked by TEAM.md: ", &started.allows.join(", "));
    }
    for command in &started.attach_commands {
        ui.line(&format!("  {command}"));
    }
}

fn show_why(ui: &Ui, started: &Started) {
    let (good, bad): (Vec<_>, Vec<_>) = started.agents.iter().partition(|it| it.state == "ready");
    for seat in &bad {
        // The only one stands in the error below.
        if bad.len() > 1 {
            ui.say(&format!("agent `{}` is not ready: {}", seat.agent, why(seat)));
            let words = if asks(&[seat]).is_some() { "attach --type" } else { "explain" };
            let (verb, rest) = words.split_once(' ').unwrap_or((words, ""));
            let words = format!("{verb} {} {rest}", seat.agent);
            ui.say(&format!("  {}", paste(words.trim_end(), Some(&started.team))));
        }
        for line in &seat.last_lines {
            ui.say(&format!("    | {line}"));
        }
    }
    if asks(&bad).is_some() {
        ui.say("what asks goes on by itself once it is answered");
    } else if good.is_empty() {
        ui.say("no agent runs");
    } else {
        let names: Vec<_> = good.iter().map(|it| it.agent.as_str()).collect();
        ui.say(&format!("these keep running: {}", names.join(", ")));
    }
}

/// The first that waits for a person's answer.
fn asks<'a>(bad: &[&'a SeatProgress]) -> Option<&'a SeatProgress> {
    bad.iter().copied().find(|it| it.state == ActivityKind::AwaitingTrust.as_str())
}

fn why(seat: &SeatProgress) -> &str {
    seat.reason.as_deref().unwrap_or(&seat.state)
}

fn failure(started: &Started) -> Option<CliError> {
    let bad: Vec<_> = started.agents.iter().filter(|it| it.state != "ready").collect();
    let message = match bad.as_slice() {
        _ if started.ready => return None,
        [] => format!("team `{}` stopped while it was started", started.team),
        [only] => format!("agent `{}` is not ready: {}", only.agent, why(only)),
        many => {
            let names: Vec<_> = many.iter().map(|it| format!("`{}`", it.agent)).collect();
            format!("{} agents are not ready: {}", many.len(), names.join(", "))
        }
    };
    let of_team = |words: &str| paste(words, Some(&started.team));
    let error = CliError::new(ErrorKind::User, "not_ready", message);
    if bad.len() > 1 {
        // What to run for each stands above.
        return Some(error.with_hint(format!(
            "see to each; where one has failed, mend it, then run `{}`",
            of_team(&format!("restart {}", bad[0].agent))
        )));
    }
    if let Some(asks) = asks(&bad) {
        return Some(error.with_hint(format!(
            "answer it in `{}`; if it is about the folder, `team-agent grant trust` answers it, too",
            of_team(&format!("attach {} --type", asks.agent))
        )));
    }
    Some(error.with_hint(match bad.first() {
        Some(first) => format!(
            "run `{}` to see why; mend it, then `{}`",
            of_team(&format!("explain {}", first.agent)),
            of_team(&format!("restart {}", first.agent)),
        ),
        None => format!("run `{}` to see it", of_team("status")),
    }))
}
