//! Everything that runs in a seat: the program in front of the terminal and, for some providers, a server behind it and
//! the bridge to that. Started, watched, started again, ended.
//!
//! Knows processes and the seat file. Must not know providers or tmux.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;
use team_model::{Event, ProcessIdentity};
use team_provider::Link;

use crate::bridge::{self, OpenScreen};
use crate::clock::Clock;
use crate::guardian::{Guardian, self_exe};
use crate::process;
use crate::seat_file::{SEAT_VARIABLE, SeatFile};

/// How long a program that was asked to end may take before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// A program to be started, with the environment that programs of a seat get.
fn command(arguments: &[String], cwd: &Path, env: &BTreeMap<String, String>) -> std::io::Result<Command> {
    let (program, arguments) = arguments
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
    command.args(arguments).current_dir(cwd).env_clear().envs(kept).envs(env);
    Ok(command)
}

/// Starts the program in front of the terminal, in a process group of its own.
fn start_screen(arguments: &[String], cwd: &Path, env: &BTreeMap<String, String>) -> std::io::Result<Child> {
    let mut command = command(arguments, cwd, env)?;
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

/// Starts a program beside the one in front of the terminal, in a process group of its own.
fn start_beside(mut command: Command, log: &Path) -> std::io::Result<Child> {
    let log = std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(log)?;
    command.stdin(Stdio::null()).stderr(log);
    // SAFETY: only async-signal-safe calls between fork and exec.
    #[expect(unsafe_code, reason = "the child's signals and group are set between fork and exec")]
    unsafe {
        command.pre_exec(|| {
            let me = nix::unistd::getpid();
            nix::unistd::setpgid(me, me)?;
            SigSet::all().thread_unblock()?;
            Ok(())
        });
    }
    command.spawn()
}

/// How often a program beside the one in front of the terminal may end within [`STEADY`] before the seat gives up.
const RESTARTS: u32 = 4;
/// How long such a program has to run for its earlier ends to be forgotten.
const STEADY: Duration = Duration::from_secs(20);

/// A program that runs beside the one in front of the terminal.
struct Beside {
    child: Child,
    since: Instant,
    ends: u32,
}

/// Everything that runs in a seat: the program in front of the terminal and, for some providers, a server behind it
/// and the bridge to that.
pub(crate) struct Crew<'a> {
    seat: &'a SeatFile,
    seat_file: &'a Path,
    env: &'a BTreeMap<String, String>,
    record: &'a dyn Fn(Event),
    screen: Option<Child>,
    server: Option<Beside>,
    bridge: Option<Beside>,
    /// What the bridge says until the screen is there.
    told: Option<BufReader<ChildStdout>>,
}

impl<'a> Crew<'a> {
    pub(crate) fn new(
        seat: &'a SeatFile,
        seat_file: &'a Path,
        env: &'a BTreeMap<String, String>,
        record: &'a dyn Fn(Event),
    ) -> Self {
        Self { seat, seat_file, env, record, screen: None, server: None, bridge: None, told: None }
    }

    /// Starts what can be started now. Behind a bridge the screen comes when that says so.
    pub(crate) fn begin(&mut self) -> std::io::Result<()> {
        if !self.seat.server.is_empty() {
            self.remove_socket();
            let child = self.start_server()?;
            self.server = Some(Beside { child, since: Instant::now(), ends: 0 });
        }
        if self.seat.link.is_some() {
            let child = self.start_bridge()?;
            self.bridge = Some(Beside { child, since: Instant::now(), ends: 0 });
            // Without a server of its own the screen is what the bridge connects to.
            if !self.seat.server.is_empty() {
                return Ok(());
            }
        }
        self.open_screen(None)
    }

