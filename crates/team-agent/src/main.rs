//! The program `team-agent`: arguments, output, exit codes. It prints; it decides nothing.

mod cli;
mod commands;
mod error;
mod ui;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    // The built-in agent is a program of its own: it reads its own arguments and starts in a moment.
    if arguments.get(1).is_some_and(|it| it == "fake-agent") {
        let code = team_fake::main(arguments.into_iter().skip(2).collect());
        return ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1));
    }
    cli::run(&arguments)
}
