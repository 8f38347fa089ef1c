//! `hook`: called by providers' programs at their events.

use std::path::PathBuf;

use team_engine::hook;

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Note what a provider's program says at one of its events
#[derive(Debug, clap::Args)]
pub(crate) struct HookArgs {
    /// The seat that the program runs in
    #[arg(long, value_name = "FILE")]
    pub(crate) seat_file: PathBuf,
    /// The event
    pub(crate) event: String,
}

#[expect(clippy::unnecessary_wraps, reason = "all commands have one shape")]
pub(crate) fn run(_ui: &Ui, _context: &Context, args: &HookArgs) -> Result<u8, CliError> {
    let stdin = hook::read_stdin();
    // A hook must never stand in the way of the program that calls it.
    let answer = hook::run(&args.seat_file, &args.event, &stdin).unwrap_or_default();
    hook::print(&answer);
    Ok(answer.code)
}
