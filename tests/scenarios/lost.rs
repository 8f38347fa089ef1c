//! What came back or may be lost: messages, an agent's memory, and what nobody can tell.

use serde_json::Value;
use team_scenarios::{Crew, SOON};

fn receipt(crew: &Crew, id: &str) -> Value {
    let inbox = crew.ws.json(["inbox", "w1"]);
    let entries = inbox["messages"].as_array().expect("an inbox has messages");
    entries.iter().find(|it| it["message_id"] == id).expect("it was sent")["receipt"].clone()
}

fn wait_for_step(crew: &Crew, id: &str, step: &str) {
    crew.ws.wait_until(&format!("{id} is {step}"), || receipt(crew, id)["step"] == step, SOON);
}

fn send(crew: &Crew, text: &str, step: &str) -> String {
    let sent = crew.ws.json(["send", "w1", text, "--wait", step, "--timeout", "20"]);
    sent["message_id"].as_str().expect("it was accepted").to_owned()
}

#[test]
fn a_text_that_an_interrupt_puts_back_is_returned_and_sent_anew_on_demand() {
    let crew = Crew::started(&["w1"]);
    let id = send(&crew, "fake: think 1500", "turn_started");
    crew.control("w1", "escape");
    wait_for_step(&crew, &id, "returned");
    assert_eq!(receipt(&crew, &id)["reason"], "interrupted");
    let command = format!("team-agent send --again {id}");
    let text = crew.ws.ok(["status"]);
    assert!(text.lines().any(|it| it.trim() == command), "{text}");
    assert!(crew.ws.ok(["explain", &id]).contains(&command));
    // The text stands in the box: nothing goes there before a person has emptied it.
    crew.ws.ok(["send", "--again", &id, "--wait", "accepted"]);
    crew.ws.wait_until("it is held", || receipt(&crew, &id)["reason"] == "draft", SOON);
    assert_eq!(crew.texts("w1").len(), 1);
    crew.control("w1", "escape\nescape");
    wait_for_step(&crew, &id, "answered");
    assert_eq!(receipt(&crew, &id)["attempts"], 2);
    assert_eq!(crew.texts("w1").len(), 2);
    let again = crew.ws.json(["send", "--again", &id]);
    assert_eq!(again["error"]["code"], "nothing_to_repeat", "{again}");
    crew.finish();
}

#[test]
fn what_nobody_knows_is_sent_anew_only_by_its_sender_or_a_person() {
    let crew = Crew::started(&["w1", "w2"]);
    crew.control("w1", "hooks off\nwrite-transcript off");
    let id = send(&crew, "are you there?", "accepted");
    wait_for_step(&crew, &id, "unknown");
    crew.control("w1", "hooks on\nwrite-transcript on");
    assert_eq!(crew.texts("w1").len(), 1, "nothing is sent twice by itself");
    let (said, code) = crew.shell("w2", &format!("team-agent send --again {id} --json"));
    assert!(code == 1 && said.contains("not_allowed"), "{said}");
    crew.ws.ok(["send", "--again", &id, "--wait", "answered", "--timeout", "20"]);
    assert_eq!(receipt(&crew, &id)["attempts"], 2);
    assert_eq!(crew.events_of("message.again").len(), 1);
    crew.finish();
}

// Case 101.
#[test]
fn after_a_compaction_an_agent_is_told_once_who_it_is_and_what_it_owes() {
    let crew = Crew::started(&["w1"]);
    let brief = "repair the parser\nfake: say later";
    crew.ws.ok(["send", "w1", brief, "--watch-result", "--wait", "answered", "--timeout", "20"]);
    crew.wait_for_activity("w1", "idle");
    let told = || -> Vec<String> {
        let events = crew.fake_events("w1").into_iter();
        let texts = events.filter(|it| it["event"] == "context").map(|it| it["text"].to_string());
        texts.filter(|it| it.contains("shortened")).collect()
    };
    assert!(told().is_empty());
    for times in 1..=2 {
        crew.control("w1", "compact");
        crew.ws.wait_until("it is told", || told().len() == times, SOON);
        crew.wait_for_activity("w1", "idle");
    }
    let text = &told()[0];
    for part in ["`w1` (Worker)", "team `crew`", "task 1", "repair the parser", "report_result", "Work."] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(crew.status()["agents"]["w1"]["owes"][0]["task"], "1");
    crew.finish();
}

#[test]
fn what_nothing_proves_is_unknown_and_written_down_once_for_each_reason() {
    let crew = Crew::started(&["w1"]);
    for _ in 0..2 {
        crew.control("w1", "dialog custom Pick one|Yes|No");
        crew.wait_for_activity("w1", "unknown");
        crew.control("w1", "close-dialog");
        crew.wait_for_activity("w1", "idle");
    }
    let lines = crew.events_of("provider.classify.unsupported");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0]["event"]["reason"].is_string());
    crew.finish();
}

// Case 076.
#[test]
fn a_leader_hears_of_a_limit_once_and_collect_says_it_too() {
    let crew = Crew::started(&["w1"]);
    crew.control("w1", "limit");
    for _ in 0..2 {
        // A person tries by hand.
        crew.control("w1", "submit are you back?");
        crew.wait_for_activity("w1", "limited");
        crew.ws.wait_until("the dialog shows", || shows(&crew, "wait for limit to reset"), SOON);
        crew.control("w1", "close-dialog");
    }
    crew.ws.wait_until("both failed", || crew.events_of("turn.ended").len() == 2, SOON);
    crew.wait_for_activity("w1", "limited");
    assert_eq!(crew.status()["leader"]["untold"], 1);
    let waiting = crew.ws.json(["collect"])["waiting"].clone();
    assert_eq!(waiting[0]["kind"], "limited", "{waiting}");
    let id = send(&crew, "for later", "accepted");
    crew.ws.wait_until("it is held", || receipt(&crew, &id)["reason"] == "limited", SOON);
    assert!(crew.ws.ok(["status"]).contains("LIMITED w1"));
    crew.finish();
}

fn shows(crew: &Crew, text: &str) -> bool {
    crew.tmux(&["capture-pane", "-p", "-t", &crew.pane("w1")]).contains(text)
}
