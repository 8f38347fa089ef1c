//! The only place that prints. Data goes to standard output, talk to standard error.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;
use serde_json::{Map, Value, json};
use team_engine::ErrorKind;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::error::{CliError, Failure, exit_code};

/// How wide everything is that has columns.
const COLUMNS: usize = 80;

/// The least room that the last column of a table is left.
const LAST: usize = 16;

const LOUD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// Where output goes, and in which form.
#[derive(Debug)]
pub(crate) struct Ui {
    json: bool,
    command: String,
    color: bool,
    /// Why something did not reach its reader.
    lost: RefCell<Option<std::io::Error>>,
}

#[expect(clippy::unused_self, reason = "to print, one has to be handed this")]
impl Ui {
    pub(crate) fn new(json: bool, command: &str) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|it| it == "dumb");
        let color = std::io::stdout().is_terminal() && !plain && !dumb;
        Self { json, command: command.to_owned(), color, lost: RefCell::new(None) }
    }

    /// Whether answers are JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Whether a person sits at the terminal and can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        !self.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Asks a person; anything but a yes is a no.
    pub(crate) fn ask(&self, question: &str) -> bool {
        let mut err = std::io::stderr().lock();
        let _ = err.write_all(question.as_bytes()).and_then(|()| err.flush());
        ASKING.store(true, Ordering::Relaxed);
        let mut answer = String::new();
        let read = std::io::stdin().read_line(&mut answer);
        ASKING.store(false, Ordering::Relaxed);
        read.is_ok() && is_yes(&answer)
    }

    /// Prints a line of data; says whether somebody still reads.
    pub(crate) fn line(&self, text: &str) -> bool {
        self.put(format!("{}\n", printable(text)).as_bytes())
    }

    /// Why something of the data did not reach its reader, if so.
    pub(crate) fn lost(&self) -> Option<String> {
        self.lost.borrow().as_ref().map(ToString::to_string)
    }

    /// Whether data was lost for another reason than that its reader went away.
    pub(crate) fn failed(&self) -> bool {
        self.lost.borrow().as_ref().is_some_and(|it| it.kind() != std::io::ErrorKind::BrokenPipe)
    }

    fn put(&self, bytes: &[u8]) -> bool {
        let mut out = std::io::stdout().lock();
        match out.write_all(bytes).and_then(|()| out.flush()) {
            Ok(()) => true,
            Err(error) => {
                self.lost.borrow_mut().get_or_insert(error);
                false
            }
        }
    }

    /// Prints a line of talk.
    pub(crate) fn say(&self, text: &str) {
        // Nobody reads: then nobody misses it.
        let _ = writeln!(std::io::stderr().lock(), "{}", printable(text));
    }

    /// Says what goes on without this command when it is interrupted, which then ends it.
    pub(crate) fn on_interrupt_starts_go_on(&self) {
        use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
        extern "C" fn told(_: i32) {
            let text: &[u8] =
                b"\nagents go on starting; `team-agent status` shows them, `team-agent shutdown` ends them\n";
            let text = if ASKING.load(Ordering::Relaxed) { b"\n" } else { text };
            let _ = nix::unistd::write(std::io::stderr(), text);
            // SAFETY: it may be called in a handler.
            #[expect(unsafe_code, reason = "a handler may not run what an ordinary end runs")]
            unsafe {
                nix::libc::_exit(130)
            }
        }
        let action = SigAction::new(SigHandler::Handler(told), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler calls nothing but write and _exit.
        #[expect(unsafe_code, reason = "handlers are set so")]
        let _ = unsafe { sigaction(Signal::SIGINT, &action) };
    }

    /// Prints text exactly; says whether somebody still reads.
    pub(crate) fn raw(&self, text: &str) -> bool {
        self.put(text.as_bytes())
    }

    /// Prints a text over as many lines as it takes, the later ones behind as many spaces as `head` is wide.
    pub(crate) fn paragraph(&self, head: &str, text: &str) {
        let indent = " ".repeat(width(head));
        let room = COLUMNS.saturating_sub(width(head)).max(LAST);
        for (at, part) in wrap(text, room).iter().enumerate() {
            self.line(&format!("{}{part}", if at == 0 { head } else { indent.as_str() }));
        }
    }

    /// Cuts a text to one line of the usual width.
    pub(crate) fn fit(&self, text: &str) -> String {
        fit(text, COLUMNS)
    }

    /// Fills a text up to that many columns.
    pub(crate) fn pad(&self, text: &str, columns: usize) -> String {
        format!("{text}{}", " ".repeat(columns.saturating_sub(width(text))))
    }

    /// Makes a word stand out where the terminal can.
    pub(crate) fn loud(&self, text: &str) -> String {
        if self.color { format!("{LOUD}{text}{PLAIN}") } else { text.to_owned() }
    }

    /// Shows an answer, as one flat JSON object or as `show` does it, and returns the exit code. A `failure` says that
    /// not all went well although there is something to show.
    pub(crate) fn answer(
        &self,
        answer: &impl Serialize,
        failure: Option<&CliError>,
        show: impl FnOnce(&Self),
    ) -> u8 {
        if self.json {
            self.object(answer, failure);
        } else {
            show(self);
            if let Some(failure) = failure {
                self.tell(failure);
            }
        }
        failure.map_or(0, |it| exit_code(it.kind))
    }

    /// Prints an error and returns its exit code.
    pub(crate) fn error(&self, error: &CliError) -> u8 {
        if self.json {
            self.object(&json!({}), Some(error));
        } else {
            self.tell(error);
        }
        exit_code(error.kind)
    }

    fn object(&self, answer: &impl Serialize, failure: Option<&CliError>) {
        let mut all = fields(answer);
        if let Some(it) = failure {
            all.extend(fields(&Failure::from(it)));
        }
        all.insert("schema_version".to_owned(), Value::from(team_engine::ops::SCHEMA_VERSION));
        all.insert("ok".to_owned(), Value::from(failure.is_none()));
        all.insert("command".to_owned(), Value::from(self.command.as_str()));
        self.raw(&format!("{}\n", Value::Object(all)));
    }

    fn tell(&self, error: &CliError) {
        if error.verbatim.as_ref().is_some_and(|it| it.is_empty()) {
            return;
        }
        match (&error.verbatim, error.kind) {
            (Some(text), _) => self.say(text.trim_end()),
            (_, ErrorKind::NotYet) => self.say(&format!("not yet: {}", error.message)),
            _ => self.say(&format!("error: {}", error.message)),
        }
        if let Some(hint) = &error.hint {
            self.say(&format!("hint: {hint}"));
        }
    }

    /// Prints a table of 80 columns. The last column takes what the others leave and goes on over several lines.
    pub(crate) fn table(&self, head: &[&str], rows: &[Vec<String>]) {
        for line in table(head, rows) {
            self.line(&line);
        }
    }

    /// Ends the process when nobody reads its output any more, also while there is nothing to write.
    pub(crate) fn end_with_reader(&self) {
        std::thread::spawn(|| {
            let out = std::io::stdout();
            let mut watched = [PollFd::new(out.as_fd(), PollFlags::empty())];
            loop {
                match poll(&mut watched, PollTimeout::NONE) {
                    Ok(0) | Err(nix::errno::Errno::EINTR) => {}
                    Ok(_) => {
                        // The main thread waits for something else.
                        std::process::exit(0);
                    }
                    Err(_) => return,
                }
            }
        });
    }
}

