//! Where the repository is, what is in it, and how its program is built.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::say;

/// Returns the root of this checkout.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Returns a call of the cargo that runs us, in the root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // Set for us as the program of a package; they say nothing about what is built next.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|it| it.starts_with("CARGO_PKG_") || it.starts_with("CARGO_MANIFEST_")) {
            command.env_remove(name);
        }
    }
    command
}

/// Builds the program and returns where it is; one that `TEAM_AGENT_BIN` names is taken as it is.
pub(crate) fn program() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(team_testkit::program::PROGRAM) {
        let path = PathBuf::from(named);
        if !path.is_file() {
            bail!("`{}` names `{}`, which is no file", team_testkit::program::PROGRAM, path.display());
        }
        return Ok(path);
    }
    say::step("building team-agent");
    let mut command = cargo();
    command.args(["build", "--package", "team-agent", "--bin", "team-agent"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    let output =
        command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().context("failed to start cargo")?;
    if !output.status.success() {
        bail!("team-agent could not be built");
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|it| it["target"]["name"] == "team-agent")
        .find_map(|it| it["executable"].as_str().map(PathBuf::from))
        .context("cargo did not say where it put team-agent")
}

/// Lists the files that are committed or would be, by their place in the repository.
pub(crate) fn files() -> Result<Vec<PathBuf>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root());
    let output = git.output().context("failed to start git")?;
    if !output.status.success() {
        bail!("git cannot list the files: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8_lossy(&output.stdout);
    let mut files: Vec<PathBuf> = names.split('\0').filter(|it| !it.is_empty()).map(PathBuf::from).collect();
    files.sort();
    files.dedup();
    // One that was deleted and not committed yet is listed, too.
    files.retain(|it| root().join(it).is_file());
    Ok(files)
}

/// Runs a command to its end with its output shown; tells whether it went well.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status =
        command.stdin(Stdio::null()).status().with_context(|| format!("failed to start `{name}`"))?;
    Ok(status.success())
}

/// Tells whether a program can be started and says that all is well.
pub(crate) fn answers(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|it| it.success())
}
