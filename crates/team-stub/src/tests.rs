use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{Kind, ModelStub};

const SOON: Duration = Duration::from_secs(10);

/// Sends one request on a connection of its own and returns the head and the body, its chunks joined.
fn ask(stub: &ModelStub, method: &str, target: &str, body: &str) -> (String, String) {
    let mut stream = connect(stub);
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nhost: stub\r\nconnection: close\r\nX-Claude-Code-Session-Id: s1\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let body = if head.contains("transfer-encoding: chunked") { join_chunks(body) } else { body.to_owned() };
    (head.to_owned(), body)
}

fn connect(stub: &ModelStub) -> TcpStream {
    let stream = TcpStream::connect(stub.url().strip_prefix("http://").unwrap()).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    stream
}

fn join_chunks(mut rest: &str) -> String {
    let mut body = String::new();
    loop {
        let (size, after) = rest.split_once("\r\n").unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return body;
        }
        body.push_str(&after[..size]);
        rest = after[size..].strip_prefix("\r\n").unwrap();
    }
}

fn question(text: &str, stream: bool) -> Value {
    json!({
        "model": "m", "stream": stream, "tools": [{"name": "Bash"}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": text}]}],
    })
}

fn turn(stub: &ModelStub, question: &Value) -> (String, String) {
    ask(stub, "POST", "/v1/messages?beta=true", &question.to_string())
}

fn event_names(body: &str) -> Vec<&str> {
    body.lines().filter_map(|line| line.strip_prefix("event: ")).collect()
}

#[test]
fn a_text_without_directive_is_answered_with_ok() {
    let stub = ModelStub::start().unwrap();
    let (head, body) = turn(&stub, &question("hello", false));
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["content"], json!([{"type": "text", "text": "ok"}]));
    assert_eq!(body["stop_reason"], "end_turn");
}

