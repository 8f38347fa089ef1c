//! A team of one real agent program whose model is the stub on loopback.
//!
//! Knows how such a team is written, watched and typed at. Must not know any program's own files.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use team_testkit::stub::{Kind, Request};
use team_testkit::{ModelStub, TestWorkspace, process, real};

use crate::Crew;

/// How long something may take that takes seconds.
pub const SOON: Duration = Duration::from_secs(60);

/// Logs what tmux is told, scripts included, and passes it on.
const TMUX: &str = r#"printf '%s\n' "$*" >>'LOG'
case " $* " in
*" source-file - "* | *" -C "*)
    tee -a 'LOG' | REAL "$@"
    exit ;;
esac
exec REAL "$@"
"#;

/// A team of one real agent, `coder`.
#[derive(Debug)]
pub struct RealTeam {
    /// The team.
    pub crew: Crew,
    /// Its model.
    pub stub: ModelStub,
    provider: &'static str,
    tmux: PathBuf,
}

impl RealTeam {
    /// Writes the team; `None`, and a named skip, where the program cannot be had. `home` makes the person's home.
    ///
    /// # Panics
    /// When the workspace cannot be written.
    pub fn written(
        provider: &'static str,
        home: impl FnOnce(&mut TestWorkspace, &ModelStub),
    ) -> Option<Self> {
        let client = real::client_or_skip(provider)?;
        let stub = ModelStub::start().expect("loopback works");
        let mut ws = TestWorkspace::new();
        ws.deadline(Duration::from_secs(120)).patience(Duration::from_secs(20));
        ws.path_first(client.program.parent().expect("a program lies in a directory"));
        let tmux = which_in(std::env::var_os("PATH").as_ref(), "tmux");
        let log = ws.root().join("tmux.log");
        let lines = TMUX.replace("REAL", &tmux.to_string_lossy()).replace("LOG", &log.to_string_lossy());
        let wrapper = script(ws.root().join("wrapped"), "tmux", &lines);
        ws.path_first(&wrapper);
        home(&mut ws, &stub);
        let crew = Crew::written_with(ws, &["coder"], provider);
        Some(Self { crew, stub, provider, tmux })
    }

    /// Makes the program a script from now on; `PROGRAM` in it is the real one.
    pub fn start_through(&mut self, lines: &str) {
        let ws = &mut self.crew.ws;
        let real = which_in(ws.variables().get(OsStr::new("PATH")), self.provider);
        let lines = lines.replace("PROGRAM", &format!("'{}'", real.display()));
        let shim = script(ws.root().join("shim"), self.provider, &lines);
        ws.path_first(&shim);
    }

    /// Makes `coder` use a profile with a key and the stub's address from its next start on; returns the profile.
    ///
    /// # Panics
    /// When the workspace cannot be written.
    pub fn use_profile(&self, key: &str, base_url: &str) -> PathBuf {
        let ws = &self.crew.ws;
        ws.ok(["profile", "init", "api", "--auth-mode", "compatible_api"]);
        let profile = ws.path().join(".team/current/profiles/api.env");
        let lines =
            format!("AUTH_MODE=compatible_api\nAPI_KEY={key}\nBASE_URL={base_url}\nMODEL=stub-model\n");
        fs::write(&profile, lines).expect("writable");
        let role = format!(
            "---\nname: coder\nrole: Worker\nprovider: {}\nauth_mode: compatible_api\nprofile: api\n---\n\nWork.\n",
            self.provider
        );
        ws.write(".team/current/agents/coder.md", &role);
        profile
    }

    /// Checks that a key stands in its profile and nowhere else: in no argument list, no log and no file that is left.
    ///
    /// # Panics
    /// When it stands elsewhere.
    pub fn key_is_only_in(&self, profile: &Path, key: &str) {
        let ws = &self.crew.ws;
        let processes: String = ws
            .processes()
            .iter()
            .map(|it| fs::read(format!("/proc/{}/cmdline", it.pid)).unwrap_or_default())
            .map(|it| String::from_utf8_lossy(&it).into_owned())
            .collect();
        assert!(processes.contains("session-id") && !processes.contains(key), "{processes}");
        ws.ok(["shutdown"]);
        let mut told = Vec::new();
        for dir in [ws.path().to_owned(), ws.state_home(), ws.home(), ws.root().join("tmp")] {
            files_with(&dir, key, &mut told);
        }
        assert_eq!(told, [profile]);
    }

    /// The record of `coder` in `status --json`.
    pub fn coder(&self) -> Value {
        self.crew.status()["agents"]["coder"].clone()
    }

    /// Waits until `coder` does that.
    pub fn wait_for(&self, activity: &str) {
        self.wait(&format!("coder is {activity}"), || self.coder()["activity"]["state"] == activity);
    }

