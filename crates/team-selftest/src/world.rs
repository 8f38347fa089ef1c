//! A workspace, a home and a team of one, made for the try and removed after it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::Flock;
use serde_json::Value;
use team_provider::{Program, Provider};
use team_stub::ModelStub;

use crate::interrupt;
use crate::other_end::OtherEnd;
use crate::{Plan, SelftestError};

/// The agent's name.
pub(crate) const AGENT: &str = "w1";
/// The model's name, which no provider knows.
const MODEL: &str = "stub-model";
/// How often something is looked at that nothing announces.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long the team may take to end.
const AT_THE_END: Duration = Duration::from_secs(20);
/// How long it may take when somebody waits for the end of the whole try.
const CUT_SHORT: Duration = Duration::from_secs(5);

pub(crate) struct World {
    pub(crate) provider: &'static dyn Provider,
    pub(crate) other_end: OtherEnd,
    pub(crate) workspace: PathBuf,
    program: PathBuf,
    /// Holds the program that is played, if one is.
    bin: Option<PathBuf>,
    home: PathBuf,
    /// Held for as long as this try lives.
    _owner: Flock<File>,
    base: tempfile::TempDir,
}

/// What a command answered.
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) json: Value,
}

impl Answer {
    /// Its error, in one line.
    pub(crate) fn error(&self) -> String {
        let text = |at: &str| self.json.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        match text("/error/message") {
            message if message.is_empty() => format!("exit code {:?}: {}", self.code, self.json),
            message => format!("{}: {message}", text("/error/code")),
        }
    }
}

/// Waits until something is so, or the try is to end.
pub(crate) fn until(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let mut given_up = false;
    let is_so = || {
        let so = is_so();
        given_up = !so && interrupt::exit_code().is_some();
        so || given_up
    };
    until_in_time(patience, is_so) && !given_up
}

/// Waits until something is so.
fn until_in_time(patience: Duration, mut is_so: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    loop {
        if is_so() {
            return true;
        }
        if begun.elapsed() > patience {
            return false;
        }
        std::thread::sleep(LOOK_AGAIN);
    }
}

impl World {
    pub(crate) fn new(plan: &Plan, provider: &'static dyn Provider) -> Result<Self, SelftestError> {
        let io = |doing, path: &Path| {
            let path = path.to_owned();
            move |source| SelftestError::Io { doing, path, source }
        };
        fs::create_dir_all(&plan.base).map_err(io("make", &plan.base))?;
        interrupt::clear_abandoned(&plan.base);
        let base = tempfile::Builder::new()
            .prefix(interrupt::PREFIX)
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(&plan.base)
            .map_err(io("make a directory in", &plan.base))?;
        let root = fs::canonicalize(base.path()).map_err(io("enter", base.path()))?;
        let owner = interrupt::own(&root).map_err(io("lock", &root))?;
        let (workspace, home) = (root.join("work"), root.join("home"));
        let bin = if plan.played { Some(wear(&plan.program, provider, &root.join("bin"))?) } else { None };
        let built_in = plan.played || matches!(provider.program(), Program::Own(_));
        let other_end = if built_in {
            OtherEnd::BuiltIn(root.clone())
        } else {
            OtherEnd::Stub(ModelStub::start().map_err(io("listen for", &root))?)
        };
        let mut files: BTreeMap<PathBuf, String> = BTreeMap::new();
        files.insert(
            workspace.join(".team/current/TEAM.md"),
            "---\nname: selftest\nobjective: Try out.\n---\n".into(),
        );
        let mut role = format!("---\nname: {AGENT}\nrole: Worker\nprovider: {}\n", provider.name());
        if let OtherEnd::Stub(stub) = &other_end {
            role += "auth_mode: compatible_api\nprofile: stub\n";
            let text = format!(
                "AUTH_MODE=compatible_api\nBASE_URL={}{}\nAPI_KEY=none\nMODEL={MODEL}\n",
                stub.url(),
                provider.base_path()
            );
            files.insert(workspace.join(".team/current/profiles/stub.env"), text);
        }
        role += "---\n\nDo as you are told.\n";
        files.insert(workspace.join(format!(".team/current/agents/{AGENT}.md")), role);
        // A person who has never used the program before, but for saying that the folder is theirs.
        if let Some((file, text)) = provider.trust_note(&home, &workspace) {
            files.insert(file, text);
        }
        for dir in [&workspace, &home] {
            fs::create_dir_all(dir).map_err(io("make", dir))?;
        }
        for (path, text) in files {
            if let Some(dir) = path.parent() {
                fs::create_dir_all(dir).map_err(io("make", dir))?;
            }
            fs::write(&path, text).map_err(io("write", &path))?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(io("protect", &path))?;
        }
        interrupt::begins(&root);
        let program = plan.program.clone();
        Ok(Self { provider, other_end, workspace, program, bin, home, _owner: owner, base })
    }

