//! Teams of built-in agents: started with the clock running, told what to do, read from what they write down.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::Plan;
use super::bed::{Bed, timed, until};
use super::figure::{Figures, Target, ms, quantile};
use super::floor::Server;

/// A running team.
#[derive(Debug)]
pub(super) struct Team {
    pub(super) key: String,
    pub(super) agents: Vec<String>,
}

impl Team {
    pub(super) fn size(&self) -> usize {
        self.agents.len()
    }

    /// The private directory of an agent's seat.
    pub(super) fn seat_dir(&self, bed: &Bed, agent: &str) -> Result<PathBuf> {
        Ok(bed.state()?.join("seats").join(&self.key).join(agent))
    }

    /// Tells an agent's program what to do: lines of its control file.
    pub(super) fn control(&self, bed: &Bed, agent: &str, lines: &str) -> Result<()> {
        let dir = self.seat_dir(bed, agent)?.join("fake-home/control");
        fs::create_dir_all(&dir)?;
        let status = bed.json(&["status", "--team", &self.key])?;
        let native =
            status["agents"][agent]["session"]["native"].as_str().context("an agent has no session")?;
        let mut file = fs::OpenOptions::new().create(true).append(true).open(dir.join(native))?;
        Ok(file.write_all(format!("{}\n", lines.trim_end()).as_bytes())?)
    }

    /// When an agent's terminal first received a text, on the wall clock in milliseconds.
    pub(super) fn received(&self, bed: &Bed, agent: &str, text: &str) -> Result<Option<f64>> {
        let needle = hex(text);
        let dir = self.seat_dir(bed, agent)?.join("fake-home/bytes");
        for file in fs::read_dir(&dir)? {
            let log = fs::read_to_string(file?.path())?;
            let line = log.lines().find(|it| it.rsplit(' ').next().is_some_and(|it| it.contains(&needle)));
            if let Some(time) = line.and_then(|it| it.split(' ').next()) {
                return Ok(Some(time.parse()?));
            }
        }
        Ok(None)
    }

    /// When an agent's program last wrote down an event that has these fields, on the wall clock in milliseconds.
    pub(super) fn wrote(&self, bed: &Bed, agent: &str, fields: &[(&str, &str)]) -> Result<Option<f64>> {
        let dir = self.seat_dir(bed, agent)?.join("fake-home/events");
        let mut last = None;
        for file in fs::read_dir(&dir)? {
            let path = file?.path();
            let lines = if path.extension().is_some_and(|it| it == "jsonl") {
                fs::read_to_string(&path)?
            } else {
                String::new()
            };
            let times = lines
                .lines()
                .filter_map(|it| serde_json::from_str::<serde_json::Value>(it).ok())
                .filter(|it| fields.iter().all(|(name, value)| it[*name] == *value))
                .filter_map(|it| it["ms"].as_f64());
            last = times.chain(last).reduce(f64::max);
        }
        Ok(last)
    }

    /// Waits until an agent is idle and nothing waits for it.
    pub(super) fn idle(&self, bed: &Bed, agent: &str) -> Result<()> {
        let done = bed.timed(&["wait", "--idle", agent, "--timeout", "30", "--team", &self.key])?;
        if done.code == Some(0) {
            Ok(())
        } else {
            bail!("{agent} did not become idle: {}", done.stdout.trim())
        }
    }
}

