//! Names of models, where the installed program says which it knows.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use team_testkit::TestWorkspace;

/// A program that lists two models and notes that it was asked.
const LISTS: &str = r#"
echo "$@" >>"$ASKED"
case "$*" in
--version) echo "codex-cli 0.171.0" ;;
"debug models --bundled") echo '{"models":[
  {"slug":"gpt-6-sol","display_name":"GPT-6-Sol","visibility":"list","priority":6},
  {"slug":"gpt-5.5","display_name":"GPT-5.5","visibility":"list","priority":13}]}' ;;
*) exit 9 ;;
esac"#;

fn world(program: &str) -> TestWorkspace {
    let mut ws = TestWorkspace::new();
    let bin = ws.root().join("bin");
    fs::create_dir(&bin).expect("a temporary directory is writable");
    fs::write(bin.join("codex"), format!("#!/bin/sh\n{program}\n")).expect("writable");
    fs::set_permissions(bin.join("codex"), fs::Permissions::from_mode(0o755)).expect("it was written");
    ws.path_first(&bin);
    let asked = ws.root().join("asked");
    ws.set("ASKED", &asked);
    ws.write(".team/current/TEAM.md", "---\nname: crew\n---\n");
    ws
}

fn role(ws: &TestWorkspace, model: &str) {
    let role = format!("---\nname: w1\nprovider: codex\nmodel: {model}\n---\n\nWork.\n");
    ws.write(".team/current/agents/w1.md", &role);
}

/// How often the program was asked for its models.
fn asked(ws: &TestWorkspace) -> usize {
    let told = fs::read_to_string(ws.root().join("asked")).unwrap_or_default();
    told.lines().filter(|it| it.starts_with("debug")).count()
}

#[test]
fn a_model_s_name_for_people_stops_a_start_and_one_that_is_not_listed_does_not() {
    let ws = world(LISTS);
    role(&ws, "GPT-5.5");
    let refused = ws.run(["quick-start", "--headless"]);
    assert_eq!(refused.code, Some(1), "{}", refused.snapshot());
    for part in ["which is `gpt-5.5`", ".team/current/agents/w1.md:4:8", "hint: write `gpt-5.5`"] {
        assert!(refused.stderr.contains(part), "`{part}`:\n{}", refused.snapshot());
    }
    assert!(ws.events().is_empty());

    role(&ws, "gpt-5.5-codex");
    let warned = ws.run(["compile"]);
    assert_eq!(warned.code, Some(0), "{}", warned.snapshot());
    let warning = "warning: the installed `codex` does not list a model `gpt-5.5-codex`";
    assert!(warned.stderr.contains(warning), "{}", warned.snapshot());
    let told = ws.json(["compile"]);
    assert_eq!(told["warnings"][0]["line"], 4, "{told}");
    assert_eq!(told["warnings"][0]["hint"], "did you mean `gpt-5.5`?");

    // One that is listed, or that another service has, is not spoken of.
    role(&ws, "gpt-6-sol");
    assert_eq!(ws.run(["compile"]).stderr, "");
    ws.ok(["profile", "init", "api", "--auth-mode", "compatible_api"]);
    let profile = ws.path().join(".team/current/profiles/api.env");
    let lines = "AUTH_MODE=compatible_api\nAPI_KEY=k\nBASE_URL=http://127.0.0.1:1/v1\n";
    fs::write(profile, lines).expect("writable");
    role(&ws, "GPT-5.5\nprofile: api");
    assert_eq!(ws.run(["compile"]).stderr, "");

    // It was asked once, and is asked again only when another one lies there.
    assert_eq!(asked(&ws), 1);
    let program = ws.root().join("bin/codex");
    let text = fs::read_to_string(&program)
        .expect("it was written")
        .replace("gpt-6-sol", "gpt-7")
        .replace("GPT-6-Sol", "GPT-7");
    fs::write(program, text).expect("writable");
    role(&ws, "gpt-6-sol");
    assert!(ws.run(["compile"]).stderr.contains("does not list a model `gpt-6-sol`"));
    assert_eq!(asked(&ws), 2);
    ws.finish();
}

#[test]
fn a_program_that_does_not_list_its_models_stops_nothing_and_doctor_says_so() {
    let ws = world(&LISTS.replace("\"debug models --bundled\") echo", "debug*) echo no; exit 4; echo"));
    role(&ws, "GPT-5.5");
    for _ in 0..2 {
        let compiled = ws.run(["compile"]);
        assert_eq!((compiled.code, compiled.stderr.as_str()), (Some(0), ""), "{}", compiled.snapshot());
    }
    assert_eq!(asked(&ws), 1);
    let told = ws.run(["doctor"]).snapshot();
    assert!(told.contains("names of models of codex are not checked"), "{told}");
    assert!(told.contains("exit status: 4") && told.contains("codex debug models --bundled"), "{told}");
    assert_eq!(asked(&ws), 2);
    ws.finish();
}
