//! What a team is, once its files were read: the generated `spec.json`.
//!
//! Knows the shape and its digest. Must not know files other than `spec.json`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use team_model::{AgentName, Body, TeamKey};

use crate::approvals::Approvals;
use crate::error::SpecError;
use crate::known::{AuthMode, Effort, Tool};

/// The name of the generated file in a team's directory.
pub const SPEC_FILE: &str = "spec.json";

/// The version of the shape of `spec.json`.
pub const SPEC_VERSION: u32 = 1;

/// A team as its files describe it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The version of this shape.
    pub schema_version: u32,
    /// SHA-256 over everything that has a meaning, in hex.
    pub digest: String,
    /// The name of the team's directory.
    pub key: TeamKey,
    /// The name that people gave it.
    pub name: String,
    /// The name of its tmux session.
    pub session_name: String,
    /// The line to change when another team has that session name too.
    pub session_name_at: Place,
    /// What the team is for.
    pub objective: Option<String>,
    /// What its agents are told to reach.
    pub goal: Option<String>,
    /// Whether agents ask their provider for faster answers.
    pub fast: bool,
    /// Which permission questions are answered without a person.
    #[serde(default, skip_serializing_if = "Approvals::is_empty")]
    pub approvals: Approvals,
    /// The agents, by name of their files.
    pub seats: Vec<SpecSeat>,
    /// What may be wrong and stops nothing, ordered by place.
    #[serde(skip)]
    pub warnings: Vec<SpecError>,
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The file, relative to the workspace where it lies inside.
    pub file: String,
    /// The line, from 1; 0 when the file does not say it.
    pub line: usize,
}

/// One agent as its role file describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecSeat {
    /// Its name.
    pub name: AgentName,
    /// The line that says what it is for.
    pub role: String,
    /// The provider's own name.
    pub provider: String,
    /// Its model and where that came from.
    pub model: ModelChoice,
    /// How hard it thinks, where that is set.
    pub effort: Option<Effort>,
    /// How it logs in.
    pub auth_mode: AuthMode,
    /// The name of its profile.
    pub profile: Option<String>,
    /// What it may do.
    pub tools: BTreeSet<Tool>,
    /// Where it works, relative to the workspace; `.` is the workspace.
    pub working_directory: String,
    /// What it is told, to the byte.
    pub instructions: String,
    /// Its role file, relative to the team's directory.
    pub source: String,
}

/// A model and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelChoice {
    /// The model; `None` leaves it to the provider's program.
    pub value: Option<String>,
    /// Who chose it.
    pub source: ModelSource,
}

/// Who chose a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelSource {
    /// `model` in the role file.
    Role,
    /// `MODEL` in the profile.
    Profile,
    /// `provider_models` in TEAM.md.
    ProviderModels,
    /// `default_model` in TEAM.md.
    DefaultModel,
    /// This program's own choice for the provider.
    BuiltIn,
    /// The provider's program chooses.
    ProviderDefault,
}

impl fmt::Display for ModelSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Role => "role file",
            Self::Profile => "profile",
            Self::ProviderModels => "TEAM.md provider_models",
            Self::DefaultModel => "TEAM.md default_model",
            Self::BuiltIn => "built-in",
            Self::ProviderDefault => "provider default",
        })
    }
}

impl fmt::Display for ModelChoice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(model) => write!(out, "{model} ({})", self.source),
            None => write!(out, "{}", self.source),
        }
    }
}

impl SpecSeat {
    /// Returns the tools as words; `*` alone when it may use all.
    pub fn tool_words(&self) -> Vec<String> {
        if self.tools.len() == Tool::ALL.len() {
            return vec!["*".to_owned()];
        }
        self.tools.iter().map(|it| it.as_str().to_owned()).collect()
    }

    /// Returns the seat as events carry it.
    pub fn to_event(&self) -> team_model::SeatSpec {
        team_model::SeatSpec {
            role: self.role.clone(),
            provider: self.provider.clone(),
            model: self.model.value.clone(),
            effort: self.effort.map(|it| it.as_str().to_owned()),
            auth_mode: self.auth_mode.as_str().to_owned(),
            profile: self.profile.clone(),
            tools: self.tool_words(),
            working_directory: (self.working_directory != ".").then(|| self.working_directory.clone()),
            instructions: Body::inline(&self.instructions),
        }
    }
}

impl Spec {
    /// Returns what agents are told to reach: the goal, else the objective.
    pub fn goal_text(&self) -> Option<&str> {
        self.goal.as_deref().or(self.objective.as_deref())
    }

    /// Returns a seat by name, whatever its case.
    pub fn seat(&self, name: &str) -> Option<&SpecSeat> {
        self.seats.iter().find(|it| it.name.is_same(name))
    }

    /// Returns the models in use, by agent.
    pub fn models(&self) -> BTreeMap<&str, &ModelChoice> {
        self.seats.iter().map(|it| (it.name.as_str(), &it.model)).collect()
    }

    /// Returns the digest over everything that has a meaning: not which file says
    /// it, nor in which line.
    pub(crate) fn compute_digest(&self) -> String {
        let mut meaning = self.clone();
        meaning.digest = String::new();
        meaning.session_name_at = Place { file: String::new(), line: 0 };
        for seat in &mut meaning.seats {
            seat.source = String::new();
        }
        meaning.seats.sort_by(|a, b| a.name.cmp(&b.name));
        let mut hex = String::with_capacity(64);
        for byte in Sha256::digest(meaning.to_json().as_bytes()) {
            let _ = write!(hex, "{byte:02x}");
        }
        hex
    }

    /// Returns the generated file's content.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("texts, numbers and lists always serialize");
        json.push('\n');
        json
    }

    /// Writes `spec.json` into a team's directory, whole or not at all.
    pub fn save(&self, team_dir: &Path) -> io::Result<()> {
        crate::place::write_whole(&team_dir.join(SPEC_FILE), self.to_json().as_bytes())
    }

    /// Reads `spec.json` of a team's directory.
    pub fn load(team_dir: &Path) -> io::Result<Self> {
        let bytes = fs::read(team_dir.join(SPEC_FILE))?;
        serde_json::from_slice(&bytes).map_err(|cause| io::Error::new(io::ErrorKind::InvalidData, cause))
    }
}

/// Returns the name of the tmux session for a team's name.
///
/// tmux gives `.` and `:` a meaning in targets and obeys `#` in names, so that only
/// letters, digits, blanks, `-` and `_` stay as they are.
pub fn session_name(name: &str) -> String {
    let mut kept: String = name
        .trim()
        .chars()
        .map(|it| {
            let stays = it.is_alphanumeric()
                || matches!(it, '-' | '_' | ' ')
                || unicode_normalization::char::is_combining_mark(it);
            if stays { it } else { '_' }
        })
        .collect();
    if kept.is_empty() {
        kept.push_str("team");
    }
    if kept.starts_with('-') {
        kept.replace_range(..1, "_");
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_names_mean_nothing_to_tmux() {
        for (name, session) in [
            ("demo-team", "demo-team"),
            ("a.b:c", "a_b_c"),
            ("#(touch x)", "__touch x_"),
            ("-x", "_x"),
            ("=x*", "_x_"),
            ("研究 हिन्दी", "研究 हिन्दी"),
            ("$1 @2 %3", "_1 _2 _3"),
        ] {
            assert_eq!(session_name(name), session);
        }
    }
}
