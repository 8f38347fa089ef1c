//! The coordinator without its event loop: observe, plan, act, record, until nothing is left to do now.
//!
//! Knows the log, the plan, and the terminal through its seam. Must not know how it is woken.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::Signal;
use team_model::{
    By, Event, NoticeCause, ProcessIdentity, ReceiptStep, SeatState, State, TeamKey, TeamState,
};
use team_tmux::{Fence, Pane, ServerInfo, Terminal};

use super::approve::end_questions;
use super::plan::{Action, Lane, Observed, SeatKey, Seen, TypingTimes, plan};
use super::records::Records;
use crate::clock::Clock;
use crate::decide::Refusal;
use crate::error::EngineError;
use crate::failpoint::Failpoints;
use crate::process;
use crate::seat_file::SEAT_VARIABLE;
use crate::store::Store;
use crate::workspace::Workspace;

/// Processes, as a seam.
pub trait Processes: Send + Sync {
    /// Says whether exactly this process runs.
    fn is_alive(&self, process: &ProcessIdentity) -> bool;
    /// Sends it a signal.
    fn signal(&self, process: &ProcessIdentity, signal: Signal) -> bool;
    /// Kills it and everything below it.
    fn kill_tree(&self, process: &ProcessIdentity);
    /// Identifies a running process.
    fn identify(&self, pid: u32) -> Option<ProcessIdentity>;
    /// Kills whatever carries a seat file's mark.
    fn kill_marked(&self, _seat_file: &Path) {}
}

/// The machine's processes.
#[derive(Debug, Default)]
pub struct RealProcesses;

impl Processes for RealProcesses {
    fn is_alive(&self, process: &ProcessIdentity) -> bool {
        process::is_alive(process)
    }

    fn signal(&self, process: &ProcessIdentity, signal: Signal) -> bool {
        process::signal(process, signal)
    }

    fn kill_tree(&self, process: &ProcessIdentity) {
        if !process::is_alive(process) {
            return;
        }
        let below: Vec<_> =
            process::descendants(process.pid).into_iter().filter_map(process::identify).collect();
        process::signal(process, Signal::SIGKILL);
        for it in below {
            process::signal(&it, Signal::SIGKILL);
        }
    }

    fn identify(&self, pid: u32) -> Option<ProcessIdentity> {
        process::identify(pid)
    }

    fn kill_marked(&self, seat_file: &Path) {
        // What is killed may have just started another one.
        for _ in 0..10 {
            let left = process::marked(SEAT_VARIABLE, seat_file);
            if left.is_empty() {
                return;
            }
            for it in left {
                process::signal(&it, Signal::SIGKILL);
            }
        }
    }
}

/// What a round of work came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// When to go round again if nothing happens.
    pub wake: Option<Duration>,
    /// Whether the coordinator has ended.
    pub exit: bool,
}

/// The coordinator.
pub struct Core {
    pub(super) workspace: Workspace,
    pub(super) store: Store,
    pub(super) terminal: Box<dyn Terminal>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) processes: Arc<dyn Processes>,
    pub(super) fail: Arc<Failpoints>,
    pub(super) epoch: u64,
    pub(super) seen: Observed,
    pub(super) server: Option<ServerInfo>,
    pub(super) records: Records,
    pub(super) leader: super::leader::LeaderDesk,
    held: Option<team_journal::Held>,
    stay: Option<Duration>,
    lines_at_snapshot: u64,
}

impl Core {
    /// Takes over: the next epoch, a look at the recorded server, and everything the log says.
    pub fn take_over(
        workspace: Workspace,
        mut store: Store,
        terminal: Box<dyn Terminal>,
        clock: Arc<dyn Clock>,
        processes: Arc<dyn Processes>,
        fail: Arc<Failpoints>,
    ) -> Result<Self, EngineError> {
        let me = process::this_process();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let epoch = store.conclude(clock.now(), &By::Log, None, |state| {
            let epoch = state.epoch + 1;
            let started = Event::CoordinatorStarted { epoch, process: me.clone(), version: version.clone() };
            Ok((vec![started], epoch))
        })?;
        let mut core = Self {
            workspace,
            store,
            terminal,
            clock,
            processes,
            fail,
            epoch,
            seen: Observed::default(),
            server: None,
            records: Records::default(),
            leader: super::leader::LeaderDesk::default(),
            held: None,
            stay: None,
            lines_at_snapshot: 0,
        };
        core.fail.pass("take_over", "after")?;
        core.find_server()?;
        core.adopt_server()?;
        Ok(core)
    }

