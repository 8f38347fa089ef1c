//! A team of real agent programs, each with a model of its own; the same for every provider.
//!
//! Knows the providers by a row each. Must not know any program's own files beyond where it keeps a person's trust.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use team_scenarios::Crew;
use team_testkit::{ModelStub, TestHome, TestWorkspace, process, real};

/// How long something may take that takes seconds on a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(90);

/// What differs between the providers as far as these scenarios go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) provider: &'static str,
    /// What stands before our tools' names in it.
    pub(crate) tools: &'static str,
    /// What stands behind the host in the address of its model.
    pub(crate) path: &'static str,
}

const fn kind(provider: &'static str, tools: &'static str, path: &'static str) -> Kind {
    Kind { provider, tools, path }
}

pub(crate) const CLAUDE: Kind = kind("claude", "mcp__team_orchestrator__", "");
pub(crate) const CODEX: Kind = kind("codex", "mcp__team_orchestrator__", "/v1");
pub(crate) const COPILOT: Kind = kind("copilot", "team_orchestrator-", "/v1");
pub(crate) const GEMINI: Kind = kind("gemini", "mcp_team_orchestrator_", "");
pub(crate) const OPENCODE: Kind = kind("opencode", "team_orchestrator_", "/v1");

pub(crate) const ALL: [Kind; 5] = [CLAUDE, CODEX, COPILOT, GEMINI, OPENCODE];

/// An agent and its model.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) stub: ModelStub,
}

/// A team of real agents.
#[derive(Debug)]
pub(crate) struct Team {
    pub(crate) crew: Crew,
    pub(crate) workers: Vec<Worker>,
    sent: Mutex<BTreeMap<String, usize>>,
}

impl Team {
    /// Starts a team; `None`, and a named skip, where one of the programs cannot be had.
    pub(crate) fn started(workers: &[(&str, Kind)]) -> Option<Self> {
        Self::started_with(workers, &[])
    }

    /// The same, with further programs in the agents' path.
    pub(crate) fn started_with(workers: &[(&str, Kind)], more: &[Kind]) -> Option<Self> {
        let mut ws = TestWorkspace::new();
        ws.deadline(Duration::from_secs(180)).patience(Duration::from_secs(20));
        let mut kinds: Vec<Kind> = Vec::new();
        for kind in workers.iter().map(|(_, kind)| kind).chain(more) {
            if !kinds.contains(kind) {
                with_program(&mut ws, kind.provider)?;
                kinds.push(*kind);
            }
        }
        let workers: Vec<Worker> = workers
            .iter()
            .map(|(name, kind)| Worker {
                name: (*name).to_owned(),
                kind: *kind,
                stub: ModelStub::start().expect("loopback works"),
            })
            .collect();
        trust(&ws, &workers.first()?.stub);
        ws.write(".team/current/TEAM.md", "---\nname: real\n---\n");
        for Worker { name, kind, stub } in &workers {
            let profile = format!(
                "AUTH_MODE=compatible_api\nBASE_URL={}{}\nAPI_KEY=none\nMODEL=stub-model\n",
                stub.url(),
                kind.path
            );
            let file = ws.write(format!(".team/current/profiles/{name}.env"), &profile);
            fs::set_permissions(file, fs::Permissions::from_mode(0o600)).expect("it is ours");
            let role = format!(
                "---\nname: {name}\nrole: Worker\nprovider: {}\nauth_mode: compatible_api\nprofile: {name}\n---\n\nWork.\n",
                kind.provider
            );
            ws.write(format!(".team/current/agents/{name}.md"), &role);
        }
        let team = Self { crew: Crew::of(ws), workers, sent: Mutex::default() };
        let started = team.crew.ws.run(["quick-start", "--headless"]);
        assert_eq!(started.code, Some(0), "{}\n{}", started.snapshot(), team.known());
        Some(team)
    }

    /// Sends a text as it is, byte for byte, and returns what `send` answered.
    pub(crate) fn send(&self, to: &str, text: &str, step: &str) -> Value {
        *self.sent.lock().expect("nobody failed").entry(to.to_owned()).or_default() += 1;
        // A long text, or one with odd ends, does not go well on a command line.
        let file = self.crew.ws.write(format!("message-to-{to}"), text);
        let path = file.to_string_lossy().into_owned();
        let timeout = if step == "accepted" { "0" } else { "90" };
        let sent = self.crew.ws.json(["send", to, "-f", &path, "--wait", step, "--timeout", timeout]);
        assert_eq!(sent["ok"], true, "{sent}");
        sent
    }

