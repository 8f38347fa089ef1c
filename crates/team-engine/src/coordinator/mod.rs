//! The coordinator: one per workspace, alone with the terminals. This module is its event loop; `core` is what it
//! does, `plan` is what it decides.
//!
//! It sleeps until the log, a program's record, its socket, a process or a time limit has something new.

mod act;
mod approve;
mod composer;
mod conclude;
mod core;
mod deliver;
mod enter;
mod inbox;
mod leader;
mod look;
mod plan;
mod press;
mod records;
mod seen;
mod socket;
mod trust;
mod watches;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use team_tmux::{Endpoint, Tmux};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::{mpsc, oneshot};

pub use self::core::{Core, Processes, RealProcesses, Round};
pub(crate) use plan::missing;
pub use plan::{Action, Blocked, Lane, Observed, Plan, SeatKey, Seen, Typed, TypingTimes, plan};
pub use socket::{Answer, Request};
use watches::{Inode, Watches};

use crate::clock::{Clock, RealClock};
use crate::error::EngineError;
use crate::failpoint::Failpoints;
use crate::process::{self, search_path};
use crate::room;
use crate::store::Store;
use crate::workspace::{Workspace, WorkspaceError};

/// How long a coordinator that has nothing to do waits for a first request.
const FIRST_REQUEST: Duration = Duration::from_secs(1);
/// The first pause after which something is tried again for which a disk had no room; each is twice as long.
const FULL_PAUSE: Duration = Duration::from_millis(100);
/// How often in a row tmux may refuse a call before what is to be started has failed.
const REFUSED: u32 = 15;

/// What came of the attempt to be the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It ran and had nothing left to do.
    Done,
    /// Another one runs.
    Busy,
}

/// Runs the coordinator of a workspace until nothing is left to do.
///
/// `announce` is told `ready` once commands can count on it, or `busy` if another one runs.
pub fn run(root: &Path, announce: &mut dyn FnMut(&str)) -> Result<Outcome, EngineError> {
    // A workspace is made by those who start a team in it.
    if Workspace::look(root)?.id.is_empty() {
        return Err(WorkspaceError::NoTeam(root.to_owned()).into());
    }
    let workspace = Workspace::open(root)?;
    let path = workspace.state_dir.join("locks/coordinator");
    let file = std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|source| EngineError::Io { doing: "open", path: path.clone(), source })?;
    let inode = Inode::of(file.metadata());
    let Ok(lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else {
        announce("busy");
        return Ok(Outcome::Busy);
    };
    let store = Store::open(&workspace)?;
    store.keep_for_others();
    let clock: Arc<dyn Clock> = Arc::new(RealClock::default());
    let known = store.state.server.as_ref().map(|it| team_tmux::ServerInfo {
        pid: it.process.pid,
        start_time: it.process.start,
        version: it.version.clone(),
    });
    let socket = match &store.state.server {
        Some(server) if process::is_alive(&server.process) => PathBuf::from(&server.socket),
        _ => workspace.tmux_socket()?,
    };
    let tmux = team_tmux::find_tmux(&search_path())?;
    let endpoint = Endpoint { tmux, socket };
    let terminal = Box::new(Tmux::new(endpoint, known).staying_attached());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| EngineError::Io { doing: "start", path: "the event loop".into(), source })?;
    let inside = async {
        let socket_path = workspace.coordinator_socket();
        workspace.make_socket_dir()?;
        let listener = socket::listen(&socket_path).map_err(|source| EngineError::Io {
            doing: "listen on",
            path: socket_path.clone(),
            source,
        })?;
        let fail = Arc::new(Failpoints::from_env());
        let core =
            Core::take_over(workspace.clone(), store, terminal, clock.clone(), Arc::new(RealProcesses), fail)
                .inspect_err(|error| {
                    if matches!(error, EngineError::Died(_)) {
                        die();
                    }
                })?;
        announce("ready");
        let place = Place {
            lock: inode,
            path: path.clone(),
            socket: Inode::of_path(&socket_path),
            team: Inode::of_path(&workspace.team_root()),
            held: std::fs::File::open(workspace.team_root()).ok(),
        };
        let mut running = Running { core, clock, workspace: workspace.clone(), place };
        let done = running.go(listener).await;
        // A successor may listen there by now.
        if running.place.socket.is_some() && Inode::of_path(&socket_path) == running.place.socket {
            let _ = std::fs::remove_file(&socket_path);
        }
        if running.core.state().coordinator.is_none() && running.core.server().is_none() {
            workspace.clear_socket_dir();
        }
        done
    };
    let done = runtime.block_on(inside);
    runtime.shutdown_background();
    drop(lock);
    done.map(|()| Outcome::Done)
}

struct Running {
    core: Core,
    clock: Arc<dyn Clock>,
    workspace: Workspace,
    place: Place,
}

