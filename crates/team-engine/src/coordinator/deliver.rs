//! Handing messages over: announced before any byte leaves, proved by the program's own records, typed only into a
//! composer proved empty. The absence of a receipt presses no key.

use std::path::PathBuf;

use team_model::{Channel, Event, HoldReason, MessageId, Proof, ReceiptStep, TeamKey};
use team_provider::{Composer, Framed, Provider, UnsafeText};
use team_tmux::{Guard, Pane, Paste, Pasted, TmuxError};

use super::act::moved_on;
use super::conclude::pasted_mark;
use super::core::Core;
use super::inbox;
use super::plan::{Lane, SeatKey, Typed};
use super::records::inbox_of;
use crate::decide::Refusal;
use crate::error::EngineError;
use crate::render::{BLOCK, pointer, received_form};
use crate::screen;
use crate::workspace::write_bytes;

/// What is to go to one seat.
pub(super) struct Parcel {
    at: SeatKey,
    channel: Channel,
    ids: Vec<(u64, MessageId)>,
    texts: Vec<String>,
    /// What is typed: all texts in one, made safe for that program.
    pub(super) typed: String,
    /// Where the cursor was when the composer was seen empty.
    cursor: Option<(u16, u16)>,
    file: Option<PathBuf>,
}

impl Core {
    pub(super) fn send(&mut self, sends: Vec<(SeatKey, Channel, Vec<u64>)>) -> Result<(), EngineError> {
        let mut parcels = Vec::new();
        for (at, channel, seqs) in sends {
            parcels.extend(self.pack(&at, channel, &seqs)?);
        }
        let parcels = self.only_open_composers(parcels)?;
        let mut keys: Vec<TeamKey> = parcels.iter().map(|it| it.at.0.clone()).collect();
        keys.dedup();
        for key in keys {
            let of_team: Vec<&Parcel> = parcels.iter().filter(|it| it.at.0 == key).collect();
            if self.announce(&key, &of_team)? {
                for parcel in of_team {
                    self.hand_over(parcel)?;
                }
            }
        }
        Ok(())
    }

    /// Takes as many waiting messages as go together.
    pub(super) fn pack(
        &self,
        at: &SeatKey,
        channel: Channel,
        seqs: &[u64],
    ) -> Result<Option<Parcel>, EngineError> {
        let Some(team) = self.store.state.teams.get(&at.0) else { return Ok(None) };
        let Some(seat) = team.seats.get(&at.1) else { return Ok(None) };
        let Some(provider) = team_provider::provider(&seat.spec.provider) else { return Ok(None) };
        let mut parcel = Parcel {
            at: at.clone(),
            channel,
            ids: Vec::new(),
            texts: Vec::new(),
            typed: String::new(),
            cursor: None,
            file: None,
        };
        let room = match channel {
            Channel::Keys => provider.typing().max_bytes.min(BLOCK),
            Channel::Bell => BLOCK,
        };
        let mut size = 0;
        for seq in seqs {
            let Some(message) = team.messages.get(seq) else { continue };
            let text = received_form(&self.store, *seq, message)?;
            if !parcel.ids.is_empty() && size + text.len() > room {
                break;
            }
            size += text.len() + 2;
            parcel.ids.push((*seq, message.id.clone()));
            parcel.texts.push(if channel == Channel::Bell { provider.laid(text) } else { text });
        }
        if parcel.ids.is_empty() {
            return Ok(None);
        }
        if channel == Channel::Keys {
            self.make_typable(provider, &mut parcel)?;
        }
        Ok(Some(parcel))
    }

    fn make_typable(&self, provider: &dyn Provider, parcel: &mut Parcel) -> Result<(), EngineError> {
        match provider.frame(&parcel.texts.join("\n\n")) {
            Framed::Safe(text) => parcel.typed = text,
            Framed::Unsafe(_) if parcel.ids.len() > 1 => {
                parcel.ids.truncate(1);
                parcel.texts.truncate(1);
                self.make_typable(provider, parcel)?;
            }
            Framed::Unsafe(UnsafeText::TooLong { .. } | UnsafeText::Changed | UnsafeText::Empty) => {
                // It goes as a file that the receiver is told to read.
                let Some((_, id)) = parcel.ids.first() else { return Ok(()) };
                let dir =
                    self.workspace.seat_dir(parcel.at.0.as_str(), parcel.at.1.as_str()).join("messages");
                crate::workspace::make_dir(&dir, 0o700)?;
                let file = dir.join(format!("{id}.txt"));
                let text = &parcel.texts[0];
                write_bytes(&file, text.as_bytes(), 0o600).map_err(|source| EngineError::Io {
                    doing: "write",
                    path: file.clone(),
                    source,
                })?;
                let pointer = pointer(text, &file, provider.tool_names().read);
                parcel.typed = match provider.frame(&pointer) {
                    Framed::Safe(text) => text,
                    Framed::Unsafe(_) => pointer,
                };
                parcel.file = Some(file);
            }
        }
        Ok(())
    }

