//! `send`

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use team_engine::ErrorKind;
use team_engine::ops::{Engine, LONGEST_TEXT, SendArgs as Wanted, Sent, SentTo, held};
use team_model::ReceiptStep;

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Send a message to agents
///
/// It is accepted at once and delivered when the agent can take it. Exits 0 when it is accepted; with `--wait`, 0 when
/// that step is proved, 4 when it is not yet, 1 when the message was refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Receivers:
  coder                  one agent
  coder,tester           several
  all                    every other agent, with a receipt each
  leader                 the person's own agent
  <workspace>::<team>/<agent>
                         an agent of another workspace, by its path or name

Examples:
  team-agent send coder 'please look at src/main.rs'
  team-agent send --watch-result coder -f task.md
  git diff | team-agent send reviewer -
  team-agent send --again m-17")]
pub(crate) struct SendArgs {
    /// Who gets it: a name, several with commas, `all`, `leader`, or `<workspace>::<team>/<agent>`
    #[arg(required_unless_present = "again")]
    to: Option<String>,
    /// The text; `-` reads standard input
    #[arg(allow_hyphen_values = true)]
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
    /// Send this message anew, which came back or of which nobody knows whether it came
    #[arg(
        long,
        value_name = "MESSAGE",
        conflicts_with_all = ["to", "text", "file", "watch_result", "id", "case", "reply_to"]
    )]
    again: Option<String>,
    /// A label that its result carries too; `results --case` lists by it
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
    let (number, each) = match text.strip_suffix('m') {
        Some(minutes) => (minutes, 60.0),
        None => (text.strip_suffix('s').unwrap_or(text), 1.0),
    };
    let bad = || "give seconds, for example 30 or 0.5, or minutes, for example 2m".to_owned();
    let seconds: f64 = number.parse().map_err(|_| bad())?;
    Duration::try_from_secs_f64(seconds * each).map_err(|_| bad())
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &SendArgs) -> Result<u8, CliError> {
    let step = args.wait.unwrap_or(ReceiptStep::Submitted);
    if let Some(id) = &args.again {
        let sent = context.look()?.send_again(id, step, args.timeout)?;
        let failure = failure(context, args, &sent);
        return Ok(ui.answer(&sent, failure.as_ref(), |ui| show(ui, context, &sent)));
    }
    let text = text(args)?;
    let wanted = Wanted {
        to: args.to.iter().cloned().collect(),
        text,
        id: args.id.clone(),
        case: args.case.clone(),
        reply_to: args.reply_to.clone(),
        watch_result: args.watch_result,
        ..Wanted::default()
    };
    let mut engine: Engine = context.look()?;
    let sent = engine.send(&wanted, step, args.timeout)?;
    let failure = failure(context, args, &sent);
    Ok(ui.answer(&sent, failure.as_ref(), |ui| show(ui, context, &sent)))
}

/// Plain `send` has done its part once the message is accepted; `--wait` wants the proof.
fn failure(context: &Context, args: &SendArgs, sent: &Sent) -> Option<CliError> {
    let explain = |id: &str| context.paste(&format!("explain {id}"));
    let settled_badly =
        |it: &&SentTo| matches!(it.receipt.step.as_str(), "refused" | "returned" | "withdrawn");
    if let Some(it) = sent.receivers.iter().find(settled_badly) {
        let why = it.receipt.reason.as_deref().map(|it| format!(": {it}")).unwrap_or_default();
        let message = format!("message {} to `{}` was {}{why}", it.message_id, it.to, it.receipt.step);
        let error = CliError::new(ErrorKind::User, &it.receipt.step, message);
        let hint = match it.receipt.step.as_str() {
            "returned" => {
                format!("run `{}` to send it anew", context.paste(&format!("send --again {}", it.message_id)))
            }
            _ => format!("run `{}` to see its way", explain(&it.message_id)),
        };
        return Some(error.with_hint(hint));
    }
    let wanted = args.wait.filter(|_| !sent.reached)?;
    let error =
        CliError::new(ErrorKind::NotYet, "not_yet", format!("the step `{}` is not proved", wanted.as_str()));
    Some(error.with_hint(format!("run `{}` to see where it is", explain(&sent.message_id))))
}

fn text(args: &SendArgs) -> Result<String, CliError> {
    let bytes = match (&args.file, args.text.as_deref()) {
        (Some(file), _) if file.as_os_str() != "-" => {
            let opened = std::fs::File::open(file).and_then(read_bounded);
            opened.map_err(|error| {
                CliError::usage(
                    format!("failed to read `{}`: {error}", file.display()),
                    "give a readable file",
                )
            })?
        }
        (Some(_), _) | (None, Some("-")) => read_bounded(std::io::stdin()).map_err(|error| {
            CliError::usage(format!("failed to read standard input: {error}"), "give the text as an argument")
        })?,
        // More often a slip in an option than a text; a real one has blanks.
        (None, Some(word))
            if word.starts_with("--") && word.len() > 2 && !word.contains(char::is_whitespace) =>
        {
            let to = args.to.as_deref().unwrap_or_default();
            return Err(CliError::usage(
                format!("there is no option `{word}`"),
                format!("to send just this, run `printf %s '{word}' | team-agent send {to} -`"),
            ));
        }
        (None, text) => text.unwrap_or_default().as_bytes().to_vec(),
    };
    if bytes.len() > LONGEST_TEXT {
        let message = format!("the text has more than {LONGEST_TEXT} bytes");
        return Err(CliError::new(ErrorKind::User, "too_long", message)
            .with_hint("put it into a file in the workspace and send the path"));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| CliError::usage("the text is not UTF-8", "send text, and a file by its path"))?;
    if text.trim().is_empty() {
        return Err(CliError::usage(
            "there is no text to send",
            "give a text, `-f FILE`, or `-` for standard input",
        ));
    }
    Ok(text)
}

/// Reads a text, and stops where it is longer than any text may be.
fn read_bounded(from: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(LONGEST_TEXT as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn show(ui: &Ui, context: &Context, sent: &Sent) {
    for it in &sent.receivers {
        let reason = it.receipt.reason.as_deref().map(|it| format!(" ({it})")).unwrap_or_default();
        let task = it.task.as_deref().map(|it| format!(", task {it}")).unwrap_or_default();
        ui.line(&format!("{} to {}: {}{reason}{task}", it.message_id, it.to, it.receipt.step));
    }
    for it in sent.receivers.iter().filter(|it| it.receipt.step == "held") {
        if let Some(words) = it.receipt.reason.as_deref().and_then(|reason| held(&it.to, reason, &sent.team))
        {
            ui.say(&format!("held: {words}"));
        }
    }
    if sent.repeated {
        ui.say("it was sent before under this id; nothing was sent again");
    }
    match sent.cleaned {
        0 => {}
        1 => ui.say("1 control character was removed"),
        many => ui.say(&format!("{many} control characters were removed")),
    }
    if sent.watching {
        let collect = context.paste("collect");
        ui.say(&if sent.leader_bound {
            format!("an agent in the leader's pane is told when the result comes; `{collect}` shows it")
        } else {
            format!("`{collect}` shows the result when it comes")
        });
    }
}
