//! A model that says what the test tells it to: an HTTP server on loopback that plays the model's service.
//!
//! Knows how requests reach a protocol module and how they are recorded and waited for. Must not know how a
//! protocol looks on the wire (one module each, listed in `ROUTES`), nor anything of teams.
//!
//! A test scripts it by lines in the messages an agent gets:
//!
//! ```text
//! stub: say TEXT             says TEXT
//! stub: call TOOL {json}     calls a tool; the next line is carried out when its result has come
//! stub: bash COMMAND         calls the program's own shell tool
//! stub: ask COMMAND          the same, in such a way that the program asks for permission
//! stub: think MS             does nothing for a while
//! stub: slow MS [TEXT]       says TEXT spread over a time
//! stub: recall N             says the user text N places before this one
//! stub: error STATUS          refuses the request and each retry, until something more is said
//! stub: error STATUS SECONDS  refuses the request once, with `retry-after: SECONDS`; with 429 and the Responses
//!                             API this is the limit of a plan, which resets after as long
//! ```
//!
//! A text without such a line is answered with `ok`.

mod anthropic;
mod chat;
mod gemini;
pub mod http;
mod openai;
mod script;

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use http::{Connection, HttpRequest};
use script::{Act, Directive};

/// What a request asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The next reply of a conversation.
    Turn,
    /// A title, a summary or the like, asked by the program itself. Takes no directive.
    Side,
    /// A count of tokens.
    Count,
    /// Whether anybody is there.
    Probe,
    /// Something the stub knows nothing of and answered with an empty object.
    Other,
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The HTTP status of the answer.
    pub status: u16,
    /// The texts said, joined.
    pub said: String,
    /// The names of the tools called.
    pub called: Vec<String>,
    /// Whether the answer went out to its end; if not, the program hung up.
    pub finished: bool,
}

/// One request as the stub saw it.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// Its position among all requests, from 1.
    pub number: usize,
    /// What it asked for.
    pub kind: Kind,
    /// The HTTP method.
    pub method: String,
    /// The path with its query.
    pub target: String,
    /// The headers, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// The conversation's id, if the program sent one.
    pub session: Option<String>,
    /// The model asked for.
    pub model: Option<String>,
    /// The system prompt, its parts joined.
    pub system: String,
    /// What was said to the model since it last said something itself, without tool results.
    pub texts: Vec<String>,
    /// The names of the tools offered.
    pub tools: Vec<String>,
    /// The whole body, or null if it was not JSON.
    pub body: Arc<Value>,
    /// What became of it; `None` while the answer is under way.
    pub outcome: Option<Outcome>,
}

impl Request {
    /// Tells whether what was said to the model since its last reply contains `text`.
    pub fn says(&self, text: &str) -> bool {
        self.texts.iter().any(|it| it.contains(text))
    }

    /// Returns the record without headers and body, for people and logs.
    pub fn to_json(&self) -> Value {
        let outcome = self.outcome.as_ref().map(|it| {
            json!({ "status": it.status, "said": it.said, "called": it.called, "finished": it.finished })
        });
        json!({
            "number": self.number,
            "kind": format!("{:?}", self.kind).to_lowercase(),
            "method": self.method,
            "target": self.target,
            "session": self.session,
            "model": self.model,
            "texts": self.texts,
            "tools": self.tools,
            "outcome": outcome,
        })
    }

    /// Tells whether a tool of that name was offered.
    pub fn offers(&self, tool: &str) -> bool {
        self.tools.iter().any(|it| it == tool)
    }
}

/// A request that was waited for did not come.
#[derive(Debug, thiserror::Error)]
#[error("no such request within {waited:?}; seen: {seen}")]
pub struct NotSeen {
    waited: Duration,
    seen: String,
}

