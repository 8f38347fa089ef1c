//! A try that is ended from outside: it ends what it has started, and what one could not end the next one does.
//!
//! Knows signals, and processes by the directory of the try in their environment. Must not know what they are.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::iterator::Signals;

/// The beginning of the name of a try's directory.
pub(crate) const PREFIX: &str = "selftest-";
/// The file that a try holds locked for as long as it lives.
const OWNER: &str = "owner";
/// How long processes may take to be gone that were killed.
const GONE: Duration = Duration::from_secs(10);
/// How often they are looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The signal that asked for the end, or 0.
static ASKED: AtomicI32 = AtomicI32::new(0);
/// The directory of the present try.
static TRY: Mutex<Option<PathBuf>> = Mutex::new(None);

/// From now on the signals that end a program end the try: the first one in order, the second one at once.
///
/// A signal that whoever started this program had ignored stays so.
pub fn take_signals() -> io::Result<()> {
    let wanted = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
    let ignored = ignored();
    let mut signals =
        Signals::new(wanted.iter().map(|it| *it as i32).filter(|it| ignored >> (it - 1) & 1 == 0))?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if ASKED.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst).is_err() {
                end_at_once();
            }
        }
    });
    Ok(())
}

/// The exit code of a program that was asked to end by a signal, once it was.
pub fn exit_code() -> Option<u8> {
    match ASKED.load(Ordering::SeqCst) {
        0 => None,
        signal => u8::try_from(128 + signal).ok(),
    }
}

/// The signals that are ignored, a bit each.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|it| it.strip_prefix("SigIgn:"));
    bits.and_then(|it| u64::from_str_radix(it.trim(), 16).ok()).unwrap_or_default()
}

#[expect(clippy::exit, reason = "somebody asked twice, and the main thread waits for something else")]
fn end_at_once() {
    let directory = TRY.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(directory) = directory {
        clear(&directory);
    }
    std::process::exit(i32::from(exit_code().unwrap_or(1)));
}

/// Says which try is under way.
pub(crate) fn begins(directory: &Path) {
    *TRY.lock().unwrap_or_else(PoisonError::into_inner) = Some(directory.to_owned());
}

/// Says that none is.
pub(crate) fn is_over() {
    *TRY.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

/// Makes the mark by which others see that a try's owner lives.
pub(crate) fn own(directory: &Path) -> io::Result<Flock<File>> {
    let unfinished = directory.join("owner.new");
    let lock = Flock::lock(File::create(&unfinished)?, FlockArg::LockExclusiveNonblock)
        .map_err(|(_, errno)| io::Error::from(errno))?;
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o600))?;
    // It has its name only once it is locked.
    fs::rename(&unfinished, directory.join(OWNER))?;
    Ok(lock)
}

/// Ends tries in a directory whose owner was killed, and removes what they have made.
pub(crate) fn clear_abandoned(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let directory = entry.path();
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(file) = File::open(directory.join(OWNER)) else { continue };
        if Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok() {
            clear(&directory);
        }
    }
}

/// Ends everything of a try and removes its directory.
fn clear(directory: &Path) {
    end_all(directory);
    // What was killed may have left its last file a moment ago.
    let since = Instant::now();
    while fs::remove_dir_all(directory).is_err_and(|it| it.kind() != io::ErrorKind::NotFound)
        && since.elapsed() < GONE
    {
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Kills what was started for a try, one process after the other, until none is left; some start others as they end.
pub(crate) fn end_all(directory: &Path) {
    let since = Instant::now();
    loop {
        let left: Vec<i32> =
            marked(directory).into_iter().filter(|it| it.inherited).map(|it| it.pid).collect();
        if left.is_empty() || since.elapsed() > GONE {
            break;
        }
        for pid in left {
            // Its environment was read a moment ago; gone already is as good.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    remove_sockets(directory);
}

/// Removes the sockets that had no room in the try's directory.
fn remove_sockets(directory: &Path) {
    let id = fs::read_to_string(directory.join("work/.team/id")).unwrap_or_default();
    let id = id.lines().next().unwrap_or_default().trim();
    if !id.is_empty() && id.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-') {
        let short = PathBuf::from(format!("/tmp/team-agent-{}", nix::unistd::getuid())).join(id);
        let _ = fs::remove_dir_all(short);
    }
}

/// A process that has to do with a try.
pub(crate) struct Marked {
    pub(crate) pid: i32,
    pub(crate) command: String,
    /// Whether it was started for the try: it has inherited the home that lies in the directory.
    pub(crate) inherited: bool,
}

/// Lists the processes, this one excepted, that carry a directory in their arguments or environment; none where the
/// system has no `/proc`.
pub(crate) fn marked(directory: &Path) -> Vec<Marked> {
    let own = std::process::id().to_string();
    let mark = directory.to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let (Ok(pid), true) = (name.parse(), name != own) else { continue };
        let read = |file: &str| {
            let bytes = fs::read(entry.path().join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let (command, environment) = (read("cmdline"), read("environ"));
        let inherited = environment.contains(&mark);
        if inherited || command.contains(&mark) {
            found.push(Marked { pid, command, inherited });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_is_abandoned_once_nobody_holds_its_mark() {
        let base = tempfile::tempdir().unwrap();
        let (held, left, young, other) =
            ("selftest-held", "selftest-left", "selftest-young", "01-a-workspace");
        let [held, left, young, other] = [held, left, young, other].map(|it| base.path().join(it));
        for it in [&held, &left, &young, &other] {
            fs::create_dir(it).unwrap();
        }
        let lock = own(&held).unwrap();
        drop(own(&left).unwrap());
        drop(own(&other).unwrap());
        clear_abandoned(base.path());
        assert!(held.exists() && young.exists() && other.exists() && !left.exists());
        drop(lock);
        clear_abandoned(base.path());
        assert!(!held.exists() && young.exists());
    }
}
