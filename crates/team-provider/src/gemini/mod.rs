//! The provider `gemini`.
//!
//! Knows its home, its settings, its tools, its trust. The program takes settings for one start only from root, so
//! each seat has a home of its own, with the person's log-in linked in.

mod forgotten;
mod records;
mod settings;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::claude_like::hooks::utf8;
use crate::claude_like::start::{PRIVATE, is_uuid, pretty};
use crate::fact::{Fact, HookContext, HookSession, RecordKind, SeatPlaces, Watched};
use crate::launch::{Channel, FileLink, GeneratedFile, Launch, ReadyFact, Unsupported};
use crate::provider::{Capabilities, ProfileKeys, Program, Provider, ToolNames};
use crate::screen::{DialogRule, Question, Screen, ScreenReading, ScreenRules};
use crate::seat::{Auth, FolderTrust, SeatContext, Start};
use crate::typing::{self, Framed, Typing};
use crate::version::{self, Versions};
use settings::{set, without_comments};

/// The provider `gemini`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gemini;

const NAME: &str = "gemini";

/// Folder of the program's files in whatever it takes for the home.
const FOLDER: &str = ".gemini";

/// The file, in that folder, in which the program keeps whether folders are trusted.
const TRUSTED: &str = "trustedFolders.json";

/// Variable that names that file.
const TRUSTED_VARIABLE: &str = "GEMINI_CLI_TRUSTED_FOLDERS_PATH";

/// Variable that names the home.
const HOME_VARIABLE: &str = "GEMINI_CLI_HOME";

/// Variables that decide whose account pays; a profile with a key of its own takes them all away first.
const ACCOUNT: &[&str] = &[
    "CODE_ASSIST_ENDPOINT",
    "GEMINI_API_KEY",
    "GEMINI_DEFAULT_AUTH_TYPE",
    "GOOGLE_API_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_ACCESS_TOKEN",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_GENAI_USE_GCA",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_VERTEX_BASE_URL",
];

const KEY: &str = "GEMINI_API_KEY";
const ADDRESS: &str = "GOOGLE_GEMINI_BASE_URL";

/// Names that profiles use, and the program's own.
const PROFILE_NAMES: &[(&str, &str)] = &[("API_KEY", KEY), ("BASE_URL", ADDRESS)];

/// Files of the person's home that hold the log-in and what was written for all projects.
const LINKED: &[&str] = &[
    ".env",
    "GEMINI.md",
    "gemini-credentials.json",
    "google_accounts.json",
    "installation_id",
    "mcp-oauth-tokens.json",
    "oauth_creds.json",
];

static RULES: LazyLock<ScreenRules> = LazyLock::new(|| {
    ScreenRules::parse(include_str!("../../data/screens/gemini.yaml"))
        .expect("the embedded screen rules are valid")
});

