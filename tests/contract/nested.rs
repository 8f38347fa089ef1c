//! An agent program that is started in an agent's shell is nobody of the team: nothing of it counts as the seat's.
//!
//! The nested program inherits whatever the shell has, and is given only what leads it to a model of its own.

use std::fs;

use serde_json::Value;
use team_testkit::{ModelStub, process, real};

use crate::team::{ALL, CLAUDE, CODEX, COPILOT, GEMINI, Kind, OPENCODE, SOON, Team};

/// What may stand in the log of what is written while a nested program runs, and how often at most.
const EXPECTED: [(&str, usize); 12] = [
    ("activity.observed", 9),
    ("message.accepted", 2),
    ("message.held", 9),
    ("message.sending", 2),
    ("message.submitted", 9),
    ("turn.started", 2),
    ("turn.ended", 2),
    ("approval.requested", 2),
    ("approval.answering", 2),
    ("approval.pressing", 4),
    ("approval.closed", 2),
    ("observation.foreign", 99),
];

/// Lines of a shell that run a program once, without a screen, with a model of its own.
fn call(kind: Kind, url: &str, text: &str) -> String {
    let text = format!("'{text}'");
    // Not every shell has the path of its program.
    let client = real::client(kind.provider).expect("it was there");
    let program = format!("'{}'", client.program.display());
    match kind.provider {
        "claude" => format!(
            "export ANTHROPIC_BASE_URL={url} ANTHROPIC_AUTH_TOKEN=none CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1\n\
             {program} -p {text} --model stub-model"
        ),
        "codex" => format!(
            "export STUB_KEY=none\n{program} exec --skip-git-repo-check -m stub-model -c model_provider=stub \
             -c 'model_providers.stub={{name=\"stub\",base_url=\"{url}/v1\",wire_api=\"responses\",env_key=\"STUB_KEY\"}}' \
             {text}"
        ),
        "copilot" => format!(
            "export COPILOT_OFFLINE=true COPILOT_PROVIDER_BASE_URL={url}/v1 COPILOT_MODEL=stub-model\n\
             {program} -p {text} --allow-all-tools"
        ),
        "gemini" => format!(
            "export GEMINI_API_KEY=none GOOGLE_GEMINI_BASE_URL={url} GEMINI_CLI_TRUST_WORKSPACE=true\n\
             {program} -p {text} -m gemini-2.5-pro"
        ),
        _ => {
            let service = format!(
                r#"{{"npm":"@ai-sdk/openai-compatible","name":"Stub","options":{{"baseURL":"{url}/v1","apiKey":"none"}},"models":{{"stub-model":{{"name":"Stub"}}}}}}"#
            );
            format!(
                "export OPENCODE_DISABLE_MODELS_FETCH=1\n\
                 export OPENCODE_CONFIG_CONTENT='{{\"provider\":{{\"stub\":{service}}}}}'\n\
                 {program} run -m stub/stub-model {text}"
            )
        }
    }
}

