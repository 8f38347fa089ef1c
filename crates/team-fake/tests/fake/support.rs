//! Starts a fake agent on a pseudo-terminal, types into it and reads what it leaves behind.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// Longest wait for anything; far more than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A temporary place with a home, a working directory and what the next start gets.
pub(crate) struct World {
    pub(crate) dir: TempDir,
    settings: Value,
    mcp: Option<Value>,
    script: String,
}

/// A running fake agent.
pub(crate) struct Fake {
    child: Child,
    master: File,
    screen: Arc<Mutex<Picture>>,
    home: PathBuf,
    pub(crate) cwd: PathBuf,
    session: Option<String>,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("w")).unwrap();
        Self { dir, settings: Value::Null, mcp: None, script: String::new() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn settings(mut self, settings: Value) -> Self {
        self.settings = settings;
        self
    }

    pub(crate) fn mcp(mut self, config: Value) -> Self {
        self.mcp = Some(config);
        self
    }

    pub(crate) fn script(mut self, script: &str) -> Self {
        script.clone_into(&mut self.script);
        self
    }

    pub(crate) fn start(&self) -> Fake {
        self.start_with(&[])
    }

    pub(crate) fn start_with(&self, args: &[&str]) -> Fake {
        let size = Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let cwd = self.path("w").canonicalize().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_fake-agent"));
        command.args(args).current_dir(&cwd).env_clear();
        command
            .env("HOME", self.dir.path())
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("FAKE_HOME", self.path("home"))
            .env("FAKE_SEAT", "w1")
            .env("FAKE_SCRIPT", &self.script)
            .env("SECRET_OF_THE_PARENT", "x");
        if !self.settings.is_null() {
            command.args(["--settings", &self.settings.to_string()]);
        }
        if let Some(mcp) = &self.mcp {
            std::fs::write(self.path("mcp.json"), mcp.to_string()).unwrap();
            command.arg("--mcp-config").arg(self.path("mcp.json"));
        }
        let slave = |fd: &OwnedFd| Stdio::from(fd.try_clone().unwrap());
        command.stdin(slave(&pty.slave)).stdout(slave(&pty.slave)).stderr(slave(&pty.slave));
        let child = command.spawn().unwrap();
        drop(command);
        drop(pty.slave);
        let screen = Arc::new(Mutex::new(Picture::default()));
        let (shared, mut reader) = (Arc::clone(&screen), File::from(pty.master.try_clone().unwrap()));
        std::thread::spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(count) = reader.read(&mut buffer)
                && count > 0
            {
                shared.lock().unwrap().feed(&buffer[..count]);
            }
        });
        let home = self.path("home");
        Fake { child, master: File::from(pty.master), screen, home, cwd, session: None }
    }

    /// A hook that appends its input to the file `name`, then does `more`.
    pub(crate) fn recording(&self, name: &str, more: &str) -> Value {
        let file = self.path(name);
        let command = format!("x=$(cat); printf '%s\\n' \"$x\" >> '{}'; {more}", file.display());
        serde_json::json!([{"hooks": [{"type": "command", "command": command}]}])
    }

    /// The JSON lines of a file below the temporary directory.
    pub(crate) fn lines(&self, name: &str) -> Vec<Value> {
        json_lines(&self.path(name))
    }
}

impl Fake {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the input box, and for `idle`.
    pub(crate) fn ready(mut self) -> Self {
        let status = self.until_status("idle");
        self.session = status["sessionId"].as_str().map(str::to_owned);
        self.until(|it| it.shows("❯").then_some(()));
        self
    }

    pub(crate) fn session(&self) -> &str {
        self.session.as_deref().unwrap()
    }

