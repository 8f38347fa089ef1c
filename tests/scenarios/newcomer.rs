//! What a newcomer tries: each answer is true and names the next step.

use team_scenarios::{Crew, SOON};
use team_testkit::TestWorkspace;

/// The command below a line of `status` that begins so.
fn advised(status: &str, head: &str) -> String {
    let mut lines = status.lines().skip_while(|it| !it.starts_with(head));
    lines.find(|it| it.starts_with("  team-agent")).unwrap_or_default().trim().to_owned()
}

#[test]
fn the_advised_answer_to_a_question_closes_it() {
    let crew = Crew::started(&["w1", "w2"]);
    crew.ask("w1", "fake: call request_human {\"question\": \"May I?\", \"choices\": [\"yes\", \"no\"]}");
    let asked = crew.ws.wait_for_event(|it| it["event"]["type"] == "human.asked", SOON);
    let id = asked["event"]["id"].as_str().expect("it has an id").to_owned();
    let command = advised(&crew.ws.ok(["status"]), "QUESTION");
    assert_eq!(command, format!("team-agent send --reply-to {id} w1 'ANSWER'"));
    let to_another = crew.ws.run(["send", "--reply-to", &id, "w2", "yes"]);
    assert_eq!(to_another.code, Some(1), "{}", to_another.snapshot());
    assert!(to_another.stderr.contains(&command), "{}", to_another.snapshot());
    crew.ws.ok(["send", "--reply-to", &id, "w1", "yes"]);
    let answered = crew.ws.wait_for_event(|it| it["event"]["type"] == "human.answered", SOON);
    assert_eq!(answered["event"]["answer"], "yes");
    crew.wait_for_text("w1", &format!("answers {id}"));
    assert!(!crew.ws.ok(["status"]).contains("QUESTION"));
    let again = crew.ws.run(["send", "--reply-to", &id, "w1", "no"]);
    assert!(again.stderr.contains("is open"), "{}", again.snapshot());
    crew.finish();
}

#[test]
fn a_question_of_a_stopped_team_is_not_to_be_answered_by_a_message() {
    let crew = Crew::started(&["w1"]);
    crew.ask("w1", "fake: call request_human {\"question\": \"May I?\"}");
    crew.ws.wait_for_event(|it| it["event"]["type"] == "human.asked", SOON);
    crew.ws.ok(["shutdown"]);
    assert_eq!(advised(&crew.ws.ok(["status"]), "QUESTION"), "team-agent restart");
    crew.finish();
}

#[test]
fn a_message_that_a_shutdown_cut_off_stays_unknown_after_a_restart() {
    let crew = Crew::started(&["w1"]);
    let sent = crew.ws.json([
        "send",
        "--watch-result",
        "w1",
        "fake: busy 60",
        "--wait",
        "turn_started",
        "--timeout",
        "20",
    ]);
    let id = sent["message_id"].as_str().expect("it has an id").to_owned();
    let ended = crew.ws.ok(["shutdown"]);
    assert!(ended.contains("w1 was at work (task 1)."), "{ended}");
    crew.ws.ok(["restart", "--headless"]);
    crew.ask("w1", "go on");
    let inbox = crew.ws.json(["inbox", "w1"]);
    let of = |id: &str| {
        let all = inbox["messages"].as_array().expect("a list");
        all.iter().find(|it| it["message_id"] == id).expect("it was sent")["receipt"].clone()
    };
    assert_eq!(of(&id)["step"], "unknown", "{inbox}");
    assert_eq!(of(&id)["reason"], "the session ended before the turn was seen to end", "{inbox}");
    crew.finish();
}

#[test]
fn a_text_may_begin_with_a_hyphen() {
    let crew = Crew::started(&["w1"]);
    crew.ws.ok(["send", "w1", "- first\n- second", "--wait", "answered", "--timeout", "20"]);
    crew.wait_for_text("w1", "- second");
    let slip = crew.ws.run(["send", "w1", "--watchresult"]);
    assert_eq!(slip.code, Some(2), "{}", slip.snapshot());
    assert!(slip.stderr.contains("there is no option `--watchresult`"), "{}", slip.snapshot());
    crew.finish();
}

