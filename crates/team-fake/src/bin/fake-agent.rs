//! The fake agent as a program of its own, for tests that need no other command.

use std::process::ExitCode;

fn main() -> ExitCode {
    let code = team_fake::main(std::env::args_os().skip(1).collect());
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
