//! A team of real Claude Code in a home that leads to the model stub.
//!
//! Knows that home and what the program's own records say. Must not know what is tested.

use std::ops::{Deref, DerefMut};

use serde_json::Value;
use team_scenarios::real_team::RealTeam;
use team_testkit::TestHome;
use team_testkit::home::Theirs;

/// A team of one real agent, `coder`.
pub(crate) struct Team {
    real: RealTeam,
    pub(crate) home: TestHome,
    pub(crate) before: Theirs,
}

impl Deref for Team {
    type Target = RealTeam;

    fn deref(&self) -> &RealTeam {
        &self.real
    }
}

impl DerefMut for Team {
    fn deref_mut(&mut self) -> &mut RealTeam {
        &mut self.real
    }
}

impl Team {
    /// Writes the team; `None`, and a named skip, where the program cannot be had.
    pub(crate) fn written(trusted: bool) -> Option<Self> {
        let mut made = None;
        let team = RealTeam::written("claude", |ws, stub| {
            let home = TestHome::at(&ws.home(), stub);
            if trusted {
                home.trust(ws.path());
            }
            made = Some(home);
        })?;
        let home = made?;
        let before = home.theirs();
        Some(Self { real: team, home, before })
    }

    /// Starts the team.
    pub(crate) fn started() -> Option<Self> {
        let team = Self::written(true)?;
        team.crew.start();
        Some(team)
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

    /// Checks that the person's own files are as they were, and that nothing is left.
    pub(crate) fn finish(self) {
        self.crew.ws.run(["shutdown"]);
        assert_eq!(self.home.theirs().changes_since(&self.before), Vec::<String>::new());
        self.end();
    }

    /// Checks that nothing is left.
    pub(crate) fn end(self) {
        self.real.crew.finish();
    }
}
