//! `attach`

use std::io::IsTerminal as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use team_engine::ErrorKind;
use team_engine::ops::Attach;

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Show an agent's screen; nothing you type reaches it
///
/// Leave with Ctrl-b, then d; from a tmux of your own with Ctrl-b twice, then d. Messages that have to be typed wait while somebody with `--type` is there.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  team-agent attach coder\n  team-agent attach coder --type")]
pub(crate) struct AttachArgs {
    /// The agent; without it the whole team
    agent: Option<String>,
    /// Let your keys through; messages wait until you leave
    #[arg(long = "type")]
    may_type: bool,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &AttachArgs) -> Result<u8, CliError> {
    let target = context.look()?.attach(args.agent.as_deref(), args.may_type)?;
    let answer = Attach { argv: target.argv.iter().map(|it| it.to_string_lossy().into_owned()).collect() };
    if ui.is_json() {
        return Ok(ui.answer(&answer, None, |_| {}));
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(CliError::new(
            ErrorKind::Environment,
            "no_terminal",
            "a screen can only be shown in a terminal",
        )
        .with_hint("run it in a terminal, or add `--json` to get the command that it would run"));
    }
    if std::env::var_os("TMUX").is_some() {
        ui.say(
            "You are in tmux already; this opens a second one inside it, on the team's own server. To leave it press \
             Ctrl-b twice, then d (once, if your own prefix is another key).",
        );
    }
    let mut command = Command::new(&target.argv[0]);
    command.args(&target.argv[1..]);
    for name in &target.env_remove {
        command.env_remove(name);
    }
    let error = command.exec();
    let message = format!("failed to run `{}`: {error}", answer.argv.join(" "));
    Err(CliError::new(ErrorKind::Environment, "attach", message).with_hint("run `team-agent doctor`"))
}