    /// Waits until `look` finds something.
    pub(crate) fn until<T>(&self, look: impl Fn(&Self) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            assert!(
                Instant::now() < deadline,
                "not seen in time; screen:\n{}\nevents: {:#?}",
                self.text(),
                self.events()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.master.write_all(bytes).unwrap();
    }

    /// A bracketed paste, as tmux writes it.
    pub(crate) fn paste(&mut self, text: &str) {
        self.send(format!("\x1b[200~{text}\x1b[201~").as_bytes());
    }

    /// Appends a line to the control file and waits until it is obeyed.
    pub(crate) fn control(&self, line: &str) {
        let obeyed = |it: &Self| it.events().iter().filter(|it| it["event"] == "control").count();
        let before = obeyed(self);
        let path = self.home.join("control").join("w1");
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(format!("{line}\n").as_bytes()).unwrap();
        self.until(|it| (obeyed(it) > before).then_some(()));
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.pid()).unwrap()), signal).unwrap();
    }

    pub(crate) fn status_path(&self) -> PathBuf {
        self.home.join("sessions").join(format!("{}.json", self.pid()))
    }

    pub(crate) fn status(&self) -> Option<Value> {
        serde_json::from_slice(&std::fs::read(self.status_path()).ok()?).ok()
    }

    pub(crate) fn until_status(&self, status: &str) -> Value {
        self.until(|it| it.status().filter(|it| it["status"] == status))
    }

    fn log(&self, kind: &str) -> Vec<Value> {
        json_lines(&self.home.join(kind).join(format!("{}.jsonl", self.any_session())))
    }

    /// The session, also before it is ready.
    fn any_session(&self) -> String {
        if let Some(session) = &self.session {
            return session.clone();
        }
        let mut names: Vec<(std::time::SystemTime, String)> = std::fs::read_dir(self.home.join("events"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|it| {
                let name = it.file_name().into_string().ok()?;
                Some((it.metadata().ok()?.modified().ok()?, name.strip_suffix(".jsonl")?.to_owned()))
            })
            .collect();
        names.sort();
        names.pop().map(|it| it.1).unwrap_or_default()
    }

    pub(crate) fn events(&self) -> Vec<Value> {
        self.log("events")
    }

    pub(crate) fn event(&self, name: &str) -> Option<Value> {
        self.events().into_iter().find(|it| it["event"] == name)
    }

    pub(crate) fn until_event(&self, name: &str) -> Value {
        self.until(|it| it.event(name))
    }

    pub(crate) fn submissions(&self) -> Vec<Value> {
        self.log("submissions")
    }

    pub(crate) fn submitted(&self) -> Vec<String> {
        self.submissions().iter().map(|it| it["text"].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) fn mcp_log(&self) -> Vec<Value> {
        self.log("mcp")
    }

    /// All bytes that the program says it got.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let path = self.home.join("bytes").join(format!("{}.log", self.session()));
        let text = std::fs::read_to_string(path).unwrap();
        let hex: String = text.lines().filter_map(|it| it.split(' ').nth(2)).collect();
        (0..hex.len() / 2).map(|it| u8::from_str_radix(&hex[it * 2..it * 2 + 2], 16).unwrap()).collect()
    }

    pub(crate) fn transcript(&self) -> Vec<Value> {
        let status = self.status().unwrap();
        json_lines(Path::new(status["transcript"].as_str().unwrap()))
    }

    /// The record kinds of the transcript, for comparing whole turns.
    pub(crate) fn kinds(&self) -> Vec<String> {
        self.transcript().iter().map(kind).collect()
    }

    /// Waits for this many ended turns.
    pub(crate) fn until_turns(&self, count: usize) {
        self.until(|it| {
            (it.kinds().iter().filter(|it| *it == "turn_duration").count() >= count).then_some(())
        });
        self.until_status("idle");
    }

    /// What the assistant said last.
    pub(crate) fn last_answer(&self) -> String {
        let is_answer = |it: &&Value| it["message"]["stop_reason"] == "end_turn";
        let transcript = self.transcript();
        let last = transcript.iter().rev().find(is_answer).unwrap();
        last["message"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    pub(crate) fn text(&self) -> String {
        self.screen.lock().unwrap().text()
    }

    pub(crate) fn shows(&self, text: &str) -> bool {
        self.text().contains(text)
    }

    pub(crate) fn until_shown(&self, text: &str) {
        self.until(|it| it.shows(text).then_some(()));
    }

    /// Waits for the end and returns the exit code.
    pub(crate) fn ended(&mut self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < deadline, "still runs; screen:\n{}", self.text());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let left: Vec<Value> = self.events();
        let _ = self.child.kill();
        let _ = self.child.wait();
        for pid in left.iter().filter(|it| it["event"] == "child").filter_map(|it| it["pid"].as_i64()) {
            let _ = kill(Pid::from_raw(i32::try_from(pid).unwrap()), Signal::SIGKILL);
        }
    }
}

/// Names a record of the transcript in a word.
fn kind(record: &Value) -> String {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    match record["type"].as_str().unwrap_or_default() {
        "queue-operation" => text(&record["operation"]),
        "system" => text(&record["subtype"]),
        "attachment" => text(&record["attachment"]["type"]),
        "assistant" => text(&record["message"]["stop_reason"]),
        "user" if record["message"]["content"].is_string() => {
            if record["isMeta"] == true {
                "meta".to_owned()
            } else {
                "user".to_owned()
            }
        }
        "user" => text(&record["message"]["content"][0]["type"]),
        other => other.to_owned(),
    }
}

pub(crate) fn json_lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|it| serde_json::from_str(it).ok()).collect()
}

/// Just enough of a terminal to see what is drawn.
#[derive(Default)]
struct Picture {
    lines: Vec<String>,
    row: usize,
    pending: Vec<u8>,
}

impl Picture {
    fn feed(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        let mut at = 0;
        let pending = std::mem::take(&mut self.pending);
        while at < pending.len() {
            if pending[at] != 0x1b {
                let end = pending[at..].iter().position(|&it| it == 0x1b).map_or(pending.len(), |it| at + it);
                match std::str::from_utf8(&pending[at..end]) {
                    Ok(text) => self.print(text),
                    Err(_) if end == pending.len() => break,
                    Err(_) => self.print(&String::from_utf8_lossy(&pending[at..end])),
                }
                at = end;
                continue;
            }
            let is_final = |it: &u8| (0x40..0x7f).contains(it) && *it != b'[';
            let Some(length) = pending[at + 1..].iter().position(is_final) else { break };
            let sequence = &pending[at..at + length + 2];
            let body = String::from_utf8_lossy(&sequence[2..sequence.len() - 1]).into_owned();
            match sequence.last() {
                Some(b'H') => {
                    self.row = body.split(';').next().and_then(|it| it.parse().ok()).unwrap_or(1) - 1;
                    if body.ends_with(";1") && self.row < self.lines.len() {
                        self.lines[self.row].clear();
                    }
                }
                Some(b'J') => self.lines.clear(),
                _ => {}
            }
            at += length + 2;
        }
        self.pending = pending[at..].to_vec();
    }

    fn print(&mut self, text: &str) {
        while self.lines.len() <= self.row {
            self.lines.push(String::new());
        }
        self.lines[self.row].push_str(text);
    }

    fn text(&self) -> String {
        self.lines.join("\n")
    }
}
