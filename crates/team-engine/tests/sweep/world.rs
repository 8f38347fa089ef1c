//! Everything that outlives a coordinator: terminal, clock, processes, agents, the person with their messages, the log.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use team_engine::EngineError;
use team_engine::clock::Clock as _;
use team_engine::coordinator::{Core, Round};
use team_engine::decide::{self, SendCommand, Sender, StartCommand, StartSeat};
use team_engine::failpoint::Failpoints;
use team_engine::store::Store;
use team_engine::wish;
use team_engine::workspace::Workspace;
use team_model::{
    AgentName, Body, By, MessageId, MessageKind, ReceiptStep, SeatSpec, SeatState, SpawnId, State, TeamKey,
    TeamState,
};
use team_tmux::{Exit, FakeInput, FakeTerminal, Pane};

use crate::agent::{Agent, Surroundings};
use crate::fakes::{FakeClock, FakeProcesses};

/// How long one turn of the world is.
const TURN: Duration = Duration::from_millis(5);
/// After how many turns without news the clock jumps to the coordinator's next time limit.
const QUIET: u32 = 4;

/// What one run consists of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plot {
    /// Agents per team; one team is reached by keys, the other by its bell.
    pub(crate) agents: usize,
    /// Messages, every other one a brief.
    pub(crate) messages: usize,
}

/// A message that was accepted, and for whom.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) team: TeamKey,
    pub(crate) id: MessageId,
    pub(crate) to: Vec<AgentName>,
    pub(crate) brief: bool,
}

pub(crate) type Agents = Arc<Mutex<BTreeMap<Pane, Agent>>>;

pub(crate) struct World {
    pub(crate) workspace: Workspace,
    pub(crate) terminal: FakeTerminal,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) processes: Arc<FakeProcesses>,
    pub(crate) agents: Agents,
    pub(crate) store: Store,
    pub(crate) sent: Vec<Sent>,
    pub(crate) core: Option<Core>,
    /// How much was typed when the one that slept woke up.
    pub(crate) inputs_asleep: Option<usize>,
    plot: Plot,
    met: BTreeSet<Pane>,
    turns: u32,
    quiet: u32,
    ending: bool,
    _dir: tempfile::TempDir,
}

pub(crate) fn teams() -> [TeamKey; 2] {
    ["keys", "bell"].map(|it| TeamKey::new(it).unwrap())
}

fn name_of(number: usize) -> AgentName {
    AgentName::new(&format!("w{number}")).unwrap()
}

/// Memory where the machine has such a place: a log that is synced a hundred times a run wants no disk.
fn directory() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let builder = tempfile::Builder::new().prefix("ta-").to_owned();
    if memory.is_dir()
        && let Ok(dir) = builder.tempdir_in(memory)
    {
        return dir;
    }
    builder.tempdir().unwrap()
}

impl World {
    /// A workspace in which two teams were just wished for.
    pub(crate) fn new(plot: Plot) -> Self {
        let dir = directory();
        let root = std::fs::canonicalize(dir.path()).unwrap();
        let state_dir = root.join("state");
        for part in ["locks", "seats", "env"] {
            std::fs::create_dir_all(state_dir.join(part)).unwrap();
        }
        std::fs::create_dir_all(root.join("ws/.team")).unwrap();
        let workspace = Workspace {
            root: root.join("ws"),
            id: "0123456789abcdef".to_owned(),
            state_dir,
            copied_from: None,
            exists: true,
        };
        let store = Store::open(&workspace).unwrap();
        let terminal = FakeTerminal::new();
        let agents: Agents = Arc::default();
        let seen = Arc::clone(&agents);
        terminal.on_input(move |input| {
            let mut agents = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let agent = agents.get_mut(&input.pane())?;
            match input {
                FakeInput::Paste { text, enter, .. } => {
                    assert!(!enter, "Enter comes by itself");
                    agent.paste(text);
                }
                FakeInput::Press { key, .. } => agent.press(*key),
            }
            Some(agent.screen())
        });
        let mut world = Self {
            processes: Arc::new(FakeProcesses::new(terminal.unclaimed())),
            workspace,
            terminal,
            clock: Arc::new(FakeClock::new()),
            agents,
            store,
            sent: Vec::new(),
            core: None,
            inputs_asleep: None,
            plot,
            met: BTreeSet::new(),
            turns: 0,
            quiet: 0,
            ending: false,
            _dir: dir,
        };
        for team in teams() {
            world.start_team(&team);
        }
        world
    }

