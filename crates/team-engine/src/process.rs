//! Which processes are whose: identity, ancestry, life. The only place of the engine that knows `/proc`.
//!
//! Linux reads `/proc`; macOS asks `ps` (never compiled or run there by us).

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use team_model::ProcessIdentity;

/// What the kernel says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessStat {
    /// Its parent.
    pub parent: u32,
    /// Its process group.
    pub group: u32,
    /// When it started, in the kernel's units since boot.
    pub start: u64,
    /// Whether it has ended and only waits to be reaped.
    pub zombie: bool,
}

/// Reads what the kernel says of a process; `None` if there is none.
#[cfg(target_os = "linux")]
pub fn stat(pid: u32) -> Option<ProcessStat> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The name in parentheses may hold anything, so count from behind it.
    let rest = &text[text.rfind(')')? + 2..];
    let mut fields = rest.split(' ');
    let zombie = matches!(fields.next()?, "Z" | "X" | "x");
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let start = fields.nth(16)?.parse().ok()?;
    Some(ProcessStat { parent, group, start, zombie })
}

/// Reads what the kernel says of a process; `None` if there is none.
#[cfg(not(target_os = "linux"))]
pub fn stat(pid: u32) -> Option<ProcessStat> {
    let output = std::process::Command::new("/bin/ps")
        .args(["-o", "ppid=,pgid=,state=,lstart=", "-p", &pid.to_string()])
        .env("LC_ALL", "C")
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut fields = text.split_whitespace();
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    let zombie = fields.next()?.starts_with('Z');
    let started = fields.collect::<Vec<_>>().join(" ");
    let start = chrono::NaiveDateTime::parse_from_str(&started, "%a %b %e %H:%M:%S %Y").ok()?;
    Some(ProcessStat { parent, group, start: u64::try_from(start.and_utc().timestamp()).ok()?, zombie })
}

/// Names the boot that runs.
pub fn boot_id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(read_boot_id)
}

#[cfg(target_os = "linux")]
fn read_boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|it| it.trim().chars().take(13).collect())
        .unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn read_boot_id() -> String {
    std::process::Command::new("/usr/sbin/sysctl")
        .args(["-n", "kern.bootsessionuuid"])
        .output()
        .map(|it| String::from_utf8_lossy(&it.stdout).trim().chars().take(13).collect())
        .unwrap_or_default()
}

#[cfg(target_os = "linux")]
fn namespace() -> String {
    std::fs::read_link("/proc/self/ns/pid")
        .map(|it| it.to_string_lossy().trim_start_matches("pid:[").trim_end_matches(']').to_owned())
        .unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn namespace() -> String {
    String::new()
}

/// Identifies a running process.
pub fn identify(pid: u32) -> Option<ProcessIdentity> {
    let stat = stat(pid)?;
    Some(ProcessIdentity { pid, start: stat.start, boot: boot_id().to_owned(), namespace: namespace() })
}

/// Where an open directory lies now.
#[cfg(target_os = "linux")]
pub(crate) fn path_of(dir: &std::fs::File) -> Option<std::path::PathBuf> {
    use std::os::fd::AsRawFd as _;
    let path = std::fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())).ok()?;
    path.is_dir().then_some(path)
}

/// Where an open directory lies now.
#[cfg(not(target_os = "linux"))]
pub(crate) fn path_of(_dir: &std::fs::File) -> Option<std::path::PathBuf> {
    None
}

/// Identifies this process.
pub fn this_process() -> ProcessIdentity {
    let pid = std::process::id();
    identify(pid).unwrap_or(ProcessIdentity {
        pid,
        start: 0,
        boot: boot_id().to_owned(),
        namespace: namespace(),
    })
}

/// Identifies the process that started this one.
pub fn parent() -> Option<ProcessIdentity> {
    identify(stat(std::process::id())?.parent)
}

/// A descriptor that becomes readable when a process ends.
#[cfg(target_os = "linux")]
pub(crate) fn pidfd(pid: u32) -> Option<OwnedFd> {
    use std::os::fd::FromRawFd as _;
    // SAFETY: pidfd_open takes a pid and flags and returns a new descriptor that nobody else owns.
    #[expect(unsafe_code, reason = "nix has no wrapper for pidfd_open")]
    unsafe {
        let fd = nix::libc::syscall(nix::libc::SYS_pidfd_open, pid, 0);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(i32::try_from(fd).unwrap_or(-1)))
    }
}

/// A descriptor that becomes readable when a process ends; nothing has one here.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pidfd(_pid: u32) -> Option<OwnedFd> {
    None
}

/// Waits for the end of a process, but not for longer than this.
pub(crate) fn wait_for_end(process: &ProcessIdentity, limit: Duration) {
    let Some(fd) = pidfd(process.pid).filter(|_| is_alive(process)) else { return };
    let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
    // Whatever comes of it, the caller goes on.
    let _ = poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], limit);
}

/// Says whether exactly this process still runs.
pub fn is_alive(process: &ProcessIdentity) -> bool {
    process.boot == boot_id() && stat(process.pid).is_some_and(|it| it.start == process.start && !it.zombie)
}

