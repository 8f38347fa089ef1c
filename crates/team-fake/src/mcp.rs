//! A client of MCP servers over standard input and output. Knows the protocol; starts no process.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

/// How a server is started.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct ServerConfig {
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
}

impl ServerConfig {
    /// Takes a whole command line; nothing without a program.
    pub(crate) fn new(argv: Vec<String>, env: BTreeMap<String, String>) -> Option<Self> {
        let mut words = argv.into_iter();
        Some(Self { command: words.next()?, args: words.collect(), env })
    }

    pub(crate) fn argv(&self) -> Vec<String> {
        std::iter::once(self.command.clone()).chain(self.args.iter().cloned()).collect()
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum McpConfigError {
    #[error("Invalid MCP configuration: `{0}` cannot be read")]
    Read(String, #[source] std::io::Error),
    #[error("Invalid MCP configuration")]
    Json(#[from] serde_json::Error),
}

/// Reads a configuration file, or the text itself when it starts with a brace.
pub(crate) fn load(source: &str) -> Result<BTreeMap<String, ServerConfig>, McpConfigError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct File {
        mcp_servers: BTreeMap<String, ServerConfig>,
    }
    let text = if source.trim_start().starts_with('{') {
        source.to_owned()
    } else {
        std::fs::read_to_string(Path::new(source))
            .map_err(|error| McpConfigError::Read(source.to_owned(), error))?
    };
    Ok(serde_json::from_str::<File>(&text)?.mcp_servers)
}

/// How far the connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Not started, and not going to be.
    Off,
    Starting,
    Ready,
    /// It ended, or could not be started; nothing brings it back by itself.
    Dead,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Dead => "dead",
        }
    }
}

/// What a message of the server led to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// To be written to the server.
    Send(Value),
    Ready,
    /// The answer to a call: text, and whether it is an error.
    Called {
        id: u64,
        text: String,
        is_error: bool,
    },
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) state: State,
    pub(crate) tools: Vec<String>,
    next_id: u64,
    initialize: Option<u64>,
    list: Option<u64>,
    roots: String,
}

const PROTOCOL: &str = "2025-06-18";

impl Client {
    /// `roots` is the directory that the server may ask for.
    pub(crate) fn new(roots: &str) -> Self {
        Self {
            state: State::Off,
            tools: Vec::new(),
            next_id: 0,
            initialize: None,
            list: None,
            roots: roots.to_owned(),
        }
    }

    /// Begins; the message is to be written to the server.
    pub(crate) fn begin(&mut self) -> Value {
        self.state = State::Starting;
        self.tools.clear();
        let (id, message) = self.request(
            "initialize",
            &json!({
                "protocolVersion": PROTOCOL,
                "capabilities": {"roots": {}},
                "clientInfo": {"name": "fake-agent", "version": env!("CARGO_PKG_VERSION")},
            }),
        );
        self.initialize = Some(id);
        message
    }

