//! The provider `claude`.
//!
//! Knows what its program alone has: its homes, its keys, its tools, its trust.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::claude_like::{self, Family, hooks, places, records, start};
use crate::fact::{ApprovalAnswer, Fact, HookContext, HookSession, RecordKind, SeatPlaces, Watched};
use crate::launch::{GeneratedFile, Launch, Unsupported};
use crate::provider::{Capabilities, ProfileKeys, Program, Provider, ToolNames};
use crate::screen::{DialogRule, Screen, ScreenReading, ScreenRules};
use crate::seat::{Auth, FolderTrust, SeatContext};
use crate::typing::{self, Framed, Typing};
use crate::version::{self, Versions};

/// The provider `claude`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claude;

const FAMILY: Family = Family {
    name: "claude",
    first_args: &[],
    argv_hooks: false,
    efforts: EFFORTS,
    effort_flag: Some("--effort"),
};

/// Efforts that the program takes by flag.
const EFFORTS: &[&str] = &["low", "medium", "high", "xhigh", "max"];

/// Variables that decide whose account pays; a profile with a key of its own takes them all away first.
const ACCOUNT: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_UNIX_SOCKET",
    "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_SECURESTORAGE_CONFIG_DIR",
];

/// Variable under which a key reaches the helper line of the settings. Given under its usual name, the program
/// would ask about it, and the answer could only be prepared by writing part of the key into a file.
const KEY_VARIABLE: &str = "TEAM_SEAT_API_KEY";

/// Names that profiles use, and the program's own.
const PROFILE_NAMES: &[(&str, &str)] = &[
    ("API_KEY", "ANTHROPIC_API_KEY"),
    ("AUTH_TOKEN", "ANTHROPIC_AUTH_TOKEN"),
    ("BASE_URL", "ANTHROPIC_BASE_URL"),
];

/// Tool words of role files, and the built-in tools that each stands for.
const TOOL_WORDS: &[(&str, &[&str])] = &[
    ("fs_read", &["Read"]),
    ("fs_list", &["Glob", "Grep", "LSP"]),
    ("fs_write", &["Edit", "Write", "NotebookEdit"]),
    ("execute_bash", &["Bash", "Monitor", "PowerShell"]),
    (WEB, &["WebFetch", "WebSearch"]),
    // Differences are seen by the shell.
    ("git_diff", &[]),
];

/// Word for the tools that read the network; they are part of everything else, too.
const WEB: &str = "network";
/// Word that leaves everything else of the program available.
const BUILT_IN: &str = "provider_builtin";
/// Word for our own tools; they are always available, a worker must be able to report.
const OURS: &str = "mcp_team";

static RULES: LazyLock<ScreenRules> = LazyLock::new(|| {
    ScreenRules::parse(include_str!("../data/screens/claude.yaml"))
        .expect("the embedded screen rules are valid")
});

