//! Time, as a seam: tests move it by hand.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// The time of day, for people.
    fn now(&self) -> DateTime<Utc>;
    /// Time that has passed since some fixed moment; never goes back.
    fn elapsed(&self) -> Duration;
}

/// The machine's clock.
#[derive(Debug)]
pub struct RealClock(Instant);

impl Default for RealClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for RealClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