    /// Asks for a tool; returns the call's id and the message.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value, tool_use: &str) -> (u64, Value) {
        self.request(
            "tools/call",
            &json!({"name": tool, "arguments": arguments, "_meta": {"claudecode/toolUseId": tool_use}}),
        )
    }

    fn request(&mut self, method: &str, params: &Value) -> (u64, Value) {
        self.next_id += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params});
        (self.next_id, message)
    }

    /// Takes a message of the server.
    pub(crate) fn receive(&mut self, message: &Value) -> Vec<Outcome> {
        if let Some(method) = message["method"].as_str() {
            return self.asked(method, &message["id"]);
        }
        let Some(id) = message["id"].as_u64() else { return Vec::new() };
        let (result, error) = (&message["result"], &message["error"]);
        if self.initialize == Some(id) {
            if error.is_object() {
                self.state = State::Dead;
                return Vec::new();
            }
            let (list, ask) = self.request("tools/list", &json!({}));
            self.list = Some(list);
            let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            return vec![Outcome::Send(initialized), Outcome::Send(ask)];
        }
        if self.list == Some(id) {
            let names = result["tools"].as_array().into_iter().flatten().filter_map(|it| it["name"].as_str());
            self.tools.extend(names.map(str::to_owned));
            if let Some(cursor) = result["nextCursor"].as_str() {
                let (list, ask) = self.request("tools/list", &json!({"cursor": cursor}));
                self.list = Some(list);
                return vec![Outcome::Send(ask)];
            }
            self.state = State::Ready;
            return vec![Outcome::Ready];
        }
        if error.is_object() {
            let text =
                format!("MCP error {}: {}", error["code"], error["message"].as_str().unwrap_or("no message"));
            return vec![Outcome::Called { id, text, is_error: true }];
        }
        let blocks = result["content"].as_array().into_iter().flatten();
        let text: Vec<&str> = blocks.filter_map(|it| it["text"].as_str()).collect();
        vec![Outcome::Called { id, text: text.join("\n"), is_error: result["isError"] == true }]
    }

    fn asked(&mut self, method: &str, id: &Value) -> Vec<Outcome> {
        if id.is_null() {
            if method == "notifications/tools/list_changed" && self.state == State::Ready {
                self.tools.clear();
                let (list, ask) = self.request("tools/list", &json!({}));
                self.list = Some(list);
                return vec![Outcome::Send(ask)];
            }
            return Vec::new();
        }
        let answer = match method {
            "ping" => json!({"jsonrpc": "2.0", "id": id, "result": {}}),
            "roots/list" => {
                let root = json!({"uri": format!("file://{}", self.roots), "name": "workspace"});
                json!({"jsonrpc": "2.0", "id": id, "result": {"roots": [root]}})
            }
            _ => {
                let error = json!({"code": -32601, "message": format!("method `{method}` not found")});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        vec![Outcome::Send(answer)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_ready_when_all_tools_are_listed() {
        let mut client = Client::new("/w");
        assert_eq!(client.begin()["params"]["protocolVersion"], PROTOCOL);
        let sent = client.receive(&json!({"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"x"}}));
        assert!(matches!(&sent[..], [Outcome::Send(a), Outcome::Send(b)]
            if a["method"] == "notifications/initialized" && b["method"] == "tools/list"));
        let more = client.receive(&json!({"id":2,"result":{"tools":[{"name":"a"}],"nextCursor":"n"}}));
        assert!(matches!(&more[..], [Outcome::Send(ask)] if ask["params"]["cursor"] == "n"));
        assert_eq!(client.state, State::Starting);
        assert_eq!(client.receive(&json!({"id":3,"result":{"tools":[{"name":"b"}]}})), [Outcome::Ready]);
        assert_eq!((client.state, client.tools), (State::Ready, vec!["a".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn errors_of_the_protocol_and_of_the_tool_are_both_errors() {
        let mut client = Client::new("/w");
        let (id, _) = client.call("t", &json!({}), "u");
        let refused = client.receive(&json!({"id":id,"error":{"code":-32602,"message":"no"}}));
        let text = "MCP error -32602: no".to_owned();
        assert_eq!(refused, [Outcome::Called { id, text, is_error: true }]);
        let failed = json!({"id":id,"result":{"isError":true,"content":[{"type":"text","text":"x"}]}});
        let text = "x".to_owned();
        assert_eq!(client.receive(&failed), [Outcome::Called { id, text, is_error: true }]);
    }

    #[test]
    fn questions_of_the_server_are_answered() {
        let mut client = Client::new("/w");
        let answer = |client: &mut Client, method: &str| client.receive(&json!({"id":"q","method":method}));
        assert!(matches!(&answer(&mut client, "ping")[..], [Outcome::Send(it)] if it["result"] == json!({})));
        assert!(matches!(&answer(&mut client, "roots/list")[..], [Outcome::Send(it)]
            if it["result"]["roots"][0]["uri"] == "file:///w"));
        assert!(
            matches!(&answer(&mut client, "x/y")[..], [Outcome::Send(it)] if it["error"]["code"] == -32601)
        );
        assert_eq!(client.receive(&json!({"method":"notifications/message"})), []);
    }
}
