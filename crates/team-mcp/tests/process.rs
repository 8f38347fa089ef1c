//! The server as a process of its own: what it outlives, what ends it, and what it needs.

use std::{
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(20);

/// Returns the sample server, which is built along with the tests.
fn program() -> PathBuf {
    let mut path = std::env::current_exe().expect("the test has a path");
    path.pop();
    path.pop();
    path.push("examples/sample_server");
    assert!(path.exists(), "`{}` is not built", path.display());
    path
}

/// A client with its server, both ended at the end of the test.
struct Session {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Session {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let (found, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if found.send(line).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        Self { child, input, lines }
    }

    fn request(&mut self, id: u64, method: &str, params: &Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let input = self.input.as_mut().expect("the session is open");
        writeln!(input, "{request}").expect("the server reads");
        let line = self.lines.recv_timeout(DEADLINE).expect("an answer comes in time");
        let answer: Value = serde_json::from_str(&line).expect("it writes JSON");
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn initialize(&mut self) -> Value {
        let info = json!({ "name": "test", "version": "1" });
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info });
        self.request(0, "initialize", &params)
    }

    /// Waits until nobody holds the other end of the output.
    #[track_caller]
    fn wait_for_the_end(&self) {
        assert_eq!(self.lines.recv_timeout(DEADLINE), Err(RecvTimeoutError::Disconnected));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        drop(self.input.take());
        // Both fail only where there is nothing left to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_needs_nothing_from_its_environment() {
    let mut session = Session::start(Command::new(program()).env_clear().current_dir("/"));
    assert_eq!(session.initialize()["result"]["serverInfo"]["name"], "team_orchestrator");
    let tools = session.request(1, "tools/list", &json!({}));
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 4);
}

#[test]
fn signals_pass_and_the_end_of_the_input_ends_it() {
    let mut session = Session::start(&mut Command::new(program()));
    session.initialize();
    let pid = Pid::from_raw(session.child.id().try_into().unwrap());
    for (id, signal) in (1..).zip([Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGPIPE]) {
        kill(pid, signal).unwrap();
        assert_eq!(session.request(id, "ping", &json!({}))["result"], json!({}), "{signal}");
    }
    drop(session.input.take());
    session.wait_for_the_end();
    assert!(session.child.wait().unwrap().success());
}

#[test]
fn it_ends_with_its_parent_even_if_its_input_stays_open() {
    let mut shell = Command::new("/bin/sh");
    let mut session = Session::start(shell.args(["-c", r#"exec 3<&0; "$0" <&3 & wait"#]).arg(program()));
    session.initialize();
    session.child.kill().unwrap();
    session.wait_for_the_end();
    assert!(session.input.is_some());
}

#[test]
fn a_client_that_stops_reading_does_not_end_it() {
    let mut command = Command::new(program());
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let call = |id: u64, text: &str| {
        let params = json!({ "name": "send_message", "arguments": { "to": "a", "content": text } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    writeln!(input, "{}", call(1, "hello")).unwrap();
    // What the backend prints shows that it was still asked after the answer had nowhere to go.
    writeln!(input, "{}", call(2, "print")).unwrap();
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert_eq!(line, "printed\n");
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn what_others_print_never_reaches_the_client() {
    let mut session = Session::start(&mut Command::new(program()));
    session.initialize();
    let params = json!({ "name": "send_message", "arguments": { "to": "a", "content": "print" } });
    session.request(1, "tools/call", &params);
    session.request(2, "ping", &json!({}));
}
