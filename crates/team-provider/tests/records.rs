//! What recordings of a real program prove, and what broken records prove: nothing.
//!
//! Long: one table of records, a part for each program.

use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};
use team_provider::{
    ActivityKind, Fact, HookContext, Provider, RecordKind, SeatPlaces, TurnOutcome, provider, providers,
};

fn claude() -> &'static dyn Provider {
    provider("claude").expect("known")
}

/// Writes a fact so that a table stays readable.
fn brief(fact: &Fact) -> String {
    let words = |text: &Option<String>| {
        let text = text.as_deref().unwrap_or("-").replace('\n', " ");
        let text = text.split("Message from your team:").last().unwrap_or_default().trim().to_owned();
        text.chars().take(24).collect::<String>()
    };
    match fact {
        Fact::SessionStarted { native_id, source, .. } => format!("started {} {source}", &native_id[..4]),
        Fact::TurnStarted { prompt, .. } => format!("turn [{}]", words(prompt)),
        Fact::Enqueued { text } => format!("queued [{}]", words(&Some(text.clone()))),
        Fact::TakenInTurn { text } => format!("taken [{}]", words(&Some(text.clone()))),
        Fact::TurnEnded { outcome, .. } => match outcome {
            TurnOutcome::Error { kind } => format!("end error {kind}"),
            other => format!("end {other:?}").to_lowercase(),
        },
        Fact::Activity { kind: ActivityKind::AwaitingApproval { for_what }, .. } => {
            format!("awaits {for_what}")
        }
        Fact::Activity { kind, .. } => format!("{kind:?}").to_lowercase(),
        Fact::Client { .. } => String::new(),
        Fact::ApprovalRequested { tool, input_summary, .. } => {
            format!("asks {tool} {} bytes", input_summary.len())
        }
        Fact::Limited { text, .. } => format!("limited [{}]", words(&Some(text.clone()))),
        Fact::SessionEnded { reason, .. } => format!("over {reason:?}"),
        other => format!("{other:?}").split([' ', '{']).next().unwrap_or_default().to_lowercase(),
    }
}

/// Tells a recording by its three sources.
fn tell(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../team-testkit/data/claude");
    let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).expect("recording");
    let (mut hooks, mut status, mut transcript) = (Vec::new(), Vec::new(), Vec::new());
    for line in text.lines() {
        let record: Value = serde_json::from_str(line).expect("a line of the recording");
        let value = &record["value"];
        let (facts, list) = match record["from"].as_str() {
            Some("hook") => {
                let event = value["hook_event_name"].as_str().unwrap_or_default();
                (claude().read_hook(event, value), &mut hooks)
            }
            Some("session") => (claude().read_record(RecordKind::Status, &value.to_string()), &mut status),
            Some("transcript") => {
                (claude().read_record(RecordKind::Transcript, &value.to_string()), &mut transcript)
            }
            _ => continue,
        };
        list.extend(facts.iter().map(brief).filter(|it| !it.is_empty()));
    }
    status.dedup();
    let mut out = String::new();
    for (title, list) in [("hooks", hooks), ("status", status), ("transcript", transcript)] {
        writeln!(out, "{title}: {}", list.join("; ")).expect("write");
    }
    out
}

#[test]
fn recordings_prove_what_happened() {
    let names = [
        "typed-prompt",
        "first-message-at-start",
        "message-when-idle",
        "message-when-a-tool-runs",
        "permission-approved",
        "permission-refused",
        "interrupt-before-output",
        "interrupt-in-text",
        "interrupt-in-tool",
        "api-error-limit",
        "api-error-server",
        "compaction",
        "resume-and-fork",
    ];
    let mut out = String::new();
    for name in names {
        writeln!(out, "== {name}\n{}", tell(name)).expect("write");
    }
    insta::assert_snapshot!(out);
}

fn hook(event: &str, stdin: &Value) -> Vec<Fact> {
    claude().read_hook(event, stdin)
}