    /// How many messages were sent to an agent, counted before they are.
    pub(crate) fn sent_to(&self, agent: &str) -> usize {
        self.sent.lock().expect("nobody failed").get(agent).copied().unwrap_or_default()
    }

    /// Waits for a condition; what is known is shown where it does not come true.
    pub(crate) fn wait(&self, what: &str, is_true: impl FnMut() -> bool) {
        assert!(process::wait_until(is_true, SOON), "waited in vain: {what}\n{}", self.known());
    }

    /// What can be seen of the team, for somebody who has to find a fault.
    pub(crate) fn known(&self) -> String {
        let log: Vec<String> = self.crew.ws.events().iter().map(ToString::to_string).collect();
        let seats = self.crew.ws.state_directory().map(|it| it.join("seats/current"));
        let of = |agent: &str| {
            let bridge = seats.as_ref().map(|it| fs::read_to_string(it.join(agent).join("bridge.log")));
            format!("{agent}:\n{}\n{}", self.screen(agent), bridge.and_then(Result::ok).unwrap_or_default())
        };
        let screens: Vec<String> = self.workers.iter().map(|it| of(&it.name)).collect();
        format!("{}\nlog:\n{}", screens.join("\n"), log.join("\n"))
    }

    /// Allows what an agent's program asks, from outside or, where that is not possible, by a key in its pane.
    pub(crate) fn allow(&self, agent: &str) {
        let open = self.crew.ws.json(["approvals", agent]);
        let Some(question) = open["approvals"].get(0) else { return };
        if question["command"].as_str().is_some_and(|it| it.contains(" approve ")) {
            let request = question["request_id"].as_str().expect("a question has an id");
            // It may just have been closed.
            self.crew.ws.run(["approve", agent, request, "--allow"]);
        } else if self.shows_question(agent) {
            let gone = || !self.shows_question(agent);
            self.crew.tmux(&["send-keys", "-t", &self.crew.pane(agent), "1"]);
            process::wait_until(gone, Duration::from_secs(5));
        }
    }

    fn shows_question(&self, agent: &str) -> bool {
        let screen = self.screen(agent);
        ["1. Allow once", "1. Yes"].iter().any(|it| screen.contains(it))
    }

    fn screen(&self, agent: &str) -> String {
        let pane = self.crew.pane(agent);
        if pane.is_empty() { String::new() } else { self.crew.tmux(&["capture-pane", "-p", "-t", &pane]) }
    }

    /// Ends everything and checks that nothing is left.
    pub(crate) fn finish(self) {
        self.crew.ws.ok(["shutdown"]);
        self.crew.finish();
    }
}

/// Puts a real program into the workspace's path.
pub(crate) fn with_program(ws: &mut TestWorkspace, provider: &str) -> Option<()> {
    let client = real::client_or_skip(provider)?;
    ws.path_first(client.program.parent().expect("a program lies in a directory"));
    Some(())
}

/// Makes a person who trusts this folder in each of their programs, and has chosen a way to log in where one asks.
pub(crate) fn trust(ws: &TestWorkspace, stub: &ModelStub) {
    // Each agent has a model of its own, named by its profile.
    TestHome::at(&ws.home(), stub).settings(|it| it["env"] = json!({})).trust(ws.path());
    let folder = ws.path().display().to_string();
    let trusts = [
        (".codex/config.toml", format!("[projects.\"{folder}\"]\ntrust_level = \"trusted\"\n")),
        (".copilot/config.json", format!("{{\"trustedFolders\": [\"{folder}\"]}}\n")),
        (".gemini/settings.json", r#"{"security":{"auth":{"selectedType":"gemini-api-key"}}}"#.to_owned()),
        (".gemini/trustedFolders.json", format!("{{\"{folder}\": \"TRUST_FOLDER\"}}\n")),
    ];
    for (name, text) in trusts {
        let file = ws.home().join(name);
        fs::create_dir_all(file.parent().expect("it lies in a directory")).expect("the home is writable");
        fs::write(file, text).expect("the home is writable");
    }
}
