//! Builds the start: a server with our settings, and the screen that is attached to it.
//!
//! Knows flags and settings. Must not write files.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{EFFORTS, NAME};
use crate::bridge::Link;
use crate::claude_like::SERVER;
use crate::claude_like::places::{bell, inbox};
use crate::claude_like::start::{PRIVATE, is_uuid};
use crate::launch::{Channel, GeneratedFile, Launch, ReadyFact, Unsupported};
use crate::seat::{Auth, FolderTrust, SeatContext, Start};

/// Variable under which a profile's key reaches the server.
const KEY_VARIABLE: &str = "TEAM_SEAT_API_KEY";
/// Models in whose place the program offers another one at its start, with that one (0.171.0, `codex debug models`).
const OFFERS: &[(&str, &str)] = &[
    ("gpt-5.5", "gpt-6-sol"),
    ("gpt-5.6-sol", "gpt-6-sol"),
    ("gpt-5.6-terra", "gpt-6-sol"),
    ("gpt-5.6-luna", "gpt-6-luna"),
];

/// Name of the service of a profile in the settings.
const SERVICE: &str = "team";
/// Address of the maker's own service.
const OFFICIAL: &str = "https://api.openai.com/v1";
/// The mark by which everything in a seat is known; the tool server is started with an empty environment.
const SEAT_VARIABLE: &str = "TEAM_AGENT_SEAT";
/// What our tool server needs of the person's environment.
const FOR_TOOLS: &[&str] = &["HOME", "XDG_STATE_HOME"];
/// The longest text that one argument should carry.
const LONGEST: usize = 100_000;
/// Variables that decide whose account pays; a profile takes them all away first.
const ACCOUNT: &[&str] =
    &["OPENAI_API_KEY", "OPENAI_BASE_URL", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "OPENAI_ORGANIZATION"];

/// Tool words that need a writable workspace.
const WRITES: &[&str] = &["fs_write", "execute_bash", "provider_builtin", "*"];
/// Tool words there are.
const WORDS: &[&str] = &[
    "fs_read",
    "fs_list",
    "fs_write",
    "execute_bash",
    "git_diff",
    "network",
    "mcp_team",
    "provider_builtin",
    "*",
];

/// The layer of the person's settings that is meant for workers of teams.
const LAYER: &str = "team-agent";

/// Returns the person's settings files that decide whether there is a layer for workers.
pub(super) fn settings_files(settings: &Path) -> Vec<PathBuf> {
    vec![settings.to_owned(), settings.with_file_name(format!("{LAYER}.config.toml"))]
}

/// Describes the start of a seat.
pub(super) fn launch(seat: &SeatContext<'_>) -> Result<Launch, Unsupported> {
    let (program, socket, cwd) = (text(seat.program)?, text(seat.socket)?, text(seat.cwd)?);
    let listen = format!("unix://{socket}");
    let mut launch = Launch {
        channel: Channel::Bell { bell: bell(seat.seat_dir), inbox: inbox(seat.seat_dir) },
        ready: vec![ReadyFact::ToolsListed, ReadyFact::SessionStarted, ReadyFact::StatusIdle],
        link: Some(Link::WebSocket { socket: seat.socket.to_owned() }),
        ..Launch::default()
    };
    let mut settings = Settings::default();
    settings.set("check_for_update_on_startup", &json!(false));
    settings.set("analytics.enabled", &json!(false));
    // Over the input box, where Enter would change the model.
    settings.set("notice.hide_rate_limit_model_nudge", &json!(true));
    if let Some(model) = seat.model {
        settings.set("model", &json!(word("model", model)?));
        // Asked once for each, before the input box is there: whether a newer one is wanted instead.
        if let Some((_, newer)) = OFFERS.iter().find(|(it, _)| *it == model) {
            settings.set("notice.model_migrations", &json!({ model: newer }));
        }
    }
    if let Some(effort) = seat.effort {
        if !EFFORTS.contains(&effort) {
            let (provider, known) = (NAME, EFFORTS);
            return Err(Unsupported::Effort { provider, effort: effort.to_owned(), known });
        }
        settings.set("model_reasoning_effort", &json!(effort));
    }
    rights(seat, &mut settings, &mut launch.notes);
    home(seat, &mut settings, &mut launch)?;

    let mut shared = settings.flags();
    let mut screen: Vec<OsString> = vec![program.clone().into()];
    if let Start::Resume { native_id, .. } = seat.start {
        screen.extend(["resume".into(), session(native_id)?.into()]);
        launch.native_id = Some(native_id.to_owned());
        launch.start_ids = vec![native_id.to_owned()];
    } else if let Start::Fork { .. } = seat.start {
        return Err(Unsupported::Value { provider: NAME, what: "start", value: "fork".to_owned() });
    }
    screen.extend(["--remote".into(), listen.clone().into(), "-C".into(), cwd.into()]);
    if has_layer(seat, &mut launch.notes) {
        // The server knows no such flag; what the screen is told holds for the conversation that it begins.
        screen.extend(["--profile".into(), LAYER.into()]);
    }
    screen.extend(shared.iter().cloned());
    screen.extend(["-c".into(), "tui.animations=false".into()]);
    launch.argv = screen;

    let mut server: Vec<OsString> =
        vec![program.into(), "app-server".into(), "--listen".into(), listen.into()];
    server.append(&mut shared);
    server.extend(server_settings(seat, &mut launch)?.flags());
    launch.server = Some(server);
    Ok(launch)
}

