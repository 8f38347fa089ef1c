//! Our module for OpenCode, its bridge and its server, with the built-in agent in that program's clothes.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use team_scenarios::{Crew, SOON};
use team_testkit::TestWorkspace;

/// A team of one played agent, `w1`.
struct Played {
    crew: Crew,
    /// Where it keeps its logs.
    home: PathBuf,
}

impl Played {
    fn started() -> Self {
        let mut ws = TestWorkspace::new();
        let home = ws.wear("opencode");
        let crew = Crew::written_with(ws, &["w1"], "opencode");
        crew.start();
        Self { crew, home }
    }

    fn wait(&self, what: &str, is_true: impl FnMut() -> bool) {
        self.crew.ws.wait_until(what, is_true, SOON);
    }

    /// Sends a message and returns its id; waits for nothing.
    fn send(&self, text: &str) -> String {
        let sent = self.crew.ws.json(["send", "w1", text, "--wait", "accepted", "--timeout", "0"]);
        sent["message_id"].as_str().unwrap_or_else(|| panic!("{sent}")).to_owned()
    }

    fn receipt(&self, id: &str) -> Value {
        let inbox = self.crew.ws.json(["inbox", "w1"]);
        let entries = inbox["messages"].as_array().expect("an inbox has messages");
        entries.iter().find(|it| it["message_id"] == id).expect("it was sent")["receipt"].clone()
    }

    fn is_at(&self, id: &str, step: &str) {
        self.wait(&format!("{id} is {step}"), || self.receipt(id)["step"] == step);
    }

