//! The provider `fake`: our own program that plays an agent, for demos and trials.
//!
//! Knows how it is told to behave. Its flags and records are those of the family.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;

use crate::claude_like::{self, Family, hooks, places, records, start};
use crate::fact::{ApprovalAnswer, Fact, HookContext, HookSession, RecordKind, SeatPlaces, Watched};
use crate::launch::{Launch, Unsupported};
use crate::provider::{Capabilities, ProfileKeys, Program, Provider, ToolNames};
use crate::screen::{DialogRule, Question, Screen, ScreenReading, ScreenRules};
use crate::seat::{Auth, SeatContext};
use crate::typing::{self, Framed, Typing};
use crate::version::{VersionVerdict, Versions};

/// What our hook command is told where a question is answered in the dialog, by a key.
const SHOWN: &str = "PermissionShown";

/// The provider `fake`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fake;

const FAMILY: Family = Family {
    name: "fake",
    first_args: &["fake-agent"],
    argv_hooks: true,
    efforts: &["low", "medium", "high", "xhigh", "max"],
    effort_flag: None,
};

static RULES: LazyLock<ScreenRules> = LazyLock::new(|| {
    ScreenRules::parse(include_str!("../data/screens/fake.yaml"))
        .expect("the embedded screen rules are valid")
});

static VERSIONS: LazyLock<Versions> = LazyLock::new(|| Versions {
    provider: FAMILY.name.to_owned(),
    tested: vec![env!("CARGO_PKG_VERSION").to_owned()],
    rules: Vec::new(),
});

impl Provider for Fake {
    fn name(&self) -> &'static str {
        FAMILY.name
    }

    fn program(&self) -> Program {
        Program::Own("fake-agent")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fast: false,
            effort: FAMILY.efforts,
            auth: &[Auth::Subscription, Auth::OfficialApi, Auth::CompatibleApi],
            resume: true,
            fork: true,
            chooses_id: true,
            reaches_busy: false,
            announces_approvals: true,
            tells_interrupts: true,
            tells_dialogs: true,
        }
    }

    fn key_names(&self) -> ProfileKeys {
        ProfileKeys { base_url: "BASE_URL", api_key: "API_KEY", auth_token: "AUTH_TOKEN" }
    }

    fn known_versions(&self) -> &'static Versions {
        &VERSIONS
    }

    fn tool_names(&self) -> ToolNames {
        claude_like::TOOLS
    }

    fn launch(&self, seat: &SeatContext<'_>) -> Result<Launch, Unsupported> {
        let said =
            |name: &str| seat.profile.get(name).or_else(|| seat.env.get(name)).filter(|it| !it.is_empty());
        let bell = said("FAKE_CHANNEL").is_some_and(|word| word == "bell");
        let named_home = said("FAKE_HOME").map(PathBuf::from);
        let managed_home = named_home.is_none().then(|| seat.seat_dir.join("fake-home"));
        let config_home = named_home.or_else(|| managed_home.clone()).unwrap_or_default();
        let home = hooks::utf8(&config_home)
            .ok_or_else(|| Unsupported::Path {
                provider: FAMILY.name,
                path: config_home.display().to_string(),
            })?
            .to_owned();
        let mut launch = start::launch(&FAMILY, seat, config_home, bell, Vec::new())?;
        if said("FAKE_ANSWERS").is_some_and(|word| word == "keys") {
            show_questions(&mut launch);
        }
        launch.env_set.insert("FAKE_HOME".to_owned(), home);
        launch.secret_env = seat.profile.clone();
        launch.secret_env.remove("FAKE_HOME");
        launch.managed_home = managed_home;
        Ok(launch)
    }

    fn records_home(&self, env: &BTreeMap<String, String>) -> Option<PathBuf> {
        let named = env.get("FAKE_HOME").map(PathBuf::from);
        named.or_else(|| env.get("HOME").map(|it| Path::new(it).join(".fake-agent")))
    }

    fn trust_file(&self, _env: &BTreeMap<String, String>, _home: &Path) -> Option<PathBuf> {
        None
    }

    fn trusts(&self, _trust_file: &str, _cwd: &Path) -> bool {
        false
    }

    fn hook_session(&self, stdin: &Value) -> Option<HookSession> {
        hooks::session(stdin)
    }

    fn read_hook(&self, event: &str, stdin: &Value) -> Vec<Fact> {
        hooks::read(if event == SHOWN { hooks::ASKS } else { event }, stdin)
    }

    fn hook_answer(&self, event: &str, context: &HookContext<'_>) -> Option<String> {
        hooks::answer(event, context)
    }

    fn asks_our_hook(&self, event: &str, stdin: &Value) -> bool {
        hooks::asks(event, stdin)
    }

    fn answered_by_keys(&self, event: &str, _stdin: &Value) -> bool {
        event == SHOWN
    }

    fn read_question(&self, screen: &Screen) -> Option<Question> {
        RULES.question(screen)
    }

    fn read_trust(&self, screen: &Screen, folder: &Path) -> Option<Question> {
        RULES.trust_question(screen, folder)
    }

    fn is_about(&self, shown: &Question, tool: &str, input: &str) -> bool {
        let asked: Value = serde_json::from_str(input).unwrap_or_default();
        let what = asked["command"].as_str().unwrap_or(input);
        let whole = format!("Tool use {tool}({what}) Do you want to proceed?");
        shown.is(&whole)
    }

    fn approval_answer(&self, event: &str, answer: &ApprovalAnswer<'_>) -> Option<String> {
        hooks::approval_answer(event, answer)
    }

    fn files_to_watch(&self, places: &SeatPlaces<'_>) -> Vec<Watched> {
        places::files_to_watch(places)
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
            settle_ms: 10,
            look_after_ms: 300,
            after_start_ms: 0,
            max_bytes: 100_000,
            risky_first: &['/', '!', '#', '@', '&', '?'],
            tabs_change: false,
            trims: true,
            drops: |_| false,
            changes: |_| false,
        }
    }

    fn frame(&self, text: &str) -> Framed {
        typing::frame(&self.typing(), text)
    }

    /// It is part of the same binary, so it is always the version it was tried with.
    fn check_version(&self, _version: &str) -> VersionVerdict {
        VersionVerdict::Tested
    }
}

/// Makes the hook that tells of a permission question one that answers nothing: it waits in its dialog.
fn show_questions(launch: &mut Launch) {
    let Some(file) = launch.files.iter_mut().find(|it| it.path.ends_with("settings.json")) else { return };
    let Ok(mut settings) = serde_json::from_str::<Value>(&file.contents) else { return };
    if let Some(word) = settings.pointer_mut(&format!("/hooks/{}/0/hooks/0/argv/4", hooks::ASKS)) {
        *word = SHOWN.into();
        file.contents = start::pretty(&settings);
    }
}
