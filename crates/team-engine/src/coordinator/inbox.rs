//! The folder of waiting messages and the file whose change makes a program fetch them.
//!
//! Knows names of files. Must not know why a message is there.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use team_model::MessageId;

use crate::workspace::write_bytes;

/// The number in front of a file's name, which keeps messages in order.
const DIGITS: usize = 12;

/// Lays a message into an inbox, complete under its name; says whether it is there.
pub(super) fn lay(inbox: &Path, seq: u64, id: &MessageId, text: &str) -> bool {
    let file = inbox.join(format!("{seq:0DIGITS$}-{id}.txt"));
    write_bytes(&file, text.as_bytes(), 0o600).is_ok()
}

/// Changes the watched file.
pub(super) fn ring(bell: &Path) -> bool {
    OpenOptions::new().append(true).open(bell).and_then(|mut it| it.write_all(b".")).is_ok()
}

/// Says whether a message lies there and nobody has taken it.
pub(super) fn lies(inbox: &Path, id: &MessageId) -> bool {
    file_of(inbox, id).is_some()
}

/// Says whether a message was ever laid into an inbox: it is there, or was taken from it.
pub(super) fn was_laid(inbox: &Path, id: &MessageId) -> bool {
    lies(inbox, id) || lies(&inbox.join("taken"), id)
}

/// Takes a message out of an inbox again; false if somebody has taken it.
pub(super) fn take_back(inbox: &Path, id: &MessageId) -> bool {
    file_of(inbox, id).is_some_and(|it| std::fs::rename(&it, it.with_extension("back")).is_ok())
}

fn file_of(dir: &Path, id: &MessageId) -> Option<PathBuf> {
    let end = format!("-{id}.txt");
    let is_its = |name: &str| name.get(DIGITS..) == Some(end.as_str());
    std::fs::read_dir(dir)
        .ok()?
        .filter_map(|it| Some(it.ok()?.path()))
        .find(|it| it.file_name().and_then(|name| name.to_str()).is_some_and(is_its))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_found_by_its_whole_id_and_taken_back_once() {
        let dir = tempfile::tempdir().unwrap();
        let inbox = dir.path();
        std::fs::create_dir(inbox.join("taken")).unwrap();
        let (long, short) = (MessageId::Own("a-b".to_owned()), MessageId::Own("b".to_owned()));
        assert!(lay(inbox, 7, &long, "text"));
        assert!(lies(inbox, &long) && !lies(inbox, &short) && !was_laid(inbox, &short));
        assert!(take_back(inbox, &long) && !take_back(inbox, &long) && !was_laid(inbox, &long));
        assert!(lay(inbox, 7, &long, "text"));
        let file = file_of(inbox, &long).unwrap();
        std::fs::rename(&file, inbox.join("taken").join(file.file_name().unwrap())).unwrap();
        assert!(was_laid(inbox, &long) && !lies(inbox, &long));
    }
}
