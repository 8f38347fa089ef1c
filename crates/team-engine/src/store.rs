//! The log with the state folded from it: the one way the engine reads and writes facts.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use team_journal::{
    BodyRef, Cursor, Draft, FreeFields, Guard, Journal, LogFact, Options, Payload, Places, Priority, Redactor,
};
use team_model::{Body, By, Event, FOLD_FORMAT, State, TeamKey};

use crate::clock::{Clock as _, RealClock};
use crate::decide::Refusal;
use crate::error::EngineError;
use crate::workspace::Workspace;

/// A line of our log.
pub type Line = team_journal::Line<By, Entry>;

/// How long a command waits for the log.
const COMMAND_WAIT: Duration = Duration::from_secs(5);
/// How long a hook waits for the log before it leaves its line in the spool.
const HOOK_WAIT: Duration = Duration::from_millis(200);
/// So many lines are read through rather than looked up in an index.
const LATELY: u64 = 4000;
/// So many lines are worth a new cache at once, before several processes read them again.
const MANY: u64 = 2000;
/// Texts of at most this many bytes stand in their line.
const INLINE: usize = 16 * 1024;

/// An event as the journal carries it; one that this version cannot read is kept as unknown.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry(pub Event);

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // A newer program may use words this one does not know: such a line is no damage.
        // Borrowed: lines are read from memory, and there are many.
        let raw = <&serde_json::value::RawValue>::deserialize(from)?;
        Ok(Self(Event::read(raw.get())))
    }
}

impl Payload for Entry {
    fn from_log(fact: LogFact) -> Self {
        Self(match fact {
            LogFact::Opened { log_id, format, prev_seq, prev_hash } => {
                Event::LogOpened { log_id, format, prev_seq, prev_hash }
            }
            LogFact::Sealed { last_seq } => Event::LogSealed { last_seq },
            LogFact::Damaged { from, to } => Event::LogDamaged { from, to },
            LogFact::Restored {} => Event::LogRestored {},
            LogFact::Tampered { seq } => Event::LogTampered { at: seq },
            LogFact::TailSetAside { bytes } => Event::LogTailSetAside { bytes },
        })
    }

    fn as_log(&self) -> Option<LogFact> {
        Some(match &self.0 {
            Event::LogOpened { log_id, format, prev_seq, prev_hash } => LogFact::Opened {
                log_id: log_id.clone(),
                format: *format,
                prev_seq: *prev_seq,
                prev_hash: prev_hash.clone(),
            },
            Event::LogSealed { last_seq } => LogFact::Sealed { last_seq: *last_seq },
            Event::LogDamaged { from, to } => LogFact::Damaged { from: *from, to: *to },
            Event::LogRestored {} => LogFact::Restored {},
            Event::LogTampered { at } => LogFact::Tampered { seq: *at },
            Event::LogTailSetAside { bytes } => LogFact::TailSetAside { bytes: *bytes },
            _ => return None,
        })
    }

    fn keys(&self) -> Vec<String> {
        keys(&self.0)
    }

    fn read_quickly(json: &str) -> Option<Self> {
        Event::read_quickly(json).map(Self)
    }
}

/// The words under which an event is found again once it has left the state.
fn keys(event: &Event) -> Vec<String> {
    match event {
        Event::MessageAccepted { id, .. } => vec![id.to_string(), "messages".to_owned()],
        Event::MessageSending { id, .. }
        | Event::MessageSubmitted { id, .. }
        | Event::MessageNotSent { id, .. }
        | Event::MessageUnknown { id, .. }
        | Event::MessageReturned { id, .. }
        | Event::MessageRefused { id, .. }
        | Event::MessageAgain { id, .. }
        | Event::MessageHeld { id, .. }
        | Event::MessageWithdrawn { id, .. } => vec![id.to_string()],
        Event::TurnStarted { messages, .. } => messages.iter().map(ToString::to_string).collect(),
        Event::TaskCreated { id, .. } => vec![format!("task:{id}")],
        Event::McpReportResult { id, .. } => vec![id.to_string(), "results".to_owned()],
        Event::CollectResult { .. } => vec!["collected".to_owned()],
        _ => Vec::new(),
    }
}

/// The log and its fold.
#[derive(Debug)]
pub struct Store {
    journal: Journal<By, Entry>,
    cursor: Cursor,
    /// What is true now, as far as the log was read.
    pub state: State,
    folded: u64,
}

fn places(workspace: &Workspace) -> Places {
    Places { logs: workspace.logs(), state: workspace.state_dir.clone(), cache: workspace.runtime() }
}

fn options(workspace: &Workspace) -> Options<By> {
    Options { redactor: redactor(workspace), ..Options::new(By::Log) }
}

