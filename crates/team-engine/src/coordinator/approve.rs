//! Permission questions: which of them a rule answers, and how an answer gets to the program.
//!
//! An answer is prepared, decided in the log, and then laid where the program's side waits for it, or pressed as a key
//! (`press.rs`). Whether it counted is for the program to say: its record closes the question.

use std::path::PathBuf;
use std::time::Duration;

use team_model::{ANSWERED, ActivityKind};
use team_model::{Approval, By, Decision, Event, IN_PANE, RequestId, Seat, TurnOutcome};

use super::core::Core;
use super::plan::{Action, Plan, SeatKey, Seen};
use crate::answers::{self, Answer};
use crate::decide::{self, AnswerCommand, Refusal};
use crate::error::EngineError;
use crate::grants::Grants;
use crate::wish;
use crate::workspace::Workspace;

/// How many questions about the team's own tools are allowed by themselves in one session.
const OWN_AT_MOST: u32 = 20;

/// What is to be done about a seat's questions.
pub(super) fn questions(plan: &mut Plan, at: &SeatKey, seat: &Seat, look: &Seen, now: Duration) {
    for (id, open) in seat.approvals.iter().filter(|(_, it)| it.key.is_some()) {
        let action = match &open.answering {
            None if !look.weighed.contains(id) => Action::Weigh(at.clone(), *id),
            Some(_) if open.by_keys => match look.pressing.get(id).map(|it| it.due).filter(|it| now < *it) {
                Some(due) => {
                    plan.at(due);
                    continue;
                }
                None => Action::AnswerByKey(at.clone(), *id),
            },
            Some(_) if !look.laid.contains(id) => Action::LayAnswer(at.clone(), *id),
            _ => continue,
        };
        plan.actions.push(action);
    }
}

impl Core {
    pub(super) fn question(
        &self,
        at: &SeatKey,
        id: RequestId,
    ) -> Option<(PathBuf, &Seat, &Approval, String)> {
        let seat = self.store.state.teams.get(&at.0)?.seats.get(&at.1)?;
        let open = seat.approvals.get(&id)?;
        let key = open.key.clone().filter(|it| answers::is_key(it))?;
        Some((self.workspace.seat_dir(at.0.as_str(), at.1.as_str()), seat, open, key))
    }

    /// Answers a question if a rule does: one of TEAM.md as the person started it, or that of our own tools. What was
    /// asked is read where the process noted it that asks, not in the log.
    pub(super) fn weigh(&mut self, at: &SeatKey, id: RequestId) -> Result<(), EngineError> {
        if let Some(look) = self.seen.seats.get_mut(at) {
            look.weighed.insert(id);
        }
        let Some((dir, seat, _, key)) = self.question(at, id) else { return Ok(()) };
        let Some(asked) = answers::asked(&dir, &key) else { return Ok(()) };
        let own = team_provider::provider(&seat.spec.provider).is_some_and(|it| it.is_own_tool(&asked.tool));
        let (decision, by, pattern) = if own {
            if seat.own_allowed >= OWN_AT_MOST {
                return Ok(());
            }
            (Decision::Allow, "own_tool", None)
        } else {
            let rules = wish::approvals(&self.workspace, &at.0);
            let Some(rule) = rules.rule(&asked.tool, &asked.input) else { return Ok(()) };
            // Taken back since the start, it is for a person again.
            if rule.allows && !Grants::read(&self.workspace).allows(&at.0, rule.pattern) {
                return Ok(());
            }
            let decision = if rule.allows { Decision::Allow } else { Decision::Deny };
            (decision, "rule", Some(rule.pattern.to_owned()))
        };
        let denied = |it: &String| format!("The team's rule {it} denies this.");
        let message = pattern.as_ref().filter(|_| decision == Decision::Deny).map(denied);
        let command = AnswerCommand {
            team: at.0.clone(),
            agent: at.1.to_string(),
            request: id,
            decision,
            by,
            pattern,
            message,
        };
        let by = self.by();
        match self.answer_question(&command, &by) {
            // Somebody was faster.
            Err(EngineError::Refused(refusal)) if refusal.code != "fenced" => Ok(()),
            other => other,
        }
    }

