//! `coordinator`: runs by itself; by hand only to see what it says.

use std::os::fd::AsRawFd as _;

use team_engine::ErrorKind;
use team_engine::coordinator::{self, Outcome};

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Run the workspace's coordinator in this terminal; commands start one by themselves
#[derive(Debug, clap::Args)]
pub(crate) struct CoordinatorArgs {
    /// Stay in this terminal and print what it does
    #[arg(long, conflicts_with = "detach")]
    foreground: bool,
    /// Leave the process that started this one
    #[arg(long, hide = true)]
    detach: bool,
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &CoordinatorArgs) -> Result<u8, CliError> {
    if args.detach {
        // SAFETY: no other thread runs yet.
        #[expect(unsafe_code, reason = "leaving the starter needs a fork")]
        match unsafe { nix::unistd::fork() } {
            Ok(nix::unistd::ForkResult::Parent { .. }) => return Ok(0),
            Ok(nix::unistd::ForkResult::Child) => {}
            Err(errno) => {
                let error = CliError::new(
                    ErrorKind::Environment,
                    "fork",
                    format!("failed to start a process: {errno}"),
                );
                return Err(error.with_hint("run `ulimit -u` to see how many processes you may have"));
            }
        }
    }
    let level = if args.foreground { "debug" } else { "warn" };
    let filter = tracing_subscriber::EnvFilter::try_from_env("TEAM_AGENT_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(level));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .try_init();
    let root = context.root();
    let mut announced = false;
    let outcome = coordinator::run(&root, &mut |word| {
        announced = true;
        if args.detach {
            coordinator::say(word);
            // The starter reads until the end of this pipe.
            if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
                let _ = nix::unistd::dup2_stdout(&null);
                let _ = null.as_raw_fd();
            }
        } else if word != "busy" {
            ui.say(word);
        }
    });
    match outcome {
        Ok(Outcome::Done) => Ok(0),
        Ok(Outcome::Busy) => {
            if !args.detach {
                ui.say("another coordinator runs already; `team-agent status` shows what it does");
            }
            Ok(0)
        }
        Err(error) => {
            if args.detach && !announced {
                coordinator::say(&team_engine::whole(&error));
            }
            if args.detach {
                tracing::error!("{}", team_engine::whole(&error));
            }
            Err(error.into())
        }
    }
}