impl Provider for Gemini {
    fn name(&self) -> &'static str {
        NAME
    }

    fn aliases(&self) -> &'static [&'static str] {
        &["gemini_cli", "gemini-cli"]
    }

    fn program(&self) -> Program {
        Program::Named("gemini")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            fast: false,
            effort: &[],
            auth: &[Auth::Subscription, Auth::OfficialApi, Auth::CompatibleApi],
            resume: true,
            fork: false,
            chooses_id: true,
            reaches_busy: false,
            announces_approvals: true,
            tells_interrupts: true,
            tells_dialogs: false,
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
            send: "mcp_team_orchestrator_send_message",
            report: "mcp_team_orchestrator_report_result",
            read: "mcp_team_orchestrator_team_read",
            human: "mcp_team_orchestrator_request_human",
            prefix: "mcp_team_orchestrator_",
        }
    }

    fn launch(&self, seat: &SeatContext<'_>) -> Result<Launch, Unsupported> {
        let managed = seat.auth != Auth::Subscription;
        let home = seat.seat_dir.join("gemini-home");
        let folder = home.join(FOLDER);
        let native_id = seat.start.native_id();
        let file = |path: PathBuf, contents: String| GeneratedFile {
            path,
            contents,
            mode: PRIVATE,
            keep_existing: false,
        };
        let preamble = seat.seat_dir.join("preamble.md");
        let mut launch = Launch {
            argv: arguments(seat)?,
            native_id: Some(native_id.to_owned()),
            start_ids: vec![native_id.to_owned()],
            ready: vec![ReadyFact::ToolsListed, ReadyFact::SessionStarted],
            channel: Channel::Keys,
            config_home: home.clone(),
            managed_home: Some(home.clone()),
            ..Launch::default()
        };
        launch.env_set.insert(HOME_VARIABLE.to_owned(), text(&home)?.to_owned());
        let mut settings = if managed { Map::new() } else { persons(seat, &mut launch) };
        if managed {
            use_profile(seat, &mut settings, &mut launch)?;
        } else {
            launch.secret_env = seat.profile.clone();
            use_log_in(seat, &folder, &mut launch)?;
        }
        settings::ours(seat, &preamble, &mut settings)?;
        settings::tools(seat.tools, &mut settings, &mut launch);
        launch.files.push(file(folder.join("settings.json"), pretty(&Value::Object(settings))));
        launch.files.push(file(preamble, seat.preamble.to_owned()));
        if !seat.trust.is_trusted() {
            launch.notes.push(seat.untrusted(NAME));
        } else if !managed {
            if seat.trust == FolderTrust::Granted {
                launch.argv.push("--skip-trust".into());
            }
        } else {
            let trusted = json!({ text(seat.cwd)?: "TRUST_FOLDER" });
            launch.files.push(file(folder.join(TRUSTED), pretty(&trusted)));
        }
        Ok(launch)
    }

    fn starts_servers(&self) -> bool {
        true
    }

    fn records_home(&self, env: &BTreeMap<String, String>) -> Option<PathBuf> {
        let named = env.get(HOME_VARIABLE).or_else(|| env.get("HOME"));
        named.filter(|it| !it.is_empty()).map(PathBuf::from)
    }

    fn trust_file(&self, env: &BTreeMap<String, String>, home: &Path) -> Option<PathBuf> {
        let named = env.get(TRUSTED_VARIABLE).filter(|it| !it.is_empty()).map(PathBuf::from);
        Some(named.unwrap_or_else(|| own_folder(env, home).join(TRUSTED)))
    }

    fn trust_note(&self, home: &Path, cwd: &Path) -> Option<(PathBuf, String)> {
        let note = serde_json::json!({ cwd.to_str()?: "TRUST_FOLDER" });
        Some((own_folder(&BTreeMap::new(), home).join(TRUSTED), note.to_string()))
    }

    fn trusts(&self, trust_file: &str, cwd: &Path) -> bool {
        let Ok(Value::Object(rules)) = serde_json::from_str(&without_comments(trust_file)) else {
            return false;
        };
        let rule = |folder: &Path| folder.to_str().and_then(|it| rules.get(it)).and_then(Value::as_str);
        // A rule for a folder's parent speaks of all that lies in the parent.
        let trusted_by_child = |folder: &Path| {
            rules.iter().any(|(path, rule)| {
                rule.as_str() == Some("TRUST_PARENT") && Path::new(path).parent() == Some(folder)
            })
        };
        for folder in cwd.ancestors() {
            match rule(folder) {
                Some("DO_NOT_TRUST") => return false,
                Some("TRUST_FOLDER" | "TRUST_PARENT") => return true,
                _ if trusted_by_child(folder) => return true,
                _ => {}
            }
        }
        false
    }

    fn settings_files(&self, env: &BTreeMap<String, String>, home: &Path) -> Vec<PathBuf> {
        vec![own_folder(env, home).join("settings.json")]
    }

    fn hook_session(&self, stdin: &Value) -> Option<HookSession> {
        crate::claude_like::hooks::session(stdin)
    }

    fn read_hook(&self, event: &str, stdin: &Value) -> Vec<Fact> {
        records::hook(event, stdin)
    }

    fn hook_answer(&self, event: &str, context: &HookContext<'_>) -> Option<String> {
        // Added to the message it becomes a part of that; as an entry of its own it would not outlast the session.
        let text = context.add_context.filter(|_| event == "BeforeAgent")?;
        Some(
            json!({ "hookSpecificOutput": { "hookEventName": event, "additionalContext": text } })
                .to_string(),
        )
    }

    fn forgotten(&self) -> Option<fn(&str) -> Vec<String>> {
        Some(forgotten::texts)
    }

    fn files_to_watch(&self, places: &SeatPlaces<'_>) -> Vec<Watched> {
        // Its name holds the minute of the first start, so only the program can tell it.
        let path = places.transcript.map(Path::to_path_buf);
        path.map(|path| Watched { path, kind: RecordKind::Transcript }).into_iter().collect()
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

    fn dialogs(&self) -> &'static [DialogRule] {
        &RULES.dialogs
    }

    fn typing(&self) -> Typing {
        Typing {
            settle_ms: 500,
            look_after_ms: 2000,
            after_start_ms: 2500,
            max_bytes: 100_000,
            risky_first: &['/', '!', '#', '@', '?'],
            tabs_change: true,
            trims: true,
            drops: is_dropped,
            changes: names_a_file,
        }
    }

    fn frame(&self, text: &str) -> Framed {
        typing::frame(&self.typing(), text)
    }
}

