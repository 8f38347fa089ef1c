//! A run of two teams in which the coordinator is killed, or falls asleep and is succeeded, at every failpoint.
//!
//! Terminal, clock and processes are in memory, so a run takes moments; log, inboxes and the programs' records are
//! real files. The same on a real tmux with real processes is a scenario of its own.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

mod agent;
mod check;
mod fakes;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use team_engine::coordinator::{Core, Round};
use team_engine::failpoint::Failpoints;
use team_model::By;

use crate::check::{Tally, check};
use crate::world::{Plot, World, judge};

const PLOT: Plot = Plot { agents: 4, messages: 40 };
/// How many turns a run may take.
const TURNS: u32 = 3000;
/// How many turns nobody coordinates after a death, at most.
const ABSENCE: usize = 4;
/// How many turns a successor has before the one that slept wakes up.
const SLEEP: u32 = 60;
/// How many of the times that a point is passed are tried, where not all are.
const TRIED: usize = 3;

/// Runs until everything has ended; each coordinator has the next of these failpoints, later ones have none.
fn run(world_of: &Arc<Mutex<World>>, all: Vec<Arc<Failpoints>>, absence: usize, point: &str) {
    let lock = || world_of.lock().unwrap_or_else(PoisonError::into_inner);
    let mut started = false;
    let mut next = all.into_iter();
    for _ in 0..TURNS {
        let core = lock().core.take();
        let Some(mut core) = core else {
            if lock().is_over() {
                return;
            }
            let fail = next.next();
            if started {
                (0..absence).for_each(|_| lock().turn());
            }
            started = true;
            // Not under the lock: a coordinator that falls asleep lets the world go on.
            let take_over = lock().successor(fail.unwrap_or_default());
            let core = take_over();
            let mut world = lock();
            if world.core.is_none() {
                assert!(core.is_ok() || point != "none", "{point}");
                world.core = core.ok();
            } else if let Ok(core) = core {
                drop(world);
                lock_out(world_of, core, Ok(Round { wake: None, exit: false }), point);
            }
            continue;
        };
        let round = core.round();
        if lock().core.is_some() {
            lock_out(world_of, core, round, point);
            continue;
        }
        if let Some(round) = judge(round, &mut core) {
            let mut world = lock();
            world.pass_time(round.wake);
            world.core = Some(core);
        }
        lock().turn();
    }
    panic!("{point}: it never ended\n{}", lock().log_end());
}

/// A coordinator that was succeeded while it slept: it has done nothing since, and ends.
fn lock_out(
    world: &Arc<Mutex<World>>,
    mut core: Core,
    round: Result<Round, team_engine::EngineError>,
    point: &str,
) {
    let mut world = world.lock().unwrap_or_else(PoisonError::into_inner);
    judge(round, &mut core);
    assert!(judge(core.round(), &mut core).is_none(), "{point}: a succeeded coordinator goes on");
    world.store.refresh().unwrap();
    let epoch = core.epoch();
    let mut newest = 0;
    let mut cursor = world.store.journal().cursor_start().unwrap();
    let mut each = |line: &team_engine::store::Line| {
        if let By::Coordinator { epoch: by } = &line.by {
            assert!(
                *by >= newest || *by != epoch,
                "{point}: line {} was written after a take-over",
                line.seq
            );
            newest = newest.max(*by);
        }
    };
    world.store.journal().read_new(&mut cursor, &mut each).unwrap();
    let inputs = world.terminal.inputs().len();
    assert_eq!(world.inputs_asleep.take(), Some(inputs), "{point}: it typed after it was succeeded");
}

/// Every failpoint of a run that nothing disturbs.
fn points() -> Vec<String> {
    let world = Arc::new(Mutex::new(World::new(PLOT)));
    let fail = Arc::new(Failpoints::default());
    run(&world, vec![Arc::clone(&fail)], 0, "none");
    let mut world = world.lock().unwrap();
    let tally = check(&mut world, "none");
    assert_eq!(tally.unknown, 0);
    assert!(tally.receipts >= 40, "{tally:?}");
    fail.passed()
}

