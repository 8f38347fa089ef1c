//! What scenarios share: a crew of fake agents in a workspace of the test's own.
//!
//! Knows the program's commands and the fake agent's control file. Must not reach into the engine.

pub mod real_team;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use team_testkit::TestWorkspace;

/// How long a scenario waits for something that should take moments.
pub const SOON: Duration = Duration::from_secs(20);

/// A team of fake agents.
#[derive(Debug)]
pub struct Crew {
    /// Where it works.
    pub ws: TestWorkspace,
    /// The fake's home, if it plays another program.
    worn: Option<PathBuf>,
}

impl Crew {
    /// Writes a team of idle fake agents; nothing is started.
    pub fn written(agents: &[&str]) -> Self {
        Self::written_with(TestWorkspace::new(), agents, "fake")
    }

    /// Takes a workspace whose team files are written, or will be.
    pub fn of(ws: TestWorkspace) -> Self {
        Self { ws, worn: None }
    }

    /// Writes a team of that provider into a workspace.
    pub fn written_with(ws: TestWorkspace, agents: &[&str], provider: &str) -> Self {
        ws.write(".team/current/TEAM.md", "---\nname: crew\n---\n");
        for agent in agents {
            let role = format!("---\nname: {agent}\nrole: Worker\nprovider: {provider}\n---\n\nWork.\n");
            ws.write(format!(".team/current/agents/{agent}.md"), &role);
        }
        Self::of(ws)
    }

    /// Writes a team of agents of that provider, whose program the fake plays; nothing is started.
    pub fn played(provider: &str, agents: &[&str]) -> Self {
        let mut ws = TestWorkspace::new();
        let worn = ws.wear(provider);
        Self { worn: Some(worn), ..Self::written_with(ws, agents, provider) }
    }

    /// Starts a team of idle fake agents without a leader.
    pub fn started(agents: &[&str]) -> Self {
        let crew = Self::written(agents);
        crew.start();
        crew
    }

    /// Starts the written team.
    pub fn start(&self) {
        self.ws.ok(["quick-start", "--headless"]);
    }

    /// The fake's home of an agent.
    pub fn fake_home(&self, agent: &str) -> PathBuf {
        if let Some(worn) = &self.worn {
            return worn.clone();
        }
        let state = self.ws.state_directory().expect("the team was started");
        state.join("seats/current").join(agent).join("fake-home")
    }

    /// Prepares what an agent does at its first start; call it before [`Crew::start`].
    ///
    /// The lines are the fake's script, given to every agent of the team through its environment.
    pub fn script(&mut self, lines: &str) -> &mut Self {
        let script = self.ws.write("fake-script", lines);
        self.ws.set("FAKE_SCRIPT", script);
        self
    }

    /// Tells a running agent's program what to do next: lines of the fake's control file.
    ///
    /// # Panics
    /// When the program does not obey in time.
    pub fn control(&self, agent: &str, lines: &str) {
        let path = self.control_file(agent);
        fs::create_dir_all(path.parent().expect("it has a directory")).expect("the home is writable");
        let mut file =
            fs::OpenOptions::new().create(true).append(true).open(&path).expect("the home is writable");
        let text = format!("{}\n", lines.trim_end());
        file.write_all(text.as_bytes()).expect("the home is writable");
        let length = fs::metadata(&path).expect("it was written").len();
        let done = path
            .with_file_name(format!("{}.done", path.file_name().expect("it has a name").to_string_lossy()));
        let obeyed = || {
            fs::read_to_string(&done)
                .ok()
                .and_then(|it| it.split_whitespace().next().and_then(|it| it.parse::<u64>().ok()))
                .is_some_and(|it| it >= length)
        };
        self.ws.wait_until(&format!("{agent} obeys `{lines}`"), obeyed, SOON);
    }

    /// The control file of an agent's present session.
    pub fn control_file(&self, agent: &str) -> PathBuf {
        self.fake_home(agent).join("control").join(self.native(agent))
    }

    /// The provider's id of an agent's session.
    pub fn native(&self, agent: &str) -> String {
        let status = self.status();
        status["agents"][agent]["session"]["native"].as_str().unwrap_or_default().to_owned()
    }

