//! Sending messages and looking at where they are.
//!
//! Long: sending here and elsewhere, and where a message stands, share their helpers.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use team_model::{
    AgentName, By, Event, MessageId, MessageKind, Receipt, ReceiptStep, RequestId, State, TaskId, TeamKey,
};

use super::{Caller, Engine, Scope};
use crate::decide::{self, PriorMessage, Refusal, SendCommand, SendOutcome, Sender};
use crate::error::EngineError;
use crate::guardian;
use crate::workspace::Workspace;

/// How long a message may stand still before it is seen to that a coordinator still runs.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How many lines behind the beginning of a turn its end is looked for.
const FAR: u64 = 2000;
/// The most bytes of a message.
pub const LONGEST_TEXT: usize = 1 << 20;

/// A text that was given, cleaned of what would act as keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text {
    /// What is left.
    pub text: String,
    /// How many characters were removed.
    pub cleaned: u64,
}

impl Text {
    /// Cleans a text: control characters but newline and tab go.
    pub fn clean(text: &str) -> Self {
        let cleaned = team_tmux::clean_text(text);
        Self { text: cleaned.text.into_owned(), cleaned: cleaned.removed as u64 }
    }

    /// Cleans the text of a message, which keeps its line ends as they are, those of Windows, too.
    pub fn clean_message(text: &str) -> Self {
        let lines: Vec<Self> = text.split("\r\n").map(Self::clean).collect();
        let texts: Vec<&str> = lines.iter().map(|it| it.text.as_str()).collect();
        Self { text: texts.join("\r\n"), cleaned: lines.iter().map(|it| it.cleaned).sum() }
    }
}

/// What is to be sent.
#[derive(Debug, Clone, Default)]
pub struct SendArgs {
    /// The receivers as written.
    pub to: Vec<String>,
    /// The text.
    pub text: String,
    /// Its kind.
    pub kind: Option<MessageKind>,
    /// The task it belongs to.
    pub task: Option<String>,
    /// What it answers.
    pub reply_to: Option<String>,
    /// The sender's own id.
    pub id: Option<String>,
    /// A free label.
    pub case: Option<String>,
    /// Whether a result is owed.
    pub watch_result: bool,
    /// Labels for those who show it.
    pub presentation: BTreeMap<String, String>,
    /// Arguments that do not count.
    pub ignored: BTreeMap<String, String>,
}

/// Where a message stands with one receiver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ReceiptShown {
    /// The step.
    pub step: String,
    /// Why it waits, or why it ended so.
    pub reason: Option<String>,
    /// The channel of the last attempt.
    pub channel: Option<String>,
    /// How many attempts there were.
    pub attempts: u32,
}

/// A message and one receiver of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SentTo {
    /// The message.
    pub message_id: String,
    /// The receiver.
    pub to: String,
    /// The task it handed over.
    pub task: Option<String>,
    /// Where it stands.
    pub receipt: ReceiptShown,
}

/// A message that was accepted.
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the answer")]
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Sent {
    /// The first message.
    pub message_id: String,
    /// The label of its case, where a result is owed: `--case`, else the task.
    pub case_id: Option<String>,
    /// Whether a result is watched for.
    pub watching: bool,
    /// The team.
    #[schemars(with = "String")]
    pub team: TeamKey,
    /// Whether a leader is bound that can be told.
    pub leader_bound: bool,
    /// Whether it had been accepted before.
    pub repeated: bool,
    /// How many control characters were removed from the text: what would act as a key is not sent.
    pub cleaned: u64,
    /// The step that every receiver has reached; of several receivers it is the slowest's.
    pub step: String,
    /// Whether all have reached the step that was waited for: what `--wait` says, else `submitted`.
    pub reached: bool,
    /// Each receiver.
    pub receivers: Vec<SentTo>,
}

/// Ids are no free text: what is one would stand in the log as it is.
fn looks_like_a_key(id: &str) -> bool {
    team_journal::Redactor::standard().redact_text(id) != id
}

