//! The seat process: what runs in a pane. It claims its spawn, starts the provider's program, forwards signals, ends
//! everything below it, and records how it ended. It also sees to it that a coordinator runs.
//!
//! Knows the seat file and processes. Must not know providers or tmux.

use std::collections::BTreeMap;
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use team_model::{By, Event, ProcessIdentity};

use crate::clock::{Clock, RealClock};
use crate::decide;
use crate::error::EngineError;
use crate::guardian::Guardian;
use crate::hook::seat_workspace;
use crate::process;
use crate::seat_file::SEAT_VARIABLE;
use crate::seat_file::SeatFile;
use crate::store::Store;
use crate::workspace;

/// How long a program that was asked to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// How long leftovers below a program that has ended may take.
const LEFTOVER_GRACE: Duration = Duration::from_millis(300);

/// Runs the seat to its end; returns the exit code of the pane.
pub fn run(seat_file: &Path) -> Result<u8, EngineError> {
    let seat = SeatFile::read(seat_file)?;
    let known =
        workspace::Workspace::look(&workspace::Workspace::present_root(&seat.state_dir, &seat.workspace))?;
    if !seat.is_genuine(seat_file, &known) {
        return Err(EngineError::Coordinator(format!("did not write `{}`", seat_file.display())));
    }
    let signals = take_signals();
    let clock = RealClock::default();
    let by = By::Seat { spawn: seat.spawn };
    let workspace = seat_workspace(&seat);
    let env = seat.take_env()?;
    let me = process::this_process();
    let text = serde_json::to_string(&me).unwrap_or_default();
    {
        let mut store = Store::open(&workspace)?;
        store.decide(clock.now(), &by, Some(&seat.team), |state| {
            Ok((decide::claim(state, seat.spawn, &me)?, ()))
        })?;
        workspace::write(&SeatFile::claim_path(seat_file), &text, 0o600)?;
    }
    // The workspace may be moved while the program runs.
    let record = |event| {
        let _ = Store::observer(&seat_workspace(&seat))
            .and_then(|it| it.observe(clock.now(), &by, Some(&seat.team), vec![event]));
    };
    let mut child = match start(&seat, &env) {
        Ok(child) => child,
        Err(source) => {
            record(Event::ProviderExited { spawn: seat.spawn, code: Some(127), signal: None });
            let program = seat.argv.first().cloned().unwrap_or_default();
            return Err(EngineError::Io { doing: "start", path: program.into(), source });
        }
    };
    if let Some(process) = process::identify(child.id()) {
        record(Event::ProviderStarted { spawn: seat.spawn, process, version: None });
    }
    let mut guardian = Guardian::new(&workspace);
    let (status, below) = watch(&mut child, &signals, &clock, &mut guardian);
    end_leftovers(seat_file, &below);
    let (code, signal) = status.map_or((None, None), |it| (it.code(), it.signal()));
    record(Event::ProviderExited { spawn: seat.spawn, code, signal });
    Ok(match (code, signal) {
        (Some(code), _) => u8::try_from(code & 0xff).unwrap_or(1),
        (None, Some(signal)) => u8::try_from(128 + signal).unwrap_or(1),
        _ => 1,
    })
}

/// Says whether the calling process runs below a seat, whatever its own environment says.
pub(crate) fn is_above() -> bool {
    process::ancestors(std::process::id()).into_iter().skip(1).any(|(pid, _)| carries_mark(pid))
}

/// Says whether a process, or one above it, carries a seat's mark: it was started in a seat, also if nothing of that
/// seat is above it any more.
pub(crate) fn is_marked(pid: Option<u32>) -> bool {
    pid.is_some_and(|it| process::ancestors(it).into_iter().any(|(pid, _)| carries_mark(pid)))
}

fn carries_mark(pid: u32) -> bool {
    let seat = process::environment(pid).and_then(|it| it.get(SEAT_VARIABLE).cloned());
    seat.is_some_and(|it| SeatFile::read(Path::new(&it)).is_ok_and(|seat| seat.is_plausible(Path::new(&it))))
}

/// From here on signals are read, not suffered: the terminal sends INT, QUIT and TSTP to the program too.
fn take_signals() -> SigSet {
    let mut signals = SigSet::empty();
    for signal in [
        Signal::SIGCHLD,
        Signal::SIGTERM,
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTSTP,
        Signal::SIGTTOU,
        Signal::SIGUSR1,
    ] {
        signals.add(signal);
    }
    let _ = signals.thread_block();
    signals
}