    fn start_server(&self) -> std::io::Result<Child> {
        let mut command = command(&self.seat.server, &self.seat.cwd, self.env)?;
        let log = self.seat.seat_dir.join("server.log");
        command.stdout(std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&log)?);
        start_beside(command, &log)
    }

    fn start_bridge(&mut self) -> std::io::Result<Child> {
        let exe = self_exe().to_string_lossy().into_owned();
        let file = self.seat_file.to_string_lossy().into_owned();
        // It needs nothing of the person's environment, and none of a profile's secrets.
        let env = self.env.iter().filter(|(name, _)| {
            matches!(name.as_str(), "HOME" | "PATH" | "TEAM_AGENT_EXE" | "XDG_STATE_HOME" | SEAT_VARIABLE)
        });
        let env = env.map(|(name, value)| (name.clone(), value.clone())).collect();
        let words = [exe, "bridge".to_owned(), "--seat-file".to_owned(), file];
        let mut command = command(&words, Path::new("/"), &env)?;
        command.stdout(Stdio::piped());
        let mut child = start_beside(command, &self.seat.seat_dir.join("bridge.log"))?;
        self.told = child.stdout.take().filter(|_| self.screen.is_none()).map(BufReader::new);
        Ok(child)
    }

    /// Starts the program in front of the terminal.
    fn open_screen(&mut self, session: Option<&str>) -> std::io::Result<()> {
        let words: Vec<String> = self
            .seat
            .argv
            .iter()
            .map(|it| if it == team_provider::SESSION { session.unwrap_or_default() } else { it }.to_owned())
            .collect();
        let child = start_screen(&words, &self.seat.cwd, self.env)?;
        if let Some(process) = process::identify(child.id()) {
            (self.record)(Event::ProviderStarted { spawn: self.seat.spawn, process, version: None });
        }
        self.screen = Some(child);
        self.told = None;
        Ok(())
    }

    /// Reads what the bridge says; false if it says that it will say no more.
    fn listen(&mut self) -> std::io::Result<()> {
        let Some(told) = &mut self.told else { return Ok(()) };
        let mut line = String::new();
        if told.read_line(&mut line).unwrap_or(0) == 0 {
            self.told = None;
            return Ok(());
        }
        match serde_json::from_str::<OpenScreen>(&line) {
            Ok(word) => self.open_screen(word.session.as_deref()),
            Err(_) => Ok(()),
        }
    }

    /// Starts again what has ended beside the screen; the status of one that cannot go on ends the seat.
    fn tend(&mut self) -> Option<ExitStatus> {
        if let Some(server) = &mut self.server
            && let Ok(Some(status)) = server.child.try_wait()
        {
            // One that never came up will not do so the next time.
            if self.screen.is_none() || server.is_hopeless() {
                return Some(status);
            }
            let ends = server.ends;
            self.remove_socket();
            match self.start_server() {
                Ok(child) => self.server = Some(Beside { child, since: Instant::now(), ends }),
                Err(_) => return Some(status),
            }
        }
        if let Some(bridge) = &mut self.bridge
            && let Ok(Some(status)) = bridge.child.try_wait()
        {
            if status.code() == Some(bridge::END) || bridge.is_hopeless() {
                return Some(status);
            }
            let ends = bridge.ends;
            match self.start_bridge() {
                Ok(child) => self.bridge = Some(Beside { child, since: Instant::now(), ends }),
                Err(_) => return Some(status),
            }
        }
        None
    }

    /// Passes a signal on to everything in the seat.
    fn signal(&self, signal: Signal) {
        let beside = [&self.server, &self.bridge].into_iter().flatten().map(|it| it.child.id());
        for pid in self.screen.iter().map(Child::id).chain(beside) {
            let _ = killpg(group(pid), signal);
        }
    }

    /// Ends what runs beside the screen, and what was below any of it.
    pub(crate) fn end_beside(&mut self, below: &[ProcessIdentity]) {
        let begun = Instant::now();
        let mut left: Vec<Child> =
            [self.server.take(), self.bridge.take()].into_iter().flatten().map(|it| it.child).collect();
        if left.is_empty() {
            return;
        }
        for child in &left {
            let _ = killpg(group(child.id()), Signal::SIGTERM);
        }
        loop {
            left.retain_mut(|it| !matches!(it.try_wait(), Ok(Some(_)) | Err(_)));
            if left.is_empty() || begun.elapsed() >= GRACE {
                break;
            }
            // Their ends are announced by SIGCHLD, which is blocked: it is not read here, a moment is as good.
            let _ = poll(&mut [], PollTimeout::from(5_u8));
        }
        for mut child in left {
            let _ = killpg(group(child.id()), Signal::SIGKILL);
            let _ = child.wait();
        }
        for process in below.iter().filter(|it| process::is_alive(it)) {
            process::signal(process, Signal::SIGTERM);
        }
        self.remove_socket();
    }

    /// Removes the socket of the server, and what it is a link to.
    fn remove_socket(&self) {
        let Some(Link::WebSocket { socket }) = &self.seat.link else { return };
        if let Ok(target) = std::fs::read_link(socket) {
            let _ = std::fs::remove_file(target);
        }
        let _ = std::fs::remove_file(socket);
    }

    fn below(&self) -> Vec<ProcessIdentity> {
        let beside = self.server.iter().map(|it| it.child.id());
        let all = self.screen.iter().map(Child::id).chain(beside);
        all.flat_map(process::descendants).filter_map(process::identify).collect()
    }

    /// Sees everything to the end of the program in front of the terminal.
    #[cfg(target_os = "linux")]
    pub(crate) fn watch(
        &mut self,
        signals: &SigSet,
        clock: &dyn Clock,
        guardian: &mut Guardian,
    ) -> (Option<ExitStatus>, Vec<ProcessIdentity>) {
        let mut below = Vec::new();
        let Ok(fd) = SignalFd::with_flags(signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK) else {
            return (self.screen.as_mut().and_then(|it| it.wait().ok()), below);
        };
        let mut asked: Option<Duration> = None;
        loop {
            if let Some(Ok(Some(status))) = self.screen.as_mut().map(Child::try_wait) {
                return (Some(status), below);
            }
            if asked.is_some() && self.screen.is_none() {
                return (None, below);
            }
            if asked.is_none()
                && let Some(status) = self.tend()
            {
                below.extend(self.below());
                self.signal(Signal::SIGTERM);
                asked = Some(clock.elapsed());
                if self.screen.is_none() {
                    return (Some(status), below);
                }
            }
            let timeout = match asked {
                Some(since) => {
                    let left = GRACE.saturating_sub(clock.elapsed().saturating_sub(since));
                    if left.is_zero() {
                        self.signal(Signal::SIGKILL);
                        return (self.screen.as_mut().and_then(|it| it.wait().ok()), below);
                    }
                    PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
                }
                None => guardian
                    .timeout()
                    .map_or(PollTimeout::NONE, |it| PollTimeout::try_from(it).unwrap_or(PollTimeout::MAX)),
            };
            let (mut lost, mut told) = (false, false);
            {
                let mut fds = vec![PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
                let coordinator = guardian.socket().filter(|_| asked.is_none());
                let watched = coordinator.is_some();
                fds.extend(coordinator.map(|it| PollFd::new(it, PollFlags::POLLIN)));
                let bridge = self.told.as_ref().filter(|_| asked.is_none());
                fds.extend(bridge.map(|it| PollFd::new(it.get_ref().as_fd(), PollFlags::POLLIN)));
                let _ = poll(&mut fds, timeout);
                let came = |at: usize| fds.get(at).and_then(PollFd::any).unwrap_or(false);
                if watched {
                    lost = came(1);
                }
                if bridge.is_some() {
                    told = came(1 + usize::from(watched));
                }
            }
            if asked.is_none() {
                guardian.tend(lost);
            }
            if told && self.listen().is_err() {
                return (None, below);
            }
            while let Ok(Some(info)) = fd.read_signal() {
                match Signal::try_from(i32::try_from(info.ssi_signo).unwrap_or(0)) {
                    Ok(signal @ (Signal::SIGTERM | Signal::SIGHUP)) => {
                        below.extend(self.below());
                        self.signal(signal);
                        self.signal(Signal::SIGCONT);
                        asked.get_or_insert(clock.elapsed());
                    }
                    Ok(Signal::SIGUSR1) => self.signal(Signal::SIGKILL),
                    _ => {}
                }
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn watch(
        &mut self,
        signals: &SigSet,
        clock: &dyn Clock,
        _guardian: &mut Guardian,
    ) -> (Option<ExitStatus>, Vec<ProcessIdentity>) {
        let mut asked = None;
        loop {
            while self.screen.is_none() && self.told.is_some() {
                if self.listen().is_err() {
                    return (None, Vec::new());
                }
            }
            if let Some(Ok(Some(status))) = self.screen.as_mut().map(Child::try_wait) {
                return (Some(status), Vec::new());
            }
            if asked.is_none()
                && let Some(status) = self.tend()
            {
                self.signal(Signal::SIGTERM);
                return (Some(status), Vec::new());
            }
            match signals.wait() {
                Ok(signal @ (Signal::SIGTERM | Signal::SIGHUP)) => {
                    self.signal(signal);
                    asked.get_or_insert(clock.elapsed());
                }
                Ok(Signal::SIGUSR1) => self.signal(Signal::SIGKILL),
                _ => {}
            }
        }
    }
}

impl Beside {
    /// Counts an end; says whether there have been too many.
    fn is_hopeless(&mut self) -> bool {
        if self.since.elapsed() >= STEADY {
            self.ends = 0;
        }
        self.ends += 1;
        self.ends > RESTARTS
    }
}

fn group(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap_or(i32::MAX))
}
