//! What the engine knows about a seat before its program starts.
//!
//! Knows words and paths. Must not know where they came from: files, flags and
//! the log belong to the callers.

use std::collections::BTreeMap;
use std::path::Path;

/// How the program proves to its service who is asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Auth {
    /// The person's own log-in, in the program's own home.
    Subscription,
    /// A key for the maker's own service.
    OfficialApi,
    /// A key and an address of a service that speaks the same protocol.
    CompatibleApi,
}

impl Auth {
    /// Returns the word that profiles and role files use for this mode.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Subscription => "subscription",
            Self::OfficialApi => "official_api",
            Self::CompatibleApi => "compatible_api",
        }
    }

    /// Returns the mode that a profile's word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "subscription" => Some(Self::Subscription),
            "official_api" | "api" | "api_key" => Some(Self::OfficialApi),
            "compatible_api" | "compatible" => Some(Self::CompatibleApi),
            _ => None,
        }
    }
}

/// Whether the workspace folder counts as trusted for this start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderTrust {
    /// Nobody said so; the program's own question stays.
    No,
    /// The program's own configuration trusts the folder or one above it.
    OwnConfig,
    /// A person granted it to us.
    Granted,
}

impl FolderTrust {
    /// Says whether the program's question may be answered beforehand.
    pub fn is_trusted(self) -> bool {
        self != Self::No
    }
}

/// Which conversation the program begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start<'a> {
    /// A new conversation under an id of our choice.
    Fresh {
        /// The id to give it.
        native_id: &'a str,
    },
    /// An earlier conversation goes on.
    Resume {
        /// Its id.
        native_id: &'a str,
        /// Its transcript, where the id alone would not be found from this folder.
        transcript: Option<&'a Path>,
    },
    /// A new conversation that begins with the history of another.
    Fork {
        /// The id of the conversation whose history is taken.
        from: &'a str,
        /// The transcript of that conversation, where its id would not be found.
        transcript: Option<&'a Path>,
        /// The id of the new conversation.
        native_id: &'a str,
    },
}

impl<'a> Start<'a> {
    /// Returns the id that the conversation has once it runs.
    pub fn native_id(&self) -> &'a str {
        match self {
            Self::Fresh { native_id } | Self::Resume { native_id, .. } | Self::Fork { native_id, .. } => {
                native_id
            }
        }
    }
}

/// Everything a provider may use to describe the start of one seat.
#[derive(Debug, Clone)]
pub struct SeatContext<'a> {
    /// Name of the seat.
    pub agent: &'a str,
    /// Name of its team.
    pub team: &'a str,
    /// Folder the program runs in, absolute, without links.
    pub cwd: &'a Path,
    /// Top folder of the repository around `cwd`, if there is one.
    pub git_root: Option<&'a Path>,
    /// The program, absolute and resolved.
    pub program: &'a Path,
    /// Our own binary, absolute.
    pub self_exe: &'a Path,
    /// File that tells our commands which seat they serve.
    pub seat_file: &'a Path,
    /// Private folder of the seat, mode 0700, outside the workspace.
    pub seat_dir: &'a Path,
    /// Where a server of the program's own may listen: short enough for a socket, in a private folder.
    pub socket: &'a Path,
    /// Where it may listen on the loopback interface: a port that was free a moment ago.
    pub port: u16,
    /// A random word of this start alone, for a server that wants a password.
    pub secret: &'a str,
    /// Text added to the system prompt, role included, of any length.
    pub preamble: &'a str,
    /// Model asked for, if any.
    pub model: Option<&'a str>,
    /// Effort asked for, if any.
    pub effort: Option<&'a str>,
    /// Tool words of the role; empty or `*` leaves the program's own set.
    pub tools: &'a [String],
    /// How the program proves who is asking.
    pub auth: Auth,
    /// Environment that the profile gives, secrets included.
    pub profile: &'a BTreeMap<String, String>,
    /// The person's environment as it was captured.
    pub env: &'a BTreeMap<String, String>,
    /// Home folder of the person.
    pub home: &'a Path,
    /// What the person's own settings files of the program hold, where the start builds on them; one for each that the
    /// provider named, `None` where there is none.
    pub own_settings: &'a [Option<String>],
    /// Which conversation to begin with.
    pub start: Start<'a>,
    /// Whether the folder counts as trusted.
    pub trust: FolderTrust,
    /// Whether the program may act without asking.
    pub skip_permissions: bool,
    /// Version that the program told, if it was asked.
    pub version: Option<&'a str>,
}

impl SeatContext<'_> {
    /// Says that the program will ask whether the folder is trusted.
    pub(crate) fn untrusted(&self, program: &str) -> String {
        format!(
            "`{program}` will ask whether `{}` is trusted: nobody has trusted this folder yet; `team-agent grant trust` does",
            self.cwd.display()
        )
    }
}
