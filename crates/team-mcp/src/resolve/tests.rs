use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{MessageKind, TeamReadWhat, TestStatus};

fn resolved(name: &str, given: &Value) -> Result<Resolved, ToolError> {
    resolve(ToolSet::Worker, name, given.as_object().cloned().unwrap_or_default(), Map::new())
}

#[track_caller]
fn request(name: &str, given: &Value) -> ToolRequest {
    resolved(name, given).unwrap_or_else(|error| panic!("{}", error.text())).call.request
}

#[track_caller]
fn refused(name: &str, given: &Value) -> String {
    match resolved(name, given) {
        Err(error) => error.text(),
        Ok(resolved) => panic!("taken: {resolved:?}"),
    }
}

macro_rules! fields {
    ($variant:ident, $name:expr, $given:tt) => {
        match request($name, &json!($given)) {
            ToolRequest::$variant(fields) => fields,
            other => panic!("{other:?}"),
        }
    };
}

#[test]
fn receivers_are_taken_in_every_form_that_models_write_them() {
    for to in [json!(["a", "b"]), json!("a, b"), json!("[\"a\",\"b\"]"), json!(["a", " b ", ""])] {
        assert_eq!(fields!(SendMessage, "send_message", { "to": to, "content": "x" }).to, ["a", "b"], "{to}");
    }
    let far = fields!(SendMessage, "send_message", { "to": "/a,b::current/coder", "content": "x" });
    assert_eq!(far.to, ["/a,b::current/coder"]);
}

#[test]
fn a_message_without_a_kind_is_a_message() {
    let message =
        fields!(SendMessage, "send_message", { "to": "a", "content": "x", "kind": null, "task": "" });
    assert_eq!((message.kind, message.task), (MessageKind::Message, None));
    let message = fields!(SendMessage, "send_message", { "to": "a", "content": "x", "kind": " Question " });
    assert_eq!(message.kind, MessageKind::Question);
}

