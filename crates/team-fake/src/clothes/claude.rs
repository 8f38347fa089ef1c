//! The clothes of Claude Code: the agent's own forms, at that program's places.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Clothes;
use crate::args::Args;
use crate::dialog::Kind;
use crate::logs::replace;
use crate::setup::{Given, StartError};

/// Plays `claude`.
#[derive(Debug)]
pub(crate) struct Claude;

impl Clothes for Claude {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn version(&self) -> &'static str {
        "2.1.197"
    }

    fn version_line(&self, version: &str) -> String {
        format!("{version} (Claude Code)")
    }

    fn home(&self, _logs: &Path) -> PathBuf {
        named_home().unwrap_or_else(|| home().join(".claude"))
    }

    fn given(&self, args: &Args, _home: &Path, cwd: &str) -> Result<Given, StartError> {
        let mut given = Given::by_flags(args)?;
        if !args.headless
            && std::env::var_os("CLAUDE_CODE_SANDBOXED").is_none_or(|it| it != "1")
            && !trusts(cwd)
        {
            given.questions.push((Kind::Trust, cwd.to_owned()));
        }
        Ok(given)
    }

    fn picked(&self, kind: Kind, number: usize, _home: &Path, cwd: &str) {
        if kind == Kind::Trust && number == 1 {
            let mut notes = notes();
            notes["projects"][cwd]["hasTrustDialogAccepted"] = json!(true);
            let _ = replace(&notes_file(), &notes.to_string());
        }
    }

    fn goodbye(&self, session: &str) -> String {
        format!("Resume this session with:\r\nclaude --resume {session}")
    }
}

fn home() -> PathBuf {
    std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default()
}

fn named_home() -> Option<PathBuf> {
    std::env::var_os("CLAUDE_CONFIG_DIR").filter(|it| !it.is_empty()).map(PathBuf::from)
}

/// The file with what the program knows of folders.
fn notes_file() -> PathBuf {
    named_home().unwrap_or_else(home).join(".claude.json")
}

fn notes() -> Value {
    let text = std::fs::read_to_string(notes_file()).unwrap_or_default();
    serde_json::from_str(&text).ok().filter(Value::is_object).unwrap_or_else(|| json!({}))
}

fn trusts(cwd: &str) -> bool {
    let notes = notes();
    Path::new(cwd)
        .ancestors()
        .filter_map(Path::to_str)
        .any(|it| notes["projects"][it]["hasTrustDialogAccepted"] == json!(true))
}
