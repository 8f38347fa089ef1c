//! What follows a paste: Enter where the text shows and nothing else does, looks while no receipt comes, and the end of
//! patience.

use std::time::Duration;

use team_model::{Event, HoldReason, Proof};
use team_provider::Composer;
use team_tmux::{Guard, Key, Pane, Press, Pressed};

use super::composer::shows;
use super::conclude::entered_mark;
use super::core::Core;
use super::plan::{Lane, SeatKey};
use crate::error::EngineError;

impl Core {
    /// Says what a seat's composer shows of the text that was pasted into it.
    fn staged(&self, at: &SeatKey, shown: &team_tmux::Screen) -> Staged {
        let (Some(Composer::Holds(held)), None) = self.composer(at, shown) else { return Staged::Nothing };
        match self.seen.seats.get(at).map(|it| &it.lane) {
            Some(Lane::Typed(typed)) if shows(&held, &typed.text) => Staged::Ours,
            _ => Staged::Another,
        }
    }

    /// Presses Enter where the pasted text shows and nothing else does.
    pub(super) fn enter(&mut self, seats: &[SeatKey]) -> Result<(), EngineError> {
        let now = self.clock.elapsed();
        let at: Vec<(SeatKey, Pane)> =
            seats.iter().filter_map(|it| Some((it.clone(), self.pane_of(it)?))).collect();
        let panes: Vec<Pane> = at.iter().map(|(_, pane)| *pane).collect();
        let shown = self.terminal.screens(&panes)?;
        let mut presses = Vec::new();
        let mut pressed_at = Vec::new();
        for ((seat, pane), shown) in at.into_iter().zip(shown) {
            let ready = shown.filter(|it| self.staged(&seat, it) == Staged::Ours);
            if let Some(shown) = ready {
                let guard = Guard { cursor: Some(shown.cursor), ..Guard::default() };
                let mark = match self.seen.seats.get(&seat).map(|it| &it.lane) {
                    Some(Lane::Typed(typed)) => self.announced(&seat, &typed.ids).map(entered_mark),
                    _ => None,
                };
                presses.push(Press { mark, guard, ..Press::plain(pane, Key::Enter) });
                pressed_at.push(seat);
            } else if let Some(Lane::Typed(typed)) = self.seen.seats.get_mut(&seat).map(|it| &mut it.lane) {
                // It does not show yet, or a dialog has opened: no key, look again.
                typed.touched = now + SHOW_AGAIN;
                typed.staged = true;
            }
        }
        if presses.is_empty() {
            return Ok(());
        }
        self.fail.pass("enter", "before")?;
        let results = self.terminal.press(&presses)?;
        self.fail.pass("enter", "orphan")?;
        for (seat, result) in pressed_at.iter().zip(results) {
            if let Some(Lane::Typed(typed)) = self.seen.seats.get_mut(seat).map(|it| &mut it.lane) {
                if result == Pressed::Done {
                    typed.entered.get_or_insert(now);
                    typed.presses += 1;
                    typed.touched = now;
                } else {
                    typed.touched = now + SHOW_AGAIN;
                }
            }
        }
        self.fail.pass("enter", "after")?;
        Ok(())
    }

    /// No receipt has come. Enter goes again only if this very text still stands in the composer of an idle program.
    pub(super) fn look(&mut self, at: &SeatKey) -> Result<(), EngineError> {
        let now = self.clock.elapsed();
        let Some(pane) = self.pane_of(at) else { return Ok(()) };
        let shown = self.terminal.screen(pane)?;
        let staged = shown.as_ref().map_or(Staged::Nothing, |it| self.staged(at, it));
        let idle = self
            .store
            .state
            .teams
            .get(&at.0)
            .and_then(|it| it.seats.get(&at.1))
            .is_some_and(team_model::Seat::is_idle);
        let mut again = false;
        if let Some(Lane::Typed(typed)) = self.seen.seats.get_mut(at).map(|it| &mut it.lane) {
            typed.touched = now;
            typed.staged = staged != Staged::Nothing;
            again = staged == Staged::Ours && idle;
        }
        if again { self.enter(std::slice::from_ref(at)) } else { Ok(()) }
    }

    /// The time for a proof is over.
    pub(super) fn give_up(&mut self, at: &SeatKey) -> Result<(), EngineError> {
        let lane = self.seen.seats.get(at).map(|it| it.lane.clone()).unwrap_or_default();
        match lane {
            Lane::Free => Ok(()),
            Lane::Typed(typed) => {
                let pane = self.pane_of(at);
                let shown = match pane {
                    Some(pane) => self.terminal.screen(pane)?,
                    None => None,
                };
                let empty = shown
                    .as_ref()
                    .is_some_and(|it| matches!(self.composer(at, it), (Some(Composer::Empty), None)));
                let another = shown.as_ref().is_some_and(|it| self.staged(at, it) == Staged::Another);
                let why = match (typed.entered.is_some(), empty) {
                    (false, _) if another => {
                        "the composer holds more than the text that was pasted; Enter was not pressed"
                    }
                    (true, true) => "Enter was pressed and the composer is empty, but no turn was seen",
                    (true, false) => "Enter was pressed, but the text may still stand in the composer",
                    (false, _) => "the text was pasted and never seen in the composer; Enter was not pressed",
                };
                self.close_attempts(at, why, !(empty && typed.entered.is_some()), false)
            }
            Lane::Rung { ids, .. } => self.unheard(at, &ids),
        }
    }

    /// Looks whether a composer that may hold an earlier text is empty now.
    pub(super) fn prove(&mut self, at: &SeatKey) -> Result<(), EngineError> {
        let now = self.clock.elapsed();
        let Some(pane) = self.pane_of(at) else { return Ok(()) };
        let shown = self.terminal.screen(pane)?;
        let empty =
            shown.as_ref().is_some_and(|it| matches!(self.composer(at, it), (Some(Composer::Empty), None)));
        if let Some(look) = self.seen.seats.get_mut(at) {
            look.block((!empty).then_some(HoldReason::Dirty), now);
        }
        if !empty {
            return Ok(());
        }
        let proof = Proof { source: "screen".to_owned(), record: "the composer is empty".to_owned() };
        self.fail.pass("clear", "before")?;
        self.record(Some(&at.0), vec![Event::LaneCleared { agent: at.1.clone(), proof }])
    }
}

/// What a composer shows of a pasted text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Staged {
    /// The text and nothing else.
    Ours,
    /// Something else, or more.
    Another,
    /// No text, or there is no composer.
    Nothing,
}

/// How long to wait before a composer that does not show its text yet is read again.
const SHOW_AGAIN: Duration = Duration::from_millis(15);
