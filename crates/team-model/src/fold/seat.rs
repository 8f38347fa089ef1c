//! What observations change in a seat: its process, session, turns, activity, and the receipts these prove.

use chrono::{DateTime, Utc};

use super::At;
use crate::state::{
    ANSWERED, Activity, Answering, Approval, EXITED, IN_PANE, NotGiven, ReceiptStep, Seat, SeatState,
    Session, TURN_ENDED, Team, Turn,
};
use crate::{
    ActivityKind, AgentName, Cause, Decision, Event, MessageId, NoticeCause, Proof, ReadyFact, RequestId,
    SessionId, TurnOutcome,
};

/// How many closed questions a seat remembers, so that who comes late is told how they ended.
const CLOSED_QUESTIONS: usize = 16;

impl Team {
    pub(super) fn observe(&mut self, at: At, agent: &AgentName, event: &Event) {
        let Some(seat) = self.seats.get_mut(agent) else { return };
        let mut begun = Vec::new();
        let mut ended = None;
        let mut asked = false;
        let mut limited_anew = false;
        let Some(spawn) = seat.spawn.as_mut() else { return };
        match event {
            Event::SpawnOpened { pane, pid, .. } => {
                spawn.pane = Some(pane.clone());
                spawn.pane_pid = Some(*pid);
            }
            Event::SessionClaimed { process, .. } if spawn.claimed.is_none() => {
                spawn.claimed = Some(process.clone());
            }
            Event::SpawnSuperseded { why, .. } => {
                let mode = spawn.mode;
                seat.spawn = None;
                seat.state = SeatState::Waiting { mode };
                seat.activity = at.activity(ActivityKind::Unknown, Some(why), None);
            }
            Event::ProviderStarted { process, version, .. } => {
                spawn.provider = Some(process.clone());
                spawn.version.clone_from(version);
            }
            Event::ProviderExited { code, signal, .. } => {
                spawn.exited = Some((*code, *signal));
                seat.close_questions(|_, _| true, EXITED);
                seat.activity = at.activity(ActivityKind::Unknown, Some("the program has ended"), None);
            }
            Event::SessionStarted { native, .. } => {
                spawn.needs.remove(&ReadyFact::SessionStarted);
                if let Some(session) = &mut seat.session
                    && session.native.as_ref().is_none_or(|it| it == native)
                {
                    session.native = Some(native.clone());
                    session.proved = true;
                }
                seat.ready(at);
            }
            Event::SessionReplaced { native, source, .. } => {
                // What was resumed had turns before; what was cleared has none yet.
                let used = source == "resume";
                seat.session =
                    Some(Session { id: SessionId(at.seq), native: Some(native.clone()), proved: true, used });
                seat.turns = 0;
                if let Some(turn) = seat.turn.take() {
                    ended = Some((turn.messages, TurnOutcome::Interrupted));
                }
                seat.close_questions(|_, _| true, TURN_ENDED);
                seat.ready(at);
            }
            // Without a turn its status says when it is idle again.
            Event::SessionCompacted { .. }
                if seat.activity.kind == ActivityKind::Compacting && seat.turn.is_some() =>
            {
                seat.activity = at.activity(ActivityKind::Working, None, None);
            }
            Event::ToolsListed { process, .. } => {
                spawn.needs.remove(&ReadyFact::ToolsListed);
                spawn.tools.clone_from(process);
                spawn.tools_lost = false;
                seat.ready(at);
            }
            Event::ToolsLost { .. } => spawn.tools_lost = true,
            Event::TurnStarted { messages, proof, .. } => {
                if let Some(session) = &mut seat.session {
                    session.used = true;
                }
                let turn =
                    Turn { seq: at.seq, since: Some(at.ts), messages: messages.clone(), outcome: None };
                if let Some(open) = seat.turn.replace(turn) {
                    ended = Some((open.messages, TurnOutcome::Answer));
                }
                seat.turns += 1;
                // A question that was asked while no turn was known is one of this turn, whose beginning came late.
                if ended.is_some() || seat.approvals.is_empty() {
                    seat.close_questions(|_, _| true, TURN_ENDED);
                    seat.activity = at.activity(ActivityKind::Working, None, Some(proof));
                }
                begun.clone_from(messages);
            }
            Event::TurnEnded { outcome, why, proof, .. } => {
                if let Some(mut turn) = seat.turn.take() {
                    turn.outcome = Some(*outcome);
                    ended = Some((turn.messages.clone(), *outcome));
                    seat.last_turn = Some(turn);
                }
                // A turn goes on only once its questions are answered, and a person stops it where they are asked.
                let how = if *outcome == TurnOutcome::Error { TURN_ENDED } else { IN_PANE };
                let by_key = |it: &Approval| match outcome {
                    TurnOutcome::Answer => it.pressed().is_some(),
                    // A no that is pressed stops the turn, too.
                    TurnOutcome::Interrupted => it.pressed() == Some(Decision::Deny),
                    TurnOutcome::Error => false,
                };
                seat.close_questions(|_, it| by_key(it), ANSWERED);
                seat.close_questions(|_, _| true, how);
                if *outcome == TurnOutcome::Answer {
                    seat.limit_told = None;
                }
                let reason = match outcome {
                    TurnOutcome::Answer => None,
                    TurnOutcome::Interrupted => Some("the turn was interrupted"),
                    TurnOutcome::Error => Some(why.as_deref().unwrap_or("the turn ended by an error")),
                };
                seat.activity = at.activity(ActivityKind::Idle, reason, Some(proof));
            }
            Event::ActivityObserved { activity, reason, until, at: written, proof, .. } => {
                // A record written before the line we know of is old news.
                let stale = written.is_some_and(|it| seat.activity.since.is_some_and(|since| it < since))
                    && seat
                        .activity
                        .proof
                        .as_ref()
                        .is_some_and(|it| matches!(it.source.as_str(), "hook" | "channel"));
                if *activity == ActivityKind::Idle {
                    spawn.needs.remove(&ReadyFact::StatusIdle);
                }
                // A program that is idle at a limit still cannot work.
                let limited = *activity == ActivityKind::Idle
                    && proof.source == "status_file"
                    && seat.activity.kind == ActivityKind::Limited;
                if !stale && !limited {
                    seat.activity =
                        Activity { until: *until, ..at.activity(*activity, reason.as_deref(), Some(proof)) };
                    if matches!(activity, ActivityKind::Idle | ActivityKind::Working) {
                        seat.close_questions(|_, it| it.pressed().is_some(), ANSWERED);
                        seat.close_questions(|_, _| true, IN_PANE);
                    }
                    if *activity == ActivityKind::Limited {
                        limited_anew = seat.hears_of_limit(*until);
                    }
                }
                seat.ready(at);
            }
            Event::ApprovalRequested { tool, key, by_keys, proof, .. } => {
                let asking = Approval {
                    tool: tool.clone(),
                    since: Some(at.ts),
                    key: key.clone(),
                    by_keys: *by_keys,
                    answering: None,
                    not_given: None,
                };
                seat.approvals.insert(RequestId(at.seq), asking);
                seat.activity = at.activity(ActivityKind::AwaitingApproval, Some(tool), Some(proof));
                asked = true;
            }
            Event::ApprovalAnswering { request, decision, by, message_id, .. } => {
                if let Some(open) = seat.approvals.get_mut(request).filter(|it| it.answering.is_none()) {
                    open.answering = Some(Answering {
                        decision: *decision,
                        by: by.clone(),
                        message: message_id.clone(),
                        pressed: false,
                    });
                    open.not_given = None;
                    seat.own_allowed += u32::from(by == "own_tool");
                }
            }
            Event::ApprovalPressing { request, attempt, refused, .. } => {
                if let Some(given) = seat.approvals.get_mut(request).and_then(|it| it.answering.as_mut()) {
                    // A second try that was not made takes nothing from the first.
                    given.pressed = *attempt > 1 || !refused;
                }
            }
            Event::DialogPressing { attempt, .. } => {
                if let Some(spawn) = seat.spawn.as_mut() {
                    spawn.pressed = *attempt;
                }
            }
            Event::ApprovalNotGiven { request, why, pressed, .. } => {
                if let Some(open) = seat.approvals.get_mut(request).filter(|it| it.answering.is_some()) {
                    open.answering = None;
                    open.not_given = Some(NotGiven { why: why.clone(), pressed: *pressed });
                    // It is for a person again.
                    asked = true;
                }
            }
            Event::ApprovalClosed { request, key, how, .. } => {
                seat.close_questions(
                    |id, it| match (request, key) {
                        (Some(wanted), _) => id == wanted,
                        (None, Some(key)) => it.key.as_ref() == Some(key),
                        (None, None) => true,
                    },
                    how,
                );
                if seat.activity.kind == ActivityKind::AwaitingApproval && seat.approvals.is_empty() {
                    let kind = if seat.turn.is_some() { ActivityKind::Working } else { ActivityKind::Idle };
                    let proof = Proof { source: "channel".to_owned(), record: how.clone() };
                    seat.activity = at.activity(kind, None, Some(&proof));
                }
            }
            Event::ProviderClassifyUnsupported { reason, .. } => {
                seat.unsupported = Some(reason.clone());
                if seat.activity.kind != ActivityKind::Unknown
                    || seat.activity.reason.as_ref() != Some(reason)
                {
                    seat.activity = at.activity(ActivityKind::Unknown, Some(reason), None);
                }
            }
            _ => {}
        }
        let open = seat.approvals.values().any(|it| it.answering.is_none());
        // A turn that is tried at a limit does not end it.
        let by_time = |it: &Proof| it.source == "clock";
        let over = seat.limit_told.is_none() || seat.activity.proof.as_ref().is_some_and(by_time);
        if limited_anew {
            self.tell(at, NoticeCause::Limit, agent.as_str());
        } else if over {
            self.untold.retain(|it| it.cause != NoticeCause::Limit || it.about != agent.as_str());
        }
        self.tell_of_questions(at, agent, asked, open);
        if let Some((messages, outcome)) = ended {
            self.answer(agent, &messages, outcome);
        }
        for id in begun {
            self.submitted(&id, agent, true);
        }
    }

