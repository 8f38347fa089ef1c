//! Following the log until something has happened, or cannot happen any more.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use team_model::{AgentName, Event, ReportStatus, SeatState, State, TaskId, TeamKey, TeamState};

use super::{Engine, told};
use crate::error::EngineError;
use crate::guardian::Guardian;
use crate::store::Line;

/// How often a command that waits looks whether the coordinator is still there.
const TEND: Duration = Duration::from_millis(200);

/// What somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// A task ends.
    Task(TaskId),
    /// An agent has a result that was not there before.
    Result(AgentName),
    /// An agent is idle and nothing waits for it.
    Idle(AgentName),
    /// An event of this type is written.
    Event(String),
}

/// How waiting ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Waited {
    /// Whether it happened.
    pub happened: bool,
    /// What was seen, in a sentence.
    pub what: String,
    /// The line that shows it.
    pub seq: Option<u64>,
    /// The task that was waited for.
    pub task: Option<String>,
    /// How it ended.
    pub status: Option<String>,
    /// The result that closed it.
    pub result_id: Option<String>,
    /// What that says.
    pub summary: Option<String>,
}

impl Waited {
    fn plain(happened: bool, what: String, seq: Option<u64>) -> Self {
        Self { happened, what, seq, task: None, status: None, result_id: None, summary: None }
    }

    /// Nothing has happened in the time that was given.
    pub fn not_yet(wish: &Wish, what: String) -> Self {
        let task = match wish {
            Wish::Task(task) => Some(task.to_string()),
            _ => None,
        };
        Self { task, ..Self::plain(false, what, None) }
    }
}

/// One line of the log for people and programs.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EventLine {
    /// Its place.
    pub seq: u64,
    /// When.
    pub ts: String,
    /// Its team.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// The whole event.
    pub event: serde_json::Value,
    /// Who wrote it.
    pub by: serde_json::Value,
}

/// A line of the log for people.
#[derive(Debug, Clone)]
pub struct Told {
    /// The agent that it is about.
    pub agent: Option<String>,
    /// What happened.
    pub words: String,
}

impl EventLine {
    pub(crate) fn of(line: &Line) -> Self {
        Self {
            seq: line.seq,
            ts: line.ts.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
            team: line.team.clone(),
            event: serde_json::to_value(&line.event).unwrap_or_default(),
            by: serde_json::to_value(&line.by).unwrap_or_default(),
        }
    }
}

