//! One pane on the user's own server. It is looked at, and in need one text is pasted into it;
//! nothing is ever set, resized, closed or taken out of its mode there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::call::Client;
use crate::endpoint::Endpoint;
use crate::guard::{Guard, Scope};
use crate::pane::{Pane, PaneId};
use crate::screen::Screen;
use crate::typing::{Paste, Pasted, paste};
use crate::version::TmuxVersion;
use crate::{Result, TmuxError, screen};

/// A pane that was bound, on a server that is not ours.
#[derive(Debug)]
pub struct UserPane {
    client: Client,
    server_pid: u32,
    version: Option<TmuxVersion>,
    pane: Pane,
}

/// What is known about a bound pane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserPaneInfo {
    /// The server's process.
    pub server_pid: u32,
    /// The pane and the process that was started in it, often a shell.
    pub pane: Pane,
    /// The program in the foreground, by name.
    pub command: String,
    /// The session's name.
    pub session: String,
    /// Whether the program has ended and the pane was kept.
    pub dead: bool,
    /// Whether it shows copy mode or another mode.
    pub in_mode: bool,
    /// Whether input to it is switched off.
    pub input_off: bool,
}

const INFO: &str = "#{pid}\t#{pane_id}\t#{pane_pid}\t#{pane_dead}\t#{pane_in_mode}\t#{pane_input_off}\t\
     #{version}\t#{pane_current_command}\t#{session_name}";

impl UserPane {
    /// Reads the socket from the value of `TMUX`, as tmux sets it in each of its panes.
    pub fn socket_of(tmux_variable: &OsStr) -> Option<PathBuf> {
        let mut parts = tmux_variable.as_bytes().rsplitn(3, |byte| *byte == b',');
        let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
        let (session, pid, socket) = (parts.next()?, parts.next()?, parts.next()?);
        let is_bound = is_number(session) && is_number(pid) && socket.starts_with(b"/");
        is_bound.then(|| PathBuf::from(OsStr::from_bytes(socket)))
    }

    /// Binds a pane by its id, as it is now; `None` when there is none.
    pub fn bind(endpoint: Endpoint, id: PaneId) -> Result<Option<Self>> {
        let client = Client::new(endpoint);
        Ok(query(&client, id)?.map(|(info, version)| Self {
            client,
            server_pid: info.server_pid,
            version: TmuxVersion::parse(&version),
            pane: info.pane,
        }))
    }

    /// Returns which pane is bound.
    pub fn pane(&self) -> Pane {
        self.pane
    }

    /// Returns the process of the server it was bound on.
    pub fn server_pid(&self) -> u32 {
        self.server_pid
    }

    /// Asks how the pane is now; `None` when it is gone, or the id belongs to another.
    pub fn query(&self) -> Result<Option<UserPaneInfo>> {
        let found = query(&self.client, self.pane.id)?.map(|(info, _)| info);
        Ok(found.filter(|info| info.pane == self.pane && info.server_pid == self.server_pid))
    }

    /// Reads what the pane shows; `None` when it is gone.
    pub fn screen(&self) -> Result<Option<Screen>> {
        if self.query()?.is_none() {
            return Ok(None);
        }
        Ok(screen::read(&self.client, &[self.pane])?.pop().flatten())
    }

    /// Pastes one text, if the pane is the bound one, alive, in no mode and as the guard demands.
    pub fn paste(&self, text: &str, enter: bool, guard: &Guard) -> Result<Pasted> {
        let scope = Scope::Users { server_pid: self.server_pid };
        let how = Paste { enter, leave_mode: false, guard: guard.clone(), mark: None };
        paste(&self.client, scope, self.version.as_ref(), self.pane, text, &how)
    }
}

fn query(client: &Client, id: PaneId) -> Result<Option<(UserPaneInfo, String)>> {
    let target = id.to_string();
    let said = match client.run("display-message", ["display-message", "-p", "-t", &target, INFO], None) {
        Ok(said) => said,
        Err(TmuxError::NoServer { .. }) => return Ok(None),
        Err(TmuxError::Failed { text, .. }) if text.contains("can't find") => return Ok(None),
        Err(err) => return Err(err),
    };
    let unexpected = || TmuxError::Unexpected { doing: "display-message", text: said.clone() };
    let line = said.strip_suffix('\n').unwrap_or(&said);
    let fields: Vec<_> = line.splitn(9, '\t').collect();
    let [server_pid, pane_id, pane_pid, dead, in_mode, input_off, version, command, session] = fields[..]
    else {
        return Err(unexpected());
    };
    // For a pane that does not exist tmux answers with nothing, or with another pane.
    if pane_id != target {
        return Ok(None);
    }
    let is_set = |field: &str| !matches!(field, "" | "0");
    let info = UserPaneInfo {
        server_pid: server_pid.parse().map_err(|_| unexpected())?,
        pane: Pane { id, pid: pane_pid.parse().map_err(|_| unexpected())? },
        command: command.to_owned(),
        session: session.to_owned(),
        dead: is_set(dead),
        in_mode: is_set(in_mode),
        input_off: is_set(input_off),
    };
    Ok(Some((info, version.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_is_read_from_the_variable_even_with_commas_in_it() {
        let check = |value: &str, socket: Option<&str>| {
            assert_eq!(UserPane::socket_of(value.as_ref()), socket.map(PathBuf::from));
        };
        check("/tmp/tmux-0/default,123,0", Some("/tmp/tmux-0/default"));
        check("/tmp/a,b/s,123,4", Some("/tmp/a,b/s"));
        check("relative,123,0", None);
        check("/tmp/x", None);
        check("", None);
    }
}
