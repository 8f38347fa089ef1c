//! The control file and its commands. Reads lines and what they mean; obeys none.

use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::dialog::Kind;
use crate::directive::{millis, seconds, split};

/// One line of a control file or script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Command {
    Busy(Duration),
    /// Ends the turn, with this answer.
    Idle(Option<String>),
    /// A directive for the running turn, or one of its own.
    Do(String),
    /// A tool call beside what the turn does.
    Call(String),
    Dialog(Kind, String),
    CloseDialog,
    EatEnter(Duration),
    SlowStart(Duration),
    Exit(i32),
    Kill,
    Draft(String),
    Submit(String),
    /// A person presses Enter.
    Enter,
    /// A person presses Escape.
    Escape,
    Title(String),
    Bracket(bool),
    WriteTranscript(bool),
    Hooks(bool),
    LateReceipt(Duration),
    /// `None`: no longer.
    DialogAfterEnter(Option<Duration>),
    Footer(String),
    Placeholder(String),
    Glyph(String),
    IgnoreSignals(bool),
    SpawnChild,
    SecondSessionStart,
    Compact,
    /// `None`: no longer.
    ApiError(Option<String>),
    /// The text that tells the reset; `None`: no longer.
    Limit(Option<String>),
    McpDelay(Duration),
    Mcp(bool),
    AnswerAfter(Duration),
    Say(String),
    /// Turn tabs of a submission into four spaces.
    Tabs(bool),
    AlternateScreen(bool),
    /// Hold the lines that follow for so long.
    Wait(Duration),
}

impl Command {
    /// Tells whether it can be obeyed before the first frame.
    pub(crate) fn at_once(&self) -> bool {
        match self {
            Self::Dialog(kind, _) => kind.at_start(),
            Self::Busy(_)
            | Self::Idle(_)
            | Self::Do(_)
            | Self::Call(_)
            | Self::Draft(_)
            | Self::Submit(_)
            | Self::Enter
            | Self::Escape
            | Self::SecondSessionStart
            | Self::SpawnChild
            | Self::Compact
            | Self::Say(_)
            | Self::Wait(_) => false,
            _ => true,
        }
    }
}

/// Reads one line; nothing for an empty line or a comment.
pub(crate) fn parse(line: &str) -> Option<Result<Command, String>> {
    let line = line.trim_end_matches(['\n', '\r']);
    let trimmed = line.trim_start();
    (!trimmed.is_empty() && !trimmed.starts_with('#')).then(|| command(trimmed))
}

fn command(line: &str) -> Result<Command, String> {
    // Texts keep their spaces: only the one after the word is taken.
    let (word, text) = line.split_once(' ').unwrap_or((line, ""));
    let rest = text.trim();
    let switch = || match rest {
        "on" | "" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("`{other}` is neither `on` nor `off`")),
    };
    Ok(match word {
        "busy" => Command::Busy(seconds(rest)?),
        "idle" => Command::Idle((!rest.is_empty()).then(|| rest.to_owned())),
        "do" => Command::Do(rest.to_owned()),
        "call" => Command::Call(rest.to_owned()),
        "dialog" => {
            let (name, detail) = split(rest);
            let kind = Kind::parse(name).ok_or_else(|| format!("no dialog is named `{name}`"))?;
            Command::Dialog(kind, detail.to_owned())
        }
        "close-dialog" => Command::CloseDialog,
        "eat-enter" => Command::EatEnter(millis(rest)?),
        "slow-start" => Command::SlowStart(seconds(rest)?),
        "exit" if rest.is_empty() => Command::Exit(0),
        "exit" => Command::Exit(rest.parse().map_err(|_| format!("`{rest}` is no exit code"))?),
        "kill" => Command::Kill,
        "draft" => Command::Draft(text.replace("\\n", "\n")),
        "submit" => Command::Submit(text.replace("\\n", "\n")),
        "enter" => Command::Enter,
        "escape" => Command::Escape,
        "rename-title" => Command::Title(rest.to_owned()),
        "no-bracket" => Command::Bracket(false),
        "bracket" => Command::Bracket(switch()?),
        "write-transcript" => Command::WriteTranscript(switch()?),
        "hooks" => Command::Hooks(switch()?),
        "late-receipt" => Command::LateReceipt(millis(rest)?),
        "dialog-after-enter" if rest == "off" => Command::DialogAfterEnter(None),
        "dialog-after-enter" => Command::DialogAfterEnter(Some(millis(rest)?)),
        "footer" => Command::Footer(text.to_owned()),
        "placeholder" => Command::Placeholder(text.to_owned()),
        "composer-glyph" => Command::Glyph(rest.to_owned()),
        "ignore-signals" => Command::IgnoreSignals(switch()?),
        "spawn-child" => Command::SpawnChild,
        "second-session-start" => Command::SecondSessionStart,
        "compact" => Command::Compact,
        "api-error" if rest == "off" => Command::ApiError(None),
        "api-error" => {
            Command::ApiError(Some(if rest.is_empty() { "server_error".to_owned() } else { rest.to_owned() }))
        }
        "limit" if rest == "off" => Command::Limit(None),
        "limit" => Command::Limit(Some(rest.to_owned())),
        "mcp-delay" => Command::McpDelay(seconds(rest)?),
        "mcp" => Command::Mcp(switch()?),
        "answer-after" => Command::AnswerAfter(millis(rest)?),
        "say" => Command::Say(text.to_owned()),
        "tabs-to-spaces" => Command::Tabs(switch()?),
        "alternate-screen" => Command::AlternateScreen(switch()?),
        "wait" => Command::Wait(millis(rest)?),
        other => return Err(format!("unknown command `{other}`")),
    })
}

