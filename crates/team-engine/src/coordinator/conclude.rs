//! What a coordinator before us was sending, and what an ended program left: each attempt gets an end that is proved,
//! or `unknown`.
//!
//! The pane remembers what was typed last, kept by tmux in the same step as the typing, so that a text that was never
//! pasted may be sent again, and one that stands in the composer may still be entered.

use std::sync::Arc;
use std::time::Duration;

use team_model::{Channel, Event, MessageId, Proof, ReceiptStep, SpawnId};
use team_provider::Composer;

use super::act::since;
use super::composer::shows;
use super::core::Core;
use super::inbox;
use super::plan::{Lane, RECEIPT, SeatKey, Typed};
use super::records::inbox_of;
use crate::error::EngineError;

/// How long to wait before an attempt that cannot be judged yet is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// One attempt whose end is not known.
struct Open {
    id: MessageId,
    attempt: u32,
    channel: Channel,
    spawn: Option<SpawnId>,
    /// The line that announced it.
    seq: u64,
}

/// What is known of typing that another process began.
enum Trace {
    /// Nothing of it has reached the pane.
    Nothing,
    /// The text was pasted, Enter was not pressed.
    Pasted,
    /// Enter was pressed.
    Entered,
    /// There is no pane to ask.
    Lost,
}

/// The mark of a paste, by the line that announced its first message.
pub(super) fn pasted_mark(seq: u64) -> String {
    format!("p-{seq}")
}

/// The mark of an Enter.
pub(super) fn entered_mark(seq: u64) -> String {
    format!("e-{seq}")
}

impl Core {
    /// The line that announced what goes on in a lane: that of its first message.
    pub(super) fn announced(&self, at: &SeatKey, ids: &[MessageId]) -> Option<u64> {
        let team = self.store.state.teams.get(&at.0)?;
        ids.iter().filter_map(|id| Some(team.message(id)?.receipts.get(&at.1)?.attempt.as_ref()?.seq)).min()
    }

    fn open_attempts(&self, at: &SeatKey) -> Vec<Open> {
        let Some(team) = self.store.state.teams.get(&at.0) else { return Vec::new() };
        team.messages
            .values()
            .filter_map(|it| {
                let receipt = it.receipts.get(&at.1).filter(|it| it.step == ReceiptStep::Sending)?;
                let attempt = receipt.attempt.as_ref()?;
                Some(Open {
                    id: it.id.clone(),
                    attempt: receipt.attempts,
                    channel: attempt.channel,
                    spawn: Some(attempt.spawn),
                    seq: attempt.seq,
                })
            })
            .collect()
    }

    /// Concludes what the plan says that nobody is at any more.
    pub(super) fn conclude(&mut self, at: &SeatKey) -> Result<(), EngineError> {
        let now = self.clock.elapsed();
        let first_seen = self.seen.seats.get(at).map(|it| it.since);
        let over = first_seen.is_none_or(|it| since(now, it) >= RECEIPT);
        let open = self.open_attempts(at);
        if let Some(look) = self.seen.seats.get_mut(at) {
            look.conclude_at = Some(now + LOOK_AGAIN);
        }
        let mut ends = Vec::new();
        let (bell, keys): (Vec<Open>, Vec<Open>) =
            open.into_iter().partition(|it| it.channel == Channel::Bell);
        for it in bell {
            ends.extend(self.end_of_rung(at, it, over));
        }
        if !keys.is_empty() {
            ends.extend(self.end_of_typed(at, keys, first_seen, over)?);
        }
        self.close(at, ends)
    }

    /// Concludes everything that is open to a seat whose program has ended or is about to be taken away.
    pub(super) fn conclude_ended(&mut self, at: &SeatKey) -> Result<(), EngineError> {
        let open = self.open_attempts(at);
        if open.is_empty() {
            return Ok(());
        }
        let (bell, keys): (Vec<Open>, Vec<Open>) =
            open.into_iter().partition(|it| it.channel == Channel::Bell);
        let mut ends = Vec::new();
        for it in bell {
            ends.extend(self.end_of_rung(at, it, true));
        }
        if !keys.is_empty() {
            ends.extend(self.end_of_typed(at, keys, None, true)?);
        }
        self.close(at, ends)
    }

