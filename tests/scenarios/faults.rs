//! What goes wrong around an agent's program: terminals that fail, questions at the start, looks that have changed,
//! hooks that say something else, servers that are slow.

use serde_json::Value;
use team_scenarios::{Crew, SOON};

/// A `tmux` that is put before the real one; `REAL` in its lines is that.
fn wrap_tmux(crew: &mut Crew, lines: &str) {
    let path = std::env::var_os("PATH").expect("there is a PATH");
    let real =
        std::env::split_paths(&path).map(|it| it.join("tmux")).find(|it| it.is_file()).expect("it is there");
    let text = format!("#!/bin/sh\n{}\n", lines.replace("REAL", &format!("'{}'", real.display())));
    let file = crew.ws.write("wrapped/tmux", &text);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&file, mode).expect("it is ours");
    let dir = file.parent().expect("it lies in a directory").to_owned();
    crew.ws.path_first(&dir);
}

fn agent(crew: &Crew) -> Value {
    crew.status()["agents"]["w1"].clone()
}

/// The program of `w1` obeys these lines although it has not begun its session.
fn close_first_dialog(crew: &Crew) {
    let control = crew.control_file("w1");
    std::fs::create_dir_all(control.parent().expect("it has a directory")).expect("the home is writable");
    std::fs::write(control, "close-dialog\n").expect("the home is writable");
}

// Case 011.
#[test]
fn what_a_tmux_says_that_refuses_a_call_is_passed_on() {
    let mut crew = Crew::written(&["w1"]);
    wrap_tmux(
        &mut crew,
        "for word in \"$@\"; do\n\
         case $word in source-file|new-session) echo 'command source-file: unknown flag -Z' >&2; exit 1 ;; esac\n\
         done\nexec REAL \"$@\"",
    );
    let output = crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    let explained = crew.ws.ok(["explain", "w1"]);
    assert!(
        format!("{}{explained}", output.stderr).contains("unknown flag -Z"),
        "{}{explained}",
        output.snapshot()
    );
    crew.finish();
}

// Case 071.
#[test]
fn a_tmux_that_fails_now_and_then_makes_nobody_dead() {
    let mut crew = Crew::written(&["w1"]);
    let counter = crew.ws.root().join("calls");
    wrap_tmux(
        &mut crew,
        &format!(
            "echo >>'{0}'\n\
             case \"$*\" in *-V*) exec REAL \"$@\" ;; esac\n\
             if [ -e '{0}.on' ] && [ $(($(wc -l <'{0}') % 5)) = 0 ]; then echo 'lost server' >&2; exit 1; fi\n\
             exec REAL \"$@\"",
            counter.display()
        ),
    );
    crew.start();
    std::fs::write(counter.with_extension("on"), "").expect("it is ours");
    for round in 0..8 {
        crew.ask("w1", &format!("round {round}"));
    }
    std::fs::remove_file(counter.with_extension("on")).expect("it is ours");
    assert_eq!(agent(&crew)["session"]["state"], "running");
    assert_eq!(crew.texts("w1").len(), 8, "{:?}", crew.texts("w1"));
    assert_eq!(crew.events_of("spawn.planned").len(), 1, "nobody was started again");
    assert!(crew.events_of("team.lost").is_empty());
    crew.finish();
}

// Cases 030, 031: the program asks before its input box is there.
#[test]
fn a_question_at_the_start_is_told_and_gets_no_key() {
    let mut crew = Crew::written(&["w1"]);
    crew.script("dialog trust");
    let started = crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(started.code, Some(1), "{}", started.snapshot());
    assert!(started.stderr.contains("team-agent attach w1 --type"), "{}", started.snapshot());
    assert_eq!(crew.activity("w1"), "awaiting_trust");
    let told = crew.events_of("notice.raised");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["event"]["about"], "w1");
    crew.ws.json(["send", "w1", "your first task", "--wait", "accepted"]);
    assert_eq!(crew.bytes("w1"), Vec::<u8>::new());
    close_first_dialog(&crew);
    crew.wait_for_text("w1", "your first task");
    assert_eq!(crew.texts("w1").len(), 1, "{:?}", crew.texts("w1"));
    crew.finish();
}

// Case 032.
#[test]
fn a_question_of_another_kind_is_not_taken_for_the_folders() {
    let mut crew = Crew::written(&["w1"]);
    crew.script("dialog hooks");
    let started = crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(started.code, Some(1), "{}", started.snapshot());
    let shown = agent(&crew);
    assert_ne!(shown["activity"]["state"], "idle", "{shown}");
    assert!(!shown["activity"]["reason"].is_null(), "it is named: {shown}");
    assert_eq!(crew.bytes("w1"), Vec::<u8>::new());
    close_first_dialog(&crew);
    crew.wait_for_activity("w1", "idle");
    crew.ask("w1", "hello");
    crew.finish();
}

