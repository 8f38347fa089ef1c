//! Places where a test makes the coordinator die: before an effect, after it, or with the effect done by a child that
//! outlives it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Which failpoint fires, and how often it has been passed.
#[derive(Debug, Default)]
pub struct Failpoints {
    armed: Option<(String, u64)>,
    passed: AtomicU64,
    fired: AtomicBool,
    seen: Mutex<Vec<String>>,
}

/// The coordinator dies here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failpoint `{0}` was reached")]
pub struct Died(pub String);

impl Failpoints {
    /// Arms one point, `<effect>:<before|after|orphan>:<n>`: it fires when it is passed the n-th time, from 1.
    pub fn armed(point: &str) -> Self {
        let (name, count) = point.rsplit_once(':').unwrap_or((point, "1"));
        Self { armed: Some((name.to_owned(), count.parse().unwrap_or(1))), ..Self::default() }
    }

    /// Arms what `TEAM_AGENT_FAILPOINT` names, in builds that have failpoints.
    pub fn from_env() -> Self {
        if cfg!(any(debug_assertions, feature = "failpoints")) {
            std::env::var("TEAM_AGENT_FAILPOINT").map_or_else(|_| Self::default(), |it| Self::armed(&it))
        } else {
            Self::default()
        }
    }

    /// Records every point that is passed, for a sweep over all of them.
    pub fn passed(&self) -> Vec<String> {
        self.seen.lock().map(|it| it.clone()).unwrap_or_default()
    }

    /// Passes a point; an error means that the coordinator is to die at once.
    pub fn pass(&self, effect: &str, when: &str) -> Result<(), Died> {
        if self.fired.load(Ordering::Relaxed) {
            return Err(Died("dead already".to_owned()));
        }
        let name = format!("{effect}:{when}");
        if let Some((armed, count)) = &self.armed {
            if *armed == name && self.passed.fetch_add(1, Ordering::Relaxed) + 1 == *count {
                self.fired.store(true, Ordering::Relaxed);
                return Err(Died(format!("{name}:{count}")));
            }
        } else if cfg!(debug_assertions)
            && let Ok(mut seen) = self.seen.lock()
        {
            seen.push(name);
        }
        Ok(())
    }
}
