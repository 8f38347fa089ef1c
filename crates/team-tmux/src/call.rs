//! Runs one tmux process: the only place where one is started, so that each has our socket, our
//! environment and a deadline. Knows the command line, not what the commands mean.

use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::control::{ATTACH, Control, Done};
use crate::endpoint::Endpoint;
use crate::env::CleanEnv;
use crate::{Result, TmuxError};

/// Scripts longer than this go through a process of their own.
const SHORT: usize = 256 * 1024;

/// How long one call may take before it is given up.
const DEADLINE: Duration = Duration::from_secs(10);

/// The options that every tmux process of ours is run with.
///
/// UTF-8 whatever the locale, our socket whatever `$TMUX` says, and no configuration of the user's
/// in case this call should be the one that starts the server.
pub(crate) fn base_argv(endpoint: &Endpoint) -> Vec<OsString> {
    let mut argv: Vec<OsString> = vec![endpoint.tmux.clone().into(), "-u".into(), "-S".into()];
    argv.push(endpoint.socket.clone().into());
    argv.extend(["-f".into(), "/dev/null".into()]);
    argv
}

/// A way to run tmux on one endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) endpoint: Endpoint,
    env: CleanEnv,
    deadline: Duration,
    /// The attached client, where there is to be one.
    control: Option<Arc<Mutex<Option<Control>>>>,
}

/// What tmux said.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Whether nothing went wrong.
    pub(crate) success: bool,
    /// How the process ended, in words.
    ended: String,
}

impl Client {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, env: CleanEnv::of_this_process(), deadline: DEADLINE, control: None }
    }

    /// From now on keeps a client attached, by which short scripts cost no process.
    ///
    /// It is started with the first of them and has attached before that one is answered: 3.3a dies when a session
    /// begins or ends in the moment in which a control client is attaching, so nothing else may be under way then.
    pub(crate) fn stay_attached(&mut self) {
        self.control.get_or_insert_default();
    }

    /// Ends the attached client, if there is one; the next script starts another.
    pub(crate) fn detach(&self) {
        if let Some(control) = &self.control {
            control.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }

    /// Says whether a client is kept attached.
    pub(crate) fn is_attached(&self) -> bool {
        self.control.is_some()
    }

    fn attach(&self) -> Option<Control> {
        Control::open(self.command(ATTACH))
    }

    pub(crate) fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Builds a process that cannot start a server.
    pub(crate) fn command<I: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = I>) -> Command {
        let mut command = self.bare(&self.env);
        command.arg("-N").args(args);
        command
    }

    fn bare(&self, env: &CleanEnv) -> Command {
        let argv = base_argv(&self.endpoint);
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).env_clear().envs(env.iter()).current_dir("/");
        command
    }

    /// Runs a process that may start the server, which then keeps this environment.
    pub(crate) fn start<I: AsRef<OsStr>>(
        &self,
        env: &CleanEnv,
        args: impl IntoIterator<Item = I>,
    ) -> Result<Reply> {
        let mut command = self.bare(env);
        command.args(args);
        self.finish("start-server", command, None)
    }

    /// Runs commands given as arguments and expects success.
    pub(crate) fn run<I: AsRef<OsStr>>(
        &self,
        doing: &'static str,
        args: impl IntoIterator<Item = I>,
        stdin: Option<&[u8]>,
    ) -> Result<String> {
        let reply = self.finish(doing, self.command(args), stdin)?;
        self.expect_success(doing, reply)
    }

    /// Runs a script of commands, however long, without judging the outcome.
    pub(crate) fn try_script(&self, doing: &'static str, script: &str) -> Result<Reply> {
        self.finish(doing, self.command(["source-file", "-"]), Some(script.as_bytes()))
    }

    /// Runs a script of commands by the attached client, or else like [`Client::try_script`].
    pub(crate) fn quick_script(&self, doing: &'static str, script: &str) -> Result<Reply> {
        let Some(control) = self.control.as_ref().filter(|_| script.len() <= SHORT) else {
            return self.try_script(doing, script);
        };
        let mut control = control.lock().unwrap_or_else(PoisonError::into_inner);
        // One that was detached or whose session is gone is replaced once.
        for _ in 0..2 {
            if control.is_none() {
                *control = self.attach();
            }
            let Some(client) = control.as_mut() else { break };
            match client.run(script, Instant::now() + self.deadline) {
                Done::Answered { printed, errors } => {
                    return Ok(Reply {
                        stdout: String::from_utf8_lossy(&printed).into_owned(),
                        stderr: String::from_utf8_lossy(&errors).into_owned(),
                        success: errors.is_empty(),
                        ended: "no reason was given".to_owned(),
                    });
                }
                Done::Never => *control = None,
                Done::Lost => {
                    *control = None;
                    return Err(TmuxError::NoServer { socket: self.endpoint.socket.clone() });
                }
                Done::TooLate => {
                    *control = None;
                    return Err(TmuxError::TimedOut { doing, after: self.deadline });
                }
            }
        }
        drop(control);
        self.try_script(doing, script)
    }

    /// Runs a script of commands by the attached client and expects success.
    pub(crate) fn expect_quickly(&self, doing: &'static str, script: &str) -> Result<String> {
        let reply = self.quick_script(doing, script)?;
        self.expect_success(doing, reply)
    }

    /// Runs a script of commands and expects success.
    pub(crate) fn script(&self, doing: &'static str, script: &str) -> Result<String> {
        let reply = self.try_script(doing, script)?;
        self.expect_success(doing, reply)
    }

    pub(crate) fn expect_success(&self, doing: &'static str, reply: Reply) -> Result<String> {
        if reply.success { Ok(reply.stdout) } else { Err(self.failure(doing, &reply)) }
    }

    /// Turns an unsuccessful reply into an error with tmux's own words.
    pub(crate) fn failure(&self, doing: &'static str, reply: &Reply) -> TmuxError {
        let text = reply.stderr.trim();
        let text = if text.is_empty() { reply.stdout.trim() } else { text };
        if says_no_server(text) {
            return TmuxError::NoServer { socket: self.endpoint.socket.clone() };
        }
        let text = if text.is_empty() { reply.ended.clone() } else { text.to_owned() };
        TmuxError::Failed { doing, text }
    }

    fn finish(&self, doing: &'static str, mut command: Command, stdin: Option<&[u8]>) -> Result<Reply> {
        let program = || self.endpoint.tmux.clone();
        command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|source| match source.kind() {
            ErrorKind::NotFound => TmuxError::NoTmux { path: program().display().to_string() },
            _ => TmuxError::Spawn { program: program(), source },
        })?;
        let until = Instant::now() + self.deadline;
        let exchanged = exchange(&mut child, stdin.unwrap_or_default(), until);
        let finished = exchanged.and_then(|output| Ok((output, wait(&mut child, until)?)));
        match finished {
            Ok((Some((stdout, stderr)), Some(status))) => Ok(Reply {
                stdout: String::from_utf8_lossy(&stdout).into_owned(),
                stderr: String::from_utf8_lossy(&stderr).into_owned(),
                success: status.success(),
                ended: status.to_string(),
            }),
            Ok(_) => {
                end(&mut child);
                Err(TmuxError::TimedOut { doing, after: self.deadline })
            }
            Err(source) => {
                end(&mut child);
                Err(TmuxError::Spawn { program: program(), source })
            }
        }
    }
}

