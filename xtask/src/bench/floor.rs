//! Floors: what this machine takes for the bare work, without us.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::machine;

/// A program that does nothing, built the way ours is; gone when dropped.
#[derive(Debug)]
pub(super) struct Empty {
    dir: tempfile::TempDir,
}

impl Empty {
    pub(super) fn path(&self) -> PathBuf {
        self.dir.path().join("empty")
    }
}

/// Builds the program that does nothing.
pub(super) fn empty_program() -> Result<Empty> {
    let empty = Empty { dir: tempfile::tempdir()? };
    let source = empty.dir.path().join("empty.rs");
    std::fs::write(&source, "fn main() {}\n")?;
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let built = Command::new(rustc).args(["-O", "-o"]).arg(empty.path()).arg(&source).status()?;
    if !built.success() {
        bail!("the empty program could not be built");
    }
    Ok(empty)
}

/// A tmux server of our own on a socket of its own; killed when dropped.
pub(super) struct Server {
    dir: tempfile::TempDir,
}

impl Server {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { dir: tempfile::Builder::new().prefix("tf-").tempdir()? })
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("s")
    }

    fn call(&self, arguments: &[String], input: Option<&str>) -> Result<String> {
        call(&self.socket(), arguments, input)
    }

    /// Starts so many programs in windows, in one call, and returns once all are seen alive.
    pub(super) fn windows(&self, count: usize) -> Result<Duration> {
        let size = ["-x", "200", "-y", "50"];
        let begun = Instant::now();
        let mut words: Vec<String> = ["start-server", ";", "set-option", "-g", "remain-on-exit", "on", ";"]
            .iter()
            .map(ToString::to_string)
            .collect();
        for window in 0..count {
            if window == 0 {
                words.extend(["new-session", "-d", "-s", "floor"].map(str::to_owned));
                words.extend(size.map(str::to_owned));
            } else {
                words.extend([";", "new-window", "-d", "-t", "=floor:"].map(str::to_owned));
            }
            words.extend(["-P", "-F", "#{pane_pid}", "--", "cat", "-u"].map(str::to_owned));
        }
        let said = self.call(&words, None)?;
        let pids: Vec<u64> = said.lines().filter_map(|it| it.trim().parse().ok()).collect();
        if pids.len() != count {
            bail!("tmux opened {} windows of {count}", pids.len());
        }
        while !pids.iter().all(|it| machine::name(*it).as_deref() == Some("cat")) {
            if begun.elapsed() > Duration::from_secs(10) {
                bail!("the windows of the floor did not come up");
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(begun.elapsed())
    }

    /// Pastes a text into the first window, with the look whether its program lives in the same call.
    pub(super) fn guarded_paste(&self, text: &str) -> Result<Duration> {
        let words = [
            "load-buffer",
            "-b",
            "floor",
            "-",
            ";",
            "if-shell",
            "-F",
            "-t",
            "=floor:",
            "#{?pane_dead,0,1}",
            "paste-buffer -p -r -d -b floor -t =floor: ; display-message -p OK",
            "display-message -p DEAD",
        ]
        .map(str::to_owned);
        let begun = Instant::now();
        let said = self.call(&words, Some(text))?;
        if said.trim() != "OK" {
            bail!("the floor's paste failed: {said}");
        }
        Ok(begun.elapsed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.call(&["kill-server".to_owned()], None);
    }
}

fn call(socket: &Path, arguments: &[String], input: Option<&str>) -> Result<String> {
    let mut command = Command::new("tmux");
    command.args(["-u", "-f", "/dev/null", "-S"]).arg(socket).args(arguments);
    command.env_remove("TMUX").stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.spawn().context("failed to start tmux")?;
    if let (Some(text), Some(mut pipe)) = (input, child.stdin.take()) {
        std::io::Write::write_all(&mut pipe, text.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("tmux failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
