//! What a start of the program is given: arguments, its home, a plugin's files, trust.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::args::{Args, ArgsError};
use crate::dialog::Kind;
use crate::logs::replace;
use crate::mcp;
use crate::settings::Settings;
use crate::setup::{Given, StartError};

/// What the arguments say beside what every agent is given.
#[derive(Debug, Default)]
pub(super) struct Flags {
    plugins: Vec<PathBuf>,
    experimental: bool,
    /// Tools and servers that nobody is asked about.
    allowed: Vec<String>,
    allows_all: bool,
}

impl Flags {
    /// Whether a tool, or a whole server, is allowed.
    pub(super) fn allow(&self, name: &str) -> bool {
        self.allows_all || allowed_by_env() || self.allowed.iter().any(|it| it == name)
    }
}

/// What was found in the home and the plugins.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The names of events that have hooks, once for each hook.
    pub(super) hooked: Vec<String>,
    /// Folders of extensions; none if these are switched off.
    pub(super) extensions: Vec<PathBuf>,
}

pub(super) fn args(words: Vec<String>) -> Result<(Args, Flags), ArgsError> {
    let (mut args, mut flags) = (Args::default(), Flags::default());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let (flag, glued) = match word.split_once('=') {
            Some((flag, value)) if word.starts_with("--") => (flag.to_owned(), Some(value.to_owned())),
            _ => (word.clone(), None),
        };
        let mut value =
            || glued.clone().or_else(|| words.next()).ok_or_else(|| ArgsError::NoValue(flag.clone()));
        match flag.as_str() {
            "--session-id" => args.session_id = Some(value()?),
            "--resume" => args.resume = Some(value()?),
            "--plugin-dir" => flags.plugins.push(value()?.into()),
            "--additional-mcp-config" => {
                let given = value()?;
                args.mcp_config = Some(given.strip_prefix('@').unwrap_or(&given).to_owned());
            }
            "--allow-tool" => flags.allowed.push(value()?),
            "--allow-all-tools" | "--allow-all" | "--yolo" => flags.allows_all = true,
            "--model" => args.model = Some(value()?),
            "--reasoning-effort" | "--available-tools" | "--excluded-tools" => drop(value()?),
            "-i" | "--interactive" => args.prompt = Some(value()?),
            "--experimental" => flags.experimental = true,
            "--disable-builtin-mcps" => {}
            "--nested-session-start" => args.nested = Some(value()?),
            "--version" | "-v" => args.version = true,
            _ => return Err(ArgsError::Unknown(word)),
        }
    }
    // The same flag begins a conversation and goes on with it.
    if let Some(id) = args.session_id.take_if(|it| transcript(&home(), it).exists()) {
        args.resume = Some(id);
    }
    match &args.session_id {
        Some(id) if uuid::Uuid::parse_str(id).is_err() => Err(ArgsError::NotUuid(id.clone())),
        _ => Ok((args, flags)),
    }
}

pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|it| !it.is_empty())
}

/// The home of the program's files.
pub(super) fn home() -> PathBuf {
    variable("COPILOT_HOME")
        .map_or_else(|| Path::new(&variable("HOME").unwrap_or_default()).join(".copilot"), PathBuf::from)
}

/// The folder of a session.
pub(super) fn folder(home: &Path, session: &str) -> PathBuf {
    home.join("session-state").join(session)
}

/// The record of a session's events.
pub(super) fn transcript(home: &Path, session: &str) -> PathBuf {
    folder(home, session).join("events.jsonl")
}

/// Reads a JSON file, without the comments that the program writes at its top.
fn json_of(file: &Path) -> Value {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|it| !it.trim_start().starts_with("//")).collect();
    serde_json::from_str(&lines.join("\n")).ok().filter(Value::is_object).unwrap_or_else(|| json!({}))
}

/// Reads the home's settings and the plugins: hooks, servers, extensions, and whether to ask for trust.
pub(super) fn given(
    args: &Args,
    flags: &Flags,
    home: &Path,
    cwd: &str,
) -> Result<(Given, Found), StartError> {
    let settings = json_of(&home.join("settings.json"));
    let mut hooks = json!({});
    let mut found = Found::default();
    let mut folders = vec![home.join("extensions")];
    add_hooks(&settings["hooks"], &mut hooks, &mut found.hooked);
    let mut given = Given::default();
    for plugin in &flags.plugins {
        let manifest = json_of(&plugin.join("plugin.json"));
        let named = |name: &str| manifest[name].as_str().map(|it| plugin.join(it));
        if let Some(file) = named("hooks") {
            add_hooks(&json_of(&file)["hooks"], &mut hooks, &mut found.hooked);
        }
        if let Some(file) = named("mcpServers") {
            given.servers.extend(mcp::load(&file.to_string_lossy())?);
        }
        folders.extend(named("extensions"));
    }
    given.settings = Settings::load(&json!({ "hooks": hooks }).to_string())?;
    if let Some(config) = &args.mcp_config {
        given.servers.extend(mcp::load(config)?);
    }
    let features = variable("COPILOT_CLI_ENABLED_FEATURE_FLAGS").unwrap_or_default();
    let on = flags.experimental
        || settings["experimental"] == true
        || settings["enabledFeatureFlags"]["EXTENSIONS"] == true
        || features.split(',').any(|it| it.trim() == "EXTENSIONS");
    found.extensions = if on { folders } else { Vec::new() };
    if !allowed_by_env() && !trusts(&json_of(&home.join("config.json")), Path::new(cwd)) {
        given.questions.push((Kind::Trust, cwd.to_owned()));
    }
    Ok((given, found))
}

