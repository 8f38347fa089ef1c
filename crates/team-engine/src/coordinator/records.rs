//! The providers' own records: transcripts and status files, read where they have grown or changed.
//!
//! Knows files and what the provider seam says of them. Must not know what follows from it.
//!
//! Long: reading what has grown, and telling what it proves, share the places of one seat.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use team_model::{
    ActivityKind, Event, MessageId, Proof, ReadyFact, Receipt, ReceiptStep, Seat, SeatState, SpawnId, Team,
    TurnOutcome, find_message_ids,
};
use team_provider::{ActivityKind as Shown, Fact, Provider, RecordKind, SeatPlaces, TurnOutcome as Ended};

use super::core::Core;
use super::plan::SeatKey;
use crate::error::EngineError;
use crate::facts;
use crate::seat_file::SeatFile;

/// How long an idle status may stand against an open turn before the turn counts as interrupted: the hook that
/// announces its end may still be on its way.
const STATUS_GRACE: Duration = Duration::from_millis(700);
/// How old a file's time has to be before the same time means the same content.
const STAMP_GRACE: chrono::TimeDelta = chrono::TimeDelta::milliseconds(50);
/// The most of a transcript that is read at once.
const CHUNK: u64 = 4 << 20;

/// The records that are watched.
#[derive(Debug, Default)]
pub(super) struct Records {
    seats: BTreeMap<SeatKey, SeatRecords>,
    /// Directories to be watched for changes.
    pub dirs: Vec<PathBuf>,
    /// When to look again although nothing was announced.
    pub wake: Option<Duration>,
}

#[derive(Debug)]
struct SeatRecords {
    spawn: SpawnId,
    /// What the files were chosen by: process and conversation, and whether the program has told who it is.
    placed: Option<Placed>,
    /// The program itself; where a script of the person's starts it, not the seat's own child.
    client_pid: Option<u32>,
    seat: Option<SeatFile>,
    files: Vec<Tracked>,
    idle_since: Option<Duration>,
}

/// By what a seat's records are found; each turn may tell a transcript.
type Placed = (Option<u32>, Option<String>, bool, u64);

#[derive(Debug)]
struct Tracked {
    path: PathBuf,
    kind: RecordKind,
    offset: u64,
    /// Before this point only proofs of messages count: the rest is history.
    live_from: u64,
    changed: Option<(SystemTime, u64)>,
    /// What it held then; its time and length may be those of what it held before.
    held: Option<String>,
    /// What the status said when it was last read: of which process, and whether that was idle.
    said_idle: Option<(Option<u32>, bool)>,
}

