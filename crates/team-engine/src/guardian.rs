//! Sees to it that a coordinator runs: starts one detached, and watches it from a seat.
//!
//! Knows the coordinator's socket. Must not know what the coordinator does.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{Flock, FlockArg};

use crate::error::EngineError;
use crate::workspace::{Workspace, check_private};

/// How long a command waits for the coordinator's answer.
const ANSWER: Duration = Duration::from_secs(10);

/// How often a request is made of coordinators that end before they read it.
const TRIES: u32 = 5;

/// A coordinator that ran for so long is none that cannot stay.
const STAYED: Duration = Duration::from_secs(10);

/// So many that do not stay are followed at once; then the pauses grow.
const AT_ONCE: u32 = 3;

/// The first pause.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Connects to the coordinator of a workspace, if one listens.
pub fn connect(workspace: &Workspace) -> Option<UnixStream> {
    if !workspace.is_socket_ours() {
        return None;
    }
    UnixStream::connect(workspace.coordinator_socket()).ok()
}

/// Makes sure that a coordinator runs, and connects to it.
pub fn ensure(workspace: &Workspace) -> Result<UnixStream, EngineError> {
    let mut last = String::new();
    // One that is just going away answers the lock but not the socket: then the next round starts its successor.
    for round in 0..40u64 {
        if let Some(stream) = connect(workspace) {
            return Ok(stream);
        }
        // Only the first one is to meet a failpoint.
        last = start(workspace, round == 0)?;
        if last == "ready" {
            continue;
        }
        // Without a word it was killed, which can happen once.
        if last != "busy" && !(last.is_empty() && round < TRIES.into()) {
            break;
        }
        wait(Duration::from_millis(5 * round.min(20)));
    }
    connect(workspace).ok_or_else(|| {
        EngineError::Coordinator(if last.is_empty() {
            "did not start".to_owned()
        } else {
            format!("did not start: {last}")
        })
    })
}

/// Waits where nothing can announce what is waited for.
fn wait(time: Duration) {
    use nix::poll::{PollTimeout, poll};
    let _ = poll(&mut [], PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO));
}

/// Starts a coordinator detached from this process and returns its first word: `ready`, `busy` or an error.
fn start(workspace: &Workspace, failpoint: bool) -> Result<String, EngineError> {
    check_private(&workspace.state_dir)?;
    let program = self_exe();
    let log = workspace.state_dir.join("coordinator.log");
    let failed = |doing, path: &PathBuf| {
        let path = path.clone();
        move |source| EngineError::Io { doing, path, source }
    };
    let errors =
        std::fs::OpenOptions::new().create(true).append(true).open(&log).map_err(failed("open", &log))?;
    let mut command = Command::new(&program);
    command
        .arg("coordinator")
        .arg("--workspace")
        .arg(Workspace::present_root(&workspace.state_dir, &workspace.root))
        .arg("--detach")
        .env_remove(crate::seat_file::SEAT_VARIABLE)
        .env_remove("TMUX")
        .env_remove("TMUX_PANE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .current_dir("/");
    if !failpoint {
        command.env_remove(crate::failpoint::VARIABLE);
    }
    // SAFETY: setsid is async-signal-safe.
    #[expect(unsafe_code, reason = "a session of its own must begin between fork and exec")]
    unsafe {
        command.pre_exec(|| {
            nix::unistd::setsid()?;
            nix::sys::signal::SigSet::all().thread_unblock()?;
            Ok(())
        });
    }
    let mut child = command.spawn().map_err(failed("start", &program))?;
    let mut word = String::new();
    if let Some(out) = child.stdout.take() {
        let _ = BufReader::new(out).read_line(&mut word);
    }
    // The child forked once more and ends at once; its child goes on alone.
    let _ = child.wait();
    Ok(word.trim().to_owned())
}

/// This program's own path, also after it was replaced on disk.
pub fn self_exe() -> PathBuf {
    if let Some(named) = std::env::var_os("TEAM_AGENT_EXE") {
        return PathBuf::from(named);
    }
    let exe = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("team-agent"));
    match exe.to_str().and_then(|it| it.strip_suffix(" (deleted)")) {
        Some(path) => PathBuf::from(path),
        None => exe,
    }
}

