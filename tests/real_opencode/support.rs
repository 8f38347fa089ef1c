//! A team of real OpenCode in a home that leads to the model stub.
//!
//! Knows how such a team is written and what is seen of it. Must not know what is tested.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use team_scenarios::Crew;
use team_testkit::home::Theirs;
use team_testkit::stub::{Kind, Request};
use team_testkit::{ModelStub, TestHome, TestWorkspace, process, real};

/// How long something may take that takes seconds.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A team of one real agent, `coder`.
pub(crate) struct Team {
    pub(crate) crew: Crew,
    pub(crate) home: TestHome,
    pub(crate) stub: ModelStub,
    before: Theirs,
}

impl Team {
    /// Writes the team; `None`, and a named skip, where the program cannot be had.
    pub(crate) fn written(more: &Value) -> Option<Self> {
        let client = real::client_or_skip("opencode")?;
        let stub = ModelStub::start().expect("loopback works");
        let mut ws = TestWorkspace::new();
        ws.deadline(Duration::from_secs(120)).patience(Duration::from_secs(20));
        ws.path_first(client.program.parent().expect("a program lies in a directory"));
        // Nothing outside of this machine is asked.
        ws.set("OPENCODE_DISABLE_MODELS_FETCH", "1");
        ws.set("SHELL", "/bin/sh");
        let home = TestHome::at(&ws.home(), &stub);
        home.with_opencode(&stub, more);
        let before = home.theirs();
        let crew = Crew::written_with(ws, &["coder"], "opencode");
        Some(Self { crew, home, stub, before })
    }

    /// Starts the team.
    pub(crate) fn started(more: &Value) -> Option<Self> {
        let team = Self::written(more)?;
        team.crew.start();
        Some(team)
    }

    /// The record of `coder` in `status --json`.
    pub(crate) fn coder(&self) -> Value {
        self.crew.status()["agents"]["coder"].clone()
    }

    /// Waits until `coder` does that.
    pub(crate) fn wait_for(&self, activity: &str) {
        self.wait(&format!("coder is {activity}"), || self.coder()["activity"]["state"] == activity);
    }

    /// Waits for a condition; what is known is shown where it does not come true.
    pub(crate) fn wait(&self, what: &str, is_true: impl FnMut() -> bool) {
        if !process::wait_until(is_true, SOON) {
            let log: Vec<String> = self.crew.ws.events().iter().map(ToString::to_string).collect();
            let bridge = fs::read_to_string(self.seat_dir().join("bridge.log")).unwrap_or_default();
            panic!(
                "waited in vain: {what}\n{}\nscreen:\n{}\nlog:\n{}\nbridge:\n{bridge}",
                self.coder(),
                self.screen(),
                log.join("\n"),
            );
        }
    }

    /// Sends a message and returns its id; waits for nothing.
    pub(crate) fn send(&self, text: &str) -> String {
        let sent = self.crew.ws.json(["send", "coder", text, "--wait", "accepted", "--timeout", "0"]);
        assert_eq!(sent["ok"], true, "{sent}");
        sent["message_id"].as_str().expect("it has an id").to_owned()
    }

    /// Where a message stands.
    pub(crate) fn receipt(&self, id: &str) -> Value {
        let inbox = self.crew.ws.json(["inbox", "coder"]);
        let entries = inbox["messages"].as_array().expect("an inbox has messages");
        entries.iter().find(|it| it["message_id"] == id).expect("it was sent")["receipt"].clone()
    }

    /// Waits until a message has come that far.
    pub(crate) fn wait_for_step(&self, id: &str, step: &str) {
        self.wait(&format!("{id} is {step}"), || self.receipt(id)["step"] == step);
    }

    /// Waits until the turn of a message has ended, and checks how.
    pub(crate) fn wait_for_end(&self, id: &str, outcome: &str) {
        self.wait_for_step(id, "answered");
        let reason = format!("its turn ended: {outcome}");
        self.wait(&reason, || self.receipt(id)["reason"] == reason);
    }

    /// Checks that a text reached the conversation once, by what the model was told last.
    pub(crate) fn was_taken_once(&self, text: &str) {
        let last = self.stub.turns().pop().expect("the model was asked");
        let messages = last.body["messages"].as_array().cloned().unwrap_or_default();
        let has = |it: &&Value| it["role"] == "user" && it["content"].to_string().contains(text);
        assert_eq!(messages.iter().filter(has).count(), 1, "{text}");
    }