#[test]
fn a_permission_question_keeps_little_of_what_it_is_about() {
    let input = json!({ "session_id": "s", "tool_name": "Write", "tool_input": { "content": "ü".repeat(9000) },
        "permission_suggestions": [{ "type": "setMode", "mode": "acceptEdits" }] });
    let facts = hook("PermissionRequest", &input);
    let [Fact::ApprovalRequested { tool, input_summary, choices, .. }] = facts.as_slice() else {
        panic!("{facts:?}")
    };
    assert_eq!(tool, "Write");
    assert!(input_summary.len() <= 4096 && input_summary.ends_with('…'));
    assert_eq!(choices.len(), 3);
    assert_eq!(choices[..2], ["allow", "deny"]);
}

#[test]
fn a_subagents_end_is_not_the_seats() {
    for event in ["Stop", "SubagentStop", "UserPromptSubmit", "SessionStart"] {
        assert_eq!(hook(event, &json!({ "session_id": "s", "agent_id": "a1" })), Vec::new(), "{event}");
    }
}

#[test]
fn a_limit_is_told_with_its_words() {
    let said = "You've hit your limit · resets 12:25pm (UTC)";
    let facts = hook(
        "StopFailure",
        &json!({ "session_id": "s", "error": "rate_limit", "last_assistant_message": said }),
    );
    assert_eq!(
        facts,
        [
            Fact::TurnEnded {
                native_id: Some("s".to_owned()),
                outcome: TurnOutcome::Error { kind: "rate_limit".to_owned() },
                text: Some(said.to_owned()),
            },
            Fact::Limited { until: None, text: said.to_owned() },
        ]
    );
}

#[test]
fn answers_are_given_only_where_there_is_something_to_say() {
    let context = HookContext { seat_dir: Path::new("/s/w1"), bell: true, add_context: None };
    let answer = |event, context: &HookContext<'_>| claude().hook_answer(event, context).unwrap_or_default();
    assert_eq!(
        answer("SessionStart", &context),
        r#"{"hookSpecificOutput":{"hookEventName":"SessionStart","watchPaths":["/s/w1/bell"]}}"#
    );
    let more = HookContext { add_context: Some("you owe r-3"), bell: false, ..context };
    assert_eq!(
        answer("SessionStart", &more),
        r#"{"hookSpecificOutput":{"additionalContext":"you owe r-3","hookEventName":"SessionStart"}}"#
    );
    for event in ["UserPromptSubmit", "Stop", "PermissionRequest", "drain", "FileChanged", "SessionEnd"] {
        assert_eq!(answer(event, &context), "", "{event}");
    }
}

#[test]
fn a_status_names_the_process_that_it_is_about() {
    let file = r#"{"pid":16074,"sessionId":"1111","procStart":"60303","version":"2.1.197","status":"waiting",
        "waitingFor":"dialog open"}"#;
    let id = Some("1111".to_owned());
    assert_eq!(
        claude().read_record(RecordKind::Status, file),
        [
            Fact::Client {
                native_id: id.clone(),
                pid: 16074,
                started: Some(60303),
                version: Some("2.1.197".to_owned()),
            },
            Fact::Activity { native_id: id, kind: ActivityKind::DialogOpen },
        ]
    );
}

