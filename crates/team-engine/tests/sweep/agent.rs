//! An agent's program as the coordinator meets it: a seat that claims, a composer on a screen, hooks, a status file, a
//! transcript, an inbox with its bell. It lives on while coordinators come and go.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::{DateTime, Utc};
use serde_json::json;
use team_engine::decide::{self, ReportCommand, Reporter};
use team_engine::seat_file::SeatFile;
use team_engine::store::Store;
use team_model::{By, Event, Proof, ReportStatus, TurnOutcome, find_message_ids};
use team_provider::{RecordKind, SeatPlaces};
use team_tmux::{Key, Pane, Screen};

use crate::fakes::identity;

/// The provider's process of a seat.
const PROGRAM: u32 = 1_000_000;
/// How many turns of the world a start takes until the program has said everything.
const START: u32 = 3;

/// One seat's process and the program below it.
#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) pane: Pane,
    pub(crate) seat: SeatFile,
    age: u32,
    composer: String,
    /// What the terminal holds for a program that reads late: a text, or Enter.
    unread: VecDeque<Option<String>>,
    submitted: VecDeque<String>,
    turn: Option<(String, u32)>,
    /// Taken from the inbox, not yet handed to the model.
    drained: Option<String>,
    heard: u64,
    /// Everything that reached the model, in order.
    pub(crate) transcript: Vec<String>,
    written: usize,
}

/// What an agent may use.
pub(crate) struct Surroundings<'a> {
    pub(crate) store: &'a mut Store,
    pub(crate) now: DateTime<Utc>,
}

impl Surroundings<'_> {
    fn observe(&self, seat: &SeatFile, event: Event) {
        self.store.observe(self.now, &By::Seat { spawn: seat.spawn }, Some(&seat.team), vec![event]).unwrap();
    }
}

fn hook(record: &str) -> Proof {
    Proof { source: "hook".to_owned(), record: record.to_owned() }
}

impl Agent {
    /// What the process of a new pane does first: it claims its spawn; refused, it ends.
    pub(crate) fn start(pane: Pane, seat_file: &Path, around: &mut Surroundings<'_>) -> Option<Self> {
        let seat = SeatFile::read(seat_file).ok()?;
        let me = identity(pane.pid);
        let by = By::Seat { spawn: seat.spawn };
        let claim = |state: &team_model::State| Ok((decide::claim(state, seat.spawn, &me)?, ()));
        around.store.decide(around.now, &by, Some(&seat.team), claim).ok()?;
        seat.take_env().unwrap();
        let process = identity(pane.pid + PROGRAM);
        around.observe(&seat, Event::ProviderStarted { spawn: seat.spawn, process, version: None });
        Some(Self {
            pane,
            seat,
            age: 0,
            composer: String::new(),
            unread: VecDeque::new(),
            submitted: VecDeque::new(),
            turn: None,
            drained: None,
            heard: 0,
            transcript: Vec::new(),
            written: 0,
        })
    }

    /// Whether it has nothing to do.
    pub(crate) fn is_quiet(&self) -> bool {
        self.age > START
            && self.unread.is_empty()
            && self.submitted.is_empty()
            && self.turn.is_none()
            && self.drained.is_none()
    }

    /// Takes what is pasted or pressed.
    pub(crate) fn paste(&mut self, text: &str) {
        self.unread.push_back(Some(text.to_owned()));
        self.read_unless_late();
    }

    /// Takes a key.
    pub(crate) fn press(&mut self, key: Key) {
        assert_eq!(key, Key::Enter, "no other key is pressed");
        self.unread.push_back(None);
        self.read_unless_late();
    }

    /// Every third program reads what was typed a little later.
    fn read_unless_late(&mut self) {
        if !self.seat.agent.as_str().ends_with('3') {
            self.read();
        }
    }

    fn read(&mut self) -> bool {
        match self.unread.pop_front() {
            Some(Some(text)) => self.composer.push_str(&text),
            Some(None) if !self.composer.is_empty() => {
                let text = std::mem::take(&mut self.composer);
                self.take(text);
            }
            Some(None) => {}
            None => return false,
        }
        true
    }

    fn take(&mut self, text: String) {
        self.transcript.push(text.clone());
        self.submitted.push_back(text);
    }

    /// What the pane shows.
    pub(crate) fn screen(&self) -> Screen {
        let rule = "─".repeat(40);
        let lines: Vec<&str> = self.composer.lines().collect();
        let shown = if lines.len() > 10 {
            format!("❯ [Pasted text #1 +{} lines]", lines.len() - 1)
        } else {
            format!("❯ {}", lines.join("\n  "))
        };
        Screen::plain(&format!("fake\n{rule}\n{shown}\n{rule}\n  ? for help"))
    }

