//! Hooks: what they are told and what their answers do.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::World;

fn printing(answer: &Value) -> String {
    format!("printf '%s' '{answer}'")
}

fn names(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|it| it["hook_event_name"].as_str().unwrap()).collect()
}

/// A world whose hooks of these events write to `calls`.
fn recorded(events: &[&str]) -> World {
    let world = World::new();
    let hooks: Value = events
        .iter()
        .map(|it| ((*it).to_owned(), world.recording("calls", "")))
        .collect::<serde_json::Map<_, _>>()
        .into();
    world.settings(json!({"hooks": hooks}))
}

#[test]
fn hooks_are_told_about_a_whole_life() {
    let world = recorded(&["SessionStart", "UserPromptSubmit", "Stop", "StopFailure", "SessionEnd"]);
    let mut fake = world.start().ready();
    fake.until(|_| (!world.lines("calls").is_empty()).then_some(()));
    fake.paste("do it\nfake: say done");
    fake.send(b"\r");
    fake.until_turns(1);
    fake.signal(Signal::SIGTERM);
    assert_eq!(fake.ended(), 143);
    let calls = world.lines("calls");
    assert_eq!(names(&calls), ["SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"]);
    for call in &calls {
        assert_eq!((&call["session_id"], &call["cwd"]), (&json!(fake.session()), &json!(fake.cwd)));
        assert!(call["transcript_path"].as_str().unwrap().ends_with(&format!("{}.jsonl", fake.session())));
        assert_eq!(call["permission_mode"], "default");
    }
    assert_eq!((&calls[0]["source"], &calls[0]["model"]), (&json!("startup"), &json!("fake-1")));
    assert_eq!(calls[1]["prompt"], "do it\nfake: say done");
    assert_eq!(calls[1]["prompt_id"], calls[2]["prompt_id"]);
    assert_eq!(
        (&calls[2]["stop_hook_active"], &calls[2]["last_assistant_message"]),
        (&json!(false), &json!("done"))
    );
    assert_eq!(calls[3]["reason"], "other");
}

#[test]
fn a_prompt_hook_adds_context_or_drops_the_prompt() {
    let world = World::new();
    let answer = json!({"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "mind the gap"}});
    let drop_it = json!({"decision": "block", "reason": "not today"});
    let command =
        format!("if grep -q forbidden; then {}; else {}; fi", printing(&drop_it), printing(&answer));
    let world = world.settings(
        json!({"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": command}]}]}}),
    );
    let mut fake = world.start().ready();
    fake.send(b"forbidden\r");
    fake.until_event("prompt_blocked");
    fake.until_shown("not today");
    fake.until_status("idle");
    fake.send(b"allowed\r");
    fake.until_turns(1);
    assert_eq!(fake.kinds(), ["user", "hook_additional_context", "end_turn", "turn_duration"]);
    assert_eq!(fake.event("context").unwrap()["text"], "mind the gap");
}