/// Runs all points on all processors and says which went wrong.
fn sweep(kind: &str, tried: usize, one: impl Fn(&str) -> Tally + Sync) {
    let points = spread(points(), tried);
    let next = AtomicUsize::new(0);
    let (total, wrong) = (Mutex::new(Tally::default()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
                    match catch_unwind(AssertUnwindSafe(|| one(point))) {
                        Ok(tally) => {
                            let mut total = total.lock().unwrap();
                            total.receipts += tally.receipts;
                            total.unknown += tally.unknown;
                        }
                        Err(_) => wrong.lock().unwrap().push(point.clone()),
                    }
                }
            });
        }
    });
    let (total, wrong) = (total.into_inner().unwrap(), wrong.into_inner().unwrap());
    let mut by_effect: BTreeMap<&str, usize> = BTreeMap::new();
    for point in &points {
        *by_effect.entry(point.rsplit_once(':').unwrap().0).or_default() += 1;
    }
    assert!(wrong.is_empty(), "{kind}: {} of {} points: {wrong:?}", wrong.len(), points.len());
    // One in twenty would do; a pane that remembers what was typed leaves nothing in doubt while its program lives.
    assert_eq!(total.unknown, 0, "{kind}: {total:?}");
    for effect in ["server", "spawn", "paste", "enter", "ring", "stop", "server_stop"] {
        for when in ["before", "orphan", "after"] {
            assert!(
                by_effect.contains_key(format!("{effect}:{when}").as_str()),
                "no {effect}:{when}: {by_effect:?}"
            );
        }
    }
}

/// Takes so many of each point, from the first to the last time it is passed; all of them if a whole sweep is asked for.
fn spread(all: Vec<String>, tried: usize) -> Vec<String> {
    if std::env::var_os("TEAM_AGENT_SWEEP").is_some() {
        return all;
    }
    let mut by_effect: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for point in all {
        by_effect.entry(point.rsplit_once(':').unwrap().0.to_owned()).or_default().push(point);
    }
    let some = |points: Vec<String>| {
        let (count, last) = (points.len().min(tried), points.len() - 1);
        (0..count).map(|it| points[it * last / (count - 1).max(1)].clone()).collect::<Vec<_>>()
    };
    by_effect.into_values().flat_map(some).collect()
}

/// The first coordinator dies at a point, and the second one perhaps while it concludes what the first was at.
fn deaths(point: &str) -> Vec<Arc<Failpoints>> {
    let second = ["conclude:before:1", "conclude:after:1", "take_over:after:1"][number_of(point) % 3];
    [point, second].map(|it| Arc::new(Failpoints::armed(it))).into()
}

fn number_of(point: &str) -> usize {
    point.bytes().map(usize::from).sum()
}

#[test]
fn a_coordinator_that_is_killed_anywhere_loses_and_doubles_nothing() {
    sweep("die", usize::MAX, |point| {
        let world = Arc::new(Mutex::new(World::new(PLOT)));
        let name = format!("die@{point}");
        run(&world, deaths(point), number_of(point) % ABSENCE, &name);
        check(&mut world.lock().unwrap_or_else(PoisonError::into_inner), &name)
    });
}

#[test]
fn a_coordinator_that_wakes_up_after_it_was_succeeded_does_nothing() {
    sweep("sleep", TRIED, |point| {
        let world = Arc::new(Mutex::new(World::new(PLOT)));
        let name = format!("sleep@{point}");
        let (asleep, turns) = (Arc::clone(&world), u32::try_from(number_of(point)).unwrap() % SLEEP);
        let fail = Failpoints::meanwhile(point, move || {
            let mut world = asleep.lock().unwrap_or_else(PoisonError::into_inner);
            world.succeed(turns);
        });
        run(&world, vec![Arc::new(fail)], 0, &name);
        check(&mut world.lock().unwrap_or_else(PoisonError::into_inner), &name)
    });
}

#[test]
fn one_point_can_be_tried_alone() {
    let Ok(asked) = std::env::var("TEAM_AGENT_SWEEP_POINT") else { return };
    let (kind, point) = asked.split_once('@').unwrap_or(("die", &asked));
    let world = Arc::new(Mutex::new(World::new(PLOT)));
    let asleep = Arc::clone(&world);
    let turns = u32::try_from(number_of(point)).unwrap() % SLEEP;
    let (all, absence) = match kind {
        "sleep" => {
            let fail = Failpoints::meanwhile(point, move || asleep.lock().unwrap().succeed(turns));
            (vec![Arc::new(fail)], 0)
        }
        _ => (deaths(point), number_of(point) % ABSENCE),
    };
    run(&world, all, absence, &asked);
    check(&mut world.lock().unwrap(), &asked);
}
