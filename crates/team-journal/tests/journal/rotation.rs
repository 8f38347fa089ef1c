use team_journal::{Error, Payload as _};

use crate::support::*;

fn small(world: &World) -> Log {
    world.open_with(|options| options.segment_bytes = 600)
}

fn names(world: &World) -> Vec<String> {
    let dir = std::fs::read_dir(world.places().logs).expect("a log directory");
    let mut names: Vec<_> =
        dir.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_full_segment_is_sealed_and_readers_go_on_across_it() {
    let world = World::new();
    let (reader, log) = (world.open(), small(&world));
    let mut cursor = reader.cursor_start().unwrap();
    let mut seen = Vec::new();
    for id in 1..12 {
        append(&log, vec![note(id)]);
        seen.extend(read(&reader, &mut cursor));
    }
    insta::assert_snapshot!(kinds(&seen).join(", "), @"1 opened, 2 note 1, 3 note 2, 4 note 3, 5 sealed, 6 opened, 7 note 4, 8 note 5, 9 note 6, 10 sealed, 11 opened, 12 note 7, 13 note 8, 14 note 9, 15 sealed, 16 opened, 17 note 10, 18 note 11");
    insta::assert_snapshot!(names(&world).join(" "), @"events-1.jsonl events-11.jsonl events-6.jsonl events.jsonl");
    assert_eq!(read_all(&world.open()), seen);
    assert_eq!(cursor, log.lock(WAIT).unwrap().cursor());
    let Event::Opened { log_id, prev_seq, prev_hash, .. } = &seen[5].event else { panic!("no first line") };
    assert_eq!(
        (log_id.as_str(), *prev_seq, prev_hash.as_str()),
        ("log-1", 5, seen[5].prev.to_string().as_str())
    );
    assert!(world.open().verify().unwrap().is_clean());
}

#[test]
fn what_append_returns_includes_the_rotation() {
    let world = World::new();
    let log = small(&world);
    let mut cursor = log.cursor_start().unwrap();
    let mut all = read(&log, &mut cursor);
    for id in 1..12 {
        let lines = append(&log, vec![note(2 * id), note(2 * id + 1)]);
        assert_eq!(ids(&lines[lines.len() - 2..]), [2 * id, 2 * id + 1]);
        all.extend(lines);
    }
    assert_eq!(read_all(&world.open()), all);
}

#[test]
fn a_rotation_that_was_interrupted_anywhere_is_finished_by_the_next_holder() {
    let points = [
        "rotate:before_seal",
        "append:after_write",
        "append:before_unlock",
        "rotate:before_link",
        "rotate:before_rename",
        "rotate:after_rename",
        "rotate:after_create",
    ];
    for point in points {
        let world = World::new();
        append_notes(&world.open(), 1..5);
        let reader = world.open();
        let mut cursor = reader.cursor_start().unwrap();
        let mut seen = read(&reader, &mut cursor);
        let dying = world.open_with(|options| {
            options.segment_bytes = 600;
            options.fail = Some(fail_once(point));
        });
        let mut guard = dying.lock(WAIT).unwrap();
        assert!(matches!(guard.append(now(), vec![note(5)]), Err(Error::Failpoint(_))), "{point}");
        drop(guard);
        seen.extend(read(&reader, &mut cursor));
        // In between, reading and opening work.
        assert_eq!(ids(&read_all(&world.open())), [1, 2, 3, 4], "{point}");
        append(&small(&world), vec![note(6)]);
        append(&dying, vec![note(7)]);
        seen.extend(read(&reader, &mut cursor));
        assert_eq!(ids(&seen), [1, 2, 3, 4, 6, 7], "{point}");
        assert!(seen.iter().map(|line| line.seq).eq(1..=seen.len() as u64), "{point}");
        assert_eq!(names(&world), ["events-1.jsonl", "events.jsonl"], "{point}");
        let verified = world.open().verify().unwrap();
        assert!(verified.is_clean(), "{point}: {verified:?}");
    }
}

#[test]
fn the_same_guard_goes_on_after_a_failed_rotation() {
    let world = World::new();
    append_notes(&world.open(), 1..5);
    let log = world.open_with(|options| {
        options.segment_bytes = 600;
        options.fail = Some(fail_once("rotate:after_rename"));
    });
    let mut guard = log.lock(WAIT).unwrap();
    guard.append(now(), vec![note(5)]).unwrap_err();
    guard.append(now(), vec![note(6)]).unwrap();
    drop(guard);
    assert_eq!(ids(&read_all(&world.open())), [1, 2, 3, 4, 6]);
}

#[test]
fn a_lost_segment_is_damage_and_no_dead_end() {
    let world = World::new();
    let log = small(&world);
    append_notes(&log, 1..20);
    let firsts: Vec<String> = names(&world);
    assert!(firsts.contains(&"events-6.jsonl".to_owned()), "{firsts:?}");
    std::fs::remove_file(world.places().logs.join("events-6.jsonl")).unwrap();
    // The link in the state directory stands in for it.
    assert!(world.open().verify().unwrap().is_clean());
    std::fs::remove_file(world.places().state.join("segments/events-6.jsonl")).unwrap();
    let lines = read_all(&world.open());
    assert!(lines.iter().any(|line| line.seq == 5) && !lines.iter().any(|line| line.seq == 6));
    assert_eq!(ids(&lines).last(), Some(&19));
    assert_eq!(world.open().verify().unwrap().report.findings.len(), 1);
}

#[test]
fn every_line_is_found_by_its_seq() {
    let world = World::new();
    let log = world.open_with(|options| options.segment_bytes = 200_000);
    for id in 0..1500 {
        let long = "x".repeat(usize::try_from(id % 7).unwrap() * 200);
        append(&log, vec![text(id, &long), note(id)]);
    }
    let lines = read_all(&log);
    assert!(names(&world).len() > 3);
    let log = world.open();
    for line in lines.iter().step_by(7).chain(lines.last()) {
        assert_eq!(log.read_seq(line.seq).unwrap().as_ref(), Some(line));
    }
    assert_eq!(log.read_seq(0).unwrap(), None);
    assert_eq!(log.read_seq(lines.len() as u64 + 1).unwrap(), None);
}

#[test]
fn a_broken_seal_does_not_end_the_log() {
    for (from, to) in [("log.sealed", "log.sealee"), ("{\"seq\":5", "#\"seq\":5")] {
        let world = World::new();
        append_notes(&small(&world), 1..12);
        let path = world.places().sealed(1);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace(from, to)).unwrap();
        assert_eq!(ids(&read_all(&world.open())), (1..12).collect::<Vec<_>>());
        assert!(!world.open().verify().unwrap().report.findings.is_empty());
        assert_eq!(world.open().find("n-11").unwrap().len(), 1);
        append(&small(&world), vec![note(12)]);
        assert_eq!(ids(&read_all(&world.open())), (1..13).collect::<Vec<_>>());
    }
}

