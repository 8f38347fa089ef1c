//! What the machine says of itself and of processes. Reads `/proc`; where there is none these figures are left out.

use std::fs;

/// The machine, and how busy it is, in a line.
pub(super) fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<&str> = load.split_whitespace().take(3).collect();
    let tmux = std::process::Command::new("tmux").arg("-V").output();
    let tmux = tmux.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned()).unwrap_or_default();
    format!(
        "{} {}, {cores} cores, load {}, {tmux}",
        std::env::consts::OS,
        std::env::consts::ARCH,
        load.join(" ")
    )
}

/// How long a tick is: what Linux says to programs, whatever its own clock.
pub(super) const TICK_MS: f64 = 10.0;

/// The clock ticks of CPU that a process has used, in user and kernel mode.
pub(super) fn ticks(pid: u64) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = text[text.rfind(')')? + 2..].split(' ');
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let kernel: u64 = fields.next()?.parse().ok()?;
    Some(user + kernel)
}

/// The memory of a process that is in use, in MB.
pub(super) fn resident(pid: u64) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|it| it.strip_prefix("VmRSS:"))?;
    let kilobytes: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kilobytes / 1024.0)
}

/// The short name of a process's program.
pub(super) fn name(pid: u64) -> Option<String> {
    Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned())
}
