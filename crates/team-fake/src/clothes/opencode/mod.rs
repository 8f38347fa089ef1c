//! The clothes of OpenCode: screen and HTTP server in one process, conversations in a book that both see.
//!
//! Knows which step of the core is which event of the server. Must not know sockets.

mod book;
mod config;
mod look;
mod server;

use std::cell::{OnceCell, RefCell};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use self::book::Book;
use self::config::{Config, Flags};
use self::server::Server;
use super::{Call, Clothes, Doing, Look, Manners, Moment, Scene, Seen, Wire};
use crate::args::{Args, ArgsError};
use crate::dialog::{Dialog, Kind};
use crate::screen::Line;
use crate::settings::Settings;
use crate::setup::{Given, StartError};
use crate::transcript::{Of, Record};

/// Plays `opencode`.
#[derive(Debug, Default)]
pub(crate) struct OpenCode {
    flags: OnceCell<Flags>,
    config: Config,
    /// The conversation that the screen shows.
    session: OnceCell<String>,
    listener: RefCell<Option<TcpListener>>,
    book: OnceCell<Arc<Book>>,
    turn: RefCell<Option<Turn>>,
    /// The interrupt that follows is a no to a question.
    rejected: Arc<AtomicBool>,
}

/// The running turn, as the book has it.
#[derive(Debug)]
struct Turn {
    session: String,
    /// The answer that is being written.
    answer: String,
    /// The question that is open.
    question: Option<String>,
}

impl OpenCode {
    pub(crate) fn new() -> Self {
        let config = std::env::var("OPENCODE_CONFIG_CONTENT").unwrap_or_default();
        Self { config: Config::read(&config), ..Self::default() }
    }

    /// A turn begins to answer a text.
    fn begins(&self, book: &Book, scene: &Scene<'_>) {
        let said = book.takes(scene.session, scene.prompt_id, scene.prompt.unwrap_or_default());
        book.status(&said.session, &json!({"type": "busy"}));
        let answer = book.answers(&said.session, &said.id, false);
        self.rejected.store(false, Ordering::SeqCst);
        *self.turn.borrow_mut() = Some(Turn { session: said.session, answer, question: None });
    }

    /// What a step means for the running turn.
    fn goes_on(&self, book: &Book, moment: Moment, fields: &Value, turn: &mut Turn) {
        let Turn { session, answer, question } = turn;
        let text = |name: &str| fields[name].as_str().unwrap_or_default();
        match moment {
            Moment::ToolBegun | Moment::ToolEnded => {
                let status = match (moment, fields["is_error"] == true) {
                    (Moment::ToolBegun, _) => "running",
                    (_, true) => "error",
                    (_, false) => "completed",
                };
                let call = text("tool_use_id");
                let state =
                    json!({"status": status, "input": fields["tool_input"], "output": fields["text"]});
                let part = json!({"id": format!("prt_{call}"), "type": "tool", "callID": call,
                    "tool": tool(text("tool_name")), "state": state});
                book.part(session, answer, part);
            }
            Moment::PermissionAsked => {
                *question = Some(book.asks(session, &tool(text("tool_name")), &fields["tool_input"]));
            }
            Moment::PermissionSettled => {
                // One that was answered is closed already.
                if let Some(question) = question.take() {
                    book.closes(&question, (fields["allowed"] == true).then_some("once"));
                }
            }
            Moment::Answered => {
                let part =
                    json!({"type": "text", "text": fields["last_assistant_message"], "time": {"end": 1}});
                book.part(session, answer, part);
                book.answered(session, answer, None);
            }
            Moment::Failed => {
                let message = fields["last_assistant_message"].clone();
                let data = json!({"message": message, "statusCode": 500, "isRetryable": false});
                let error = json!({"name": "APIError", "data": data});
                book.answered(session, answer, Some(&error));
                book.error(session, &error);
            }
            Moment::Interrupted => {
                book.forgets();
                if !self.rejected.swap(false, Ordering::SeqCst) {
                    let error = json!({"name": "MessageAbortedError", "data": {"message": "Aborted"}});
                    book.answered(session, answer, Some(&error));
                    book.error(session, &error);
                }
            }
            Moment::Limited => {
                let (message, next) = (text("text"), &fields["until_ms"]);
                book.status(
                    session,
                    &json!({"type": "retry", "attempt": 1, "message": message, "next": next}),
                );
            }
            Moment::LimitOver => book.status(session, &json!({"type": "busy"})),
            Moment::CompactEnded => {
                book.answered(session, answer, None);
                book.compacted(session);
            }
            _ => {}
        }
    }
}

