//! Who wrote a line.

use serde::{Deserialize, Serialize};

use crate::{AgentName, SpawnId};

/// The author of a line of the log, and how far that is proved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum By {
    /// A person (or a script of theirs) outside every seat.
    Person,
    /// The agent in a bound leader's pane.
    Leader,
    /// An agent, proved by its seat's token.
    Agent {
        /// The seat.
        agent: AgentName,
        /// The start of the seat that spoke.
        spawn: SpawnId,
    },
    /// A sender of another workspace or team, fully qualified.
    Remote {
        /// `<workspace>::<team>/<agent>`.
        address: String,
    },
    /// The coordinator.
    Coordinator {
        /// Its epoch.
        epoch: u64,
    },
    /// A process of a seat (supervisor, hook, tool server) that reports what it saw.
    Seat {
        /// The start of the seat it belongs to.
        spawn: SpawnId,
    },
    /// The log itself.
    Log,
    /// Somebody with a name but without proof.
    Unproved {
        /// What they called themselves.
        claim: String,
    },
    /// Nobody known, or written by a newer version.
    #[serde(other)]
    Unknown,
}
