//! The only place here that prints.

use std::io::{IsTerminal as _, Write as _};

/// Prints a line of data.
pub(crate) fn line(text: &str) {
    // A closed pipe is the reader's business.
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Prints a line of talk.
pub(crate) fn talk(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Says what is being done.
pub(crate) fn step(text: &str) {
    line(&strong(&format!("== {text}")));
}

/// Passes on what another program wrote.
pub(crate) fn raw(bytes: &[u8], to_error: bool) {
    let _ = if to_error {
        std::io::stderr().lock().write_all(bytes)
    } else {
        std::io::stdout().lock().write_all(bytes)
    };
}

/// Makes a text stand out where the terminal can.
pub(crate) fn strong(text: &str) -> String {
    if colors() { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
}

/// Makes a text step back where the terminal can.
pub(crate) fn faint(text: &str) -> String {
    if colors() { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
}

/// Says whether people with a terminal that has colors are reading.
pub(crate) fn colors() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
