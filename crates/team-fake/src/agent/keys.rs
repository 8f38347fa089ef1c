//! What keys do: edit the draft, send it, interrupt, leave. Dialogs take them first.

use std::time::{Duration, Instant};

use serde_json::json;

use super::queue::Source;
use super::{Agent, Phase, Timer};
use crate::clock;
use crate::clothes::Moment;
use crate::composer::Composer;
use crate::dialog::Kind;
use crate::input::Event;
use crate::setup::Origin;
use crate::transcript::Transcript;

/// Silence that makes a lone ESC byte the Escape key.
const ESCAPE_SILENCE: Duration = Duration::from_millis(50);
/// A second Ctrl-C or Ctrl-D within this time ends the program.
const QUIT_WINDOW: Duration = Duration::from_secs(1);

impl Agent {
    pub(super) fn read_terminal(&mut self) {
        let mut buffer = [0; 16 * 1024];
        let count = self.terminal.read(&mut buffer);
        if count == 0 {
            self.terminal_open = false;
            self.logs.event("hangup", json!({}));
            if !self.knobs.switches.ignore_signals {
                self.end(129, "other");
            }
            return;
        }
        self.logs.bytes(&buffer[..count]);
        self.timers.retain(|it| !matches!(it.1, Timer::Escape));
        for event in self.parser.feed(&buffer[..count]) {
            self.key(event);
        }
        if self.parser.waiting() {
            self.timer(ESCAPE_SILENCE, Timer::Escape);
        }
    }

    pub(super) fn escape_timed_out(&mut self) {
        if let Some(event) = self.parser.flush() {
            self.key(event);
        }
    }

    /// Handles one key or paste.
    pub(super) fn key(&mut self, event: Event) {
        if matches!(self.phase, Phase::Ending(_) | Phase::Over(_)) {
            return;
        }
        let deaf = self.manners.deaf_after_resume;
        if self.origin == Origin::Resume && u128::from(clock::mono_ms()) < deaf.as_millis() {
            self.logs
                .event("lost", json!({"event": format!("{event:?}").chars().take(80).collect::<String>()}));
            return;
        }
        if !self.dialogs.is_empty() {
            self.dialog_key(&event);
            return;
        }
        let now = Instant::now();
        let since_input = self.last_input.map(|it| now.duration_since(it));
        if event != Event::Enter {
            self.last_input = Some(now);
        }
        if !matches!(event, Event::CtrlC | Event::CtrlD) {
            self.last_quit_key = None;
        }
        if event != Event::Escape {
            self.last_escape = None;
        }
        match event {
            Event::Char(char) => self.composer.insert(char.encode_utf8(&mut [0; 4])),
            Event::Paste(bytes) => self.paste(&String::from_utf8_lossy(&bytes)),
            Event::Newline => self.composer.insert("\n"),
            Event::Tab => self.composer.insert("\t"),
            Event::Backspace => self.composer.backspace(),
            Event::CtrlU => self.composer.clear_line(),
            Event::CtrlS => self.stash(),
            Event::CtrlC if !self.composer.is_empty() => self.composer.clear(),
            Event::CtrlC if self.turn.is_some() => self.interrupt(false, false),
            Event::CtrlC | Event::CtrlD => {
                if self.composer.is_empty() {
                    self.quit_key(now);
                }
            }
            Event::Escape => self.escape(now),
            Event::Up => self.unqueue(),
            Event::Enter if since_input.is_some_and(|it| it < self.knobs.eat_enter) => {
                self.logs.event("enter_eaten", json!({}));
                self.composer.insert("\n");
            }
            Event::Enter => self.enter(),
            Event::Down => {}
            Event::Unknown(bytes) => self.logs.event("unknown_key", json!({"bytes": bytes})),
        }
    }

    /// Puts a text into the box.
    pub(super) fn paste(&mut self, text: &str) {
        let clothes = &self.clothes;
        self.composer.paste(text, |text, number| clothes.label(text, number));
    }

    fn quit_key(&mut self, now: Instant) {
        if self.last_quit_key.is_some_and(|it| now.duration_since(it) < QUIT_WINDOW) {
            self.end(0, "prompt_input_exit");
        } else {
            self.last_quit_key = Some(now);
        }
    }

    /// Stops the turn; twice without one empties the box.
    fn escape(&mut self, now: Instant) {
        let window = self.manners.escape_twice;
        let again =
            window.is_none_or(|it| self.last_escape.is_some_and(|last| now.duration_since(last) < it));
        if self.turn.is_some() && !again {
            self.last_escape = Some(now);
        } else if self.turn.is_some() {
            self.last_escape = None;
            self.interrupt(false, true);
        } else if self.last_escape.take().is_some_and(|it| now.duration_since(it) < QUIT_WINDOW) {
            self.composer.clear();
        } else {
            self.last_escape = Some(now);
        }
    }

