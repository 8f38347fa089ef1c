//! A workspace of a test's own: directory, home, state, environment, and the program run in it.
//!
//! Knows how the program is found, run and cleaned up after. Must not know what its commands do, beyond that
//! `shutdown` ends a team and that a team's log is `.team/logs/events.jsonl`.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::fcntl::Flock;
use serde_json::Value;
use uuid::Uuid;

use crate::abandoned;
use crate::leftovers::{self, Leftover};
use crate::normal::Normal;
use crate::process::{self, Output};
use crate::program;

/// How long one call of the program may take before the test is told that it hangs.
pub const CALL_DEADLINE: Duration = Duration::from_secs(60);

/// How long what a team leaves behind may take to go.
const GONE_DEADLINE: Duration = Duration::from_secs(10);

/// The variable that marks what a test started. It has no name that the program keeps from its agents.
const MARK: &str = "TESTKIT_RUN";

/// How the names of the directories begin.
const PREFIX: &str = "ta-";

/// Variables of the person who runs the tests that are passed on.
const KEPT: [&str; 6] =
    ["CARGO_HOME", "RUSTUP_HOME", "RUST_BACKTRACE", "LLVM_PROFILE_FILE", "NIX_PATH", "USER"];

/// A workspace in a temporary directory, with everything the program would look up kept inside it.
///
/// Dropping it ends what was started in it; [`TestWorkspace::finish`] also checks that nothing was left.
#[derive(Debug)]
pub struct TestWorkspace {
    root: tempfile::TempDir,
    /// Held until that is removed.
    _owner: Flock<File>,
    real: PathBuf,
    path: PathBuf,
    program: PathBuf,
    run: String,
    variables: BTreeMap<OsString, OsString>,
    deadline: Duration,
    patience: Duration,
    finished: bool,
}

impl Default for TestWorkspace {
    fn default() -> Self {
        Self::new()
    }
}

impl TestWorkspace {
    /// Makes a workspace for the program as it was built for this test run.
    pub fn new() -> Self {
        Self::with_program(program::team_agent().expect("the program is built"))
    }

    /// Makes a workspace in that directory below the temporary one, whatever its name is.
    pub fn named(name: impl AsRef<Path>) -> Self {
        Self::build(program::team_agent().expect("the program is built"), name.as_ref())
    }

    /// Makes a workspace for that program.
    pub fn with_program(program: PathBuf) -> Self {
        Self::build(program, Path::new("ws"))
    }

    fn build(program: PathBuf, name: &Path) -> Self {
        // Short, because socket paths are: a state directory must leave room for a socket's name.
        abandoned::clear(&env::temp_dir(), PREFIX);
        let root =
            tempfile::Builder::new().prefix(PREFIX).tempdir().expect("a temporary directory can be made");
        let owner = abandoned::own(root.path()).expect("a new directory can be locked");
        let real = fs::canonicalize(root.path()).expect("a temporary directory has a path");
        for name in ["home", "state", "tmp", "run"] {
            fs::create_dir(real.join(name)).expect("a temporary directory is writable");
        }
        fs::create_dir_all(real.join(name)).expect("a temporary directory is writable");
        let run = Uuid::new_v4().to_string();
        let variables = variables(&real, &program, &run);
        Self {
            root,
            _owner: owner,
            path: real.join(name),
            real,
            program,
            run,
            variables,
            deadline: CALL_DEADLINE,
            patience: GONE_DEADLINE,
            finished: false,
        }
    }

    /// Returns the workspace's directory, without links in it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the temporary directory everything is in.
    pub fn root(&self) -> &Path {
        &self.real
    }

    /// Returns the home directory.
    pub fn home(&self) -> PathBuf {
        self.root().join("home")
    }

    /// Returns `XDG_STATE_HOME`.
    pub fn state_home(&self) -> PathBuf {
        let named = self.variables.get(OsStr::new("XDG_STATE_HOME")).map(PathBuf::from);
        named.unwrap_or_else(|| self.root().join("state"))
    }

    /// Returns the program's own state directory for this workspace, once it has made one.
    pub fn state_directory(&self) -> Option<PathBuf> {
        let id = fs::read_to_string(self.path.join(".team/id")).ok()?;
        let id = id.lines().next().unwrap_or_default().trim();
        Some(self.state_home().join("team-agent").join(id)).filter(|path| path.is_dir())
    }

    /// Returns the program under test.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Returns the environment of what is started here.
    pub fn variables(&self) -> &BTreeMap<OsString, OsString> {
        &self.variables
    }

    /// Sets a variable for what is started from now on.
    pub fn set(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.variables.insert(name.as_ref().to_owned(), value.as_ref().to_owned());
        self
    }

    /// Removes a variable for what is started from now on.
    pub fn unset(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.variables.remove(name.as_ref());
        self
    }

