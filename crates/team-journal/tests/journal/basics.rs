use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::TimeDelta;
use team_journal::{BodyRef, Draft, Error, Holder, Journal, Observed, Options, Redactor, spool};

use crate::support::*;

#[test]
fn lines_are_numbered_and_chained_and_time_never_goes_back() {
    let world = World::new();
    let log = world.open();
    let mut guard = log.lock(WAIT).unwrap();
    guard.append(now() + TimeDelta::microseconds(5_000_900), vec![note(1), note(2)]).unwrap();
    guard.append(now(), vec![note(3)]).unwrap();
    insta::assert_snapshot!(world.dump(), @r#"
    {"seq":1,"ts":"2026-01-01T00:00:00.000Z","v":1,"prev":"0000000000000000","by":"journal","event":{"type":"log.opened","log_id":"log-1","format":1,"prev_seq":0,"prev_hash":"0000000000000000"}}
    {"seq":2,"ts":"2026-01-01T00:00:05.000Z","v":1,"prev":"50c352e503d04bb8","more":1,"team":"current","by":"person","event":{"type":"note.added","id":1,"text":"hello"}}
    {"seq":3,"ts":"2026-01-01T00:00:05.000Z","v":1,"prev":"73b732cd3a44318f","team":"current","by":"person","event":{"type":"note.added","id":2,"text":"hello"}}
    {"seq":4,"ts":"2026-01-01T00:00:05.000Z","v":1,"prev":"f6acef507ca05e91","team":"current","by":"person","event":{"type":"note.added","id":3,"text":"hello"}}
    "#);
}

#[test]
fn what_append_returns_is_what_is_read_later() {
    let world = World::new();
    let log = world.open();
    let mut cursor = log.cursor_start().unwrap();
    assert_eq!(read(&log, &mut cursor).len(), 1);
    let mut guard = log.lock(WAIT).unwrap();
    let mut written = guard.append(now(), vec![note(1), note(2)]).unwrap();
    written.extend(guard.append(now(), vec![note(3)]).unwrap());
    let end = guard.cursor();
    guard.unlock_and_sync().unwrap();
    assert_eq!(read(&world.open(), &mut cursor), written);
    assert_eq!(cursor, end);
    assert_eq!(read(&log, &mut cursor), []);
}

#[test]
fn an_append_is_seen_whole_or_not_at_all() {
    let world = World::new();
    let log = world.open();
    append(&log, vec![note(1)]);
    let before = world.bytes();
    append(&log, vec![note(2), note(3), note(4)]);
    let whole = world.bytes();
    let second = before.len() + whole[before.len()..].iter().position(|byte| *byte == b'\n').unwrap() + 1;
    world.put(&whole[..second]);
    assert_eq!(ids(&read_all(&log)), [1]);
    world.put(&whole);
    assert_eq!(ids(&read_all(&log)), [1, 2, 3, 4]);
}

#[test]
fn reading_where_no_log_is_creates_nothing() {
    let world = World::empty();
    let log = world.open();
    let mut cursor = log.cursor_start().unwrap();
    assert_eq!(read(&log, &mut cursor), []);
    assert_eq!(log.read_seq(1).unwrap(), None);
    assert_eq!(log.find("n-1").unwrap(), []);
    assert!(log.load_snapshot::<u32>("f").is_none());
    assert!(matches!(log.lock(WAIT), Err(Error::NoLog { .. })));
    assert_eq!(fs::read_dir(world.path()).unwrap().count(), 0);
    // Made later by another, it is read without opening anew.
    world.create();
    assert_eq!(kinds(&read(&log, &mut cursor)), ["1 opened"]);
}

#[test]
fn reading_a_log_creates_nothing_either() {
    let world = World::new();
    append_notes(&world.open(), 1..4);
    let list = || {
        let mut names: Vec<_> = [world.places().logs, world.places().state.join("locks")]
            .iter()
            .flat_map(|dir| fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()))
            .collect();
        names.sort();
        names
    };
    let before = list();
    let log = world.open();
    assert_eq!(log.find("n-2").unwrap().len(), 1);
    assert_eq!(read_all(&log).len(), 4);
    assert_eq!(list(), before);
    assert!(!world.places().cache.exists());
}

