//! What a provider's record proves, as events of the log: ids, kinds and lengths, never a prompt or an output.

use chrono::{DateTime, TimeZone as _, Utc};
use team_model::{ActivityKind, AgentName, Event, Proof, SpawnId, TurnOutcome, find_message_ids};
use team_provider::{ActivityKind as Seen, Fact, TurnOutcome as Ended};

/// The most bytes of a permission question that the log keeps.
pub(crate) const QUESTION: usize = 4096;

/// Turns the facts of one hook call into events.
pub fn from_hook(spawn: SpawnId, hook: &str, facts: &[Fact], now: DateTime<Utc>) -> Vec<Event> {
    let proof = || Proof { source: "hook".to_owned(), record: hook.to_owned() };
    facts.iter().filter_map(|it| event(spawn, it, proof(), None, now)).collect()
}

/// Turns one thing that a bridge was told into events.
pub fn from_bridge(
    spawn: SpawnId,
    receiver: &AgentName,
    record: &str,
    fact: &Fact,
    now: DateTime<Utc>,
) -> Vec<Event> {
    let proof = Proof { source: "notification".to_owned(), record: record.to_owned() };
    let (text, in_turn) = match fact {
        Fact::Enqueued { text } => (text, false),
        Fact::TakenInTurn { text } => (text, true),
        _ => return event(spawn, fact, proof, None, now).into_iter().collect(),
    };
    let submitted =
        |id| Event::MessageSubmitted { id, receiver: receiver.clone(), in_turn, proof: proof.clone() };
    find_message_ids(text).into_iter().map(submitted).collect()
}

/// Turns one fact into an event, where it says something of its own. `at` is when its record was written, where that
/// is known, and `now` when it was read.
pub fn event(
    spawn: SpawnId,
    fact: &Fact,
    proof: Proof,
    at: Option<DateTime<Utc>>,
    now: DateTime<Utc>,
) -> Option<Event> {
    let activity = |activity, reason: Option<String>, until| Event::ActivityObserved {
        spawn,
        activity,
        reason,
        until,
        at,
        proof: proof.clone(),
    };
    Some(match fact {
        Fact::SessionStarted { native_id, source, .. } => {
            Event::SessionStarted { spawn, native: native_id.clone(), source: source.clone() }
        }
        Fact::TurnStarted { prompt, .. } => {
            let prompt = prompt.as_deref().unwrap_or_default();
            Event::TurnStarted {
                spawn,
                messages: find_message_ids(prompt),
                chars: prompt.chars().count() as u64,
                proof,
            }
        }
        Fact::TurnEnded { outcome, text, .. } => {
            let (outcome, why) = match outcome {
                Ended::Answer | Ended::Unstated => (TurnOutcome::Answer, None),
                Ended::Interrupted => (TurnOutcome::Interrupted, None),
                Ended::Error { kind } => (TurnOutcome::Error, Some(kind.clone())),
            };
            let chars = text.as_deref().unwrap_or_default().chars().count() as u64;
            Event::TurnEnded { spawn, outcome, why, chars, proof }
        }
        Fact::Activity { kind, .. } => match kind {
            Seen::Idle => activity(ActivityKind::Idle, None, None),
            Seen::Working => activity(ActivityKind::Working, None, None),
            Seen::AwaitingApproval { for_what } => {
                activity(ActivityKind::AwaitingApproval, Some(for_what.clone()), None)
            }
            Seen::DialogOpen => activity(ActivityKind::Unknown, Some("a dialog is open".to_owned()), None),
            Seen::Compacting => activity(ActivityKind::Compacting, None, None),
            Seen::Shell => {
                activity(ActivityKind::Idle, Some("a background command runs on".to_owned()), None)
            }
            Seen::Unknown { word } => {
                activity(ActivityKind::Unknown, Some(format!("the program says `{word}`")), None)
            }
        },
        Fact::ApprovalRequested { tool, input_summary, choices, tool_use_id, .. } => {
            Event::ApprovalRequested {
                spawn,
                tool: tool.clone(),
                input: Some(cut(input_summary, QUESTION)).filter(|it| !it.is_empty()),
                choices: choices.clone(),
                key: tool_use_id.clone().filter(|it| crate::answers::is_key(it)),
                by_keys: false,
                proof,
            }
        }
        Fact::ApprovalResolved { tool_use_id, .. } => {
            Event::ApprovalClosed { spawn, request: None, key: tool_use_id.clone(), how: proof.record }
        }
        Fact::Limited { until, text } => {
            let until = until.or_else(|| team_provider::reset_time(text, now.timestamp()));
            let until = until.and_then(|it| Utc.timestamp_opt(it, 0).single());
            activity(ActivityKind::Limited, Some(cut(text, 200)), until)
        }
        Fact::Compacting { .. } => activity(ActivityKind::Compacting, None, None),
        Fact::Compacted { .. } => Event::SessionCompacted { spawn },
        _ => return None,
    })
}

pub(crate) fn cut(text: &str, most: usize) -> String {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}
