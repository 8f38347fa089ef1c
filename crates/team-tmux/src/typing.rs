//! Types into a pane: one text or some keys, each checked and done by the server in one step.
//! Whether it is right to type is for the caller to know; this makes sure that nothing is typed
//! into a dead, gone or changed pane, and that a text arrives exactly.

use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::batch::{quote, when};
use crate::call::Client;
use crate::guard::{Guard, STATE, Scope, State, may_type};
use crate::pane::Pane;
use crate::text::clean_text;
use crate::version::TmuxVersion;
use crate::{Result, TmuxError};

/// How a text is pasted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paste {
    /// Whether Enter follows in the same step.
    pub enter: bool,
    /// Whether copy mode and the like are left first; otherwise such a pane is refused.
    pub leave_mode: bool,
    /// What must be on the screen.
    pub guard: Guard,
    /// What the pane is to remember of it, as [`PaneInfo::typed`](crate::PaneInfo::typed): it is kept in the same
    /// step, so that whoever comes later knows whether the text was typed.
    pub mark: Option<String>,
}

/// A key that may be pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the key of that name")]
pub enum Key {
    Enter,
    Escape,
    Tab,
    BackTab,
    Space,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    CtrlC,
    CtrlD,
    CtrlU,
    /// 0 to 9.
    Digit(u8),
    /// An ASCII letter.
    Letter(char),
}

impl Key {
    /// Returns the flags and the name to send it by. Names that tmux does not know would be typed
    /// as text, so they come from here alone.
    fn words(self) -> Result<(&'static str, String)> {
        let name = match self {
            Self::Enter => "Enter",
            Self::Escape => "Escape",
            Self::Tab => "Tab",
            Self::BackTab => "BTab",
            Self::Space => "Space",
            Self::Backspace => "BSpace",
            Self::Up => "Up",
            Self::Down => "Down",
            Self::Left => "Left",
            Self::Right => "Right",
            Self::Home => "Home",
            Self::End => "End",
            Self::PageUp => "PageUp",
            Self::PageDown => "PageDown",
            Self::CtrlC => "C-c",
            Self::CtrlD => "C-d",
            Self::CtrlU => "C-u",
            Self::Digit(digit @ 0..=9) => return Ok(("-l ", digit.to_string())),
            Self::Letter(letter) if letter.is_ascii_alphabetic() => return Ok(("-l ", letter.to_string())),
            Self::Digit(_) | Self::Letter(_) => return Err(TmuxError::BadKey(format!("{self:?}"))),
        };
        Ok(("", name.to_owned()))
    }

    pub(crate) fn check(self) -> Result<()> {
        self.words().map(drop)
    }
}

/// One key for one pane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Press {
    /// The pane.
    pub pane: Pane,
    /// The key.
    pub key: Key,
    /// What must be on the screen. Keys of one call are checked against the same screen: the
    /// program has not yet seen the first when the second is checked.
    pub guard: Guard,
    /// What the pane is to remember of it, kept in the same step.
    pub mark: Option<String>,
}

impl Press {
    /// Makes a press without a guard, of which the pane remembers nothing.
    pub fn plain(pane: Pane, key: Key) -> Self {
        Self { pane, key, guard: Guard::default(), mark: None }
    }
}

/// What became of something that was to be typed. In all cases but the first no byte was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typed {
    /// tmux has queued it for the program.
    Done,
    /// The pane's program has ended.
    Dead,
    /// Input to the pane is switched off.
    InputOff,
    /// The pane is in copy mode or another mode, which would have taken the input.
    InMode,
    /// There is no such pane, or its id now belongs to another.
    Gone,
    /// The screen was not as the guard demands.
    Guarded,
}

/// What became of a paste.
pub type Pasted = Typed;
/// What became of a key.
pub type Pressed = Typed;

/// Texts of at most this many bytes stand in the script that pastes them.
const IN_SCRIPT: usize = 64 * 1024;

