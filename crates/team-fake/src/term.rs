//! The terminal as a device: raw mode, size, reading, writing. Knows no keys and no frames.

use std::io::{self, IsTerminal as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

/// The terminal on standard input and output.
#[derive(Debug)]
pub(crate) struct Terminal {
    /// How it was found; nothing is read or drawn without.
    before: Option<Termios>,
    input: io::Stdin,
    output: io::Stdout,
}

impl Terminal {
    /// Switches to raw mode; what was typed before is thrown away.
    pub(crate) fn open() -> io::Result<Self> {
        let input = io::stdin();
        let before = tcgetattr(&input)?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(&input, SetArg::TCSAFLUSH, &raw)?;
        Ok(Self { before: Some(before), input, output: io::stdout() })
    }

    /// Stands for a terminal where there is none.
    pub(crate) fn none() -> Self {
        Self { before: None, input: io::stdin(), output: io::stdout() }
    }

    /// Tells whether there is one.
    pub(crate) fn is_there(&self) -> bool {
        self.before.is_some()
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// Reads once; an empty result means that the terminal is gone.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> usize {
        loop {
            // Not through `Stdin`'s buffer: poll must see what is left.
            match nix::unistd::read(&self.input, buffer) {
                Err(nix::errno::Errno::EINTR) => {}
                other => return other.unwrap_or(0),
            }
        }
    }

    /// Writes and flushes; a terminal that is gone is no error here.
    pub(crate) fn write(&mut self, text: &str) {
        if self.before.is_none() {
            return;
        }
        let mut output = self.output.lock();
        let _ = output.write_all(text.as_bytes()).and_then(|()| output.flush());
    }

    /// Returns columns and rows, 80 by 24 when the terminal does not say.
    pub(crate) fn size(&self) -> (usize, usize) {
        let asked = self.before.as_ref().and_then(|_| sys::size(self.fd()).ok());
        let (columns, rows) = asked.unwrap_or((0, 0));
        if columns == 0 || rows == 0 { (80, 24) } else { (usize::from(columns), usize::from(rows)) }
    }

    /// Puts the terminal back as it was found.
    pub(crate) fn restore(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(&self.input, SetArg::TCSADRAIN, before);
        }
    }
}

/// Tells whether standard input and output are terminals.
pub(crate) fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

mod sys {
    #![expect(unsafe_code, reason = "no safe call asks a terminal for its size")]

    use std::os::fd::{AsRawFd as _, BorrowedFd};

    use nix::pty::Winsize;

    nix::ioctl_read_bad!(get_size, nix::libc::TIOCGWINSZ, Winsize);

    pub(super) fn size(fd: BorrowedFd<'_>) -> nix::Result<(u16, u16)> {
        let mut size = Winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the descriptor is open and `size` is the structure that this request fills.
        unsafe { get_size(fd.as_raw_fd(), &raw mut size) }?;
        Ok((size.ws_col, size.ws_row))
    }
}
