//! The provider `copilot`.
//!
//! Knows its home, its plugin, its tools, its trust. Messages and what happens go through an extension of the
//! program that each seat's plugin brings along.

mod records;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::claude_like::SERVER;
use crate::claude_like::hooks::{quote, utf8};
use crate::claude_like::places::{bell, inbox};
use crate::claude_like::start::{PRIVATE, is_uuid, pretty};
use crate::fact::{Fact, HookContext, HookSession, RecordKind, SeatPlaces, Watched};
use crate::launch::{Channel, GeneratedFile, Launch, ReadyFact, Unsupported};
use crate::provider::{Capabilities, ProfileKeys, Program, Provider, ToolNames};
use crate::screen::{DialogRule, Question, Screen, ScreenReading, ScreenRules};
use crate::seat::{Auth, SeatContext, Start};
use crate::typing::{self, Framed, Typing};
use crate::version::{self, Versions};

/// The provider `copilot`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Copilot;

const NAME: &str = "copilot";

/// Variable that names the home.
const HOME_VARIABLE: &str = "COPILOT_HOME";

/// Variable that switches features of the program on.
const FEATURES: &str = "COPILOT_CLI_ENABLED_FEATURE_FLAGS";

/// Variable that lists folders with instructions.
const INSTRUCTIONS: &str = "COPILOT_CUSTOM_INSTRUCTIONS_DIRS";

const MODEL: &str = "COPILOT_MODEL";
const KEY: &str = "COPILOT_PROVIDER_API_KEY";
const ADDRESS: &str = "COPILOT_PROVIDER_BASE_URL";

/// Names that profiles use, and the program's own.
const PROFILE_NAMES: &[(&str, &str)] = &[("API_KEY", KEY), ("BASE_URL", ADDRESS)];

/// Variables that decide whose account pays; a profile with an address of its own takes them all away first.
const ACCOUNT: &[&str] = &[
    "COPILOT_GITHUB_TOKEN",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    KEY,
    "COPILOT_PROVIDER_BEARER_TOKEN",
    ADDRESS,
    "COPILOT_PROVIDER_TYPE",
    "COPILOT_PROVIDER_WIRE_API",
    MODEL,
];

/// Efforts that the program takes by flag.
const EFFORTS: &[&str] = &["low", "medium", "high", "xhigh"];

/// Tool words of role files, and the built-in tools that each stands for.
const TOOL_WORDS: &[(&str, &[&str])] = &[
    ("fs_read", &["view"]),
    ("fs_list", &["grep", "glob"]),
    ("fs_write", &["create", "edit"]),
    ("execute_bash", &["bash", "read_bash", "stop_bash", "list_bash"]),
    ("network", &["web_fetch"]),
];

/// Word for the tools that read the network; they are part of everything else, too.
const NETWORK: &str = "network";
/// Word that leaves everything else of the program available.
const BUILT_IN: &str = "provider_builtin";
/// Words that change nothing here: our own tools are always available, differences are seen by the shell.
const NEUTRAL: &[&str] = &["mcp_team", "git_diff"];

/// Milliseconds that a call of our tools may take.
const TOOL_TIMEOUT_MS: u32 = 600_000;

static RULES: LazyLock<ScreenRules> = LazyLock::new(|| {
    ScreenRules::parse(include_str!("../../data/screens/copilot.yaml"))
        .expect("the embedded screen rules are valid")
});

