//! A nested program: fires the SessionStart hooks of the same settings under another session id.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::args::Args;
use crate::settings::{Settings, SettingsError};

/// Why a nested start failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NestedError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("a hook of the nested session cannot be run")]
    Hook(#[from] std::io::Error),
}

/// Runs each SessionStart hook once and waits for it.
pub(crate) fn run(args: &Args, session: &str) -> Result<(), NestedError> {
    let settings = args.settings.as_deref().map(Settings::load).transpose()?.unwrap_or_default();
    let cwd = std::env::current_dir()?.to_string_lossy().into_owned();
    let input = json!({
        "session_id": session, "transcript_path": "", "cwd": cwd, "permission_mode": "default",
        "hook_event_name": "SessionStart", "source": "startup",
    })
    .to_string();
    for hook in settings.hooks("SessionStart") {
        let argv = hook.argv();
        let mut child = Command::new(&argv[0])
            .args(&argv[1..])
            .env("CLAUDE_CODE_SESSION_ID", session)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            let _ = stdin.write_all(input.as_bytes());
        }
        child.wait()?;
    }
    Ok(())
}
