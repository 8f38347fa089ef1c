//! The real agent programs, in the versions the project knows.
//!
//! Knows the pinned list, how npm installs a program for this checkout alone, and how a test says that it was
//! skipped. Must not know what the programs do.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;

use crate::process::{self, Output};

/// Set to `1`, it makes a skipped real program a failure.
pub const REQUIRE: &str = "TEAM_AGENT_REQUIRE_REAL";

/// Names a directory for the installed programs, in place of the one in the target directory.
pub const DIRECTORY: &str = "TEAM_AGENT_REAL_CLIENTS";

/// Names a file to which each skip is appended, so that a run of many test programs can be summed up.
pub const SKIP_LOG: &str = "TEAM_AGENT_SKIP_LOG";

const INSTALL_DEADLINE: Duration = Duration::from_secs(300);
const VERSION_DEADLINE: Duration = Duration::from_secs(60);

static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// A real program, installed and of the pinned version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RealClient {
    /// The name it has here, as `claude`.
    pub name: String,
    /// The program to start.
    pub program: PathBuf,
    /// Its version.
    pub version: String,
}

/// A real program cannot be had here.
#[derive(Debug, thiserror::Error)]
#[error("skipped: {client}: {why}")]
pub struct Skip {
    /// The name of the program.
    pub client: String,
    /// What is missing.
    pub why: String,
}

/// One entry of the pinned list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// The npm package.
    pub package: String,
    /// Its version.
    pub version: String,
    /// The program inside the installation; `{platform}` stands for this machine's kind.
    pub program: String,
    /// Digests of the installed packages that are checked, by their place in the installation.
    pub integrity: BTreeMap<String, String>,
}

/// Returns the pinned list, by name.
pub fn pins() -> BTreeMap<String, Pin> {
    serde_json::from_str(include_str!("../../../tests/real/clients.json"))
        .expect("the pinned list is checked in")
}

/// Returns the real program of that name, installing it first if need be.
///
/// Parallel tests, also in other processes, install it once.
pub fn client(name: &str) -> Result<RealClient, Skip> {
    let skip = |why: String| Skip { client: name.to_owned(), why };
    let pin = pins().remove(name).ok_or_else(|| skip("not in the pinned list".to_owned()))?;
    let home = directory().ok_or_else(|| skip(format!("no target directory found; set `{DIRECTORY}`")))?;
    install(&home, name, &pin).map_err(skip)
}

/// Returns the real program, or reports the skip and returns `None`.
///
/// # Panics
/// When it cannot be had and `TEAM_AGENT_REQUIRE_REAL=1` is set.
pub fn client_or_skip(name: &str) -> Option<RealClient> {
    client(name).map_err(|skip| report(&skip)).ok()
}

/// Counts a skip and names it on standard error, past the capturing of the test harness.
///
/// # Panics
/// When `TEAM_AGENT_REQUIRE_REAL=1` is set.
pub fn report(skip: &Skip) {
    assert!(env::var(REQUIRE).as_deref() != Ok("1"), "{skip}, and {REQUIRE}=1 is set");
    SKIPPED.fetch_add(1, Ordering::SeqCst);
    let line = format!("{skip}\n");
    // A report that cannot be written must not fail a test that was only to be skipped.
    io::stderr().write_all(line.as_bytes()).ok();
    if let Some(path) = env::var_os(SKIP_LOG) {
        let log = File::options().create(true).append(true).open(path);
        log.and_then(|mut log| log.write_all(line.as_bytes())).ok();
    }
}

/// Returns how many skips this process has reported.
pub fn skipped() -> usize {
    SKIPPED.load(Ordering::SeqCst)
}

fn install(home: &Path, name: &str, pin: &Pin) -> Result<RealClient, String> {
    let place = home.join(format!("{name}-{}", pin.version));
    let program = place.join(pin.program.replace("{platform}", &platform()));
    fs::create_dir_all(home).map_err(|error| format!("cannot create `{}`: {error}", home.display()))?;
    // Held to the end of the function; the system releases it if we die.
    let _lock = lock(&home.join(format!("{name}-{}.lock", pin.version)))?;
    if !program.exists() {
        let part = home.join(format!("{name}-{}.part", pin.version));
        remove(&part)?;
        remove(&place)?;
        npm_install(&part, pin)?;
        check_integrity(&part, pin)?;
        fs::rename(&part, &place)
            .map_err(|error| format!("cannot move the installation into place: {error}"))?;
    }
    if !program.exists() {
        return Err(format!("package `{}` has no program for {}", pin.package, platform()));
    }
    check_version(&program, &pin.version)?;
    Ok(RealClient { name: name.to_owned(), program, version: pin.version.clone() })
}

