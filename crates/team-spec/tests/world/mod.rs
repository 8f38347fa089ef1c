//! A workspace in a temporary directory, for tests of whole teams.

#![expect(clippy::unwrap_used, reason = "a test without its workspace cannot go on")]
#![expect(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use team_spec::{
    AuthMode, Capabilities, Effort, KeyNames, Known, Spec, SpecErrors, TeamSource, compile, locate,
};

/// What the files of these tests may name.
fn known() -> Known {
    use Effort::{High, Low, Max, Medium, Xhigh};
    let mut known = Known::default();
    let mut add = |name: &str, efforts: &[Effort], model: Option<&str>, key_names| {
        let capabilities = Capabilities {
            fast: false,
            efforts: efforts.to_vec(),
            auth_modes: AuthMode::ALL.to_vec(),
            default_model: model.map(str::to_owned),
            key_names,
        };
        known.providers.insert(name.to_owned(), capabilities);
    };
    let names = KeyNames::new("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN");
    add("claude", &[Low, Medium, High, Xhigh, Max], Some("claude-sonnet-4-6"), names);
    let names = KeyNames::new("OPENAI_BASE_URL", "OPENAI_API_KEY", "");
    add("codex", &[Low, Medium, High, Xhigh], Some("gpt-5.5"), names);
    let names = KeyNames::new("COPILOT_PROVIDER_BASE_URL", "COPILOT_PROVIDER_API_KEY", "");
    add("copilot", &[Low, Medium, High, Xhigh], None, names);
    add("gemini", &[], None, KeyNames::new("GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY", ""));
    add("opencode", &[], None, KeyNames::new("BASE_URL", "API_KEY", ""));
    add("fake", Effort::ALL, None, KeyNames::new("BASE_URL", "API_KEY", "AUTH_TOKEN"));
    for (alias, name) in [("claude_code", "claude"), ("gemini_cli", "gemini")] {
        known.aliases.insert(alias.to_owned(), name.to_owned());
    }
    known
}

pub(crate) struct World {
    dir: tempfile::TempDir,
    pub(crate) known: Known,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir, known: known() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Writes a file of the default team.
    pub(crate) fn team(&self, name: &str, content: impl AsRef<[u8]>) {
        self.write(&format!(".team/current/{name}"), content);
    }

    pub(crate) fn profile(&self, name: &str, content: &str) {
        let file = format!(".team/current/profiles/{name}.env");
        self.write(&file, content);
        self.mode(&file, 0o600);
    }

    pub(crate) fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn source(&self, dir: Option<&str>, team_id: Option<&str>) -> TeamSource {
        locate(&self.root(), dir.map(Path::new), team_id).unwrap()
    }

    pub(crate) fn compile(&self) -> Result<Spec, SpecErrors> {
        compile(&self.source(None, None), &self.known)
    }

    pub(crate) fn errors(&self) -> String {
        self.compile().unwrap_err().to_string()
    }

    /// Lists all files with their content, to show that nothing changed.
    pub(crate) fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn walk(dir: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, found);
                } else {
                    found.push((path.clone(), fs::read(&path).unwrap_or_default()));
                }
            }
        }
        let mut found = Vec::new();
        walk(&self.root(), &mut found);
        found.sort();
        found
    }
}
