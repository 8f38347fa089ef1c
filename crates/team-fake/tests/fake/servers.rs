//! MCP: a small server, played by this test program itself.

use std::io::{BufRead as _, Write as _};

use serde_json::{Value, json};

use crate::support::{Fake, World};

/// Set for the process that plays the server.
const ROLE: &str = "FAKE_TEST_SERVER";

/// Not a test unless it is started as the server: it then answers until its input ends.
#[test]
fn plays_the_server() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let result = match request["method"].as_str().unwrap() {
            "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "test", "version": "0"}}),
            "tools/list" => {
                json!({"tools": [{"name": "report_result"}, {"name": "send_message"}, {"name": "die"}]})
            }
            "tools/call" => match request["params"]["name"].as_str().unwrap() {
                "die" => return,
                "env" => {
                    let names: Vec<String> = std::env::vars().map(|it| it.0).collect();
                    json!({"content": [{"type": "text", "text": names.join(" ")}]})
                }
                "refuse" => json!({"isError": true, "content": [{"type": "text", "text": "no such thing"}]}),
                _ => {
                    json!({"content": [{"type": "text", "text": format!("got {}", request["params"]["arguments"])}]})
                }
            },
            _ => continue,
        };
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
        out.write_all(format!("{answer}\n").as_bytes()).unwrap();
        out.flush().unwrap();
    }
}

fn world() -> World {
    let program = std::env::current_exe().unwrap();
    World::new().mcp(json!({"mcpServers": {"team_orchestrator": {
        "command": program, "args": ["--exact", "servers::plays_the_server", "--nocapture"], "env": {ROLE: "1"},
    }}}))
}

fn results(fake: &Fake) -> Vec<(String, bool)> {
    fake.transcript()
        .iter()
        .map(|it| it["message"]["content"][0].clone())
        .filter(|it| it["type"] == "tool_result")
        .map(|it| (it["content"].as_str().unwrap().to_owned(), it["is_error"] == true))
        .collect()
}

fn prompt(fake: &mut Fake, text: &str) {
    fake.paste(text);
    fake.send(b"\r");
}

#[test]
fn directives_call_the_tools_of_the_server() {
    let world = world();
    let mut fake = world.start().ready();
    let status = fake.until(|it| it.status().filter(|it| it["mcp"] == "ready"));
    assert_eq!(status["mcpServers"][0]["tools"], json!(["report_result", "send_message", "die"]));
    prompt(
        &mut fake,
        "fake: report status=partial summary=\"a b\" json={\"tests\":[]}\nfake: send to=w2 text=\"hi\"\n\
         fake: call mcp__team_orchestrator__refuse",
    );
    fake.until_turns(1);
    assert_eq!(
        results(&fake),
        [
            (r#"got {"status":"partial","summary":"a b","tests":[]}"#.to_owned(), false),
            (r#"got {"content":"hi","to":"w2"}"#.to_owned(), false),
            ("no such thing".to_owned(), true),
        ]
    );
    let use_names: Vec<Value> = fake
        .transcript()
        .iter()
        .filter(|it| it["message"]["stop_reason"] == "tool_use")
        .map(|it| it["message"]["content"][0]["name"].clone())
        .collect();
    assert_eq!(use_names[0], "mcp__team_orchestrator__report_result");
    let sent: Vec<Value> = fake.mcp_log().into_iter().filter(|it| it["dir"] == "out").collect();
    assert_eq!(sent[0]["message"]["method"], "initialize");
    assert_eq!(sent[0]["message"]["params"]["protocolVersion"], "2025-06-18");
    assert_eq!(sent[1]["message"]["method"], "notifications/initialized");
    assert_eq!(sent.len(), 6);
}

#[test]
fn a_tool_can_be_called_while_the_turn_is_at_something_else() {
    let world = world();
    let fake = world.start().ready();
    fake.until(|it| it.status().filter(|it| it["mcp"] == "ready"));
    fake.control("busy 600");
    fake.until_status("busy");
    fake.control("call send_message {\"to\":\"w2\"}");
    assert_eq!(fake.until_event("called")["text"], r#"got {"to":"w2"}"#);
    assert_eq!(fake.status().unwrap()["status"], "busy");
    fake.control("idle that is all");
    fake.until_turns(1);
    assert_eq!(fake.last_answer(), "that is all");
    fake.control("call refuse");
    fake.until_turns(2);
    assert!(results(&fake).contains(&("no such thing".to_owned(), true)));
}

#[test]
fn a_server_gets_a_scrubbed_environment() {
    let world = world();
    let mut fake = world.start().ready();
    prompt(&mut fake, "fake: call env");
    fake.until_turns(1);
    let (names, _) = results(&fake).remove(0);
    let names: Vec<&str> = names.split(' ').collect();
    assert!(!names.contains(&"SECRET_OF_THE_PARENT") && !names.contains(&"FAKE_SEAT"), "{names:?}");
    for name in ["HOME", "PATH", "CLAUDE_CODE_SESSION_ID", "CLAUDE_PROJECT_DIR", ROLE] {
        assert!(names.contains(&name), "{name} not in {names:?}");
    }
}

#[test]
fn a_call_waits_for_a_server_that_is_slow() {
    let world = world().script("mcp-delay 0.5");
    let mut fake = world.start().ready();
    assert_eq!(fake.status().unwrap()["mcp"], "starting");
    prompt(&mut fake, "fake: report");
    fake.until_turns(1);
    assert_eq!(results(&fake), [(r#"got {"status":"success","summary":"done"}"#.to_owned(), false)]);
}

#[test]
fn a_dead_server_stays_dead_until_it_is_asked_back() {
    let world = world();
    let mut fake = world.start().ready();
    prompt(&mut fake, "fake: call die\nfake: report");
    fake.until_turns(1);
    assert_eq!(
        results(&fake),
        [
            ("MCP error -32000: Connection closed".to_owned(), true),
            ("Error: No such tool available: report_result".to_owned(), true),
        ]
    );
    assert_eq!(fake.until(|it| it.status().filter(|it| it["mcp"] == "dead"))["status"], "idle");
    prompt(&mut fake, "/mcp reconnect team_orchestrator");
    fake.until(|it| it.status().filter(|it| it["mcp"] == "ready"));
    prompt(&mut fake, "fake: report");
    fake.until_turns(2);
    assert!(!results(&fake)[2].1);
}

#[test]
fn without_a_server_there_are_no_tools() {
    let world = world().script("mcp off");
    let mut fake = world.start().ready();
    fake.until(|it| it.status().filter(|it| it["mcp"] == "off"));
    prompt(&mut fake, "fake: report");
    fake.until_turns(1);
    assert!(results(&fake)[0].1);
}

#[test]
fn shell_touch_and_unknown_directives_do_what_they_say() {
    let world = World::new();
    let mut fake = world.start().ready();
    prompt(
        &mut fake,
        "fake: shell echo out; echo err >&2\nfake: touch made\nfake: shell exit 3\nfake: dance",
    );
    fake.until_turns(1);
    assert_eq!(
        results(&fake),
        [("out\nerr".to_owned(), false), ("written".to_owned(), false), (String::new(), true)]
    );
    assert!(fake.cwd.join("made").exists());
    assert_eq!(fake.last_answer(), "fake: unknown directive `dance`");
    prompt(&mut fake, "fake: exit 9");
    assert_eq!(fake.ended(), 9);
}
