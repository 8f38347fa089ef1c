//! A terminal of a test's own, to run a program that needs one, as a person's agent program.
//!
//! Knows as much tmux as a person's own session takes, on a socket inside the workspace. Must not know the
//! project's own terminals.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::process;
use crate::workspace::TestWorkspace;

const CALL_DEADLINE: Duration = Duration::from_secs(20);

/// How long an agent program's input box needs between a paste and the key that submits it.
const PASTE_SETTLES: Duration = Duration::from_millis(200);

/// A pane on the workspace's own tmux server; dropping it closes it.
#[derive(Debug)]
pub struct TestPane<'a> {
    workspace: &'a TestWorkspace,
    /// As `%0`.
    id: String,
}

impl<'a> TestPane<'a> {
    /// Opens a pane that runs a program with arguments.
    ///
    /// # Panics
    /// When tmux cannot.
    pub fn open(workspace: &'a TestWorkspace, program: &[&str]) -> Self {
        let mut arguments = vec!["start-server", ";", "set-option", "-g", "remain-on-exit", "on", ";"];
        arguments.extend([
            "new-session",
            "-d",
            "-x",
            "140",
            "-y",
            "40",
            "-P",
            "-F",
            "#{pane_id}",
            "--",
            "env",
        ]);
        arguments.extend(program);
        let id = tmux(workspace, &arguments, None).trim().to_owned();
        Self { workspace, id }
    }

    /// Returns the pane's id, as `%0`.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the socket of the workspace's own tmux server.
    pub fn socket(&self) -> PathBuf {
        socket(self.workspace)
    }

    /// Returns what is on the screen, without empty lines at the end.
    pub fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-t", &self.id]).trim_end().to_owned()
    }

    /// Presses keys, by tmux's names for them.
    pub fn keys(&self, keys: &[&str]) {
        let mut arguments = vec!["send-keys", "-t", &self.id];
        arguments.extend(keys);
        self.tmux(&arguments);
    }

    /// Types characters as they are.
    pub fn type_text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", "-t", &self.id, "--", text]);
    }

    /// Pastes a text and submits it.
    pub fn submit(&self, text: &str) {
        tmux(self.workspace, &["load-buffer", "-b", "test", "-"], Some(text));
        self.tmux(&["paste-buffer", "-p", "-r", "-d", "-b", "test", "-t", &self.id]);
        std::thread::sleep(PASTE_SETTLES);
        self.keys(&["Enter"]);
    }

    /// Returns the exit code of the pane's program once it has ended by itself.
    pub fn exit_code(&self) -> Option<i32> {
        let format = "#{pid} #{pane_dead} #{pane_dead_status}#{pane_dead_signal}";
        let text = self.tmux(&["display-message", "-p", "-t", &self.id, format]);
        let (server, dead) = text.trim().split_once(' ')?;
        if dead == "1" {
            // A server can miss the end of a child, and would then never say how it ended.
            let server = server.parse().ok()?;
            kill(Pid::from_raw(server), Signal::SIGCHLD).ok();
        }
        dead.strip_prefix("1 ")?.parse().ok()
    }

    /// Waits for a text on the screen.
    ///
    /// # Panics
    /// When it does not come in time; the message has the screen.
    pub fn wait_for(&self, text: &str, deadline: Duration) {
        let seen = process::wait_until(|| self.screen().contains(text), deadline);
        assert!(seen, "no `{text}` on the screen within {deadline:?}:\n{}", self.screen());
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        tmux(self.workspace, arguments, None)
    }
}

impl Drop for TestPane<'_> {
    fn drop(&mut self) {
        let mut command = client(self.workspace);
        command.args(["kill-pane", "-t", &self.id]);
        // The workspace ends whatever is left.
        process::run(&mut command, CALL_DEADLINE).ok();
    }
}

fn socket(workspace: &TestWorkspace) -> PathBuf {
    workspace.root().join("t")
}

fn client(workspace: &TestWorkspace) -> Command {
    let mut command = workspace.command("tmux");
    command.arg("-u").arg("-S").arg(socket(workspace)).args(["-f", "/dev/null"]);
    command
}

fn tmux(workspace: &TestWorkspace, arguments: &[&str], input: Option<&str>) -> String {
    let mut command = client(workspace);
    command.args(arguments);
    let output = process::run_with_input(&mut command, input, CALL_DEADLINE)
        .unwrap_or_else(|error| panic!("`{command:?}`: {error}"));
    assert_eq!(output.code, Some(0), "`{command:?}`:\n{}", output.snapshot());
    output.stdout
}
