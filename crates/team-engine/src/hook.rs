//! The hook command: what a provider's program calls at its events. Fast, never refused, never in the way.
//!
//! Knows the seat file and the provider's meaning of a call. Folds nothing: it appends what was seen and ends.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value;
use team_model::{ANSWERED, By, Decision, Event, Proof, find_message_ids};
use team_provider::{ApprovalAnswer, Fact, HookContext, Provider, RecordKind, TurnOutcome};

use crate::answers::{self, Asked};
use crate::clock::{Clock as _, RealClock};
use crate::error::EngineError;
use crate::facts;
use crate::process;
use crate::render;
use crate::seat_file::{LiveSession, SeatFile};
use crate::store::Store;
use crate::workspace::Workspace;

/// What a hook call answers.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HookAnswer {
    /// What goes to standard output.
    pub stdout: String,
    /// What goes to standard error.
    pub stderr: String,
    /// The exit code.
    pub code: u8,
}

/// Carries out one hook call.
pub fn run(seat_file: &Path, event: &str, stdin: &str) -> Result<HookAnswer, EngineError> {
    let seat = SeatFile::read(seat_file)?;
    let Some(provider) = team_provider::provider(&seat.provider) else { return Ok(HookAnswer::default()) };
    let workspace = Workspace::look(&Workspace::present_root(&seat.state_dir, &seat.workspace))?;
    if !seat.is_genuine(seat_file, &workspace) {
        return Ok(HookAnswer::default());
    }
    let stdin: Value = serde_json::from_str(stdin).unwrap_or(Value::Null);
    let session = provider.hook_session(&stdin);
    let (told, transcript) =
        session.map_or((None, None), |it| (Some(it.native_id), it.transcript.filter(|it| it.is_absolute())));
    let below = SeatFile::claimed_by(seat_file)
        .is_some_and(|claimed| process::is_ancestor(&claimed, std::process::id()));
    let facts = provider.read_hook(event, &stdin);
    let mut facts = with_outcome(provider, facts, transcript.as_deref());
    let caller = Caller::of(&seat, seat_file, told.as_deref(), transcript.as_deref(), event, &facts);
    let (true, Some(caller)) = (below, caller) else {
        let what =
            format!("hook {event}{}", if below { " of another session" } else { " from outside the seat" });
        write(&seat, vec![Event::ObservationForeign { spawn: seat.spawn, what }])?;
        return Ok(HookAnswer::default());
    };
    if event == DRAIN {
        return drain(&seat);
    }
    let (waits, by_keys) = (provider.asks_our_hook(event, &stdin), provider.answered_by_keys(event, &stdin));
    let question = if waits || by_keys { name_question(&mut facts) } else { None };
    if let Some((key, asked)) = &question {
        // Without the note nobody can answer from outside; that it asks is told all the same.
        let _ = answers::note(&seat.seat_dir, key, asked);
    }
    let taken = facts.iter().filter_map(|it| match it {
        Fact::Enqueued { text } => Some(find_message_ids(text)),
        _ => None,
    });
    let taken: Vec<Event> = taken
        .flatten()
        .map(|id| Event::MessageSubmitted {
            id,
            receiver: seat.agent.clone(),
            in_turn: false,
            proof: Proof { source: "hook".to_owned(), record: event.to_owned() },
        })
        .collect();
    let mut events = facts::from_hook(seat.spawn, event, &facts, RealClock::default().now());
    if let (Some(source), Some(native)) = (caller.replaced, told) {
        events = vec![Event::SessionReplaced { spawn: seat.spawn, native, source }];
    }
    events.extend(taken);
    for it in &mut events {
        if let Event::ApprovalRequested { by_keys: told, .. } = it {
            *told = by_keys;
        }
    }
    write(&seat, events)?;
    if let Some((key, _)) = question.filter(|_| waits) {
        answer_question(&seat, provider, event, &key);
        return Ok(HookAnswer::default());
    }
    let compacted = |it: &Fact| matches!(it, Fact::SessionStarted { source, .. } if source == "compact");
    let taken_up = |it: &Fact| matches!(it, Fact::TurnStarted { .. });
    let add = if facts.iter().any(compacted) {
        reminder(&seat, &workspace, provider)
    } else if seat.resumed && facts.iter().any(taken_up) {
        forgotten(provider, transcript.as_deref())
    } else {
        None
    };
    let context =
        HookContext { seat_dir: &seat.seat_dir, bell: seat.bell.is_some(), add_context: add.as_deref() };
    let stdout = provider.hook_answer(event, &context).unwrap_or_default();
    Ok(HookAnswer { stdout, ..HookAnswer::default() })
}

