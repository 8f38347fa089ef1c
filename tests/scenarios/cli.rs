//! The command line as a person and as scripts use it: help, exit codes, words of refusals, pipes.

#![expect(clippy::format_push_string, reason = "a test reads better so")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use team_scenarios::{Crew, SOON};
use team_testkit::TestWorkspace;
use team_testkit::process::{self, wait_until};

/// All verbs, also those that only programs call.
fn verbs(ws: &TestWorkspace) -> Vec<Vec<String>> {
    let help = ws.ok(["--help"]);
    let listed = help.lines().skip_while(|it| *it != "Commands:").skip(1).take_while(|it| !it.is_empty());
    let words = listed.filter(|it| !it.starts_with("    ")).filter_map(|it| it.split_whitespace().next());
    let mut verbs: Vec<Vec<String>> = words.map(|it| vec![it.to_owned()]).collect();
    assert!(verbs.len() >= 20, "{help}");
    for more in [vec![], vec!["hook"], vec!["seat"], vec!["profile", "init"]] {
        verbs.push(more.into_iter().map(str::to_owned).collect());
    }
    verbs
}

/// Everything below a directory.
fn everything(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        found.push(entry.path());
        if entry.path().is_dir() {
            found.extend(everything(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn help_and_version_of_any_verb_do_nothing_else() {
    let ws = TestWorkspace::new();
    let before = everything(ws.root());
    for verb in verbs(&ws) {
        for flag in ["--help", "-h", "--version"] {
            if flag == "--version" && !verb.is_empty() {
                continue;
            }
            let output = ws.run(verb.iter().map(String::as_str).chain([flag]));
            assert_eq!(output.code, Some(0), "{verb:?} {flag}: {}", output.snapshot());
            assert_eq!(output.stderr, "", "{verb:?} {flag}");
            let expected = if flag == "--version" { "team-agent" } else { "Usage: team-agent" };
            assert!(output.stdout.contains(expected), "{verb:?} {flag}: {}", output.stdout);
        }
    }
    assert_eq!(everything(ws.root()), before);
    ws.finish();
}

#[test]
fn reading_in_an_empty_directory_makes_nothing_and_says_how_to_begin() {
    let ws = TestWorkspace::new();
    let before = everything(ws.root());
    let reads: [&[&str]; 11] = [
        &["status"],
        &["collect"],
        &["results"],
        &["inbox", "leader"],
        &["events"],
        &["explain", "w1"],
        &["wait", "--idle", "w1"],
        &["send", "w1", "hi"],
        &["attach"],
        &["shutdown"],
        &["restart"],
    ];
    for words in reads {
        let output = ws.run(words);
        assert_eq!(output.code, Some(1), "{words:?}: {}", output.snapshot());
        let expected = "error: no team in `$WS`\nhint: run `team-agent init` to create one\n";
        assert_eq!(ws.normalise(&output.stderr), expected, "{words:?}");
        assert_eq!(output.stdout, "", "{words:?}");
        let answer = ws.json(words);
        assert_eq!(answer["ok"], false, "{answer}");
        assert_eq!(answer["command"], words[0], "{answer}");
        assert_eq!(answer["error"]["code"], "no_team", "{answer}");
    }
    ws.run(["doctor"]);
    assert_eq!(everything(ws.root()), before);
    ws.finish();
}

#[test]
fn wrong_words_exit_2_and_say_what_is_wrong() {
    let ws = TestWorkspace::new();
    let wrong: [(&[&str], &str); 10] = [
        (&[], ""),
        (&["nosuch"], "nosuch"),
        (&["status", "--nosuch"], "--nosuch"),
        (&["send", "w1"], "no text"),
        (&["send", "w1", " \n"], "no text"),
        (&["send"], "<TO>"),
        (&["wait"], "--task"),
        (&["wait", "--task", "x"], "`x`"),
        (&["wait", "--event", "mesage.accepted"], "mesage.accepted"),
        (&["profile", "init", "p", "--auth-mode", "magic"], "magic"),
    ];
    for (words, part) in wrong {
        let output = ws.run(words);
        assert_eq!(output.code, Some(2), "{words:?}: {}", output.snapshot());
        assert!(output.stderr.contains(part), "{words:?}: {}", output.snapshot());
        assert_eq!(output.stdout, "", "{words:?}");
        let output = ws.run(words.iter().copied().chain(["--json"]));
        assert_eq!(output.code, Some(2), "{words:?}: {}", output.snapshot());
        let answer: serde_json::Value = serde_json::from_str(&output.stdout).expect("it is JSON");
        assert_eq!(answer["ok"], false, "{answer}");
        assert_eq!(answer["error"]["code"], "usage", "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap_or_default().contains(part), "{answer}");
        assert!(answer["error"]["hint"].is_string(), "{answer}");
        assert_eq!(answer["command"], words.first().copied().unwrap_or_default(), "{answer}");
    }
    ws.finish();
}

#[test]
fn refusals_name_the_thing_and_one_next_step() {
    let crew = Crew::started(&["coder", "tester"]);
    let refused: [&[&str]; 18] = [
        &["send", "Coder", "hi"],
        &["send", "zzzzzzzzz", "hi"],
        &["send", "", "hi"],
        &["send", "leader", "hi"],
        &["send", "manager", "hi"],
        &["send", "coder", "hi", "--id", "m-3"],
        &["send", "coder", "hi", "--reply-to", "m-999"],
        &["send", "nowhere::current/coder", "hi"],
        &["status", "codr"],
        &["inbox", "codr"],
        &["explain", "m-999"],
        &["attach", "nobody-at-all"],
        &["wait", "--idle", "codr"],
        &["wait", "--task", "7"],
        &["quick-start"],
        &["restart"],
        &["delete", "crew"],
        &["delete", "crew", "--confirm"],
    ];
    let mut shown = String::new();
    for words in refused {
        let output = crew.ws.run(words);
        assert_eq!(output.code, Some(1), "{words:?}: {}", output.snapshot());
        assert_eq!(output.stdout, "", "{words:?}");
        shown += &format!("$ team-agent {}\n{}", words.join(" "), crew.ws.normalise(&output.stderr));
    }
    insta::assert_snapshot!(shown, @r"
    $ team-agent send Coder hi
    error: no agent is named `Coder`
    hint: did you mean `coder`?
    $ team-agent send zzzzzzzzz hi
    error: no agent is named `zzzzzzzzz`
    hint: the team has: coder, tester
    $ team-agent send  hi
    error: no receiver is named
    hint: the team has: coder, tester
    $ team-agent send leader hi
    error: you are the leader: a message to `leader` would go to yourself
    hint: the team has: coder, tester
    $ team-agent send manager hi
    error: only an agent has a `manager`
    hint: the team has: coder, tester
    $ team-agent send coder hi --id m-3
    error: `m-3` cannot be a message id of your own
    hint: use 1 to 64 of the characters A-Z a-z 0-9 . _ : - and none of our forms (`m-17`)
    $ team-agent send coder hi --reply-to m-999
    error: there is no message `m-999`
    hint: take the id from `team-agent inbox leader`
    $ team-agent send nowhere::current/coder hi
    error: no workspace named `nowhere` has a running team
    hint: give its path: `<path>::<team>/<agent>`
    $ team-agent status codr
    error: no agent is named `codr`
    hint: did you mean `coder`?
    $ team-agent inbox codr
    error: no agent is named `codr`
    hint: did you mean `coder`?
    $ team-agent explain m-999
    error: `m-999` is no agent, message, task, result or question of this team
    hint: run `team-agent status` to see the agents
    $ team-agent attach nobody-at-all
    error: no agent is named `nobody-at-all`
    hint: the team has: coder, tester
    $ team-agent wait --idle codr
    error: no agent is named `codr`
    hint: did you mean `coder`?
    $ team-agent wait --task 7
    error: there is no task `7`
    hint: no task was given yet: `team-agent send --watch-result AGENT TEXT` gives one
    $ team-agent quick-start
    error: team `current` is running already
    hint: run `team-agent status` to see it; `team-agent shutdown` ends it, then `team-agent restart` goes on and `team-agent delete current --confirm` forgets it
    $ team-agent restart
    error: team `current` is running
    hint: run `team-agent shutdown` first
    $ team-agent delete crew
    error: team `current` is running
    hint: run `team-agent shutdown` first
    $ team-agent delete crew --confirm
    error: team `current` is running
    hint: run `team-agent shutdown` first
    ");
    crew.finish();
}

#[test]
fn files_with_errors_are_listed_for_programs_too() {
    let ws = TestWorkspace::new();
    ws.write(".team/current/TEAM.md", "---\nname: crew\nworktrees: per-agent\n---\n");
    ws.write(".team/current/agents/w1.md", "---\nname: w1\nprovider: fakr\n---\n");
    ws.write(".team/current/agents/w2.md", "---\nname: w2\nrole: r\nprovider: fake\ntols: [fs_read]\n---\n");
    for verb in ["compile", "quick-start"] {
        let output = ws.run([verb]);
        assert_eq!(output.code, Some(1), "{}", output.snapshot());
        assert_eq!(output.stderr.matches("error: ").count(), 3, "{}", output.stderr);
        let answer = ws.json([verb]);
        let error = &answer["error"];
        assert_eq!(error["code"], "spec_errors", "{answer}");
        assert_eq!(error["message"], "3 errors in 3 files", "{answer}");
        let places: Vec<String> = error["details"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|it| format!("{}:{}:{} {}", it["file"], it["line"], it["column"], it["message"]))
            .collect();
        assert_eq!(places.len(), 3, "{answer}");
        assert!(places.iter().any(|it| it.contains("w2.md\":5:1 \"unknown key `tols`")), "{places:#?}");
        let tools =
            error["details"].as_array().into_iter().flatten().any(|it| it["hint"] == "did you mean `tools`?");
        assert!(tools, "{answer}");
    }
    ws.finish();
}

#[test]
fn where_each_model_comes_from_is_told() {
    let ws = TestWorkspace::new();
    ws.write(".team/current/TEAM.md", "---\nname: crew\nprovider_models:\n  claude: model-a\n---\n");
    ws.write(".team/current/agents/a.md", "---\nname: a\nrole: r\nprovider: claude_code\n---\n");
    ws.write(".team/current/agents/b.md", "---\nname: b\nrole: r\nprovider: claude\nmodel: model-b\n---\n");
    let answer = ws.json(["compile"]);
    assert_eq!(answer["agents"][0]["model"], "model-a", "{answer}");
    assert_eq!(answer["agents"][1]["model"], "model-b", "{answer}");
    insta::assert_snapshot!(ws.snapshot(["compile"]), @r"
    --- stdout
    Team crew (current), tmux session crew
    AGENT  PROVIDER  MODEL    MODEL FROM               ROLE
    a      claude    model-a  TEAM.md provider_models  r
    b      claude    model-b  role file                r
    --- exit 0
    ");
    ws.finish();
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let crew = Crew::started(&["w1"]);
    for words in ["events", "events --json", "schema", "completions zsh", "status", "--help"] {
        let script = format!("{{ team-agent {words}; echo \"code $?\" >&2; }} | head -c 1 >/dev/null");
        let mut command = crew.ws.command("/bin/sh");
        command.args(["-c", &script]);
        let output = process::run(&mut command, SOON).expect("the shell runs");
        assert_eq!(output.stderr, "code 0\n", "{words}");
    }
    crew.finish();
}

#[test]
fn followed_events_come_line_by_line_and_end_with_their_reader() {
    let crew = Crew::started(&["w1"]);
    let mut command = crew.ws.command(crew.ws.program());
    command.args(["events", "--follow", "--json"]).stdout(Stdio::piped()).stdin(Stdio::null());
    let mut child = command.spawn().expect("the program starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    crew.ws.ok(["send", "w1", "a word for the log"]);
    let sent = lines.by_ref().map_while(Result::ok).find(|it| it.contains("message.accepted"));
    let sent: serde_json::Value =
        serde_json::from_str(&sent.unwrap_or_default()).expect("each line is an object");
    assert!(sent["seq"].is_u64() && sent["event"]["type"] == "message.accepted", "{sent}");
    drop(lines);
    // Nothing is written any more, and still it notices.
    let ended = wait_until(|| child.try_wait().is_ok_and(|it| it.is_some()), SOON);
    assert!(ended, "it goes on without a reader");
    assert_eq!(child.wait().expect("it ended").code(), Some(0));
    crew.finish();
}

#[test]
fn waiting_tells_yes_never_and_not_yet_apart() {
    let crew = Crew::started(&["w1"]);
    let yes = crew.ws.run(["wait", "--idle", "w1", "--timeout", "20"]);
    assert_eq!(yes.code, Some(0), "{}", yes.snapshot());
    let not_yet = crew.ws.run(["wait", "--result", "w1", "--timeout", "0.05"]);
    assert_eq!(not_yet.code, Some(4), "{}", not_yet.snapshot());
    assert!(not_yet.stderr.starts_with("not yet: "), "{}", not_yet.snapshot());
    let answer = crew.ws.json(["wait", "--result", "w1", "--timeout", "0.05"]);
    assert_eq!((&answer["ok"], &answer["error"]["code"]), (&false.into(), &"not_yet".into()), "{answer}");
    crew.ws.ok(["shutdown"]);
    let never = crew.ws.run(["wait", "--idle", "w1", "--timeout", "20"]);
    assert_eq!(never.code, Some(1), "{}", never.snapshot());
    let answer = crew.ws.json(["wait", "--result", "w1", "--timeout", "20"]);
    assert_eq!(answer["error"]["code"], "cannot_happen", "{answer}");
    assert_eq!(answer["happened"], false, "{answer}");
    crew.finish();
}

#[test]
fn a_send_that_waits_for_a_step_says_how_far_it_came() {
    let crew = Crew::started(&["w1"]);
    let done = crew.ws.run(["send", "w1", "hello", "--wait", "answered", "--timeout", "20"]);
    assert_eq!(done.code, Some(0), "{}", done.snapshot());
    crew.control("w1", "busy 60");
    crew.wait_for_activity("w1", "working");
    let held = crew.ws.run(["send", "w1", "later", "--timeout", "0.2"]);
    assert_eq!(held.code, Some(0), "{}", held.snapshot());
    let not_yet = crew.ws.run(["send", "w1", "later still", "--wait", "answered", "--timeout", "0.2"]);
    assert_eq!(not_yet.code, Some(4), "{}", not_yet.snapshot());
    assert!(
        not_yet.stderr.contains("not yet: ") && not_yet.stderr.contains("team-agent explain m-"),
        "{}",
        not_yet.stderr
    );
    let answer = crew.ws.json(["send", "w1", "and more", "--wait", "answered", "--timeout", "0.2"]);
    assert_eq!(answer["error"]["code"], "not_yet", "{answer}");
    assert!(
        answer["message_id"].is_string() && answer["receivers"][0]["receipt"]["step"].is_string(),
        "{answer}"
    );
    crew.finish();
}

#[test]
fn a_text_can_come_from_an_argument_a_file_or_standard_input() {
    let crew = Crew::started(&["w1"]);
    let file = crew.ws.write("note.txt", "from a file\n");
    crew.ws.ok(["send", "w1", "from an argument", "--wait", "answered", "--timeout", "20"]);
    crew.ws.ok(["send", "w1", "-f", &file.to_string_lossy(), "--wait", "answered", "--timeout", "20"]);
    let output =
        crew.ws.run_with_input(["send", "w1", "-", "--wait", "answered", "--timeout", "20"], "from a pipe\n");
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
    for part in ["from an argument", "from a file", "from a pipe"] {
        assert_eq!(crew.texts("w1").iter().filter(|it| it.contains(part)).count(), 1, "{part}");
    }
    crew.finish();
}

#[test]
fn completions_are_scripts_that_their_shells_take() {
    let ws = TestWorkspace::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = ws.ok(["completions", shell]);
        assert!(script.contains("quick-start") && !script.contains("fake-agent"), "{shell}");
        let file = ws.write(format!("completions.{shell}"), &script);
        let mut command = ws.command(shell);
        command.arg("-n").arg(file);
        // A shell that is not there cannot complain.
        if let Ok(output) = process::run(&mut command, SOON) {
            assert_eq!(output.code, Some(0), "{shell}: {}", output.snapshot());
        }
    }
    assert_eq!(ws.json(["completions", "fish"])["shell"], "fish");
    ws.finish();
}

#[test]
fn a_screen_is_shown_in_a_terminal_only_and_the_command_for_it_is_told() {
    let crew = Crew::started(&["w1"]);
    let output = crew.ws.run(["attach", "w1"]);
    assert_eq!(output.code, Some(3), "{}", output.snapshot());
    assert!(output.stderr.contains("in a terminal"), "{}", output.snapshot());
    let answer = crew.ws.json(["attach", "w1"]);
    let argv: Vec<&str> =
        answer["argv"].as_array().into_iter().flatten().filter_map(|it| it.as_str()).collect();
    assert!(argv.contains(&"-r") && argv.contains(&"-S"), "{answer}");
    let answer = crew.ws.json(["attach", "w1", "--type"]);
    assert!(!answer.to_string().contains("\"-r\""), "{answer}");
    crew.finish();
}

#[test]
fn a_profile_made_first_of_all_is_private_and_can_never_be_committed() {
    let ws = TestWorkspace::new();
    git(&ws, &["init", "-q"]);
    ws.ok(["profile", "init", "login-one", "--auth-mode", "subscription", "--workspace", "."]);
    let profile = ".team/current/profiles/login-one.env";
    let mode = fs::metadata(ws.path().join(profile))
        .map(|it| std::os::unix::fs::PermissionsExt::mode(&it.permissions()));
    assert_eq!(mode.expect("it was written") & 0o777, 0o600);
    git(&ws, &["add", "-A"]);
    let tracked = git(&ws, &["ls-files"]);
    assert!(!tracked.contains("profiles"), "{tracked}");
    assert!(tracked.contains(".team/.gitignore"), "{tracked}");
    let before = ws.read(profile);
    let again = ws.run(["profile", "init", "login-one", "--auth-mode", "official_api"]);
    assert_eq!(again.code, Some(1), "{}", again.snapshot());
    assert!(again.stderr.contains("profile already exists"), "{}", again.snapshot());
    assert_eq!(ws.read(profile), before);
    ws.finish();
}

/// The whole way that a newcomer pastes: profile, TEAM.md, a role file, start, a task, its result.
#[test]
fn a_team_can_be_pasted_line_by_line() {
    let ws = TestWorkspace::new();
    let team = |provider: &str| {
        format!(
            "mkdir -p .team/current/agents\n\
             team-agent profile init house-login --auth-mode subscription --workspace .\n\
             cat > .team/current/TEAM.md <<'EOF'\n---\nname: paper boats\nobjective: Fold what is asked for.\n\
             dangerous_auto_approve: false\nfast: false\nprovider_models:\n  codex: model-c\n  claude: model-b\n  \
             claude_code: model-b\n---\n\nFor people only.\nEOF\n\
             cat > .team/current/agents/folder.md <<'EOF'\n---\nname: folder\nrole: Folds one thing at a time\n\
             provider: {provider}\nauth_mode: subscription\nprofile: house-login\ntools:\n  - fs_read\n  - fs_list\n  \
             - fs_write\n  - execute_bash\n  - mcp_team\n  - provider_builtin\n---\n\nReport each boat once.\nEOF\n"
        )
    };
    let paste = |script: &str| {
        let mut command = ws.command("/bin/sh");
        command.args(["-e", "-c", script]);
        process::run(&mut command, SOON * 3).expect("the shell runs")
    };
    let written = paste(&team("claude"));
    assert_eq!(written.code, Some(0), "{}", written.snapshot());
    let seat = &ws.json(["compile"])["agents"][0];
    assert_eq!((&seat["provider"], &seat["model"]), (&"claude".into(), &"model-b".into()), "{seat}");
    fs::remove_dir_all(ws.path().join(".team")).expect("it is ours");
    let started = paste(&(team("fake") + "team-agent quick-start .team/current\n"));
    assert_eq!(started.code, Some(0), "{}", started.snapshot());
    assert!(started.stdout.contains("\nready: current (1 agent)"), "{}", started.snapshot());
    ws.ok(["send", "--watch-result", "folder", "fake: report status=success summary=\"one boat\""]);
    ws.ok(["wait", "--result", "folder", "--timeout", "20"]);
    assert!(ws.ok(["collect"]).contains("one boat"));
    assert!(ws.ok(["collect"]).contains("nothing waits"));
    ws.finish();
}

fn git(ws: &TestWorkspace, arguments: &[&str]) -> String {
    let output = process::run(ws.command("git").args(arguments), SOON).expect("git is there");
    assert_eq!(output.code, Some(0), "git {arguments:?}: {}", output.snapshot());
    output.stdout
}
