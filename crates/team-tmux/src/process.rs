//! What the system knows about a process. The only place with code for one system or another.

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Sends a signal to one process; `Ok(false)` when there is none.
pub(crate) fn signal(pid: u32, signal: Signal) -> nix::Result<bool> {
    // 0 and negative numbers would mean groups.
    let Ok(pid @ 1..) = i32::try_from(pid) else { return Ok(false) };
    match kill(Pid::from_raw(pid), signal) {
        Ok(()) => Ok(true),
        Err(Errno::ESRCH) => Ok(false),
        Err(err) => Err(err),
    }
}

/// Returns when a process started, in a unit that is only compared; `None` for one that has ended.
#[cfg(not(target_os = "macos"))]
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself contain spaces and parentheses.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X" | "x") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Tells whether a process is a tmux server as far as its name says.
#[cfg(not(target_os = "macos"))]
pub(crate) fn looks_like_tmux(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with("tmux"))
}

/// Returns when a process started, in a unit that is only compared; `None` for one that has ended.
#[cfg(target_os = "macos")]
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let text = ps(pid, "state=,lstart=")?;
    let (state, started) = text.trim().split_once(char::is_whitespace)?;
    if state.starts_with('Z') {
        return None;
    }
    // A hash is enough: the number is only compared.
    let hash = started.trim().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Some(hash)
}

/// Tells whether a process is a tmux server as far as its name says.
#[cfg(target_os = "macos")]
pub(crate) fn looks_like_tmux(pid: u32) -> bool {
    ps(pid, "comm=").is_some_and(|comm| comm.contains("tmux"))
}

#[cfg(target_os = "macos")]
fn ps(pid: u32, columns: &str) -> Option<String> {
    let output = std::process::Command::new("/bin/ps")
        .env("LC_ALL", "C")
        .args(["-o", columns, "-p", &pid.to_string()])
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_has_a_start_time_and_an_ended_one_has_none() {
        let own = std::process::id();
        assert!(start_time(own).is_some());
        assert_eq!(start_time(own), start_time(own));
        let mut child = std::process::Command::new("/bin/true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        assert_eq!(start_time(pid), None);
        assert_eq!(signal(pid, Signal::SIGCONT), Ok(false));
        assert_eq!(signal(0, Signal::SIGCONT), Ok(false));
    }
}
