//! Every answer in JSON is what its schema says.

use std::collections::BTreeMap;

use serde_json::Value;
use team_scenarios::{Crew, SOON};
use team_testkit::TestWorkspace;

/// Checks a value against a schema of the kind that the program writes, and says where it differs.
fn check(schema: &Value, root: &Value, value: &Value, at: &str) -> Result<(), String> {
    if let Some(allowed) = schema.as_bool() {
        return if allowed { Ok(()) } else { Err(format!("{at}: nothing may stand here")) };
    }
    if let Some(name) = schema["$ref"].as_str().and_then(|it| it.strip_prefix("#/$defs/")) {
        check(&root["$defs"][name], root, value, at)?;
    }
    if let Some(wanted) = schema.get("const") {
        same(wanted == value, at, || format!("{wanted} is wanted, not {value}"))?;
    }
    if let Some(words) = schema["enum"].as_array() {
        same(words.contains(value), at, || format!("{value} is none of {words:?}"))?;
    }
    for (word, exactly) in [("oneOf", true), ("anyOf", false)] {
        if let Some(forms) = schema[word].as_array() {
            let results: Vec<_> = forms.iter().map(|it| check(it, root, value, at)).collect();
            let good = results.iter().filter(|it| it.is_ok()).count();
            let why: Vec<_> = results.into_iter().filter_map(Result::err).collect();
            same(good == 1 || !exactly && good > 0, at, || format!("{good} forms fit: {why:?}"))?;
        }
    }
    let is = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("{at}: type `{other}`"),
    };
    match &schema["type"] {
        Value::String(kind) => same(is(kind), at, || format!("{kind} is wanted, not {value}"))?,
        Value::Array(kinds) => {
            let any = kinds.iter().filter_map(Value::as_str).any(is);
            same(any, at, || format!("one of {kinds:?} is wanted, not {value}"))?;
        }
        _ => {}
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        same(value.get(name).is_some(), at, || format!("`{name}` is missing in {value}"))?;
    }
    let known = schema["properties"].as_object();
    for (name, part) in value.as_object().into_iter().flatten() {
        let at = format!("{at}.{name}");
        match (known.and_then(|it| it.get(name)), schema.get("additionalProperties")) {
            (Some(schema), _) | (None, Some(schema)) => check(schema, root, part, &at)?,
            (None, None) => {}
        }
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (index, part) in values.iter().enumerate() {
            check(items, root, part, &format!("{at}[{index}]"))?;
        }
    }
    Ok(())
}

fn same(good: bool, at: &str, why: impl FnOnce() -> String) -> Result<(), String> {
    if good { Ok(()) } else { Err(format!("{at}: {}", why())) }
}

/// Runs commands and holds each answer against its schema; a success must not have a field that no schema names.
struct Checked<'a> {
    ws: &'a TestWorkspace,
    schemas: Value,
    seen: BTreeMap<String, (u32, u32)>,
}

impl<'a> Checked<'a> {
    fn new(ws: &'a TestWorkspace) -> Self {
        let schemas = ws.json(["schema"])["schemas"].clone();
        Self { ws, schemas, seen: BTreeMap::new() }
    }

    fn run(&mut self, words: &[&str]) -> Value {
        let answer = self.ws.json(words);
        let command = words[0];
        let schema = &self.schemas[command];
        assert!(schema.is_object(), "no schema for `{command}`");
        let checked = check(schema, schema, &answer, command);
        assert!(checked.is_ok(), "{words:?}: {checked:?}\n{answer}");
        let seen = self.seen.entry(command.to_owned()).or_default();
        if answer["ok"] == true {
            let named = schema["oneOf"][0]["properties"].as_object().expect("the first form is the good one");
            let unnamed: Vec<_> = answer
                .as_object()
                .into_iter()
                .flatten()
                .map(|it| it.0)
                .filter(|it| !named.contains_key(*it))
                .collect();
            assert!(unnamed.is_empty(), "{words:?}: {unnamed:?} in no schema");
            seen.0 += 1;
        } else {
            seen.1 += 1;
        }
        answer
    }
}