#[test]
fn what_is_advised_for_another_workspace_names_that_workspace() {
    let crew = Crew::started(&["w1"]);
    let there = crew.ws.root().join("there");
    let role = "---\nname: w1\nrole: Worker\nprovider: fake\n---\n\nWork.\n";
    crew.ws.write("../there/.team/current/agents/w1.md", role);
    let start = crew.ws.run_in(&there, ["quick-start", "--headless"]);
    assert_eq!(start.code, Some(0), "{}", start.snapshot());
    crew.ws.run_in(&there, ["shutdown"]);
    let root = there.display();
    let stopped = crew.ws.run(["send", &format!("{root}::current/w1"), "hi"]);
    let message = format!("team `current` of `{root}` is not running");
    assert!(stopped.stderr.contains(&message), "{}", stopped.snapshot());
    let hint = format!("team-agent --workspace {root} restart");
    assert!(stopped.stderr.contains(&hint), "{}", stopped.snapshot());
    let nowhere = crew.ws.run(["send", "/no/such/place::current/w1", "hi"]);
    assert!(nowhere.stderr.contains("`<path>::<team>/<agent>`"), "{}", nowhere.snapshot());
    crew.finish();
}

#[test]
fn a_role_file_that_is_younger_than_the_start_is_named() {
    let crew = Crew::started(&["w1"]);
    crew.ws.write(".team/current/agents/zwei.md", "---\nname: zwei\nrole: Worker\nprovider: fake\n---\n");
    let output = crew.ws.run(["send", "zwei", "hi"]);
    assert_eq!(output.code, Some(1));
    assert!(
        output.stderr.contains("`agents/zwei.md` is new: run `team-agent shutdown && team-agent restart`"),
        "{}",
        output.snapshot()
    );
    crew.finish();
}

#[test]
fn a_reply_names_a_message_that_there_is() {
    let crew = Crew::started(&["w1"]);
    for id in ["m-1", "nobody-sent-this"] {
        let output = crew.ws.run(["send", "w1", "hi", "--reply-to", id]);
        assert_eq!(output.code, Some(1), "{}", output.snapshot());
        assert!(output.stderr.contains(&format!("there is no message `{id}`")), "{}", output.snapshot());
    }
    let first = crew.ws.json(["send", "w1", "hi"])["message_id"].as_str().expect("an id").to_owned();
    crew.ws.ok(["send", "w1", "more", "--reply-to", &first]);
    crew.finish();
}