    fn stash(&mut self) {
        if !self.composer.is_empty() {
            self.stash = Some(std::mem::take(&mut self.composer));
        } else if let Some(stashed) = self.stash.take() {
            self.composer = stashed;
        }
    }

    pub(super) fn enter(&mut self) {
        let draft = self.composer.text();
        if draft.trim().is_empty() {
            return;
        }
        if draft.ends_with('\\') {
            self.composer.complete("\\", "\n");
            return;
        }
        if self.complete_name(&draft) {
            return;
        }
        let mut text = self.composer.take();
        if self.knobs.switches.tabs {
            text = text.replace('\t', "    ");
        }
        if let Some(command) = text.strip_prefix('!').filter(|_| self.manners.shell_mode) {
            self.shell_mode(command.trim());
        } else if let Some(command) = slash_command(&text) {
            self.slash(command, &text);
        } else {
            self.submit(&text, Source::Typed);
        }
        if let Some(stashed) = self.stash.take() {
            self.composer = stashed;
        }
    }

    /// Completes a file name after `@` instead of sending.
    fn complete_name(&mut self, draft: &str) -> bool {
        let word = draft.rsplit(char::is_whitespace).next().unwrap_or_default();
        let Some(prefix) = word.strip_prefix('@').filter(|it| !it.is_empty() && !it.contains('/')) else {
            return false;
        };
        let names = std::fs::read_dir(&self.cwd).into_iter().flatten().flatten();
        let mut fitting: Vec<String> = names
            .filter_map(|it| it.file_name().into_string().ok())
            .filter(|it| it.starts_with(prefix))
            .collect();
        fitting.sort_unstable();
        if fitting.iter().any(|it| it == prefix) {
            return false;
        }
        let Some(name) = fitting.first() else { return false };
        self.logs.event("completed", json!({"name": name}));
        self.composer.complete(word, &format!("@{name}"));
        true
    }

    fn shell_mode(&mut self, command: &str) {
        self.logs.event("ran_shell", json!({"command": command, "really": self.knobs.switches.allow_shell}));
        self.view.say(&format!("! {command}\nRAN SHELL"));
        if self.knobs.switches.allow_shell {
            self.do_now(&format!("shell {command}"));
        }
    }

    fn slash(&mut self, command: &str, text: &str) {
        self.logs.event("command", json!({"text": text}));
        match command {
            "exit" | "quit" => self.end(0, "prompt_input_exit"),
            "compact" => self.compact(),
            "clear" => self.clear_session(),
            "mcp" if text.trim_start().starts_with("/mcp reconnect") => self.servers_on(),
            "cost" | "model" => self.show(self.clothes.dialog(Kind::Custom, &format!("/{command}|Close"))),
            _ => self.view.say(&format!("Unknown command: /{command}")),
        }
    }

    /// Goes on under a new session id, with nothing remembered.
    fn clear_session(&mut self) {
        self.fire(Moment::SessionEnd, json!({"reason": "clear"}));
        self.use_session(self.clothes.new_id(), "clear");
        self.view.clear();
        self.composer = Composer::default();
    }

    /// Goes on under this session id; tells it with the reason.
    pub(super) fn use_session(&mut self, id: String, why: &str) {
        self.session = id;
        let path = self.clothes.new_transcript(self.home.records(), &self.cwd, &self.session);
        let model = self.transcript.model.clone();
        let clothes = self.clothes.clone();
        self.transcript = Transcript::new(clothes, path, &self.session, &self.cwd, &model);
        self.logs.event("cleared", json!({"session": self.session}));
        self.transcript.opened(false);
        self.fire_session_start(why);
    }
}

/// Returns the word of a slash command; a path is none.
fn slash_command(text: &str) -> Option<&str> {
    let word = text.strip_prefix('/')?.split(char::is_whitespace).next()?;
    let plain = |it: char| it.is_alphanumeric() || matches!(it, '-' | '_' | ':');
    (!word.is_empty() && word.chars().all(plain)).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::slash_command;

    #[test]
    fn a_path_is_no_command() {
        assert_eq!(slash_command("/tmp/x is broken"), None);
        assert_eq!(slash_command(" /word"), None);
        assert_eq!(slash_command("/word and more"), Some("word"));
        assert_eq!(slash_command("/"), None);
    }
}
