//! The log in readable words: one event, why a message waits, and which agent a line is about.

use team_model::{Event, TeamKey, TurnOutcome};

use super::follow::type_of;
use crate::decide::command_for;

/// Says why a message waits for an agent, and what would make it go on; nothing for a reason that needs no words.
pub fn held(to: &str, reason: &str, team: &TeamKey) -> Option<String> {
    let typing = command_for(&format!("attach {to} --type"), team);
    Some(match reason {
        "busy" => format!("{to} is at work; it is delivered when the turn has ended"),
        "draft" => format!("text stands in {to}'s input box; send or delete it in `{typing}`"),
        "dirty" => format!("an earlier text may stand in {to}'s input box; empty it in `{typing}`"),
        "dialog" => {
            format!("{to}'s program asks something; `{}` shows what answers it", command_for("status", team))
        }
        "person" => format!("somebody is attached to {to} with `--type`; it is delivered when they leave"),
        "mode" => format!("{to}'s screen is being scrolled; leave that with `q` in `{typing}`"),
        "limited" => {
            format!(
                "{to}'s provider has reached its limit; `{}` says until when",
                command_for("status", team)
            )
        }
        "no_session" => {
            format!("{to} is not ready; `{}` says why", command_for(&format!("explain {to}"), team))
        }
        _ => return None,
    })
}

/// How a program ended, as far as it is known.
pub(super) fn ended(code: Option<i32>, signal: Option<i32>) -> String {
    match (code, signal) {
        (Some(code), _) => format!("its program ended with code {code}"),
        (None, Some(signal)) => format!("its program ended by signal {signal}"),
        (None, None) => "its program ended".to_owned(),
    }
}

