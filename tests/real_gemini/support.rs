//! A team of real Gemini CLI in a home that leads to the model stub.
//!
//! Knows that home and what the program's own records say. Must not know what is tested.

use std::collections::BTreeMap;
use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use team_scenarios::real_team::{RealTeam, files_below};

/// A team of one real agent, `coder`.
pub(crate) struct Team {
    team: RealTeam,
    before: BTreeMap<PathBuf, Vec<u8>>,
}

impl Deref for Team {
    type Target = RealTeam;

    fn deref(&self) -> &RealTeam {
        &self.team
    }
}

impl DerefMut for Team {
    fn deref_mut(&mut self) -> &mut RealTeam {
        &mut self.team
    }
}

impl Team {
    /// Writes the team; `None`, and a named skip, where the program cannot be had.
    pub(crate) fn written(trusted: bool) -> Option<Self> {
        let team = RealTeam::written("gemini", |ws, stub| {
            ws.set("GEMINI_API_KEY", "stub-token").set("GOOGLE_GEMINI_BASE_URL", stub.url());
            let write = |name: &str, value: &Value| {
                let path = ws.home().join(".gemini").join(name);
                fs::create_dir_all(path.parent().expect("it has one")).expect("a home is writable");
                fs::write(path, format!("// mine\n{value:#}\n")).expect("a home is writable");
            };
            let auth =
                json!({ "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": true } });
            write("settings.json", &json!({ "security": auth, "model": { "name": "gemini-2.5-pro" } }));
            if trusted {
                write("trustedFolders.json", &json!({ &*ws.path().to_string_lossy(): "TRUST_FOLDER" }));
            }
        })?;
        let before = files_below(&team.crew.ws.home().join(".gemini"));
        Some(Self { team, before })
    }

    /// Starts the team.
    pub(crate) fn started() -> Option<Self> {
        let team = Self::written(true)?;
        team.crew.start();
        Some(team)
    }

    /// The seat's own home of the program.
    pub(crate) fn seat_home(&self) -> PathBuf {
        let state = self.crew.ws.state_directory().expect("it was started");
        state.join("seats/current/coder/gemini-home")
    }

    /// Files of the person's home that have changed.
    pub(crate) fn changes(&self) -> Vec<PathBuf> {
        let now = files_below(&self.crew.ws.home().join(".gemini"));
        now.iter()
            .filter(|(path, text)| self.before.get(*path) != Some(text))
            .map(|(it, _)| it.clone())
            .collect()
    }

    /// The texts that the program recorded as taken in the present conversation.
    pub(crate) fn taken(&self) -> Vec<String> {
        let id = self.crew.native("coder");
        let short = id.split('-').next().unwrap_or_default();
        let of_it = |path: &Path| path.to_string_lossy().ends_with(&format!("-{short}.jsonl"));
        files_below(&self.seat_home().join(".gemini/tmp"))
            .iter()
            .filter(|(path, _)| of_it(path))
            .flat_map(|(_, text)| {
                String::from_utf8_lossy(text).lines().map(str::to_owned).collect::<Vec<_>>()
            })
            .filter_map(|line| serde_json::from_str::<Value>(&line).ok())
            .filter(|it| it["type"] == "user" && it["content"][0]["text"].is_string())
            .map(|it| it["content"].to_string())
            .collect()
    }

    /// Checks that a text reached the conversation once. Its record may be a moment behind.
    pub(crate) fn was_taken_once(&self, text: &str) {
        let times = || self.taken().iter().filter(|it| it.contains(text)).count();
        self.wait(&format!("`{text}` is in the transcript"), || times() > 0);
        assert_eq!(times(), 1, "{text}");
    }

    /// Checks that the person's own files are as they were, and that nothing is left.
    pub(crate) fn finish(self) {
        self.crew.ws.run(["shutdown"]);
        assert_eq!(self.changes(), Vec::<PathBuf>::new());
        self.end();
    }

    /// Checks that nothing is left.
    pub(crate) fn end(self) {
        self.team.crew.finish();
    }
}
