//! `completions`

use clap_complete::Shell;
use schemars::JsonSchema;
use serde::Serialize;

use crate::cli::{self, Context};
use crate::error::CliError;
use crate::ui::Ui;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  bash: source <(team-agent completions bash)
  zsh:  source <(team-agent completions zsh)
  fish: team-agent completions fish | source

Put the line into your shell's start file to keep it.")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Completions for a shell.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Completions {
    /// The shell.
    shell: String,
    /// What it is to read.
    script: String,
}

#[expect(clippy::unnecessary_wraps, reason = "all commands have one shape")]
pub(crate) fn run(ui: &Ui, _context: &Context, args: &CompletionsArgs) -> Result<u8, CliError> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "team-agent", &mut text);
    let answer =
        Completions { shell: args.shell.to_string(), script: String::from_utf8_lossy(&text).into_owned() };
    Ok(ui.answer(&answer, None, |ui| {
        ui.raw(&answer.script);
    }))
}
