//! A connection by HTTP: a stream of events, and requests beside it.
//!
//! Knows as much of HTTP/1.1 as a server on the loopback interface needs. Must not know what is asked or told.
//! Two threads do the reading and asking, so that there is one thing to wait on and nothing blocks the bridge.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

/// How long a server may take to be reached.
const CONNECT: Duration = Duration::from_secs(5);
/// How long it may take to open the stream of events. A request that comes while a server is beginning may stay
/// without an answer for ever: the next one is answered.
const OPEN: Duration = Duration::from_secs(3);
/// How long it may take to answer: one that has just begun loads a good deal first.
const ANSWER: Duration = Duration::from_secs(60);
/// The most that one line, and so one event, may hold.
const LINE: u64 = 256 << 20;

/// A connection that stands.
#[derive(Debug)]
pub(super) struct Http {
    /// Has something to read as soon as something came.
    woken: UnixStream,
    came: Receiver<Result<Value>>,
    requests: Sender<Value>,
    events: TcpStream,
}

impl Http {
    /// Opens the stream of events, and so proves that the server takes our password.
    pub(super) fn open(address: &str, path: &str, user: &str, password: &Path) -> Result<Self> {
        let address: SocketAddr = address.parse().map_err(Error::other)?;
        let password = std::fs::read_to_string(password)?;
        let authorization = format!("Basic {}", base64(format!("{user}:{}", password.trim()).as_bytes()));
        let server = Server { address, authorization };
        let (status, body, events) = server.request("GET", path, None, OPEN)?;
        if status != 200 {
            return Err(Error::other(format!("the server answers with status {status}")));
        }
        events.set_read_timeout(None)?;
        let (woken, wakes) = UnixStream::pair()?;
        woken.set_nonblocking(true)?;
        wakes.set_nonblocking(true)?;
        let (told, came) = channel();
        let reader = Teller { told: told.clone(), wakes: wakes.try_clone()? };
        thread::Builder::new().name("events".to_owned()).spawn(move || read_events(body, &reader))?;
        let (requests, asked) = channel::<Value>();
        let asker = Teller { told, wakes };
        thread::Builder::new().name("requests".to_owned()).spawn(move || {
            // In order, one after the other.
            while let Ok(request) = asked.recv() {
                asker.tell(Ok(server.ask(&request)));
            }
        })?;
        Ok(Self { woken, came, requests, events })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.woken.as_fd()
    }

    /// Sends a request; its answer comes as a frame.
    pub(super) fn send(&self, request: &Value) -> Result<()> {
        self.requests.send(request.clone()).map_err(|_| Error::from(ErrorKind::BrokenPipe))
    }

    /// Returns one frame, if one is there.
    pub(super) fn receive(&mut self) -> Result<Option<Value>> {
        // Emptied first: what comes from now on wakes us again.
        let mut sink = [0; 64];
        while matches!(self.woken.read(&mut sink), Ok(1..)) {}
        match self.came.try_recv() {
            Ok(frame) => frame.map(Some),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(Error::from(ErrorKind::ConnectionAborted)),
        }
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        // Ends the reading thread; the other one ends with its queue.
        let _ = self.events.shutdown(Shutdown::Both);
    }
}

/// The bridge's end of a thread.
struct Teller {
    told: Sender<Result<Value>>,
    wakes: UnixStream,
}

impl Teller {
    fn tell(&self, frame: Result<Value>) {
        let _ = self.told.send(frame);
        // Full is awake enough.
        let _ = (&self.wakes).write(&[1]);
    }
}