impl Engine {
    /// Sends a message: accepted first, delivered after. Follows its way until `step` is reached or the time is over.
    pub fn send(&mut self, args: &SendArgs, step: ReceiptStep, wait: Duration) -> Result<Sent, EngineError> {
        if let [only] = args.to.as_slice()
            && let Some((workspace, address)) = only.rsplit_once("::")
        {
            return self.send_elsewhere(workspace, address, args, step, wait);
        }
        let key = self.team()?;
        let (sender, from) = match &self.caller {
            Caller::Person => (Sender::Person, "leader".to_owned()),
            Caller::Seat { team, agent, .. } if *team == key => {
                (Sender::Seat(agent.clone()), agent.to_string())
            }
            Caller::Seat { team, agent, .. } => {
                (Sender::Elsewhere, format!("{}::{team}/{agent}", self.workspace.root.display()))
            }
            Caller::Unproved => (Sender::Unknown, "unknown".to_owned()),
        };
        let by = self.by();
        self.send_as(&key, sender, from, &by, args, step, wait)
    }

    #[expect(clippy::too_many_arguments, reason = "one call with two callers: here and another workspace")]
    fn send_as(
        &mut self,
        key: &TeamKey,
        sender: Sender,
        from: String,
        by: &By,
        args: &SendArgs,
        step: ReceiptStep,
        wait: Duration,
    ) -> Result<Sent, EngineError> {
        let text = Text::clean_message(&args.text);
        if text.text.trim().is_empty() {
            let hint = Some("give a text, `-f FILE`, or `-` for standard input".to_owned());
            return Err(EngineError::Usage { message: "there is no text to send".to_owned(), hint });
        }
        if text.text.len() > LONGEST_TEXT {
            let message = format!("the text has {} bytes, {LONGEST_TEXT} are allowed", text.text.len());
            return Err(Refusal::new("too_long", message)
                .with_hint("put it into a file in the workspace and send the path")
                .into());
        }
        if let Some(id) = args.id.as_deref().filter(|it| looks_like_a_key(it)) {
            let shown: String = id.chars().take(6).collect();
            return Err(Refusal::new(
                "bad_message_id",
                format!("`{shown}…` looks like a key, and ids are shown to all"),
            )
            .with_hint("use another word as the id")
            .into());
        }
        let task = args.task.as_deref().map(parse_task).transpose()?;
        let request = args.reply_to.as_deref().and_then(|it| it.parse::<RequestId>().ok());
        let reply_to = args.reply_to.as_deref().filter(|_| request.is_none());
        let reply_to = reply_to.map(str::parse::<MessageId>).transpose().map_err(|error| {
            Refusal::new("bad_message_id", error.to_string())
                .with_hint("take the id from `team-agent inbox leader`")
        })?;
        let now = self.clock.now();
        let store = self.store_mut()?;
        if let Some(id) = &reply_to
            && sender != Sender::Elsewhere
            && !is_message(store, id)?
        {
            return Err(Refusal::new("unknown_message", format!("there is no message `{id}`"))
                .with_hint("take the id from `team-agent inbox leader`")
                .into());
        }
        let prior = match &args.id {
            Some(id) => prior(store, id)?,
            None => None,
        };
        let command = SendCommand {
            team: key.clone(),
            sender,
            from,
            to: args.to.clone(),
            kind: args.kind.unwrap_or(MessageKind::Message),
            body: store.body(&text.text, text.cleaned)?,
            subject: text.text.lines().find(|it| !it.trim().is_empty()).unwrap_or_default().trim().to_owned(),
            task,
            reply_to,
            request,
            answer: text.text.chars().take(200).collect(),
            own_id: args.id.clone(),
            prior,
            case_id: args.case.as_deref().map(|it| Text::clean(it).text.replace(char::is_control, " ")),
            watch_result: args.watch_result,
            presentation: args.presentation.clone(),
            ignored: args.ignored.clone(),
        };
        let team_home = self.workspace.team_root().join(key.as_str());
        let known: Vec<AgentName> =
            self.team_state(key).map(|it| it.seats.keys().cloned().collect()).unwrap_or_default();
        let store = self.store_mut()?;
        let outcome = store
            .decide(now, by, Some(key), |state| decide::accept_message(state, &command))
            .map_err(|error| written_since(error, &team_home, &args.to, key, &known))?;
        if !outcome.repeated || !wait.is_zero() {
            // Accepted: from here on it will be delivered, also if no coordinator can be started from here.
            let _ = guardian::ensure(&self.workspace);
        }
        self.follow_sent(key, &outcome, step, wait)?;
        self.show_sent(key, &outcome, args, text.cleaned, step)
    }

