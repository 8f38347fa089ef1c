//! The script under which the agent is found as another program.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Writes a script into `dir` that is named like a program and starts this one in its clothes. Its logs go to
/// `dir/fake-home`, whoever starts it.
pub(crate) fn write(dir: &Path, name: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(dir)?;
    let dir = fs::canonicalize(dir)?;
    let mut program = quoted(&std::env::current_exe()?)?;
    // As a sub-command of another program, its name comes first.
    if std::env::args_os().nth(1).is_some_and(|it| it == "fake-agent") {
        program.push_str(" fake-agent");
    }
    let home = quoted(&dir.join("fake-home"))?;
    let path = dir.join(name);
    // Put in its place as a whole: one that is being started must not be found half written.
    let new = dir.join(format!(".{name}.{}", std::process::id()));
    fs::write(&new, format!("#!/bin/sh\nFAKE_HOME={home} exec {program} --as {name} \"$@\"\n"))?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
    fs::rename(&new, &path)?;
    Ok(path)
}

fn quoted(path: &Path) -> io::Result<String> {
    let text = path.to_str().ok_or_else(|| io::Error::other("the path is not UTF-8"))?;
    Ok(format!("'{}'", text.replace('\'', r"'\''")))
}
