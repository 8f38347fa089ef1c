//! In Copilot's clothes: what the arguments allow, and what a person's texts become while a turn runs.

use serde_json::{Value, json};

use crate::support::{Fake, World, json_lines};

/// Starts it in a folder that is trusted, with the server that this test program plays.
fn start(world: &World, more: &[&str]) -> Fake {
    let home = world.path(".copilot");
    std::fs::create_dir_all(&home).unwrap();
    let folders = [world.dir.path().canonicalize().unwrap()];
    std::fs::write(home.join("config.json"), json!({ "trustedFolders": folders }).to_string()).unwrap();
    let program = std::env::current_exe().unwrap();
    let servers = json!({"mcpServers": {"team_orchestrator": {
        "type": "local", "command": program, "args": ["--exact", "servers::plays_the_server", "--nocapture"],
        "env": {"FAKE_TEST_SERVER": "1"}, "tools": ["*"],
    }}});
    let servers = servers.to_string();
    let args = [&["--as", "copilot", "--additional-mcp-config", servers.as_str()], more].concat();
    world.start_with(&args).ready()
}

fn record(world: &World, fake: &Fake) -> Vec<Value> {
    json_lines(&world.path(".copilot/session-state").join(fake.session()).join("events.jsonl"))
}

#[test]
fn a_tool_of_a_server_is_asked_about_unless_it_was_allowed_and_enter_says_yes() {
    let world = World::new();
    let mut fake = start(&world, &[]);
    fake.send(b"fake: call report_result {\"a\":1}\r");
    fake.until_shown("Do you want to use this tool?");
    assert!(fake.event("called").is_none());
    fake.paste("no\n3");
    fake.until_event("paste_discarded");
    fake.send(b"\r");
    let called = fake.until_event("called");
    assert_eq!(called["text"], r#"got {"a":1}"#);
    fake.until_status("idle");
    let kinds: Vec<Value> = record(&world, &fake).into_iter().map(|it| it["type"].clone()).collect();
    let tool: Vec<&str> =
        kinds.iter().filter_map(Value::as_str).skip_while(|it| !it.contains("tool")).collect();
    assert_eq!(
        tool[..4],
        ["tool.execution_start", "permission.requested", "permission.completed", "tool.execution_complete"]
    );

    let mut fake = start(&world, &["--allow-tool", "team_orchestrator"]);
    fake.send(b"fake: call report_result\r");
    fake.until_event("called");
    assert!(fake.event("dialog").is_none());
}

#[test]
fn what_is_typed_meanwhile_is_taken_up_inside_the_turn_and_ctrl_c_leaves_a_trace() {
    let world = World::new();
    let mut fake = start(&world, &[]);
    fake.send(b"fake: busy 0.5\r");
    fake.until_status("busy");
    fake.send(b"and this\tmore\r");
    fake.until_status("idle");
    let taken: Vec<(Value, Value)> = record(&world, &fake)
        .into_iter()
        .filter(|it| it["type"] == "user.message")
        .map(|it| (it["data"]["content"].clone(), it["data"]["delivery"].clone()))
        .collect();
    assert_eq!(taken[1], ("and this    more".into(), "steering".into()), "{taken:?}");

    fake.send(b"fake: think 60000\r");
    fake.until_status("busy");
    fake.send(b"\x03");
    fake.until_status("idle");
    assert_eq!(record(&world, &fake).last().unwrap()["type"], "abort");
    assert!(!fake.shows("❯ fake: think"));
}
