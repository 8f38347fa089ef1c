//! The provider `opencode`: one process with a screen and a server, and a bridge that speaks to that.
//!
//! Knows which part answers which question.

mod protocol;
mod start;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;

use crate::bridge::{Bridge, BridgeContext};
use crate::fact::{Fact, HookContext, HookSession, RecordKind, SeatPlaces, Watched};
use crate::launch::{Launch, Unsupported};
use crate::provider::{Capabilities, ProfileKeys, Program, Provider, ToolNames};
use crate::screen::{DialogRule, Screen, ScreenReading, ScreenRules};
use crate::seat::{Auth, SeatContext};
use crate::typing::{self, Framed, Typing};
use crate::version::{self, Versions};

/// The provider `opencode`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenCode;

const NAME: &str = "opencode";

static RULES: LazyLock<ScreenRules> = LazyLock::new(|| {
    ScreenRules::parse(include_str!("../../data/screens/opencode.yaml"))
        .expect("the embedded screen rules are valid")
});

impl Provider for OpenCode {
    fn name(&self) -> &'static str {
        NAME
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["open_code", "open-code"]
    }

    fn program(&self) -> Program {
        Program::Named("opencode")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fast: false,
            effort: &[],
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

    fn key_names(&self) -> ProfileKeys {
        ProfileKeys { base_url: "BASE_URL", api_key: "API_KEY", auth_token: "" }
    }

    fn known_versions(&self) -> &'static Versions {
        version::versions(NAME).expect("the version table lists this provider")
    }

    fn tool_names(&self) -> ToolNames {
        ToolNames {
            send: "team_orchestrator_send_message",
            report: "team_orchestrator_report_result",
            read: "team_orchestrator_team_read",
            human: "team_orchestrator_request_human",
            prefix: "team_orchestrator_",
        }
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
        Some(start::data_home(env, env.get("HOME").map(Path::new)?))
    }

    fn base_path(&self) -> &'static str {
        "/v1"
    }

    fn trust_file(&self, _env: &BTreeMap<String, String>, _home: &Path) -> Option<PathBuf> {
        None
    }

    fn trusts(&self, _trust_file: &str, _cwd: &Path) -> bool {
        // It asks nobody whether a folder is trusted.
        true
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

    fn files_to_watch(&self, _places: &SeatPlaces<'_>) -> Vec<Watched> {
        // All its conversations are in one database.
        Vec::new()
    }

    fn read_record(&self, _kind: RecordKind, _record: &str) -> Vec<Fact> {
        Vec::new()
    }

    fn record_time(&self, _record: &str) -> Option<i64> {
        None
    }

    fn read_screen(&self, screen: &Screen) -> ScreenReading {
        RULES.read(screen)
    }

    fn dialogs(&self) -> &'static [DialogRule] {
        &RULES.dialogs
    }

    fn typing(&self) -> Typing {
        Typing {
            settle_ms: 500,
            look_after_ms: 2000,
            after_start_ms: 0,
            // Nothing is typed: this is what one message may hold.
            max_bytes: 1_000_000,
            risky_first: &['/', '!'],
            tabs_change: false,
            trims: false,
            drops: |_| false,
            changes: |_| false,
        }
    }

    fn frame(&self, text: &str) -> Framed {
        typing::frame(&self.typing(), text)
    }
}
