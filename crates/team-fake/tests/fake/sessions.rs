//! Sessions: new, resumed, forked, refused; what a restart must not repeat.

use serde_json::json;

use crate::support::{World, json_lines};

const ID: &str = "11111111-1111-4111-8111-111111111111";
const FORK: &str = "22222222-2222-4222-8222-222222222222";

fn one_turn(world: &World, args: &[&str], text: &str) -> std::path::PathBuf {
    let mut fake = world.start_with(args).ready();
    assert_eq!(fake.session(), ID);
    let transcript = fake.status().unwrap()["transcript"].as_str().unwrap().into();
    assert!(args[0] != "--session-id" || fake.transcript().is_empty());
    fake.send(format!("{text}\r").as_bytes());
    let turns = fake.kinds().iter().filter(|it| *it == "turn_duration").count();
    fake.until_turns(turns.max(1));
    fake.send(b"/exit\r");
    assert_eq!(fake.ended(), 0);
    transcript
}

#[test]
fn a_resumed_session_knows_its_texts_and_appends_to_its_file() {
    let world = World::new();
    let path = one_turn(&world, &["--session-id", ID], "the word is swordfish");
    let before = std::fs::read_to_string(&path).unwrap();
    let mut fake = world.start_with(&["--resume", ID]).ready();
    assert_eq!(fake.session(), ID);
    fake.send(b"fake: recall 1\r");
    fake.until_turns(2);
    assert_eq!(fake.last_answer(), "the word is swordfish");
    assert!(std::fs::read_to_string(&path).unwrap().starts_with(&before));
    drop(fake);
    let by_path = world.start_with(&["--resume", path.to_str().unwrap()]).ready();
    assert_eq!(by_path.session(), ID);
}

#[test]
fn a_session_id_is_used_once_it_has_a_transcript() {
    let world = World::new();
    let mut empty = world.start_with(&["--session-id", ID]).ready();
    empty.send(b"/exit\r");
    assert_eq!(empty.ended(), 0);
    one_turn(&world, &["--session-id", ID], "hello");
    let mut again = world.start_with(&["--session-id", ID]);
    assert_eq!(again.ended(), 1);
    again.until_shown("is already in use");
    let mut unknown = world.start_with(&["--resume", FORK]);
    assert_eq!(unknown.ended(), 1);
    unknown.until_shown("No conversation found with session ID");
}

#[test]
fn a_fork_copies_at_its_first_prompt_and_leaves_the_source_alone() {
    let world = World::new();
    let path = one_turn(&world, &["--session-id", ID], "the word is swordfish");
    let before = std::fs::read_to_string(&path).unwrap();
    let world = {
        let (start, prompt) = (world.recording("starts", ""), world.recording("prompts", ""));
        world.settings(json!({"hooks": {"SessionStart": start, "UserPromptSubmit": prompt}}))
    };
    let mut fake = world.start_with(&["--resume", ID, "--fork-session", "--session-id", FORK]).ready();
    assert_eq!(fake.session(), FORK);
    assert!(fake.transcript().is_empty());
    fake.send(b"fake: recall 1\r");
    fake.until_turns(2);
    assert_eq!(fake.last_answer(), "the word is swordfish");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), before);
    assert!(fake.transcript().iter().all(|it| it["sessionId"] == FORK));
    assert_eq!(world.lines("starts")[0]["session_id"], ID);
    assert_eq!(world.lines("prompts")[0]["session_id"], FORK);
    assert_eq!(json_lines(&path).len() + 3, fake.transcript().len());
}

#[test]
fn a_word_that_is_no_session_opens_the_picker() {
    let world = World::new();
    let mut fake = world.start_with(&["--resume", "yesterday"]);
    fake.until_shown("Resume session");
    assert_eq!(fake.status(), None);
    fake.send(b"\x1b");
    assert_eq!(fake.ended(), 1);
}

#[test]
fn a_control_line_is_not_obeyed_again_by_the_next_process() {
    let world = World::new();
    let mut fake = world.start().ready();
    fake.control("exit 7");
    assert_eq!(fake.ended(), 7);
    let fake = world.start().ready();
    fake.control("submit hello");
    fake.until_turns(1);
    assert_eq!(fake.submitted(), ["hello"]);
}

#[test]
fn clear_goes_on_under_a_new_id() {
    let world = World::new();
    let mut fake = world.start().ready();
    let before = fake.session().to_owned();
    fake.send(b"/clear\r");
    let after = fake.until(|it| it.status().filter(|it| it["sessionId"] != before.as_str()));
    assert!(after["transcript"].as_str().unwrap().contains(after["sessionId"].as_str().unwrap()));
}

#[test]
fn a_transcript_can_be_switched_off() {
    let world = World::new().script("write-transcript off");
    let mut fake = world.start().ready();
    fake.send(b"hello\r");
    fake.until(|it| {
        it.events().iter().any(|it| it["event"] == "status" && it["status"] == "busy").then_some(())
    });
    fake.until_status("idle");
    assert_eq!((fake.submitted().len(), fake.transcript().len()), (1, 0));
}

#[test]
fn the_environment_and_the_arguments_are_logged_without_values() {
    let world = World::new();
    let fake = world.start_with(&["--model", "m-1"]).ready();
    let start = fake.event("start").unwrap();
    let argv: Vec<&str> = start["argv"].as_array().unwrap().iter().filter_map(|it| it.as_str()).collect();
    assert_eq!(argv[1..], ["--model", "m-1"]);
    assert!(start["env_names"].as_array().unwrap().contains(&json!("SECRET_OF_THE_PARENT")));
}
