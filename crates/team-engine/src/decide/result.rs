//! Results: which task a report closes, and collecting them once.

use std::collections::BTreeMap;

use team_model::{
    AgentName, Artifacts, Body, Event, ReportStatus, RequestId, ResultId, ResultSource, SpawnId, State,
    TaskId, Team, TeamKey,
};

use super::Refusal;

/// Who reports, and how far that is proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reporter {
    /// A seat, proved by its seat file and ancestry.
    Agent {
        /// The seat.
        agent: AgentName,
        /// The start of the seat that speaks.
        spawn: SpawnId,
    },
    /// Nobody we know.
    Unknown,
}

/// A report that somebody makes.
#[derive(Debug, Clone)]
pub struct ReportCommand {
    /// The team.
    pub team: TeamKey,
    /// Who reports.
    pub reporter: Reporter,
    /// The task as written.
    pub task: Option<String>,
    /// A task id given where it does not belong; counts if it names an open task of this seat.
    pub task_hint: Option<String>,
    /// What it says of the task.
    pub status: ReportStatus,
    /// The short form.
    pub summary: String,
    /// The long form.
    pub text: Option<Body>,
    /// Tests, changes and so on.
    pub lists: Artifacts,
    /// `mcp` or `cli`.
    pub via: &'static str,
    /// Labels for those who show it.
    pub presentation: BTreeMap<String, String>,
    /// Arguments that were given and do not count.
    pub ignored: BTreeMap<String, String>,
}

/// What became of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportOutcome {
    /// The result.
    pub id: ResultId,
    /// The task it closed.
    pub task: Option<TaskId>,
    /// What the agent still owes.
    pub owed: Vec<TaskId>,
    /// Whether an older start of the seat made it.
    pub late: bool,
    /// Whether the reporter is known.
    pub proved: bool,
}

fn listed(tasks: impl Iterator<Item = TaskId>) -> String {
    tasks.map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ")
}

fn list_with_subjects(team: &Team, agent: &AgentName) -> String {
    team.owed_by(agent).map(|(id, task)| format!("`{id}` ({})", task.subject)).collect::<Vec<_>>().join(", ")
}

/// Decides what a report closes.
pub fn report(state: &State, command: &ReportCommand) -> Result<(Vec<Event>, ReportOutcome), Refusal> {
    let team = state.teams.get(&command.team).ok_or_else(|| {
        Refusal::new("no_such_team", format!("no team `{}` was started here", command.team))
    })?;
    let (agent, late) = match &command.reporter {
        Reporter::Agent { agent, spawn } => {
            let live = team.seats.get(agent).and_then(|it| it.spawn.as_ref()).map(|it| it.id);
            (Some(agent), live != Some(*spawn))
        }
        Reporter::Unknown => (None, false),
    };
    let task = match agent {
        Some(agent) => which_task(team, agent, command)?,
        None => None,
    };
    let id = ResultId(state.seq + 1);
    let failed = matches!(command.status, ReportStatus::Failed | ReportStatus::Blocked);
    let case_id = task.and_then(|it| team.tasks.get(&it)).and_then(|it| it.case_id.clone());
    let mut events = vec![Event::McpReportResult {
        id,
        agent: agent.map_or_else(|| "unknown".to_owned(), ToString::to_string),
        status: command.status,
        summary: command.summary.clone(),
        task,
        case_id,
        text: command.text.clone(),
        lists: command.lists.clone(),
        source: ResultSource::Report,
        via: command.via.to_owned(),
        late,
        partial: command.status == ReportStatus::Partial,
        presentation: command.presentation.clone(),
        ignored: command.ignored.clone(),
    }];
    if let Some(task) = task {
        events.push(if failed {
            Event::TaskFailed { id: task, result: id }
        } else {
            Event::TaskCompleted { id: task, result: id }
        });
    }
    let owed = agent
        .map(|agent| team.owed_by(agent).map(|(id, _)| id).filter(|it| Some(*it) != task).collect())
        .unwrap_or_default();
    Ok((events, ReportOutcome { id, task, owed, late, proved: agent.is_some() }))
}

