//! The program `team-agent`: arguments, output, exit codes. It prints; it decides nothing.

mod cli;
mod commands;
mod error;
mod ui;

use std::ffi::OsString;
use std::panic::{UnwindSafe, catch_unwind, set_hook};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // The built-in agent is a program of its own: it reads its own arguments and starts in a moment.
    if arguments.get(1).is_some_and(|it| it == "fake-agent") {
        let code = team_fake::main(arguments.into_iter().skip(2).collect());
        return ExitCode::from(u8::try_from(code & 0xff).unwrap_or(1));
    }
    // The hook only talks: a tool server goes on after a call that panicked.
    set_hook(Box::new(ui::bug));
    ExitCode::from(guarded(&arguments, || cli::run(&arguments)))
}

/// Runs the program; a panic in it is a bug, and says so to programs, too.
fn guarded(arguments: &[OsString], run: impl FnOnce() -> u8 + UnwindSafe) -> u8 {
    catch_unwind(run).unwrap_or_else(|_| {
        if cli::wants_json(arguments) {
            let bug = error::CliError::new(team_engine::ErrorKind::Bug, "bug", "this is a bug in team-agent");
            let command = cli::command_word(arguments).unwrap_or_default();
            ui::Ui::new(true, &command).error(&bug.with_hint(ui::BUG_HINT));
        }
        error::BUG
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_with_the_exit_code_for_bugs() {
        assert_eq!(guarded(&[], || panic!("a test panics")), 70);
        assert_eq!(guarded(&[], || 4), 4);
    }
}
