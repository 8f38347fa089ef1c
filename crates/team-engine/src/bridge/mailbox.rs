//! The messages and answers that lie in a seat's directory for its bridge.
//!
//! Knows files. Must not know what is done with their contents.
//!
//! A message is moved from the inbox to `taken` before it is handed over; a file beside it says that no record of it
//! was seen yet, so that a bridge that is started again knows what it has to look for.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use team_model::SpawnId;

use crate::render::pointer;

/// The end of the name of a file that says that a message has no record yet.
const OPEN: &str = "open";

/// A person's answer to a question for permission, as it lies in `answers`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Answer {
    /// `allow` or `deny`.
    pub(super) decision: String,
    /// What the person says about it.
    #[serde(default)]
    pub(super) message: Option<String>,
}

/// The directories of one seat.
#[derive(Debug)]
pub(super) struct Mailbox {
    inbox: PathBuf,
    answers: PathBuf,
    spawn: SpawnId,
    /// The longest text that the program takes, in bytes.
    most: usize,
    /// Our tool that shows messages.
    read: &'static str,
}

/// Messages that go as one text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Their ids, joined.
    pub(super) key: String,
    /// Their texts, joined.
    pub(super) text: String,
}

impl Mailbox {
    pub(super) fn new(inbox: PathBuf, answers: PathBuf, spawn: SpawnId, most: usize) -> Self {
        Self { inbox, answers, spawn, most, read: "team_read" }
    }

    /// Names our tool that shows messages as the program knows it.
    pub(super) fn with_reader(self, read: &'static str) -> Self {
        Self { read, ..self }
    }

    fn taken(&self) -> PathBuf {
        self.inbox.join("taken")
    }

    /// Returns what goes to the program for a text that was taken: one that is too long stays in its file.
    fn handed(&self, stem: &str, text: String) -> String {
        if text.len() <= self.most {
            return text;
        }
        pointer(&text, &self.taken().join(format!("{stem}.txt")), self.read)
    }

    /// Takes everything that waits, in order, as far as it goes together.
    pub(super) fn take(&self) -> Option<Waiting> {
        let mut waiting: Vec<PathBuf> = files(&self.inbox, "txt");
        waiting.sort();
        let mut taken: Vec<(String, String)> = Vec::new();
        for file in waiting {
            let (Some(stem), Ok(text)) = (stem(&file), fs::read_to_string(&file)) else { continue };
            let text = self.handed(&stem, text);
            let before: usize = taken.iter().map(|(_, text)| text.len() + 2).sum();
            if before > 0 && before + text.len() > self.most {
                break;
            }
            // Its coordinator may take it back at this moment: only who moves it has it.
            if fs::rename(&file, self.taken().join(format!("{stem}.txt"))).is_ok() {
                taken.push((stem, text));
            }
        }
        let key = taken.iter().map(|(stem, _)| id_of(stem)).collect::<Vec<_>>().join("+");
        for (stem, _) in &taken {
            // Lost, it costs a second look after a crash at this moment.
            let _ = fs::write(self.open_file(stem), format!("{} {key}", self.spawn));
        }
        let text = taken.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("\n\n");
        (!text.is_empty()).then_some(Waiting { key, text })
    }

    /// Returns what was taken and has no record, each with its text.
    pub(super) fn open(&self) -> Vec<Waiting> {
        let mut found: Vec<Waiting> = Vec::new();
        let mut files = files(&self.taken(), OPEN);
        files.sort();
        for file in files {
            let said = fs::read_to_string(&file).unwrap_or_default();
            let key = said.split_once(' ').filter(|(spawn, _)| *spawn == self.spawn.to_string());
            let (Some((_, key)), Some(stem)) = (key, stem(&file)) else {
                // Of an earlier start, whose messages were concluded by the coordinator.
                let _ = fs::remove_file(&file);
                continue;
            };
            let text = fs::read_to_string(self.taken().join(format!("{stem}.txt"))).unwrap_or_default();
            let text = self.handed(&stem, text);
            match found.iter_mut().find(|it| it.key == key) {
                Some(it) => it.text = format!("{}\n\n{text}", it.text),
                None => found.push(Waiting { key: key.to_owned(), text }),
            }
        }
        found
    }

    /// Notes that the program's record holds a message.
    pub(super) fn close(&self, key: &str) {
        for stem in self.stems_of(key) {
            let _ = fs::remove_file(self.open_file(&stem));
        }
    }

