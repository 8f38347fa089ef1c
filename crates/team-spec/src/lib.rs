//! TEAM.md and role files into a spec, with errors that point at the line.
//!
//! Knows: the files that people write (TEAM.md, `agents/*.md`, profiles), the
//! texts the program brings along, and where they lie below `.team/`.
//! Must not know: the log, tmux, how a provider is started, who prints errors.
//!
//! [`locate`] finds a team's directory, [`compile()`] reads it whole or says all
//! that is wrong, [`copy_into`] brings it below `.team/`. What people wrote is
//! never changed.

mod approvals;
mod compile;
mod copy;
mod dotenv;
mod error;
mod fields;
mod known;
mod models;
mod place;
mod profile;
mod profile_file;
mod role_file;
mod secret;
mod similar;
mod spec;
mod team_file;
mod template;
mod text;
mod yaml;

pub use approvals::{Approvals, Ruling};
pub use compile::compile;
pub use copy::{CopyError, copied_from, copy_into};
pub use dotenv::{Entry, LineError, parse_dotenv};
pub use error::{Snippet, SpecError, SpecErrors};
pub use known::{AskModels, AuthMode, Capabilities, Effort, KeyNames, Known, Tool};
pub use models::{ModelName, Models};
pub use place::{AGENTS_DIR, DEFAULT_KEY, LocateError, TEAM_DIR, TEAM_FILE, TeamSource, check_key, locate};
pub use profile::{Profile, parse_profile};
pub use profile_file::{PROFILES_DIR, ProfileError, check_name, init_profile, read_profile};
pub use secret::Secret;
pub use spec::{ModelChoice, ModelSource, Place, SPEC_FILE, SPEC_VERSION, Spec, SpecSeat, session_name};
pub use template::{
    DEMO_TEMPLATE, Preamble, TEAM_TEMPLATE, TemplateFile, WORKER_PREAMBLE, fill, init_team, write_template,
};
