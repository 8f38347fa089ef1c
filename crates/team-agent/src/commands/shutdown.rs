//! `shutdown`

use team_engine::ops::Engine;

use crate::cli::{Context, paste};
use crate::error::CliError;
use crate::ui::Ui;

/// End a team's sessions; everything is kept for `restart`
///
/// Waits for nobody: a turn that runs is cut off, and its message is then `unknown`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShutdownArgs {}

pub(crate) fn run(ui: &Ui, context: &Context, _args: &ShutdownArgs) -> Result<u8, CliError> {
    let mut engine: Engine = context.look()?;
    let done = engine.shutdown()?;
    let collect = paste("collect", Some(&done.team));
    Ok(ui.answer(&done, None, |ui| {
        if done.already {
            ui.line(&format!("Team {} was stopped already.", done.team));
        } else if done.stopped.is_empty() {
            ui.line(&format!("Team {} is stopped.", done.team));
        } else {
            ui.line(&format!("Team {} is stopped: {}.", done.team, done.stopped.join(", ")));
        }
        for it in &done.at_work {
            let task = it.task.as_deref().map(|it| format!(" (task {it})")).unwrap_or_default();
            ui.line(&format!("{} was at work{task}.", it.agent));
        }
        match done.open_tasks {
            0 => {}
            1 => ui.say("1 task is open; it is kept"),
            many => ui.say(&format!("{many} tasks are open; they are kept")),
        }
        match done.uncollected {
            0 => {}
            1 => ui.say(&format!("1 result waits: run `{collect}`")),
            many => ui.say(&format!("{many} results wait: run `{collect}`")),
        }
        ui.line(&format!("Run `{}` to go on.", done.restart));
    }))
}