/// A running stub; dropping it hangs up on everybody.
#[derive(Debug)]
pub struct ModelStub {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

impl ModelStub {
    /// Starts a stub on a free port of the loopback interface.
    pub fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let accepting = std::thread::Builder::new().name("model-stub".to_owned()).spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        })?;
        Ok(Self { address, shared, accepting: Some(accepting) })
    }

    /// Returns the base URL to give to a program.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns every request so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// Returns every request so far that asked for the next reply of a conversation.
    pub fn turns(&self) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.kind == Kind::Turn).collect()
    }

    /// Waits for a request, past or to come, of which `wanted` is true. It is asked again when an answer ends.
    pub fn wait_for(
        &self,
        wanted: impl Fn(&Request) -> bool,
        deadline: Duration,
    ) -> Result<Request, NotSeen> {
        let end = Instant::now() + deadline;
        let mut log = self.shared.lock();
        loop {
            if let Some(found) = log.requests.iter().find(|request| wanted(request)) {
                return Ok(found.clone());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NotSeen { waited: deadline, seen: summary(&log.requests) });
            }
            log = self.shared.changed.wait_timeout(log, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for ModelStub {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        for stream in self.shared.lock().streams.values() {
            // Closed already is as good.
            stream.shutdown(Shutdown::Both).ok();
        }
        // Wakes the accepting thread, which then sees that the stub is closing.
        TcpStream::connect(self.address).ok();
        if let Some(thread) = self.accepting.take() {
            thread.join().ok();
        }
    }
}

/// What all connections share.
#[derive(Debug, Default)]
struct Shared {
    log: Mutex<Log>,
    changed: Condvar,
    closing: AtomicBool,
    connections: AtomicU64,
}

#[derive(Debug, Default)]
struct Log {
    requests: Vec<Request>,
    /// Refusals made, by session, position and wording, with the conversation's length at the time.
    refused: BTreeMap<(Option<String>, usize, String), usize>,
    streams: BTreeMap<u64, TcpStream>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a request and returns its number.
    fn arrived(&self, mut request: Request) -> usize {
        let mut log = self.lock();
        let number = log.requests.len() + 1;
        request.number = number;
        log.requests.push(request);
        drop(log);
        self.changed.notify_all();
        number
    }

    fn answered(&self, number: usize, outcome: Outcome) {
        if let Some(request) = self.lock().requests.get_mut(number - 1) {
            request.outcome = Some(outcome);
        }
        self.changed.notify_all();
    }

    /// Tells whether a refusal was made and is over.
    fn has_refused(&self, session: Option<&str>, act: &Act, length: usize) -> bool {
        let Directive::Error { retry_after, .. } = act.directive else { return false };
        let before = self.lock().refused.get(&refusal_key(session, act)).copied();
        before.is_some_and(|before| retry_after.is_some() || length > before)
    }

    fn refuse(&self, session: Option<&str>, act: &Act, length: usize) {
        self.lock().refused.insert(refusal_key(session, act), length);
    }
}

fn refusal_key(session: Option<&str>, act: &Act) -> (Option<String>, usize, String) {
    (session.map(str::to_owned), act.position, format!("{:?}", act.directive))
}

/// Answers one request; an error means that the connection is of no more use.
type Answer = fn(&Shared, &HttpRequest, &mut Connection<'_>) -> io::Result<()>;

/// What is asked where; a `*` at the end stands for anything. A further protocol is a further module and its lines here.
const ROUTES: &[(&str, &str, Answer)] = &[
    ("POST", "/v1/messages", anthropic::messages),
    ("POST", "/v1/messages/count_tokens", anthropic::count_tokens),
    ("POST", "/v1/responses", openai::responses),
    ("GET", "/backend-api/*", openai::around),
    ("POST", "/backend-api/*", openai::around),
    ("POST", "/v1beta/models/*", gemini::models),
    ("POST", "/v1/chat/completions", chat::completions),
];

/// Tells whether a route's path is that of a request.
fn leads(route: &str, path: &str) -> bool {
    route.strip_suffix('*').map_or(route == path, |start| path.starts_with(start))
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut serving: Vec<JoinHandle<()>> = Vec::new();
    for stream in listener.incoming() {
        if shared.closing.load(Ordering::SeqCst) {
            break;
        }
        let Ok(stream) = stream else { continue };
        let id = shared.connections.fetch_add(1, Ordering::SeqCst);
        if let Ok(copy) = stream.try_clone() {
            shared.lock().streams.insert(id, copy);
        }
        let thread = std::thread::Builder::new().name(format!("model-stub-{id}")).spawn({
            let shared = Arc::clone(shared);
            move || {
                // A client that breaks off is an everyday event; what it got is in the request's outcome.
                serve(&shared, stream).ok();
                shared.lock().streams.remove(&id);
            }
        });
        serving.retain(|thread| !thread.is_finished());
        serving.extend(thread);
    }
    for stream in shared.lock().streams.values() {
        stream.shutdown(Shutdown::Both).ok();
    }
    for thread in serving {
        thread.join().ok();
    }
}

fn serve(shared: &Shared, stream: TcpStream) -> io::Result<()> {
    let mut connection = Connection::new(stream, &shared.closing)?;
    while let Some(request) = connection.next_request()? {
        let route =
            ROUTES.iter().find(|(method, path, _)| *method == request.method && leads(path, request.path()));
        match route {
            Some((_, _, answer)) => answer(shared, &request, &mut connection)?,
            None => harmless(shared, &request, &mut connection)?,
        }
        if request.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            break;
        }
    }
    Ok(())
}

/// Answers what no route knows: probes, telemetry, settings from afar.
fn harmless(shared: &Shared, request: &HttpRequest, connection: &mut Connection<'_>) -> io::Result<()> {
    let kind = if request.method == "HEAD" { Kind::Probe } else { Kind::Other };
    let number = shared.arrived(record(request, kind));
    let sent = connection.reply(200, &[("content-type", "application/json")], b"{}");
    let outcome = Outcome { status: 200, said: String::new(), called: Vec::new(), finished: sent.is_ok() };
    shared.answered(number, outcome);
    sent
}

/// Makes the protocol-independent part of a record; modules fill in the rest.
fn record(request: &HttpRequest, kind: Kind) -> Request {
    Request {
        number: 0,
        kind,
        method: request.method.clone(),
        target: request.target.clone(),
        headers: request.headers.iter().cloned().collect(),
        session: None,
        model: None,
        system: String::new(),
        texts: Vec::new(),
        tools: Vec::new(),
        body: Arc::new(serde_json::from_slice(&request.body).unwrap_or(Value::Null)),
        outcome: None,
    }
}

/// In how many pieces a text is said slowly.
const SLOW_PIECES: usize = 10;

/// Cuts a text into the pieces in which it is said slowly.
fn pieces(text: &str) -> Vec<&str> {
    let characters: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let size = characters.len().div_ceil(SLOW_PIECES).max(1);
    let mut starts: Vec<usize> = characters.into_iter().step_by(size).collect();
    starts.push(text.len());
    starts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect()
}

fn summary(requests: &[Request]) -> String {
    if requests.is_empty() {
        return "nothing".to_owned();
    }
    let lines: Vec<String> = requests
        .iter()
        .map(|it| {
            let text: String =
                it.texts.last().map(|text| text.chars().take(120).collect()).unwrap_or_default();
            let end = if it.outcome.is_some() { "answered" } else { "open" };
            format!("\n  {} {:?} {} {} {end}: {text:?}", it.number, it.kind, it.method, it.target)
        })
        .collect();
    lines.concat()
}

#[cfg(test)]
mod tests;