impl Engine {
    /// Follows the log until `look` finds what it wants or the time is over.
    pub(crate) fn follow_until<T>(
        &mut self,
        limit: Duration,
        mut look: impl FnMut(&State) -> Option<T>,
    ) -> Result<Option<T>, EngineError> {
        let clock = self.clock.clone();
        let store = self.store_mut()?;
        let wake = store.journal().wake()?;
        loop {
            store.refresh()?;
            if let Some(found) = look(&store.state) {
                return Ok(Some(found));
            }
            let left = limit.saturating_sub(clock.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            wake.wait(Some(Instant::now() + left))?;
            store.journal().woken(&wake)?;
        }
    }

    /// Follows the log like [`Engine::follow_until`], and sees to it that a coordinator runs meanwhile: there may be no
    /// seat that does.
    pub(crate) fn follow_tended<T>(
        &mut self,
        limit: Duration,
        mut look: impl FnMut(&State) -> Option<T>,
    ) -> Result<Option<T>, EngineError> {
        let mut guardian = Guardian::new(&self.workspace);
        loop {
            let now = self.clock.elapsed();
            if let Some(found) = self.follow_until(limit.min(now + TEND), &mut look)? {
                return Ok(Some(found));
            }
            if self.clock.elapsed() >= limit {
                return Ok(None);
            }
            guardian.check();
        }
    }

    /// Waits for something; `Ok(false)` says that it can no longer happen.
    pub fn wait(
        &mut self,
        wish: &Wish,
        since: Option<u64>,
        timeout: Duration,
    ) -> Result<Waited, EngineError> {
        if let Wish::Event(wanted) = wish {
            return self.wait_event(wanted, since, timeout);
        }
        let key = self.team()?;
        let limit = self.clock.elapsed() + timeout;
        let start = self.store()?.state.clone();
        check_wish(&start, &key, wish)?;
        let had: Vec<_> = start
            .teams
            .get(&key)
            .map(|it| it.results.uncollected.keys().copied().collect())
            .unwrap_or_default();
        let found = self.follow_until(limit, |state| reached(state, &key, wish, &had))?;
        if let (Wish::Task(task), Some(Waited { happened: true, .. })) = (wish, &found) {
            return self.ended(&key, *task);
        }
        found.ok_or_else(|| {
            let about = match wish {
                Wish::Result(agent) | Wish::Idle(agent) => format!("explain {agent}"),
                Wish::Task(_) | Wish::Event(_) => "status".to_owned(),
            };
            EngineError::NotYet {
                message: wish_words(wish),
                hint: Some(format!("run `{}` to see why", crate::decide::command_for(&about, &key))),
            }
        })
    }

    /// How a task ended, from the lines that closed it.
    pub(super) fn ended(&self, key: &TeamKey, task: TaskId) -> Result<Waited, EngineError> {
        let plain = Waited {
            task: Some(task.to_string()),
            ..Waited::plain(true, format!("task {task} has ended"), None)
        };
        let store = self.store()?;
        // What was just reported waits to be collected, and its line is known; what is older is looked for.
        let waits = store.state.teams.get(key).and_then(|team| {
            team.results.uncollected.values().rev().find(|it| it.task == Some(task)).map(|it| it.seq)
        });
        let lines: Vec<_> = match waits {
            Some(seq) => store.line(seq)?.into_iter().collect(),
            None => store.find("results")?,
        };
        for line in lines.into_iter().rev().filter(|it| it.team.as_deref() == Some(key.as_str())) {
            let Event::McpReportResult { id, status, summary, task: of, .. } = line.event.0 else { continue };
            if of == Some(task) {
                return Ok(Waited {
                    what: format!("task {task} {} ({id}): {summary}", ended_word(status)),
                    seq: Some(line.seq),
                    status: Some(status.to_string()),
                    result_id: Some(id.to_string()),
                    summary: Some(summary),
                    ..plain
                });
            }
        }
        Ok(plain)
    }

    fn wait_event(
        &mut self,
        wanted: &str,
        since: Option<u64>,
        timeout: Duration,
    ) -> Result<Waited, EngineError> {
        let limit = Instant::now() + timeout;
        let store = self.store_mut()?;
        let from = since.unwrap_or(store.state.seq);
        let mut follow = store.journal().follow(store.journal().cursor_behind(from)?)?;
        let mut found = None;
        loop {
            let more = follow.next(Some(limit), &mut |line| {
                if found.is_none() && line.seq > from && type_of(&line.event.0) == wanted {
                    found = Some(line.seq);
                }
            })?;
            if let Some(seq) = found {
                return Ok(Waited::plain(true, format!("{wanted} was written"), Some(seq)));
            }
            let _ = more;
            if Instant::now() >= limit {
                return Err(EngineError::NotYet {
                    message: format!("no `{wanted}` was written behind line {from}"),
                    hint: Some("`--since 0` counts what was written before, too".to_owned()),
                });
            }
        }
    }

    /// Shows the lines behind `since`, and with `follow` those to come, until `each` says stop.
    pub fn events(
        &mut self,
        since: u64,
        follow: bool,
        each: &mut dyn FnMut(&EventLine, &Told) -> bool,
    ) -> Result<(), EngineError> {
        let only = self.team.clone().map(|_| self.team()).transpose()?;
        let store = self.store_mut()?;
        // Which agent a start belongs to: those of now, and those that pass by.
        let seats = store.state.teams.values().flat_map(|it| &it.seats);
        let mut starts: BTreeMap<u64, String> =
            seats.filter_map(|(name, seat)| Some((seat.spawn.as_ref()?.id.0, name.to_string()))).collect();
        let mut lines = store.journal().follow(store.journal().cursor_behind(since)?)?;
        let mut go_on = true;
        loop {
            let deadline = if follow { None } else { Some(Instant::now()) };
            lines.next(deadline, &mut |line| {
                if let Event::SpawnPlanned { agent, .. } = &line.event.0 {
                    starts.insert(line.seq, agent.to_string());
                }
                let ours = only.as_ref().is_none_or(|it| line.team.as_deref() == Some(it.as_str()));
                if go_on && line.seq > since && ours {
                    let told = Told {
                        agent: told::agent(&line.event.0, |it| starts.get(&it).cloned()),
                        words: told::words(&line.event.0),
                    };
                    go_on = each(&EventLine::of(line), &told);
                }
            })?;
            if !follow || !go_on {
                return Ok(());
            }
        }
    }
}

pub(crate) fn type_of(event: &Event) -> String {
    serde_json::to_value(event)
        .ok()
        .and_then(|it| it.get("type").and_then(|it| it.as_str().map(str::to_owned)))
        .unwrap_or_default()
}

fn wish_words(wish: &Wish) -> String {
    match wish {
        Wish::Task(task) => format!("task {task} is still open"),
        Wish::Result(agent) => format!("`{agent}` has no result to collect"),
        Wish::Idle(agent) => format!("`{agent}` is not idle"),
        Wish::Event(wanted) => format!("no `{wanted}` was written"),
    }
}

fn ended_word(status: ReportStatus) -> &'static str {
    match status {
        ReportStatus::Success => "succeeded",
        ReportStatus::Partial => "is done in part",
        ReportStatus::Failed => "failed",
        ReportStatus::Blocked => "is blocked",
    }
}

