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

/// Runs something as a user who owns nothing, as far as files are concerned. Only for this thread.
#[cfg(target_os = "linux")]
fn without_rights<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            nix::unistd::setfsuid(nix::unistd::Uid::from_raw(65534));
            act()
        });
        thread.join().expect("no panic inside")
    })
}

#[cfg(target_os = "linux")]
fn set_mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("our own file");
}

#[cfg(target_os = "linux")]
/// Lets everybody read the state directory and nobody write it.
fn protect_state(world: &World) {
    let state = world.places().state;
    set_mode(world.path(), 0o755);
    set_mode(&world.places().lock(), 0o444);
    for dir in ["spool", "segments", "locks", ""] {
        set_mode(&state.join(dir), 0o555);
    }
    set_mode(&state.join("log-id"), 0o444);
}

#[cfg(target_os = "linux")]
/// So that the directory can be removed again.
fn unprotect_state(world: &World) {
    for dir in ["", "spool", "segments", "locks"] {
        set_mode(&world.places().state.join(dir), 0o755);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_caller_that_may_only_read_the_state_directory_can_still_append() {
    let world = World::new();
    append_notes(&world.open(), 1..3);
    protect_state(&world);
    set_mode(&world.path().join("team"), 0o777);
    set_mode(&world.places().logs, 0o777);
    set_mode(&world.places().active(), 0o666);
    let seen = without_rights(|| {
        let log = world.open_with(|options| options.segment_bytes = 700);
        let guard = log.lock(WAIT).unwrap();
        let busy = world.open().lock(std::time::Duration::ZERO).unwrap_err();
        drop(guard);
        append_notes(&log, 3..12);
        (ids(&read_all(&log)), busy.code())
    });
    unprotect_state(&world);
    assert_eq!(seen, ((1..12).collect(), "log_busy"));
    // Those who may write take up from there.
    append(&world.open(), vec![note(12)]);
    assert_eq!(ids(&read_all(&world.open())), (1..13).collect::<Vec<_>>());
    assert!(world.open().verify().unwrap().is_clean());
}

#[cfg(target_os = "linux")]
#[test]
fn a_caller_that_may_write_nothing_reads_all_the_same() {
    let world = World::new();
    append_notes(&world.open(), 1..3);
    protect_state(&world);
    for (path, mode) in [(world.path().join("team"), 0o555), (world.places().logs, 0o555)] {
        set_mode(&path, mode);
    }
    set_mode(&world.places().active(), 0o444);
    let (seen, refused) = without_rights(|| {
        let log = world.open();
        (ids(&read_all(&log)), log.lock(WAIT).map(drop).unwrap_err())
    });
    unprotect_state(&world);
    set_mode(&world.path().join("team"), 0o755);
    set_mode(&world.places().logs, 0o755);
    assert_eq!(seen, [1, 2]);
    assert_eq!(refused.code(), "log_read_only");
    assert!(refused.to_string().contains("events.jsonl` cannot be written"), "{refused}");
}
