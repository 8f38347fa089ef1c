//! The status file: what others may know without asking.

use serde_json::{Value, json};

use super::{Agent, Phase, Role};
use crate::clock;
use crate::clothes::Doing;
use crate::dialog::Kind;
use crate::logs::replace;

impl Agent {
    pub(super) fn log_size(&mut self) {
        let (columns, rows) = self.terminal.size();
        self.view.resize(columns, rows);
        self.logs.event("size", json!({"columns": columns, "rows": rows}));
    }

    /// Returns what the program is doing and, when it waits, for what.
    fn status(&self) -> (&'static str, Option<&'static str>) {
        match self.dialogs.front() {
            Some(dialog) if dialog.kind == Kind::Permission => ("waiting", Some("permission prompt")),
            Some(_) => ("waiting", Some("dialog open")),
            None if self.turn.is_some() || self.permission.is_some() => ("busy", None),
            None => ("idle", None),
        }
    }

    /// Says in the window's title what it is doing, if its program does.
    fn write_title(&mut self, status: &str) {
        let doing = match status {
            "idle" => Doing::Idle,
            "busy" => Doing::Working,
            _ => Doing::Asking,
        };
        let title = self.clothes.title(doing, &self.cwd);
        if let Some(title) = title.filter(|it| *it != self.last_title) {
            self.terminal.write(&format!("\x1b]0;{title}\x07"));
            self.last_title = title;
        }
    }

    /// Rewrites the status file when something in it has changed.
    pub(super) fn write_status(&mut self) {
        if self.phase != Phase::Running {
            return;
        }
        let (status, waiting_for) = self.status();
        self.write_title(status);
        let servers: Vec<Value> = self
            .servers
            .iter()
            .map(
                |(name, it)| json!({"name": name, "state": it.client.state.name(), "tools": it.client.tools}),
            )
            .collect();
        let children: Vec<Value> = self
            .children
            .values()
            .filter_map(|(process, role)| match role {
                Role::Server(name) => Some(json!({"what": "mcp", "name": name, "pid": process.pid()})),
                Role::Loose(what) => Some(json!({"what": what, "pid": process.pid()})),
                _ => None,
            })
            .collect();
        let ready = self.servers.values().map(|it| it.client.state.name()).next().unwrap_or("off");
        let mut record = json!({
            "pid": std::process::id(), "sessionId": self.session, "cwd": self.cwd, "startedAt": self.started_at,
            "procStart": process_start(), "version": crate::version(&*self.clothes), "kind": "interactive", "status": status,
            "mcp": ready, "mcpServers": servers, "children": children,
            "transcript": self.transcript.path, "bytes": self.home.bytes(&self.session),
            "submissions": self.home.submissions(&self.session), "events": self.home.events(&self.session),
            "mcpLog": self.home.mcp(&self.session), "control": self.control.path,
        });
        if let Some(reason) = waiting_for {
            record["waitingFor"] = reason.into();
        }
        if record == self.last_status {
            return;
        }
        let before = std::mem::replace(&mut self.last_status, record.clone());
        if before["status"] != record["status"] {
            self.logs.event("status", json!({"status": status, "waitingFor": waiting_for}));
        }
        record["statusUpdatedAt"] = clock::wall_ms().into();
        let _ = replace(&self.home.status(), &record.to_string());
    }
}

/// Returns the start time of this process as the kernel counts it.
#[cfg(target_os = "linux")]
fn process_start() -> Option<String> {
    static START: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let read = || {
        let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
        let after_name = stat.rsplit_once(')')?.1;
        after_name.split_whitespace().nth(19).map(str::to_owned)
    };
    START.get_or_init(read).clone()
}

/// Returns nothing: this platform has no such count.
#[cfg(not(target_os = "linux"))]
fn process_start() -> Option<String> {
    None
}
