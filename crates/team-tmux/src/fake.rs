//! A [`Terminal`] in memory, for tests of those who use one: panes show what the test says, inputs
//! are kept, and any call can be made to fail. It refuses what the real one refuses, by the same
//! rules, except that it looks at no file, and its process ids are higher than any real one.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::env::CleanEnv;
use crate::pane::{
    Closed, Exit, HEIGHT, OpenPane, OpenedPane, Pane, PaneId, PaneInfo, Viewers, WIDTH, WindowId,
};
use crate::screen::Screen;
use crate::terminal::{Fence, ServerInfo, Terminal};
use crate::text::clean_text;
use crate::typing::{Key, Paste, Pasted, Press, Pressed, Typed, check_mark};
use crate::{Guard, Result, TmuxError, panes};

const FIRST_PID: u32 = 5_000_000;

/// A call of [`Terminal`], for counting and for making it fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the method of that name")]
pub enum Operation {
    Probe,
    StartServer,
    ClaimEpoch,
    Open,
    Panes,
    Paste,
    Press,
    Screens,
    Close,
    KillServer,
}

/// Something that reached a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FakeInput {
    /// A text, with or without Enter after it.
    Paste {
        /// The pane.
        pane: Pane,
        /// The text as it arrived.
        text: String,
        /// Whether Enter followed.
        enter: bool,
    },
    /// A key.
    Press {
        /// The pane.
        pane: Pane,
        /// The key.
        key: Key,
    },
}

impl FakeInput {
    /// Returns the pane that it reached.
    pub fn pane(&self) -> Pane {
        match self {
            Self::Paste { pane, .. } | Self::Press { pane, .. } => *pane,
        }
    }
}

type Answer = Box<dyn FnMut(&FakeInput) -> Option<Screen> + Send>;

/// A handle on a world of fake panes.
///
/// Clones share the world and each has its own claimed epoch, like the terminals of several
/// processes. A test keeps one clone to arrange and look, and gives another one away.
#[derive(Clone)]
pub struct FakeTerminal {
    world: Arc<Mutex<World>>,
    fence: Option<Fence>,
}

struct FakePane {
    asked: OpenPane,
    info: PaneInfo,
    screen: Screen,
    frames: VecDeque<Screen>,
}

struct Fault {
    operation: Operation,
    error: TmuxError,
    after: bool,
}

#[derive(Default)]
struct World {
    server: Option<ServerInfo>,
    sessions: Vec<String>,
    owner: Option<Fence>,
    panes: BTreeMap<PaneId, FakePane>,
    next_pane: u32,
    pids: u32,
    inputs: Vec<FakeInput>,
    calls: Vec<Operation>,
    faults: Vec<Fault>,
    answer: Option<Answer>,
}

impl fmt::Debug for FakeTerminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeTerminal").field("fence", &self.fence).finish_non_exhaustive()
    }
}

impl Default for FakeTerminal {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeTerminal {
    /// Makes a world without a server.
    pub fn new() -> Self {
        Self { world: Arc::default(), fence: None }
    }

    /// Returns a handle that has claimed nothing, like that of another process.
    #[must_use]
    pub fn unclaimed(&self) -> Self {
        Self { world: Arc::clone(&self.world), fence: None }
    }

    /// Finds the newest pane with this mark.
    pub fn find(&self, tag: &str) -> Option<Pane> {
        let world = self.world();
        let has_tag = |pane: &&FakePane| pane.info.tag.as_deref() == Some(tag);
        world.panes.values().rev().find(has_tag).map(|pane| pane.info.pane)
    }

    /// Returns what was asked for when each pane that exists was opened.
    pub fn opened(&self) -> Vec<(Pane, OpenPane)> {
        self.world().panes.values().map(|pane| (pane.info.pane, pane.asked.clone())).collect()
    }

    /// Lets a pane show something.
    pub fn show(&self, pane: Pane, screen: Screen) {
        self.change(pane, |pane| pane.screen = screen);
    }