/// The files that make this process the coordinator.
struct Place {
    path: PathBuf,
    lock: Option<Inode>,
    socket: Option<Inode>,
    team: Option<Inode>,
    /// `.team`, by which it is found wherever it goes.
    held: Option<std::fs::File>,
}

/// A request and the way back.
struct Asked {
    line: String,
    peer: Option<u32>,
    back: oneshot::Sender<Answer>,
}

impl Running {
    async fn go(&mut self, listener: tokio::net::UnixListener) -> Result<(), EngineError> {
        let (wake, mut woken) = mpsc::channel::<()>(1);
        let (ask, mut asked) = mpsc::channel::<Asked>(64);
        let mut watcher = Watches::new(wake.clone(), self.workspace.coordinator_socket())?;
        // Its id and the sockets are put back where somebody removes them, and so is the log.
        let own = [self.workspace.team_root(), self.workspace.coordinator_socket().with_file_name("")];
        for dir in &own {
            watcher.watch(dir);
        }
        watcher.watch_anew(&self.workspace.logs());
        let mut server: Option<(u32, tokio::task::JoinHandle<()>)> = None;
        let mut processes: BTreeMap<u32, tokio::task::JoinHandle<()>> = BTreeMap::new();
        let unanswered = Arc::new(AtomicUsize::new(0));
        let mut accept = tokio::spawn(accept_all(listener, ask.clone(), unanswered.clone()));
        // Whoever started this one may have something to ask although no team runs.
        self.core.stay_until(Some(self.clock.elapsed() + FIRST_REQUEST));
        let mut refused = 0;
        let mut full = 0;
        let result = loop {
            // A workspace that was moved is served by one that knows where it is.
            if self.has_moved() {
                self.follow_move();
                break Ok(());
            }
            if let Err(error) = self.workspace.keep_id() {
                tracing::warn!("{}", crate::error::whole(&error));
            }
            if let Some(listener) = self.listen_again() {
                accept.abort();
                accept = tokio::spawn(accept_all(listener, ask.clone(), unanswered.clone()));
            }
            let round = match self.core.round() {
                Ok(round) => {
                    refused = 0;
                    full = 0;
                    round
                }
                Err(EngineError::Refused(refusal)) if refusal.code == "fenced" => break Ok(()),
                Err(EngineError::Refused(refusal)) => {
                    // The state moved under a decision: look again.
                    tracing::debug!("{refusal}");
                    Round { wake: Some(self.clock.elapsed() + Duration::from_millis(20)), exit: false }
                }
                Err(EngineError::Died(died)) => {
                    tracing::error!("{died}");
                    die();
                    break Ok(());
                }
                Err(EngineError::Tmux(error)) => {
                    let why = crate::error::whole(&error);
                    tracing::warn!("tmux: {why}");
                    self.core.server_lost();
                    refused += 1;
                    if refused >= REFUSED {
                        refused = 0;
                        self.core.no_start_without_terminal(&why)?;
                    }
                    Round { wake: Some(self.clock.elapsed() + Duration::from_millis(200)), exit: false }
                }
                // Nothing is gained by ending: the successor could write as little.
                Err(error) if room::is_lacking(&error) => {
                    if full == 0 {
                        tracing::warn!("waits for room: {}", crate::error::whole(&error));
                    }
                    full += 1;
                    let pause = FULL_PAUSE * 2_u32.pow(full.min(6));
                    Round { wake: Some(self.clock.elapsed() + pause), exit: false }
                }
                Err(error) => break Err(error),
            };
            if round.exit || !self.still_ours() {
                break Ok(());
            }
            if watcher.watch_anew(&self.workspace.logs()) {
                // What was written there meanwhile has woken nobody.
                let _ = wake.try_send(());
            }
            for dir in self.core.watched_dirs().to_vec() {
                watcher.watch(&dir);
            }
            self.watch_server(&mut server, &wake);
            self.watch_processes(&mut processes, &wake);
            let due =
                [round.wake, self.core.records_wake(), self.core.leader_wake()].into_iter().flatten().min();
            let pause = due.map(|it| it.saturating_sub(self.clock.elapsed()));
            tokio::select! {
                _ = woken.recv() => {}
                Some(asked) = asked.recv() => {
                    let answer = self.core.answer(&asked.line, asked.peer);
                    if self.core.is_dead() {
                        die();
                    }
                    let _ = asked.back.send(answer);
                    self.core.stay_until(None);
                }
                () = sleep(pause) => {}
            }
        };
        accept.abort();
        // What was carried out is answered; what was not read is asked again, of the successor.
        drop(asked);
        let limit = self.clock.elapsed() + FIRST_REQUEST;
        while unanswered.load(Ordering::SeqCst) > 0 && self.clock.elapsed() < limit {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        if let Some((_, task)) = server {
            task.abort();
        }
        for (_, task) in processes {
            task.abort();
        }
        // What a successor has written since is newer.
        if self.still_ours() && !self.has_moved() {
            self.core.snapshot();
        }
        result
    }

    /// Says where the workspace is now, so that its seats and the successor of this one find it.
    fn follow_move(&self) {
        let Some(root) = self.place.held.as_ref().and_then(process::path_of) else { return };
        let Some(root) = root.parent().filter(|_| root.file_name().is_some_and(|it| it == ".team")) else {
            return;
        };
        if let Err(error) = Workspace::open(root) {
            tracing::warn!("{}", crate::error::whole(&error));
        }
    }

    /// Listens anew where somebody removed the socket.
    fn listen_again(&mut self) -> Option<tokio::net::UnixListener> {
        let path = self.workspace.coordinator_socket();
        if path.exists() || !self.still_ours() {
            return None;
        }
        let made = self.workspace.make_socket_dir().map_err(EngineError::from).and_then(|()| {
            socket::listen(&path).map_err(|source| EngineError::Io {
                doing: "listen on",
                path: path.clone(),
                source,
            })
        });
        match made {
            Ok(listener) => {
                self.place.socket = Inode::of_path(&path);
                Some(listener)
            }
            Err(error) => {
                tracing::warn!("{}", crate::error::whole(&error));
                None
            }
        }
    }

    fn has_moved(&self) -> bool {
        Inode::of_path(&self.workspace.team_root()) != self.place.team
    }

    /// A lock file that is not the one at its path any more locks nothing.
    fn still_ours(&self) -> bool {
        self.place.lock.is_some() && Inode::of_path(&self.place.path) == self.place.lock
    }

    fn watch_server(
        &mut self,
        server: &mut Option<(u32, tokio::task::JoinHandle<()>)>,
        wake: &mpsc::Sender<()>,
    ) {
        let Some(info) = self.core.server().cloned() else { return };
        if let Some((pid, task)) = server {
            if *pid == info.pid && !task.is_finished() {
                return;
            }
            if *pid == info.pid && task.is_finished() {
                self.core.server_lost();
                *server = None;
                let _ = wake.try_send(());
                return;
            }
        }
        if let Some(fd) = process::pidfd(info.pid) {
            let wake = wake.clone();
            let task = tokio::spawn(async move {
                ended(fd).await;
                let _ = wake.send(()).await;
            });
            *server = Some((info.pid, task));
        }
    }

    /// A process that ends wakes the coordinator.
    fn watch_processes(
        &self,
        watched: &mut BTreeMap<u32, tokio::task::JoinHandle<()>>,
        wake: &mpsc::Sender<()>,
    ) {
        let live: BTreeSet<u32> = self
            .core
            .state()
            .teams
            .values()
            .flat_map(|it| it.seats.values())
            .filter(|it| it.state.is_live())
            .filter_map(|it| it.spawn.as_ref())
            .flat_map(|it| [it.claimed.as_ref(), it.tools.as_ref().filter(|_| !it.tools_lost)])
            .filter_map(|it| Some(it?.pid))
            .collect();
        watched.retain(|pid, task| live.contains(pid) && !task.is_finished());
        for pid in live {
            if watched.contains_key(&pid) {
                continue;
            }
            let Some(fd) = process::pidfd(pid) else { continue };
            let wake = wake.clone();
            let task = tokio::spawn(async move {
                ended(fd).await;
                let _ = wake.send(()).await;
            });
            watched.insert(pid, task);
        }
    }
}

async fn sleep(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}

/// Waits until the process behind a pidfd has ended.
async fn ended(fd: OwnedFd) {
    // SAFETY: the descriptor is owned by what it is registered with, and open until that is dropped.
    #[expect(unsafe_code, reason = "registering a descriptor that is no socket has no safe form")]
    let fd = unsafe { AsyncFd::register_with_interest(fd, tokio::io::Interest::READABLE) };
    match fd {
        Ok(fd) => drop(fd.readable().await),
        Err(_) => std::future::pending().await,
    }
}

/// Counts a request for as long as it has no answer.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Serves everybody who connects. Seats hold a connection open for as long as this process lives.
async fn accept_all(
    listener: tokio::net::UnixListener,
    ask: mpsc::Sender<Asked>,
    unanswered: Arc<AtomicUsize>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, ask.clone(), unanswered.clone()));
    }
}

/// Serves one connection: a seat says nothing and only waits for its end.
async fn serve(stream: tokio::net::UnixStream, ask: mpsc::Sender<Asked>, unanswered: Arc<AtomicUsize>) {
    let peer = socket::peer(&stream);
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let _counted = Counted::new(&unanswered);
        let (back, answer) = oneshot::channel();
        if ask.send(Asked { line, peer, back }).await.is_err() {
            return;
        }
        let Ok(answer) = answer.await else { return };
        let text = serde_json::to_string(&answer).unwrap_or_default();
        if write.write_all(format!("{text}\n").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Ends at a failpoint: as if killed, without any farewell.
fn die() {
    nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).ok();
}

/// Tells a waiting starter one word.
pub fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{word}");
    let _ = out.flush();
}