/// An event in a few words, as they are said of its agent.
pub(super) fn words(event: &Event) -> String {
    match event {
        Event::AgentAdded { spec, .. } => format!("added: {} ({})", spec.role, spec.provider),
        Event::AgentQueued { .. } => "waits to be started".to_owned(),
        Event::AgentStopPlanned { cause, .. } => format!("is to end ({cause})"),
        Event::AgentStopped { cause, .. } => format!("stopped ({cause})"),
        Event::AgentFailed { why, .. } => format!("failed: {why}"),
        Event::AgentRemoved { .. } => "removed from the team".to_owned(),
        Event::SpawnPlanned { mode, notes, .. } if notes.is_empty() => format!("is being started ({mode})"),
        Event::SpawnPlanned { mode, notes, .. } => format!("is being started ({mode}): {}", notes.join("; ")),
        Event::SpawnOpened { .. } => "its terminal is open".to_owned(),
        Event::SpawnSuperseded { why, .. } => format!("this start is given up: {why}"),
        Event::RestartFreshSpawn { why, .. } => format!("begins a new conversation: {why}"),
        Event::SessionClaimed { .. } => "its seat process runs".to_owned(),
        Event::ProviderStarted { version, .. } => match version {
            Some(version) => format!("its program runs (version {version})"),
            None => "its program runs".to_owned(),
        },
        Event::ProviderExited { code, signal, .. } => ended(*code, *signal),
        Event::SessionStarted { .. } => "its program says that the conversation began".to_owned(),
        Event::SessionReplaced { .. } => "another conversation was chosen in its program".to_owned(),
        Event::SessionCompacted { .. } => "its conversation was compacted".to_owned(),
        Event::TurnStarted { messages, .. } if messages.is_empty() => "a turn began".to_owned(),
        Event::TurnStarted { messages, .. } => {
            let ids: Vec<_> = messages.iter().map(ToString::to_string).collect();
            format!("a turn began with {}", ids.join(", "))
        }
        Event::TurnEnded { outcome: TurnOutcome::Answer, .. } => "the turn ended".to_owned(),
        Event::TurnEnded { outcome, why, .. } => {
            format!("the turn ended: {}", why.clone().unwrap_or_else(|| outcome.to_string()))
        }
        Event::ActivityObserved { activity, reason, .. } => {
            let word = activity.to_string().replace('_', " ");
            match reason {
                Some(reason) => format!("seen: {word}, {}", reason.replace('_', " ")),
                None => format!("seen: {word}"),
            }
        }
        Event::ApprovalRequested { tool, .. } => format!("asks permission for {tool}"),
        Event::DialogPressing { dialog, .. } => {
            format!("the key for {} is pressed: a person has granted it", dialog.replace('_', " "))
        }
        Event::ApprovalPressing { refused: true, .. } => {
            "the screen had changed: no key was pressed".to_owned()
        }
        Event::ApprovalPressing { .. } => "the key of the answer is pressed".to_owned(),
        Event::ApprovalNotGiven { why, .. } => format!("the answer did not reach it: {why}"),
        Event::ApprovalAnswering { request, decision, by, pattern, .. } => {
            let by = match (by.as_str(), pattern) {
                (_, Some(pattern)) => format!("the rule {pattern} of TEAM.md"),
                ("own_tool", None) => "us: it is a tool of the team".to_owned(),
                ("person", None) => "a person".to_owned(),
                (other, None) => other.to_owned(),
            };
            let done = if *decision == team_model::Decision::Allow { "allowed" } else { "denied" };
            format!("{request} is {done} by {by}")
        }
        Event::ApprovalClosed { request: Some(id), how, .. } => format!("{id} is closed: {how}"),
        Event::ApprovalClosed { how, .. } => format!("the permission question is closed: {how}"),
        Event::ProviderClassifyUnsupported { reason, .. } => {
            format!("its screen is not understood: {reason}")
        }
        Event::LaneCleared { .. } => "its input box is empty again".to_owned(),
        Event::MessageAccepted { id, from, addressed, .. } => {
            format!("message {id} from {from} to {addressed} is accepted")
        }
        Event::MessageHeld { id, receiver, why } => {
            format!("{id} waits for {receiver}: {}", why.to_string().replace('_', " "))
        }
        Event::MessageSending { id, receiver, file: Some(file), .. } => {
            format!("{id} is handed over to {receiver} as the file {file}")
        }
        Event::MessageSending { id, receiver, .. } => format!("{id} is handed over to {receiver}"),
        Event::MessageSubmitted { id, receiver, .. } => format!("{receiver}'s program has {id}"),
        Event::MessageNotSent { id, receiver, .. } => {
            format!("{id} did not reach {receiver}; it is sent again")
        }
        Event::MessageUnknown { id, receiver, why, .. } => {
            format!("whether {id} reached {receiver} is unknown: {why}")
        }
        Event::MessageReturned { id, why, .. } => format!("{id} is returned: {why}"),
        Event::MessageRefused { id, why, .. } => format!("{id} is refused: {why}"),
        Event::MessageWithdrawn { id, why, .. } => format!("{id} is withdrawn: {why}"),
        Event::TaskCreated { id, subject, .. } => format!("task {id}: {subject}"),
        Event::TaskCompleted { id, result } => format!("task {id} is done ({result})"),
        Event::TaskFailed { id, result } => format!("task {id} failed ({result})"),
        Event::TaskCanceled { id, why } => format!("task {id} is canceled: {why}"),
        Event::TaskReleased { id, why } => format!("task {id} has no owner now: {why}"),
        Event::McpReportResult { id, status, summary, .. } => format!("result {id}, {status}: {summary}"),
        Event::CollectResult { results } => {
            let ids: Vec<_> = results.iter().map(ToString::to_string).collect();
            format!("collected: {}", ids.join(", "))
        }
        Event::HumanAsked { id, question, .. } => format!("asks a person ({id}): {question}"),
        Event::HumanAnswered { id, answer } => format!("question {id} is answered: {answer}"),
        Event::TeamStarted { name, .. } => format!("team {name} is started"),
        Event::TeamStopPlanned { .. } => "the team is to end".to_owned(),
        Event::TeamStopped { .. } => "the team is stopped".to_owned(),
        Event::TeamLost { why } => format!("the team is lost: {why}"),
        Event::LeaderLost { why } => format!("the leader is bound no more: {why}"),
        Event::LeaderTold { .. } => "the leader was told what waits".to_owned(),
        Event::LeaderTelling { .. } => "the leader is being told what waits".to_owned(),
        Event::ToolsLost { .. } => "its tool server has ended".to_owned(),
        Event::ToolsListed { .. } => "its program has our tools".to_owned(),
        Event::GrantChanged { grant, given: true } => format!("granted: {grant}"),
        Event::GrantChanged { grant, .. } => format!("not granted any more: {grant}"),
        Event::CoordinatorStopped { why, .. } => format!("coordinator stopped: {why}"),
        other => type_of(other).replace(['.', '_'], " "),
    }
}

/// The agent that a line is about, by itself or by its start; `of_spawn` knows the starts.
pub(super) fn agent(event: &Event, of_spawn: impl Fn(u64) -> Option<String>) -> Option<String> {
    let value = serde_json::to_value(event).ok()?;
    let text = |field: &str| value.get(field).and_then(|it| it.as_str()).map(str::to_owned);
    let spawn = || text("spawn")?.strip_prefix("x-")?.parse().ok().and_then(&of_spawn);
    text("agent").or_else(|| text("receiver")).or_else(spawn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_without_words_of_its_own_is_told_by_its_name() {
        assert_eq!(words(&Event::LogRestored {}), "log restored");
        assert_eq!(
            words(&Event::ProviderExited { spawn: team_model::SpawnId(3), code: Some(2), signal: None }),
            "its program ended with code 2"
        );
    }

    #[test]
    fn a_line_of_a_start_is_about_its_agent() {
        let event = Event::ToolsListed { spawn: team_model::SpawnId(7), process: None };
        assert_eq!(agent(&event, |it| (it == 7).then(|| "w1".to_owned())), Some("w1".to_owned()));
    }
}