/// What an agent is told once its conversation was shortened: who it is, and what it owes.
fn reminder(seat: &SeatFile, workspace: &Workspace, provider: &dyn Provider) -> Option<String> {
    let store = Store::look(workspace).ok()??;
    let team = store.state.teams.get(&seat.team)?;
    render::reminder(&store, team, &seat.agent, &provider.tool_names())
}

/// What an agent is told again because its program has not taken it along into the conversation that goes on.
fn forgotten(provider: &dyn Provider, transcript: Option<&Path>) -> Option<String> {
    let find = provider.forgotten()?;
    let bytes = std::fs::read(transcript?).ok()?;
    render::forgotten(&find(&String::from_utf8_lossy(&bytes)))
}

/// How long a question may wait for a person; the program's own limit is not shorter.
const QUESTION: Duration = Duration::from_secs(7 * 86_400);

/// Gives a permission question a name by which its answer is found.
fn name_question(facts: &mut [Fact]) -> Option<(String, Asked)> {
    facts.iter_mut().find_map(|it| {
        let Fact::ApprovalRequested { tool, input_summary, tool_use_id, .. } = it else { return None };
        let given = tool_use_id.take().filter(|it| answers::is_key(it));
        let key = given.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        *tool_use_id = Some(key.clone());
        Some((key, Asked { tool: tool.clone(), input: facts::cut(input_summary, facts::QUESTION) }))
    })
}

/// Waits for the answer to a question and gives it to the program. Ends without one when the program does not listen
/// any more or the question is closed; the program's own dialog is open meanwhile.
fn answer_question(seat: &SeatFile, provider: &dyn Provider, event: &str, key: &str) {
    let given = Arc::new(AtomicBool::new(false));
    end_with_reader(given.clone());
    let Some(answer) = answers::wait(&seat.seat_dir, key, QUESTION) else { return };
    let answer =
        ApprovalAnswer { allow: answer.decision == Decision::Allow, message: answer.message.as_deref() };
    let Some(stdout) = provider.approval_answer(event, &answer) else { return };
    given.store(true, Ordering::SeqCst);
    print(&HookAnswer { stdout, ..HookAnswer::default() });
    let how = ANSWERED.to_owned();
    // The status of the program tells it, too.
    let _ = write(
        seat,
        vec![Event::ApprovalClosed { spawn: seat.spawn, request: None, key: Some(key.to_owned()), how }],
    );
}

/// Ends this process when nobody reads its output any more: its program has ended. Not once the answer was given.
#[expect(clippy::exit, reason = "the main thread waits for something else")]
fn end_with_reader(given: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let out = std::io::stdout();
        let mut watched = [PollFd::new(out.as_fd(), PollFlags::empty())];
        while !matches!(poll(&mut watched, PollTimeout::NONE), Ok(1..)) {}
        if !given.load(Ordering::SeqCst) {
            std::process::exit(0);
        }
    });
}

/// The name under which a program asks for waiting messages.
const DRAIN: &str = "drain";

/// A call that comes from the seat's own program.
struct Caller {
    /// Why it has another conversation than before, where it just took one up.
    replaced: Option<String>,
}

