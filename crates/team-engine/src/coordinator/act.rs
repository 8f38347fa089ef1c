//! Carrying actions out: each effect is announced before it is done and recorded after.
//!
//! Knows the terminal's seam, processes and launches. Deliveries are in `deliver`.
//!
//! Long: the effects of starts and ends stand together, so that their failpoints and records can be compared.

use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use team_model::{
    Cause, Event, NoticeCause, Proof, ReceiptStep, SeatState, SpawnId, SpawnMode, TeamKey, TeamState,
};
use team_tmux::{CleanEnv, OpenPane, Pane, TmuxError};

use super::core::Core;
use super::plan::{Action, SeatKey};
use crate::decide::Refusal;
use crate::error::EngineError;
use crate::guardian::self_exe;
use crate::launch::{self, Prepared};
use crate::screen;

/// How many lines of a screen are kept when a seat fails.
const LAST_LINES: usize = 12;

impl Core {
    pub(super) fn act(&mut self, action: Action) -> Result<(), EngineError> {
        match action {
            Action::StartServer => self.start_server(),
            Action::Start(seats) => self.start(seats),
            Action::Adopt(at) => self.adopt(&at),
            Action::LookAtStart(at) => self.look_at_start(&at),
            Action::LookAtWork(at) => self.look_at_work(&at),
            Action::Fail(at, why) => self.fail_seat(&at, &why),
            Action::Ask(at) => self.ask(&at),
            Action::Kill(at) => self.kill(&at),
            Action::Stopped(at, cause) => self.stopped(&at, cause),
            Action::TeamStopped(key) => self.team_stopped(&key),
            Action::TeamLost(key) => self.team_lost(&key),
            Action::Hold(held) => self.hold(held),
            Action::Send(sends) => self.send(sends),
            Action::Enter(seats) => self.enter(&seats),
            Action::Look(at) => self.look(&at),
            Action::RingAgain(at) => {
                self.ring_again(&at);
                Ok(())
            }
            Action::GiveUp(at) => self.give_up(&at),
            Action::Conclude(at) => self.conclude(&at),
            Action::Prove(at) => self.prove(&at),
            Action::Weigh(at, id) => self.weigh(&at, id),
            Action::LayAnswer(at, id) => {
                self.lay_answer(&at, id);
                Ok(())
            }
            Action::AnswerByKey(at, id) => self.answer_by_key(&at, id),
            Action::LimitOver(at) => self.limit_over(&at),
            Action::Tell(key) => self.tell(&key),
            Action::StopServer => self.stop_server(),
            Action::Exit => Ok(()),
        }
    }

    fn start_server(&mut self) -> Result<(), EngineError> {
        let session = self
            .store
            .state
            .teams
            .values()
            .find(|it| it.state == TeamState::Running)
            .map_or_else(|| "team".to_owned(), |it| it.session_name.clone());
        self.fail.pass("server", "before")?;
        let info = self.terminal.start_server(&CleanEnv::of_this_process(), &session)?;
        self.fail.pass("server", "orphan")?;
        self.own_server(info)?;
        self.fail.pass("server", "after")?;
        Ok(())
    }

    /// Starts seats in one batch: announced in one append, opened in one call.
    fn start(&mut self, seats: Vec<(SeatKey, SpawnMode)>) -> Result<(), EngineError> {
        let mut prepared: Vec<(Prepared, String)> = Vec::new();
        for ((key, agent), mode) in seats {
            let Some(team) = self.store.state.teams.get(&key) else { continue };
            let Some(seat) = team.seats.get(&agent) else { continue };
            let provider = seat.spec.provider.clone();
            match launch::prepare(&self.workspace, &self.store, (&key, team), (&agent, seat), mode) {
                Ok(ready) => prepared.push((ready, provider)),
                Err(error) => {
                    let why = crate::error::whole(&error);
                    let failed = Event::AgentFailed { agent, why, last_lines: Vec::new() };
                    self.record(Some(&key), vec![failed])?;
                }
            }
        }
        if prepared.is_empty() {
            return Ok(());
        }
        self.fail.pass("plan", "before")?;
        let mut by_team: Vec<(TeamKey, Vec<(Prepared, String)>)> = Vec::new();
        for it in prepared {
            match by_team.iter_mut().find(|(key, _)| *key == it.0.team) {
                Some((_, list)) => list.push(it),
                None => by_team.push((it.0.team.clone(), vec![it])),
            }
        }
        for (key, list) in by_team {
            self.start_in_team(&key, list)?;
        }
        Ok(())
    }