#[test]
fn a_report_of_nobody_that_closes_nothing_fails() {
    let crew = Crew::started(&["w1"]);
    let output = crew.ws.run(["report", "--status", "success", "--summary", "- done"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    assert!(output.stderr.contains("closes no task"), "{}", output.snapshot());
    crew.finish();
}

#[test]
fn a_restart_brings_what_changed_in_the_original_unless_the_copy_was_edited() {
    let ws = TestWorkspace::new();
    let role = |text: &str| format!("---\nname: rev\nrole: Worker\nprovider: fake\n---\n\n{text}\n");
    ws.write("ext/rev.md", &role("One."));
    ws.ok(["quick-start", "ext", "--team-id", "review", "--headless"]);
    ws.ok(["shutdown", "--team", "review"]);
    ws.write("ext/rev.md", &role("Two."));
    ws.ok(["restart", "--team", "review", "--headless"]);
    assert_eq!(ws.read(".team/review/agents/rev.md"), role("Two."));
    ws.ok(["shutdown", "--team", "review"]);
    ws.write("ext/rev.md", &role("Three."));
    ws.write(".team/review/agents/rev.md", &role("Mine."));
    let output = ws.run(["restart", "--team", "review", "--headless"]);
    assert_eq!(output.code, Some(0), "{}", output.snapshot());
    assert!(output.stderr.contains("rev.md` was edited and differs"), "{}", output.snapshot());
    assert_eq!(ws.read(".team/review/agents/rev.md"), role("Mine."));
    ws.ok(["shutdown", "--team", "review"]);
    ws.finish();
}

#[test]
fn a_second_team_is_made_and_started_by_its_name() {
    let ws = TestWorkspace::new();
    ws.ok(["init"]);
    let missing = ws.run(["--team", "web", "compile"]);
    assert!(missing.stderr.contains("run `team-agent --team web init`"), "{}", missing.snapshot());
    let written = ws.ok(["--team", "web", "init"]);
    assert!(written.contains("wrote .team/web/TEAM.md"), "{written}");
    assert!(written.contains("team-agent quick-start --team web"), "{written}");
    ws.ok(["--team", "web", "compile"]);
    ws.finish();
}

#[test]
fn a_team_of_nobody_is_not_started() {
    let ws = TestWorkspace::new();
    ws.write(".team/current/TEAM.md", "---\nname: empty\n---\n");
    let output = ws.run(["quick-start", "--headless"]);
    assert_eq!(output.code, Some(1), "{}", output.snapshot());
    assert!(output.stderr.contains(".team/current/agents/coder.md"), "{}", output.snapshot());
    ws.finish();
}

#[test]
fn an_empty_list_of_results_says_of_what() {
    let crew = Crew::started(&["w1"]);
    assert!(crew.ws.ok(["results", "--case", "nope"]).contains("no results of case nope"));
    assert_eq!(crew.ws.run(["results", "--limit", "0"]).code, Some(2));
    let sent = crew.ws.run(["send", "--watch-result", "w1", "fake: report summary=\"done\""]);
    assert!(
        sent.stderr.contains("`team-agent collect` shows the result when it comes"),
        "{}",
        sent.snapshot()
    );
    crew.finish();
}

#[test]
fn waiting_for_a_task_says_how_it_ended_and_ends_with_the_team() {
    let crew = Crew::started(&["w1"]);
    crew.ws.ok(["send", "--watch-result", "w1", "fake: report status=failed summary=\"no luck\""]);
    let answer = crew.ws.json(["wait", "--task", "1", "--timeout", "20"]);
    assert_eq!((&answer["task"], &answer["status"]), (&"1".into(), &"failed".into()), "{answer}");
    assert_eq!(answer["summary"], "no luck", "{answer}");
    let line = crew.ws.wait_for_event(|it| it["event"]["type"] == "mcp.report_result", SOON);
    assert_eq!(answer["seq"], line["seq"], "{answer}");
    let text = crew.ws.ok(["wait", "--task", "1"]);
    assert!(text.starts_with("task 1 failed (r-") && text.ends_with("): no luck\n"), "{text}");
    crew.ws.ok(["send", "--watch-result", "w1", "hi", "--wait", "answered", "--timeout", "20"]);
    let not_yet = crew.ws.json(["wait", "--task", "2", "--timeout", "0"]);
    assert_eq!((&not_yet["happened"], &not_yet["ok"]), (&false.into(), &false.into()), "{not_yet}");
    let owes = advised(&crew.ws.ok(["status"]), "OWES w1");
    assert_eq!(owes, "team-agent send w1 'Report task 2.'");
    crew.ws.ok(["shutdown"]);
    let never = crew.ws.run(["wait", "--task", "2"]);
    assert_eq!(never.code, Some(1), "{}", never.snapshot());
    crew.finish();
}

#[test]
fn an_agent_that_ended_by_itself_is_shown_with_its_code_and_the_way_back() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "exit 3");
    crew.ws.wait_until("it has ended", || crew.ws.ok(["status"]).contains("EXITED"), SOON);
    let status = crew.ws.ok(["status"]);
    assert!(status.contains("EXITED w1: its program ended with code 3:"), "{status}");
    assert_eq!(advised(&status, "EXITED"), "team-agent restart w1");
    crew.finish();
}

