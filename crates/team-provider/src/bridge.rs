//! The seam for programs with a live connection: what comes in over it means, and what is sent.
//!
//! Knows questions and words. Must not know sockets, files or any program's protocol.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fact::{Fact, TurnOutcome};

/// The protocol of one program, as a state machine that touches nothing.
///
/// The engine connects, reads and writes; it hands in what has come and carries out what comes back, in order.
pub trait Bridge: Send {
    /// Takes one thing that has happened and says what is to be done.
    fn on(&mut self, input: Input) -> Vec<Output>;

    /// Says whether a message would be handed over at once.
    ///
    /// A message for which this is false stays in the inbox, from where it can be taken back.
    fn is_open(&self) -> bool;
}

/// What a bridge needs to know.
#[derive(Debug, Clone, Copy)]
pub struct BridgeContext<'a> {
    /// Name of the seat.
    pub agent: &'a str,
    /// Folder the program runs in.
    pub cwd: &'a Path,
    /// The conversation that goes on, if one is known.
    pub native_id: Option<&'a str>,
    /// Whether a bridge of the same start ran before: what it has told is not known any more.
    pub again: bool,
    /// Names of our tools as the model sees them begin with this.
    pub tool_prefix: &'a str,
}

/// How the program is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "link", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Link {
    /// JSON in the text frames of a WebSocket over a socket in the file system.
    WebSocket {
        /// The socket, or a link to it.
        socket: PathBuf,
    },
    /// Requests and a stream of events by HTTP on the loopback interface.
    ///
    /// What is sent is `{"tag", "method", "path", "body"}`; what comes is `{"event"}`, or `{"reply", "status",
    /// "body"}` with the tag of the request. A status of 0 says that no answer came.
    Http {
        /// Address and port, as numbers.
        address: String,
        /// Path of the stream of events; the connection stands once it is open.
        events: String,
        /// Name for basic authentication.
        user: String,
        /// File that holds nothing but the password.
        password: PathBuf,
    },
}

/// Something that has happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The connection stands.
    Connected,
    /// The connection is gone; another will follow.
    Disconnected,
    /// Something has come over it.
    Frame(Value),
    /// A message is to be handed over.
    Message {
        /// Its key: to be given to the program as the id of the text, if that takes one.
        key: String,
        /// The text.
        text: String,
        /// It was given out before, to this bridge or one before it, and no record was seen.
        again: bool,
    },
    /// The answer to [`Output::Look`].
    Found {
        /// Key of the message.
        key: String,
        /// Whether the program's record holds it.
        found: bool,
        /// How the turn that took it ended, if the record says so.
        ended: Option<TurnOutcome>,
    },
    /// A person has answered a question for permission.
    Answer {
        /// What the fact that told of the question carries as `tool_use_id`.
        key: String,
        /// Whether it is allowed.
        allow: bool,
        /// What the person says about it.
        message: Option<String>,
    },
    /// The time asked for by [`Output::Wake`] has passed.
    Tick,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Send this.
    Send(Value),
    /// The program has told this.
    Fact {
        /// Its word for what it said.
        record: String,
        /// What it means.
        fact: Fact,
    },
    /// Look whether the program's record holds a message; the answer is [`Input::Found`].
    Look {
        /// Key of the message.
        key: String,
    },
    /// The program's record holds a message, or nothing more is to be learned of it: it is not handed in again.
    Taken {
        /// Key of the message.
        key: String,
    },
    /// The program did not take a message: it goes back to the inbox.
    PutBack {
        /// Key of the message.
        key: String,
    },
    /// The screen can be started now.
    OpenScreen {
        /// The conversation that it is to show: stands for [`SESSION`] in its arguments.
        native_id: Option<String>,
    },
    /// Say when so much time has passed.
    Wake(Duration),
    /// The seat cannot go on.
    End {
        /// Why.
        why: String,
    },
}

/// The word in the arguments of a screen that stands for the conversation's id.
pub const SESSION: &str = "@SESSION@";
