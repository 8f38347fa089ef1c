//! The fold: one line after the other becomes the state. It cannot fail and has no `_` arm over events, so that the
//! compiler lists what a new event touches.
//!
//! An observation counts only for the seat whose present spawn it names; everything else about it is kept in the log
//! and changes nothing here.

mod seat;
mod team;

use chrono::{DateTime, Utc};

use crate::state::{Activity, Coordinator, Leader, ReceiptStep, Server, State, Team, TeamState};
use crate::{ActivityKind, Event, MessageId, Proof, SpawnId, TeamKey};

/// Changes whenever the meaning of a snapshot changes, so that an old one is not used.
pub const FOLD_FORMAT: &str = "state-9";

/// Why a message is unknown whose turn was seen to begin.
pub const CUT_OFF: &str = "the session ended before the turn was seen to end";

/// How many own message ids are remembered in the state; older ones are found in the log.
const OWN_IDS: usize = 256;

impl State {
    /// Folds one line.
    pub fn apply(&mut self, seq: u64, ts: DateTime<Utc>, team: Option<&TeamKey>, event: &Event) {
        self.seq = seq;
        self.ts = Some(ts);
        let at = At { seq, ts };
        match event {
            Event::LogOpened { log_id, .. } => {
                // A later segment of an adopted log still names the one it was copied from.
                if self.workspace.is_empty() {
                    self.workspace.clone_from(log_id);
                }
            }
            Event::LogSealed { .. }
            | Event::LogRestored {}
            | Event::LogTailSetAside { .. }
            | Event::GrantChanged { .. }
            | Event::ObservationForeign { .. }
            | Event::Unknown => {}
            Event::LogDamaged { .. } | Event::LogTampered { .. } => self.damage(at),
            Event::CoordinatorStarted { epoch, process, version } => {
                self.epoch = self.epoch.max(*epoch);
                self.coordinator =
                    Some(Coordinator { epoch: *epoch, process: process.clone(), version: version.clone() });
            }
            Event::CoordinatorStopped { epoch, .. } => {
                if self.coordinator.as_ref().is_some_and(|it| it.epoch == *epoch) {
                    self.coordinator = None;
                }
            }
            Event::ServerStarted { socket, process, version } => {
                self.server = Some(Server {
                    socket: socket.clone(),
                    process: process.clone(),
                    version: version.clone(),
                });
            }
            Event::ServerLost { .. } | Event::ServerStopped { .. } => self.server = None,
            Event::WorkspaceAdopted { id, .. } => {
                *self =
                    Self { seq, ts: Some(ts), workspace: id.clone(), epoch: self.epoch, ..Self::default() };
            }
            Event::TeamStarted { .. } => {
                if let Some(key) = team {
                    self.start_team(at, key, event);
                }
            }
            Event::TeamDeleted {} => {
                if let Some(key) = team {
                    self.teams.remove(key);
                }
            }
            Event::SpawnOpened { .. }
            | Event::SessionClaimed { .. }
            | Event::SpawnSuperseded { .. }
            | Event::ProviderStarted { .. }
            | Event::ProviderExited { .. }
            | Event::SessionStarted { .. }
            | Event::SessionReplaced { .. }
            | Event::SessionCompacted { .. }
            | Event::ToolsListed { .. }
            | Event::ToolsLost { .. }
            | Event::TurnStarted { .. }
            | Event::TurnEnded { .. }
            | Event::ActivityObserved { .. }
            | Event::ApprovalRequested { .. }
            | Event::ApprovalAnswering { .. }
            | Event::ApprovalPressing { .. }
            | Event::DialogPressing { .. }
            | Event::ApprovalNotGiven { .. }
            | Event::ApprovalClosed { .. }
            | Event::ProviderClassifyUnsupported { .. } => self.observe(at, team, event),
            Event::MessageAccepted { id, body, .. } => {
                if let MessageId::Own(own) = id {
                    self.own_ids.push_back((own.clone(), id.clone(), body.hash.clone()));
                    while self.own_ids.len() > OWN_IDS {
                        self.own_ids.pop_front();
                    }
                }
                self.in_team(team, |it| it.apply(at, event));
            }
            Event::TeamStopPlanned { .. }
            | Event::TeamStopped { .. }
            | Event::TeamLost { .. }
            | Event::LeaderBound { .. }
            | Event::LeaderLost { .. }
            | Event::LeaderTelling { .. }
            | Event::LeaderTold { .. }
            | Event::LeaderNotTold { .. }
            | Event::AgentAdded { .. }
            | Event::AgentQueued { .. }
            | Event::AgentStopPlanned { .. }
            | Event::AgentStopped { .. }
            | Event::AgentFailed { .. }
            | Event::AgentRemoved { .. }
            | Event::SpawnPlanned { .. }
            | Event::RestartFreshSpawn { .. }
            | Event::LaneCleared { .. }
            | Event::MessageHeld { .. }
            | Event::MessageSending { .. }
            | Event::MessageSubmitted { .. }
            | Event::MessageNotSent { .. }
            | Event::MessageUnknown { .. }
            | Event::MessageAgain { .. }
            | Event::MessageReturned { .. }
            | Event::MessageRefused { .. }
            | Event::MessageWithdrawn { .. }
            | Event::TaskCreated { .. }
            | Event::TaskCompleted { .. }
            | Event::TaskFailed { .. }
            | Event::TaskCanceled { .. }
            | Event::TaskReleased { .. }
            | Event::McpReportResult { .. }
            | Event::CollectResult { .. }
            | Event::HumanAsked { .. }
            | Event::HumanAnswered { .. }
            | Event::NoticeRaised { .. } => self.in_team(team, |it| it.apply(at, event)),
        }
    }