/// Lists the ancestors of a process, itself first.
pub fn ancestors(pid: u32) -> Vec<(u32, ProcessStat)> {
    let mut line = Vec::new();
    let mut next = pid;
    while next > 1 && line.len() < 128 {
        let Some(found) = stat(next) else { break };
        line.push((next, found));
        next = found.parent;
    }
    line
}

/// Says whether `process` is `pid` or an ancestor of it.
pub fn is_ancestor(process: &ProcessIdentity, pid: u32) -> bool {
    ancestors(pid).iter().any(|(it, stat)| *it == process.pid && stat.start == process.start)
}

/// Lists all processes with their parents.
#[cfg(target_os = "linux")]
pub fn all() -> Vec<(u32, ProcessStat)> {
    let Ok(dir) = std::fs::read_dir("/proc") else { return Vec::new() };
    dir.filter_map(|it| it.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| Some((pid, stat(pid)?)))
        .collect()
}

/// Lists all processes with their parents.
#[cfg(not(target_os = "linux"))]
pub fn all() -> Vec<(u32, ProcessStat)> {
    let Ok(output) = std::process::Command::new("/bin/ps").args(["-axo", "pid="]).output() else {
        return Vec::new();
    };
    String::from_utf8_lossy(&output.stdout)
        .split_whitespace()
        .filter_map(|it| it.parse().ok())
        .filter_map(|pid| Some((pid, stat(pid)?)))
        .collect()
}

/// Lists the processes below `pid`, deepest last.
pub fn descendants(pid: u32) -> Vec<u32> {
    let all = all();
    let mut found = vec![pid];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(
            all.iter()
                .filter(|(it, stat)| stat.parent == parent && !found.contains(it))
                .map(|(it, _)| *it)
                .collect::<Vec<_>>(),
        );
        at += 1;
    }
    found.remove(0);
    found
}

/// Finds the processes whose environment holds `variable` with this path, this process excepted.
#[cfg(target_os = "linux")]
pub fn marked(variable: &str, path: &Path) -> Vec<ProcessIdentity> {
    use std::os::unix::ffi::OsStrExt as _;
    let mut wanted = variable.as_bytes().to_vec();
    wanted.push(b'=');
    wanted.extend(path.as_os_str().as_bytes());
    let me = std::process::id();
    all()
        .into_iter()
        .filter(|(pid, stat)| *pid != me && !stat.zombie)
        .filter(|(pid, _)| {
            std::fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|it| it.split(|byte| *byte == 0).any(|entry| entry == wanted))
        })
        .filter_map(|(pid, _)| identify(pid))
        .collect()
}

/// Finds the processes whose environment holds `variable` with this path: not known on this system, so none.
#[cfg(not(target_os = "linux"))]
pub fn marked(_variable: &str, _path: &Path) -> Vec<ProcessIdentity> {
    Vec::new()
}

/// Reads the environment of a process of this user.
pub fn environment(pid: u32) -> Option<std::collections::BTreeMap<String, String>> {
    let bytes = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let entries = bytes.split(|it| *it == 0).filter_map(|it| {
        let (name, value) = std::str::from_utf8(it).ok()?.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    Some(entries.collect())
}

/// Sends a signal to exactly this process; says whether it was there.
pub fn signal(process: &ProcessIdentity, signal: nix::sys::signal::Signal) -> bool {
    let Ok(pid) = i32::try_from(process.pid) else { return false };
    // A pidfd would close the gap between the look and the signal; a start time that fits is close enough for a pid
    // that is reused only after the whole range was used up.
    is_alive(process) && nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).is_ok()
}

/// The machine's own id, so that a state directory on a shared disk is not taken for this machine's.
pub fn machine_id() -> String {
    let id = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    if id.trim().is_empty() {
        nix::unistd::gethostname().map(|it| it.to_string_lossy().into_owned()).unwrap_or_default()
    } else {
        id.trim().to_owned()
    }
}

/// Where programs are looked for.
pub fn search_path() -> std::ffi::OsString {
    std::env::var_os("PATH").filter(|it| !it.is_empty()).unwrap_or_else(|| DEFAULT_PATH.into())
}

/// Where programs are looked for when nobody says.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The person's home directory, from `HOME` or else from the system's list of users.
pub fn home_dir() -> Option<std::path::PathBuf> {
    std::env::var_os("HOME")
        .filter(|it| Path::new(it).is_absolute())
        .map(std::path::PathBuf::from)
        .or_else(|| nix::unistd::User::from_uid(nix::unistd::getuid()).ok().flatten().map(|it| it.dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_alive_and_its_parent_is_an_ancestor() {
        let me = this_process();
        assert!(is_alive(&me));
        assert!(is_ancestor(&me, me.pid));
        let parent = identify(stat(me.pid).unwrap().parent).unwrap();
        assert!(is_ancestor(&parent, me.pid));
        assert!(!is_alive(&ProcessIdentity { start: me.start + 1, ..me.clone() }));
        assert!(!is_alive(&ProcessIdentity { boot: "another".to_owned(), ..me }));
    }
}
