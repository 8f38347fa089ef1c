//! Builds the start of a program of this family.
//!
//! Knows flags, settings and environment. Must not know which program it is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Family, SERVER, hooks, places};
use crate::launch::{Channel, GeneratedFile, Launch, ReadyFact, Unsupported};
use crate::seat::{SeatContext, Start};

/// Permission bits of generated files.
pub(crate) const PRIVATE: u32 = 0o600;

/// Settings that a program adds to the shared ones.
pub(crate) type Extra = Vec<(&'static str, Value)>;

/// Returns the start that all programs of the family share.
///
/// `bell` says whether messages are to be handed out by hooks.
pub(crate) fn launch(
    family: &Family,
    seat: &SeatContext<'_>,
    config_home: PathBuf,
    bell: bool,
    extra: Extra,
) -> Result<Launch, Unsupported> {
    let native_id = seat.start.native_id();
    let path = |path: &Path| {
        hooks::utf8(path)
            .map(str::to_owned)
            .ok_or_else(|| Unsupported::Path { provider: family.name, path: path.display().to_string() })
    };
    let (self_exe, seat_file, seat_dir) = (path(seat.self_exe)?, path(seat.seat_file)?, path(seat.seat_dir)?);

    let mut settings = json!({
        "hooks": hooks::registration(&self_exe, &seat_file, family.argv_hooks, bell),
        // Together with the strict flag: the project's own servers neither ask nor start.
        "enableAllProjectMcpServers": true,
    });
    for (key, value) in extra {
        settings[key] = value;
    }
    let server = json!({
        "mcpServers": { SERVER: {
            "type": "stdio", "command": self_exe, "args": ["mcp", "--seat-file", seat_file], "env": {},
        }},
    });
    let file = |name: &str, contents: String| GeneratedFile {
        path: PathBuf::from(&seat_dir).join(name),
        contents,
        mode: PRIVATE,
        keep_existing: false,
    };
    let mut files = vec![
        file("settings.json", pretty(&settings)),
        file("mcp.json", pretty(&server)),
        file("preamble.md", seat.preamble.to_owned()),
    ];
    if bell {
        let mut bell = file("bell", String::new());
        bell.keep_existing = true;
        files.push(bell);
    }

    let mut argv: Vec<OsString> = vec![seat.program.into()];
    argv.extend(family.first_args.iter().map(OsString::from));
    session_args(family, &seat.start, &mut argv)?;
    let mut flag = |name: &str, value: OsString| {
        argv.push(name.into());
        argv.push(value);
    };
    flag("--settings", files[0].path.clone().into());
    flag("--mcp-config", files[1].path.clone().into());
    flag("--append-system-prompt-file", files[2].path.clone().into());
    if let Some(model) = seat.model {
        flag("--model", word(family, "model", model)?.into());
    }
    if let Some(effort) = seat.effort {
        if !family.efforts.contains(&effort) {
            let (provider, known) = (family.name, family.efforts);
            return Err(Unsupported::Effort { provider, effort: effort.to_owned(), known });
        }
        if let Some(name) = family.effort_flag {
            flag(name, effort.into());
        }
    }
    flag("--allowedTools", format!("mcp__{SERVER}").into());
    argv.push("--strict-mcp-config".into());

    let start_ids = match seat.start {
        Start::Fork { from, native_id, .. } => vec![native_id.to_owned(), from.to_owned()],
        _ => vec![native_id.to_owned()],
    };
    let by_bell = Channel::Bell { bell: places::bell(seat.seat_dir), inbox: places::inbox(seat.seat_dir) };
    Ok(Launch {
        argv,
        files,
        native_id: Some(native_id.to_owned()),
        start_ids,
        ready: vec![ReadyFact::ToolsListed, ReadyFact::SessionStarted, ReadyFact::StatusIdle],
        channel: if bell { by_bell } else { Channel::Keys },
        fallback: bell.then_some(Channel::Keys),
        config_home,
        ..Launch::default()
    })
}

/// Adds the flags that choose the conversation.
fn session_args(family: &Family, start: &Start<'_>, argv: &mut Vec<OsString>) -> Result<(), Unsupported> {
    let id = |id: &str| {
        if is_uuid(id) {
            Ok(OsString::from(id))
        } else {
            Err(Unsupported::SessionId { provider: family.name, id: id.to_owned() })
        }
    };
    // A path is found from any folder, an id only from the one it was begun in.
    let earlier = |from: &str, transcript: Option<&Path>| {
        id(from).map(|from| transcript.map_or(from, |path| path.as_os_str().to_owned()))
    };
    match *start {
        Start::Fresh { native_id } => argv.extend(["--session-id".into(), id(native_id)?]),
        Start::Resume { native_id, transcript } => {
            argv.extend(["--resume".into(), earlier(native_id, transcript)?]);
        }
        Start::Fork { from, transcript, native_id } => {
            argv.extend(["--resume".into(), earlier(from, transcript)?]);
            argv.push("--fork-session".into());
            argv.extend(["--session-id".into(), id(native_id)?]);
        }
    }
    Ok(())
}

/// Returns a value that cannot be taken for a flag.
fn word<'a>(family: &Family, what: &'static str, value: &'a str) -> Result<&'a str, Unsupported> {
    if value.is_empty() || value.starts_with('-') || value.contains(char::is_control) {
        return Err(Unsupported::Value { provider: family.name, what, value: value.to_owned() });
    }
    Ok(value)
}

/// Says whether a text has the form of a UUID.
pub(crate) fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Writes JSON for a file that people may look at.
pub(crate) fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}