#[test]
fn a_word_we_do_not_know_is_not_guessed() {
    let kind = |status: &str| {
        let facts = claude().read_record(RecordKind::Status, status);
        facts.into_iter().find_map(|it| match it {
            Fact::Activity { kind, .. } => Some(kind),
            _ => None,
        })
    };
    let unknown = |word: &str| Some(ActivityKind::Unknown { word: word.to_owned() });
    assert_eq!(kind(r#"{"status":"resting"}"#), unknown("resting"));
    assert_eq!(kind(r#"{"status":"waiting","waitingFor":"the moon"}"#), unknown("waiting for the moon"));
    assert_eq!(kind(r#"{"status":"waiting"}"#), unknown("waiting for "));
    assert_eq!(kind(r#"{"pid":1}"#), None);
}

#[test]
fn two_records_on_one_line_are_two_records() {
    let one = r#"{"type":"queue-operation","operation":"enqueue","content":"a"}"#;
    let two = format!("{one}{}", one.replace("\"a\"", "\"b\""));
    assert_eq!(
        claude().read_record(RecordKind::Transcript, &two),
        [Fact::Enqueued { text: "a".to_owned() }, Fact::Enqueued { text: "b".to_owned() }]
    );
    // A torn second one takes nothing from the first.
    assert_eq!(
        claude().read_record(RecordKind::Transcript, &two[..two.len() - 3]),
        [Fact::Enqueued { text: "a".to_owned() }]
    );
}

#[test]
fn copied_history_of_a_fork_is_older_than_the_fork() {
    let line = r#"{"type":"user","timestamp":"2026-11-16T09:00:00.250Z"}"#;
    assert_eq!(claude().record_time(line), Some(1_794_819_600_250));
    for record in ["", "{", "[]", r#"{"timestamp":7}"#, r#"{"type":"mode"}"#] {
        assert_eq!(claude().record_time(record), None, "{record}");
    }
}

#[test]
fn words_in_a_tools_output_are_not_an_interrupt() {
    let record = json!({ "type": "user", "message": { "role": "user", "content": [
        { "type": "tool_result", "content": "[Request interrupted by user]", "tool_use_id": "t" }] } });
    assert_eq!(claude().read_record(RecordKind::Transcript, &record.to_string()), Vec::new());
}

#[test]
fn gemini_tells_turns_by_hooks_and_how_they_ended_by_its_transcript() {
    let gemini = provider("gemini").expect("known");
    let hook = |event: &str, stdin: Value| gemini.read_hook(event, &stdin);
    let id = Some("1111".to_owned());
    let call = |more: Value| {
        let mut call = json!({ "session_id": "1111", "transcript_path": "/t.jsonl", "cwd": "/w" });
        call.as_object_mut().expect("object").extend(more.as_object().expect("object").clone());
        call
    };
    assert_eq!(
        hook("SessionStart", call(json!({ "source": "resume" }))),
        [Fact::SessionStarted {
            native_id: "1111".to_owned(),
            source: "resume".to_owned(),
            transcript: Some("/t.jsonl".into())
        }]
    );
    assert_eq!(
        hook("BeforeAgent", call(json!({ "prompt": "do it" }))),
        [Fact::TurnStarted { native_id: id.clone(), prompt: Some("do it".to_owned()), prompt_id: None }]
    );
    assert_eq!(
        hook("AfterAgent", call(json!({ "prompt_response": "done" }))),
        [Fact::TurnEnded {
            native_id: id.clone(),
            outcome: TurnOutcome::Unstated,
            text: Some("done".to_owned())
        }]
    );
    let asks = call(json!({ "notification_type": "ToolPermission", "message": "m",
        "details": { "type": "exec", "title": "t", "command": "touch x", "rootCommand": "touch" } }));
    assert_eq!(
        hook("Notification", asks),
        [Fact::ApprovalRequested {
            native_id: id,
            tool: "run_shell_command".to_owned(),
            input_summary: r#"{"command":"touch x"}"#.to_owned(),
            choices: vec!["allow".to_owned(), "deny".to_owned()],
            tool_use_id: None,
        }]
    );
    assert_eq!(hook("Notification", call(json!({ "notification_type": "Other" }))), Vec::new());

    let line = |record: Value| gemini.read_record(RecordKind::Transcript, &record.to_string());
    let ended = |outcome: TurnOutcome, text: Option<&str>| Fact::TurnEnded {
        native_id: None,
        outcome,
        text: text.map(str::to_owned),
    };
    assert_eq!(
        line(json!({ "type": "user", "content": [{ "text": "do it" }] })),
        [Fact::TurnStarted { native_id: None, prompt: Some("do it".to_owned()), prompt_id: None }]
    );
    let answer = json!({ "functionResponse": { "name": "run_shell_command", "response": {} } });
    assert_eq!(
        line(json!({ "type": "user", "content": [answer] })),
        [Fact::ApprovalResolved { native_id: None, tool_use_id: None }]
    );
    assert_eq!(
        line(json!({ "type": "info", "content": "Request cancelled." })),
        [ended(TurnOutcome::Interrupted, None)]
    );
    let said = r#"[API Error: {"error":{"code":400,"status":"INVALID_ARGUMENT"}}]"#;
    let kind = "invalid_argument".to_owned();
    assert_eq!(
        line(json!({ "type": "error", "content": said })),
        [ended(TurnOutcome::Error { kind }, Some(said))]
    );
    let said = "[API Error: You have exhausted your daily quota on this model.]";
    let kind = "rate_limit".to_owned();
    assert_eq!(
        line(json!({ "type": "error", "content": said })),
        [
            ended(TurnOutcome::Error { kind }, Some(said)),
            Fact::Limited { until: None, text: said.to_owned() }
        ]
    );
    // What is written again at a resume is history.
    assert_eq!(
        line(json!({ "$set": { "messages": [{ "type": "user", "content": [{ "text": "x" }] }] } })),
        []
    );
    assert_eq!(line(json!({ "type": "gemini", "content": "x" })), []);
}

#[test]
fn copilot_tells_turns_by_its_extension_in_order_and_texts_by_its_record() {
    let copilot = provider("copilot").expect("known");
    let id = Some("1111".to_owned());
    let hook = |event: &str, mut stdin: Value| {
        stdin["sessionId"] = json!("1111");
        assert_eq!(copilot.hook_session(&stdin).expect("it tells").native_id, "1111");
        copilot.read_hook(event, &stdin)
    };
    let ended = |outcome: TurnOutcome, text: Option<&str>| Fact::TurnEnded {
        native_id: id.clone(),
        outcome,
        text: text.map(str::to_owned),
    };
    assert_eq!(
        hook("SessionStart", json!({ "source": "startup" })),
        [Fact::SessionStarted {
            native_id: "1111".to_owned(),
            source: "startup".to_owned(),
            transcript: None
        }]
    );
    assert_eq!(hook("enqueued", json!({ "prompt": "x" })), [Fact::Enqueued { text: "x".to_owned() }]);
    let begun = Fact::TurnStarted {
        native_id: id.clone(),
        prompt: Some("x".to_owned()),
        prompt_id: Some("u1".to_owned()),
    };
    let taken = json!({ "content": "x", "messageId": "u1", "delivery": "queued" });
    assert_eq!(hook("user.message", taken.clone()), [begun]);
    assert_eq!(hook("user.message", json!({ "content": "x", "delivery": "steering" })), Vec::new());
    assert_eq!(hook("session.idle", json!({})), [ended(TurnOutcome::Answer, None)]);
    assert_eq!(hook("abort", json!({ "reason": "user_initiated" })), [ended(TurnOutcome::Interrupted, None)]);
    let limit = json!({ "errorType": "rate_limit", "message": "429", "statusCode": 429 });
    assert_eq!(
        hook("session.error", limit),
        [
            ended(TurnOutcome::Error { kind: "rate_limit".to_owned() }, Some("429")),
            Fact::Limited { until: None, text: "429".to_owned() }
        ]
    );
    assert_eq!(
        hook("permission.completed", json!({})),
        [Fact::ApprovalResolved { native_id: id.clone(), tool_use_id: None }]
    );
    let asks = json!({ "notification_type": "permission_prompt", "message": "run touch" });
    assert!(matches!(
        &hook("notification", asks)[..],
        [Fact::ApprovalRequested { input_summary, .. }] if input_summary == "run touch"
    ));
    assert_eq!(hook("notification", json!({ "notification_type": "shell_completed" })), Vec::new());
    // Without a turn a compaction ends idle.
    assert_eq!(hook("session.compaction_complete", json!({ "open": false })).len(), 2);
    assert_eq!(hook("session.compaction_complete", json!({ "open": true })).len(), 1);

    let line = |kind: &str, data: Value| {
        copilot.read_record(RecordKind::Transcript, &json!({ "type": kind, "data": data }).to_string())
    };
    assert!(matches!(
        &line("user.message", taken)[..],
        [Fact::TurnStarted { prompt: Some(text), .. }] if text == "x"
    ));
    assert_eq!(
        line("user.message", json!({ "content": "x", "delivery": "steering" })),
        [Fact::TakenInTurn { text: "x".to_owned() }]
    );
    assert_eq!(line("abort", json!({ "reason": "user_initiated" })), Vec::new());
}

#[test]
fn a_question_that_a_key_answers_says_its_tool_and_whether_the_record_still_holds_it() {
    let copilot = provider("copilot").expect("known");
    let asks = |kind: &str, message: &str| {
        let stdin = json!({ "sessionId": "1", "notification_type": kind, "message": message });
        let told = copilot.read_hook("notification", &stdin).into_iter().find_map(|it| match it {
            Fact::ApprovalRequested { tool, input_summary, .. } => Some((tool, input_summary)),
            _ => None,
        });
        (told.expect("a question"), copilot.answered_by_keys("notification", &stdin))
    };
    let told = |tool: &str, input: &str| (tool.to_owned(), input.to_owned());
    let command = r#"{"command":"touch a"}"#;
    assert_eq!(asks("permission_prompt", "Run command: touch a"), (told("bash", command), true));
    assert_eq!(asks("permission_prompt", "Edit file: /a/b"), (told("edit", r#"{"path":"/a/b"}"#), true));
    let path = r#"{"path":"/a"}"#;
    assert_eq!(asks("permission_prompt", "Path permission needed: /a"), (told("path", path), true));
    assert_eq!(asks("permission_prompt", "Fetch: x"), (told("permission", "Fetch: x"), true));
    assert_eq!(asks("elicitation_dialog", "Which?"), (told("question", "Which?"), false));

    let asked = |id: &str, command: &str| {
        let request = json!({ "kind": "shell", "fullCommandText": command });
        let data = json!({ "requestId": id, "permissionRequest": request });
        json!({ "type": "permission.requested", "data": data }).to_string()
    };
    let done = |id: &str| json!({ "type": "permission.completed", "data": { "requestId": id } }).to_string();
    let holds = |lines: &[String]| copilot.asks_in_record(&lines.join("\n"), "bash", command);
    assert_eq!(holds(&[]), Some(false));
    assert_eq!(holds(&[asked("1", "touch a")]), Some(true));
    assert_eq!(holds(&[asked("1", "touch a"), done("1")]), Some(false));
    assert_eq!(holds(&[asked("1", "touch a"), done("1"), asked("2", "touch a")]), Some(true));
    assert_eq!(holds(&[asked("1", "touch ab"), done("0")]), Some(false));

    let prompt = json!({ "kind": "path", "paths": ["/a"] });
    let data = json!({ "requestId": "1", "permissionRequest": { "kind": "shell" }, "promptRequest": prompt });
    let line = json!({ "type": "permission.requested", "data": data }).to_string();
    assert_eq!(copilot.asks_in_record(&line, "path", path), Some(true));
    assert_eq!(copilot.asks_in_record(&line, "path", r#"{"path":"/b"}"#), Some(false));

    let gemini = provider("gemini").expect("known");
    let tool = |server: &str| {
        let details = json!({ "type": "mcp", "serverName": server, "toolName": "report_result" });
        let stdin = json!({ "session_id": "1", "notification_type": "ToolPermission", "details": details });
        assert!(gemini.answered_by_keys("Notification", &stdin) && !gemini.answered_by_keys("x", &stdin));
        match gemini.read_hook("Notification", &stdin).pop() {
            Some(Fact::ApprovalRequested { tool, .. }) => gemini.is_own_tool(&tool),
            other => panic!("{other:?}"),
        }
    };
    assert!(tool("team_orchestrator") && !tool("theirs"));
    assert_eq!(gemini.asks_in_record("", "x", "{}"), None);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::sample::select(vec!["user", "assistant", "system", "busy", "waiting", "enqueue", "x"])
            .prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let key = prop::sample::select(vec![
            "type",
            "message",
            "content",
            "status",
            "pid",
            "sessionId",
            "session_id",
            "attachment",
            "prompt",
            "operation",
            "error",
            "subtype",
            "tool_input",
            "permission_suggestions",
            "isSidechain",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6)
                .prop_map(|it| it.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_record_and_no_call_makes_the_reader_fail(value in any_json(), cut in 0_usize..60, event in "[A-Za-z]{0,18}") {
        let text = value.to_string();
        let end = (0..=cut.min(text.len())).rev().find(|it| text.is_char_boundary(*it)).unwrap_or(0);
        for name in ["claude", "copilot", "fake", "gemini"] {
            let provider = provider(name).expect("known");
            for kind in [RecordKind::Status, RecordKind::Transcript] {
                let _ = provider.read_record(kind, &text);
                let _ = provider.read_record(kind, &text[..end]);
                let _ = provider.record_time(&text);
            }
            for event in [event.as_str(), "SessionStart", "PermissionRequest", "StopFailure", "Notification", "AfterAgent", "user.message", "session.error", "notification"] {
                let _ = provider.read_hook(event, &value);
            }
            let _ = provider.hook_session(&value);
            let _ = provider.trusts(&text, Path::new("/a"));
        }
    }
}

/// A line of each program's record that tells of a text, and `None` where no file holds the conversation.
fn said(provider: &str, text: &str) -> Option<String> {
    let record = match provider {
        "claude" | "fake" => {
            json!({ "type": "user", "promptSource": "typed", "message": { "role": "user", "content": text } })
        }
        "codex" => {
            let item = json!({ "type": "UserMessage", "content": [{ "type": "text", "text": text }] });
            json!({ "type": "event_msg", "payload": { "type": "item_completed", "item": item } })
        }
        "copilot" => json!({ "type": "user.message", "data": { "content": text } }),
        "gemini" => json!({ "type": "user", "content": [{ "text": text }] }),
        "opencode" => return None,
        other => panic!("write a line of `{other}`"),
    };
    Some(record.to_string())
}

#[test]
fn two_records_that_a_crash_has_glued_onto_one_line_are_both_read() {
    for it in providers() {
        let (Some(one), Some(two)) = (said(it.name, "one"), said(it.name, "two")) else { continue };
        let read = |line: &str| it.provider().read_record(RecordKind::Transcript, line);
        let apart: Vec<Fact> = [&one, &two].iter().flat_map(|line| read(line)).collect();
        assert_eq!(apart.len(), 2, "{}: {apart:?}", it.name);
        assert_eq!(read(&format!("{one}{two}")), apart, "{}", it.name);
        assert_eq!(read(&format!("{one}{}", &two[..two.len() / 2])), apart[..1], "{}", it.name);
    }
}

#[test]
fn a_conversation_is_found_by_its_proved_id_alone_and_never_by_looking_around() {
    // So it does not matter which other ones, newer ones and empty folders lie beside it.
    let (home, cwd) = (Path::new("/home/me/.program"), Path::new("/work/app"));
    for it in providers() {
        let watched = |native_id, transcript| {
            let places = SeatPlaces { config_home: home, cwd, native_id, transcript, provider_pid: Some(7) };
            let files = it.provider().files_to_watch(&places).into_iter();
            let transcripts = files.filter(|it| it.kind == RecordKind::Transcript);
            transcripts.map(|it| it.path).collect::<Vec<_>>()
        };
        assert!(watched(None, None).is_empty(), "{}: nothing is proved", it.name);
        let own = watched(Some("mine"), None);
        assert!(own.iter().all(|path| path.to_string_lossy().contains("mine")), "{}: {own:?}", it.name);
        // What the program has told of itself.
        let told = home.join("told-mine.jsonl");
        let own = watched(Some("mine"), Some(&*told));
        assert!(own.iter().all(|path| path.to_string_lossy().contains("mine")), "{}: {own:?}", it.name);
        assert!(own.len() <= 1, "{}: {own:?}", it.name);
    }
}