    /// Puts a directory at the front of `PATH`.
    pub fn path_first(&mut self, directory: &Path) -> &mut Self {
        let old = self.variables.get(OsStr::new("PATH")).cloned().unwrap_or_default();
        let all = std::iter::once(directory.to_owned()).chain(env::split_paths(&old));
        let joined = env::join_paths(all).expect("directories of a test have no colon");
        self.set("PATH", joined)
    }

    /// Makes the built-in agent be found under the name of a program that it plays, before all others; returns its
    /// home, in which it keeps the logs and control files of all that are started so.
    ///
    /// # Panics
    /// When it cannot play that program.
    pub fn wear(&mut self, program: &str) -> PathBuf {
        let directory = self.root().join("worn");
        let mut command = self.command(&self.program);
        command.arg("fake-agent").arg("--wear").arg(&directory).arg(program);
        let output = self.finish_run(&mut command, None);
        assert_eq!(output.code, Some(0), "`{command:?}`:\n{}", output.snapshot());
        if !env::split_paths(&self.variables["PATH".as_ref() as &OsStr]).any(|it| it == directory) {
            self.path_first(&directory);
        }
        directory.join("fake-home")
    }

    /// Sets how long one call may take.
    pub fn deadline(&mut self, deadline: Duration) -> &mut Self {
        self.deadline = deadline;
        self
    }

    /// Sets how long [`TestWorkspace::finish`] waits for what must go by itself.
    pub fn patience(&mut self, patience: Duration) -> &mut Self {
        self.patience = patience;
        self
    }

    /// Writes a file below the workspace, its directories included.
    pub fn write(&self, name: impl AsRef<Path>, text: &str) -> PathBuf {
        let path = self.path.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("a workspace is writable");
        }
        fs::write(&path, text).expect("a workspace is writable");
        path
    }

    /// Reads a file below the workspace.
    ///
    /// # Panics
    /// When it cannot be read.
    pub fn read(&self, name: impl AsRef<Path>) -> String {
        let path = self.path.join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("cannot read `{}`: {error}", path.display()))
    }

    /// Returns a command for any program, in the workspace and its environment.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().envs(&self.variables).current_dir(&self.path);
        command
    }

    /// Runs the program to its end.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Output {
        let mut command = self.command(&self.program);
        command.args(arguments);
        self.finish_run(&mut command, None)
    }

    /// Runs the program with that text as its input.
    pub fn run_with_input<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
        input: &str,
    ) -> Output {
        let mut command = self.command(&self.program);
        command.args(arguments);
        self.finish_run(&mut command, Some(input))
    }

    /// Runs the program in another directory.
    pub fn run_in<S: AsRef<OsStr>>(
        &self,
        directory: &Path,
        arguments: impl IntoIterator<Item = S>,
    ) -> Output {
        let mut command = self.command(&self.program);
        command.args(arguments).current_dir(directory);
        self.finish_run(&mut command, None)
    }

    /// Runs the program with `--json` and returns what it printed, whatever its exit code.
    ///
    /// # Panics
    /// When that is not JSON.
    pub fn json<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Value {
        let mut command = self.command(&self.program);
        command.args(arguments).arg("--json");
        let output = self.finish_run(&mut command, None);
        serde_json::from_str(&output.stdout)
            .unwrap_or_else(|error| panic!("`{command:?}` printed no JSON ({error}):\n{}", output.snapshot()))
    }

    /// Runs the program and returns what it printed.
    ///
    /// # Panics
    /// When its exit code is not 0.
    pub fn ok<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        let mut command = self.command(&self.program);
        command.args(arguments);
        let output = self.finish_run(&mut command, None);
        assert_eq!(output.code, Some(0), "`{command:?}`:\n{}", output.snapshot());
        output.stdout
    }

    /// Returns the team's log, line by line; a last line that is not whole yet is left out.
    pub fn events(&self) -> Vec<Value> {
        let bytes = fs::read(self.path.join(".team/logs/events.jsonl")).unwrap_or_default();
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        bytes[..whole]
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).expect("a line of the log is JSON"))
            .collect()
    }

    /// Waits for a line of the log of which `wanted` is true.
    ///
    /// # Panics
    /// When none comes in time; the message has the log's last lines.
    pub fn wait_for_event(&self, wanted: impl Fn(&Value) -> bool, deadline: Duration) -> Value {
        let mut found = None;
        process::wait_until(
            || {
                found = self.events().into_iter().find(|event| wanted(event));
                found.is_some()
            },
            deadline,
        );
        found
            .unwrap_or_else(|| panic!("no such event within {deadline:?}; the log ends:\n{}", self.log_end()))
    }

    /// Waits until `condition` is true.
    ///
    /// # Panics
    /// When it does not become so in time; the message has `what` and the log's last lines.
    pub fn wait_until(&self, what: &str, condition: impl FnMut() -> bool, deadline: Duration) {
        let done = process::wait_until(condition, deadline);
        assert!(done, "{what}: not within {deadline:?}; the log ends:\n{}", self.log_end());
    }

    /// Replaces what differs from run to run: directories, times, identifiers drawn at random.
    pub fn normalise(&self, text: &str) -> String {
        let mut normal = Normal::new();
        if let Ok(id) = fs::read_to_string(self.path.join(".team/id")) {
            normal.replace(id.lines().next().unwrap_or_default().trim(), "$WSID");
        }
        normal
            .replace(&self.path.to_string_lossy(), "$WS")
            .replace(&self.home().to_string_lossy(), "$HOME")
            .replace(&self.state_home().to_string_lossy(), "$STATE")
            .replace(&self.root().to_string_lossy(), "$ROOT")
            .replace(&self.program.to_string_lossy(), "$BIN")
            .apply(text)
    }

    /// Runs the program and returns its output as one text for a snapshot.
    pub fn snapshot<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        self.normalise(&self.run(arguments).snapshot())
    }

    /// Returns the processes that were started in this workspace and still run.
    pub fn processes(&self) -> Vec<Leftover> {
        leftovers::processes(&self.marks())
    }

    /// Shuts the team down and checks that nothing is left of it.
    ///
    /// # Panics
    /// When a process or a socket is left, or the temporary directory cannot be removed.
    pub fn finish(mut self) {
        self.shut_down();
        let mut left = Vec::new();
        process::wait_until(
            || {
                left = self.left();
                left.is_empty()
            },
            self.patience,
        );
        let log = if left.is_empty() { String::new() } else { self.log_end() };
        self.end_all();
        self.finished = true;
        assert!(left.is_empty(), "left after the end:\n{}\nthe log ends:\n{log}", left.join("\n"));
        let root = self.root().to_owned();
        drop(self);
        assert!(!root.exists(), "`{}` was not removed", root.display());
    }

    fn finish_run(&self, command: &mut Command, input: Option<&str>) -> Output {
        process::run_with_input(command, input, self.deadline)
            .unwrap_or_else(|error| panic!("`{command:?}`: {error}; the log ends:\n{}", self.log_end()))
    }

    fn shut_down(&self) {
        if self.path.join(".team/logs/events.jsonl").exists() && !self.processes().is_empty() {
            let mut command = self.command(&self.program);
            command.arg("shutdown");
            // What it leaves is found below; a team that was shut down already refuses.
            process::run(&mut command, GONE_DEADLINE).ok();
        }
    }

    fn left(&self) -> Vec<String> {
        let processes = self.processes().into_iter().map(|it| format!("process {}: {}", it.pid, it.command));
        let sockets = leftovers::listening_sockets(self.root()).into_iter();
        processes.chain(sockets.map(|it| format!("socket {}", it.display()))).collect()
    }

    fn end_all(&self) {
        // A process may start another while it is being ended.
        process::wait_until(
            || {
                let found = self.processes();
                found.iter().for_each(leftovers::end);
                found.is_empty()
            },
            GONE_DEADLINE,
        );
    }

    /// What a process started here has in its environment, arguments or working directory.
    fn marks(&self) -> Vec<String> {
        vec![format!("{MARK}={}", self.run), self.root().to_string_lossy().into_owned()]
    }

    fn log_end(&self) -> String {
        let events = self.events();
        let lines: Vec<String> = events
            .iter()
            .skip(events.len().saturating_sub(12))
            .map(|event| self.normalise(&event.to_string()))
            .collect();
        if lines.is_empty() { "(there is no log)".to_owned() } else { lines.join("\n") }
    }
}

