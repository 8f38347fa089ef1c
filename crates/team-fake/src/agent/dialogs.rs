//! Dialogs of the running program and the permission questions behind some of them.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Agent, Phase, Timer};
use crate::clothes::Moment;
use crate::dialog::{self, Dialog, Kind};
use crate::input::Event;
use crate::settings::Answer;

/// A tool call that waits for a yes.
#[derive(Debug)]
pub(super) struct Permission {
    id: u64,
    detail: String,
    fields: Value,
    /// The hooks that may answer.
    pub(super) batch: Option<u64>,
    /// A step of the turn waits for it, rather than the whole turn being held up.
    by_turn: bool,
    shown: bool,
}

/// A hook that answers within this time shows no dialog.
const HOOK_PATIENCE: Duration = Duration::from_millis(100);

impl Agent {
    /// Tells whether the turn is held up by a question.
    pub(super) fn blocked(&self) -> bool {
        !self.dialogs.is_empty() || self.permission.is_some()
    }

    /// Opens a dialog as a control line wants it.
    pub(super) fn open_dialog(&mut self, kind: Kind, detail: &str) {
        match (kind, detail) {
            (Kind::Permission, "quiet") => self.show(self.clothes.dialog(kind, "Bash(touch made-by-fake)")),
            (Kind::Permission, _) => self.ask_from_outside(),
            (Kind::Limit, _) => match detail.strip_prefix("quiet") {
                Some(text) => self.show(self.clothes.dialog(kind, &super::turns::limit_text(text.trim()))),
                None => self.fail_now("rate_limit", &super::turns::limit_text(detail)),
            },
            (_, "") => {
                let default = match kind {
                    Kind::Trust => self.cwd.clone(),
                    Kind::Mcp => "some_server".to_owned(),
                    Kind::Update => "0.0.1 → 0.0.2".to_owned(),
                    Kind::Hooks => "1 hook is new or changed.".to_owned(),
                    _ => "earlier conversation".to_owned(),
                };
                self.show(self.clothes.dialog(kind, &default));
            }
            _ => self.show(self.clothes.dialog(kind, detail)),
        }
    }

    pub(super) fn show(&mut self, dialog: Dialog) {
        self.logs.event("dialog", json!({"kind": dialog.kind.name()}));
        self.dialogs.push_back(dialog);
    }

    /// Asks for a permission that no directive of the turn wants.
    pub(super) fn ask_from_outside(&mut self) {
        if self.turn.is_none() {
            self.do_now("ask-permission Bash");
        } else {
            self.ask("Bash", &json!({"command": "touch made-by-fake"}), false);
        }
    }

    /// Asks whether a tool may run: hooks first, then a dialog.
    pub(super) fn ask(&mut self, tool: &str, input: &Value, by_turn: bool) {
        if self.permission.is_some() {
            return;
        }
        if by_turn {
            self.begin_tool(tool, input);
        }
        let fields = json!({"tool_name": tool, "tool_input": input, "permission_suggestions": []});
        let batch = self.fire(Moment::PermissionAsked, fields.clone());
        self.next_child += 1;
        let id = self.next_child;
        let shown = input.to_string();
        let detail = format!("{tool}({})", input["command"].as_str().unwrap_or(&shown));
        self.permission = Some(Permission { id, detail, fields, batch, by_turn, shown: false });
        if batch.is_some() {
            self.timer(HOOK_PATIENCE, Timer::ShowPermission(id));
        } else {
            self.show_permission(id);
        }
    }

    pub(super) fn show_permission(&mut self, id: u64) {
        let Some(permission) = self.permission.as_mut().filter(|it| it.id == id && !it.shown) else { return };
        permission.shown = true;
        let dialog = self.clothes.dialog(Kind::Permission, &permission.detail);
        let fields = permission.fields.clone();
        self.show(dialog);
        self.fire(Moment::PermissionShown, fields);
    }

    pub(super) fn permission_hook_answered(&mut self, batch: u64, answers: &[Answer]) {
        let Some(permission) = self.permission.as_mut().filter(|it| it.batch == Some(batch)) else { return };
        permission.batch = None;
        let id = permission.id;
        match answers.iter().find_map(|it| it.permission.clone()) {
            Some(answer) => {
                self.logs.event("permission_by_hook", json!({"allowed": answer.is_ok()}));
                let text = answer.as_ref().err().cloned().unwrap_or_default();
                self.settle_permission(&text, answer.is_ok());
            }
            None => self.show_permission(id),
        }
    }

    pub(super) fn settle_permission(&mut self, text: &str, allowed: bool) {
        let Some(permission) = self.permission.take() else { return };
        self.fire(Moment::PermissionSettled, json!({"allowed": allowed}));
        if let Some(batch) = permission.batch {
            self.drop_batch(batch);
        }
        self.dialogs.retain(|it| it.kind != Kind::Permission);
        if permission.by_turn {
            self.permission_settled(text, allowed);
        }
    }

    /// Takes a key while a dialog is open.
    pub(super) fn dialog_key(&mut self, event: &Event) {
        let Some(dialog) = self.dialogs.front_mut() else { return };
        if let Event::Paste(bytes) = event {
            self.logs.event("paste_discarded", json!({"bytes": bytes.len()}));
        }
        let Some(answer) = dialog.key(event) else { return };
        let kind = dialog.kind;
        let refused = match &answer {
            dialog::Answer::Refused => true,
            dialog::Answer::Picked(number, _) => dialog.refuses(*number),
        };
        match &answer {
            dialog::Answer::Picked(number, text) => self.logs.event(
                "dialog_answered",
                json!({"kind": kind.name(), "choice": number, "text": text, "refused": refused}),
            ),
            dialog::Answer::Refused => self.logs.event("dialog_refused", json!({"kind": kind.name()})),
        }
        self.dialogs.pop_front();
        let number = if let dialog::Answer::Picked(number, _) = &answer { *number } else { 0 };
        self.clothes.picked(kind, number, self.home.records(), &self.cwd);
        match kind {
            Kind::Permission if refused => self.interrupt(true, false),
            Kind::Permission => self.settle_permission("", true),
            Kind::Limit if self.manners.asks_at_limit && answer.is(1) => self.try_again_at_limit(),
            _ if refused && self.phase == Phase::Starting && kind.refusal_ends() => self.end(1, "other"),
            _ => self.ready_if_clear(),
        }
    }

    /// Takes the dialog away as if it had been answered elsewhere.
    pub(super) fn close_dialog(&mut self) {
        let closed = self.dialogs.pop_front().map(|it| it.kind);
        // A question that still waits for its hooks is open, too, although its dialog is not drawn yet.
        let closed = closed.or_else(|| self.permission.as_ref().map(|_| Kind::Permission));
        if let Some(kind) = closed {
            self.logs.event("dialog_closed", json!({"kind": kind.name()}));
            if kind == Kind::Permission {
                self.settle_permission("", true);
            }
        }
        self.ready_if_clear();
    }
}
