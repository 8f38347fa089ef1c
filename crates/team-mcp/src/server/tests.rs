//! A client that writes raw lines, against a server in the same process.

use std::{
    fs::File,
    io::{BufRead, BufReader, Write},
    os::fd::OwnedFd,
    sync::{Condvar, Mutex as StdMutex, mpsc},
    thread::{self, JoinHandle},
};

use proptest::prelude::*;

use super::*;
use crate::{ReportStatus, SendMessageArgs, ToolCall, ToolRequest, ToolSet};

const DEADLINE: Duration = Duration::from_secs(20);

/// Remembers what it was asked, and waits where a message says so.
struct Recorder {
    seen: StdMutex<Seen>,
    changed: Condvar,
}

struct Seen {
    set: ToolSet,
    calls: Vec<ToolCall>,
    finished: usize,
    listed: usize,
    gate_open: bool,
}

impl Recorder {
    fn new(set: ToolSet) -> Arc<Self> {
        let seen = Seen { set, calls: Vec::new(), finished: 0, listed: 0, gate_open: false };
        Arc::new(Self { seen: StdMutex::new(seen), changed: Condvar::new() })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        let result = change(&mut self.seen.lock().unwrap());
        self.changed.notify_all();
        result
    }

    #[track_caller]
    fn wait(&self, until: impl Fn(&Seen) -> bool) {
        let seen = self.seen.lock().unwrap();
        let (_seen, late) = self.changed.wait_timeout_while(seen, DEADLINE, |it| !until(it)).unwrap();
        assert!(!late.timed_out(), "the backend was not asked in time");
    }

    fn contents(&self) -> Vec<String> {
        let text = |it: &ToolCall| match &it.request {
            ToolRequest::SendMessage(message) => message.content.clone(),
            other => other.tool().to_owned(),
        };
        self.seen.lock().unwrap().calls.iter().map(text).collect()
    }
}

impl Backend for Recorder {
    fn set(&self) -> ToolSet {
        self.seen.lock().unwrap().set
    }

    fn call(&self, call: ToolCall) -> Result<Answer, ToolError> {
        let text = match &call.request {
            ToolRequest::SendMessage(message) => message.content.clone(),
            _ => String::new(),
        };
        self.change(|it| it.calls.push(call));
        match text.as_str() {
            "panic" => panic!("boom"),
            "gate" => self.wait(|it| it.gate_open),
            "refuse" => {
                return Err(ToolError {
                    code: "nobody_there".into(),
                    message: "nobody is there".into(),
                    hint: None,
                });
            }
            _ => {}
        }
        self.change(|it| it.finished += 1);
        let tree =
            json!([{ "name": "coder", "role": "writes code", "state": "running" }, { "name": "tester" }]);
        Ok(Answer {
            text: "done".to_owned(),
            structured: json!({ "ok": true, "team": "current", "tree": tree }),
        })
    }

    fn listed(&self) {
        self.change(|it| it.listed += 1);
    }
}

struct Client {
    input: Option<File>,
    lines: mpsc::Receiver<Value>,
    server: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Client {
    fn of(backend: &Arc<Recorder>) -> Self {
        let (to_read, input) = io::pipe().unwrap();
        let (output, to_write) = io::pipe().unwrap();
        let file = |it: OwnedFd| File::from(it);
        let (to_read, to_write) = (file(to_read.into()), file(to_write.into()));
        let backend: Arc<dyn Backend> = Arc::clone(backend) as _;
        let server = thread::spawn(move || serve_on(backend, to_read, to_write, None));
        let (found, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).expect("only JSON is written");
                if found.send(line).is_err() {
                    return;
                }
            }
        });
        Self { input: Some(file(input.into())), lines, server: Some(server) }
    }

    fn worker() -> Self {
        Self::of(&Recorder::new(ToolSet::Worker))
    }

    fn write(&mut self, line: impl AsRef<[u8]>) -> &mut Self {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_ref()).unwrap();
        input.write_all(b"\n").unwrap();
        self
    }

    fn request(&mut self, id: u64, method: &str, params: &Value) -> &mut Self {
        self.write(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string())
    }

    fn tool(&mut self, id: u64, name: &str, arguments: &Value) -> &mut Self {
        self.request(id, "tools/call", &json!({ "name": name, "arguments": arguments }))
    }

    #[track_caller]
    fn next(&self) -> Value {
        self.lines.recv_timeout(DEADLINE).expect("an answer comes in time")
    }

    /// Returns the answer to the request, which must be the next one.
    #[track_caller]
    fn answer(&self, id: u64) -> Value {
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    #[track_caller]
    fn initialize(&mut self, version: &str) -> Value {
        let info = json!({ "name": "test", "version": "1" });
        let params =
            json!({ "protocolVersion": version, "capabilities": { "roots": {} }, "clientInfo": info });
        let answer = self.request(0, "initialize", &params).answer(0);
        self.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        answer["result"].clone()
    }

    /// Closes the input and returns once the server has returned.
    fn leave(&mut self) {
        drop(self.input.take());
        self.server.take().unwrap().join().unwrap().unwrap();
    }
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

fn code(answer: &Value) -> &Value {
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    &answer["result"]["structuredContent"]["error"]["code"]
}

fn hello() -> Value {
    json!({ "to": "coder", "content": "hello" })
}

#[test]
fn initialize_names_the_server_and_offers_tools_only() {
    let result = Client::worker().initialize("2025-11-25");
    assert_eq!(result["serverInfo"]["name"], SERVER_NAME);
    assert_eq!(result["capabilities"], json!({ "tools": {} }));
    assert_eq!(result["instructions"], INSTRUCTIONS);
}

#[test]
fn a_known_version_is_agreed_to_and_an_unknown_one_answered_with_the_newest() {
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("soon", "2025-11-25"),
    ] {
        assert_eq!(Client::worker().initialize(asked)["protocolVersion"], agreed, "{asked}");
    }
}