/// Starts teams of that size with the clock running, each on a server of its own, and keeps the last one.
pub(super) fn start_measured(bed: &mut Bed, plan: &Plan, size: usize, figures: &mut Figures) -> Result<Team> {
    let rounds = if plan.wants("start") || plan.wants("shutdown") { plan.times(5, 2) } else { 1 };
    let (mut floors, mut starts, mut stops, mut empties) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut kept = None;
    for round in 0..rounds {
        floors.push(Server::new()?.windows(size)?);
        let had_cache = bed.ws.path().join(".team/runtime/snapshot.json").exists();
        let (team, took) = start(bed, &format!("n{size}r{round}"), size)?;
        if had_cache {
            starts.push(took);
        } else {
            empties.push(took);
        }
        if round + 1 < rounds {
            stops.push(shutdown(bed, &team)?);
            delete(bed, &team)?;
        } else {
            kept = Some(team);
        }
    }
    let floor = quantile(&floors.iter().copied().map(ms).collect::<Vec<_>>(), 0.5);
    if plan.wants("start") {
        figures.times("floor: windows seen alive, one call", size, &floors, Target::none(), None);
        if !empties.is_empty() {
            figures.times("quick-start, log never read before", size, &empties, Target::none(), Some(floor));
        }
        if !starts.is_empty() {
            let target = Target::median(2.5 * floor + 150.0);
            figures.times("quick-start", size, &starts, target, Some(floor));
        }
    }
    if plan.wants("shutdown") && !stops.is_empty() {
        figures.times("shutdown, agents end when asked", size, &stops, Target::median(500.0), None);
    }
    kept.context("no team was started")
}

fn start(bed: &Bed, key: &str, size: usize) -> Result<(Team, Duration)> {
    let dir = format!(".team/{key}");
    bed.ws.write(format!("{dir}/TEAM.md"), &format!("---\nname: {key}\n---\n"));
    let agents: Vec<String> = (1..=size).map(|it| format!("w{it}")).collect();
    for agent in &agents {
        let role =
            format!("---\nname: {agent}\nrole: Worker\nprovider: fake\n---\n\nDo what you are told.\n");
        bed.ws.write(format!("{dir}/agents/{agent}.md"), &role);
    }
    let done = bed.timed(&["quick-start", "--headless", "--json", &dir])?;
    if done.code != Some(0) {
        bail!("quick-start of {size} failed: {}", done.stdout.trim());
    }
    Ok((Team { key: key.to_owned(), agents }, done.took))
}

fn shutdown(bed: &Bed, team: &Team) -> Result<Duration> {
    let done = bed.timed(&["shutdown", "--team", &team.key])?;
    if done.code == Some(0) { Ok(done.took) } else { bail!("shutdown failed: {}", done.stdout.trim()) }
}

fn delete(bed: &Bed, team: &Team) -> Result<()> {
    let done = bed.timed(&["delete", &team.key, "--confirm"])?;
    if done.code == Some(0) { Ok(()) } else { bail!("delete failed: {}", done.stdout.trim()) }
}

/// Ends a team that was measured.
pub(super) fn end(bed: &Bed, team: &Team) -> Result<()> {
    shutdown(bed, team)?;
    delete(bed, team)
}

/// Measures a shutdown where one agent does not listen.
pub(super) fn shutdown_of_the_deaf(bed: &mut Bed, size: usize, figures: &mut Figures) -> Result<()> {
    let (team, _) = start(bed, "deaf", size)?;
    team.control(bed, "w1", "ignore-signals on")?;
    let done = done_file(&team.seat_dir(bed, "w1")?)?;
    until("w1 obeys", || Ok(done.exists().then_some(())))?;
    let took = shutdown(bed, &team)?;
    figures.times("shutdown, one ignores HUP and TERM", size, &[took], Target::median(5000.0), None);
    delete(bed, &team)
}

fn done_file(seat_dir: &Path) -> Result<PathBuf> {
    let dir = seat_dir.join("fake-home/control");
    let name = fs::read_dir(&dir)?
        .filter_map(|it| Some(it.ok()?.file_name().to_str()?.to_owned()))
        .find(|it| !it.contains(".done"))
        .context("no control file was written")?;
    Ok(dir.join(format!("{name}.done")))
}

/// How the byte log writes a text.
fn hex(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut all, byte| {
        let _ = write!(all, "{byte:02x}");
        all
    })
}

/// Runs any command in the environment of the workspace, its time taken.
pub(super) fn timed_program(bed: &Bed, program: &Path, arguments: &[&str]) -> Result<Duration> {
    let mut command = bed.ws.command(program);
    command.args(arguments);
    Ok(timed(command, "")?.took)
}
