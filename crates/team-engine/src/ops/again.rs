//! Sending a message anew that came back, or of which nobody knows whether it came.

use std::time::Duration;

use team_model::{MessageId, ReceiptStep};

use super::message::{SendArgs, Sent};
use super::{Caller, Engine};
use crate::decide::{self, AgainCommand, Refusal, SendOutcome, Sender, SentMessage};
use crate::error::EngineError;
use crate::guardian;

impl Engine {
    /// Sends a message anew to those of whom it came back or is unknown, and follows it as a first sending.
    pub fn send_again(&mut self, id: &str, step: ReceiptStep, wait: Duration) -> Result<Sent, EngineError> {
        let key = self.team()?;
        let id: MessageId = id.parse().map_err(|error: team_model::BadId| {
            Refusal::new("bad_message_id", error.to_string())
                .with_hint(format!("run `{}` to find it", decide::command_for("status", &key)))
        })?;
        let sender = match &self.caller {
            Caller::Person => Sender::Person,
            Caller::Seat { team, agent, .. } if *team == key => Sender::Seat(agent.clone()),
            Caller::Seat { .. } => Sender::Elsewhere,
            Caller::Unproved => Sender::Unknown,
        };
        let (now, by) = (self.clock.now(), self.by());
        let command = AgainCommand { team: key.clone(), sender, id: id.clone() };
        let store = self.store_mut()?;
        let to = store.decide(now, &by, Some(&key), |state| decide::send_again(state, &command))?;
        let task = self.team_state(&key)?.message(&id).and_then(|it| it.task);
        let _ = guardian::ensure(&self.workspace);
        let message = SentMessage { id, to, to_leader: false, task };
        let outcome = SendOutcome { messages: vec![message], repeated: false };
        self.follow_sent(&key, &outcome, step, wait)?;
        self.show_sent(&key, &outcome, &SendArgs::default(), 0, step)
    }
}
