//! A team of real Claude Code in a home that leads to the model stub.
//!
//! Knows how such a team is written and what the program's own records say. Must not know what is tested.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use team_scenarios::Crew;
use team_testkit::home::Theirs;
use team_testkit::stub::{Kind, Request};
use team_testkit::{ModelStub, TestHome, TestWorkspace, process, real};

/// How long something may take that takes seconds.
pub(crate) const SOON: Duration = Duration::from_secs(60);

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
pub(crate) struct Team {
    pub(crate) crew: Crew,
    pub(crate) home: TestHome,
    pub(crate) stub: ModelStub,
    pub(crate) before: Theirs,
    tmux: PathBuf,
}

impl Team {
    /// Writes the team; `None`, and a named skip, where the program cannot be had.
    pub(crate) fn written(trusted: bool) -> Option<Self> {
        let client = real::client_or_skip("claude")?;
        let stub = ModelStub::start().expect("loopback works");
        let mut ws = TestWorkspace::new();
        ws.deadline(Duration::from_secs(120)).patience(Duration::from_secs(20));
        ws.path_first(client.program.parent().expect("a program lies in a directory"));
        let tmux = which_in(std::env::var_os("PATH").as_ref(), "tmux");
        let log = ws.root().join("tmux.log");
        let lines = TMUX.replace("REAL", &tmux.to_string_lossy()).replace("LOG", &log.to_string_lossy());
        let wrapper = script(ws.root().join("wrapped"), "tmux", &lines);
        ws.path_first(&wrapper);
        let home = TestHome::at(&ws.home(), &stub);
        if trusted {
            home.trust(ws.path());
        }
        let before = home.theirs();
        let crew = Crew::written_with(ws, &["coder"], "claude");
        Some(Self { crew, home, stub, before, tmux })
    }

    /// Starts the team.
    pub(crate) fn started() -> Option<Self> {
        let team = Self::written(true)?;
        team.crew.start();
        Some(team)
    }

    /// Makes `claude` a script from now on; `CLAUDE` in it is the real program.
    pub(crate) fn start_through(&mut self, lines: &str) {
        let ws = &mut self.crew.ws;
        let real = which_in(ws.variables().get(OsStr::new("PATH")), "claude");
        let lines = lines.replace("CLAUDE", &format!("'{}'", real.display()));
        let shim = script(ws.root().join("shim"), "claude", &lines);
        ws.path_first(&shim);
    }

    /// The record of `coder` in `status --json`.
    pub(crate) fn coder(&self) -> Value {
        self.crew.status()["agents"]["coder"].clone()
    }

    /// Waits until `coder` does that.
    pub(crate) fn wait_for(&self, activity: &str) {
        self.wait(&format!("coder is {activity}"), || self.coder()["activity"]["state"] == activity);
    }

    /// Waits for a condition; what is known is shown where it does not come true.
    pub(crate) fn wait(&self, what: &str, is_true: impl FnMut() -> bool) {
        if !process::wait_until(is_true, SOON) {
            let log: Vec<String> = self.crew.ws.events().iter().map(ToString::to_string).collect();
            let transcript: Vec<String> = self.transcript().iter().map(ToString::to_string).collect();
            panic!(
                "waited in vain: {what}\n{}\nscreen:\n{}\nlog:\n{}\ntranscript:\n{}",
                self.coder(),
                self.screen(),
                log.join("\n"),
                transcript.join("\n"),
            );
        }
    }

    /// Sends a message and returns its id; waits for nothing.
    pub(crate) fn send(&self, text: &str) -> String {
        let sent = self.crew.ws.json(["send", "coder", text, "--wait", "accepted", "--timeout", "0"]);
        assert_eq!(sent["ok"], true, "{sent}");
        sent["message_id"].as_str().expect("it has an id").to_owned()
    }

    /// Where a message stands.
    pub(crate) fn receipt(&self, id: &str) -> Value {
        let inbox = self.crew.ws.json(["inbox", "coder"]);
        let entries = inbox["messages"].as_array().expect("an inbox has messages");
        entries.iter().find(|it| it["message_id"] == id).expect("it was sent")["receipt"].clone()
    }

    /// Waits until a message has come that far.
    pub(crate) fn wait_for_step(&self, id: &str, step: &str) {
        self.wait(&format!("{id} is {step}"), || self.receipt(id)["step"] == step);
    }

    /// What the program recorded of the present conversation.
    pub(crate) fn transcript(&self) -> Vec<Value> {
        self.home.transcript(&self.crew.native("coder"))
    }

    /// Checks that a text reached the conversation once. Its record may be a moment behind.
    pub(crate) fn was_taken_once(&self, text: &str) {
        self.wait(&format!("`{text}` is in the transcript"), || self.times_taken(text) > 0);
        assert_eq!(self.times_taken(text), 1, "{text}");
    }

    /// How often a text reached the conversation: as a prompt, or inside a turn.
    fn times_taken(&self, text: &str) -> usize {
        let has = |it: &Value, at: &str| it.pointer(at).is_some_and(|it| it.to_string().contains(text));
        self.transcript()
            .iter()
            .filter(|it| match it["type"].as_str() {
                Some("user") => has(it, "/message/content") && it["promptSource"].is_string(),
                Some("attachment") => {
                    it["attachment"]["type"] == "queued_command" && has(it, "/attachment/prompt")
                }
                _ => false,
            })
            .count()
    }

    /// Presses keys in the agent's pane, as a person who has attached does.
    pub(crate) fn press(&self, keys: &[&str]) {
        let pane = self.crew.pane("coder");
        let mut arguments = vec!["send-keys", "-t", &pane];
        arguments.extend(keys);
        self.tmux(&arguments);
    }

    /// What the agent's pane shows.
    pub(crate) fn screen(&self) -> String {
        let pane = self.crew.pane("coder");
        if pane.is_empty() { String::new() } else { self.tmux(&["capture-pane", "-p", "-t", &pane]) }
    }

    /// Waits until the pane shows a text.
    pub(crate) fn wait_for_screen(&self, text: &str) {
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
    pub(crate) fn asked(&self, part: &str) -> Request {
        let found =
            self.stub.wait_for(|it| it.kind == Kind::Turn && it.says(part) && it.outcome.is_some(), SOON);
        found.expect("it asks its model")
    }

    /// The commands for typing that our program gave to tmux so far.
    pub(crate) fn typing(&self) -> Vec<&'static str> {
        let log = fs::read_to_string(self.crew.ws.root().join("tmux.log")).unwrap_or_default();
        assert!(log.contains("new-session") || log.contains("new-window"), "the wrapper saw nothing:\n{log}");
        ["load-buffer", "set-buffer", "paste-buffer", "send-keys"]
            .into_iter()
            .filter(|it| log.contains(it))
            .collect()
    }

    /// Checks that our program has typed nothing so far.
    pub(crate) fn no_keys_were_pressed(&self) {
        assert_eq!(self.typing(), Vec::<&str>::new());
    }

    /// Checks that the person's own files are as they were, and that nothing is left.
    pub(crate) fn finish(self) {
        self.crew.ws.run(["shutdown"]);
        assert_eq!(self.home.theirs().changes_since(&self.before), Vec::<String>::new());
        self.crew.finish();
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
