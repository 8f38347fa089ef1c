//! `completions`

use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::cli::{Cli, Context};
use crate::error::CliError;
use crate::ui::Ui;

/// Print completions for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(ui: &Ui, _context: &Context, args: &CompletionsArgs) -> Result<u8, CliError> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "team-agent", &mut text);
    ui.raw(&String::from_utf8_lossy(&text));
    Ok(0)
}
