//! Learns of a server's end the moment it happens, without asking. One idle client of its own
//! session; knows no pane.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::call::Client;
use crate::endpoint::Endpoint;
use crate::panes::check_session_name;
use crate::server::IDLE_PROGRAM;
use crate::{Result, TmuxError};

/// A client that lives as long as the server does.
///
/// Its descriptor becomes readable when the client ends: because the server has ended, or because
/// somebody has detached it or closed its session. [`Terminal::probe`](crate::Terminal::probe) tells these apart.
#[derive(Debug)]
pub struct ServerWatch {
    child: Child,
    stderr: ChildStderr,
}

/// What the client said when it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchEnd {
    /// Its last words; often none.
    pub text: String,
}

impl ServerWatch {
    /// Attaches to the session the server was started with, making it again if it has gone.
    ///
    /// No output is delivered to the client, and it neither types nor counts for any size, so there
    /// is nothing to drain and nothing it disturbs.
    pub fn open(endpoint: &Endpoint, session: &str) -> Result<Self> {
        check_session_name(session)?;
        let client = Client::new(endpoint.clone());
        let flags = "no-output,ignore-size,read-only";
        let attach = ["-C", "new-session", "-A", "-s", session, "-f", flags, "--"];
        let mut command = client.command(attach.into_iter().chain(IDLE_PROGRAM));
        // The server writes to the client's output, never to its error output, which therefore
        // closes exactly when the client ends.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let spawned = command.spawn();
        let mut child =
            spawned.map_err(|source| TmuxError::Spawn { program: endpoint.tmux.clone(), source })?;
        match child.stderr.take() {
            Some(stderr) => Ok(Self { child, stderr }),
            None => {
                Err(TmuxError::Unexpected { doing: "attach-session", text: "no error output".to_owned() })
            }
        }
    }

    /// Waits until the client ends or the time is over, in which case it returns `None`.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<Option<WatchEnd>> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let mut text = Vec::new();
        let failed =
            |source: std::io::Error| TmuxError::Io { doing: "wait for", path: "tmux".into(), source };
        loop {
            let left = until.map_or(PollTimeout::NONE, |until| {
                let left = until.saturating_duration_since(Instant::now());
                PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
            });
            match poll(&mut [PollFd::new(self.stderr.as_fd(), PollFlags::POLLIN)], left) {
                Ok(0) => return Ok(None),
                Err(Errno::EINTR) => {}
                Err(err) => return Err(failed(err.into())),
                Ok(_) => {
                    let mut chunk = [0; 1024];
                    match self.stderr.read(&mut chunk).map_err(failed)? {
                        0 => {
                            return Ok(Some(WatchEnd {
                                text: String::from_utf8_lossy(&text).trim().to_owned(),
                            }));
                        }
                        count => text.extend_from_slice(&chunk[..count]),
                    }
                }
            }
        }
    }
}

impl AsFd for ServerWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stderr.as_fd()
    }
}

impl Drop for ServerWatch {
    fn drop(&mut self) {
        // The end of its input ends the client; the signal is for one that hangs.
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