impl Provider for Copilot {
    fn name(&self) -> &'static str {
        NAME
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["copilot_cli", "copilot-cli", "github_copilot"]
    }

    fn program(&self) -> Program {
        Program::Named("copilot")
    }

    /// The command is a script that starts the program itself, which lies beside it or among its packages.
    fn real_programs(&self, found: &Path) -> Vec<PathBuf> {
        let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
        let system = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
        let package = format!("copilot-{system}-{machine}");
        let Some(folder) = found.parent() else { return Vec::new() };
        vec![
            folder.join(&package),
            folder.join("node_modules/@github").join(&package).join(NAME),
            folder.with_file_name(&package).join(NAME),
        ]
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fast: false,
            effort: EFFORTS,
            auth: &[Auth::Subscription, Auth::CompatibleApi],
            resume: true,
            fork: false,
            chooses_id: true,
            reaches_busy: true,
            announces_approvals: true,
            tells_interrupts: true,
            tells_dialogs: true,
        }
    }

    fn key_names(&self) -> ProfileKeys {
        ProfileKeys { base_url: ADDRESS, api_key: KEY, auth_token: "" }
    }

    fn known_versions(&self) -> &'static Versions {
        version::versions(NAME).expect("the version table lists this provider")
    }

    fn tool_names(&self) -> ToolNames {
        ToolNames {
            send: "team_orchestrator-send_message",
            report: "team_orchestrator-report_result",
            read: "team_orchestrator-team_read",
            human: "team_orchestrator-request_human",
            prefix: "team_orchestrator-",
        }
    }

    fn launch(&self, seat: &SeatContext<'_>) -> Result<Launch, Unsupported> {
        let native_id = seat.start.native_id();
        let mut launch = Launch {
            argv: arguments(seat)?,
            native_id: Some(native_id.to_owned()),
            start_ids: vec![native_id.to_owned()],
            ready: vec![ReadyFact::ToolsListed, ReadyFact::SessionStarted],
            channel: Channel::Bell { bell: bell(seat.seat_dir), inbox: inbox(seat.seat_dir) },
            fallback: Some(Channel::Keys),
            files: plugin(seat)?,
            ..Launch::default()
        };
        let with = |name: &str, own: &str| match seat.env.get(name).filter(|it| !it.is_empty()) {
            Some(theirs) => format!("{own},{theirs}"),
            None => own.to_owned(),
        };
        let instructions = seat.seat_dir.join("instructions");
        launch.env_set.insert(FEATURES.to_owned(), with(FEATURES, "EXTENSIONS"));
        launch.env_set.insert(INSTRUCTIONS.to_owned(), with(INSTRUCTIONS, text(&instructions)?));
        launch.env_set.insert("COPILOT_AUTO_UPDATE".to_owned(), "false".to_owned());
        match seat.auth {
            Auth::Subscription => {
                launch.config_home = own_home(seat.env, seat.home);
                launch.secret_env = seat.profile.clone();
                if let Some(model) = seat.model {
                    launch.argv.extend(["--model".into(), model.into()]);
                }
            }
            Auth::CompatibleApi => use_profile(seat, &mut launch)?,
            Auth::OfficialApi => {
                return Err(Unsupported::Auth { provider: NAME, auth: seat.auth.as_str() });
            }
        }
        if !seat.trust.is_trusted() {
            launch.notes.push(seat.untrusted(NAME));
        }
        tool_flags(seat.tools, &mut launch);
        Ok(launch)
    }

    fn records_home(&self, env: &BTreeMap<String, String>) -> Option<PathBuf> {
        let named = env.get(HOME_VARIABLE).filter(|it| !it.is_empty()).map(PathBuf::from);
        named.or_else(|| env.get("HOME").map(|it| Path::new(it).join(".copilot")))
    }

    fn base_path(&self) -> &'static str {
        "/v1"
    }

    fn trust_file(&self, env: &BTreeMap<String, String>, home: &Path) -> Option<PathBuf> {
        Some(own_home(env, home).join("config.json"))
    }

    fn trust_note(&self, home: &Path, cwd: &Path) -> Option<(PathBuf, String)> {
        let note = serde_json::json!({ "trustedFolders": [cwd.to_str()?] });
        Some((own_home(&BTreeMap::new(), home).join("config.json"), note.to_string()))
    }

    fn trusts(&self, trust_file: &str, cwd: &Path) -> bool {
        // The program puts lines of comment at the top.
        let json: String =
            trust_file.lines().filter(|it| !it.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
        let Ok(file) = serde_json::from_str::<Value>(&json) else { return false };
        let folders = file["trustedFolders"].as_array().into_iter().flatten();
        folders
            .filter_map(Value::as_str)
            .any(|folder| Path::new(folder).is_absolute() && cwd.starts_with(folder))
    }

    fn hook_session(&self, stdin: &Value) -> Option<HookSession> {
        records::session(stdin)
    }

    fn read_hook(&self, event: &str, stdin: &Value) -> Vec<Fact> {
        records::hook(event, stdin)
    }

    fn hook_answer(&self, _event: &str, _context: &HookContext<'_>) -> Option<String> {
        None
    }

    fn files_to_watch(&self, places: &SeatPlaces<'_>) -> Vec<Watched> {
        let path = |id: &str| places.config_home.join("session-state").join(id).join("events.jsonl");
        let usual = places.native_id.map(path);
        usual.map(|path| Watched { path, kind: RecordKind::Transcript }).into_iter().collect()
    }

    fn read_record(&self, kind: RecordKind, record: &str) -> Vec<Fact> {
        match kind {
            RecordKind::Transcript => records::line(record),
            RecordKind::Status => Vec::new(),
        }
    }

    fn record_time(&self, record: &str) -> Option<i64> {
        crate::claude_like::records::time(record)
    }

    fn read_screen(&self, screen: &Screen) -> ScreenReading {
        RULES.read(screen)
    }

    fn answered_by_keys(&self, event: &str, stdin: &Value) -> bool {
        records::is_question(event, stdin)
    }

    fn read_question(&self, screen: &Screen) -> Option<Question> {
        RULES.question(screen)
    }

    fn read_trust(&self, screen: &Screen, folder: &Path) -> Option<Question> {
        RULES.trust_question(screen, folder)
    }

    fn is_about(&self, shown: &Question, tool: &str, input: &str) -> bool {
        records::is_about(shown, tool, input)
    }

    fn asks_in_record(&self, transcript: &str, tool: &str, input: &str) -> Option<bool> {
        Some(records::asks(transcript, tool, input))
    }

    fn dialogs(&self) -> &'static [DialogRule] {
        &RULES.dialogs
    }

    fn typing(&self) -> Typing {
        Typing {
            settle_ms: 300,
            look_after_ms: 2000,
            after_start_ms: 0,
            // What is longer arrives as the name of a file.
            max_bytes: 29_000,
            risky_first: &['/', '!', '#', '@', '?', '&'],
            tabs_change: true,
            trims: true,
            drops: |_| false,
            changes: |_| false,
        }
    }

    fn frame(&self, text: &str) -> Framed {
        typing::frame(&self.typing(), text)
    }

    /// What the extension gives to the program loses the white space at its end.
    fn laid(&self, text: String) -> String {
        typing::keep_end(text)
    }
}