impl Caller {
    /// Says who calls: the program is known by its conversation's id, and from then on by its process. Only that very
    /// process may take up another conversation; an agent started in its shell has another id and another process.
    fn of(
        seat: &SeatFile,
        path: &Path,
        told: Option<&str>,
        transcript: Option<&Path>,
        event: &str,
        facts: &[Fact],
    ) -> Option<Self> {
        let Some(told) = told else { return Some(Self { replaced: None }) };
        let live = SeatFile::live(path);
        let begun = facts.iter().find_map(|it| match it {
            Fact::SessionStarted { source, .. } => Some(source.as_str()),
            _ => None,
        });
        let caller = process::parent();
        let keep = |client| {
            // Without it nothing is lost but the way to another conversation.
            let transcript = transcript.map(Path::to_owned);
            let _ = LiveSession { native: told.to_owned(), client, transcript }.write(path);
        };
        let by_client = live.as_ref().is_some_and(|it| Some(&it.client) == caller.as_ref());
        if let (Some(source @ ("clear" | "resume")), Some(live)) = (begun, &live)
            && by_client
            && live.native != told
        {
            keep(live.client.clone());
            return Some(Self { replaced: Some(source.to_owned()) });
        }
        let known = seat.native.as_deref() == Some(told)
            || seat.start_ids.iter().any(|it| it == told)
            || live.as_ref().is_some_and(|it| it.native == told);
        if let (true, Some(client), true) = (known, caller, begun.is_some()) {
            keep(client);
        } else if let (true, Some(live)) = (by_client, &live)
            && live.native == told
            && transcript.is_some()
            && live.transcript.as_deref() != transcript
        {
            // A program that goes on with a conversation may know its file only from the first turn on.
            keep(live.client.clone());
        }
        // Under a new id it may ask for messages a moment before it tells of the change.
        (known || (by_client && event == DRAIN)).then_some(Self { replaced: None })
    }
}

/// The most of a transcript's end that is read for how a turn ended.
const TAIL: u64 = 256 * 1024;

/// Where a call tells that a turn is over and not how, the end of its transcript does.
fn with_outcome(provider: &dyn Provider, facts: Vec<Fact>, transcript: Option<&Path>) -> Vec<Fact> {
    let unstated = |it: &Fact| matches!(it, Fact::TurnEnded { outcome: TurnOutcome::Unstated, .. });
    let (true, Some(tail)) = (facts.iter().any(unstated), transcript.and_then(tail_of)) else { return facts };
    let mut ended = Vec::new();
    for fact in tail.lines().flat_map(|it| provider.read_record(RecordKind::Transcript, it)) {
        match fact {
            Fact::TurnStarted { .. } => ended.clear(),
            Fact::TurnEnded { .. } | Fact::Limited { .. } => ended.push(fact),
            _ => {}
        }
    }
    if !ended.iter().any(|it| matches!(it, Fact::TurnEnded { .. })) {
        return facts;
    }
    facts.into_iter().filter(|it| !unstated(it)).chain(ended).collect()
}