    /// How the turn that took a message has ended.
    fn end_of(&self, id: &str) -> String {
        self.is_at(id, "answered");
        self.receipt(id)["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// How often a text reached the agent.
    fn times(&self, text: &str) -> usize {
        logs(&self.home.join("submissions")).matches(text).count()
    }

    /// What the agent noted of itself.
    fn noted(&self, event: &str) -> usize {
        logs(&self.home.join("events")).matches(&format!(r#""event":"{event}""#)).count()
    }

    fn control(&self, line: &str) {
        let path = self.home.join("control").join(self.crew.native("w1"));
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).expect("it runs");
        writeln!(file, "{line}").expect("it is writable");
    }

    fn press(&self, key: &str) {
        self.crew.tmux(&["send-keys", "-t", &self.crew.pane("w1"), key]);
    }

    fn screen(&self) -> String {
        self.crew.tmux(&["capture-pane", "-p", "-t", &self.crew.pane("w1")])
    }

    /// The process of the seat with that word in its command line.
    fn process(&self, word: &str) -> Option<i64> {
        let holds = |pid: i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|it| *it == 0).any(|it| it == word.as_bytes())
        };
        self.crew.ws.processes().iter().find(|it| holds(it.pid)).map(|it| i64::from(it.pid))
    }

    fn signal(&self, signal: &str, pid: i64) {
        assert!(pid > 1, "{pid} is no process of ours");
        let line = format!("kill -{signal} {pid}");
        self.crew.ws.command("sh").args(["-c", &line]).output().expect("there is a shell");
    }

    /// Makes the program deaf and waits until the bridge has sent it this; returns the message and the program.
    fn sent_to_the_deaf(&self, text: &str) -> (String, i64) {
        let program = self.process("--port").expect("it runs");
        self.signal("STOP", program);
        let id = self.send(text);
        let taken = self.crew.ws.state_directory().expect("it runs").join("seats/current/w1/inbox/taken");
        let is_open = |it: fs::DirEntry| it.path().extension().is_some_and(|it| it == "open");
        self.wait("it is handed over", || fs::read_dir(&taken).into_iter().flatten().flatten().any(is_open));
        (id, program)
    }

    /// The question that `approvals` shows.
    fn question(&self) -> String {
        let mut id = None;
        self.wait("it asks", || {
            let shown = self.crew.ws.json(["approvals", "w1"]);
            id = shown["approvals"][0]["request_id"].as_str().map(str::to_owned);
            id.is_some()
        });
        id.unwrap_or_default()
    }
}

fn logs(dir: &Path) -> String {
    let files = fs::read_dir(dir).into_iter().flatten().flatten();
    files.map(|it| fs::read_to_string(it.path()).unwrap_or_default()).collect()
}

#[test]
fn a_bridge_that_dies_with_a_message_in_its_hands_neither_loses_nor_doubles_it() {
    let it = Played::started();
    let bridge = it.process("bridge").expect("it runs");
    let (id, program) = it.sent_to_the_deaf("words in its hands");
    it.signal("KILL", bridge);
    it.wait("another bridge runs", || it.process("bridge").is_some_and(|it| it != bridge));
    it.signal("CONT", program);
    it.is_at(&id, "answered");
    // In the middle of a turn.
    let slow = it.send("fake: think 1500\nfake: say slow");
    it.is_at(&slow, "turn_started");
    it.signal("KILL", it.process("bridge").expect("it runs"));
    let behind = it.send("words behind it");
    assert_eq!(it.end_of(&slow), "");
    it.is_at(&behind, "answered");
    for text in ["words in its hands", "think 1500", "words behind it"] {
        assert_eq!(it.times(text), 1, "{text}");
    }
    it.crew.finish();
}

#[test]
fn a_program_that_dies_with_a_message_in_its_hands_goes_on_and_the_receipt_is_honest() {
    let it = Played::started();
    let known = it.send("the word is heron");
    it.is_at(&known, "answered");
    let native = it.crew.native("w1");
    let (id, program) = it.sent_to_the_deaf("words in its hands");
    it.signal("KILL", program);
    it.wait("its end is known", || it.crew.status()["agents"]["w1"]["session"]["state"] == "stopped");
    it.crew.ws.ok(["shutdown"]);
    it.crew.ws.ok(["restart", "--headless"]);
    assert_eq!(it.crew.native("w1"), native);
    let recalled = it.send("fake: recall 1\nwhich word was it?");
    it.is_at(&recalled, "answered");
    assert!(it.screen().contains("the word is heron"), "{}", it.screen());
    let step = it.receipt(&id)["step"].clone();
    assert_eq!((it.times("words in its hands"), step), (0, "unknown".into()));
    it.crew.finish();
}

#[test]
fn a_question_is_answered_by_the_command_and_in_the_pane() {
    let it = Played::started();
    let ask = |file: &str| {
        let sent = it.send(&format!("fake: ask-permission\nfake: shell env >{file}"));
        let question = it.question();
        assert!(it.screen().contains("△ Permission required"), "{}", it.screen());
        (sent, question)
    };
    let exists = |file: &str| it.crew.ws.path().join(file).exists();
    let (sent, question) = ask("by-command");
    let waits = it.send("words that wait");
    it.crew.ws.ok(["approve", "w1", &question, "--allow"]);
    assert_eq!(it.end_of(&sent), "");
    it.is_at(&waits, "answered");
    assert!(!it.screen().contains("Permission required"));
    // The model's shell has nothing by which it could answer for a person.
    let env = fs::read_to_string(it.crew.ws.path().join("by-command")).expect("it was allowed");
    assert!(env.contains("OPENCODE=1\n") && !env.contains("OPENCODE_SERVER_PASSWORD"), "{env}");

    let (sent, question) = ask("by-words");
    it.crew.ws.ok(["approve", "w1", &question, "--deny", "--message", "use another one"]);
    assert_eq!(it.end_of(&sent), "");
    assert!(it.screen().contains("use another one"), "the model is told and goes on: {}", it.screen());

    let (sent, _) = ask("by-key");
    it.press("Enter");
    assert_eq!(it.end_of(&sent), "");
    assert!(exists("by-key"));

    let (sent, question) = ask("never");
    it.press("Escape");
    it.is_at(&sent, "answered");
    assert!(!exists("never"));
    let late = it.crew.ws.json(["approve", "w1", &question, "--allow"]);
    assert_eq!(late["error"]["code"], "closed", "{late}");
    assert_eq!(it.times("words that wait"), 1);
    assert_eq!(it.crew.events_of("approval.closed").len(), 4);
    it.crew.finish();
}

#[test]
fn interrupts_errors_limits_and_a_shortened_history_are_told() {
    let it = Played::started();
    let slow = it.send("fake: think 60000");
    it.is_at(&slow, "turn_started");
    it.press("Escape");
    it.press("Escape");
    assert_eq!(it.end_of(&slow), "its turn ended: interrupted");

    it.control("api-error overloaded");
    it.wait("it obeys", || it.noted("control") == 1);
    let failed = it.send("words of no use");
    assert_eq!(it.end_of(&failed), "its turn ended: error");
    it.control("api-error off\nlimit");
    it.wait("it obeys", || it.noted("control") == 3);
    let spent = it.send("words at the limit");
    it.wait("it is limited", || it.crew.activity("w1") == "limited");
    let held = it.send("words behind the limit");
    it.is_at(&held, "held");
    assert_eq!(it.receipt(&held)["reason"], "limited");
    it.control("limit off");
    assert_eq!(it.end_of(&spent), "");
    it.is_at(&held, "answered");

    it.control("compact");
    it.wait("it is told", || !it.crew.events_of("session.compacted").is_empty());
    it.wait("it is idle", || it.crew.activity("w1") == "idle");
    assert_eq!(it.times("words behind the limit"), 1);
    it.crew.finish();
}
