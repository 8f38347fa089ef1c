//! Where workspaces, state and sockets lie, and what happens when they are moved, copied or called strange names.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use team_scenarios::{Crew, SOON};
use team_testkit::TestWorkspace;

fn crew_in(ws: TestWorkspace, agents: &[&str]) -> Crew {
    let crew = Crew::written_with(ws, agents, "fake");
    crew.start();
    crew
}

fn server_socket(crew: &Crew) -> PathBuf {
    let line = crew.events_of("server.started").pop().expect("a server was started");
    PathBuf::from(line["event"]["socket"].as_str().unwrap_or_default())
}

/// Every verb that a person uses, in a team of `w1`.
fn all_verbs_work(crew: &Crew) {
    let task = "fake: report summary=\"fine\"";
    let sent = crew.ws.json(["send", "--watch-result", "w1", task, "--wait", "answered", "--timeout", "30"]);
    assert_eq!(sent["ok"], true, "{sent}");
    crew.ws.ok(["wait", "--task", "1", "--timeout", "20"]);
    for verb in [
        vec!["status"],
        vec!["status", "w1"],
        vec!["inbox", "w1"],
        vec!["results"],
        vec!["events"],
        vec!["explain", "w1"],
        vec!["compile"],
        vec!["attach", "w1", "--json"],
        vec!["doctor"],
    ] {
        crew.ws.ok(&verb);
    }
    let (said, code) = crew.shell("w1", "pwd; team-agent status --json");
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with(&format!("{}\n", crew.ws.path().display())), "{said}");
    assert_eq!(crew.ws.json(["collect"])["collected"], 1);
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["restart", "--headless"]);
    let texts = crew.texts("w1");
    assert!(texts.iter().any(|it| it.contains(task)), "{texts:?}");
    crew.ask("w1", "still there?");
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["delete", "current", "--confirm"]);
}

// Case 078.
#[test]
fn a_deep_path_with_spaces_and_other_scripts_works() {
    let deep = format!("{}/{}/研究 项目", "a deep directory ".repeat(4).trim_end(), "and one more".repeat(4));
    let crew = crew_in(TestWorkspace::named(&deep), &["w1"]);
    assert!(crew.ws.path().as_os_str().len() > 120);
    assert!(server_socket(&crew).as_os_str().len() <= 100);
    all_verbs_work(&crew);
    crew.finish();
}

// Case 078.
#[test]
fn a_deep_state_directory_gets_short_sockets_elsewhere_and_nothing_of_them_stays() {
    let mut ws = TestWorkspace::new();
    let state = ws.root().join("state").join("deep ".repeat(25).trim_end());
    fs::create_dir_all(&state).expect("the directory is writable");
    ws.set("XDG_STATE_HOME", &state);
    let crew = Crew::written_with(ws, &["w1"], "fake");
    crew.ws.ok(["quick-start", "--headless"]);
    let socket = server_socket(&crew);
    assert!(socket.as_os_str().len() <= 100, "{}", socket.display());
    crew.ws.ok(["send", "w1", "hi", "--wait", "answered", "--timeout", "20"]);
    let own = socket.parent().expect("it has a directory").to_owned();
    crew.ws.ok(["shutdown"]);
    crew.ws.wait_until("nothing of it is left", || !own.exists(), SOON);
    crew.ws.ok(["restart", "--headless"]);
    crew.ws.ok(["send", "w1", "hi again", "--wait", "answered", "--timeout", "20"]);
    crew.ws.ok(["shutdown"]);
    crew.ws.wait_until("nothing of it is left", || !own.exists(), SOON);
    crew.finish();
}

// Case 089.
#[test]
fn quotes_blanks_and_other_scripts_in_the_path_work_for_all_verbs() {
    let crew = crew_in(TestWorkspace::named("a b'c\"d ψ中 $HOME;`x` #{pid}\\"), &["w1"]);
    all_verbs_work(&crew);
    crew.finish();
}

