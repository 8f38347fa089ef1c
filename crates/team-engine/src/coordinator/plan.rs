//! What is to be done next: a pure function of what the log says and what was seen.
//!
//! Knows states and times. Must not know tmux, files or processes.

use std::collections::BTreeMap;
use std::time::Duration;

use team_model::{
    ActivityKind, AgentName, Cause, Channel, HoldReason, MessageId, ReadyFact, ReceiptStep, RequestId, Seat,
    SeatState, Spawn, SpawnMode, State, Team, TeamKey, TeamState,
};

use super::approve::questions;
pub use super::seen::{Blocked, Lane, SeatKey, Seen, Typed, TypingTimes};

/// How long a start may take.
pub(super) const START: Duration = Duration::from_secs(60);
/// How long a proof of delivery may take.
pub(super) const RECEIPT: Duration = Duration::from_secs(5);
/// How long a bell may go unheard: a program that has just started may miss the first rings.
const HEARD: Duration = Duration::from_secs(8);
/// How often a bell is rung again while its messages lie untaken; a program does not hear faster rings.
const RING_AGAIN: Duration = Duration::from_millis(1250);
/// How long a seat process that was asked to end may take; it kills its program before that.
pub(super) const STOP: Duration = Duration::from_secs(4);
/// How long a killed process is left alone before it is looked for again.
const KILLED: Duration = Duration::from_millis(500);
/// How long a spawn that was announced may take to be claimed before its pane is looked for.
const CLAIM: Duration = Duration::from_secs(10);
/// How long a program may start without a word before its screen is read for a dialog.
const SILENT_START: Duration = Duration::from_millis(1500);
/// How often the screen of a program that works is read, where only that shows its dialogs.
const WORK_LOOK: Duration = Duration::from_secs(3);
/// How often Enter is pressed for one text at most; each further time only after three times the wait.
const PRESSES: u32 = 4;

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Start the tmux server.
    StartServer,
    /// Start these seats, in one batch.
    Start(Vec<(SeatKey, SpawnMode)>),
    /// Find the pane of a spawn that another coordinator announced.
    Adopt(SeatKey),
    /// Read the screen of a program that starts without a word.
    LookAtStart(SeatKey),
    /// Read the screen of a program that works and does not tell of its dialogs.
    LookAtWork(SeatKey),
    /// Record that a seat could not start, and end what is left of it.
    Fail(SeatKey, String),
    /// Ask a seat's process to end.
    Ask(SeatKey),
    /// Kill a seat's process and everything below it.
    Kill(SeatKey),
    /// Record that a seat has ended.
    Stopped(SeatKey, Cause),
    /// Record that a team has ended.
    TeamStopped(TeamKey),
    /// Record that a team's terminal is gone.
    TeamLost(TeamKey),
    /// Record why messages wait.
    Hold(Vec<(TeamKey, MessageId, AgentName, HoldReason)>),
    /// Hand messages over; the numbers are the lines that accepted them.
    Send(Vec<(SeatKey, Channel, Vec<u64>)>),
    /// Press Enter where a pasted text has settled.
    Enter(Vec<SeatKey>),
    /// Read the screen: no receipt has come.
    Look(SeatKey),
    /// Ring a bell again whose messages may lie untaken.
    RingAgain(SeatKey),
    /// Record that nobody knows whether a text was taken.
    GiveUp(SeatKey),
    /// Conclude what became of what another coordinator was sending.
    Conclude(SeatKey),
    /// Prove a composer empty that may still hold an earlier text.
    Prove(SeatKey),
    /// Answer a permission question if a rule does.
    Weigh(SeatKey, RequestId),
    /// Lay an answer that was decided where the program's side waits for it.
    LayAnswer(SeatKey, RequestId),
    /// Take the next step of an answer that is given by a key in the program's own dialog.
    AnswerByKey(SeatKey, RequestId),
    /// Record that a provider's limit has ended.
    LimitOver(SeatKey),
    /// Tell the leader in its pane.
    Tell(TeamKey),
    /// End the tmux server: no team needs it.
    StopServer,
    /// End the coordinator: nothing is left to do.
    Exit,
}

/// What is to be done, and when to look again if nothing happens.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// What is to be done now.
    pub actions: Vec<Action>,
    /// When the next time limit ends.
    pub wake: Option<Duration>,
}

impl Plan {
    pub(super) fn at(&mut self, time: Duration) {
        self.wake = Some(self.wake.map_or(time, |it| it.min(time)));
    }
}