fn check_wish(state: &State, key: &TeamKey, wish: &Wish) -> Result<(), EngineError> {
    let Some(team) = state.teams.get(key) else { return Ok(()) };
    match wish {
        Wish::Task(task) if task.0 == 0 || task.0 > team.last_task => {
            Err(crate::decide::no_such_task(team, *task).into())
        }
        Wish::Result(agent) | Wish::Idle(agent) if !team.seats.contains_key(agent) => {
            Err(crate::decide::unknown_agent(team, agent.as_str()).into())
        }
        _ => Ok(()),
    }
}

fn reached(state: &State, key: &TeamKey, wish: &Wish, had: &[team_model::ResultId]) -> Option<Waited> {
    let Some(team) = state.teams.get(key) else {
        return Some(Waited::plain(false, "the team is gone".to_owned(), None));
    };
    let yes = |what: String| Some(Waited::plain(true, what, Some(state.seq)));
    let no = |what: String| Some(Waited::plain(false, what, Some(state.seq)));
    match wish {
        Wish::Task(task) => {
            if team.tasks.contains_key(task) {
                // Nobody works on it until somebody starts the team again.
                let stopped = matches!(team.state, TeamState::Stopped | TeamState::Lost);
                if stopped { no(format!("team `{key}` is stopped")) } else { None }
            } else {
                yes(format!("task {task} has ended"))
            }
        }
        Wish::Result(agent) => {
            let any = team.results.uncollected.iter().find(|(_, it)| it.agent == agent.as_str());
            match any {
                Some((id, _)) => yes(format!("result {id} of {agent} waits")),
                None => {
                    gone(team, agent).map_or_else(|| None, |why| if had.is_empty() { no(why) } else { None })
                }
            }
        }
        Wish::Idle(agent) => {
            let seat = team.seats.get(agent)?;
            let waits = team
                .messages
                .values()
                .any(|it| it.receipts.get(agent).is_some_and(|it| !it.step.is_settled()));
            if seat.is_idle() && !waits {
                return yes(format!("{agent} is idle"));
            }
            gone(team, agent).and_then(no)
        }
        Wish::Event(_) => None,
    }
}

fn gone(team: &team_model::Team, agent: &AgentName) -> Option<String> {
    match &team.seats.get(agent)?.state {
        SeatState::Stopped { cause } => Some(format!("{agent} has stopped ({cause})")),
        SeatState::Failed { why } => Some(format!("{agent} has failed: {why}")),
        _ => None,
    }
}
