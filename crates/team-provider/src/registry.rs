//! The providers there are, by name.
//!
//! Knows every provider's name.

use crate::claude::Claude;
use crate::codex::Codex;
use crate::copilot::Copilot;
use crate::fake::Fake;
use crate::gemini::Gemini;
use crate::opencode::OpenCode;
use crate::provider::Provider;

/// A provider.
#[derive(Clone, Copy)]
pub struct Known {
    /// Name that role files and profiles use.
    pub name: &'static str,
    /// Other names that mean the same.
    pub aliases: &'static [&'static str],
    /// File name of its program.
    pub program: &'static str,
    /// Whether it is offered to people; the built-in one for trials is not.
    pub listed: bool,
    provider: &'static dyn Provider,
}

impl Known {
    /// Returns the provider itself.
    pub fn provider(&self) -> &'static dyn Provider {
        self.provider
    }
}

static KNOWN: &[Known] = &[
    Known {
        name: "claude",
        aliases: &["claude_code", "claude-code"],
        program: "claude",
        listed: true,
        provider: &Claude,
    },
    Known {
        name: "codex",
        aliases: &["codex_cli", "codex-cli"],
        program: "codex",
        listed: true,
        provider: &Codex,
    },
    Known {
        name: "copilot",
        aliases: &["copilot_cli", "copilot-cli", "github_copilot"],
        program: "copilot",
        listed: true,
        provider: &Copilot,
    },
    Known {
        name: "gemini",
        aliases: &["gemini_cli", "gemini-cli"],
        program: "gemini",
        listed: true,
        provider: &Gemini,
    },
    Known {
        name: "opencode",
        aliases: &["open_code", "open-code"],
        program: "opencode",
        listed: true,
        provider: &OpenCode,
    },
    Known { name: "fake", aliases: &[], program: "team-agent", listed: false, provider: &Fake },
];

/// Returns all providers.
pub fn providers() -> &'static [Known] {
    KNOWN
}

/// Returns what is known under a name or one of its aliases.
pub fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|it| it.name == name || it.aliases.contains(&name))
}

/// Returns the provider of a name or alias.
pub fn provider(name: &str) -> Option<&'static dyn Provider> {
    known(name).map(|it| it.provider)
}

/// Returns the known name that is most like a wrong one, if any is.
pub fn similar(name: &str) -> Option<&'static str> {
    let wrong = name.to_lowercase();
    KNOWN
        .iter()
        .filter(|it| it.listed)
        .flat_map(|it| {
            std::iter::once(&it.name).chain(it.aliases).map(|word| (distance(&wrong, word), it.name))
        })
        .min()
        .filter(|(distance, _)| *distance <= 2)
        .map(|(_, name)| name)
}

/// Counts the changes of one character that turn one word into the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let change = corner + usize::from(a != *b);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_are_unique_and_agree_with_their_provider() {
        let mut seen = std::collections::BTreeSet::new();
        for it in providers() {
            for name in std::iter::once(&it.name).chain(it.aliases) {
                assert!(seen.insert(*name), "{name}");
            }
            assert_eq!(it.provider.name(), it.name);
            assert_eq!(it.provider.aliases(), it.aliases);
            assert_eq!(it.provider.program().file_name(), it.program);
        }
    }

    #[test]
    fn a_name_or_an_alias_gives_its_provider_and_another_word_none() {
        for name in ["claude_code", "codex", "copilot", "gemini_cli", "opencode", "fake"] {
            assert!(provider(name).is_some(), "{name}");
        }
        assert!(known("cursor").is_none() && provider("cursor").is_none());
    }

    #[test]
    fn a_misspelled_name_finds_its_neighbour() {
        assert_eq!(similar("cluade"), Some("claude"));
        assert_eq!(similar("Codex"), Some("codex"));
        assert_eq!(similar("opncode"), Some("opencode"));
        assert_eq!(similar("whatever"), None);
        assert_eq!(similar("fake1"), None);
    }
}
