//! The settings that a seat's own home holds.
//!
//! Knows the program's keys. Must not know whose log-in is used.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::text;
use crate::claude_like::SERVER;
use crate::claude_like::hooks::quote;
use crate::launch::{Launch, Unsupported};
use crate::seat::SeatContext;

/// Tool words of role files, and the built-in tools that each stands for.
const TOOL_WORDS: &[(&str, &[&str])] = &[
    ("fs_read", &["read_file", "read_many_files"]),
    ("fs_list", &["list_directory", "glob", "grep_search"]),
    ("fs_write", &["replace", "write_file"]),
    ("execute_bash", &["run_shell_command", "list_background_processes", "read_background_output"]),
    ("network", &["web_fetch", "google_web_search"]),
];

/// Word for the tools that read the network; they are part of everything else, too.
const NETWORK: &str = "network";
/// Word that leaves everything else of the program available.
const BUILT_IN: &str = "provider_builtin";
/// Words that change nothing here: our own tools are always available, differences are seen by the shell.
const NEUTRAL: &[&str] = &["mcp_team", "git_diff"];

/// Events of which we are told. None of them fires for each tool.
const TOLD: &[&str] = &["SessionStart", "BeforeAgent", "AfterAgent", "Notification"];

/// Milliseconds that one of our commands may take.
const TIMEOUT_MS: u32 = 30_000;

/// Adds our hooks, our server and what we need to read the screen.
pub(super) fn ours(
    seat: &SeatContext<'_>,
    preamble: &Path,
    settings: &mut Map<String, Value>,
) -> Result<(), Unsupported> {
    let (self_exe, seat_file, preamble) = (text(seat.self_exe)?, text(seat.seat_file)?, text(preamble)?);
    let server = json!({
        "command": self_exe,
        "args": ["mcp", "--seat-file", seat_file, "--instructions", preamble],
        "trust": true,
    });
    set(settings, &["mcpServers", SERVER], server);
    for event in TOLD {
        let line = format!("exec {} hook --seat-file {} {event}", quote(self_exe), quote(seat_file));
        let hook = json!({ "type": "command", "command": line, "name": "team-agent", "timeout": TIMEOUT_MS });
        let hooks = at(settings, &["hooks", event]);
        if !hooks.is_array() {
            *hooks = json!([]);
        }
        if let Some(list) = hooks.as_array_mut() {
            list.push(json!({ "hooks": [hook] }));
        }
    }
    for (path, value) in [
        (["hooksConfig", "enabled"].as_slice(), json!(true)),
        (&["hooksConfig", "notifications"], json!(false)),
        // What we know is known of a version.
        (&["general", "enableAutoUpdate"], json!(false)),
        (&["general", "enableAutoUpdateNotification"], json!(false)),
        // The program's tidying can take a whole conversation with it.
        (&["general", "sessionRetention", "enabled"], json!(false)),
        // What is pasted is text in one mode only.
        (&["general", "vimMode"], json!(false)),
        (&["ui", "useBackgroundColor"], json!(false)),
        (&["ui", "accessibility", "screenReader"], json!(false)),
    ] {
        set(settings, path, value);
    }
    Ok(())
}

/// Turns tool words into settings: what no word names is taken away, and nothing is allowed unasked.
pub(super) fn tools(words: &[String], settings: &mut Map<String, Value>, launch: &mut Launch) {
    if words.is_empty() || words.iter().any(|word| word == "*") {
        return;
    }
    let has = |name: &str| words.iter().any(|word| word == name);
    for word in words {
        let known = word == BUILT_IN
            || NEUTRAL.contains(&word.as_str())
            || TOOL_WORDS.iter().any(|(name, _)| name == word);
        if !known {
            launch.notes.push(format!("tool `{word}` is not known to provider `gemini`: it gives nothing"));
        }
    }
    let pick = |wanted: &dyn Fn(&str) -> bool| -> Vec<&str> {
        TOOL_WORDS.iter().filter(|(name, _)| wanted(name)).flat_map(|(_, tools)| *tools).copied().collect()
    };
    if has(BUILT_IN) {
        let taken = pick(&|name| name != NETWORK && !has(name));
        set(settings, &["tools", "exclude"], json!(taken));
    } else {
        let given = pick(&has);
        let taken: Vec<&str> = pick(&|_| true).into_iter().filter(|it| !given.contains(it)).collect();
        set(settings, &["tools", "core"], json!(given));
        set(settings, &["tools", "exclude"], json!(taken));
    }
}

/// Returns the value at a path, with objects made on the way to it.
fn at<'a>(settings: &'a mut Map<String, Value>, path: &[&str]) -> &'a mut Value {
    let (first, rest) = path.split_first().expect("a path has a name");
    let value = settings.entry(*first).or_insert(Value::Null);
    if rest.is_empty() {
        return value;
    }
    if !value.is_object() {
        *value = json!({});
    }
    at(value.as_object_mut().expect("it was made one"), rest)
}

/// Puts a value at a path.
pub(super) fn set(settings: &mut Map<String, Value>, path: &[&str], value: Value) {
    *at(settings, path) = value;
}

/// Returns JSON without the comments that the program allows in its files.
pub(super) fn without_comments(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut chars = json.chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        match (quoted, c, chars.peek()) {
            (true, '\\', _) => {
                out.push(c);
                out.extend(chars.next());
            }
            (_, '"', _) => {
                quoted = !quoted;
                out.push(c);
            }
            (false, '/', Some('/')) => while chars.next_if(|it| *it != '\n').is_some() {},
            (false, '/', Some('*')) => {
                let mut last = ' ';
                chars.next();
                for it in chars.by_ref() {
                    if last == '*' && it == '/' {
                        break;
                    }
                    last = it;
                }
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_texts_stay() {
        let json = without_comments("{\"a\": \"// \\\" /* x\", // y\n \"b\": /* z **/ 1}");
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), json!({ "a": "// \" /* x", "b": 1 }));
    }
}
