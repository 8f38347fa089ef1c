//! The words that fields may hold, and what the providers can do.
//!
//! Knows names and abilities. Must not know how a provider is started.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::models::Models;

macro_rules! words {
    ($(#[$doc:meta])* $type:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $type {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant,)+
        }

        impl $type {
            /// Every value, in the order in which they are explained.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Returns the word as it stands in files.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// Returns the value for a word.
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|it| it.as_str() == word)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.pad(self.as_str())
            }
        }
    };
}

words! {
    /// How hard a model thinks.
    Effort {
        /// The least.
        Low = "low",
        /// The usual.
        Medium = "medium",
        /// More.
        High = "high",
        /// Much more.
        Xhigh = "xhigh",
        /// All there is.
        Max = "max",
    }
}

words! {
    /// How a provider is paid and logged in to.
    AuthMode {
        /// The log-in that the person made in the provider's own program.
        Subscription = "subscription",
        /// A key for the provider's own service.
        OfficialApi = "official_api",
        /// A key and an address of another service that speaks the same protocol.
        CompatibleApi = "compatible_api",
    }
}

words! {
    /// What an agent may do.
    Tool {
        /// Read files.
        FsRead = "fs_read",
        /// List directories.
        FsList = "fs_list",
        /// Create, change and delete files.
        FsWrite = "fs_write",
        /// Run commands in a shell.
        ExecuteBash = "execute_bash",
        /// See what changed in the repository.
        GitDiff = "git_diff",
        /// Reach the network.
        Network = "network",
        /// Talk to the team and report results.
        McpTeam = "mcp_team",
        /// Whatever else the provider's program brings along.
        ProviderBuiltin = "provider_builtin",
    }
}

/// What a provider can do in this build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether it has a setting for faster answers.
    pub fast: bool,
    /// The efforts it knows; empty when it has no such setting.
    pub efforts: Vec<Effort>,
    /// The ways to log in that it knows.
    pub auth_modes: Vec<AuthMode>,
    /// The model used when no file names one; `None` leaves it to the provider.
    pub default_model: Option<String>,
    /// The variables in which its program looks for what a profile says.
    pub key_names: KeyNames,
}

/// The variables in which a provider's program looks for what a profile says;
/// `None` where it has none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyNames {
    /// For `BASE_URL`.
    pub base_url: Option<String>,
    /// For `API_KEY`.
    pub api_key: Option<String>,
    /// For `AUTH_TOKEN`.
    pub auth_token: Option<String>,
}

impl KeyNames {
    /// Names the variables; an empty name stands for none.
    pub fn new(base_url: &str, api_key: &str, auth_token: &str) -> Self {
        let name = |it: &str| (!it.is_empty()).then(|| it.to_owned());
        Self { base_url: name(base_url), api_key: name(api_key), auth_token: name(auth_token) }
    }
}

/// Tells which models a provider's program knows, if it has a list of them and can be asked now.
pub type AskModels = fn(provider: &str) -> Option<Models>;

/// The providers that files may name.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// What each provider can do, by name.
    pub providers: BTreeMap<String, Capabilities>,
    /// Other spellings, each with the name it stands for.
    pub aliases: BTreeMap<String, String>,
    /// Asks for the models of a provider; only where one of them is named.
    pub models: Option<AskModels>,
}

impl Known {
    /// Returns the models that a provider's program knows, if that can be known.
    pub(crate) fn models(&self, provider: &str) -> Option<Models> {
        self.models.and_then(|ask| ask(provider))
    }

    /// Returns the provider's own name for a name or another spelling of it.
    pub fn canonical<'a>(&'a self, word: &'a str) -> Option<&'a str> {
        let name = self.aliases.get(word).map_or(word, String::as_str);
        self.providers.get_key_value(name).map(|(name, _)| name.as_str())
    }

    /// Returns the providers' own names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.providers.keys().map(String::as_str)
    }

    /// Returns every word that may stand for a provider.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.providers.keys().chain(self.aliases.keys()).map(String::as_str)
    }
}

/// Joins words for a hint.
pub(crate) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ")
}