/// Runs one program in the shell of an agent of another, or the same.
fn nothing_of_it_counts(outer: Kind, nested: &[Kind]) {
    let Some(team) = Team::started_with(&[("w1", outer)], nested) else { return };
    let seat = || {
        let session = team.crew.status()["agents"]["w1"]["session"].clone();
        ["native", "spawn", "pid"].map(|it| session[it].clone())
    };
    // A conversation that has begun.
    team.send("w1", "stub: say hello", "answered");
    let worker = &team.workers[0];
    for kind in nested {
        let name = format!("{} in {}", kind.provider, outer.provider);
        let stub = ModelStub::start().expect("loopback works");
        let before = (seat(), team.crew.ws.events().len());
        let speaks = format!("{{\"to\":\"leader\",\"content\":\"from the nested {}\"}}", kind.provider);
        let words = format!(
            "nested words\nstub: call {}send_message {speaks}\nstub: think 3000\nstub: say nested answer",
            kind.tools
        );
        let script = team.crew.ws.write("nested.sh", &call(*kind, &stub.url(), &words));
        let (said, ended) = (script.with_extension("said"), script.with_extension("ended"));
        let command = format!(
            "sh {} >{} 2>&1 </dev/null; echo $? >{}",
            script.display(),
            said.display(),
            ended.display()
        );
        let wrapper = team.crew.ws.write("run-nested.sh", &command);
        let shown = || format!("{name}:\n{}", fs::read_to_string(&said).unwrap_or_default());
        team.send("w1", &format!("stub: ask sh {}\nstub: say ran {name}", wrapper.display()), "submitted");

        // It runs, and what is sent to the seat meanwhile is the seat's.
        let runs = process::wait_until(
            || {
                team.allow("w1");
                stub.turns().iter().any(|it| it.says("nested words"))
            },
            SOON,
        );
        assert!(runs, "{}\n{}", shown(), team.known());
        let for_seat = format!("for the seat only, beside {name}");
        team.send("w1", &format!("{for_seat}\nstub: say mine"), "accepted");
        team.wait(&format!("{name} ends"), || {
            fs::read_to_string(&ended).is_ok_and(|it| !it.trim().is_empty())
        });
        assert_eq!(fs::read_to_string(&ended).unwrap_or_default().trim(), "0", "{}", shown());
        assert!(fs::read_to_string(&said).is_ok_and(|it| it.contains("nested answer")), "{}", shown());
        let given = || worker.stub.turns().iter().filter(|it| it.says(&for_seat)).count();
        team.wait(&format!("the seat beside {name} is given its message"), || given() > 0);
        team.wait(&format!("the seat beside {name} is idle"), || team.crew.activity("w1") == "idle");

        assert_eq!(given(), 1, "{name}");
        let strange = stub.requests().iter().any(|it| it.body.to_string().contains("for the seat only"));
        assert!(!strange, "{name} was given a message of the seat");
        assert_eq!(seat(), before.0, "{name}");
        // Who cannot prove to be of the team may write to it, under no name.
        let mut events = team.crew.ws.events().split_off(before.1);
        events.retain(|it| it["by"]["kind"] != "unknown");
        let strange = |it: &&Value| {
            let kind = it["event"]["type"].as_str().unwrap_or_default();
            let times = events.iter().filter(|it| it["event"]["type"] == kind).count();
            let expected = EXPECTED.iter().any(|(name, most)| *name == kind && times <= *most);
            !expected || it["by"]["kind"] == "agent" || it["event"]["activity"] == "idle"
        };
        let strange: Vec<String> = events.iter().filter(strange).map(ToString::to_string).collect();
        assert!(strange.is_empty(), "{}\n{}", strange.join("\n"), shown());
        for file in [script, said, ended, wrapper] {
            fs::remove_file(file).expect("it is ours");
        }
    }
    team.finish();
}

fn the_others_in(outer: Kind) {
    let others: Vec<Kind> = ALL.into_iter().filter(|it| *it != outer).collect();
    nothing_of_it_counts(outer, &others);
}

#[test]
fn a_claude_in_the_shell_of_claude_is_nobody() {
    nothing_of_it_counts(CLAUDE, &[CLAUDE]);
}

#[test]
fn a_codex_in_the_shell_of_codex_is_nobody() {
    nothing_of_it_counts(CODEX, &[CODEX]);
}

#[test]
fn a_copilot_in_the_shell_of_copilot_is_nobody() {
    nothing_of_it_counts(COPILOT, &[COPILOT]);
}

#[test]
fn a_gemini_in_the_shell_of_gemini_is_nobody() {
    nothing_of_it_counts(GEMINI, &[GEMINI]);
}

#[test]
#[ignore = "a minute long: a part of `cargo xtask test --real-all`"]
fn an_opencode_in_the_shell_of_opencode_is_nobody() {
    nothing_of_it_counts(OPENCODE, &[OPENCODE]);
}

#[test]
#[ignore = "minutes long: a part of `cargo xtask test --real-all`"]
fn the_other_programs_in_the_shell_of_claude_are_nobody() {
    the_others_in(CLAUDE);
}

#[test]
#[ignore = "minutes long: a part of `cargo xtask test --real-all`"]
fn the_other_programs_in_the_shell_of_codex_are_nobody() {
    the_others_in(CODEX);
}

#[test]
#[ignore = "minutes long: a part of `cargo xtask test --real-all`"]
fn the_other_programs_in_the_shell_of_copilot_are_nobody() {
    the_others_in(COPILOT);
}

#[test]
#[ignore = "minutes long: a part of `cargo xtask test --real-all`"]
fn the_other_programs_in_the_shell_of_gemini_are_nobody() {
    the_others_in(GEMINI);
}

#[test]
#[ignore = "minutes long: a part of `cargo xtask test --real-all`"]
fn the_other_programs_in_the_shell_of_opencode_are_nobody() {
    the_others_in(OPENCODE);
}