#[test]
fn the_method_of_a_later_protocol_is_unknown_and_initialize_still_works() {
    let mut client = Client::worker();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    let answer = client.request(7, "server/discover", &json!({ "_meta": meta })).answer(7);
    assert_eq!(answer["error"]["code"], -32601);
    client.request(8, "server/discover", &Value::Null);
    assert_eq!(client.answer(8)["error"]["code"], -32601);
    assert_eq!(client.initialize("2025-11-25")["protocolVersion"], "2025-11-25");
}

#[test]
fn methods_that_are_not_offered_are_unknown() {
    let mut client = Client::worker();
    client.initialize("2025-11-25");
    for (id, method) in
        (1..).zip(["nonsense", "prompts/list", "resources/list", "logging/setLevel", "tasks/get"])
    {
        let params = json!({ "level": "info", "taskId": "t" });
        assert_eq!(client.request(id, method, &params).answer(id)["error"]["code"], -32601, "{method}");
    }
    assert_eq!(client.request(99, "ping", &json!({})).answer(99)["result"], json!({}));
}

#[test]
fn nothing_said_before_initialize_ends_the_server() {
    let mut client = Client::worker();
    client.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    client.write(r#"{"jsonrpc":"2.0","id":5,"result":{}}"#);
    client.write(r#"{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"no"}}"#);
    assert_eq!(client.request(1, "nonsense", &json!({})).answer(1)["error"]["code"], -32601);
    assert_eq!(text(&client.tool(2, "send_message", &hello()).answer(2)), "done");
    client.initialize("2025-11-25");
}

#[test]
fn noise_is_skipped_and_a_request_that_cannot_be_understood_is_answered() {
    let mut client = Client::worker();
    client.initialize("2025-11-25");
    let deep = format!(r#"{{"jsonrpc":"2.0","id":31,"method":"tools/call","params":{}"#, "[".repeat(500));
    let deep = format!("{deep}{}}}", "]".repeat(500));
    for noise in [&b"garbage"[..], b"", b"{", b"[]", b"null", b"42", b"\xFF\xFE", b"{}", b"{\"id\":1}", b"\r"]
    {
        client.write(noise);
    }
    client.write(r#"{"jsonrpc":"2.0","method":"notifications/unheard_of"}"#);
    client.write(r#"{"jsonrpc":"1.0","id":30,"method":"ping"}"#);
    assert_eq!(client.answer(30)["error"]["code"], -32600);
    client.write(deep);
    assert_eq!(client.answer(31)["error"]["code"], -32600);
    client.request(32, "tools/call", &json!({ "name": 5 }));
    assert_eq!(client.answer(32)["error"]["code"], -32602);
    client.write("{\"jsonrpc\":\"2.0\",\"id\":\"s\",\"method\":\"ping\"}\r");
    assert_eq!(client.next()["id"], "s");
}

#[test]
fn a_worker_is_shown_the_golden_list() {
    let mut client = Client::worker();
    client.initialize("2025-11-25");
    let result = client.request(1, "tools/list", &json!({})).answer(1)["result"].clone();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/tools-worker.json");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, format!("{result:#}\n")).unwrap();
    }
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(result, golden, "run with UPDATE_DOCS=1 if the change is meant");
}

#[test]
fn the_backend_hears_of_each_list_once_it_was_written() {
    let backend = Recorder::new(ToolSet::Worker);
    let mut client = Client::of(&backend);
    client.initialize("2025-11-25");
    assert_eq!(text(&client.tool(1, "team_read", &json!({})).answer(1)), "done");
    assert_eq!(backend.change(|it| it.listed), 0);
    client.request(2, "tools/list", &json!({})).answer(2);
    backend.wait(|it| it.listed == 1);
    client.leave();
    assert_eq!(backend.change(|it| it.listed), 1);
}

#[test]
fn a_call_reaches_the_backend_checked_with_what_was_set_aside_and_what_the_client_added() {
    let backend = Recorder::new(ToolSet::Worker);
    let mut client = Client::of(&backend);
    client.initialize("2025-11-25");
    let arguments = json!({ "to": "coder", "content": "hello", "sender": "leader", "task": 3 });
    let params = json!({ "name": "send_message", "arguments": arguments, "_meta": { "callId": "c-1" } });
    let answer = client.request(1, "tools/call", &params).answer(1);
    assert_eq!(answer["result"]["isError"], false);
    assert_eq!(answer["result"]["structuredContent"]["ok"], true);
    let calls = backend.change(|it| it.calls.clone());
    let [call] = &calls[..] else { panic!("one call: {calls:?}") };
    let ToolRequest::SendMessage(SendMessageArgs { to, content, task, .. }) = &call.request else { panic!() };
    assert_eq!(
        (to.as_slice(), content.as_str(), task.as_deref()),
        (&["coder".to_owned()][..], "hello", Some("3"))
    );
    assert_eq!((call.ignored[0].name.as_str(), &call.ignored[0].value), ("sender", &json!("leader")));
    assert_eq!(call.meta["callId"], "c-1");
}

#[test]
fn a_refusal_says_everything_that_is_wrong_and_reaches_nobody() {
    let backend = Recorder::new(ToolSet::Worker);
    let mut client = Client::of(&backend);
    let answer =
        client.tool(1, "report_result", &json!({ "summary": " ", "status": "done", "sumary": 1 })).answer(1);
    assert_eq!(code(&answer), "bad_arguments");
    for part in ["`summary` is empty", "`success`, `partial`, `failed`, `blocked`", "did you mean `summary`"]
    {
        assert!(text(&answer).contains(part), "{part}: {}", text(&answer));
    }
    let answer = client.tool(2, "send_message", &json!({ "to": "x", "content": "refuse" })).answer(2);
    assert_eq!(code(&answer), "nobody_there");
    assert_eq!(backend.contents(), ["refuse"]);
}

#[test]
fn the_set_is_asked_for_each_time() {
    let backend = Recorder::new(ToolSet::Worker);
    let mut client = Client::of(&backend);
    let names = |answer: &Value| -> Vec<String> {
        let tools = answer["result"]["tools"].as_array().unwrap();
        tools.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(code(&client.tool(1, "team_add", &json!({})).answer(1)), "not_allowed");
    let all = names(&client.request(2, "tools/list", &json!({})).answer(2));
    assert_eq!(all, ["send_message", "report_result", "team_read", "request_human"]);
    backend.change(|it| it.set = ToolSet::Lead);
    assert_eq!(code(&client.tool(3, "team_add", &json!({})).answer(3)), "not_supported_yet");
    backend.change(|it| it.set = ToolSet::Unbound);
    assert_eq!(
        names(&client.request(4, "tools/list", &json!({})).answer(4)),
        ["send_message", "report_result"]
    );
    assert_eq!(code(&client.tool(5, "team_read", &json!({})).answer(5)), "not_allowed");
    assert_eq!(text(&client.tool(6, "send_message", &hello()).answer(6)), "done");
}

#[test]
fn a_call_under_another_name_answers_with_the_old_keys() {
    let mut client = Client::worker();
    let answer = client.tool(1, "list_agents", &json!({ "team_id": "current" })).answer(1);
    let content = &answer["result"]["structuredContent"];
    assert_eq!(content["team_id"], "current");
    assert_eq!(
        content["agents"][0],
        json!({ "id": "coder", "name": "coder", "role": "writes code", "state": "running" })
    );
    let answer = client.tool(2, "check_agent", &json!({ "agent_id": "coder" })).answer(2);
    assert_eq!(answer["result"]["structuredContent"]["role"], "writes code");
    let answer = client.tool(3, "check_agent", &json!({ "agent_id": "codr" })).answer(3);
    assert_eq!(code(&answer), "unknown_agent");
    assert!(text(&answer).contains("did you mean `coder`"));
}

#[test]
fn a_panic_is_an_error_of_that_call_alone() {
    let mut client = Client::worker();
    let answer = client.tool(1, "send_message", &json!({ "to": "coder", "content": "panic" })).answer(1);
    assert_eq!(code(&answer), "internal");
    assert!(text(&answer).contains("boom"));
    assert_eq!(text(&client.tool(2, "send_message", &hello()).answer(2)), "done");
}

#[test]
fn changes_keep_their_order_and_do_not_hold_up_reads() {
    let backend = Recorder::new(ToolSet::Worker);
    let mut client = Client::of(&backend);
    client.tool(1, "send_message", &json!({ "to": "coder", "content": "gate" }));
    for id in 2..20 {
        client.tool(id, "team_send", &json!({ "to": "coder", "content": id.to_string() }));
    }
    assert_eq!(text(&client.tool(20, "team_read", &json!({})).answer(20)), "done");
    backend.change(|it| it.gate_open = true);
    for id in 1..20 {
        client.answer(id);
    }
    let sent: Vec<_> = backend.contents().into_iter().filter(|it| it != "team_read").collect();
    let expected: Vec<_> =
        std::iter::once("gate".to_owned()).chain((2..20).map(|it| it.to_string())).collect();
    assert_eq!(sent, expected);
}

#[test]
fn a_call_that_is_under_way_when_the_client_leaves_is_finished() {
    let backend = Recorder::new(ToolSet::Worker);
    let mut client = Client::of(&backend);
    client.tool(1, "send_message", &json!({ "to": "coder", "content": "gate" }));
    client.tool(2, "report_result", &json!({ "summary": "done", "status": "success" }));
    backend.wait(|it| it.calls.len() == 1);
    drop(client.input.take());
    backend.change(|it| it.gate_open = true);
    client.leave();
    assert_eq!(backend.change(|it| it.finished), 2);
    let calls = backend.change(|it| it.calls.clone());
    let ToolRequest::ReportResult(report) = &calls[1].request else { panic!("{calls:?}") };
    assert_eq!((report.summary.as_str(), report.status), ("done", ReportStatus::Success));
}

#[test]
fn a_cancelled_call_is_not_answered_and_the_next_one_is() {
    let backend = Recorder::new(ToolSet::Worker);
    let mut client = Client::of(&backend);
    client.initialize("2025-11-25");
    client.tool(1, "send_message", &json!({ "to": "coder", "content": "gate" }));
    backend.wait(|it| it.calls.len() == 1);
    client.write(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    client.request(2, "ping", &json!({})).answer(2);
    backend.change(|it| it.gate_open = true);
    client.tool(3, "send_message", &hello()).answer(3);
}

#[test]
fn a_text_that_is_too_large_is_refused_in_words_and_an_endless_line_is_thrown_away() {
    let mut client = Client::worker();
    let answer =
        client.tool(1, "send_message", &json!({ "to": "x", "content": "é".repeat(600_000) })).answer(1);
    assert!(
        text(&answer).contains("`content` has 1200000 bytes, at most 1048576 are allowed"),
        "{}",
        text(&answer)
    );
    client.write(vec![b'x'; (32 << 20) + 1]);
    assert_eq!(client.next()["error"]["code"], -32600);
    client.request(2, "ping", &json!({})).answer(2);
}

#[test]
fn the_last_line_counts_without_its_end() {
    let backend = Recorder::new(ToolSet::Worker);
    let mut client = Client::of(&backend);
    let params = json!({ "name": "send_message", "arguments": hello() });
    let line = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    client.input.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    client.leave();
    assert_eq!(backend.contents(), ["hello"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_line_ends_the_server(lines in prop::collection::vec(hostile_line(), 1..8)) {
        let mut client = Client::worker();
        for line in lines {
            client.write(line);
        }
        client.request(77, "ping", &json!({}));
        while client.next()["id"] != 77 {}
        client.leave();
    }
}

fn hostile_line() -> impl Strategy<Value = Vec<u8>> {
    let method = prop::sample::select(vec![
        "tools/call",
        "tools/list",
        "initialize",
        "ping",
        "notifications/cancelled",
        "x",
    ]);
    let params = prop::sample::select(vec![
        "{}",
        "[]",
        "null",
        "7",
        r#"{"name":"send_message"}"#,
        r#"{"name":"send_message","arguments":[]}"#,
        r#"{"name":"report_result","arguments":{"status":{}}}"#,
        r#"{"name":"","arguments":{}}"#,
        r#"{"requestId":1}"#,
    ]);
    let id = prop::sample::select(vec!["1", "\"a\"", "null", "1.5", "{}", "-1"]);
    prop_oneof![
        prop::collection::vec(any::<u8>().prop_filter("stays one line", |it| *it != b'\n'), 0..60),
        (method, params, id).prop_map(|(method, params, id)| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#).into_bytes()
        }),
    ]
}
