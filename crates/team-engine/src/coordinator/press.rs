//! Answering a permission question by the one key that its dialog takes: the single exception from the law that no key
//! goes to a dialog.
//!
//! A hook has told the question, the screen shows that very one, nobody is at the terminal and nothing of ours is on its
//! way into it: only then the key is announced and pressed, in one step with a check that these rows still stand there.
//! Then the program's record decides. Must not guess: what is not known is said to be so.

use std::time::Duration;

use team_model::{Channel, Decision, Event, OFF_SCREEN, ReceiptStep, RequestId};
use team_provider::{AnswerKey, Composer, Provider, Question};
use team_tmux::{Guard, Key, Pane, Press, Pressed, Screen};

use super::act::moved_on;
use super::core::Core;
use super::plan::{Lane, SeatKey};
use crate::answers::{self, Asked};
use crate::decide::Refusal;
use crate::error::EngineError;
use crate::screen;

/// How long a question that was told may take to stand on the screen.
const SHOW: Duration = Duration::from_secs(4);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(100);
/// How long a pressed key may leave its dialog as it was.
const UNCHANGED: Duration = Duration::from_secs(2);
/// How long the program's record may take once the dialog is gone.
const RECORD: Duration = Duration::from_secs(1);
/// After what time of no known screen, or of a record that says otherwise, nobody knows.
const UNKNOWN: Duration = Duration::from_secs(6);
/// How often a key is pressed for one answer at most.
const PRESSES: u32 = 2;

/// How far an answer by a key has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pressing {
    /// When this coordinator took it up.
    pub since: Duration,
    /// When to look next.
    pub due: Duration,
    /// How often the key was pressed.
    pub presses: u32,
    /// When it was last pressed, as far as this coordinator knows.
    pub pressed: Duration,
    /// Since when its dialog is gone.
    pub gone: Option<Duration>,
}

/// What a screen says of a question.
enum Sight {
    /// It is there, and the cursor stands here.
    Shown(Box<Question>, (u16, u16)),
    /// Something else is certainly there.
    Elsewhere,
    /// Nobody can say.
    Unclear,
}

impl Core {
    /// Takes the next step of an answer that is given by a key.
    pub(super) fn answer_by_key(&mut self, at: &SeatKey, id: RequestId) -> Result<(), EngineError> {
        let now = self.clock.elapsed();
        let mut pressing = match self.seen.seats.get(at).and_then(|it| it.pressing.get(&id)) {
            Some(known) => known.clone(),
            None => self.begun(at, id, now)?,
        };
        pressing.due = now + LOOK;
        let done = self.step(at, id, &mut pressing, now);
        if let Some(look) = self.seen.seats.get_mut(at) {
            look.pressing.insert(id, pressing);
        }
        done
    }

    /// What an earlier coordinator did for this answer: the pane remembers a key.
    fn begun(&mut self, at: &SeatKey, id: RequestId, now: Duration) -> Result<Pressing, EngineError> {
        let fresh = Pressing { since: now, pressed: now, ..Pressing::default() };
        let Some(pane) = self.pane_of(at) else { return Ok(fresh) };
        let typed = self.terminal.panes()?.into_iter().find(|it| it.pane == pane).and_then(|it| it.typed);
        let presses = (1..=PRESSES).find(|it| typed.as_deref() == Some(&*pressed_mark(id, *it)));
        Ok(Pressing { presses: presses.unwrap_or_default(), ..fresh })
    }

