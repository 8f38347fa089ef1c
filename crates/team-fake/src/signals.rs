//! Signals as something to wait on. Knows no meaning of theirs.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::Signal;

/// Signals that were caught.
#[derive(Debug)]
pub(crate) struct Signals {
    wake: UnixStream,
    flags: Vec<(Signal, Arc<AtomicBool>)>,
}

impl Signals {
    pub(crate) fn catch(signals: &[Signal]) -> io::Result<Self> {
        let (wake, writer) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        let mut flags = Vec::new();
        for &signal in signals {
            let flag = Arc::new(AtomicBool::new(false));
            // The flag first: when the pipe wakes the loop, it must be set.
            signal_hook::flag::register(signal as i32, Arc::clone(&flag))?;
            signal_hook::low_level::pipe::register(signal as i32, writer.try_clone()?)?;
            flags.push((signal, flag));
        }
        Ok(Self { wake, flags })
    }

    /// What to wait on.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Returns those that were raised since the last call.
    pub(crate) fn raised(&mut self) -> Vec<Signal> {
        let mut drained = [0; 64];
        while self.wake.read(&mut drained).is_ok_and(|it| it == drained.len()) {}
        self.flags.iter().filter(|it| it.1.swap(false, Ordering::AcqRel)).map(|it| it.0).collect()
    }
}
