//! A person at a terminal: types into an agent's pane and sees what is on it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::world;

pub(crate) struct Person {
    terminal: File,
    seen: Arc<Mutex<Vec<u8>>>,
    child: Child,
}

impl Person {
    /// Sits down at a command that needs a terminal.
    pub(crate) fn at(mut command: Command) -> std::io::Result<Self> {
        let size = Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None)?;
        let theirs = |fd: &std::os::fd::OwnedFd| Ok::<_, std::io::Error>(Stdio::from(fd.try_clone()?));
        command.stdin(theirs(&pty.slave)?).stdout(theirs(&pty.slave)?).stderr(theirs(&pty.slave)?);
        let child = command.spawn()?;
        drop(pty.slave);
        let terminal = File::from(pty.master);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (mut from, into) = (terminal.try_clone()?, seen.clone());
        // Ends with the terminal.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                into.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
            }
        });
        Ok(Self { terminal, seen, child })
    }

    /// Waits until a text has come to the screen.
    pub(crate) fn sees(&self, text: &str, patience: Duration) -> bool {
        world::until(patience, || {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.windows(text.len()).any(|it| it == text.as_bytes())
        })
    }

    /// Presses keys.
    pub(crate) fn types(&mut self, keys: &str) {
        // A terminal that is gone is noticed by what does not come.
        let _ = self.terminal.write_all(keys.as_bytes());
    }

    /// Leaves the pane as one does who closes the window: no key of it can end in the pane.
    pub(crate) fn leaves(mut self) {
        let child = &mut self.child;
        if let Ok(pid) = i32::try_from(child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGHUP);
        }
        if !world::until(Duration::from_secs(5), || matches!(child.try_wait(), Ok(Some(_)))) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
