//! The leader is a person's own agent in a pane of the person's own tmux: it is told what it should know, once, and
//! only when it can hear it.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use team_scenarios::{Crew, SOON};
use team_testkit::TestPane;

const SESSION: &str = "11111111-2222-4333-8444-555555555555";

/// A leader's program in a pane of its own, with the team started from there.
struct Leader<'a> {
    crew: &'a Crew,
    pane: TestPane<'a>,
}

impl<'a> Leader<'a> {
    fn starts(crew: &'a Crew) -> Self {
        let home = format!("FAKE_HOME={}", leader_home(crew).display());
        let program = crew.ws.program().to_string_lossy().into_owned();
        let pane = TestPane::open(&crew.ws, &[&home, &program, "fake-agent", "--session-id", SESSION]);
        pane.wait_for("❯", SOON);
        let server = pane_server(&pane);
        let output = crew
            .ws
            .command(crew.ws.program())
            .arg("quick-start")
            .env("TMUX", format!("{},{server},0", pane.socket().display()))
            .env("TMUX_PANE", pane.id())
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { crew, pane }
    }

    /// What the leader's program was given.
    fn heard(&self) -> Vec<String> {
        let file = leader_home(self.crew).join(format!("submissions/{SESSION}.jsonl"));
        fs::read_to_string(file)
            .unwrap_or_default()
            .lines()
            .filter_map(|it| serde_json::from_str::<Value>(it).ok())
            .map(|it| it["text"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

fn leader_home(crew: &Crew) -> PathBuf {
    crew.ws.path().join("leader-home")
}

fn pane_server(pane: &TestPane<'_>) -> String {
    let output = std::process::Command::new("tmux")
        .arg("-S")
        .arg(pane.socket())
        .args(["display-message", "-p", "#{pid}"])
        .output()
        .expect("tmux is there");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn a_leader_that_is_idle_is_told_of_a_result_once() {
    let crew = Crew::written(&["w1"]);
    let leader = Leader::starts(&crew);
    assert_eq!(crew.status()["leader"]["bound"], true);
    crew.ws.ok(["send", "--watch-result", "w1", "fake: report status=success summary=\"done\""]);
    crew.ws.wait_until("the leader is told", || !leader.heard().is_empty(), SOON);
    crew.ws.wait_for_event(|it| it["event"]["type"] == "leader.told", SOON);
    let heard = leader.heard();
    assert!(heard[0].contains("1 result waits"), "{heard:?}");
    assert!(heard[0].contains("team-agent collect"), "{heard:?}");
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(crew.status()["results"]["uncollected"], 1, "being told is not collecting");
    assert_eq!(crew.status()["leader"]["untold"], 0);
    drop(leader);
    crew.finish();
}

#[test]
fn a_leader_is_not_told_again_by_a_coordinator_that_cannot_know() {
    let mut crew = Crew::written(&["w1"]);
    crew.ws.set("TEAM_AGENT_FAILPOINT", "tell:orphan:1");
    let leader = Leader::starts(&crew);
    crew.ws.ok(["send", "--watch-result", "w1", "fake: report status=success summary=\"one\""]);
    let told = crew.ws.wait_for_event(|it| it["event"]["type"] == "leader.told", SOON);
    assert_eq!(told["event"]["unsure"], true, "{told}");
    assert!(crew.status()["coordinator"]["epoch"].as_u64() > Some(1), "it was another one");
    assert_eq!(leader.heard().len(), 1, "{:?}", leader.heard());
    assert_eq!(crew.status()["results"]["uncollected"], 1);
    drop(leader);
    crew.finish();
}

#[test]
fn a_leader_with_a_draft_is_not_typed_at_until_the_draft_is_gone() {
    let crew = Crew::written(&["w1"]);
    let leader = Leader::starts(&crew);
    leader.pane.type_text("do not de");
    leader.pane.wait_for("do not de", SOON);
    crew.ws.ok(["send", "--watch-result", "w1", "fake: report status=success summary=\"one\""]);
    crew.ws.ok(["wait", "--task", "1", "--timeout", "20"]);
    crew.ws.ok(["send", "--watch-result", "w1", "fake: report status=success summary=\"two\""]);
    crew.ws.ok(["wait", "--task", "2", "--timeout", "20"]);
    assert!(leader.heard().is_empty(), "{:?}", leader.heard());
    assert!(leader.pane.screen().contains("do not de"));
    leader.pane.keys(&["C-u"]);
    crew.ws.wait_until("the leader is told", || !leader.heard().is_empty(), SOON);
    let heard = leader.heard();
    assert!(heard[0].contains("2 results wait"), "told together: {heard:?}");
    assert!(heard.iter().all(|it| !it.contains("do not de")), "{heard:?}");
    drop(leader);
    crew.finish();
}

#[test]
fn a_pane_that_runs_no_known_program_is_never_typed_into() {
    let crew = Crew::written(&["w1"]);
    let pane = TestPane::open(&crew.ws, &["cat"]);
    let server = pane_server(&pane);
    let output = crew
        .ws
        .command(crew.ws.program())
        .arg("quick-start")
        .env("TMUX", format!("{},{server},0", pane.socket().display()))
        .env("TMUX_PANE", pane.id())
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    crew.ws.ok(["send", "--watch-result", "w1", "fake: report status=success summary=\"done\""]);
    crew.ws.ok(["wait", "--task", "1", "--timeout", "20"]);
    // The coordinator has looked at the leader by the time the next message is through.
    crew.ask("w1", "hi");
    assert_eq!(pane.screen().trim(), "");
    assert_eq!(crew.ws.json(["collect"])["collected"], 1);
    drop(pane);
    crew.finish();
}