    /// Presses keys in the agent's pane, as a person who has attached does.
    pub(crate) fn press(&self, keys: &[&str]) {
        let pane = self.crew.pane("coder");
        let mut arguments = vec!["send-keys", "-t", &pane];
        arguments.extend(keys);
        self.crew.tmux(&arguments);
    }

    /// What the agent's pane shows.
    pub(crate) fn screen(&self) -> String {
        let pane = self.crew.pane("coder");
        if pane.is_empty() { String::new() } else { self.crew.tmux(&["capture-pane", "-p", "-t", &pane]) }
    }

    /// Waits until the pane shows a text.
    pub(crate) fn wait_for_screen(&self, text: &str) {
        self.wait(&format!("the screen shows `{text}`"), || self.screen().contains(text));
    }

    /// The answered request of a turn that began with a text that holds `part`.
    pub(crate) fn asked(&self, part: &str) -> Request {
        let found =
            self.stub.wait_for(|it| it.kind == Kind::Turn && it.says(part) && it.outcome.is_some(), SOON);
        found.expect("it asks its model")
    }

    /// The private directory of `coder`.
    pub(crate) fn seat_dir(&self) -> PathBuf {
        self.crew.ws.state_directory().expect("the team was started").join("seats/current/coder")
    }

    /// What the program's own server says.
    pub(crate) fn server_says(&self, path: &str) -> String {
        let mut files: Vec<PathBuf> = fs::read_dir(self.seat_dir())
            .expect("the team was started")
            .filter_map(|it| Some(it.ok()?.path()))
            .filter(|it| it.extension().is_some_and(|it| it == "json"))
            .collect();
        files.sort_by_key(|it| fs::metadata(it).and_then(|it| it.modified()).ok());
        let file = files.pop().and_then(|it| fs::read_to_string(it).ok()).expect("it has a seat file");
        let file: Value = serde_json::from_str(&file).expect("a seat file is JSON");
        let address = file["link"]["address"].as_str().expect("it has an address").to_owned();
        let password =
            fs::read_to_string(self.seat_dir().join("server-password")).expect("it has a password");
        let mut stream = TcpStream::connect(&address).expect("the server listens");
        let login = base64(format!("opencode:{password}").as_bytes());
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Basic {login}\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).expect("the server reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server answers");
        answer
    }

    /// The key of the question for permission that is open.
    pub(crate) fn open_question(&self) -> String {
        let said = self.server_says("/permission");
        let at = said.find("per_").expect("a question is open");
        said[at..].chars().take_while(|it| it.is_ascii_alphanumeric() || *it == '_').collect()
    }

    /// Answers a question for permission in place of the coordinator.
    pub(crate) fn answer(&self, key: &str, decision: &str) {
        let dir = self.seat_dir().join("answers");
        let file = dir.join(format!("{key}.json"));
        fs::write(dir.join(key), format!(r#"{{"decision":"{decision}"}}"#)).expect("writable");
        fs::rename(dir.join(key), file).expect("writable");
    }

    /// The process of the seat, no launcher, with a word in its command line.
    pub(crate) fn process_with(&self, word: &str) -> i64 {
        self.processes_with(word).first().copied().unwrap_or_else(|| panic!("no process with `{word}`"))
    }

    /// Says whether there is such a process.
    pub(crate) fn has_process_with(&self, word: &str) -> bool {
        !self.processes_with(word).is_empty()
    }

    fn processes_with(&self, word: &str) -> Vec<i64> {
        let holds = |pid: i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<String> =
                line.split(|it| *it == 0).map(|it| String::from_utf8_lossy(it).into_owned()).collect();
            words.iter().any(|it| it == word)
        };
        self.crew.ws.processes().iter().filter(|it| holds(it.pid)).map(|it| i64::from(it.pid)).collect()
    }

    /// Checks that the person's own files are as they were, and that nothing is left.
    pub(crate) fn finish(self) {
        self.crew.ws.run(["shutdown"]);
        assert!(!self.seat_dir().join("tmp").exists(), "temporary files are left");
        assert_eq!(self.home.theirs().changes_since(&self.before), Vec::<String>::new());
        self.crew.finish();
    }
}

fn base64(bytes: &[u8]) -> String {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let three = |it: &[u8]| (0..3).fold(0, |sum, at| sum << 8 | it.get(at).copied().map_or(0, usize::from));
    let digit = |it: &[u8], place: usize| {
        if place > it.len() { '=' } else { char::from(digits[three(it) >> (18 - 6 * place) & 63]) }
    };
    bytes.chunks(3).flat_map(|it| (0..4).map(move |place| digit(it, place))).collect()
}
