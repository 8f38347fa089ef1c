//! What those want who are connected to the program by a server of its clothes.

use serde_json::json;

use super::queue::Source;
use super::{Agent, Phase};
use crate::clothes::Outside;
use crate::dialog::Kind;

impl Agent {
    pub(super) fn read_wire(&mut self) {
        let (wishes, open) = self.wire.take();
        self.wire_open = open;
        for wish in wishes {
            if matches!(self.phase, Phase::Ending(_) | Phase::Over(_)) {
                return;
            }
            self.logs.event("outside", json!({"wish": wish.name()}));
            match wish {
                Outside::Submit { text, id } => self.submit_as(&text, Source::Outside, id),
                Outside::Permission { allow: true, .. } => self.settle_permission("", true),
                Outside::Permission { message, .. } => self.settle_permission(&message, false),
                Outside::Interrupt => self.interrupt(false, false),
                Outside::Session(id) => self.use_session(id, "startup"),
                Outside::End(code) => self.end(code, "other"),
            }
            self.dialogs.retain(|it| it.kind != Kind::Permission || self.permission.is_some());
        }
    }
}
