//! Reporting and collecting results.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};
use schemars::JsonSchema;
use serde::Serialize;
use team_model::{Artifacts, Event, ReportStatus, ResultId, TeamKey};

use super::message::Text;
use super::status::Attention;
use super::{Caller, Engine};
use crate::decide::{self, Refusal, ReportCommand};
use crate::error::EngineError;
use crate::store::Line;

/// A report as it was made.
#[derive(Debug, Clone)]
pub struct ReportArgs {
    /// The short form.
    pub summary: String,
    /// What it says of the task.
    pub status: ReportStatus,
    /// The task.
    pub task: Option<String>,
    /// A task named where it does not belong.
    pub task_hint: Option<String>,
    /// The long form.
    pub text: Option<String>,
    /// Tests, changes and so on.
    pub lists: Artifacts,
    /// `mcp` or `cli`.
    pub via: &'static str,
    /// Labels for those who show it.
    pub presentation: BTreeMap<String, String>,
    /// Arguments that do not count.
    pub ignored: BTreeMap<String, String>,
}

/// A report that was recorded.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Reported {
    /// The result.
    pub result_id: String,
    /// The task it closed.
    pub task: Option<String>,
    /// What is still owed.
    pub owed: Vec<String>,
    /// Whether an older start of the seat made it.
    pub late: bool,
    /// Whether the reporter is known.
    pub proved: bool,
    /// All of it in a sentence.
    pub message: String,
}

/// Results that were handed out now.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Collected {
    /// How many.
    pub collected: usize,
    /// Each, oldest first.
    pub results: Vec<ResultShown>,
    /// What else waits for a person, each with the command to run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Attention>,
}

/// Results, collected or not.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Results {
    /// Each, oldest first.
    pub results: Vec<ResultShown>,
}

/// A test that a report names.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TestShown {
    /// The command.
    pub command: String,
    /// `passed`, `failed` or `skipped`.
    pub status: String,
    /// A remark.
    pub note: Option<String>,
}

/// A result for people and programs.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ResultShown {
    /// Its id.
    pub result_id: String,
    /// When it was recorded.
    pub ts: String,
    /// Who reported.
    pub agent: String,
    /// What it says.
    pub status: String,
    /// The task it closed.
    pub task: Option<String>,
    /// The label of its case: what `--case` said, else the task.
    pub case_id: Option<String>,
    /// The short form.
    pub summary: String,
    /// The long form.
    pub text: Option<String>,
    /// Tests and how they ended.
    pub tests: Vec<TestShown>,
    /// What was changed.
    pub changes: Vec<String>,
    /// What was made.
    pub artifacts: Vec<String>,
    /// What may go wrong.
    pub risks: Vec<String>,
    /// What should come next.
    pub next_actions: Vec<String>,
    /// What proves it.
    pub evidence: Vec<String>,
    /// What was learned.
    pub lessons: Vec<String>,
    /// `mcp` or `cli`.
    pub via: String,
    /// Whether an older start of the seat made it.
    pub late: bool,
    /// Whether it was collected, now or before.
    pub collected: bool,
}

impl Engine {
    /// Records a result of the caller.
    pub fn report(&mut self, args: &ReportArgs) -> Result<Reported, EngineError> {
        let key = self.team()?;
        let summary = Text::clean(&args.summary).text;
        let (now, by, reporter) = (self.clock.now(), self.by(), self.reporter());
        let store = self.store_mut()?;
        let text = match args.text.as_deref().map(Text::clean).filter(|it| !it.text.trim().is_empty()) {
            Some(text) => Some(store.body(&text.text, text.cleaned)?),
            None => None,
        };
        let command = ReportCommand {
            team: key.clone(),
            reporter,
            task: args.task.clone(),
            task_hint: args.task_hint.clone(),
            status: args.status,
            summary,
            text,
            lists: args.lists.clone(),
            via: args.via,
            presentation: args.presentation.clone(),
            ignored: args.ignored.clone(),
        };
        let outcome = store.decide(now, &by, Some(&key), |state| decide::report(state, &command))?;
        let message = outcome.sentence();
        Ok(Reported {
            result_id: outcome.id.to_string(),
            task: outcome.task.map(|it| it.to_string()),
            owed: outcome.owed.iter().map(ToString::to_string).collect(),
            late: outcome.late,
            proved: outcome.proved,
            message,
        })
    }