    /// Lets a pane show these, one after the other, each after one more input.
    pub fn show_after_inputs(&self, pane: Pane, frames: impl IntoIterator<Item = Screen>) {
        self.change(pane, |pane| pane.frames = frames.into_iter().collect());
    }

    /// Lets a function see each input and say what the pane shows after it.
    ///
    /// It runs in the middle of a call and must not use the terminal itself.
    pub fn on_input(&self, answer: impl FnMut(&FakeInput) -> Option<Screen> + Send + 'static) {
        self.world().answer = Some(Box::new(answer));
    }

    /// Changes anything that is listed about a pane, such as its mode, title or viewers.
    pub fn edit(&self, pane: Pane, edit: impl FnOnce(&mut PaneInfo)) {
        self.change(pane, |pane| edit(&mut pane.info));
    }

    /// Lets a pane's program end; the pane stays, dead.
    pub fn exits(&self, pane: Pane, exit: Exit) {
        self.change(pane, |pane| pane.info.exit = Some(exit));
    }

    /// Takes a pane away, as a person might.
    pub fn remove(&self, pane: Pane) {
        self.world().panes.retain(|_, it| it.info.pane != pane);
    }

    /// Ends the server and all panes with it. Ids start from the beginning in the next one.
    pub fn server_dies(&self) {
        self.world().end_server();
    }

    /// Lets the next call of this kind fail without having an effect.
    pub fn fail_next(&self, operation: Operation, error: TmuxError) {
        self.world().faults.push(Fault { operation, error, after: false });
    }

    /// Lets the next call of this kind have its effect and then fail.
    pub fn fail_next_after_effect(&self, operation: Operation, error: TmuxError) {
        self.world().faults.push(Fault { operation, error, after: true });
    }

    /// Returns everything that reached a program, in order.
    pub fn inputs(&self) -> Vec<FakeInput> {
        self.world().inputs.clone()
    }

    /// Returns the inputs since the last time and forgets them.
    pub fn take_inputs(&self) -> Vec<FakeInput> {
        std::mem::take(&mut self.world().inputs)
    }

    /// Counts the calls of one kind, failed ones too.
    pub fn calls(&self, operation: Operation) -> usize {
        self.world().calls.iter().filter(|it| **it == operation).count()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, pane: Pane, change: impl FnOnce(&mut FakePane)) {
        let mut world = self.world();
        let found = world.panes.get_mut(&pane.id).filter(|it| it.info.pane == pane);
        change(found.expect("a test names a pane that exists"));
    }