fn read_events(body: Body, teller: &Teller) {
    let mut lines = BufReader::new(body);
    let mut data = String::new();
    loop {
        let mut line = Vec::new();
        match lines.by_ref().take(LINE).read_until(b'\n', &mut line) {
            Ok(1..) => {}
            Ok(0) => return teller.tell(Err(Error::from(ErrorKind::UnexpectedEof))),
            Err(error) => return teller.tell(Err(error)),
        }
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches(['\n', '\r']);
        if let Some(text) = line.strip_prefix("data:") {
            data.push_str(text.strip_prefix(' ').unwrap_or(text));
            data.push('\n');
        } else if line.is_empty() {
            if let Ok(event) = serde_json::from_str::<Value>(&data) {
                teller.tell(Ok(json!({ "event": event })));
            }
            data.clear();
        }
    }
}

/// Where requests go.
struct Server {
    address: SocketAddr,
    authorization: String,
}

impl Server {
    /// Carries out a request; what goes wrong is told as status 0.
    fn ask(&self, request: &Value) -> Value {
        let text = |name: &str| request[name].as_str().unwrap_or_default();
        let answer = self.request(text("method"), text("path"), request.get("body"), ANSWER).and_then(|it| {
            let (status, mut body, _) = it;
            let mut bytes = Vec::new();
            body.read_to_end(&mut bytes)?;
            Ok((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
        });
        let (status, body) = answer.unwrap_or_else(|error| (0, json!(error.to_string())));
        json!({ "reply": request["tag"], "status": status, "body": body })
    }

    /// Sends a request and reads the head of the answer.
    fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        patience: Duration,
    ) -> Result<(u16, Body, TcpStream)> {
        let stream = TcpStream::connect_timeout(&self.address, CONNECT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let body = body.map(Value::to_string);
        let mut text = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: {}\r\naccept: */*\r\nconnection: close\r\n",
            self.address, self.authorization
        );
        if let Some(body) = &body {
            let length = body.len().to_string();
            text.extend(["content-type: application/json\r\ncontent-length: ", &length, "\r\n"]);
        }
        text.push_str("\r\n");
        text.push_str(body.as_deref().unwrap_or_default());
        (&stream).write_all(text.as_bytes())?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let (status, kind) = head(&mut reader)?;
        Ok((status, Body { reader, kind }, stream))
    }
}

/// How long a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// So many bytes more.
    Length(u64),
    /// Chunks; so many bytes of the present one are left, `None` before the first.
    Chunks(Option<u64>),
    /// All that comes.
    ToTheEnd,
}

/// Reads the head of an answer.
fn head(reader: &mut impl BufRead) -> Result<(u16, Kind)> {
    let first = line(reader)?;
    let status = first.split(' ').nth(1).and_then(|it| it.parse().ok()).ok_or_else(|| bad("a status"))?;
    let mut kind = if matches!(status, 204 | 304) { Kind::Length(0) } else { Kind::ToTheEnd };
    loop {
        let header = line(reader)?;
        let Some((name, value)) = header.split_once(':') else {
            return if header.is_empty() { Ok((status, kind)) } else { Err(bad("a header")) };
        };
        match name.to_ascii_lowercase().as_str() {
            "transfer-encoding" if value.to_ascii_lowercase().contains("chunked") => {
                kind = Kind::Chunks(None);
            }
            "content-length" if kind == Kind::ToTheEnd => {
                kind = Kind::Length(value.trim().parse().map_err(|_| bad("a length"))?);
            }
            _ => {}
        }
    }
}

fn line(reader: &mut impl BufRead) -> Result<String> {
    let mut line = Vec::new();
    if reader.by_ref().take(64 << 10).read_until(b'\n', &mut line)? == 0 {
        return Err(Error::from(ErrorKind::UnexpectedEof));
    }
    let line = line.strip_suffix(b"\n").ok_or_else(|| bad("the end of a line"))?;
    Ok(String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned())
}

fn bad(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, format!("the answer lacks {what}"))
}

/// The body of an answer, without what frames it.
struct Body<R = BufReader<TcpStream>> {
    reader: R,
    kind: Kind,
}

impl<R: BufRead> Read for Body<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let left = match self.kind {
            Kind::ToTheEnd => return self.reader.read(buffer),
            Kind::Length(left) | Kind::Chunks(Some(left @ 1..)) => left,
            Kind::Chunks(before) => {
                if before.is_some() {
                    line(&mut self.reader)?;
                }
                let size = line(&mut self.reader)?;
                let size = size.split(';').next().unwrap_or_default().trim();
                let size = u64::from_str_radix(size, 16).map_err(|_| bad("the size of a chunk"))?;
                if size == 0 {
                    self.kind = Kind::Length(0);
                    return Ok(0);
                }
                self.kind = Kind::Chunks(Some(size));
                size
            }
        };
        if left == 0 {
            return Ok(0);
        }
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.reader.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(Error::from(ErrorKind::UnexpectedEof));
        }
        let left = left - count as u64;
        self.kind =
            if matches!(self.kind, Kind::Length(_)) { Kind::Length(left) } else { Kind::Chunks(Some(left)) };
        Ok(count)
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let at = |index: usize| three.get(index).copied().map_or(0, u32::from);
        let number = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let digit = DIGITS[(number >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= three.len() { char::from(digit) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn base64_is_that_of_everybody() {
        for (text, code) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("opencode:p", "b3BlbmNvZGU6cA==")]
        {
            assert_eq!(base64(text.as_bytes()), code);
        }
    }

    #[test]
    fn a_body_is_read_in_each_of_its_forms() {
        let read = |text: &str| {
            let mut reader = BufReader::with_capacity(3, text.as_bytes());
            let (status, kind) = head(&mut reader)?;
            let mut out = String::new();
            Body { reader, kind }.read_to_string(&mut out).map(|_| (status, out))
        };
        let is = |text: &str, status, body: &str| assert_eq!(read(text).unwrap(), (status, body.to_owned()));
        is("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", 200, "abc");
        is("HTTP/1.1 404 No\r\n\r\nall of it", 404, "all of it");
        is("HTTP/1.1 204 No Content\r\n\r\n", 204, "");
        is(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n2;x\r\nef\r\n0\r\n\r\n",
            200,
            "abcdef",
        );
        for cut in ["HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nab", "HTTP/1.1 200 OK\r\n", "what?\r\n\r\n"]
        {
            assert!(read(cut).is_err(), "{cut}");
        }
    }

    #[test]
    fn events_and_answers_come_as_frames_and_an_end_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let password = dir.path().join("password");
        std::fs::write(&password, "p\n").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let accept = |answer: &str| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = String::new();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while !asked.ends_with("\r\n\r\n") {
                    reader.read_line(&mut asked).unwrap();
                }
                stream.write_all(answer.as_bytes()).unwrap();
                (asked, stream)
            };
            let (asked, events) = accept(
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10\r\ndata: {\"type\":1}\r\n2\r\n\n\n\r\n",
            );
            assert!(asked.contains("authorization: Basic dTpw\r\n"), "{asked}");
            accept("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n[]");
            events
        });
        let mut server = Some(server);
        let mut http = Http::open(&address.to_string(), "/event", "u", &password).unwrap();
        http.send(&json!({ "tag": 7, "method": "GET", "path": "/x" })).unwrap();
        let mut frames = Vec::new();
        let ended = loop {
            let mut fds = [nix::poll::PollFd::new(http.fd(), nix::poll::PollFlags::POLLIN)];
            nix::poll::poll(&mut fds, nix::poll::PollTimeout::from(10_000_u16)).unwrap();
            match http.receive() {
                Ok(Some(frame)) => frames.push(frame.to_string()),
                Ok(None) => {}
                Err(error) => break error,
            }
            while let Ok(Some(frame)) = http.receive() {
                frames.push(frame.to_string());
            }
            if frames.len() == 2
                && let Some(server) = server.take()
            {
                drop(server.join().unwrap());
            }
        };
        assert_eq!(ended.kind(), ErrorKind::UnexpectedEof);
        frames.sort();
        assert_eq!(frames, [r#"{"body":[],"reply":7,"status":200}"#, r#"{"event":{"type":1}}"#]);
    }
}
