//! One turn without a terminal, in a conversation of its own that no server knows.

use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::Signal;

use super::conversation::{Conversation, Knobs};
use super::rollout::Rollout;
use super::turn::Message;
use super::wire::sleep;
use super::{Refusal, Start, say};
use crate::signals::Signals;

/// Runs the turn and prints its answer.
pub(super) fn run(start: &Start) -> Result<i32, Refusal> {
    let text = start.message.clone().ok_or_else(|| Refusal::NoValue("PROMPT".to_owned()))?;
    start.logs.create()?;
    let mut signals = Signals::catch(&[Signal::SIGCHLD])?;
    let id = uuid::Uuid::now_v7().to_string();
    let rollout = Rollout::new(&start.home, &id);
    let mut conversation = Conversation::load(start, &id, &start.cwd.to_string_lossy(), rollout)?;
    let knobs = Knobs::default();
    conversation.take(Message { text, client_id: None, source: "argument", queued: false }, &knobs);
    loop {
        conversation.service();
        if let Some(code) = conversation.advance(&knobs) {
            conversation.end();
            return Ok(code);
        }
        // There is nobody who could be asked.
        if let Some(question) = &conversation.question {
            conversation.answered(question.id, "decline", "nobody");
        }
        if conversation.turn.is_none() {
            break;
        }
        let mut fds = vec![PollFd::new(signals.fd(), PollFlags::POLLIN)];
        fds.extend(conversation.waits());
        sleep(&mut fds, conversation.due());
        drop(fds);
        signals.raised();
    }
    conversation.end();
    let turns = conversation.rollout.turns();
    let items = turns[0]["items"].as_array().into_iter().flatten();
    let answer = items.rev().find_map(|it| it["text"].as_str()).unwrap_or_default();
    say(answer)
}
