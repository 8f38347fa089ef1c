//! What decisions change in a team: its life, its seats, messages, tasks and results.
//!
//! Long: one arm per event of a team.

use super::At;
use crate::state::{
    Attempt, EXITED, Leader, Message, Question, Receipt, ReceiptStep, Report, Seat, SeatState, Session,
    Spawn, Task, Team, TeamState, Untold,
};
use crate::{
    ActivityKind, AgentName, Cause, Event, HoldReason, MessageId, NoticeCause, ReportStatus, ResultId,
    SeatSpec, SessionId, SpawnId,
};

/// How many notices wait for a leader at most; older ones are found in the log.
const UNTOLD: usize = 100;
/// How many ended tasks a seat remembers, so that a second report is recognised.
const CLOSED_TASKS: usize = 16;
/// How many settled messages stay that a leader may still read or that a late proof may still settle otherwise.
const KEPT_MESSAGES: usize = 100;

impl Team {
    pub(super) fn apply(&mut self, at: At, event: &Event) {
        match event {
            Event::TeamStopPlanned {} => self.state = TeamState::Stopping,
            Event::TeamStopped { .. } => {
                self.state = TeamState::Stopped;
                let stopped =
                    |it: &Seat| matches!(it.state, SeatState::Stopped { .. } | SeatState::Failed { .. });
                for seat in self.seats.values_mut().filter(|it| !stopped(it)) {
                    seat.stop(at, Cause::Shutdown);
                }
            }
            Event::TeamLost { why } => {
                self.state = TeamState::Lost;
                for seat in self.seats.values_mut().filter(|it| it.state.is_live()) {
                    seat.stop(at, Cause::Lost);
                    seat.activity.reason = Some(why.clone());
                }
            }
            Event::LeaderBound { leader } => {
                self.leader = Leader { bound: Some(leader.clone()), ..Leader::default() };
            }
            Event::LeaderLost { why } => {
                self.leader = Leader { lost: Some(why.clone()), ..Leader::default() };
            }
            Event::LeaderTelling { through } => self.leader.telling = Some(*through),
            Event::LeaderTold { through, .. } => {
                self.leader.telling = None;
                self.untold.retain(|it| it.seq > *through);
            }
            Event::LeaderNotTold { .. } => self.leader.telling = None,
            Event::AgentRemoved { agent } => {
                self.seats.remove(agent);
            }
            Event::AgentAdded { agent, origin, manager, lead, spec, .. } => {
                self.add_seat(at, agent, (*origin, manager.clone(), *lead), spec);
            }
            Event::AgentQueued { .. }
            | Event::AgentStopPlanned { .. }
            | Event::AgentStopped { .. }
            | Event::AgentFailed { .. }
            | Event::SpawnPlanned { .. }
            | Event::RestartFreshSpawn { .. }
            | Event::LaneCleared { .. } => self.apply_to_seat(at, event),
            Event::MessageAccepted { .. } => self.accept(at, event),
            Event::MessageHeld { id, receiver, why } => self.receipt(id, receiver, |it| {
                it.step = ReceiptStep::Held;
                it.held = Some(*why);
            }),
            Event::MessageSending { id, receiver, attempt, channel, spawn, .. } => {
                self.receipt(id, receiver, |it| {
                    it.step = ReceiptStep::Sending;
                    it.held = None;
                    it.attempts = *attempt;
                    it.attempt =
                        Some(Attempt { spawn: *spawn, channel: *channel, seq: at.seq, since: Some(at.ts) });
                });
            }
            Event::MessageSubmitted { id, receiver, in_turn, .. } => self.submitted(id, receiver, *in_turn),
            Event::MessageNotSent { id, receiver, attempt, .. } => self.receipt(id, receiver, |it| {
                if it.attempts == *attempt && it.step == ReceiptStep::Sending {
                    it.step = ReceiptStep::Accepted;
                }
            }),
            Event::MessageUnknown { id, receiver, attempt, why, staged } => {
                let mut counted = false;
                self.receipt(id, receiver, |it| {
                    counted = it.attempts == *attempt && !it.step.is_settled();
                    if counted {
                        it.step = ReceiptStep::Unknown;
                        it.why = Some(why.clone());
                    }
                });
                if counted
                    && *staged
                    && let Some(seat) = self.seats.get_mut(receiver)
                {
                    seat.dirty = Some(id.clone());
                }
                self.settle();
            }
            Event::MessageAgain { id, receiver } => self.receipt(id, receiver, |it| {
                if it.step.may_become(ReceiptStep::Accepted) && it.step.is_settled() {
                    it.step = ReceiptStep::Accepted;
                    it.why = None;
                }
            }),
            Event::MessageReturned { id, receiver, why } => {
                self.close(id, receiver, ReceiptStep::Returned, why);
            }
            Event::MessageRefused { id, receiver, why } => {
                self.close(id, receiver, ReceiptStep::Refused, why);
            }
            Event::MessageWithdrawn { id, receiver, why } => {
                self.close(id, receiver, ReceiptStep::Withdrawn, why);
            }
            Event::TaskCreated { .. } => self.create_task(at, event),
            Event::TaskCompleted { id, .. }
            | Event::TaskFailed { id, .. }
            | Event::TaskCanceled { id, .. } => {
                self.end_task(*id);
            }
            Event::TaskReleased { id, .. } => {
                if let Some(task) = self.tasks.get_mut(id) {
                    task.owner = None;
                    task.in_progress = false;
                    task.version += 1;
                }
            }
            Event::McpReportResult { id, agent, status, task, .. } => {
                self.report(at, *id, agent, *status, *task);
            }
            Event::CollectResult { results } => {
                for id in results {
                    if self.results.uncollected.remove(id).is_some() {
                        self.results.collected += 1;
                    }
                    // What was read already is no news for a leader that comes later.
                    let about = id.to_string();
                    self.untold.retain(|it| it.cause != NoticeCause::Result || it.about != about);
                }
            }
            Event::HumanAsked { id, agent, question, .. } => {
                let question = question.chars().take(200).collect();
                let asked = Question { seq: at.seq, agent: agent.clone(), question, since: Some(at.ts) };
                self.questions.insert(*id, asked);
                self.tell(at, NoticeCause::Human, &id.to_string());
            }
            Event::HumanAnswered { id, .. } => {
                self.questions.remove(id);
                let about = id.to_string();
                self.untold.retain(|it| it.cause != NoticeCause::Human || it.about != about);
            }
            Event::NoticeRaised { cause, about } => {
                self.tell(at, *cause, about);
                self.notices.insert((*cause, about.clone()));
                while self.notices.len() > 500 {
                    self.notices.pop_first();
                }
            }
            _ => {}
        }
    }

