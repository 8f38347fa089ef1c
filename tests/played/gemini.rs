//! Gemini CLI: keys only, dialogs that are answered in the pane only, a limit that nothing announces.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::Value;
use team_scenarios::{Crew, SOON};

/// A team of one that trusts its folder; not started.
fn written() -> Crew {
    let crew = Crew::played("gemini", &["w1"]);
    let file = own_trust(&crew);
    fs::create_dir_all(file.parent().expect("it has one")).expect("a home is writable");
    fs::write(file, format!("{{\"{}\": \"TRUST_FOLDER\"}}", crew.ws.path().display()))
        .expect("a home is writable");
    crew
}

fn started() -> Crew {
    let crew = written();
    crew.start();
    crew
}

/// The person's own record of trusted folders.
fn own_trust(crew: &Crew) -> PathBuf {
    crew.ws.home().join(".gemini/trustedFolders.json")
}

fn w1(crew: &Crew) -> Value {
    crew.status()["agents"]["w1"].clone()
}

/// Checks that a text was taken once.
#[track_caller]
fn taken_once(crew: &Crew, part: &str) {
    let count = crew.texts("w1").iter().filter(|it| it.contains(part)).count();
    assert_eq!(count, 1, "{part}: {:?}", crew.texts("w1"));
}

/// How often Enter came to the terminal.
fn enters(crew: &Crew) -> usize {
    crew.bytes("w1").split(|it| *it == b'\r').count()
}

// Case 005.
#[test]
fn a_message_is_taken_once_though_the_enter_after_its_paste_is_eaten() {
    let crew = started();
    for (eaten, presses) in [(60, 1), (900, 2)] {
        crew.control("w1", &format!("eat-enter {eaten}"));
        let words = format!("eaten for {eaten} ms");
        let before = enters(&crew);
        crew.ask("w1", &format!("{words}\nand a second line"));
        taken_once(&crew, &words);
        assert_eq!(enters(&crew) - before, presses, "Enters at {eaten} ms");
    }
    // An Enter that never counts: nothing is claimed, and nothing is typed on top of it.
    crew.control("w1", "eat-enter 600000");
    let sent = crew.ws.json(["send", "w1", "never taken", "--wait", "submitted", "--timeout", "40"]);
    assert_eq!(sent["receivers"][0]["receipt"]["step"], "unknown", "{sent}");
    let next = crew.send("w1", "behind it");
    assert_eq!(crew.wait_for_step("w1", &next, "held"), "dirty");
    assert!(!crew.texts("w1").iter().any(|it| it.contains("never taken") || it.contains("behind it")));
    crew.finish();
}

#[test]
fn every_text_is_prose_and_a_long_one_is_a_label_in_the_box_and_whole_in_the_turn() {
    let crew = started();
    for text in ["/help me", "!this is prose", "@no-such-file", "# 请检查", "a\\", "x\ty"] {
        crew.ask("w1", text);
    }
    let texts = crew.texts("w1");
    for part in ["/help me", "!this is prose", "# 请检查", "a\\"] {
        assert!(texts.iter().any(|it| it.contains(part)), "{part}: {texts:?}");
    }
    // What the program would change goes as a file that it is told to read.
    let whole: Vec<String> = texts
        .iter()
        .flat_map(|it| it.split_whitespace().filter(|it| it.starts_with('/') && it.contains("/messages/")))
        .map(|it| fs::read_to_string(it).expect("the file is there"))
        .collect();
    for part in ["@no-such-file", "x\ty"] {
        assert!(whole.iter().any(|it| it.contains(part)), "{part}: {whole:?}");
    }
    assert_eq!(texts.len(), 6);
    let events = crew.fake_events("w1");
    assert!(
        !events.iter().any(|it| matches!(it["event"].as_str(), Some("command" | "ran_shell" | "completed")))
    );
    let long = "a line of a long text\n".repeat(400);
    crew.ask("w1", &long);
    assert!(crew.texts("w1").last().expect("it came").contains(long.trim_end()));
    crew.finish();
}

#[test]
fn a_folder_that_nobody_trusts_is_named_and_a_person_trusts_it_in_the_pane() {
    let crew = Crew::played("gemini", &["w1"]);
    let begun = crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(begun.code, Some(1), "{}", begun.snapshot());
    assert!(begun.stderr.contains("folder_trust"), "{}", begun.snapshot());
    assert_eq!(w1(&crew)["activity"]["state"], "awaiting_trust");
    let waits = crew.send("w1", "after the question");
    crew.wait_for_step("w1", &waits, "held");
    crew.press("w1", &["1"]);
    crew.wait_for_step("w1", &waits, "answered");
    taken_once(&crew, "after the question");
    let rules = fs::read_to_string(own_trust(&crew)).expect("the answer is written down");
    assert!(rules.contains("TRUST_FOLDER"), "{rules}");
    crew.finish();
}

