//! Everybody in turn after turn: what a hook call takes then, and how long the log is held.
//!
//! The log's lock is watched from outside, in the system's list of locks: what is measured is not disturbed.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::json;

use super::Plan;
use super::bed::{Bed, Tail, timed};
use super::figure::{Figures, Target, ms};
use super::machine;
use super::team::Team;
use crate::say;

/// How long a turn of the storm takes; each agent begins the next one at once.
const TURN_MS: usize = 250;

/// How often the list of locks is read.
const LOOK: Duration = Duration::from_micros(150);

/// Measures hook calls in quiet and in the storm, and the lock in the storm.
pub(super) fn measure(bed: &Bed, team: &Team, plan: &Plan, figures: &mut Figures) -> Result<()> {
    let agent = &team.agents[0];
    let seat_file = seat_file(bed, team, agent)?;
    let calls = plan.times(100, 30);
    let mut quiet = Vec::new();
    for _ in 0..calls {
        quiet.push(hook(bed, &seat_file)?);
    }
    figures.add("hook call, quiet", team.size(), "ms", &quiet, Target::median(5.0), None);

    let turns = plan.times(40, 16);
    for agent in &team.agents {
        let submits: Vec<String> = (0..turns).map(|it| format!("submit storm {it}")).collect();
        team.control(bed, agent, &format!("answer-after {TURN_MS}\n{}", submits.join("\n")))?;
    }
    let status = bed.json(&["status", "--team", &team.key])?;
    let coordinator = status["coordinator"]["pid"].as_u64().context("no coordinator runs")?;
    let before = machine::ticks(coordinator);
    let mut tail = bed.tail()?;
    let (held, stormy) = while_watching(&bed.state()?.join("locks/log.lock"), || {
        let mut times = Vec::new();
        let end = Instant::now() + Duration::from_millis((turns * TURN_MS * 9 / 10) as u64);
        while Instant::now() < end {
            times.push(hook(bed, &seat_file)?);
        }
        Ok(times)
    })?;
    let (lines, turns_seen) = seen(&mut tail)?;
    if let (Some(before), Some(after)) = (before, machine::ticks(coordinator)) {
        #[expect(clippy::cast_precision_loss, reason = "small counts")]
        let each = (after - before) as f64 * machine::TICK_MS / turns_seen.max(1) as f64;
        figures.add("coordinator's CPU for each turn", team.size(), "ms", &[each], Target::none(), None);
    }
    figures.add("hook call, all agents in turns", team.size(), "ms", &stormy, Target::both(5.0, 60.0), None);
    report_lock(team, held.as_deref(), lines, figures);
    say::talk(&format!(
        "  (the storm: {turns_seen} turns, {lines} lines, {} hook calls of ours)",
        stormy.len()
    ));
    for agent in &team.agents {
        team.control(bed, agent, "answer-after 5")?;
        team.idle(bed, agent)?;
    }
    Ok(())
}

fn report_lock(team: &Team, held: Option<&[f64]>, lines: usize, figures: &mut Figures) {
    let Some(held) = held else {
        say::talk("this system does not list its locks: the time of the log's lock is left out");
        return;
    };
    // Most locks are too short to be seen; each line was written under one.
    let mut all = held.to_vec();
    all.resize(lines.max(held.len()), 0.0);
    figures.add("log's lock held, all agents in turns", team.size(), "ms", &all, Target::p99(2.0), None);
    let longest = held.iter().copied().fold(0.0, f64::max);
    figures.add("log's lock held, the longest seen", team.size(), "ms", &[longest], Target::none(), None);
}

fn seen(tail: &mut Tail) -> Result<(usize, usize)> {
    let lines = tail.lines()?;
    let turns = lines.iter().filter(|it| it["event"]["type"] == "turn.started").count();
    Ok((lines.len(), turns))
}

/// One call as a program makes it: from its start to its end, in milliseconds.
fn hook(bed: &Bed, seat_file: &Path) -> Result<f64> {
    // It comes from outside the seat, which is noted like any other observation.
    let input =
        json!({"hook_event_name": "Stop", "stop_hook_active": false, "last_assistant_message": "done"});
    let mut command = bed.call(&["hook", "--seat-file"]);
    command.arg(seat_file).arg("Stop");
    let done = timed(command, &input.to_string())?;
    if done.code != Some(0) {
        bail!("a hook call failed: {}", done.stdout.trim());
    }
    Ok(ms(done.took))
}

/// The seat file of an agent's present spawn.
fn seat_file(bed: &Bed, team: &Team, agent: &str) -> Result<PathBuf> {
    let dir = team.seat_dir(bed, agent)?;
    let claim = fs::read_dir(&dir)?
        .filter_map(|it| Some(it.ok()?.path()))
        .find(|it| it.extension().is_some_and(|it| it == "claim"))
        .context("no seat was claimed")?;
    let stem = claim.file_stem().and_then(|it| it.to_str()).context("a claim has a name")?.to_owned();
    fs::read_dir(&dir)?
        .filter_map(|it| Some(it.ok()?.path()))
        .find(|it| {
            it.file_stem().is_some_and(|it| it == stem.as_str()) && it.extension() != claim.extension()
        })
        .context("the seat file is gone")
}

/// Does something while another thread looks who holds a lock. Returns how long each holder that was seen had it.
fn while_watching<T>(lock: &Path, act: impl FnOnce() -> Result<T>) -> Result<(Option<Vec<f64>>, T)> {
    let inode = fs::metadata(lock)?.ino().to_string();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut held = Vec::new();
            let mut present: Option<(String, Instant, Instant)> = None;
            while !over.load(Ordering::Relaxed) {
                let now = Instant::now();
                let holder = holder(&fs::read_to_string("/proc/locks").ok()?, &inode);
                match (&mut present, holder) {
                    (Some((pid, _, last)), Some(it)) if *pid == it => *last = now,
                    (_, holder) => {
                        if let Some((_, from, last)) = present.take() {
                            held.push(ms(last - from));
                        }
                        present = holder.map(|it| (it, now, now));
                    }
                }
                std::thread::sleep(LOOK);
            }
            Some(held)
        });
        let done = act();
        over.store(true, Ordering::Relaxed);
        let held = watcher.join().unwrap_or_default();
        Ok((held, done?))
    })
}

/// The process that holds the lock of an inode, by the system's list of locks.
fn holder(locks: &str, inode: &str) -> Option<String> {
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // A waiting one has an arrow in the second place.
        let [_, "FLOCK", _, _, pid, place, ..] = fields[..] else { return None };
        (place.rsplit(':').next() == Some(inode)).then(|| pid.to_owned())
    })
}