#[test]
fn plain_slips_are_forgiven_in_silence() {
    let report = fields!(ReportResult, "report_result", {
        "summary": "done",
        "status": "Success",
        "task": 3,
        "tests": "[{\"command\": \"cargo test\", \"status\": \"pass\", \"note\": null}]",
        "changes": "src/lib.rs",
        "risks": "[\"one\", \"two\"]",
        "artifacts": [{ "path": "a.txt" }, 7],
        "evidence": [],
        "presentation": "{\"case_id\": \"c\"}",
    });
    assert_eq!(report.task.as_deref(), Some("3"));
    assert_eq!(report.tests[0].status, TestStatus::Passed);
    assert_eq!(report.changes, ["src/lib.rs"]);
    assert_eq!(report.risks, ["one", "two"]);
    assert_eq!(report.artifacts, [r#"{"path":"a.txt"}"#, "7"]);
    assert_eq!(report.presentation.unwrap().case_id.as_deref(), Some("c"));
    let read = fields!(TeamRead, "team_read", { "limit": "20", "since": 5.0, "what": "TREE" });
    assert_eq!((read.limit, read.since, read.what), (Some(20), Some(5), TeamReadWhat::Tree));
    let question =
        fields!(RequestHuman, "request_human", { "question": "Which?", "choices": "this one, or that" });
    assert_eq!(question.choices, ["this one, or that"]);
}

#[test]
fn a_summary_that_is_too_long_is_told_its_length_and_where_the_rest_goes() {
    let report = json!({ "summary": "é".repeat(2000), "status": "partial" });
    request("report_result", &report);
    let report = json!({ "summary": "é".repeat(2001), "status": "partial" });
    insta::assert_snapshot!(refused("report_result", &report), @r"
    error (bad_arguments): `summary` has 2001 characters, at most 2000 are allowed: put the rest in `text`
    hint: nothing was done; correct this and call `report_result` again
    ");
}

#[test]
fn a_refusal_reads_well() {
    insta::assert_snapshot!(refused("report_result", &json!({ "status": "finished", "tests": [{ "command": "make" }, 3], "note": 1 })), @r"
    error (bad_arguments): 5 things are wrong with this call:
    - `summary` is missing: what came of it, in a few sentences
    - `status` is `finished`, it must be one of `success`, `partial`, `failed`, `blocked`
    - `tests[0].status` is missing: how it ended
    - `tests[1]` is `3`, it must be an object with `command`, `status`, `note`
    - `note` is not an argument of `report_result`; it takes `summary`, `status`, `task`, `text`, `tests`, `changes`, `artifacts`, `risks`, `next_actions`, `evidence`, `lessons`, `presentation`
    hint: nothing was done; correct this and call `report_result` again
    ");
    insta::assert_snapshot!(refused("team_read", &json!({ "limit": 500, "what": ["tree"], "since": -1 })), @r"
    error (bad_arguments): 3 things are wrong with this call:
    - `since` is `-1`, it must be a whole number of at least 0
    - `what` is a list, it must be one of `tree`, `room`, `all`
    - `limit` is `500`, it must be a whole number from 1 to 200
    hint: nothing was done; correct this and call `team_read` again
    ");
    insta::assert_snapshot!(refused("request_human", &json!({ "question": "", "choices": ["1", "2", "3", "4", "5", "6", "7", "8", "9"] })), @r"
    error (bad_arguments): 2 things are wrong with this call:
    - `question` is empty: the question, with what is needed to answer it
    - `choices` has 9 items, at most 8 are allowed
    hint: nothing was done; correct this and call `request_human` again
    ");
    insta::assert_snapshot!(refused("send_message", &json!({ "to": [], "content": { "a": 1 }, "recipient": "x" })), @r"
    error (bad_arguments): 3 things are wrong with this call:
    - `to` is empty: an agent's name, several names, `leader`, `manager` (whoever added you), or `all` (every agent but you)
    - `content` is an object, it must be text
    - `recipient` is not an argument of `send_message`; it takes `to`, `content`, `kind`, `task`, `reply_to`, `id`, `presentation`
    hint: nothing was done; correct this and call `send_message` again
    ");
}

#[test]
fn claims_about_the_sender_are_set_aside() {
    let given = json!({
        "to": "a", "content": "x", "sender": "leader", "from": null, "agent_id": 4, "task_id": "7",
        "requires_ack": true, "schema_version": 1,
    });
    let call = resolved("send_message", &given).unwrap().call;
    let names: Vec<_> = call.ignored.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["sender", "agent_id", "task_id", "requires_ack", "schema_version"]);
}

#[test]
fn the_built_in_form_of_a_message_is_understood_by_its_type() {
    let message = fields!(SendMessage, "SendMessage", { "type": "message", "recipient": "a", "content": "x", "summary": "s" });
    assert_eq!((message.to, message.content), (vec!["a".to_owned()], "x".to_owned()));
    let message = fields!(SendMessage, "SendMessage", { "type": "broadcast", "content": "x" });
    assert_eq!(message.to, ["all"]);
    let message = fields!(SendMessage, "SendMessage", { "to": "a", "message": "x" });
    assert_eq!(message.content, "x");
    let answer =
        refused("SendMessage", &json!({ "type": "shutdown_response", "request_id": "q-1", "approve": true }));
    assert!(answer.contains("not_supported_yet"), "{answer}");
    let answer = refused("SendMessage", &json!({ "type": "shutdown_request", "recipient": "a" }));
    assert!(answer.contains("not_allowed"), "{answer}");
    let answer = refused("SendMessage", &json!({ "type": "shout", "recipient": "a" }));
    assert!(answer.contains("`message`, `broadcast`, `shutdown_response`, `shutdown_request`"), "{answer}");
}

#[test]
fn the_agent_an_alias_asks_about_is_no_claim_about_the_sender() {
    let resolved = resolved("check_agent", &json!({ "agent_id": "coder", "sender": "x" })).unwrap();
    assert_eq!(resolved.focus.as_deref(), Some("coder"));
    assert_eq!(resolved.call.alias.as_deref(), Some("check_agent"));
    assert_eq!(resolved.call.ignored.len(), 1);
}

#[test]
fn names_with_the_prefix_of_a_client_are_understood() {
    for name in [
        "mcp__team_orchestrator__team_read",
        "team_orchestrator-team_read",
        "mcp_team_orchestrator_team_read",
    ] {
        fields!(TeamRead, name, {});
    }
}

#[test]
fn an_unknown_tool_is_told_the_nearest_names() {
    insta::assert_snapshot!(refused("report_results", &json!({})), @r"
    error (unknown_tool): no tool is named `report_results`
    hint: did you mean `report_result`?
    ");
    insta::assert_snapshot!(refused("frobnicate", &json!({})), @r"
    error (unknown_tool): no tool is named `frobnicate`
    hint: this session can call `send_message`, `report_result`, `team_read`, `request_human`
    ");
}

#[test]
fn what_comes_later_and_what_is_not_allowed_are_told_apart() {
    for (set, name, code) in [
        (ToolSet::Worker, "task_claim", "not_supported_yet"),
        (ToolSet::Worker, "TaskList", "not_supported_yet"),
        (ToolSet::Worker, "team_add", "not_allowed"),
        (ToolSet::Worker, "Agent", "not_allowed"),
        (ToolSet::Lead, "team_delete", "not_allowed"),
        (ToolSet::Leader, "team_delete", "not_supported_yet"),
        (ToolSet::Worker, "get_team_member", "not_supported_yet"),
        (ToolSet::Worker, "create_team_member", "not_allowed"),
        (ToolSet::Members, "create_team_member", "not_supported_yet"),
        (ToolSet::Members, "send_message", "not_allowed"),
        (ToolSet::Unbound, "team_read", "not_allowed"),
        (ToolSet::Unbound, "get_team_member", "not_allowed"),
    ] {
        assert_eq!(resolve(set, name, Map::new(), Map::new()).unwrap_err().code, code, "{name} for {set:?}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,20}".prop_map(Value::from),
        prop::sample::select(vec!["[", "[1,2]", "{\"command\":1}", "success", "", "1e999"])
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let key = prop::sample::select(vec!["to", "content", "command", "status", "case_id", "x"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..4).prop_map(|it| it
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value))
                .collect::<Map<_, _>>()
                .into()),
        ]
    })
}

proptest! {
    #[test]
    fn any_arguments_are_taken_or_refused_in_words(
        name in prop::sample::select(table::tools().filter(|it| it.is_live()).map(|it| it.name).collect::<Vec<_>>()),
        values in prop::collection::vec((0_usize..14, any_json()), 0..6),
    ) {
        let arguments = table::tool(name).unwrap().arguments;
        let given: Map<_, _> = values
            .into_iter()
            .map(|(index, value)| (arguments.get(index).map_or("stray", |it| it.name).to_owned(), value))
            .collect();
        match resolve(ToolSet::Worker, name, given, Map::new()) {
            Ok(resolved) => prop_assert_eq!(resolved.call.request.tool(), name),
            Err(error) => prop_assert_eq!(error.code, "bad_arguments"),
        }
    }
}