    /// Looks at all composers that are to be typed into, in one call; the others are blocked and say why.
    fn only_open_composers(&mut self, parcels: Vec<Parcel>) -> Result<Vec<Parcel>, EngineError> {
        let now = self.clock.elapsed();
        let panes: Vec<Option<Pane>> = parcels
            .iter()
            .map(|it| if it.channel == Channel::Keys { self.pane_of(&it.at) } else { None })
            .collect();
        let wanted: Vec<Pane> = panes.iter().flatten().copied().collect();
        let mut shown =
            if wanted.is_empty() { Vec::new() } else { self.terminal.screens(&wanted)? }.into_iter();
        let mut open = Vec::new();
        for (mut parcel, pane) in parcels.into_iter().zip(panes) {
            if parcel.channel == Channel::Bell {
                open.push(parcel);
                continue;
            }
            let reading = pane.and_then(|_| shown.next().flatten());
            parcel.cursor = reading.as_ref().map(|it| it.cursor);
            let reason = match reading {
                None => Some(HoldReason::NoSession),
                Some(shown) if is_too_small(&shown) => Some(HoldReason::Mode),
                Some(shown) if shown.attached > 0 && self.may_be_typed_into(pane)? => {
                    Some(HoldReason::Person)
                }
                Some(shown) => match self.composer(&parcel.at, &shown) {
                    (_, Some(_)) => Some(HoldReason::Dialog),
                    (Some(Composer::Empty), None) => None,
                    (Some(Composer::Holds(_)), None) => Some(HoldReason::Draft),
                    _ if shown.in_mode => Some(HoldReason::Mode),
                    _ => Some(HoldReason::Dialog),
                },
            };
            if let Some(look) = self.seen.seats.get_mut(&parcel.at) {
                look.block(reason, now);
            }
            if reason.is_none() {
                open.push(parcel);
            }
        }
        Ok(open)
    }

    /// Says whether an attached client is able to type.
    pub(super) fn may_be_typed_into(&mut self, pane: Option<Pane>) -> Result<bool, EngineError> {
        let panes = self.terminal.panes()?;
        Ok(panes.iter().any(|it| Some(it.pane) == pane && it.viewers.can_type > 0))
    }

    pub(super) fn composer(
        &self,
        at: &SeatKey,
        shown: &team_tmux::Screen,
    ) -> (Option<Composer>, Option<String>) {
        let seat = self.store.state.teams.get(&at.0).and_then(|it| it.seats.get(&at.1));
        let Some(provider) = seat.and_then(|it| team_provider::provider(&it.spec.provider)) else {
            return (None, None);
        };
        let reading = provider.read_screen(&screen::read(shown));
        (Some(reading.composer), reading.dialog.map(|it| it.name))
    }

