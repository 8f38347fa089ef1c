//! Messages that come without a key: a watched file, a hook that drains an inbox.

use serde_json::{Value, json};

use crate::support::{Fake, World};

/// A world whose settings watch a bell and drain an inbox, as a coordinator would set them up.
fn world() -> World {
    let world = World::new();
    std::fs::create_dir(world.path("inbox")).unwrap();
    std::fs::write(world.path("inbox/bell"), "").unwrap();
    let inbox = world.path("inbox").canonicalize().unwrap().display().to_string();
    let drain = json!({
        "type": "command", "asyncRewake": true, "timeout": 30,
        "rewakeMessage": "Message from your team:", "rewakeSummary": "message from your team",
        "command": format!("cat >/dev/null; mv '{inbox}/pending' '{inbox}/taken.'$$ 2>/dev/null || exit 0; cat '{inbox}/taken.'$$ >&2; exit 2"),
    });
    let start = json!({"type": "command", "argv": ["printf", "%s",
        json!({"hookSpecificOutput": {"hookEventName": "SessionStart", "watchPaths": [format!("{inbox}/bell")]}}).to_string()]});
    let prompts = world.recording("prompts", "");
    let settings = json!({"hooks": {
        "SessionStart": [{"hooks": [start, drain]}],
        "FileChanged": [{"hooks": [drain]}],
        "Stop": [{"hooks": [drain]}],
        "UserPromptSubmit": prompts,
    }});
    world.settings(settings)
}

fn put(world: &World, text: &str) {
    std::fs::write(world.path("inbox/new"), text).unwrap();
    std::fs::rename(world.path("inbox/new"), world.path("inbox/pending")).unwrap();
}

fn ring(world: &World, text: &str) {
    put(world, text);
    let mut bell = std::fs::OpenOptions::new().append(true).open(world.path("inbox/bell")).unwrap();
    std::io::Write::write_all(&mut bell, b".").unwrap();
}

fn watching(fake: &Fake) {
    fake.until_event("watching");
}

#[test]
fn an_idle_agent_starts_a_turn_and_keeps_the_draft() {
    let world = world();
    let mut fake = world.start().ready();
    watching(&fake);
    fake.send(b"half a thought");
    fake.until_shown("❯ half a thought");
    ring(&world, "[Team message from lead to w1:]\nfake: say heard\n");
    fake.until_turns(1);
    assert_eq!(
        fake.kinds(),
        ["enqueue", "dequeue", "user", "end_turn", "stop_hook_summary", "turn_duration"]
    );
    assert_eq!(fake.last_answer(), "heard");
    fake.until_shown("❯ half a thought");
    let user = fake.transcript().into_iter().find(|it| it["type"] == "user").unwrap();
    assert_eq!(
        (&user["promptSource"], &user["origin"]["kind"]),
        (&json!("system"), &json!("task-notification"))
    );
    let prompts = world.lines("prompts");
    assert_eq!(prompts.len(), 1);
    let prompt = prompts[0]["prompt"].as_str().unwrap();
    assert!(
        prompt.starts_with("<task-notification>") && prompt.contains("Message from your team:"),
        "{prompt}"
    );
    assert_eq!(fake.bytes(), b"half a thought");
}

#[test]
fn a_busy_agent_takes_the_message_up_inside_its_turn() {
    let world = world();
    let mut fake = world.start().ready();
    watching(&fake);
    fake.send(b"fake: busy 0.4\r");
    fake.until(|it| it.kinds().contains(&"tool_use".to_owned()).then_some(()));
    ring(&world, "[Team message from lead to w1:]\nfake: say heard\n");
    fake.until_turns(1);
    assert_eq!(
        fake.kinds()[..8],
        [
            "user",
            "tool_use",
            "enqueue",
            "tool_result",
            "remove",
            "queued_command",
            "end_turn",
            "stop_hook_summary"
        ]
    );
    assert_eq!((fake.last_answer().as_str(), world.lines("prompts").len()), ("heard", 1));
}

#[test]
fn a_message_behind_a_dialog_comes_after_it() {
    let world = world();
    let mut fake = world.start().ready();
    watching(&fake);
    fake.send(b"draft");
    fake.control("dialog update");
    fake.until_status("waiting");
    ring(&world, "hello");
    fake.until(|it| (it.submissions().len() == 1).then_some(()));
    assert_eq!(fake.until_status("waiting")["status"], "waiting");
    assert!(!fake.kinds().contains(&"user".to_owned()));
    fake.send(b"\r");
    fake.until_turns(1);
    fake.until_shown("❯ draft");
}

#[test]
fn rings_in_a_row_lose_nothing_and_repeat_nothing() {
    let world = world();
    let fake = world.start().ready();
    watching(&fake);
    for number in 0..5 {
        ring(&world, &format!("message {number}"));
        fake.until(|it| (it.submissions().len() == number + 1).then_some(()));
    }
    fake.until_turns(1);
    let texts = fake.submitted();
    assert!((0..5).all(|it| texts[it].contains(&format!("message {it}"))), "{texts:?}");
}

#[test]
fn what_waited_before_the_start_is_handed_over_by_the_start_hook() {
    let world = world();
    put(&world, "first brief\nfake: say begun");
    let fake = world.start();
    fake.until(|it| {
        it.status().filter(|it| it["transcript"].as_str().is_some_and(|it| std::path::Path::new(it).exists()))
    });
    fake.until_turns(1);
    assert_eq!(fake.last_answer(), "begun");
}

#[test]
fn a_directive_waits_for_its_sender() {
    let world = world();
    let mut fake = world.start().ready();
    watching(&fake);
    fake.send(b"fake: on-message w2: say w2 spoke\r");
    fake.until_turns(1);
    ring(&world, "[Team message from w3 to w1:]\nhi");
    fake.until_turns(2);
    assert_eq!(fake.last_answer(), "ok");
    ring(&world, "[Team message from w2 to w1:]\nhi");
    fake.until_turns(3);
    assert_eq!(fake.last_answer(), "w2 spoke");
    ring(&world, "[Team message from w2 to w1:]\nagain");
    fake.until_turns(4);
    assert_eq!(fake.last_answer(), "ok");
}

#[test]
fn each_kind_of_change_is_named_once() {
    let world = World::new();
    let bell = world.path("bell");
    let start =
        json!({"hookSpecificOutput": {"hookEventName": "SessionStart", "watchPaths": [bell]}}).to_string();
    let changes = world.recording("changes", "");
    let world = world.settings(json!({"hooks": {
        "SessionStart": [{"hooks": [{"type": "command", "argv": ["printf", "%s", start]}]}],
        "FileChanged": changes,
    }}));
    let fake = world.start().ready();
    watching(&fake);
    let seen = |count: usize| fake.until(|_| Some(world.lines("changes")).filter(|it| it.len() == count));
    std::fs::write(&bell, "1").unwrap();
    seen(1);
    std::fs::write(world.path("other"), "2").unwrap();
    std::fs::rename(world.path("other"), &bell).unwrap();
    seen(2);
    std::fs::remove_file(&bell).unwrap();
    let events: Vec<Value> = seen(3).iter().map(|it| it["event"].clone()).collect();
    assert_eq!(events, ["add", "change", "unlink"]);
}