#[test]
fn a_stop_hook_makes_the_turn_go_on() {
    let world = World::new();
    let block = json!({"decision": "block", "reason": "fake: say more"});
    let command = format!("if grep -q '\"stop_hook_active\":false'; then {}; fi", printing(&block));
    let world =
        world.settings(json!({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": command}]}]}}));
    let mut fake = world.start().ready();
    fake.send(b"go\r");
    fake.until_turns(1);
    assert_eq!(fake.kinds(), ["user", "end_turn", "meta", "end_turn", "stop_hook_summary", "turn_duration"]);
    assert_eq!(fake.last_answer(), "more");
}

#[test]
fn a_permission_hook_that_answers_at_once_shows_no_dialog() {
    for (behavior, is_error) in [("allow", false), ("deny", true)] {
        let world = World::new();
        let answer = json!({"hookSpecificOutput": {"hookEventName": "PermissionRequest",
            "decision": {"behavior": behavior, "message": "by rule"}}});
        let hook = world.recording("calls", &printing(&answer));
        let world = world.settings(json!({"hooks": {"PermissionRequest": hook}}));
        let mut fake = world.start().ready();
        fake.send(b"fake: ask-permission Bash {\"command\":\"ls\"}\r");
        fake.until_turns(1);
        let call = &world.lines("calls")[0];
        assert_eq!((&call["tool_name"], &call["tool_input"]["command"]), (&json!("Bash"), &json!("ls")));
        let result =
            fake.transcript().into_iter().find(|it| it["message"]["content"][0]["type"] == "tool_result");
        assert_eq!(result.unwrap()["message"]["content"][0]["is_error"], is_error);
        assert_eq!(fake.event("permission_by_hook").unwrap()["allowed"], !is_error);
    }
}

#[test]
fn a_permission_hook_that_waits_leaves_the_dialog_to_the_keys() {
    let world = World::new();
    let hook = world.recording("calls", "sleep 3600");
    let world = world.settings(json!({"hooks": {"PermissionRequest": hook}}));
    let mut fake = world.start().ready();
    fake.send(b"fake: ask-permission Bash\r");
    assert_eq!(fake.until_status("waiting")["waitingFor"], "permission prompt");
    fake.until_shown("❯ 1. Yes");
    fake.send(b"\r");
    fake.until_turns(1);
    assert_eq!(fake.event("dialog_answered").unwrap()["choice"], 1);
    // The hook was killed without a word.
    fake.until(|it| {
        it.events().iter().any(|it| it["event"] == "hook_exit" && it["code"] == 137).then_some(())
    });
}

#[test]
fn a_refused_permission_ends_the_turn_without_a_hook() {
    let world = recorded(&["Stop", "PermissionRequest"]);
    let mut fake = world.start().ready();
    fake.control("dialog perm");
    fake.until_shown("❯ 1. Yes");
    fake.send(b"\x1b");
    fake.until_status("idle");
    assert_eq!(names(&world.lines("calls")), ["PermissionRequest"]);
    assert_eq!(fake.kinds(), ["user", "tool_use", "tool_result", "text"]);
}

#[test]
fn a_dialog_opens_after_enter_on_demand() {
    let world = World::new().script("dialog-after-enter 30\nanswer-after 2000");
    let mut fake = world.start().ready();
    fake.send(b"hello\r");
    fake.until_status("waiting");
    fake.control("close-dialog");
    fake.control("idle");
    fake.until_turns(1);
}

#[test]
fn a_limit_fails_the_turn_and_then_asks() {
    let world =
        recorded(&["Stop", "StopFailure"]).script("limit You've hit your limit · resets 12:25pm (UTC)");
    let mut fake = world.start().ready();
    fake.send(b"hello\r");
    fake.until_shown("❯ 1. Stop and wait for limit to reset");
    fake.until_status("waiting");
    let calls = world.lines("calls");
    assert_eq!((names(&calls), &calls[0]["error"]), (vec!["StopFailure"], &json!("rate_limit")));
    let failed = fake.transcript().into_iter().find(|it| it["isApiErrorMessage"] == true).unwrap();
    assert_eq!((&failed["error"], &failed["apiErrorStatus"]), (&json!("rate_limit"), &json!(429)));
    assert_eq!(failed["message"]["content"][0]["text"], "You've hit your limit · resets 12:25pm (UTC)");
    fake.send(b"\r");
    fake.control("limit off");
    fake.until_status("idle");
    fake.send(b"again\r");
    fake.until_turns(2);
    assert_eq!(fake.last_answer(), "ok");
}

#[test]
fn a_late_receipt_is_late_everywhere_but_in_the_status() {
    let world = recorded(&["UserPromptSubmit"]).script("late-receipt 1500");
    let mut fake = world.start().ready();
    fake.send(b"hello\r");
    fake.until_status("busy");
    assert_eq!((world.lines("calls").len(), fake.transcript().len()), (0, 0));
    fake.until_turns(1);
    assert_eq!(world.lines("calls").len(), 1);
}

#[test]
fn a_nested_session_fires_the_same_hook_under_another_id() {
    let world = recorded(&["SessionStart"]);
    let fake = world.start().ready();
    fake.until(|_| (world.lines("calls").len() == 1).then_some(()));
    fake.control("second-session-start");
    let calls = fake.until(|_| Some(world.lines("calls")).filter(|it| it.len() == 2));
    assert_eq!(calls[0]["session_id"], fake.session());
    assert_eq!(calls[1]["session_id"], fake.until_event("second_session")["session"]);
    assert_ne!(calls[0]["session_id"], calls[1]["session_id"]);
}

#[test]
fn a_compaction_tells_its_hooks_and_ends_without_stop() {
    let world = recorded(&["PreCompact", "SessionStart", "PostCompact", "Stop", "UserPromptSubmit"]);
    let fake = world.start().ready();
    fake.until(|_| (world.lines("calls").len() == 1).then_some(()));
    fake.control("compact");
    fake.until_event("compacted");
    fake.until_status("idle");
    let calls = world.lines("calls");
    assert_eq!(names(&calls), ["SessionStart", "PreCompact", "SessionStart", "PostCompact"]);
    assert_eq!((&calls[2]["source"], &calls[2]["session_id"]), (&json!("compact"), &json!(fake.session())));
    assert_eq!(fake.kinds(), ["compact_boundary", "user"]);
}

#[test]
fn a_hook_that_takes_too_long_is_ended() {
    let world = World::new().settings(json!({"hooks": {"UserPromptSubmit": [{"hooks": [
        {"type": "command", "command": "sleep 3600", "timeout": 0.05}]}]}}));
    let mut fake = world.start().ready();
    fake.send(b"hello\r");
    fake.until_turns(1);
    fake.until_event("hook_timed_out");
}

#[test]
fn a_prompt_larger_than_a_pipe_reaches_a_hook_whole() {
    let world = recorded(&["UserPromptSubmit"]);
    let mut fake = world.start().ready();
    let text = "0123456789abcdef\n".repeat(12_000);
    fake.paste(&text);
    fake.send(b"\r");
    fake.until_turns(1);
    assert!(world.lines("calls")[0]["prompt"] == text.trim_end());
}