/// Everything seen that the log does not say.
#[derive(Debug, Default)]
pub struct Observed {
    /// Whether the recorded tmux server runs.
    pub server_alive: bool,
    /// What was seen of seats.
    pub seats: BTreeMap<SeatKey, Seen>,
    /// Teams whose bound leader can be told something now.
    pub leader_ready: Vec<TeamKey>,
}

/// Decides what is to be done.
pub fn plan(state: &State, seen: &Observed, now: Duration) -> Plan {
    let mut plan = Plan::default();
    let mut starts = Vec::new();
    let mut sends = Vec::new();
    let mut holds = Vec::new();
    let mut enters = Vec::new();
    let mut needed = false;
    let nothing = Seen::default();
    for (key, team) in &state.teams {
        let busy = matches!(team.state, TeamState::Running | TeamState::Stopping);
        needed |= busy;
        if !busy {
            continue;
        }
        if !seen.server_alive && team.has_live_seats() {
            plan.actions.push(Action::TeamLost(key.clone()));
            continue;
        }
        for (agent, seat) in &team.seats {
            let at = (key.clone(), agent.clone());
            let look = seen.seats.get(&at).unwrap_or(&nothing);
            if let (SeatState::Waiting { mode }, TeamState::Running) = (&seat.state, team.state) {
                starts.push((at, *mode));
                continue;
            }
            if seat.state.is_live() && supervise(&mut plan, &at, seat, look, now) {
                continue;
            }
            if seat.state.is_live() {
                questions(&mut plan, &at, seat, look, now);
            }
            if limit(&mut plan, &at, seat, look, now) {
                continue;
            }
            // An idle program is not looked at.
            if look.hides_dialogs && seat.state == SeatState::Running && seat.turn.is_some() {
                let due = look.work_looked.map_or(now, |it| it + WORK_LOOK);
                if now >= due {
                    plan.actions.push(Action::LookAtWork(at));
                    continue;
                }
                plan.at(due);
            }
            if lane(&mut plan, &mut enters, &at, team, seat, look, now) {
                continue;
            }
            if let Some(send) = deliver(&mut plan, &mut holds, &at, team, seat, look, now) {
                sends.push(send);
            }
        }
        let live = team.seats.values().any(|it| it.state.is_live());
        if team.state == TeamState::Stopping && !live {
            plan.actions.push(Action::TeamStopped(key.clone()));
        }
    }
    if !starts.is_empty() {
        if !seen.server_alive {
            plan.actions.push(Action::StartServer);
        }
        plan.actions.push(Action::Start(starts));
    }
    if !holds.is_empty() {
        plan.actions.push(Action::Hold(holds));
    }
    if !enters.is_empty() {
        plan.actions.push(Action::Enter(enters));
    }
    if !sends.is_empty() {
        plan.actions.push(Action::Send(sends));
    }
    // What a rule answers is no news for the leader.
    let weighing = plan.actions.iter().any(|it| matches!(it, Action::Weigh(..)));
    for key in seen.leader_ready.iter().filter(|_| !weighing) {
        plan.actions.push(Action::Tell(key.clone()));
    }
    if !needed {
        if seen.server_alive {
            plan.actions.push(Action::StopServer);
        }
        plan.actions.push(Action::Exit);
    }
    plan
}

/// Says whether the seat is on its way out, so that nothing else is planned for it.
fn supervise(plan: &mut Plan, at: &SeatKey, seat: &Seat, look: &Seen, now: Duration) -> bool {
    let Some(spawn) = &seat.spawn else { return false };
    let starting = seat.state == SeatState::Starting;
    let ended = look.process_dead || (spawn.claimed.is_none() && look.pane_dead);
    if let Some(cause) = seat.stopping {
        if ended || (spawn.claimed.is_none() && !look.pane_known) {
            plan.actions.push(Action::Stopped(at.clone(), cause));
        } else {
            end(plan, at, look, now);
        }
        return true;
    }
    if spawn.exited.is_some() && !ended {
        // The seat process is ending what its program left behind; it will not take long.
        let due = look.exited.unwrap_or(now) + STOP;
        if now >= due {
            end(plan, at, look, now);
        } else {
            plan.at(due);
        }
        return true;
    }
    if ended {
        let how = exit_words(seat);
        if starting {
            plan.actions.push(Action::Fail(at.clone(), how));
        } else {
            plan.actions.push(Action::Stopped(at.clone(), Cause::Exit));
        }
        return true;
    }
    if !look.pane_known {
        // Claimed or not: without its pane nothing can be typed, and nothing read.
        plan.actions.push(Action::Adopt(at.clone()));
        return true;
    }
    if starting {
        if spawn.claimed.is_none() {
            if now >= look.since + CLAIM {
                plan.actions.push(Action::Fail(at.clone(), "its process did not begin".to_owned()));
                return true;
            }
            plan.at(look.since + CLAIM);
        }
        // The time in which a question waits for a person is not the program's.
        let begun = look.start_asked.map_or(look.since, |it| it.max(look.since));
        if now >= begun + START {
            let why = format!("it was not ready after {} s: {}", START.as_secs(), missing(spawn));
            plan.actions.push(Action::Fail(at.clone(), why));
            return true;
        }
        plan.at(begun + START);
        let due = look.start_looked.map_or(look.since + SILENT_START, |it| it + Duration::from_secs(2));
        if spawn.claimed.is_some() {
            if now >= due {
                plan.actions.push(Action::LookAtStart(at.clone()));
            } else {
                plan.at(due);
            }
        }
    }
    false
}

