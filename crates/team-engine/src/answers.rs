//! Answers to permission questions, as files in a seat's private directory.
//!
//! Whoever asks for a seat's program notes the question as `answers/KEY.asked` and waits for `answers/KEY.json`, which
//! the coordinator lays there once `approval.answering` is in the log. The log alone answers nothing: agents may be able
//! to write it. When the note is gone, nobody wants an answer any more. Must not know who decides.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use notify::{RecursiveMode, Watcher as _};
use serde::{Deserialize, Serialize};
use team_model::Decision;

use crate::workspace::{WorkspaceError, make_dir, write};

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether the tool may run.
    pub decision: Decision,
    /// What the model is told with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What was asked, as the process knows that asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The tool.
    pub tool: String,
    /// Its input, as the log has it but for secrets.
    pub input: String,
}

/// Where the files of a seat lie.
pub fn dir(seat_dir: &Path) -> PathBuf {
    seat_dir.join("answers")
}

/// Says whether a text may be the name of a question: it becomes part of a path.
pub fn is_key(key: &str) -> bool {
    (1..=128).contains(&key.len())
        && !key.starts_with('.')
        && key.bytes().all(|it| it.is_ascii_alphanumeric() || b"._:-".contains(&it))
}

fn file(seat_dir: &Path, key: &str, kind: &str) -> PathBuf {
    dir(seat_dir).join(format!("{key}.{kind}"))
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()
}

/// Makes the place of a new spawn; what an earlier one asked is over.
pub(crate) fn make_place(seat_dir: &Path) -> Result<(), WorkspaceError> {
    let dir = dir(seat_dir);
    let _ = std::fs::remove_dir_all(&dir);
    make_dir(&dir, 0o700)
}

/// Notes a question.
pub(crate) fn note(seat_dir: &Path, key: &str, asked: &Asked) -> Result<(), WorkspaceError> {
    make_dir(&dir(seat_dir), 0o700)?;
    write(&file(seat_dir, key, "asked"), &serde_json::to_string(asked).unwrap_or_default(), 0o600)
}

/// Reads what was asked.
pub(crate) fn asked(seat_dir: &Path, key: &str) -> Option<Asked> {
    read(&file(seat_dir, key, "asked"))
}

/// Prepares an answer where nobody looks for one.
pub(crate) fn stage(seat_dir: &Path, key: &str, answer: &Answer) -> Result<(), WorkspaceError> {
    make_dir(&dir(seat_dir), 0o700)?;
    write(&file(seat_dir, key, "staged"), &serde_json::to_string(answer).unwrap_or_default(), 0o600)
}

/// Gives the prepared answer, if it says what was decided.
pub(crate) fn lay(seat_dir: &Path, key: &str, decision: Decision) -> bool {
    let staged = file(seat_dir, key, "staged");
    let fits = read::<Answer>(&staged).is_some_and(|it| it.decision == decision);
    fits && std::fs::rename(staged, file(seat_dir, key, "json")).is_ok()
}

/// Says whether an answer lies there that nobody has taken.
pub(crate) fn is_laid(seat_dir: &Path, key: &str) -> bool {
    file(seat_dir, key, "json").exists() || file(seat_dir, key, "staged").exists()
}

/// Takes an answer: it is there no more.
pub(crate) fn take(seat_dir: &Path, key: &str) -> Option<Answer> {
    let path = file(seat_dir, key, "json");
    let answer = read(&path)?;
    std::fs::remove_file(&path).ok()?;
    Some(answer)
}

/// Removes all that is left of a question.
pub(crate) fn clear(seat_dir: &Path, key: &str) {
    for kind in ["json", "staged", "asked"] {
        let _ = std::fs::remove_file(file(seat_dir, key, kind));
    }
}

/// Waits until there is an answer; `None` when nobody wants one any more or the time is over.
pub(crate) fn wait(seat_dir: &Path, key: &str, time: Duration) -> Option<Answer> {
    let (changed, change) = mpsc::channel();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|it| !matches!(it.kind, notify::EventKind::Access(_))) {
            let _ = changed.send(());
        }
    })
    .ok()?;
    watcher.watch(&dir(seat_dir), RecursiveMode::NonRecursive).ok()?;
    let limit = Instant::now() + time;
    loop {
        if let Some(answer) = take(seat_dir, key) {
            return Some(answer);
        }
        if !file(seat_dir, key, "asked").exists() {
            return None;
        }
        change.recv_timeout(limit.saturating_duration_since(Instant::now())).ok()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_question_stays_in_its_directory() {
        for right in ["toolu_01AbC", "9f2c4e1d-0a7b", "a:b.c"] {
            assert!(is_key(right), "{right}");
        }
        for wrong in ["", ".", "..", "../x", "a/b", ".hidden", "a b", "a\0", &"x".repeat(129)] {
            assert!(!is_key(wrong), "{wrong}");
        }
    }

    #[test]
    fn an_answer_is_taken_once_and_only_as_it_was_decided() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path();
        let answer = Answer { decision: Decision::Deny, message: Some("no".to_owned()) };
        assert!(!lay(dir, "k", Decision::Deny), "nothing was prepared");
        stage(dir, "k", &answer).unwrap();
        assert_eq!(take(dir, "k"), None, "not given yet");
        assert!(!lay(dir, "k", Decision::Allow), "another one was decided");
        assert!(lay(dir, "k", Decision::Deny));
        let text = std::fs::read_to_string(dir.join("answers/k.json")).unwrap();
        assert_eq!(text, r#"{"decision":"deny","message":"no"}"#);
        assert_eq!(take(dir, "k"), Some(answer));
        assert_eq!(take(dir, "k"), None);
    }

    #[test]
    fn nobody_waits_for_an_answer_to_a_question_that_is_closed() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().to_owned();
        note(&dir, "k", &Asked { tool: "Bash".to_owned(), input: "{}".to_owned() }).unwrap();
        let there = dir.clone();
        let waiting = std::thread::spawn(move || wait(&there, "k", Duration::from_secs(20)));
        clear(&dir, "k");
        assert_eq!(waiting.join().unwrap(), None);
        note(&dir, "k", &Asked { tool: "Bash".to_owned(), input: "{}".to_owned() }).unwrap();
        let there = dir.clone();
        let waiting = std::thread::spawn(move || wait(&there, "k", Duration::from_secs(20)));
        stage(&dir, "k", &Answer { decision: Decision::Allow, message: None }).unwrap();
        assert!(lay(&dir, "k", Decision::Allow));
        assert_eq!(waiting.join().unwrap().map(|it| it.decision), Some(Decision::Allow));
    }
}
