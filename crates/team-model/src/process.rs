//! Which process exactly: a pid alone is reused.

use serde::{Deserialize, Serialize};

/// A process that can be told from every other one, also after a reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// The pid in its own namespace.
    pub pid: u32,
    /// When it started, in the kernel's own units since boot (field 22 of `/proc/<pid>/stat` on Linux).
    pub start: u64,
    /// The boot it belongs to.
    pub boot: String,
    /// The pid namespace it lives in; empty where there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}
