//! Places where a test makes the coordinator die or fall asleep: before an effect, after it and before it is recorded,
//! and after both.

use std::fmt;
use std::sync::{Mutex, PoisonError};

/// The variable that arms a point in builds that have failpoints.
pub const VARIABLE: &str = "TEAM_AGENT_FAILPOINT";

/// In front of a point: the process is stopped there instead of killed, and goes on when it is continued.
const SLEEP: &str = "sleep@";

/// What happens at the armed point.
enum Fate {
    /// The coordinator dies.
    Die,
    /// Its process is stopped until somebody continues it.
    Sleep,
    /// Something else happens meanwhile, then it goes on.
    Meanwhile(Box<dyn FnOnce() + Send>),
}

/// Which failpoint fires, and which have been passed.
#[derive(Default)]
pub struct Failpoints {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    armed: Option<(String, u64, Option<Fate>)>,
    /// How often the armed point was passed.
    count: u64,
    dead: bool,
    seen: Vec<String>,
}

impl fmt::Debug for Failpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failpoints").finish_non_exhaustive()
    }
}

/// The coordinator dies here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failpoint `{0}` was reached")]
pub struct Died(pub String);

impl Failpoints {
    /// Arms one point, `<effect>:<before|orphan|after>:<n>`: the coordinator dies when it passes it the n-th time,
    /// from 1.
    pub fn armed(point: &str) -> Self {
        Self::with(point, Fate::Die)
    }

    /// Arms one point at which something else happens before the coordinator goes on.
    pub fn meanwhile(point: &str, act: impl FnOnce() + Send + 'static) -> Self {
        Self::with(point, Fate::Meanwhile(Box::new(act)))
    }

    fn with(point: &str, fate: Fate) -> Self {
        let (name, count) = point.rsplit_once(':').unwrap_or((point, "1"));
        let armed = Some((name.to_owned(), count.parse().unwrap_or(1), Some(fate)));
        Self { inner: Mutex::new(Inner { armed, ..Inner::default() }) }
    }

    /// Arms what the environment names, in builds that have failpoints.
    pub fn from_env() -> Self {
        match std::env::var(VARIABLE) {
            Ok(point) if Self::are_built() => match point.strip_prefix(SLEEP) {
                Some(point) => Self::with(point, Fate::Sleep),
                None => Self::armed(&point),
            },
            _ => Self::default(),
        }
    }

    /// Says whether this build has failpoints.
    pub fn are_built() -> bool {
        cfg!(any(debug_assertions, feature = "failpoints"))
    }

    /// Every point that was passed so far, each with its number, where none is armed; for a sweep over all of them.
    pub fn passed(&self) -> Vec<String> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).seen.clone()
    }

    /// Says whether the coordinator is to die: it has reached its point.
    pub fn is_dead(&self) -> bool {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).dead
    }

    /// Passes a point; an error means that the coordinator is to die at once.
    pub fn pass(&self, effect: &str, when: &str) -> Result<(), Died> {
        if !Self::are_built() {
            return Ok(());
        }
        let name = format!("{effect}:{when}");
        let fate = {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let inner = &mut *inner;
            if inner.dead {
                return Err(Died("dead already".to_owned()));
            }
            let Some((armed, count, fate)) = &mut inner.armed else {
                let start = format!("{name}:");
                let n = inner.seen.iter().filter(|it| it.starts_with(&start)).count() + 1;
                inner.seen.push(format!("{start}{n}"));
                return Ok(());
            };
            if *armed != name {
                return Ok(());
            }
            inner.count += 1;
            if inner.count != *count {
                return Ok(());
            }
            let fate = fate.take();
            inner.dead = matches!(fate, Some(Fate::Die));
            fate
        };
        match fate {
            Some(Fate::Die) => Err(Died(name)),
            Some(Fate::Sleep) => {
                nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP).ok();
                Ok(())
            }
            Some(Fate::Meanwhile(act)) => {
                act();
                Ok(())
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_point_kills_the_n_th_time_and_for_good() {
        let points = Failpoints::armed("paste:orphan:2");
        assert!(points.pass("paste", "before").is_ok());
        assert!(points.pass("paste", "orphan").is_ok());
        assert!(points.pass("paste", "orphan").is_err());
        assert!(points.pass("enter", "before").is_err());
    }

    #[test]
    fn passed_points_are_counted_and_can_be_armed_as_they_are() {
        let points = Failpoints::default();
        for when in ["before", "after", "before"] {
            points.pass("ring", when).unwrap();
        }
        assert_eq!(points.passed(), ["ring:before:1", "ring:after:1", "ring:before:2"]);
        assert!(Failpoints::armed(&points.passed()[0]).pass("ring", "before").is_err());
    }

    #[test]
    fn something_else_may_happen_at_a_point() {
        let happened = Arc::new(AtomicBool::new(false));
        let it = Arc::clone(&happened);
        let points = Failpoints::meanwhile("stop:before:1", move || it.store(true, Ordering::Relaxed));
        assert!(points.pass("stop", "before").is_ok() && points.pass("stop", "before").is_ok());
        assert!(happened.load(Ordering::Relaxed));
    }
}
