//! The program's HTTP server: who may ask, which path means what.
//!
//! Knows requests and answers; each connection has a thread. Must not know turns: what is to be done goes over the wire,
//! and everything that is answered stands in the book.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};
use team_stub::http::{Connection, HttpRequest};

use super::book::{Book, Took};
use crate::clothes::{Outside, Wire};

/// Set by nobody: the server lives as long as the process.
static CLOSING: AtomicBool = AtomicBool::new(false);
const JSON: (&str, &str) = ("content-type", "application/json");

/// What a server answers from.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) book: Arc<Book>,
    pub(crate) wire: Wire,
    pub(crate) version: String,
    /// What the header `authorization` must hold.
    pub(crate) login: Option<String>,
    /// Set when the interrupt that follows is a no without words.
    pub(crate) rejected: Arc<AtomicBool>,
}

/// The header of somebody who knows the password.
pub(crate) fn login(password: &str) -> String {
    format!("Basic {}", base64(format!("opencode:{password}").as_bytes()))
}

/// Answers whoever connects, for as long as the process lives.
pub(crate) fn start(listener: TcpListener, server: Server) {
    let server = Arc::new(server);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let server = Arc::clone(&server);
            // A peer that hangs up is nobody's trouble.
            thread::spawn(move || drop(server.serve(stream)));
        }
    });
}

impl Server {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let mut connection = Connection::new(stream, &CLOSING)?;
        while let Some(request) = connection.next_request()? {
            if self.login.is_some() && request.header("authorization") != self.login.as_deref() {
                connection.reply(401, &[], b"")?;
            } else if request.method == "GET" && request.path() == "/event" {
                let events = self.book.listen();
                let mut stream = connection.events(&[])?;
                for event in events {
                    stream.event("", &event)?;
                }
                return Ok(());
            } else {
                match self.answer(&request) {
                    Some(Value::Null) => connection.reply(204, &[], b"")?,
                    Some(answer) => connection.reply(200, &[JSON], answer.to_string().as_bytes())?,
                    None => connection.reply(404, &[JSON], br#"{"name":"NotFoundError","data":{}}"#)?,
                }
            }
        }
        Ok(())
    }

    /// Answers a request; `Null` is an answer without a body.
    fn answer(&self, request: &HttpRequest) -> Option<Value> {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let book = &self.book;
        let path: Vec<&str> = request.path().split('/').skip(1).collect();
        Some(match (request.method.as_str(), path.as_slice()) {
            ("GET", ["global", "health"]) => json!({"healthy": true, "version": self.version}),
            ("POST", ["session"]) => book.create(body["title"].as_str()),
            ("GET", ["session", "status"]) => book.statuses(),
            ("GET", ["session", id]) => book.session(id)?,
            ("GET", ["session", id, "message"]) => book.messages(id)?.into(),
            ("GET", ["session", id, "message", message]) => {
                book.messages(id)?.into_iter().find(|it| it["info"]["id"] == *message)?
            }
            ("POST", ["session", id, "prompt_async"]) => {
                if let Took::New { id, text } = book.prompt(id, &body)? {
                    self.wire.send(Outside::Submit { text, id: Some(id) });
                }
                Value::Null
            }
            ("POST", ["session", id, "abort"]) => {
                book.session(id)?;
                self.wire.send(Outside::Interrupt);
                true.into()
            }
            ("POST", ["tui", "select-session"]) => {
                book.session(body["sessionID"].as_str()?)?;
                true.into()
            }
            ("GET", ["permission"]) => book.questions().into(),
            ("POST", ["permission", id, "reply"]) => {
                let reply = body["reply"].as_str()?;
                if !book.closes(id, Some(reply)) {
                    return None;
                }
                let message = body["message"].as_str();
                self.rejected.store(reply == "reject" && message.is_none(), Ordering::SeqCst);
                self.wire.send(match (reply, message) {
                    // Whoever says no without a word wants no more of it.
                    ("reject", None) => Outside::Interrupt,
                    (_, message) => Outside::Permission {
                        allow: reply != "reject",
                        message: message.unwrap_or_default().to_owned(),
                    },
                });
                true.into()
            }
            _ => return None,
        })
    }
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let three = |it: &[u8]| (0..3).fold(0, |sum, at| sum << 8 | it.get(at).copied().map_or(0, usize::from));
    let digit = |it: &[u8], place: usize| {
        if place > it.len() { '=' } else { char::from(DIGITS[three(it) >> (18 - 6 * place) & 63]) }
    };
    bytes.chunks(3).flat_map(|it| (0..4).map(move |place| digit(it, place))).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;
    use crate::clothes::pair;

    #[test]
    fn nobody_is_answered_without_the_password_and_a_text_is_taken_for_its_conversation_only() {
        let dir = tempfile::tempdir().unwrap();
        let book = Arc::new(Book::open(dir.path().into(), Some("ses_1".to_owned())));
        let (wire, mut core) = pair().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = Server {
            book: Arc::clone(&book),
            wire,
            version: "1".to_owned(),
            login: Some(login("secret")),
            rejected: Arc::default(),
        };
        start(listener, server);
        let ask = |method: &str, path: &str, password: &str, body: &str| {
            let (login, length) = (login(password), body.len());
            let mut stream = TcpStream::connect(address).unwrap();
            let head =
                format!("{method} {path} HTTP/1.1\r\nauthorization: {login}\r\ncontent-length: {length}");
            stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer.split(' ').nth(1).unwrap().to_owned()
        };
        let body = r#"{"messageID":"msg_a","parts":[{"type":"text","text":"hello"}]}"#;
        assert_eq!(ask("POST", "/session", "wrong", "{}"), "401");
        assert_eq!(ask("POST", "/session/ses_1/prompt_async", "secret", body), "404");
        assert_eq!(ask("POST", "/session", "secret", "{}"), "200");
        assert_eq!(ask("POST", "/session/ses_1/prompt_async", "secret", body), "204");
        assert_eq!(ask("POST", "/session/ses_1/prompt_async", "secret", body), "204");
        assert_eq!(ask("GET", "/session/ses_1/message/msg_a", "secret", ""), "200");
        assert_eq!(ask("GET", "/session/ses_1/message/msg_b", "secret", ""), "404");
        assert_eq!(ask("POST", "/session/ses_1/abort", "secret", ""), "200");
        let question = book.asks("ses_1", "bash", &json!({}));
        let path = format!("/permission/{question}/reply");
        assert_eq!(ask("POST", &path, "secret", r#"{"reply":"once"}"#), "200");
        assert_eq!(ask("POST", &path, "secret", r#"{"reply":"once"}"#), "404");
        let wishes: Vec<&str> = core.take().0.iter().map(Outside::name).collect();
        assert_eq!(wishes, ["submit", "interrupt", "allow"]);
    }
}