/// Returns a path as text, or says that the program cannot be given it.
fn text(path: &Path) -> Result<&str, Unsupported> {
    utf8(path).ok_or_else(|| Unsupported::Path { provider: NAME, path: path.display().to_string() })
}

/// Returns the person's own home of the program.
fn own_home(env: &BTreeMap<String, String>, home: &Path) -> PathBuf {
    let named = env.get(HOME_VARIABLE).filter(|it| !it.is_empty()).map(PathBuf::from);
    named.unwrap_or_else(|| home.join(".copilot"))
}

/// Returns program and arguments, but for those of the account and the tools.
fn arguments(seat: &SeatContext<'_>) -> Result<Vec<OsString>, Unsupported> {
    let id = seat.start.native_id();
    if !is_uuid(id) {
        return Err(Unsupported::SessionId { provider: NAME, id: id.to_owned() });
    }
    if matches!(seat.start, Start::Fork { .. }) {
        return Err(Unsupported::Fork { provider: NAME });
    }
    // The same call begins a conversation and goes on with it, from any folder.
    let mut argv: Vec<OsString> = vec![seat.program.into(), format!("--session-id={id}").into()];
    let mut flag = |name: &str, value: &str| argv.extend([OsString::from(name), value.into()]);
    flag("--plugin-dir", text(&seat.seat_dir.join("plugin"))?);
    flag("--additional-mcp-config", &format!("@{}", text(&seat.seat_dir.join("mcp.json"))?));
    flag("--allow-tool", SERVER);
    if let Some(model) = seat.model
        && (model.is_empty() || model.starts_with('-') || model.contains(char::is_control))
    {
        return Err(Unsupported::Value { provider: NAME, what: "model", value: model.to_owned() });
    }
    if let Some(effort) = seat.effort {
        if !EFFORTS.contains(&effort) {
            return Err(Unsupported::Effort { provider: NAME, effort: effort.to_owned(), known: EFFORTS });
        }
        flag("--reasoning-effort", effort);
    }
    if seat.skip_permissions {
        argv.push("--allow-all".into());
    }
    Ok(argv)
}

/// Returns the files of the seat's plugin, its server and its role.
fn plugin(seat: &SeatContext<'_>) -> Result<Vec<GeneratedFile>, Unsupported> {
    let (self_exe, seat_file) = (text(seat.self_exe)?, text(seat.seat_file)?);
    let file = |name: &str, contents: String| GeneratedFile {
        path: seat.seat_dir.join(name),
        contents,
        mode: PRIVATE,
        keep_existing: false,
    };
    let manifest = json!({
        "name": "team-agent", "version": env!("CARGO_PKG_VERSION"), "description": "The seat's place in its team",
        "hooks": "hooks.json", "extensions": "extensions",
    });
    let line = format!("exec {} hook --seat-file {} notification", quote(self_exe), quote(seat_file));
    let hooks = json!({
        "version": 1,
        "hooks": { "notification": [{ "type": "command", "bash": line, "timeoutSec": 30 }] },
    });
    let team = json!({
        "exe": self_exe, "file": seat_file, "session": seat.start.native_id(), "inbox": text(&inbox(seat.seat_dir))?,
    });
    let server = json!({ "mcpServers": { SERVER: {
        "type": "local", "command": self_exe, "args": ["mcp", "--seat-file", seat_file], "env": {},
        "tools": ["*"], "timeout": TOOL_TIMEOUT_MS,
    } } });
    let role = format!("---\napplyTo: \"**\"\n---\n\n{}", seat.preamble);
    let mut bell = file("bell", String::new());
    bell.keep_existing = true;
    Ok(vec![
        file("plugin/plugin.json", pretty(&manifest)),
        file("plugin/hooks.json", pretty(&hooks)),
        file(
            "plugin/extensions/team/extension.mjs",
            include_str!("../../data/copilot/extension.mjs").to_owned(),
        ),
        file("plugin/extensions/team/team.json", pretty(&team)),
        file("mcp.json", pretty(&server)),
        file("instructions/team.instructions.md", role),
        bell,
    ])
}