    /// Follows messages until all receivers have reached a step, or can no longer, or the time is over.
    pub(super) fn follow_sent(
        &mut self,
        key: &TeamKey,
        outcome: &SendOutcome,
        step: ReceiptStep,
        wait: Duration,
    ) -> Result<(), EngineError> {
        let limit = self.clock.elapsed() + wait;
        while self.clock.elapsed() < limit {
            let pause = limit.min(self.clock.elapsed() + LOOK_AGAIN);
            if self.follow_until(pause, |state| arrived(state, key, outcome, step).then_some(()))?.is_some() {
                break;
            }
            // The one that took it may have stepped aside since.
            let _ = guardian::ensure(&self.workspace);
        }
        Ok(())
    }

    pub(super) fn show_sent(
        &self,
        key: &TeamKey,
        outcome: &SendOutcome,
        args: &SendArgs,
        cleaned: u64,
        step: ReceiptStep,
    ) -> Result<Sent, EngineError> {
        let store = self.store()?;
        let mut receivers = Vec::new();
        let mut reached = true;
        for sent in &outcome.messages {
            let task = sent.task.map(|it| it.to_string());
            let to: Vec<AgentName> = if sent.to.is_empty() && !sent.to_leader {
                receivers_of(store, &sent.id)?
            } else {
                sent.to.clone()
            };
            for agent in &to {
                let receipt = self.receipt(key, &sent.id, agent)?;
                reached &= step_of(&receipt).is_some_and(|it| it.has_reached(step));
                receivers.push(SentTo {
                    message_id: sent.id.to_string(),
                    to: agent.to_string(),
                    task: task.clone(),
                    receipt,
                });
            }
            if sent.to_leader {
                let receipt = ReceiptShown {
                    step: "accepted".to_owned(),
                    reason: Some("the leader finds it with `team-agent inbox leader`".to_owned()),
                    channel: None,
                    attempts: 0,
                };
                let message_id = sent.id.to_string();
                receivers.push(SentTo { message_id, to: "leader".to_owned(), task: task.clone(), receipt });
            }
        }
        let least = receivers
            .iter()
            .filter(|it| it.to != "leader")
            .filter_map(|it| step_of(&it.receipt))
            .min()
            .map_or("accepted", ReceiptStep::as_str);
        let first = outcome.messages.first();
        let task = first.and_then(|it| it.task).map(|it| it.to_string());
        Ok(Sent {
            message_id: first.map(|it| it.id.to_string()).unwrap_or_default(),
            case_id: if args.watch_result { args.case.clone().or(task) } else { args.case.clone() },
            watching: args.watch_result,
            team: key.clone(),
            leader_bound: store.state.teams.get(key).is_some_and(|it| it.leader.bound.is_some()),
            repeated: outcome.repeated,
            cleaned,
            step: least.to_owned(),
            reached,
            receivers,
        })
    }

