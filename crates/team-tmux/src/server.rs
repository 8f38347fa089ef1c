//! A server's life: is one there, which, start it, own it, end it. Knows nothing of panes.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};

use crate::batch::{all, equals, quote, when};
use crate::call::Client;
use crate::env::CleanEnv;
use crate::guard::{STATE, Scope, State};
use crate::pane::{HEIGHT, WIDTH};
use crate::panes::check_session_name;
use crate::terminal::{Fence, ServerInfo};
use crate::{Result, TmuxError, process};

/// How long a server may take to come up, to put its socket back or to let go of it.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(2);
const STARTS: u32 = 5;

/// What is at the other end of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Socket {
    /// Somebody listens; the process, where the system tells.
    Answers(Option<u32>),
    /// There is a socket and nobody listens.
    Refused,
    /// There is no such path.
    Absent,
}

/// Connects and hangs up: a hundred times cheaper than a tmux call, and it never blocks.
pub(crate) fn look(path: &Path) -> Result<Socket> {
    let failed = |source: Errno| TmuxError::Io {
        doing: "connect to",
        path: path.to_path_buf(),
        source: source.into(),
    };
    let address = UnixAddr::new(path).map_err(failed)?;
    let fd = new_socket().map_err(failed)?;
    match connect(fd.as_raw_fd(), &address) {
        // EAGAIN: it listens, and is too busy or too stopped to take another one just now.
        Ok(()) | Err(Errno::EAGAIN) => Ok(Socket::Answers(peer(&fd))),
        Err(Errno::ECONNREFUSED) => Ok(Socket::Refused),
        Err(Errno::ENOENT | Errno::ENOTDIR) => Ok(Socket::Absent),
        Err(err) => Err(failed(err)),
    }
}

fn new_socket() -> nix::Result<OwnedFd> {
    let fd = socket(AddressFamily::Unix, SockType::Stream, SockFlag::empty(), None)?;
    fcntl(&fd, FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))?;
    fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(fd)
}

#[cfg(not(target_os = "macos"))]
fn peer(fd: &OwnedFd) -> Option<u32> {
    let credentials = nix::sys::socket::getsockopt(fd, nix::sys::socket::sockopt::PeerCredentials).ok()?;
    u32::try_from(credentials.pid()).ok().filter(|pid| *pid > 0)
}

