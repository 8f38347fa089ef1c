//! The tool servers of one conversation: started with it, ended with it, never brought back unasked.

use std::collections::BTreeMap;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::settings::Settings;
use crate::child::{Pipe, Process, Start};
use crate::logs::Logs;
use crate::mcp::{Client, Outcome, ServerConfig, State};

/// What a tool server gets of our environment.
const ENVIRONMENT: &[&str] = &["HOME", "LANG", "PATH", "PWD", "SHLVL", "TERM"];

/// One server and the connection to it.
#[derive(Debug)]
struct Server {
    config: ServerConfig,
    client: Client,
    process: Option<Process>,
    /// How much of its output was read.
    read: usize,
}

/// All of them, by name.
#[derive(Debug, Default)]
pub(super) struct Tools(BTreeMap<String, Server>);

/// What became of a wish to call a tool.
pub(super) enum Called {
    /// The answer will come for this server and id.
    Waiting(String, u64),
    /// A server is still starting.
    NotYet,
    Failed(String),
}

/// What a server had to say.
pub(super) enum Said {
    Answer {
        server: String,
        id: u64,
        text: String,
        is_error: bool,
    },
    /// It is ready, or it has ended.
    Changed(String),
}

impl Tools {
    /// Reads which there are; the settings of one that are not understood leave it out.
    pub(super) fn new(settings: &Settings, cwd: &str) -> Self {
        let all = settings.get(&["mcp_servers"]).as_object().cloned().unwrap_or_default();
        let servers = all.into_iter().filter_map(|(name, value)| {
            let config: ServerConfig = serde_json::from_value(value).ok()?;
            Some((name, Server { config, client: Client::new(cwd), process: None, read: 0 }))
        });
        Self(servers.collect())
    }

    /// Starts those that do not run.
    pub(super) fn start(&mut self, cwd: &Path, logs: &Logs) {
        for (name, server) in self.0.iter_mut().filter(|(_, it)| it.process.is_none()) {
            let inherited =
                ENVIRONMENT.iter().filter_map(|it| Some(((*it).to_owned(), std::env::var(it).ok()?)));
            let env = inherited.chain(server.config.env.clone()).collect();
            let first = server.client.begin();
            logs.mcp(name, "out", &first);
            let argv = server.config.argv();
            let input = format!("{first}\n").into_bytes();
            match Process::start(Start { argv, env, scrub: true, cwd, keep_stdin: true, input }) {
                Ok(process) => {
                    logs.mcp(name, "state", &json!({"started": process.pid()}));
                    (server.process, server.read) = (Some(process), 0);
                }
                Err(error) => {
                    server.client.state = State::Dead;
                    logs.mcp(name, "state", &json!({"failed": error.to_string()}));
                }
            }
        }
    }

    /// Kills them; later calls find no tools.
    pub(super) fn stop(&mut self, signal: Signal) {
        for server in self.0.values_mut() {
            server.client.state = State::Off;
            if let Some(process) = &server.process {
                process.signal(signal);
            }
        }
    }

    pub(super) fn processes(&self) -> impl Iterator<Item = &Process> {
        self.0.values().filter_map(|it| it.process.as_ref())
    }

    /// Moves what can be moved, and returns what the servers have said.
    pub(super) fn service(&mut self, logs: &Logs) -> Vec<Said> {
        let mut said = Vec::new();
        for (name, server) in &mut self.0 {
            let Some(process) = &mut server.process else { continue };
            for pipe in [Pipe::Stdin, Pipe::Stdout, Pipe::Stderr] {
                process.service(pipe);
            }
            let code = process.try_wait();
            let err = std::mem::take(&mut process.err);
            if !err.is_empty() {
                logs.mcp(name, "err", &String::from_utf8_lossy(&err).into());
            }
            while let Some(length) = process.out[server.read..].iter().position(|&it| it == b'\n') {
                let line = &process.out[server.read..server.read + length];
                server.read += length + 1;
                let Ok(message) = serde_json::from_slice::<Value>(line) else { continue };
                logs.mcp(name, "in", &message);
                for outcome in server.client.receive(&message) {
                    match outcome {
                        Outcome::Send(message) => {
                            logs.mcp(name, "out", &message);
                            process.write(format!("{message}\n").as_bytes());
                        }
                        Outcome::Ready => said.push(Said::Changed(name.clone())),
                        Outcome::Called { id, text, is_error } => {
                            said.push(Said::Answer { server: name.clone(), id, text, is_error });
                        }
                    }
                }
            }
            process.out.drain(..server.read);
            server.read = 0;
            if let Some(code) = code {
                logs.mcp(name, "state", &json!({"ended": code}));
                if server.client.state != State::Off {
                    server.client.state = State::Dead;
                }
                server.client.tools.clear();
                server.process = None;
                said.push(Said::Changed(name.clone()));
            }
        }
        said
    }

    pub(super) fn is_alive(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|it| it.process.is_some())
    }

    /// Which server a tool belongs to, and the tool's own name.
    pub(super) fn place<'a>(&self, tool: &'a str) -> (String, &'a str) {
        if let Some((server, tool)) = tool.strip_prefix("mcp__").and_then(|it| it.split_once("__")) {
            return (server.to_owned(), tool);
        }
        let lists = |it: &Server| it.client.tools.iter().any(|it| it == tool);
        let found = self.0.iter().find(|it| lists(it.1)).or_else(|| self.0.iter().next());
        (found.map(|it| it.0.clone()).unwrap_or_default(), tool)
    }

    pub(super) fn call(&mut self, tool: &str, arguments: &Value, call: &str, logs: &Logs) -> Called {
        let (name, tool) = self.place(tool);
        let failed = || Called::Failed(format!("unsupported call: {tool}"));
        let Some(server) = self.0.get_mut(&name) else { return failed() };
        match (server.client.state, &mut server.process) {
            (State::Starting, _) => Called::NotYet,
            (State::Ready, Some(process)) => {
                let (id, message) = server.client.call(tool, arguments, call);
                logs.mcp(&name, "out", &message);
                process.write(format!("{message}\n").as_bytes());
                Called::Waiting(name, id)
            }
            _ => failed(),
        }
    }
}