/// Where the conversations lie.
fn dir() -> PathBuf {
    config::data_home().join("storage")
}

/// The program's name for a tool.
fn tool(name: &str) -> String {
    name.strip_prefix("mcp__").map_or_else(|| name.to_lowercase(), |it| it.replacen("__", "_", 1))
}

impl Clothes for OpenCode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn version(&self) -> &'static str {
        "1.18.33"
    }

    fn args(&self, words: Vec<String>) -> Result<Args, ArgsError> {
        let flags = config::flags(words)?;
        let args = Args {
            resume: flags.session.clone(),
            model: flags.model.clone().or_else(|| self.config.model().map(str::to_owned)),
            system_prompt: self.config.instructions().pop(),
            version: flags.version,
            ..Args::default()
        };
        if let Some(session) = &flags.session {
            let _ = self.session.set(session.clone());
        }
        let _ = self.flags.set(flags);
        Ok(args)
    }

    fn home(&self, _logs: &Path) -> PathBuf {
        config::data_home()
    }

    fn given(&self, _args: &Args, _home: &Path, _cwd: &str) -> Result<Given, StartError> {
        if let Some(flags) = self.flags.get() {
            *self.listener.borrow_mut() = Some(TcpListener::bind(flags.address).map_err(StartError::Wire)?);
        }
        Ok(Given { settings: Settings::default(), servers: self.config.servers(), questions: Vec::new() })
    }

    fn new_id(&self) -> String {
        let id = book::new_id("ses");
        let _ = self.session.set(id.clone());
        id
    }

    fn is_id(&self, word: &str) -> bool {
        word.starts_with("ses_")
    }

    fn new_transcript(&self, _home: &Path, _cwd: &str, id: &str) -> PathBuf {
        dir().join(format!("{id}.jsonl"))
    }

    fn transcript(&self, home: &Path, cwd: &str, id: &str) -> Option<PathBuf> {
        Some(self.new_transcript(home, cwd, id)).filter(|it| it.exists())
    }

    fn lines(&self, of: &Of<'_>, record: &Record<'_>) -> Option<Vec<Value>> {
        // The book writes by itself; it only is not told of what is typed behind a running turn.
        if let (Record::Queue { operation: "enqueue", text: Some(text) }, Some(book)) =
            (record, self.book.get())
        {
            book.waits(of.session, text);
        }
        Some(Vec::new())
    }

    fn said(&self, line: &Value) -> Option<String> {
        let part = &line["properties"]["part"];
        // What the model says has its times.
        let said = part["type"] == "text" && part["time"].is_null();
        said.then(|| part["text"].as_str().map(str::to_owned)).flatten()
    }

    fn calls(&self, moment: Moment, fields: Value, scene: &Scene<'_>) -> Vec<Call> {
        let Some(book) = self.book.get() else { return Vec::new() };
        match moment {
            Moment::PromptTaken => self.begins(book, scene),
            Moment::CompactBegun => {
                let session = scene.session.to_owned();
                book.status(&session, &json!({"type": "busy"}));
                let answer = book.answers(&session, "", true);
                *self.turn.borrow_mut() = Some(Turn { session, answer, question: None });
            }
            _ => {
                if let Some(turn) = self.turn.borrow_mut().as_mut() {
                    self.goes_on(book, moment, &fields, turn);
                }
            }
        }
        if matches!(moment, Moment::TurnOver | Moment::CompactEnded)
            && let Some(turn) = self.turn.take()
        {
            book.over(&turn.session);
        }
        Vec::new()
    }

    fn child_env(&self, _scene: &Scene<'_>, _nested: bool) -> Vec<(&'static str, String)> {
        let pid = std::process::id().to_string();
        vec![("OPENCODE", "1".to_owned()), ("AGENT", "1".to_owned()), ("OPENCODE_PID", pid)]
    }

    fn shell(&self) -> String {
        // Its own takes our secrets out of the environment.
        std::env::var("SHELL").ok().filter(|it| !it.is_empty()).unwrap_or_else(|| "/bin/sh".to_owned())
    }

    fn tool_prefix(&self) -> &'static str {
        "team_orchestrator_"
    }

    fn manners(&self) -> Manners {
        Manners {
            takes_up_after_tools: false,
            gives_back: false,
            drops_waiting: true,
            waits_at_limit: true,
            escape_twice: Some(Duration::from_secs(1)),
            status_file: false,
            ..Manners::default()
        }
    }

    fn look(&self) -> Look {
        Look {
            heading: "OpenCode",
            footer: "tab agents  ctrl+p commands",
            work: "     ▣  Build · esc interrupt",
            queued: "  ┃  QUEUED ",
            ..super::own::look()
        }
    }

    fn dialog(&self, kind: Kind, detail: &str) -> Dialog {
        Dialog::new(kind, detail).without_digits()
    }

    fn label(&self, _text: &str, _number: u32) -> Option<String> {
        None
    }

    fn lower(&self, seen: &Seen<'_>) -> (Vec<Line>, Option<(usize, usize)>) {
        let Some(dialog) = seen.dialog else {
            let model = self.config.model().unwrap_or("fake/fake-1");
            let (mut lines, cursor) = look::composer(seen.columns, seen.draft, model);
            lines.push(look::foot(seen.columns, seen.footer));
            return (lines, Some(cursor));
        };
        if dialog.kind != Kind::Permission {
            return (look::question(dialog.heading(), dialog.choices(), dialog.highlighted()), None);
        }
        let asked = self.book.get().and_then(|it| it.questions().pop()).unwrap_or_default();
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let (permission, what) = (text(&asked["permission"]), text(&asked["patterns"][0]));
        (look::permission(seen.columns, &permission, &what, dialog.highlighted()), None)
    }

    fn picked(&self, kind: Kind, number: usize, _home: &Path, _cwd: &str) {
        let mut turn = self.turn.borrow_mut();
        let question = turn.as_mut().filter(|_| kind == Kind::Permission).and_then(|it| it.question.take());
        if let (Some(question), Some(book)) = (question, self.book.get()) {
            let reply = ["reject", "once", "always", "reject"].get(number).copied().unwrap_or("reject");
            self.rejected.store(reply == "reject", Ordering::SeqCst);
            book.closes(&question, Some(reply));
        }
    }

    fn title(&self, _doing: Doing, _cwd: &str) -> Option<String> {
        let session = self.book.get().zip(self.session.get()).and_then(|(book, id)| book.session(id));
        let title = session.and_then(|it| it["title"].as_str().map(str::to_owned));
        Some(title.map_or_else(|| "OpenCode".to_owned(), |it| format!("OC | {it}")))
    }

    fn goodbye(&self, session: &str) -> String {
        format!("Continue  opencode -s {session}")
    }

    fn connect(&self, wire: Wire) {
        let fresh = self.flags.get().is_some_and(|it| it.session.is_none());
        let book = Arc::new(Book::open(dir(), self.session.get().filter(|_| fresh).cloned()));
        let password = std::env::var("OPENCODE_SERVER_PASSWORD").ok().filter(|it| !it.is_empty());
        if let Some(listener) = self.listener.take() {
            let server = Server {
                book: Arc::clone(&book),
                wire,
                version: crate::version(self),
                login: password.as_deref().map(server::login),
                rejected: Arc::clone(&self.rejected),
            };
            server::start(listener, server);
        }
        let _ = self.book.set(book);
    }
}