    /// Where a message stands with one receiver: from the state, or from the log once it has left it.
    pub(crate) fn receipt(
        &self,
        key: &TeamKey,
        id: &MessageId,
        agent: &AgentName,
    ) -> Result<ReceiptShown, EngineError> {
        let store = self.store()?;
        let open =
            store.state.teams.get(key).and_then(|it| it.message(id)).and_then(|it| it.receipts.get(agent));
        if let Some(receipt) = open {
            return Ok(shown(receipt));
        }
        // Settled: what the last lines about it say, and how the turn that took it ended.
        let (mut turn, mut brief) = (None, None);
        let mut found =
            Receipt { step: ReceiptStep::Accepted, held: None, attempts: 0, attempt: None, why: None };
        let mut channel = None;
        let mut sent_to = None;
        let began = match id {
            MessageId::Seq(seq) => *seq,
            MessageId::Own(_) => 1,
        };
        for line in store.find_since(&id.to_string(), began)? {
            match line.event.0 {
                Event::MessageAccepted { task, .. } => brief = task,
                Event::MessageSending { receiver, attempt, channel: by, spawn, .. } if receiver == *agent => {
                    sent_to = Some(spawn);
                    found.attempts = attempt;
                    found.step = ReceiptStep::Sending;
                    channel = Some(by.to_string());
                }
                Event::MessageSubmitted { receiver, .. }
                    if receiver == *agent && found.step != ReceiptStep::Unknown =>
                {
                    turn.get_or_insert(line.seq);
                    found.step = ReceiptStep::Answered;
                    found.why = None;
                }
                Event::TurnStarted { spawn, .. } => {
                    let planned = |line: crate::store::Line| matches!(line.event.0, Event::SpawnPlanned { agent: it, .. } if it == *agent);
                    if sent_to == Some(spawn) || store.line(spawn.0)?.is_some_and(planned) {
                        turn = Some(line.seq);
                        found.step = ReceiptStep::Answered;
                        found.why = None;
                    }
                }
                Event::MessageAgain { receiver, .. } if receiver == *agent => {
                    found.step = ReceiptStep::Accepted;
                    found.why = None;
                }
                Event::MessageUnknown { receiver, why, .. } if receiver == *agent => {
                    found.step = ReceiptStep::Unknown;
                    found.why = Some(why);
                }
                Event::MessageReturned { receiver, why, .. } if receiver == *agent => {
                    found.step = ReceiptStep::Returned;
                    found.why = Some(why);
                }
                Event::MessageRefused { receiver, why, .. } if receiver == *agent => {
                    found.step = ReceiptStep::Refused;
                    found.why = Some(why);
                }
                Event::MessageWithdrawn { receiver, why, .. } if receiver == *agent => {
                    found.step = ReceiptStep::Withdrawn;
                    found.why = Some(why);
                }
                _ => {}
            }
        }
        if let Some(began) = turn.filter(|_| found.step == ReceiptStep::Answered)
            && was_cut_off(store, key, agent, began, brief)?
        {
            found.step = ReceiptStep::Unknown;
            found.why = Some(team_model::CUT_OFF.to_owned());
        }
        Ok(ReceiptShown { channel, ..shown(&found) })
    }

    /// Sends into another workspace: the message is an entry of that log.
    fn send_elsewhere(
        &mut self,
        workspace: &str,
        address: &str,
        args: &SendArgs,
        step: ReceiptStep,
        wait: Duration,
    ) -> Result<Sent, EngineError> {
        let root = self.find_workspace(workspace)?;
        let (team, agent) = address.split_once('/').ok_or_else(|| {
            Refusal::new("unknown_receiver", format!("`{address}` is not `<team>/<agent>`"))
                .with_hint("write `<workspace>::<team>/<agent>`")
        })?;
        let here = self.workspace.root.display();
        let (sender, from) = match &self.caller {
            Caller::Seat { team, agent, .. } => (Sender::Elsewhere, format!("{here}::{team}/{agent}")),
            Caller::Person => {
                let team =
                    self.team().map_or_else(|_| team_spec::DEFAULT_KEY.to_owned(), |it| it.to_string());
                (Sender::Elsewhere, format!("{here}::{team}/leader"))
            }
            Caller::Unproved => (Sender::Unknown, "unknown".to_owned()),
        };
        let scope = Scope { workspace: Some(root), team: Some(team.to_owned()), seat_file: None };
        let mut there = Engine::look(&scope).map_err(|error| match error {
            EngineError::Workspace(error) => no_workspace(&error),
            other => other,
        })?;
        there.caller = Caller::Person;
        there.team = Some(team.to_owned());
        let key = there.team()?;
        let by = By::Remote { address: from.clone() };
        let args = SendArgs { to: vec![agent.to_owned()], ..args.clone() };
        // The leader there is not this sender, so it may be addressed.
        let place = there.workspace.root.display().to_string();
        there
            .send_as(&key, sender, from, &by, &args, step, wait)
            .map_err(|error| of_place(error, &key, &place))
    }

