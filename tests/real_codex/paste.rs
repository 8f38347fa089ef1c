//! The team that is published to be pasted, as it stands.

use std::path::Path;
use std::time::Duration;

use team_testkit::process;

use crate::support::Team;

/// What people paste, to the byte.
const PASTED: &str = include_str!("../data/copy-paste-team.sh");

/// Where the screen looks for announcements at each start; it needs no log-in for that.
const ANNOUNCEMENTS: &str = "raw.githubusercontent.com:443";

#[test]
fn the_published_team_is_pasted_and_its_agent_reports() {
    let prepared = Team::unwritten(true, |home, stub, folders| {
        home.with_codex_login(stub, folders);
    });
    let Some(mut team) = prepared else { return };
    // What would leave the machine goes to the stub and is seen there.
    let here = team.stub.url();
    for (name, value) in [("HTTPS_PROXY", here.as_str()), ("HTTP_PROXY", &here), ("NO_PROXY", "127.0.0.1")] {
        team.crew.ws.set(name, value);
    }
    let program = team.crew.ws.program().parent().map(Path::to_owned).expect("a program lies in a directory");
    team.crew.ws.path_first(&program);

    let mut shell = team.crew.ws.command("bash");
    let pasted = process::run_with_input(&mut shell, Some(PASTED), Duration::from_secs(120));
    let pasted = pasted.expect("a shell ends");
    assert_eq!(pasted.code, Some(0), "{}\n{}", pasted.snapshot(), team.screen());
    let ready = pasted.stdout.lines().find(|it| it.starts_with("ready: "));
    assert!(ready.is_some(), "{}", pasted.snapshot());
    assert_eq!(team.crew.status()["ready"], true);

    let report = r#"stub: call mcp__team_orchestrator__report_result {"summary":"done","status":"success"}"#;
    let ws = &team.crew.ws;
    ws.json(["send", "--watch-result", "coder", &format!("the word is heron\n{report}")]);
    let waited = ws.run(["wait", "--task", "1", "--timeout", "60"]);
    team.wait("task 1 ends", || waited.code == Some(0));
    let collected = ws.json(["collect"]);
    assert_eq!(
        (&collected["collected"], &collected["results"][0]["via"]),
        (&1.into(), &"mcp".into()),
        "{collected}"
    );
    team.wait_for("idle");
    let asked = team.asked("the word is heron");
    assert_eq!(asked.model.as_deref(), Some("gpt-5.5"));
    // It was the log-in that paid.
    assert_eq!(asked.headers["authorization"].rsplit('.').next(), Some("stub"), "{:?}", asked.headers);
    let outside: Vec<String> = team
        .stub
        .requests()
        .into_iter()
        .filter(|it| it.method == "CONNECT" || it.target.starts_with("http"))
        .map(|it| it.target)
        .filter(|it| it != ANNOUNCEMENTS)
        .collect();
    assert_eq!(outside, Vec::<String>::new());
    team.finish();
}
