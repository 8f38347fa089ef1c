//! A home directory for a real agent program: its settings lead to the model stub, and nothing else is set up.
//!
//! Knows which files of a home are the person's and must never be changed by us. Must not know how the project
//! starts the programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::stub::ModelStub;

/// What the stub is sent in place of a key. It opens nothing.
pub const TOKEN: &str = "stub-token";

/// The variable in which codex looks for the key of the stub.
pub const CODEX_KEY: &str = "STUB_KEY";

/// What a log-in of codex says of its owner, unsigned: nobody, with an account `stub`, until 2100. It opens nothing.
const CODEX_OWNER: [&str; 2] = [
    "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0",
    "eyJlbWFpbCI6Im5vYm9keUBleGFtcGxlLmNvbSIsImV4cCI6NDEwMjQ0NDgwMCwiaHR0cHM6Ly9hcGkub3BlbmFpLmNvbS9hdXRoIjp7ImNoYXRncHRfcGxhbl90eXBlIjoicGx1cyIsImNoYXRncHRfYWNjb3VudF9pZCI6InN0dWIiLCJjaGF0Z3B0X3VzZXJfaWQiOiJzdHViIn19",
];

/// Files and directories of a home that belong to the person.
const THEIRS: [&str; 16] = [
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".claude/CLAUDE.md",
    ".claude/agents",
    ".claude/commands",
    ".claude/hooks",
    ".claude/output-styles",
    ".claude/rules",
    ".claude/skills",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".config/git",
    ".config/opencode/opencode.json",
    ".gitconfig",
    ".tmux.conf",
    ".profile",
];

/// Keys of `.claude.json` that say what the person has allowed or set up; the rest is the program's bookkeeping.
const THEIR_KEYS: [&str; 4] =
    ["mcpServers", "customApiKeyResponses", "hasCompletedOnboarding", "bypassPermissionsModeAccepted"];

/// The same, of each entry under `projects`.
const THEIR_PROJECT_KEYS: [&str; 6] = [
    "allowedTools",
    "disabledMcpjsonServers",
    "enabledMcpjsonServers",
    "hasClaudeMdExternalIncludesApproved",
    "hasTrustDialogAccepted",
    "mcpServers",
];

/// A home directory that was set up for a test.
#[derive(Debug)]
pub struct TestHome {
    path: PathBuf,
    /// Kept for its end, which removes the directory.
    _temporary: Option<tempfile::TempDir>,
}

