//! One of each in one team: they write to each other and report, whatever program they are.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use team_testkit::stub::Kind;
use team_testkit::{ModelStub, TestHome, TestWorkspace, process, real};

/// Provider, what stands before our tools' names in it, and what stands behind the host in the address of its model.
const ALL: [(&str, &str, &str); 5] = [
    ("claude", "mcp__team_orchestrator__", ""),
    ("codex", "mcp__team_orchestrator__", "/v1"),
    ("copilot", "team_orchestrator-", "/v1"),
    ("gemini", "mcp_team_orchestrator_", ""),
    ("opencode", "team_orchestrator_", "/v1"),
];

const SOON: Duration = Duration::from_secs(60);

#[test]
fn one_of_each_works_in_one_team() {
    let mut ws = TestWorkspace::new();
    ws.deadline(Duration::from_secs(180));
    for (provider, ..) in ALL {
        let Some(client) = real::client_or_skip(provider) else { return };
        ws.path_first(client.program.parent().expect("a program lies in a directory"));
    }
    let stub = ModelStub::start().expect("loopback works");
    // A person who trusts this folder in each of their programs.
    TestHome::at(&ws.home(), &stub).trust(ws.path());
    let folder = ws.path().display().to_string();
    let trusts = [
        (".codex/config.toml", format!("[projects.\"{folder}\"]\ntrust_level = \"trusted\"\n")),
        (".copilot/config.json", format!("{{\"trustedFolders\": [\"{folder}\"]}}\n")),
        (".gemini/trustedFolders.json", format!("{{\"{folder}\": \"TRUST_FOLDER\"}}\n")),
    ];
    for (name, text) in trusts {
        let file = ws.home().join(name);
        fs::create_dir_all(file.parent().expect("it lies in a directory")).expect("the home is writable");
        fs::write(file, text).expect("the home is writable");
    }
    ws.write(".team/current/TEAM.md", "---\nname: mixed\n---\n");
    for (provider, _, path) in ALL {
        let profile = format!(
            "AUTH_MODE=compatible_api\nBASE_URL={}{path}\nAPI_KEY=none\nMODEL=stub-model\n",
            stub.url()
        );
        let file = ws.write(format!(".team/current/profiles/{provider}.env"), &profile);
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("it is ours");
        ws.write(
            format!(".team/current/agents/{provider}-1.md"),
            &format!(
                "---\nname: {provider}-1\nrole: Worker\nprovider: {provider}\nauth_mode: compatible_api\n\
                 profile: {provider}\n---\n\nWork.\n"
            ),
        );
    }
    ws.ok(["quick-start", "--headless"]);
    for (at, (provider, tools, _)) in ALL.into_iter().enumerate() {
        let next = ALL[(at + 1) % ALL.len()].0;
        let task = format!(
            "stub: call {tools}send_message {{\"to\":\"{next}-1\",\"content\":\"greetings from {provider}\"}}\n\
             stub: call {tools}report_result {{\"summary\":\"{provider} is done\",\"status\":\"success\"}}\n\
             stub: say reported"
        );
        ws.ok(["send", "--watch-result", &format!("{provider}-1"), &task]);
    }
    for task in 1..=ALL.len() {
        ws.ok(["wait", "--task", &task.to_string(), "--timeout", "90"]);
    }
    let collected = ws.ok(["collect"]);
    for (at, (provider, ..)) in ALL.into_iter().enumerate() {
        assert!(collected.contains(&format!("{provider} is done")), "{collected}");
        let head = format!("[Team message from {provider}-1 to {}-1:]", ALL[(at + 1) % ALL.len()].0);
        let times = || {
            let all = stub.requests();
            let given = all.iter().filter(|it| it.kind == Kind::Turn).flat_map(|it| &it.texts);
            given.map(|it| it.matches(head.as_str()).count()).sum::<usize>()
        };
        assert!(process::wait_until(|| times() > 0, SOON), "{head} did not come");
        assert_eq!(times(), 1, "{head}");
    }
    ws.ok(["shutdown"]);
    ws.finish();
}
