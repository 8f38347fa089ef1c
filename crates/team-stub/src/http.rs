//! As much of an HTTP/1.1 server as a program on loopback needs.
//!
//! Knows requests, replies and streams of server-sent events on one connection. Must not know what is asked.
//! Written here and not taken from a server crate because the tests turn on things those hide: each event is on
//! the wire when the call returns, and a peer that hangs up in the middle of a reply is noticed at once.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const MAX_HEAD: usize = 64 * 1024;
const MAX_BODY: usize = 256 * 1024 * 1024;

/// How often a pause looks whether the stub is being shut down.
const LOOK: Duration = Duration::from_millis(50);

/// One request, wholly read.
#[derive(Debug)]
pub struct HttpRequest {
    /// What is to be done: `GET` and the like.
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// What came with it.
    pub body: Vec<u8>,
}

impl HttpRequest {
    /// Returns the path without its query.
    pub fn path(&self) -> &str {
        self.target.split(['?', '#']).next().unwrap_or_default()
    }

    /// Returns the first header of that name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// One connection of a client.
#[derive(Debug)]
pub struct Connection<'a> {
    stream: TcpStream,
    /// Read, but not yet used.
    pending: Vec<u8>,
    closing: &'a AtomicBool,
    head_only: bool,
}

impl<'a> Connection<'a> {
    /// Takes a connection; it ends early once `closing` is set.
    pub fn new(stream: TcpStream, closing: &'a AtomicBool) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self { stream, pending: Vec::new(), closing, head_only: false })
    }

    /// Reads the next request, or `None` when the peer has closed the connection.
    pub fn next_request(&mut self) -> io::Result<Option<HttpRequest>> {
        self.stream.set_read_timeout(None)?;
        let head_len = loop {
            if let Some(end) = find(&self.pending, b"\r\n\r\n") {
                break end + 4;
            }
            if self.pending.len() > MAX_HEAD {
                return Err(invalid("the head is too long"));
            }
            if self.fill()? == 0 {
                return if self.pending.is_empty() { Ok(None) } else { Err(invalid("cut off in the head")) };
            }
        };
        let head: Vec<u8> = self.pending.drain(..head_len).collect();
        let mut request = parse_head(&head)?;
        self.head_only = request.method == "HEAD";
        if request.header("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue")) {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        request.body = if is_chunked(request.header("transfer-encoding")) {
            self.read_chunked()?
        } else if let Some(length) = request.header("content-length") {
            let length = length.trim().parse().map_err(|_| invalid("the content length is no number"))?;
            self.take(length)?
        } else {
            Vec::new()
        };
        Ok(Some(request))
    }

    /// Answers with a whole body.
    pub fn reply(&mut self, status: u16, headers: &[(&str, &str)], body: &[u8]) -> io::Result<()> {
        let head = head(status, headers);
        let mut bytes = format!("{head}content-length: {}\r\n\r\n", body.len()).into_bytes();
        if !self.head_only {
            bytes.extend_from_slice(body);
        }
        self.stream.write_all(&bytes)
    }

    /// Begins an answer that is a stream of server-sent events.
    pub fn events(&mut self, headers: &[(&str, &str)]) -> io::Result<Events<'_, 'a>> {
        let mut head = head(200, headers);
        head.push_str("content-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n");
        head.push_str("transfer-encoding: chunked\r\n\r\n");
        self.stream.write_all(head.as_bytes())?;
        Ok(Events { connection: self })
    }

    /// Waits, but fails as soon as the peer hangs up or the stub is shut down.
    pub fn pause(&mut self, time: Duration) -> io::Result<()> {
        let end = Instant::now() + time;
        loop {
            if self.closing.load(Ordering::SeqCst) {
                return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "the stub is shut down"));
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            self.stream.set_read_timeout(Some(left.min(LOOK)))?;
            match self.stream.peek(&mut [0]) {
                Ok(0) => return Err(io::Error::new(io::ErrorKind::ConnectionReset, "the peer has hung up")),
                // A client that already sends its next request: nothing more is to be learned by looking.
                Ok(_) => std::thread::sleep(left.min(LOOK)),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(count) => {
                    self.pending.extend_from_slice(&buffer[..count]);
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take(&mut self, length: usize) -> io::Result<Vec<u8>> {
        if length > MAX_BODY {
            return Err(invalid("the body is too long"));
        }
        while self.pending.len() < length {
            if self.fill()? == 0 {
                return Err(invalid("cut off in the body"));
            }
        }
        Ok(self.pending.drain(..length).collect())
    }

    fn take_line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = find(&self.pending, b"\r\n") {
                let line = self.pending.drain(..end + 2).take(end).collect();
                return String::from_utf8(line).map_err(|_| invalid("a chunk's head is no text"));
            }
            if self.pending.len() > MAX_HEAD || self.fill()? == 0 {
                return Err(invalid("cut off in a chunk's head"));
            }
        }
    }

    fn read_chunked(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.take_line()?;
            let size = line.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(size, 16).map_err(|_| invalid("a chunk's size is no number"))?;
            if size == 0 {
                while !self.take_line()?.is_empty() {}
                return Ok(body);
            }
            if body.len() + size > MAX_BODY {
                return Err(invalid("the body is too long"));
            }
            body.extend(self.take(size)?);
            self.take_line()?;
        }
    }
}

/// An answer under way, event by event.
#[derive(Debug)]
pub struct Events<'c, 'a> {
    connection: &'c mut Connection<'a>,
}

impl Events<'_, '_> {
    /// Writes one event, unnamed where the name is empty; it is on the wire when this returns.
    pub fn event(&mut self, name: &str, data: &str) -> io::Result<()> {
        let name = if name.is_empty() { String::new() } else { format!("event: {name}\n") };
        let event = format!("{name}data: {data}\n\n");
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        self.connection.stream.write_all(chunk.as_bytes())
    }

    /// See [`Connection::pause`].
    pub fn pause(&mut self, time: Duration) -> io::Result<()> {
        self.connection.pause(time)
    }

    /// Ends the stream.
    pub fn end(self) -> io::Result<()> {
        self.connection.stream.write_all(b"0\r\n\r\n")
    }
}

fn head(status: u16, headers: &[(&str, &str)]) -> String {
    let first = format!("HTTP/1.1 {status} {}", reason(status));
    let lines = headers.iter().map(|(name, value)| format!("{name}: {value}"));
    std::iter::once(first).chain(lines).flat_map(|line| [line, "\r\n".to_owned()]).collect()
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        404 => "Not Found",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        529 => "Overloaded",
        _ => "Status",
    }
}

fn parse_head(head: &[u8]) -> io::Result<HttpRequest> {
    let text = std::str::from_utf8(head).map_err(|_| invalid("the head is no text"))?;
    let mut lines = text.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next()) else {
        return Err(invalid("the request line is incomplete"));
    };
    if method.is_empty() || !version.starts_with("HTTP/1.") {
        return Err(invalid("not an HTTP/1 request"));
    }
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Ok(HttpRequest { method: method.to_owned(), target: target.to_owned(), headers, body: Vec::new() })
}

fn is_chunked(value: Option<&str>) -> bool {
    value.is_some_and(|value| value.to_ascii_lowercase().contains("chunked"))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
