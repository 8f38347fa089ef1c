//! Finding and ending what a test's programs left running.
//!
//! Knows how the system lists processes and sockets. Must not know why they run.

use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process that still runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leftover {
    /// Its id.
    pub pid: i32,
    /// Its arguments, joined.
    pub command: String,
}

/// Returns the processes that have one of the marks in environment, arguments or working directory.
///
/// The calling process is none of them, nor is one that is dead and only waits to be reaped.
pub fn processes(marks: &[String]) -> Vec<Leftover> {
    let own = std::process::id();
    system::all()
        .into_iter()
        .filter(|process| u32::try_from(process.pid).is_ok_and(|pid| pid != own))
        .filter(|process| marks.iter().any(|mark| contains(&process.traits, mark.as_bytes())))
        .map(|process| Leftover { pid: process.pid, command: process.command })
        .collect()
}

/// Ends a process, at once.
pub fn end(process: &Leftover) {
    // Gone already is as good.
    kill(Pid::from_raw(process.pid), Signal::SIGKILL).ok();
}

/// Returns the listening sockets whose path lies below a directory.
pub fn listening_sockets(below: &Path) -> Vec<PathBuf> {
    system::listening_sockets().into_iter().filter(|path| path.starts_with(below)).collect()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && haystack.windows(needle.len()).any(|window| window == needle)
}

/// A process with everything it can be recognised by.
struct Running {
    pid: i32,
    command: String,
    /// Environment, arguments and working directory, one after the other.
    traits: Vec<u8>,
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Path, PathBuf};

    use super::Running;

    /// The flag of a socket that was listened on, in `/proc/net/unix`.
    const LISTENING: u64 = 0x1_0000;

    pub(super) fn all() -> Vec<Running> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        entries
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(one)
            .collect()
    }

    fn one(pid: i32) -> Option<Running> {
        let directory = Path::new("/proc").join(pid.to_string());
        let status = fs::read_to_string(directory.join("stat")).ok()?;
        let state = status.rsplit_once(") ")?.1.chars().next()?;
        if matches!(state, 'Z' | 'X') {
            return None;
        }
        let arguments = fs::read(directory.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&arguments).replace('\0', " ").trim().to_owned();
        let mut traits = fs::read(directory.join("environ")).unwrap_or_default();
        traits.push(0);
        traits.extend(arguments);
        if let Ok(place) = fs::read_link(directory.join("cwd")) {
            traits.push(0);
            traits.extend(place.as_os_str().as_bytes());
        }
        Some(Running { pid, command, traits })
    }

    pub(super) fn listening_sockets() -> Vec<PathBuf> {
        let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
        let mut paths: Vec<PathBuf> = table
            .lines()
            .skip(1)
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let flags = u64::from_str_radix(words.nth(3)?, 16).ok()?;
                let path = words.nth(3)?;
                (flags & LISTENING != 0).then(|| PathBuf::from(path))
            })
            .collect();
        paths.sort();
        paths.dedup();
        paths
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::path::PathBuf;
    use std::process::Command;

    use super::Running;

    /// Lists arguments and environment as `ps` shows them; the working directory is not among it.
    pub(super) fn all() -> Vec<Running> {
        let Ok(output) = Command::new("ps").args(["-axEww", "-o", "pid=,stat=,command="]).output() else {
            return Vec::new();
        };
        String::from_utf8_lossy(&output.stdout).lines().filter_map(one).collect()
    }

    fn one(line: &str) -> Option<Running> {
        let (pid, rest) = line.trim_start().split_once(' ')?;
        let (state, command) = rest.trim_start().split_once(' ')?;
        if state.starts_with('Z') {
            return None;
        }
        Some(Running { pid: pid.parse().ok()?, command: command.to_owned(), traits: command.into() })
    }

    /// Not listed here: a socket's owner is found among the processes.
    pub(super) fn listening_sockets() -> Vec<PathBuf> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use super::*;
    use crate::process::wait_until;

    #[test]
    fn a_process_is_found_by_its_environment_and_ended() {
        let mark = format!("TESTKIT_MARK={}", uuid::Uuid::new_v4());
        let (name, value) = mark.split_once('=').unwrap();
        let mut child =
            Command::new("sleep").arg("600").env(name, value).stdin(Stdio::null()).spawn().unwrap();
        let marks = [mark.clone()];
        // Between fork and exec the child still has our own environment.
        assert!(wait_until(|| processes(&marks).len() == 1, Duration::from_secs(5)));
        processes(&marks).iter().for_each(end);
        // Dead and not yet reaped counts as gone.
        assert!(wait_until(|| processes(&marks).is_empty(), Duration::from_secs(5)));
        child.wait().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_socket_is_found_while_it_is_listened_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(listening_sockets(directory.path()), [path]);
        drop(listener);
        assert_eq!(listening_sockets(directory.path()), Vec::<PathBuf>::new());
    }
}
