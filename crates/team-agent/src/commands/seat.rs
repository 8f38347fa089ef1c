//! `seat`: what runs in a pane.

use std::path::PathBuf;

use team_engine::seat;

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Hold a seat: start its program and see it to its end
#[derive(Debug, clap::Args)]
pub(crate) struct SeatArgs {
    /// What is to be started
    #[arg(long, value_name = "FILE")]
    pub(crate) seat_file: PathBuf,
}

pub(crate) fn run(_ui: &Ui, _context: &Context, args: &SeatArgs) -> Result<u8, CliError> {
    Ok(seat::run(&args.seat_file)?)
}
