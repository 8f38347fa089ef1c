//! The whole team at once, or nobody at all.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Plan;
use super::bed::{Bed, until, wall};
use super::figure::{Figures, Target, ms};
use super::machine;
use super::team::Team;
use crate::say;

/// One message to everybody.
pub(super) fn broadcast(bed: &Bed, team: &Team, plan: &Plan, figures: &mut Figures) -> Result<()> {
    let (mut text, mut submitted) = (Vec::new(), Vec::new());
    for round in 0..plan.times(10, 3) {
        for agent in &team.agents {
            team.idle(bed, agent)?;
        }
        let marker = format!("crowd-{round}-{}", wall());
        let words = ["send", "all", &marker, "--wait", "submitted", "--timeout", "20", "--team", &team.key];
        let sent = bed.timed(&words)?;
        if sent.code != Some(0) {
            bail!("a message to all was not submitted: {}", sent.stdout.trim());
        }
        let mut last = sent.began;
        for agent in &team.agents {
            last = team.received(bed, agent, &marker)?.context("a text is not in the byte log")?.max(last);
        }
        text.push(last - sent.began);
        submitted.push(ms(sent.took));
    }
    figures.add(
        "a message to each: text in the last pane",
        team.size(),
        "ms",
        &text,
        Target::median(150.0),
        None,
    );
    figures.add(
        "a message to each: all submitted",
        team.size(),
        "ms",
        &submitted,
        Target::median(400.0),
        None,
    );
    for agent in &team.agents {
        team.idle(bed, agent)?;
    }
    Ok(())
}

/// What a message with its turn adds to the log.
pub(super) fn log_per_turn(bed: &Bed, team: &Team, figures: &mut Figures) -> Result<()> {
    let mut tail = bed.tail()?;
    let rounds = 20;
    for round in 0..rounds {
        let agent = &team.agents[round % team.size()];
        let text = format!("say in a few words what you make of part {round}");
        bed.timed(&["send", agent, &text, "--wait", "answered", "--timeout", "20", "--team", &team.key])?;
    }
    for agent in &team.agents {
        team.idle(bed, agent)?;
    }
    let turns = tail.lines()?.iter().filter(|it| it["event"]["type"] == "turn.ended").count();
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let each = tail.bytes as f64 / 1024.0 / turns.max(1) as f64;
    figures.add("log per message and turn", team.size(), "KiB", &[each], Target::median(2.0), None);
    Ok(())
}

/// From the death of the coordinator until the next one has the server.
pub(super) fn take_over(bed: &Bed, team: &Team, plan: &Plan, figures: &mut Figures) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..plan.times(10, 3) {
        let status = bed.json(&["status", "--team", &team.key])?;
        let pid = status["coordinator"]["pid"].as_i64().context("no coordinator runs")?;
        let epoch = status["coordinator"]["epoch"].as_u64().unwrap_or_default();
        let mut tail = bed.tail()?;
        let begun = Instant::now();
        kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGKILL)?;
        let started = tail.wait("a new coordinator", |it| it["event"]["type"] == "coordinator.started")?;
        if started["event"]["epoch"].as_u64() <= Some(epoch) {
            bail!("the new coordinator has no higher epoch");
        }
        times.push(begun.elapsed());
        // It works again: a message goes through.
        let agent = &team.agents[0];
        let words =
            ["send", agent, "are you there?", "--wait", "answered", "--timeout", "20", "--team", &team.key];
        let sent = bed.timed(&words)?;
        if sent.code != Some(0) {
            bail!("no message goes through after the take-over: {}", sent.stdout.trim());
        }
    }
    figures.times("take-over after kill -9", team.size(), &times, Target::median(150.0), None);
    Ok(())
}

/// What a team costs that does nothing.
pub(super) fn idle(bed: &Bed, team: &Team, plan: &Plan, figures: &mut Figures) -> Result<()> {
    for agent in &team.agents {
        team.idle(bed, agent)?;
    }
    let status = bed.json(&["status", "--team", &team.key])?;
    let pid = status["coordinator"]["pid"].as_u64().context("no coordinator runs")?;
    let Some(before) = machine::ticks(pid) else {
        say::talk("this system does not tell what a process has used: idle figures are left out");
        return Ok(());
    };
    // What was woken by the calls above may still be at work for a moment.
    let settled = until("the coordinator comes to rest", || {
        let then = machine::ticks(pid);
        std::thread::sleep(Duration::from_millis(500));
        Ok((machine::ticks(pid) == then).then_some(then.unwrap_or(before)))
    })?;
    let all: Vec<u64> = bed.ws.processes().iter().filter_map(|it| u64::try_from(it.pid).ok()).collect();
    let others: u64 = all.iter().filter_map(|it| machine::ticks(*it)).sum();
    std::thread::sleep(Duration::from_secs(plan.idle_seconds));
    let used = machine::ticks(pid).unwrap_or(settled) - settled;
    let of_all = all.iter().filter_map(|it| machine::ticks(*it)).sum::<u64>() - others;
    let memory = machine::resident(pid).unwrap_or_default();
    let name = format!("coordinator's CPU, {} s idle", plan.idle_seconds);
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let (used, of_all) = (used as f64, of_all as f64);
    figures.add(&name, team.size(), "ticks", &[used], Target::median(0.0), None);
    figures.add("CPU of all processes meanwhile", team.size(), "ticks", &[of_all], Target::none(), None);
    figures.add("coordinator's memory", team.size(), "MB", &[memory], Target::median(15.0), None);
    Ok(())
}