/// What belongs to the server alone: given to the screen it would not be heard.
fn server_settings(seat: &SeatContext<'_>, launch: &mut Launch) -> Result<Settings, Unsupported> {
    let (exe, file) = (text(seat.self_exe)?, text(seat.seat_file)?);
    let mut settings = Settings::default();
    let mut env = BTreeMap::from([(SEAT_VARIABLE, file.clone()), ("TEAM_AGENT_EXE", exe.clone())]);
    for name in FOR_TOOLS {
        if let Some(value) = seat.env.get(*name) {
            env.insert(name, value.clone());
        }
    }
    let of_server = |key: &str| format!("mcp_servers.{SERVER}.{key}");
    settings.set(&of_server("command"), &json!(exe));
    settings.set(&of_server("args"), &json!(["mcp", "--seat-file", file]));
    settings.set(&of_server("env"), &json!(env));
    settings.set(&of_server("default_tools_approval_mode"), &json!("approve"));
    // The program's own messages to agents of its own would be mistaken for ours.
    settings.set("features.multi_agent_v2", &json!({ "enabled": true, "disable_native_tools": true }));
    let mut preamble = seat.preamble.to_owned();
    if preamble.len() > LONGEST {
        let path = seat.seat_dir.join("preamble.md");
        preamble = format!(
            "Your role and rules are in the file {}: read all of it before anything else.",
            text(&path)?
        );
        launch.files.push(GeneratedFile {
            path,
            contents: seat.preamble.to_owned(),
            mode: PRIVATE,
            keep_existing: false,
        });
    }
    settings.set("developer_instructions", &json!(preamble));
    Ok(settings)
}

/// Turns tool words into what the sandbox allows; without any the program's own settings count.
fn rights(seat: &SeatContext<'_>, settings: &mut Settings, notes: &mut Vec<String>) {
    if seat.skip_permissions {
        settings.set("sandbox_mode", &json!("danger-full-access"));
        settings.set("approval_policy", &json!("never"));
        return;
    }
    let has = |words: &[&str]| seat.tools.iter().any(|it| words.contains(&it.as_str()));
    for word in seat.tools.iter().filter(|it| !WORDS.contains(&it.as_str())) {
        notes.push(format!("tool `{word}` is not known to provider `{NAME}`: it gives nothing"));
    }
    if seat.tools.is_empty() || has(&["*"]) {
        return;
    }
    settings.set("approval_policy", &json!("on-request"));
    settings.set("sandbox_mode", &json!(if has(WRITES) { "workspace-write" } else { "read-only" }));
    if has(WRITES) && has(&["network"]) {
        settings.set("sandbox_workspace_write.network_access", &json!(true));
    }
}

/// Says whether the person has a layer of settings for workers that this program reads.
fn has_layer(seat: &SeatContext<'_>, notes: &mut Vec<String>) -> bool {
    let [settings, Some(_)] = seat.own_settings else { return false };
    if seat.auth != Auth::Subscription || seat.profile.contains_key("CODEX_HOME") {
        return false;
    }
    let old = settings.as_deref().is_some_and(|it| it.lines().any(is_old_layer));
    if old {
        notes.push(format!(
            "`{LAYER}.config.toml` is not used: `{NAME}` does not take it beside `[profiles.{LAYER}]` in `config.toml`"
        ));
    }
    !old
}

/// Says whether a line of the settings begins or chooses a layer in the old way.
fn is_old_layer(line: &str) -> bool {
    let line: String = line.chars().filter(|it| !it.is_whitespace() && !matches!(it, '"' | '\'')).collect();
    let begins = line.trim_start_matches('[').strip_prefix("profiles.").and_then(|it| it.strip_prefix(LAYER));
    begins.is_some_and(|it| it.starts_with([']', '.', '='])) || line == format!("profile={LAYER}")
}