#[test]
fn a_question_for_permission_is_listed_and_answered_in_the_pane_and_a_message_waits_for_it() {
    let crew = started();
    let file = crew.ws.path().join("made");
    let asks = crew.send(
        "w1",
        "fake: ask-permission Bash {\"command\":\"touch made\"}\nfake: shell touch made; sleep 8",
    );
    crew.wait_for_activity("w1", "awaiting_approval");
    let open = crew.ws.json(["approvals", "w1"]);
    assert!(open["approvals"][0].to_string().contains("touch made"), "{open}");
    let behind = crew.send("w1", "behind the question");
    assert_eq!(crew.wait_for_step("w1", &behind, "held"), "dialog");
    assert!(crew.screen("w1").contains("Allow execution of [Shell]?") && !file.exists());
    crew.press("w1", &["1"]);
    // Nothing tells it while the command runs; the screen shows it.
    crew.wait_for_activity("w1", "working");
    assert_eq!(crew.receipt("w1", &asks)["step"], "turn_started");
    crew.wait_for_step("w1", &asks, "answered");
    crew.wait_for_step("w1", &behind, "answered");
    assert!(file.exists());
    taken_once(&crew, "behind the question");
    assert_eq!(crew.ws.json(["approvals", "w1"])["approvals"].as_array().map(Vec::len), Some(0));

    // A no ends the turn.
    let denied =
        crew.send("w1", "fake: ask-permission Bash {\"command\":\"touch no\"}\nfake: shell touch no");
    crew.wait_for_activity("w1", "awaiting_approval");
    crew.press("w1", &["3"]);
    assert_eq!(crew.wait_for_step("w1", &denied, "answered"), "its turn ended: interrupted");
    assert!(!crew.ws.path().join("no").exists());
    crew.finish();
}

// A question of which nothing tells that it was answered, until its tool has ended.
#[test]
fn a_question_that_was_answered_while_nobody_looked_is_closed_and_the_next_one_is_not() {
    for (signal, back) in [("-KILL", None), ("-STOP", Some("-CONT"))] {
        let crew = started();
        // They differ by a blank.
        crew.send(
            "w1",
            "fake: ask-permission Bash {\"command\":\"rm -rf a b\"}\nfake: shell echo A >>ran\n\
             fake: ask-permission Bash {\"command\":\"rm -rf ab\"}\nfake: shell echo B >>ran",
        );
        let open = || -> Vec<String> {
            let shown = crew.ws.json(["approvals", "w1"]);
            let all = shown["approvals"].as_array().cloned().unwrap_or_default();
            all.iter().map(|it| it["request_id"].as_str().unwrap_or_default().to_owned()).collect()
        };
        crew.ws.wait_until("it asks", || open().len() == 1, SOON);
        let first = open().remove(0);
        crew.ws.wait_until("it shows", || crew.screen("w1").contains("rm -rf a b"), SOON);
        let coordinator = crew.events_of("coordinator.started").pop().expect("one runs");
        let pid = coordinator["event"]["process"]["pid"].to_string();
        let kill = |signal: &str| {
            let sent = std::process::Command::new("kill").args([signal, &pid]).status();
            assert!(sent.expect("it runs").success(), "{signal}");
        };
        kill(signal);
        crew.press("w1", &["1"]);
        crew.ws.wait_until("it asks again", || crew.screen("w1").contains("rm -rf ab"), SOON);
        crew.ws.wait_until("that is told", || crew.events_of("approval.requested").len() == 2, SOON);
        if let Some(back) = back {
            kill(back);
        }
        crew.ws.wait_until("the first is closed", || !open().contains(&first), SOON);
        let second = open();
        assert_eq!(second.len(), 1, "{signal}: {:?}", crew.events_of("approval.closed"));
        let late = crew.ws.json(["approve", "w1", &first, "--allow"]);
        assert_eq!(late["error"]["code"], "closed", "{signal}: {late}");
        crew.ws.ok(["approve", "w1", &second[0], "--allow"]);
        crew.wait_for_activity("w1", "idle");
        assert_eq!(crew.ws.read("ran"), "A\nB\n", "{signal}");
        crew.finish();
    }
}

// The successor of a coordinator that died after its key finds the next question, not the one it answered.
#[test]
fn a_key_for_one_question_is_never_pressed_again_for_the_next() {
    for second in ["git push", "git  push"] {
        let mut crew = written();
        crew.ws.set("TEAM_AGENT_FAILPOINT", "press:after:1");
        crew.start();
        crew.send(
            "w1",
            &format!(
                "fake: ask-permission Bash {{\"command\":\"git push\"}}\nfake: shell echo A >>ran\n\
                 fake: ask-permission Bash {{\"command\":\"{second}\"}}\nfake: shell echo B >>ran"
            ),
        );
        let open = || -> Vec<String> {
            let shown = crew.ws.json(["approvals", "w1"]);
            let all = shown["approvals"].as_array().cloned().unwrap_or_default();
            all.iter().map(|it| it["request_id"].as_str().unwrap_or_default().to_owned()).collect()
        };
        crew.ws.wait_until("it asks", || open().len() == 1, SOON);
        let first = open().remove(0);
        let mut allow = crew.ws.command(crew.ws.program());
        allow.env_remove("TEAM_AGENT_FAILPOINT").args(["approve", "w1", &first, "--allow"]);
        let epochs = crew.events_of("coordinator.started").len();
        allow.output().expect("it runs");
        crew.ws.wait_until("a successor runs", || crew.events_of("coordinator.started").len() > epochs, SOON);
        crew.ws.wait_until("it asks again", || crew.events_of("approval.requested").len() == 2, SOON);
        crew.ws.wait_until("the first is closed", || !open().contains(&first), SOON);
        assert_eq!(crew.events_of("approval.pressing").len(), 1, "{second}");
        assert_eq!((open().len(), crew.ws.read("ran")), (1, "A\n".to_owned()), "{second}");
        crew.ws.ok(["approve", "w1", &open()[0], "--deny"]);
        crew.wait_for_activity("w1", "idle");
        assert_eq!(crew.events_of("approval.pressing").len(), 2, "{second}");
        assert_eq!(crew.ws.read("ran"), "A\n", "{second}");
        crew.finish();
    }
}