impl Provider for Claude {
    fn name(&self) -> &'static str {
        FAMILY.name
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["claude_code", "claude-code"]
    }

    fn program(&self) -> Program {
        Program::Named("claude")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fast: false,
            effort: EFFORTS,
            auth: &[Auth::Subscription, Auth::OfficialApi, Auth::CompatibleApi],
            resume: true,
            fork: true,
            chooses_id: true,
            reaches_busy: true,
            announces_approvals: true,
            tells_interrupts: true,
            tells_dialogs: true,
        }
    }

    fn default_model(&self) -> Option<&'static str> {
        Some("claude-sonnet-4-6")
    }

    fn key_names(&self) -> ProfileKeys {
        ProfileKeys {
            base_url: "ANTHROPIC_BASE_URL",
            api_key: "ANTHROPIC_API_KEY",
            auth_token: "ANTHROPIC_AUTH_TOKEN",
        }
    }

    fn known_versions(&self) -> &'static Versions {
        version::versions(FAMILY.name).expect("the version table lists this provider")
    }

    fn tool_names(&self) -> ToolNames {
        claude_like::TOOLS
    }

    fn launch(&self, seat: &SeatContext<'_>) -> Result<Launch, Unsupported> {
        let mut extra = Vec::new();
        let mut env = own_names(seat.profile);
        let managed = seat.auth != Auth::Subscription;
        if managed {
            check_profile(seat, &env)?;
            if let Some(key) = env.remove("ANTHROPIC_API_KEY") {
                env.insert(KEY_VARIABLE.to_owned(), key);
                extra.push(("apiKeyHelper", json!(format!("printf %s \"${KEY_VARIABLE}\""))));
            }
        }
        if seat.skip_permissions {
            extra.push(("skipDangerousModePermissionPrompt", json!(true)));
        }
        let managed_home = managed.then(|| seat.seat_dir.join("claude-home"));
        let config_home = managed_home.clone().unwrap_or_else(|| own_home(seat));
        let mut launch = start::launch(&FAMILY, seat, config_home, true, extra)?;
        tool_flags(seat.tools, &mut launch);
        if seat.skip_permissions {
            launch.argv.extend(["--permission-mode".into(), "bypassPermissions".into()]);
        }
        launch.secret_env = env;
        launch.env_set.insert("DISABLE_AUTOUPDATER".to_owned(), "1".to_owned());
        if let Some(home) = managed_home {
            use_managed_home(seat, home, &mut launch)?;
        } else {
            use_own_home(seat, &mut launch);
        }
        Ok(launch)
    }

    fn records_home(&self, env: &BTreeMap<String, String>) -> Option<PathBuf> {
        let named = env.get("CLAUDE_CONFIG_DIR").filter(|it| !it.is_empty()).map(PathBuf::from);
        named.or_else(|| env.get("HOME").map(|it| Path::new(it).join(".claude")))
    }

    fn trust_file(&self, env: &BTreeMap<String, String>, home: &Path) -> Option<PathBuf> {
        Some(
            env.get("CLAUDE_CONFIG_DIR")
                .filter(|it| !it.is_empty())
                .map_or(home, Path::new)
                .join(".claude.json"),
        )
    }

    fn trusts(&self, trust_file: &str, cwd: &Path) -> bool {
        let Ok(file) = serde_json::from_str::<Value>(trust_file) else { return false };
        let Some(projects) = file.get("projects").and_then(Value::as_object) else { return false };
        cwd.ancestors().filter_map(Path::to_str).any(|folder| {
            projects.get(folder).and_then(|it| it.get("hasTrustDialogAccepted")).and_then(Value::as_bool)
                == Some(true)
        })
    }

    fn trust_note(&self, home: &Path, cwd: &Path) -> Option<(PathBuf, String)> {
        let trusted = json!({ cwd.to_str()?: { "hasTrustDialogAccepted": true } });
        let note = json!({ "hasCompletedOnboarding": true, "projects": trusted });
        Some((home.join(".claude.json"), start::pretty(&note)))
    }

    fn hook_session(&self, stdin: &Value) -> Option<HookSession> {
        hooks::session(stdin)
    }

    fn read_hook(&self, event: &str, stdin: &Value) -> Vec<Fact> {
        hooks::read(event, stdin)
    }

    fn hook_answer(&self, event: &str, context: &HookContext<'_>) -> Option<String> {
        hooks::answer(event, context)
    }

    fn asks_our_hook(&self, event: &str, stdin: &Value) -> bool {
        hooks::asks(event, stdin)
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
            settle_ms: 200,
            look_after_ms: 2000,
            after_start_ms: 0,
            max_bytes: 100_000,
            risky_first: &['/', '!', '#', '@', '&', '?'],
            tabs_change: true,
            trims: true,
            drops: |_| false,
            changes: |_| false,
        }
    }

    fn frame(&self, text: &str) -> Framed {
        typing::frame(&self.typing(), text)
    }
}

/// Returns a profile's variables under the names that the program knows.
fn own_names(profile: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut env = profile.clone();
    for (general, own) in PROFILE_NAMES {
        if let Some(value) = env.remove(*general) {
            env.insert((*own).to_owned(), value);
        }
    }
    env
}

/// Refuses a profile that lacks what its mode needs.
fn check_profile(seat: &SeatContext<'_>, env: &BTreeMap<String, String>) -> Result<(), Unsupported> {
    let has = |name: &str| env.get(name).is_some_and(|value| !value.is_empty());
    let missing =
        |needs| Err(Unsupported::Profile { provider: FAMILY.name, auth: seat.auth.as_str(), needs });
    if seat.auth == Auth::CompatibleApi && !has("ANTHROPIC_BASE_URL") {
        return missing("`BASE_URL`");
    }
    if seat.auth == Auth::OfficialApi && !has("ANTHROPIC_API_KEY") && !has("ANTHROPIC_AUTH_TOKEN") {
        return missing("`API_KEY` or `AUTH_TOKEN`");
    }
    Ok(())
}

