//! Copilot CLI as the built-in agent plays it: messages by its extension, a question in which Enter says yes, a record
//! that is cut back.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use team_scenarios::{Crew, SOON};
use team_testkit::TestWorkspace;

/// A team of one, `w1`.
struct Team {
    crew: Crew,
    /// Where the agent that plays keeps its logs.
    logs: PathBuf,
}

impl Team {
    fn written(trusted: bool) -> Self {
        let mut ws = TestWorkspace::new();
        let logs = ws.wear("copilot");
        let team = Self { crew: Crew::written_with(ws, &["w1"], "copilot"), logs };
        let folders = if trusted { vec![team.crew.ws.path().to_owned()] } else { Vec::new() };
        fs::create_dir_all(team.home()).expect("a home is writable");
        fs::write(team.home().join("config.json"), json!({ "trustedFolders": folders }).to_string())
            .expect("a home is writable");
        team
    }

    fn started() -> Self {
        let team = Self::written(true);
        team.crew.start();
        team
    }

    /// The program's own home.
    fn home(&self) -> PathBuf {
        self.crew.ws.home().join(".copilot")
    }

    /// The program's record of the conversation.
    fn record(&self) -> String {
        let folder = self.home().join("session-state").join(self.crew.native("w1"));
        fs::read_to_string(folder.join("events.jsonl")).unwrap_or_default()
    }

    /// What one of the agent's logs holds.
    fn log(&self, kind: &str) -> String {
        let files = fs::read_dir(self.logs.join(kind)).into_iter().flatten().flatten();
        files.map(|it| fs::read_to_string(it.path()).unwrap_or_default()).collect()
    }

    /// How often a text reached the model.
    fn taken(&self, part: &str) -> usize {
        let lines = self.log("submissions");
        lines.lines().filter(|it| it.contains(part)).count()
    }

    /// How often Enter came to the terminal.
    fn enters(&self) -> usize {
        let log = self.log("bytes");
        let hex = |it: &str| it.rsplit(' ').next().unwrap_or_default().to_owned();
        let bytes = |it: String| it.as_bytes().chunks(2).filter(|it| *it == b"0d").count();
        log.lines().map(|it| bytes(hex(it))).sum()
    }

    /// Appends lines to the agent's control file in one go.
    fn control(&self, line: &str) {
        let path = self.logs.join("control").join(self.crew.native("w1"));
        let mut file = OpenOptions::new().create(true).append(true).open(path).expect("the home is writable");
        file.write_all(format!("{line}\n").as_bytes()).expect("the home is writable");
    }

    fn press(&self, key: &str) {
        self.crew.tmux(&["send-keys", "-t", &self.crew.pane("w1"), key]);
    }

    fn screen(&self) -> String {
        self.crew.tmux(&["capture-pane", "-p", "-t", &self.crew.pane("w1")])
    }

    fn wait_for_screen(&self, part: &str) {
        self.crew.ws.wait_until(&format!("`{part}` is on the screen"), || self.screen().contains(part), SOON);
    }

    fn send(&self, text: &str) -> String {
        let sent = self.crew.ws.json(["send", "w1", text, "--wait", "accepted", "--timeout", "0"]);
        sent["message_id"].as_str().unwrap_or_else(|| panic!("{sent}")).to_owned()
    }

    fn receipt(&self, id: &str) -> Value {
        let inbox = self.crew.ws.json(["inbox", "w1"]);
        let entries = inbox["messages"].as_array().expect("an inbox has messages");
        entries.iter().find(|it| it["message_id"] == id).expect("it was sent")["receipt"].clone()
    }

    /// Waits until a message has come that far; returns the reason that is given.
    fn wait_for_step(&self, id: &str, step: &str) -> String {
        self.crew.ws.wait_until(&format!("{id} is {step}"), || self.receipt(id)["step"] == step, SOON);
        self.receipt(id)["reason"].as_str().unwrap_or_default().to_owned()
    }
}

const ASKS: &str = "fake: ask-permission Bash {\"command\":\"touch made\"}\nfake: touch made";

// Case 038.
#[test]
fn a_message_behind_a_question_in_which_enter_says_yes_comes_once_after_its_answer() {
    let team = Team::started();
    let made = team.crew.ws.path().join("made");
    let asks = team.send(ASKS);
    team.crew.wait_for_activity("w1", "awaiting_approval");
    team.wait_for_screen("Do you want to run this command?");
    let open = team.crew.ws.json(["approvals", "w1"]);
    assert!(open["approvals"][0].to_string().contains("touch made"), "{open}");
    let behind = team.send("behind the question");
    team.wait_for_step(&behind, "submitted");
    assert_eq!(team.crew.activity("w1"), "awaiting_approval");
    assert!(
        team.record().contains("permission.requested") && !team.record().contains("permission.completed")
    );
    assert!(!made.exists() && team.enters() == 0 && team.taken("behind the question") == 0);

    team.press("1");
    team.wait_for_step(&asks, "answered");
    team.wait_for_step(&behind, "answered");
    assert!(made.exists() && team.enters() == 0);
    assert_eq!(team.taken("behind the question"), 1);
    assert_eq!(team.receipt(&behind)["attempts"], 1);

    // A no stops the turn; what waited in the program's queue was lost with it, and comes all the same.
    let asks = team.send(ASKS);
    team.crew.wait_for_activity("w1", "awaiting_approval");
    let behind = team.send("behind a no");
    team.wait_for_step(&behind, "submitted");
    team.press("Escape");
    assert_eq!(team.wait_for_step(&asks, "answered"), "its turn ended: interrupted");
    team.wait_for_step(&behind, "answered");
    assert_eq!((team.taken("behind a no"), team.enters()), (1, 0));
    team.crew.finish();
}