/// Sends one request to the coordinator and returns its answer.
pub fn request(workspace: &Workspace, request: &serde_json::Value) -> Result<serde_json::Value, EngineError> {
    let mut last = "went away before it answered".to_owned();
    for _ in 0..TRIES {
        let mut stream = ensure(workspace)?;
        let asked = stream
            .set_read_timeout(Some(ANSWER))
            .and_then(|()| stream.write_all(format!("{request}\n").as_bytes()));
        let mut answer = String::new();
        match asked.and_then(|()| BufReader::new(stream).read_line(&mut answer)) {
            Ok(_) if answer.ends_with('\n') => {
                return serde_json::from_str(&answer).map_err(|error| {
                    EngineError::Coordinator(format!("gave an answer that is none: {error}"))
                });
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let message = "the coordinator does not answer; what was asked happens once it goes on";
                return Err(EngineError::NotYet { message: message.to_owned(), hint: None });
            }
            // One that ends answers what it has carried out: this was not.
            Ok(_) => {}
            Err(error) => last = format!("did not answer: {error}"),
        }
    }
    Err(EngineError::Coordinator(last))
}

/// Watches the coordinator from a seat and starts a successor when it is gone.
#[derive(Debug)]
pub struct Guardian {
    workspace: Workspace,
    stream: Option<UnixStream>,
    /// Since when it is connected, or was before it lost it.
    since: Instant,
    /// How often a coordinator was missing, or ended soon, without one in between that stayed.
    tries: u32,
    /// Not to be started again before.
    pause_ends: Instant,
}

impl Guardian {
    /// Begins to watch.
    pub fn new(workspace: &Workspace) -> Self {
        let now = Instant::now();
        let stream = connect(workspace);
        Self { workspace: workspace.clone(), stream, since: now, tries: 0, pause_ends: now }
    }

    /// The socket whose end tells that the coordinator is gone.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.stream.as_ref().map(UnixStream::as_fd)
    }

    /// When to look again without a word from the socket.
    pub fn timeout(&self) -> Option<Duration> {
        let left = self.pause_ends.saturating_duration_since(Instant::now());
        self.stream.is_none().then(|| left.max(Duration::from_millis(1)))
    }

    /// Looks whether the coordinator is still there, and starts a successor if it is not.
    pub fn check(&mut self) {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let lost = self.stream.as_ref().is_some_and(|it| {
            let mut fds = [PollFd::new(it.as_fd(), PollFlags::POLLIN)];
            let _ = poll(&mut fds, PollTimeout::ZERO);
            fds[0].any().unwrap_or(false)
        });
        self.tend(lost);
    }

    /// Connects, or starts a successor; `lost` says that the socket spoke, which it only does at its end.
    pub fn tend(&mut self, lost: bool) {
        if lost {
            self.stream = None;
            // One that stayed was none of those that cannot stay.
            if self.since.elapsed() >= STAYED {
                self.tries = 0;
            }
            self.pause_ends = Instant::now() + pause_after(self.tries);
        } else if self.stream.is_some() {
            return;
        }
        if Instant::now() < self.pause_ends {
            return;
        }
        self.tries += 1;
        self.pause_ends = Instant::now() + pause_after(self.tries).max(FIRST_PAUSE);
        self.join(connect(&self.workspace));
        if self.stream.is_some() {
            return;
        }
        // One of the seats of this workspace starts the successor; the others wait for it.
        let path = self.workspace.state_dir.join("locks/starter");
        let Ok(file) = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(path) else {
            return;
        };
        let Ok(_lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else { return };
        if connect(&self.workspace).is_none() {
            let _ = start(&self.workspace, false);
        }
        self.join(connect(&self.workspace));
    }

    fn join(&mut self, stream: Option<UnixStream>) {
        self.stream = stream;
        self.since = Instant::now();
    }
}

/// How long nobody starts another coordinator after so many that did not stay.
fn pause_after(tries: u32) -> Duration {
    match tries.checked_sub(AT_ONCE) {
        None => Duration::ZERO,
        Some(more) => FIRST_PAUSE * 2_u32.pow(more.min(9)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_stay_is_started_ever_more_rarely() {
        let pauses: Vec<Duration> = (0..20).map(pause_after).collect();
        assert!(pauses.is_sorted());
        assert_eq!(pauses[0], Duration::ZERO);
        assert!(pauses[8] > Duration::from_secs(1));
        assert!(pauses[19] > Duration::from_secs(20) && pauses[19] < Duration::from_secs(60));
    }
}