#[test]
fn reading_goes_on_behind_any_line_across_segments() {
    let world = World::new();
    let log = small(&world);
    for id in 1..12 {
        append(&log, vec![note(2 * id), note(2 * id + 1)]);
    }
    let all = read_all(&world.open());
    for at in 0..all.len() {
        let reader = world.open();
        let mut cursor = reader.cursor_behind(all[at].seq).unwrap();
        assert_eq!(read(&reader, &mut cursor), all[at + 1..], "behind line {}", all[at].seq);
        assert!(reader.verify().unwrap().is_clean());
    }
    let reader = world.open();
    assert_eq!(read(&reader, &mut reader.cursor_behind(0).unwrap()), all);
    assert_eq!(read(&reader, &mut reader.cursor_behind(9999).unwrap()), all);
    let last = all.last().unwrap();
    let keys = last.event.keys();
    let key = keys.first().unwrap();
    assert_eq!(reader.find_since(key, last.seq).unwrap(), std::slice::from_ref(last));
    assert_eq!(reader.find_since(key, 1).unwrap(), reader.find(key).unwrap());
    assert_eq!(reader.find_since(key, last.seq + 1).unwrap(), []);
}

#[test]
fn whoever_lets_the_log_speak_first_knows_the_number_of_the_next_line() {
    let world = World::new();
    let log = world.open_with(|options| options.segment_bytes = 600);
    for step in 0..20 {
        let mut guard = log.lock(WAIT).unwrap();
        guard.write_own_lines(now()).unwrap();
        let expected = guard.cursor().seq + 1;
        let lines = guard.append(now(), vec![note(step), note(step + 1)]).unwrap();
        assert_eq!(lines.iter().map(|it| it.seq).collect::<Vec<_>>(), [expected, expected + 1]);
    }
}