    /// A leader hears once of a question, and not at all if it was answered before.
    fn tell_of_questions(&mut self, at: At, agent: &AgentName, asked: bool, open: bool) {
        if asked {
            self.tell(at, NoticeCause::Approval, agent.as_str());
        } else if !open {
            let start =
                self.seats.get(agent).is_some_and(|it| it.activity.kind == ActivityKind::AwaitingTrust);
            self.untold.retain(|it| start || it.cause != NoticeCause::Approval || it.about != agent.as_str());
        }
    }

    /// The turn that took these messages has ended.
    fn answer(&mut self, agent: &AgentName, messages: &[MessageId], outcome: TurnOutcome) {
        for id in messages {
            self.receipt(id, agent, |it| {
                if it.step.is_settled() {
                    return;
                }
                it.step = ReceiptStep::Answered;
                if outcome != TurnOutcome::Answer {
                    it.why = Some(format!("its turn ended: {outcome}"));
                }
            });
        }
        self.settle();
    }
}

impl Seat {
    fn ready(&mut self, at: At) {
        let Some(spawn) = &self.spawn else { return };
        if self.state == SeatState::Starting && spawn.needs.is_empty() && spawn.claimed.is_some() {
            self.state = SeatState::Running;
            self.since = Some(at.ts);
            // What is ready asks no more whether it may begin.
            if matches!(self.activity.kind, ActivityKind::Unknown | ActivityKind::AwaitingTrust) {
                let proof = Proof { source: "process".to_owned(), record: "ready".to_owned() };
                self.activity = at.activity(ActivityKind::Idle, None, Some(&proof));
            }
        }
    }

