//! Builds the start: one process that is screen and server, with our settings on top of the person's.
//!
//! Knows flags, variables and settings. Must not write files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::NAME;
use crate::bridge::Link;
use crate::claude_like::SERVER;
use crate::claude_like::places::{bell, inbox};
use crate::claude_like::start::PRIVATE;
use crate::launch::{Channel, GeneratedFile, Launch, ReadyFact, Unsupported};
use crate::seat::{Auth, SeatContext, Start};

/// Holds the program's settings; what stands in it is laid over the person's files.
const CONFIG: &str = "OPENCODE_CONFIG_CONTENT";
const PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";
const USERNAME: &str = "OPENCODE_SERVER_USERNAME";
const LOOPBACK: &str = "127.0.0.1";
/// The name that the server takes when it is told none.
const USER: &str = "opencode";
/// Variable under which a profile's key reaches the program.
const KEY_VARIABLE: &str = "TEAM_SEAT_API_KEY";
/// Variable under which a profile's address reaches it: one may hold a key, too.
const URL_VARIABLE: &str = "TEAM_SEAT_BASE_URL";
/// Name of a profile's service in the settings.
const SERVICE: &str = "team";
/// The mark by which everything in a seat is known.
const SEAT_VARIABLE: &str = "TEAM_AGENT_SEAT";
/// How long our tool server may take to answer, in milliseconds; many start at once on a busy machine.
const TOOLS_TIMEOUT: u64 = 60_000;
/// Shells that the program can be given by another path.
const SHELLS: &[&str] = &["bash", "zsh", "sh", "dash", "ksh"];

/// Tool words, and the permissions that are taken away without them.
const WORDS: &[(&str, &[&str])] = &[
    ("fs_read", &["read", "grep", "lsp"]),
    ("fs_list", &["glob", "list"]),
    ("fs_write", &["edit"]),
    ("execute_bash", &["bash"]),
    ("network", &["webfetch", "websearch", "codesearch"]),
];

/// Describes the start of a seat.
pub(super) fn launch(seat: &SeatContext<'_>) -> Result<Launch, Unsupported> {
    let password = seat.seat_dir.join("server-password");
    let preamble = seat.seat_dir.join("preamble.md");
    let mut launch = Launch {
        argv: vec![
            text(seat.program)?.into(),
            "--hostname".into(),
            LOOPBACK.into(),
            "--port".into(),
            seat.port.to_string().into(),
        ],
        link: Some(Link::Http {
            address: format!("{LOOPBACK}:{}", seat.port),
            events: "/event".to_owned(),
            user: USER.to_owned(),
            password: password.clone(),
        }),
        channel: Channel::Bell { bell: bell(seat.seat_dir), inbox: inbox(seat.seat_dir) },
        ready: vec![ReadyFact::ToolsListed, ReadyFact::SessionStarted, ReadyFact::StatusIdle],
        config_home: data_home(seat.env, seat.home),
        ..Launch::default()
    };
    match seat.start {
        Start::Fresh { .. } => {}
        Start::Resume { native_id, .. } => {
            launch.argv.extend(["--session".into(), session(native_id)?.into()]);
            launch.native_id = Some(native_id.to_owned());
            launch.start_ids = vec![native_id.to_owned()];
        }
        Start::Fork { .. } => {
            return Err(Unsupported::Value { provider: NAME, what: "start", value: "fork".to_owned() });
        }
    }
    if let Some(effort) = seat.effort {
        return Err(Unsupported::Effort { provider: NAME, effort: effort.to_owned(), known: &[] });
    }
    let file =
        |path: PathBuf, contents: String, mode| GeneratedFile { path, contents, mode, keep_existing: false };
    launch.files.push(file(preamble.clone(), seat.preamble.to_owned(), PRIVATE));
    launch.files.push(file(password, seat.secret.to_owned(), PRIVATE));

    let mut config = person_config(seat);
    config.insert("autoupdate".to_owned(), json!(false));
    append(&mut config, "instructions", json!(text(&preamble)?));
    insert(&mut config, "mcp", SERVER, tool_server(seat)?);
    rights(seat, &mut config, &mut launch.notes);
    service(seat, &mut config, &mut launch)?;
    launch.env_set.insert(CONFIG.to_owned(), Value::Object(config).to_string());
    launch.env_set.insert("OPENCODE_DISABLE_AUTOUPDATE".to_owned(), "1".to_owned());
    // It leaves libraries there, some megabytes with each start.
    launch.env_set.insert("TMPDIR".to_owned(), text(&seat.seat_dir.join("tmp"))?);
    launch.secret_env.insert(PASSWORD.to_owned(), seat.secret.to_owned());
    launch.env_remove.push(USERNAME.to_owned());

    let (name, script) = shell(seat);
    let path = seat.seat_dir.join("shell").join(name);
    launch.env_set.insert("SHELL".to_owned(), text(&path)?);
    launch.files.push(file(path, script, 0o700));
    Ok(launch)
}