/// What is missing for a start to be ready, in words.
pub(crate) fn missing(spawn: &Spawn) -> String {
    let words = |it: &ReadyFact| match it {
        ReadyFact::SessionStarted => "its hooks were not heard",
        ReadyFact::StatusIdle => "its status did not say idle",
        ReadyFact::ToolsListed => "it did not ask for the team's tools",
    };
    spawn.needs.iter().map(words).collect::<Vec<_>>().join(", ")
}

/// Says whether a limit's time has just passed.
fn limit(plan: &mut Plan, at: &SeatKey, seat: &Seat, look: &Seen, now: Duration) -> bool {
    let Some(ends) = look.limit_ends.filter(|_| seat.limit_ends().is_some() && seat.state.is_live()) else {
        return false;
    };
    let over = now >= ends;
    if over {
        plan.actions.push(Action::LimitOver(at.clone()));
    } else {
        plan.at(ends);
    }
    over
}

fn exit_words(seat: &Seat) -> String {
    match seat.spawn.as_ref().and_then(|it| it.exited) {
        Some((Some(127), _)) => "its program could not be started".to_owned(),
        Some((Some(code), _)) => format!("its program ended with exit code {code}"),
        Some((None, Some(signal))) => format!("its program was ended by signal {signal}"),
        Some((None, None)) => "its program ended".to_owned(),
        None => "its process ended".to_owned(),
    }
}

fn end(plan: &mut Plan, at: &SeatKey, look: &Seen, now: Duration) {
    match look.asked {
        None => plan.actions.push(Action::Ask(at.clone())),
        Some(asked) if now >= asked + STOP && !look.killed => plan.actions.push(Action::Kill(at.clone())),
        // Killed: its end is announced, but for one that even this does not end at once.
        Some(_) if look.killed => plan.at(now + KILLED),
        Some(asked) => plan.at(asked + STOP),
    }
}

/// Goes on with what is under way to a composer or by a bell; says whether something is whose end is not known, so
/// that nothing else may go.
fn lane(
    plan: &mut Plan,
    enters: &mut Vec<SeatKey>,
    at: &SeatKey,
    team: &Team,
    seat: &Seat,
    look: &Seen,
    now: Duration,
) -> bool {
    match &look.lane {
        Lane::Free => {}
        Lane::Typed(typed) => {
            let Some(entered) = typed.entered else {
                if now >= typed.pasted + RECEIPT {
                    plan.actions.push(Action::GiveUp(at.clone()));
                    return false;
                }
                // The first Enter waits for the text to settle, a later try for the text to show.
                let due = typed.touched.max(typed.pasted + look.typing.settle);
                if now >= due {
                    enters.push(at.clone());
                } else {
                    plan.at(due);
                }
                return false;
            };
            if now >= entered + RECEIPT {
                plan.actions.push(Action::GiveUp(at.clone()));
                return false;
            }
            plan.at(entered + RECEIPT);
            if typed.presses < PRESSES {
                let due = typed.touched + look.typing.look_after * 3_u32.pow(typed.presses.saturating_sub(1));
                if now >= due {
                    plan.actions.push(Action::Look(at.clone()));
                } else {
                    plan.at(due);
                }
            }
        }
        Lane::Rung { at: first, rung, .. } => {
            if now >= *first + HEARD {
                plan.actions.push(Action::GiveUp(at.clone()));
            } else if now >= *rung + RING_AGAIN {
                plan.actions.push(Action::RingAgain(at.clone()));
            } else {
                plan.at((*first + HEARD).min(*rung + RING_AGAIN));
            }
        }
    }
    // Sending, and not by us: another coordinator was at it.
    let ours: &[MessageId] = match &look.lane {
        Lane::Free => &[],
        Lane::Typed(typed) => &typed.ids,
        Lane::Rung { ids, .. } => ids,
    };
    let is_open = |it: &team_model::Message| {
        it.receipts.get(&at.1).is_some_and(|it| it.step == ReceiptStep::Sending) && !ours.contains(&it.id)
    };
    if team.messages.values().any(is_open) {
        match look.conclude_at.filter(|it| now < *it) {
            Some(due) => plan.at(due),
            None => plan.actions.push(Action::Conclude(at.clone())),
        }
        return true;
    } else if seat.dirty.is_some() && look.lane == Lane::Free && seat.is_idle() {
        let due = look.blocked.map_or(Duration::ZERO, |it| it.due());
        if now >= due { plan.actions.push(Action::Prove(at.clone())) } else { plan.at(due) }
    }
    false
}

