//! A start with the key of a profile.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::Team;

const KEY: &str = "sk-proj-invented-for-a-test-0123456789abcdefghij";

#[test]
fn a_key_of_a_profile_is_seen_by_the_service_alone_and_a_role_has_the_tools_it_names() {
    let Some(team) = Team::written(&json!({})) else { return };
    let ws = &team.crew.ws;
    ws.ok(["profile", "init", "api", "--auth-mode", "compatible_api"]);
    let profile = ws.path().join(".team/current/profiles/api.env");
    let text = format!("AUTH_MODE=compatible_api\nAPI_KEY={KEY}\nBASE_URL={}/v1\n", team.stub.url());
    fs::write(&profile, text).expect("writable");
    ws.write(
        ".team/current/agents/coder.md",
        "---\nname: coder\nrole: Worker\nprovider: opencode\nmodel: maker/model-1\n\
         tools: [fs_read, execute_bash]\nauth_mode: compatible_api\nprofile: api\n---\n\nWork.\n",
    );
    ws.ok(["quick-start", "--headless"]);
    let sent = team.send("stub: bash env >shell-environment\nstub: say hello");
    team.wait_for_step(&sent, "answered");
    let request = team.asked("shell-environment");
    assert_eq!(request.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(request.model.as_deref(), Some("maker/model-1"));
    assert!(request.system.contains("Work."));
    let offered = |it: &str| request.offers(it);
    assert!(offered("bash") && offered("read") && offered("team_orchestrator_report_result"), "{request:?}");
    assert!(!offered("edit") && !offered("write") && !offered("webfetch"), "{:?}", request.tools);
    let shell = fs::read_to_string(ws.path().join("shell-environment")).expect("it wrote its environment");
    assert!(shell.contains("OPENCODE=1") && !shell.contains(KEY), "{shell}");
    let processes: String = ws
        .processes()
        .iter()
        .map(|it| fs::read(format!("/proc/{}/cmdline", it.pid)).unwrap_or_default())
        .map(|it| String::from_utf8_lossy(&it).into_owned())
        .collect();
    assert!(processes.contains("--port") && !processes.contains(KEY), "{processes}");
    ws.ok(["shutdown"]);
    // Neither in the log, nor in anything that is left of the start, nor in the person's home.
    let mut told = Vec::new();
    for dir in [ws.path().to_owned(), ws.state_home(), ws.home(), ws.root().join("tmp")] {
        files_with(&dir, KEY, &mut told);
    }
    assert_eq!(told, [profile]);
    team.finish();
}

/// Finds the files that hold a text.
fn files_with(dir: &Path, text: &str, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(dir).into_iter().flatten().filter_map(|it| Some(it.ok()?.path())) {
        if path.is_dir() && !path.is_symlink() {
            files_with(&path, text, found);
        } else if fs::read(&path).is_ok_and(|it| it.windows(text.len()).any(|it| it == text.as_bytes())) {
            found.push(path);
        }
    }
}