    /// The epoch this coordinator has.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The state as far as it was read.
    pub fn state(&self) -> &State {
        &self.store.state
    }

    /// Whether it is to die at once.
    pub fn is_dead(&self) -> bool {
        self.fail.is_dead()
    }

    /// The tmux server in use.
    pub fn server(&self) -> Option<&ServerInfo> {
        self.server.as_ref()
    }

    pub(super) fn by(&self) -> By {
        By::Coordinator { epoch: self.epoch }
    }

    /// The recorded server counts only if exactly that process still runs and answers.
    pub(super) fn find_server(&mut self) -> Result<(), EngineError> {
        self.server = None;
        self.seen.server_alive = false;
        let Some(recorded) = self.store.state.server.clone() else { return Ok(()) };
        if !self.processes.is_alive(&recorded.process) {
            return Ok(());
        }
        match self.terminal.probe()? {
            Some(info) if info.pid == recorded.process.pid => {
                self.terminal.claim_epoch(&self.fence())?;
                self.server = Some(info);
                self.seen.server_alive = true;
                Ok(())
            }
            // Between two looks it may have ended; while it runs, what is in it is not lost.
            None if self.processes.is_alive(&recorded.process) => {
                Err(EngineError::Coordinator("gets no answer from its tmux server".to_owned()))
            }
            // It has ended, or another one answers in its place, which is none of ours.
            Some(_) | None => Ok(()),
        }
    }

    /// A server at our place that nobody recorded was started by a coordinator that ended before it could say so.
    fn adopt_server(&mut self) -> Result<(), EngineError> {
        if self.store.state.server.is_some() {
            return Ok(());
        }
        match self.terminal.probe()? {
            Some(info) => self.own_server(info),
            None => Ok(()),
        }
    }

    /// Takes a server for this epoch and records it.
    pub(super) fn own_server(&mut self, info: ServerInfo) -> Result<(), EngineError> {
        self.terminal.claim_epoch(&self.fence())?;
        let process = self
            .processes
            .identify(info.pid)
            .ok_or_else(|| EngineError::Coordinator("cannot see its tmux server's process".to_owned()))?;
        let socket = self.workspace.tmux_socket()?.to_string_lossy().into_owned();
        if self.store.state.server.as_ref().is_none_or(|it| it.process != process) {
            self.record(None, vec![Event::ServerStarted { socket, process, version: info.version.clone() }])?;
        }
        self.server = Some(info);
        self.seen.server_alive = true;
        Ok(())
    }

    pub(super) fn fence(&self) -> Fence {
        Fence { epoch: self.epoch, workspace: self.workspace.id.clone() }
    }

    /// Notes that the server's own connection has ended.
    pub fn server_lost(&mut self) {
        let alive = self.store.state.server.as_ref().is_some_and(|it| self.processes.is_alive(&it.process));
        if !alive {
            self.seen.server_alive = false;
            self.server = None;
            return;
        }
        // It lives and cannot be reached: its socket may have been removed, and looking for it puts it back.
        let before = (self.server.clone(), self.seen.server_alive);
        if self.find_server().is_err() {
            (self.server, self.seen.server_alive) = before;
        }
    }

    /// Nobody waits for ever for a tmux that refuses each call: what is to be started has failed, with its words.
    pub(super) fn no_start_without_terminal(&mut self, why: &str) -> Result<(), EngineError> {
        self.store.refresh()?;
        let mut events: Vec<(TeamKey, Vec<Event>)> = Vec::new();
        for (key, team) in self.store.state.teams.iter().filter(|(_, it)| it.state == TeamState::Running) {
            let waiting = team.seats.iter().filter(|(_, it)| matches!(it.state, SeatState::Waiting { .. }));
            let failed = waiting.flat_map(|(agent, _)| {
                let why = format!("tmux did not do what it was asked: {why}");
                let notice =
                    Event::NoticeRaised { cause: NoticeCause::StartFailed, about: agent.to_string() };
                [Event::AgentFailed { agent: agent.clone(), why, last_lines: Vec::new() }, notice]
            });
            events.push((key.clone(), failed.collect()));
        }
        for (key, events) in events.into_iter().filter(|(_, it)| !it.is_empty()) {
            self.record(Some(&key), events)?;
        }
        Ok(())
    }

