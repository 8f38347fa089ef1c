//! Whether the disks of a workspace have room for the least that a team writes.

use std::path::PathBuf;

use team_journal::{Disk as _, RealDisk};

use crate::error::EngineError;
use crate::workspace::Workspace;

/// With less than this even a team that only goes on cannot count on being able to write.
const NEEDED: u64 = 256 << 10;

/// A disk without room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Full {
    /// What of the workspace lies on it.
    pub(crate) place: PathBuf,
    /// The bytes that are free.
    pub(crate) free: u64,
}

impl Full {
    /// Says it in a sentence.
    pub(crate) fn what(&self) -> String {
        let Self { place, free } = self;
        format!(
            "the disk that holds `{}` is full: {free} bytes are free, {NEEDED} are needed",
            place.display()
        )
    }

    /// The command that shows the disk.
    pub(crate) fn command(&self) -> String {
        format!("df -h '{}'", self.place.display())
    }
}

/// The first of the workspace's disks that is full.
pub(crate) fn full(workspace: &Workspace) -> Option<Full> {
    [workspace.team_root(), workspace.state_dir.clone()].into_iter().find_map(|place| {
        let free = RealDisk.free(&place).ok().filter(|it| *it < NEEDED)?;
        Some(Full { place, free })
    })
}

/// Whether something failed because a disk is full.
pub(crate) fn is_lacking(error: &EngineError) -> bool {
    use std::io::ErrorKind as K;
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(it) = cause {
        if let Some(io) = it.downcast_ref::<std::io::Error>()
            && matches!(io.kind(), K::StorageFull | K::QuotaExceeded)
        {
            return true;
        }
        cause = it.source();
    }
    matches!(error, EngineError::Log(team_journal::Error::NoSpace { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_other_faults() {
        let io = |source| EngineError::Io { doing: "write", path: "f".into(), source };
        assert!(is_lacking(&io(std::io::ErrorKind::StorageFull.into())));
        assert!(!is_lacking(&io(std::io::ErrorKind::NotFound.into())));
        let workspace = crate::workspace::WorkspaceError::Io {
            doing: "write",
            path: "f".into(),
            source: std::io::ErrorKind::StorageFull.into(),
        };
        assert!(is_lacking(&workspace.into()));
        let log = team_journal::Error::NoSpace { path: "f".into(), free: 0, needed: 1 };
        assert!(is_lacking(&log.into()));
    }
}