    fn add_seat(
        &mut self,
        at: At,
        agent: &AgentName,
        (origin, manager, lead): (crate::Origin, Option<AgentName>, bool),
        spec: &SeatSpec,
    ) {
        let mut spec = spec.clone();
        spec.instructions.text = None;
        // A seat that is added again keeps its name, inbox and conversation.
        if let Some(seat) = self.seats.get_mut(agent) {
            seat.added = at.seq;
            seat.spec = spec;
            seat.manager = manager;
            seat.lead = lead;
            return;
        }
        let seat = Seat {
            added: at.seq,
            origin,
            manager,
            lead,
            spec,
            state: SeatState::Added,
            since: Some(at.ts),
            stopping: None,
            session: None,
            spawn: None,
            activity: at.activity(ActivityKind::Unknown, Some("not started"), None),
            turn: None,
            last_turn: None,
            turns: 0,
            approvals: std::collections::BTreeMap::new(),
            closed_questions: std::collections::VecDeque::new(),
            own_allowed: 0,
            limit_told: None,
            unsupported: None,
            dirty: None,
            last_lines: Vec::new(),
            closed: std::collections::VecDeque::new(),
        };
        self.seats.insert(agent.clone(), seat);
    }

    fn apply_to_seat(&mut self, at: At, event: &Event) {
        let (Event::AgentQueued { agent, .. }
        | Event::AgentStopPlanned { agent, .. }
        | Event::AgentStopped { agent, .. }
        | Event::AgentFailed { agent, .. }
        | Event::SpawnPlanned { agent, .. }
        | Event::RestartFreshSpawn { agent, .. }
        | Event::LaneCleared { agent, .. }) = event
        else {
            return;
        };
        let Some(seat) = self.seats.get_mut(agent) else { return };
        match event {
            Event::AgentQueued { mode, .. } => {
                seat.state = SeatState::Waiting { mode: *mode };
                seat.since = Some(at.ts);
                seat.stopping = None;
                seat.last_lines.clear();
                seat.activity = at.activity(ActivityKind::Unknown, Some("waiting to start"), None);
            }
            Event::AgentStopPlanned { cause, .. } => seat.stopping = Some(*cause),
            Event::AgentStopped { cause, .. } => {
                seat.stop(at, *cause);
                let agent = agent.clone();
                self.drop_attempts(&agent);
            }
            Event::AgentFailed { why, last_lines, .. } => {
                seat.state = SeatState::Failed { why: why.clone() };
                seat.since = Some(at.ts);
                seat.stopping = None;
                seat.turn = None;
                seat.close_questions(|_, _| true, EXITED);
                seat.last_lines.clone_from(last_lines);
                seat.activity = at.activity(ActivityKind::Unknown, Some("failed"), None);
                let agent = agent.clone();
                self.drop_attempts(&agent);
            }
            Event::SpawnPlanned { mode, session, native, needs, channel, seat: file, notes, .. } => {
                let id = session.unwrap_or(SessionId(at.seq));
                let known = seat.session.as_ref().filter(|it| it.id == id).cloned();
                seat.session = Some(match known {
                    Some(known) => Session { native: native.clone().or(known.native), ..known },
                    None => Session { id, native: native.clone(), proved: false, used: false },
                });
                seat.spawn = Some(Spawn {
                    id: SpawnId(at.seq),
                    mode: *mode,
                    channel: *channel,
                    seat: file.clone(),
                    planned: Some(at.ts),
                    pane: None,
                    pane_pid: None,
                    claimed: None,
                    provider: None,
                    version: None,
                    needs: needs.iter().copied().collect(),
                    pressed: 0,
                    notes: notes.clone(),
                    tools: None,
                    tools_lost: false,
                    exited: None,
                });
                seat.state = SeatState::Starting;
                seat.since = Some(at.ts);
                seat.dirty = None;
                seat.turn = None;
                seat.own_allowed = 0;
                seat.activity = at.activity(ActivityKind::Unknown, Some("starting"), None);
            }
            Event::LaneCleared { .. } => seat.dirty = None,
            Event::RestartFreshSpawn { .. } => {
                seat.session = None;
                seat.turns = 0;
            }
            _ => {}
        }
    }