/// Whether an answer is waited for: nothing has begun yet that would go on.
static ASKING: AtomicBool = AtomicBool::new(false);

/// Whether the answer to a question is a yes.
fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Whether a person looks at what is printed.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

fn fields(answer: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(answer) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// Says that something is wrong with the program itself; for the panic hook.
pub(crate) fn bug(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic.location().map(|it| format!(" at {}:{}", it.file(), it.line())).unwrap_or_default();
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("it gave up");
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "error: this is a bug in team-agent {}: {text}{place}", env!("CARGO_PKG_VERSION"));
    if std::env::var_os("RUST_BACKTRACE").is_some_and(|it| it != "0") {
        let _ = writeln!(err, "{}", std::backtrace::Backtrace::force_capture());
    }
    let _ = writeln!(err, "hint: {BUG_HINT}");
}

/// What to do about a bug.
pub(crate) const BUG_HINT: &str = "nothing in the log is lost; run `team-agent doctor`, and report this with what `RUST_BACKTRACE=1` adds to it";

/// Takes out of a text what a terminal would obey, but for our own marks.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(it) = rest.chars().next() {
        if let Some(mark) = [LOUD, PLAIN].into_iter().find(|mark| rest.starts_with(mark)) {
            out.push_str(mark);
            rest = &rest[mark.len()..];
            continue;
        }
        let obeyed = it.is_control() && !matches!(it, '\n' | '\t')
            || matches!(it, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        out.push(if obeyed { '\u{fffd}' } else { it });
        rest = &rest[it.len_utf8()..];
    }
    out
}

