//! What the program's files mean: the record of a conversation, and the settings that trust folders.
//!
//! Knows one line at a time. Must not open anything.

use std::path::Path;

use serde_json::Value;

use crate::fact::{Fact, RecordKind, TurnOutcome};
use crate::lines;
use crate::provider::ModelName;

/// Returns what a record proves; what is not readable proves nothing.
pub(super) fn read(kind: RecordKind, record: &str) -> Vec<Fact> {
    match kind {
        RecordKind::Status => Vec::new(),
        RecordKind::Transcript => lines::records(record).filter_map(|it| line(&it)).collect(),
    }
}

/// Returns when a line was written, in milliseconds of the epoch.
pub(super) fn time(record: &str) -> Option<i64> {
    let record = lines::records(record).next()?;
    crate::moment::epoch_ms(record.get("timestamp")?.as_str()?)
}

fn line(record: &Value) -> Option<Fact> {
    if record["type"] != "event_msg" {
        return None;
    }
    let payload = &record["payload"];
    let native_id = payload["thread_id"].as_str().map(str::to_owned);
    Some(match payload["type"].as_str()? {
        "item_completed" if payload["item"]["type"] == "UserMessage" => {
            Fact::Enqueued { text: said(&payload["item"]["content"]) }
        }
        "turn_aborted" => Fact::TurnEnded { native_id, outcome: TurnOutcome::Interrupted, text: None },
        "task_complete" => {
            let kind = payload["error"]["codex_error_info"].as_str();
            let outcome = if payload["error"].is_object() {
                TurnOutcome::Error { kind: kind.unwrap_or("error").to_owned() }
            } else {
                TurnOutcome::Answer
            };
            let text = payload["last_agent_message"].as_str().map(str::to_owned);
            Fact::TurnEnded { native_id, outcome, text }
        }
        _ => return None,
    })
}

/// Joins the texts of a message.
pub(super) fn said(content: &Value) -> String {
    let parts = content.as_array().into_iter().flatten();
    parts.filter_map(|it| it["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// Says whether settings trust a folder, or one above it that holds it.
///
/// The program writes a section for each folder; a form that it does not write itself is not looked for.
pub(super) fn trusts(settings: &str, cwd: &Path) -> bool {
    let mut folder: Option<String> = None;
    for line in settings.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let name = section.strip_prefix("projects.").and_then(|it| it.strip_suffix(']'));
            folder = name.and_then(unquoted);
        } else if let (Some(folder), Some((key, value))) = (&folder, line.split_once('='))
            && key.trim() == "trust_level"
            && unquoted(value.trim()).as_deref() == Some("trusted")
            && cwd.ancestors().any(|it| it == Path::new(folder))
        {
            return true;
        }
    }
    false
}

fn unquoted(word: &str) -> Option<String> {
    match word.as_bytes().first()? {
        b'"' => serde_json::from_str(word).ok(),
        b'\'' => word.strip_prefix('\'')?.strip_suffix('\'').map(str::to_owned),
        _ => None,
    }
}

/// Reads the list of models, the offered ones first, each group as the program orders it.
pub(super) fn models(printed: &str) -> Option<Vec<ModelName>> {
    let list: Value = serde_json::from_str(printed).ok()?;
    let mut models: Vec<(bool, i64, ModelName)> = Vec::new();
    for it in list["models"].as_array()? {
        let slug = it["slug"].as_str()?.to_owned();
        let display = it["display_name"].as_str().unwrap_or(&slug).to_owned();
        let hidden = it["visibility"] != "list";
        models.push((hidden, it["priority"].as_i64().unwrap_or(i64::MAX), ModelName { slug, display }));
    }
    models.sort_by_key(|it| (it.0, it.1));
    Some(models.into_iter().map(|it| it.2).collect()).filter(|it: &Vec<_>| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_listed_as_they_are_offered() {
        let printed = r#"{"models":[
            {"slug":"hidden","visibility":"hide","priority":1},
            {"slug":"gpt-5.5","display_name":"GPT-5.5","visibility":"list","priority":13,"base_instructions":"x"},
            {"slug":"gpt-6-sol","display_name":"GPT-6-Sol","visibility":"list","priority":6}]}"#;
        let slugs: Vec<String> = models(printed).unwrap().into_iter().map(|it| it.slug).collect();
        assert_eq!(slugs, ["gpt-6-sol", "gpt-5.5", "hidden"]);
        for odd in ["", "{}", "[]", r#"{"models":[]}"#, r#"{"models":[{}]}"#] {
            assert_eq!(models(odd), None, "{odd}");
        }
    }

    #[test]
    fn a_folder_is_trusted_by_its_own_section_or_that_of_one_above() {
        let settings = "model = \"x\"\n[projects.\"/home/me/app\"]\ntrust_level = \"trusted\"\n\n\
                        [projects.'/no']\ntrust_level = \"untrusted\"\n[other]\ntrust_level = \"trusted\"\n";
        assert!(
            trusts(settings, Path::new("/home/me/app")) && trusts(settings, Path::new("/home/me/app/sub"))
        );
        assert!(!trusts(settings, Path::new("/home/me")) && !trusts(settings, Path::new("/no")));
        assert!(!trusts("", Path::new("/")) && !trusts("[projects.\"", Path::new("/")));
    }

    #[test]
    fn a_line_tells_of_messages_and_of_ends() {
        let read = |text: &str| read(RecordKind::Transcript, text);
        let message = r#"{"timestamp":"2026-11-30T20:14:21.608Z","ordinal":8,"type":"event_msg","payload":{"type":"item_completed","thread_id":"t","turn_id":"u","item":{"type":"UserMessage","id":"i","client_id":"m-1","content":[{"type":"text","text":"hello"}]}}}"#;
        assert_eq!(read(message), [Fact::Enqueued { text: "hello".to_owned() }]);
        assert_eq!(time(message), Some(1_796_069_661_608));
        let failed = r#"{"type":"event_msg","payload":{"type":"task_complete","turn_id":"u","last_agent_message":null,"error":{"message":"m","codex_error_info":"usage_limit_exceeded"}}}"#;
        let outcome = TurnOutcome::Error { kind: "usage_limit_exceeded".to_owned() };
        assert_eq!(read(failed), [Fact::TurnEnded { native_id: None, outcome, text: None }]);
        for other in ["", "{", "[]", r#"{"type":"response_item","payload":{"type":"message"}}"#] {
            assert_eq!(read(other), []);
        }
    }
}