#[test]
fn one_agent_that_has_ended_goes_on_alone() {
    let crew = Crew::started(&["w1", "w2"]);
    crew.ask("w1", "the word is heron");
    let session = |agent: &str| crew.status()["agents"][agent]["session"].clone();
    let (before, other) = (session("w1"), session("w2"));
    let runs = crew.ws.run(["restart", "w1"]);
    assert!(runs.code == Some(1) && runs.stderr.contains("team-agent explain w1"), "{}", runs.snapshot());

    crew.control("w1", "exit 3");
    crew.ws.wait_until("it has ended", || session("w1")["state"] == "stopped", SOON);
    let refused = crew.ws.run(["send", "w1", "hello"]);
    assert!(refused.stderr.contains("run `team-agent restart w1`"), "{}", refused.snapshot());
    crew.ws.write(
        ".team/current/agents/w1.md",
        "---\nname: w1\nrole: Bird watcher\nprovider: fake\n---\n\nWatch.\n",
    );
    let said = crew.ws.ok(["restart", "w1"]);
    assert_eq!(said, "ready: w1\n");
    assert_eq!(session("w1")["native"], before["native"], "the same conversation");
    assert_ne!(session("w1")["pid"], before["pid"]);
    assert_eq!(session("w2"), other, "nobody else is touched");
    assert_eq!(crew.status()["agents"]["w1"]["role"], "Bird watcher");
    assert_eq!(crew.events_of("restart.fresh_spawn").len(), 0);
    assert_eq!(crew.events_of("team.started").len(), 1);
    crew.ask("w1", "still you?");

    crew.ws.ok(["shutdown"]);
    let stopped = crew.ws.run(["restart", "w1", "--headless"]);
    assert!(
        stopped.code == Some(1) && stopped.stderr.contains("`team-agent restart`"),
        "{}",
        stopped.snapshot()
    );
    crew.finish();
}

#[test]
fn one_agent_that_could_not_start_is_started_once_that_is_mended() {
    let mut crew = Crew::written(&["w1"]);
    crew.script("exit 55");
    let failed = crew.ws.run(["quick-start", "--headless"]);
    assert!(failed.stderr.contains("mend it, then `team-agent restart w1`"), "{}", failed.snapshot());
    crew.ws.unset("FAKE_SCRIPT");
    crew.ws.ok(["restart", "w1"]);
    crew.ask("w1", "hello");
    crew.finish();
}

#[test]
fn a_message_to_a_leader_who_is_nowhere_is_seen_in_status() {
    let crew = Crew::started(&["w1"]);
    crew.ask("w1", "fake: call send_message {\"to\": \"leader\", \"content\": \"look here\"}");
    crew.ws.wait_until("it is shown", || crew.ws.ok(["status"]).contains("One message for you:"), SOON);
    assert_eq!(advised(&crew.ws.ok(["status"]), "One message"), "team-agent inbox leader");
    crew.finish();
}

#[test]
fn words_of_other_programs_are_understood() {
    let ws = TestWorkspace::new();
    for (word, meant) in
        [("start", "quick-start"), ("kill", "shutdown"), ("ls", "status"), ("statsu", "status")]
    {
        let output = ws.run([word]);
        assert_eq!(output.code, Some(2), "{}", output.snapshot());
        assert!(output.stderr.contains(&format!("did you mean `{meant}`?")), "{}", output.snapshot());
    }
    assert!(!ws.run(["sea"]).stderr.contains("seat"));
    assert_eq!(ws.ok(["help", "send"]), ws.ok(["send", "--help"]));
    assert_eq!(ws.ok(["help"]), ws.ok(["--help"]));
    ws.finish();
}

#[test]
fn a_team_is_found_by_its_directory_and_a_neighbour_team_is_named() {
    let crew = Crew::started(&["w1"]);
    crew.ws.write("roles/rev.md", "---\nname: rev\nrole: Worker\nprovider: fake\n---\n\nWork.\n");
    crew.ws.ok(["quick-start", "roles", "--team-id", "review", "--headless"]);
    let output = crew.ws.run(["send", "rev", "hi"]);
    assert!(
        output.stderr.contains("`rev` is in team `review`: add `--team review`"),
        "{}",
        output.snapshot()
    );
    assert!(crew.ws.ok(["status"]).contains("Other teams here: review (running)"));
    crew.ws.ok(["shutdown", "--team", "review"]);
    for dir in ["roles", ".team/review", "review"] {
        crew.ws.ok(["restart", dir, "--headless"]);
        assert_eq!(crew.ws.json(["status", "--team", "review"])["state"], "running", "{dir}");
        crew.ws.ok(["shutdown", "--team", "review"]);
    }
    crew.finish();
}

#[test]
fn the_inbox_of_an_agent_that_was_removed_can_still_be_read() {
    let crew = Crew::started(&["w1", "w2"]);
    crew.ask("w2", "remember me");
    crew.ws.ok(["shutdown"]);
    std::fs::remove_file(crew.ws.path().join(".team/current/agents/w2.md")).expect("it is there");
    crew.ws.ok(["restart", "--headless"]);
    let output = crew.ws.run(["inbox", "w2"]);
    assert!(output.stdout.contains("remember me"), "{}", output.snapshot());
    assert!(output.stderr.contains("w2 was removed at a restart"), "{}", output.snapshot());
    crew.finish();
}