    /// Everything is made below it.
    pub(crate) fn base(&self) -> &Path {
        self.base.path()
    }

    /// A command of our program, in the workspace and the clean home.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().current_dir(&self.workspace).env("HOME", &self.home);
        for name in ["PATH", "TERM", "LANG", "TMPDIR"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        if std::env::var_os("TERM").is_none_or(|it| it == "dumb") {
            command.env("TERM", "xterm-256color");
        }
        if let Some(bin) = &self.bin {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let all = std::iter::once(bin.clone()).chain(std::env::split_paths(&path));
            command.env("PATH", std::env::join_paths(all).unwrap_or(path.clone()));
        }
        command
    }

    /// Runs a command to its end and reads its JSON.
    pub(crate) fn run(&self, arguments: &[&str], patience: Duration) -> Answer {
        self.run_until(arguments, patience, true)
    }

    /// Runs a command to its end; the end of the whole try may come first, unless it belongs to that.
    fn run_until(&self, arguments: &[&str], patience: Duration, may_be_cut: bool) -> Answer {
        let mut command = self.command();
        command
            .args(arguments)
            .arg("--json")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let failed =
            |why: String| Answer { code: None, json: serde_json::json!({ "error": { "message": why } }) };
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) => return failed(error.to_string()),
        };
        let Some(mut stdout) = child.stdout.take() else { return failed("it has no output".to_owned()) };
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = stdout.read_to_string(&mut text);
            text
        });
        let mut code = None;
        let has_ended = || match child.try_wait() {
            Ok(Some(status)) => {
                code = status.code();
                true
            }
            _ => false,
        };
        let ended = if may_be_cut { until(patience, has_ended) } else { until_in_time(patience, has_ended) };
        if !ended {
            let _ = child.kill();
            let _ = child.wait();
            return failed(format!("`{}` did not end in {} s", arguments.join(" "), patience.as_secs()));
        }
        let text = reader.join().unwrap_or_default();
        Answer { code, json: serde_json::from_str(&text).unwrap_or(Value::Null) }
    }

    /// What `status` says of the agent.
    pub(crate) fn agent(&self) -> Value {
        self.run(&["status"], Duration::from_secs(10)).json["agents"][AGENT].clone()
    }

    /// Memory of a process and all below it, in KiB, and how many these are.
    pub(crate) fn memory_below(top: u64) -> Option<(u64, usize)> {
        let mut parents: BTreeMap<u64, u64> = BTreeMap::new();
        for entry in fs::read_dir("/proc").ok()?.flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|it| it.parse::<u64>().ok()) else {
                continue;
            };
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // The name may hold anything, up to the last parenthesis.
            let parent =
                stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
            parents.extend(parent.map(|it| (pid, it)));
        }
        let is_below = |mut pid: u64| {
            while let Some(parent) = parents.get(&pid) {
                if pid == top {
                    return true;
                }
                pid = *parent;
            }
            false
        };
        let all: Vec<u64> = parents.keys().copied().filter(|it| is_below(*it)).collect();
        let resident = |pid: &u64| {
            let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line = text.lines().find_map(|it| it.strip_prefix("VmRSS:").map(str::to_owned));
            line.and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or_default()
        };
        Some((all.iter().map(resident).sum(), all.len()))
    }

    /// Processes that carry the try's directory in their arguments or environment.
    pub(crate) fn left_over(&self) -> Option<Vec<String>> {
        if !Path::new("/proc/self").exists() {
            return None;
        }
        let shown = |command: &str| command.chars().take(60).collect::<String>().trim_end().to_owned();
        let found = interrupt::marked(self.base());
        Some(found.iter().map(|it| format!("{} {}", it.pid, shown(&it.command))).collect())
    }
}

/// Makes the built-in agent be found under the name of a provider's program, in a directory of its own.
fn wear(program: &Path, provider: &dyn Provider, bin: &Path) -> Result<PathBuf, SelftestError> {
    let agent = team_provider::providers().iter().find_map(|it| match it.provider().program() {
        Program::Own(word) => Some(word),
        Program::Named(_) => None,
    });
    let name = provider.program().file_name();
    let mut command = Command::new(program);
    command.args(agent).arg("--wear").arg(bin).arg(name).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map_err(|source| SelftestError::Io {
        doing: "run",
        path: program.to_owned(),
        source,
    })?;
    if output.status.success() { Ok(bin.to_owned()) } else { Err(SelftestError::NotPlayed(name.to_owned())) }
}

impl Drop for World {
    /// Nothing of a try that went wrong, or was ended from outside, goes on.
    fn drop(&mut self) {
        let patience = if interrupt::exit_code().is_some() { CUT_SHORT } else { AT_THE_END };
        self.run_until(&["shutdown"], patience, false);
        interrupt::end_all(self.base());
        interrupt::is_over();
    }
}
