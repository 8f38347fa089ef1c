//! `doctor`

use team_engine::ErrorKind;
use team_engine::ops::{self, CheckLevel};

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Look for what is wrong with this machine or workspace
///
/// Changes nothing. Exits 3 if something stops the work.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {}

#[expect(clippy::unnecessary_wraps, reason = "all commands have one shape")]
pub(crate) fn run(ui: &Ui, context: &Context, _args: &DoctorArgs) -> Result<u8, CliError> {
    let found = ops::doctor(&context.scope());
    let failed: Vec<_> = found.failures().collect();
    let failure = failed.first().map(|first| {
        let message = match failed.len() {
            1 => first.message.clone(),
            many => format!("{many} checks failed, the first: {}", first.message),
        };
        let mut error = CliError::new(ErrorKind::Environment, "checks_failed", message);
        error.hint.clone_from(&first.hint);
        // People see it among the others.
        error.verbatim = Some("".into());
        error
    });
    Ok(ui.answer(&found, failure.as_ref(), |ui| {
        for it in &found.checks {
            let word = match it.level {
                CheckLevel::Ok => "ok  ",
                CheckLevel::Info => "--  ",
                CheckLevel::Warn => "WARN",
                CheckLevel::Fail => "FAIL",
            };
            ui.line(&format!("{word} {}", it.message));
            if let Some(hint) = &it.hint {
                ui.line(&format!("     {hint}"));
            }
        }
    }))
}