#[cfg(target_os = "macos")]
fn peer(fd: &OwnedFd) -> Option<u32> {
    let pid = nix::sys::socket::getsockopt(fd, nix::sys::socket::sockopt::LocalPeerPid).ok()?;
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

/// Says which server answers. `known` spares a call while it is still the same process, and lets a
/// server be found again whose socket was removed.
pub(crate) fn probe(client: &Client, known: Option<&ServerInfo>) -> Result<Option<ServerInfo>> {
    let runs = |info: &&ServerInfo| process::start_time(info.pid) == Some(info.start_time);
    let mut seen = look(&client.endpoint.socket)?;
    if seen == Socket::Absent {
        match known.filter(runs).filter(|info| process::looks_like_tmux(info.pid)) {
            Some(info) => seen = revive(client, info)?,
            None => return Ok(None),
        }
    }
    let Socket::Answers(pid) = seen else { return Ok(None) };
    if let Some(info) = known.filter(|info| pid == Some(info.pid)).filter(runs) {
        return Ok(Some(info.clone()));
    }
    match identify(client) {
        Ok(info) => Ok(Some(info)),
        // It may have ended between the two looks.
        Err(TmuxError::NoServer { .. }) => Ok(None),
        Err(err) => Err(err),
    }
}

fn identify(client: &Client) -> Result<ServerInfo> {
    let said = client.run("display-message", ["display-message", "-p", "#{pid}\t#{version}"], None)?;
    let unexpected = || TmuxError::Unexpected { doing: "display-message", text: said.clone() };
    let (pid, version) = said.trim_end().split_once('\t').ok_or_else(unexpected)?;
    let pid = pid.parse().map_err(|_| unexpected())?;
    let Some(start_time) = process::start_time(pid) else {
        return Err(TmuxError::NoServer { socket: client.endpoint.socket.clone() });
    };
    Ok(ServerInfo { pid, start_time, version: version.to_owned() })
}

/// Makes a server put back the socket that somebody removed under it.
fn revive(client: &Client, info: &ServerInfo) -> Result<Socket> {
    client.endpoint.make_directory()?;
    let sent = process::signal(info.pid, Signal::SIGUSR1);
    if !matches!(sent, Ok(true)) {
        return Ok(Socket::Absent);
    }
    let until = Instant::now() + PATIENCE;
    loop {
        match look(&client.endpoint.socket)? {
            seen @ Socket::Answers(_) => return Ok(seen),
            _ if process::start_time(info.pid) != Some(info.start_time) => return Ok(Socket::Absent),
            _ if Instant::now() >= until => {
                return Err(TmuxError::TimedOut { doing: "socket repair", after: PATIENCE });
            }
            _ => thread::sleep(PAUSE),
        }
    }
}

/// Starts a server, whoever else may be doing the same.
pub(crate) fn start(client: &Client, env: &CleanEnv, session: &str) -> Result<ServerInfo> {
    check_session_name(session)?;
    let mut last = None;
    for _ in 0..STARTS {
        if let Some(info) = probe(client, None)? {
            return Ok(info);
        }
        client.endpoint.make_directory()?;
        let reply = client.start(env, start_args(session))?;
        if reply.success || reply.stderr.contains("duplicate session") {
            continue;
        }
        match client.failure("start-server", &reply) {
            // One that is going away was still in the way.
            err @ TmuxError::NoServer { .. } => last = Some(err),
            err => return Err(err),
        }
        wait_until_free(client, None)?;
    }
    match probe(client, None)? {
        Some(info) => Ok(info),
        None => Err(last.unwrap_or(TmuxError::NoServer { socket: client.endpoint.socket.clone() })),
    }
}

/// The server's options come before its first session, in the same call. The session's one pane
/// has no program left in it: it is only there to be attached to.
fn start_args(session: &str) -> Vec<String> {
    let size = format!("{WIDTH}x{HEIGHT}");
    let options: [(&str, &str, &str); 15] = [
        ("-s", "exit-empty", "off"),
        ("-s", "escape-time", "10"),
        ("-s", "focus-events", "off"),
        ("-s", "set-clipboard", "off"),
        ("-g", "default-shell", "/bin/sh"),
        ("-g", "default-command", ""),
        ("-g", "default-size", &size),
        ("-g", "destroy-unattached", "off"),
        ("-g", "history-limit", "5000"),
        ("-g", "update-environment", ""),
        ("-g", "allow-rename", "off"),
        ("-g", "automatic-rename", "off"),
        ("-g", "remain-on-exit", "on"),
        ("-g", "monitor-activity", "off"),
        // The note that a pane is dead would push the first row out of its last screen. It is
        // newer than the oldest version that is supported.
        ("-gq", "remain-on-exit-format", ""),
    ];
    let mut args = vec!["start-server".to_owned()];
    for (scope, name, value) in options {
        args.extend([";", "set-option", scope, name, value].map(str::to_owned));
    }
    args.push(";".to_owned());
    args.extend(["new-session", "-d", "-s", session, "-n", session].map(str::to_owned));
    args.extend(["-x", &WIDTH.to_string(), "-y", &HEIGHT.to_string(), "--"].map(str::to_owned));
    args.extend(IDLE_PROGRAM.map(str::to_owned));
    let target = format!("={session}:");
    args.extend([";", "set-option", "-w", "-t", &target, IDLE_MARK, "1"].map(str::to_owned));
    args
}

/// Marks the window that has no program, so that nobody is shown it once there is another.
pub(crate) const IDLE_MARK: &str = "@team_idle";

/// What is run in the pane of a session that is only there to be attached to.
pub(crate) const IDLE_PROGRAM: [&str; 3] = ["/bin/sh", "-c", "exit 0"];

/// Takes the server for an epoch, unless a higher one or another workspace has it.
pub(crate) fn claim(client: &Client, fence: &Fence) -> Result<()> {
    fence.check()?;
    let Fence { epoch, workspace } = fence;
    let not_higher = format!("#{{||:#{{==:#{{@team_epoch}},}},#{{e|<=:#{{@team_epoch}},{epoch}}}}}");
    let same = format!("#{{||:#{{==:#{{@team_workspace}},}},{}}}", equals("@team_workspace", workspace));
    let act = format!(
        "set-option -s @team_epoch {epoch} ; set-option -s @team_workspace {} ; display-message -p OK",
        quote(workspace)
    );
    let script = when(None, &all([not_higher, same]), &act, &report());
    let said = client.script("set-option", &script)?;
    expect_ok("set-option", said.trim_end_matches('\n'), fence)
}

fn report() -> String {
    format!("display-message -p {}", quote(STATE))
}

fn expect_ok(doing: &'static str, said: &str, fence: &Fence) -> Result<()> {
    if said == "OK" {
        return Ok(());
    }
    if let Some(state) = State::parse(said) {
        state.check_fence(fence)?;
    }
    Err(TmuxError::Unexpected { doing, text: said.to_owned() })
}

/// Ends the server if it is the expected process, and waits until its socket is free.
pub(crate) fn end(client: &Client, fence: &Fence, expect: &ServerInfo) -> Result<()> {
    client.detach();
    let Some(found) = probe(client, Some(expect))? else { return Ok(()) };
    if !found.is_same_process(expect) {
        return Err(TmuxError::OtherServer {
            socket: client.endpoint.socket.clone(),
            expected: expect.pid,
            found: found.pid,
        });
    }
    end_orphans(client);
    let mut conditions = Scope::Ours(fence).conditions();
    conditions.push(equals("pid", expect.pid));
    let script = when(None, &all(conditions), "display-message -p OK ; kill-server", &report());
    let reply = client.try_script("kill-server", &script)?;
    let said = reply.stdout.trim_end_matches('\n');
    // A server that ends may take its last words with it.
    if said != "OK" && !(said.is_empty() && client.failure("kill-server", &reply).is_no_server()) {
        let said = client.expect_success("kill-server", reply)?;
        expect_ok("kill-server", said.trim_end_matches('\n'), fence)?;
    }
    wait_until_free(client, Some(expect.pid))
}

/// Ends the clients of the kind that we attach: ours is gone, so these were left by somebody who was killed, and the
/// server would wait for them for ever.
fn end_orphans(client: &Client) {
    let format = "#{client_control_mode} #{client_flags} #{client_pid}";
    let Ok(listed) = client.run("list-clients", ["list-clients", "-F", format], None) else { return };
    for line in listed.lines() {
        let mut words = line.split(' ');
        let ours = words.next() == Some("1") && words.next().is_some_and(|it| it.contains("no-output"));
        let pid = words.next().and_then(|it| it.parse().ok()).filter(|_| ours);
        if let Some(pid) = pid {
            // Gone already is as good.
            let _ = process::signal(pid, Signal::SIGKILL);
        }
    }
}

/// Waits until nobody, or somebody else than this process, listens: before that a new server would
/// fail to start.
fn wait_until_free(client: &Client, pid: Option<u32>) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match look(&client.endpoint.socket)? {
            Socket::Refused | Socket::Absent => return Ok(()),
            Socket::Answers(found) if pid.is_some() && found.is_some() && found != pid => return Ok(()),
            // Nobody said that it should end: it may be somebody's new server.
            Socket::Answers(_) if pid.is_none() && identify(client).is_ok() => return Ok(()),
            Socket::Answers(_) if Instant::now() >= until => {
                return Err(TmuxError::TimedOut { doing: "kill-server", after: PATIENCE });
            }
            Socket::Answers(_) => thread::sleep(PAUSE),
        }
    }
}
