//! Running programs with a deadline, and waiting for conditions.
//!
//! Knows processes. Must not know workspaces or agent programs.

use std::env;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How often a condition is asked for that nothing announces.
const LOOK: Duration = Duration::from_millis(10);

/// How long what a program wrote may take to arrive after it has ended.
const DRAIN: Duration = Duration::from_secs(2);

/// What a program said and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
}

impl Output {
    /// Returns everything as one text for a snapshot; what is empty is left out.
    pub fn snapshot(&self) -> String {
        let mut text = String::new();
        for (name, part) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !part.is_empty() {
                let end = if part.ends_with('\n') { "" } else { "\n" };
                text += &["--- ", name, "\n", part, end].concat();
            }
        }
        let code = self.code.map_or("by a signal".to_owned(), |code| code.to_string());
        text + "--- exit " + &code + "\n"
    }
}

/// A program could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// It did not start.
    #[error("failed to start")]
    Start(#[source] io::Error),
    /// It did not end in time and was ended.
    #[error("not done within {after:?}; stdout: {stdout:?}; stderr: {stderr:?}")]
    TooLate {
        /// The time it had.
        after: Duration,
        /// What it had written to standard output.
        stdout: String,
        /// What it had written to standard error.
        stderr: String,
    },
    /// Waiting for it failed.
    #[error("failed to wait for the program")]
    Wait(#[source] io::Error),
}

/// Runs a program without input to its end, or ends it at the deadline.
pub fn run(command: &mut Command, deadline: Duration) -> Result<Output, RunError> {
    run_with_input(command, None, deadline)
}

/// Runs a program with that text as its input.
pub fn run_with_input(
    command: &mut Command,
    input: Option<&str>,
    deadline: Duration,
) -> Result<Output, RunError> {
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(RunError::Start)?;
    if let (Some(text), Some(mut pipe)) = (input, child.stdin.take()) {
        let text = text.to_owned();
        // A program that does not read must not hold us up.
        thread::spawn(move || pipe.write_all(text.as_bytes()).ok());
    }
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let end = Instant::now() + deadline;
    loop {
        if let Some(status) = child.try_wait().map_err(RunError::Wait)? {
            return Ok(Output { stdout: stdout.text(), stderr: stderr.text(), code: status.code() });
        }
        if Instant::now() >= end {
            // Gone already is as good.
            child.kill().ok();
            child.wait().ok();
            return Err(RunError::TooLate { after: deadline, stdout: stdout.text(), stderr: stderr.text() });
        }
        thread::sleep(LOOK);
    }
}

/// Waits until `condition` is true; tells whether it became so before the deadline.
pub fn wait_until(mut condition: impl FnMut() -> bool, deadline: Duration) -> bool {
    let end = Instant::now() + deadline;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(LOOK);
    }
}

/// Returns the target directory the running test was built into.
pub fn target_directory() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    program.ancestors().find(|directory| directory.join("CACHEDIR.TAG").is_file()).map(PathBuf::from)
}

/// What a pipe has given so far. A grandchild may hold it open for ever, so nobody waits for its end.
struct Collected {
    pieces: mpsc::Receiver<Vec<u8>>,
}

impl Collected {
    fn text(&self) -> String {
        let end = Instant::now() + DRAIN;
        let mut bytes = Vec::new();
        while let Ok(piece) = self.pieces.recv_timeout(end.saturating_duration_since(Instant::now())) {
            bytes.extend(piece);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> Collected {
    let (sender, pieces) = mpsc::channel();
    if let Some(mut pipe) = pipe {
        thread::spawn(move || {
            let mut buffer = [0; 16 * 1024];
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
    }
    Collected { pieces }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_that_ends_gives_both_streams_and_its_code() {
        let output = run(&mut shell("echo out; echo err >&2; exit 3"), Duration::from_secs(10)).unwrap();
        assert_eq!(output, Output { stdout: "out\n".to_owned(), stderr: "err\n".to_owned(), code: Some(3) });
    }

    #[test]
    fn a_program_gets_its_input() {
        let output = run_with_input(&mut shell("cat"), Some("text"), Duration::from_secs(10)).unwrap();
        assert_eq!(output.stdout, "text");
    }

    #[test]
    fn a_program_that_hangs_is_ended_and_what_it_said_is_told() {
        let error = run(&mut shell("echo waiting; exec sleep 600"), Duration::from_millis(300)).unwrap_err();
        assert!(error.to_string().contains("waiting"), "{error}");
    }
}