impl Core {
    /// Reads what the programs have written and appends what it proves.
    pub(super) fn read_records(&mut self) -> Result<(), EngineError> {
        let (now, read_at) = (self.clock.elapsed(), self.clock.now());
        let mut found: Vec<(SeatKey, Vec<Event>)> = Vec::new();
        let mut records = std::mem::take(&mut self.records);
        let mut dirs: Vec<PathBuf> = Vec::new();
        records.wake = None;
        let mut live: BTreeMap<SeatKey, SeatRecords> = BTreeMap::new();
        for (key, team) in &self.store.state.teams {
            for (agent, seat) in &team.seats {
                let Some(spawn) = seat.spawn.as_ref().filter(|_| seat.state.is_live()) else { continue };
                if spawn.claimed.is_none() {
                    continue;
                }
                let at = (key.clone(), agent.clone());
                let Some(provider) = team_provider::provider(&seat.spec.provider) else { continue };
                let path = self.workspace.seat_dir(key.as_str(), agent.as_str()).join(&spawn.seat);
                let mut work =
                    records.seats.remove(&at).filter(|it| it.spawn == spawn.id).unwrap_or_else(|| {
                        SeatRecords {
                            spawn: spawn.id,
                            placed: None,
                            client_pid: None,
                            seat: SeatFile::read(&path).ok(),
                            files: Vec::new(),
                            idle_since: None,
                        }
                    });
                work.place(provider, seat, &path);
                let pid = work.client_pid;
                let mut events = Vec::new();
                let mut idle = false;
                for file in &mut work.files {
                    if let Some(dir) = file.path.parent() {
                        dirs.push(dir.to_owned());
                    }
                    file.read(provider, team, &at, seat, spawn.id, pid, read_at, &mut events, &mut idle);
                }
                // An idle status against an open turn: give the hook its time, then believe the status.
                let contradicted = idle && seat.turn.is_some();
                match (contradicted, work.idle_since) {
                    (true, None) => {
                        work.idle_since = Some(now);
                        records.wake = earlier(records.wake, now + STATUS_GRACE);
                    }
                    (true, Some(since)) if now >= since + STATUS_GRACE => {
                        work.idle_since = None;
                        let proof = Proof { source: "status_file".to_owned(), record: "idle".to_owned() };
                        let outcome = TurnOutcome::Interrupted;
                        events.push(Event::TurnEnded {
                            spawn: spawn.id,
                            outcome,
                            why: None,
                            chars: 0,
                            proof,
                        });
                    }
                    (true, Some(since)) => records.wake = earlier(records.wake, since + STATUS_GRACE),
                    (false, _) => work.idle_since = None,
                }
                if let Some(file) = work.seat.as_ref().filter(|_| !seat.approvals.is_empty()) {
                    let closed = super::approve::closed_by(seat, &file.seat_dir, &events);
                    events.splice(0..0, closed);
                }
                if !events.is_empty() {
                    found.push((at.clone(), events));
                }
                live.insert(at, work);
            }
        }
        dirs.sort();
        dirs.dedup();
        records.dirs = dirs;
        records.seats = live;
        self.records = records;
        let by = self.by();
        let any = !found.is_empty();
        for (at, mut events) in found {
            let stopped = |it: &Event| matches!(it, Event::TurnEnded { outcome: TurnOutcome::Interrupted, proof, .. } if proof.source == "status_file");
            if events.iter().any(stopped) {
                let back = self.given_back(&at);
                events.splice(0..0, back);
            }
            self.store.observe(self.clock.now(), &by, Some(&at.0), events)?;
        }
        if any {
            self.store.refresh()?;
        }
        Ok(())
    }

    /// Directories whose changes may prove something.
    pub fn watched_dirs(&self) -> &[PathBuf] {
        &self.records.dirs
    }