#[test]
fn a_limit_of_a_day_is_seen_on_the_screen_and_outlasts_its_turn() {
    let crew = started();
    crew.control("w1", "limit");
    let limited = crew.send("w1", "one too many");
    crew.wait_for_activity("w1", "limited");
    assert_eq!(w1(&crew)["activity"]["reason"], "usage_limit");
    let waits = crew.send("w1", "when it is over");
    assert_eq!(crew.wait_for_step("w1", &waits, "held"), "limited");
    // Going on comes to the same limit.
    crew.press("w1", &["1"]);
    crew.ws.wait_until("it asks again", || crew.screen("w1").contains("Usage limit reached"), SOON);
    crew.press("w1", &["2"]);
    crew.wait_for_step("w1", &limited, "answered");
    assert_eq!(crew.activity("w1"), "limited");
    taken_once(&crew, "one too many");
    crew.finish();
}

#[test]
fn a_draft_holds_a_message_and_what_a_person_interrupts_is_told() {
    let crew = started();
    crew.press("w1", &["-l", "half a thought"]);
    crew.ws.wait_until("it shows", || crew.screen("w1").contains("half a thought"), SOON);
    let beside = crew.send("w1", "beside the draft");
    assert_eq!(crew.wait_for_step("w1", &beside, "held"), "draft");
    assert!(crew.screen("w1").contains("half a thought"));
    crew.press("w1", &["C-c"]);
    crew.wait_for_step("w1", &beside, "answered");
    taken_once(&crew, "beside the draft");

    let slow = crew.send("w1", "fake: think 60000");
    crew.wait_for_step("w1", &slow, "turn_started");
    let after = crew.send("w1", "after the interrupt");
    assert_eq!(crew.wait_for_step("w1", &after, "held"), "busy");
    crew.press("w1", &["Escape"]);
    assert_eq!(crew.wait_for_step("w1", &slow, "answered"), "its turn ended: interrupted");
    crew.wait_for_step("w1", &after, "answered");
    taken_once(&crew, "after the interrupt");

    crew.control("w1", "api-error invalid_argument");
    let failed = crew.send("w1", "this one fails");
    assert_eq!(crew.wait_for_step("w1", &failed, "answered"), "its turn ended: error");
    assert_eq!(w1(&crew)["activity"]["reason"], "invalid_argument");
    crew.finish();
}

#[test]
fn a_program_inside_the_program_counts_for_nothing() {
    let crew = started();
    let native = crew.native("w1");
    let (said, code) = crew.shell("w1", "gemini -p 'fake: say from the inside'");
    assert_eq!((said.trim(), code), ("from the inside", 0));
    crew.ws.wait_until("it was noted", || !crew.events_of("observation.foreign").is_empty(), SOON);
    assert_eq!(crew.native("w1"), native);
    assert_eq!(crew.events_of("turn.started").len(), 1, "{:?}", crew.events_of("turn.started"));
    crew.ask("w1", "still there");
    assert_eq!(crew.native("w1"), native);
    crew.finish();
}

// Case 069.
#[test]
fn a_program_behind_a_script_that_stays_is_alive_and_goes_on_after_a_kill() {
    let crew = written();
    let script = crew.fake_home("w1").with_file_name("gemini");
    let text = fs::read_to_string(&script).expect("it is worn").replace(" exec ", " ");
    fs::write(&script, format!("{text}code=$?\nexit $code\n")).expect("it is ours");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("it is ours");
    crew.start();
    crew.ask("w1", "the word is heron");
    assert_eq!(w1(&crew)["session"]["state"], "running");
    let native = crew.native("w1");
    crew.kill(w1(&crew)["session"]["pid"].as_i64().expect("it runs"));
    crew.ws.wait_until("its end is known", || w1(&crew)["session"]["state"] == "stopped", SOON);
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["restart", "--headless"]);
    assert_eq!(crew.native("w1"), native);
    crew.ask("w1", "fake: recall 1");
    assert!(crew.screen("w1").contains("the word is heron"), "{}", crew.screen("w1"));
    crew.finish();
}