/// Gives the seat a home and an account of a profile, and nothing of the person's.
fn use_profile(seat: &SeatContext<'_>, launch: &mut Launch) -> Result<(), Unsupported> {
    let mut env = seat.profile.clone();
    for (general, own) in PROFILE_NAMES {
        if let Some(value) = env.remove(*general) {
            env.insert((*own).to_owned(), value);
        }
    }
    let has = |name: &str| env.get(name).is_some_and(|value| !value.is_empty());
    let missing = |needs| Err(Unsupported::Profile { provider: NAME, auth: seat.auth.as_str(), needs });
    if !has(ADDRESS) {
        return missing("`BASE_URL`");
    }
    match seat.model {
        Some(model) => {
            launch.env_set.insert(MODEL.to_owned(), model.to_owned());
            env.remove(MODEL);
        }
        None if has(MODEL) => {}
        None => return missing("`MODEL`"),
    }
    let home = seat.seat_dir.join("copilot-home");
    env.remove(HOME_VARIABLE);
    launch.secret_env = env;
    launch.env_set.insert(HOME_VARIABLE.to_owned(), text(&home)?.to_owned());
    launch.env_set.insert("COPILOT_OFFLINE".to_owned(), "true".to_owned());
    launch.env_remove.extend(ACCOUNT.iter().map(|name| (*name).to_owned()));
    if seat.trust.is_trusted() {
        launch.files.push(GeneratedFile {
            path: home.join("config.json"),
            contents: pretty(&json!({ "trustedFolders": [text(seat.cwd)?] })),
            mode: PRIVATE,
            keep_existing: false,
        });
    }
    launch.config_home.clone_from(&home);
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
        let known = word == BUILT_IN
            || NEUTRAL.contains(&word.as_str())
            || TOOL_WORDS.iter().any(|(name, _)| name == word);
        if !known {
            launch.notes.push(format!("tool `{word}` is not known to provider `copilot`: it gives nothing"));
        }
    }
    let pick = |wanted: &dyn Fn(&str) -> bool| -> Vec<&str> {
        TOOL_WORDS.iter().filter(|(name, _)| wanted(name)).flat_map(|(_, tools)| *tools).copied().collect()
    };
    if has(BUILT_IN) {
        let taken = pick(&|name| name != NETWORK && !has(name));
        if !taken.is_empty() {
            launch.argv.push(format!("--excluded-tools={}", taken.join(",")).into());
        }
    } else {
        let ours = ["send_message", "report_result", "team_read", "request_human"];
        let given = pick(&has).into_iter().map(str::to_owned);
        let given: Vec<String> = given.chain(ours.iter().map(|it| format!("{SERVER}-{it}"))).collect();
        launch.argv.push(format!("--available-tools={}", given.join(",")).into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_trusted_with_all_that_lies_in_it() {
        let file = "// written by the program\n//\n{\"trustedFolders\": [\"/home/me/app\", \"relative\", 7]}";
        let trusts = |cwd: &str| Copilot.trusts(file, Path::new(cwd));
        assert!(trusts("/home/me/app") && trusts("/home/me/app/deep"));
        assert!(!trusts("/home/me") && !trusts("/home/me/apple") && !trusts("relative"));
        assert!(!Copilot.trusts("{", Path::new("/")));
    }

    #[test]
    fn the_real_program_is_looked_for_beside_the_script_and_among_its_packages() {
        let places = Copilot.real_programs(Path::new("/n/bin/copilot"));
        assert!(places[0].starts_with("/n/bin"), "{places:?}");
        let places = Copilot.real_programs(Path::new("/n/node_modules/@github/copilot/npm-loader.js"));
        assert!(
            places[2].starts_with("/n/node_modules/@github") && places[2].ends_with("copilot"),
            "{places:?}"
        );
    }
}
