//! `schema`

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Print the JSON schemas of the answers
#[derive(Debug, clap::Args)]
pub(crate) struct SchemaArgs {
    /// Only this command's answer
    of: Option<String>,
}

pub(crate) fn run(_ui: &Ui, _context: &Context, _args: &SchemaArgs) -> Result<u8, CliError> {
    Err(CliError::usage("not there yet", "wait"))
}