// Case 087.
#[test]
fn names_in_other_scripts_are_right_without_a_locale() {
    let crew = Crew::started(&["研究员"]);
    let path = std::env::var("PATH").unwrap_or_default();
    let bare = |arguments: &[&str]| {
        let mut command = crew.ws.command("env");
        command.arg("-i").arg(format!("PATH={path}")).arg(format!("HOME={}", crew.ws.home().display()));
        command.arg(crew.ws.program()).args(arguments);
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let status: Value = serde_json::from_str(&bare(&["status", "--json"])).expect("it is JSON");
    assert_eq!(status["agents"]["研究员"]["session"]["state"], "running", "{status}");
    assert!(bare(&["status"]).contains("研究员"));
    assert!(crew.tmux(&["list-windows", "-a", "-F", "#{window_name}"]).contains("研究员"));
    crew.ask("研究员", "你好");
    assert!(bare(&["inbox", "研究员"]).contains("你好"));
    crew.finish();
}

#[test]
fn every_verb_finds_the_same_server_without_an_environment() {
    // XDG_STATE_HOME is set at quick-start and absent afterwards.
    let crew = Crew::started(&["w1"]);
    let socket = server_socket(&crew);
    let bare = |arguments: &[&str]| {
        let mut command = crew.ws.command("env");
        command.arg("-i").arg(crew.ws.program()).args(arguments);
        let output = command.output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        said
    };
    bare(&["send", "w1", "from nowhere", "--wait", "answered", "--timeout", "20"]);
    assert!(bare(&["attach", "w1", "--json"]).contains(&socket.display().to_string()));
    bare(&["status"]);
    bare(&["inbox", "w1"]);
    bare(&["explain", "w1"]);
    bare(&["results"]);
    bare(&["collect"]);
    bare(&["events"]);
    bare(&["wait", "--idle", "w1"]);
    // Also when it has to start a coordinator, and the whole team again.
    crew.kill(crew.status()["coordinator"]["pid"].as_i64().unwrap_or_default());
    bare(&["send", "w1", "and again", "--wait", "answered", "--timeout", "20"]);
    bare(&["shutdown"]);
    let output = {
        let mut command = crew.ws.command("env");
        let path = std::env::var("PATH").unwrap_or_default();
        command.arg("-i").arg(format!("PATH={path}")).arg(format!(
            "TESTKIT_RUN={}",
            crew.ws.variables()[std::ffi::OsStr::new("TESTKIT_RUN")].to_string_lossy()
        ));
        command.arg(crew.ws.program()).args(["restart", "--headless"]);
        command.output().expect("it runs")
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(server_socket(&crew), socket);
    bare(&["send", "w1", "third", "--wait", "answered", "--timeout", "20"]);
    // Without HOME the system's list of users says where home is, and there a pointer to the state was left.
    let id = crew.ws.read(".team/id");
    let pointer = format!(".local/state/team-agent/{}.at", id.lines().next().unwrap_or_default());
    if let Some(home) = std::env::var_os("HOME") {
        let _ = fs::remove_file(PathBuf::from(home).join(pointer));
    }
    crew.finish();
}

#[test]
fn the_tmux_socket_may_be_removed_under_a_live_team() {
    let crew = Crew::started(&["w1"]);
    let socket = server_socket(&crew);
    let pid = crew.status()["agents"]["w1"]["session"]["pid"].clone();
    fs::remove_file(&socket).expect("it is there");
    crew.ws.ok(["attach", "w1", "--json"]);
    assert!(socket.exists());
    fs::remove_file(&socket).expect("it is back");
    crew.ask("w1", "is the line dead?");
    // A coordinator that comes later finds it too.
    fs::remove_file(&socket).ok();
    crew.kill(crew.status()["coordinator"]["pid"].as_i64().unwrap_or_default());
    crew.ask("w1", "and now?");
    let status = crew.status();
    assert_eq!(status["agents"]["w1"]["session"]["pid"], pid, "{status}");
    assert_eq!(crew.events_of("server.started").len(), 1);
    assert_eq!(crew.events_of("team.lost").len(), 0);
    crew.ws.ok(["shutdown"]);
    crew.finish();
}

/// Copies a directory with everything that `cp -a` keeps.
fn copy(crew: &Crew, from: &Path, to: &Path) {
    let output = crew.ws.command("cp").arg("-a").arg(from).arg(to).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_copied_workspace_commands_nothing_of_the_original() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "busy 60");
    crew.wait_for_activity("w1", "working");
    // Something is held, and would be delivered by whoever believes to be the same workspace.
    crew.ws.ok(["send", "w1", "held for later", "--timeout", "0"]);
    let copied = crew.ws.root().join("copy");
    copy(&crew, crew.ws.path(), &copied);
    let log = crew.ws.events().len();
    for refused in [
        vec!["send", "w1", "from the copy"],
        vec!["shutdown"],
        vec!["attach", "w1"],
        vec!["collect"],
        vec!["report", "--status", "success", "--summary", "x"],
        vec!["delete", "current", "--confirm"],
    ] {
        let output = crew.ws.run_in(&copied, &refused);
        assert_eq!(output.code, Some(1), "{refused:?}: {}", output.snapshot());
    }
    assert_eq!(crew.ws.events().len(), log);
    let old_id = crew.ws.read(".team/id");
    // It starts its own team, with a new id, and nothing of the other's.
    let output = crew.ws.run_in(&copied, ["quick-start", "--headless", "--json"]);
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
    let new_id = fs::read_to_string(copied.join(".team/id")).expect("it has an id");
    assert_ne!(old_id.lines().next(), new_id.lines().next());
    let told =
        crew.ws.run_in(&copied, ["send", "w1", "for the copy", "--wait", "answered", "--timeout", "20"]);
    assert_eq!(told.code, Some(0), "{}", told.snapshot());
    let copy_log = fs::read_to_string(copied.join(".team/logs/events.jsonl")).expect("it has a log");
    assert!(copy_log.contains("workspace.adopted"), "{copy_log}");
    let again = crew.ws.run_in(&copied, ["shutdown"]);
    assert_eq!(again.code, Some(0), "{}", again.snapshot());
    // The original has noticed nothing and goes on.
    assert_eq!(crew.activity("w1"), "working");
    crew.control("w1", "idle");
    crew.wait_for_text("w1", "held for later");
    let texts = crew.texts("w1");
    assert!(!texts.iter().any(|it| it.contains("copy")), "{texts:?}");
    assert_eq!(texts.iter().filter(|it| it.contains("held for later")).count(), 1, "{texts:?}");
    crew.finish();
}

#[test]
fn an_address_may_have_colons_in_its_path() {
    let crew = crew_in(TestWorkspace::named("co::lon"), &["w1"]);
    let address = format!("{}::current/w1", crew.ws.path().display());
    crew.ws.ok(["send", &address, "from beside", "--wait", "answered", "--timeout", "20"]);
    crew.ws.ok(["shutdown"]);
    crew.finish();
}

#[test]
fn what_the_files_mean_is_said_also_where_it_cannot_be_kept() {
    let crew = Crew::written(&["w1"]);
    // Nothing can be written over a directory.
    fs::create_dir(crew.ws.path().join(".team/current/spec.json")).expect("it is writable");
    let output = crew.ws.run(["compile"]);
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
    assert!(output.stdout.contains("w1"), "{}", output.snapshot());
    assert!(output.stderr.contains("`spec.json` could not be written"), "{}", output.snapshot());
    crew.finish();
}

#[test]
fn a_path_that_is_no_text_is_refused_before_anything_is_written() {
    use std::os::unix::ffi::OsStrExt as _;
    let ws = TestWorkspace::new();
    let odd = ws.root().join(std::ffi::OsStr::from_bytes(b"odd-\xff"));
    fs::create_dir_all(odd.join("agents")).expect("it is writable");
    fs::write(odd.join("agents/w1.md"), "---\nname: w1\nprovider: fake\n---\n\nWork.\n")
        .expect("it is writable");
    for verb in [vec!["init"], vec!["quick-start", "--headless"]] {
        let output = ws.run_in(&odd, &verb);
        assert_ne!(output.code, Some(0), "{}", output.snapshot());
        assert!(output.stderr.contains("is not UTF-8"), "{}", output.snapshot());
    }
    assert!(!odd.join(".team").exists());
    fs::remove_dir_all(odd).expect("it is ours");
    ws.finish();
}

#[test]
fn a_moved_workspace_goes_on() {
    let crew = Crew::started(&["w1"]);
    crew.ask("w1", "before the move");
    let pid = crew.status()["agents"]["w1"]["session"]["pid"].clone();
    let moved = crew.ws.root().join("moved");
    fs::rename(crew.ws.path(), &moved).expect("it can be moved");
    // The program itself sits in a folder that has another name now; what it is told still reaches it.
    let output =
        crew.ws.run_in(&moved, ["send", "w1", "after the move", "--wait", "answered", "--timeout", "20"]);
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
    let task = "fake: report summary=\"from the new place\"";
    let asked = ["send", "--watch-result", "w1", task, "--wait", "answered", "--timeout", "20"];
    let output = crew.ws.run_in(&moved, asked);
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
    let output = crew.ws.run_in(&moved, ["wait", "--task", "1", "--timeout", "20"]);
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
    let status = crew.ws.run_in(&moved, ["status", "--json"]);
    let status: Value = serde_json::from_str(&status.stdout).expect("it is JSON");
    assert_eq!(status["agents"]["w1"]["session"]["pid"], pid, "{status}");
    let output = crew.ws.run_in(&moved, ["shutdown"]);
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
    let output = crew.ws.run_in(&moved, ["restart", "--headless"]);
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
    // It still knows what was said where it was before.
    let output =
        crew.ws.run_in(&moved, ["send", "w1", "fake: recall 1", "--wait", "answered", "--timeout", "20"]);
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
    let log = fs::read_to_string(moved.join(".team/logs/events.jsonl")).expect("it has a log");
    assert!(!log.contains("restart.fresh_spawn"), "{log}");
    let (from, to) = (crew.ws.path().join(".team"), moved.join(".team"));
    assert!(to.is_dir());
    let left: Vec<PathBuf> =
        fs::read_dir(&from).into_iter().flatten().flatten().map(|it| it.path()).collect();
    assert!(!from.exists(), "made again: {left:?}");
    let output = crew.ws.run_in(&moved, ["shutdown"]);
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
    fs::rename(&moved, crew.ws.path()).expect("it can be moved back");
    assert_eq!(crew.status()["state"], "stopped");
    crew.finish();
}

#[test]
fn a_workspace_whose_state_is_gone_is_treated_like_a_copy() {
    let crew = Crew::started(&["w1"]);
    crew.ask("w1", "remembered nowhere");
    crew.ws.ok(["shutdown"]);
    let old = crew.ws.state_directory().expect("it has state");
    fs::remove_dir_all(&old).expect("it can be removed");
    let output = crew.ws.run(["send", "w1", "hello"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    crew.start();
    crew.ask("w1", "a new beginning");
    assert_ne!(crew.ws.state_directory().expect("it has state"), old);
    assert_eq!(crew.texts("w1").len(), 1);
    crew.finish();
}

// Case 108.
#[test]
fn shutting_one_workspace_leaves_others_and_the_users_own_tmux_alone() {
    let own = TestWorkspace::new();
    let home = own
        .command("tmux")
        .args(["-f", "/dev/null", "new-session", "-d", "-s", "mine", "sleep", "600"])
        .output();
    assert!(home.expect("tmux is there").status.success());
    let one = crew_in(own, &["w1"]);
    let other = Crew::started(&["w1"]);
    let sessions = |crew: &Crew| {
        let mut command = crew.ws.command("tmux");
        let output = command.args(["list-sessions", "-F", "#{session_name} #{session_windows}"]).output();
        String::from_utf8_lossy(&output.expect("tmux is there").stdout).into_owned()
    };
    assert_eq!(sessions(&one), "mine 1\n");
    one.ask("w1", "one");
    other.ask("w1", "other");
    one.ws.ok(["shutdown"]);
    assert_eq!(sessions(&one), "mine 1\n");
    assert_eq!(other.status()["state"], "running");
    other.ask("w1", "still here");
    other.finish();
    one.ws.command("tmux").args(["kill-server"]).output().expect("tmux is there");
    one.finish();
}

#[test]
fn a_team_directory_elsewhere_is_copied_and_not_changed() {
    let ws = TestWorkspace::new();
    ws.write("teams/red/TEAM.md", "---\nname: red crew\n---\n");
    let role = "---\nname: w1\nrole: Worker\nprovider: fake\n---\n\nWork.\n";
    ws.write("teams/red/agents/w1.md", role);
    ws.ok(["quick-start", "teams/red", "--team-id", "red", "--headless"]);
    let status = ws.json(["status", "--team", "red"]);
    assert_eq!(status["ready"], true, "{status}");
    assert_eq!(ws.read("teams/red/agents/w1.md"), role);
    assert_eq!(ws.read(".team/red/agents/w1.md"), role);
    let left: Vec<_> = fs::read_dir(ws.path().join("teams/red")).expect("it is there").collect();
    assert_eq!(left.len(), 2, "{left:?}");
    // A second one beside it, from a bare folder of roles, under the default key.
    ws.write("roles/w9.md", "---\nname: w9\nrole: Worker\nprovider: fake\n---\n\nWork.\n");
    ws.ok(["quick-start", "roles", "--headless"]);
    assert!(ws.path().join(".team/current/agents/w9.md").is_file());
    let status = ws.json(["status"]);
    assert!(status["agents"]["w9"].is_object(), "{status}");
    ws.ok(["send", "w1", "hi", "--team", "red crew", "--wait", "answered", "--timeout", "20"]);
    ws.ok(["send", "w9", "hi", "--wait", "answered", "--timeout", "20"]);
    // One ends, the other goes on.
    ws.ok(["shutdown", "--team", "red"]);
    ws.ok(["send", "w9", "again", "--wait", "answered", "--timeout", "20"]);
    ws.ok(["shutdown"]);
    ws.finish();
}

#[test]
fn a_team_at_the_top_of_the_workspace_starts() {
    let ws = TestWorkspace::new();
    ws.write("TEAM.md", "---\nname: top\n---\n");
    ws.write("agents/w1.md", "---\nname: w1\nrole: Worker\nprovider: fake\n---\n\nWork.\n");
    ws.ok(["quick-start", "--headless"]);
    assert_eq!(ws.json(["status"])["name"], "top");
    ws.ok(["shutdown"]);
    ws.finish();
}

#[test]
fn looking_creates_nothing() {
    let ws = TestWorkspace::new();
    for verb in [
        vec!["status"],
        vec!["send", "w1", "hi"],
        vec!["inbox", "w1"],
        vec!["collect"],
        vec!["results"],
        vec!["events"],
        vec!["explain", "w1"],
        vec!["wait", "--idle", "w1", "--timeout", "0.1"],
        vec!["attach"],
        vec!["shutdown"],
        vec!["restart"],
        vec!["delete", "current", "--confirm"],
        vec!["report", "--status", "success", "--summary", "x"],
        vec!["compile"],
        vec!["quick-start"],
    ] {
        let output = ws.run(&verb);
        assert_ne!(output.code, Some(0), "{verb:?}: {}", output.snapshot());
        assert!(output.stderr.contains("error:"), "{verb:?}: {}", output.snapshot());
        assert!(output.stderr.contains("hint:"), "{verb:?}: {}", output.snapshot());
    }
    ws.ok(["doctor"]);
    let files = |dir: &Path| fs::read_dir(dir).expect("it is there").count();
    assert_eq!(files(ws.path()), 0);
    assert_eq!(files(&ws.home()), 0);
    assert_eq!(files(&ws.state_home()), 0);
    // With a spec and nothing started, looking leaves it as it is.
    ws.write(".team/current/agents/w1.md", "---\nname: w1\nrole: Worker\nprovider: fake\n---\n\nWork.\n");
    for verb in ["status", "inbox", "collect", "results", "events", "shutdown"] {
        let output = if verb == "inbox" { ws.run([verb, "w1"]) } else { ws.run([verb]) };
        assert_eq!(output.code, Some(1), "{verb}: {}", output.snapshot());
        assert!(output.stderr.contains("team-agent quick-start"), "{verb}: {}", output.snapshot());
    }
    assert_eq!(files(&ws.path().join(".team")), 1);
    assert_eq!(files(&ws.path().join(".team/current")), 1);
    assert_eq!(files(&ws.state_home()), 0);
    ws.finish();
}

#[test]
fn commands_find_their_workspace_from_below() {
    let crew = Crew::started(&["w1"]);
    let below = crew.ws.path().join("src/deep");
    fs::create_dir_all(&below).expect("it is writable");
    let output = crew.ws.run_in(&below, ["status", "--json"]);
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
    let output = crew.ws.run_in(&crew.ws.path().join(".team/current"), ["status"]);
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
    let root = crew.ws.root().to_owned();
    let output = crew.ws.run_in(&root, ["status"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    let output = crew.ws.run_in(&root, ["--workspace", "ws", "status"]);
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
    crew.ws.wait_until("it is quiet", || crew.activity("w1") == "idle", SOON);
    crew.finish();
}
