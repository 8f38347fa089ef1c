//! Looks at programs that work and do not tell of every dialog that stops them.
//!
//! Knows what a reading of a screen says. Must not conclude from it that a program is idle.

use chrono::TimeDelta;
use team_model::{ActivityKind, Approval, Event, OFF_SCREEN, Proof};
use team_provider::{Composer, DialogKind};

use super::act::moved_on;
use super::core::Core;
use super::plan::SeatKey;
use crate::error::EngineError;
use crate::screen;

/// How long a dialog may take to be drawn once its question was told.
const DRAWN: TimeDelta = TimeDelta::seconds(3);

impl Core {
    /// A dialog that the program does not tell of stops its turn, or a question of its is gone.
    pub(super) fn look_at_work(&mut self, at: &SeatKey) -> Result<(), EngineError> {
        let now = self.clock.elapsed();
        if let Some(look) = self.seen.seats.get_mut(at) {
            look.work_looked = Some(now);
        }
        let (Some(pane), Some(spawn)) = (self.pane_of(at), self.spawn_of(at)) else { return Ok(()) };
        let Some(shown) = self.terminal.screen(pane)? else { return Ok(()) };
        let Some(seat) = self.store.state.teams.get(&at.0).and_then(|it| it.seats.get(&at.1)) else {
            return Ok(());
        };
        let Some(provider) = team_provider::provider(&seat.spec.provider) else { return Ok(()) };
        let reading = provider.read_screen(&screen::read(&shown));
        let has_box = matches!(reading.composer, Composer::Empty | Composer::Holds(_));
        let kind = seat.activity.kind;
        // A question is told before its dialog is drawn, and an answer by a key looks after its own.
        let drawn = self.clock.now() - DRAWN;
        let was_shown = |it: &Approval| it.answering.is_none() && it.since.is_none_or(|since| since < drawn);
        let observed = |activity, record: String, reason| Event::ActivityObserved {
            spawn,
            activity,
            reason,
            until: None,
            at: None,
            proof: Proof { source: "screen".to_owned(), record },
        };
        let event = match reading.dialog {
            Some(it) if it.kind == DialogKind::Limit && kind != ActivityKind::Limited => {
                observed(ActivityKind::Limited, it.name.clone(), Some(it.name))
            }
            None if has_box && !seat.approvals.is_empty() && seat.approvals.values().all(was_shown) => {
                Event::ApprovalClosed { spawn, request: None, key: None, how: OFF_SCREEN.to_owned() }
            }
            None if has_box && kind == ActivityKind::Limited => {
                observed(ActivityKind::Working, "the dialog is closed".to_owned(), None)
            }
            _ => return Ok(()),
        };
        let (key, turn) = (at.clone(), seat.turn.as_ref().map(|it| it.seq));
        self.decide(Some(&at.0), move |state| {
            // What was told meanwhile is newer than the screen.
            let seat = state.teams.get(&key.0).and_then(|it| it.seats.get(&key.1)).ok_or_else(moved_on)?;
            let same = seat.turn.as_ref().map(|it| it.seq) == turn && seat.activity.kind == kind;
            if same { Ok((vec![event], ())) } else { Err(moved_on()) }
        })
    }
}
