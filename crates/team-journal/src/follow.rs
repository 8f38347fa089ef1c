//! Following the log: reading on whenever it grows. Knows cursors and wake-ups; no event.

use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Result;
use crate::journal::Journal;
use crate::line::{Line, Payload};
use crate::read::{Cursor, ReadReport};
use crate::wake::Wake;

/// A reader that waits at the end of the log. Sleeps in the kernel, across rotations too.
#[derive(Debug)]
pub struct Follow<'a, B, E> {
    journal: &'a Journal<B, E>,
    wake: Wake,
    cursor: Cursor,
    /// Whether the caller knows that the file has vanished.
    told: bool,
}

impl<B: Serialize + DeserializeOwned + Clone, E: Payload> Journal<B, E> {
    /// Follows the log from a cursor on.
    pub fn follow(&self, cursor: Cursor) -> Result<Follow<'_, B, E>> {
        Ok(Follow { journal: self, wake: self.wake()?, cursor, told: false })
    }

    /// Returns a descriptor that becomes readable when the log may have grown: for callers with
    /// an event loop of their own, who drain it first and read second.
    pub fn wake(&self) -> Result<Wake> {
        Wake::new(&self.places.logs)
    }

    /// Takes off a wake-up and makes sure that the next reading looks at the right files.
    pub fn woken(&self, wake: &Wake) -> Result<()> {
        if wake.drain()?.names {
            self.revalidate()?;
        }
        Ok(())
    }
}

impl<B: Serialize + DeserializeOwned + Clone, E: Payload> Follow<'_, B, E> {
    /// Hands out new lines; waits for some until `deadline` (`None`: forever). Without any the
    /// report says 0 lines. Returns early, once, when the log file has vanished.
    pub fn next(
        &mut self,
        deadline: Option<Instant>,
        each: &mut dyn FnMut(&Line<B, E>),
    ) -> Result<ReadReport> {
        loop {
            // The watch is older than this look, so nothing can slip in between.
            let report = self.journal.read_new(&mut self.cursor, each)?;
            // Said once: until it is back there is nothing to do but to wait.
            let news = report.deleted && !self.told;
            self.told = report.deleted;
            if report.lines > 0 || news {
                return Ok(report);
            }
            if !self.wake.wait(deadline)? {
                return Ok(report);
            }
            self.journal.woken(&self.wake)?;
        }
    }

    /// Returns the position reached.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Returns the descriptor behind the waiting.
    pub fn wake(&self) -> &Wake {
        &self.wake
    }
}
