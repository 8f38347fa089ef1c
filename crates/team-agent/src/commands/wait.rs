//! `wait`

use std::time::Duration;

use team_engine::ops::{Engine, Waited, Wish};
use team_engine::{EngineError, ErrorKind};
use team_model::{AgentName, Event, TaskId};

use super::send::seconds;
use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Wait until something has happened
///
/// Exits 0 when it has, 1 when it can no longer happen, 4 when it has not happened yet.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  team-agent wait --task 3
  team-agent wait --idle coder --timeout 30
  team-agent wait --event mcp.report_result")]
#[group(skip)]
#[command(group(clap::ArgGroup::new("wish").required(true).multiple(false)))]
pub(crate) struct WaitArgs {
    /// A task has ended
    #[arg(long, value_name = "ID", group = "wish")]
    task: Option<String>,
    /// An agent has a result to collect
    #[arg(long, value_name = "AGENT", group = "wish")]
    result: Option<String>,
    /// An agent is idle and nothing waits for it
    #[arg(long, value_name = "AGENT", group = "wish")]
    idle: Option<String>,
    /// An event of this type was written
    #[arg(long, value_name = "TYPE", group = "wish")]
    event: Option<String>,
    /// With --event: count events behind this line too
    #[arg(long, value_name = "LINE", value_parser = super::log_line)]
    since: Option<u64>,
    /// How long to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    timeout: Duration,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &WaitArgs) -> Result<u8, CliError> {
    let agent = |name: &str| {
        AgentName::new(name).map_err(|error| CliError::usage(error.to_string(), "give an agent's name"))
    };
    let wish = match (&args.task, &args.result, &args.idle, &args.event) {
        (Some(task), ..) => Wish::Task(
            task.parse::<TaskId>()
                .map_err(|error| CliError::usage(error.to_string(), "give a task's number"))?,
        ),
        (_, Some(name), ..) => Wish::Result(agent(name)?),
        (_, _, Some(name), _) => Wish::Idle(agent(name)?),
        (_, _, _, Some(event)) => Wish::Event(known_event(event)?),
        _ => return Err(CliError::usage("nothing to wait for", "give --task, --result, --idle or --event")),
    };
    let mut engine: Engine = context.look()?;
    let waited = match engine.wait(&wish, args.since, args.timeout) {
        Err(error @ EngineError::NotYet { .. }) => {
            let error = CliError::from(error);
            return Ok(ui.answer(&Waited::not_yet(&wish, error.message.clone()), Some(&error), |_| {}));
        }
        other => other?,
    };
    let failure = (!waited.happened).then(|| {
        CliError::new(
            ErrorKind::User,
            "cannot_happen",
            format!("{}, so this can no longer happen", waited.what),
        )
        .with_hint(format!("run `{}` to see the team", context.paste("status")))
    });
    Ok(ui.answer(&waited, failure.as_ref(), |ui| {
        if waited.happened {
            ui.line(&waited.what);
        }
    }))
}

/// A type that no program writes would be waited for in vain.
fn known_event(word: &str) -> Result<String, CliError> {
    if Event::TYPES.contains(&word) {
        return Ok(word.to_owned());
    }
    let near = team_engine::decide::near_names(word, Event::TYPES.iter().copied());
    let hint = if near.is_empty() {
        "the types are in `docs/events.md`; `team-agent events` shows those that were written".to_owned()
    } else {
        format!("did you mean `{}`?", near.join("` or `"))
    };
    Err(CliError::usage(format!("there is no event `{word}`"), hint))
}
