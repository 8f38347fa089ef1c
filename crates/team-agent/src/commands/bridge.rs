//! `bridge`: holds the live connection to a seat's program.

use std::path::PathBuf;

use team_engine::bridge;

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Hold the connection to a program that offers one
#[derive(Debug, clap::Args)]
pub(crate) struct BridgeArgs {
    /// The seat that the program runs in
    #[arg(long, value_name = "FILE")]
    pub(crate) seat_file: PathBuf,
}

pub(crate) fn run(_ui: &Ui, _context: &Context, args: &BridgeArgs) -> Result<u8, CliError> {
    Ok(bridge::run(&args.seat_file)?)
}
