//! A clock that stands still until it is moved, and processes that are only numbers.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, Utc};
use nix::sys::signal::Signal;
use team_engine::clock::Clock;
use team_engine::coordinator::Processes;
use team_model::ProcessIdentity;
use team_tmux::{FakeTerminal, Terminal as _};

/// A clock that a test moves.
pub(crate) struct FakeClock {
    begin: DateTime<Utc>,
    passed: Mutex<Duration>,
}

impl FakeClock {
    pub(crate) fn new() -> Self {
        let begin = DateTime::from_timestamp(1_800_000_000, 0).unwrap();
        Self { begin, passed: Mutex::default() }
    }

    pub(crate) fn advance(&self, by: Duration) {
        *self.passed.lock().unwrap() += by;
    }
}

impl Clock for FakeClock {
    fn now(&self) -> DateTime<Utc> {
        self.begin + self.elapsed()
    }

    fn elapsed(&self) -> Duration {
        *self.passed.lock().unwrap()
    }
}

/// Processes: the seats' that run, each with whether it was asked to end; the terminal knows of its server itself.
pub(crate) struct FakeProcesses {
    terminal: Mutex<FakeTerminal>,
    seats: Mutex<BTreeMap<u32, bool>>,
}

impl FakeProcesses {
    pub(crate) fn new(terminal: FakeTerminal) -> Self {
        Self { terminal: Mutex::new(terminal), seats: Mutex::default() }
    }

    fn seats(&self) -> MutexGuard<'_, BTreeMap<u32, bool>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn starts(&self, pid: u32) {
        self.seats().insert(pid, false);
    }

    pub(crate) fn ends(&self, pid: u32) {
        self.seats().remove(&pid);
    }

    pub(crate) fn is_asked(&self, pid: u32) -> bool {
        self.seats().get(&pid).copied().unwrap_or(false)
    }

    pub(crate) fn runs(&self, pid: u32) -> bool {
        self.seats().contains_key(&pid)
    }

    pub(crate) fn all(&self) -> Vec<u32> {
        self.seats().keys().copied().collect()
    }

    fn is_server(&self, pid: u32) -> bool {
        self.terminal.lock().unwrap().probe().unwrap().is_some_and(|it| it.pid == pid)
    }
}

/// The identity of a process that is only a number.
pub(crate) fn identity(pid: u32) -> ProcessIdentity {
    ProcessIdentity { pid, start: u64::from(pid), boot: "boot".to_owned(), namespace: String::new() }
}

impl Processes for FakeProcesses {
    fn is_alive(&self, process: &ProcessIdentity) -> bool {
        self.runs(process.pid) || self.is_server(process.pid)
    }

    fn signal(&self, process: &ProcessIdentity, signal: Signal) -> bool {
        assert_eq!(signal, Signal::SIGTERM, "a seat is asked");
        self.seats().get_mut(&process.pid).map(|it| *it = true).is_some()
    }

    fn kill_tree(&self, process: &ProcessIdentity) {
        self.ends(process.pid);
    }

    fn identify(&self, pid: u32) -> Option<ProcessIdentity> {
        (self.runs(pid) || self.is_server(pid)).then(|| identity(pid))
    }
}