    /// What `status --json` says.
    pub fn status(&self) -> Value {
        self.ws.json(["status"])
    }

    /// What an agent does, by `status --json`.
    pub fn activity(&self, agent: &str) -> String {
        self.status()["agents"][agent]["activity"]["state"].as_str().unwrap_or_default().to_owned()
    }

    /// Everything an agent's program took as a submission, oldest first, with how it came.
    pub fn submissions(&self, agent: &str) -> Vec<Value> {
        self.logged(agent, "submissions")
    }

    /// The lines of an agent's logs of one kind, oldest first; of its present session only, where the home is not its own.
    fn logged(&self, agent: &str, kind: &str) -> Vec<Value> {
        let dir = self.fake_home(agent).join(kind);
        match &self.worn {
            Some(_) => lines_in(vec![dir.join(format!("{}.jsonl", self.native(agent)))]),
            None => lines_of(&dir),
        }
    }

    /// The texts of an agent's submissions.
    pub fn texts(&self, agent: &str) -> Vec<String> {
        self.submissions(agent).iter().map(|it| it["text"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Every byte that an agent's terminal received.
    pub fn bytes(&self, agent: &str) -> Vec<u8> {
        let mut all = Vec::new();
        let dir = self.fake_home(agent).join("bytes");
        let files = match &self.worn {
            Some(_) => vec![dir.join(format!("{}.log", self.native(agent)))],
            None => files_in(&dir),
        };
        for file in files {
            for line in fs::read_to_string(file).unwrap_or_default().lines() {
                let hex = line.rsplit(' ').next().unwrap_or_default();
                let digits: Vec<char> = hex.chars().collect();
                all.extend(
                    digits
                        .chunks(2)
                        .filter_map(|it| u8::from_str_radix(&it.iter().collect::<String>(), 16).ok()),
                );
            }
        }
        all
    }

    /// What an agent's program noted of itself, oldest first.
    pub fn fake_events(&self, agent: &str) -> Vec<Value> {
        self.logged(agent, "events")
    }

    /// What went between an agent's program and its tool server.
    pub fn mcp(&self, agent: &str) -> Vec<Value> {
        self.logged(agent, "mcp")
    }

    /// All traffic between an agent's program and its tool servers, a line each.
    pub fn tool_calls(&self, agent: &str) -> Vec<String> {
        self.logged(agent, "mcp").iter().map(Value::to_string).collect()
    }

    /// Sends a text and waits until the turn that took it has ended.
    pub fn ask(&self, agent: &str, text: &str) {
        let output = self.ws.run(["send", agent, text, "--wait", "answered", "--timeout", "30"]);
        let log: Vec<String> = self.ws.events().iter().map(ToString::to_string).collect();
        let end = &log[log.len().saturating_sub(20)..];
        assert_eq!(output.code, Some(0), "{}the log ends:\n{}", output.snapshot(), end.join("\n"));
    }

    /// Runs lines of a shell inside an agent's session, as its own tool would; returns what they said and their code.
    ///
    /// # Panics
    /// When they do not end.
    pub fn shell(&self, agent: &str, lines: &str) -> (String, i32) {
        let mut number = 0;
        while self.ws.path().join(format!("shell-{number}")).exists() {
            number += 1;
        }
        let script = self.ws.write(format!("shell-{number}"), lines);
        let (said, code) = (script.with_extension("said"), script.with_extension("code"));
        let quoted = |it: &Path| format!("'{}'", it.to_string_lossy().replace('\'', r"'\''"));
        let command = format!("sh {} > {} 2>&1; echo $? > {}", quoted(&script), quoted(&said), quoted(&code));
        self.ask(agent, &format!("fake: shell {command}"));
        let code = fs::read_to_string(&code).unwrap_or_default().trim().parse().unwrap_or(-1);
        (fs::read_to_string(&said).unwrap_or_default(), code)
    }

    /// Waits until an agent's program has taken a text that contains `part`, and returns it.
    ///
    /// # Panics
    /// When it does not in time.
    pub fn wait_for_text(&self, agent: &str, part: &str) -> String {
        let mut found = None;
        let look = || {
            found = self.texts(agent).into_iter().find(|it| it.contains(part));
            found.is_some()
        };
        self.ws.wait_until(&format!("{agent} gets `{part}`"), look, SOON);
        found.unwrap_or_default()
    }

    /// Waits until `status --json` shows that activity.
    ///
    /// # Panics
    /// When it does not in time.
    pub fn wait_for_activity(&self, agent: &str, wanted: &str) {
        self.ws.wait_until(&format!("{agent} is {wanted}"), || self.activity(agent) == wanted, SOON);
    }

    /// Lines of the log of one type.
    pub fn events_of(&self, kind: &str) -> Vec<Value> {
        self.ws.events().into_iter().filter(|it| it["event"]["type"] == kind).collect()
    }

    /// Runs tmux on the team's own server.
    ///
    /// # Panics
    /// When there is no server.
    pub fn tmux(&self, arguments: &[&str]) -> String {
        let server = self.events_of("server.started").pop().expect("a server was started");
        let socket = server["event"]["socket"].as_str().unwrap_or_default().to_owned();
        let output = self
            .ws
            .command("tmux")
            .arg("-N")
            .arg("-S")
            .arg(socket)
            .args(arguments)
            .output()
            .expect("tmux is there");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Presses keys in an agent's pane, as a person who has attached does.
    pub fn press(&self, agent: &str, keys: &[&str]) {
        let pane = self.pane(agent);
        let mut arguments = vec!["send-keys", "-t", &pane];
        arguments.extend(keys);
        self.tmux(&arguments);
    }

    /// What an agent's pane shows.
    pub fn screen(&self, agent: &str) -> String {
        self.tmux(&["capture-pane", "-p", "-t", &self.pane(agent)])
    }

    /// Sends a message and returns its id; waits for nothing.
    pub fn send(&self, agent: &str, text: &str) -> String {
        let sent = self.ws.json(["send", agent, text, "--wait", "accepted", "--timeout", "0"]);
        assert_eq!(sent["ok"], true, "{sent}");
        sent["message_id"].as_str().expect("it has an id").to_owned()
    }

    /// Where a message to an agent stands.
    pub fn receipt(&self, agent: &str, id: &str) -> Value {
        let inbox = self.ws.json(["inbox", agent]);
        let entries = inbox["messages"].as_array().expect("an inbox has messages");
        entries.iter().find(|it| it["message_id"] == id).expect("it was sent")["receipt"].clone()
    }

    /// Waits until a message to an agent has come that far; returns the reason that is given.
    ///
    /// # Panics
    /// When it does not in time.
    pub fn wait_for_step(&self, agent: &str, id: &str, step: &str) -> String {
        let is_there = || self.receipt(agent, id)["step"] == step;
        self.ws.wait_until(&format!("{id} is {step}"), is_there, SOON);
        self.receipt(agent, id)["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// The pane of an agent.
    pub fn pane(&self, agent: &str) -> String {
        self.status()["agents"][agent]["session"]["pane"].as_str().unwrap_or_default().to_owned()
    }

    /// Kills one process, as a crash would.
    ///
    /// # Panics
    /// When that is not the id of one process.
    pub fn kill(&self, pid: i64) {
        assert!(pid > 1, "{pid} is no process of ours");
        self.ws.command("sh").args(["-c", &format!("kill -9 {pid}")]).output().expect("there is a shell");
    }

    /// Ends everything and checks that nothing is left.
    pub fn finish(self) {
        self.ws.finish();
    }
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(dir).map(|it| it.filter_map(|it| Some(it.ok()?.path())).collect()).unwrap_or_default();
    files.sort_by_key(|it| fs::metadata(it).and_then(|it| it.modified()).ok());
    files
}

fn lines_of(dir: &Path) -> Vec<Value> {
    lines_in(files_in(dir))
}

fn lines_in(files: Vec<PathBuf>) -> Vec<Value> {
    files
        .into_iter()
        .flat_map(|it| {
            fs::read_to_string(it).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>()
        })
        .filter_map(|it| serde_json::from_str(&it).ok())
        .collect()
}