    /// Closes questions, and remembers the last ones.
    pub(super) fn close_questions(&mut self, is: impl Fn(&RequestId, &Approval) -> bool, how: &str) {
        let closed: Vec<RequestId> =
            self.approvals.iter().filter(|(id, it)| is(id, it)).map(|(id, _)| *id).collect();
        for id in closed {
            let Some(open) = self.approvals.remove(&id) else { continue };
            self.closed_questions.push_back((id, open.end(how)));
            while self.closed_questions.len() > CLOSED_QUESTIONS {
                self.closed_questions.pop_front();
            }
        }
    }

    /// Says whether a limit is one that the leader has not heard of: of one without an end it hears once until a turn
    /// ends well.
    fn hears_of_limit(&mut self, until: Option<DateTime<Utc>>) -> bool {
        let known = match (self.limit_told, until) {
            (None, _) => false,
            (Some(Some(told)), Some(now)) => told == now,
            (Some(_), _) => true,
        };
        if !known {
            self.limit_told = Some(until);
        }
        !known
    }

    pub(super) fn stop(&mut self, at: At, cause: Cause) {
        self.state = SeatState::Stopped { cause };
        self.since = Some(at.ts);
        self.stopping = None;
        self.turn = None;
        self.close_questions(|_, _| true, EXITED);
        self.dirty = None;
        self.activity = at.activity(ActivityKind::Unknown, Some("stopped"), None);
    }
}