    fn step(
        &mut self,
        at: &SeatKey,
        id: RequestId,
        pressing: &mut Pressing,
        now: Duration,
    ) -> Result<(), EngineError> {
        let Some((dir, seat, open, key)) = self.question(at, id) else { return Ok(()) };
        let Some(decision) = open.answering.as_ref().map(|it| it.decision) else { return Ok(()) };
        let Some(provider) = team_provider::provider(&seat.spec.provider) else { return Ok(()) };
        let Some(pane) = self.pane_of(at) else { return Ok(()) };
        let Some(asked) = answers::asked(&dir, &key) else {
            return self.not_given(at, id, "nothing is noted of what its program asked", pressing);
        };
        let Some(shown) = self.terminal.screen(pane)? else { return Ok(()) };
        let sight = self.sight(at, id, provider, &asked, &shown);
        if pressing.presses == 0 {
            return match self.obstacle(at, provider, &asked, &sight, &shown, pane)? {
                None => self.press_key(at, id, pressing, decision, &sight, pane),
                Some(why) if now >= pressing.since + SHOW => self.not_given(at, id, why, pressing),
                Some(_) => Ok(()),
            };
        }
        match sight {
            Sight::Shown(..) if now < pressing.pressed + UNCHANGED => Ok(()),
            Sight::Shown(..) if pressing.presses >= PRESSES => {
                self.not_given(at, id, "its key was pressed twice, and the dialog is still there", pressing)
            }
            Sight::Shown(..) => match self.obstacle(at, provider, &asked, &sight, &shown, pane)? {
                None => self.press_key(at, id, pressing, decision, &sight, pane),
                Some(why) if now >= pressing.pressed + UNKNOWN => {
                    let why = format!("its key was pressed once, the dialog is still there, and {why}");
                    self.not_given(at, id, &why, pressing)
                }
                Some(_) => Ok(()),
            },
            Sight::Elsewhere => {
                let gone = *pressing.gone.get_or_insert(now);
                let open = self.in_record(at, provider, &asked) == Some(true);
                if !open && now >= gone + RECORD {
                    self.off_screen(at, id)
                } else if now >= gone + UNKNOWN {
                    let why =
                        "its key was pressed and its dialog is gone, but its record says that it still asks";
                    self.not_given(at, id, why, pressing)
                } else {
                    Ok(())
                }
            }
            Sight::Unclear if now >= pressing.pressed + UNKNOWN => {
                let why = "its key was pressed, and nobody can say what its screen shows";
                self.not_given(at, id, why, pressing)
            }
            Sight::Unclear => Ok(()),
        }
    }

    /// Says whether the screen shows the question that was told, and none that another open one might be: a program that
    /// asks the same again shows the same dialog.
    fn sight(
        &self,
        at: &SeatKey,
        id: RequestId,
        provider: &dyn Provider,
        asked: &Asked,
        shown: &Screen,
    ) -> Sight {
        let screen = screen::read(shown);
        let is_about = |question: &Question, it: &Asked| provider.is_about(question, &it.tool, &it.input);
        if let Some(question) = provider.read_question(&screen) {
            let seat = self.store.state.teams.get(&at.0).and_then(|it| it.seats.get(&at.1));
            let dir = self.workspace.seat_dir(at.0.as_str(), at.1.as_str());
            let others =
                seat.into_iter().flat_map(|it| it.approvals.iter().filter(|(other, _)| **other != id));
            let mut notes = others.filter_map(|(_, it)| {
                answers::asked(&dir, it.key.as_deref().filter(|it| answers::is_key(it))?)
            });
            return match (is_about(&question, asked), notes.any(|it| is_about(&question, &it))) {
                (true, false) => Sight::Shown(Box::new(question), shown.cursor),
                (true, true) => Sight::Unclear,
                (false, _) => Sight::Elsewhere,
            };
        }
        let reading = provider.read_screen(&screen);
        match (reading.composer, reading.dialog) {
            (Composer::Empty | Composer::Holds(_), _) | (_, Some(_)) => Sight::Elsewhere,
            _ => Sight::Unclear,
        }
    }

