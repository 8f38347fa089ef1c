//! The provider `codex`: a server of the program's own, a screen attached to it, and a bridge that speaks to it.
//!
//! Knows which part answers which question.

mod protocol;
mod records;
mod start;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;

use crate::bridge::{Bridge, BridgeContext};
use crate::claude_like;
use crate::fact::{Fact, HookContext, HookSession, RecordKind, SeatPlaces, Watched};
use crate::launch::{Launch, Unsupported};
use crate::provider::{Capabilities, ModelList, ProfileKeys, Program, Provider, ToolNames};
use crate::screen::{DialogRule, Screen, ScreenReading, ScreenRules};
use crate::seat::{Auth, SeatContext};
use crate::typing::{self, Framed, Typing};
use crate::version::{self, Versions};

/// The provider `codex`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Codex;

const NAME: &str = "codex";

/// Efforts that the program takes.
const EFFORTS: &[&str] = &["low", "medium", "high", "xhigh"];

static RULES: LazyLock<ScreenRules> = LazyLock::new(|| {
    ScreenRules::parse(include_str!("../../data/screens/codex.yaml"))
        .expect("the embedded screen rules are valid")
});

impl Provider for Codex {
    fn name(&self) -> &'static str {
        NAME
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["codex_cli", "codex-cli"]
    }

    fn program(&self) -> Program {
        Program::Named("codex")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fast: false,
            effort: EFFORTS,
            auth: &[Auth::Subscription, Auth::OfficialApi, Auth::CompatibleApi],
            resume: true,
            fork: false,
            chooses_id: false,
            reaches_busy: false,
            announces_approvals: true,
            tells_interrupts: true,
            tells_dialogs: true,
        }
    }

    fn model_list(&self) -> Option<ModelList> {
        Some(ModelList { arguments: &["debug", "models", "--bundled"], read: records::models })
    }

    fn default_model(&self) -> Option<&'static str> {
        Some("gpt-5.5")
    }

    fn key_names(&self) -> ProfileKeys {
        ProfileKeys { base_url: "OPENAI_BASE_URL", api_key: "OPENAI_API_KEY", auth_token: "" }
    }

    fn known_versions(&self) -> &'static Versions {
        version::versions(NAME).expect("the version table lists this provider")
    }

    fn tool_names(&self) -> ToolNames {
        claude_like::TOOLS
    }

    fn launch(&self, seat: &SeatContext<'_>) -> Result<Launch, Unsupported> {
        start::launch(seat)
    }

    fn bridge(&self, context: &BridgeContext<'_>) -> Option<Box<dyn Bridge>> {
        Some(Box::new(protocol::Protocol::new(context)))
    }

    fn takes_when_idle(&self) -> bool {
        true
    }

    fn records_home(&self, env: &BTreeMap<String, String>) -> Option<PathBuf> {
        let named = env.get("CODEX_HOME").filter(|it| !it.is_empty()).map(PathBuf::from);
        named.or_else(|| env.get("HOME").map(|it| Path::new(it).join(".codex")))
    }

    fn base_path(&self) -> &'static str {
        "/v1"
    }

    fn trust_file(&self, env: &BTreeMap<String, String>, home: &Path) -> Option<PathBuf> {
        let named = env.get("CODEX_HOME").filter(|it| !it.is_empty()).map(PathBuf::from);
        Some(named.unwrap_or_else(|| home.join(".codex")).join("config.toml"))
    }

    fn trusts(&self, trust_file: &str, cwd: &Path) -> bool {
        records::trusts(trust_file, cwd)
    }

    fn settings_files(&self, env: &BTreeMap<String, String>, home: &Path) -> Vec<PathBuf> {
        start::settings_files(&self.trust_file(env, home).unwrap_or_default())
    }

    fn trust_note(&self, home: &Path, cwd: &Path) -> Option<(PathBuf, String)> {
        let note = format!("[projects.{}]\ntrust_level = \"trusted\"\n", Value::from(cwd.to_str()?));
        Some((home.join(".codex/config.toml"), note))
    }

    fn hook_session(&self, _stdin: &Value) -> Option<HookSession> {
        None
    }

    fn read_hook(&self, _event: &str, _stdin: &Value) -> Vec<Fact> {
        Vec::new()
    }

    fn hook_answer(&self, _event: &str, _context: &HookContext<'_>) -> Option<String> {
        None
    }

    fn files_to_watch(&self, places: &SeatPlaces<'_>) -> Vec<Watched> {
        // Its name holds the moment of its beginning: only the program knows it.
        let told = places.transcript.map(Path::to_owned);
        told.map(|path| Watched { path, kind: RecordKind::Transcript }).into_iter().collect()
    }

    fn read_record(&self, kind: RecordKind, record: &str) -> Vec<Fact> {
        records::read(kind, record)
    }

    fn record_time(&self, record: &str) -> Option<i64> {
        records::time(record)
    }

    fn read_screen(&self, screen: &Screen) -> ScreenReading {
        RULES.read(screen)
    }

    fn dialogs(&self) -> &'static [DialogRule] {
        &RULES.dialogs
    }

    fn typing(&self) -> Typing {
        Typing {
            settle_ms: 200,
            look_after_ms: 2000,
            after_start_ms: 0,
            max_bytes: 1_000_000,
            risky_first: &['/', '!'],
            tabs_change: false,
            trims: true,
            drops: |_| false,
            changes: |_| false,
        }
    }

    fn frame(&self, text: &str) -> Framed {
        typing::frame(&self.typing(), text)
    }
}
