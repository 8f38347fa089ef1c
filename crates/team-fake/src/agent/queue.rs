//! What waits: texts for the next turn or the next tool's end, directives for a sender.

use super::turns::Step;
use super::{Agent, Timer};
use crate::directive::{self, Directive, Item};

/// Who sent a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Typed,
    Argument,
    Control,
    Notification,
    /// By somebody who is connected.
    Outside,
}

impl Source {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Typed => "typed",
            Self::Argument => "argument",
            Self::Control => "control",
            Self::Notification => "notification",
            Self::Outside => "outside",
        }
    }
}

/// A text that waits for the running turn.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) text: String,
    pub(super) source: Source,
    /// The id that its prompt is to have.
    pub(super) id: Option<String>,
}

/// A directive that waits for a sender.
#[derive(Debug)]
pub(super) struct Armed {
    from: String,
    each: bool,
    directive: Directive,
}

impl Agent {
    /// Takes a text for the model: now, or after what runs.
    pub(super) fn submit(&mut self, text: &str, source: Source) {
        self.submit_as(text, source, None);
    }

    /// The same under an id that was chosen elsewhere.
    pub(super) fn submit_as(&mut self, text: &str, source: Source, id: Option<String>) {
        let queued = self.turn.is_some() || self.blocked();
        // What an interrupt may lose has not reached the model before it is taken.
        if !queued || !self.manners.loses_queue {
            self.logs.submission(text, source.name(), queued);
        }
        if queued {
            self.transcript.queue("enqueue", Some(text));
            self.queue.push_back(Queued { text: text.to_owned(), source, id });
        } else {
            self.start_turn(Queued { text: text.to_owned(), source, id }, false);
        }
        if let Some(after) = self.knobs.dialog_after_enter
            && source == Source::Typed
        {
            self.timer(after, Timer::AskAfterEnter);
        }
    }

    /// Hands over what a background hook has for the model.
    pub(super) fn notify_model(&mut self, text: String) {
        let busy = self.turn.is_some() || self.blocked();
        self.logs.submission(&text, Source::Notification.name(), busy);
        self.transcript.queue("enqueue", Some(&text));
        if busy {
            self.queue.push_back(Queued { text, source: Source::Notification, id: None });
        } else {
            self.transcript.queue("dequeue", None);
            self.start_turn(Queued { text, source: Source::Notification, id: None }, false);
        }
    }

    /// Reads what a text asks for, arms what waits for a sender and fires what waited for this one.
    pub(super) fn plan(&mut self, text: &str) -> Vec<Directive> {
        let mut directives = Vec::new();
        for item in directive::read(text) {
            match item {
                Item::Do(directive) => directives.push(directive),
                Item::Arm { from, each, directive } => self.armed.push(Armed { from, each, directive }),
                Item::From(from) => {
                    let fits = |it: &Armed| it.from == "*" || it.from == from;
                    directives.extend(self.armed.iter().filter(|it| fits(it)).map(|it| it.directive.clone()));
                    self.armed.retain(|it| it.each || !fits(it));
                }
            }
        }
        directives
    }

    /// A text leaves a queue that an interrupt would have emptied.
    pub(super) fn taken(&mut self, queued: &Queued) {
        if self.manners.loses_queue {
            self.logs.submission(&queued.text, queued.source.name(), true);
        }
    }

    /// Takes queued texts up inside the running turn.
    pub(super) fn take_up_queue(&mut self) {
        let waits = |it: &Queued| self.manners.outside_waits && it.source == Source::Outside;
        let (rest, now): (Vec<_>, Vec<_>) = self.queue.drain(..).partition(waits);
        self.queue = rest.into();
        for queued in now {
            self.taken(&queued);
            self.transcript.queue("remove", Some(&queued.text));
            let notification = queued.source == Source::Notification;
            let id = queued.id.clone().unwrap_or_else(|| self.clothes.new_id());
            self.transcript.queued_command(&queued.text, &id, notification);
            if queued.source != Source::Notification {
                self.view.say(&format!("> {}", queued.text));
            }
            let directives = self.plan(&queued.text);
            let Some(turn) = &mut self.turn else { return };
            let at = turn.steps.iter().position(|it| matches!(it, Step::Answer)).unwrap_or(turn.steps.len());
            for (offset, directive) in directives.into_iter().enumerate() {
                turn.steps.insert(at + offset, Step::Do(directive));
            }
        }
    }

    /// Puts queued prompts back into the composer.
    pub(super) fn unqueue(&mut self) {
        let (prompts, rest): (Vec<_>, Vec<_>) =
            self.queue.drain(..).partition(|it| it.source != Source::Notification);
        self.queue = rest.into();
        for queued in prompts {
            self.transcript.queue("remove", Some(&queued.text));
            if !self.composer.is_empty() {
                self.composer.insert("\n");
            }
            self.paste(&queued.text);
        }
    }
}
