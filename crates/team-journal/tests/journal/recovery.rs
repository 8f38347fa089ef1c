use std::fs;

use team_journal::{Error, Finding, Journal};

use crate::support::*;

#[test]
fn an_unfinished_tail_is_set_aside_and_the_next_record_is_whole() {
    let world = World::new();
    append_notes(&world.open(), 1..3);
    let mut bytes = world.bytes();
    bytes.extend_from_slice(b"{\"seq\":4,\"ts\":\"2026-01-01T");
    world.put(&bytes);
    let log = world.open();
    let mut cursor = log.cursor_start().unwrap();
    let mut unfinished = log.read_new(&mut cursor, &mut |_| {}).unwrap().unfinished;
    assert_eq!(unfinished, 26);
    append(&log, vec![note(3)]);
    assert_eq!(kinds(&read(&log, &mut cursor)), ["4 tail 26", "5 note 3"]);
    unfinished = log.read_new(&mut cursor, &mut |_| {}).unwrap().unfinished;
    assert_eq!(unfinished, 0);
    let side = fs::read_dir(world.places().logs.join("set-aside")).unwrap().next().unwrap().unwrap().path();
    assert_eq!(fs::read(side).unwrap(), b"{\"seq\":4,\"ts\":\"2026-01-01T");
    assert!(log.verify().unwrap().is_clean());
}

#[test]
fn a_very_long_unfinished_tail_is_found_too() {
    let world = World::new();
    append_notes(&world.open(), 1..3);
    let mut bytes = world.bytes();
    bytes.extend(std::iter::repeat_n(0, 3 << 20));
    world.put(&bytes);
    let log = world.open();
    append(&log, vec![note(3)]);
    assert_eq!(kinds(&read_all(&log)), ["1 opened", "2 note 1", "3 note 2", "4 tail 3145728", "5 note 3"]);
}

#[test]
fn a_line_that_somebody_added_by_hand_hides_no_record() {
    let world = World::new();
    let log = world.open();
    append_notes(&log, 1..3);
    let mut cursor = log.cursor_start().unwrap();
    let mut bytes = world.bytes();
    bytes.extend_from_slice(b"hello?\n");
    world.put(&bytes);
    // The reader must not pass it: the next record begins in its place.
    assert_eq!(read(&log, &mut cursor).len(), 3);
    append(&world.open(), vec![note(3)]);
    assert_eq!(kinds(&read(&log, &mut cursor)), ["4 tail 7", "5 note 3"]);
}

#[test]
fn damage_in_the_middle_is_stepped_over_and_recorded_once() {
    let world = World::new();
    append_notes(&world.open(), 1..6);
    let text = world.dump();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[2] = "\0\0\0\0 nothing";
    lines[3] = "{\"seq\":4";
    world.put((lines.join("\n") + "\n").as_bytes());
    let expected = ["1 opened", "2 note 1", "5 note 4", "6 note 5"];
    for _ in 0..3 {
        let log = world.open();
        let mut cursor = log.cursor_start().unwrap();
        let report = log.read_new(&mut cursor, &mut |_| {}).unwrap();
        assert_eq!(report.findings, [Finding::Damaged { from: 3, to: 4 }]);
        append(&log, vec![note(9)]);
    }
    let seen = kinds(&read_all(&world.open()));
    assert_eq!(seen[..4], expected);
    assert_eq!(seen[4..], ["7 damaged 3-4", "8 note 9", "9 note 9", "10 note 9"]);
}

#[test]
fn a_changed_past_is_recorded_once() {
    let world = World::new();
    append_notes(&world.open(), 1..6);
    world.put(world.dump().replace("\"id\":3", "\"id\":7").as_bytes());
    for _ in 0..2 {
        let log = world.open();
        let verified = log.verify().unwrap();
        assert_eq!(verified.report.findings, [Finding::Tampered { seq: 4 }]);
        assert_eq!(read_all(&log).len() as u64, verified.report.lines);
        append(&log, vec![note(9)]);
    }
    assert_eq!(kinds(&read_all(&world.open()))[6..], ["7 tampered 4", "8 note 9", "9 note 9"]);
}

