//! What depends on the model: how it is offered tools, and what it is called.

use crate::support::Team;

/// A model that is offered functions, those of servers only after a search, and one that is offered code alone.
const MODELS: [(&str, &str); 2] = [("gpt-5.5", "tool_search"), ("gpt-5.6-sol", "exec")];

#[test]
fn whatever_a_model_is_offered_it_reports_runs_commands_and_asks() {
    for (model, offered) in MODELS {
        let Some(team) = Team::written(true) else { return };
        let ws = &team.crew.ws;
        team.role(model);
        team.crew.start();

        let script = format!(
            "the word is {model}\nstub: bash pwd >where\n\
             stub: call mcp__team_orchestrator__report_result {{\"summary\":\"{model}\",\"status\":\"success\"}}\n\
             stub: say reported"
        );
        ws.json(["send", "--watch-result", "coder", &script]);
        let waited = ws.run(["wait", "--task", "1", "--timeout", "60"]);
        team.wait("task 1 ends", || waited.code == Some(0));
        let collected = ws.json(["collect"]);
        assert_eq!(collected["results"][0]["summary"], model, "{collected}");
        assert_eq!(collected["results"][0]["via"], "mcp");
        team.wait_for("idle");
        assert_eq!(ws.read("where").trim(), ws.path().to_string_lossy());
        let asked = team.asked(&format!("the word is {model}"));
        assert!(asked.offers(offered) && asked.offers("exec_command"), "{:?}", asked.tools);

        // A question for permission is told, and answered by a person.
        let file = ws.root().join("outside");
        let asks = team.send(&format!("stub: ask touch {}\nstub: say asked", file.display()));
        team.wait_for("awaiting_approval");
        assert!(!file.exists());
        let mut request = String::new();
        team.wait("the question is listed", || {
            let listed = ws.json(["approvals", "coder"]);
            request = listed["approvals"][0]["request_id"].as_str().unwrap_or_default().to_owned();
            !request.is_empty()
        });
        ws.ok(["approve", "coder", &request, "--allow"]);
        team.wait_for_step(&asks, "answered");
        assert!(file.exists());
        let said = team.stub.turns().into_iter().filter_map(|it| it.outcome).filter(|it| it.said == "asked");
        assert_eq!(said.count(), 1);
        team.finish();
    }
}

#[test]
fn the_real_program_says_which_models_it_knows() {
    let Some(team) = Team::written(true) else { return };
    let ws = &team.crew.ws;
    for wrong in ["GPT-5.5", "GPT 5.5 Codex"] {
        team.role(wrong);
        let refused = ws.run(["quick-start", "--headless"]);
        assert_eq!(refused.code, Some(1), "{}", refused.snapshot());
        for part in [".team/current/agents/coder.md:5:8", "write `gpt-5.5`"] {
            assert!(refused.stderr.contains(part), "`{part}`:\n{}", refused.snapshot());
        }
    }
    assert!(ws.events().is_empty());

    // One that it does not list is tried all the same.
    team.role("gpt-5.5-codex");
    let started = ws.run(["quick-start", "--headless"]);
    assert_eq!(started.code, Some(0), "{}", started.snapshot());
    let warning = "warning: the installed `codex` does not list a model `gpt-5.5-codex`";
    assert!(started.stderr.contains(warning), "{}", started.snapshot());
    assert!(started.stderr.contains("did you mean `gpt-5.5`?"), "{}", started.snapshot());
    let sent = team.send("the word is heron");
    team.wait_for_step(&sent, "answered");
    assert_eq!(team.asked("the word is heron").model.as_deref(), Some("gpt-5.5-codex"));
    assert!(!ws.run(["doctor"]).snapshot().contains("names of models"));
    team.finish();
}
