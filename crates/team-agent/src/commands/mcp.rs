//! `mcp`: the team's tools for an agent, over standard input and output.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use team_engine::EngineError;
use team_engine::ops::{Caller, Engine, ReportArgs, Scope, SendArgs};
use team_mcp::{
    Answer, Backend, IgnoredArg, Presentation, ReportResultArgs, SendMessageArgs, TeamReadArgs, ToolCall,
    ToolError, ToolRequest, ToolSet,
};
use team_model::{Artifacts, MessageKind, ReceiptStep, ReportStatus, TestRun, TestStatus};

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Serve the team's tools to an agent over standard input and output
#[derive(Debug, clap::Args)]
pub(crate) struct McpArgs {
    /// The seat that the agent sits in
    #[arg(long, value_name = "FILE")]
    pub(crate) seat_file: Option<PathBuf>,

    /// A text that the agent is told as the server's instructions
    #[arg(long, value_name = "FILE")]
    pub(crate) instructions: Option<PathBuf>,
}

pub(crate) fn run(_ui: &Ui, context: &Context, args: &McpArgs) -> Result<u8, CliError> {
    let scope = Scope { seat_file: args.seat_file.clone(), ..context.scope() };
    let backend =
        Arc::new(Tools { scope, engine: Mutex::new(None), instructions: args.instructions.clone() });
    team_mcp::serve(backend).map_err(|error| {
        CliError::new(team_engine::ErrorKind::Environment, "mcp", team_engine::whole(&error))
    })?;
    Ok(0)
}

/// The tools, over the engine's operations.
struct Tools {
    scope: Scope,
    engine: Mutex<Option<Engine>>,
    instructions: Option<PathBuf>,
}

impl Tools {
    /// Opens the workspace on first use: the server answers even where there is none yet.
    fn engine(&self) -> Result<MutexGuard<'_, Option<Engine>>, ToolError> {
        let mut engine = self.engine.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match engine.as_mut() {
            None => *engine = Some(Engine::for_tool_server(&self.scope).map_err(refused)?),
            Some(open) => open.refresh().map_err(refused)?,
        }
        Ok(engine)
    }
}

impl Backend for Tools {
    fn set(&self) -> ToolSet {
        let Ok(engine) = self.engine() else { return ToolSet::Unbound };
        match engine.as_ref().map(Engine::caller) {
            Some(Caller::Seat { .. }) => ToolSet::Worker,
            _ => ToolSet::Unbound,
        }
    }

    fn instructions(&self) -> Option<String> {
        std::fs::read_to_string(self.instructions.as_ref()?).ok()
    }

    fn call(&self, call: ToolCall) -> Result<Answer, ToolError> {
        let mut guard = self.engine()?;
        let Some(engine) = guard.as_mut() else {
            return Err(ToolError {
                code: "no_team".to_owned(),
                message: "there is no team".to_owned(),
                hint: None,
            });
        };
        let ignored = ignored(&call.ignored, engine.caller());
        let answer = match call.request {
            ToolRequest::SendMessage(args) => send(engine, args, ignored),
            ToolRequest::ReportResult(args) => report(engine, args, ignored, &call.ignored),
            ToolRequest::TeamRead(args) => read(engine, &args),
            ToolRequest::RequestHuman(args) => engine
                .request_human(&args.question, &args.choices)
                .map(|id| Answer {
                    text: format!("Question {id} waits for a human; the answer comes as a message."),
                    structured: json!({ "request_id": id }),
                })
                .map_err(refused),
        };
        // What was written is picked up by a coordinator; where none can be started from here, by the next one.
        if answer.is_ok() {
            let _ = engine.ensure_coordinator();
        }
        answer
    }

    fn listed(&self) {
        if let Ok(engine) = self.engine()
            && let Some(engine) = engine.as_ref()
        {
            let _ = engine.tools_listed();
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is a mapping for map_err")]
fn refused(error: EngineError) -> ToolError {
    ToolError { code: error.code().to_owned(), message: team_engine::whole(&error), hint: error.hint() }
}

/// Arguments that do not count are recorded where they disagree with what is proved.
fn ignored(given: &[IgnoredArg], caller: &Caller) -> BTreeMap<String, String> {
    let own = match caller {
        Caller::Seat { agent, .. } => agent.to_string(),
        _ => String::new(),
    };
    given
        .iter()
        .filter(|it| matches!(it.name.as_str(), "sender" | "from" | "agent_id"))
        .map(|it| (it.name.clone(), text_of(&it.value)))
        .filter(|(_, value)| *value != own)
        .collect()
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned).chars().take(200).collect()
}

fn labels(presentation: Option<&Presentation>) -> BTreeMap<String, String> {
    let Some(it) = presentation else { return BTreeMap::new() };
    [("case_id", &it.case_id), ("sink", &it.sink), ("class", &it.class)]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)))
        .collect()
}