    /// Waits for a condition; what is known is shown where it does not come true.
    pub fn wait(&self, what: &str, is_true: impl FnMut() -> bool) {
        if !process::wait_until(is_true, SOON) {
            let log: Vec<String> = self.crew.ws.events().iter().map(ToString::to_string).collect();
            panic!(
                "waited in vain: {what}\n{}\nscreen:\n{}\nlog:\n{}",
                self.coder(),
                self.screen(),
                log.join("\n"),
            );
        }
    }

    /// Sends a message and returns its id; waits for nothing.
    pub fn send(&self, text: &str) -> String {
        let sent = self.crew.ws.json(["send", "coder", text, "--wait", "accepted", "--timeout", "0"]);
        assert_eq!(sent["ok"], true, "{sent}");
        sent["message_id"].as_str().expect("it has an id").to_owned()
    }

    /// Where a message stands.
    pub fn receipt(&self, id: &str) -> Value {
        let inbox = self.crew.ws.json(["inbox", "coder"]);
        let entries = inbox["messages"].as_array().expect("an inbox has messages");
        entries.iter().find(|it| it["message_id"] == id).expect("it was sent")["receipt"].clone()
    }

    /// Waits until a message has come that far.
    pub fn wait_for_step(&self, id: &str, step: &str) {
        self.wait(&format!("{id} is {step}"), || self.receipt(id)["step"] == step);
    }

    /// Presses keys in the agent's pane, as a person who has attached does.
    pub fn press(&self, keys: &[&str]) {
        let pane = self.crew.pane("coder");
        let mut arguments = vec!["send-keys", "-t", &pane];
        arguments.extend(keys);
        self.tmux(&arguments);
    }

    /// What the agent's pane shows.
    pub fn screen(&self) -> String {
        let pane = self.crew.pane("coder");
        if pane.is_empty() { String::new() } else { self.tmux(&["capture-pane", "-p", "-t", &pane]) }
    }

    /// Waits until the pane shows a text.
    pub fn wait_for_screen(&self, text: &str) {
        self.wait(&format!("the screen shows `{text}`"), || self.screen().contains(text));
    }

    /// Runs the real tmux, past the log.
    fn tmux(&self, arguments: &[&str]) -> String {
        let server = self.crew.events_of("server.started").pop().expect("a server was started");
        let socket = server["event"]["socket"].as_str().unwrap_or_default().to_owned();
        let mut command = self.crew.ws.command(&self.tmux);
        let output = command.args(["-N", "-S", &socket]).args(arguments).output().expect("tmux is there");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The answered request of a turn that began with a text that holds `part`.
    pub fn asked(&self, part: &str) -> Request {
        let found =
            self.stub.wait_for(|it| it.kind == Kind::Turn && it.says(part) && it.outcome.is_some(), SOON);
        found.expect("it asks its model")
    }

    /// Waits until its model was asked for a turn that began with a text that holds `part`.
    pub fn asked_at_all(&self, part: &str) {
        let found = self.stub.wait_for(|it| it.kind == Kind::Turn && it.says(part), SOON);
        found.expect("it asks its model");
    }

    /// The commands for typing that our program gave to tmux so far.
    pub fn typing(&self) -> Vec<&'static str> {
        let log = fs::read_to_string(self.crew.ws.root().join("tmux.log")).unwrap_or_default();
        assert!(log.contains("new-session") || log.contains("new-window"), "the wrapper saw nothing:\n{log}");
        ["load-buffer", "set-buffer", "paste-buffer", "send-keys"]
            .into_iter()
            .filter(|it| log.contains(it))
            .collect()
    }

    /// Checks that our program has typed nothing so far.
    pub fn no_keys_were_pressed(&self) {
        assert_eq!(self.typing(), Vec::<&str>::new());
    }
}

/// Reads every file below a directory, to be compared before and after; what a link leads to is not read.
pub fn files_below(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files.extend(files_below(&path)),
            Ok(kind) if kind.is_file() => {
                files.insert(path.clone(), fs::read(&path).unwrap_or_default());
            }
            _ => {}
        }
    }
    files
}

/// Lists the files below a directory that hold a text.
pub fn files_with(dir: &Path, text: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => files_with(&path, text, found),
            Ok(kind) if kind.is_file() => {
                let bytes = fs::read(&path).unwrap_or_default();
                if String::from_utf8_lossy(&bytes).contains(text) {
                    found.push(path);
                }
            }
            _ => {}
        }
    }
}

/// Finds a program on the path of an environment.
fn which_in(path: Option<&OsString>, name: &str) -> PathBuf {
    let found = path.iter().flat_map(std::env::split_paths).map(|it| it.join(name)).find(|it| it.is_file());
    found.unwrap_or_else(|| name.into())
}

/// Writes a program of shell lines into a directory of its own, and returns that.
fn script(dir: PathBuf, name: &str, lines: &str) -> PathBuf {
    fs::create_dir(&dir).expect("a workspace is writable");
    fs::write(dir.join(name), format!("#!/bin/sh\n{lines}\n")).expect("a workspace is writable");
    fs::set_permissions(dir.join(name), fs::Permissions::from_mode(0o755)).expect("it is ours");
    dir
}
