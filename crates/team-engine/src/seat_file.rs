//! The seat file: what the processes of one spawn (supervisor, hooks, tool server) need to know.
//!
//! It lies in the state directory, which agents cannot write; its name is random. To hold its path, below the
//! process of the seat, is what proves who speaks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use team_model::{AgentName, ProcessIdentity, SpawnId, TeamKey};
use team_provider::Link;

use crate::workspace::{Workspace, WorkspaceError, write};

/// The variable by which everything below a seat's program names its seat file.
pub const SEAT_VARIABLE: &str = "TEAM_AGENT_SEAT";

/// Everything about one spawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeatFile {
    /// The workspace.
    pub workspace: PathBuf,
    /// Its state directory.
    pub state_dir: PathBuf,
    /// The workspace's id.
    pub workspace_id: String,
    /// The team.
    pub team: TeamKey,
    /// The seat.
    pub agent: AgentName,
    /// The spawn.
    pub spawn: SpawnId,
    /// The provider's name.
    pub provider: String,
    /// The conversation's id, where it is ours to choose.
    pub native: Option<String>,
    /// Ids that a start hook may carry.
    pub start_ids: Vec<String>,
    /// Whether it goes on with an earlier conversation.
    #[serde(default)]
    pub resumed: bool,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// The server that runs behind it, and its arguments; empty if there is none.
    #[serde(default)]
    pub server: Vec<String>,
    /// How the bridge reaches the program, if there is one.
    #[serde(default)]
    pub link: Option<Link>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// The file with its environment; read once and unlinked.
    pub env_file: PathBuf,
    /// The private directory of the seat.
    pub seat_dir: PathBuf,
    /// Where the provider keeps its records.
    pub config_home: PathBuf,
    /// The folder of waiting messages, where messages come by the bell.
    pub inbox: Option<PathBuf>,
    /// The watched file, where messages come by the bell.
    pub bell: Option<PathBuf>,
}

impl SeatFile {
    /// Reads a seat file.
    pub fn read(path: &Path) -> Result<Self, SeatFileError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| SeatFileError::Read { path: path.to_owned(), source })?;
        serde_json::from_str(&text).map_err(|source| SeatFileError::Parse { path: path.to_owned(), source })
    }

    /// Writes it, readable by this user only.
    pub fn write(&self, path: &Path) -> Result<(), WorkspaceError> {
        write(path, &serde_json::to_string(self).unwrap_or_default(), 0o600)
    }

    /// Where the seat process says who it is.
    pub fn claim_path(path: &Path) -> PathBuf {
        path.with_extension("claim")
    }

    /// Reads which process holds the seat.
    pub fn claimed_by(path: &Path) -> Option<ProcessIdentity> {
        serde_json::from_str(&std::fs::read_to_string(Self::claim_path(path)).ok()?).ok()
    }

    /// Where its hooks keep what they know of the program that called them.
    fn live_path(path: &Path) -> PathBuf {
        path.with_extension("session")
    }

    /// Reads what the hooks have proved of the program and its conversation.
    pub fn live(path: &Path) -> Option<LiveSession> {
        serde_json::from_str(&std::fs::read_to_string(Self::live_path(path)).ok()?).ok()
    }

    /// Says whether `path` is a seat file of this workspace. It names a state directory itself, and anybody can make
    /// one of those: only where the workspace says its state is, counts.
    pub fn is_genuine(&self, path: &Path, workspace: &Workspace) -> bool {
        self.workspace_id == workspace.id && is_below_seats(path, &workspace.state_dir)
    }

    /// Says whether `path` lies where it says that seat files lie: enough to be taken for an agent's, never for a right.
    pub fn is_plausible(&self, path: &Path) -> bool {
        is_below_seats(path, &self.state_dir)
    }

    /// Reads and removes the environment.
    pub fn take_env(&self) -> Result<BTreeMap<String, String>, SeatFileError> {
        let path = &self.env_file;
        let text = std::fs::read_to_string(path)
            .map_err(|source| SeatFileError::Read { path: path.clone(), source })?;
        let _ = std::fs::remove_file(path);
        serde_json::from_str(&text).map_err(|source| SeatFileError::Parse { path: path.clone(), source })
    }
}

fn is_below_seats(path: &Path, state_dir: &Path) -> bool {
    let Ok(path) = std::fs::canonicalize(path) else { return false };
    std::fs::canonicalize(state_dir.join("seats")).is_ok_and(|seats| path.starts_with(seats))
}

/// The conversation that a seat's program told last, and the process that told it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveSession {
    /// The conversation's id.
    pub native: String,
    /// The program itself: where it was started through a script of the person's, not the seat's own child.
    pub client: ProcessIdentity,
    /// The conversation's transcript, where the program told it.
    #[serde(default)]
    pub transcript: Option<PathBuf>,
}

impl LiveSession {
    /// Keeps it beside the seat file.
    pub fn write(&self, seat_file: &Path) -> Result<(), WorkspaceError> {
        write(&SeatFile::live_path(seat_file), &serde_json::to_string(self).unwrap_or_default(), 0o600)
    }
}

/// Why a seat file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SeatFileError {
    /// It cannot be read.
    #[error("failed to read `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not what we wrote.
    #[error("`{path}` is no seat file")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
}