#[test]
fn every_answer_is_what_its_schema_says_over_a_whole_run() {
    let ws = TestWorkspace::new();
    let mut checked = Checked::new(&ws);
    checked.run(&["status"]);
    checked.run(&["doctor"]);
    checked.run(&["compile"]);
    checked.run(&["init"]);
    checked.run(&["init"]);
    checked.run(&["profile", "init", "p", "--auth-mode", "subscription"]);
    checked.run(&["profile", "init", "p", "--auth-mode", "subscription"]);
    ws.write(".team/current/agents/coder.md", "---\nname: coder\nrole: r\nprovider: fak\n---\n");
    checked.run(&["compile"]);
    checked.run(&["doctor"]);
    checked.run(&["quick-start"]);
    ws.write(".team/current/agents/coder.md", "---\nname: coder\nrole: r\nprovider: fake\n---\n\nWork.\n");
    checked.run(&["compile"]);
    checked.run(&["quick-start", "--headless"]);
    checked.run(&["quick-start", "--headless"]);
    checked.run(&["status"]);
    checked.run(&["send", "coder", "hello", "--wait", "answered", "--timeout", "20"]);
    checked.run(&["send", "nobody", "hello"]);
    checked.run(&["send", "coder"]);
    let report = "fake: report summary=\"x\" json={\"tests\":[{\"command\":\"t\",\"status\":\"passed\"}],\"risks\":[\"none\"]}";
    checked.run(&["send", "--watch-result", "--case", "c-1", "coder", report]);
    checked.run(&["wait", "--task", "1", "--timeout", "20"]);
    checked.run(&["wait", "--task", "9"]);
    checked.run(&["wait", "--result", "coder", "--timeout", "20"]);
    checked.run(&["status", "coder"]);
    checked.run(&["inbox", "coder"]);
    checked.run(&["inbox", "nobody"]);
    checked.run(&["explain", "coder"]);
    let sent = checked.run(&["send", "coder", "again"]);
    checked.run(&["explain", sent["message_id"].as_str().expect("it has an id")]);
    checked.run(&["send", "--again", sent["message_id"].as_str().expect("it has an id")]);
    checked.run(&["explain", "nothing"]);
    checked.run(&["approvals"]);
    checked.run(&["approvals", "nobody"]);
    checked.run(&["grant"]);
    checked.run(&["grant", "trust"]);
    checked.run(&["grant", "approvals"]);
    checked.run(&["send", "coder", "fake: ask-permission", "--wait", "turn_started", "--timeout", "20"]);
    let asks = || ws.json(["approvals"])["approvals"][0].is_object();
    ws.wait_until("it asks", asks, SOON);
    let open = checked.run(&["approvals"]);
    let question = open["approvals"][0]["request_id"].as_str().expect("it has an id");
    checked.run(&["approve", "coder", question, "--allow"]);
    checked.run(&["approve", "coder", question, "--allow"]);
    checked.run(&["results"]);
    let collected = checked.run(&["collect"]);
    assert_eq!(collected["results"][0]["tests"][0]["status"], "passed", "{collected}");
    assert_eq!(collected["results"][0]["case_id"], "c-1", "{collected}");
    checked.run(&["collect"]);
    checked.run(&["report", "--summary", "from nowhere", "--status", "success"]);
    checked.run(&["attach"]);
    checked.run(&["completions", "bash"]);
    checked.run(&["schema", "status"]);
    checked.run(&["doctor"]);
    checked.run(&["delete", "current", "--confirm"]);
    checked.run(&["shutdown"]);
    checked.run(&["wait", "--idle", "coder"]);
    checked.run(&["restart", "--headless"]);
    checked.run(&["restart", "--headless"]);
    checked.run(&["shutdown"]);
    checked.run(&["shutdown"]);
    checked.run(&["delete", "current", "--confirm"]);
    let described = checked.schemas.as_object().expect("schemas have names");
    let never: Vec<_> = described
        .keys()
        // A report succeeds in a seat only, a self-test has tests of its own.
        .filter(|it| !matches!(it.as_str(), "error" | "events" | "report" | "selftest"))
        .filter(|it| checked.seen.get(*it).is_none_or(|(good, _)| *good == 0))
        .collect();
    assert!(never.is_empty(), "never seen to succeed: {never:?}");
    ws.finish();
}

#[test]
fn each_line_of_events_is_what_its_schema_says() {
    let crew = Crew::started(&["w1"]);
    let schema = crew.ws.json(["schema", "events"])["schemas"]["events"].clone();
    let lines = crew.ws.ok(["events", "--json"]);
    assert!(lines.lines().count() > 5, "{lines}");
    for line in lines.lines() {
        let value: Value = serde_json::from_str(line).expect("each line is an object");
        assert_eq!(check(&schema, &schema, &value, "event"), Ok(()), "{value}");
    }
    crew.finish();
}

#[test]
fn a_start_that_fails_tells_programs_which_agent_and_why() {
    let mut crew = Crew::written(&["good", "bad"]);
    crew.ws.set("FAKE_SCRIPT", "exit 3");
    let mut checked = Checked::new(&crew.ws);
    let answer = checked.run(&["quick-start", "--headless"]);
    assert_eq!(answer["ok"], false, "{answer}");
    assert_eq!(answer["error"]["code"], "not_ready", "{answer}");
    assert_eq!(answer["agents"].as_array().map(Vec::len), Some(2), "{answer}");
    let status = checked.run(&["status"]);
    assert!(status["attention"].to_string().contains("team-agent explain bad"), "{status}");
    crew.finish();
}