    fn start_team(&mut self, team: &TeamKey) {
        let home = self.workspace.root.to_string_lossy().into_owned();
        let env = serde_json::json!({ "HOME": home, "PATH": "/bin", "FAKE_CHANNEL": team.as_str() });
        let file = self.workspace.state_dir.join("env").join(format!("{team}.json"));
        std::fs::write(file, env.to_string()).unwrap();
        let spec = SeatSpec {
            role: "Worker".to_owned(),
            provider: "fake".to_owned(),
            model: None,
            effort: None,
            auth_mode: "subscription".to_owned(),
            profile: None,
            tools: Vec::new(),
            working_directory: None,
            instructions: Body::inline("Work."),
        };
        let seat = |it| StartSeat { agent: name_of(it), spec: spec.clone() };
        let command = StartCommand {
            team: team.clone(),
            name: team.to_string(),
            session_name: format!("team-{team}"),
            dir: self.workspace.root.to_string_lossy().into_owned(),
            digest: String::new(),
            goal: None,
            leader: None,
            seats: (1..=self.plot.agents).map(seat).collect(),
        };
        wish::keep(&self.workspace, &command, &team_spec::Approvals::default()).unwrap();
        let start = |state: &State| Ok((decide::start_team(state, &command)?, ()));
        self.store.decide(self.clock.now(), &By::Person, Some(team), start).unwrap();
    }

    /// What makes a new coordinator take over, to be called where this world is not locked.
    pub(crate) fn successor(
        &self,
        fail: Arc<Failpoints>,
    ) -> impl FnOnce() -> Result<Core, EngineError> + use<> {
        let terminal = Box::new(self.terminal.unclaimed());
        let (workspace, clock, processes) =
            (self.workspace.clone(), self.clock.clone(), self.processes.clone());
        move || {
            let store = Store::open(&workspace)?;
            Core::take_over(workspace, store, terminal, clock, processes, fail)
        }
    }

    /// Another coordinator takes over and works for some turns, while the one before sleeps.
    pub(crate) fn succeed(&mut self, turns: u32) {
        let mut core = self.successor(Arc::default())().unwrap();
        for _ in 0..turns {
            let Some(round) = judge(core.round(), &mut core) else { break };
            self.pass_time(round.wake);
            self.turn();
        }
        self.inputs_asleep = Some(self.terminal.inputs().len());
        self.core = Some(core);
    }

    /// One turn of everything but the coordinator.
    pub(crate) fn turn(&mut self) {
        self.turns += 1;
        self.clock.advance(TURN);
        let mut news = self.meet();
        news |= self.agents_act();
        self.store.refresh().unwrap();
        news |= self.person_acts();
        self.quiet = if news { 0 } else { self.quiet + 1 };
    }

    /// Lets time pass until the coordinator wants to look again, where nothing else happens.
    pub(crate) fn pass_time(&mut self, wake: Option<Duration>) {
        if self.quiet < QUIET {
            return;
        }
        if let Some(left) = wake.and_then(|it| it.checked_sub(self.clock.elapsed())) {
            self.clock.advance(left);
        }
    }

    /// New panes: their processes start.
    fn meet(&mut self) -> bool {
        let mut news = false;
        for (pane, asked) in self.terminal.opened() {
            if !self.met.insert(pane) {
                continue;
            }
            news = true;
            self.processes.starts(pane.pid);
            let file = PathBuf::from(asked.argv.last().unwrap());
            let mut around = Surroundings { store: &mut self.store, now: self.clock.now() };
            if let Some(agent) = Agent::start(pane, &file, &mut around) {
                self.terminal.show(pane, agent.screen());
                self.agents.lock().unwrap().insert(pane, agent);
            } else {
                self.processes.ends(pane.pid);
                self.terminal.exits(pane, Exit::Code(1));
            }
        }
        news
    }

    fn agents_act(&mut self) -> bool {
        let mut news = false;
        let mut agents = self.agents.lock().unwrap();
        let open: BTreeSet<Pane> = self.terminal.opened().into_iter().map(|(pane, _)| pane).collect();
        let mut around = Surroundings { store: &mut self.store, now: self.clock.now() };
        for (pane, agent) in agents.iter_mut() {
            if !self.processes.runs(pane.pid) {
                continue;
            }
            if self.processes.is_asked(pane.pid) || !open.contains(pane) {
                agent.exit(&around);
                self.processes.ends(pane.pid);
                if open.contains(pane) {
                    self.terminal.exits(*pane, Exit::Code(0));
                }
                news = true;
            } else {
                news |= agent.tick(&mut around);
                self.terminal.show(*pane, agent.screen());
            }
        }
        news
    }