    /// A path, or the name of a directory with a live team.
    fn find_workspace(&self, named: &str) -> Result<std::path::PathBuf, EngineError> {
        if named.contains('/') || named == "." {
            return crate::workspace::discover(Some(Path::new(named)), Path::new("/"))
                .map_err(|error| no_workspace(&error));
        }
        let found: Vec<_> = self
            .workspace
            .others()
            .into_iter()
            .map(|(_, path)| path)
            .filter(|it| it.file_name().is_some_and(|name| name.to_string_lossy() == named))
            .filter(|it| Workspace::look(it).is_ok_and(|it| guardian::connect(&it).is_some()))
            .collect();
        match found.as_slice() {
            [only] => Ok(only.clone()),
            [] => Err(Refusal::new(
                "unknown_workspace",
                format!("no workspace named `{named}` has a running team"),
            )
            .with_hint("give its path: `<path>::<team>/<agent>`")
            .into()),
            many => {
                let paths: Vec<_> = many.iter().map(|it| it.display().to_string()).collect();
                Err(Refusal::new("ambiguous_workspace", format!("several workspaces are named `{named}`"))
                    .with_hint(format!("give the path: {}", paths.join(", ")))
                    .into())
            }
        }
    }
}

/// A refusal from another workspace is about that one, and what it advises is to be done there.
fn of_place(error: EngineError, key: &TeamKey, place: &str) -> EngineError {
    let EngineError::Refused(mut refusal) = error else { return error };
    let quoted = shell_word(place);
    refusal.message =
        refusal.message.replace(&format!("team `{key}`"), &format!("team `{key}` of `{place}`"));
    refusal.hint =
        refusal.hint.map(|it| it.replace("team-agent ", &format!("team-agent --workspace {quoted} ")));
    refusal.into()
}

/// An agent whose role file is younger than the team's start.
fn written_since(
    error: EngineError,
    home: &Path,
    to: &[String],
    key: &TeamKey,
    known: &[AgentName],
) -> EngineError {
    match &error {
        EngineError::Refused(refusal) if refusal.code == "unknown_receiver" => {}
        _ => return error,
    }
    let names =
        to.iter().flat_map(|it| it.split(',')).map(str::trim).filter_map(|it| AgentName::new(it).ok());
    let files = names
        .filter(|it| !known.contains(it))
        .map(|it| Path::new(team_spec::AGENTS_DIR).join(format!("{it}.md")));
    let Some(file) = files.into_iter().find(|it| home.join(it).is_file()) else { return error };
    let EngineError::Refused(refusal) = error else { return error };
    let [stop, start] = ["shutdown", "restart"].map(|verb| decide::command_for(verb, key));
    refusal.with_hint(format!("`{}` is new: run `{stop} && {start}`", file.display())).into()
}

fn no_workspace(error: &crate::workspace::WorkspaceError) -> EngineError {
    Refusal::new("unknown_workspace", error.to_string())
        .with_hint("give the receiver's workspace by its path: `<path>::<team>/<agent>`")
        .into()
}

