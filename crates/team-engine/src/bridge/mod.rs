//! The bridge: the process of a seat that holds the live connection to its program, where there is one.
//!
//! Knows the seat's files, the connection and the log. What is said over the connection belongs to the provider.
//! It hands over what lies in the inbox, writes what the program tells into the log, and passes answers on. It may end
//! at any moment: the seat starts another, which goes on from the files and from the program's own record.

mod http;
mod link;
mod mailbox;

use std::collections::VecDeque;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use serde::{Deserialize, Serialize};
use team_model::{By, Event, MessageId, find_message_ids};
use team_provider::{Bridge, BridgeContext, Fact, Input, Output, Provider, RecordKind, TurnOutcome};

use crate::answers::{self, Asked};
use crate::clock::{Clock as _, RealClock};
use crate::error::EngineError;
use crate::facts;
use crate::hook::seat_workspace;
use crate::process;
use crate::seat_file::{LiveSession, SeatFile};
use crate::store::Store;
use crate::workspace::{Workspace, make_dir};

use link::Connection;
use mailbox::{Mailbox, Waiting};

/// The exit code that ends the whole seat.
pub(crate) const END: i32 = 3;
/// The directory in a seat's own in which answers to questions for permission are laid.
const ANSWERS: &str = "answers";
/// How long to wait before a server that does not listen yet is tried again; its socket's appearance is noticed, too.
const RETRY: Duration = Duration::from_millis(100);
/// The same, at most.
const RETRY_AT_MOST: Duration = Duration::from_secs(2);

/// What a bridge says to the seat that started it, a line on its standard output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenScreen {
    /// The conversation that the screen is to show.
    pub(crate) session: Option<String>,
}

/// Runs the bridge of a seat until it is ended; returns the exit code.
pub fn run(seat_file: &Path) -> Result<u8, EngineError> {
    let seat = SeatFile::read(seat_file)?;
    let workspace = Workspace::look(&Workspace::present_root(&seat.state_dir, &seat.workspace))?;
    let below = SeatFile::claimed_by(seat_file)
        .is_some_and(|claimed| process::is_ancestor(&claimed, std::process::id()));
    if !seat.is_genuine(seat_file, &workspace) || !below {
        return Err(EngineError::Coordinator(format!("did not start this from `{}`", seat_file.display())));
    }
    let provider = team_provider::provider(&seat.provider)
        .ok_or_else(|| EngineError::NoProgram { program: seat.provider.clone() })?;
    let live = SeatFile::live(seat_file);
    let again = live.is_some();
    let native = live.map(|it| it.native).or_else(|| seat.native.clone());
    let tools = provider.tool_names();
    let context = BridgeContext {
        agent: seat.agent.as_str(),
        cwd: &seat.cwd,
        native_id: native.as_deref(),
        again,
        tool_prefix: tools.prefix,
    };
    let (Some(logic), Some(inbox)) = (provider.bridge(&context), seat.inbox.clone()) else { return Ok(0) };
    let answers = seat.seat_dir.join(ANSWERS);
    make_dir(&inbox.join("taken"), 0o700)?;
    make_dir(&answers, 0o700)?;
    let mailbox = Mailbox::new(inbox.clone(), answers.clone(), seat.spawn, provider.typing().max_bytes)
        .with_reader(provider.tool_names().read);
    let watch = watch(&[inbox, answers, seat.seat_dir.clone()])?;
    let mut bridge = Running {
        clock: RealClock::default(),
        provider,
        seat_file: seat_file.to_owned(),
        seat,
        logic,
        mailbox,
        connection: None,
        open: VecDeque::new(),
        wake: None,
        ended: false,
    };
    Ok(bridge.go(&watch))
}

fn watch(dirs: &[PathBuf]) -> Result<Inotify, EngineError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |errno: nix::errno::Errno| EngineError::Io { doing: "watch", path, source: errno.into() }
    };
    let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
        .map_err(failed(Path::new("inotify")))?;
    for dir in dirs {
        let flags = AddWatchFlags::IN_MOVED_TO | AddWatchFlags::IN_CREATE | AddWatchFlags::IN_CLOSE_WRITE;
        inotify.add_watch(dir, flags).map_err(failed(dir))?;
    }
    Ok(inotify)
}