    #[expect(clippy::needless_pass_by_value, reason = "a batch is used up by its start")]
    fn start_in_team(&mut self, key: &TeamKey, list: Vec<(Prepared, String)>) -> Result<(), EngineError> {
        let spawns = self.decide(Some(key), |state| {
            let mut events = Vec::new();
            let mut spawns: Vec<Option<SpawnId>> = Vec::new();
            let team = state.teams.get(key).filter(|it| it.state == TeamState::Running);
            for (ready, _) in &list {
                let seat = team.and_then(|it| it.seats.get(&ready.agent));
                let Some(seat) = seat.filter(|it| matches!(it.state, SeatState::Waiting { .. })) else {
                    spawns.push(None);
                    continue;
                };
                spawns.push(Some(SpawnId(state.seq + 1 + events.len() as u64)));
                let session = seat.session.as_ref().filter(|it| it.native == ready.native).map(|it| it.id);
                events.push(Event::SpawnPlanned {
                    agent: ready.agent.clone(),
                    mode: ready.mode,
                    session,
                    native: ready.native.clone(),
                    needs: ready.needs(),
                    channel: ready.channel(),
                    seat: ready
                        .seat_file
                        .file_name()
                        .map(|it| it.to_string_lossy().into_owned())
                        .unwrap_or_default(),
                    notes: ready.notes().to_vec(),
                });
            }
            Ok((events, spawns))
        })?;
        self.fail.pass("plan", "after")?;
        let session = self.store.state.teams.get(key).map(|it| it.session_name.clone()).unwrap_or_default();
        let mut panes = Vec::new();
        let mut opened_for = Vec::new();
        for ((ready, provider), spawn) in list.iter().zip(spawns) {
            let Some(spawn) = spawn else { continue };
            let workspace = self.workspace.clone();
            // Under the log's lock, so that nothing of a newer coordinator's start is overwritten.
            let written =
                self.decide(Some(key), |_| Ok((Vec::new(), ready.write(&workspace, spawn, provider))))?;
            if let Err(error) = written {
                let why = crate::error::whole(&error);
                let failed = Event::AgentFailed { agent: ready.agent.clone(), why, last_lines: Vec::new() };
                self.record(Some(key), vec![failed])?;
                continue;
            }
            panes.push(OpenPane {
                session: session.clone(),
                window_name: ready.agent.to_string(),
                cwd: ready.cwd.clone(),
                argv: vec![
                    self_exe().into_os_string(),
                    "seat".into(),
                    "--seat-file".into(),
                    ready.seat_file.clone().into_os_string(),
                ],
                tag: Some(spawn.to_string()),
            });
            opened_for.push(((key.clone(), ready.agent.clone()), spawn));
        }
        if panes.is_empty() {
            return Ok(());
        }
        self.fail.pass("spawn", "before")?;
        let opened = match self.terminal.open(&panes) {
            Ok(opened) | Err(TmuxError::OpenedSome { opened, .. }) => opened,
            Err(error) => {
                // Nothing is known to be open: the spawns are looked for and superseded on the next round.
                self.find_server()?;
                return if error.is_no_server() { Ok(()) } else { Err(error.into()) };
            }
        };
        self.fail.pass("spawn", "orphan")?;
        let mut events = Vec::new();
        for it in &opened {
            let Some((at, spawn)) = opened_for.get(it.index) else { continue };
            events.push(Event::SpawnOpened { spawn: *spawn, pane: it.pane.id.to_string(), pid: it.pane.pid });
            if let Some(look) = self.seen.seats.get_mut(at) {
                look.pane_known = true;
            }
        }
        self.record(Some(key), events)?;
        self.fail.pass("spawn", "after")?;
        Ok(())
    }

    /// Another coordinator announced this spawn: its pane is there, or it never came to be.
    fn adopt(&mut self, at: &SeatKey) -> Result<(), EngineError> {
        let Some(spawn) = self.spawn_of(at) else { return Ok(()) };
        let tag = spawn.to_string();
        let panes = if self.seen.server_alive { self.terminal.panes()? } else { Vec::new() };
        let found = panes.into_iter().find(|it| it.tag.as_deref() == Some(tag.as_str()));
        if let Some(info) = found {
            let event = Event::SpawnOpened { spawn, pane: info.pane.id.to_string(), pid: info.pane.pid };
            if let Some(look) = self.seen.seats.get_mut(at) {
                look.pane_known = true;
                look.pane_dead = info.exit.is_some();
            }
            self.record(Some(&at.0), vec![event])
        } else {
            if let Some(look) = self.seen.seats.get_mut(at) {
                look.pane_known = true;
            }
            self.supersede(at, spawn)
        }
    }