/// A path as a shell takes it for one word.
fn shell_word(path: &str) -> String {
    let plain = |it: char| it.is_ascii_alphanumeric() || "/._-+:@".contains(it);
    if path.chars().all(plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

fn parse_task(text: &str) -> Result<TaskId, EngineError> {
    text.parse().map_err(|_| {
        let number: String = text.chars().filter(char::is_ascii_digit).collect();
        let refusal = Refusal::new("bad_task_id", format!("`{text}` is no task id"));
        refusal
            .with_hint(if number.is_empty() { "a task id is a number, such as 3".to_owned() } else { number })
            .into()
    })
}

/// Whether the session ended before the turn that began with this line, or any later one of it, was seen to end.
fn was_cut_off(
    store: &crate::store::Store,
    key: &TeamKey,
    agent: &AgentName,
    began: u64,
    brief: Option<TaskId>,
) -> Result<bool, EngineError> {
    let mut spawn = None;
    for seq in began..=store.state.seq.min(began + FAR) {
        let Some(line) = store.line(seq)? else { continue };
        if line.team.as_ref().is_some_and(|it| it != key.as_str()) {
            continue;
        }
        match line.event.0 {
            Event::TurnStarted { spawn: of, .. } if seq == began => spawn = Some(of),
            Event::TurnStarted { spawn: of, .. } | Event::TurnEnded { spawn: of, .. }
                if spawn.is_none_or(|it| it == of) =>
            {
                return Ok(false);
            }
            // A report answers, too.
            Event::TaskCompleted { id, .. } | Event::TaskFailed { id, .. } if Some(id) == brief => {
                return Ok(false);
            }
            Event::AgentStopped { agent: of, .. } | Event::AgentFailed { agent: of, .. } if of == *agent => {
                return Ok(true);
            }
            _ => {}
        }
    }
    Ok(false)
}

/// Whether a line of the log accepted a message of this id.
fn is_message(store: &crate::store::Store, id: &MessageId) -> Result<bool, EngineError> {
    let accepted = |line: &crate::store::Line| matches!(&line.event.0, Event::MessageAccepted { id: it, .. } if it == id);
    Ok(store.find(&id.to_string())?.iter().any(accepted))
}

fn prior(store: &crate::store::Store, id: &str) -> Result<Option<PriorMessage>, EngineError> {
    Ok(store.find(id)?.into_iter().find_map(|line| match line.event.0 {
        Event::MessageAccepted { id: MessageId::Own(own), body, .. } if own == id => {
            Some(PriorMessage { id: MessageId::Own(own), hash: body.hash })
        }
        _ => None,
    }))
}

fn receivers_of(store: &crate::store::Store, id: &MessageId) -> Result<Vec<AgentName>, EngineError> {
    Ok(store
        .find(&id.to_string())?
        .into_iter()
        .find_map(|line| match line.event.0 {
            Event::MessageAccepted { to, .. } => Some(to),
            _ => None,
        })
        .unwrap_or_default())
}

/// Says whether every receiver has reached the step, or can no longer.
fn arrived(state: &State, key: &TeamKey, outcome: &SendOutcome, step: ReceiptStep) -> bool {
    let Some(team) = state.teams.get(key) else { return true };
    outcome.messages.iter().all(|sent| {
        sent.to.iter().all(|agent| {
            team.message(&sent.id)
                .and_then(|it| it.receipts.get(agent))
                .is_none_or(|it| it.step.has_reached(step) || it.step.is_settled())
        })
    })
}

pub(crate) fn shown(receipt: &Receipt) -> ReceiptShown {
    ReceiptShown {
        step: receipt.step.as_str().to_owned(),
        reason: receipt.held.map(|it| it.to_string()).or_else(|| receipt.why.clone()),
        channel: receipt.attempt.as_ref().map(|it| it.channel.to_string()),
        attempts: receipt.attempts,
    }
}

fn step_of(receipt: &ReceiptShown) -> Option<ReceiptStep> {
    parse_step(&receipt.step)
}

/// Reads a step's word.
fn parse_step(word: &str) -> Option<ReceiptStep> {
    [
        ReceiptStep::Accepted,
        ReceiptStep::Held,
        ReceiptStep::Sending,
        ReceiptStep::Submitted,
        ReceiptStep::TurnStarted,
        ReceiptStep::Answered,
        ReceiptStep::Returned,
        ReceiptStep::Refused,
        ReceiptStep::Unknown,
        ReceiptStep::Withdrawn,
    ]
    .into_iter()
    .find(|it| it.as_str() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_message_keeps_its_line_ends_and_loses_what_acts_as_a_key() {
        let check = |text: &str, kept: &str, cleaned: u64| {
            assert_eq!(Text::clean_message(text), Text { text: kept.to_owned(), cleaned });
        };
        check("one\r\ntwo\r\n", "one\r\ntwo\r\n", 0);
        check("one\ntwo\tthree\n\n", "one\ntwo\tthree\n\n", 0);
        check("a\rb\r\r\n", "a\nb\n\r\n", 2);
        check("a\u{1b}[201~\r\n\u{3}", "a[201~\r\n", 2);
    }
}
