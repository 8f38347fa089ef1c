//! The agent's own clothes: what it is when it plays nobody.

use serde_json::{Value, json};

use super::{Call, Clothes, Look, Moment, Scene};

/// The agent as itself.
#[derive(Debug)]
pub(crate) struct Own;

impl Clothes for Own {
    fn name(&self) -> &'static str {
        "fake-agent"
    }

    fn version(&self) -> &'static str {
        env!("CARGO_PKG_VERSION")
    }

    fn version_line(&self, version: &str) -> String {
        format!("{version} (fake-agent)")
    }
}

/// Pastes longer than this are shown by a label.
const LABEL_CHARS: usize = 800;
/// Pastes with more lines than this are shown by a label.
const LABEL_LINES: usize = 10;

pub(super) fn label(text: &str, number: u32) -> Option<String> {
    if text.chars().count() <= LABEL_CHARS && text.lines().count() <= LABEL_LINES {
        return None;
    }
    Some(match text.matches('\n').count() {
        0 => format!("[Pasted text #{number}]"),
        more => format!("[Pasted text #{number} +{more} lines]"),
    })
}

pub(super) fn look() -> Look {
    Look {
        heading: "✻ Fake agent",
        glyph: "❯",
        placeholder: "Try \"fake: say hello\"",
        footer: "  ? for shortcuts",
        answer: "● ",
        work: "✻ Working… (esc to interrupt)",
        queued: "  queued: ",
    }
}

pub(super) fn calls(moment: Moment, fields: Value, scene: &Scene<'_>) -> Vec<Call> {
    let event = match moment {
        Moment::SessionStart => "SessionStart",
        Moment::PromptTaken => "UserPromptSubmit",
        Moment::PermissionAsked => "PermissionRequest",
        Moment::Answered => "Stop",
        Moment::Failed => "StopFailure",
        Moment::FileChanged => "FileChanged",
        Moment::CompactBegun => "PreCompact",
        Moment::CompactEnded => "PostCompact",
        Moment::SessionEnd => "SessionEnd",
        Moment::ToolBegun
        | Moment::ToolEnded
        | Moment::PermissionShown
        | Moment::PermissionSettled
        | Moment::Limited
        | Moment::LimitOver
        | Moment::Interrupted
        | Moment::TurnOver => return Vec::new(),
    };
    let mut input = json!({
        "session_id": scene.session, "transcript_path": scene.transcript, "cwd": scene.cwd,
        "permission_mode": scene.permission_mode, "hook_event_name": event,
    });
    if let Some(id) = scene.prompt_id {
        input["prompt_id"] = id.into();
    }
    if let (Some(input), Value::Object(fields)) = (input.as_object_mut(), fields) {
        input.extend(fields);
    }
    vec![Call { event, input, waits: true }]
}

pub(super) fn child_env(scene: &Scene<'_>, nested: bool) -> Vec<(&'static str, String)> {
    let mut env = vec![
        ("CLAUDECODE", "1".to_owned()),
        ("CLAUDE_CODE_SESSION_ID", scene.session.to_owned()),
        ("CLAUDE_PROJECT_DIR", scene.cwd.to_owned()),
    ];
    if nested {
        env.push(("CLAUDE_CODE_CHILD_SESSION", "1".to_owned()));
    }
    env
}