    fn in_team(&mut self, key: Option<&TeamKey>, change: impl FnOnce(&mut Team)) {
        if let Some(team) = key.and_then(|it| self.teams.get_mut(it)) {
            change(team);
        }
    }

    fn start_team(&mut self, at: At, key: &TeamKey, event: &Event) {
        let Event::TeamStarted { name, session_name, dir, digest, goal, leader } = event else { return };
        let team = self.teams.entry(key.clone()).or_default();
        if team.since == 0 {
            team.since = at.seq;
        }
        team.state = TeamState::Running;
        team.name.clone_from(name);
        team.session_name.clone_from(session_name);
        team.dir.clone_from(dir);
        team.digest.clone_from(digest);
        if goal.is_some() {
            team.goal.clone_from(goal);
        }
        team.leader = Leader { bound: leader.clone(), ..Leader::default() };
    }

    /// What was open across lines that nobody can read is unknown: nothing is sent or started again for it.
    fn damage(&mut self, at: At) {
        self.damaged = true;
        for team in self.teams.values_mut() {
            for message in team.messages.values_mut() {
                for receipt in message.receipts.values_mut() {
                    if receipt.step >= ReceiptStep::Sending && !receipt.step.is_settled() {
                        receipt.step = ReceiptStep::Unknown;
                        receipt.why = Some("the log was damaged".to_owned());
                    }
                }
            }
            for seat in team.seats.values_mut().filter(|it| it.state.is_live()) {
                seat.activity = at.activity(ActivityKind::Unknown, Some("the log was damaged"), None);
            }
            team.settle();
        }
    }

    fn observe(&mut self, at: At, key: Option<&TeamKey>, event: &Event) {
        let Some(spawn) = spawn_of(event) else { return };
        let of_spawn = |team: &Team| {
            team.seats
                .iter()
                .find(|(_, seat)| seat.spawn.as_ref().is_some_and(|it| it.id == spawn))
                .map(|(name, _)| name.clone())
        };
        let found = match key {
            Some(key) => self.teams.get(key).and_then(of_spawn).map(|agent| (key.clone(), agent)),
            None => {
                self.teams.iter().find_map(|(key, team)| of_spawn(team).map(|agent| (key.clone(), agent)))
            }
        };
        let Some((key, agent)) = found else { return };
        if let Some(team) = self.teams.get_mut(&key) {
            team.observe(at, &agent, event);
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct At {
    seq: u64,
    ts: DateTime<Utc>,
}

impl At {
    fn activity(self, kind: ActivityKind, reason: Option<&str>, proof: Option<&Proof>) -> Activity {
        Activity {
            kind,
            since: Some(self.ts),
            reason: reason.map(str::to_owned),
            until: None,
            proof: proof.cloned(),
            seq: self.seq,
        }
    }
}

fn spawn_of(event: &Event) -> Option<SpawnId> {
    match event {
        Event::SpawnOpened { spawn, .. }
        | Event::SessionClaimed { spawn, .. }
        | Event::SpawnSuperseded { spawn, .. }
        | Event::ProviderStarted { spawn, .. }
        | Event::ProviderExited { spawn, .. }
        | Event::SessionStarted { spawn, .. }
        | Event::SessionReplaced { spawn, .. }
        | Event::SessionCompacted { spawn }
        | Event::ToolsListed { spawn, .. }
        | Event::ToolsLost { spawn }
        | Event::TurnStarted { spawn, .. }
        | Event::TurnEnded { spawn, .. }
        | Event::ActivityObserved { spawn, .. }
        | Event::ApprovalRequested { spawn, .. }
        | Event::ApprovalAnswering { spawn, .. }
        | Event::ApprovalPressing { spawn, .. }
        | Event::DialogPressing { spawn, .. }
        | Event::ApprovalNotGiven { spawn, .. }
        | Event::ApprovalClosed { spawn, .. }
        | Event::ProviderClassifyUnsupported { spawn, .. } => Some(*spawn),
        _ => None,
    }
}