/// Returns the person's own home of the program.
fn own_home(seat: &SeatContext<'_>) -> PathBuf {
    let named = |env: &BTreeMap<String, String>| {
        env.get("CLAUDE_CONFIG_DIR").filter(|it| !it.is_empty()).map(PathBuf::from)
    };
    named(seat.profile).or_else(|| named(seat.env)).unwrap_or_else(|| seat.home.join(".claude"))
}

/// Leaves the person's home as it is, and answers the trust question only if someone granted it.
fn use_own_home(seat: &SeatContext<'_>, launch: &mut Launch) {
    match seat.trust {
        // The program drops the project's own permission list when it is told this, so only where it must be.
        FolderTrust::Granted => {
            launch.env_set.insert("CLAUDE_CODE_SANDBOXED".to_owned(), "1".to_owned());
        }
        FolderTrust::OwnConfig => {}
        FolderTrust::No => launch.notes.push(seat.untrusted(FAMILY.name)),
    }
    let key = ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"]
        .into_iter()
        .find(|name| seat.env.contains_key(*name) && !seat.profile.contains_key(*name));
    if let Some(name) = key {
        launch.notes.push(format!(
            "`{name}` is set in your shell: `claude` uses it instead of the log-in, as it does when you start it"
        ));
    }
}

/// Gives the seat a home of its own in which every start-up question is answered.
fn use_managed_home(seat: &SeatContext<'_>, home: PathBuf, launch: &mut Launch) -> Result<(), Unsupported> {
    let text = |path: &Path| {
        hooks::utf8(path)
            .map(str::to_owned)
            .ok_or_else(|| Unsupported::Path { provider: FAMILY.name, path: path.display().to_string() })
    };
    let mut projects = Map::new();
    for folder in std::iter::once(seat.cwd).chain(seat.git_root) {
        if seat.trust.is_trusted() {
            projects.insert(text(folder)?, json!({ "hasTrustDialogAccepted": true }));
        }
    }
    if !seat.trust.is_trusted() {
        launch.notes.push(seat.untrusted(FAMILY.name));
    }
    let seed = json!({ "hasCompletedOnboarding": true, "projects": projects });
    launch.files.push(GeneratedFile {
        path: home.join(".claude.json"),
        contents: start::pretty(&seed),
        mode: start::PRIVATE,
        // The program keeps notes of its own there. They are worth less than an answer that fits this start:
        // an earlier one may have been for another folder, or for a trust that was taken back.
        keep_existing: false,
    });
    launch.env_set.insert("CLAUDE_CONFIG_DIR".to_owned(), text(&home)?);
    launch.secret_env.remove("CLAUDE_CONFIG_DIR");
    if seat.auth == Auth::CompatibleApi {
        // A service on this machine may need neither, but the program refuses to start without.
        if ![KEY_VARIABLE, "ANTHROPIC_AUTH_TOKEN"].iter().any(|name| launch.secret_env.contains_key(*name)) {
            launch.env_set.insert("ANTHROPIC_AUTH_TOKEN".to_owned(), "none".to_owned());
        }
        launch.env_set.insert("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".to_owned(), "1".to_owned());
    }
    launch.env_remove.extend(ACCOUNT.iter().map(|name| (*name).to_owned()));
    launch.managed_home = Some(home);
    Ok(())
}

/// Turns tool words into flags: what no word names is taken away, and nothing is allowed unasked.
fn tool_flags(words: &[String], launch: &mut Launch) {
    if words.is_empty() || words.iter().any(|word| word == "*") {
        return;
    }
    let has = |name: &str| words.iter().any(|word| word == name);
    for word in words {
        let known = word == BUILT_IN || word == OURS || TOOL_WORDS.iter().any(|(name, _)| name == word);
        if !known {
            launch.notes.push(format!("tool `{word}` is not known to provider `claude`: it gives nothing"));
        }
    }
    let pick = |wanted: &dyn Fn(&str) -> bool| {
        let tools: Vec<&str> = TOOL_WORDS
            .iter()
            .filter(|(name, _)| wanted(name))
            .flat_map(|(_, tools)| *tools)
            .copied()
            .collect();
        tools.join(",")
    };
    if has(BUILT_IN) {
        let taken = pick(&|name| name != WEB && !has(name));
        if !taken.is_empty() {
            launch.argv.extend(["--disallowedTools".into(), taken.into()]);
        }
    } else {
        launch.argv.extend(["--tools".into(), pick(&has).into()]);
    }
}