/// What must never reach the log: tokens of well-known shapes, and every value of the workspace's profiles.
fn redactor(workspace: &Workspace) -> Redactor {
    let teams = std::fs::read_dir(workspace.team_root()).into_iter().flatten().filter_map(Result::ok);
    let files = teams
        .filter_map(|it| std::fs::read_dir(it.path().join(team_spec::PROFILES_DIR)).ok())
        .flat_map(|it| it.filter_map(Result::ok))
        .map(|it| it.path())
        .filter(|it| it.extension().is_some_and(|it| it == "env"));
    let profiles: Vec<_> =
        files.filter_map(|it| team_spec::parse_profile("profile", &std::fs::read(it).ok()?).ok()).collect();
    let secrets = profiles.iter().flat_map(team_spec::Profile::secrets);
    let fields = FreeFields { names: team_model::FREE_TEXT, except: team_model::NO_FREE_TEXT };
    Redactor::standard().with_literals(secrets).in_fields(fields)
}

impl Store {
    /// Opens the log of a workspace for reading; creates nothing.
    pub fn look(workspace: &Workspace) -> Result<Option<Self>, EngineError> {
        if !workspace.logs().join("events.jsonl").exists() || workspace.id.is_empty() {
            return Ok(None);
        }
        let store = Self::over(Journal::open(places(workspace), options(workspace))?)?;
        Ok(store.is_of(workspace).then_some(store))
    }

    /// Opens the log of a workspace, creating it where there is none yet.
    pub fn open(workspace: &Workspace) -> Result<Self, EngineError> {
        let places = places(workspace);
        if !places.active().exists() {
            return Self::over(Journal::create(places, options(workspace), &workspace.id)?);
        }
        let mut store = Self::over(Journal::open(places, options(workspace))?)?;
        if !store.is_of(workspace) {
            store.adopt(workspace)?;
        }
        Ok(store)
    }

    /// Says whether the log tells of this workspace; a copied one still tells of the original.
    fn is_of(&self, workspace: &Workspace) -> bool {
        self.state.workspace.is_empty() || self.state.workspace == workspace.id
    }

    /// Makes everything that was copied history, which nobody acts on.
    fn adopt(&mut self, workspace: &Workspace) -> Result<(), EngineError> {
        let id = workspace.id.clone();
        self.decide(RealClock::default().now(), &By::Log, None, |state| {
            if state.workspace == id {
                return Ok((Vec::new(), ()));
            }
            let teams = state.teams.keys().cloned().collect();
            let copied_from = Some(state.workspace.clone());
            Ok((vec![Event::WorkspaceAdopted { id: id.clone(), copied_from, teams }], ()))
        })
    }

    /// Opens the log only to append what was seen; folds nothing.
    pub fn observer(workspace: &Workspace) -> Result<Self, EngineError> {
        let journal = Journal::open(places(workspace), options(workspace))?;
        let cursor = journal.cursor_start()?;
        Ok(Self { journal, cursor, state: State::default(), folded: 0 })
    }

    fn over(journal: Journal<By, Entry>) -> Result<Self, EngineError> {
        let (state, cursor) = match journal.load_snapshot::<State>(FOLD_FORMAT) {
            Some((state, cursor)) => (state, cursor),
            None => (State::default(), journal.cursor_start()?),
        };
        let mut store = Self { journal, cursor, state, folded: 0 };
        store.refresh()?;
        Ok(store)
    }

    /// Returns the log itself, to be followed or searched.
    pub fn journal(&self) -> &Journal<By, Entry> {
        &self.journal
    }

    /// Folds what has been written since.
    pub fn refresh(&mut self) -> Result<bool, EngineError> {
        let (state, folded) = (&mut self.state, &mut self.folded);
        let before = *folded;
        self.journal.read_new(&mut self.cursor, &mut |line| {
            fold(state, line);
            *folded += 1;
        })?;
        Ok(*folded > before)
    }

    /// Folds what has been written since, and shows each line.
    pub fn refresh_with(&mut self, mut each: impl FnMut(&Line)) -> Result<(), EngineError> {
        let state = &mut self.state;
        self.journal.read_new(&mut self.cursor, &mut |line| {
            fold(state, line);
            each(line);
        })?;
        Ok(())
    }

    /// Carries a decision out: folds, and under the lock folds what came since, decides, and appends in one write.
    pub fn decide<T>(
        &mut self,
        now: DateTime<Utc>,
        by: &By,
        team: Option<&TeamKey>,
        decide: impl FnOnce(&State) -> Result<(Vec<Event>, T), Refusal>,
    ) -> Result<T, EngineError> {
        self.decide_as(Priority::Intent, now, by, team, decide)
    }

