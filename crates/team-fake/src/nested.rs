//! A nested program: fires the SessionStart hooks of the same settings under another session id.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::args::Args;
use crate::clothes::{Moment, Scene, Worn};
use crate::place::Home;
use crate::setup::StartError;

/// Why a nested start failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NestedError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("a hook of the nested session cannot be run")]
    Hook(#[from] std::io::Error),
}

/// Runs each SessionStart hook once and waits for it.
pub(crate) fn run(clothes: &Worn, args: &Args, session: &str) -> Result<(), NestedError> {
    let cwd = std::env::current_dir()?.to_string_lossy().into_owned();
    let home = Home::from_env(&**clothes, Path::new(&cwd));
    let settings = clothes.given(args, home.records(), &cwd)?.settings;
    let scene = Scene {
        session,
        transcript: Path::new(""),
        cwd: &cwd,
        permission_mode: "default",
        prompt_id: None,
        prompt: None,
        said: None,
    };
    for call in clothes.calls(Moment::SessionStart, json!({"source": "startup"}), &scene) {
        for hook in settings.hooks(call.event) {
            let argv = hook.argv();
            let mut child = Command::new(&argv[0])
                .args(&argv[1..])
                .envs(clothes.child_env(&scene, false))
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                let _ = stdin.write_all(call.input.to_string().as_bytes());
            }
            child.wait()?;
        }
    }
    Ok(())
}