fn word<T: serde::Serialize>(value: T) -> String {
    serde_json::to_value(value).ok().and_then(|it| it.as_str().map(str::to_owned)).unwrap_or_default()
}

fn send(
    engine: &mut Engine,
    args: SendMessageArgs,
    ignored: BTreeMap<String, String>,
) -> Result<Answer, ToolError> {
    let kind: MessageKind = kind_word(args.kind).parse().unwrap_or(MessageKind::Message);
    let wanted = SendArgs {
        to: args.to,
        text: args.content,
        kind: Some(kind),
        task: args.task,
        reply_to: args.reply_to,
        id: args.id,
        case: args.presentation.as_ref().and_then(|it| it.case_id.clone()),
        watch_result: false,
        presentation: labels(args.presentation.as_ref()),
        ignored,
    };
    let sent = engine.send(&wanted, ReceiptStep::Accepted, Duration::ZERO).map_err(refused)?;
    let to: Vec<&str> = sent.receivers.iter().map(|it| it.to.as_str()).collect();
    let text = if sent.repeated {
        format!("Message {} was sent before under this id; nothing was sent again.", sent.message_id)
    } else {
        format!(
            "Message {} to {} is accepted and will be delivered. End your turn when you have nothing else to do; answers come by themselves.",
            sent.message_id,
            to.join(", ")
        )
    };
    Ok(Answer { text, structured: serde_json::to_value(&sent).unwrap_or_default() })
}

fn kind_word(kind: team_mcp::MessageKind) -> &'static str {
    use team_mcp::MessageKind as K;
    match kind {
        K::Message => "message",
        K::Ack => "ack",
        K::Plan => "plan",
        K::Question => "question",
        K::Progress => "progress",
    }
}

fn report(
    engine: &mut Engine,
    args: ReportResultArgs,
    ignored: BTreeMap<String, String>,
    given: &[IgnoredArg],
) -> Result<Answer, ToolError> {
    use team_mcp::{ReportStatus as S, TestStatus as T};
    let status = match args.status {
        S::Success => ReportStatus::Success,
        S::Partial => ReportStatus::Partial,
        S::Failed => ReportStatus::Failed,
        S::Blocked => ReportStatus::Blocked,
    };
    let tests = args
        .tests
        .into_iter()
        .map(|it| TestRun {
            command: it.command,
            status: match it.status {
                T::Passed => TestStatus::Passed,
                T::Failed => TestStatus::Failed,
                T::Skipped => TestStatus::Skipped,
            },
            note: it.note,
        })
        .collect();
    let wanted = ReportArgs {
        summary: args.summary,
        status,
        task: args.task,
        task_hint: given.iter().find(|it| it.name == "task_id").map(|it| text_of(&it.value)),
        text: args.text,
        lists: Artifacts {
            tests,
            changes: args.changes,
            artifacts: args.artifacts,
            risks: args.risks,
            next_actions: args.next_actions,
            evidence: args.evidence,
            lessons: args.lessons,
        },
        via: "mcp",
        presentation: labels(args.presentation.as_ref()),
        ignored,
    };
    let reported = engine.report(&wanted).map_err(refused)?;
    Ok(Answer {
        text: reported.message.clone(),
        structured: serde_json::to_value(&reported).unwrap_or_default(),
    })
}

fn read(engine: &Engine, args: &TeamReadArgs) -> Result<Answer, ToolError> {
    let what = word(args.what);
    let limit = usize::from(args.limit.unwrap_or(50));
    let read = engine.team_read(args.since, &what, limit).map_err(refused)?;
    let structured = serde_json::to_value(&read).unwrap_or_default();
    let text = serde_json::to_string_pretty(&read).unwrap_or_default();
    Ok(Answer { text, structured })
}