    /// Gives a spawn up that was never opened, with what was written for it.
    fn supersede(&mut self, at: &SeatKey, spawn: SpawnId) -> Result<(), EngineError> {
        let secrets = self.env_file(at);
        let done = self.decide(Some(&at.0), |state| {
            // Claimed in the meantime: it lives, with or without a pane we know.
            let unclaimed = state
                .seat_of_spawn(spawn)
                .is_some_and(|(_, _, seat)| seat.spawn.as_ref().is_some_and(|it| it.claimed.is_none()));
            let why = "its pane was never opened".to_owned();
            let events = if unclaimed { vec![Event::SpawnSuperseded { spawn, why }] } else { Vec::new() };
            Ok((events, unclaimed))
        })?;
        if let Some(secrets) = secrets.filter(|_| done) {
            let _ = std::fs::remove_file(secrets);
        }
        Ok(())
    }

    /// The environment that was written for a seat's process, which reads and removes it once it has begun.
    fn env_file(&self, at: &SeatKey) -> Option<PathBuf> {
        let spawn = self.store.state.teams.get(&at.0)?.seats.get(&at.1)?.spawn.as_ref()?;
        let dir = self.workspace.seat_dir(at.0.as_str(), at.1.as_str());
        Some(dir.join(&spawn.seat).with_extension("env")).filter(|_| !spawn.seat.is_empty())
    }

    pub(super) fn spawn_of(&self, at: &SeatKey) -> Option<SpawnId> {
        Some(self.store.state.teams.get(&at.0)?.seats.get(&at.1)?.spawn.as_ref()?.id)
    }

    /// A program that starts without a word may show a dialog that nothing announces.
    fn look_at_start(&mut self, at: &SeatKey) -> Result<(), EngineError> {
        let now = self.clock.elapsed();
        if let Some(look) = self.seen.seats.get_mut(at) {
            look.start_looked = Some(now);
        }
        let (Some(pane), Some(spawn)) = (self.pane_of(at), self.spawn_of(at)) else { return Ok(()) };
        let Some(shown) = self.terminal.screen(pane)? else { return Ok(()) };
        let Some(seat) = self.store.state.teams.get(&at.0).and_then(|it| it.seats.get(&at.1)) else {
            return Ok(());
        };
        let Some(provider) = team_provider::provider(&seat.spec.provider) else { return Ok(()) };
        let reading = provider.read_screen(&screen::read(&shown));
        let Some(dialog) = reading.dialog else { return Ok(()) };
        if let Some(look) = self.seen.seats.get_mut(at) {
            look.start_asked = Some(now);
        }
        let known = seat.activity.reason.as_deref() == Some(dialog.name.as_str());
        if self.settle_trust(at, provider, &dialog, &shown, pane)? || known {
            return Ok(());
        }
        let observed = Event::ActivityObserved {
            spawn,
            activity: team_model::ActivityKind::AwaitingTrust,
            reason: Some(dialog.name.clone()),
            until: None,
            at: None,
            proof: Proof { source: "screen".to_owned(), record: dialog.name },
        };
        let notice = Event::NoticeRaised { cause: NoticeCause::Approval, about: at.1.to_string() };
        self.record(Some(&at.0), vec![observed, notice])
    }

    /// The time that a provider named for the end of its limit has passed.
    fn limit_over(&mut self, at: &SeatKey) -> Result<(), EngineError> {
        let now = self.clock.now();
        self.decide(Some(&at.0), |state| {
            let seat = state.teams.get(&at.0).and_then(|it| it.seats.get(&at.1)).ok_or_else(moved_on)?;
            let spawn = seat.spawn.as_ref().ok_or_else(moved_on)?.id;
            if seat.limit_ends().is_none_or(|it| it > now) {
                return Err(moved_on());
            }
            let idle = Event::ActivityObserved {
                spawn,
                activity: team_model::ActivityKind::Idle,
                reason: Some("its limit has had its time".to_owned()),
                until: None,
                at: None,
                proof: Proof { source: "clock".to_owned(), record: "limit".to_owned() },
            };
            Ok((vec![idle], ()))
        })
    }