    /// A seat that ended can no longer prove anything: what was on its way is unknown.
    fn drop_attempts(&mut self, agent: &AgentName) {
        for message in self.messages.values_mut() {
            if let Some(receipt) = message.receipts.get_mut(agent) {
                match receipt.step {
                    ReceiptStep::Submitted | ReceiptStep::TurnStarted => {
                        receipt.step = ReceiptStep::Unknown;
                        receipt.why = Some(super::CUT_OFF.to_owned());
                    }
                    ReceiptStep::Sending => {
                        receipt.step = ReceiptStep::Unknown;
                        receipt.why = Some("the session ended while it was handed over".to_owned());
                    }
                    ReceiptStep::Held => receipt.held = Some(HoldReason::NoSession),
                    _ => {}
                }
            }
        }
        self.settle();
    }

    fn accept(&mut self, at: At, event: &Event) {
        let Event::MessageAccepted {
            id,
            kind,
            from,
            to,
            to_leader,
            addressed,
            task,
            reply_to,
            request,
            case_id,
            body,
            ..
        } = event
        else {
            return;
        };
        let receipt =
            Receipt { step: ReceiptStep::Accepted, held: None, attempts: 0, attempt: None, why: None };
        let message = Message {
            id: id.clone(),
            kind: *kind,
            from: from.clone(),
            addressed: addressed.clone(),
            task: *task,
            reply_to: reply_to.clone(),
            request: *request,
            case_id: case_id.clone(),
            body: body.reference(),
            since: Some(at.ts),
            to_leader: *to_leader,
            receipts: to.iter().map(|it| (it.clone(), receipt.clone())).collect(),
        };
        self.messages.insert(at.seq, message);
        if *to_leader {
            self.tell(at, NoticeCause::Message, &id.to_string());
        }
        self.settle();
    }

    pub(super) fn tell(&mut self, at: At, cause: NoticeCause, about: &str) {
        self.untold.push_back(Untold { seq: at.seq, cause, about: about.to_owned() });
        while self.untold.len() > UNTOLD {
            self.untold.pop_front();
        }
    }

    pub(super) fn receipt(
        &mut self,
        id: &MessageId,
        receiver: &AgentName,
        change: impl FnOnce(&mut Receipt),
    ) {
        let message = match id {
            MessageId::Seq(seq) => self.messages.get_mut(seq),
            MessageId::Own(_) => self.messages.values_mut().find(|it| it.id == *id),
        };
        if let Some(receipt) = message.and_then(|it| it.receipts.get_mut(receiver)) {
            change(receipt);
        }
    }

