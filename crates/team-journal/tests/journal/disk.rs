use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use team_journal::{Disk, Error, Priority, RealDisk};

use crate::support::*;

/// A disk with a given rest; it takes what fits.
#[derive(Default)]
struct SmallDisk {
    free: AtomicU64,
    room: AtomicUsize,
    error: Option<ErrorKind>,
    ballast: std::path::PathBuf,
}

impl Disk for SmallDisk {
    fn free(&self, _: &Path) -> io::Result<u64> {
        Ok(self.free.load(Ordering::Relaxed))
    }

    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        if let Some(kind) = self.error {
            return Err(kind.into());
        }
        let room = if self.ballast.exists() { self.room.load(Ordering::Relaxed) } else { usize::MAX };
        if room == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        RealDisk.write(file, &bytes[..bytes.len().min(room)])
    }
}

fn on(world: &World, disk: SmallDisk) -> Log {
    world.open_with(|options| options.disk = Arc::new(disk))
}

#[test]
fn nothing_new_is_begun_on_a_nearly_full_disk_but_outcomes_are_written() {
    let world = World::new();
    let log = on(&world, SmallDisk { free: (63 << 20).into(), ..SmallDisk::default() });
    let mut guard = log.lock(WAIT).unwrap();
    let refused = guard.append(now(), vec![note(1)]).unwrap_err();
    assert!(matches!(refused, Error::NoSpace { free, .. } if free == 63 << 20));
    guard.append_as(Priority::Outcome, now(), vec![note(2)]).unwrap();
    drop(guard);
    log.observe(now(), vec![note(3)], WAIT).unwrap();
    assert_eq!(ids(&read_all(&log)), [2, 3]);
}

#[test]
fn on_a_full_disk_outcomes_take_the_room_of_the_ballast() {
    for room in [0, 10] {
        let world = World::new();
        let ballast = world.places().state.join("ballast");
        assert_eq!(fs::metadata(&ballast).unwrap().len(), 1 << 20);
        let disk = SmallDisk { room: room.into(), ballast: ballast.clone(), ..SmallDisk::default() };
        let log = world.open_with(|options| {
            options.disk = Arc::new(disk);
            options.reserve = 0;
        });
        let size = world.bytes().len();
        let mut guard = log.lock(WAIT).unwrap();
        let refused = guard.append(now(), vec![note(1)]).unwrap_err();
        assert_eq!(refused.code(), "no_space");
        assert_eq!(world.bytes().len(), size, "a short write leaves nothing behind");
        assert!(ballast.exists());
        guard.append_as(Priority::Outcome, now(), vec![note(2)]).unwrap();
        assert!(!ballast.exists());
        drop(guard);
        assert_eq!(kinds(&read_all(&log)), ["1 opened", "2 note 2"]);
        // With room again, it is put back.
        append(&world.open(), vec![note(3)]);
        assert!(ballast.exists());
    }
}

#[test]
fn a_read_only_place_is_told_apart_and_can_be_read() {
    let world = World::new();
    append_notes(&world.open(), 1..3);
    let log = on(
        &world,
        SmallDisk {
            free: u64::MAX.into(),
            error: Some(ErrorKind::ReadOnlyFilesystem),
            ..SmallDisk::default()
        },
    );
    let mut guard = log.lock(WAIT).unwrap();
    let refused = guard.append(now(), vec![note(3)]).unwrap_err();
    assert_eq!(refused.code(), "log_read_only");
    assert_eq!(ids(&read_all(&log)), [1, 2]);
}