#[test]
fn slips_in_files_are_one_error_each_that_says_what_to_do() {
    let ws = TestWorkspace::new();
    ws.write(".team/current/agents/a.md", "---\nname: a\nrole: Worker\nprovdier: fake\n---\n");
    let output = ws.run(["compile"]);
    assert!(output.stderr.contains("did you mean `provider`?"), "{}", output.snapshot());
    assert!(output.stderr.contains("1 error in 1 file"), "{}", output.snapshot());
    ws.write(
        ".team/current/agents/a.md",
        "---\nname: a\nprovider: fake\ntools:\n\t- fs_read\nrole: Worker\n---\n",
    );
    let output = ws.run(["compile"]);
    assert!(output.stderr.contains("use blanks, not tabs"), "{}", output.snapshot());
    assert!(output.stderr.contains("a.md:5"), "{}", output.snapshot());
    ws.finish();
}

#[test]
fn a_program_that_is_missing_is_named_with_its_agent_and_a_way_to_try_without() {
    let mut ws = TestWorkspace::new();
    ws.ok(["init"]);
    let tmux = ws.path().join("bin");
    std::fs::create_dir_all(&tmux).expect("it can be made");
    let real =
        team_testkit::process::run(ws.command("sh").args(["-c", "command -v tmux"]), SOON).expect("it runs");
    std::os::unix::fs::symlink(real.stdout.trim(), tmux.join("tmux")).expect("it can be linked");
    ws.set("PATH", &tmux);
    let output = ws.run(["quick-start", "--headless"]);
    assert_eq!(output.code, Some(3), "{}", output.snapshot());
    assert!(output.stderr.contains("agent `coder` needs `claude`"), "{}", output.snapshot());
    assert!(
        output.stderr.contains("write `provider: fake` in `.team/current/agents/coder.md`"),
        "{}",
        output.snapshot()
    );
    ws.finish();
}

#[test]
fn explain_says_cause_and_next_step_of_everything_that_has_a_name() {
    let crew = Crew::started(&["w1"]);
    crew.ws.ok(["send", "--watch-result", "w1", "hi", "--wait", "answered", "--timeout", "20"]);
    let text = crew.ws.ok(["explain", "w1"]);
    assert!(
        text.starts_with("w1 is idle, and its turn ended without a report for task 1:\n  team-agent send w1 'Report task 1.'\n"),
        "{text}"
    );
    assert!(text.contains("the turn ended") && text.lines().count() <= 14, "{text}");
    assert!(text.lines().all(|it| it.chars().count() <= 80), "{text}");
    assert!(crew.ws.ok(["explain", "1"]).starts_with("task 1 is open: w1 owes it (hi)"));
    crew.ws.ok(["send", "w1", "fake: report status=failed summary=\"no luck\""]);
    crew.ws.run(["wait", "--task", "1", "--timeout", "20"]);
    let task = crew.ws.ok(["explain", "1"]);
    assert!(task.starts_with("task 1 failed (r-"), "{task}");
    let id = crew.ws.json(["results"])["results"][0]["result_id"].as_str().expect("an id").to_owned();
    assert!(crew.ws.ok(["explain", &id]).contains("w1 reported failed for task 1: no luck"));
    assert!(crew.ws.ok(["explain", "leader"]).starts_with("no leader is bound"));
    crew.control("w1", "exit 3");
    crew.ws.wait_until("it has ended", || crew.ws.ok(["status"]).contains("EXITED"), SOON);
    let text = crew.ws.ok(["explain", "w1"]);
    assert!(text.starts_with("w1 has ended by itself: its program ended with code 3:\n"), "{text}");
    let events = crew.ws.ok(["events"]);
    assert!(events.lines().all(|it| it.chars().count() <= 80), "{events}");
    assert!(
        events.lines().any(|it| it.contains(" w1 ") && it.ends_with("its program ended with code 3")),
        "{events}"
    );
    crew.finish();
}
