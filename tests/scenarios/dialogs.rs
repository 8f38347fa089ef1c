//! What stands between a message and an idle program: dialogs, drafts, persons, modes of the terminal.

use serde_json::Value;
use team_scenarios::{Crew, SOON};
use team_testkit::TestPane;

/// Sends a text that is expected to wait, and checks for what.
#[track_caller]
fn is_held(crew: &Crew, text: &str, reason: &str) {
    crew.ws.json(["send", "w1", text, "--wait", "accepted"]);
    crew.ws.wait_until(&format!("`{text}` is held: {reason}"), || held(crew) == reason, SOON);
}

/// The one reason for which messages to `w1` wait.
fn held(crew: &Crew) -> String {
    let reasons = crew.status()["agents"]["w1"]["held"].clone();
    let names: Vec<String> = reasons.as_object().map(|it| it.keys().cloned().collect()).unwrap_or_default();
    names.join(" ")
}

/// The texts of `w1` that came from the team.
fn from_team(crew: &Crew) -> Vec<String> {
    crew.texts("w1").into_iter().filter(|it| it.starts_with("[Team message")).collect()
}

fn shows(crew: &Crew, text: &str) -> bool {
    crew.tmux(&["capture-pane", "-p", "-t", &crew.pane("w1")]).contains(text)
}

fn enters(crew: &Crew) -> usize {
    crew.bytes("w1").split(|it| *it == b'\r').count() - 1
}

fn seen(crew: &Crew, event: &str) -> Vec<Value> {
    crew.fake_events("w1").into_iter().filter(|it| it["event"] == event).collect()
}

// Case 024.
#[test]
fn a_message_leaves_copy_mode_and_arrives_whole() {
    let crew = Crew::started(&["w1"]);
    let lines: Vec<String> = (0..80).map(|it| format!("say line {it}")).collect();
    crew.control("w1", &lines.join("\n"));
    let pane = crew.pane("w1");
    for text in ["one\ntwo", "three\nfour"] {
        crew.tmux(&["copy-mode", "-t", &pane, ";", "send-keys", "-X", "-t", &pane, "scroll-up"]);
        assert_eq!(crew.tmux(&["display-message", "-p", "-t", &pane, "#{pane_in_mode}"]).trim(), "1");
        crew.ask("w1", text);
    }
    let texts = from_team(&crew);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].ends_with("\none\ntwo") && texts[1].ends_with("\nthree\nfour"), "{texts:?}");
    crew.finish();
}

// Case 025.
#[test]
fn a_persons_half_typed_line_is_left_alone_until_it_is_gone() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "draft do not de");
    crew.ws.wait_until("the draft shows", || shows(&crew, "do not de"), SOON);
    let bytes = crew.bytes("w1");
    is_held(&crew, "for later", "draft");
    crew.ws.ok(["status"]);
    assert_eq!(crew.bytes("w1"), bytes, "no byte was typed");
    assert!(shows(&crew, "do not de"));
    crew.control("w1", "escape\nescape");
    crew.wait_for_text("w1", "for later");
    crew.wait_for_activity("w1", "idle");
    assert_eq!(crew.texts("w1").len(), 1, "{:?}", crew.texts("w1"));
    assert!(!crew.texts("w1")[0].contains("do not de"));
    crew.finish();
}

// Case 025.
#[test]
fn a_line_that_a_person_sends_goes_first_and_as_it_is() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "draft my own words");
    crew.ws.wait_until("the draft shows", || shows(&crew, "my own words"), SOON);
    is_held(&crew, "for later", "draft");
    crew.control("w1", "enter");
    crew.wait_for_text("w1", "for later");
    let texts = crew.texts("w1");
    assert_eq!(texts[0], "my own words");
    assert_eq!(texts.len(), 2, "{texts:?}");
    crew.finish();
}

// Case 027.
#[test]
fn a_faint_hint_in_the_box_is_no_draft() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "placeholder Do something else that nobody typed");
    crew.ws.wait_until("the hint shows", || shows(&crew, "nobody typed"), SOON);
    crew.ask("w1", "hello");
    assert_eq!(from_team(&crew).len(), 1);
    assert!(!from_team(&crew)[0].contains("nobody typed"));
    crew.finish();
}

// Case 029.
#[test]
fn no_key_goes_to_a_permission_question() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "dialog perm");
    crew.wait_for_activity("w1", "awaiting_approval");
    let bytes = crew.bytes("w1");
    is_held(&crew, "go on", "dialog");
    assert!(crew.ws.ok(["status"]).contains("AWAITING_APPROVAL"));
    assert_eq!(crew.bytes("w1"), bytes, "no byte was typed");
    assert!(seen(&crew, "dialog_answered").is_empty());
    assert_eq!(crew.status()["leader"]["untold"], 1, "the leader is told once");
    crew.control("w1", "close-dialog");
    crew.wait_for_text("w1", "go on");
    crew.wait_for_activity("w1", "idle");
    assert_eq!(from_team(&crew).len(), 1);
    assert_eq!(crew.status()["leader"]["untold"], 0, "what was answered is no news");
    crew.finish();
}

