//! What a fresh machine may lack: tmux and the real agent programs.
//!
//! Says what it does before it does it. Installs a package only as root, with `sudo` that asks for no password, or
//! with a package manager that needs neither; otherwise one line says how.

use std::process::Command;

use anyhow::{Result, bail};
use team_testkit::real;

use crate::repo::{answers, succeeds};
use crate::say;

/// A package manager: its program, what installs tmux, and what brings its lists up to date.
struct Manager {
    program: &'static str,
    install: &'static [&'static str],
    refresh: Option<&'static [&'static str]>,
    needs_root: bool,
}

const MANAGERS: [Manager; 6] = [
    Manager {
        program: "apt-get",
        install: &["install", "-y", "--no-install-recommends", "tmux"],
        refresh: Some(&["update"]),
        needs_root: true,
    },
    Manager { program: "dnf", install: &["install", "-y", "tmux"], refresh: None, needs_root: true },
    Manager { program: "apk", install: &["add", "--update-cache", "tmux"], refresh: None, needs_root: true },
    Manager {
        program: "pacman",
        install: &["-S", "--noconfirm", "--needed", "tmux"],
        refresh: Some(&["-Sy", "--noconfirm"]),
        needs_root: true,
    },
    Manager {
        program: "zypper",
        install: &["--non-interactive", "install", "tmux"],
        refresh: None,
        needs_root: true,
    },
    Manager { program: "brew", install: &["install", "tmux"], refresh: None, needs_root: false },
];

/// Sees to it that tmux is there.
pub(crate) fn tmux() -> Result<()> {
    if has_tmux() {
        return Ok(());
    }
    let Some(manager) = MANAGERS.iter().find(|it| answers(Command::new(it.program).arg("--version"))) else {
        bail!(
            "tmux is missing and no known package manager is there: install tmux 3.2 or newer, then run this again"
        );
    };
    let by_hand = |sudo: &str| format!("{sudo}{} {}", manager.program, manager.install.join(" "));
    let sudo = if !manager.needs_root || is_root() {
        false
    } else if answers(Command::new("sudo").args(["-n", "true"])) {
        true
    } else {
        bail!("tmux is missing: run `{}`, then this again", by_hand("sudo "));
    };
    let call = |arguments: &[&str]| {
        let mut command = if sudo { Command::new("sudo") } else { Command::new(manager.program) };
        if sudo {
            command.args(["-n", "env", "DEBIAN_FRONTEND=noninteractive", manager.program]);
        }
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
        command
    };
    say::step(&format!("tmux is missing: {}", by_hand(if sudo { "sudo " } else { "" })));
    // Lists that were never fetched are the usual reason why the first try fails.
    let installed = succeeds(&mut call(manager.install))?
        || match manager.refresh {
            Some(refresh) => succeeds(&mut call(refresh))? && succeeds(&mut call(manager.install))?,
            None => false,
        };
    if !installed || !has_tmux() {
        bail!(
            "tmux could not be installed: run `{}` and see what it says",
            by_hand(if is_root() { "" } else { "sudo " })
        );
    }
    Ok(())
}

/// Sees to it that the real agent programs are there, as far as they can be had.
pub(crate) fn clients(all: bool) -> Result<()> {
    let required = std::env::var(real::REQUIRE).as_deref() == Ok("1");
    if !answers(Command::new("npm").arg("--version")) {
        if required {
            bail!(
                "npm is missing, and {}=1 asks for the real agent programs: install Node.js",
                real::REQUIRE
            );
        }
        say::line("npm is missing: tests with real agent programs are skipped and named at the end");
        return Ok(());
    }
    let pins = real::pins();
    for name in pins.keys().filter(|name| all || *name == "claude") {
        match real::client(name) {
            Ok(client) => say::line(&format!("{name} {} is there", client.version)),
            Err(skip) if required => bail!("{skip}, and {}=1 is set", real::REQUIRE),
            Err(skip) => say::line(&skip.to_string()),
        }
    }
    Ok(())
}

fn has_tmux() -> bool {
    answers(Command::new("tmux").arg("-V"))
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|it| it.stdout.trim_ascii() == b"0")
}
