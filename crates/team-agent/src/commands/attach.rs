//! `attach`

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Show an agent's screen; nothing you type reaches it
#[derive(Debug, clap::Args)]
pub(crate) struct AttachArgs {
    /// The agent; the whole team without
    agent: Option<String>,
    /// Let your keys through; messages wait until you leave
    #[arg(long = "type")]
    may_type: bool,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &AttachArgs) -> Result<u8, CliError> {
    let target = context.look()?.attach(args.agent.as_deref(), args.may_type)?;
    let words: Vec<String> = target.argv.iter().map(|it| it.to_string_lossy().into_owned()).collect();
    if ui.is_json() {
        ui.json(&serde_json::json!({ "argv": words }));
        return Ok(0);
    }
    if std::env::var_os("TMUX").is_some() {
        ui.say("this is a tmux inside a tmux: leave it with your prefix key twice, then d");
    }
    let mut command = Command::new(&target.argv[0]);
    command.args(&target.argv[1..]);
    for name in &target.env_remove {
        command.env_remove(name);
    }
    let error = command.exec();
    Err(CliError {
        kind: team_engine::ErrorKind::Environment,
        code: "attach".to_owned(),
        message: format!("failed to run `{}`: {error}", words.join(" ")),
        hint: None,
        verbatim: false,
    })
}