    /// Sends what is left to be sent, collects now and then, and shuts down when everything is answered.
    fn person_acts(&mut self) -> bool {
        if self.sent.len() < self.plot.messages {
            self.send();
            return true;
        }
        if self.turns.is_multiple_of(7) {
            self.collect();
        }
        if self.ending || !self.is_settled() {
            return false;
        }
        self.collect();
        self.ending = true;
        for team in teams() {
            let stop = |state: &State| Ok((decide::plan_stop(state, &team)?, ()));
            self.store.decide(self.clock.now(), &By::Person, Some(&team), stop).unwrap();
        }
        true
    }

    fn send(&mut self) {
        let number = self.sent.len();
        let team = teams()[number % 2].clone();
        let brief = number % 4 < 2;
        let to = if number % 13 == 12 {
            "all".to_owned()
        } else {
            name_of(1 + (number / 2) % self.plot.agents).to_string()
        };
        let long = number % 5 == 4;
        let text = if long {
            (0..14).map(|it| format!("line {it} of {number}")).collect::<Vec<_>>().join("\n")
        } else {
            format!("word {number}")
        };
        let command = SendCommand {
            team: team.clone(),
            sender: Sender::Person,
            from: "leader".to_owned(),
            to: vec![to],
            kind: MessageKind::Message,
            body: Body::inline(&text),
            subject: text.lines().next().unwrap_or_default().to_owned(),
            task: None,
            reply_to: None,
            request: None,
            answer: String::new(),
            own_id: None,
            prior: None,
            case_id: None,
            watch_result: brief,
            presentation: BTreeMap::new(),
            ignored: BTreeMap::new(),
        };
        let accept = |state: &State| decide::accept_message(state, &command);
        let done = self.store.decide(self.clock.now(), &By::Person, Some(&team), accept).unwrap();
        let sent = |it: decide::SentMessage| Sent { team: team.clone(), id: it.id, to: it.to, brief };
        self.sent.extend(done.messages.into_iter().map(sent));
    }

    fn collect(&mut self) {
        for team in teams() {
            let take = |state: &State| decide::collect(state, &team, None);
            self.store.decide(self.clock.now(), &By::Person, Some(&team), take).unwrap();
        }
    }

    /// Whether every agent runs and nothing is on its way to anybody.
    fn is_settled(&self) -> bool {
        let open = |step: ReceiptStep| !step.is_settled();
        let quiet = self.agents.lock().unwrap().values().all(Agent::is_quiet);
        quiet
            && self.store.state.teams.values().all(|team| {
                team.seats.values().all(|it| it.state == SeatState::Running && it.is_idle())
                    && team.messages.values().flat_map(|it| it.receipts.values()).all(|it| !open(it.step))
            })
    }

    /// Whether everything has ended.
    pub(crate) fn is_over(&self) -> bool {
        let state = &self.store.state;
        let stopped = state.teams.values().all(|it| it.state == TeamState::Stopped);
        // Whoever asked for the end sees to it that a coordinator brings it about.
        self.ending && stopped && state.coordinator.is_none()
    }

    /// The texts that reached the models of a seat, all its starts together.
    pub(crate) fn transcript(&self, team: &TeamKey, agent: &AgentName) -> Vec<String> {
        let agents = self.agents.lock().unwrap();
        let of_seat = agents.values().filter(|it| it.seat.team == *team && it.seat.agent == *agent);
        of_seat.flat_map(|it| it.transcript.clone()).collect()
    }

    /// The starts of a seat whose program ran.
    pub(crate) fn starts(&self, team: &TeamKey, agent: &AgentName) -> Vec<SpawnId> {
        let agents = self.agents.lock().unwrap();
        let of_seat = agents.values().filter(|it| it.seat.team == *team && it.seat.agent == *agent);
        of_seat.map(|it| it.seat.spawn).collect()
    }

    /// The end of the log, for a message about what went wrong.
    pub(crate) fn log_end(&self) -> String {
        let text = std::fs::read_to_string(self.workspace.logs().join("events.jsonl")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }
}

/// What the event loop makes of a round: `None` when the coordinator is gone.
pub(crate) fn judge(round: Result<Round, EngineError>, core: &mut Core) -> Option<Round> {
    match round {
        Ok(round) if round.exit => None,
        Ok(round) => Some(round),
        Err(EngineError::Died(_)) => None,
        Err(EngineError::Refused(refusal)) if refusal.code == "fenced" => None,
        Err(EngineError::Refused(_)) => Some(Round { wake: None, exit: false }),
        Err(EngineError::Tmux(_)) => {
            core.server_lost();
            Some(Round { wake: None, exit: false })
        }
        Err(error) => panic!("{}", team_engine::whole(&error)),
    }
}
