//! `send`

use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use team_engine::ops::{Engine, SendArgs as Wanted, Sent};
use team_model::ReceiptStep;

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Send a message to agents: a name, names with commas, `all`, `leader`, or `<workspace>::<team>/<agent>`
#[derive(Debug, clap::Args)]
pub(crate) struct SendArgs {
    /// The receivers
    to: String,
    /// The text; `-` reads standard input
    text: Option<String>,
    /// Read the text from this file
    #[arg(short, long, value_name = "FILE", conflicts_with = "text")]
    file: Option<PathBuf>,
    /// Make it a task that owes a result; the leader is told when it comes
    #[arg(long)]
    watch_result: bool,
    /// Succeed only when this step is proved: accepted, submitted, turn_started or answered
    #[arg(long, value_name = "STEP", value_parser = step)]
    wait: Option<ReceiptStep>,
    /// How long to wait, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    timeout: Duration,
    /// Your own id: the same id again is the same message
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// A label for the case
    #[arg(long, value_name = "ID")]
    case: Option<String>,
    /// The message this answers
    #[arg(long, value_name = "MESSAGE")]
    reply_to: Option<String>,
}

fn step(word: &str) -> Result<ReceiptStep, String> {
    use ReceiptStep as R;
    [R::Accepted, R::Submitted, R::TurnStarted, R::Answered]
        .into_iter()
        .find(|it| it.as_str() == word)
        .ok_or_else(|| "use accepted, submitted, turn_started or answered".to_owned())
}

pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text);
    let seconds: f64 = number.parse().map_err(|_| "give seconds, for example 30 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "give seconds, for example 30 or 0.5".to_owned())
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &SendArgs) -> Result<u8, CliError> {
    let text = text(args)?;
    let wanted = Wanted {
        to: vec![args.to.clone()],
        text,
        id: args.id.clone(),
        case: args.case.clone(),
        reply_to: args.reply_to.clone(),
        watch_result: args.watch_result,
        ..Wanted::default()
    };
    let mut engine: Engine = context.look()?;
    let step = args.wait.unwrap_or(ReceiptStep::Submitted);
    let sent = engine.send(&wanted, step, args.timeout)?;
    let code = exit_code(args, &sent);
    if ui.is_json() { ui.json_with(code == 0, &sent) } else { show(ui, &sent) }
    Ok(code)
}

/// Plain `send` has done its part once the message is accepted; `--wait` wants the proof.
fn exit_code(args: &SendArgs, sent: &Sent) -> u8 {
    let settled_badly = |it: &str| matches!(it, "refused" | "returned" | "withdrawn");
    if sent.receivers.iter().any(|it| settled_badly(&it.receipt.step)) {
        return 1;
    }
    match args.wait {
        None => 0,
        Some(_) if sent.reached => 0,
        Some(_) => 4,
    }
}

fn text(args: &SendArgs) -> Result<String, CliError> {
    let bytes = match (&args.file, args.text.as_deref()) {
        (Some(file), _) if file.as_os_str() != "-" => std::fs::read(file)
            .map_err(|error| CliError::usage(format!("failed to read `{}`: {error}", file.display()), "give a readable file"))?,
        (Some(_), _) => read_stdin()?,
        (None, Some("-")) => read_stdin()?,
        (None, text) => text.unwrap_or_default().as_bytes().to_vec(),
    };
    let text = String::from_utf8(bytes)
        .map_err(|_| CliError::usage("the text is not UTF-8", "send text, and a file by its path"))?;
    if text.trim().is_empty() {
        return Err(CliError::usage("there is no text to send", "give a text, `-f FILE`, or `-` for standard input"));
    }
    Ok(text)
}

fn read_stdin() -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    std::io::stdin()
        .read_to_end(&mut bytes)
        .map_err(|error| CliError::usage(format!("failed to read standard input: {error}"), "give the text as an argument"))?;
    Ok(bytes)
}

fn show(ui: &Ui, sent: &Sent) {
    for it in &sent.receivers {
        let reason = it.receipt.reason.as_deref().map(|it| format!(" ({it})")).unwrap_or_default();
        let task = it.task.as_deref().map(|it| format!(", task {it}")).unwrap_or_default();
        ui.line(&format!("{} to {}: {}{reason}{task}", it.message_id, it.to, it.receipt.step));
    }
    if sent.repeated {
        ui.say("it was sent before under this id; nothing was sent again");
    }
    if sent.cleaned > 0 {
        ui.say(&format!("{} control characters were removed", sent.cleaned));
    }
    if sent.watching {
        ui.say("the leader will be told when the result comes; `team-agent collect` shows it");
    }
}
