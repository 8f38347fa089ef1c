//! Keeping a running team's log alive when its file is deleted. Knows descriptors; no event.

use std::fs::{self, File};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Doing as _, Result};
use crate::journal::{Journal, locked};
use crate::line::Payload;
use crate::segment::{FileId, is_absent};

/// An open descriptor of the active log file: as long as it is held, nothing in it is lost.
#[derive(Debug)]
pub struct Held {
    file: Arc<File>,
    id: FileId,
}

impl<B: Serialize + DeserializeOwned + Clone, E: Payload> Journal<B, E> {
    /// Holds the active log file open.
    pub fn hold(&self) -> Result<Held> {
        let path = self.places.active();
        let file = File::open(&path).doing("read", &path)?;
        let id = FileId::of(&file.metadata().doing("read", &path)?);
        Ok(Held { file: Arc::new(file), id })
    }

    /// Puts the log file back if it has vanished, and returns whether it had.
    ///
    /// Costs one `stat` as long as all is well. After a rotation `held` moves on to the new file.
    pub fn check_and_restore(&self, held: &mut Held, timeout: Duration) -> Result<bool> {
        let path = self.places.active();
        let there = |held: &Held| match fs::metadata(&path) {
            Ok(meta) => Ok((meta.len() > 0).then(|| FileId::of(&meta) == held.id)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error).doing("read", &path),
        };
        match there(held)? {
            Some(true) => return Ok(false),
            Some(false) => {
                *held = self.hold()?;
                return Ok(false);
            }
            None => {}
        }
        self.make_state()?;
        // Taking the lock does the rest; it also looks again, as another may have been faster.
        *locked(&self.lent) = Some(Arc::clone(&held.file));
        let guard = self.lock(timeout);
        *locked(&self.lent) = None;
        let guard = guard?;
        let restored = guard.restored();
        guard.unlock_and_sync()?;
        *held = self.hold()?;
        Ok(restored)
    }
}
