//! Finding the program under test, and building it where nobody has.
//!
//! Knows cargo's target directory. Must not know what the program does.

use std::env;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::process;

/// Names the program under test, in place of the one in the target directory.
pub const PROGRAM: &str = "TEAM_AGENT_BIN";

/// What the program is called.
const NAME: &str = "team-agent";

const BUILD_DEADLINE: Duration = Duration::from_secs(1200);

/// The program under test cannot be had.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProgramError {
    /// The variable names something that is not there.
    #[error("`{PROGRAM}` names `{0}`, which is no file")]
    NotThere(PathBuf),
    /// The test does not run out of a target directory.
    #[error("the test `{0}` does not lie in a target directory; set `{PROGRAM}`")]
    NoTarget(PathBuf),
    /// It could not be built.
    #[error("failed to build `{NAME}`: {0}")]
    Build(String),
}

/// Returns the program under test, building it if it is not there.
///
/// It is looked for in `TEAM_AGENT_BIN`, where cargo or nextest say it is, and in the target directory of the
/// running test. A program that is there is taken as it is: test runs build the workspace first.
pub fn team_agent() -> Result<PathBuf, ProgramError> {
    static FOUND: OnceLock<Result<PathBuf, ProgramError>> = OnceLock::new();
    FOUND.get_or_init(find).clone()
}

fn find() -> Result<PathBuf, ProgramError> {
    if let Some(named) = env::var_os(PROGRAM) {
        let path = PathBuf::from(named);
        return if path.is_file() { Ok(path) } else { Err(ProgramError::NotThere(path)) };
    }
    for variable in [format!("CARGO_BIN_EXE_{NAME}"), format!("NEXTEST_BIN_EXE_{NAME}")] {
        if let Some(path) = env::var_os(variable).map(PathBuf::from).filter(|path| path.is_file()) {
            return Ok(path);
        }
    }
    let test = env::current_exe().unwrap_or_default();
    // target/<profile>/deps/<test>, or target/<profile>/<program>
    let profile = match test.parent() {
        Some(directory) if directory.ends_with("deps") => directory.parent(),
        other => other,
    };
    let Some((profile, target)) = profile.zip(process::target_directory()) else {
        return Err(ProgramError::NoTarget(test));
    };
    let program = profile.join(NAME);
    let lock = || -> io::Result<File> {
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(target.join("testkit-build.lock"))?;
        file.lock()?;
        Ok(file)
    };
    let _lock = lock().map_err(|error| ProgramError::Build(error.to_string()))?;
    if !program.is_file() {
        build(&target, profile)?;
    }
    Ok(program)
}

fn build(target: &Path, profile: &Path) -> Result<(), ProgramError> {
    let profile = match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "-p", NAME, "--bin", NAME, "--profile", profile]);
    cargo.arg("--target-dir").arg(target).current_dir(workspace);
    match process::run(&mut cargo, BUILD_DEADLINE) {
        Ok(output) if output.code == Some(0) => Ok(()),
        Ok(output) => Err(ProgramError::Build(output.stderr)),
        Err(error) => Err(ProgramError::Build(error.to_string())),
    }
}
