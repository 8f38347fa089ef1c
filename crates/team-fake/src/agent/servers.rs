//! MCP servers of the running program: started, listened to, mourned; never brought back unasked.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{Agent, Role};
use crate::child::{Process, Start};
use crate::mcp::{Client, Outcome, ServerConfig, State};

/// A configured server and the connection to it.
#[derive(Debug)]
pub(super) struct Server {
    config: ServerConfig,
    pub(super) client: Client,
    child: Option<u64>,
    /// How much of the child's output was read.
    read: usize,
}

/// What became of a wish to call a tool.
pub(super) enum Called {
    /// The answer will come for this server and id.
    Waiting(String, u64),
    /// A server is still starting.
    NotYet,
    Failed(String),
}

/// How long a call waits for a server that is starting.
pub(super) const START_PATIENCE: Duration = Duration::from_secs(10);

impl Server {
    pub(super) fn new(config: ServerConfig, cwd: &str) -> Self {
        let mut client = Client::new(cwd);
        // It is going to be started, unless a script says otherwise.
        client.state = State::Starting;
        Self { config, client, child: None, read: 0 }
    }
}

impl Agent {
    pub(super) fn start_server(&mut self, name: &str) {
        let mut env: Vec<(String, String)> = ["HOME", "PATH", "TERM", "LANG"]
            .into_iter()
            .filter_map(|it| Some((it.to_owned(), std::env::var(it).ok()?)))
            .collect();
        env.extend(self.child_env(false));
        let Some(server) = self.servers.get_mut(name) else { return };
        if !self.knobs.switches.mcp {
            server.client.state = State::Off;
            return;
        }
        env.extend(server.config.env.clone());
        let mut first = server.client.begin().to_string();
        first.push('\n');
        let started = Process::start(Start {
            argv: server.config.argv(),
            env,
            scrub: true,
            cwd: self.cwd.as_ref(),
            keep_stdin: true,
            input: first.clone().into_bytes(),
        });
        match started {
            Ok(process) => {
                self.logs.mcp(name, "state", &json!({"started": process.pid()}));
                self.logs.mcp(name, "out", &serde_json::from_str(&first).unwrap_or(Value::Null));
                let child = self.adopt(process, Role::Server(name.to_owned()));
                if let Some(server) = self.servers.get_mut(name) {
                    (server.child, server.read) = (Some(child), 0);
                }
            }
            Err(error) => {
                server.client.state = State::Dead;
                self.logs.mcp(name, "state", &json!({"failed": error.to_string()}));
            }
        }
    }

    /// Reads the lines that a server has written.
    pub(super) fn read_server(&mut self, name: &str, child: u64) {
        loop {
            let Some((process, _)) = self.children.get_mut(&child) else { return };
            let Some(server) = self.servers.get_mut(name).filter(|it| it.child == Some(child)) else {
                return;
            };
            let err = std::mem::take(&mut process.err);
            if !err.is_empty() {
                self.logs.mcp(name, "err", &String::from_utf8_lossy(&err).into());
            }
            let Some(length) = process.out[server.read..].iter().position(|&it| it == b'\n') else {
                process.out.drain(..server.read);
                server.read = 0;
                return;
            };
            let line = process.out[server.read..server.read + length].to_vec();
            server.read += length + 1;
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let Ok(message) = serde_json::from_slice::<Value>(&line) else {
                self.logs.mcp(name, "in", &json!({"not_json": String::from_utf8_lossy(&line)}));
                continue;
            };
            self.logs.mcp(name, "in", &message);
            for outcome in server.client.receive(&message) {
                match outcome {
                    Outcome::Send(message) => self.send_to_server(name, &message),
                    Outcome::Ready => self.server_settled(name, "ready"),
                    Outcome::Called { id, text, is_error } => self.tool_answered(name, id, &text, is_error),
                }
            }
        }
    }

    fn send_to_server(&mut self, name: &str, message: &Value) {
        self.logs.mcp(name, "out", message);
        let child = self.servers.get(name).and_then(|it| it.child);
        if let Some((process, _)) = child.and_then(|it| self.children.get_mut(&it)) {
            process.write(format!("{message}\n").as_bytes());
        }
    }

    fn server_settled(&mut self, name: &str, state: &str) {
        self.logs.mcp(name, "state", &json!({"state": state}));
        self.logs.event("mcp", json!({"server": name, "state": state}));
        self.servers_changed();
    }

    pub(super) fn server_ended(&mut self, name: &str, code: i32) {
        let Some(server) = self.servers.get_mut(name) else { return };
        if server.client.state != State::Off {
            server.client.state = State::Dead;
        }
        server.client.tools.clear();
        server.child = None;
        self.logs.mcp(name, "state", &json!({"ended": code}));
        self.server_settled(name, "ended");
        self.server_lost(name);
    }

    /// Kills the servers; later calls find no tools.
    pub(super) fn servers_off(&mut self) {
        for server in self.servers.values_mut() {
            server.client.state = State::Off;
            if let Some((process, _)) = server.child.and_then(|it| self.children.get(&it)) {
                process.signal(Signal::SIGKILL);
            }
        }
        self.servers_changed();
    }

    /// Starts the servers that are not running.
    pub(super) fn servers_on(&mut self) {
        let down = |it: &Server| it.child.is_none() && matches!(it.client.state, State::Off | State::Dead);
        let names: Vec<String> = self.servers.iter().filter(|it| down(it.1)).map(|it| it.0.clone()).collect();
        for name in names {
            self.start_server(&name);
        }
    }

    /// Calls a tool, given by its own name or as `mcp__SERVER__TOOL`.
    pub(super) fn call_tool(&mut self, tool: &str, arguments: &Value, tool_use: &str) -> Called {
        let (wanted, tool) = match tool.strip_prefix("mcp__").and_then(|it| it.split_once("__")) {
            Some((server, tool)) => (Some(server), tool),
            None => (None, tool.strip_prefix(self.clothes.tool_prefix()).unwrap_or(tool)),
        };
        let fits = |name: &str| wanted.is_none_or(|it| it == name);
        if self.servers.iter().any(|(name, it)| fits(name) && it.client.state == State::Starting) {
            return Called::NotYet;
        }
        let ready = || self.servers.iter().filter(|(name, it)| fits(name) && it.client.state == State::Ready);
        let lists = |it: &&Server| it.client.tools.iter().any(|it| it == tool);
        // A server may know more names than it lists.
        let Some(name) =
            ready().find(|(_, it)| lists(it)).or_else(|| ready().next()).map(|(name, _)| name.clone())
        else {
            return Called::Failed(format!("Error: No such tool available: {tool}"));
        };
        let Some(server) = self.servers.get_mut(&name) else {
            return Called::Failed(format!("Error: No such tool available: {tool}"));
        };
        let (id, message) = server.client.call(tool, arguments, tool_use);
        self.send_to_server(&name, &message);
        Called::Waiting(name, id)
    }
}
