//! The append-only log: one line of JSON per event, in one order for all processes.
//!
//! Knows frames (seq, time, hash of the line before), files, locks and damage. Must not know what an
//! event means: events are a type parameter that can also carry the journal's own facts.
//!
//! - Writing: [`Journal::lock`], [`Guard::append_as`], [`Guard::unlock_and_sync`]; observations by
//!   [`Journal::observe`].
//! - Reading: [`Journal::read_new`] from a [`Cursor`], [`Journal::follow`], [`Journal::read_seq`],
//!   [`Journal::find`]. Reading takes no lock and creates nothing.
//! - What is promised, and how it is kept, stands at the functions that keep it.

mod body;
mod digest;
mod end;
mod error;
mod follow;
mod guard;
mod index;
mod journal;
mod line;
mod lock;
mod options;
mod read;
mod redact;
mod repair;
mod restore;
mod scan;
mod seek;
mod segment;
mod snapshot;
mod spool;
mod stamp;
mod wake;

pub use body::{BODY_LIMIT, BodyRef};
pub use digest::Digest;
pub use error::{Error, Holder, Result};
pub use follow::Follow;
pub use guard::{Guard, Priority};
pub use journal::{Journal, Verification, known_log_id};
pub use line::{Draft, Line, LogFact, Payload};
pub use options::{Clock, Disk, Fail, Options, Places, RealDisk};
pub use read::{Cursor, Finding, ReadReport};
pub use redact::{FreeFields, REDACTED, Redactor};
pub use restore::Held;
pub use spool::{Observed, spool};
pub use wake::{Wake, Woken};
