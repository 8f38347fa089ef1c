//! Connections to the servers of programs.
//!
//! Knows bytes and frames. Must not know what they mean.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::http::Http;
use serde_json::Value;
use team_provider::Link;
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Message, WebSocket};

/// The most that one frame may hold: a whole conversation can come in one.
const FRAME: usize = 256 << 20;

/// A connection that stands.
#[derive(Debug)]
pub(super) enum Connection {
    /// See [`Link::WebSocket`].
    WebSocket(Box<WebSocket<UnixStream>>),
    /// See [`Link::Http`].
    Http(Http),
}

impl Connection {
    /// Connects, if somebody listens.
    pub(super) fn open(link: &Link) -> Result<Self> {
        match link {
            Link::WebSocket { socket } => web_socket(socket).map(|it| Self::WebSocket(Box::new(it))),
            Link::Http { address, events, user, password } => {
                Http::open(address, events, user, password).map(Self::Http)
            }
            _ => Err(Error::from(ErrorKind::Unsupported)),
        }
    }

    /// What to wait on.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::WebSocket(socket) => socket.get_ref().as_fd(),
            Self::Http(http) => http.fd(),
        }
    }

    /// Sends one frame; returns when it is on its way, or kept to be sent as soon as there is room.
    pub(super) fn send(&mut self, frame: &Value) -> Result<()> {
        match self {
            Self::WebSocket(socket) => match socket.write(Message::text(frame.to_string())) {
                Ok(()) => self.flush().map(|_| ()),
                Err(error) => Err(plain(error)),
            },
            Self::Http(http) => http.send(frame),
        }
    }

    /// Sends what is kept; says whether all of it went.
    pub(super) fn flush(&mut self) -> Result<bool> {
        match self {
            Self::WebSocket(socket) => match socket.flush() {
                Ok(()) => Ok(true),
                Err(error) => match plain(error) {
                    error if error.kind() == ErrorKind::WouldBlock => Ok(false),
                    error => Err(error),
                },
            },
            Self::Http(_) => Ok(true),
        }
    }

    /// Reads one frame, if one is there.
    pub(super) fn receive(&mut self) -> Result<Option<Value>> {
        match self {
            Self::WebSocket(socket) => loop {
                match socket.read() {
                    Ok(Message::Text(text)) => {
                        if let Ok(frame) = serde_json::from_str(text.as_str()) {
                            return Ok(Some(frame));
                        }
                    }
                    Ok(Message::Close(_)) => return Err(Error::from(ErrorKind::ConnectionAborted)),
                    Ok(_) => {}
                    Err(error) => {
                        let error = plain(error);
                        return if error.kind() == ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
                    }
                }
            },
            Self::Http(http) => http.receive(),
        }
    }
}

fn web_socket(path: &Path) -> Result<WebSocket<UnixStream>> {
    let stream = UnixStream::connect(path)?;
    // A server that listens answers at once; one that hangs must not hang us.
    stream.set_read_timeout(Some(std::time::Duration::from_secs(5)))?;
    let config = WebSocketConfig::default().max_message_size(Some(FRAME)).max_frame_size(Some(FRAME));
    let (socket, _) = tungstenite::client::client_with_config("ws://localhost/", stream, Some(config))
        .map_err(|error| match error {
            tungstenite::HandshakeError::Failure(error) => plain(error),
            tungstenite::HandshakeError::Interrupted(_) => Error::from(ErrorKind::TimedOut),
        })?;
    socket.get_ref().set_nonblocking(true)?;
    Ok(socket)
}

fn plain(error: tungstenite::Error) -> Error {
    match error {
        tungstenite::Error::Io(error) => error,
        other => Error::other(other.to_string()),
    }
}