    /// When to go round for the records' sake.
    pub fn records_wake(&self) -> Option<Duration> {
        self.records.wake
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it is put where an option is")]
fn earlier(one: Option<Duration>, other: Duration) -> Option<Duration> {
    Some(one.map_or(other, |it| it.min(other)))
}

impl SeatRecords {
    /// Chooses the files anew where the program has told who it is, or which conversation it has now.
    fn place(&mut self, provider: &dyn Provider, seat: &Seat, path: &Path) {
        let Some(file) = &self.seat else { return };
        let native = seat.session.as_ref().and_then(|it| it.native.clone());
        let has_told = seat.spawn.as_ref().is_some_and(|it| !it.needs.contains(&ReadyFact::SessionStarted));
        let started = seat.spawn.as_ref().and_then(|it| it.provider.as_ref()).map(|it| it.pid);
        let turn = seat.turn.as_ref().map_or(0, |it| it.seq);
        let by = Some((started, native, has_told, turn));
        if self.placed == by {
            return;
        }
        let live = if has_told { SeatFile::live(path) } else { None };
        self.client_pid = live.map(|it| it.client.pid).or(started);
        self.placed = by;
        let native = seat.session.as_ref().and_then(|it| it.native.as_deref());
        let live = SeatFile::live(path).filter(|it| Some(it.native.as_str()) == native);
        let places = SeatPlaces {
            config_home: &file.config_home,
            cwd: &file.cwd,
            native_id: native,
            transcript: live.as_ref().and_then(|it| it.transcript.as_deref()),
            provider_pid: self.client_pid,
        };
        let wanted = provider.files_to_watch(&places);
        self.files.retain(|it| wanted.iter().any(|watched| watched.path == it.path));
        for watched in wanted {
            if !self.files.iter().any(|it| it.path == watched.path) {
                let live_from = std::fs::metadata(&watched.path).map_or(0, |it| it.len());
                self.files.push(Tracked {
                    path: watched.path,
                    kind: watched.kind,
                    offset: 0,
                    live_from,
                    changed: None,
                    held: None,
                    said_idle: None,
                });
            }
        }
    }
}

impl Tracked {
    #[expect(clippy::too_many_arguments, reason = "one call, from one place, with what is at hand there")]
    fn read(
        &mut self,
        provider: &dyn Provider,
        team: &Team,
        at: &SeatKey,
        seat: &Seat,
        spawn: SpawnId,
        pid: Option<u32>,
        now: DateTime<Utc>,
        events: &mut Vec<Event>,
        idle: &mut bool,
    ) {
        match self.kind {
            RecordKind::Status => {
                let Ok(meta) = std::fs::metadata(&self.path) else { return };
                let stamp = meta.modified().ok().map(|it| (it, meta.len()));
                let unchanged = self.changed == stamp && stamp.is_some();
                // After damage to the log nothing is proved any more: what still stands in the file is news then.
                let forgotten = seat.activity.kind == ActivityKind::Unknown && seat.activity.proof.is_none();
                if let Some((of, said)) = self.said_idle
                    && unchanged
                    && !forgotten
                    && of == pid
                {
                    // This is asked in every round, for every seat.
                    *idle = said;
                    return;
                }
                let Ok(text) = std::fs::read_to_string(&self.path) else { return };
                let same = unchanged && self.held.as_ref() == Some(&text);
                let facts = provider.read_record(RecordKind::Status, &text);
                let ours = facts.iter().all(|it| match it {
                    Fact::Client { pid: written, .. } => pid.is_none_or(|it| it == *written),
                    _ => true,
                });
                if !ours {
                    return;
                }
                let written = stamp.map(|(time, _)| DateTime::<Utc>::from(time));
                *idle = facts
                    .iter()
                    .any(|it| matches!(it, Fact::Activity { kind: Shown::Idle | Shown::Shell, .. }));
                // Files tell their times coarsely: one that was just written may be written again unnoticed.
                let settled = written.is_some_and(|it| now - it > STAMP_GRACE);
                self.said_idle = settled.then_some((pid, *idle));
                if same && !forgotten {
                    return;
                }
                let written = written.filter(|_| !same);
                (self.changed, self.held) = (stamp, Some(text));
                for fact in &facts {
                    if let Fact::Activity { kind, .. } = fact
                        && says_something_new(seat, kind)
                    {
                        let proof = Proof { source: "status_file".to_owned(), record: word(kind) };
                        let event = facts::event(spawn, fact, proof, written, now);
                        let unclear = event.as_ref().and_then(|it| unclear(seat, it));
                        events.extend(event);
                        events.extend(
                            unclear.map(|reason| Event::ProviderClassifyUnsupported { spawn, reason }),
                        );
                    }
                }
            }
            RecordKind::Transcript => {
                let length = std::fs::metadata(&self.path).map_or(0, |it| it.len());
                if length < self.offset {
                    // Some programs take back what was not answered; what follows is new.
                    (self.offset, self.live_from) = (length, length);
                }
                let Some(text) = self.grown() else { return };
                let mut position = self.offset;
                for line in text.split_inclusive('\n') {
                    position += line.len() as u64;
                    // A bridge tells what is new, and looks here itself for what it did not see.
                    let told = provider.takes_when_idle();
                    let live = position > self.live_from && !told;
                    for fact in provider.read_record(RecordKind::Transcript, line.trim_end()) {
                        if let Fact::ApprovalResolved { tool_use_id: None, .. } = fact {
                            let written = provider.record_time(line.trim_end());
                            let written = written.and_then(DateTime::from_timestamp_millis);
                            events.extend(answered_until(seat, spawn, live, written));
                            continue;
                        }
                        transcript_event(team, at, seat, spawn, &fact, (live, told), now, events);
                    }
                }
                self.offset = position;
            }
        }
    }

    /// Reads the complete lines that were added.
    fn grown(&self) -> Option<String> {
        let length = std::fs::metadata(&self.path).ok()?.len();
        if length <= self.offset {
            return None;
        }
        let mut file = File::open(&self.path).ok()?;
        file.seek(SeekFrom::Start(self.offset)).ok()?;
        let mut bytes = Vec::new();
        file.take(CHUNK.max(length - self.offset)).read_to_end(&mut bytes).ok()?;
        let end = bytes.iter().rposition(|it| *it == b'\n')? + 1;
        bytes.truncate(end);
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Closes the questions that a record says are answered, without saying which: those that were asked before it was written,
/// also where that is read later. A newer one may stand on the screen by then.
fn answered_until(
    seat: &Seat,
    spawn: SpawnId,
    live: bool,
    written: Option<DateTime<Utc>>,
) -> impl Iterator<Item = Event> {
    let is_older = move |since: Option<DateTime<Utc>>| match (since, written) {
        (Some(since), Some(written)) => since <= written,
        _ => live,
    };
    seat.approvals.iter().filter(move |(_, it)| is_older(it.since)).map(move |(id, it)| {
        Event::ApprovalClosed {
            spawn,
            request: Some(*id),
            key: it.key.clone(),
            how: "tool answered".to_owned(),
        }
    })
}

/// The reason why nobody can tell what a seat does, where that is another one than was written before.
fn unclear(seat: &Seat, event: &Event) -> Option<String> {
    let Event::ActivityObserved { activity: ActivityKind::Unknown, reason, .. } = event else { return None };
    reason.clone().filter(|it| seat.unsupported.as_ref() != Some(it))
}

fn word(kind: &Shown) -> String {
    match kind {
        Shown::Idle => "idle",
        Shown::Working => "busy",
        Shown::AwaitingApproval { .. } | Shown::DialogOpen => "waiting",
        Shown::Compacting => "compacting",
        Shown::Shell => "shell",
        Shown::Unknown { .. } => "unknown",
    }
    .to_owned()
}

/// Says whether a status adds to what the state holds; the same again is no line.
fn says_something_new(seat: &Seat, kind: &Shown) -> bool {
    let known = seat.activity.kind;
    match kind {
        Shown::Idle | Shown::Shell => {
            let starting = seat.state == SeatState::Starting;
            // An open turn ends by its hook, or after the grace.
            (starting && seat.spawn.as_ref().is_some_and(|it| it.needs.contains(&ReadyFact::StatusIdle)))
                || (known != ActivityKind::Idle && seat.turn.is_none() && seat.limit_ends().is_none())
        }
        // A program that compacts is busy, too.
        Shown::Working => !matches!(known, ActivityKind::Working | ActivityKind::Compacting),
        Shown::AwaitingApproval { .. } => known != ActivityKind::AwaitingApproval,
        Shown::Compacting => known != ActivityKind::Compacting,
        Shown::DialogOpen | Shown::Unknown { .. } => {
            !matches!(known, ActivityKind::Unknown | ActivityKind::Limited | ActivityKind::AwaitingTrust)
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "one call, from one place, with what is at hand there")]
fn transcript_event(
    team: &Team,
    at: &SeatKey,
    seat: &Seat,
    spawn: SpawnId,
    fact: &Fact,
    (live, told): (bool, bool),
    now: DateTime<Utc>,
    events: &mut Vec<Event>,
) {
    let proof = |record: &str| Proof { source: "transcript".to_owned(), record: record.to_owned() };
    let step = |id: &MessageId| {
        // What an earlier session was given stands in the transcript of a conversation that goes on.
        let ours = |it: &&Receipt| it.attempt.as_ref().is_some_and(|it| it.spawn == spawn);
        team.message(id).and_then(|it| it.receipts.get(&at.1)).filter(ours).map(|it| it.step)
    };
    let repeated = |id: &MessageId| {
        let receipt = team.message(id).and_then(|it| it.receipts.get(&at.1));
        receipt.is_some_and(|it| it.attempts > 1)
    };
    let mut submitted = |text: &str, in_turn: bool, record: &str| {
        for id in find_message_ids(text) {
            let new = match step(&id) {
                // What is read of an earlier time may tell of an earlier attempt.
                Some(ReceiptStep::Sending) => !told && (live || !repeated(&id)),
                Some(ReceiptStep::Unknown) => live || !repeated(&id),
                Some(ReceiptStep::Submitted) => in_turn,
                _ => false,
            };
            if new {
                events.push(Event::MessageSubmitted {
                    id,
                    receiver: at.1.clone(),
                    in_turn,
                    proof: proof(record),
                });
            }
        }
    };
    match fact {
        Fact::Enqueued { text } => submitted(text, false, "enqueue"),
        Fact::TakenInTurn { text } => submitted(text, true, "taken in turn"),
        Fact::TurnStarted { prompt: Some(prompt), .. } => {
            submitted(prompt, !live || seat.turn.is_some(), "user");
        }
        Fact::TurnEnded { outcome, .. } if live && seat.turn.is_some() => {
            if matches!(outcome, Ended::Interrupted) {
                events.extend(facts::event(spawn, fact, proof("interrupted"), None, now));
            }
        }
        Fact::ApprovalResolved { .. } if live && !seat.approvals.is_empty() => {
            events.extend(facts::event(spawn, fact, proof("tool answered"), None, now));
        }
        Fact::Limited { .. } if live && seat.activity.kind != ActivityKind::Limited => {
            events.extend(facts::event(spawn, fact, proof("limit"), None, now));
        }
        _ => {}
    }
}

impl Core {
    /// The last lines of what a seat's program has written.
    pub(super) fn transcript_end(&self, at: &SeatKey) -> Option<String> {
        let mut files = self.records.seats.get(at)?.files.iter();
        crate::hook::tail_of(&files.find(|it| it.kind == RecordKind::Transcript)?.path)
    }
}

/// Where the messages of a bell lie.
pub(super) fn inbox_of(core: &Core, at: &SeatKey) -> Option<(PathBuf, PathBuf)> {
    let spawn = core.store.state.teams.get(&at.0)?.seats.get(&at.1)?.spawn.as_ref()?;
    let known = core.records.seats.get(at).filter(|it| it.spawn == spawn.id).and_then(|it| it.seat.as_ref());
    let read;
    let seat = if let Some(known) = known {
        known
    } else {
        let path = core.workspace.seat_dir(at.0.as_str(), at.1.as_str()).join(&spawn.seat);
        read = SeatFile::read(Path::new(&path)).ok()?;
        &read
    };
    Some((seat.inbox.clone()?, seat.bell.clone()?))
}

#[cfg(test)]
mod tests {
    use team_model::{AgentName, State, TeamKey};

    use super::*;

    #[test]
    fn a_status_written_twice_at_one_time_is_read_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("status.json");
        let now = Utc::now();
        let provider = team_provider::provider("fake").unwrap();
        let at = (TeamKey::new("current").unwrap(), AgentName::new("w1").unwrap());
        let mut state = State::default();
        let lines = [
            serde_json::json!({ "type": "team.started", "name": "", "session_name": "", "dir": "", "digest": "" }),
            serde_json::json!({ "type": "agent.added", "agent": "w1", "origin": "declared", "lead": false, "spec": {
                "role": "", "provider": "fake", "auth_mode": "subscription", "tools": [], "instructions": { "text": "", "chars": 0, "hash": "" }
            } }),
        ];
        for (seq, line) in (1..).zip(lines) {
            state.apply(seq, now, Some(&at.0), &serde_json::from_value(line).unwrap());
        }
        let team = state.teams.remove(&at.0).unwrap();
        let mut seat = team.seats[&at.1].clone();
        let mut file = Tracked {
            path: path.clone(),
            kind: RecordKind::Status,
            offset: 0,
            live_from: 0,
            changed: None,
            held: None,
            said_idle: None,
        };
        let mut read = |seat: &Seat| {
            let (mut events, mut idle) = (Vec::new(), false);
            file.read(provider, &team, &at, seat, SpawnId(1), Some(7), now, &mut events, &mut idle);
            let told = events.iter().find_map(|it| match it {
                Event::ActivityObserved { activity, .. } => Some(*activity),
                _ => None,
            });
            (told, idle)
        };
        // Both words are of one length.
        let write = |status: &str| {
            std::fs::write(&path, format!(r#"{{"pid":7,"status":"{status}"}}"#)).unwrap();
            File::options().write(true).open(&path).unwrap().set_modified(now.into()).unwrap();
        };
        write("busy");
        seat.activity.kind = ActivityKind::Idle;
        assert_eq!(read(&seat), (Some(ActivityKind::Working), false));
        seat.activity.kind = ActivityKind::Working;
        assert_eq!(read(&seat), (None, false));
        write("idle");
        assert_eq!(read(&seat), (Some(ActivityKind::Idle), true));
        assert_eq!(read(&seat), (None, true), "the same again is no news");
    }
}
