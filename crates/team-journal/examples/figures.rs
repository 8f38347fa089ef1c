//! Prints what reading and writing the log cost on this machine.
//!
//! Run with `cargo run --release -p team-journal --example figures`.

#![expect(clippy::print_stdout, clippy::cast_precision_loss, reason = "it prints figures, for people")]

use std::time::{Duration, Instant};

use chrono::Utc;
use serde::{Deserialize, Serialize};
use team_journal::{Draft, Error, Journal, LogFact, Options, Payload, Places};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type")]
enum Event {
    #[serde(rename = "log.fact")]
    Fact { fact: LogFact },
    #[serde(rename = "message.accepted")]
    Accepted { id: String, from: String, to: Vec<String>, text: String },
}

impl Payload for Event {
    fn from_log(fact: LogFact) -> Self {
        Self::Fact { fact }
    }

    fn as_log(&self) -> Option<LogFact> {
        match self {
            Self::Fact { fact } => Some(fact.clone()),
            Self::Accepted { .. } => None,
        }
    }

    fn keys(&self) -> Vec<String> {
        match self {
            Self::Fact { .. } => Vec::new(),
            Self::Accepted { id, .. } => vec![id.clone(), "type:message.accepted".into()],
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum By {
    Coordinator,
    Agent(String),
}

type Log = Journal<By, Event>;

const WAIT: Duration = Duration::from_secs(5);

fn draft(id: u64) -> Draft<By, Event> {
    let event = Event::Accepted {
        id: format!("m-{id}"),
        from: "lead".into(),
        to: vec!["coder".into()],
        text: "please look at the failing test".into(),
    };
    Draft { team: Some("current".into()), by: By::Agent("lead".into()), event }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let places = || Places {
        logs: dir.path().join("logs"),
        state: dir.path().join("state"),
        cache: dir.path().join("cache"),
    };
    let log = Log::create(places(), Options::new(By::Coordinator), "figures")?;

    each("append under the lock", 20_000, |id| {
        let mut guard = log.lock(WAIT)?;
        guard.append(Utc::now(), vec![draft(id)]).map(|_| ())
    })?;
    each("append, then fdatasync after unlock", 500, |id| {
        let mut guard = log.lock(WAIT)?;
        guard.append(Utc::now(), vec![draft(id)])?;
        guard.unlock_and_sync()
    })?;
    each("open, lock and append by a new handle", 500, |id| {
        let log = Log::open(places(), Options::new(By::Coordinator))?;
        let mut guard = log.lock(WAIT)?;
        guard.append(Utc::now(), vec![draft(id)]).map(|_| ())
    })?;
    let mut guard = log.lock(WAIT)?;
    for id in 0..80_000 {
        guard.append(Utc::now(), vec![draft(id)])?;
    }
    drop(guard);

    let log = Log::open(places(), Options::new(By::Coordinator))?;
    let mut cursor = log.cursor_start()?;
    let (mut took, mut lines) = (Duration::MAX, 0);
    for _ in 0..5 {
        cursor = log.cursor_start()?;
        let begun = Instant::now();
        let mut sum = 0;
        lines = log.read_new(&mut cursor, &mut |line| sum += line.seq)?.lines;
        took = took.min(begun.elapsed());
        assert_eq!(sum, lines * (lines + 1) / 2, "the lines are numbered without gaps");
    }
    let size = std::fs::metadata(places().active())?.len();
    println!(
        "replay of {lines} lines, {} MB: {took:.1?}, {:.2} M lines/s",
        size >> 20,
        lines as f64 / took.as_secs_f64() / 1e6
    );
    each("read_new with nothing new", 100_000, |_| log.read_new(&mut cursor, &mut |_| {}).map(|_| ()))?;
    each("read_seq", 1000, |at| log.read_seq(1 + at * 97).map(|_| ()))?;
    let begun = Instant::now();
    log.find("m-7")?;
    println!("find by key, index built: {:.1?}", begun.elapsed());
    each("find by key", 1000, |at| log.find(&format!("m-{at}")).map(|_| ()))?;

    let state = vec!["a state of some size".to_owned(); 10_000];
    log.save_snapshot(&state, &cursor, "figures")?;
    log.lock(WAIT)?.append(Utc::now(), (0..1000).map(draft).collect())?;
    let begun = Instant::now();
    let fresh = Log::open(places(), Options::new(By::Coordinator))?;
    let (_, mut cursor) = fresh.load_snapshot::<Vec<String>>("figures").ok_or("no snapshot")?;
    let report = fresh.read_new(&mut cursor, &mut |_| {})?;
    println!("open, load a snapshot of 240 KB and read {} lines: {:.2?}", report.lines, begun.elapsed());

    wake(&log)?;
    Ok(())
}

/// Prints the mean of the best of ten rounds: other work on the machine only ever adds to it.
fn each(what: &str, times: u64, mut act: impl FnMut(u64) -> Result<(), Error>) -> Result<(), Error> {
    let mut best = f64::MAX;
    for round in 0..10 {
        let begun = Instant::now();
        for time in 0..times / 10 {
            act(round * times / 10 + time)?;
        }
        best = best.min(begun.elapsed().as_secs_f64() * 1e7 / times as f64);
    }
    println!("{what}: {best:.2} us");
    Ok(())
}

/// Measures how long an append takes to reach a follower in another thread.
fn wake(log: &Log) -> Result<(), Error> {
    let mut cursor = log.cursor_start()?;
    log.read_new(&mut cursor, &mut |_| {})?;
    let (told, ready) = std::sync::mpsc::channel();
    let mut times = std::thread::scope(|scope| {
        scope.spawn(move || {
            let Ok(mut follow) = log.follow(cursor) else { return };
            for _ in 0..200 {
                let deadline = Some(Instant::now() + WAIT);
                let seen = follow.next(deadline, &mut |_| {}).map(|_| Instant::now());
                if told.send(seen).is_err() {
                    return;
                }
            }
        });
        let mut times = Vec::new();
        for id in 0..200 {
            let begun = Instant::now();
            log.lock(WAIT)?.append(Utc::now(), vec![draft(id)])?;
            if let Ok(seen) = ready.recv() {
                times.push(seen?.saturating_duration_since(begun));
            }
        }
        Ok::<_, Error>(times)
    })?;
    times.sort();
    println!("from before the append to the follower: {:.1?} (median)", times[times.len() / 2]);
    Ok(())
}