/// Pastes a text through a buffer of its own, which takes any length and any character.
pub(crate) fn paste(
    client: &Client,
    scope: Scope<'_>,
    server: Option<&TmuxVersion>,
    pane: Pane,
    text: &str,
    paste: &Paste,
) -> Result<Typed> {
    let text = clean_text(text).text;
    if text.is_empty() {
        return Err(TmuxError::EmptyText);
    }
    let id = pane.id;
    let buffer = buffer_name();
    // Brackets are tmux's own (-p), newlines stay newlines (-r); newer versions rewrite without -S.
    let exact = if server.is_some_and(TmuxVersion::rewrites_pastes) { " -S" } else { "" };
    let leave = if paste.leave_mode { format!("copy-mode -q -t {id} ; ") } else { String::new() };
    let enter = if paste.enter { format!(" ; send-keys -t {id} Enter") } else { String::new() };
    let mark = remember(pane, paste.mark.as_deref())?;
    let act = format!(
        "{leave}{mark}paste-buffer -p -r{exact} -d -b {buffer} -t {id}{enter} ; display-message -p OK"
    );
    let refuse = format!("delete-buffer -b {buffer} ; display-message -p -t {id} {}", quote(STATE));
    let condition = may_type(scope, pane, paste.leave_mode, &paste.guard);
    let target = id.to_string();
    let said = if client.is_attached() && text.len() <= IN_SCRIPT {
        let load = format!("set-buffer -b {buffer} -- {}\n", quote(text.as_ref()));
        client.expect_quickly("paste-buffer", &(load + &when(Some(&target), &condition, &act, &refuse)))?
    } else {
        let args: [&str; 12] = [
            "load-buffer",
            "-b",
            &buffer,
            "-",
            ";",
            "if-shell",
            "-F",
            "-t",
            &target,
            &condition,
            &act,
            &refuse,
        ];
        client.run("paste-buffer", args.map(OsString::from), Some(text.as_bytes()))?
    };
    outcome("paste-buffer", said.trim_end_matches('\n'), scope, pane, paste.leave_mode)
}

/// Presses keys, in order, each under its own condition.
pub(crate) fn press(client: &Client, scope: Scope<'_>, presses: &[Press]) -> Result<Vec<Typed>> {
    if presses.is_empty() {
        return Ok(Vec::new());
    }
    let mut script = String::new();
    for Press { pane, key, guard, mark } in presses {
        let target = pane.id.to_string();
        let (flags, name) = key.words()?;
        let mark = remember(*pane, mark.as_deref())?;
        let act = format!("{mark}send-keys {flags}-t {target} -- {name} ; display-message -p OK");
        let report = format!("display-message -p -t {target} {}", quote(STATE));
        script.push_str(&when(Some(&target), &may_type(scope, *pane, false, guard), &act, &report));
    }
    let said = client.expect_quickly("send-keys", &script)?;
    let lines: Vec<_> = said.lines().collect();
    if lines.len() != presses.len() {
        return Err(TmuxError::Unexpected { doing: "send-keys", text: said });
    }
    let results = lines.into_iter().zip(presses);
    results.map(|(line, press)| outcome("send-keys", line, scope, press.pane, false)).collect()
}

/// The command that lets a pane remember what was typed into it, to be put in front of the typing.
fn remember(pane: Pane, mark: Option<&str>) -> Result<String> {
    let Some(mark) = mark else { return Ok(String::new()) };
    check_mark(mark)?;
    Ok(format!("set-option -p -t {} @team_typed {} ; ", pane.id, quote(mark)))
}

/// Refuses a mark that would not read back as it is.
pub(crate) fn check_mark(mark: &str) -> Result<()> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if mark.is_empty() || !mark.bytes().all(fits) {
        return Err(TmuxError::BadName { what: "typing mark", name: mark.to_owned() });
    }
    Ok(())
}

fn outcome(doing: &'static str, line: &str, scope: Scope<'_>, pane: Pane, in_mode: bool) -> Result<Typed> {
    if line == "OK" {
        return Ok(Typed::Done);
    }
    match State::parse(line) {
        Some(state) => state.refusal(scope, pane, in_mode),
        None => Err(TmuxError::Unexpected { doing, text: line.to_owned() }),
    }
}

/// A name that no other call uses: a shared buffer would lose texts.
fn buffer_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    format!("team-agent-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