    /// What speaks against pressing the key now.
    fn obstacle(
        &mut self,
        at: &SeatKey,
        provider: &dyn Provider,
        asked: &Asked,
        sight: &Sight,
        shown: &Screen,
        pane: Pane,
    ) -> Result<Option<&'static str>, EngineError> {
        if !matches!(sight, Sight::Shown(..)) {
            return Ok(Some("the question is not on its screen"));
        }
        if shown.in_mode {
            return Ok(Some("its terminal is in a mode of tmux"));
        }
        if shown.attached > 0 && self.may_be_typed_into(Some(pane))? {
            return Ok(Some("somebody is at its terminal and may be typing"));
        }
        let typed = self.seen.seats.get(at).is_some_and(|it| matches!(it.lane, Lane::Typed(_)));
        if typed || self.is_typed_to(at) {
            return Ok(Some("a message may stand in its input box"));
        }
        if self.in_record(at, provider, asked) == Some(false) {
            return Ok(Some("its program's record does not hold the question"));
        }
        Ok(None)
    }

    /// Says whether a message is on its way to a seat by keys, whoever sends it.
    fn is_typed_to(&self, at: &SeatKey) -> bool {
        let team = self.store.state.teams.get(&at.0);
        let receipts =
            team.into_iter().flat_map(|it| it.messages.values()).filter_map(|it| it.receipts.get(&at.1));
        let by_keys = |it: &team_model::Receipt| {
            it.step == ReceiptStep::Sending
                && it.attempt.as_ref().is_some_and(|it| it.channel == Channel::Keys)
        };
        receipts.into_iter().any(by_keys)
    }

    /// Says whether the program's own record holds the question without an answer, where it keeps one.
    fn in_record(&self, at: &SeatKey, provider: &dyn Provider, asked: &Asked) -> Option<bool> {
        let transcript = self.transcript_end(at).unwrap_or_default();
        provider.asks_in_record(&transcript, &asked.tool, &asked.input)
    }

    fn press_key(
        &mut self,
        at: &SeatKey,
        id: RequestId,
        pressing: &mut Pressing,
        decision: Decision,
        sight: &Sight,
        pane: Pane,
    ) -> Result<(), EngineError> {
        let Sight::Shown(question, cursor) = sight else { return Ok(()) };
        let key = match if decision == Decision::Allow { question.allow } else { question.deny } {
            AnswerKey::Digit(digit) => Key::Digit(digit),
            AnswerKey::Escape => Key::Escape,
        };
        let attempt = pressing.presses + 1;
        self.fail.pass("press", "before")?;
        // Under the log's lock: whoever was faster has closed it.
        let announced = self.of_open(at, id, |spawn| Event::ApprovalPressing {
            spawn,
            request: id,
            attempt,
            refused: false,
        })?;
        if !announced {
            return Ok(());
        }
        let guard = Guard { only_if: question.rows.clone(), unless: Vec::new(), cursor: Some(*cursor) };
        let press = Press { guard, mark: Some(pressed_mark(id, attempt)), ..Press::plain(pane, key) };
        let pressed = self.terminal.press(&[press])?;
        self.fail.pass("press", "orphan")?;
        if pressed == [Pressed::Done] {
            (pressing.presses, pressing.pressed) = (attempt, self.clock.elapsed());
        } else {
            self.of_open(at, id, |spawn| Event::ApprovalPressing {
                spawn,
                request: id,
                attempt,
                refused: true,
            })?;
        }
        self.fail.pass("press", "after")?;
        Ok(())
    }

    /// The answer did not reach the program, as far as anybody knows.
    fn not_given(
        &mut self,
        at: &SeatKey,
        id: RequestId,
        why: &str,
        pressing: &mut Pressing,
    ) -> Result<(), EngineError> {
        let pressed = pressing.presses > 0;
        self.of_open(at, id, |spawn| Event::ApprovalNotGiven {
            spawn,
            request: id,
            why: why.to_owned(),
            pressed,
        })?;
        // Whoever answers again begins anew.
        let now = self.clock.elapsed();
        *pressing = Pressing { since: now, due: now, pressed: now, ..Pressing::default() };
        Ok(())
    }

    /// The key was pressed and its dialog is gone; a record of it may still come.
    fn off_screen(&mut self, at: &SeatKey, id: RequestId) -> Result<(), EngineError> {
        let how = OFF_SCREEN.to_owned();
        self.of_open(at, id, |spawn| Event::ApprovalClosed { spawn, request: Some(id), key: None, how })?;
        Ok(())
    }

    /// Appends what belongs to a question that is open and being answered; says whether it still was.
    fn of_open(
        &mut self,
        at: &SeatKey,
        id: RequestId,
        event: impl FnOnce(team_model::SpawnId) -> Event,
    ) -> Result<bool, EngineError> {
        let done = self.decide(Some(&at.0), |state| {
            let seat = state.teams.get(&at.0).and_then(|it| it.seats.get(&at.1)).ok_or_else(moved_on)?;
            let open = seat.approvals.get(&id).filter(|it| it.answering.is_some() && seat.stopping.is_none());
            let spawn = seat.spawn.as_ref().filter(|_| open.is_some()).ok_or_else(moved_on)?.id;
            Ok((vec![event(spawn)], ()))
        });
        match done {
            Ok(()) => Ok(true),
            Err(EngineError::Refused(Refusal { code: "moved_on", .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// What a pane remembers of a key that was pressed for an answer.
fn pressed_mark(id: RequestId, attempt: u32) -> String {
    format!("a-{}-{attempt}", id.0)
}