/// Decides whether waiting messages go now, or why they wait.
fn deliver(
    plan: &mut Plan,
    holds: &mut Vec<(TeamKey, MessageId, AgentName, HoldReason)>,
    at: &SeatKey,
    team: &Team,
    seat: &Seat,
    look: &Seen,
    now: Duration,
) -> Option<(SeatKey, Channel, Vec<u64>)> {
    let waiting: Vec<(u64, &MessageId, Option<HoldReason>)> = team
        .messages
        .iter()
        .filter_map(|(seq, it)| {
            let receipt = it.receipts.get(&at.1)?;
            matches!(receipt.step, ReceiptStep::Accepted | ReceiptStep::Held).then_some((
                *seq,
                &it.id,
                receipt.held,
            ))
        })
        .collect();
    if waiting.is_empty() {
        return None;
    }
    let channel = seat.spawn.as_ref().map_or(Channel::Keys, |it| it.channel);
    let channel = if look.deaf { Channel::Keys } else { channel };
    match why_not(team, seat, look, channel) {
        None => {}
        Some(reason) => {
            holds.extend(
                waiting
                    .iter()
                    .filter(|(_, _, held)| *held != Some(reason))
                    .map(|(_, id, _)| (at.0.clone(), (*id).clone(), at.1.clone(), reason)),
            );
            return None;
        }
    }
    if look.lane != Lane::Free {
        return None;
    }
    if channel == Channel::Keys && !look.typing.after_start.is_zero() {
        let due = look.ready.unwrap_or(now) + look.typing.after_start;
        if now < due {
            plan.at(due);
            return None;
        }
    }
    if let (Channel::Keys, Some(blocked)) = (channel, look.blocked)
        && now < blocked.due()
    {
        let reason = blocked.reason;
        plan.at(blocked.due());
        holds.extend(
            waiting
                .iter()
                .filter(|(_, _, held)| *held != Some(reason))
                .map(|(_, id, _)| (at.0.clone(), (*id).clone(), at.1.clone(), reason)),
        );
        return None;
    }
    Some((at.clone(), channel, waiting.iter().map(|(seq, _, _)| *seq).collect()))
}

/// What the log alone says against handing a message over now.
fn why_not(team: &Team, seat: &Seat, look: &Seen, channel: Channel) -> Option<HoldReason> {
    if team.state != TeamState::Running || seat.state != SeatState::Running || seat.stopping.is_some() {
        return Some(HoldReason::NoSession);
    }
    if seat.spawn.as_ref().is_some_and(|it| it.exited.is_some()) || look.process_dead {
        return Some(HoldReason::NoSession);
    }
    if seat.activity.kind == ActivityKind::Limited {
        return Some(HoldReason::Limited);
    }
    if channel == Channel::Bell && !look.bridged {
        return None;
    }
    if !seat.approvals.is_empty() {
        return Some(HoldReason::Dialog);
    }
    match seat.activity.kind {
        ActivityKind::AwaitingApproval | ActivityKind::AwaitingTrust | ActivityKind::Unknown => {
            return Some(HoldReason::Dialog);
        }
        ActivityKind::Working | ActivityKind::Compacting => return Some(HoldReason::Busy),
        ActivityKind::Limited => return Some(HoldReason::Limited),
        ActivityKind::Idle => {}
    }
    seat.dirty.as_ref().map(|_| HoldReason::Dirty)
}

#[cfg(test)]
mod tests;
