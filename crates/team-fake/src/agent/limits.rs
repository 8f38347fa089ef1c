//! Usage limits: what a turn does at one, by the habits of the program that is played.

use serde_json::json;

use super::Agent;
use super::turns::{Step, Wait};
use crate::clock;
use crate::clothes::Moment;
use crate::dialog::Kind;

impl Agent {
    /// The step by which a turn fails.
    pub(super) fn failed(&self, kind: &str, text: &str) -> Step {
        let waits = self.manners.asks_at_limit || self.manners.waits_at_limit;
        if kind == "rate_limit" && waits {
            return Step::Limited { text: text.to_owned() };
        }
        Step::Fail { kind: kind.to_owned(), text: text.to_owned() }
    }

    /// The turn stands still: it waits for the end of the limit, or for the answer to a question.
    pub(super) fn stand_at_limit(&mut self, text: &str) {
        if self.manners.waits_at_limit {
            self.fire(Moment::Limited, json!({"text": text, "until_ms": clock::wall_ms() + 3_600_000}));
            if let Some(turn) = &mut self.turn {
                turn.wait = Wait::Limit;
            }
            return;
        }
        let fail = Step::Fail { kind: "rate_limit".to_owned(), text: text.to_owned() };
        self.push_front(fail);
        self.show(self.clothes.dialog(Kind::Limit, text));
    }

    /// What waited for the end of a limit goes on.
    pub(super) fn limit_is_over(&mut self) {
        if self.turn.as_ref().is_some_and(|it| it.wait == Wait::Limit) {
            self.fire(Moment::LimitOver, json!({}));
            self.go_on(&Wait::Limit, None);
        }
    }

    /// A person wants the turn to go on at a limit; it comes to the same limit.
    pub(super) fn try_again_at_limit(&mut self) {
        let Some(turn) = &mut self.turn else { return };
        if let Some(Step::Fail { text, .. }) = turn.steps.pop_front() {
            self.stand_at_limit(&text);
        }
    }
}
