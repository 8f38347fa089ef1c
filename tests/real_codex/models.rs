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
