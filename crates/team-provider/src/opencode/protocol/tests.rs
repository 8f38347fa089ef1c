use super::*;
use std::path::Path;

const SESSION: &str = "ses_1aB";
const MESSAGE: &str = "msg_1aB_m-2d7";

fn protocol(native_id: Option<&str>, again: bool) -> Protocol {
    let cwd = Path::new("/w");
    Protocol::new(&BridgeContext { agent: "w1", cwd, native_id, again, tool_prefix: "team_" })
}

/// A conversation that has begun and is idle.
fn idle() -> Protocol {
    let mut it = protocol(None, false);
    it.on(Input::Connected);
    reply(&mut it, 200, &json!({ "id": SESSION }));
    for (tag, body) in [(2, json!({})), (3, json!([])), (4, json!(true))] {
        it.on(Input::Frame(json!({ "reply": tag, "status": 200, "body": body })));
    }
    assert!(it.is_open());
    it
}

/// Answers the last request.
fn reply(it: &mut Protocol, status: u64, body: &Value) -> Vec<Output> {
    let tag = it.next;
    it.on(Input::Frame(json!({ "reply": tag, "status": status, "body": body })))
}

fn event(it: &mut Protocol, kind: &str, mut properties: Value) -> Vec<String> {
    if properties.get("sessionID").is_none() {
        properties["sessionID"] = json!(SESSION);
    }
    show(it.on(Input::Frame(json!({ "event": { "type": kind, "properties": properties } }))))
}

fn status(it: &mut Protocol, kind: &str) -> Vec<String> {
    event(it, "session.status", json!({ "status": { "type": kind } }))
}

/// A person's text appears in the conversation.
fn says(it: &mut Protocol, id: &str, text: &str) -> Vec<String> {
    event(it, "message.updated", json!({ "info": { "id": id, "role": "user" } }));
    event(it, "message.part.updated", json!({ "part": { "messageID": id, "type": "text", "text": text } }))
}

fn answers(it: &mut Protocol, parent: &str) -> Vec<String> {
    let info = json!({ "id": format!("to-{parent}"), "role": "assistant", "parentID": parent, "time": {} });
    event(it, "message.updated", json!({ "info": info }))
}

fn message(it: &mut Protocol, again: bool) -> Vec<String> {
    show(it.on(Input::Message { key: "m-7".to_owned(), text: "hello".to_owned(), again }))
}

fn has_answered(it: &mut Protocol, parent: &str) {
    let info = json!({ "id": "to", "role": "assistant", "parentID": parent, "time": { "completed": 1 } });
    assert_eq!(event(it, "message.updated", json!({ "info": info })), [""; 0]);
}

/// Writes outputs in short.
fn show(outputs: Vec<Output>) -> Vec<String> {
    let short = |it: Output| match it {
        Output::Send(frame) => {
            format!("{} {}", frame["method"].as_str().unwrap(), frame["path"].as_str().unwrap())
        }
        Output::Fact { fact, .. } => match fact {
            Fact::TurnStarted { prompt, .. } => format!("turn of {}", prompt.unwrap_or_default()),
            Fact::TurnEnded { outcome, .. } => format!("end by {outcome:?}"),
            Fact::Activity { kind, .. } => format!("{kind:?}"),
            Fact::ApprovalRequested { tool, input_summary, .. } => format!("{tool}? {input_summary}"),
            other => format!("{other:?}").split([' ', '{']).next().unwrap().to_owned(),
        },
        other => format!("{other:?}"),
    };
    outputs.into_iter().map(short).collect()
}

#[test]
fn a_new_conversation_is_made_shown_and_told() {
    let mut it = protocol(None, false);
    assert_eq!(show(it.on(Input::Connected)), ["POST /session"]);
    assert!(!it.is_open());
    assert_eq!(
        show(reply(&mut it, 200, &json!({ "id": SESSION }))),
        ["SessionStarted", "GET /session/status", "GET /permission", "POST /tui/select-session", "Wake(1s)"]
    );
    assert_eq!(show(it.on(Input::Tick)), ["POST /tui/select-session", "Wake(2s)"]);
    assert_eq!(show(it.on(Input::Frame(json!({ "reply": 2, "status": 200, "body": {} })))), ["Idle"]);
    assert!(it.is_open());
}