fn start(seat: &SeatFile, env: &BTreeMap<String, String>) -> std::io::Result<Child> {
    let (program, arguments) = seat
        .argv
        .split_first()
        .ok_or_else(|| std::io::Error::new(std::io::ErrorKind::InvalidInput, "no program is named"))?;
    let mut command = Command::new(program);
    // What tmux alone knows: the terminal's own name and kind.
    for name in ["TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLORTERM"] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    let kept: Vec<(String, std::ffi::OsString)> =
        command.get_envs().filter_map(|(k, v)| Some((k.to_str()?.to_owned(), v?.to_owned()))).collect();
    command.args(arguments).current_dir(&seat.cwd).env_clear().envs(kept).envs(env);
    // SAFETY: only async-signal-safe calls between fork and exec.
    #[expect(unsafe_code, reason = "the child's signals and terminal are set between fork and exec")]
    unsafe {
        command.pre_exec(|| {
            let me = nix::unistd::getpid();
            nix::unistd::setpgid(me, me)?;
            // In front of the terminal, so that its keys' signals go to the program. SIGTTOU is blocked here.
            let _ = nix::unistd::tcsetpgrp(std::io::stdin(), me);
            SigSet::all().thread_unblock()?;
            Ok(())
        });
    }
    command.spawn()
}

#[cfg(target_os = "linux")]
fn watch(
    child: &mut Child,
    signals: &SigSet,
    clock: &dyn Clock,
    guardian: &mut Guardian,
) -> (Option<ExitStatus>, Vec<ProcessIdentity>) {
    let mut below = Vec::new();
    let Ok(fd) = SignalFd::with_flags(signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK) else {
        return (child.wait().ok(), below);
    };
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let mut asked: Option<Duration> = None;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return (Some(status), below);
        }
        let timeout = match asked {
            Some(since) => {
                let left = GRACE.saturating_sub(clock.elapsed().saturating_sub(since));
                if left.is_zero() {
                    let _ = killpg(group, Signal::SIGKILL);
                    return (child.wait().ok(), below);
                }
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            }
            None => guardian
                .timeout()
                .map_or(PollTimeout::NONE, |it| PollTimeout::try_from(it).unwrap_or(PollTimeout::MAX)),
        };
        let lost = {
            let mut fds = vec![PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
            if let (None, Some(socket)) = (asked, guardian.socket()) {
                fds.push(PollFd::new(socket, PollFlags::POLLIN));
            }
            let _ = poll(&mut fds, timeout);
            fds.get(1).and_then(PollFd::any).unwrap_or(false)
        };
        if asked.is_none() {
            guardian.tend(lost);
        }
        while let Ok(Some(info)) = fd.read_signal() {
            match Signal::try_from(i32::try_from(info.ssi_signo).unwrap_or(0)) {
                Ok(signal @ (Signal::SIGTERM | Signal::SIGHUP)) => {
                    below.extend(process::descendants(child.id()).into_iter().filter_map(process::identify));
                    let _ = killpg(group, signal);
                    let _ = killpg(group, Signal::SIGCONT);
                    asked.get_or_insert(clock.elapsed());
                }
                Ok(Signal::SIGUSR1) => {
                    let _ = killpg(group, Signal::SIGKILL);
                }
                _ => {}
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn watch(
    child: &mut Child,
    signals: &SigSet,
    clock: &dyn Clock,
    _guardian: &mut Guardian,
) -> (Option<ExitStatus>, Vec<ProcessIdentity>) {
    let group = Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX));
    let mut asked = None;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return (Some(status), Vec::new());
        }
        match signals.wait() {
            Ok(signal @ (Signal::SIGTERM | Signal::SIGHUP)) => {
                let _ = killpg(group, signal);
                asked.get_or_insert(clock.elapsed());
            }
            Ok(Signal::SIGUSR1) => drop(killpg(group, Signal::SIGKILL)),
            _ => {}
        }
    }
}

/// Ends everything that the program left: whatever carries this seat's mark in its environment, and what was below
/// the program when it was asked to end.
fn end_leftovers(seat_file: &Path, below: &[ProcessIdentity]) {
    let mut waited = Duration::ZERO;
    let step = Duration::from_millis(5);
    loop {
        let mut left: Vec<ProcessIdentity> =
            below.iter().filter(|it| process::is_alive(it)).cloned().collect();
        left.extend(process::marked(SEAT_VARIABLE, seat_file));
        if left.is_empty() || waited > LEFTOVER_GRACE * 4 {
            return;
        }
        if waited.is_zero() || waited >= LEFTOVER_GRACE {
            let signal = if waited.is_zero() { Signal::SIGTERM } else { Signal::SIGKILL };
            for process in &left {
                process::signal(process, signal);
            }
        }
        // Nothing announces the end of a grandchild; this runs only while something is left.
        let _ = poll(&mut [], PollTimeout::try_from(step).unwrap_or(PollTimeout::ZERO));
        waited += step;
    }
}
