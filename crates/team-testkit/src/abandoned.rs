//! What tests that were killed have left: the next test ends it.
//!
//! Knows by a lock whether a directory's owner lives. Must not know what was started in it.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};

use crate::{leftovers, process};

/// The file that a test holds locked.
const OWNER: &str = "owner";
/// How long processes may take to be gone that were killed.
const GONE: Duration = Duration::from_secs(10);

/// Marks a directory as one whose owner lives.
pub(crate) fn own(directory: &Path) -> io::Result<Flock<File>> {
    let unfinished = directory.join("owner.new");
    let lock = Flock::lock(File::create(&unfinished)?, FlockArg::LockExclusiveNonblock)
        .map_err(|(_, errno)| io::Error::from(errno))?;
    // It has its name only once it is locked.
    fs::rename(&unfinished, directory.join(OWNER))?;
    Ok(lock)
}

/// Ends what runs in directories whose owner was killed, and removes them.
pub(crate) fn clear(base: &Path, prefix: &str) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let directory = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        let Ok(file) = File::open(directory.join(OWNER)) else { continue };
        let Ok(_lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else { continue };
        let mark = [directory.to_string_lossy().into_owned()];
        let end = || {
            let left = leftovers::processes(&mark);
            left.iter().for_each(leftovers::end);
            left.is_empty()
        };
        process::wait_until(end, GONE);
        fs::remove_dir_all(&directory).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_a_killed_test_left_is_ended_and_what_a_living_one_has_is_not() {
        let base = tempfile::tempdir().unwrap();
        let [dead, alive] = ["x-dead", "x-alive"].map(|it| base.path().join(it));
        let mut children = Vec::new();
        for it in [&dead, &alive] {
            fs::create_dir(it).unwrap();
            children.push(Command::new("sleep").arg("1000").env("PLACE", it).spawn().unwrap());
        }
        drop(own(&dead).unwrap());
        let _owner = own(&alive).unwrap();
        clear(base.path(), "x-");
        assert!(!dead.exists() && alive.exists());
        assert!(children[0].wait().unwrap().code().is_none(), "it was killed");
        assert!(children[1].try_wait().unwrap().is_none(), "it goes on");
        children[1].kill().unwrap();
        children[1].wait().unwrap();
    }
}
