//! `events`

use std::fmt::Write as _;

use team_engine::ops::{Engine, EventLine};

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
    engine.events(args.since, args.follow, &mut |line| {
        if ui.is_json() {
            ui.raw(&format!("{}\n", serde_json::to_string(line).unwrap_or_default()))
        } else {
            ui.line(&human(line))
        }
    })?;
    Ok(0)
}

/// One line for people: when, what, and the fields that are short.
fn human(line: &EventLine) -> String {
    let time = line.ts.get(11..23).unwrap_or(&line.ts);
    let kind = line.event.get("type").and_then(|it| it.as_str()).unwrap_or("?");
    let mut text = format!("{:>6} {time} {kind}", line.seq);
    if let Some(fields) = line.event.as_object() {
        for (name, value) in fields {
            let shown = match value {
                _ if name == "type" => continue,
                serde_json::Value::String(it) if it.chars().count() <= 60 => it.replace('\n', " "),
                serde_json::Value::String(it) => {
                    format!("{}…", it.chars().take(59).collect::<String>().replace('\n', " "))
                }
                serde_json::Value::Object(_) | serde_json::Value::Null => continue,
                other => other.to_string(),
            };
            let _ = write!(text, " {name}={shown}");
        }
    }
    text
}
