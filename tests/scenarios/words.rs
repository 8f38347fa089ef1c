//! What a person reads during one session, from the start to the end.

#![expect(clippy::format_push_string, reason = "a test reads better so")]

use team_scenarios::Crew;
use team_testkit::normal::renumber;

#[test]
fn a_session_reads_like_this() {
    let crew = Crew::written(&["coder"]);
    let mut shown = String::new();
    let mut run = |words: &[&str]| {
        let output = crew.ws.run(words);
        assert_eq!(output.code, Some(0), "{words:?}: {}", output.snapshot());
        // What comes live on the way is not the same each time.
        let said = if words[0] == "quick-start" || words[0] == "restart" { "" } else { &output.stderr };
        let words: Vec<_> = words
            .iter()
            .map(|it| if it.contains("boats") { "TASK" } else { it.trim_end_matches('\u{7}') })
            .collect();
        shown += &format!("$ team-agent {}\n{}{}", words.join(" "), output.stdout, said);
    };
    run(&["quick-start", "--headless"]);
    let task = "Count the boats.\nfake: report status=partial summary=\"three of four\" json={\"tests\":[{\"command\":\"make test\",\"status\":\"failed\",\"note\":\"no wind\"}],\"changes\":[\"boats.txt\"],\"risks\":[\"rain\"]}";
    run(&["send", "--watch-result", "coder", task, "--wait", "answered", "--timeout", "20"]);
    run(&["wait", "--task", "1", "--timeout", "20"]);
    run(&["wait", "--idle", "coder", "--timeout", "20"]);
    run(&["status"]);
    run(&["collect"]);
    run(&["collect"]);
    run(&["results", "--case", "1"]);
    run(&["inbox", "coder"]);
    run(&["send", "coder", "thanks\u{7}", "--id", "thanks-1", "--wait", "answered", "--timeout", "20"]);
    run(&["send", "coder", "thanks\u{7}", "--id", "thanks-1"]);
    run(&["shutdown"]);
    run(&["shutdown"]);
    run(&["restart", "--headless"]);
    run(&["shutdown"]);
    run(&["delete", "crew", "--confirm"]);
    let shown = renumber(&crew.ws.normalise(&shown));
    for part in [
        "ready: current (1 agent), every agent is proved able to take a message",
        "    three of four",
        "    test failed: make test",
        "    changed: boats.txt",
        "    risk: rain",
        "thanks-1 to coder: answered",
        "1 control character was removed",
        "it was sent before under this id; nothing was sent again",
        "Team current is stopped: coder.",
        "Team current was stopped already.",
        "Team current is forgotten. What stays:",
    ] {
        assert!(shown.contains(part), "`{part}` is not in:\n{shown}");
    }
    crew.finish();
}
