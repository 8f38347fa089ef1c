//! `cargo xtask schema`: `docs/schema/*.json` as the program prints them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::{repo, say};

const DIRECTORY: &str = "docs/schema";

/// Writes the files, or with `--check` says which are stale.
pub(crate) fn run(arguments: &[String]) -> Result<ExitCode> {
    let program = repo::program()?;
    if arguments.iter().any(|it| it == "--check") {
        let stale = stale(&program)?;
        for name in &stale {
            say::line(&format!("{DIRECTORY}/{name} is stale: run `cargo xtask schema`"));
        }
        return Ok(if stale.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let directory = repo::root().join(DIRECTORY);
    fs::create_dir_all(&directory).with_context(|| format!("failed to make `{DIRECTORY}`"))?;
    for name in stale(&program)? {
        let path = directory.join(&name);
        match schemas(&program)?.get(&name) {
            Some(text) => fs::write(&path, text).with_context(|| format!("failed to write `{name}`"))?,
            None => fs::remove_file(&path).with_context(|| format!("failed to remove `{name}`"))?,
        }
        say::line(&format!("{DIRECTORY}/{name}"));
    }
    Ok(ExitCode::SUCCESS)
}

/// Lists the files that are not what the program says, those it no longer knows included.
pub(crate) fn stale(program: &Path) -> Result<Vec<String>> {
    let wanted = schemas(program)?;
    let directory = repo::root().join(DIRECTORY);
    let mut names: Vec<String> = wanted.keys().cloned().collect();
    if let Ok(entries) = fs::read_dir(&directory) {
        let there = entries.filter_map(|it| it.ok()?.file_name().into_string().ok());
        names.extend(there.filter(|name| is_json(name) && !wanted.contains_key(name)));
    }
    names.retain(|name| fs::read_to_string(directory.join(name)).ok().as_ref() != wanted.get(name));
    names.sort();
    Ok(names)
}

fn is_json(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == "json")
}

/// Asks the program for all schemas: one object, by name.
fn schemas(program: &Path) -> Result<BTreeMap<String, String>> {
    let output =
        Command::new(program).args(["schema", "--json"]).output().context("failed to start team-agent")?;
    if !output.status.success() {
        let said =
            String::from_utf8_lossy(if output.stderr.is_empty() { &output.stdout } else { &output.stderr });
        bail!("`team-agent schema` does not answer: {}", said.trim());
    }
    let all: Value = serde_json::from_slice(&output.stdout).context("`team-agent schema` printed no JSON")?;
    let all = all.get("schemas").unwrap_or(&all);
    let all = all.as_object().context("`team-agent schema` printed no object")?;
    let files = all.iter().filter(|(_, it)| it.is_object());
    Ok(files.map(|(name, schema)| (format!("{name}.json"), format!("{schema:#}\n"))).collect())
}
