//! A log with much behind it: a team of the past that worked for long and was stopped.
//!
//! Written through the journal by a process of its own, whose environment says where the state directory is.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use chrono::{DateTime, Utc};
use team_engine::store::Entry;
use team_engine::workspace::Workspace;
use team_journal::{Draft, Journal, Options, Places};
use team_model::{
    ActivityKind, AgentName, Body, By, Cause, Channel, ClosesOn, Event, MessageId, MessageKind, Origin,
    Proof, ReportStatus, ResultId, ResultSource, SeatSpec, SpawnId, SpawnMode, TaskId, TeamKey, TurnOutcome,
};

/// The hidden command that writes it.
pub(super) const COMMAND: &str = "write-history";

const SEATS: u64 = 16;
const WAIT: Duration = Duration::from_secs(5);

/// Writes so many lines into the log of a workspace that has none yet: `ROOT LINES`.
pub(super) fn write(arguments: &[String]) -> Result<()> {
    let [root, lines] = arguments else { anyhow::bail!("write-history wants ROOT LINES") };
    let workspace = Workspace::open(Path::new(root))?;
    let places =
        Places { logs: workspace.logs(), state: workspace.state_dir.clone(), cache: workspace.runtime() };
    let mut options = Options::new(By::Log);
    options.sync = false;
    let journal = Journal::create(places, options, &workspace.id)?;
    let mut past = Past::new(&journal)?;
    past.begin()?;
    let lines: u64 = lines.parse().context("LINES is a number")?;
    let mut turn = 0;
    while past.seq() + 2 * SEATS < lines {
        past.turn(turn)?;
        turn += 1;
    }
    past.end()
}

struct Past<'a> {
    guard: team_journal::Guard<'a, By, Entry>,
    team: TeamKey,
    agents: Vec<AgentName>,
    spawns: Vec<SpawnId>,
    tasks: u64,
    now: DateTime<Utc>,
}

impl<'a> Past<'a> {
    fn new(journal: &'a Journal<By, Entry>) -> Result<Self> {
        let agents = (1..=SEATS).map(|it| AgentName::new(&format!("old{it}"))).collect::<Result<_, _>>()?;
        Ok(Self {
            guard: journal.lock(WAIT)?,
            team: TeamKey::new("past")?,
            agents,
            spawns: Vec::new(),
            tasks: 0,
            now: "2026-01-01T00:00:00Z".parse()?,
        })
    }

    fn seq(&self) -> u64 {
        self.guard.cursor().seq
    }

    /// Appends events that know what their numbers will be.
    fn append(&mut self, by: &By, events: impl FnOnce(u64) -> Vec<Event>) -> Result<()> {
        self.now += chrono::TimeDelta::milliseconds(400);
        let events = events(self.seq() + 1);
        let draft = |event| Draft { team: Some(self.team.to_string()), by: by.clone(), event: Entry(event) };
        let drafts = events.into_iter().map(draft).collect();
        self.guard.append(self.now, drafts)?;
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        let started = Event::TeamStarted {
            name: "past".to_owned(),
            session_name: "past-0000".to_owned(),
            dir: "/nowhere/past".to_owned(),
            digest: "0".repeat(16),
            goal: Some("to have worked for long".to_owned()),
            leader: None,
        };
        self.append(&By::Person, |_| vec![started])?;
        let process = team_engine::process::this_process();
        for agent in self.agents.clone() {
            let spec = SeatSpec {
                role: "Worker".to_owned(),
                provider: "fake".to_owned(),
                model: None,
                effort: None,
                auth_mode: "subscription".to_owned(),
                profile: None,
                tools: vec!["fs_read".to_owned(), "mcp_team".to_owned()],
                working_directory: None,
                instructions: Body::inline("Work on what you are given and report."),
            };
            let mut spawn = SpawnId(0);
            self.append(&By::Coordinator { epoch: 1 }, |next| {
                spawn = SpawnId(next + 2);
                vec![
                    Event::AgentAdded {
                        agent: agent.clone(),
                        origin: Origin::Declared,
                        manager: None,
                        lead: false,
                        spec,
                        task: None,
                        run: None,
                        member: None,
                    },
                    Event::AgentQueued { agent: agent.clone(), mode: SpawnMode::Fresh },
                    Event::SpawnPlanned {
                        agent: agent.clone(),
                        mode: SpawnMode::Fresh,
                        session: None,
                        native: Some("00000000-0000-4000-8000-000000000000".to_owned()),
                        needs: Vec::new(),
                        channel: Channel::Keys,
                        seat: "old.json".to_owned(),
                        notes: Vec::new(),
                    },
                    Event::SessionClaimed { spawn, process: process.clone() },
                    Event::ActivityObserved {
                        spawn,
                        activity: ActivityKind::Idle,
                        reason: None,
                        until: None,
                        at: None,
                        proof: proof("status_file", "idle"),
                    },
                ]
            })?;
            self.spawns.push(spawn);
        }
        Ok(())
    }

