//! The seat process: what runs in a pane. It claims its spawn, starts the provider's program, forwards signals, ends
//! everything below it, and records how it ended. It also sees to it that a coordinator runs.
//!
//! Knows the seat file and processes. Must not know providers or tmux.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::poll::{PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use team_model::{By, Event, ProcessIdentity};

use crate::clock::{Clock as _, RealClock};
use crate::crew::Crew;
use crate::decide;
use crate::error::EngineError;
use crate::guardian::Guardian;
use crate::hook::seat_workspace;
use crate::process;
use crate::seat_file::{SEAT_VARIABLE, SeatFile};
use crate::store::Store;
use crate::workspace;

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
    let scratch = Scratch::new(&seat, &env);
    let mut guardian = Guardian::new(&workspace);
    let mut crew = Crew::new(&seat, seat_file, &env, &record);
    let (status, below) = match crew.begin() {
        Ok(()) => crew.watch(&signals, &clock, &mut guardian),
        Err(source) => {
            crew.end_beside(&[]);
            record(Event::ProviderExited { spawn: seat.spawn, code: Some(127), signal: None });
            let program = seat.argv.first().cloned().unwrap_or_default();
            return Err(EngineError::Io { doing: "start", path: program.into(), source });
        }
    };
    crew.end_beside(&below);
    end_leftovers(seat_file, &below);
    drop(scratch);
    let (code, signal) = status.map_or((None, None), |it| (it.code(), it.signal()));
    record(Event::ProviderExited { spawn: seat.spawn, code, signal });
    Ok(match (code, signal) {
        (Some(code), _) => u8::try_from(code & 0xff).unwrap_or(1),
        (None, Some(signal)) => u8::try_from(128 + signal).unwrap_or(1),
        _ => 1,
    })
}

/// The directory for temporary files, where the seat has one of its own: made for it and removed with it.
struct Scratch(Option<PathBuf>);

impl Scratch {
    fn new(seat: &SeatFile, env: &BTreeMap<String, String>) -> Self {
        let own = env.get("TMPDIR").map(PathBuf::from);
        let own = own.filter(|it| it.starts_with(&seat.seat_dir) && *it != seat.seat_dir);
        if let Some(dir) = &own {
            // An earlier seat may have been killed.
            let _ = std::fs::remove_dir_all(dir);
            let _ = workspace::make_dir(dir, 0o700);
        }
        Self(own)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(dir) = &self.0 {
            let _ = std::fs::remove_dir_all(dir);
        }
    }
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