#[test]
fn a_log_is_made_only_once() {
    let world = World::new();
    let again = Journal::<String, Event>::create(world.places(), options(), "log-2");
    assert!(matches!(again, Err(Error::Exists { .. })));
    assert_eq!(world.open().log_id().as_deref(), Some("log-1"));
}

#[test]
fn a_busy_lock_names_its_holder() {
    let world = World::new();
    let log = world.open();
    let other = world.open();
    let guard = log.lock(WAIT).unwrap();
    let error = other.lock(Duration::from_millis(5)).unwrap_err();
    let pid = std::process::id();
    assert!(error.to_string().ends_with(&format!("held by `the test` (pid {pid})")), "{error}");
    assert_eq!(error.code(), "log_busy");
    let Error::Busy { holder, waited } = error else { panic!("another error") };
    assert_eq!(holder, Holder { pid: Some(pid), what: "the test".into() });
    assert!(waited >= Duration::from_millis(5));
    drop(guard);
    other.lock(Duration::ZERO).unwrap();
}

#[test]
fn an_observation_that_cannot_wait_is_taken_in_by_the_next_holder() {
    let world = World::new();
    let log = world.open();
    let guard = log.lock(WAIT).unwrap();
    let other = world.open();
    for id in 1..4 {
        let observed = other.observe(now(), vec![note(id), note(id + 10)], Duration::ZERO).unwrap();
        assert_eq!(observed, Observed::Spooled);
    }
    drop(guard);
    let observed = other.observe(now(), vec![note(4)], Duration::ZERO).unwrap();
    assert!(matches!(observed, Observed::Appended(lines) if lines[0].seq == 8));
    assert_eq!(ids(&read_all(&log)), [1, 11, 2, 12, 3, 13, 4]);
    assert_eq!(fs::read_dir(world.places().state.join("spool")).unwrap().count(), 0);
}

#[test]
fn a_spooled_observation_is_taken_in_once_whatever_crashes() {
    for point in ["spool:before_append", "append:before_write", "append:after_write", "spool:before_remove"] {
        let world = World::new();
        let options = options();
        spool(&world.places(), &options, now(), &[note(1), note(2)]).unwrap();
        let dying = world.open_with(|options| options.fail = Some(fail_once(point)));
        assert!(matches!(dying.lock(WAIT), Err(Error::Failpoint(_))), "{point}");
        drop(world.open().lock(WAIT).unwrap());
        assert_eq!(ids(&read_all(&world.open())), [1, 2], "{point}");
    }
}

#[test]
fn a_spooled_event_of_a_newer_program_is_kept_as_it_is() {
    let world = World::new();
    let draft = Draft {
        team: None,
        by: serde_json::json!({"kind": "newer"}),
        event: serde_json::json!({"type": "later.invented", "n": 1}),
    };
    spool(&world.places(), &Options::new(serde_json::Value::Null), now(), &[draft]).unwrap();
    fs::write(world.places().state.join("spool/0.json"), "no json").unwrap();
    drop(world.open().lock(WAIT).unwrap());
    let kept = "\"by\":{\"kind\":\"newer\"},\"event\":{\"n\":1,\"type\":\"later.invented\"}}\n";
    assert!(world.dump().ends_with(kept), "{}", world.dump());
    assert!(world.places().state.join("spool/0.bad").exists());
}

#[test]
fn only_the_journal_states_its_own_facts() {
    let world = World::new();
    let log = world.open();
    let draft = || Draft { event: Event::Sealed { last_seq: 1 }, ..note(1) };
    assert!(matches!(log.lock(WAIT).unwrap().append(now(), vec![draft()]), Err(Error::Reserved)));
    assert!(matches!(log.observe(now(), vec![draft()], WAIT), Err(Error::Reserved)));
}