    fn last_lines(&mut self, at: &SeatKey) -> Vec<String> {
        let Some(pane) = self.pane_of(at).filter(|_| self.seen.server_alive) else { return Vec::new() };
        let Ok(Some(shown)) = self.terminal.screen(pane) else { return Vec::new() };
        let lines: Vec<String> = shown
            .text()
            .lines()
            .map(|it| it.trim_end().to_owned())
            .filter(|it| !it.is_empty() && !it.starts_with("Pane is dead"))
            .collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].to_vec()
    }

    fn fail_seat(&mut self, at: &SeatKey, why: &str) -> Result<(), EngineError> {
        let last_lines = self.last_lines(at);
        let claimed = self.claimed(at);
        if let Some(process) = &claimed {
            self.processes.signal(process, Signal::SIGTERM);
        }
        self.conclude_ended(at)?;
        self.sweep(at);
        self.forget_env(at);
        self.close_pane(at)?;
        let failed = Event::AgentFailed { agent: at.1.clone(), why: why.to_owned(), last_lines };
        let notice = Event::NoticeRaised { cause: NoticeCause::StartFailed, about: at.1.to_string() };
        self.record(Some(&at.0), vec![failed, notice])
    }

    /// A seat process that ended without a word has ended nothing below it.
    fn sweep(&self, at: &SeatKey) {
        let seat = self.store.state.teams.get(&at.0).and_then(|it| it.seats.get(&at.1));
        let Some(spawn) = seat.and_then(|it| it.spawn.as_ref()).filter(|it| it.exited.is_none()) else {
            return;
        };
        if spawn.claimed.as_ref().is_some_and(|it| !self.processes.is_alive(it)) {
            self.processes
                .kill_marked(&self.workspace.seat_dir(at.0.as_str(), at.1.as_str()).join(&spawn.seat));
        }
    }

    /// What was written for a process that never began, or ended before it had read it, is read by nobody any more.
    fn forget_env(&self, at: &SeatKey) {
        launch::forget_env(&self.workspace.seat_dir(at.0.as_str(), at.1.as_str()));
    }

    fn claimed(&self, at: &SeatKey) -> Option<team_model::ProcessIdentity> {
        self.store.state.teams.get(&at.0)?.seats.get(&at.1)?.spawn.as_ref()?.claimed.clone()
    }

    fn ask(&mut self, at: &SeatKey) -> Result<(), EngineError> {
        let now = self.clock.elapsed();
        self.fail.pass("stop", "before")?;
        if let Some(process) = self.claimed(at) {
            self.processes.signal(&process, Signal::SIGTERM);
            self.fail.pass("stop", "orphan")?;
        } else {
            // Not claimed yet: it cannot be any more, and its pane goes.
            self.close_pane(at)?;
            self.fail.pass("stop", "orphan")?;
            if let Some(look) = self.seen.seats.get_mut(at) {
                look.pane_dead = true;
            }
        }
        if let Some(look) = self.seen.seats.get_mut(at) {
            look.asked = Some(now);
        }
        self.fail.pass("stop", "after")?;
        Ok(())
    }

    fn kill(&mut self, at: &SeatKey) -> Result<(), EngineError> {
        self.fail.pass("kill", "before")?;
        if let Some(process) = self.claimed(at) {
            self.processes.kill_tree(&process);
        }
        self.fail.pass("kill", "orphan")?;
        if let Some(look) = self.seen.seats.get_mut(at) {
            look.killed = true;
        }
        Ok(())
    }

    fn close_pane(&mut self, at: &SeatKey) -> Result<(), EngineError> {
        // One that never began has left its environment.
        if let Some(secrets) = self.env_file(at) {
            let _ = std::fs::remove_file(secrets);
        }
        if !self.seen.server_alive {
            return Ok(());
        }
        let closed = match self.pane_of(at) {
            Some(pane) => self.terminal.close(&[pane]).map(drop),
            // Opened by a coordinator that ended before it could say so, perhaps.
            None => self.close_untold(at),
        };
        match closed {
            Err(error) if !error.is_no_server() => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn close_untold(&mut self, at: &SeatKey) -> Result<(), TmuxError> {
        let Some(tag) = self.spawn_of(at).map(|it| it.to_string()) else { return Ok(()) };
        let panes = self.terminal.panes()?;
        let found: Vec<Pane> =
            panes.into_iter().filter(|it| it.tag.as_ref() == Some(&tag)).map(|it| it.pane).collect();
        if found.is_empty() { Ok(()) } else { self.terminal.close(&found).map(drop) }
    }

    fn stopped(&mut self, at: &SeatKey, cause: Cause) -> Result<(), EngineError> {
        self.conclude_ended(at)?;
        self.sweep(at);
        self.fail.pass("close", "before")?;
        if cause != Cause::Exit {
            self.close_pane(at)?;
        }
        self.fail.pass("close", "orphan")?;
        self.forget_env(at);
        let spawn = self.spawn_of(at);
        let agent = at.1.clone();
        self.decide(Some(&at.0), move |state| {
            let seat = state.teams.get(&at.0).and_then(|it| it.seats.get(&at.1));
            let Some(seat) =
                seat.filter(|it| it.state.is_live() && it.spawn.as_ref().map(|it| it.id) == spawn)
            else {
                return Ok((Vec::new(), ()));
            };
            let session = seat.session.as_ref().map(|it| it.id);
            let mut events = vec![Event::AgentStopped { agent: agent.clone(), session, cause }];
            if cause == Cause::Exit {
                events.push(Event::NoticeRaised { cause: NoticeCause::Exit, about: agent.to_string() });
            }
            Ok((events, ()))
        })?;
        self.fail.pass("close", "after")?;
        Ok(())
    }

    fn team_stopped(&mut self, key: &TeamKey) -> Result<(), EngineError> {
        self.fail.pass("team_stop", "before")?;
        self.decide(Some(key), |state| {
            let team =
                state.teams.get(key).filter(|it| it.state == TeamState::Stopping && !it.has_live_seats());
            Ok((team.map(|_| Event::TeamStopped { clean: true }).into_iter().collect(), ()))
        })?;
        self.fail.pass("team_stop", "after")?;
        Ok(())
    }

    fn team_lost(&mut self, key: &TeamKey) -> Result<(), EngineError> {
        let live: Vec<SeatKey> = self
            .store
            .state
            .teams
            .get(key)
            .map(|team| team.seats.keys().map(|it| (key.clone(), it.clone())).collect())
            .unwrap_or_default();
        for at in live {
            self.conclude_ended(&at)?;
            self.sweep(&at);
            self.forget_env(&at);
        }
        self.fail.pass("lost", "before")?;
        let server = self.store.state.server.clone();
        let seats: Vec<_> = self
            .store
            .state
            .teams
            .get(key)
            .map(|team| team.seats.values().filter_map(|it| it.spawn.as_ref()?.claimed.clone()).collect())
            .unwrap_or_default();
        for process in seats {
            self.processes.signal(&process, Signal::SIGTERM);
        }
        let stopping = self.store.state.teams.get(key).is_some_and(|it| it.state == TeamState::Stopping);
        let why = "the tmux server is gone".to_owned();
        let mut events = Vec::new();
        if let Some(server) = server {
            events.push(Event::ServerLost { process: server.process, why: why.clone() });
        }
        events.push(Event::TeamLost { why });
        if stopping {
            events.push(Event::TeamStopped { clean: false });
        }
        events.push(Event::NoticeRaised { cause: NoticeCause::Lost, about: key.to_string() });
        self.record(Some(key), events)
    }

    fn stop_server(&mut self) -> Result<(), EngineError> {
        let Some(info) = self.server.clone() else {
            self.seen.server_alive = false;
            return Ok(());
        };
        self.fail.pass("server_stop", "before")?;
        match self.terminal.kill_server(&info) {
            Ok(()) => {}
            Err(error) if error.is_no_server() => {}
            Err(error) => return Err(error.into()),
        }
        self.fail.pass("server_stop", "orphan")?;
        if let Some(server) = self.store.state.server.clone() {
            self.record(None, vec![Event::ServerStopped { process: server.process }])?;
        }
        self.server = None;
        self.seen.server_alive = false;
        self.fail.pass("server_stop", "after")?;
        Ok(())
    }

    #[expect(clippy::needless_pass_by_value, reason = "an action is used up")]
    fn hold(
        &mut self,
        held: Vec<(TeamKey, team_model::MessageId, team_model::AgentName, team_model::HoldReason)>,
    ) -> Result<(), EngineError> {
        let mut keys: Vec<TeamKey> = held.iter().map(|it| it.0.clone()).collect();
        keys.dedup();
        for key in keys {
            // A sender may have taken one back meanwhile.
            self.decide(Some(&key), |state| {
                let waits = |id: &team_model::MessageId, receiver| {
                    let message = state.teams.get(&key).and_then(|it| it.message(id));
                    let receipt = message.and_then(|it| it.receipts.get(receiver));
                    receipt.is_some_and(|it| it.step.may_become(ReceiptStep::Held))
                };
                let events = held
                    .iter()
                    .filter(|(of, id, receiver, _)| *of == key && waits(id, receiver))
                    .map(|(_, id, receiver, why)| Event::MessageHeld {
                        id: id.clone(),
                        receiver: receiver.clone(),
                        why: *why,
                    })
                    .collect();
                Ok((events, ()))
            })?;
        }
        Ok(())
    }
}

/// Refuses, for a decision that lost its ground under the lock.
pub(super) fn moved_on() -> Refusal {
    Refusal::new("moved_on", "the state has moved on")
}

/// How long ago something was, never negative.
pub(super) fn since(now: Duration, then: Duration) -> Duration {
    now.saturating_sub(then)
}