/// Reads the whole lines at a file's end.
pub(crate) fn tail_of(path: &Path) -> Option<String> {
    let mut file = std::fs::File::open(path).ok()?;
    let from = file.metadata().ok()?.len().saturating_sub(TAIL);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    file.take(TAIL).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads the whole standard input, up to what a program may sensibly send.
pub fn read_stdin() -> String {
    let mut bytes = Vec::new();
    let _ = std::io::stdin().lock().take(64 << 20).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

fn write(seat: &SeatFile, events: Vec<Event>) -> Result<(), EngineError> {
    if events.is_empty() {
        return Ok(());
    }
    let now = RealClock::default().now();
    Store::observer(&seat_workspace(seat))?.observe(
        now,
        &By::Seat { spawn: seat.spawn },
        Some(&seat.team),
        events,
    )
}

/// The workspace of a seat, from its seat file alone.
pub fn seat_workspace(seat: &SeatFile) -> Workspace {
    Workspace {
        root: Workspace::present_root(&seat.state_dir, &seat.workspace),
        id: seat.workspace_id.clone(),
        state_dir: seat.state_dir.clone(),
        copied_from: None,
        exists: true,
    }
}

/// Hands over all waiting messages in order, each once: a file is moved away before its text is printed.
fn drain(seat: &SeatFile) -> Result<HookAnswer, EngineError> {
    let Some(inbox) = &seat.inbox else { return Ok(HookAnswer::default()) };
    let failed = |doing, path: &Path| {
        let path = path.to_owned();
        move |source| EngineError::Io { doing, path, source }
    };
    let lock_path = inbox.join(".lock");
    let lock = std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock_path)
        .map_err(failed("open", &lock_path))?;
    let _lock = nix::fcntl::Flock::lock(lock, nix::fcntl::FlockArg::LockExclusive)
        .map_err(|(_, errno)| failed("lock", &lock_path)(errno.into()))?;
    let mut waiting: Vec<PathBuf> = std::fs::read_dir(inbox)
        .map_err(failed("read", inbox))?
        .filter_map(|it| Some(it.ok()?.path()))
        .filter(|it| it.extension().is_some_and(|it| it == "txt"))
        .collect();
    waiting.sort();
    let taken = inbox.join("taken");
    let mut text = String::new();
    for file in waiting {
        let Ok(message) = std::fs::read_to_string(&file) else { continue };
        let Some(name) = file.file_name() else { continue };
        if std::fs::rename(&file, taken.join(name)).is_err() {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&message);
    }
    if text.is_empty() {
        return Ok(HookAnswer::default());
    }
    Ok(HookAnswer { stdout: String::new(), stderr: text, code: 2 })
}

/// Writes an answer to the program that called.
pub fn print(answer: &HookAnswer) {
    let _ = {
        let mut out = std::io::stdout().lock();
        out.write_all(answer.stdout.as_bytes()).and_then(|()| out.flush())
    };
    let _ = std::io::stderr().lock().write_all(answer.stderr.as_bytes());
}

#[cfg(test)]
mod tests {
    use team_model::ProcessIdentity;

    use super::*;

    /// Says what a call that tells this id counts as.
    fn call(seat: &SeatFile, path: &Path, told: &str, event: &str, source: &str) -> &'static str {
        let facts: Vec<Fact> = (event == "SessionStart")
            .then(|| Fact::SessionStarted {
                native_id: told.to_owned(),
                source: source.to_owned(),
                transcript: None,
            })
            .into_iter()
            .collect();
        match Caller::of(seat, path, Some(told), None, event, &facts) {
            None => "foreign",
            Some(Caller { replaced: None }) => "ours",
            Some(Caller { replaced: Some(_) }) => "replaced",
        }
    }

    #[test]
    fn the_process_that_began_under_our_id_may_take_up_other_conversations_and_no_other_may() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("seat.json");
        let seat: SeatFile = serde_json::from_value(serde_json::json!({
            "workspace": "/w", "state_dir": "/s", "workspace_id": "w", "team": "current", "agent": "a", "spawn": "x-1",
            "provider": "claude", "native": "one", "start_ids": ["one"], "argv": [], "cwd": "/w", "env_file": "/e",
            "seat_dir": "/s", "config_home": "/c", "inbox": null, "bell": null,
        }))
        .unwrap();
        let call = |told, event, source| call(&seat, &path, told, event, source);
        assert_eq!(call("two", "SessionStart", "clear"), "foreign", "nobody is known yet");
        assert_eq!(call("one", "SessionStart", "resume"), "ours", "a start that resumes is no change");
        assert_eq!(call("two", "drain", ""), "ours");
        assert_eq!(call("two", "Stop", ""), "foreign");
        assert_eq!(call("two", "SessionStart", "startup"), "foreign");
        assert_eq!(call("two", "SessionStart", "clear"), "replaced");
        assert_eq!(call("two", "Stop", ""), "ours");
        assert_eq!(call("two", "SessionStart", "compact"), "ours");
        assert_eq!(call("one", "SessionStart", "resume"), "replaced", "back to the first");
        assert_eq!(SeatFile::live(&path).unwrap().native, "one");

        let client = ProcessIdentity { start: 1, ..process::parent().unwrap() };
        LiveSession { native: "one".to_owned(), client, transcript: None }.write(&path).unwrap();
        assert_eq!(call("three", "SessionStart", "clear"), "foreign", "another process");
        assert_eq!(call("three", "drain", ""), "foreign");
    }
}