    /// Keeps a coordinator that has nothing to do, for somebody who is about to ask.
    pub fn stay_until(&mut self, time: Option<Duration>) {
        self.stay = time;
    }

    /// Goes round until nothing is left to do now.
    pub fn round(&mut self) -> Result<Round, EngineError> {
        // A plan that never runs dry would be a fault of ours; the bound keeps it from burning the machine.
        for _ in 0..1000 {
            self.keep_log()?;
            self.store.refresh()?;
            if self.store.state.epoch > self.epoch {
                return Ok(Round { wake: None, exit: true });
            }
            self.observe()?;
            let now = self.clock.elapsed();
            let plan = plan(&self.store.state, &self.seen, now);
            if plan.actions.is_empty() {
                self.maybe_snapshot();
                return Ok(Round { wake: plan.wake, exit: false });
            }
            for action in plan.actions {
                if action == Action::Exit {
                    if self.stay.is_some_and(|it| now < it) {
                        return Ok(Round { wake: self.stay, exit: false });
                    }
                    if self.exit()? {
                        return Ok(Round { wake: None, exit: true });
                    }
                    continue;
                }
                // Whoever slept since the plan was made may have been succeeded.
                self.store.refresh()?;
                if self.store.state.epoch > self.epoch {
                    return Ok(Round { wake: None, exit: true });
                }
                self.act(action)?;
            }
        }
        Ok(Round { wake: Some(self.clock.elapsed() + Duration::from_secs(1)), exit: false })
    }

    /// A log that somebody deleted under a running team is put back from the descriptor held here.
    fn keep_log(&mut self) -> Result<(), EngineError> {
        let journal = self.store.journal();
        match &mut self.held {
            None => self.held = journal.hold().ok(),
            Some(held) => {
                if journal.is_emptied() {
                    // What was in it is lost, but what is true now is known here.
                    self.store.save_snapshot()?;
                }
                journal.check_and_restore(held, Duration::from_secs(5))?;
            }
        }
        Ok(())
    }

    /// Looks at everything that needs no waiting: processes, records, receipts.
    fn observe(&mut self) -> Result<(), EngineError> {
        let (now, wall) = (self.clock.elapsed(), self.clock.now());
        let mut live: BTreeMap<SeatKey, Seen> = BTreeMap::new();
        let mut lost: Vec<(TeamKey, Event)> = Vec::new();
        for (key, team) in &self.store.state.teams {
            for (agent, seat) in &team.seats {
                let Some(spawn) = seat.spawn.as_ref().filter(|_| seat.state.is_live()) else { continue };
                let at = (key.clone(), agent.clone());
                let mut look =
                    self.seen.seats.remove(&at).filter(|it| it.spawn == Some(spawn.id)).unwrap_or_else(
                        || Seen {
                            spawn: Some(spawn.id),
                            since: now,
                            typing: typing_of(&seat.spec.provider),
                            bridged: team_provider::provider(&seat.spec.provider)
                                .is_some_and(team_provider::Provider::takes_when_idle),
                            hides_dialogs: hides_dialogs(&seat.spec.provider),
                            ..Seen::default()
                        },
                    );
                if spawn.pane.is_some() {
                    look.pane_known = true;
                }
                if spawn.exited.is_some() {
                    look.exited.get_or_insert(now);
                }
                if look.activity != seat.activity.seq {
                    // News: what stood in the way may be gone.
                    look.activity = seat.activity.seq;
                    look.blocked = None;
                }
                if let Some(claimed) = &spawn.claimed {
                    look.process_dead = !self.processes.is_alive(claimed);
                }
                let tools_dead = spawn.tools.as_ref().is_some_and(|it| !self.processes.is_alive(it));
                let ending = look.process_dead || spawn.exited.is_some() || seat.stopping.is_some();
                if tools_dead && !spawn.tools_lost && !ending {
                    lost.push((key.clone(), Event::ToolsLost { spawn: spawn.id }));
                }
                look.limit_ends = seat.limit_ends().map(|it| now + (it - wall).to_std().unwrap_or_default());
                end_questions(&self.workspace, &at, seat, &mut look);
                settle_lane(&mut look, team, &at, now);
                live.insert(at, look);
            }
        }
        self.seen.seats = live;
        for (key, event) in lost {
            self.store.observe(wall, &self.by(), Some(&key), vec![event])?;
            self.store.refresh()?;
        }
        self.read_records()?;
        self.seen.leader_ready = self.leaders_to_tell();
        Ok(())
    }