#[test]
fn a_changed_last_line_is_noticed_by_the_next_holder() {
    let world = World::new();
    append_notes(&world.open(), 1..3);
    world.put(world.dump().replace("\"id\":2", "\"id\":7777").as_bytes());
    assert!(world.open().verify().unwrap().end_differs);
    append(&world.open(), vec![note(3)]);
    assert_eq!(kinds(&read_all(&world.open()))[3..], ["4 tampered 3", "5 note 3"]);
}

#[test]
fn a_removed_line_is_noticed() {
    let world = World::new();
    append_notes(&world.open(), 1..4);
    let text = world.dump();
    let kept: Vec<&str> = text.lines().filter(|line| !line.contains("\"id\":2")).collect();
    world.put((kept.join("\n") + "\n").as_bytes());
    let findings = world.open().verify().unwrap().report.findings;
    assert_eq!(findings, [Finding::Damaged { from: 3, to: 3 }, Finding::Tampered { seq: 3 }]);
}

#[test]
fn numbers_of_lost_lines_are_not_given_out_again() {
    let world = World::new();
    let reader = world.open();
    append_notes(&world.open(), 1..6);
    let mut behind = reader.cursor_start().unwrap();
    let mut ahead = behind;
    assert_eq!(read(&reader, &mut ahead).len(), 6);
    let text = world.dump();
    let kept: Vec<&str> = text.lines().take(3).collect();
    world.put((kept.join("\n") + "\n").as_bytes());
    append(&world.open(), vec![note(9)]);
    let end = ["7 damaged 4-6", "8 note 9"];
    assert_eq!(kinds(&read(&reader, &mut ahead)), end);
    assert_eq!(kinds(&read(&reader, &mut behind))[3..], end);
    // It is recorded already.
    append(&reader, vec![note(10)]);
    assert_eq!(kinds(&read(&reader, &mut ahead)), ["9 note 10"]);
}

#[test]
fn a_deleted_log_is_restored_from_an_open_descriptor() {
    let world = World::new();
    let log = world.open();
    append_notes(&log, 1..4);
    let mut held = log.hold().unwrap();
    let mut cursor = log.cursor_start().unwrap();
    read(&log, &mut cursor);
    assert!(!log.check_and_restore(&mut held, WAIT).unwrap());
    fs::remove_dir_all(world.path().join("team")).unwrap();
    assert!(log.read_new(&mut cursor, &mut |_| {}).unwrap().deleted);

    let refused = Journal::<String, Event>::open(world.places(), options()).unwrap_err();
    assert_eq!(refused.code(), "log_missing");
    assert!(refused.hint().is_some());
    assert!(!world.places().logs.exists());
    let created = Journal::<String, Event>::create(world.places(), options(), "log-2");
    assert!(matches!(created, Err(Error::LogMissing { .. })));

    assert!(log.check_and_restore(&mut held, WAIT).unwrap());
    assert!(!log.check_and_restore(&mut held, WAIT).unwrap());
    append(&world.open(), vec![note(4)]);
    assert_eq!(kinds(&read(&log, &mut cursor)), ["5 restored", "6 note 4"]);
    assert_eq!(ids(&read_all(&world.open())), [1, 2, 3, 4]);
    assert!(world.open().verify().unwrap().is_clean());
}

#[test]
fn sealed_segments_come_back_with_the_log() {
    let world = World::new();
    let log = world.open_with(|options| options.segment_bytes = 600);
    append_notes(&log, 1..20);
    let mut held = log.hold().unwrap();
    fs::remove_dir_all(&world.places().logs).unwrap();
    assert!(log.check_and_restore(&mut held, WAIT).unwrap());
    assert_eq!(ids(&read_all(&world.open())), (1..20).collect::<Vec<_>>());
    assert!(world.open().verify().unwrap().is_clean());
}