    /// A message, its way, its turn; every fourth time a task with a result that is collected.
    fn turn(&mut self, count: u64) -> Result<()> {
        let at = usize::try_from(count % SEATS)?;
        let (agent, spawn) = (self.agents[at].clone(), self.spawns[at]);
        let owes = count.is_multiple_of(4);
        if owes {
            self.tasks += 1;
        }
        let task = owes.then_some(TaskId(self.tasks));
        let text =
            format!("Look at part {count} of the work: read it, mend what is wrong, and say what you found.");
        let process = team_engine::process::this_process();
        let coordinator = By::Coordinator { epoch: 1 };
        let mut id = MessageId::Seq(0);
        self.append(&By::Person, |next| {
            id = MessageId::Seq(next);
            let accepted = Event::MessageAccepted {
                id: id.clone(),
                kind: if owes { MessageKind::Brief } else { MessageKind::Message },
                from: "leader".to_owned(),
                to: vec![agent.clone()],
                to_leader: false,
                addressed: agent.to_string(),
                task,
                reply_to: None,
                request: None,
                run: None,
                case_id: None,
                presentation: std::collections::BTreeMap::new(),
                ignored: std::collections::BTreeMap::new(),
                body: Body::inline(&text),
            };
            let created = task.map(|id_of_task| Event::TaskCreated {
                id: id_of_task,
                creator: "leader".to_owned(),
                subject: format!("part {count}"),
                owner: Some(agent.clone()),
                depends_on: Vec::new(),
                closes_on: ClosesOn::Report,
                run: None,
                message: Some(id.clone()),
                case_id: None,
            });
            std::iter::once(accepted).chain(created).collect()
        })?;
        self.append(&coordinator, |next| {
            vec![Event::MessageSending {
                id: id.clone(),
                receiver: agent.clone(),
                attempt: 1,
                channel: Channel::Keys,
                spawn,
                receiver_process: process,
                proof_from: next - 1,
                file: None,
            }]
        })?;
        self.append(&By::Seat { spawn }, |_| {
            let messages = vec![id.clone()];
            vec![Event::TurnStarted { spawn, messages, chars: 140, proof: proof("hook", "UserPromptSubmit") }]
        })?;
        if let Some(task) = task {
            let mut result = ResultId(0);
            self.append(&By::Agent { agent: agent.clone(), spawn }, |next| {
                result = ResultId(next);
                vec![
                    Event::McpReportResult {
                        id: result,
                        agent: agent.to_string(),
                        status: ReportStatus::Success,
                        summary: format!("Part {count} is done; two faults were found and mended."),
                        task: Some(task),
                        case_id: None,
                        text: None,
                        lists: team_model::Artifacts::default(),
                        source: ResultSource::Report,
                        via: "mcp".to_owned(),
                        late: false,
                        partial: false,
                        presentation: std::collections::BTreeMap::new(),
                        ignored: std::collections::BTreeMap::new(),
                    },
                    Event::TaskCompleted { id: task, result },
                ]
            })?;
            self.append(&By::Person, |_| vec![Event::CollectResult { results: vec![result] }])?;
        }
        self.append(&By::Seat { spawn }, |_| {
            let outcome = TurnOutcome::Answer;
            vec![Event::TurnEnded { spawn, outcome, why: None, chars: 260, proof: proof("hook", "Stop") }]
        })
    }

    fn end(&mut self) -> Result<()> {
        self.append(&By::Person, |_| vec![Event::TeamStopPlanned {}])?;
        for agent in self.agents.clone() {
            let stopped = Event::AgentStopped { agent, session: None, cause: Cause::Shutdown };
            self.append(&By::Coordinator { epoch: 1 }, |_| vec![stopped])?;
        }
        self.append(&By::Coordinator { epoch: 1 }, |_| vec![Event::TeamStopped { clean: true }])
    }
}

fn proof(source: &str, record: &str) -> Proof {
    Proof { source: source.to_owned(), record: record.to_owned() }
}