    fn close(&mut self, at: &SeatKey, ends: Vec<Event>) -> Result<(), EngineError> {
        if ends.is_empty() {
            return Ok(());
        }
        self.fail.pass("conclude", "before")?;
        self.record(Some(&at.0), ends)?;
        self.fail.pass("conclude", "after")?;
        Ok(())
    }

    fn end_of_rung(&self, at: &SeatKey, open: Open, over: bool) -> Option<Event> {
        let Open { id, attempt, .. } = open;
        let receiver = at.1.clone();
        let of_this_spawn = open.spawn == self.spawn_of(at);
        let places = inbox_of(self, at).filter(|_| of_this_spawn);
        // Without the place where it was laid nobody can say whether it was taken.
        let untaken =
            places.is_some_and(|(inbox, _)| !inbox::was_laid(&inbox, &id) || inbox::take_back(&inbox, &id));
        if untaken {
            let proof = Proof { source: "channel".to_owned(), record: "untaken".to_owned() };
            return Some(Event::MessageNotSent { id, receiver, attempt, proof });
        }
        let why = "the program took it and no turn was seen".to_owned();
        over.then_some(Event::MessageUnknown { id, receiver, attempt, why, staged: false })
    }

    fn end_of_typed(
        &mut self,
        at: &SeatKey,
        open: Vec<Open>,
        live_since: Option<Duration>,
        over: bool,
    ) -> Result<Vec<Event>, EngineError> {
        let now = self.clock.elapsed();
        let ids: Vec<MessageId> = open.iter().map(|it| it.id.clone()).collect();
        let not_sent = |open: Vec<Open>, record: &str| {
            let proof = Proof { source: "channel".to_owned(), record: record.to_owned() };
            let end = |it: Open| Event::MessageNotSent {
                id: it.id,
                receiver: at.1.clone(),
                attempt: it.attempt,
                proof: proof.clone(),
            };
            open.into_iter().map(end).collect()
        };
        let unknown = |open: Vec<Open>, why: &str, staged| {
            let end = |it: Open| Event::MessageUnknown {
                id: it.id,
                receiver: at.1.clone(),
                attempt: it.attempt,
                why: why.to_owned(),
                staged,
            };
            open.into_iter().map(end).collect()
        };
        let (trace, pane_dead) = self.trace(at, &open)?;
        Ok(match trace {
            Trace::Nothing => not_sent(open, "never typed"),
            Trace::Lost if over => unknown(open, "its terminal is gone", false),
            Trace::Lost => Vec::new(),
            // What stood in the composer of a program that has ended was never sent.
            Trace::Pasted if pane_dead || live_since.is_none() => not_sent(open, "never entered"),
            Trace::Entered if pane_dead || live_since.is_none() => {
                unknown(open, "Enter was pressed and the program ended before it showed a turn", false)
            }
            Trace::Pasted => match self.whose_draft(at, &open)? {
                Draft::Ours => {
                    let text = self.typed_text(at, &ids)?;
                    self.go_on(at, ids, text, None);
                    Vec::new()
                }
                Draft::Another => unknown(open, "the coordinator ended while it was typing", true),
                Draft::NotShown if over => {
                    unknown(open, "the text was pasted and never seen in the composer", true)
                }
                Draft::NotShown => Vec::new(),
            },
            Trace::Entered => {
                let text = self.typed_text(at, &ids)?;
                self.go_on(at, ids, text, Some(live_since.unwrap_or(now)));
                Vec::new()
            }
        })
    }

    /// Takes the lane over where the other coordinator left it.
    fn go_on(&mut self, at: &SeatKey, ids: Vec<MessageId>, text: Arc<str>, entered: Option<Duration>) {
        let now = self.clock.elapsed();
        let Some(look) = self.seen.seats.get_mut(at).filter(|it| it.lane == Lane::Free) else { return };
        look.lane = Lane::Typed(Typed {
            ids,
            text,
            pasted: now,
            entered,
            touched: now,
            presses: u32::from(entered.is_some()),
            staged: entered.is_none(),
        });
    }