#[test]
fn a_holder_follows_the_log_through_rotations() {
    let world = World::new();
    let log = world.open_with(|options| options.segment_bytes = 400);
    let mut held = log.hold().unwrap();
    append_notes(&log, 1..10);
    assert!(!log.check_and_restore(&mut held, WAIT).unwrap());
    fs::remove_file(world.places().active()).unwrap();
    assert!(log.check_and_restore(&mut held, WAIT).unwrap());
    assert_eq!(ids(&read_all(&world.open())), (1..10).collect::<Vec<_>>());
}

#[test]
fn an_emptied_log_goes_on_behind_what_was_lost() {
    let world = World::new();
    let log = world.open();
    append_notes(&log, 1..3);
    let mut held = log.hold().unwrap();
    let mut cursor = log.cursor_start().unwrap();
    read(&log, &mut cursor);
    log.save_snapshot(&"what was", &cursor, "f").unwrap();
    world.put(b"");
    assert!(log.is_emptied());
    // Whoever only looks knows what was, from the cache.
    let (was, from) = world.open().load_snapshot::<String>("f").unwrap();
    assert_eq!((was.as_str(), from), ("what was", cursor));
    log.check_and_restore(&mut held, WAIT).unwrap();
    assert!(!log.is_emptied());
    append(&world.open(), vec![note(3)]);
    let rest = ["4 opened", "5 damaged 1-3", "6 note 3"];
    assert_eq!(kinds(&read(&log, &mut cursor)), rest);
    assert_eq!(kinds(&read_all(&world.open())), rest);
    let other = world.open();
    let (_, mut from) = other.load_snapshot::<String>("f").unwrap();
    assert_eq!(kinds(&read(&other, &mut from)), rest);
}

#[test]
fn an_emptied_log_is_not_taken_for_a_new_one() {
    let world = World::new();
    append_notes(&world.open(), 1..3);
    world.put(b"");
    append(&world.open(), vec![note(3)]);
    let lines = read_all(&world.open());
    assert_eq!(kinds(&lines), ["4 opened", "5 damaged 1-3", "6 note 3"]);
    assert!(world.dump().contains("\"log_id\":\"log-1\""));
}

#[test]
fn the_log_of_another_workspace_is_refused() {
    let (one, two) = (World::new(), World::empty());
    Journal::<String, Event>::create(two.places(), options(), "log-2").unwrap();
    fs::copy(two.places().active(), one.places().active()).unwrap();
    let refused = Journal::<String, Event>::open(one.places(), options()).unwrap_err();
    assert_eq!(refused.code(), "log_foreign");
}

#[test]
fn a_log_that_comes_without_its_state_is_adopted() {
    let world = World::new();
    append_notes(&world.open(), 1..3);
    fs::remove_dir_all(world.places().state).unwrap();
    append(&world.open(), vec![note(3)]);
    assert_eq!(ids(&read_all(&world.open())), [1, 2, 3]);
    fs::remove_file(world.places().active()).unwrap();
    let refused = Journal::<String, Event>::open(world.places(), options());
    assert!(matches!(refused, Err(Error::LogMissing { .. })));
}

#[test]
fn a_crash_around_the_write_loses_nothing_that_was_acknowledged() {
    for point in ["append:before_write", "append:after_write", "append:before_unlock", "unlock:before"] {
        let world = World::new();
        let dying = world.open_with(|options| options.fail = Some(fail_once(point)));
        append_notes(&world.open(), 1..3);
        let mut guard = dying.lock(WAIT).unwrap();
        let outcome = guard.append(now(), vec![note(3)]).and_then(|_| guard.unlock_and_sync());
        assert!(matches!(outcome, Err(Error::Failpoint(_))), "{point}");
        append(&world.open(), vec![note(4)]);
        append(&dying, vec![note(5)]);
        let lines = read_all(&world.open());
        let seen = ids(&lines);
        assert!(
            seen == [1, 2, 3, 4, 5] || (point == "append:before_write" && seen == [1, 2, 4, 5]),
            "{point}"
        );
        assert!(lines.iter().map(|line| line.seq).eq(1..=lines.len() as u64), "{point}");
        assert!(world.open().verify().unwrap().is_clean(), "{point}");
    }
}
