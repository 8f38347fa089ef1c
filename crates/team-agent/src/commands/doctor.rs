//! `doctor`

use team_engine::ops::{self, CheckLevel};

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Look for what is wrong with this machine or workspace
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {}

pub(crate) fn run(ui: &Ui, context: &Context, _args: &DoctorArgs) -> Result<u8, CliError> {
    let checks = ops::doctor(&context.scope());
    let failed = checks.iter().any(|it| it.level == CheckLevel::Fail);
    if ui.is_json() {
        ui.json_with(!failed, &serde_json::json!({ "checks": checks }));
    } else {
        for it in &checks {
            let word = match it.level {
                CheckLevel::Ok => "ok  ",
                CheckLevel::Warn => "WARN",
                CheckLevel::Fail => "FAIL",
            };
            ui.line(&format!("{word} {}", it.message));
            if let Some(hint) = &it.hint {
                ui.line(&format!("     {hint}"));
            }
        }
    }
    Ok(if failed { 3 } else { 0 })
}