fn says_no_server(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    ["no server running on ", "error connecting to ", "lost server", "server exited"]
        .iter()
        .any(|start| first.starts_with(start))
}

/// Feeds the child and reads all it writes; `None` when the time is over.
fn exchange(child: &mut Child, stdin: &[u8], until: Instant) -> std::io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let mut input = Input::new(child.stdin.take(), stdin)?;
    let mut out = Collected::new(child.stdout.take());
    let mut err = Collected::new(child.stderr.take());
    while input.pipe.is_some() || out.pipe.is_some() || err.pipe.is_some() {
        let mut fds = Vec::with_capacity(3);
        let at_input = watch(&mut fds, input.pipe.as_ref(), PollFlags::POLLOUT);
        let at_out = watch(&mut fds, out.pipe.as_ref(), PollFlags::POLLIN);
        let at_err = watch(&mut fds, err.pipe.as_ref(), PollFlags::POLLIN);
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        // Rounded up, so that the last millisecond is not spent spinning.
        let timeout = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(err) => return Err(err.into()),
        }
        let is_ready = |at: Option<usize>| at.is_some_and(|at| fds[at].any().unwrap_or(true));
        let (ready_input, ready_out, ready_err) = (is_ready(at_input), is_ready(at_out), is_ready(at_err));
        if ready_input {
            input.write()?;
        }
        if ready_out {
            out.read()?;
        }
        if ready_err {
            err.read()?;
        }
    }
    Ok(Some((out.bytes, err.bytes)))
}

fn watch<'a>(fds: &mut Vec<PollFd<'a>>, pipe: Option<&'a impl AsFd>, flags: PollFlags) -> Option<usize> {
    let fd: BorrowedFd<'a> = pipe?.as_fd();
    fds.push(PollFd::new(fd, flags));
    Some(fds.len() - 1)
}

struct Input<'a> {
    pipe: Option<ChildStdin>,
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    fn new(pipe: Option<ChildStdin>, rest: &'a [u8]) -> std::io::Result<Self> {
        if let Some(pipe) = &pipe {
            fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        Ok(Self { pipe, rest })
    }

    fn write(&mut self) -> std::io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        if !self.rest.is_empty() {
            match pipe.write(self.rest) {
                Ok(count) => self.rest = &self.rest[count..],
                Err(err) if matches!(err.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                // It ended without reading everything; its exit status says why.
                Err(err) if err.kind() == ErrorKind::BrokenPipe => self.rest = &[],
                Err(err) => return Err(err),
            }
        }
        if self.rest.is_empty() {
            self.pipe = None;
        }
        Ok(())
    }
}

struct Collected<P> {
    pipe: Option<P>,
    bytes: Vec<u8>,
}

impl<P: Read> Collected<P> {
    fn new(pipe: Option<P>) -> Self {
        Self { pipe, bytes: Vec::new() }
    }

    fn read(&mut self) -> std::io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        let mut chunk = [0; 16 * 1024];
        match pipe.read(&mut chunk) {
            Ok(0) => self.pipe = None,
            Ok(count) => self.bytes.extend_from_slice(&chunk[..count]),
            Err(err) if matches!(err.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(err) => return Err(err),
        }
        Ok(())
    }
}

/// Waits for a child that has closed its output and so is about to end.
fn wait(child: &mut Child, until: Instant) -> std::io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(50);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

/// Ends a child that is no longer wanted. It is ours and at worst already gone.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}
