//! One attached client that takes scripts over its standard input: a call costs a tenth of a
//! millisecond instead of a process. Knows how tmux frames its answers; knows no command.
//!
//! It is a convenience, never a need: where it cannot be had or has ended, a process is started for
//! the call as before. No output of panes is delivered to it and it counts for no size.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::batch::quote;

/// What the client is attached with; by `no-output` it is told apart from a person's client.
pub(crate) const ATTACH: [&str; 4] = ["-C", "attach-session", "-f", "no-output,ignore-size"];

/// How long an ended client is waited for.
const GONE: Duration = Duration::from_millis(200);

/// An attached client.
#[derive(Debug)]
pub(crate) struct Control {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
    /// What was read and is no whole line yet.
    rest: Vec<u8>,
    scripts: u64,
    /// Whether it has ever said anything: the first thing is that it is attached.
    heard: bool,
}

/// How a script ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// It was carried out; what it printed, and the errors of the lines that failed.
    Answered { printed: Vec<u8>, errors: Vec<u8> },
    /// The client had ended before anything was handed to it.
    Never,
    /// The client ended on the way: the server may have done some of it.
    Lost,
    /// No answer came in time.
    TooLate,
}

impl Control {
    /// Starts the client; it attaches while others go on.
    pub(crate) fn open(mut command: Command) -> Option<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        end_with_us(&mut command);
        let mut child = command.spawn().ok()?;
        let ends = child.stdin.take().zip(child.stdout.take());
        let Some((input, output)) = ends else {
            end(&mut child);
            return None;
        };
        let quiet = |flags: nix::Result<i32>| flags.is_ok();
        let nonblocking = FcntlArg::F_SETFL(OFlag::O_NONBLOCK);
        if !quiet(fcntl(&input, nonblocking)) || !quiet(fcntl(&output, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)))
        {
            end(&mut child);
            return None;
        }
        Some(Self { child, input, output, rest: Vec::new(), scripts: 0, heard: false })
    }

    /// Carries out a script of whole lines and returns what it printed.
    pub(crate) fn run(&mut self, script: &str, until: Instant) -> Done {
        // An end that was not noticed yet, and notices that have gathered.
        self.rest.clear();
        let mut seen = Vec::new();
        if !self.read(&mut seen) || seen.split(|it| *it == b'\n').any(is_exit) {
            return Done::Never;
        }
        self.rest = seen.split(|it| *it == b'\n').next_back().unwrap_or_default().to_vec();
        self.scripts += 1;
        let mark = format!("done-{}-{}", std::process::id(), self.scripts);
        let bytes = format!("{script}display-message -p {}\n", quote(&mark)).into_bytes();
        let mut frames = Frames::new(mark);
        let mut left = &bytes[..];
        loop {
            let time = until.saturating_duration_since(Instant::now());
            if time.is_zero() {
                return Done::TooLate;
            }
            let mut fds = vec![PollFd::new(self.output.as_fd(), PollFlags::POLLIN)];
            if !left.is_empty() {
                fds.push(PollFd::new(self.input.as_fd(), PollFlags::POLLOUT));
            }
            let timeout = PollTimeout::try_from(time + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
            match poll(&mut fds, timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return Done::Lost,
            }
            let may_write = fds.get(1).and_then(PollFd::any).unwrap_or(false);
            if may_write {
                match self.input.write(left) {
                    Ok(count) => left = &left[count..],
                    Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                    Err(_) if left.len() == bytes.len() => return Done::Never,
                    Err(_) => return Done::Lost,
                }
            }
            let mut bytes = std::mem::take(&mut self.rest);
            let lives = self.read(&mut bytes);
            let end = memrchr(&bytes).map_or(0, |it| it + 1);
            self.rest = bytes.split_off(end);
            for line in bytes.split_inclusive(|it| *it == b'\n') {
                if frames.take(line.strip_suffix(b"\n").unwrap_or(line)) {
                    return Done::Answered { printed: frames.printed, errors: frames.errors };
                }
            }
            if !lives {
                let untouched = frames.was_let_go() || self.never_attached();
                return if untouched { Done::Never } else { Done::Lost };
            }
        }
    }

    /// Says whether it has ended by itself before it was attached, as where this tmux knows no such client: then nothing
    /// that was written to it has reached the server.
    fn never_attached(&mut self) -> bool {
        let until = Instant::now() + GONE;
        while !self.heard && Instant::now() < until {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.code().is_some_and(|it| it != 0),
                Ok(None) => std::thread::sleep(Duration::from_micros(200)),
                Err(_) => break,
            }
        }
        false
    }

    /// Reads what is there; false when nothing can come any more.
    fn read(&mut self, into: &mut Vec<u8>) -> bool {
        let mut chunk = [0; 16 * 1024];
        loop {
            match self.output.read(&mut chunk) {
                Ok(0) => return false,
                Ok(count) => {
                    self.heard = true;
                    into.extend_from_slice(&chunk[..count]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::WouldBlock,
            }
        }
    }
}

/// The client ends when the thread that started it does, however that ends: a server never lets go of a control client
/// whose output nobody reads any more, and could not be ended.
#[cfg(target_os = "linux")]
fn end_with_us(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;
    let us = nix::unistd::getpid();
    // SAFETY: only async-signal-safe calls between fork and exec.
    #[expect(unsafe_code, reason = "what happens at the parent's death is set between fork and exec")]
    unsafe {
        command.pre_exec(move || {
            nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
            // It may have died before it was asked.
            if nix::unistd::getppid() == us { Ok(()) } else { Err(ErrorKind::Interrupted.into()) }
        });
    }
}

/// Not known on this system: those who end a server end such clients first.
#[cfg(not(target_os = "linux"))]
fn end_with_us(_command: &mut Command) {}

impl Drop for Control {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    drop(child.stdin.take());
    let _ = child.kill();
    let until = Instant::now() + GONE;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Says whether a line tells that the server has let the client go.
fn is_exit(line: &[u8]) -> bool {
    line.starts_with(b"%exit")
}

fn memrchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().rposition(|it| *it == b'\n')
}

/// Takes the answers out of their frames: `%begin TIME NUMBER FLAGS`, lines, `%end` or `%error` with the same three.
/// Lines outside of frames are notices.
#[derive(Debug)]
struct Frames {
    mark: String,
    open: Option<(Vec<u8>, Vec<u8>)>,
    /// Whether any was opened.
    begun: bool,
    /// Whether the server has let the client go.
    exit: bool,
    printed: Vec<u8>,
    errors: Vec<u8>,
}

impl Frames {
    fn new(mark: String) -> Self {
        Self { mark, open: None, begun: false, exit: false, printed: Vec::new(), errors: Vec::new() }
    }

    /// Says whether the client was let go before any of what was asked was begun.
    fn was_let_go(&self) -> bool {
        self.exit && !self.begun
    }

    /// Takes one line; true when it was the last.
    fn take(&mut self, line: &[u8]) -> bool {
        let Some((tag, inside)) = &mut self.open else {
            if let Some(tag) = line.strip_prefix(b"%begin ") {
                self.open = Some((tag.to_vec(), Vec::new()));
                self.begun = true;
            }
            self.exit |= is_exit(line);
            return false;
        };
        let ends = |word: &[u8]| line.strip_prefix(word).is_some_and(|it| it == tag.as_slice());
        let (good, bad) = (ends(b"%end "), ends(b"%error "));
        if !good && !bad {
            inside.extend_from_slice(line);
            inside.push(b'\n');
            return false;
        }
        let inside = std::mem::take(inside);
        self.open = None;
        if bad {
            self.errors.extend(inside);
        } else if inside.strip_suffix(b"\n") == Some(self.mark.as_bytes()) {
            return true;
        } else {
            self.printed.extend(inside);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(said: &str) -> (bool, String, String) {
        let mut frames = Frames::new("done-1".to_owned());
        let last = said.lines().any(|line| frames.take(line.as_bytes()));
        (last, String::from_utf8(frames.printed).unwrap(), String::from_utf8(frames.errors).unwrap())
    }

    #[test]
    fn answers_and_errors_are_taken_out_of_their_frames_and_notices_are_dropped() {
        let said = "%begin 1 1 0\n%end 1 1 0\n%session-changed $0 a\n%begin 1 2 1\n%end 1 2 1\n%begin 1 3 1\nOK\n\n\
                    %end 1 3 1\n%window-add @7\n%begin 1 4 1\nno such pane\n%error 1 4 1\n%begin 1 5 1\ndone-1\n%end 1 5 1\n";
        assert_eq!(taken(said), (true, "OK\n\n".to_owned(), "no such pane\n".to_owned()));
    }

    #[test]
    fn a_screen_that_shows_the_end_of_a_frame_or_the_last_word_ends_nothing() {
        let said = "%begin 1 3 1\n%end 1 2 1\ndone-1\n%begin 9 9 1\n%error\n%end 1 3 1\n";
        assert_eq!(
            taken(said),
            (false, "%end 1 2 1\ndone-1\n%begin 9 9 1\n%error\n".to_owned(), String::new())
        );
    }
}
