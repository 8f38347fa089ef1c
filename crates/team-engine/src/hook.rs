//! The hook command: what a provider's program calls at its events. Fast, never refused, never in the way.
//!
//! Knows the seat file and the provider's meaning of a call. Folds nothing: it appends what was seen and ends.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde_json::Value;
use team_model::{By, Event};
use team_provider::{Fact, HookContext};

use crate::clock::{Clock as _, RealClock};
use crate::error::EngineError;
use crate::facts;
use crate::process;
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
    if !seat.is_genuine(seat_file) {
        return Ok(HookAnswer::default());
    }
    let stdin: Value = serde_json::from_str(stdin).unwrap_or(Value::Null);
    let told = provider.hook_session(&stdin).map(|it| it.native_id);
    let below = SeatFile::claimed_by(seat_file)
        .is_some_and(|claimed| process::is_ancestor(&claimed, std::process::id()));
    let facts = provider.read_hook(event, &stdin);
    let caller = Caller::of(&seat, seat_file, told.as_deref(), event, &facts);
    let (true, Some(caller)) = (below, caller) else {
        let what =
            format!("hook {event}{}", if below { " of another session" } else { " from outside the seat" });
        write(&seat, vec![Event::ObservationForeign { spawn: seat.spawn, what }])?;
        return Ok(HookAnswer::default());
    };
    if event == DRAIN {
        return drain(&seat);
    }
    let mut events = facts::from_hook(seat.spawn, event, &facts, RealClock::default().now());
    if let (Some(source), Some(native)) = (caller.replaced, told) {
        events = vec![Event::SessionReplaced { spawn: seat.spawn, native, source }];
    }
    write(&seat, events)?;
    let context = HookContext { seat_dir: &seat.seat_dir, bell: seat.bell.is_some(), add_context: None };
    let stdout = provider.hook_answer(event, &context).unwrap_or_default();
    Ok(HookAnswer { stdout, ..HookAnswer::default() })
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
    fn of(seat: &SeatFile, path: &Path, told: Option<&str>, event: &str, facts: &[Fact]) -> Option<Self> {
        let Some(told) = told else { return Some(Self { replaced: None }) };
        let live = SeatFile::live(path);
        let known = seat.native.as_deref() == Some(told)
            || seat.start_ids.iter().any(|it| it == told)
            || live.as_ref().is_some_and(|it| it.native == told);
        let begun = facts.iter().find_map(|it| match it {
            Fact::SessionStarted { source, .. } => Some(source),
            _ => None,
        });
        let caller = process::parent();
        let keep = |client| {
            // Without it nothing is lost but the way to another conversation.
            let _ = LiveSession { native: told.to_owned(), client }.write(path);
        };
        if known {
            if let (Some(client), true) = (caller, begun.is_some()) {
                keep(client);
            }
            return Some(Self { replaced: None });
        }
        let client = live.map(|it| it.client).filter(|it| Some(it) == caller.as_ref())?;
        match begun {
            Some(source) if matches!(source.as_str(), "clear" | "resume") => {
                keep(client);
                Some(Self { replaced: Some(source.clone()) })
            }
            // Its first call under the new id; the call that tells of the change may be a moment behind.
            _ if event == DRAIN => Some(Self { replaced: None }),
            _ => None,
        }
    }
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
    let _ = std::io::stdout().lock().write_all(answer.stdout.as_bytes());
    let _ = std::io::stderr().lock().write_all(answer.stderr.as_bytes());
}
