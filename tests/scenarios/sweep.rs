//! The coordinator is killed at its failpoints while real processes on a real tmux go on, and its successor, started by
//! the seats or by the command that waits, loses and doubles nothing.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails as the test does")]

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;
use team_scenarios::{Crew, SOON};

/// Arms a failpoint in the first coordinator that a command starts, in builds that have them.
const FAILPOINT: &str = "TEAM_AGENT_FAILPOINT";
/// Asks for more runs: so many for each group, or a good number where it says none.
const MORE: &str = "TEAM_AGENT_SWEEP";
const MANY: usize = 150;
/// How often a point is passed in one run, about.
const ROUNDS: usize = 4;

const AGENTS: [&str; 3] = ["w1", "w2", "w3"];

/// What was sent: receivers, and whether a result is owed.
const MESSAGES: [(&str, bool); 6] =
    [("w1,w2,w3", false), ("w1", true), ("w2", true), ("w1", false), ("w3", true), ("w2", true)];

/// How a run ended.
#[derive(Default)]
struct Tally {
    receipts: usize,
    unknown: usize,
    deaths: usize,
}

/// One team from its start to its end, with a coordinator that dies at that point.
fn run(point: &str, bell: bool) -> Tally {
    let mut crew = Crew::written(&AGENTS);
    if bell {
        crew.ws.set("FAKE_CHANNEL", "bell");
    }
    crew.ws.set(FAILPOINT, point);
    crew.start();
    crew.ws.unset(FAILPOINT);
    let mut task = 0;
    for (to, brief) in MESSAGES {
        task += usize::from(brief);
        // Two briefs may come in one turn, so each report names its own.
        let text =
            if brief { format!("fake: report task=\"{task}\" summary=done") } else { "hello".to_owned() };
        let watch: &[&str] = if brief { &["--watch-result"] } else { &[] };
        crew.ws.ok([&["send", to, &text, "--wait", "accepted"], watch].concat());
    }
    let briefs = MESSAGES.iter().filter(|(_, brief)| *brief).count();
    wait_until_settled(&crew, point);
    let tally = check_messages(&crew, point);
    let reported = crew.events_of("mcp.report_result").len();
    assert!(
        reported <= briefs && reported + tally.unknown >= briefs,
        "{point}: {reported} of {briefs} results"
    );
    assert_eq!(crew.ws.json(["collect"])["collected"], reported, "{point}");
    assert_eq!(crew.ws.json(["collect"])["collected"], 0, "{point}");
    crew.ws.ok(["shutdown"]);
    let claims: Vec<Value> = crew.events_of("session.claimed");
    let spawns: BTreeSet<&str> = claims.iter().filter_map(|it| it["event"]["spawn"].as_str()).collect();
    assert_eq!((claims.len(), spawns.len()), (AGENTS.len(), AGENTS.len()), "{point}: each seat ran once");
    let deaths = crew.events_of("coordinator.started").len() - 1;
    crew.finish();
    Tally { deaths: deaths.min(1), ..tally }
}

/// The receivers and ids of everything that was accepted.
fn accepted(crew: &Crew) -> Vec<(String, String)> {
    let of_one = |it: Value| {
        let id = it["event"]["id"].as_str().unwrap_or_default().to_owned();
        let to = it["event"]["to"].as_array().cloned().unwrap_or_default();
        to.into_iter().filter_map(move |to| Some((to.as_str()?.to_owned(), id.clone())))
    };
    crew.events_of("message.accepted").into_iter().flat_map(of_one).collect()
}

/// Waits until nothing is on its way any more, and everybody is idle.
fn wait_until_settled(crew: &Crew, point: &str) {
    let mut last = Value::Null;
    let mut look = || {
        last = crew.status();
        let open = ["accepted", "held", "sending", "submitted", "turn_started"];
        let idle = |it: &Value| it["activity"]["state"] == "idle";
        open.iter().all(|it| last["messages"][it].as_u64().unwrap_or(0) == 0)
            && last["agents"].as_object().is_some_and(|it| it.values().all(idle))
    };
    if !team_testkit::process::wait_until(&mut look, SOON * 2) {
        let log: Vec<String> = crew.ws.events().iter().map(ToString::to_string).collect();
        panic!("{point}: something stays open: {last}\n{}", log.join("\n"));
    }
}

/// Each message stands once in what its receivers' programs took, or is unknown and stands there once at most.
fn check_messages(crew: &Crew, point: &str) -> Tally {
    let mut tally = Tally::default();
    let unknown: Vec<Value> = crew.events_of("message.unknown");
    for (agent, id) in accepted(crew) {
        let head = [format!("(id {id})"), format!("(id {id},")];
        let texts = crew.texts(&agent);
        let copies: usize = texts
            .iter()
            .map(|text| head.iter().map(|it| text.matches(it.as_str()).count()).sum::<usize>())
            .sum();
        let is_unknown = copies == 0
            && unknown
                .iter()
                .any(|it| it["event"]["id"] == id.as_str() && it["event"]["receiver"] == agent.as_str());
        tally.receipts += 1;
        tally.unknown += usize::from(is_unknown);
        assert!(copies == 1 || is_unknown, "{point}: {id} reached {agent} {copies} times: {texts:?}");
    }
    tally
}

