//! What must be true at the end of every run, however its coordinators ended.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use team_engine::store::Store;
use team_model::{Event, ReceiptStep, TeamState, find_message_ids};
use team_tmux::Terminal as _;

use crate::world::{Sent, World, teams};

/// How many messages there were, and of how many nobody can say whether they arrived.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) receipts: usize,
    pub(crate) unknown: usize,
}

/// Checks a run that is over.
pub(crate) fn check(world: &mut World, point: &str) -> Tally {
    let log = Log::read(world);
    let tally = messages(world, &log, point);
    results(world, &log, point);
    seats(world, point);
    nothing_is_left(world, point);
    tally
}

/// The facts of a whole log, as a reader of its lines finds them.
#[derive(Default)]
struct Log {
    steps: BTreeMap<(String, String, String), ReceiptStep>,
    results: Vec<(String, String)>,
    collected: Vec<(String, String)>,
    briefs: usize,
}

impl Log {
    fn read(world: &World) -> Self {
        let mut log = Self::default();
        let store = Store::open(&world.workspace).unwrap();
        let mut cursor = store.journal().cursor_start().unwrap();
        let mut each = |line: &team_engine::store::Line| {
            let team = line.team.clone().unwrap_or_default();
            let mut step = |id: &team_model::MessageId, agent: &team_model::AgentName, step| {
                log.steps.insert((team.clone(), id.to_string(), agent.to_string()), step);
            };
            match &line.event.0 {
                Event::MessageSending { id, receiver, .. } => step(id, receiver, ReceiptStep::Sending),
                Event::MessageNotSent { id, receiver, .. } => step(id, receiver, ReceiptStep::Accepted),
                Event::MessageUnknown { id, receiver, .. } => step(id, receiver, ReceiptStep::Unknown),
                Event::MessageSubmitted { id, receiver, .. } => step(id, receiver, ReceiptStep::Submitted),
                Event::McpReportResult { id, .. } => log.results.push((team, id.to_string())),
                Event::CollectResult { results } => {
                    log.collected.extend(results.iter().map(|it| (team.clone(), it.to_string())));
                }
                Event::TaskCreated { .. } => log.briefs += 1,
                _ => {}
            }
        };
        store.journal().read_new(&mut cursor, &mut each).unwrap();
        log
    }
}

fn messages(world: &World, log: &Log, point: &str) -> Tally {
    let mut tally = Tally::default();
    for Sent { team, id, to, .. } in &world.sent {
        for agent in to {
            tally.receipts += 1;
            let texts = world.transcript(team, agent);
            let copies = texts.iter().flat_map(|it| find_message_ids(it)).filter(|it| it == id).count();
            let last = log.steps.get(&(team.to_string(), id.to_string(), agent.to_string()));
            // A turn that named it came after whatever stands here, or the receipt would be open.
            let unknown = last == Some(&ReceiptStep::Unknown) && copies == 0
                || world.store.state.teams[team]
                    .message(id)
                    .is_some_and(|it| it.receipts[agent].step == ReceiptStep::Unknown);
            tally.unknown += usize::from(unknown);
            let fits = if unknown { copies <= 1 } else { copies == 1 };
            assert!(
                fits,
                "{point}: {id} reached {agent} of {team} {copies} times ({last:?})\n{}",
                world.log_end()
            );
        }
    }
    if tally.unknown > 0 {
        let effect = point.split(['@', ':']).find(|it| !matches!(*it, "die" | "sleep")).unwrap_or_default();
        let between = ["announce", "paste", "enter", "lay", "ring", "conclude"];
        assert!(between.contains(&effect), "{point}: {} unknown\n{}", tally.unknown, world.log_end());
    }
    tally
}

fn results(world: &World, log: &Log, point: &str) {
    let mut collected = log.collected.clone();
    collected.sort();
    let mut results = log.results.clone();
    results.sort();
    assert_eq!(collected, results, "{point}: each result is collected once\n{}", world.log_end());
    let briefs = world.sent.iter().filter(|it| it.brief).count();
    assert_eq!(log.briefs, briefs, "{point}");
    let reported = |sent: &&Sent| {
        let text = world.transcript(&sent.team, &sent.to[0]);
        sent.brief && text.iter().any(|it| find_message_ids(it).contains(&sent.id))
    };
    let expected = world.sent.iter().filter(reported).count();
    assert_eq!(
        results.len(),
        expected,
        "{point}: each brief that arrived has one result\n{}",
        world.log_end()
    );
}

fn seats(world: &World, point: &str) {
    for team in teams() {
        for agent in world.store.state.teams[&team].seats.keys() {
            let starts = world.starts(&team, agent);
            assert_eq!(starts.len(), 1, "{point}: {agent} of {team} ran as {starts:?}\n{}", world.log_end());
        }
    }
}

fn nothing_is_left(world: &mut World, point: &str) {
    assert_eq!(world.processes.all(), Vec::<u32>::new(), "{point}: processes");
    assert_eq!(world.terminal.probe().unwrap(), None, "{point}: the server\n{}", world.log_end());
    let state = &world.store.state;
    assert!(state.coordinator.is_none() && state.server.is_none(), "{point}\n{}", world.log_end());
    for team in state.teams.values() {
        assert_eq!(team.state, TeamState::Stopped, "{point}");
        assert!(
            !team.has_live_seats() && team.tasks.len() + team.results.uncollected.len() == 0
                || team
                    .messages
                    .values()
                    .any(|it| it.receipts.values().any(|it| it.step == ReceiptStep::Unknown)),
            "{point}: {team:?}"
        );
    }
    let left = files(&world.workspace.state_dir.join("seats"));
    let secret = |it: &PathBuf| {
        let kind = it.extension().and_then(|it| it.to_str()).unwrap_or_default();
        let dir = it.parent().and_then(Path::file_name).and_then(|it| it.to_str()).unwrap_or_default();
        kind == "env" || (kind == "txt" && dir == "inbox")
    };
    let left: Vec<_> = left.into_iter().filter(secret).collect();
    assert_eq!(left, Vec::<PathBuf>::new(), "{point}: files");
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}
