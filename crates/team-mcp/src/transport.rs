//! Messages in and out, one per line.
//!
//! Knows rmcp's messages and two threads: one that reads and waits for the client's end, one that writes. Must not
//! know what a message is about, but for three things: what cannot be understood is answered or skipped and ends
//! nothing; the one method of a later protocol that clients try first is unknown here; and the backend hears of a
//! list of tools once it was written.

use std::{
    io::{self, Read, Write},
    os::fd::AsFd,
    sync::{Arc, mpsc},
    thread,
};

use rmcp::{
    RoleServer,
    model::{
        ClientJsonRpcMessage, ClientRequest, CustomRequest, ErrorData, JsonRpcMessage, RequestId,
        ServerJsonRpcMessage, ServerResult,
    },
    transport::Transport,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{mpsc as queue, oneshot};

use crate::{
    Backend,
    lines::{Line, Lines},
    process::{self, Parent, Wake},
};

/// A body of 1 MiB takes at most six times that as JSON; what is larger is still read, to be refused in words.
const LONGEST_LINE: usize = 32 << 20;

/// How many messages may wait to be handled before reading stops.
const WAITING: usize = 64;

/// The two ends of the connection, with their threads.
pub(crate) struct Lanes {
    incoming: queue::Receiver<ClientJsonRpcMessage>,
    outgoing: mpsc::Sender<Outgoing>,
    backend: Arc<dyn Backend>,
}

struct Outgoing {
    line: Vec<u8>,
    written: oneshot::Sender<io::Result<()>>,
}

impl Lanes {
    /// Starts both threads.
    pub(crate) fn open(
        input: impl Read + AsFd + Send + 'static,
        output: impl Write + Send + 'static,
        parent: Option<Parent>,
        backend: Arc<dyn Backend>,
    ) -> io::Result<Self> {
        const STACK: usize = 256 << 10;
        let (received, incoming) = queue::channel(WAITING);
        let (outgoing, to_write) = mpsc::channel();
        let replies = outgoing.clone();
        let named = |name: &str| thread::Builder::new().name(name.to_owned()).stack_size(STACK);
        named("mcp-write").spawn(move || write_all(output, &to_write))?;
        named("mcp-read").spawn(move || read_all(input, parent.as_ref(), &received, &replies))?;
        Ok(Self { incoming, outgoing, backend })
    }
}

impl Transport<RoleServer> for Lanes {
    type Error = io::Error;

    fn send(&mut self, item: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let lists = matches!(&item, JsonRpcMessage::Response(it) if matches!(it.result, ServerResult::ListToolsResult(_)));
        let queued = enqueue(&self.outgoing, &item);
        let backend = lists.then(|| Arc::clone(&self.backend));
        async move {
            queued?.await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))??;
            if let Some(backend) = backend {
                // Nothing waits for it, and a panic in it stays in its thread.
                tokio::task::spawn_blocking(move || backend.listed());
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        self.incoming.recv().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.incoming.close();
        Ok(())
    }
}

fn enqueue(
    outgoing: &mpsc::Sender<Outgoing>,
    message: &ServerJsonRpcMessage,
) -> io::Result<oneshot::Receiver<io::Result<()>>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let (written, done) = oneshot::channel();
    outgoing.send(Outgoing { line, written }).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
    Ok(done)
}

/// Goes on after an error: a client that stopped reading may still send calls that count.
fn write_all(mut output: impl Write, to_write: &mpsc::Receiver<Outgoing>) {
    for Outgoing { line, written } in to_write {
        let result = output.write_all(&line).and_then(|()| output.flush());
        // The sender may have stopped waiting.
        let _ = written.send(result);
    }
}

/// Ends when the input ends or its writer is gone, and by ending closes the queue.
fn read_all(
    mut input: impl Read + AsFd,
    parent: Option<&Parent>,
    received: &queue::Sender<ClientJsonRpcMessage>,
    replies: &mpsc::Sender<Outgoing>,
) {
    let mut lines = Lines::new(LONGEST_LINE);
    let mut buffer = vec![0; 16 << 10];
    while let Ok(Wake::Readable) = process::wait(&input, parent) {
        let count = match input.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                continue;
            }
            Err(_) => break,
        };
        for line in lines.take(&buffer[..count]) {
            if !handle(line, received, replies) {
                return;
            }
        }
    }
    if let Some(rest) = lines.rest() {
        handle(Line::Whole(rest), received, replies);
    }
}

/// Returns whether anybody still listens.
fn handle(
    line: Line,
    received: &queue::Sender<ClientJsonRpcMessage>,
    replies: &mpsc::Sender<Outgoing>,
) -> bool {
    let (id, error) = match line {
        Line::Whole(line) => match parse(&line) {
            Parsed::Message(message) => return received.blocking_send(*message).is_ok(),
            Parsed::Nothing => return true,
            Parsed::Wrong { id, error } => (id, error),
        },
        Line::TooLong => (None, ErrorData::invalid_request("the line is too long", None)),
    };
    // Whoever does not read errors needs none.
    let _ = enqueue(replies, &ServerJsonRpcMessage::error(error, id));
    true
}

enum Parsed {
    Message(Box<ClientJsonRpcMessage>),
    /// Nothing that anybody waits for an answer to.
    Nothing,
    Wrong {
        id: Option<RequestId>,
        error: ErrorData,
    },
}

/// What tells whether somebody waits for an answer.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    id: Value,
    method: Option<String>,
}

fn parse(line: &[u8]) -> Parsed {
    const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    if let Ok(message) = serde_json::from_slice(line) {
        return Parsed::Message(Box::new(without_discovery(message)));
    }
    // Other servers skip what is no request at all too: two peers that answer each other's noise never stop.
    let Ok(Head { id, method: Some(_) }) = serde_json::from_slice(line) else { return Parsed::Nothing };
    if id.is_null() {
        return Parsed::Nothing;
    }
    let id = serde_json::from_value(id).ok();
    Parsed::Wrong { id, error: ErrorData::invalid_request("the request cannot be understood", None) }
}

/// Makes a request of the protocol without `initialize` one of an unknown method.
///
/// Clients that try it first then begin with `initialize`, which is the way that was seen to work with all of them.
fn without_discovery(message: ClientJsonRpcMessage) -> ClientJsonRpcMessage {
    match message {
        JsonRpcMessage::Request(mut request) => {
            if let ClientRequest::DiscoverRequest(_) = request.request {
                request.request = ClientRequest::CustomRequest(CustomRequest::new("server/discover", None));
            }
            JsonRpcMessage::Request(request)
        }
        other => other,
    }
}