/// A line that was appended, and where it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Appended {
    pub(crate) line: String,
    pub(crate) end: u64,
}

/// The control file, read from where the last process of this seat stopped.
#[derive(Debug)]
pub(crate) struct ControlFile {
    pub(crate) path: PathBuf,
    mark: PathBuf,
    offset: u64,
}

impl ControlFile {
    pub(crate) fn open(path: PathBuf) -> Self {
        let mut mark = path.clone().into_os_string();
        mark.push(".done");
        let mark = PathBuf::from(mark);
        let offset = std::fs::read_to_string(&mark).ok().and_then(|it| it.trim().parse().ok()).unwrap_or(0);
        Self { path, mark, offset }
    }

    /// Returns the complete lines that were appended since the last call.
    pub(crate) fn appended(&mut self) -> Vec<Appended> {
        let Ok(bytes) = self.rest(&self.path) else { return Vec::new() };
        let mut lines = Vec::new();
        for line in bytes.split_inclusive(|&it| it == b'\n').filter(|it| it.ends_with(b"\n")) {
            self.offset += line.len() as u64;
            let line = String::from_utf8_lossy(line).trim_end_matches(['\r', '\n']).to_owned();
            lines.push(Appended { line, end: self.offset });
        }
        lines
    }

    fn rest(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        let start = if file.metadata()?.len() < self.offset { 0 } else { self.offset };
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Remembers on disk that everything up to `end` was obeyed, so that no later process repeats it.
    pub(crate) fn done(&self, end: u64) {
        let _ = std::fs::write(&self.mark, end.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_keep_their_spaces() {
        assert_eq!(parse("draft  do not de "), Some(Ok(Command::Draft(" do not de ".to_owned()))));
        assert_eq!(parse("footer \n"), Some(Ok(Command::Footer(String::new()))));
        assert_eq!(parse("  # nothing"), None);
    }

    #[test]
    fn what_is_not_understood_says_so() {
        assert_eq!(parse("dialog tea"), Some(Err("no dialog is named `tea`".to_owned())));
        assert_eq!(parse("mcp maybe"), Some(Err("`maybe` is neither `on` nor `off`".to_owned())));
        assert_eq!(parse("jump"), Some(Err("unknown command `jump`".to_owned())));
    }

    #[test]
    fn a_line_is_read_once_and_only_when_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w1");
        let mut file = ControlFile::open(path.clone());
        assert_eq!(file.appended(), []);
        std::fs::write(&path, "busy 1\nid").unwrap();
        assert_eq!(file.appended(), [Appended { line: "busy 1".to_owned(), end: 7 }]);
        std::fs::write(&path, "busy 1\nidle\n").unwrap();
        let idle = Appended { line: "idle".to_owned(), end: 12 };
        assert_eq!(file.appended(), std::slice::from_ref(&idle));
        file.done(7);
        assert_eq!(ControlFile::open(path).appended(), [idle]);
    }
}
