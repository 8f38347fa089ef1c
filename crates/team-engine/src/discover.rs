//! Which workspace a command means that names none.
//!
//! Knows directories and git's links. Must not know what a workspace holds.

use std::fs;
use std::path::{Path, PathBuf};

use crate::workspace::{WorkspaceError, absolute};

/// Finds the workspace that a command means.
///
/// Order: what was given; the seat file's; `TEAM_AGENT_WORKSPACE`; the nearest `.team` above that was started; the
/// nearest `.team`. In a linked git worktree the main checkout's wins.
pub fn discover(given: Option<&Path>, cwd: &Path) -> Result<PathBuf, WorkspaceError> {
    if let Some(given) = given {
        let given = absolute(given)?;
        // `.team` itself, or a team's directory in it, means the workspace around it.
        let around = given.ancestors().find(|it| it.file_name().is_some_and(|name| name == ".team"));
        return Ok(around.and_then(Path::parent).map_or(given.clone(), Path::to_owned));
    }
    if let Some(named) = std::env::var_os("TEAM_AGENT_WORKSPACE").filter(|it| !it.is_empty()) {
        return absolute(Path::new(&named));
    }
    let cwd = absolute(cwd)?;
    let mut nearest = None;
    for dir in cwd.ancestors() {
        let main = main_checkout(dir).filter(|it| it.join(".team").is_dir());
        let candidate = main.or_else(|| dir.join(".team").is_dir().then(|| dir.to_owned()));
        let Some(candidate) = candidate else { continue };
        if candidate.join(".team/id").exists() {
            return Ok(candidate);
        }
        nearest.get_or_insert(candidate);
    }
    nearest.ok_or(WorkspaceError::NoTeam(cwd))
}

/// The main checkout of a linked git worktree, if `dir` is the top of one.
fn main_checkout(dir: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(dir.join(".git")).ok()?;
    let git_dir = dir.join(text.strip_prefix("gitdir:")?.trim());
    let common = fs::read_to_string(git_dir.join("commondir")).ok()?;
    fs::canonicalize(git_dir.join(common.trim())).ok()?.parent().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_found_from_below_and_from_inside_its_team_directory() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(root.join(".team/current/agents")).unwrap();
        fs::create_dir_all(root.join("src/deep")).unwrap();
        assert_eq!(discover(None, &root.join("src/deep")).unwrap(), root);
        assert_eq!(discover(Some(&root.join(".team/current")), Path::new("/")).unwrap(), root);
        assert!(matches!(discover(None, Path::new("/")), Err(WorkspaceError::NoTeam(_)) | Ok(_)));
    }

    #[test]
    fn in_a_linked_worktree_the_main_checkout_wins() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir_all(root.join("main/.team")).unwrap();
        fs::create_dir_all(root.join("main/.git/worktrees/lane")).unwrap();
        fs::write(root.join("main/.git/worktrees/lane/commondir"), "../..\n").unwrap();
        fs::create_dir_all(root.join("lane/.team")).unwrap();
        fs::write(
            root.join("lane/.git"),
            format!("gitdir: {}\n", root.join("main/.git/worktrees/lane").display()),
        )
        .unwrap();
        assert_eq!(discover(None, &root.join("lane")).unwrap(), root.join("main"));
    }
}