    /// Carries a decision out like [`Store::decide`] that is also carried out when little space is left: something that
    /// has happened, or an end.
    pub fn conclude<T>(
        &mut self,
        now: DateTime<Utc>,
        by: &By,
        team: Option<&TeamKey>,
        decide: impl FnOnce(&State) -> Result<(Vec<Event>, T), Refusal>,
    ) -> Result<T, EngineError> {
        self.decide_as(Priority::Outcome, now, by, team, decide)
    }

    fn decide_as<T>(
        &mut self,
        priority: Priority,
        now: DateTime<Utc>,
        by: &By,
        team: Option<&TeamKey>,
        decide: impl FnOnce(&State) -> Result<(Vec<Event>, T), Refusal>,
    ) -> Result<T, EngineError> {
        self.refresh()?;
        let Self { journal, cursor, state, folded } = self;
        let mut guard = journal.lock(COMMAND_WAIT)?;
        let mut catch_up = |guard: &Guard<'_, By, Entry>, state: &mut State| {
            guard.read_new(cursor, &mut |line| {
                fold(state, line);
                *folded += 1;
            })
        };
        // Ids are numbers of lines: what the log itself has to say comes before the decision, not in front of it.
        catch_up(&guard, state)?;
        guard.write_own_lines(now)?;
        catch_up(&guard, state)?;
        let (events, value) = decide(state)?;
        if events.is_empty() {
            return Ok(value);
        }
        guard.append_as(priority, now, drafts(by, team, events))?;
        catch_up(&guard, state)?;
        guard.unlock_and_sync()?;
        Ok(value)
    }

    /// Appends what was seen, without folding; never refused.
    pub fn observe(
        &self,
        now: DateTime<Utc>,
        by: &By,
        team: Option<&TeamKey>,
        events: Vec<Event>,
    ) -> Result<(), EngineError> {
        if !events.is_empty() {
            self.journal.observe(now, drafts(by, team, events), HOOK_WAIT)?;
        }
        Ok(())
    }

    /// Reads one line again.
    pub fn line(&self, seq: u64) -> Result<Option<Line>, EngineError> {
        Ok(self.journal.read_seq(seq)?)
    }

    /// Finds the lines about something, oldest first.
    pub fn find(&self, key: &str) -> Result<Vec<Line>, EngineError> {
        Ok(self.journal.find(key)?)
    }

    /// Finds the lines about something that began with line `seq`, oldest first.
    pub fn find_since(&self, key: &str, seq: u64) -> Result<Vec<Line>, EngineError> {
        // To read a few lines takes less than to open an index that may lag behind.
        let lately = self.state.seq.saturating_sub(seq) <= LATELY;
        Ok(if lately { self.journal.find_since(key, seq)? } else { self.journal.find(key)? })
    }

    /// Makes a body of a text: a long one goes into a file of its own.
    pub fn body(&self, text: &str, cleaned: u64) -> Result<Body, EngineError> {
        let mut body = if text.len() > INLINE {
            let file = self.journal.put_body(text)?;
            Body::filed(text, file.sha256, file.bytes)
        } else {
            Body::inline(text)
        };
        body.cleaned = cleaned;
        Ok(body)
    }

    /// Returns the text of a body.
    pub fn text_of(&self, body: &Body) -> Result<String, EngineError> {
        match (&body.text, &body.file) {
            (Some(text), _) => Ok(text.clone()),
            (None, Some(file)) => {
                let stored = BodyRef { sha256: file.clone(), bytes: body.bytes };
                Ok(self.journal.get_body(&stored)?)
            }
            (None, None) => Ok(String::new()),
        }
    }

    /// Writes the cache of the state.
    pub fn save_snapshot(&self) -> Result<(), EngineError> {
        Ok(self.journal.save_snapshot(&self.state, &self.cursor, FOLD_FORMAT)?)
    }

    /// Writes the cache of the state if it took long to fold it: whoever opens the log next is spared that.
    pub fn keep_for_others(&self) {
        if self.folded >= MANY {
            // Only a cache.
            let _ = self.save_snapshot();
        }
    }

    /// Says how many lines were folded by this process.
    pub fn folded(&self) -> u64 {
        self.folded
    }
}

fn drafts(by: &By, team: Option<&TeamKey>, events: Vec<Event>) -> Vec<Draft<By, Entry>> {
    events
        .into_iter()
        .map(|event| Draft { team: team.map(ToString::to_string), by: by.clone(), event: Entry(event) })
        .collect()
}

fn fold(state: &mut State, line: &Line) {
    let team = line.team.as_deref().and_then(|it| TeamKey::new(it).ok());
    state.apply(line.seq, line.ts, team.as_ref(), &line.event.0);
}
