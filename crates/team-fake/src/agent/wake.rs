//! What wakes the loop: signals, descriptors, the next timer.

use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use serde_json::json;

use super::Agent;
use crate::child::Pipe;

/// What poll watches.
#[derive(Debug, Clone, Copy)]
pub(super) enum Token {
    Terminal,
    Signal,
    Files,
    Wire,
    Child(u64, Pipe),
}

/// What the loop is woken by.
pub(super) const SIGNALS: &[Signal] =
    &[Signal::SIGCHLD, Signal::SIGWINCH, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT];

impl Agent {
    /// Sleeps until something happens or a timer is due.
    pub(super) fn wait(&mut self) -> Vec<Token> {
        let now = Instant::now();
        let timeout = self.timers.iter().map(|it| it.0.saturating_duration_since(now)).min();
        let timeout = match timeout {
            None => PollTimeout::NONE,
            // One more, so that the timer is due when poll returns.
            Some(left) if !left.is_zero() => {
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            }
            Some(_) => PollTimeout::ZERO,
        };
        let mut tokens = vec![Token::Signal];
        let mut fds = vec![PollFd::new(self.signals.fd(), PollFlags::POLLIN)];
        if self.terminal_open {
            tokens.push(Token::Terminal);
            fds.push(PollFd::new(self.terminal.fd(), PollFlags::POLLIN));
        }
        if let Some(fd) = self.watcher.fd() {
            tokens.push(Token::Files);
            fds.push(PollFd::new(fd, PollFlags::POLLIN));
        }
        if self.wire_open {
            tokens.push(Token::Wire);
            fds.push(PollFd::new(self.wire.fd(), PollFlags::POLLIN));
        }
        for (id, (process, _)) in &self.children {
            for pipe in [Pipe::Stdin, Pipe::Stdout, Pipe::Stderr] {
                let Some(fd) = process.fd(pipe).filter(|_| process.wants(pipe)) else { continue };
                let flag = if pipe == Pipe::Stdin { PollFlags::POLLOUT } else { PollFlags::POLLIN };
                tokens.push(Token::Child(*id, pipe));
                fds.push(PollFd::new(fd, flag));
            }
        }
        if poll(&mut fds, timeout).is_err() {
            return Vec::new();
        }
        let ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|it| !it.is_empty());
        tokens.into_iter().zip(&fds).filter(|(_, fd)| ready(fd)).map(|it| it.0).collect()
    }

    pub(super) fn take_signals(&mut self) {
        for signal in self.signals.raised() {
            match signal {
                Signal::SIGCHLD => self.reap(),
                Signal::SIGWINCH => {
                    self.log_size();
                    self.screen.forget();
                }
                _ if self.knobs.switches.ignore_signals => {
                    self.logs.event("signal_ignored", json!({"signal": signal.as_str()}));
                }
                Signal::SIGHUP => self.end(129, "other"),
                Signal::SIGINT => self.end(130, "other"),
                _ => self.end(143, "other"),
            }
        }
    }
}