fn which_task(team: &Team, agent: &AgentName, command: &ReportCommand) -> Result<Option<TaskId>, Refusal> {
    let owed: Vec<TaskId> = team.owed_by(agent).map(|(id, _)| id).collect();
    if let Some(written) = &command.task {
        return named_task(team, agent, written).map(Some);
    }
    if let Some(hint) = command.task_hint.as_ref().and_then(|it| it.parse::<TaskId>().ok())
        && owed.contains(&hint)
    {
        return Ok(Some(hint));
    }
    let seat = team.seats.get(agent);
    let turn = seat.and_then(|it| it.turn.as_ref());
    let in_turn = |message: &Option<team_model::MessageId>| {
        turn.zip(message.as_ref()).is_some_and(|(turn, message)| turn.messages.contains(message))
    };
    let of_turn: Vec<TaskId> = owed
        .iter()
        .copied()
        .filter(|it| team.tasks.get(it).is_some_and(|task| in_turn(&task.message)))
        .collect();
    let closed = seat.and_then(|it| it.closed.iter().rev().find(|(_, message)| in_turn(message)));
    match (owed.as_slice(), of_turn.as_slice(), closed) {
        ([only], _, None) | (_, [only], _) => Ok(Some(*only)),
        (_, [], Some((done, _))) => {
            let refusal = Refusal::new("already_reported", format!("task `{done}` was reported already"));
            Err(if owed.is_empty() {
                refusal.with_hint("nothing is owed any more: end your turn")
            } else {
                refusal.with_hint(format!(
                    "to report another one, give `task`: {}",
                    list_with_subjects(team, agent)
                ))
            })
        }
        ([], _, _) => Ok(None),
        _ => {
            Err(Refusal::new("which_task", "several tasks are open and nothing says which one this is about")
                .with_hint(format!("give `task`: {}", list_with_subjects(team, agent))))
        }
    }
}

fn named_task(team: &Team, agent: &AgentName, written: &str) -> Result<TaskId, Refusal> {
    let owed = || {
        let list = list_with_subjects(team, agent);
        if list.is_empty() {
            "you owe no task; leave `task` out".to_owned()
        } else {
            format!("you owe: {list}")
        }
    };
    let id: TaskId =
        written.trim().parse().map_err(|_| {
            let number: String = written.chars().filter(char::is_ascii_digit).collect();
            Refusal::new("bad_task_id", format!("`{written}` is no task id"))
                .with_hint(if number.is_empty() { owed() } else { number })
        })?;
    if id.0 == 0 || id.0 > team.last_task {
        return Err(Refusal::new("task_not_found", format!("there is no task `{id}`")).with_hint(owed()));
    }
    let Some(task) = team.tasks.get(&id) else {
        return Err(
            Refusal::new("already_reported", format!("task `{id}` is closed already")).with_hint(owed())
        );
    };
    if task.owner.as_ref() != Some(agent) {
        let owner = task.owner.as_ref().map_or_else(|| "nobody".to_owned(), ToString::to_string);
        return Err(Refusal::new("not_owner", format!("task `{id}` belongs to {owner}")).with_hint(owed()));
    }
    Ok(id)
}

/// Decides which results are collected now: all that wait, each once.
pub fn collect(
    state: &State,
    team: &TeamKey,
    only: Option<&[ResultId]>,
) -> Result<(Vec<Event>, Vec<ResultId>), Refusal> {
    let found = state
        .teams
        .get(team)
        .ok_or_else(|| Refusal::new("no_such_team", format!("no team `{team}` was started here")))?;
    let results: Vec<ResultId> = found
        .results
        .uncollected
        .keys()
        .copied()
        .filter(|it| only.is_none_or(|only| only.contains(it)))
        .collect();
    if results.is_empty() {
        return Ok((Vec::new(), results));
    }
    Ok((vec![Event::CollectResult { results: results.clone() }], results))
}

/// Decides whether a question to a human is taken.
pub fn ask_human(
    state: &State,
    team: &TeamKey,
    reporter: &Reporter,
    question: &str,
    choices: &[String],
) -> Result<(Vec<Event>, RequestId), Refusal> {
    if !state.teams.contains_key(team) {
        return Err(Refusal::new("no_such_team", format!("no team `{team}` was started here")));
    }
    let agent = match reporter {
        Reporter::Agent { agent, .. } => agent.to_string(),
        Reporter::Unknown => "unknown".to_owned(),
    };
    let id = RequestId(state.seq + 1);
    let asked = Event::HumanAsked { id, agent, question: question.to_owned(), choices: choices.to_vec() };
    Ok((vec![asked], id))
}

impl ReportOutcome {
    /// Says in a sentence what was closed and what is still owed.
    pub fn sentence(&self) -> String {
        let mut text = match (self.task, self.proved) {
            (Some(task), _) => format!("Result {} is recorded and closes task {task}.", self.id),
            (None, true) => format!("Result {} is recorded; no task was open.", self.id),
            (None, false) => format!(
                "Result {} is recorded from an unknown sender and closes no task. To report as an agent, call the tool from that agent's own session or run `team-agent report` in its shell.",
                self.id
            ),
        };
        if self.late {
            text.push_str(" It came from an earlier start of this agent and is marked late.");
        }
        if !self.owed.is_empty() {
            text += &[" Still owed: ", &listed(self.owed.iter().copied()), "."].concat();
        }
        text
    }
}
