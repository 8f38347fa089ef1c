use std::path::Path;

use super::*;

/// The server's side of a conversation with the state machine.
struct World {
    protocol: Protocol,
    /// What was sent and is not answered, by method.
    sent: Vec<Value>,
}

impl World {
    fn new(native_id: Option<&str>, again: bool) -> Self {
        let tool_prefix = "mcp__team_orchestrator__";
        let context = BridgeContext { agent: "w1", cwd: Path::new("/w"), native_id, again, tool_prefix };
        Self { protocol: Protocol::new(&context), sent: Vec::new() }
    }

    /// One that is connected, with a conversation that it is told about.
    fn ready() -> Self {
        let mut world = Self::new(Some("t"), false);
        world.connect();
        world.reply("thread/resume", &json!({ "thread": thread("t", "idle") }));
        world
    }

    /// Hands something in; returns what is to be done in short words.
    fn on(&mut self, input: Input) -> Vec<String> {
        let mut words = Vec::new();
        for output in self.protocol.on(input) {
            words.push(match output {
                Output::Send(frame) => {
                    let word = match frame["method"].as_str() {
                        Some(method) => format!("> {method}"),
                        None => format!("> {} {}", frame["id"], frame["result"]),
                    };
                    self.sent.push(frame);
                    word
                }
                Output::Fact { fact, .. } => in_short(&fact),
                Output::Look { key } => format!("look {key}"),
                Output::Taken { key } => format!("taken {key}"),
                Output::PutBack { key } => format!("put back {key}"),
                Output::OpenScreen { native_id } => format!("open {}", native_id.unwrap_or_default()),
                Output::Wake(_) => "wake".to_owned(),
                Output::End { why } => format!("end: {why}"),
            });
        }
        words
    }

    fn connect(&mut self) -> Vec<String> {
        self.on(Input::Connected);
        self.reply("initialize", &json!({}))
    }

    fn id_of(&self, method: &str) -> Value {
        let sent = self.sent.iter().rfind(|it| it["method"] == method);
        sent.unwrap_or_else(|| panic!("{method} was not sent"))["id"].clone()
    }

    fn reply(&mut self, method: &str, result: &Value) -> Vec<String> {
        let id = self.id_of(method);
        self.on(Input::Frame(json!({ "id": id, "result": result })))
    }

    fn refuse(&mut self, method: &str) -> Vec<String> {
        let id = self.id_of(method);
        self.on(Input::Frame(json!({ "id": id, "error": { "message": "no" } })))
    }

    fn told(&mut self, method: &str, params: Value) -> Vec<String> {
        let mut params = params;
        if params["thread"].is_null() && params["threadId"].is_null() {
            params["threadId"] = json!("t");
        }
        self.on(Input::Frame(json!({ "method": method, "params": params })))
    }

    fn status(&mut self, status: &str) -> Vec<String> {
        self.told("thread/status/changed", json!({ "status": { "type": status } }))
    }

    fn message(&mut self, key: &str, again: bool) -> Vec<String> {
        self.on(Input::Message { key: key.to_owned(), text: format!("text of {key}"), again })
    }

    /// A turn begins with a message.
    fn taken(&mut self, turn: &str, key: &str) -> Vec<String> {
        let mut words = self.told("turn/started", json!({ "turn": { "id": turn } }));
        words.extend(self.user_message(turn, key));
        words
    }

    fn user_message(&mut self, turn: &str, key: &str) -> Vec<String> {
        let content = json!([{ "type": "text", "text": format!("text of {key}") }]);
        let item = json!({ "type": "userMessage", "clientId": key, "content": content });
        self.told("item/completed", json!({ "turnId": turn, "item": item }))
    }

    fn completed(&mut self, turn: &str, status: &str) -> Vec<String> {
        self.told("turn/completed", json!({ "turn": { "id": turn, "status": status } }))
    }
}

fn thread(id: &str, status: &str) -> Value {
    json!({ "id": id, "path": format!("/r/{id}.jsonl"), "status": { "type": status }, "threadSource": "user" })
}

