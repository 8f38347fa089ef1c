//! Many writers, killed at random. The test binary runs itself as the writers.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use team_journal::Observed;

use crate::support::*;

const DIR: &str = "TEAM_JOURNAL_STRESS_DIR";
const WRITER: &str = "TEAM_JOURNAL_STRESS_WRITER";
const WRITERS: u64 = 16;

fn open(dir: &std::path::Path) -> Log {
    let mut options = options();
    options.segment_bytes = 1 << 20;
    Log::open(World::places_in(dir), options).expect("a log that opens")
}

/// Not a test by itself: what each writer does until it is killed.
#[test]
fn a_writer_of_the_stress_test() {
    let (Ok(dir), Ok(writer)) = (std::env::var(DIR), std::env::var(WRITER)) else { return };
    let dir = std::path::PathBuf::from(dir);
    let writer: u64 = writer.parse().unwrap();
    let mut acknowledged = OpenOptions::new()
        .create(true)
        .append(true)
        .open(dir.join(format!("acknowledged-{writer}")))
        .unwrap();
    let log = open(&dir);
    let mut cursor = log.cursor_start().unwrap();
    for count in 0.. {
        let id = writer * 1_000_000_000 + u64::from(std::process::id()) * 1_000 + count % 1_000;
        let long = "x".repeat([20, 200, 70_000][usize::try_from((count + writer) % 3).unwrap()]);
        let drafts = vec![text(id, &long), text(id, "second"), text(id, &long)];
        let last = if count % 5 == 4 {
            match log.observe(now(), drafts, Duration::from_millis(1)).unwrap() {
                Observed::Appended(lines) => lines.last().map(|line| line.seq),
                Observed::Spooled => Some(0),
            }
        } else {
            let mut guard = log.lock(WAIT).unwrap();
            guard.read_new(&mut cursor, &mut |_| {}).unwrap();
            let lines = guard.append(now(), drafts).unwrap();
            guard.unlock_and_sync().unwrap();
            lines.last().map(|line| line.seq)
        };
        writeln!(acknowledged, "{} {id}", last.unwrap()).unwrap();
    }
}

/// Writers that are gone when the test is.
struct Writers(Vec<Child>);

impl Drop for Writers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn start(dir: &std::path::Path, writer: u64) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "stress::a_writer_of_the_stress_test", "--nocapture"])
        .env(DIR, dir)
        .env(WRITER, writer.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a writer")
}

#[test]
fn no_acknowledged_record_is_lost_however_often_writers_are_killed() {
    let world = World::new();
    let dir = world.path();
    let log = open(dir);
    let mut writers = Writers((0..WRITERS).map(|writer| start(dir, writer)).collect());
    let mut follow = log.follow(log.cursor_start().unwrap()).unwrap();
    let mut followed = Vec::new();
    let begun = Instant::now();
    let mut turn = 0;
    let sealed = || fs::read_dir(world.places().logs).unwrap().count();
    // Until enough has happened, however slow the machine is.
    while begun.elapsed() < Duration::from_secs(3) || turn < 12 || sealed() < 4 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{turn} kills, {} files", sealed());
        // Each batch of lines that arrives costs one writer its life, in the middle of whatever it does.
        let soon = Some(Instant::now() + Duration::from_millis(100));
        for _ in 0..3 {
            follow.next(soon, &mut |line| followed.push((line.seq, id_of(line)))).unwrap();
        }
        let victim = turn * 7 % writers.0.len();
        assert!(writers.0[victim].try_wait().unwrap().is_none(), "writer {victim} failed by itself");
        writers.0[victim].kill().unwrap();
        writers.0[victim].wait().unwrap();
        writers.0[victim] = start(dir, victim as u64);
        turn += 1;
    }
    drop(writers);
    drop(log.lock(WAIT).unwrap());
    follow.next(Some(Instant::now()), &mut |line| followed.push((line.seq, id_of(line)))).unwrap();

    let verified = open(dir).verify().unwrap();
    assert!(verified.is_clean(), "{verified:?}");
    let mut by_seq = BTreeMap::new();
    let mut counts: BTreeMap<u64, u32> = BTreeMap::new();
    let mut expected = 0;
    let fresh = open(dir);
    fresh
        .read_new(&mut fresh.cursor_start().unwrap(), &mut |line| {
            expected += 1;
            assert_eq!(line.seq, expected, "a seq is repeated or skipped");
            if let Some(id) = id_of(line) {
                by_seq.insert(line.seq, id);
                *counts.entry(id).or_default() += 1;
            }
        })
        .unwrap();
    assert!(counts.values().all(|count| count % 3 == 0), "an append was torn apart");
    assert!(followed.iter().map(|(seq, _)| *seq).eq(1..=expected), "the follower missed a line");
    let mut promised = 0;
    let found: BTreeSet<u64> = counts.keys().copied().collect();
    for writer in 0..WRITERS {
        let Ok(file) = File::open(dir.join(format!("acknowledged-{writer}"))) else { continue };
        for line in BufReader::new(file).lines() {
            let line = line.unwrap();
            let (seq, id) = line.split_once(' ').unwrap();
            let (seq, id): (u64, u64) = (seq.parse().unwrap(), id.parse().unwrap());
            promised += 1;
            assert!(found.contains(&id), "record {id} of writer {writer} is lost");
            assert!(seq == 0 || by_seq.get(&seq) == Some(&id), "record {id} is not line {seq}");
        }
    }
    assert!(promised > 50, "{promised} records");
}

fn id_of(line: &Written) -> Option<u64> {
    match &line.event {
        Event::Noted { id, .. } => Some(*id),
        _ => None,
    }
}
