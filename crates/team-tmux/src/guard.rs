//! Conditions that the server itself checks in the same step as an act, so that nothing can change
//! in between. Knows formats; knows no command that acts.

use crate::batch::{all, equals, is_not, line_containing};
use crate::pane::{Pane, PaneId};
use crate::screen::Screen;
use crate::terminal::Fence;
use crate::typing::Typed;
use crate::{Result, TmuxError};

/// What must be true of a pane's screen at the very moment of typing.
///
/// Texts are compared exactly, case included, within single rows of the screen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Guard {
    /// All of these must be on the screen.
    pub only_if: Vec<String>,
    /// None of these may be on the screen.
    pub unless: Vec<String>,
    /// Where the cursor must be: column and row, from 0. It moves when somebody types.
    pub cursor: Option<(u16, u16)>,
}

impl Guard {
    /// Tells whether typing would be allowed on this screen.
    pub fn allows(&self, screen: &Screen) -> bool {
        let shows = |text: &String| screen.contains(text);
        self.only_if.iter().all(shows)
            && !self.unless.iter().any(shows)
            && self.cursor.is_none_or(|cursor| cursor == screen.cursor)
    }

    fn conditions(&self) -> impl Iterator<Item = String> {
        let shown = self.only_if.iter().map(|text| line_containing(text));
        let not_shown = self.unless.iter().map(|text| format!("#{{?{},0,1}}", line_containing(text)));
        let cursor = self
            .cursor
            .into_iter()
            .flat_map(|(column, row)| [equals("cursor_x", column), equals("cursor_y", row)]);
        shown.chain(not_shown).chain(cursor)
    }
}

/// In whose name something is done.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scope<'a> {
    /// On our own server, as the holder of an epoch.
    Ours(&'a Fence),
    /// On the user's server, which carries no mark of ours: only while it is this process.
    Users { server_pid: u32 },
}

impl Scope<'_> {
    pub(crate) fn conditions(self) -> Vec<String> {
        match self {
            Self::Ours(fence) => {
                vec![equals("@team_epoch", fence.epoch), equals("@team_workspace", &fence.workspace)]
            }
            Self::Users { server_pid } => vec![equals("pid", server_pid)],
        }
    }
}

/// The condition that an id still names the pane that is meant.
pub(crate) fn is_pane(pane: Pane) -> String {
    all([equals("pane_id", pane.id), equals("pane_pid", pane.pid)])
}

/// The condition under which something may be typed into a pane.
pub(crate) fn may_type(scope: Scope<'_>, pane: Pane, in_mode: bool, guard: &Guard) -> String {
    let mut conditions = scope.conditions();
    conditions.extend([is_pane(pane), is_not("pane_dead"), is_not("pane_input_off")]);
    if !in_mode {
        conditions.push(is_not("pane_in_mode"));
    }
    conditions.extend(guard.conditions());
    all(conditions)
}

/// What a script prints, as a format, when a condition was not met.
pub(crate) const STATE: &str = "STATE\t#{@team_epoch}\t#{@team_workspace}\t#{pid}\t#{pane_id}\t#{pane_pid}\t\
     #{pane_dead}\t#{pane_input_off}\t#{pane_in_mode}";

/// How things stood when a condition was not met.
#[derive(Debug)]
pub(crate) struct State {
    epoch: Option<u64>,
    workspace: String,
    server_pid: Option<u32>,
    pane: Option<Pane>,
    dead: bool,
    input_off: bool,
    in_mode: bool,
}

impl State {
    /// Reads a line that [`STATE`] has printed.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let fields: Vec<_> = line.strip_prefix("STATE\t")?.split('\t').collect();
        let [epoch, workspace, server_pid, pane_id, pane_pid, dead, input_off, in_mode] = fields[..] else {
            return None;
        };
        let is_set = |field: &str| !matches!(field, "" | "0");
        let id = pane_id.parse::<PaneId>().ok();
        Some(Self {
            epoch: epoch.parse().ok(),
            workspace: workspace.to_owned(),
            server_pid: server_pid.parse().ok(),
            pane: id.zip(pane_pid.parse().ok()).map(|(id, pid)| Pane { id, pid }),
            dead: is_set(dead),
            input_off: is_set(input_off),
            in_mode: is_set(in_mode),
        })
    }

    /// Fails if it was the fence that did not let the act pass.
    pub(crate) fn check_fence(&self, fence: &Fence) -> Result<()> {
        if self.epoch == Some(fence.epoch) && self.workspace == fence.workspace {
            return Ok(());
        }
        Err(TmuxError::Fenced {
            held: self.epoch.unwrap_or(0),
            workspace: self.workspace.clone(),
            ours: fence.epoch,
        })
    }

    /// Says why nothing was typed.
    pub(crate) fn refusal(&self, scope: Scope<'_>, pane: Pane, in_mode: bool) -> Result<Typed> {
        match scope {
            Scope::Ours(fence) => self.check_fence(fence)?,
            Scope::Users { server_pid } if self.server_pid != Some(server_pid) => return Ok(Typed::Gone),
            Scope::Users { .. } => {}
        }
        Ok(if self.pane != Some(pane) {
            Typed::Gone
        } else if self.dead {
            Typed::Dead
        } else if self.input_off {
            Typed::InputOff
        } else if self.in_mode && !in_mode {
            Typed::InMode
        } else {
            Typed::Guarded
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_first_thing_that_was_wrong() {
        let fence = Fence { epoch: 5, workspace: "ws".to_owned() };
        let pane = Pane { id: PaneId::new(3), pid: 70 };
        let check = |line: &str| {
            let state = State::parse(line).unwrap();
            state.refusal(Scope::Ours(&fence), pane, false).map_err(|err| err.to_string())
        };
        assert_eq!(check("STATE\t5\tws\t1\t%3\t70\t1\t1\t1"), Ok(Typed::Dead));
        assert_eq!(check("STATE\t5\tws\t1\t%3\t70\t0\t1\t1"), Ok(Typed::InputOff));
        assert_eq!(check("STATE\t5\tws\t1\t%3\t70\t\t0\t1"), Ok(Typed::InMode));
        assert_eq!(check("STATE\t5\tws\t1\t%3\t70\t0\t0\t0"), Ok(Typed::Guarded));
        assert_eq!(check("STATE\t5\tws\t1\t%3\t71\t0\t0\t0"), Ok(Typed::Gone));
        assert_eq!(check("STATE\t5\tws\t1\t\t\t\t\t"), Ok(Typed::Gone));
        assert!(check("STATE\t6\tws\t1\t%3\t70\t0\t0\t0").unwrap_err().contains("epoch 6"));
        assert!(check("STATE\t\t\t1\t%3\t70\t0\t0\t0").unwrap_err().contains("epoch 0"));
    }
}