#[test]
fn a_newer_format_is_refused_and_left_alone() {
    let world = World::new();
    let newer = world.open_with(|options| options.version = 3);
    append_notes(&newer, 1..2);
    let mut bytes = world.bytes();
    bytes.extend_from_slice(b"{\"seq\":4,\"torn");
    world.put(&bytes);
    let log = world.open();
    let error = log.lock(WAIT).unwrap_err();
    assert_eq!(error.to_string(), "the log has format 3, this program knows up to 1");
    let mut cursor = log.cursor_start().unwrap();
    assert!(matches!(log.read_new(&mut cursor, &mut |_| {}), Err(Error::Newer { found: 3, known: 1 })));
    assert_eq!(cursor.seq, 1);
    assert_eq!(world.bytes(), bytes);
    // The newer program reads on, and what it does not know of the other way round is no obstacle.
    assert_eq!(kinds(&read_all(&newer)), ["1 opened", "2 note 1"]);
}

#[test]
fn secrets_reach_neither_lines_nor_bodies_nor_the_spool() {
    let world = World::new();
    let secret = "s3cr\"et\\value";
    let log = world.open_with(|options| options.redactor = Redactor::standard().with_literals([secret]));
    let said = format!("key {secret} and sk-test-0123456789abcdef");
    let lines = append(&log, vec![text(1, &said)]);
    let body = log.put_body(&said).unwrap();
    let guard = log.lock(WAIT).unwrap();
    log.observe(now(), vec![text(2, &said)], Duration::ZERO).unwrap();
    let spooled = fs::read_dir(world.places().state.join("spool")).unwrap().next().unwrap().unwrap().path();
    let spooled = fs::read_to_string(spooled).unwrap();
    drop(guard);
    drop(log.lock(WAIT).unwrap());
    assert_eq!(lines[0].event, Event::Noted { id: 1, text: "key [redacted] and [redacted]".into() });
    assert_eq!(read_all(&world.open())[1], lines[0]);
    assert_eq!(log.get_body(&body).unwrap(), "key [redacted] and [redacted]");
    for text in [world.dump(), spooled] {
        assert!(!text.contains("s3cr") && !text.contains("0123456789abcdef"), "{text}");
    }
}

#[test]
fn a_body_comes_back_or_is_refused() {
    let world = World::new();
    let log = world.open();
    let long = "long ".repeat(10_000);
    let body = log.put_body(&long).unwrap();
    assert_eq!(log.put_body(&long).unwrap(), body);
    assert_eq!(log.get_body(&body).unwrap(), long);
    let path = world.places().bodies().join(&body.sha256);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&path, "forged").unwrap();
    assert!(matches!(log.get_body(&body), Err(Error::BodyChanged { .. })));
    log.put_body(&long).unwrap();
    assert_eq!(log.get_body(&body).unwrap(), long);
    let outside = BodyRef { sha256: "../events.jsonl".into(), bytes: 1 };
    assert!(matches!(log.get_body(&outside), Err(Error::BodyChanged { .. })));
}

#[test]
fn the_journals_own_lines_follow_the_given_clock() {
    let world = World::new();
    let seconds = Arc::new(AtomicI64::new(60));
    let told = Arc::clone(&seconds);
    let log = world.open_with(|options| {
        options.clock = Arc::new(move || now() + TimeDelta::seconds(told.load(Ordering::Relaxed)));
    });
    let mut bytes = world.bytes();
    bytes.extend_from_slice(b"torn");
    world.put(&bytes);
    drop(log.lock(WAIT).unwrap());
    let lines = read_all(&log);
    assert_eq!(lines[1].ts, now() + TimeDelta::seconds(60));
}

#[test]
fn a_spool_that_was_empty_for_long_is_still_looked_after() {
    let world = World::new();
    let (log, other) = (world.open(), world.open());
    let long_ago = std::time::SystemTime::now() - Duration::from_secs(60);
    fs::File::open(world.places().state.join("spool")).unwrap().set_modified(long_ago).unwrap();
    for id in 1..4 {
        // Twice: the first look remembers that it is empty, the second relies on it.
        drop(log.lock(WAIT).unwrap());
        let guard = log.lock(WAIT).unwrap();
        assert_eq!(other.observe(now(), vec![note(id)], Duration::ZERO).unwrap(), Observed::Spooled);
        drop(guard);
        drop(log.lock(WAIT).unwrap());
        assert_eq!(ids(&read_all(&log)).last(), Some(&id));
    }
}