fn lock(path: &Path) -> Result<File, String> {
    let file = File::options().create(true).truncate(false).write(true).open(path);
    let locked = file.and_then(|file| file.lock().map(|()| file));
    locked.map_err(|error| format!("cannot lock `{}`: {error}", path.display()))
}

fn remove(path: &Path) -> Result<(), String> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(format!("cannot remove `{}`: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Installs without running any script of the packages: the pinned programs work without.
fn npm_install(place: &Path, pin: &Pin) -> Result<(), String> {
    fs::create_dir_all(place).map_err(|error| format!("cannot create `{}`: {error}", place.display()))?;
    let mut npm = Command::new("npm");
    npm.args([
        "install",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
        "--fetch-retries=1",
    ])
    .arg("--prefix")
    .arg(place)
    .arg(format!("{}@{}", pin.package, pin.version))
    .env("npm_config_update_notifier", "false")
    .current_dir(place);
    let output = run(&mut npm, "npm", INSTALL_DEADLINE)?;
    if output.code == Some(0) {
        return Ok(());
    }
    let why = output.stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(format!("npm could not install `{}@{}`: {why}", pin.package, pin.version))
}

fn check_integrity(place: &Path, pin: &Pin) -> Result<(), String> {
    let path = place.join("node_modules/.package-lock.json");
    let text = fs::read_to_string(path)
        .map_err(|error| format!("npm left no list of what it installed: {error}"))?;
    let list: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| format!("npm's list of what it installed is damaged: {error}"))?;
    for (package, expected) in &pin.integrity {
        let found = list["packages"][package]["integrity"].as_str();
        if found.is_some_and(|found| found != expected) {
            return Err(format!("`{package}` is not what was pinned: {}", found.unwrap_or_default()));
        }
    }
    Ok(())
}

fn check_version(program: &Path, version: &str) -> Result<(), String> {
    let home = tempfile::tempdir().map_err(|error| format!("no temporary home: {error}"))?;
    let mut command = Command::new(program);
    command.arg("--version").env("HOME", home.path()).env("TMPDIR", home.path()).current_dir(home.path());
    let output = run(&mut command, &program.display().to_string(), VERSION_DEADLINE)?;
    let said = output.stdout.trim();
    if output.code == Some(0)
        && said.split([' ', '\n', '(', ')']).any(|word| word.trim_end_matches('.') == version)
    {
        return Ok(());
    }
    Err(format!("`{} --version` says `{said}`, not {version}", program.display()))
}

fn run(command: &mut Command, name: &str, deadline: Duration) -> Result<Output, String> {
    process::run(command, deadline).map_err(|error| match error {
        process::RunError::Start(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("{name} not found")
        }
        error => format!("{name}: {error}"),
    })
}

/// Returns the name npm packages use for this kind of machine.
fn platform() -> String {
    let system = if cfg!(target_os = "macos") { "darwin" } else { env::consts::OS };
    let machine = match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let libc = if cfg!(target_env = "musl") { "-musl" } else { "" };
    format!("{system}-{machine}{libc}")
}

fn directory() -> Option<PathBuf> {
    match env::var_os(DIRECTORY) {
        Some(directory) => Some(PathBuf::from(directory)),
        None => process::target_directory().map(|target| target.join("real-clients")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(program: &str) -> Pin {
        Pin {
            package: "p".to_owned(),
            version: "1.2.3".to_owned(),
            program: program.to_owned(),
            integrity: BTreeMap::new(),
        }
    }

    fn script(path: &Path, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn every_pin_names_a_package_a_version_and_digests() {
        let pins = pins();
        assert_eq!(pins.keys().collect::<Vec<_>>(), ["claude", "codex", "copilot", "gemini", "opencode"]);
        for pin in pins.values() {
            assert!(pin.integrity.contains_key(&format!("node_modules/{}", pin.package)), "{pin:?}");
        }
    }

    #[test]
    fn a_program_that_is_there_in_the_pinned_version_is_not_installed_again() {
        let home = tempfile::tempdir().unwrap();
        script(&home.path().join("x-1.2.3/bin/x"), "#!/bin/sh\necho 'x 1.2.3 (X)'\n");
        let client = install(home.path(), "x", &pin("bin/x")).unwrap();
        assert_eq!(client.program, home.path().join("x-1.2.3/bin/x"));
    }

    #[test]
    fn a_program_of_another_version_is_not_taken() {
        let home = tempfile::tempdir().unwrap();
        script(&home.path().join("x-1.2.3/bin/x"), "#!/bin/sh\necho 1.2.34\n");
        let why = install(home.path(), "x", &pin("bin/x")).unwrap_err();
        assert!(why.ends_with("says `1.2.34`, not 1.2.3"), "{why}");
    }

    #[test]
    fn an_unknown_program_is_a_skip() {
        let skip = client("nobody").unwrap_err();
        assert_eq!(skip.to_string(), "skipped: nobody: not in the pinned list");
    }
}