/// Where the program keeps its conversations.
pub(super) fn data_home(env: &BTreeMap<String, String>, home: &Path) -> PathBuf {
    let named = env.get("XDG_DATA_HOME").filter(|it| !it.is_empty()).map(PathBuf::from);
    named.unwrap_or_else(|| home.join(".local/share")).join("opencode")
}

/// What the person gives in the variable that we need ourselves.
fn person_config(seat: &SeatContext<'_>) -> Map<String, Value> {
    let given = seat.profile.get(CONFIG).or_else(|| seat.env.get(CONFIG));
    given.and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default()
}

fn insert(config: &mut Map<String, Value>, part: &str, key: &str, value: Value) {
    let part = config.entry(part).or_insert_with(|| json!({}));
    if !part.is_object() {
        *part = json!({});
    }
    part[key] = value;
}

fn append(config: &mut Map<String, Value>, key: &str, value: Value) {
    let list = config.entry(key).or_insert_with(|| json!([]));
    match list.as_array_mut() {
        Some(list) => list.push(value),
        None => *list = json!([value]),
    }
}

fn tool_server(seat: &SeatContext<'_>) -> Result<Value, Unsupported> {
    let (exe, file) = (text(seat.self_exe)?, text(seat.seat_file)?);
    Ok(json!({
        "type": "local",
        "command": [exe, "mcp", "--seat-file", file],
        "environment": { SEAT_VARIABLE: file, "TEAM_AGENT_EXE": exe, PASSWORD: "", KEY_VARIABLE: "", URL_VARIABLE: "" },
        "enabled": true,
        "timeout": TOOLS_TIMEOUT,
    }))
}

/// Turns tool words into permissions: what a role does not name is taken away, nothing is given.
fn rights(seat: &SeatContext<'_>, config: &mut Map<String, Value>, notes: &mut Vec<String>) {
    insert(config, "permission", &format!("{SERVER}_*"), json!("allow"));
    let has = |word: &str| seat.tools.iter().any(|it| it == word);
    for word in seat.tools {
        let known = WORDS.iter().any(|(it, _)| it == word)
            || matches!(word.as_str(), "git_diff" | "mcp_team" | "provider_builtin" | "*");
        if !known {
            notes.push(format!("tool `{word}` is not known to provider `{NAME}`: it gives nothing"));
        }
    }
    if seat.skip_permissions {
        insert(config, "permission", "*", json!("allow"));
        return;
    }
    if seat.tools.is_empty() || has("*") || has("provider_builtin") {
        return;
    }
    for (word, keys) in WORDS {
        for key in *keys {
            if !has(word) {
                let git = *key == "bash" && has("git_diff");
                let denied = if git { json!({ "*": "deny", "git diff*": "ask" }) } else { json!("deny") };
                insert(config, "permission", key, denied);
            }
        }
    }
    // Agents of its own would have other rights.
    insert(config, "permission", "task", json!("deny"));
}