// Case 038, by keys.
#[test]
fn no_enter_is_pressed_while_a_question_is_open_that_nothing_told() {
    let team = Team::started();
    // The extension ends with its session; what asks then is another one.
    team.control("draft /clear\nenter\ndo ask-permission Bash {\"command\":\"touch made\"}");
    team.wait_for_screen("Do you want to run this command?");
    let sent = team.send("typed after the answer");
    assert_eq!(team.wait_for_step(&sent, "held"), "dialog");
    assert_eq!((team.enters(), team.taken("typed after the answer")), (0, 0));
    assert!(team.screen().contains("Do you want to run this command?"), "{}", team.screen());
    team.press("1");
    team.crew.ws.wait_until("it is typed", || team.taken("typed after the answer") == 1, SOON);
    assert_eq!(team.enters(), 1);
    team.crew.finish();
}

#[test]
fn a_prompt_that_is_taken_back_shortens_the_record_and_later_messages_are_proved_by_it() {
    let team = Team::started();
    team.crew.ask("w1", "the word is heron");
    let before = team.record();
    // What a person has typed is a draft again, as if it had never been sent.
    team.control("draft fake: think 60000\nenter");
    team.crew.wait_for_activity("w1", "working");
    team.crew.ws.wait_until("it is recorded", || team.record().contains("think 60000"), SOON);
    // In one go, since they count within a moment of each other only.
    team.control("escape\nescape");
    team.crew.wait_for_activity("w1", "idle");
    assert_eq!(team.record(), before);
    team.wait_for_screen("❯ fake: think 60000");
    team.crew.ask("w1", "beside the draft");
    let after = team.record();
    assert!(after.starts_with(&before) && after.contains("beside the draft"), "{after}");

    // A message is not given back, and what waits behind it stays in the program's queue.
    let slow = team.send("fake: think 60001");
    team.wait_for_step(&slow, "turn_started");
    let waits = team.send("what waits in the queue");
    team.wait_for_step(&waits, "submitted");
    team.control("escape\nescape");
    assert_eq!(team.wait_for_step(&slow, "answered"), "its turn ended: interrupted");
    team.wait_for_step(&waits, "answered");
    assert!(team.record().contains("think 60001") && team.record().contains("\"abort\""));
    assert_eq!(team.taken("what waits in the queue"), 1);
    assert!(team.screen().contains("❯ fake: think 60000") && team.enters() == 0, "{}", team.screen());

    // A rate limit ends the turn by its record, without a dialog.
    team.control("limit 1");
    let limited = team.send("too much");
    team.wait_for_step(&limited, "answered");
    team.crew.wait_for_activity("w1", "limited");
    team.control("limit off");

    // The conversation goes on with what was not taken back.
    team.crew.ws.ok(["shutdown"]);
    team.crew.ws.ok(["restart", "--headless"]);
    team.crew.ask("w1", "fake: recall 2");
    let record = team.record();
    let said = record.lines().rev().find(|it| it.contains("assistant.message")).expect("it answered");
    assert!(said.contains("beside the draft") && record.contains("session.resume"), "{record}");
    team.crew.finish();
}

#[test]
fn a_folder_that_nobody_trusts_is_named_and_what_a_person_answers_is_remembered() {
    let team = Team::written(false);
    let begun = team.crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(begun.code, Some(1), "{}", begun.snapshot());
    assert!(begun.stderr.contains("folder_trust"), "{}", begun.snapshot());
    assert_eq!(team.crew.activity("w1"), "awaiting_trust");
    let waits = team.send("after the question");
    team.wait_for_step(&waits, "held");
    team.press("2");
    team.wait_for_step(&waits, "answered");
    team.crew.ws.ok(["shutdown"]);
    team.crew.ws.ok(["restart", "--headless"]);
    team.crew.ask("w1", "asked nothing this time");
    assert_eq!((team.taken("after the question"), team.enters()), (1, 0));
    team.crew.finish();
}

#[test]
fn a_folder_that_a_person_has_granted_is_trusted_by_one_key_and_for_this_session_only() {
    let team = Team::written(false);
    team.crew.ws.ok(["grant", "trust"]);
    team.crew.ws.ok(["quick-start", "--headless"]);
    assert_eq!(team.crew.events_of("dialog.pressing").len(), 1);
    team.crew.ask("w1", "after the question");
    assert_eq!((team.taken("after the question"), team.enters()), (1, 0));
    let own = fs::read_to_string(team.home().join("config.json")).expect("it is there");
    assert!(own.contains(r#""trustedFolders":[]"#), "{own}");
    team.crew.finish();
}
