//! The extension of a seat's plugin, which the program would run as a process of its own. Does what the script does.
//!
//! Knows the inbox, the folder beside it for what was taken, and the command that is told what happens.

use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::{Outside, Wire};
use crate::watch::Watcher;

/// A script without this joins no session.
const JOINS: &str = "@github/copilot-sdk/extension";
/// How long after an interrupt lost texts are handed over again.
const LOST: Duration = Duration::from_millis(1500);

/// A session that the extension has joined, as the program sees it.
#[derive(Debug)]
pub(super) struct Extension {
    seen: mpsc::Sender<Seen>,
}

/// What wakes the extension.
#[derive(Debug)]
enum Seen {
    Event(String, Value),
    Inbox,
    End,
}

/// `team.json`, which lies beside the script.
#[derive(Debug, Clone, Deserialize)]
struct Seat {
    exe: PathBuf,
    file: PathBuf,
    session: String,
    inbox: PathBuf,
}

impl Extension {
    /// Looks for the extension in these folders; it joins if it is there and the session is its seat's.
    pub(super) fn join(folders: &[PathBuf], session: &str, wire: &Wire) -> Option<Self> {
        let entries = folders.iter().flat_map(|it| fs::read_dir(it).into_iter().flatten().flatten());
        let seat = entries.filter_map(|it| seat(&it.path())).find(|it| it.session == session)?;
        let wire = wire.another().ok()?;
        let mut watcher = Watcher::new().ok()?;
        watcher.watch(&seat.inbox).ok()?;
        let (seen, received) = mpsc::channel();
        let (told, telling) = mpsc::channel();
        let inbox = seen.clone();
        thread::spawn(move || watch(watcher, &inbox));
        let teller = seat.clone();
        thread::spawn(move || tell(&teller, &telling));
        thread::spawn(move || Running { seat, wire, told, waiting: Vec::new(), open: false }.run(&received));
        Some(Self { seen })
    }

    /// The program says what has happened.
    pub(super) fn event(&self, kind: &str, data: &Value) {
        let _ = self.seen.send(Seen::Event(kind.to_owned(), data.clone()));
    }
}

impl Drop for Extension {
    fn drop(&mut self) {
        let _ = self.seen.send(Seen::End);
    }
}

fn seat(folder: &Path) -> Option<Seat> {
    let script = fs::read_to_string(folder.join("extension.mjs")).ok()?;
    let seat = fs::read_to_string(folder.join("team.json")).ok()?;
    script.contains(JOINS).then(|| serde_json::from_str(&seat).ok())?
}

/// Wakes the extension whenever something in its inbox changes.
fn watch(mut watcher: Watcher, seen: &mpsc::Sender<Seen>) {
    loop {
        let every = watcher.poll_every().and_then(|it| PollTimeout::try_from(it).ok());
        let mut fds: Vec<PollFd<'_>> =
            watcher.fd().into_iter().map(|it| PollFd::new(it, PollFlags::POLLIN)).collect();
        let _ = poll(&mut fds, every.unwrap_or(PollTimeout::NONE));
        let _ = watcher.changes();
        if seen.send(Seen::Inbox).is_err() {
            return;
        }
    }
}

/// Calls the seat's command for each thing that happened, one after the other.
fn tell(seat: &Seat, telling: &mpsc::Receiver<(String, Value)>) {
    for (event, data) in telling {
        let mut command = Command::new(&seat.exe);
        command.arg("hook").arg("--seat-file").arg(&seat.file).arg(event);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(mut hook) = started else { continue };
        if let Some(mut stdin) = hook.stdin.take() {
            let _ = stdin.write_all(data.to_string().as_bytes());
        }
        let _ = hook.wait();
    }
}

struct Running {
    seat: Seat,
    wire: Wire,
    told: mpsc::Sender<(String, Value)>,
    /// Handed over, not yet begun: the program's id and the text.
    waiting: Vec<(String, String)>,
    open: bool,
}