/// Columns that a text takes: wide scripts take two each, our own marks none.
fn width(text: &str) -> usize {
    if text.contains('\x1b') { text.replace(LOUD, "").replace(PLAIN, "").width() } else { text.width() }
}

fn table(head: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let Some(last) = head.len().checked_sub(1) else { return Vec::new() };
    let head: Vec<String> = head.iter().map(|it| (*it).to_owned()).collect();
    let all = || std::iter::once(&head).chain(rows);
    let mut widths: Vec<usize> = (0..last)
        .map(|at| all().filter_map(|row| row.get(at)).map(|it| width(it)).max().unwrap_or(0))
        .collect();
    // The widest column gives way first, so that names stay whole as long as they can.
    let room = COLUMNS - LAST - 2 * last;
    while widths.iter().sum::<usize>() > room {
        if let Some(widest) = widths.iter_mut().max() {
            *widest -= 1;
        }
    }
    let left: usize = widths.iter().map(|it| it + 2).sum();
    let mut lines = Vec::new();
    for row in all() {
        let mut line = String::new();
        for (cell, room) in row.iter().zip(&widths) {
            let cell = fit(cell, *room);
            let gap = room.saturating_sub(width(&cell)) + 2;
            let _ = write!(line, "{cell}{}", " ".repeat(gap));
        }
        let parts = wrap(row.get(last).map_or("", String::as_str), COLUMNS - left);
        for (at, part) in parts.iter().enumerate() {
            let before = if at == 0 { line.clone() } else { " ".repeat(left) };
            lines.push(format!("{before}{part}").trim_end().to_owned());
        }
    }
    lines
}

/// Cuts a text to that many columns.
fn fit(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let (mut out, mut used) = (String::new(), 0);
    for it in text.chars() {
        let columns = it.width().unwrap_or(0);
        if used + columns + 1 > room {
            break;
        }
        used += columns;
        out.push(it);
    }
    out.push('…');
    out
}

/// Breaks a text into lines of at most that many columns, between words where it can. There is always one line.
fn wrap(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in text.split_whitespace() {
        let columns = width(word);
        if used > 0 && used + 1 + columns <= room {
            if let Some(line) = lines.last_mut() {
                line.push(' ');
                line.push_str(word);
            }
            used += 1 + columns;
            continue;
        }
        if used > 0 {
            lines.push(String::new());
            used = 0;
        }
        for it in word.chars() {
            let columns = it.width().unwrap_or(0);
            if used + columns > room && used > 0 {
                lines.push(String::new());
                used = 0;
            }
            if let Some(line) = lines.last_mut() {
                line.push(it);
            }
            used += columns;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<String> {
        cells.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn columns_stand_below_each_other_in_every_script() {
        let rows =
            [row(&["研究员", "idle", "等待"]), row(&["ünï", "working", ""]), row(&["w1", "idle", "owes 1"])];
        insta::assert_snapshot!(table(&["AGENT", "DOING", "NOTES"], &rows).join("\n"), @r"
        AGENT   DOING    NOTES
        研究员  idle     等待
        ünï     working
        w1      idle     owes 1
        ");
    }

    #[test]
    fn a_table_is_never_wider_than_80_columns_and_its_last_column_loses_nothing() {
        let name = "研".repeat(32);
        let note = "does not start: ".to_owned() + &"needs a word of explanation ".repeat(8);
        let rows = [
            row(&[&name, "opencode", "AWAITING_APPROVAL", &note]),
            row(&["w1", "fake", "idle", &"#".repeat(200)]),
        ];
        let lines = table(&["AGENT", "PROVIDER", "DOING", "NOTES"], &rows);
        assert!(lines.iter().all(|it| width(it) <= COLUMNS), "{lines:#?}");
        let text = lines.join(" ");
        assert_eq!(text.matches("explanation").count(), 8, "{lines:#?}");
        assert_eq!(text.matches('#').count(), 200, "{lines:#?}");
        assert!(text.contains("AWAITING_APPROVAL") && text.contains("opencode"), "{lines:#?}");
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown_and_not_sent() {
        let text = printable("a\x1b[31mred\x07\u{9b}2J\u{202e}b\tc\nd");
        assert_eq!(text, "a\u{fffd}[31mred\u{fffd}\u{fffd}2J\u{fffd}b\tc\nd");
        assert_eq!(printable("\x1b[1mloud\x1b[0m"), "\x1b[1mloud\x1b[0m");
    }

    #[test]
    fn a_text_of_no_words_is_one_empty_line() {
        assert_eq!(wrap(" ", 10), [""]);
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefghij", 4), ["abcd", "efgh", "ij"]);
    }
}