    /// What the pane remembers of these attempts, and whether its program has ended.
    fn trace(&mut self, at: &SeatKey, open: &[Open]) -> Result<(Trace, bool), EngineError> {
        let begun = open.iter().map(|it| it.seq).min();
        let of_this_spawn = open.iter().all(|it| it.spawn == self.spawn_of(at));
        let pane = self.pane_of(at).filter(|_| of_this_spawn && self.seen.server_alive);
        let (Some(pane), Some(begun)) = (pane, begun) else { return Ok((Trace::Lost, false)) };
        let Some(info) = self.terminal.panes()?.into_iter().find(|it| it.pane == pane) else {
            return Ok((Trace::Lost, false));
        };
        let trace = match info.typed {
            Some(mark) if mark == pasted_mark(begun) => Trace::Pasted,
            Some(mark) if mark == entered_mark(begun) => Trace::Entered,
            _ => Trace::Nothing,
        };
        Ok((trace, info.exit.is_some()))
    }

    /// Says whether the text that stands in the composer is the one of these attempts.
    fn whose_draft(&mut self, at: &SeatKey, open: &[Open]) -> Result<Draft, EngineError> {
        let Some(pane) = self.pane_of(at) else { return Ok(Draft::NotShown) };
        let Some(shown) = self.terminal.screen(pane)? else { return Ok(Draft::NotShown) };
        let (composer, dialog) = self.composer(at, &shown);
        let Some(Composer::Holds(text)) = composer.filter(|_| dialog.is_none()) else {
            return Ok(Draft::NotShown);
        };
        let ids: Vec<MessageId> = open.iter().map(|it| it.id.clone()).collect();
        Ok(if shows(&text, &self.typed_text(at, &ids)?) { Draft::Ours } else { Draft::Another })
    }

    /// The messages of a turn that a person stopped before its first word, if their text stands in the composer again.
    pub(super) fn given_back(&mut self, at: &SeatKey) -> Vec<Event> {
        let typed = |core: &Self| -> Option<Vec<MessageId>> {
            let team = core.store.state.teams.get(&at.0)?;
            let turn = team.seats.get(&at.1)?.turn.as_ref()?;
            let by_keys = |id: &&MessageId| {
                let receipt = team.message(id).and_then(|it| it.receipts.get(&at.1));
                receipt.and_then(|it| it.attempt.as_ref()).is_some_and(|it| it.channel == Channel::Keys)
            };
            let ids: Vec<MessageId> = turn.messages.iter().filter(by_keys).cloned().collect();
            (!ids.is_empty()).then_some(ids)
        };
        let Some(ids) = typed(self) else { return Vec::new() };
        let Some(pane) = self.pane_of(at) else { return Vec::new() };
        let Ok(Some(shown)) = self.terminal.screen(pane) else { return Vec::new() };
        let (Some(Composer::Holds(text)), None) = self.composer(at, &shown) else { return Vec::new() };
        if !self.typed_text(at, &ids).is_ok_and(|it| shows(&text, &it)) {
            return Vec::new();
        }
        let back = |id| Event::MessageReturned { id, receiver: at.1.clone(), why: "interrupted".to_owned() };
        ids.into_iter().map(back).collect()
    }

    /// What is typed for these messages.
    fn typed_text(&self, at: &SeatKey, ids: &[MessageId]) -> Result<Arc<str>, EngineError> {
        let Some(team) = self.store.state.teams.get(&at.0) else { return Ok(Arc::default()) };
        let seqs: Vec<u64> =
            team.messages.iter().filter(|(_, it)| ids.contains(&it.id)).map(|(seq, _)| *seq).collect();
        Ok(self.pack(at, Channel::Keys, &seqs)?.map(|it| it.typed.into()).unwrap_or_default())
    }
}

/// What stands in a composer.
enum Draft {
    /// The text that was pasted.
    Ours,
    /// Something else.
    Another,
    /// Nothing that can be read.
    NotShown,
}