    pub(super) fn submitted(&mut self, id: &MessageId, receiver: &AgentName, in_turn: bool) {
        let present = self.seats.get(receiver).and_then(|it| it.spawn.as_ref()).map(|it| it.id);
        let of_earlier = |it: &Receipt| it.attempt.as_ref().is_some_and(|it| Some(it.spawn) != present);
        if self.message(id).and_then(|it| it.receipts.get(receiver)).is_some_and(of_earlier) {
            // A conversation that goes on tells again what an earlier session was given; not what became of it.
            return;
        }
        self.receipt(id, receiver, |it| {
            // Only what was sent can have come: a text that names another message proves nothing.
            let lost = matches!(it.step, ReceiptStep::Unknown | ReceiptStep::Returned);
            if it.attempts > 0 && (!it.step.is_settled() || lost) {
                let least = if lost { ReceiptStep::Submitted } else { it.step };
                it.step = if in_turn { ReceiptStep::TurnStarted } else { ReceiptStep::Submitted.max(least) };
                it.held = None;
                it.why = None;
            }
        });
        let Some(seat) = self.seats.get_mut(receiver) else { return };
        if seat.dirty.as_ref() == Some(id) {
            seat.dirty = None;
        }
        let spawn = seat.spawn.as_ref().map(|it| it.id);
        // A record that is read late tells of a turn that has ended since.
        let ended = in_turn && seat.turn.is_none();
        if in_turn
            && let Some(turn) = &mut seat.turn
            && !turn.messages.contains(id)
        {
            turn.messages.push(id.clone());
        }
        let task = self.message(id).and_then(|it| it.task);
        if let Some(task) = task.and_then(|it| self.tasks.get_mut(&it))
            && task.owner.as_ref() == Some(receiver)
        {
            task.in_progress |= in_turn;
            task.spawn = spawn;
        }
        if ended {
            self.receipt(id, receiver, |it| {
                if it.step == ReceiptStep::TurnStarted {
                    it.step = ReceiptStep::Answered;
                }
            });
            self.settle();
        }
    }

    fn close(&mut self, id: &MessageId, receiver: &AgentName, step: ReceiptStep, why: &str) {
        self.receipt(id, receiver, |it| {
            if !it.step.is_settled() {
                it.step = step;
                it.held = None;
                it.why = Some(why.to_owned());
            }
        });
        self.settle();
    }

    fn create_task(&mut self, at: At, event: &Event) {
        let Event::TaskCreated { id, creator, subject, owner, depends_on, closes_on, run, message, case_id } =
            event
        else {
            return;
        };
        self.last_task = self.last_task.max(id.0);
        let task = Task {
            subject: subject.clone(),
            creator: creator.clone(),
            owner: owner.clone(),
            closes_on: *closes_on,
            message: message.clone(),
            case_id: case_id.clone(),
            run: *run,
            depends_on: depends_on.clone(),
            version: 1,
            in_progress: false,
            spawn: None,
            since: Some(at.ts),
        };
        self.tasks.insert(*id, task);
    }

    fn end_task(&mut self, id: crate::TaskId) {
        let Some(task) = self.tasks.remove(&id) else { return };
        if let Some(seat) = task.owner.as_ref().and_then(|it| self.seats.get_mut(it)) {
            seat.closed.push_back((id, task.message.clone()));
            while seat.closed.len() > CLOSED_TASKS {
                seat.closed.pop_front();
            }
        }
        // A result that names the task answers its brief.
        if let (Some(message), Some(owner)) = (task.message, task.owner) {
            self.receipt(&message, &owner, |it| {
                if matches!(it.step, ReceiptStep::Submitted | ReceiptStep::TurnStarted) {
                    it.step = ReceiptStep::Answered;
                }
            });
            self.settle();
        }
    }

    fn report(
        &mut self,
        at: At,
        id: ResultId,
        agent: &str,
        status: ReportStatus,
        task: Option<crate::TaskId>,
    ) {
        self.results.total += 1;
        if matches!(status, ReportStatus::Failed | ReportStatus::Blocked) {
            self.results.failed += 1;
        }
        self.tell(at, NoticeCause::Result, &id.to_string());
        let report = Report { seq: at.seq, agent: agent.to_owned(), status, task };
        self.results.uncollected.insert(id, report);
    }

    /// Lets messages leave whose receipts can change no more.
    pub(super) fn settle(&mut self) {
        let done = |it: &Message| it.receipts.values().all(|it| it.step.is_settled());
        // A leader has yet to read it, a late proof may still come, or its turn ended otherwise than by an answer.
        let kept = |it: &Message| {
            let told_more = |it: &Receipt| match it.step {
                ReceiptStep::Unknown | ReceiptStep::Returned => true,
                ReceiptStep::Answered => it.why.is_some(),
                _ => false,
            };
            it.to_leader || it.receipts.values().any(told_more)
        };
        let settled = || self.messages.iter().filter(|(_, it)| done(it));
        let mut gone: Vec<u64> = settled().filter(|(_, it)| !kept(it)).map(|(seq, _)| *seq).collect();
        let waiting: Vec<u64> = settled().filter(|(_, it)| kept(it)).map(|(seq, _)| *seq).collect();
        gone.extend(&waiting[..waiting.len().saturating_sub(KEPT_MESSAGES)]);
        for seq in gone {
            if let Some(message) = self.messages.remove(&seq) {
                for receipt in message.receipts.values() {
                    *self.settled.entry(receipt.step.as_str().to_owned()).or_default() += 1;
                }
            }
        }
    }
}