    /// Puts a message back where it was.
    pub(super) fn put_back(&self, key: &str) {
        for stem in self.stems_of(key) {
            let name = format!("{stem}.txt");
            let _ = fs::rename(self.taken().join(&name), self.inbox.join(&name));
            let _ = fs::remove_file(self.open_file(&stem));
        }
    }

    fn stems_of(&self, key: &str) -> Vec<String> {
        let ids: Vec<&str> = key.split('+').collect();
        files(&self.taken(), OPEN)
            .iter()
            .filter_map(|it| stem(it))
            .filter(|it| ids.contains(&id_of(it)))
            .collect()
    }

    fn open_file(&self, stem: &str) -> PathBuf {
        self.taken().join(format!("{stem}.{OPEN}"))
    }

    /// Takes the answers that lie there.
    pub(super) fn answers(&self) -> Vec<(String, Answer)> {
        let mut found = Vec::new();
        for file in files(&self.answers, "json") {
            let text = fs::read_to_string(&file).unwrap_or_default();
            if let (Some(key), Ok(answer)) = (stem(&file), serde_json::from_str(&text)) {
                found.push((key, answer));
            }
            let _ = fs::remove_file(&file);
        }
        found
    }
}

/// The id in a file name of the form `NUMBER-ID`.
fn id_of(stem: &str) -> &str {
    stem.split_once('-').map_or(stem, |(_, id)| id)
}

fn stem(path: &Path) -> Option<String> {
    Some(path.file_stem()?.to_str()?.to_owned())
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(|it| Some(it.ok()?.path()));
    entries.filter(|it| it.extension().is_some_and(|it| it == extension)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_without_a_record_is_known_to_the_next_bridge_of_the_same_start() {
        let dir = tempfile::tempdir().unwrap();
        let inbox = dir.path().join("inbox");
        fs::create_dir_all(inbox.join("taken")).unwrap();
        let of =
            |spawn: &str| Mailbox::new(inbox.clone(), dir.path().join("answers"), spawn.parse().unwrap(), 20);
        let mailbox = of("x-7");
        assert_eq!(mailbox.take(), None);
        fs::write(inbox.join("000000000002-m-2.txt"), "two").unwrap();
        fs::write(inbox.join("000000000001-a.b-c.txt"), "one").unwrap();
        let both = Waiting { key: "a.b-c+m-2".to_owned(), text: "one\n\ntwo".to_owned() };
        assert_eq!(mailbox.take(), Some(both.clone()));
        assert_eq!(mailbox.take(), None);
        assert_eq!(of("x-7").open(), std::slice::from_ref(&both));
        mailbox.put_back(&both.key);
        assert_eq!(mailbox.open(), []);
        assert_eq!(mailbox.take(), Some(both.clone()));
        mailbox.close(&both.key);
        assert_eq!(mailbox.open(), []);

        fs::write(inbox.join("000000000003-m-3.txt"), "three").unwrap();
        fs::write(inbox.join("000000000004-m-4.txt"), "head\n(id m-4)\nlong").unwrap();
        assert_eq!(mailbox.take().unwrap().key, "m-3", "the two are too long together");
        fs::write(inbox.join("000000000004-m-4.txt"), "head\n(id m-4)\nlong and longer").unwrap();
        let pointer = mailbox.take().unwrap().text;
        assert!(pointer.starts_with("head\n(id m-4)\nThis message is in a file:"), "{pointer}");
        assert!(pointer.contains(&*inbox.join("taken/000000000004-m-4.txt").to_string_lossy()), "{pointer}");
        assert_eq!(of("x-8").open(), [], "an earlier start's");
        assert_eq!(mailbox.open(), []);
    }

    #[test]
    fn an_answer_is_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        let mailbox = Mailbox::new(dir.path().into(), dir.path().join("answers"), "x-1".parse().unwrap(), 20);
        assert_eq!(mailbox.answers(), []);
        fs::create_dir(dir.path().join("answers")).unwrap();
        fs::write(dir.path().join("answers/k.json"), r#"{"decision":"deny","message":"no"}"#).unwrap();
        let answer = Answer { decision: "deny".to_owned(), message: Some("no".to_owned()) };
        assert_eq!(mailbox.answers(), [("k".to_owned(), answer)]);
        assert_eq!(mailbox.answers(), []);
    }
}