// Case 034.
#[test]
fn a_program_that_ends_at_its_start_is_failed_with_its_code_and_its_last_words() {
    let mut crew = Crew::written(&["w1"]);
    crew.script("mcp-delay 30\nsay this folder is not trusted\nexit 55");
    let output = crew.ws.run(["quick-start", "--headless"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    assert!(output.stderr.contains("exit code 55"), "{}", output.snapshot());
    assert_eq!(agent(&crew)["session"]["state"], "failed");
    let explained = crew.ws.ok(["explain", "w1"]);
    assert!(explained.contains("55") && explained.contains("this folder is not trusted"), "{explained}");
    crew.finish();
}

// Case 042.
#[test]
fn no_open_question_is_taken_for_an_idle_agent() {
    for dialog in ["mcp", "resume", "update", "custom Choose a color|red|blue"] {
        let crew = Crew::started(&["w1"]);
        crew.control("w1", &format!("dialog {dialog}"));
        crew.ws.json(["send", "w1", "are you there", "--wait", "accepted"]);
        crew.ws.wait_until(
            &format!("{dialog}: the message waits"),
            || agent(&crew)["held"]["dialog"] == 1,
            SOON,
        );
        assert_ne!(crew.activity("w1"), "idle", "{dialog}");
        assert!(crew.texts("w1").is_empty(), "{dialog}");
        crew.control("w1", "close-dialog");
        crew.wait_for_text("w1", "are you there");
        crew.finish();
    }
}

// Case 054.
#[test]
fn inside_another_tmux_all_verbs_find_our_server() {
    let crew = Crew::started(&["w1"]);
    let socket =
        crew.events_of("server.started")[0]["event"]["socket"].as_str().unwrap_or_default().to_owned();
    let inside = |arguments: &[&str]| {
        let mut command = crew.ws.command(crew.ws.program());
        command.args(arguments).env("TMUX", "/tmp/nobody-listens-here,1,0").env("TMUX_PANE", "%77");
        command.output().expect("it runs")
    };
    for verb in [
        &["status"][..],
        &["doctor"],
        &["explain", "w1"],
        &["send", "w1", "hello", "--wait", "answered", "--timeout", "20"],
        &["collect"],
        &["inbox", "w1"],
    ] {
        let output = inside(verb);
        assert!(output.status.success(), "{verb:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let attach: Value =
        serde_json::from_slice(&inside(&["attach", "w1", "--json"]).stdout).expect("it is JSON");
    assert!(attach["argv"].to_string().contains(&socket), "{attach}");
    crew.ws.ok(["shutdown"]);
    crew.finish();
}

// Cases 067, 068: a newer program looks different.
#[test]
fn another_look_changes_nothing_that_records_prove() {
    let mut crew = Crew::written(&["w1"]);
    crew.script("footer esc to interrupt, ctrl-t for everything else\nplaceholder Say something");
    crew.start();
    assert_eq!(crew.activity("w1"), "idle");
    crew.ws.json(["send", "w1", "fake: busy 2", "--wait", "turn_started", "--timeout", "20"]);
    assert_eq!(crew.activity("w1"), "working");
    crew.wait_for_activity("w1", "idle");
    crew.control("w1", "footer Working… esc to interrupt");
    crew.ask("w1", "still there?");
    assert_eq!(crew.activity("w1"), "idle");
    crew.finish();
}

// Case 068.
#[test]
fn an_input_box_that_no_rule_knows_gets_no_keys_and_the_start_is_proved_without_it() {
    let mut crew = Crew::written(&["w1"]);
    crew.script("composer-glyph $");
    crew.start();
    assert_eq!(crew.activity("w1"), "idle", "its own records say so");
    crew.ws.json(["send", "w1", "hello", "--wait", "accepted"]);
    crew.ws.wait_until(
        "it is held",
        || !agent(&crew)["held"].as_object().is_none_or(serde_json::Map::is_empty),
        SOON,
    );
    assert_eq!(crew.bytes("w1"), Vec::<u8>::new());
    crew.control("w1", "composer-glyph ❯");
    crew.wait_for_text("w1", "hello");
    crew.finish();
}

// Case 074.
#[test]
fn hooks_that_fall_silent_leave_no_lie_behind() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "hooks off");
    crew.ws.json(["send", "w1", "fake: busy 2", "--wait", "accepted"]);
    crew.wait_for_activity("w1", "working");
    crew.wait_for_activity("w1", "idle");
    assert_eq!(crew.texts("w1").len(), 1);
    crew.finish();
}

// Case 093.
#[test]
fn a_session_of_a_child_is_not_the_agents() {
    let crew = Crew::started(&["w1"]);
    let native = crew.native("w1");
    crew.control("w1", "second-session-start");
    crew.ws.wait_for_event(|it| it["event"]["type"] == "observation.foreign", SOON);
    assert_eq!(crew.native("w1"), native);
    crew.ask("w1", "still you?");
    crew.finish();
}

// Case 112.
#[test]
fn an_agent_whose_tools_are_missing_is_told_apart_and_can_report_from_its_shell() {
    let crew = Crew::started(&["w1"]);
    crew.ws.ok(["send", "--watch-result", "w1", "a task"]);
    crew.control("w1", "mcp off");
    crew.ws.wait_until("it is told", || agent(&crew)["can_report"] == false, SOON);
    let (said, code) = crew.shell("w1", "team-agent report --json --status success --summary 'by the shell'");
    assert_eq!(code, 0, "{said}");
    crew.ws.ok(["wait", "--task", "1", "--timeout", "20"]);
    assert!(crew.ws.ok(["collect"]).contains("by the shell"));
    crew.control("w1", "mcp on");
    crew.ws.wait_until("it can again", || agent(&crew)["can_report"] == true, SOON);
    crew.finish();
}

// Case 112.
#[test]
fn a_start_whose_tools_do_not_come_says_what_is_missing() {
    let mut crew = Crew::written(&["w1"]);
    crew.script("mcp-delay 30");
    let mut command = crew.ws.command(crew.ws.program());
    command.args(["quick-start", "--headless"]);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut starting = command.spawn().expect("it starts");
    crew.ws.wait_for_event(|it| it["event"]["type"] == "session.started", SOON);
    crew.ws.wait_until("all but the tools", || agent(&crew)["session"]["state"] == "starting", SOON);
    let explained = crew.ws.ok(["explain", "w1"]);
    assert!(explained.contains("the team's tools"), "{explained}");
    crew.ws.ok(["shutdown"]);
    starting.wait().expect("it ends");
    crew.finish();
}

// Case 011: a tmux that knows fewer flags than ours; the words are its own.
#[test]
fn a_tmux_that_refuses_a_flag_of_the_paste_leaves_no_receipt_of_it() {
    let mut crew = Crew::written(&["w1"]);
    wrap_tmux(
        &mut crew,
        "case \" $* \" in\n\
         *' -C '*|*' source-file - '*) sed -u 's/paste-buffer /paste-buffer -Z /' | REAL \"$@\"; exit ;;\n\
         esac\nexec REAL \"$@\"",
    );
    crew.start();
    let sent = crew.ws.json(["send", "w1", "hello", "--wait", "submitted", "--timeout", "3"]);
    let step = sent["receivers"][0]["receipt"]["step"].as_str().unwrap_or_default();
    assert!(!["submitted", "turn_started", "answered"].contains(&step), "{sent}");
    let explained = crew.ws.ok(["explain", sent["message_id"].as_str().expect("it has an id")]);
    assert!(explained.contains("unknown flag -Z"), "{explained}");
    assert_eq!(crew.texts("w1"), Vec::<String>::new());
    crew.ws.ok(["shutdown"]);
    crew.finish();
}

// Case 011: a tmux to which no client of this kind can be attached.
#[test]
fn a_tmux_without_control_mode_is_used_all_the_same() {
    let mut crew = Crew::written(&["w1"]);
    wrap_tmux(
        &mut crew,
        "case \" $* \" in *' -C '*) echo 'unknown flag -f' >&2; exit 1 ;; esac\nexec REAL \"$@\"",
    );
    crew.start();
    crew.ask("w1", "hello");
    assert_eq!(crew.texts("w1").len(), 1);
    assert_eq!(crew.events_of("message.unknown").len(), 0);
    crew.ws.ok(["shutdown"]);
    crew.finish();
}

// Case 074: a version that tells the end of its session after every turn.
#[test]
fn a_session_that_is_told_to_end_after_each_turn_goes_on_while_its_program_lives() {
    let crew = Crew::started(&["w1"]);
    let native = crew.native("w1");
    for round in 0..2 {
        let call = format!(
            "printf '{{\"session_id\":\"{native}\",\"hook_event_name\":\"SessionEnd\",\"reason\":\"other\"}}' | \
             team-agent hook --seat-file \"$TEAM_AGENT_SEAT\" SessionEnd"
        );
        let (said, code) = crew.shell("w1", &call);
        assert_eq!(code, 0, "{said}");
        assert_eq!(crew.activity("w1"), "idle");
        crew.ask("w1", &format!("round {round}"));
    }
    assert_eq!(agent(&crew)["session"]["state"], "running");
    assert!(crew.events_of("agent.stopped").is_empty());
    crew.finish();
}

// Case 074: a version that fires no hook once it goes on.
#[test]
fn a_resumed_program_whose_hooks_are_silent_is_not_proved_ready() {
    let mut crew = Crew::started(&["w1"]);
    crew.ask("w1", "hello");
    crew.ws.ok(["shutdown"]);
    crew.script("hooks off");
    let mut command = crew.ws.command(crew.ws.program());
    command.args(["restart", "--headless"]);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut starting = command.spawn().expect("it starts");
    let listed = |it: &Value| it["event"]["type"] == "tools.listed";
    crew.ws.wait_until(
        "its tools come",
        || crew.ws.events().iter().filter(|it| listed(it)).count() == 2,
        SOON,
    );
    crew.ws.json(["send", "w1", "are you there", "--wait", "accepted"]);
    let shown = agent(&crew);
    assert_eq!(shown["session"]["state"], "starting", "{shown}");
    let evidence = shown["activity"]["evidence"].as_str().unwrap_or_default();
    assert!(shown["activity"]["state"] == "unknown" || evidence.starts_with("status_file"), "{shown}");
    assert_eq!(crew.texts("w1").len(), 1, "what is sent waits");
    let explained = crew.ws.ok(["explain", "w1"]);
    assert!(explained.contains("not proved ready"), "{explained}");
    crew.ws.ok(["shutdown"]);
    starting.wait().expect("it ends");
    crew.finish();
}

// Case 069: what runs is known by its process, whatever that is called.
#[test]
fn a_program_behind_a_script_is_alive_and_is_talked_to() {
    for lines in
        ["sh -c 'exec \"$0\" fake-agent \"$@\"' PROGRAM \"$@\"", "PROGRAM fake-agent \"$@\"\nexit $?"]
    {
        let mut crew = Crew::written_with(team_testkit::TestWorkspace::new(), &["w1"], "claude");
        let program = format!("'{}'", crew.ws.program().display());
        let text = format!(
            "#!/bin/sh\nexport FAKE_HOME=\"${{CLAUDE_CONFIG_DIR:-$HOME/.claude}}\"\n{}\n",
            lines.replace("PROGRAM", &program)
        );
        let file = crew.ws.write("wrapped/claude", &text);
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&file, mode).expect("it is ours");
        let dir = file.parent().expect("it lies in a directory").to_owned();
        crew.ws.path_first(&dir);
        crew.start();
        assert_eq!(agent(&crew)["session"]["state"], "running", "{lines}");
        crew.ask("w1", "are you there");
        assert_eq!(crew.activity("w1"), "idle", "{lines}");
        crew.ws.ok(["shutdown"]);
        crew.finish();
    }
}

// Cases 092 and 100.
#[test]
fn two_agents_in_one_folder_keep_their_own_conversations_beside_newer_and_empty_ones() {
    let mut crew = Crew::written(&["w1", "w2"]);
    let home = crew.ws.root().join("one-home");
    crew.ws.set("FAKE_HOME", &home);
    crew.start();
    for agent in ["w1", "w2"] {
        crew.ask(agent, &format!("the word of {agent}"));
    }
    let natives = ["w1", "w2"].map(|it| crew.native(it));
    assert_ne!(natives[0], natives[1]);
    let folder = std::fs::read_dir(home.join("projects"))
        .expect("there are conversations")
        .filter_map(|it| Some(it.ok()?.path()))
        .find(|it| it.join(format!("{}.jsonl", natives[0])).is_file())
        .expect("both worked in one folder");
    let of =
        |native: &str| std::fs::read_to_string(folder.join(format!("{native}.jsonl"))).unwrap_or_default();
    assert!(of(&natives[1]).contains("the word of w2"), "both worked in one folder");

    // Somebody's own conversation, the newest of all, and folders with nothing in them.
    let foreign = "99999999-9999-4999-8999-999999999999";
    let text = of(&natives[0]).replace(&natives[0], foreign).replace("the word of w1", "a stranger's word");
    std::fs::write(folder.join(format!("{foreign}.jsonl")), &text).expect("it is ours");
    for empty in ["88888888-8888-4888-8888-888888888888", "88888888-8888-4888-8888-888888888888.jsonl"] {
        std::fs::create_dir(folder.join(empty)).expect("it is ours");
    }
    crew.ws.ok(["shutdown"]);
    crew.ws.ok(["restart", "--headless"]);
    assert_eq!(["w1", "w2"].map(|it| crew.native(it)), natives);
    assert_eq!(crew.events_of("restart.fresh_spawn").len(), 0);
    for (agent, native) in ["w1", "w2"].into_iter().zip(&natives) {
        crew.ask(agent, &format!("more for {agent}"));
        crew.ws.wait_until("it is in its own", || of(native).contains(&format!("more for {agent}")), SOON);
    }
    assert!(!of(&natives[0]).contains("w2") && !of(&natives[1]).contains("w1"));
    assert_eq!(of(foreign), text, "nobody has written there");
    crew.finish();
}