    /// Lets some time pass; says whether anything happened.
    pub(crate) fn tick(&mut self, around: &mut Surroundings<'_>) -> bool {
        let spawn = self.seat.spawn;
        self.age += 1;
        match self.age {
            1 => {
                let native = self.seat.native.clone().unwrap();
                around.observe(
                    &self.seat,
                    Event::SessionStarted { spawn, native, source: "startup".to_owned() },
                );
                return true;
            }
            2 => {
                around.observe(&self.seat, Event::ToolsListed { spawn, process: None });
                return true;
            }
            START => {
                self.say("idle", around.now);
                return true;
            }
            _ => {}
        }
        if self.read() {
            return true;
        }
        if self.written < self.transcript.len() && self.turn.is_some() {
            self.write_transcript();
            return true;
        }
        if let Some(text) = self.drained.take() {
            self.take(format!("Message from your team: {text}"));
            return true;
        }
        if self.drain() {
            return true;
        }
        if let Some((text, left)) = &mut self.turn {
            if *left > 0 {
                *left -= 1;
                return true;
            }
            let text = std::mem::take(text);
            self.turn = None;
            self.report(&text, around);
            let (outcome, proof) = (TurnOutcome::Answer, hook("Stop"));
            around.observe(&self.seat, Event::TurnEnded { spawn, outcome, why: None, chars: 2, proof });
            self.say("idle", around.now);
            return true;
        }
        if let Some(text) = self.submitted.pop_front() {
            let (messages, chars) = (find_message_ids(&text), text.chars().count() as u64);
            let proof = hook("UserPromptSubmit");
            around.observe(&self.seat, Event::TurnStarted { spawn, messages, chars, proof });
            self.say("busy", around.now);
            let length = 1 + u32::try_from(text.len() % 3).unwrap();
            self.turn = Some((text, length));
            return true;
        }
        false
    }

    /// Ends: what stood in the composer is lost, nothing more is written.
    pub(crate) fn exit(&mut self, around: &Surroundings<'_>) {
        let (spawn, code) = (self.seat.spawn, Some(0));
        around.observe(&self.seat, Event::ProviderExited { spawn, code, signal: None });
        if let Some(status) = self.record(RecordKind::Status) {
            std::fs::remove_file(status).ok();
        }
    }

    /// Reports on each task that a prompt hands over.
    fn report(&self, text: &str, around: &mut Surroundings<'_>) {
        let ids = text.lines().filter_map(|it| it.strip_prefix("(id ")?.strip_suffix(')'));
        for task in ids.filter_map(|it| it.split(", task ").nth(1)) {
            let command = ReportCommand {
                team: self.seat.team.clone(),
                reporter: Reporter::Agent { agent: self.seat.agent.clone(), spawn: self.seat.spawn },
                task: Some(task.to_owned()),
                task_hint: None,
                status: ReportStatus::Success,
                summary: format!("did task {task}"),
                text: None,
                lists: team_model::Artifacts::default(),
                via: "mcp",
                presentation: std::collections::BTreeMap::new(),
                ignored: std::collections::BTreeMap::new(),
            };
            let by = By::Agent { agent: self.seat.agent.clone(), spawn: self.seat.spawn };
            let team = self.seat.team.clone();
            let report = |state: &team_model::State| decide::report(state, &command);
            around.store.decide(around.now, &by, Some(&team), report).unwrap();
        }
    }

    /// Takes everything out of the inbox if the bell has been rung.
    fn drain(&mut self) -> bool {
        let (Some(inbox), Some(bell)) = (&self.seat.inbox, &self.seat.bell) else { return false };
        let rung = std::fs::metadata(bell).map_or(0, |it| it.len());
        if rung == self.heard {
            return false;
        }
        self.heard = rung;
        let mut waiting: Vec<PathBuf> = std::fs::read_dir(inbox)
            .unwrap()
            .map(|it| it.unwrap().path())
            .filter(|it| it.extension().is_some_and(|it| it == "txt"))
            .collect();
        waiting.sort();
        let mut texts = Vec::new();
        for file in waiting {
            texts.push(std::fs::read_to_string(&file).unwrap());
            std::fs::rename(&file, inbox.join("taken").join(file.file_name().unwrap())).unwrap();
        }
        if !texts.is_empty() {
            self.drained = Some(texts.join("\n\n"));
        }
        true
    }

    fn record(&self, kind: RecordKind) -> Option<PathBuf> {
        let places = SeatPlaces {
            config_home: &self.seat.config_home,
            cwd: &self.seat.cwd,
            native_id: self.seat.native.as_deref(),
            transcript: None,
            provider_pid: Some(self.pane.pid + PROGRAM),
        };
        let files = team_provider::provider(&self.seat.provider).unwrap().files_to_watch(&places);
        files.into_iter().find(|it| it.kind == kind).map(|it| it.path)
    }

    /// Writes the status file, as of the world's time.
    fn say(&self, status: &str, now: DateTime<Utc>) {
        let path = self.record(RecordKind::Status).unwrap();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let pid = self.pane.pid + PROGRAM;
        let text = json!({ "pid": pid, "procStart": pid, "sessionId": self.seat.native, "status": status });
        let new = path.with_extension("new");
        std::fs::write(&new, text.to_string()).unwrap();
        File::options().write(true).open(&new).unwrap().set_modified(SystemTime::from(now)).unwrap();
        std::fs::rename(&new, &path).unwrap();
    }

    fn write_transcript(&mut self) {
        use std::io::Write as _;
        let path = self.record(RecordKind::Transcript).unwrap();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut file = File::options().create(true).append(true).open(path).unwrap();
        let native = &self.seat.native;
        for text in &self.transcript[self.written..] {
            let content = json!({ "role": "user", "content": text });
            let line =
                json!({ "type": "user", "promptSource": "user", "sessionId": native, "message": content });
            writeln!(file, "{line}").unwrap();
        }
        self.written = self.transcript.len();
    }
}
