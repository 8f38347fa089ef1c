//! The seam: what callers may ask of a terminal multiplexer. Knows no tmux command.

use serde::{Deserialize, Serialize};

use crate::env::CleanEnv;
use crate::pane::{Closed, OpenPane, OpenedPane, Pane, PaneInfo};
use crate::screen::Screen;
use crate::typing::{Paste, Pasted, Press, Pressed};
use crate::{Result, TmuxError};

/// A server, told apart from any later one on the same socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// Its process.
    pub pid: u32,
    /// When that process started, in the system's own unit; only compared.
    pub start_time: u64,
    /// The version it says it has.
    pub version: String,
}

impl ServerInfo {
    /// Tells whether both are the same process, whatever version they claim.
    pub fn is_same_process(&self, other: &Self) -> bool {
        self.pid == other.pid && self.start_time == other.start_time
    }
}

/// Who may act on a server: the holder of the highest epoch, for one workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// Grows with every holder.
    pub epoch: u64,
    /// The workspace's id: letters, digits, `-` and `_`.
    pub workspace: String,
}

/// Panes to be opened, read, typed into and closed.
///
/// Everything that acts needs a claimed epoch and does nothing, with [`TmuxError::Fenced`], once a
/// newer one has been claimed: the comparison is made by the server in the same step as the act.
pub trait Terminal: Send {
    /// Says whether a server answers, and which. Makes nothing, except that the socket of a known
    /// server that still runs is put back when somebody removed it.
    fn probe(&mut self) -> Result<Option<ServerInfo>>;

    /// Starts a server with a session of that name, or finds the one that another process has just
    /// started. The session has one window without a program and is there to be watched; panes are
    /// better opened in others.
    fn start_server(&mut self, env: &CleanEnv, session: &str) -> Result<ServerInfo>;

    /// Takes the server for this epoch, unless it belongs to a higher one or to another workspace.
    fn claim_epoch(&mut self, fence: &Fence) -> Result<()>;

    /// Opens panes, each in a window of its own, in one call.
    ///
    /// Results are in the order asked for. When some could not be opened the error is
    /// [`TmuxError::OpenedSome`] and says which are there.
    fn open(&mut self, panes: &[OpenPane]) -> Result<Vec<OpenedPane>>;

    /// Lists every pane of the server.
    fn panes(&mut self) -> Result<Vec<PaneInfo>>;

    /// Pastes a text, cleaned of control characters, and presses Enter if asked to.
    ///
    /// `Done` says that tmux has queued it, not that the program has read it.
    fn paste(&mut self, pane: Pane, text: &str, paste: &Paste) -> Result<Pasted>;

    /// Presses keys, each under its own guard, in one call.
    fn press(&mut self, presses: &[Press]) -> Result<Vec<Pressed>>;

    /// Reads what several panes show, in one call; `None` for those that are gone.
    fn screens(&mut self, panes: &[Pane]) -> Result<Vec<Option<Screen>>>;

    /// Reads what a pane shows; `None` when it is gone.
    fn screen(&mut self, pane: Pane) -> Result<Option<Screen>> {
        Ok(self.screens(&[pane])?.pop().flatten())
    }

    /// Closes exactly these panes, in one call; the results are in the order asked for.
    fn close(&mut self, panes: &[Pane]) -> Result<Vec<Closed>>;

    /// Ends the server if it is the expected process, and returns when its socket is free again.
    fn kill_server(&mut self, expect: &ServerInfo) -> Result<()>;
}

impl Fence {
    /// Checks that the workspace can be compared by the server exactly as it is.
    pub(crate) fn check(&self) -> Result<()> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if self.workspace.is_empty() || !self.workspace.bytes().all(fits) {
            return Err(TmuxError::BadName { what: "workspace id", name: self.workspace.clone() });
        }
        Ok(())
    }
}
