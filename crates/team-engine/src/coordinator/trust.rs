//! A program that asks whether a folder is trusted although a person has granted it: one key, where exactly that is asked.
//!
//! The key is announced first, and pressed in one step with a check that the dialog stands there as it was read. That it is
//! gone is proof enough, the start goes on by itself. After two tries the question is a person's.

use std::path::PathBuf;
use std::time::Duration;

use team_model::Event;
use team_provider::{AnswerKey, Dialog, DialogKind, Provider};
use team_tmux::{Guard, Key, Pane, Press, Screen};

use super::act::moved_on;
use super::core::Core;
use super::plan::SeatKey;
use crate::error::EngineError;
use crate::grants::Grants;
use crate::screen;
use crate::seat_file::SeatFile;

/// How often the key is pressed in one start at most.
const PRESSES: u32 = 2;
/// How long a pressed key may take to close its dialog.
const EFFECT: Duration = Duration::from_millis(1500);

impl Core {
    /// Answers a dialog at a start for the person who has done so beforehand; says whether nobody else need see to it now.
    pub(super) fn settle_trust(
        &mut self,
        at: &SeatKey,
        provider: &dyn Provider,
        dialog: &Dialog,
        shown: &Screen,
        pane: Pane,
    ) -> Result<bool, EngineError> {
        if dialog.kind != DialogKind::Trust {
            return Ok(false);
        }
        let Some((folder, presses)) = self.folder_of(at) else { return Ok(false) };
        if !Grants::read(&self.workspace).trusts(&self.workspace, &folder) {
            return Ok(false);
        }
        let Some(question) = provider.read_trust(&screen::read(shown), &folder) else { return Ok(false) };
        let AnswerKey::Digit(digit) = question.allow else { return Ok(false) };
        let now = self.clock.elapsed();
        let pressed = self.seen.seats.get(at).and_then(|it| it.trust_pressed);
        if pressed.is_some_and(|it| now < it + EFFECT) {
            return Ok(true);
        }
        if presses >= PRESSES || shown.in_mode {
            return Ok(false);
        }
        if shown.attached > 0 && self.may_be_typed_into(Some(pane))? {
            return Ok(false);
        }
        let name = dialog.name.clone();
        self.fail.pass("trust", "before")?;
        self.decide(Some(&at.0), |state| {
            let seat = state.teams.get(&at.0).and_then(|it| it.seats.get(&at.1)).ok_or_else(moved_on)?;
            let spawn = seat.spawn.as_ref().filter(|_| seat.stopping.is_none()).ok_or_else(moved_on)?;
            Ok((vec![Event::DialogPressing { spawn: spawn.id, dialog: name, attempt: presses + 1 }], ()))
        })?;
        let guard = Guard { only_if: question.rows, unless: Vec::new(), cursor: Some(shown.cursor) };
        self.terminal.press(&[Press { guard, ..Press::plain(pane, Key::Digit(digit)) }])?;
        self.fail.pass("trust", "after")?;
        if let Some(look) = self.seen.seats.get_mut(at) {
            look.trust_pressed = Some(self.clock.elapsed());
        }
        Ok(true)
    }

    /// The folder in which a seat was started, and how often a key was announced for its question.
    fn folder_of(&self, at: &SeatKey) -> Option<(PathBuf, u32)> {
        let spawn = self.store.state.teams.get(&at.0)?.seats.get(&at.1)?.spawn.as_ref()?;
        let file = self.workspace.seat_dir(at.0.as_str(), at.1.as_str()).join(&spawn.seat);
        Some((SeatFile::read(&file).ok()?.cwd, spawn.pressed))
    }
}