impl TestHome {
    /// Sets up a home in a temporary directory.
    pub fn temporary(stub: &ModelStub) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let path = fs::canonicalize(directory.path()).expect("a temporary directory has a path");
        Self { _temporary: Some(directory), ..Self::at(&path, stub) }
    }

    /// Sets up a home in an existing directory, as that of a workspace.
    pub fn at(path: &Path, stub: &ModelStub) -> Self {
        let home = Self { path: path.to_owned(), _temporary: None };
        home.write(".claude/settings.json", &json!({ "env": claude_environment(stub) }));
        home.write(".claude.json", &json!({ "hasCompletedOnboarding": true }));
        home
    }

    /// Writes settings of codex that lead to the stub; the key is looked for in [`CODEX_KEY`].
    pub fn with_codex(&self, stub: &ModelStub, trusted: &[&Path]) -> &Self {
        let head = "model = \"stub-model\"\nmodel_provider = \"stub\"\n";
        self.codex_settings(head, stub, &format!("env_key = \"{CODEX_KEY}\"\n"), trusted)
    }

    /// Writes settings of codex that lead to the stub, and a log-in like that of a person with a subscription.
    ///
    /// What is asked of the service around the model goes to the stub as well, so that the log-in stays here.
    pub fn with_codex_login(&self, stub: &ModelStub, trusted: &[&Path]) -> &Self {
        let head = format!(
            "model_provider = \"stub\"\nchatgpt_base_url = \"{}/backend-api/\"\n\
             otel.metrics_exporter = \"none\"\n",
            stub.url()
        );
        self.codex_settings(&head, stub, "requires_openai_auth = true\n", trusted);
        let token = format!("{}.{}.stub", CODEX_OWNER[0], CODEX_OWNER[1]);
        let tokens = json!({
            "id_token": token, "access_token": token, "refresh_token": TOKEN, "account_id": "stub",
        });
        let login = json!({
            "auth_mode": "chatgpt", "OPENAI_API_KEY": null, "tokens": tokens,
            "last_refresh": "2099-01-01T00:00:00Z",
        });
        self.write(".codex/auth.json", &login);
        self
    }

    fn codex_settings(&self, head: &str, stub: &ModelStub, login: &str, trusted: &[&Path]) -> &Self {
        let mut settings = format!(
            "{head}\n[model_providers.stub]\nname = \"stub\"\nbase_url = \"{}/v1\"\n\
             wire_api = \"responses\"\n{login}",
            stub.url()
        );
        for folder in trusted {
            let folder = folder.display();
            write!(settings, "\n[projects.\"{folder}\"]\ntrust_level = \"trusted\"\n")
                .expect("a text takes it");
        }
        let home = self.path.join(".codex");
        fs::create_dir_all(&home).expect("a home of a test is writable");
        fs::write(home.join("config.toml"), settings).expect("a home of a test is writable");
        self
    }

    /// Writes settings of opencode that lead to the stub; more can be given.
    pub fn with_opencode(&self, stub: &ModelStub, more: &Value) -> &Self {
        let mut settings = json!({
            // The program adds it where it is missing.
            "$schema": "https://opencode.ai/config.json",
            "model": "stub/stub-model",
            "small_model": "stub/stub-model",
            "provider": { "stub": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Stub",
                "options": { "baseURL": format!("{}/v1", stub.url()), "apiKey": TOKEN },
                "models": {
                    "stub-model": { "name": "Stub Model", "limit": { "context": 200_000, "output": 8000 } },
                },
            } },
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            settings[key] = value.clone();
        }
        self.write(".config/opencode/opencode.json", &settings);
        self
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the configuration directory of claude.
    pub fn claude(&self) -> PathBuf {
        self.path.join(".claude")
    }

    /// Records that the person trusts a directory. To be called before a program is started.
    pub fn trust(&self, directory: &Path) -> &Self {
        self.change(".claude.json", |value| {
            value["projects"][&*directory.to_string_lossy()] = json!({ "hasTrustDialogAccepted": true });
        })
    }

    /// Changes the person's settings. To be called before a program is started.
    pub fn settings(&self, change: impl FnOnce(&mut Value)) -> &Self {
        self.change(".claude/settings.json", change)
    }

    /// Returns the session files of claude, one for each interactive program that runs.
    pub fn sessions(&self) -> Vec<Value> {
        let Ok(entries) = fs::read_dir(self.claude().join("sessions")) else { return Vec::new() };
        let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        files.sort();
        // A file that is being written is no session yet.
        files.iter().filter_map(|path| serde_json::from_str(&fs::read_to_string(path).ok()?).ok()).collect()
    }

    /// Returns what claude recorded of a conversation so far.
    pub fn transcript(&self, session: &str) -> Vec<Value> {
        let Ok(projects) = fs::read_dir(self.claude().join("projects")) else { return Vec::new() };
        let text = projects
            .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join(format!("{session}.jsonl"))).ok())
            .collect::<String>();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Returns what in this home is the person's, to be compared before and after.
    pub fn theirs(&self) -> Theirs {
        let mut files = BTreeMap::new();
        for name in THEIRS {
            collect(&self.path, Path::new(name), &mut files);
        }
        let state = fs::read_to_string(self.path.join(".claude.json")).unwrap_or_default();
        let state: Value = serde_json::from_str(&state).unwrap_or_default();
        Theirs { files, state: their_state(&state) }
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Value)) -> &Self {
        let text = fs::read_to_string(self.path.join(name)).expect("the home was set up");
        let mut value = serde_json::from_str(&text).expect("the home's files are JSON");
        change(&mut value);
        self.write(name, &value);
        self
    }

    fn write(&self, name: &str, value: &Value) {
        let path = self.path.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("a home of a test is writable");
        }
        fs::write(path, format!("{value:#}\n")).expect("a home of a test is writable");
    }
}