    /// Ends, if under the lock nothing is left to do.
    fn exit(&mut self) -> Result<bool, EngineError> {
        let epoch = self.epoch;
        let by = self.by();
        self.fail.pass("exit", "before")?;
        let server_alive = self.seen.server_alive;
        let done = self.store.conclude(self.clock.now(), &by, None, |state| {
            if state.epoch > epoch {
                return Err(Refusal::new("fenced", "a newer coordinator has taken over"));
            }
            let needed =
                state.teams.values().any(|it| matches!(it.state, TeamState::Running | TeamState::Stopping));
            if needed {
                return Ok((Vec::new(), false));
            }
            let mut events = Vec::new();
            if let Some(server) = state.server.as_ref().filter(|_| !server_alive) {
                events.push(Event::ServerStopped { process: server.process.clone() });
            }
            let why = "nothing is left to do".to_owned();
            events.push(Event::CoordinatorStopped { epoch, why });
            Ok((events, true))
        })?;
        self.fail.pass("exit", "after")?;
        if done {
            let _ = self.store.save_snapshot();
        }
        Ok(done)
    }

    /// Appends a decision of the coordinator.
    pub(super) fn record(&mut self, team: Option<&TeamKey>, events: Vec<Event>) -> Result<(), EngineError> {
        let by = self.by();
        let epoch = self.epoch;
        self.store.conclude(self.clock.now(), &by, team, |state| {
            if state.epoch > epoch {
                return Err(Refusal::new("fenced", "a newer coordinator has taken over"));
            }
            Ok((events, ()))
        })
    }

    /// Appends a decision of the coordinator that is checked once more under the lock.
    pub(super) fn decide<T>(
        &mut self,
        team: Option<&TeamKey>,
        decide: impl FnOnce(&State) -> Result<(Vec<Event>, T), Refusal>,
    ) -> Result<T, EngineError> {
        let by = self.by();
        let epoch = self.epoch;
        self.store.conclude(self.clock.now(), &by, team, |state| {
            if state.epoch > epoch {
                return Err(Refusal::new("fenced", "a newer coordinator has taken over"));
            }
            decide(state)
        })
    }

    pub(super) fn pane_of(&self, at: &SeatKey) -> Option<Pane> {
        let spawn = self.store.state.teams.get(&at.0)?.seats.get(&at.1)?.spawn.as_ref()?;
        Some(Pane { id: spawn.pane.as_ref()?.parse().ok()?, pid: spawn.pane_pid? })
    }

    fn maybe_snapshot(&mut self) {
        let folded = self.store.folded();
        if folded >= self.lines_at_snapshot + SNAPSHOT_EVERY {
            let _ = self.store.save_snapshot();
            self.lines_at_snapshot = folded;
        }
    }

    /// Writes the cache of the state now.
    pub fn snapshot(&mut self) {
        let _ = self.store.save_snapshot();
        self.lines_at_snapshot = self.store.folded();
    }
}

/// How many lines may lie behind the cache of the state.
const SNAPSHOT_EVERY: u64 = 256;

fn hides_dialogs(provider: &str) -> bool {
    team_provider::provider(provider).is_some_and(|it| !it.capabilities().tells_dialogs)
}

fn typing_of(provider: &str) -> TypingTimes {
    team_provider::provider(provider).map_or_else(TypingTimes::default, |it| {
        let typing = it.typing();
        TypingTimes {
            settle: Duration::from_millis(typing.settle_ms),
            look_after: Duration::from_millis(typing.look_after_ms),
            after_start: Duration::from_millis(typing.after_start_ms),
        }
    })
}

/// A lane is free again when every message in it has its receipt.
fn settle_lane(look: &mut Seen, team: &team_model::Team, at: &SeatKey, now: Duration) {
    let open = |id: &team_model::MessageId| {
        team.message(id)
            .and_then(|it| it.receipts.get(&at.1))
            .is_some_and(|it| it.step == ReceiptStep::Sending)
    };
    let done = match &look.lane {
        Lane::Free => false,
        Lane::Typed(typed) => !typed.ids.iter().any(open),
        Lane::Rung { ids, .. } => !ids.iter().any(open),
    };
    if done {
        look.lane = Lane::Free;
        look.blocked = None;
    }
    let running = team.seats.get(&at.1).is_some_and(|it| it.state == SeatState::Running);
    if running {
        look.ready.get_or_insert(now);
    } else {
        look.blocked = None;
    }
}