/// Chooses who answers: the person's own service, or that of a profile.
fn service(
    seat: &SeatContext<'_>,
    config: &mut Map<String, Value>,
    launch: &mut Launch,
) -> Result<(), Unsupported> {
    launch.secret_env = seat.profile.clone();
    for name in [CONFIG, "SHELL", "TMPDIR"] {
        launch.secret_env.remove(name);
    }
    let model = seat.model.map(|it| word("model", it)).transpose()?;
    if seat.auth == Auth::Subscription {
        if let Some(model) = model {
            config.insert("model".to_owned(), json!(model));
        }
        return Ok(());
    }
    let mut take = |name: &str| launch.secret_env.remove(name).filter(|it| !it.is_empty());
    let (key, url) = (take("API_KEY"), take("BASE_URL"));
    let missing = |needs| Unsupported::Profile { provider: NAME, auth: seat.auth.as_str(), needs };
    let model = model.ok_or(Unsupported::Value {
        provider: NAME,
        what: "model (with a profile it must be named)",
        value: String::new(),
    })?;
    let mut options = json!({});
    if let Some(key) = &key {
        launch.secret_env.insert(KEY_VARIABLE.to_owned(), key.clone());
        options["apiKey"] = json!(format!("{{env:{KEY_VARIABLE}}}"));
    }
    if let Some(url) = &url {
        launch.secret_env.insert(URL_VARIABLE.to_owned(), url.clone());
        options["baseURL"] = json!(format!("{{env:{URL_VARIABLE}}}"));
    }
    let (service, model) = if seat.auth == Auth::CompatibleApi {
        if url.is_none() {
            return Err(missing("`BASE_URL`"));
        }
        let model = model.strip_prefix("team/").unwrap_or(model);
        let entry = json!({
            "npm": "@ai-sdk/openai-compatible",
            "name": SERVICE,
            "options": options,
            "models": { model: { "name": model } },
        });
        insert(config, "provider", SERVICE, entry);
        // The list of the world's models is of no use then.
        launch.env_set.insert("OPENCODE_DISABLE_MODELS_FETCH".to_owned(), "1".to_owned());
        (SERVICE, format!("{SERVICE}/{model}"))
    } else {
        if key.is_none() {
            return Err(missing("`API_KEY`"));
        }
        let Some((service, _)) = model.split_once('/').filter(|(it, _)| !it.is_empty()) else {
            return Err(Unsupported::Value {
                provider: NAME,
                what: "model (wanted: SERVICE/MODEL)",
                value: model.to_owned(),
            });
        };
        insert(config, "provider", service, json!({ "options": options }));
        (service, model.to_owned())
    };
    // No other account of the person's pays.
    config.insert("enabled_providers".to_owned(), json!([service]));
    config.insert("small_model".to_owned(), json!(model));
    config.insert("model".to_owned(), json!(model));
    Ok(())
}

/// The shell that the model gets: the person's own, without what would let it answer for a person.
///
/// The program hands its whole environment to each command, and has no setting against it.
fn shell(seat: &SeatContext<'_>) -> (String, String) {
    let own = seat.env.get("SHELL").map_or("", String::as_str);
    let name = own.rsplit('/').next().unwrap_or_default();
    let (own, name) = if SHELLS.contains(&name) { (own, name) } else { ("/bin/sh", "sh") };
    let restored = |name: &str| match seat.env.get(name) {
        Some(value) => format!("{name}={}\nexport {name}\n", quoted(value)),
        None => format!("unset {name}\n"),
    };
    let script = format!(
        "#!/bin/sh\nunset {PASSWORD} {KEY_VARIABLE} {URL_VARIABLE}\n{}{}SHELL={own}\nexport SHELL\nexec {own} \"$@\"\n",
        restored(CONFIG),
        restored("TMPDIR"),
        own = quoted(own),
    );
    (name.to_owned(), script)
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
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

/// An id goes into the paths of requests, too.
fn session(id: &str) -> Result<&str, Unsupported> {
    let rest = id.strip_prefix("ses_").unwrap_or_default();
    if !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_alphanumeric()) {
        return Ok(id);
    }
    Err(Unsupported::SessionId { provider: NAME, id: id.to_owned() })
}
