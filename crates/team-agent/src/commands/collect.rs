//! `collect`

use team_engine::ops::{Engine, ResultShown};

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Show each result that was not collected yet, once
///
/// A result is marked as collected when it is shown; `team-agent results` shows all of them at any time.
#[derive(Debug, clap::Args)]
pub(crate) struct CollectArgs {}

pub(crate) fn run(ui: &Ui, context: &Context, _args: &CollectArgs) -> Result<u8, CliError> {
    let mut engine: Engine = context.look()?;
    let mut code = 0;
    engine.collect(&mut |collected| {
        code = ui.answer(collected, None, |ui| {
            for result in &collected.results {
                show_result(ui, result);
            }
            ui.line(&match collected.collected {
                0 => "Collected 0 results: nothing waits.".to_owned(),
                1 => "Collected 1 result.".to_owned(),
                many => format!("Collected {many} results."),
            });
        });
        for it in collected.waiting.iter().filter(|_| !ui.is_json()) {
            ui.say(&format!("{} {}: run `{}`", it.kind, it.what, it.command));
        }
        ui.lost().is_none()
    })?;
    Ok(code)
}

pub(crate) fn show_result(ui: &Ui, it: &ResultShown) {
    let task = it.task.as_deref().map(|it| format!(", task {it}")).unwrap_or_default();
    let late = if it.late { ", late" } else { "" };
    ui.line(&format!("{} {} {}{task}{late}", it.result_id, it.agent, ui.loud(&it.status)));
    for line in it.summary.lines() {
        ui.line(&format!("    {line}"));
    }
    if let Some(text) = &it.text {
        ui.line("    --");
        for line in text.lines() {
            ui.line(&format!("    {line}"));
        }
    }
    for test in &it.tests {
        let note = test.note.as_deref().map(|it| format!(" ({it})")).unwrap_or_default();
        ui.line(&format!("    test {}: {}{note}", test.status, test.command));
    }
    let lists = [
        ("changed", &it.changes),
        ("made", &it.artifacts),
        ("risk", &it.risks),
        ("next", &it.next_actions),
        ("evidence", &it.evidence),
        ("lesson", &it.lessons),
    ];
    for (word, list) in lists {
        for entry in list {
            ui.line(&format!("    {word}: {entry}"));
        }
    }
}