/// What in a home is the person's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Theirs {
    files: BTreeMap<PathBuf, Vec<u8>>,
    state: String,
}

impl Theirs {
    /// Returns what is different from before, one line each; nothing if nothing is.
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let mut changes = Vec::new();
        for (path, content) in &self.files {
            match before.files.get(path) {
                None => changes.push(format!("added `{}`", path.display())),
                Some(old) if old != content => changes.push(format!("changed `{}`", path.display())),
                Some(_) => {}
            }
        }
        let gone = before.files.keys().filter(|path| !self.files.contains_key(*path));
        changes.extend(gone.map(|path| format!("removed `{}`", path.display())));
        if self.state != before.state {
            changes.push(format!("changed `.claude.json` from {} to {}", before.state, self.state));
        }
        changes
    }
}

/// Returns the variables that lead claude to the stub and nowhere else.
pub fn claude_environment(stub: &ModelStub) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("ANTHROPIC_BASE_URL", stub.url()),
        ("ANTHROPIC_AUTH_TOKEN", TOKEN.to_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
        ("DISABLE_TELEMETRY", "1".to_owned()),
    ])
}

fn collect(root: &Path, name: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let path = root.join(name);
    if let Ok(entries) = fs::read_dir(&path) {
        for entry in entries.filter_map(Result::ok) {
            collect(root, &name.join(entry.file_name()), files);
        }
    } else if let Ok(content) = fs::read(&path) {
        files.insert(name.to_owned(), content);
    }
}

fn their_state(state: &Value) -> String {
    let mut kept = pick(state, &THEIR_KEYS);
    let projects: Map<String, Value> = state["projects"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(path, project)| (path.clone(), Value::Object(pick(project, &THEIR_PROJECT_KEYS))))
        .filter(|(_, project)| project.as_object().is_some_and(|project| !project.is_empty()))
        .collect();
    kept.insert("projects".to_owned(), Value::Object(projects));
    Value::Object(kept).to_string()
}

/// Keeps the keys that say something: what is empty or refused is what an absent key means too.
fn pick(value: &Value, keys: &[&str]) -> Map<String, Value> {
    keys.iter()
        .filter_map(|key| Some(((*key).to_owned(), value.get(key)?.clone())))
        .filter(|(_, value)| match value {
            Value::Null | Value::Bool(false) => false,
            Value::Array(list) => !list.is_empty(),
            Value::Object(map) => !map.is_empty(),
            _ => true,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_leads_to_the_stub_and_shows_what_was_changed() {
        let stub = ModelStub::start().unwrap();
        let home = TestHome::temporary(&stub);
        home.trust(Path::new("/w")).settings(|settings| settings["model"] = json!("x"));
        let settings = fs::read_to_string(home.claude().join("settings.json")).unwrap();
        assert!(settings.contains(&stub.url()) && settings.contains(r#""model": "x""#), "{settings}");
        let before = home.theirs();
        fs::create_dir(home.claude().join("agents")).unwrap();
        fs::write(home.claude().join("agents/a.md"), "a").unwrap();
        fs::write(home.claude().join("history.jsonl"), "the program's own").unwrap();
        home.settings(|settings| settings["model"] = json!("y"));
        home.change(".claude.json", |state| state["numStartups"] = json!(3));
        assert_eq!(
            home.theirs().changes_since(&before),
            ["added `.claude/agents/a.md`", "changed `.claude/settings.json`"]
        );
        home.change(".claude.json", |state| {
            state["projects"]["/v"] = json!({ "hasTrustDialogAccepted": false, "allowedTools": [] });
        });
        assert_eq!(home.theirs().state, before.state);
        home.trust(Path::new("/v"));
        let changes = home.theirs().changes_since(&before);
        assert!(changes.iter().any(|change| change.starts_with("changed `.claude.json`")), "{changes:?}");
    }
}