fn in_short(fact: &Fact) -> String {
    match fact {
        Fact::SessionStarted { native_id, source, .. } => format!("session {native_id} {source}"),
        Fact::TurnStarted { prompt, .. } => format!("turn `{}`", prompt.as_deref().unwrap_or_default()),
        Fact::TurnEnded { outcome, .. } => format!("ended {outcome:?}"),
        Fact::TakenInTurn { text } => format!("in turn `{text}`"),
        Fact::Activity { kind, .. } => format!("{kind:?}"),
        Fact::ApprovalRequested { tool, input_summary, tool_use_id, .. } => {
            format!("asks {} {tool} `{input_summary}`", tool_use_id.as_deref().unwrap_or_default())
        }
        Fact::ApprovalResolved { tool_use_id, .. } => {
            format!("resolved {}", tool_use_id.as_deref().unwrap_or_default())
        }
        Fact::Limited { until, .. } => format!("limited {until:?}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_new_conversation_is_that_of_the_screen_and_is_subscribed_with_its_first_turn() {
    let mut it = World::new(None, false);
    assert_eq!(it.connect(), ["> initialized", "> thread/loaded/list"]);
    assert_eq!(it.reply("thread/loaded/list", &json!({ "data": [] })), ["open "]);
    assert!(!it.protocol.is_open());
    let own = json!({ "thread": { "id": "x", "ephemeral": true, "status": { "type": "idle" } } });
    assert_eq!(it.told("thread/started", own), [""; 0]);
    let begun = it.told("thread/started", json!({ "thread": thread("t", "idle") }));
    assert_eq!(begun, ["session t startup", "Idle"]);
    assert!(it.protocol.is_open());

    assert_eq!(it.message("m-1", false), ["> turn/start"]);
    assert_eq!(it.sent.last().unwrap()["params"]["clientUserMessageId"], "m-1");
    assert!(!it.protocol.is_open(), "one at a time");
    assert_eq!(it.reply("turn/start", &json!({ "turn": { "id": "u1" } })), [""; 0]);
    assert_eq!(it.status("active"), ["> thread/resume"]);
    // Its record is not there yet.
    assert_eq!(it.refuse("thread/resume"), ["wake"]);
    assert_eq!(it.on(Input::Tick), ["> thread/resume"]);
    let resumed = it.reply("thread/resume", &json!({ "thread": thread("t", "active") }));
    assert_eq!(resumed, ["session t resume"]);
    assert_eq!(it.user_message("u1", "m-1"), ["turn `text of m-1`", "taken m-1"]);
    assert_eq!(it.status("idle"), [""; 0]);
    assert!(!it.protocol.is_open());
    assert_eq!(it.completed("u1", "completed"), ["ended Answer"]);
    assert!(it.protocol.is_open());
}

#[test]
fn a_first_turn_that_is_over_before_it_was_subscribed_is_found_in_the_record() {
    let mut it = World::new(None, false);
    it.connect();
    it.reply("thread/loaded/list", &json!({ "data": [] }));
    it.told("thread/started", json!({ "thread": thread("t", "idle") }));
    it.message("m-1", false);
    it.reply("turn/start", &json!({ "turn": { "id": "u1" } }));
    it.status("active");
    it.refuse("thread/resume");
    assert_eq!(it.status("idle"), ["> thread/resume"]);
    let resumed = it.reply("thread/resume", &json!({ "thread": thread("t", "idle") }));
    assert_eq!(resumed, ["session t resume", "look m-1"]);
    let ended = Some(TurnOutcome::Answer);
    let found = it.on(Input::Found { key: "m-1".to_owned(), found: true, ended });
    assert_eq!(found, ["turn `text of m-1`", "ended Answer"]);
    assert!(it.protocol.is_open());
}

#[test]
fn what_was_sent_before_a_crash_is_sent_again_only_if_the_record_lacks_it() {
    for found in [true, false] {
        let mut it = World::ready();
        assert_eq!(it.message("m-1", false), ["> turn/start"]);
        assert_eq!(it.on(Input::Disconnected), [""; 0]);
        assert!(!it.protocol.is_open());
        it.connect();
        it.reply("thread/resume", &json!({ "thread": thread("t", "idle") }));
        assert_eq!(it.message("m-1", true), ["look m-1"]);
        let words = it.on(Input::Found { key: "m-1".to_owned(), found, ended: None });
        if found {
            let ended = r#"ended Error { kind: "the program's server ended" }"#;
            assert_eq!(words, ["turn `text of m-1`", ended]);
        } else {
            assert_eq!(words, ["wake"], "it may be on its way");
            assert_eq!(it.on(Input::Tick), ["look m-1"]);
            let words = it.on(Input::Found { key: "m-1".to_owned(), found, ended: None });
            assert_eq!(words, ["> turn/start"]);
            assert_eq!(it.taken("u1", "m-1"), ["turn `text of m-1`", "taken m-1"]);
        }
    }
}

#[test]
fn what_a_living_server_was_given_is_never_sent_twice() {
    let mut it = World::ready();
    it.message("m-1", false);
    it.reply("turn/start", &json!({ "turn": { "id": "u1" } }));
    // The screen takes the conversation up at this moment.
    assert_eq!(it.status("idle"), [""; 0]);
    assert_eq!(it.completed("u1", "completed"), ["ended Answer", "look m-1"]);
    for _ in 1..TRIES {
        let missed = Input::Found { key: "m-1".to_owned(), found: false, ended: None };
        assert_eq!(it.on(missed), ["wake"]);
        assert_eq!(it.on(Input::Tick), ["look m-1"]);
    }
    let missed = Input::Found { key: "m-1".to_owned(), found: false, ended: None };
    assert_eq!(it.on(missed), ["taken m-1"], "nothing more is to be learned of it");
    assert!(it.protocol.is_open());
}

#[test]
fn that_a_text_was_accepted_proves_nothing_until_its_turn_is_seen() {
    let mut it = World::ready();
    assert_eq!(it.message("m-1", false), ["> turn/start"]);
    // Accepted, as a queue without a reader does; time passes.
    assert_eq!(it.reply("turn/start", &json!({ "turn": { "id": "u1" } })), [""; 0]);
    for _ in 0..3 {
        assert_eq!(it.on(Input::Tick), [""; 0]);
    }
    assert_eq!(it.told("turn/started", json!({ "turn": { "id": "u1" } })), [""; 0]);
    assert!(!it.protocol.is_open(), "nothing is sent behind it");
    let words = it.user_message("u1", "m-1");
    assert!(words.contains(&"turn `text of m-1`".to_owned()), "{words:?}");
}

#[test]
fn a_turn_that_its_server_took_along_has_ended_and_one_of_an_earlier_bridge_too() {
    let mut it = World::ready();
    it.message("m-1", false);
    it.taken("u1", "m-1");
    it.on(Input::Disconnected);
    it.connect();
    let words = it.reply("thread/resume", &json!({ "thread": thread("t", "idle") }));
    assert_eq!(words[1], r#"ended Error { kind: "the program's server ended" }"#);
    assert!(it.protocol.is_open());

    // A bridge that comes into a running turn, and one that comes after it.
    for status in ["active", "idle"] {
        let mut it = World::new(Some("t"), true);
        it.connect();
        let mut words = it.reply("thread/resume", &json!({ "thread": thread("t", status) }));
        if status == "active" {
            assert!(!it.protocol.is_open());
            words.extend(it.completed("u1", "completed"));
        }
        let ended = words.iter().filter(|it| it.starts_with("ended")).count();
        assert_eq!(ended, 1, "{words:?}");
        assert!(it.protocol.is_open());
    }
}

#[test]
fn a_conversation_without_a_record_is_kept_while_its_server_lives_and_lost_with_it() {
    let mut it = World::new(Some("t"), true);
    it.connect();
    assert_eq!(it.refuse("thread/resume"), ["> thread/loaded/list"]);
    assert_eq!(it.reply("thread/loaded/list", &json!({ "data": ["t"] })), ["> thread/read", "open t"]);
    it.reply("thread/read", &json!({ "thread": thread("t", "idle") }));
    assert!(it.protocol.is_open());

    let mut it = World::new(Some("t"), true);
    it.connect();
    for _ in 0..TRIES {
        assert_eq!(it.refuse("thread/resume"), ["> thread/loaded/list"]);
        assert_eq!(it.reply("thread/loaded/list", &json!({ "data": [] })), ["wake"]);
        assert_eq!(it.on(Input::Tick), ["> thread/resume"]);
    }
    it.refuse("thread/resume");
    let end = it.reply("thread/loaded/list", &json!({ "data": [] }));
    assert_eq!(end, ["end: the conversation is lost with its server"]);
}

#[test]
fn a_message_that_the_server_refuses_goes_back_and_is_not_tried_at_once() {
    let mut it = World::ready();
    it.message("m-1", false);
    assert_eq!(it.refuse("turn/start"), ["put back m-1", "wake"]);
    assert!(!it.protocol.is_open());
    it.on(Input::Tick);
    assert!(it.protocol.is_open());
}

#[test]
fn ends_of_turns_are_told_apart_and_a_limit_says_when_it_ends() {
    let mut it = World::ready();
    it.taken("u1", "x");
    assert_eq!(it.user_message("u1", "y"), ["in turn `text of y`"]);
    assert_eq!(it.completed("u1", "interrupted"), ["ended Interrupted"]);
    it.taken("u2", "x");
    let limits =
        json!({ "rateLimits": { "primary": { "usedPercent": 100, "resetsAt": 7 }, "secondary": null } });
    assert_eq!(it.told("account/rateLimits/updated", limits), [""; 0]);
    let error = json!({ "message": "spent", "codexErrorInfo": "usageLimitExceeded" });
    let failed = json!({ "turn": { "id": "u2", "status": "failed", "error": error } });
    let words = it.told("turn/completed", failed);
    assert_eq!(words, [r#"ended Error { kind: "usageLimitExceeded" }"#, "limited Some(7)"]);
    it.taken("u3", "x");
    let error = json!({ "codexErrorInfo": { "responseStreamDisconnected": { "httpStatusCode": 500 } } });
    let failed = json!({ "turn": { "id": "u3", "status": "failed", "error": error } });
    let words = it.told("turn/completed", failed);
    assert_eq!(words, [r#"ended Error { kind: "responseStreamDisconnected" }"#]);

    // A turn that shortens the history begins with no message.
    it.told("turn/started", json!({ "turn": { "id": "u4" } }));
    it.told("item/started", json!({ "item": { "type": "contextCompaction" } }));
    assert_eq!(it.completed("u4", "completed"), ["Idle"]);
}

#[test]
fn a_question_is_told_once_and_closed_when_the_server_says_so() {
    let mut it = World::ready();
    it.taken("u1", "x");
    let params = json!({ "threadId": "t", "itemId": "call/1", "command": "rm x" });
    let ask = |id: u64| {
        let method = "item/commandExecution/requestApproval";
        Input::Frame(json!({ "id": id, "method": method, "params": params }))
    };
    assert_eq!(it.on(ask(0)), ["asks call_1 command `rm x`"]);
    it.on(Input::Disconnected);
    it.connect();
    it.reply("thread/resume", &json!({ "thread": thread("t", "active") }));
    assert_eq!(it.on(ask(5)), [""; 0], "asked again over another connection");
    let answer = |key: &str, allow, message: Option<&str>| Input::Answer {
        key: key.to_owned(),
        allow,
        message: message.map(str::to_owned),
    };
    assert_eq!(it.on(answer("call_2", true, None)), [""; 0]);
    assert_eq!(
        it.on(answer("call_1", false, Some("not that"))),
        [r#"> 5 {"decision":"decline"}"#, "> turn/steer"]
    );
    assert_eq!(it.told("serverRequest/resolved", json!({ "requestId": 5 })), ["resolved call_1"]);
    assert_eq!(it.told("serverRequest/resolved", json!({ "requestId": 5 })), [""; 0]);

    // Our own tools need nobody.
    let ours = json!({ "threadId": "t", "serverName": "team_orchestrator" });
    let frame = json!({ "id": 6, "method": "mcpServer/elicitation/request", "params": ours });
    assert_eq!(it.on(Input::Frame(frame)), [r#"> 6 {"action":"accept"}"#]);
}

#[test]
fn what_concerns_other_conversations_or_cannot_be_understood_changes_nothing() {
    let mut it = World::ready();
    for frame in [
        json!(null),
        json!([]),
        json!({ "id": 99, "result": {} }),
        json!({ "method": "turn/started", "params": { "threadId": "other", "turn": { "id": "u" } } }),
        json!({ "method": "thread/status/changed", "params": { "threadId": "t", "status": {} } }),
        json!({ "id": 1, "method": "item/commandExecution/requestApproval", "params": { "threadId": "other" } }),
        json!({ "id": 1, "method": "unknown", "params": {} }),
    ] {
        assert_eq!(it.on(Input::Frame(frame.clone())), [""; 0], "{frame}");
    }
    assert!(it.protocol.is_open());
    let cleared = it.told("thread/started", json!({ "thread": thread("n", "idle") }));
    assert_eq!(cleared[0], "session n clear");
}