/// Says whether the program takes a character out of what is pasted: marks of writing direction, and two without width.
fn is_dropped(c: char) -> bool {
    matches!(c, '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Says whether a text may name a file as `@path`, anywhere: where there is such a file, the program puts another spelling
/// of the name and the inside of the file into what the model gets.
fn names_a_file(text: &str) -> bool {
    let begins = |it: char| !it.is_whitespace() && !",;!?()[]{}".contains(it);
    text.match_indices('@').any(|(at, _)| text[at + 1..].starts_with(begins))
}

/// Returns a path as text, or says that the program cannot be given it.
fn text(path: &Path) -> Result<&str, Unsupported> {
    utf8(path).ok_or_else(|| Unsupported::Path { provider: NAME, path: path.display().to_string() })
}

/// Returns the folder of the person's own files.
fn own_folder(env: &BTreeMap<String, String>, home: &Path) -> PathBuf {
    env.get(HOME_VARIABLE).filter(|it| !it.is_empty()).map_or(home, Path::new).join(FOLDER)
}

/// Returns program and arguments.
fn arguments(seat: &SeatContext<'_>) -> Result<Vec<OsString>, Unsupported> {
    let mut argv: Vec<OsString> = vec![seat.program.into()];
    let id = seat.start.native_id();
    if !is_uuid(id) {
        return Err(Unsupported::SessionId { provider: NAME, id: id.to_owned() });
    }
    match seat.start {
        Start::Fresh { .. } => argv.extend(["--session-id".into(), id.into()]),
        Start::Resume { transcript: None, .. } => argv.extend(["--resume".into(), id.into()]),
        Start::Resume { .. } => {
            return Err(Unsupported::Elsewhere { provider: NAME, folder: seat.cwd.display().to_string() });
        }
        Start::Fork { .. } => return Err(Unsupported::Fork { provider: NAME }),
    }
    if let Some(model) = seat.model {
        if model.is_empty() || model.starts_with('-') || model.contains(char::is_control) {
            return Err(Unsupported::Value { provider: NAME, what: "model", value: model.to_owned() });
        }
        argv.extend(["--model".into(), model.into()]);
    }
    if let Some(effort) = seat.effort {
        return Err(Unsupported::Effort { provider: NAME, effort: effort.to_owned(), known: &[] });
    }
    if seat.skip_permissions {
        argv.extend(["--approval-mode".into(), "yolo".into()]);
    }
    Ok(argv)
}

/// Returns the person's own settings, as far as they can be read.
fn persons(seat: &SeatContext<'_>, launch: &mut Launch) -> Map<String, Value> {
    let Some(Some(written)) = seat.own_settings.first() else { return Map::new() };
    if let Ok(Value::Object(settings)) = serde_json::from_str(&without_comments(written)) {
        return settings;
    }
    launch
        .notes
        .push("your settings of `gemini` cannot be read as JSON: the seat starts without them".to_owned());
    Map::new()
}

/// Gives the seat the person's log-in and trust; what the person answers goes where it always goes.
fn use_log_in(seat: &SeatContext<'_>, folder: &Path, launch: &mut Launch) -> Result<(), Unsupported> {
    let own = own_folder(seat.env, seat.home);
    for name in LINKED {
        launch.links.push(FileLink { path: folder.join(name), target: own.join(name) });
    }
    let trusted = seat.env.get(TRUSTED_VARIABLE).filter(|it| !it.is_empty());
    let trusted = trusted.map_or_else(|| own.join(TRUSTED), PathBuf::from);
    launch.env_set.insert(TRUSTED_VARIABLE.to_owned(), text(&trusted)?.to_owned());
    Ok(())
}

/// Gives the seat the account of a profile and nothing of the person's.
fn use_profile(
    seat: &SeatContext<'_>,
    settings: &mut Map<String, Value>,
    launch: &mut Launch,
) -> Result<(), Unsupported> {
    let mut env = seat.profile.clone();
    for (general, own) in PROFILE_NAMES {
        if let Some(value) = env.remove(*general) {
            env.insert((*own).to_owned(), value);
        }
    }
    let has = |name: &str| env.get(name).is_some_and(|value| !value.is_empty());
    let missing = |needs| Err(Unsupported::Profile { provider: NAME, auth: seat.auth.as_str(), needs });
    if seat.auth == Auth::CompatibleApi && !has(ADDRESS) {
        return missing("`BASE_URL`");
    }
    if seat.auth == Auth::OfficialApi && !has(KEY) {
        return missing("`API_KEY`");
    }
    if !has(KEY) {
        // A service on this machine may need none, but the program refuses to start without.
        launch.env_set.insert(KEY.to_owned(), "none".to_owned());
    }
    env.remove(HOME_VARIABLE);
    launch.secret_env = env;
    launch.env_remove.extend(ACCOUNT.iter().map(|name| (*name).to_owned()));
    launch.env_remove.push(TRUSTED_VARIABLE.to_owned());
    set(settings, &["security", "auth", "selectedType"], json!("gemini-api-key"));
    if seat.auth == Auth::CompatibleApi {
        set(settings, &["privacy", "usageStatisticsEnabled"], json!(false));
        set(settings, &["telemetry", "enabled"], json!(false));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rule_says_whether_a_folder_is_trusted() {
        let file = r#"{ // mine
            "/home/me": "TRUST_FOLDER", "/home/me/bad": "DO_NOT_TRUST", /* its siblings too */
            "/srv/a/b": "TRUST_PARENT", "/x": "no such rule" }"#;
        let trusts = |cwd: &str| Gemini.trusts(file, Path::new(cwd));
        assert!(trusts("/home/me") && trusts("/home/me/app/deep"));
        assert!(!trusts("/home/me/bad") && !trusts("/home/me/bad/deep"));
        assert!(trusts("/srv/a/b") && trusts("/srv/a/c") && !trusts("/srv"));
        assert!(!trusts("/x") && !trusts("/home/meadow") && !Gemini.trusts("{", Path::new("/home/me")));
    }
}
