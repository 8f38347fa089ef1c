//! `events`

use team_engine::ops::{Engine, EventLine, Told};

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Show the log
///
/// With `--json` each line is an object of its own, as it is written.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  team-agent events --follow
  team-agent events --json | jq 'select(.event.type == \"message.accepted\")'")]
pub(crate) struct EventsArgs {
    /// Go on with new lines as they come
    #[arg(long)]
    follow: bool,
    /// Only lines behind this one: its number, or an id such as m-14
    #[arg(long, value_name = "LINE", default_value = "0", value_parser = super::log_line)]
    since: u64,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &EventsArgs) -> Result<u8, CliError> {
    let mut engine: Engine = context.look()?;
    if args.follow {
        ui.end_with_reader();
    }
    engine.events(args.since, args.follow, &mut |line, told| {
        if ui.is_json() {
            ui.raw(&format!("{}\n", serde_json::to_string(line).unwrap_or_default()))
        } else {
            ui.line(&human(ui, line, told))
        }
    })?;
    Ok(0)
}

/// One line for people: when, who, and what in words.
fn human(ui: &Ui, line: &EventLine, told: &Told) -> String {
    let time = line.ts.get(11..19).unwrap_or(&line.ts);
    let agent = ui.pad(told.agent.as_deref().unwrap_or("-"), 12);
    ui.fit(&format!("{:>6} {time} {agent} {}", line.seq, told.words.replace('\n', " ")))
}
