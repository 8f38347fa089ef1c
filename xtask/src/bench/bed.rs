//! Where it is measured: a temporary workspace with a long log, its commands with their times, and its log as it grows.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use team_testkit::TestWorkspace;

use super::history;
use crate::say;

/// How long anything that takes moments may take.
pub(super) const SOON: Duration = Duration::from_secs(30);

/// The workspace.
#[derive(Debug)]
pub(super) struct Bed {
    pub(super) ws: TestWorkspace,
}

/// What a timed call came to.
#[derive(Debug)]
pub(super) struct Timed {
    pub(super) took: Duration,
    /// Wall clock before it was started and after it ended, in milliseconds.
    pub(super) began: f64,
    pub(super) stdout: String,
    pub(super) code: Option<i32>,
}

impl Bed {
    /// Makes it, with so many lines behind it.
    pub(super) fn new(program: &Path, lines: u64) -> Result<Self> {
        let bed = Self { ws: TestWorkspace::with_program(program.to_owned()) };
        if lines > 0 {
            say::talk(&format!("writing {lines} lines of history"));
            let mut command = bed.ws.command(std::env::current_exe()?);
            command.args(["bench", history::COMMAND]).arg(bed.ws.path()).arg(lines.to_string());
            let output = command.output()?;
            if !output.status.success() {
                bail!("no history: {}", String::from_utf8_lossy(&output.stderr).trim());
            }
        }
        Ok(bed)
    }

    /// A call of the program.
    pub(super) fn call(&self, arguments: &[&str]) -> Command {
        let mut command = self.ws.command(self.ws.program());
        command.args(arguments);
        command
    }

    /// Runs the program and takes the time from before its start to after its end.
    pub(super) fn timed(&self, arguments: &[&str]) -> Result<Timed> {
        timed(self.call(arguments), "")
    }

    /// Runs the program, which has to succeed, and reads its JSON.
    pub(super) fn json(&self, arguments: &[&str]) -> Result<Value> {
        let mut all = arguments.to_vec();
        all.push("--json");
        let done = self.timed(&all)?;
        if done.code != Some(0) {
            bail!("`team-agent {}` failed: {}", arguments.join(" "), done.stdout.trim());
        }
        Ok(serde_json::from_str(&done.stdout)?)
    }

    /// Starts the program and leaves it running.
    pub(super) fn background(&self, arguments: &[&str]) -> Result<Child> {
        let mut command = self.call(arguments);
        Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?)
    }

    /// The private state directory.
    pub(super) fn state(&self) -> Result<PathBuf> {
        self.ws.state_directory().context("the workspace has no state directory")
    }

    /// The log from its present end on.
    pub(super) fn tail(&self) -> Result<Tail> {
        Tail::at_end(&self.ws.path().join(".team/logs/events.jsonl"))
    }

    /// Ends it and checks that nothing is left.
    pub(super) fn finish(self) {
        self.ws.finish();
    }
}

/// Runs a command to its end, its time taken.
pub(super) fn timed(mut command: Command, input: &str) -> Result<Timed> {
    command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let began = wall();
    let start = Instant::now();
    let mut child = command.spawn().with_context(|| format!("failed to start {command:?}"))?;
    if let Some(mut pipe) = child.stdin.take() {
        let _ = pipe.write_all(input.as_bytes());
    }
    let output = child.wait_with_output()?;
    let took = start.elapsed();
    let mut stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        stdout.push_str(&String::from_utf8_lossy(&output.stderr));
    }
    Ok(Timed { took, began, stdout, code: output.status.code() })
}

/// The wall clock in milliseconds since 1970.
pub(super) fn wall() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() * 1e3
}

/// Looks until something is there.
pub(super) fn until<T>(what: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let end = Instant::now() + SOON;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if Instant::now() > end {
            bail!("{what}: not within {SOON:?}");
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Reads the lines that are added to the log, across rotations.
#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    file: File,
    rest: Vec<u8>,
    /// How many bytes were read.
    pub(super) bytes: u64,
}

impl Tail {
    fn at_end(path: &Path) -> Result<Self> {
        use std::io::Seek as _;
        let mut file = File::open(path).with_context(|| format!("no log at {}", path.display()))?;
        file.seek(std::io::SeekFrom::End(0))?;
        Ok(Self { path: path.to_owned(), file, rest: Vec::new(), bytes: 0 })
    }

    /// The whole lines that were added since.
    pub(super) fn lines(&mut self) -> Result<Vec<Value>> {
        loop {
            let mut bytes = Vec::new();
            self.file.read_to_end(&mut bytes)?;
            self.bytes += bytes.len() as u64;
            self.rest.extend(bytes);
            let replaced = fs::metadata(&self.path)
                .is_ok_and(|it| self.file.metadata().is_ok_and(|ours| ours.ino() != it.ino()));
            if !replaced {
                break;
            }
            self.file = File::open(&self.path)?;
        }
        let end = self.rest.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
        let whole: Vec<u8> = self.rest.drain(..end).collect();
        let lines = whole.split(|it| *it == b'\n').filter(|it| !it.is_empty());
        Ok(lines.filter_map(|it| serde_json::from_slice(it).ok()).collect())
    }

    /// Waits for a line.
    pub(super) fn wait(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        until(what, || Ok(self.lines()?.into_iter().find(|it| wanted(it))))
    }
}

/// The time of a line in milliseconds since 1970.
pub(super) fn time_of(line: &Value) -> Option<f64> {
    let time: chrono::DateTime<chrono::Utc> = line["ts"].as_str()?.parse().ok()?;
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit")]
    Some(time.timestamp_millis() as f64)
}