    /// Does something as one call: counted, failing if so arranged, on a server and in an epoch if
    /// it needs them.
    fn call<T>(
        &self,
        operation: Operation,
        needs: Needs,
        act: impl FnOnce(&mut World) -> Result<T>,
    ) -> Result<T> {
        let mut world = self.world();
        world.calls.push(operation);
        let fault = world.faults.iter().position(|fault| fault.operation == operation);
        let fault = fault.map(|at| world.faults.remove(at));
        if let Some(Fault { error, after: false, .. }) = fault {
            return Err(error);
        }
        if needs == Needs::Epoch {
            let fence = self.fence.as_ref().ok_or(TmuxError::Unclaimed)?;
            world.expect_server()?;
            world.check_owner(fence)?;
        } else if needs == Needs::Server {
            world.expect_server()?;
        }
        let value = act(&mut world)?;
        match fault {
            Some(Fault { error, .. }) => Err(error),
            None => Ok(value),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    Server,
    Epoch,
}

impl World {
    fn next_pid(&mut self) -> u32 {
        self.pids += 1;
        FIRST_PID + self.pids
    }

    fn expect_server(&self) -> Result<()> {
        match self.server {
            Some(_) => Ok(()),
            None => Err(TmuxError::NoServer { socket: "fake".into() }),
        }
    }

    fn check_owner(&self, fence: &Fence) -> Result<()> {
        match &self.owner {
            Some(owner) if owner == fence => Ok(()),
            owner => Err(fenced(owner.as_ref(), fence)),
        }
    }

    fn end_server(&mut self) {
        self.server = None;
        self.owner = None;
        self.sessions.clear();
        self.panes.clear();
        self.next_pane = 0;
    }

    fn open(&mut self, index: usize, asked: &OpenPane) -> OpenedPane {
        // The first pane of a server belongs to the session it was started with.
        self.next_pane += 1;
        let (id, window) = (PaneId::new(self.next_pane), WindowId::new(self.next_pane));
        let pane = Pane { id, pid: self.next_pid() };
        let info = PaneInfo {
            pane,
            exit: None,
            window,
            window_name: asked.window_name.clone(),
            session: asked.session.clone(),
            tag: asked.tag.clone(),
            typed: None,
            title: String::new(),
            in_mode: false,
            input_off: false,
            width: WIDTH,
            height: HEIGHT,
            cursor: (0, 0),
            activity: 0,
            viewers: Viewers::default(),
        };
        let screen = Screen::plain("");
        self.panes.insert(id, FakePane { asked: asked.clone(), info, screen, frames: VecDeque::new() });
        OpenedPane { index, pane, window, tag: asked.tag.clone() }
    }

    fn may_type(&self, pane: Pane, in_mode: bool, guard: &Guard) -> Typed {
        let Some(found) = self.panes.get(&pane.id).filter(|it| it.info.pane == pane) else {
            return Typed::Gone;
        };
        if found.info.exit.is_some() {
            Typed::Dead
        } else if found.info.input_off {
            Typed::InputOff
        } else if found.info.in_mode && !in_mode {
            Typed::InMode
        } else if guard.allows(&found.screen) {
            Typed::Done
        } else {
            Typed::Guarded
        }
    }

    fn deliver(&mut self, input: FakeInput) {
        let answered = self.answer.as_mut().and_then(|answer| answer(&input));
        if let Some(pane) = self.panes.get_mut(&input.pane().id)
            && let Some(screen) = answered.or_else(|| pane.frames.pop_front())
        {
            pane.screen = screen;
        }
        self.inputs.push(input);
    }
}

fn fenced(owner: Option<&Fence>, fence: &Fence) -> TmuxError {
    TmuxError::Fenced {
        held: owner.map_or(0, |owner| owner.epoch),
        workspace: owner.map_or_else(String::new, |owner| owner.workspace.clone()),
        ours: fence.epoch,
    }
}

impl Terminal for FakeTerminal {
    fn probe(&mut self) -> Result<Option<ServerInfo>> {
        self.call(Operation::Probe, Needs::Nothing, |world| Ok(world.server.clone()))
    }

    fn start_server(&mut self, _env: &CleanEnv, session: &str) -> Result<ServerInfo> {
        panes::check_session_name(session)?;
        self.call(Operation::StartServer, Needs::Nothing, |world| {
            if let Some(info) = &world.server {
                return Ok(info.clone());
            }
            let pid = world.next_pid();
            let info = ServerInfo { pid, start_time: u64::from(pid), version: "3.3a".to_owned() };
            world.sessions.push(session.to_owned());
            Ok(world.server.insert(info).clone())
        })
    }

    fn claim_epoch(&mut self, fence: &Fence) -> Result<()> {
        fence.check()?;
        self.call(Operation::ClaimEpoch, Needs::Server, |world| {
            let refuses = |owner: &Fence| owner.epoch > fence.epoch || owner.workspace != fence.workspace;
            if world.owner.as_ref().is_some_and(refuses) {
                return Err(fenced(world.owner.as_ref(), fence));
            }
            world.owner = Some(fence.clone());
            Ok(())
        })?;
        self.fence = Some(fence.clone());
        Ok(())
    }

    fn open(&mut self, panes: &[OpenPane]) -> Result<Vec<OpenedPane>> {
        self.call(Operation::Open, Needs::Epoch, |world| {
            panes.iter().try_for_each(panes::check_words)?;
            Ok(panes.iter().enumerate().map(|(index, pane)| world.open(index, pane)).collect())
        })
    }

    fn panes(&mut self) -> Result<Vec<PaneInfo>> {
        self.call(Operation::Panes, Needs::Server, |world| {
            let info = |pane: &FakePane| PaneInfo { cursor: pane.screen.cursor, ..pane.info.clone() };
            Ok(world.panes.values().map(info).collect())
        })
    }

    fn paste(&mut self, pane: Pane, text: &str, paste: &Paste) -> Result<Pasted> {
        self.call(Operation::Paste, Needs::Epoch, |world| {
            let text = clean_text(text).text.into_owned();
            if text.is_empty() {
                return Err(TmuxError::EmptyText);
            }
            paste.mark.as_deref().map_or(Ok(()), check_mark)?;
            let typed = world.may_type(pane, paste.leave_mode, &paste.guard);
            if typed == Typed::Done {
                if let Some(found) = world.panes.get_mut(&pane.id) {
                    found.info.in_mode = false;
                    found.info.typed = paste.mark.clone().or(found.info.typed.take());
                }
                world.deliver(FakeInput::Paste { pane, text, enter: paste.enter });
            }
            Ok(typed)
        })
    }

    fn press(&mut self, presses: &[Press]) -> Result<Vec<Pressed>> {
        self.call(Operation::Press, Needs::Epoch, |world| {
            presses.iter().try_for_each(|press| press.key.check())?;
            presses.iter().filter_map(|press| press.mark.as_deref()).try_for_each(check_mark)?;
            // All are checked before the programs see the first.
            let may_type = |Press { pane, guard, .. }: &Press| world.may_type(*pane, false, guard);
            let outcomes: Vec<_> = presses.iter().map(may_type).collect();
            for (Press { pane, key, mark, .. }, _) in
                presses.iter().zip(&outcomes).filter(|(_, typed)| **typed == Typed::Done)
            {
                if let Some(found) = world.panes.get_mut(&pane.id) {
                    found.info.typed = mark.clone().or(found.info.typed.take());
                }
                world.deliver(FakeInput::Press { pane: *pane, key: *key });
            }
            Ok(outcomes)
        })
    }

    fn screens(&mut self, panes: &[Pane]) -> Result<Vec<Option<Screen>>> {
        self.call(Operation::Screens, Needs::Server, |world| {
            let find = |pane: Pane| world.panes.get(&pane.id).filter(|it| it.info.pane == pane);
            let screen = |it: &FakePane| Screen { in_mode: it.info.in_mode, ..it.screen.clone() };
            Ok(panes.iter().map(|pane| find(*pane).map(screen)).collect())
        })
    }

    fn close(&mut self, panes: &[Pane]) -> Result<Vec<Closed>> {
        self.call(Operation::Close, Needs::Epoch, |world| {
            let close = |pane: Pane| {
                let is_there = world.panes.get(&pane.id).is_some_and(|it| it.info.pane == pane);
                if !is_there {
                    return Closed::Gone;
                }
                world.panes.remove(&pane.id);
                Closed::Done
            };
            Ok(panes.iter().copied().map(close).collect())
        })
    }

    fn kill_server(&mut self, expect: &ServerInfo) -> Result<()> {
        self.call(Operation::KillServer, Needs::Nothing, |world| {
            let Some(found) = &world.server else { return Ok(()) };
            if !found.is_same_process(expect) {
                let (expected, found) = (expect.pid, found.pid);
                return Err(TmuxError::OtherServer { socket: "fake".into(), expected, found });
            }
            world.check_owner(self.fence.as_ref().ok_or(TmuxError::Unclaimed)?)?;
            world.end_server();
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