/// Runs so many seeds over these points, two at a time.
fn sweep(seeds: usize, bell: bool, points: &[&str]) {
    let more = std::env::var(MORE).ok().map(|it| it.parse().ok().filter(|it| *it > 1).unwrap_or(MANY));
    let seeds = more.unwrap_or(seeds);
    let (next, total, wrong) = (AtomicUsize::new(0), Mutex::new(Tally::default()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds {
                        return;
                    }
                    let point =
                        format!("{}:{}", points[seed % points.len()], 1 + seed / points.len() % ROUNDS);
                    match catch_unwind(AssertUnwindSafe(|| run(&point, bell))) {
                        Ok(one) => {
                            let mut total = total.lock().unwrap();
                            total.receipts += one.receipts;
                            total.unknown += one.unknown;
                            total.deaths += one.deaths;
                        }
                        Err(_) => wrong.lock().unwrap().push(point),
                    }
                }
            });
        }
    });
    let (total, wrong) = (total.into_inner().unwrap(), wrong.into_inner().unwrap());
    assert!(wrong.is_empty(), "{} of {seeds} runs went wrong: {wrong:?}", wrong.len());
    assert!(total.unknown * 20 <= total.receipts, "{} of {} unknown", total.unknown, total.receipts);
    assert!(
        more.is_some() || total.deaths * 4 >= seeds * 3,
        "only {} of {seeds} coordinators died",
        total.deaths
    );
}

#[test]
fn a_coordinator_killed_while_a_team_starts_is_succeeded() {
    let points = [
        "take_over:after",
        "server:before",
        "server:orphan",
        "server:after",
        "plan:before",
        "plan:after",
        "spawn:before",
        "spawn:orphan",
        "spawn:after",
    ];
    sweep(points.len(), false, &points);
}

#[test]
fn a_coordinator_killed_while_it_types_is_succeeded_and_nothing_is_typed_twice() {
    let points = [
        "announce:before",
        "announce:after",
        "paste:before",
        "paste:orphan",
        "paste:after",
        "enter:before",
        "enter:orphan",
        "enter:after",
    ];
    sweep(24, false, &points);
}

#[test]
fn a_coordinator_killed_while_it_rings_is_succeeded_and_nothing_is_handed_out_twice() {
    let points = [
        "announce:before",
        "announce:after",
        "lay:before",
        "lay:after",
        "ring:before",
        "ring:orphan",
        "ring:after",
    ];
    sweep(14, true, &points);
}

#[test]
fn a_coordinator_killed_while_a_team_ends_is_succeeded_and_nothing_is_left() {
    let points = [
        "stop:before",
        "stop:orphan",
        "stop:after",
        "close:before",
        "close:orphan",
        "close:after",
        "team_stop:before",
        "team_stop:after",
        "server_stop:before",
        "server_stop:orphan",
        "server_stop:after",
        "exit:before",
        "exit:after",
    ];
    sweep(points.len(), false, &points);
}

#[cfg(target_os = "linux")]
#[test]
fn a_coordinator_that_sleeps_while_another_takes_over_does_nothing_when_it_wakes() {
    for (point, bell) in
        [("sleep@paste:before:1", false), ("sleep@enter:before:1", false), ("sleep@lay:before:1", true)]
    {
        let mut crew = Crew::written(&AGENTS[..1]);
        if bell {
            crew.ws.set("FAKE_CHANNEL", "bell");
        }
        crew.ws.set(FAILPOINT, point);
        crew.start();
        crew.ws.unset(FAILPOINT);
        let old = crew.status()["coordinator"]["pid"].as_u64().unwrap();
        crew.ws.ok(["send", "w1", "hello", "--wait", "accepted"]);
        crew.ws.wait_until(&format!("{point}: it sleeps"), || state_of(old) == Some('T'), SOON);
        // Its lock is held as long as it lives, so only one that was robbed of it can be succeeded.
        let state = crew.ws.state_directory().unwrap();
        std::fs::remove_file(state.join("locks/coordinator")).unwrap();
        crew.ws.ok(["coordinator", "--detach"]);
        wait_until_settled(&crew, point);
        crew.ws.ok(["send", "w1", "another", "--wait", "answered", "--timeout", "20"]);
        let before = crew.bytes("w1");
        let woken = crew.ws.command("sh").args(["-c", &format!("kill -CONT {old}")]).status().unwrap();
        assert!(woken.success());
        crew.ws.wait_until(&format!("{point}: it ends"), || state_of(old).is_none(), SOON);
        // Another message goes the usual way, and what the sleeper was at has come once.
        crew.ws.ok(["send", "w1", "third", "--wait", "answered", "--timeout", "20"]);
        assert!(bell || crew.bytes("w1").len() > before.len(), "{point}");
        let tally = check_messages(&crew, point);
        assert_eq!((tally.receipts, tally.unknown), (3, 0), "{point}");
        let epochs: Vec<u64> = crew.ws.events().iter().filter_map(|it| it["by"]["epoch"].as_u64()).collect();
        assert!(
            epochs.is_sorted(),
            "{point}: lines of an older epoch behind those of a newer one: {epochs:?}"
        );
        assert!(crew.status()["coordinator"]["epoch"].as_u64() > Some(1), "{point}");
        crew.finish();
    }
}

#[cfg(target_os = "linux")]
/// The state of a process as the kernel names it; `None` when it is gone.
fn state_of(pid: u64) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(") ")?.1.chars().next().filter(|it| !matches!(it, 'Z' | 'X'))
}