#[test]
fn an_earlier_conversation_goes_on_or_the_seat_ends() {
    let mut it = protocol(Some(SESSION), false);
    assert_eq!(show(it.on(Input::Connected)), ["GET /session/ses_1aB"]);
    assert_eq!(
        show(reply(&mut it, 200, &json!({}))),
        ["SessionStarted", "GET /session/status", "GET /permission"]
    );
    let mut it = protocol(Some(SESSION), false);
    it.on(Input::Connected);
    assert!(matches!(reply(&mut it, 404, &Value::Null)[..], [Output::End { .. }]));
}

#[test]
fn a_message_counts_as_taken_when_its_text_is_shown() {
    let mut it = idle();
    assert_eq!(message(&mut it, false), ["POST /session/ses_1aB/prompt_async"]);
    assert!(!it.is_open());
    assert_eq!(show(reply(&mut it, 204, &Value::Null)), [""; 0]);
    assert_eq!(says(&mut it, MESSAGE, "hello"), ["turn of hello", r#"Taken { key: "m-7" }"#]);
    assert_eq!(status(&mut it, "busy"), [""; 0]);
    assert_eq!(answers(&mut it, MESSAGE), [""; 0]);
    assert_eq!(says(&mut it, MESSAGE, "hello"), [""; 0]);
    has_answered(&mut it, MESSAGE);
    assert_eq!(status(&mut it, "idle"), ["end by Answer"]);
    assert_eq!(status(&mut it, "idle"), [""; 0]);
    assert!(it.is_open());
}

#[test]
fn a_refused_message_is_put_back_and_waits() {
    let mut it = idle();
    message(&mut it, false);
    assert_eq!(show(reply(&mut it, 400, &Value::Null)), [r#"PutBack { key: "m-7" }"#, "Wake(5s)"]);
    assert!(!it.is_open());
    it.on(Input::Tick);
    assert!(it.is_open());
}

#[test]
fn what_may_have_been_sent_is_looked_for_first() {
    let mut it = idle();
    assert_eq!(message(&mut it, true), ["GET /session/ses_1aB/message/msg_1aB_m-2d7"]);
    assert_eq!(show(reply(&mut it, 404, &Value::Null)), ["POST /session/ses_1aB/prompt_async"]);
    let mut it = idle();
    message(&mut it, true);
    assert_eq!(
        show(reply(&mut it, 200, &json!({}))),
        ["turn of hello", "end by Unstated", r#"Taken { key: "m-7" }"#]
    );
    // Nobody answered: neither sent nor given up.
    let mut it = idle();
    message(&mut it, true);
    assert_eq!(show(reply(&mut it, 0, &Value::Null)), ["Wake(5s)"]);
    assert_eq!(show(it.on(Input::Tick)), ["GET /session/ses_1aB/message/msg_1aB_m-2d7"]);
}

#[test]
fn a_text_behind_a_running_turn_begins_one_when_it_is_answered() {
    let mut it = idle();
    assert_eq!(says(&mut it, "msg_a", "one"), ["turn of one"]);
    status(&mut it, "busy");
    answers(&mut it, "msg_a");
    assert_eq!(says(&mut it, "msg_b", "two"), ["Enqueued"]);
    assert_eq!(answers(&mut it, "msg_a"), [""; 0]);
    has_answered(&mut it, "msg_a");
    assert_eq!(answers(&mut it, "msg_b"), ["end by Answer", "turn of two"]);
    // Interrupted before a word was said.
    assert_eq!(status(&mut it, "idle"), ["end by Interrupted"]);
}

#[test]
fn interrupts_errors_and_limits_are_told() {
    let mut it = idle();
    says(&mut it, "msg_a", "one");
    let error = json!({ "error": { "name": "MessageAbortedError", "data": { "message": "Aborted" } } });
    event(&mut it, "session.error", error);
    assert_eq!(status(&mut it, "idle"), ["end by Interrupted"]);
    says(&mut it, "msg_b", "two");
    let error = json!({ "error": { "name": "APIError", "data": { "message": "no" } } });
    event(&mut it, "session.error", error);
    assert_eq!(status(&mut it, "idle"), [r#"end by Error { kind: "APIError: no" }"#]);
    says(&mut it, "msg_c", "three");
    status(&mut it, "busy");
    let retry = |message: &str| json!({ "status": { "type": "retry", "message": message, "next": 5_001 } });
    assert_eq!(event(&mut it, "session.status", retry("overloaded")), [""; 0]);
    let outputs = it.on(Input::Frame(json!({ "event": { "type": "session.status", "properties": {
        "sessionID": SESSION, "status": retry("The usage limit")["status"] } } })));
    let limited = Fact::Limited { until: Some(6), text: "The usage limit".to_owned() };
    assert_eq!(outputs, [Output::Fact { record: "session.status".to_owned(), fact: limited }]);
    assert_eq!(status(&mut it, "busy"), ["Working"]);
    has_answered(&mut it, "msg_c");
    assert_eq!(status(&mut it, "idle"), ["end by Answer"]);
}

#[test]
fn questions_are_told_answered_and_closed_whoever_asks() {
    let mut it = idle();
    let ask = |id: &str| {
        json!({ "id": id, "sessionID": "ses_child", "permission": "bash", "patterns": ["ls"],
                "metadata": { "command": "ls -l" } })
    };
    assert_eq!(event(&mut it, "permission.asked", ask("per_1")), ["bash? ls -l"]);
    assert_eq!(event(&mut it, "permission.asked", ask("per_1")), [""; 0]);
    event(&mut it, "permission.asked", ask("per_2"));
    let answer = |key: &str, allow| Input::Answer { key: key.to_owned(), allow, message: None };
    assert_eq!(show(it.on(answer("per_9", true))), [""; 0]);
    let sent = it.on(answer("per_1", false));
    let Output::Send(frame) = &sent[0] else { panic!("{sent:?}") };
    assert_eq!(
        (&frame["path"], &frame["body"]),
        (&json!("/permission/per_1/reply"), &json!({ "reply": "reject" }))
    );
    let closed = |it: &mut Protocol, id: &str| event(it, "permission.replied", json!({ "requestID": id }));
    assert_eq!(closed(&mut it, "per_1"), ["ApprovalResolved", r#"AwaitingApproval { for_what: "bash" }"#]);
    assert_eq!(closed(&mut it, "per_2"), ["ApprovalResolved"]);
    assert_eq!(closed(&mut it, "per_2"), [""; 0]);
    says(&mut it, "msg_a", "one");
    event(&mut it, "permission.asked", ask("per_3"));
    assert_eq!(status(&mut it, "idle"), ["ApprovalResolved", "end by Interrupted"]);
}

#[test]
fn a_bridge_that_comes_into_a_turn_tells_its_end_and_not_its_beginning() {
    let mut it = protocol(Some(SESSION), true);
    it.on(Input::Connected);
    reply(&mut it, 200, &json!({}));
    let busy = json!({ SESSION: { "type": "busy" } });
    let asked = it.on(Input::Frame(json!({ "reply": 2, "status": 200, "body": busy })));
    assert_eq!(show(asked), ["GET /session/ses_1aB/message"]);
    let said =
        json!([{ "info": { "id": "msg_a", "role": "user" }, "parts": [{ "type": "text", "text": "one" }] }]);
    assert_eq!(show(reply(&mut it, 200, &said)), ["Enqueued"]);
    assert_eq!(answers(&mut it, "msg_a"), [""; 0]);
    has_answered(&mut it, "msg_a");
    assert_eq!(status(&mut it, "idle"), ["end by Answer"]);
    assert!(it.is_open());
}

#[test]
fn ids_of_different_keys_differ_and_fit_into_a_path() {
    let id = |key: &str| ids(key, Some(SESSION)).0;
    let keys = ["m-7", "m-7+m-8", "m_7", "a.b", "a:b", "a-2eb"];
    let all: std::collections::BTreeSet<String> = keys.iter().map(|it| id(it)).collect();
    assert_eq!(all.len(), keys.len(), "{all:?}");
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    assert!(all.iter().all(|it| it.starts_with("msg_") && it.chars().all(plain)));
}
