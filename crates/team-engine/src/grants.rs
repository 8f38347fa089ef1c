//! What a person has granted to the teams of a workspace, kept where no agent can write.
//!
//! Knows the file. Must not know who may grant.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use team_model::TeamKey;
use team_spec::Approvals;

use crate::decide::Refusal;
use crate::error::EngineError;
use crate::workspace::{Workspace, write};

/// Everything that was granted in a workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grants {
    /// The folder that the agents' programs may take for trusted, as it was called then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
    /// Patterns of TEAM.md that may allow what an agent asks, by team.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub approvals: BTreeMap<TeamKey, BTreeSet<String>>,
}

fn path(workspace: &Workspace) -> PathBuf {
    workspace.state_dir.join("grants.json")
}

/// Takes back what was granted to a team that is forgotten.
pub fn forget(workspace: &Workspace, team: &TeamKey) -> Result<(), EngineError> {
    if Grants::read(workspace).approvals.contains_key(team) {
        change(workspace, |it| drop(it.approvals.remove(team)))?;
    }
    Ok(())
}

/// Changes them, one after another who wants to; what cannot be read is not written over.
pub fn change(workspace: &Workspace, change: impl FnOnce(&mut Grants)) -> Result<Grants, EngineError> {
    let file = path(workspace);
    let failed = |doing| {
        let path = file.clone();
        move |source| EngineError::Io { doing, path, source }
    };
    let lock = std::fs::File::create(file.with_extension("lock")).map_err(failed("make the lock of"))?;
    lock.lock().map_err(failed("lock"))?;
    let mut grants = match std::fs::read_to_string(&file) {
        Ok(text) => serde_json::from_str(&text).map_err(|_| {
            let message = format!("`{}` is damaged, and nothing is granted until it is gone", file.display());
            Refusal::new("grants_damaged", message)
                .with_hint(format!("run `rm '{}'`, then grant anew", file.display()))
        })?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Grants::default(),
        Err(error) => return Err(failed("read")(error)),
    };
    change(&mut grants);
    let text = serde_json::to_string(&grants).unwrap_or_default();
    write(&file, &text, 0o600)?;
    Ok(grants)
}

impl Grants {
    /// Reads them; what cannot be read grants nothing.
    pub fn read(workspace: &Workspace) -> Self {
        let text = std::fs::read_to_string(path(workspace)).ok();
        text.and_then(|it| serde_json::from_str(&it).ok()).unwrap_or_default()
    }

    /// Says whether a folder may be taken for trusted: it lies in the workspace, and that was granted under this name.
    pub fn trusts(&self, workspace: &Workspace, folder: &Path) -> bool {
        self.folder.as_deref() == Some(workspace.root.as_path()) && folder.starts_with(&workspace.root)
    }

    /// Says whether a pattern may allow what an agent of a team asks.
    pub fn allows(&self, team: &TeamKey, pattern: &str) -> bool {
        self.approvals.get(team).is_some_and(|it| it.contains(pattern))
    }

    /// The patterns that allow something and were not granted. To deny needs no grant.
    pub fn missing(&self, team: &TeamKey, rules: &Approvals) -> Vec<String> {
        rules.allow.iter().filter(|it| !self.allows(team, it)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_granted_is_granted() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace {
            root: dir.path().to_owned(),
            id: "0123456789abcdef".to_owned(),
            state_dir: dir.path().to_owned(),
            copied_from: None,
            exists: true,
        };
        let (team, other) = (TeamKey::new("current").unwrap(), TeamKey::new("other").unwrap());
        let rules = |allow: &[&str]| Approvals {
            allow: allow.iter().map(ToString::to_string).collect(),
            deny: vec!["Edit(*)".to_owned()],
        };
        let none = Grants::read(&workspace);
        assert_eq!(none, Grants::default());
        assert!(!none.trusts(&workspace, dir.path()));
        assert_eq!(none.missing(&team, &rules(&["Bash(ls)"])), ["Bash(ls)"]);
        assert!(none.missing(&team, &rules(&[])).is_empty());

        let given = Grants {
            folder: Some(dir.path().to_owned()),
            approvals: [(team.clone(), ["Bash(ls)".to_owned()].into())].into(),
        };
        let kept = change(&workspace, |it| it.clone_from(&given)).unwrap();
        let read = Grants::read(&workspace);
        assert_eq!(kept, read);
        assert_eq!(read, given);
        assert!(read.trusts(&workspace, &dir.path().join("sub")));
        assert!(!read.trusts(&workspace, dir.path().parent().unwrap()));
        assert!(!read.trusts(&Workspace { root: "/moved".into(), ..workspace.clone() }, Path::new("/moved")));
        assert_eq!(read.missing(&team, &rules(&["Bash(ls)", "Bash"])), ["Bash"]);
        assert!(!read.allows(&other, "Bash(ls)"));

        std::fs::write(path(&workspace), "{").unwrap();
        assert_eq!(Grants::read(&workspace), Grants::default());
        let refused = change(&workspace, |_| ()).unwrap_err();
        assert!(refused.to_string().contains("is damaged"), "{refused}");
        assert_eq!(std::fs::read_to_string(path(&workspace)).unwrap(), "{");
    }
}