    /// Hands out each result that was not collected yet, once. They count as collected when `show` says that they were
    /// shown; whoever collects at the same time waits for that.
    pub fn collect(&mut self, show: &mut dyn FnMut(&Collected) -> bool) -> Result<Collected, EngineError> {
        if self.caller != Caller::Person {
            // What an agent took would never be seen by those it is for.
            return Err(Refusal::new("not_allowed", "an agent may not collect the team's results")
                .with_hint("look at them without taking them: run `team-agent results`")
                .into());
        }
        let key = self.team()?;
        let (now, by) = (self.clock.now(), self.by());
        let _alone = alone(&self.workspace.state_dir.join("locks/collect"))?;
        let store = self.store_mut()?;
        store.refresh()?;
        // Read first: a result is marked as collected only if it can be shown.
        let mut results = Vec::new();
        let waiting: Vec<(ResultId, u64)> = store
            .state
            .teams
            .get(&key)
            .map(|it| it.results.uncollected.iter().map(|(id, it)| (*id, it.seq)).collect())
            .unwrap_or_default();
        for (id, seq) in &waiting {
            if let Some(line) = store.line(*seq)? {
                results.extend(shown(store, line, true)?.map(|it| (*id, it)));
            }
        }
        let ids: Vec<ResultId> = results.iter().map(|(id, _)| *id).collect();
        let results: Vec<_> = results.into_iter().map(|(_, it)| it).collect();
        let for_people = |it: &Attention| !matches!(it.kind.as_str(), "results" | "stopped" | "coordinator");
        let waiting = self.status(None)?.attention.into_iter().filter(for_people).collect();
        let collected = Collected { collected: results.len(), results, waiting };
        if show(&collected) && !ids.is_empty() {
            let store = self.store_mut()?;
            store.decide(now, &by, Some(&key), |state| decide::collect(state, &key, Some(&ids)))?;
        }
        Ok(collected)
    }

    /// Lists all results, collected or not; marks nothing.
    pub fn results(&self, case: Option<&str>, limit: usize) -> Result<Results, EngineError> {
        let key = self.team()?;
        let store = self.store()?;
        let team = store.state.teams.get(&key);
        let since = team.map_or(0, |it| it.since);
        let mut results = Vec::new();
        for line in store.find("results")?.into_iter().filter(|it| it.seq > since).rev() {
            if line.team.as_deref() != Some(key.as_str()) || results.len() >= limit {
                continue;
            }
            let waits = team.is_some_and(|it| it.results.uncollected.contains_key(&ResultId(line.seq)));
            if let Some(result) = shown(store, line, !waits)? {
                let label = result.case_id.as_deref().or(result.task.as_deref());
                if case.is_none() || label == case {
                    results.push(result);
                }
            }
        }
        results.reverse();
        Ok(Results { results })
    }

    /// How many results wait.
    pub fn uncollected(&self, key: &TeamKey) -> usize {
        self.store
            .as_ref()
            .and_then(|it| it.state.teams.get(key))
            .map_or(0, |it| it.results.uncollected.len())
    }
}

fn shown(
    store: &crate::store::Store,
    line: Line,
    collected: bool,
) -> Result<Option<ResultShown>, EngineError> {
    let ts = line.ts.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    let Event::McpReportResult { id, agent, status, summary, task, case_id, text, lists, via, late, .. } =
        line.event.0
    else {
        return Ok(None);
    };
    let text = text.map(|it| store.text_of(&it)).transpose()?;
    Ok(Some(ResultShown {
        result_id: id.to_string(),
        ts,
        agent,
        status: status.to_string(),
        case_id: case_id.or_else(|| task.map(|it| it.to_string())),
        task: task.map(|it| it.to_string()),
        summary,
        text,
        tests: lists
            .tests
            .into_iter()
            .map(|it| TestShown { command: it.command, status: it.status.to_string(), note: it.note })
            .collect(),
        changes: lists.changes,
        artifacts: lists.artifacts,
        risks: lists.risks,
        next_actions: lists.next_actions,
        evidence: lists.evidence,
        lessons: lists.lessons,
        via,
        late,
        collected,
    }))
}

/// Holds a lock of its own for as long as one command shows something and marks it as shown.
fn alone(path: &Path) -> Result<Flock<File>, EngineError> {
    let failed = |source| EngineError::Io { doing: "lock", path: path.to_owned(), source };
    let file = File::options().create(true).truncate(false).write(true).open(path).map_err(failed)?;
    Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| failed(errno.into()))
}