/// A bridge at work.
struct Running {
    clock: RealClock,
    provider: &'static dyn Provider,
    seat_file: PathBuf,
    seat: SeatFile,
    logic: Box<dyn Bridge>,
    mailbox: Mailbox,
    connection: Option<Connection>,
    /// What was given out before the present connection and has no record.
    open: VecDeque<Waiting>,
    /// When the logic wants to be told.
    wake: Option<Duration>,
    ended: bool,
}

impl Running {
    fn go(&mut self, watch: &Inotify) -> u8 {
        let mut retry = RETRY;
        let mut connect_at = self.clock.elapsed();
        let mut unsent = false;
        while !self.ended {
            let now = self.clock.elapsed();
            if self.connection.is_none() && now >= connect_at {
                if let Some(Ok(connection)) = self.seat.link.as_ref().map(Connection::open) {
                    self.connection = Some(connection);
                    retry = RETRY;
                    self.open = self.mailbox.open().into();
                    self.input(Input::Connected);
                } else {
                    connect_at = now + retry;
                    retry = (retry * 2).min(RETRY_AT_MOST);
                }
            }
            if self.wake.is_some_and(|it| now >= it) {
                self.wake = None;
                self.input(Input::Tick);
            }
            for (key, answer) in self.mailbox.answers() {
                let allow = answer.decision == "allow";
                self.input(Input::Answer { key, allow, message: answer.message });
            }
            self.hand_over();
            if let Some(connection) = &mut self.connection {
                match connection.flush() {
                    Ok(all) => unsent = !all,
                    Err(_) => self.hang_up(),
                }
            }
            let due = match (self.wake, self.connection.is_none().then_some(connect_at)) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
            let timeout = due.map_or(PollTimeout::NONE, |it| {
                let left = it.saturating_sub(self.clock.elapsed()) + Duration::from_millis(1);
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            });
            let came = {
                let mut fds = vec![PollFd::new(watch.as_fd(), PollFlags::POLLIN)];
                if let Some(connection) = &self.connection {
                    let out = if unsent { PollFlags::POLLOUT } else { PollFlags::empty() };
                    fds.push(PollFd::new(connection.fd(), PollFlags::POLLIN | out));
                }
                let _ = poll(&mut fds, timeout);
                fds.get(1).and_then(PollFd::any).unwrap_or(false)
            };
            if watch.read_events().is_ok() && self.connection.is_none() {
                connect_at = self.clock.elapsed();
            }
            if came {
                self.receive();
            }
        }
        u8::try_from(END).unwrap_or(1)
    }

    fn receive(&mut self) {
        while let Some(connection) = &mut self.connection {
            match connection.receive() {
                Ok(Some(frame)) => self.input(Input::Frame(frame)),
                Ok(None) => return,
                Err(_) => self.hang_up(),
            }
        }
    }

    fn hang_up(&mut self) {
        if self.connection.take().is_some() {
            self.input(Input::Disconnected);
        }
    }

    /// Hands over what waits: first what was given out before and has no record.
    fn hand_over(&mut self) {
        while self.connection.is_some() && self.logic.is_open() {
            let before = self.open.pop_front();
            let again = before.is_some();
            let Some(Waiting { key, text }) = before.or_else(|| self.mailbox.take()) else { return };
            self.input(Input::Message { key, text, again });
        }
    }

