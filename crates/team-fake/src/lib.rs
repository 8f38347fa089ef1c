//! The built-in fake agent: a real interactive terminal program that plays a coding agent.
//!
//! It has a composer, dialogs, hooks, a transcript, sessions that resume and fork, and a client of MCP
//! servers; it obeys a script, a control file and `fake:` lines in the text it gets. It never reaches a
//! network. `docs/fake-agent.md` describes all of it.

mod agent;
mod args;
mod child;
mod clock;
mod composer;
mod control;
mod dialog;
mod directive;
mod input;
mod logs;
mod mcp;
mod nested;
mod place;
mod screen;
mod settings;
mod setup;
mod term;
mod transcript;
mod watch;

use std::ffi::OsString;
use std::io::Write as _;

/// Runs the program with the arguments that follow its name, and returns its exit code.
pub fn main(args: Vec<OsString>) -> i32 {
    clock::mono_ms();
    let args = match args::parse(args) {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    if args.version {
        let _ = writeln!(std::io::stdout(), "{} (fake-agent)", version());
        return 0;
    }
    if let Some(session) = &args.nested {
        return match nested::run(&args, session) {
            Ok(()) => 0,
            Err(error) => refuse(&error),
        };
    }
    match setup::start(args) {
        Ok(agent) => agent.run(),
        Err(error) => refuse(&error),
    }
}

/// The version it claims: `FAKE_VERSION`, else its own.
pub(crate) fn version() -> String {
    std::env::var("FAKE_VERSION").unwrap_or_else(|_| env!("CARGO_PKG_VERSION").to_owned())
}

fn refuse(error: &dyn std::error::Error) -> i32 {
    let mut text = format!("Error: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    let _ = writeln!(std::io::stderr(), "{text}");
    1
}
