//! Which changes of state are legal. These bind decisions; observations are folded whatever they say.

use crate::{ReceiptStep, SeatState, TeamState};

impl SeatState {
    /// Says whether a decision may take a seat from here to `next`.
    pub fn may_become(&self, next: &Self) -> bool {
        use SeatState as S;
        match (self, next) {
            (S::Added | S::Stopped { .. } | S::Failed { .. } | S::Starting, S::Waiting { .. })
            | (S::Waiting { .. }, S::Starting | S::Stopped { .. } | S::Failed { .. })
            | (S::Starting, S::Running | S::Failed { .. } | S::Stopped { .. })
            | (S::Running, S::Stopped { .. } | S::Failed { .. }) => true,
            (
                S::Added
                | S::Waiting { .. }
                | S::Starting
                | S::Running
                | S::Stopped { .. }
                | S::Failed { .. },
                _,
            ) => false,
        }
    }
}

impl ReceiptStep {
    /// Says whether a decision may take a receipt from here to `next`.
    pub fn may_become(self, next: Self) -> bool {
        use ReceiptStep as R;
        match self {
            R::Accepted => matches!(next, R::Held | R::Sending | R::Refused | R::Withdrawn),
            R::Held => matches!(next, R::Held | R::Sending | R::Refused | R::Withdrawn),
            // Back to accepted only with the proof that nothing was sent.
            R::Sending => {
                matches!(next, R::Submitted | R::TurnStarted | R::Accepted | R::Unknown | R::Returned)
            }
            R::Submitted => matches!(next, R::TurnStarted | R::Answered | R::Returned | R::Unknown),
            R::TurnStarted => matches!(next, R::Answered | R::Returned | R::Unknown),
            // A late proof may still come. Sent anew only because somebody says so.
            R::Unknown => matches!(next, R::Submitted | R::TurnStarted | R::Answered | R::Accepted),
            R::Returned => matches!(next, R::Submitted | R::TurnStarted | R::Answered | R::Accepted),
            R::Answered | R::Refused | R::Withdrawn => false,
        }
    }
}

impl TeamState {
    /// Says whether a decision may take a team from here to `next`.
    pub fn may_become(self, next: Self) -> bool {
        match self {
            Self::Running => matches!(next, Self::Stopping | Self::Lost),
            Self::Stopping => matches!(next, Self::Stopped | Self::Lost),
            Self::Stopped | Self::Lost => matches!(next, Self::Running | Self::Stopped),
        }
    }
}