    fn input(&mut self, input: Input) {
        let mut outputs: VecDeque<Output> = self.logic.on(input).into();
        let mut events = Vec::new();
        while let Some(output) = outputs.pop_front() {
            match output {
                Output::Send(frame) => {
                    let failed = self.connection.as_mut().is_none_or(|it| it.send(&frame).is_err());
                    if failed && self.connection.take().is_some() {
                        outputs.retain(|it| !matches!(it, Output::Send(_)));
                        outputs.extend(self.logic.on(Input::Disconnected));
                    }
                }
                Output::Fact { record, fact } => events.extend(self.events(&record, &fact)),
                Output::Look { key } => {
                    let (found, ended) = self.recorded(&key);
                    if found {
                        self.mailbox.close(&key);
                    }
                    outputs.extend(self.logic.on(Input::Found { key, found, ended }));
                }
                Output::Taken { key } => self.mailbox.close(&key),
                Output::PutBack { key } => self.mailbox.put_back(&key),
                Output::OpenScreen { native_id } => say(&OpenScreen { session: native_id }),
                Output::Wake(after) => {
                    let at = self.clock.elapsed() + after;
                    self.wake = Some(self.wake.map_or(at, |it| it.min(at)));
                }
                Output::End { why } => {
                    tracing::warn!(%why, "the bridge ends its seat");
                    self.ended = true;
                }
            }
        }
        self.write(events);
    }

    /// What a fact means for the log. The first conversation begins, another one replaces it.
    fn events(&self, record: &str, fact: &Fact) -> Vec<Event> {
        let spawn = self.seat.spawn;
        if let Fact::SessionStarted { native_id, source, transcript } = fact {
            let before = SeatFile::live(&self.seat_file).map(|it| it.native);
            let live = LiveSession {
                native: native_id.clone(),
                client: process::this_process(),
                transcript: transcript.clone(),
            };
            // Without it the transcript is not read.
            let _ = live.write(&self.seat_file);
            match before {
                Some(before) if before == *native_id => return Vec::new(),
                Some(_) => {
                    let (native, source) = (native_id.clone(), source.clone());
                    return vec![Event::SessionReplaced { spawn, native, source }];
                }
                None => {}
            }
        }
        match fact {
            // Without the note nobody can answer from outside; that it asks is told all the same.
            Fact::ApprovalRequested { tool, input_summary, tool_use_id: Some(key), .. }
                if answers::is_key(key) =>
            {
                let input = facts::cut(input_summary, facts::QUESTION);
                let _ = answers::note(&self.seat.seat_dir, key, &Asked { tool: tool.clone(), input });
            }
            Fact::ApprovalResolved { tool_use_id: Some(key), .. } if answers::is_key(key) => {
                answers::clear(&self.seat.seat_dir, key);
            }
            _ => {}
        }
        facts::from_bridge(spawn, &self.seat.agent, record, fact, self.clock.now())
    }

    fn write(&self, events: Vec<Event>) {
        if events.is_empty() {
            return;
        }
        let by = By::Seat { spawn: self.seat.spawn };
        // The workspace may be moved while the program runs.
        let written = Store::observer(&seat_workspace(&self.seat))
            .and_then(|it| it.observe(self.clock.now(), &by, Some(&self.seat.team), events));
        if let Err(error) = written {
            tracing::warn!(%error, "the log was not written");
        }
    }

    /// Says whether the program's record holds every message of a key, and how the turn that took them ended.
    fn recorded(&self, key: &str) -> (bool, Option<TurnOutcome>) {
        let transcript = SeatFile::live(&self.seat_file).and_then(|it| it.transcript);
        let Some(text) = transcript.and_then(|it| std::fs::read(it).ok()) else { return (false, None) };
        let mut missing: Vec<MessageId> = key.split('+').filter_map(|it| it.parse().ok()).collect();
        for line in String::from_utf8_lossy(&text).lines() {
            for fact in self.provider.read_record(RecordKind::Transcript, line) {
                match fact {
                    Fact::Enqueued { text }
                    | Fact::TakenInTurn { text }
                    | Fact::TurnStarted { prompt: Some(text), .. } => {
                        let found = find_message_ids(&text);
                        missing.retain(|it| !found.contains(it));
                    }
                    Fact::TurnEnded { outcome, .. } if missing.is_empty() => return (true, Some(outcome)),
                    _ => {}
                }
            }
        }
        (missing.is_empty(), None)
    }
}

/// Tells the seat that started us.
fn say(word: &OpenScreen) {
    let text = serde_json::to_string(word).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    // A seat that has what it needs may have hung up.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
