//! `collect`

use team_engine::ops::{Engine, ResultShown};

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Show each result that was not collected yet, once
#[derive(Debug, clap::Args)]
pub(crate) struct CollectArgs {}

pub(crate) fn run(ui: &Ui, context: &Context, _args: &CollectArgs) -> Result<u8, CliError> {
    let mut engine: Engine = context.look()?;
    let results = engine.collect()?;
    if ui.is_json() {
        ui.json(&serde_json::json!({ "collected": results.len(), "results": results }));
        return Ok(0);
    }
    for result in &results {
        show_result(ui, result);
    }
    ui.line(&match results.len() {
        0 => "Collected 0 results: nothing waits.".to_owned(),
        1 => "Collected 1 result.".to_owned(),
        many => format!("Collected {many} results."),
    });
    Ok(0)
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
    for test in &it.lists.tests {
        ui.line(&format!("    test {}: {}", test.status, test.command));
    }
    let lists = [
        ("changed", &it.lists.changes),
        ("made", &it.lists.artifacts),
        ("risk", &it.lists.risks),
        ("next", &it.lists.next_actions),
        ("evidence", &it.lists.evidence),
        ("lesson", &it.lists.lessons),
    ];
    for (word, list) in lists {
        for entry in list {
            ui.line(&format!("    {word}: {entry}"));
        }
    }
}