/// Turns hooks into the form of the core.
fn add_hooks(from: &Value, to: &mut Value, hooked: &mut Vec<String>) {
    for (event, entries) in from.as_object().into_iter().flatten() {
        for entry in entries.as_array().into_iter().flatten() {
            let hook = json!({"command": entry["bash"].as_str().unwrap_or_default(), "timeout": entry["timeoutSec"]});
            let group = json!({ "hooks": [hook] });
            match to[event].as_array_mut() {
                Some(groups) => groups.push(group),
                None => to[event] = json!([group]),
            }
            hooked.push(event.clone());
        }
    }
}

fn allowed_by_env() -> bool {
    variable("COPILOT_ALLOW_ALL").is_some_and(|it| it == "true")
}

/// Whether the folder or one above it is listed.
fn trusts(config: &Value, cwd: &Path) -> bool {
    let folders = config["trustedFolders"].as_array().into_iter().flatten();
    folders.filter_map(Value::as_str).any(|it| Path::new(it).is_absolute() && cwd.starts_with(it))
}

/// Lists a folder as trusted, for good.
pub(super) fn trust(home: &Path, cwd: &str) {
    let file = home.join("config.json");
    let mut config = json_of(&file);
    match config["trustedFolders"].as_array_mut() {
        Some(folders) => folders.push(cwd.into()),
        None => config["trustedFolders"] = json!([cwd]),
    }
    let comment = "// User settings belong in settings.json.\n// This file is managed automatically.\n";
    let _ = fs::create_dir_all(home);
    let _ = replace(&file, &format!("{comment}{config:#}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "11111111-1111-4111-8111-111111111111";

    fn read(words: &[&str]) -> Result<(Args, Flags), ArgsError> {
        args(words.iter().map(|it| (*it).to_owned()).collect())
    }

    #[test]
    fn the_flags_of_a_start_are_read() {
        let session = format!("--session-id={ID}");
        let words = [
            &session,
            "--plugin-dir",
            "/p",
            "--additional-mcp-config",
            "@/m",
            "--allow-tool",
            "t",
            "--model",
            "m",
        ];
        let (args, flags) = read(&words).unwrap();
        assert_eq!(
            (args.session_id.as_deref(), args.mcp_config.as_deref(), args.model.as_deref()),
            (Some(ID), Some("/m"), Some("m"))
        );
        assert!(flags.allow("t") && !flags.allow("bash"));
        assert_eq!(read(&["--session-id=7"]).unwrap_err(), ArgsError::NotUuid("7".to_owned()));
        assert_eq!(read(&["--settings"]).unwrap_err(), ArgsError::Unknown("--settings".to_owned()));
    }

    #[test]
    fn hooks_of_the_home_and_of_a_plugin_are_called_and_extensions_need_the_feature() {
        let dir = tempfile::tempdir().unwrap();
        let (home, plugin) = (dir.path().join("home"), dir.path().join("plugin"));
        let write = |path: PathBuf, value: Value| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, value.to_string()).unwrap();
        };
        let hook = |line: &str| json!({"notification": [{"type": "command", "bash": line, "timeoutSec": 3}]});
        write(home.join("settings.json"), json!({ "hooks": hook("one") }));
        write(plugin.join("plugin.json"), json!({"hooks": "h.json", "extensions": "e"}));
        write(plugin.join("h.json"), json!({"version": 1, "hooks": hook("two")}));
        let flags = Flags { plugins: vec![plugin.clone()], ..Flags::default() };
        let (read, found) = given(&Args::default(), &flags, &home, "/w").unwrap();
        let hooks = read.settings.hooks("notification");
        assert_eq!(hooks[1].argv(), ["/bin/sh", "-c", "two"]);
        assert_eq!((hooks.len(), hooks[0].timeout().as_secs(), found.hooked.len()), (2, 3, 2));
        assert!(found.extensions.is_empty());
        let flags = Flags { experimental: true, ..flags };
        let (_, found) = given(&Args::default(), &flags, &home, "/w").unwrap();
        assert_eq!(found.extensions, [home.join("extensions"), plugin.join("e")]);
    }

    #[test]
    fn a_folder_that_is_remembered_is_trusted_with_what_lies_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let config = || json_of(&dir.path().join("config.json"));
        assert!(!trusts(&config(), Path::new("/a/b")));
        trust(dir.path(), "/a");
        trust(dir.path(), "/c");
        assert!(trusts(&config(), Path::new("/a/b")) && trusts(&config(), Path::new("/c")));
        assert!(!trusts(&config(), Path::new("/ab")));
    }
}
