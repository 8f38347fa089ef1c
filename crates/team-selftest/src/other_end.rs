//! The other end of an agent: what it was given, and the words that make it do something.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use team_provider::Provider;
use team_stub::{Kind, ModelStub};

/// Who plays the model.
pub(crate) enum OtherEnd {
    /// Our stub, asked by a real program.
    Stub(ModelStub),
    /// The built-in agent itself, which keeps a record below this directory.
    BuiltIn(PathBuf),
}

impl OtherEnd {
    /// Makes the agent answer.
    pub(crate) fn say(&self, text: &str) -> String {
        format!("{}: say {text}", self.mark())
    }

    /// Makes the agent busy for that long.
    pub(crate) fn busy(&self, milliseconds: u32) -> String {
        match self {
            Self::Stub(_) => format!("stub: think {milliseconds}\nstub: say done"),
            Self::BuiltIn(_) => format!("fake: think {milliseconds}"),
        }
    }

    /// Makes the agent report through our tool.
    pub(crate) fn report(&self, provider: &dyn Provider, summary: &str) -> String {
        match self {
            Self::Stub(_) => {
                let arguments = json!({ "summary": summary, "status": "success" });
                format!("stub: call {} {arguments}\nstub: say reported", provider.tool_names().report)
            }
            Self::BuiltIn(_) => format!("fake: report status=success summary={}", json!(summary)),
        }
    }

    /// Makes the agent ask whether it may run a command, and run it if so.
    pub(crate) fn ask_to_run(&self, command: &str) -> String {
        match self {
            Self::Stub(_) => format!("stub: ask {command}\nstub: say done"),
            Self::BuiltIn(_) => {
                format!("fake: ask-permission Bash {}\nfake: shell {command}", json!({ "command": command }))
            }
        }
    }

    /// How often a text was given to the agent, word for word.
    pub(crate) fn times(&self, text: &str) -> usize {
        self.given().iter().map(|it| it.matches(text).count()).sum()
    }

    /// Whether the text was given as the name of a file that holds it.
    pub(crate) fn as_file(&self, text: &str) -> bool {
        let given = self.given();
        let words =
            given.iter().flat_map(|it| it.split(|c: char| c.is_whitespace() || "`'\"()<>".contains(c)));
        words
            .filter(|it| it.starts_with('/'))
            .any(|it| std::fs::read_to_string(it).is_ok_and(|it| it.contains(text)))
    }

    /// Whether the agent's model had this text before it, among all that was said, when it was given another one.
    pub(crate) fn remembers(&self, text: &str, when: &str) -> Option<bool> {
        match self {
            Self::Stub(stub) => {
                let escaped = json!(text).to_string();
                let words = escaped.trim_matches('"');
                let asked: Vec<_> = stub.turns().into_iter().filter(|it| it.says(when)).collect();
                Some(asked.iter().any(|it| it.body.to_string().contains(words)))
            }
            Self::BuiltIn(_) => None,
        }
    }

    fn mark(&self) -> &'static str {
        match self {
            Self::Stub(_) => "stub",
            Self::BuiltIn(_) => "fake",
        }
    }

    /// Every text the agent was given.
    fn given(&self) -> Vec<String> {
        match self {
            Self::Stub(stub) => stub
                .requests()
                .iter()
                .filter(|it| it.kind == Kind::Turn)
                .flat_map(|it| it.texts.clone())
                .collect(),
            Self::BuiltIn(base) => {
                let mut lines = Vec::new();
                submissions(base, &mut lines);
                lines
            }
        }
    }
}

/// Collects what built-in agents below a directory say they were given.
fn submissions(dir: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|it| it.is_dir()) {
            submissions(&path, found);
        } else if path.parent().and_then(Path::file_name).is_some_and(|it| it == "submissions") {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            found.extend(
                text.lines()
                    .filter_map(|it| serde_json::from_str::<Value>(it).ok())
                    .filter_map(|it| Some(it["text"].as_str()?.to_owned())),
            );
        }
    }
}
