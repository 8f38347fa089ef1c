//! What real agent programs were seen to say, kept as data.
//!
//! Knows the files under `data/`: one scene each, one thing seen a line. Must not know what it means.

use serde_json::Value;

/// Where a thing was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// What a hook got on its standard input.
    Hook,
    /// The program's session file; null when it was removed.
    Session,
    /// A line of the conversation's record.
    Transcript,
    /// A request as the model stub saw it.
    Request,
    /// What was done to the program from outside.
    Driver,
}

/// One thing seen.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Milliseconds since the program was started. For people; the order of lines is the order of events.
    pub at_ms: u64,
    /// Where it was seen.
    pub source: Source,
    /// The thing itself.
    pub value: Value,
}

/// The recorded scenes of claude 2.1.197, by name.
pub const CLAUDE: &[(&str, &str)] = &[
    ("api-error-limit", include_str!("../data/claude/api-error-limit.jsonl")),
    ("api-error-overloaded", include_str!("../data/claude/api-error-overloaded.jsonl")),
    ("api-error-retried", include_str!("../data/claude/api-error-retried.jsonl")),
    ("api-error-server", include_str!("../data/claude/api-error-server.jsonl")),
    ("compaction", include_str!("../data/claude/compaction.jsonl")),
    ("first-message-at-start", include_str!("../data/claude/first-message-at-start.jsonl")),
    ("interrupt-before-output", include_str!("../data/claude/interrupt-before-output.jsonl")),
    ("interrupt-in-text", include_str!("../data/claude/interrupt-in-text.jsonl")),
    ("interrupt-in-tool", include_str!("../data/claude/interrupt-in-tool.jsonl")),
    ("message-when-a-tool-runs", include_str!("../data/claude/message-when-a-tool-runs.jsonl")),
    ("message-when-idle", include_str!("../data/claude/message-when-idle.jsonl")),
    ("message-when-text-comes", include_str!("../data/claude/message-when-text-comes.jsonl")),
    ("permission-approved", include_str!("../data/claude/permission-approved.jsonl")),
    ("permission-refused", include_str!("../data/claude/permission-refused.jsonl")),
    ("resume-and-fork", include_str!("../data/claude/resume-and-fork.jsonl")),
    ("trust-given-by-environment", include_str!("../data/claude/trust-given-by-environment.jsonl")),
    ("trust-prompt", include_str!("../data/claude/trust-prompt.jsonl")),
    ("typed-prompt", include_str!("../data/claude/typed-prompt.jsonl")),
];

/// Returns a recorded scene of claude, in the order things were seen.
///
/// # Panics
/// When there is none of that name.
pub fn claude(scene: &str) -> Vec<Seen> {
    let text = CLAUDE.iter().find(|(name, _)| *name == scene).map(|(_, text)| *text);
    text.unwrap_or_else(|| panic!("no scene `{scene}`")).lines().map(seen).collect()
}

fn seen(line: &str) -> Seen {
    let mut value: Value = serde_json::from_str(line).expect("recordings are JSON lines");
    let source = match value["from"].as_str() {
        Some("hook") => Source::Hook,
        Some("session") => Source::Session,
        Some("transcript") => Source::Transcript,
        Some("request") => Source::Request,
        Some("driver") => Source::Driver,
        other => panic!("unknown source {other:?}"),
    };
    Seen { at_ms: value["at_ms"].as_u64().unwrap_or_default(), source, value: value["value"].take() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_begins_with_a_start_and_ends_without_a_session_file() {
        for (name, _) in CLAUDE {
            let scene = claude(name);
            let of = |source| scene.iter().filter(move |it| it.source == source).collect::<Vec<_>>();
            let events: Vec<&str> =
                of(Source::Hook).iter().filter_map(|it| it.value["hook_event_name"].as_str()).collect();
            assert_eq!(events.first(), Some(&"SessionStart"), "{name}");
            assert_eq!(events.last(), Some(&"SessionEnd"), "{name}");
            assert!(of(Source::Session).last().is_some_and(|it| it.value.is_null()), "{name}");
        }
    }

    #[test]
    fn recordings_name_no_place_of_the_machine_they_were_made_on() {
        for (name, text) in CLAUDE {
            for place in ["/root", "/home/", "/tmp/c", "/work", "/targets"] {
                assert!(!text.contains(place), "{name} has {place}");
            }
        }
    }
}
