//! A team of real Copilot CLI in a home that leads to the model stub.
//!
//! Knows that home and what the program's own records say. Must not know what is tested.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;

use serde_json::{Value, json};
use team_scenarios::real_team::RealTeam;

/// A team of one real agent, `coder`.
pub(crate) struct Team {
    team: RealTeam,
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
        let team = RealTeam::written("copilot", |ws, stub| {
            ws.set("COPILOT_OFFLINE", "true")
                .set("COPILOT_PROVIDER_BASE_URL", format!("{}/v1", stub.url()))
                .set("COPILOT_MODEL", "stub-model");
            let home = ws.home().join(".copilot");
            fs::create_dir_all(&home).expect("a home is writable");
            let folders = if trusted { vec![ws.path().to_string_lossy().into_owned()] } else { Vec::new() };
            let config = json!({ "trustedFolders": folders });
            fs::write(home.join("config.json"), config.to_string()).expect("a home is writable");
            fs::write(home.join("settings.json"), SETTINGS).expect("a home is writable");
        })?;
        Some(Self { team })
    }

    /// Starts the team.
    pub(crate) fn started() -> Option<Self> {
        let team = Self::written(true)?;
        team.crew.start();
        Some(team)
    }

    /// The person's own home of the program.
    pub(crate) fn own_home(&self) -> PathBuf {
        self.crew.ws.home().join(".copilot")
    }

    /// What the program recorded of the present conversation.
    pub(crate) fn transcript(&self) -> Vec<Value> {
        let path = self.own_home().join("session-state").join(self.crew.native("coder")).join("events.jsonl");
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Checks that a text reached the conversation once. Its record may be a moment behind.
    pub(crate) fn was_taken_once(&self, text: &str) {
        let times = || {
            let has = |it: &Value| it["data"]["content"].as_str().is_some_and(|it| it.contains(text));
            self.transcript().iter().filter(|it| it["type"] == "user.message" && has(it)).count()
        };
        self.wait(&format!("`{text}` is in the transcript"), || times() > 0);
        assert_eq!(times(), 1, "{text}");
    }

    /// Checks that the person's own settings are as they were, and that nothing is left.
    pub(crate) fn finish(self) {
        self.crew.ws.run(["shutdown"]);
        let settings = fs::read_to_string(self.own_home().join("settings.json")).unwrap_or_default();
        assert_eq!(settings, SETTINGS);
        let config = fs::read_to_string(self.own_home().join("config.json")).unwrap_or_default();
        assert!(!config.contains("team-agent"), "{config}");
        self.team.crew.finish();
    }
}

/// The person's settings.
const SETTINGS: &str = "{\n  \"banner\": \"never\"\n}\n";
