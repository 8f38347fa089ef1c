//! JSON in the text frames of a WebSocket over a socket in the file system, from both ends. Knows no method.

use std::io::{self, Error, ErrorKind};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::Value;
use tungstenite::{Message, WebSocket};

/// How long the other side may take to say hello.
const HELLO: Duration = Duration::from_secs(5);

/// One connection.
#[derive(Debug)]
pub(super) struct Peer {
    socket: WebSocket<UnixStream>,
    /// Something is still to be sent.
    unsent: bool,
    pub(super) gone: bool,
}

impl Peer {
    /// Answers somebody who has connected.
    pub(super) fn accept(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(HELLO))?;
        Self::new(tungstenite::accept(stream).map_err(|error| Error::other(error.to_string()))?)
    }

    /// Connects to a server.
    pub(super) fn connect(path: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(HELLO))?;
        let hello = tungstenite::client("ws://localhost/", stream);
        Self::new(hello.map_err(|error| Error::other(error.to_string()))?.0)
    }

    fn new(socket: WebSocket<UnixStream>) -> io::Result<Self> {
        socket.get_ref().set_nonblocking(true)?;
        Ok(Self { socket, unsent: false, gone: false })
    }

    /// What to wait on, and for what.
    pub(super) fn waits(&self) -> PollFd<'_> {
        let out = if self.unsent { PollFlags::POLLOUT } else { PollFlags::empty() };
        PollFd::new(self.socket.get_ref().as_fd(), PollFlags::POLLIN | out)
    }

    pub(super) fn send(&mut self, frame: &Value) {
        match self.socket.write(Message::text(frame.to_string())) {
            Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.gone = true,
            Ok(()) => {}
        }
        self.flush();
    }

    pub(super) fn flush(&mut self) {
        self.unsent = match self.socket.flush() {
            Ok(()) => false,
            Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => true,
            Err(_) => {
                self.gone = true;
                false
            }
        };
    }

    /// Returns everything that has come.
    pub(super) fn receive(&mut self) -> Vec<Value> {
        let mut frames = Vec::new();
        loop {
            match self.socket.read() {
                Ok(Message::Text(text)) => frames.extend(serde_json::from_str::<Value>(text.as_str())),
                Ok(Message::Close(_)) => self.gone = true,
                Ok(_) => {}
                Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::WouldBlock => return frames,
                Err(_) => {
                    self.gone = true;
                    return frames;
                }
            }
        }
    }
}

/// Sleeps until something can be read or written, or the moment has come.
pub(super) fn sleep(fds: &mut [PollFd<'_>], until: Option<Instant>) {
    let timeout = until.map_or(PollTimeout::NONE, |it| {
        let left = it.saturating_duration_since(Instant::now());
        // One more, so that the moment has come when poll returns.
        PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
    });
    let _ = poll(fds, timeout);
}