// Case 029, for a dialog that only the screen shows.
#[test]
fn no_key_goes_to_a_dialog_that_nothing_announces() {
    let crew = Crew::started(&["w1"]);
    for (kind, text) in
        [("perm quiet", "first"), ("limit quiet", "second"), ("custom Pick one|Yes|No", "third")]
    {
        crew.control("w1", &format!("dialog {kind}"));
        crew.ws.wait_until(
            "the dialog shows",
            || !seen(&crew, "dialog").is_empty() && !shows(&crew, "❯ \n"),
            SOON,
        );
        let bytes = crew.bytes("w1");
        is_held(&crew, text, "dialog");
        assert_eq!(crew.bytes("w1"), bytes, "no byte was typed");
        crew.control("w1", "close-dialog");
        crew.wait_for_text("w1", text);
        crew.wait_for_activity("w1", "idle");
    }
    assert!(seen(&crew, "dialog_answered").is_empty(), "{:?}", seen(&crew, "dialog_answered"));
    assert!(seen(&crew, "paste_discarded").is_empty());
    assert_eq!(from_team(&crew).len(), 3, "{:?}", from_team(&crew));
    crew.finish();
}

// A receipt that is late is no reason to press a key.
#[test]
fn a_dialog_that_opens_right_after_enter_gets_no_second_key() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "late-receipt 3000\ndialog-after-enter 200");
    let sent = crew.ws.json(["send", "w1", "ask me", "--wait", "submitted", "--timeout", "30"]);
    assert_eq!(sent["reached"], true, "{sent}");
    assert_eq!(seen(&crew, "dialog").len(), 1);
    assert_eq!(enters(&crew), 1);
    assert!(seen(&crew, "dialog_answered").is_empty());
    let bytes = crew.bytes("w1");
    is_held(&crew, "and more", "dialog");
    assert_eq!(crew.bytes("w1"), bytes);
    crew.control("w1", "dialog-after-enter off\nlate-receipt 0\nclose-dialog");
    crew.wait_for_text("w1", "and more");
    assert_eq!(from_team(&crew).len(), 2);
    crew.finish();
}

#[test]
fn a_message_to_a_busy_agent_waits_and_comes_once() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "busy 600");
    crew.wait_for_activity("w1", "working");
    let bytes = crew.bytes("w1");
    is_held(&crew, "when you have time", "busy");
    let again = crew.ws.json(["send", "w1", "when you have time", "--wait", "submitted", "--timeout", "0.3"]);
    assert_eq!(again["receivers"][0]["receipt"]["reason"], "busy", "{again}");
    assert_eq!(crew.bytes("w1"), bytes, "no byte was typed");
    crew.control("w1", "idle");
    crew.wait_for_text("w1", "when you have time");
    crew.wait_for_activity("w1", "idle");
    let ids: Vec<String> = from_team(&crew)
        .iter()
        .flat_map(|it| it.lines().filter(|it| it.starts_with("(id ")).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert_eq!(ids.len(), 2, "{ids:?}");
    crew.finish();
}

#[test]
fn a_person_who_may_type_holds_messages_until_they_have_left() {
    let crew = Crew::started(&["w1"]);
    {
        let person = TestPane::open(&crew.ws, &["team-agent", "attach", "w1", "--type"]);
        person.wait_for("❯", SOON);
        is_held(&crew, "while you look", "person");
        person.type_text("half a li");
        crew.ws.wait_until("it shows", || shows(&crew, "half a li"), SOON);
        assert_eq!(from_team(&crew).len(), 0);
        person.keys(&["C-b", "d"]);
        crew.ws.wait_until("they have left", || person.exit_code() == Some(0), SOON);
    }
    // What they left behind is theirs, too.
    crew.ws.wait_until("the draft holds it", || held(&crew) == "draft", SOON);
    crew.control("w1", "escape\nescape");
    crew.wait_for_text("w1", "while you look");
    assert_eq!(crew.texts("w1").len(), 1, "{:?}", crew.texts("w1"));
    crew.finish();
}

#[test]
fn a_person_who_only_looks_holds_nothing() {
    let crew = Crew::started(&["w1"]);
    {
        let person = TestPane::open(&crew.ws, &["team-agent", "attach", "w1"]);
        person.wait_for("❯", SOON);
        person.type_text("nobody hears this");
        crew.ask("w1", "hello");
        assert_eq!(crew.texts("w1").len(), 1, "{:?}", crew.texts("w1"));
        assert!(!crew.texts("w1")[0].contains("nobody hears"));
        person.keys(&["C-b", "d"]);
        crew.ws.wait_until("they have left", || person.exit_code() == Some(0), SOON);
    }
    crew.finish();
}

// Case 038.
#[test]
fn a_window_that_somebody_made_small_is_no_obstacle() {
    let crew = Crew::started(&["w1"]);
    let pane = crew.pane("w1");
    crew.tmux(&["resize-window", "-t", &pane, "-x", "20", "-y", "5"]);
    is_held(&crew, "small", "mode");
    crew.tmux(&["resize-window", "-t", &pane, "-x", "200", "-y", "50"]);
    crew.wait_for_text("w1", "small");
    assert_eq!(from_team(&crew).len(), 1);
    crew.finish();
}

#[test]
fn a_question_that_is_closed_before_its_dialog_is_drawn_is_closed() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "dialog perm");
    // The hook tells of it at once; the dialog comes only when the hook has not answered for a while.
    crew.ws.wait_for_event(|it| it["event"]["type"] == "approval.requested", SOON);
    crew.control("w1", "close-dialog");
    crew.ask("w1", "go on");
    assert_eq!(crew.activity("w1"), "idle");
    crew.finish();
}
