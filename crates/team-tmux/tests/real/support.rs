//! A server for one test, and ways to arrange and to wait.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use team_tmux::{
    CleanEnv, Endpoint, Fence, Key, OpenPane, Pane, PaneInfo, Press, ServerInfo, Terminal, Tmux, find_tmux,
};
use tempfile::TempDir;

use crate::helpers::byte_log;

pub(crate) const BASE: &str = "_base";
/// As long as a loaded machine may need.
const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const SESSION: &str = "team";

pub(crate) struct Server {
    pub(crate) dir: TempDir,
    pub(crate) terminal: Tmux,
    pub(crate) info: ServerInfo,
}

pub(crate) fn fence(epoch: u64) -> Fence {
    Fence { epoch, workspace: "ws-1".to_owned() }
}

pub(crate) fn real_tmux() -> PathBuf {
    find_tmux(&std::env::var_os("PATH").unwrap()).unwrap()
}

/// A pane with a shell command, which tmux executes without a shell of its own.
pub(crate) fn shell(name: &str, command: &str) -> OpenPane {
    let argv = ["/bin/sh", "-c", command];
    OpenPane {
        session: SESSION.to_owned(),
        window_name: name.to_owned(),
        cwd: "/".into(),
        argv: argv.map(OsString::from).to_vec(),
        tag: Some(format!("x-{name}")),
    }
}

pub(crate) fn press(pane: Pane, key: Key) -> Press {
    Press::plain(pane, key)
}

/// Waits until something is there, for as long as a loaded machine may need.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "it never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn is_listening(socket: &Path) -> bool {
    std::os::unix::net::UnixStream::connect(socket).is_ok()
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&CleanEnv::of_this_process())
    }

    pub(crate) fn start_with(env: &CleanEnv) -> Self {
        Self::start_on(TempDir::new().unwrap(), real_tmux(), env)
    }

    pub(crate) fn start_on(dir: TempDir, tmux: PathBuf, env: &CleanEnv) -> Self {
        let endpoint = Endpoint { tmux, socket: dir.path().join("run/tmux") };
        let mut terminal = Tmux::new(endpoint, None);
        let info = terminal.start_server(env, BASE).unwrap();
        terminal.claim_epoch(&fence(1)).unwrap();
        Self { dir, terminal, info }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.terminal.endpoint().socket.clone()
    }

    /// Another terminal on the same server, like that of another process.
    pub(crate) fn another(&self) -> Tmux {
        Tmux::new(self.terminal.endpoint().clone(), None)
    }

    /// Runs tmux directly, for what this crate does not do.
    pub(crate) fn tmux(&self, args: &[&str]) -> String {
        let mut command = Command::new(real_tmux());
        command.args(["-N", "-u", "-f", "/dev/null", "-S"]).arg(self.socket()).args(args);
        let output = command.env_remove("TMUX").output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn open(&mut self, asked: OpenPane) -> Pane {
        self.terminal.open(&[asked]).unwrap()[0].pane
    }

    /// Opens a program that logs its bytes and waits until it is able to.
    pub(crate) fn open_log(&mut self, name: &str, brackets: bool) -> (Pane, PathBuf) {
        let log = self.path(&format!("{name}.bytes"));
        let argv = byte_log(&log, brackets);
        let pane = self.open(OpenPane { argv, ..shell(name, "") });
        self.wait_for_text(pane, "READY");
        (pane, log)
    }

    pub(crate) fn info_of(&mut self, pane: Pane) -> Option<PaneInfo> {
        self.terminal.panes().unwrap().into_iter().find(|info| info.pane == pane)
    }

    pub(crate) fn wait_for_pane(&mut self, pane: Pane, is_so: impl Fn(&PaneInfo) -> bool) -> PaneInfo {
        eventually("a pane is as expected", || self.info_of(pane).filter(&is_so))
    }

    pub(crate) fn wait_for_text(&mut self, pane: Pane, text: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let screen = self.terminal.screen(pane).unwrap();
            if screen.as_ref().is_some_and(|screen| screen.contains(text)) {
                return;
            }
            let is_late = Instant::now() >= until;
            assert!(!is_late, "no `{text}` in {:?}\n{:?}", screen.map(|it| it.text()), self.info_of(pane));
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn assert_alive(&mut self) {
        assert_eq!(self.terminal.probe().unwrap(), Some(self.info.clone()));
    }
}

/// Waits until a log has exactly these bytes.
pub(crate) fn expect_bytes(log: &Path, expected: &[u8]) {
    let until = Instant::now() + PATIENCE;
    loop {
        let found = fs::read(log).unwrap_or_default();
        if found == expected {
            return;
        }
        if found.len() >= expected.len() || Instant::now() >= until {
            let show = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).into_owned();
            panic!("bytes differ\nfound    {:?}\nexpected {:?}", show(&found), show(expected));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// What a program gets when a text is pasted into it.
pub(crate) fn bracketed(text: &str) -> Vec<u8> {
    format!("\x1b[200~{text}\x1b[201~").into_bytes()
}

impl Drop for Server {
    fn drop(&mut self) {
        let socket = self.socket();
        let mut kill = Command::new(real_tmux());
        kill.args(["-N", "-S"]).arg(&socket).arg("kill-server").env_remove("TMUX");
        let _ = kill.output();
        let until = Instant::now() + Duration::from_secs(5);
        while is_listening(&socket) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