/// Chooses the home: the person's own, or with a profile's key one of the seat.
fn home(seat: &SeatContext<'_>, settings: &mut Settings, launch: &mut Launch) -> Result<(), Unsupported> {
    if !seat.trust.is_trusted() {
        launch.notes.push(seat.untrusted(NAME));
    }
    launch.secret_env = seat.profile.clone();
    let mut projects = serde_json::Map::new();
    for folder in std::iter::once(seat.cwd).chain(seat.git_root).filter(|_| seat.trust.is_trusted()) {
        projects.insert(text(folder)?, json!({ "trust_level": "trusted" }));
    }
    if seat.auth == Auth::Subscription {
        if seat.trust == FolderTrust::Granted {
            // For this process alone: nothing is written into the person's settings.
            settings.set("projects", &Value::Object(projects));
        }
        let named = |env: &BTreeMap<String, String>| {
            env.get("CODEX_HOME").filter(|it| !it.is_empty()).map(PathBuf::from)
        };
        launch.config_home =
            named(seat.profile).or_else(|| named(seat.env)).unwrap_or_else(|| seat.home.join(".codex"));
        return Ok(());
    }
    let mut take = |names: [&str; 2]| {
        names.iter().filter_map(|it| launch.secret_env.remove(*it)).find(|it| !it.is_empty())
    };
    let key = take(["OPENAI_API_KEY", "API_KEY"]);
    let url = take(["OPENAI_BASE_URL", "BASE_URL"]);
    let missing = |needs| Err(Unsupported::Profile { provider: NAME, auth: seat.auth.as_str(), needs });
    let url = match (seat.auth, url) {
        (Auth::CompatibleApi, None) => return missing("`BASE_URL`"),
        (_, Some(url)) => url,
        (_, None) => OFFICIAL.to_owned(),
    };
    if seat.auth == Auth::OfficialApi && key.is_none() {
        return missing("`API_KEY`");
    }
    let mut service = json!({ "name": SERVICE, "base_url": url, "wire_api": "responses" });
    if let Some(key) = key {
        launch.secret_env.insert(KEY_VARIABLE.to_owned(), key);
        service["env_key"] = json!(KEY_VARIABLE);
        // The model's own shell needs it for nothing.
        settings.set("shell_environment_policy.exclude", &json!([KEY_VARIABLE]));
    }
    let home = seat.seat_dir.join("codex-home");
    let mut own = Settings::default();
    own.set("model_provider", &json!(SERVICE));
    own.set(&format!("model_providers.{SERVICE}"), &service);
    own.set("projects", &Value::Object(projects));
    launch.files.push(GeneratedFile {
        path: home.join("config.toml"),
        contents: own.file(),
        mode: PRIVATE,
        keep_existing: false,
    });
    launch.env_set.insert("CODEX_HOME".to_owned(), text(&home)?);
    launch.secret_env.remove("CODEX_HOME");
    launch.env_remove.extend(ACCOUNT.iter().map(|it| (*it).to_owned()));
    launch.config_home.clone_from(&home);
    launch.managed_home = Some(home);
    Ok(())
}

/// Settings in the order in which they are given.
#[derive(Default)]
struct Settings(Vec<(String, String)>);

impl Settings {
    fn set(&mut self, key: &str, value: &Value) {
        self.0.push((key.to_owned(), toml(value)));
    }

    fn flags(&self) -> Vec<OsString> {
        self.0.iter().flat_map(|(key, value)| ["-c".into(), format!("{key}={value}").into()]).collect()
    }

    fn file(&self) -> String {
        let mut text = String::new();
        for (key, value) in &self.0 {
            let _ = writeln!(text, "{key} = {value}");
        }
        text
    }
}

/// Writes a value in the form of the program's settings.
fn toml(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(toml).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let pairs: Vec<String> =
                map.iter().map(|(key, value)| format!("{}={}", quoted(key), toml(value))).collect();
            format!("{{{}}}", pairs.join(","))
        }
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

/// Quotes a text; its strings are those of JSON but for one character.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    for c in json!(text).to_string().chars() {
        if c == '\u{7f}' {
            let _ = write!(out, "\\u007f");
        } else {
            out.push(c);
        }
    }
    out
}

fn text(path: &Path) -> Result<String, Unsupported> {
    path.to_str()
        .map(str::to_owned)
        .ok_or_else(|| Unsupported::Path { provider: NAME, path: path.display().to_string() })
}

fn word<'a>(what: &'static str, value: &'a str) -> Result<&'a str, Unsupported> {
    if value.is_empty() || value.starts_with('-') || value.contains(char::is_control) {
        return Err(Unsupported::Value { provider: NAME, what, value: value.to_owned() });
    }
    Ok(value)
}

fn session(id: &str) -> Result<&str, Unsupported> {
    if is_uuid(id) { Ok(id) } else { Err(Unsupported::SessionId { provider: NAME, id: id.to_owned() }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_layer_of_that_name_is_seen_however_it_is_written() {
        for line in [
            "[profiles.team-agent]",
            " [ profiles . \"team-agent\" ] # mine",
            "[profiles.team-agent.tui]",
            "profiles.team-agent.model = \"x\"",
            "profile = 'team-agent'",
        ] {
            assert!(is_old_layer(line), "{line}");
        }
        for line in ["[profiles.team-agent-2]", "# [profiles.team-agent]", "profile = \"mine\"", "[profiles]"]
        {
            assert!(!is_old_layer(line), "{line}");
        }
    }

    #[test]
    fn a_value_is_written_as_the_settings_want_it() {
        let value = json!({ "a b": ["x\n\"y\"", true], "c": 1 });
        assert_eq!(toml(&value), r#"{"a b"=["x\n\"y\"",true],"c"=1}"#);
        assert_eq!(toml(&json!("\u{7f}é")), "\"\\u007fé\"");
    }
}
