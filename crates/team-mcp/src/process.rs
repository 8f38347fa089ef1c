//! What keeps the process alive as long as its client, and ends it then.
//!
//! Knows signals, descriptors and the parent. Must not know what is said over them.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, atomic::AtomicBool},
};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    unistd::{Pid, getppid},
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGPIPE, SIGTERM};

/// Lets signals that ask for an end pass: the end of the input is what ends the process.
///
/// Handlers are used instead of ignoring, so that programs started from here are not born deaf.
pub(crate) fn outlive_signals() -> io::Result<()> {
    let seen = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGPIPE, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&seen))?;
    }
    Ok(())
}

/// Takes standard input and output for the protocol alone.
///
/// In their place come `/dev/null` and standard error, so that nothing else, a child least of all, can read from or
/// write to the client.
pub(crate) fn take_stdio() -> io::Result<(File, File)> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
    // A client that closed standard error gets nothing at all there.
    if nix::unistd::dup2_stdout(io::stderr().as_fd()).is_err() {
        nix::unistd::dup2_stdout(File::create("/dev/null")?)?;
    }
    Ok((input, output))
}

/// What there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wake {
    /// The input can be read, or has ended.
    Readable,
    /// The parent has ended, and nothing more is there to read.
    Orphaned,
}

/// Watches the process that started this one.
#[derive(Debug)]
pub(crate) struct Parent {
    pid: Pid,
    /// Becomes readable when the parent ends; without it the parent is asked for from time to time.
    handle: Option<OwnedFd>,
}

impl Parent {
    /// Returns the parent, or `None` if there is none that could end.
    pub(crate) fn find() -> Option<Self> {
        let pid = getppid();
        if pid.as_raw() <= 1 {
            return None;
        }
        let handle = open_process(pid);
        Some(Self { pid, handle })
    }

    fn is_gone(&self) -> bool {
        getppid() != self.pid
    }
}

/// Waits until the input can be read or the parent is gone.
pub(crate) fn wait(input: &impl AsFd, parent: Option<&Parent>) -> io::Result<Wake> {
    const BETWEEN_LOOKS: u16 = 2_000;
    loop {
        let handle = parent.and_then(|it| it.handle.as_ref());
        let mut watched = vec![PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        watched.extend(handle.map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
        let timeout = match (parent, handle) {
            (Some(_), None) => PollTimeout::from(BETWEEN_LOOKS),
            _ => PollTimeout::NONE,
        };
        match poll(&mut watched, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        // What the parent wrote before it ended comes first.
        if watched[0].any().unwrap_or(true) {
            return Ok(Wake::Readable);
        }
        let ended = watched.get(1).is_some_and(|it| it.any().unwrap_or(true));
        if ended || parent.is_some_and(Parent::is_gone) {
            return Ok(Wake::Orphaned);
        }
    }
}

#[cfg(target_os = "linux")]
fn open_process(pid: Pid) -> Option<OwnedFd> {
    use std::os::fd::{FromRawFd, RawFd};

    #[expect(
        unsafe_code,
        reason = "there is no safe form of pidfd_open, and a new descriptor is nobody else's"
    )]
    // SAFETY: the call takes two integers, and the descriptor it returns is owned by nobody yet.
    unsafe {
        let handle = libc::syscall(libc::SYS_pidfd_open, pid.as_raw(), 0);
        RawFd::try_from(handle).ok().filter(|it| *it >= 0).map(|it| OwnedFd::from_raw_fd(it))
    }
}

#[cfg(not(target_os = "linux"))]
fn open_process(_pid: Pid) -> Option<OwnedFd> {
    None
}
