//! The server in Codex's clothes, as its clients see it.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

/// How long anything may take.
const SOON: Duration = Duration::from_secs(20);

struct Server {
    dir: tempfile::TempDir,
    child: Child,
}

impl Server {
    fn started() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listen = format!("unix://{}", dir.path().join("s").display());
        let child = Command::new(env!("CARGO_BIN_EXE_fake-agent"))
            .args(["--as", "codex", "app-server", "--listen", &listen])
            .args(["-c", "developer_instructions=\"be brief\""])
            .env("HOME", dir.path())
            .env("FAKE_HOME", dir.path().join("fake"))
            .env_remove("CODEX_HOME")
            .env_remove("FAKE_SCRIPT")
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        Self { dir, child }
    }

    fn client(&self, name: &str) -> Client {
        let begun = Instant::now();
        let stream = loop {
            match UnixStream::connect(self.dir.path().join("s")) {
                Ok(stream) => break stream,
                Err(error) => assert!(begun.elapsed() < SOON, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        stream.set_read_timeout(Some(SOON)).unwrap();
        let (socket, _) = tungstenite::client("ws://localhost/", stream).unwrap();
        let mut client = Client { socket, next: 0, told: VecDeque::new() };
        client.ask("initialize", json!({"clientInfo": {"name": name}})).unwrap();
        client
    }

    /// Runs another program of these clothes to its end.
    fn run(&self, arguments: &[&str]) -> bool {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fake-agent"));
        let command = command.args(["--as", "codex"]).args(arguments).env("HOME", self.dir.path());
        command.env_remove("CODEX_HOME").stdout(Stdio::null()).status().unwrap().success()
    }

    /// The texts that the model was given in a conversation.
    fn texts(&self, thread: &str) -> Vec<String> {
        let path = self.dir.path().join("fake/submissions").join(format!("{thread}.jsonl"));
        let lines = fs::read_to_string(path).unwrap_or_default();
        let text = |it: &str| serde_json::from_str::<Value>(it).unwrap()["text"].as_str().unwrap().to_owned();
        lines.lines().map(text).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Client {
    socket: WebSocket<UnixStream>,
    next: u64,
    told: VecDeque<Value>,
}

impl Client {
    fn send(&mut self, frame: &Value) {
        self.socket.send(Message::text(frame.to_string())).unwrap();
    }

    fn read(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.socket.read().unwrap() {
                return serde_json::from_str(text.as_str()).unwrap();
            }
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "it is made for this call")]
    fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.next += 1;
        self.send(&json!({"id": self.next, "method": method, "params": params}));
        loop {
            let frame = self.read();
            if frame["method"].is_null() && frame["id"] == self.next {
                return if frame["error"].is_null() {
                    Ok(frame["result"].clone())
                } else {
                    Err(frame["error"].clone())
                };
            }
            self.told.push_back(frame);
        }
    }

    /// Waits until it is told or asked this, and returns the frame.
    fn wait(&mut self, method: &str) -> Value {
        loop {
            let frame = self.told.pop_front().unwrap_or_else(|| self.read());
            if frame["method"] == method {
                return frame;
            }
        }
    }

    fn say(&mut self, thread: &str, id: &str, text: &str) -> Value {
        let input = json!([{"type": "text", "text": text}]);
        let params = json!({"threadId": thread, "clientUserMessageId": id, "input": input});
        self.ask("turn/start", params).unwrap()["turn"]["id"].clone()
    }
}

#[test]
fn an_id_that_is_used_twice_is_two_messages_and_one_to_a_running_turn_joins_it() {
    let server = Server::started();
    let mut client = server.client("test");
    let thread = client.ask("thread/start", json!({})).unwrap()["thread"].clone();
    let (id, path) = (thread["id"].as_str().unwrap(), thread["path"].as_str().unwrap());
    assert!(fs::metadata(path).is_err(), "its record comes with the first turn");
    let refused = server.client("other").ask("thread/resume", json!({"threadId": id})).unwrap_err();
    assert!(refused["message"].as_str().unwrap().starts_with("no rollout found"), "{refused}");

    let turn = client.say(id, "m-1", "fake: think 1000");
    let taken = |it: &Value| it["method"] == "item/completed";
    assert!(!client.told.iter().any(taken), "the reply comes before anything is written");
    let item = client.wait("item/completed")["params"]["item"].clone();
    assert_eq!((&item["type"], &item["clientId"]), (&json!("userMessage"), &json!("m-1")));
    assert_eq!(client.say(id, "m-1", "again"), turn);
    let done = client.wait("turn/completed")["params"]["turn"].clone();
    assert_eq!((&done["id"], &done["status"]), (&turn, &json!("completed")));
    assert_ne!(client.say(id, "m-1", "and again"), turn);
    client.wait("turn/completed");
    assert_eq!(server.texts(id), ["fake: think 1000", "again", "and again"]);

    let record = fs::read_to_string(path).unwrap();
    let records: Vec<Value> = record.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let of = |kind: &str| records.iter().filter(|it| it["payload"]["type"] == kind).count();
    assert_eq!((of("task_started"), of("task_complete")), (2, 2));
    assert_eq!(records[0]["payload"]["id"], id);
    assert_eq!(records[1]["payload"]["content"][0]["text"], "be brief");
}

#[test]
fn a_question_goes_to_all_that_follow_also_later_and_the_first_answer_counts() {
    let server = Server::started();
    let (mut one, mut two, mut far) = (server.client("one"), server.client("two"), server.client("far"));
    let id = one.ask("thread/start", json!({})).unwrap()["thread"]["id"].as_str().unwrap().to_owned();
    assert_eq!(far.wait("thread/started")["params"]["thread"]["id"], *id);
    one.say(&id, "m-1", "fake: ask-permission\nfake: touch made\nfake: say so be it");
    let asked = one.wait("item/commandExecution/requestApproval");
    two.ask("thread/resume", json!({"threadId": id})).unwrap();
    assert_eq!(two.wait("item/commandExecution/requestApproval"), asked);
    assert_eq!(far.wait("thread/status/changed")["params"]["status"]["activeFlags"], json!([]));
    let waiting = json!({"type": "active", "activeFlags": ["waitingOnApproval"]});
    assert_eq!(far.wait("thread/status/changed")["params"]["status"], waiting);

    two.send(&json!({"id": asked["id"], "result": {"decision": "decline"}}));
    for client in [&mut one, &mut two] {
        assert_eq!(client.wait("serverRequest/resolved")["params"]["requestId"], asked["id"]);
    }
    one.send(&json!({"id": asked["id"], "result": {"decision": "accept"}}));
    one.wait("turn/completed");
    assert!(!server.dir.path().join("made").exists(), "the first answer was no");
    let told: Vec<Value> = far.told.drain(..).collect();
    assert!(told.iter().all(|it| it["method"] == "thread/status/changed"), "{told:?}");

    // An interrupt ends the turn, and what was asked in it.
    let turn = one.say(&id, "m-2", "fake: ask-permission");
    one.wait("item/commandExecution/requestApproval");
    one.ask("turn/interrupt", json!({"threadId": id, "turnId": turn})).unwrap();
    one.wait("serverRequest/resolved");
    assert_eq!(one.wait("turn/completed")["params"]["turn"]["status"], "interrupted");
}

#[test]
fn a_queued_text_waits_behind_an_interrupt_until_another_turn_has_run() {
    let server = Server::started();
    let mut client = server.client("test");
    let id = client.ask("thread/start", json!({})).unwrap()["thread"]["id"].as_str().unwrap().to_owned();
    let queue = ["queue", "--thread", &id, "--message", "from the queue"];
    assert!(!server.run(&queue), "it has no record yet");
    let turn = client.say(&id, "m-1", "fake: think 60000");
    client.wait("item/completed");
    assert!(server.run(&queue));
    client.ask("turn/interrupt", json!({"threadId": id, "turnId": turn})).unwrap();
    client.wait("turn/completed");
    client.say(&id, "m-2", "typed");
    client.wait("turn/completed");
    client.wait("turn/completed");
    assert_eq!(server.texts(&id), ["fake: think 60000", "typed", "from the queue"]);
}
