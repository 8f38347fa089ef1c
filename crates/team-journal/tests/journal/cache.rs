use std::fs;

use serde::{Deserialize, Serialize};

use crate::support::*;

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Fold {
    lines: u64,
    sum: u64,
}

impl Fold {
    fn apply(&mut self, line: &Written) {
        self.lines += 1;
        if let Event::Noted { id, .. } = &line.event {
            self.sum = self.sum.wrapping_mul(31).wrapping_add(*id);
        }
    }
}

fn fold_all(log: &Log) -> (Fold, team_journal::Cursor) {
    let mut cursor = log.cursor_start().expect("a start");
    let mut fold = Fold::default();
    log.read_new(&mut cursor, &mut |line| fold.apply(line)).expect("a reading");
    (fold, cursor)
}

#[test]
fn a_snapshot_and_the_rest_make_the_whole_also_across_rotation() {
    let world = World::new();
    let log = world.open_with(|options| options.segment_bytes = 700);
    for step in 0..25 {
        let (fold, cursor) = fold_all(&log);
        log.save_snapshot(&fold, &cursor, "fold-1").unwrap();
        append_notes(&log, step * 3..step * 3 + 1 + step % 3);
        let fresh = world.open();
        let (mut fold, mut cursor) = fresh.load_snapshot::<Fold>("fold-1").expect("a valid snapshot");
        fresh.read_new(&mut cursor, &mut |line| fold.apply(line)).unwrap();
        assert_eq!((fold, cursor), fold_all(&fresh));
    }
}

#[test]
fn a_snapshot_right_behind_a_seal_is_valid() {
    let world = World::new();
    append_notes(&world.open(), 1..5);
    let dying = world.open_with(|options| {
        options.segment_bytes = 600;
        options.fail = Some(fail_once("rotate:before_link"));
    });
    dying.lock(WAIT).unwrap().append(now(), vec![note(5)]).unwrap_err();
    let log = world.open();
    let (fold, cursor) = fold_all(&log);
    assert_eq!((cursor.segment, cursor.offset), (7, 0));
    append(&log, vec![note(6)]);
    log.save_snapshot(&fold, &cursor, "f").unwrap();
    let (mut fold, mut cursor) = world.open().load_snapshot::<Fold>("f").expect("a valid snapshot");
    log.read_new(&mut cursor, &mut |line| fold.apply(line)).unwrap();
    assert_eq!((fold, cursor), fold_all(&log));
}

#[test]
fn a_snapshot_that_does_not_fit_is_ignored() {
    let world = World::new();
    let log = world.open();
    append_notes(&log, 1..5);
    let (fold, cursor) = fold_all(&log);
    let save = || log.save_snapshot(&fold, &cursor, "f").unwrap();
    let load = |format: &str| world.open().load_snapshot::<Fold>(format).is_some();
    let path = world.places().cache.join("snapshot.json");
    save();
    assert!(load("f"));
    assert!(!load("g"), "another fold");
    let whole = fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(7) {
        let mut broken = whole.clone();
        broken[at] ^= 1;
        fs::write(&path, broken).unwrap();
        assert!(!load("f"), "a flipped bit at {at}");
    }
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(!load("f"), "half a snapshot");
    save();
    let text = world.dump();
    world.put(text.replace("\"id\":4", "\"id\":8").as_bytes());
    assert!(!load("f"), "another line at its place");
    world.put(text.as_bytes());
    assert!(load("f"));
    fs::remove_dir_all(world.places().cache).unwrap();
    assert!(!load("f"), "no cache");
}

#[test]
fn a_snapshot_that_somebody_forged_is_ignored() {
    let world = World::new();
    let log = world.open();
    append_notes(&log, 1..5);
    let (_, cursor) = fold_all(&log);
    log.save_snapshot(&Fold { lines: 5, sum: 666 }, &cursor, "f").unwrap();
    let forged = fs::read(world.places().cache.join("snapshot.json")).unwrap();
    log.save_snapshot(&Fold { lines: 5, sum: 1 }, &cursor, "f").unwrap();
    fs::write(world.places().cache.join("snapshot.json"), forged).unwrap();
    assert!(world.open().load_snapshot::<Fold>("f").is_none());
}

fn check_find(world: &World, log: &Log) {
    let lines = read_all(&world.open());
    for key in ["n-0", "n-17", "n-59", "mod:1", "n-9999"] {
        let expected: Vec<_> = lines
            .iter()
            .filter(|line| team_journal::Payload::keys(&line.event).iter().any(|it| it == key))
            .cloned()
            .collect();
        assert_eq!(log.find(key).expect("a search"), expected, "{key}");
        assert_eq!(log.find_last(key).expect("a search"), expected.last().cloned(), "{key}");
    }
}

#[test]
fn lines_are_found_by_key_across_segments_with_and_without_indexes() {
    let world = World::new();
    let log = world.open_with(|options| options.segment_bytes = 2000);
    let early = world.open();
    append_notes(&log, 0..30);
    check_find(&world, &early);
    append_notes(&log, 30..60);
    check_find(&world, &early);
    assert!(!world.places().cache.exists());
    fs::create_dir(world.places().cache).unwrap();
    check_find(&world, &world.open());
    let indexes: Vec<_> = fs::read_dir(world.places().cache).unwrap().map(|it| it.unwrap().path()).collect();
    assert!(indexes.len() > 2, "{indexes:?}");
    check_find(&world, &world.open());
    for path in &indexes {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() - 5]).unwrap();
    }
    check_find(&world, &world.open());
    fs::remove_dir_all(world.places().cache).unwrap();
    append_notes(&log, 60..70);
    check_find(&world, &early);
    check_find(&world, &world.open());
}

#[test]
fn indexes_of_other_keys_are_built_anew() {
    let world = World::new();
    let log = world.open_with(|options| options.segment_bytes = 2000);
    fs::create_dir(world.places().cache).unwrap();
    append_notes(&log, 0..30);
    check_find(&world, &log);
    check_find(&world, &world.open_with(|options| options.index_format = "2".into()));
}
