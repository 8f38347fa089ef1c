//! What keys do: edit the draft, answer a dialog, send, interrupt, leave.
//!
//! Keys that come faster than a person types are taken for a paste, and Enter soon after them for a line end in it.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use serde_json::json;

use super::super::look::Kind;
use super::super::wire::sleep;
use super::super::{Clothes as _, Codex};
use super::{Asked, Screen};
use crate::input::Event;

/// Keys within this time of each other are a paste.
const BURST: Duration = Duration::from_millis(8);
/// Enter within this time of such a paste belongs to it.
const AFTER_BURST: Duration = Duration::from_millis(120);
/// Silence that makes a lone ESC byte the Escape key.
const ESCAPE_SILENCE: Duration = Duration::from_millis(50);

impl Screen<'_> {
    pub(super) fn read_terminal(&mut self) {
        if self.escape_at.is_some_and(|it| it <= Instant::now()) {
            self.escape_at = None;
            if let Some(event) = self.parser.flush() {
                self.key(&event);
            }
        }
        let ready = {
            let mut fds = [PollFd::new(self.terminal.fd(), PollFlags::POLLIN)];
            sleep(&mut fds, Some(Instant::now()));
            fds[0].any().unwrap_or(false)
        };
        if !ready {
            return;
        }
        let mut buffer = [0; 16 * 1024];
        let count = self.terminal.read(&mut buffer);
        if count == 0 {
            self.over = Some((129, String::new()));
            return;
        }
        self.unlogged.push(buffer[..count].to_vec());
        if let Some(logs) = &mut self.logs {
            for bytes in self.unlogged.drain(..) {
                logs.bytes(&bytes);
            }
        }
        self.escape_at = None;
        for event in self.parser.feed(&buffer[..count]) {
            self.key(&event);
        }
        if self.parser.waiting() {
            self.escape_at = Some(Instant::now() + ESCAPE_SILENCE);
        }
    }

    pub(super) fn key(&mut self, event: &Event) {
        if self.dialog.is_some() {
            self.dialog_key(event);
            return;
        }
        let now = Instant::now();
        let since = self.last_key.map(|it| now.duration_since(it));
        match event {
            Event::Enter if self.is_of_a_paste(since) => {
                self.event("enter_eaten", json!({}));
                self.composer.insert("\n");
            }
            Event::Enter => self.enter(),
            Event::Char(char) => {
                self.in_burst = since.is_some_and(|it| it < BURST);
                self.composer.insert(char.encode_utf8(&mut [0; 4]));
            }
            Event::Paste(bytes) => {
                self.in_burst = false;
                self.composer
                    .paste(&String::from_utf8_lossy(bytes), |text, number| Codex.label(text, number));
            }
            Event::Newline => self.composer.insert("\n"),
            Event::Backspace => self.composer.backspace(),
            Event::CtrlU => self.composer.clear_line(),
            Event::CtrlC if !self.composer.is_empty() => self.composer.clear(),
            Event::CtrlC => self.leave(),
            Event::CtrlD if self.composer.is_empty() => self.leave(),
            Event::Escape => {
                if let (Some(thread), Some(turn)) = (self.thread.clone(), self.turn.clone()) {
                    let params = json!({"threadId": thread, "turnId": turn});
                    self.ask(Asked::Other, "turn/interrupt", &params);
                }
            }
            other => self.event("unknown_key", json!({"key": format!("{other:?}")})),
        }
        if *event != Event::Enter {
            self.last_key = Some(now);
        }
    }

    fn is_of_a_paste(&self, since: Option<Duration>) -> bool {
        match self.eats_enter {
            Some(time) => since.is_some_and(|it| it < time),
            None => self.in_burst && since.is_some_and(|it| it < AFTER_BURST),
        }
    }

    fn leave(&mut self) {
        let thread = self.thread.as_deref().unwrap_or_default();
        self.over = Some((0, format!("To continue this session, run codex resume {thread}")));
    }

    fn dialog_key(&mut self, event: &Event) {
        if let Event::Paste(bytes) = event {
            self.event("paste_discarded", json!({"bytes": bytes.len()}));
        }
        let Some((kind, choice)) = self.dialog.as_mut().and_then(|it| Some((it.kind, it.key(event)?))) else {
            return;
        };
        self.dialog = None;
        match (kind, choice) {
            (Kind::Trust, 1) => {
                self.note_trust();
                self.trusted();
            }
            (Kind::Trust, _) => self.over = Some((0, String::new())),
            (Kind::Permission(id), choice) => {
                let decision = match choice {
                    1 => "accept",
                    2 => "acceptForSession",
                    _ => "cancel",
                };
                self.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"decision": decision}}));
            }
            (Kind::Offer, _) => self.retry_at = Some(Instant::now()),
            (Kind::Nudge, 1) => self.event("model_changed", json!({"model": "gpt-6-luna"})),
            (Kind::Nudge, _) => {}
        }
    }

    fn note_trust(&self) {
        let folder = json!(self.start.cwd);
        let _ = std::fs::create_dir_all(&self.start.home);
        let file = OpenOptions::new().append(true).create(true).open(self.start.home.join("config.toml"));
        let note = format!("\n[projects.{folder}]\ntrust_level = \"trusted\"\n");
        // Not kept, it is asked again at the next start.
        let _ = file.and_then(|mut it| it.write_all(note.as_bytes()));
    }

    pub(super) fn enter(&mut self) {
        let text = self.composer.text().trim().to_owned();
        let Some(thread) = self.thread.clone().filter(|_| !text.is_empty() && self.peer.is_some()) else {
            return;
        };
        let of_thread = json!({"threadId": thread});
        match text.as_str() {
            "/quit" | "/exit" => self.leave(),
            "/new" | "/clear" => {
                self.begin();
            }
            "/compact" => self.ask(Asked::Other, "thread/compact/start", &of_thread),
            // Nobody knows it: it stays where it is.
            word if word.starts_with('/')
                && !word.contains(char::is_whitespace)
                && !word[1..].contains('/') =>
            {
                self.view.say(&format!("Unrecognized command '{word}'"));
                return;
            }
            word if word.starts_with('!') => {
                self.event("ran_shell", json!({"command": word[1..].trim(), "really": false}));
            }
            _ => {
                let input = json!([{"type": "text", "text": text}]);
                let id = uuid::Uuid::now_v7().to_string();
                let params = json!({"threadId": thread, "clientUserMessageId": id, "input": input});
                self.ask(Asked::Other, "turn/start", &params);
            }
        }
        self.composer.clear();
    }
}