    /// Gives an answer, if it is the first one.
    pub(super) fn answer_question(&mut self, command: &AnswerCommand, by: &By) -> Result<(), EngineError> {
        let (events, to) = decide::answer_approval(&self.store.state, command)?;
        let at = (command.team.clone(), to.agent.clone());
        if events.is_empty() {
            if !to.by_keys {
                self.lay_answer(&at, command.request);
            }
            return Ok(());
        }
        let dir = self.workspace.seat_dir(at.0.as_str(), at.1.as_str());
        self.is_as_asked(&at, command.request, &to.key)?;
        if to.by_keys && answers::asked(&dir, &to.key).is_none() {
            return Err(decide::only_in_terminal(command, &at.1).into());
        }
        if !to.by_keys {
            let answer = Answer { decision: command.decision, message: command.message.clone() };
            answers::stage(&dir, &to.key, &answer)?;
        }
        self.fail.pass("answer", "before")?;
        let epoch = self.epoch();
        self.store.decide(self.clock.now(), by, Some(&at.0), |state| {
            if state.epoch > epoch {
                return Err(Refusal::new("fenced", "a newer coordinator has taken over"));
            }
            decide::answer_approval(state, command)
        })?;
        self.fail.pass("answer", "orphan")?;
        if to.by_keys {
            if let Some(look) = self.seen.seats.get_mut(&at) {
                look.pressing.remove(&command.request);
            }
        } else {
            self.lay_answer(&at, command.request);
        }
        self.fail.pass("answer", "after")?;
        Ok(())
    }

    /// A question that the log tells otherwise than the process that asks is not what somebody was shown.
    fn is_as_asked(&self, at: &SeatKey, id: RequestId, key: &str) -> Result<(), EngineError> {
        let dir = self.workspace.seat_dir(at.0.as_str(), at.1.as_str());
        // A program with a connection of its own has no such note.
        let Some(asked) = answers::asked(&dir, key) else { return Ok(()) };
        let told = match self.store.line(id.0)?.map(|it| it.event.0) {
            Some(Event::ApprovalRequested { tool, input, .. }) => (tool, input.unwrap_or_default()),
            _ => (String::new(), String::new()),
        };
        let same = told.0 == asked.tool && (told.1 == asked.input || told.1.contains(REDACTED));
        if same {
            return Ok(());
        }
        let message = format!("question {id} of `{}` is not what its program asks: look at it there", at.1);
        let words = format!("attach {} --type", at.1);
        Err(Refusal::new("not_as_asked", message)
            .with_hint(format!("run `{}`", decide::command_for(&words, &at.0)))
            .into())
    }

    /// Lays an answer that was decided, by us or by a coordinator before us.
    pub(super) fn lay_answer(&mut self, at: &SeatKey, id: RequestId) {
        if let Some(look) = self.seen.seats.get_mut(at) {
            look.laid.insert(id);
        }
        let Some((dir, _, open, key)) = self.question(at, id) else { return };
        let Some(decision) = open.answering.as_ref().map(|it| it.decision) else { return };
        answers::lay(&dir, &key, decision);
    }
}

/// Tells those who wait for an answer that a question is closed.
pub(super) fn end_questions(workspace: &Workspace, at: &SeatKey, seat: &Seat, look: &mut Seen) {
    if look.questions.is_empty() && seat.approvals.is_empty() {
        return;
    }
    let dir = workspace.seat_dir(at.0.as_str(), at.1.as_str());
    look.pressing.retain(|id, _| seat.approvals.contains_key(id));
    look.questions.retain(|id, key| {
        let open = seat.approvals.contains_key(id);
        if !open {
            answers::clear(&dir, key);
        }
        open
    });
    for (id, open) in &seat.approvals {
        if let Some(key) = open.key.clone().filter(|it| answers::is_key(it)) {
            look.questions.entry(*id).or_insert(key);
        }
    }
}

/// What stands in the log in place of a secret.
const REDACTED: &str = "[redacted]";

/// The program goes on, by its own record: its questions are answered, by what was laid for them or in its terminal.
pub(super) fn closed_by(seat: &Seat, seat_dir: &std::path::Path, events: &[Event]) -> Vec<Event> {
    let Some(spawn) = seat.spawn.as_ref().map(|it| it.id) else { return Vec::new() };
    let goes_on = |open: &Approval| {
        events.iter().any(|it| match it {
            Event::ActivityObserved {
                activity: ActivityKind::Working | ActivityKind::Idle,
                at: Some(at),
                ..
            } => open.since.is_some_and(|since| since < *at),
            Event::TurnEnded { outcome: TurnOutcome::Interrupted, .. } => true,
            _ => false,
        })
    };
    seat.approvals
        .iter()
        .filter(|(_, it)| goes_on(it))
        .map(|(id, open)| {
            let waits = open.key.as_ref().is_some_and(|it| answers::is_laid(seat_dir, it));
            let how = if open.answering.is_some() && !waits { ANSWERED } else { IN_PANE };
            Event::ApprovalClosed { spawn, request: Some(*id), key: open.key.clone(), how: how.to_owned() }
        })
        .collect()
}
