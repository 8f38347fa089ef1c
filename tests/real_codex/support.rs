//! A team of real Codex in a home that leads to the model stub.
//!
//! Knows how such a team is written and what the program's own records say. Must not know what is tested.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use team_scenarios::Crew;
use team_testkit::home::{CODEX_KEY, TOKEN, Theirs};
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
    pub(crate) fn written(trusted: bool) -> Option<Self> {
        let team = Self::unwritten(trusted, |home, stub, folders| {
            home.with_codex(stub, folders);
        })?;
        team.crew.ws.write(".team/current/TEAM.md", "---\nname: crew\n---\n");
        team.role("stub-model");
        Some(team)
    }

    /// The place for a team, whose home is prepared so.
    pub(crate) fn unwritten(
        trusted: bool,
        prepare: impl FnOnce(&TestHome, &ModelStub, &[&Path]),
    ) -> Option<Self> {
        let client = real::client_or_skip("codex")?;
        let stub = ModelStub::start().expect("loopback works");
        let mut ws = TestWorkspace::new();
        ws.deadline(Duration::from_secs(120)).patience(Duration::from_secs(20));
        ws.path_first(client.program.parent().expect("a program lies in a directory"));
        ws.set(CODEX_KEY, TOKEN);
        let home = TestHome::at(&ws.home(), &stub);
        let folder = ws.path().to_owned();
        let folders: &[&Path] = if trusted { &[&folder] } else { &[] };
        prepare(&home, &stub, folders);
        // Only a folder under version control is asked about.
        fs::create_dir(ws.path().join(".git")).expect("a workspace is writable");
        let before = home.theirs();
        Some(Self { crew: Crew::of(ws), home, stub, before })
    }

    /// Writes the role file of `coder`, with that model.
    pub(crate) fn role(&self, model: &str) {
        self.crew.ws.write(
            ".team/current/agents/coder.md",
            &format!("---\nname: coder\nrole: Worker\nprovider: codex\nmodel: {model}\n---\n\nWork.\n"),
        );
    }

    /// Starts the team.
    pub(crate) fn started() -> Option<Self> {
        let team = Self::written(true)?;
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
            let record: Vec<String> = self.record().iter().map(ToString::to_string).collect();
            panic!(
                "waited in vain: {what}\n{}\nscreen:\n{}\nlog:\n{}\nrecord:\n{}",
                self.coder(),
                self.screen(),
                log.join("\n"),
                record.join("\n"),
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

    /// What the program recorded of all conversations.
    pub(crate) fn record(&self) -> Vec<Value> {
        let mut files = Vec::new();
        records_in(&self.home.path().join(".codex/sessions"), &mut files);
        files.sort();
        let text: String = files.iter().map(|it| fs::read_to_string(it).unwrap_or_default()).collect();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Checks that a text reached the conversation once.
    pub(crate) fn was_taken_once(&self, text: &str) {
        self.wait(&format!("`{text}` is in the record"), || self.times_taken(text) > 0);
        assert_eq!(self.times_taken(text), 1, "{text}");
    }

    fn times_taken(&self, text: &str) -> usize {
        let has = |it: &&Value| {
            it["payload"]["item"]["type"] == "UserMessage"
                && it["payload"]["item"]["content"].to_string().contains(text)
        };
        self.record().iter().filter(has).count()
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

    /// Answers a question for permission in place of the coordinator.
    pub(crate) fn answer(&self, key: &str, decision: &str) {
        let state = self.crew.ws.state_directory().expect("the team was started");
        let dir = state.join("seats/current/coder/answers");
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
            words.iter().any(|it| it == word) && !words[0].ends_with("node")
        };
        self.crew.ws.processes().iter().filter(|it| holds(it.pid)).map(|it| i64::from(it.pid)).collect()
    }

    /// Checks that the person's own files are as they were, and that nothing is left.
    pub(crate) fn finish(self) {
        self.crew.ws.run(["shutdown"]);
        assert_eq!(self.home.theirs().changes_since(&self.before), Vec::<String>::new());
        self.crew.finish();
    }
}

fn records_in(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            records_in(&path, found);
        } else if path.extension().is_some_and(|it| it == "jsonl") {
            found.push(path);
        }
    }
}

/// Lists the files below a directory that hold a text.
pub(crate) fn files_with(dir: &Path, text: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_with(&path, text, found),
            Ok(kind) if kind.is_file() => {
                let bytes = fs::read(&path).unwrap_or_default();
                if String::from_utf8_lossy(&bytes).contains(text) {
                    found.push(path);
                }
            }
            _ => {}
        }
    }
}
