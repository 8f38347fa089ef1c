//! What was seen of seats that the log does not say: processes, panes, and what is under way to a composer.
//!
//! Knows times and states. Must not know tmux, files or processes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use team_model::{AgentName, HoldReason, MessageId, RequestId, SpawnId, TeamKey};

use super::press::Pressing;

/// A seat of a team.
pub type SeatKey = (TeamKey, AgentName);

/// How long a block that stands in the way of typing is believed before it is looked at again.
const RETRY: Duration = Duration::from_millis(250);
/// The same, for a block that has stood for long.
const RETRY_AT_MOST: Duration = Duration::from_secs(5);

/// What was seen of a seat's present spawn.
#[expect(clippy::struct_excessive_bools, reason = "each was seen or not, independently")]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// The spawn it is about.
    pub spawn: Option<SpawnId>,
    /// When this coordinator first saw that spawn.
    pub since: Duration,
    /// Whether this coordinator opened its pane or found it.
    pub pane_known: bool,
    /// Whether the pane's program is known to have ended.
    pub pane_dead: bool,
    /// Whether the process that claimed the spawn is known to have ended.
    pub process_dead: bool,
    /// When its program was first seen to have ended.
    pub exited: Option<Duration>,
    /// When it was asked to end.
    pub asked: Option<Duration>,
    /// Whether it was killed.
    pub killed: bool,
    /// What goes on between us and its composer.
    pub lane: Lane,
    /// The line that its activity was last known by.
    pub activity: u64,
    /// What stood in the way of typing.
    pub blocked: Option<Blocked>,
    /// Before when an attempt that another coordinator began is not looked at again.
    pub conclude_at: Option<Duration>,
    /// When its screen was last read while it started.
    pub start_looked: Option<Duration>,
    /// When a question that only a person may answer was last seen there.
    pub start_asked: Option<Duration>,
    /// When a key was last pressed for a question that a person has answered beforehand.
    pub trust_pressed: Option<Duration>,
    /// When its provider's limit ends.
    pub limit_ends: Option<Duration>,
    /// When it was first seen to be ready.
    pub ready: Option<Duration>,
    /// Whether its bell was rung and not heard.
    pub deaf: bool,
    /// Whether what comes over its bell is handed on only while it is idle, and never by keys.
    pub bridged: bool,
    /// Its open questions, by what their programs call them.
    pub questions: BTreeMap<RequestId, String>,
    /// Questions that were compared with the rules.
    pub weighed: BTreeSet<RequestId>,
    /// Questions whose answer was laid.
    pub laid: BTreeSet<RequestId>,
    /// Answers that are given by a key.
    pub pressing: BTreeMap<RequestId, Pressing>,
    /// How its provider wants to be typed into.
    pub typing: TypingTimes,
    /// Whether only its screen shows that a dialog stops its turn.
    pub hides_dialogs: bool,
    /// When its screen was last read while it worked.
    pub work_looked: Option<Duration>,
}

impl Seen {
    /// Notes what stands in the way of typing, or that nothing does.
    pub fn block(&mut self, reason: Option<HoldReason>, now: Duration) {
        let before = self.blocked;
        self.blocked = reason.map(|reason| {
            let since = before.filter(|it| it.reason == reason).map_or(now, |it| it.since);
            Blocked { reason, since, looked: now }
        });
    }
}

/// Something in the way of typing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Blocked {
    /// What it is.
    pub reason: HoldReason,
    /// Since when.
    pub since: Duration,
    /// When it was last looked at.
    pub looked: Duration,
}

impl Blocked {
    /// When it is looked at again: the longer it stands, the less often.
    pub fn due(&self) -> Duration {
        self.looked + (self.looked.saturating_sub(self.since) / 4).clamp(RETRY, RETRY_AT_MOST)
    }
}

/// The times of typing into a program.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TypingTimes {
    /// Between paste and Enter.
    pub settle: Duration,
    /// After Enter without a receipt.
    pub look_after: Duration,
    /// After the start, before the first paste.
    pub after_start: Duration,
}

impl Default for TypingTimes {
    fn default() -> Self {
        Self {
            settle: Duration::from_millis(200),
            look_after: Duration::from_secs(2),
            after_start: Duration::ZERO,
        }
    }
}

/// What is under way to a seat.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Lane {
    /// Nothing.
    #[default]
    Free,
    /// A text was pasted.
    Typed(Typed),
    /// A bell was rung.
    Rung {
        /// The messages.
        ids: Vec<MessageId>,
        /// When.
        at: Duration,
        /// When it was rung last.
        rung: Duration,
    },
}

/// A text in a composer.
#[derive(Debug, Clone, PartialEq)]
pub struct Typed {
    /// The messages it holds.
    pub ids: Vec<MessageId>,
    /// What was pasted.
    pub text: Arc<str>,
    /// When it was pasted.
    pub pasted: Duration,
    /// When Enter was first pressed.
    pub entered: Option<Duration>,
    /// When Enter was last pressed or the screen last read.
    pub touched: Duration,
    /// How often Enter was pressed.
    pub presses: u32,
    /// Whether the last look showed the text in the composer.
    pub staged: bool,
}
