//! What is refused before anything happens, and in which words.

use std::os::unix::fs::PermissionsExt as _;

use team_scenarios::Crew;
use team_testkit::TestWorkspace;

const ROLE: &str = "---\nname: w1\nrole: Worker\nprovider: fake\n---\n\nWork.\n";

// Case 091.
#[test]
fn a_system_without_tmux_gets_one_clear_message() {
    let mut ws = TestWorkspace::new();
    ws.set("TEAM_AGENT_PLATFORM", "windows");
    for verb in [
        vec!["status"],
        vec!["init"],
        vec!["quick-start"],
        vec!["doctor"],
        vec!["send", "a", "b"],
        vec!["--help"],
    ] {
        let output = ws.run(&verb);
        assert_eq!(output.code, Some(3), "{verb:?}: {}", output.snapshot());
        assert!(output.stderr.contains("does not run on windows"), "{verb:?}: {}", output.snapshot());
        assert!(output.stderr.contains("WSL"), "{verb:?}: {}", output.snapshot());
        assert!(!output.stderr.contains("panicked"), "{verb:?}: {}", output.snapshot());
        assert_eq!(output.stdout, "", "{verb:?}");
    }
    assert_eq!(std::fs::read_dir(ws.path()).expect("it is there").count(), 0);
    ws.unset("TEAM_AGENT_PLATFORM");
    ws.finish();
}

