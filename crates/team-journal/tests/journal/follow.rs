use std::fs;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use crate::support::*;

#[test]
fn a_follower_is_woken_by_every_append_across_rotations() {
    let world = World::new();
    let (reader, writer) = (world.open(), world.open_with(|options| options.segment_bytes = 500));
    let deadline = Some(Instant::now() + WAIT);
    std::thread::scope(|scope| {
        let (told, seen) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let mut follow = reader.follow(reader.cursor_start().unwrap()).unwrap();
            let mut got = Vec::new();
            while got.last() != Some(&30) {
                let report =
                    follow.next(deadline, &mut |line| got.extend(ids(std::slice::from_ref(line)))).unwrap();
                assert!(report.lines > 0, "nothing came in time");
                told.send(got.len()).unwrap();
            }
            assert_eq!(got, (1..=30).collect::<Vec<_>>());
        });
        for id in 1..=30 {
            append(&writer, vec![note(id)]);
            // Wait until it is seen, so that each append has to wake the follower anew.
            while seen.recv_timeout(WAIT).unwrap() < usize::try_from(id).unwrap() {}
        }
    });
}

#[test]
fn a_follower_gives_up_at_its_deadline_and_reading_does_not_wake_it() {
    let world = World::new();
    let log = world.open();
    let mut cursor = log.cursor_start().unwrap();
    read(&log, &mut cursor);
    let mut follow = log.follow(cursor).unwrap();
    read_all(&world.open());
    let report = follow.next(Some(Instant::now() + Duration::from_millis(20)), &mut |_| {}).unwrap();
    assert_eq!(report.lines, 0);
    assert!(!follow.wake().wait(Some(Instant::now())).unwrap());
}

#[test]
fn an_event_loop_can_wait_for_the_descriptor_itself() {
    let world = World::new();
    let log = world.open();
    let mut cursor = log.cursor_start().unwrap();
    let wake = log.wake().unwrap();
    read(&log, &mut cursor);
    append(&world.open(), vec![note(1)]);
    let mut fds = [nix::poll::PollFd::new(wake.as_fd(), nix::poll::PollFlags::POLLIN)];
    assert_eq!(nix::poll::poll(&mut fds, 20_000u16), Ok(1));
    log.woken(&wake).unwrap();
    assert_eq!(nix::poll::poll(&mut fds, 0u8), Ok(0));
    assert_eq!(ids(&read(&log, &mut cursor)), [1]);
}

#[test]
fn a_follower_sees_the_log_vanish_and_come_back() {
    let world = World::new();
    let (reader, keeper) = (world.open(), world.open());
    append_notes(&keeper, 1..3);
    let mut held = keeper.hold().unwrap();
    let mut cursor = reader.cursor_start().unwrap();
    read(&reader, &mut cursor);
    let mut follow = reader.follow(cursor).unwrap();
    let deadline = Some(Instant::now() + WAIT);
    fs::remove_dir_all(world.path().join("team")).unwrap();
    assert!(follow.next(deadline, &mut |_| {}).unwrap().deleted);
    // Said once; after that it sleeps.
    let soon = Instant::now() + Duration::from_millis(20);
    follow.next(Some(soon), &mut |_| {}).unwrap();
    assert!(Instant::now() >= soon);
    keeper.check_and_restore(&mut held, WAIT).unwrap();
    append(&world.open(), vec![note(3)]);
    let mut seen = Vec::new();
    while ids(&seen) != [3] {
        let report = follow.next(deadline, &mut |line| seen.push(line.clone())).unwrap();
        assert!(report.lines > 0);
    }
    // The new directory is watched too.
    append(&world.open(), vec![note(4)]);
    assert_eq!(follow.next(deadline, &mut |line| seen.push(line.clone())).unwrap().lines, 1);
}

#[test]
fn a_file_moved_away_and_back_is_found_again() {
    let world = World::new();
    let reader = world.open();
    append_notes(&world.open(), 1..3);
    let mut cursor = reader.cursor_start().unwrap();
    read(&reader, &mut cursor);
    let mut follow = reader.follow(cursor).unwrap();
    // As an editor saves it: a new file under the old name, the old one kept under another.
    let active = world.places().active();
    fs::rename(&active, active.with_extension("bak")).unwrap();
    fs::copy(active.with_extension("bak"), active.with_extension("tmp")).unwrap();
    fs::rename(active.with_extension("tmp"), &active).unwrap();
    append(&world.open(), vec![note(3)]);
    let mut seen = Vec::new();
    follow.next(Some(Instant::now() + WAIT), &mut |line| seen.push(line.clone())).unwrap();
    assert_eq!(ids(&seen), [3]);
}

#[test]
fn a_follower_can_wait_for_a_log_that_is_not_there_yet() {
    let world = World::empty();
    let reader = world.open();
    let mut follow = reader.follow(reader.cursor_start().unwrap()).unwrap();
    assert_eq!(fs::read_dir(world.path()).unwrap().count(), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| append(&world.create(), vec![note(1)]));
        let mut seen = Vec::new();
        while ids(&seen) != [1] {
            let report =
                follow.next(Some(Instant::now() + WAIT), &mut |line| seen.push(line.clone())).unwrap();
            assert!(report.lines > 0);
        }
    });
}