    /// Writes the intents; false if the ground has moved.
    fn announce(&mut self, key: &TeamKey, parcels: &[&Parcel]) -> Result<bool, EngineError> {
        self.fail.pass("announce", "before")?;
        let seen = self.seen.seats.iter();
        let bridged: Vec<SeatKey> = seen.filter(|(_, it)| it.bridged).map(|(at, _)| at.clone()).collect();
        let announced = self.decide(Some(key), |state| {
            let team = state.teams.get(key).ok_or_else(moved_on)?;
            let mut events = Vec::new();
            for parcel in parcels {
                let seat = team.seats.get(&parcel.at.1).ok_or_else(moved_on)?;
                let at_once = parcel.channel == Channel::Bell && !bridged.contains(&parcel.at);
                let fits = at_once || seat.is_idle();
                let spawn =
                    seat.spawn.as_ref().filter(|_| fits && seat.stopping.is_none()).ok_or_else(moved_on)?;
                let process =
                    spawn.provider.clone().or_else(|| spawn.claimed.clone()).ok_or_else(moved_on)?;
                for (seq, id) in &parcel.ids {
                    let receipt = team.messages.get(seq).and_then(|it| it.receipts.get(&parcel.at.1));
                    let receipt =
                        receipt.filter(|it| it.step.may_become(ReceiptStep::Sending)).ok_or_else(moved_on)?;
                    events.push(Event::MessageSending {
                        id: id.clone(),
                        receiver: parcel.at.1.clone(),
                        attempt: receipt.attempts + 1,
                        channel: parcel.channel,
                        spawn: spawn.id,
                        receiver_process: process.clone(),
                        proof_from: state.seq,
                        file: parcel.file.as_ref().map(|it| it.to_string_lossy().into_owned()),
                    });
                }
            }
            Ok((events, ()))
        });
        match announced {
            Ok(()) => {
                self.fail.pass("announce", "after")?;
                Ok(true)
            }
            Err(EngineError::Refused(Refusal { code: "moved_on", .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn hand_over(&mut self, parcel: &Parcel) -> Result<(), EngineError> {
        let ids: Vec<MessageId> = parcel.ids.iter().map(|(_, id)| id.clone()).collect();
        let now = self.clock.elapsed();
        let (Channel::Keys, Some(pane)) = (parcel.channel, self.pane_of(&parcel.at)) else {
            return self.hand_over_by_bell(parcel, ids);
        };
        if let Some(look) = self.seen.seats.get_mut(&parcel.at) {
            look.lane = Lane::Typed(Typed {
                ids: ids.clone(),
                text: parcel.typed.as_str().into(),
                pasted: now,
                entered: None,
                touched: now,
                presses: 0,
                staged: true,
            });
        }
        let mark = self.announced(&parcel.at, &ids).map(pasted_mark);
        self.fail.pass("paste", "before")?;
        let pasted = self.paste(pane, parcel, mark.as_deref());
        self.fail.pass("paste", "orphan")?;
        match pasted {
            Ok(Pasted::Done) => {}
            Ok(refused) => {
                let why = match refused {
                    Pasted::Dead | Pasted::Gone => "its pane has ended",
                    Pasted::InputOff => "input to its pane is switched off",
                    Pasted::InMode => "its pane is in a mode of tmux",
                    _ => "the screen had changed",
                };
                self.close_attempts(&parcel.at, why, false, true)?;
                if let Some(look) = self.seen.seats.get_mut(&parcel.at) {
                    look.pane_dead |= matches!(refused, Pasted::Dead | Pasted::Gone);
                    let reason =
                        if refused == Pasted::Guarded { HoldReason::Draft } else { HoldReason::Mode };
                    look.block(Some(reason), now);
                }
            }
            Err(error) if error.had_no_effect() => {
                self.close_attempts(&parcel.at, &error.to_string(), false, true)?;
                if let Some(look) = self.seen.seats.get_mut(&parcel.at) {
                    look.block(Some(HoldReason::Mode), now);
                }
            }
            // A newer coordinator concludes it; nothing of ours was typed.
            Err(error @ TmuxError::Fenced { .. }) => return Err(error.into()),
            Err(error) => self.close_attempts(&parcel.at, &error.to_string(), true, false)?,
        }
        self.fail.pass("paste", "after")?;
        Ok(())
    }

    /// Pastes where the cursor still is where it was: one that has moved says that somebody typed, that something
    /// opened, or that the program was not done drawing.
    fn paste(&mut self, pane: Pane, parcel: &Parcel, mark: Option<&str>) -> Result<Pasted, TmuxError> {
        let mut cursor = parcel.cursor;
        let mut pasted = Pasted::Guarded;
        for _ in 0..DRAWING {
            let guard = Guard { cursor, ..Guard::default() };
            let paste = Paste { enter: false, leave_mode: true, guard, mark: mark.map(str::to_owned) };
            pasted = self.terminal.paste(pane, &parcel.typed, &paste)?;
            if pasted != Pasted::Guarded {
                break;
            }
            let shown = self.terminal.screen(pane)?;
            let Some(shown) =
                shown.filter(|it| matches!(self.composer(&parcel.at, it), (Some(Composer::Empty), None)))
            else {
                break;
            };
            cursor = Some(shown.cursor);
        }
        Ok(pasted)
    }

    fn hand_over_by_bell(&mut self, parcel: &Parcel, ids: Vec<MessageId>) -> Result<(), EngineError> {
        let now = self.clock.elapsed();
        if let Some(look) = self.seen.seats.get_mut(&parcel.at) {
            look.lane = Lane::Rung { ids, at: now, rung: now };
        }
        let places = inbox_of(self, &parcel.at).filter(|_| parcel.channel == Channel::Bell);
        let Some((inbox, bell)) = places else {
            return self.close_attempts(&parcel.at, "there is no way to it", false, true);
        };
        self.fail.pass("lay", "before")?;
        // Under the log's lock, so that no newer coordinator has already judged that nothing was laid.
        let laid = self.decide(Some(&parcel.at.0), |_| {
            let mut files = parcel.ids.iter().zip(&parcel.texts);
            Ok((Vec::new(), files.all(|((seq, id), text)| inbox::lay(&inbox, *seq, id, text))))
        })?;
        self.fail.pass("lay", "after")?;
        self.fail.pass("ring", "before")?;
        let rung = laid && inbox::ring(&bell);
        self.fail.pass("ring", "orphan")?;
        if !rung {
            // What was laid all the same is taken back, or else was taken.
            if let Some(look) = self.seen.seats.get_mut(&parcel.at) {
                look.lane = Lane::Free;
                look.deaf = !look.bridged;
            }
        }
        self.fail.pass("ring", "after")?;
        Ok(())
    }

    /// Rings again if a message still lies untaken.
    pub(super) fn ring_again(&mut self, at: &SeatKey) {
        let now = self.clock.elapsed();
        let places = inbox_of(self, at);
        if let Some(Lane::Rung { ids, rung, .. }) = self.seen.seats.get_mut(at).map(|it| &mut it.lane) {
            *rung = now;
            if let Some((inbox, bell)) = places
                && ids.iter().any(|id| inbox::lies(&inbox, id))
            {
                inbox::ring(&bell);
            }
        }
    }

    /// Closes all attempts of a seat's lane: as not sent (with the proof that nothing was), or as unknown.
    pub(super) fn close_attempts(
        &mut self,
        at: &SeatKey,
        why: &str,
        staged: bool,
        not_sent: bool,
    ) -> Result<(), EngineError> {
        let Some(look) = self.seen.seats.get_mut(at) else { return Ok(()) };
        let ids = match std::mem::take(&mut look.lane) {
            Lane::Free => return Ok(()),
            Lane::Typed(typed) => typed.ids,
            Lane::Rung { ids, .. } => ids,
        };
        let why = why.to_owned();
        self.decide(Some(&at.0), move |state| {
            let mut events = Vec::new();
            for id in ids {
                let receipt = state
                    .teams
                    .get(&at.0)
                    .and_then(|it| it.message(&id))
                    .and_then(|it| it.receipts.get(&at.1))
                    .filter(|it| it.step == ReceiptStep::Sending);
                let Some(receipt) = receipt else { continue };
                let (receiver, attempt) = (at.1.clone(), receipt.attempts);
                events.push(if not_sent {
                    let proof = Proof { source: "channel".to_owned(), record: why.clone() };
                    Event::MessageNotSent { id, receiver, attempt, proof }
                } else {
                    Event::MessageUnknown { id, receiver, attempt, why: why.clone(), staged }
                });
            }
            Ok((events, ()))
        })
    }

    /// A bell that was not heard: what still lies in the inbox was not sent; what was taken is unknown.
    pub(super) fn unheard(&mut self, at: &SeatKey, ids: &[MessageId]) -> Result<(), EngineError> {
        let Some((inbox, _)) = inbox_of(self, at) else { return Ok(()) };
        let mut untaken = Vec::new();
        for id in ids {
            if inbox::take_back(&inbox, id) {
                untaken.push(id.clone());
            }
        }
        if let Some(look) = self.seen.seats.get_mut(at) {
            look.lane = Lane::Free;
            look.deaf |= !untaken.is_empty() && !look.bridged;
        }
        let ids = ids.to_vec();
        self.decide(Some(&at.0), move |state| {
            let mut events = Vec::new();
            for id in ids {
                let receipt = state
                    .teams
                    .get(&at.0)
                    .and_then(|it| it.message(&id))
                    .and_then(|it| it.receipts.get(&at.1));
                let Some(receipt) = receipt.filter(|it| it.step == ReceiptStep::Sending) else { continue };
                let (receiver, attempt) = (at.1.clone(), receipt.attempts);
                events.push(if untaken.contains(&id) {
                    let proof = Proof { source: "channel".to_owned(), record: "untaken".to_owned() };
                    Event::MessageNotSent { id, receiver, attempt, proof }
                } else {
                    let why = "the program took it and no turn was seen".to_owned();
                    Event::MessageUnknown { id, receiver, attempt, why, staged: false }
                });
            }
            Ok((events, ()))
        })
    }
}

/// How often a program that is not done drawing is looked at before its paste is put off.
const DRAWING: usize = 5;

/// In a window that somebody made this small no input box can be read.
fn is_too_small(shown: &team_tmux::Screen) -> bool {
    shown.width < 60 || shown.height < 12
}