// Case 075.
#[test]
fn a_tmux_that_is_too_old_is_refused_before_anything_is_written() {
    let mut crew = Crew::written(&["w1"]);
    let file = crew.ws.write("old/tmux", "#!/bin/sh\necho 'tmux 3.1c'\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&file, mode).expect("it is ours");
    crew.ws.path_first(file.parent().expect("it lies in a directory"));
    for verb in [&["quick-start", "--headless"][..], &["doctor"]] {
        let output = crew.ws.run(verb);
        assert_eq!(output.code, Some(3), "{}", output.snapshot());
        assert!(
            format!("{}{}", output.stdout, output.stderr).contains("3.1c; 3.2 or newer"),
            "{}",
            output.snapshot()
        );
    }
    assert!(!crew.ws.path().join(".team/logs").exists());
    crew.finish();
}

#[test]
fn doctor_warns_of_a_version_with_a_known_fault() {
    let mut ws = TestWorkspace::new();
    let bin = ws.root().join("fakes");
    std::fs::create_dir_all(&bin).expect("it is writable");
    let program = bin.join("copilot");
    std::fs::write(&program, "#!/bin/sh\necho 'GitHub Copilot CLI 1.0.72.'\n").expect("it is writable");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("it is ours");
    ws.path_first(&bin);
    let checks = ws.json(["doctor"]);
    let found =
        checks["checks"].as_array().into_iter().flatten().find(|it| it["id"] == "provider.copilot").cloned();
    let found = found.unwrap_or_else(|| panic!("{checks}"));
    assert_eq!(found["level"], "warn", "{found}");
    assert!(found["message"].as_str().unwrap_or_default().contains("1.0.72"), "{found}");
    assert!(!found["hint"].as_str().unwrap_or_default().is_empty(), "{found}");
    ws.finish();
}

#[test]
fn two_teams_whose_names_give_one_session_are_kept_apart() {
    let crew = Crew::started(&["w1"]);
    crew.ws.write(".team/second/TEAM.md", "---\nname: crew\n---\n");
    crew.ws.write(".team/second/agents/w1.md", ROLE);
    let output = crew.ws.run(["quick-start", ".team/second", "--headless"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    assert!(output.stderr.contains("tmux session already exists"), "{}", output.snapshot());
    assert!(output.stderr.contains("`current`"), "{}", output.snapshot());
    assert!(
        output.stderr.contains("`name:`") && output.stderr.contains(".team/second/TEAM.md"),
        "{}",
        output.snapshot()
    );
    assert!(!output.stderr.contains("shutdown"), "{}", output.snapshot());
    assert_eq!(crew.ws.run(["status", "--team", "second"]).code, Some(1));
    crew.ws.write(".team/second/TEAM.md", "---\nname: the other\n---\n");
    crew.ws.ok(["quick-start", ".team/second", "--headless"]);
    crew.ws.ok(["send", "w1", "to the first", "--team", "current", "--wait", "answered", "--timeout", "20"]);
    crew.ws.ok(["send", "w1", "to the other", "--team", "second", "--wait", "answered", "--timeout", "20"]);
    assert_eq!(crew.texts("w1").len(), 1);
    crew.ws.ok(["shutdown", "--team", "second"]);
    crew.finish();
}

#[test]
fn a_team_with_state_is_not_started_over() {
    let crew = Crew::started(&["w1"]);
    let running = crew.ws.run(["quick-start", "--headless"]);
    crew.ws.ok(["shutdown"]);
    let stopped = crew.ws.run(["quick-start", "--headless"]);
    for output in [running, stopped] {
        assert_eq!(output.code, Some(1), "{}", output.snapshot());
        assert!(output.stderr.contains("team-agent restart"), "{}", output.snapshot());
        assert!(output.stderr.contains("team-agent delete current --confirm"), "{}", output.snapshot());
    }
    assert_eq!(crew.events_of("team.started").len(), 1);
    crew.finish();
}

// Case 113.
#[test]
fn line_ends_marks_and_colons_in_role_files_are_accepted() {
    for text in [
        ROLE.replace('\n', "\r\n"),
        format!("\u{feff}{ROLE}"),
        ROLE.replace("role: Worker", "role: \"Worker: of all trades\""),
        format!("{ROLE}\nkey: value in the body: fine\n"),
    ] {
        let crew = Crew::written(&["w1"]);
        crew.ws.write(".team/current/agents/w1.md", &text);
        crew.start();
        assert_eq!(crew.status()["agents"]["w1"]["session"]["state"], "running");
        assert_eq!(crew.ws.read(".team/current/agents/w1.md"), text);
        crew.finish();
    }
}

// Case 113.
#[test]
fn wrong_role_files_are_all_named_at_once_and_nothing_starts() {
    let crew = Crew::written(&["w1", "w2"]);
    crew.ws.write(".team/current/agents/w1.md", &ROLE.replace("provider: fake", "provder: fake"));
    crew.ws.write(
        ".team/current/agents/w2.md",
        "---\nname: w2\nrole: Worker\nprovider: cluade\neffort: hihg\n---\n\nWork.\n",
    );
    for verb in [vec!["quick-start", "--headless"], vec!["compile"]] {
        let output = crew.ws.run(&verb);
        assert_eq!(output.code, Some(1), "{}", output.snapshot());
        for part in [
            ".team/current/agents/w1.md:4:1",
            "did you mean `provider`",
            ".team/current/agents/w2.md:4:11",
            "did you mean `claude`",
            ".team/current/agents/w2.md:5:9",
            "did you mean `high`",
            "^",
        ] {
            assert!(output.stderr.contains(part), "{part}: {}", output.snapshot());
        }
    }
    crew.ws.write(".team/current/agents/w1.md", "no front matter at all\n");
    let output = crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    assert!(output.stderr.contains("agents/w1.md"), "{}", output.snapshot());
    crew.ws.write(".team/current/agents/w1.md", &ROLE.replace("role: Worker", "role: a: b: c"));
    let output = crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    assert!(output.stderr.contains("agents/w1.md:3"), "{}", output.snapshot());
    assert!(!crew.ws.path().join(".team/logs").exists());
    assert!(!crew.ws.path().join(".team/id").exists());
    crew.finish();
}

#[test]
fn reserved_fields_are_told_apart_from_unknown_ones() {
    let crew = Crew::written(&["w1"]);
    crew.ws.write(".team/current/TEAM.md", "---\nname: crew\nworktrees: true\n---\n");
    let output = crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    assert!(output.stderr.contains("not supported yet"), "{}", output.snapshot());
    assert!(output.stderr.contains(".team/current/TEAM.md:3:1"), "{}", output.snapshot());
    crew.finish();
}

#[test]
fn help_does_nothing_else() {
    let ws = TestWorkspace::new();
    for verb in [
        "init",
        "compile",
        "quick-start",
        "restart",
        "status",
        "send",
        "report",
        "inbox",
        "collect",
        "results",
        "wait",
        "events",
        "explain",
        "shutdown",
        "delete",
        "attach",
        "profile",
        "doctor",
        "schema",
        "completions",
        "mcp",
        "hook",
        "coordinator",
        "seat",
    ] {
        let output = ws.run([verb, "--help"]);
        assert_eq!(output.code, Some(0), "{verb}: {}", output.snapshot());
        assert!(output.stdout.contains("Usage:"), "{verb}: {}", output.snapshot());
    }
    assert_eq!(std::fs::read_dir(ws.path()).expect("it is there").count(), 0);
    assert_eq!(std::fs::read_dir(ws.state_home()).expect("it is there").count(), 0);
    ws.finish();
}

#[test]
fn answers_in_json_are_flat_also_when_refused() {
    let ws = TestWorkspace::new();
    let answer = ws.json(["status"]);
    assert_eq!(answer["ok"], false, "{answer}");
    assert_eq!(answer["command"], "status", "{answer}");
    assert_eq!(answer["schema_version"], 1, "{answer}");
    for part in ["code", "message", "hint"] {
        assert!(answer["error"][part].is_string(), "{part}: {answer}");
    }
    let answer = ws.json(["send"]);
    assert_eq!(answer["error"]["code"], "usage", "{answer}");
    assert_eq!(ws.run(["send", "--json"]).code, Some(2));
    ws.finish();
}

#[test]
fn a_program_that_prints_for_ever_does_not_hold_doctor_up() {
    let mut ws = TestWorkspace::new();
    let bin = ws.root().join("endless");
    std::fs::create_dir(&bin).expect("a workspace is writable");
    std::fs::write(bin.join("codex"), "#!/bin/sh\nexec yes\n").expect("a workspace is writable");
    std::fs::set_permissions(bin.join("codex"), std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    ws.path_first(&bin);
    let answer = ws.json(["doctor"]);
    let checks = answer["checks"].as_array().expect("there are some");
    let codex = checks.iter().find(|it| it["id"] == "provider.codex").expect("it is installed");
    let message = codex["message"].as_str().unwrap_or_default();
    assert!(message.contains("does not tell its version: it ended with signal"), "{codex}");
    ws.finish();
}