impl Running {
    fn run(mut self, seen: &mpsc::Receiver<Seen>) {
        self.tell("SessionStart", json!({"source": "startup"}));
        let mut lost: Vec<String> = Vec::new();
        let mut again: VecDeque<(Instant, Vec<String>)> = VecDeque::new();
        let mut next = Seen::Inbox;
        loop {
            match next {
                Seen::End => return,
                Seen::Inbox => {
                    if self.drain().is_none() {
                        return;
                    }
                }
                Seen::Event(kind, data) => {
                    self.happened(&kind, &data, &mut lost);
                    if kind == "session.idle" && !lost.is_empty() {
                        again.push_back((Instant::now() + LOST, std::mem::take(&mut lost)));
                    }
                }
            }
            next = loop {
                let Some((due, _)) = again.front() else {
                    match seen.recv() {
                        Ok(next) => break next,
                        Err(_) => return,
                    }
                };
                match seen.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Ok(next) => break next,
                    Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => {
                        let lost = again.pop_front().map(|it| it.1).unwrap_or_default();
                        self.hand_again(&lost);
                    }
                }
            };
        }
    }

    fn tell(&self, event: &str, mut data: Value) {
        data["sessionId"] = self.seat.session.clone().into();
        let _ = self.told.send((event.to_owned(), data));
    }

    /// Gives the program a text for its queue and returns the id under which it comes.
    fn hand(&mut self, text: &str) -> Option<String> {
        let id = uuid::Uuid::new_v4().to_string();
        let sent = self.wire.send(Outside::Submit { text: text.to_owned(), id: Some(id.clone()) });
        sent.then(|| self.waiting.push((id.clone(), text.to_owned())))?;
        Some(id)
    }

    /// Takes what lies in the inbox, in the order of the names; `None` where the script would end.
    fn drain(&mut self) -> Option<()> {
        let entries = fs::read_dir(&self.seat.inbox).ok()?.flatten();
        let mut names: Vec<String> = entries.filter_map(|it| it.file_name().into_string().ok()).collect();
        names.retain(|it| is_message(it));
        names.sort_unstable();
        for name in names {
            let taken = self.seat.inbox.join("taken").join(&name);
            // Whoever moves it has it: it may just have been taken back.
            if fs::rename(self.seat.inbox.join(&name), &taken).is_err() {
                continue;
            }
            let text = String::from_utf8_lossy(&fs::read(&taken).ok()?).into_owned();
            if let Some(id) = self.hand(&text) {
                self.tell("enqueued", json!({"prompt": text, "messageId": id}));
            }
        }
        Some(())
    }

    fn hand_again(&mut self, lost: &[String]) {
        for id in lost {
            if let Some(at) = self.waiting.iter().position(|it| it.0 == *id) {
                let (_, text) = self.waiting.remove(at);
                let _ = self.hand(&text);
            }
        }
    }

    fn happened(&mut self, kind: &str, data: &Value, lost: &mut Vec<String>) {
        let some = |names: &[&str]| -> Value {
            names
                .iter()
                .map(|it| ((*it).to_owned(), data[*it].clone()))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        match kind {
            "user.message" => {
                self.waiting.retain(|it| data["messageId"] != it.0);
                self.open |= data["delivery"] != "steering";
                self.tell(kind, some(&["content", "messageId", "delivery"]));
            }
            "abort" => {
                self.open = false;
                *lost = self.waiting.iter().map(|it| it.0.clone()).collect();
                self.tell(kind, some(&["reason"]));
            }
            "session.error" => {
                self.open = false;
                self.tell(kind, some(&["errorType", "message", "statusCode"]));
            }
            "session.idle" if std::mem::take(&mut self.open) => self.tell(kind, json!({})),
            "permission.completed" | "session.compaction_start" => self.tell(kind, json!({})),
            "session.compaction_complete" => self.tell(kind, json!({"open": self.open})),
            _ => {}
        }
    }
}

/// Twelve digits, a dash, `.txt` at the end.
fn is_message(name: &str) -> bool {
    let parts = name.strip_suffix(".txt").and_then(|it| it.split_at_checked(12));
    parts.is_some_and(|(digits, rest)| digits.bytes().all(|it| it.is_ascii_digit()) && rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::super::super::wire;
    use super::*;

    #[test]
    fn only_whole_messages_are_taken() {
        assert!(is_message("000000000007-m-7.txt"));
        for name in ["000000000007-m-7.back", ".tmp", "00000000000-m.txt", "taken", "ünïünïünïünï-m.txt"]
        {
            assert!(!is_message(name), "{name}");
        }
    }

    #[test]
    fn it_joins_the_seats_session_alone_and_only_by_a_script_that_joins() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, inbox) = (dir.path().join("e/team"), dir.path().join("inbox"));
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(inbox.join("taken")).unwrap();
        let (wire, mut receiver) = wire::pair().unwrap();
        let joins = |session: &str| Extension::join(&[dir.path().join("e")], session, &wire);
        let seat = json!({"exe": "/no/such/program", "file": "/f", "session": "s", "inbox": inbox});
        fs::write(folder.join("team.json"), seat.to_string()).unwrap();
        assert!(joins("s").is_none());
        fs::write(folder.join("extension.mjs"), "// joins nothing").unwrap();
        assert!(joins("s").is_none());
        fs::write(folder.join("extension.mjs"), format!("import x from \"{JOINS}\";")).unwrap();
        assert!(joins("another").is_none());

        fs::write(inbox.join("000000000001-m-1.txt"), "words").unwrap();
        let extension = joins("s").unwrap();
        let mut come = Vec::new();
        let until = Instant::now() + Duration::from_secs(20);
        while come.is_empty() && Instant::now() < until {
            let mut fds = [PollFd::new(receiver.fd(), PollFlags::POLLIN)];
            poll(&mut fds, 1000_u16).unwrap();
            come = receiver.take().0;
        }
        assert!(matches!(&come[..], [Outside::Submit { text, id: Some(_) }] if text == "words"), "{come:?}");
        assert!(inbox.join("taken/000000000001-m-1.txt").exists());
        drop(extension);
    }
}