impl Drop for TestWorkspace {
    fn drop(&mut self) {
        if !self.finished {
            self.shut_down();
            self.end_all();
        }
        // The directory goes with `root`.
        debug_assert!(self.path.starts_with(fs::canonicalize(self.root.path()).unwrap_or_default()));
    }
}

/// Returns the environment of everything in a workspace: nothing of the person's who runs the tests but `PATH`.
fn variables(root: &Path, program: &Path, run: &str) -> BTreeMap<OsString, OsString> {
    let own = program.parent().map(Path::to_owned);
    let theirs = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(own.into_iter().chain(env::split_paths(&theirs))).unwrap_or(theirs.clone());
    let mut variables: BTreeMap<OsString, OsString> =
        KEPT.iter().filter_map(|name| Some((OsString::from(name), env::var_os(name)?))).collect();
    let mut set = |name: &str, value: OsString| variables.insert(name.into(), value);
    set("PATH", path);
    set("HOME", root.join("home").into());
    set("XDG_STATE_HOME", root.join("state").into());
    set("XDG_RUNTIME_DIR", root.join("run").into());
    set("TMPDIR", root.join("tmp").into());
    set("TMUX_TMPDIR", root.join("tmp").into());
    set("LANG", "C.UTF-8".into());
    set("TERM", "xterm-256color".into());
    set("SHELL", "/bin/sh".into());
    set("TZ", "UTC".into());
    set("GIT_CONFIG_NOSYSTEM", "1".into());
    set(MARK, run.into());
    variables
}