#[test]
fn a_streamed_reply_has_the_events_of_the_protocol_in_order() {
    let stub = ModelStub::start().unwrap();
    let (_, body) = turn(&stub, &question("stub: say hi\nstub: bash ls", true));
    let expected = [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ];
    assert_eq!(event_names(&body), expected);
    assert!(body.contains(r#""stop_reason":"tool_use""#), "{body}");
    let request = stub.wait_for(|it| it.outcome.is_some(), SOON).unwrap();
    assert_eq!(request.session.as_deref(), Some("s1"));
    assert_eq!(request.tools, ["Bash"]);
    let outcome = request.outcome.unwrap();
    assert_eq!(
        (outcome.said.as_str(), outcome.called, outcome.finished),
        ("hi", vec!["Bash".to_owned()], true)
    );
}

#[test]
fn a_refusal_that_says_when_to_come_again_is_made_once() {
    let stub = ModelStub::start().unwrap();
    let question = question("stub: error 429 2\nstub: say later", true);
    let (head, body) = turn(&stub, &question);
    assert!(head.starts_with("HTTP/1.1 429 ") && head.contains("retry-after: 2"), "{head}");
    assert!(body.contains("rate_limit_error"), "{body}");
    let (_, body) = turn(&stub, &question);
    assert!(body.contains(r#""text":"later""#), "{body}");
}

#[test]
fn a_refusal_without_advice_holds_until_something_more_is_said() {
    let stub = ModelStub::start().unwrap();
    let refused = question("stub: error 529", true);
    for _ in 0..3 {
        let (head, _) = turn(&stub, &refused);
        assert!(head.starts_with("HTTP/1.1 529 ") && head.contains("x-should-retry: false"), "{head}");
    }
    // Some programs merge messages that stand side by side, so the text it was in may change.
    let (_, body) = turn(&stub, &question("stub: error 529\nstub: say well", true));
    assert!(body.contains(r#""text":"well""#), "{body}");
}

#[test]
fn a_message_in_the_program_s_own_name_counts_only_if_it_hands_something_over() {
    let stub = ModelStub::start().unwrap();
    let mut question = question("hello", false);
    let messages = question["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "system", "content": "stub: say list of tools"}));
    messages.push(
        json!({"role": "system", "content": "<task-notification>x</task-notification>\nstub: say yes"}),
    );
    let (_, body) = turn(&stub, &question);
    assert!(body.contains(r#""text":"yes""#), "{body}");
    let request = &stub.turns()[0];
    assert!(
        request.says("hello") && request.says("say yes") && !request.says("list of tools"),
        "{request:?}"
    );
}

#[test]
fn a_slow_text_arrives_whole_and_in_pieces() {
    let stub = ModelStub::start().unwrap();
    let (_, body) = turn(&stub, &question("stub: slow 20 zwölf Boxkämpfer jagen", true));
    assert!(event_names(&body).iter().filter(|name| **name == "content_block_delta").count() > 5, "{body}");
    let request = stub.wait_for(|it| it.outcome.is_some(), SOON).unwrap();
    assert_eq!(request.outcome.unwrap().said, "zwölf Boxkämpfer jagen");
}

#[test]
fn a_program_that_hangs_up_is_noticed_while_the_reply_is_under_way() {
    let stub = ModelStub::start().unwrap();
    let mut stream = connect(&stub);
    let body = question("stub: think 600000", true).to_string();
    write!(stream, "POST /v1/messages HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    stream.read_exact(&mut [0; 12]).unwrap();
    drop(stream);
    let request = stub.wait_for(|it| it.outcome.is_some(), SOON).unwrap();
    assert!(!request.outcome.unwrap().finished);
}

#[test]
fn a_stub_that_is_dropped_hangs_up_at_once() {
    let stub = ModelStub::start().unwrap();
    let mut stream = connect(&stub);
    let body = question("stub: think 600000", true).to_string();
    write!(stream, "POST /v1/messages HTTP/1.1\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    stream.read_exact(&mut [0; 12]).unwrap();
    drop(stub);
    let mut rest = Vec::new();
    // A reset is an end as well.
    stream.read_to_end(&mut rest).ok();
}

#[test]
fn a_request_without_tools_gets_a_title_and_takes_no_directive() {
    let stub = ModelStub::start().unwrap();
    let mut side = question("stub: error 500", false);
    side["tools"] = json!([]);
    let (_, body) = turn(&stub, &side);
    assert!(body.contains("Stubbed session"), "{body}");
    side["output_config"] =
        json!({"format": {"type": "json_schema", "schema": {"properties": {"title": {}}}}});
    let (_, body) = turn(&stub, &side);
    assert!(body.contains(r#"{\"title\":\"Stubbed session\"}"#), "{body}");
    assert!(stub.requests().iter().all(|it| it.kind == Kind::Side));
}

#[test]
fn a_request_for_a_summary_takes_no_directive() {
    let stub = ModelStub::start().unwrap();
    let mut question = question("stub: say one", false);
    let texts = question["messages"][0]["content"].as_array_mut().unwrap();
    texts.push(json!({"type": "text", "text": "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools."}));
    let (_, body) = turn(&stub, &question);
    assert!(body.contains("Stubbed session"), "{body}");
    assert_eq!(stub.requests()[0].kind, Kind::Side);
}

#[test]
fn what_else_is_asked_gets_a_harmless_answer() {
    let stub = ModelStub::start().unwrap();
    let (head, body) = ask(&stub, "HEAD", "/", "");
    assert!(head.starts_with("HTTP/1.1 200 OK") && body.is_empty(), "{head}");
    let (_, body) = ask(&stub, "POST", "/v1/messages/count_tokens", r#"{"messages":[]}"#);
    assert!(body.contains("input_tokens"), "{body}");
    let (_, body) = ask(&stub, "POST", "/api/event_logging/batch", "not json");
    assert_eq!(body, "{}");
    let kinds: Vec<Kind> = stub.requests().iter().map(|it| it.kind).collect();
    assert_eq!(kinds, [Kind::Probe, Kind::Count, Kind::Other]);
}

#[test]
fn a_connection_serves_several_requests_and_takes_chunked_bodies() {
    let stub = ModelStub::start().unwrap();
    let mut stream = connect(&stub);
    let body = question("stub: say one", false).to_string();
    let (left, right) = body.split_at(body.len() / 2);
    write!(
        stream,
        "POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{left}\r\n{:x}\r\n{right}\r\n0\r\n\r\n\
         HEAD / HTTP/1.1\r\nconnection: close\r\n\r\n",
        left.len(),
        right.len()
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.contains(r#""text":"one""#), "{reply}");
    assert_eq!(reply.matches("HTTP/1.1 200 OK").count(), 2);
}

#[test]
fn a_request_that_does_not_come_is_reported_with_what_came() {
    let stub = ModelStub::start().unwrap();
    ask(&stub, "HEAD", "/", "");
    let error = stub.wait_for(|it| it.says("never"), Duration::from_millis(20)).unwrap_err();
    assert!(error.to_string().contains("1 Probe HEAD /"), "{error}");
}

/// Asks over the Responses API.
fn respond(stub: &ModelStub, input: &Value) -> (String, String) {
    let inner = json!([{ "type": "function", "name": "report_result" }]);
    let tools = json!([
        { "type": "function", "name": "exec_command" },
        { "type": "namespace", "name": "mcp__x", "tools": inner },
    ]);
    let body =
        json!({ "model": "m", "stream": true, "input": input, "tools": tools, "prompt_cache_key": "t" });
    ask(stub, "POST", "/v1/responses", &body.to_string())
}

fn said_by(role: &str, text: &str) -> Value {
    json!({ "type": "message", "role": role, "content": [{ "type": "input_text", "text": text }] })
}

#[test]
fn the_responses_api_says_calls_and_refuses_as_told() {
    let stub = ModelStub::start().unwrap();
    let (_, said) =
        respond(&stub, &json!([said_by("developer", "stub: say not this"), said_by("user", "stub: say hi")]));
    assert_eq!(event_names(&said).last(), Some(&"response.completed"));
    let turn = stub.turns().pop().unwrap();
    assert_eq!((turn.session.as_deref(), turn.outcome.unwrap().said.as_str()), (Some("t"), "hi"));
    assert_eq!(turn.tools, ["exec_command", "mcp__x__report_result"]);

    let script = said_by("user", "stub: call mcp__x__report_result {\"a\":1}\nstub: bash ls\nstub: say end");
    let (_, called) = respond(&stub, &json!([script]));
    assert!(called.contains(r#""name":"report_result","namespace":"mcp__x""#), "{called}");
    let call = json!({ "type": "function_call", "name": "report_result", "call_id": "call_stub_0_x", "arguments": "{}" });
    let result = json!({ "type": "function_call_output", "call_id": "call_stub_0_x", "output": "" });
    let (_, called) = respond(&stub, &json!([script, call, result]));
    assert!(called.contains(r#"{\"cmd\":\"ls\""#), "{called}");

    // A summary stands for what was answered before it.
    let summary =
        said_by("user", "Another language model started to solve this problem and produced a summary of it");
    respond(&stub, &json!([script, summary, said_by("user", "stub: say after")]));
    assert_eq!(stub.turns().pop().unwrap().outcome.unwrap().said, "after");

    let (head, limit) = respond(&stub, &json!([said_by("user", "stub: error 429 60")]));
    assert!(head.starts_with("HTTP/1.1 429") && head.contains("x-codex-primary-reset-at"), "{head}");
    assert!(limit.contains("usage_limit_reached"), "{limit}");
    let (head, _) = respond(&stub, &json!([said_by("user", "stub: error 500")]));
    assert!(head.starts_with("HTTP/1.1 500"), "{head}");
}

#[test]
fn a_model_that_is_offered_code_calls_by_code_and_goes_on_behind_it() {
    let stub = ModelStub::start().unwrap();
    let exec = "Runs code\n\n### `exec_command`\nRuns a command\n### `view_image`\n";
    let functions = json!([
        { "type": "custom", "name": "exec", "description": exec },
        { "type": "function", "name": "wait" },
    ]);
    let tools = json!([
        { "type": "namespace", "name": "functions", "tools": functions },
        { "type": "namespace", "name": "own", "tools": [{ "type": "function", "name": "spawn" }] },
    ]);
    let offer = json!({ "type": "additional_tools", "role": "developer", "tools": tools });
    let respond = |more: &[Value]| {
        let script = said_by("user", "stub: call mcp__x__report-it {\"a\":1}\nstub: ask ls\nstub: say end");
        let input: Vec<Value> = [offer.clone(), script].iter().chain(more).cloned().collect();
        let (_, said) =
            ask(&stub, "POST", "/v1/responses", &json!({ "model": "m", "input": input }).to_string());
        said
    };
    let data = |said: &str| -> Vec<Value> {
        said.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect()
    };
    let said = respond(&[]);
    let events = data(&said);
    let pieces: String = events.iter().filter_map(|it| it["delta"].as_str()).collect();
    let call = &events.iter().find(|it| it["type"] == "response.output_item.done").unwrap()["item"];
    assert_eq!((&call["type"], &call["name"]), (&json!("custom_tool_call"), &json!("exec")));
    let code = call["input"].as_str().unwrap();
    assert_eq!(pieces, code);
    let (pragma, code) = code.split_once('\n').unwrap();
    assert!(pragma.starts_with("// @exec: {"), "{pragma}");
    assert_eq!(code, r#"text(await tools.mcp__x__report_it({"a":1}));"#);

    let result = json!({ "type": "custom_tool_call_output", "call_id": call["call_id"], "output": "" });
    let said = respond(&[call.clone(), result]);
    assert!(said.contains("tools.exec_command(") && said.contains("require_escalated"), "{said}");
    let turn = stub.turns().pop().unwrap();
    assert_eq!(turn.tools, ["exec_command", "view_image", "exec", "wait", "own__spawn"]);
    assert_eq!(turn.outcome.unwrap().called, ["exec_command"]);
}

#[test]
fn a_tool_that_is_kept_back_until_it_is_searched_for_is_called_by_its_namespace() {
    let stub = ModelStub::start().unwrap();
    let body = json!({
        "model": "m", "tools": [{ "type": "tool_search", "execution": "client" }],
        "input": [said_by("user", "stub: call mcp__x__report_result {}")],
    });
    let (_, said) = ask(&stub, "POST", "/v1/responses", &body.to_string());
    assert!(said.contains(r#""name":"report_result","namespace":"mcp__x""#), "{said}");
}

#[test]
fn generate_content_is_streamed_goes_on_behind_a_call_and_is_refused() {
    let stub = ModelStub::start().unwrap();
    let ask_it = |contents: Value, method: &str| {
        let body = json!({
            "contents": contents, "systemInstruction": { "parts": [{ "text": "be brief" }] },
            "tools": [{ "functionDeclarations": [{ "name": "run_shell_command" }] }],
        });
        ask(&stub, "POST", &format!("/v1beta/models/m:{method}"), &body.to_string())
    };
    let user = json!({ "role": "user", "parts": [{ "text": "stub: bash ls\nstub: say done" }] });
    let (_, body) = ask_it(json!([user]), "streamGenerateContent?alt=sse");
    let first = body.lines().next().unwrap().strip_prefix("data: ").unwrap();
    let first: Value = serde_json::from_str(first).unwrap();
    let call = &first["candidates"][0]["content"]["parts"][0]["functionCall"];
    assert_eq!((&call["name"], &call["args"]["command"]), (&json!("run_shell_command"), &json!("ls")));

    // The program puts words of its own before the id.
    let id = format!("run_shell_command__{}", call["id"].as_str().unwrap());
    let called =
        json!({ "role": "model", "parts": [{ "functionCall": { "id": id, "name": "run_shell_command" } }] });
    let result = json!({ "role": "user", "parts": [{ "functionResponse": { "id": id, "response": {} } }] });
    let (_, body) = ask_it(json!([user, called, result]), "generateContent");
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["candidates"][0]["content"]["parts"][0]["text"], "done");
    assert_eq!(body["candidates"][0]["finishReason"], "STOP");

    let limit = json!([{ "role": "user", "parts": [{ "text": "stub: error 429" }] }]);
    let (head, body) = ask_it(limit, "streamGenerateContent?alt=sse");
    assert!(head.starts_with("HTTP/1.1 429 ") && body.contains("PerDay"), "{head}\n{body}");

    let turns = stub.turns();
    assert_eq!(turns.len(), 3);
    assert_eq!((turns[0].model.as_deref(), turns[0].system.as_str()), (Some("m"), "be brief"));
    assert!(turns[0].offers("run_shell_command") && turns[0].says("stub: bash ls"));
}

#[test]
fn chat_completions_are_streamed_go_on_behind_a_call_and_give_up_what_was_interrupted() {
    let stub = ModelStub::start().unwrap();
    let ask_it = |messages: Value, stream: bool| {
        let tools = json!([{ "type": "function", "function": { "name": "bash" } }]);
        let body = json!({ "model": "m", "stream": stream, "messages": messages, "tools": tools });
        ask(&stub, "POST", "/v1/chat/completions", &body.to_string())
    };
    let system = json!({ "role": "system", "content": "be brief" });
    let user = |text: &str| json!({ "role": "user", "content": text });
    let script = user("stub: bash ls\nstub: say done");
    let (_, body) = ask_it(json!([system, script]), true);
    assert!(body.ends_with("data: [DONE]\n\n"), "{body}");
    let pieces: Vec<Value> =
        body.lines().filter_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok()).collect();
    let call = &pieces[1]["choices"][0]["delta"]["tool_calls"][0];
    assert_eq!(call["function"]["name"], "bash");
    assert_eq!(pieces.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");

    let called = json!({ "role": "assistant", "content": "", "tool_calls": [call] });
    let result = json!({ "role": "tool", "tool_call_id": call["id"], "content": "x" });
    let (_, body) = ask_it(json!([system, script, called, result]), false);
    let body: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(body["choices"][0]["message"]["content"], "done");

    // A text behind another one, without a word of the model between them.
    let (_, body) = ask_it(json!([user("stub: error 500"), user("stub: say next")]), false);
    assert!(body.contains(r#""content":"next""#), "{body}");
    let (head, _) = ask_it(json!([user("stub: error 429 7")]), true);
    assert!(head.starts_with("HTTP/1.1 429 ") && head.contains("retry-after: 7"), "{head}");
    assert_eq!(stub.turns()[0].system, "be brief");
    assert!(stub.turns()[0].offers("bash"));
}
