//! The real [`Terminal`]: puts the parts of this crate behind one value that remembers the server
//! and the epoch.

use std::time::Duration;

use crate::call::Client;
use crate::endpoint::Endpoint;
use crate::env::CleanEnv;
use crate::guard::Scope;
use crate::pane::{Closed, OpenPane, OpenedPane, Pane, PaneInfo};
use crate::screen::Screen;
use crate::terminal::{Fence, ServerInfo, Terminal};
use crate::typing::{Paste, Pasted, Press, Pressed};
use crate::version::TmuxVersion;
use crate::{Result, TmuxError, panes, screen, server, typing};

/// Panes on a tmux server of our own.
#[derive(Debug)]
pub struct Tmux {
    client: Client,
    known: Option<ServerInfo>,
    fence: Option<Fence>,
}

impl Tmux {
    /// Makes a terminal on an endpoint. `known` is the server recorded for it, if one is; nothing
    /// is run yet.
    pub fn new(endpoint: Endpoint, known: Option<ServerInfo>) -> Self {
        Self { client: Client::new(endpoint), known, fence: None }
    }

    /// Changes how long one call to tmux may take, which is 10 seconds.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Duration) -> Self {
        self.client = self.client.with_deadline(deadline);
        self
    }

    /// Keeps a client attached from the first look at the server on, so that reading screens and typing cost no
    /// process: for callers that live long.
    #[must_use]
    pub fn staying_attached(mut self) -> Self {
        self.client.stay_attached();
        self
    }

    /// Returns where the server is reached.
    pub fn endpoint(&self) -> &Endpoint {
        &self.client.endpoint
    }

    fn fence(&self) -> Result<&Fence> {
        self.fence.as_ref().ok_or(TmuxError::Unclaimed)
    }

    fn version(&mut self) -> Result<Option<TmuxVersion>> {
        if self.known.is_none() {
            self.probe()?;
        }
        Ok(self.known.as_ref().and_then(|info| TmuxVersion::parse(&info.version)))
    }
}

impl Terminal for Tmux {
    fn probe(&mut self) -> Result<Option<ServerInfo>> {
        let found = server::probe(&self.client, self.known.as_ref())?;
        if let Some(info) = &found {
            self.known = Some(info.clone());
        }
        Ok(found)
    }

    fn start_server(&mut self, env: &CleanEnv, session: &str) -> Result<ServerInfo> {
        // Looks with what is known, so that a server without a socket is found and not doubled.
        let info = match self.probe()? {
            Some(info) => info,
            None => server::start(&self.client, env, session)?,
        };
        self.known = Some(info.clone());
        Ok(info)
    }

    fn claim_epoch(&mut self, fence: &Fence) -> Result<()> {
        server::claim(&self.client, fence)?;
        self.fence = Some(fence.clone());
        Ok(())
    }

    fn open(&mut self, panes: &[OpenPane]) -> Result<Vec<OpenedPane>> {
        panes::open(&self.client, self.fence()?, panes)
    }

    fn panes(&mut self) -> Result<Vec<PaneInfo>> {
        panes::list(&self.client)
    }

    fn paste(&mut self, pane: Pane, text: &str, paste: &Paste) -> Result<Pasted> {
        let version = self.version()?;
        typing::paste(&self.client, Scope::Ours(self.fence()?), version.as_ref(), pane, text, paste)
    }

    fn press(&mut self, presses: &[Press]) -> Result<Vec<Pressed>> {
        typing::press(&self.client, Scope::Ours(self.fence()?), presses)
    }

    fn screens(&mut self, panes: &[Pane]) -> Result<Vec<Option<Screen>>> {
        screen::read(&self.client, panes)
    }

    fn close(&mut self, panes: &[Pane]) -> Result<Vec<Closed>> {
        panes::close(&self.client, self.fence()?, panes)
    }

    fn kill_server(&mut self, expect: &ServerInfo) -> Result<()> {
        server::end(&self.client, self.fence()?, expect)
    }
}
