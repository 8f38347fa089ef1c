//! Child processes whose pipes never block the loop. Knows no hook, no server, no shell.

use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// Which of a child's pipes is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pipe {
    Stdin,
    Stdout,
    Stderr,
}

/// A running child with what it has written so far.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    to_write: Vec<u8>,
    keep_stdin: bool,
    pub(crate) out: Vec<u8>,
    pub(crate) err: Vec<u8>,
}

/// How a child is started.
#[derive(Debug, Clone)]
pub(crate) struct Start<'a> {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
    /// Start from an empty environment.
    pub(crate) scrub: bool,
    pub(crate) cwd: &'a Path,
    /// Leave standard input open after `input` is written.
    pub(crate) keep_stdin: bool,
    pub(crate) input: Vec<u8>,
}

impl Process {
    /// Starts a program in a process group of its own.
    pub(crate) fn start(start: Start<'_>) -> io::Result<Self> {
        let Some((program, rest)) = start.argv.split_first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "empty command"));
        };
        let mut command = Command::new(OsStr::new(program));
        command.args(rest).process_group(0);
        // A folder that was moved meanwhile is still the one this process is in.
        if start.cwd.is_dir() {
            command.current_dir(start.cwd);
        }
        if start.scrub {
            command.env_clear();
        }
        command.envs(start.env).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let mut process = Self {
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            child,
            to_write: start.input,
            keep_stdin: start.keep_stdin,
            out: Vec::new(),
            err: Vec::new(),
        };
        for pipe in [Pipe::Stdin, Pipe::Stdout, Pipe::Stderr] {
            if let Some(fd) = process.fd(pipe) {
                fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
            }
        }
        process.flush();
        Ok(process)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the descriptor of a pipe that is still open.
    pub(crate) fn fd(&self, pipe: Pipe) -> Option<BorrowedFd<'_>> {
        match pipe {
            Pipe::Stdin => self.stdin.as_ref().map(AsFd::as_fd),
            Pipe::Stdout => self.stdout.as_ref().map(AsFd::as_fd),
            Pipe::Stderr => self.stderr.as_ref().map(AsFd::as_fd),
        }
    }

    /// Tells whether the pipe should be polled now.
    pub(crate) fn wants(&self, pipe: Pipe) -> bool {
        pipe != Pipe::Stdin || !self.to_write.is_empty()
    }

    /// Queues bytes for standard input; tells whether the pipe is still open.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> bool {
        self.to_write.extend_from_slice(bytes);
        self.flush();
        self.stdin.is_some()
    }

    /// Moves what can be moved through a pipe that poll reported.
    pub(crate) fn service(&mut self, pipe: Pipe) {
        match pipe {
            Pipe::Stdin => self.flush(),
            Pipe::Stdout => drain(&mut self.stdout, &mut self.out),
            Pipe::Stderr => drain(&mut self.stderr, &mut self.err),
        }
    }

    fn flush(&mut self) {
        while let Some(stdin) = &mut self.stdin {
            if self.to_write.is_empty() {
                if !self.keep_stdin {
                    self.stdin = None;
                }
                return;
            }
            match stdin.write(&self.to_write) {
                Ok(count) => drop(self.to_write.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.to_write.clear();
                    self.stdin = None;
                }
            }
        }
    }

    /// Returns the exit code once the process has ended, having read what it left in its pipes.
    pub(crate) fn try_wait(&mut self) -> Option<i32> {
        let status = self.child.try_wait().ok()??;
        self.service(Pipe::Stdout);
        self.service(Pipe::Stderr);
        Some(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
    }

    /// Signals the child's process group.
    pub(crate) fn signal_group(&self, signal: Signal) {
        let _ = killpg(self.raw_pid(), signal);
    }

    /// Signals the child alone.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill(self.raw_pid(), signal);
    }

    fn raw_pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap_or(i32::MAX))
    }
}

fn drain(source: &mut Option<impl Read>, into: &mut Vec<u8>) {
    let mut chunk = [0; 16 * 1024];
    while let Some(open) = source {
        match open.read(&mut chunk) {
            Ok(0) => *source = None,
            Ok(count) => into.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => *source = None,
        }
    }
}
