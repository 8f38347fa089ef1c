//! The way into the core for those who are connected to a program by a server of its own.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

/// What somebody who is connected wants.
#[derive(Debug)]
#[expect(dead_code, reason = "no clothes yet whose clients want all of it")]
pub(crate) enum Outside {
    /// A text for the model; with the id that its prompt is to have.
    Submit { text: String, id: Option<String> },
    /// Answers the open permission question; a no may have words.
    Permission { allow: bool, message: String },
    /// Stops the turn.
    Interrupt,
    /// Goes on under this session id, with nothing remembered.
    Session(String),
    /// Ends the program.
    End(i32),
}

impl Outside {
    /// Its name in the log.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Submit { .. } => "submit",
            Self::Permission { allow: true, .. } => "allow",
            Self::Permission { .. } => "deny",
            Self::Interrupt => "interrupt",
            Self::Session(_) => "session",
            Self::End(_) => "end",
        }
    }
}

/// The outer end, for threads.
#[derive(Debug)]
pub(crate) struct Wire {
    sender: mpsc::Sender<Outside>,
    bell: UnixStream,
}

/// The core's end.
#[derive(Debug)]
pub(crate) struct Receiver {
    receiver: mpsc::Receiver<Outside>,
    bell: UnixStream,
}

/// Makes both ends.
pub(crate) fn pair() -> io::Result<(Wire, Receiver)> {
    let (sender, receiver) = mpsc::channel();
    let (ours, theirs) = UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((Wire { sender, bell: theirs }, Receiver { receiver, bell: ours }))
}

impl Wire {
    /// Hands something to the core; false when it has ended.
    pub(crate) fn send(&self, wish: Outside) -> bool {
        self.sender.send(wish).is_ok() && (&self.bell).write_all(b"!").is_ok()
    }

    /// Another outer end.
    pub(crate) fn another(&self) -> io::Result<Self> {
        Ok(Self { sender: self.sender.clone(), bell: self.bell.try_clone()? })
    }
}

impl Receiver {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Takes what has come, oldest first; false once nobody is left who could send.
    pub(crate) fn take(&mut self) -> (Vec<Outside>, bool) {
        let mut drained = [0; 64];
        let mut open = true;
        loop {
            match self.bell.read(&mut drained) {
                Ok(0) => {
                    open = false;
                    break;
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        (self.receiver.try_iter().collect(), open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_comes_in_order_and_the_end_is_told() {
        let (wire, mut receiver) = pair().unwrap();
        let second = wire.another().unwrap();
        assert!(wire.send(Outside::Interrupt) && second.send(Outside::End(3)));
        let (come, open) = receiver.take();
        assert!(matches!(come[..], [Outside::Interrupt, Outside::End(3)]) && open, "{come:?}");
        drop((wire, second));
        assert!(!receiver.take().1);
    }
}
