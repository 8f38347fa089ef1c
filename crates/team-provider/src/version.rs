//! Which versions of the programs were tried, and which are known to be bad.
//!
//! Knows the table in `data/versions.yaml`. Must not run a program to ask it.

use std::sync::LazyLock;

use serde::Deserialize;

/// What is known about the versions of one provider's program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Versions {
    /// Name of the provider.
    pub provider: String,
    /// Versions on which our facts were seen.
    pub tested: Vec<String>,
    /// Versions with a known fault.
    #[serde(default)]
    pub rules: Vec<VersionRule>,
}

/// A range of versions with a known fault.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionRule {
    /// Short name of the rule.
    pub id: String,
    /// First version with the fault.
    pub from: String,
    /// Last version with the fault.
    pub to: String,
    /// Whether it shows only inside tmux.
    #[serde(default)]
    pub in_tmux: bool,
    /// What goes wrong.
    pub says: String,
    /// What to do about it.
    pub next: String,
}

/// A judgement about a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionVerdict {
    /// Our facts were seen on this one.
    Tested,
    /// Newer than all we have tried.
    Newer {
        /// The newest we have tried.
        tested: String,
    },
    /// Not tried, and not newer than all we have.
    Untested {
        /// The newest we have tried.
        tested: String,
    },
    /// Known to go wrong.
    Bad(VersionRule),
    /// Not readable as a version, or no version of this program was tried.
    Unknown,
}

static TABLE: LazyLock<Vec<Versions>> = LazyLock::new(|| {
    serde_saphyr::from_str(include_str!("../data/versions.yaml"))
        .expect("the embedded version table is valid")
});

/// Returns what is known about a provider's versions.
pub(crate) fn versions(provider: &str) -> Option<&'static Versions> {
    TABLE.iter().find(|it| it.provider == provider)
}

/// Returns the known faults of a provider's program.
pub fn version_rules(provider: &str) -> &'static [VersionRule] {
    versions(provider).map_or(&[], |it| it.rules.as_slice())
}

/// Judges a version of a provider's program, also of one that we cannot start.
///
/// `version` may be the whole line that the program prints. Faults that show only
/// inside tmux count only if `in_tmux`.
pub fn check_version(provider: &str, version: &str, in_tmux: bool) -> VersionVerdict {
    let (Some(known), Some(asked)) = (versions(provider), parse(version)) else {
        return VersionVerdict::Unknown;
    };
    for rule in &known.rules {
        let within = parse(&rule.from).is_some_and(|from| from <= asked)
            && parse(&rule.to).is_some_and(|to| asked <= to);
        if within && (in_tmux || !rule.in_tmux) {
            return VersionVerdict::Bad(rule.clone());
        }
    }
    let newest = known.tested.iter().filter_map(|it| Some((parse(it)?, it))).max();
    match newest {
        None => VersionVerdict::Unknown,
        Some(_) if known.tested.iter().any(|it| parse(it).as_ref() == Some(&asked)) => VersionVerdict::Tested,
        Some((newest, text)) if asked > newest => VersionVerdict::Newer { tested: text.clone() },
        Some((_, text)) => VersionVerdict::Untested { tested: text.clone() },
    }
}

/// Reads the first dotted number in a text, with trailing zeros and words left out.
fn parse(text: &str) -> Option<Vec<u64>> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '-' || c == '+'))
        .map(|word| word.trim_start_matches('v'))
        .find_map(|word| {
            let number = word.split(['-', '+']).next()?;
            let parts: Vec<u64> = number.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
            (parts.len() >= 2).then_some(parts)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_of_the_table_is_a_range_with_words() {
        for versions in TABLE.iter() {
            assert!(versions.tested.iter().all(|it| parse(it).is_some()), "{}", versions.provider);
            for rule in &versions.rules {
                let (from, to) = (parse(&rule.from), parse(&rule.to));
                assert!(from.is_some() && from <= to, "{}", rule.id);
                assert!(!rule.says.is_empty() && !rule.next.is_empty(), "{}", rule.id);
            }
        }
    }

    #[test]
    fn a_line_that_a_program_prints_is_judged() {
        let judge = |provider, text| check_version(provider, text, true);
        assert_eq!(judge("claude", "2.1.197 (Claude Code)\n"), VersionVerdict::Tested);
        assert_eq!(
            judge("claude", "2.1.198 (Claude Code)"),
            VersionVerdict::Newer { tested: "2.1.197".into() }
        );
        assert_eq!(judge("claude", "2.2.0-beta.1"), VersionVerdict::Newer { tested: "2.1.197".into() });
        assert_eq!(judge("claude", "2.1.9"), VersionVerdict::Untested { tested: "2.1.197".into() });
        assert_eq!(judge("codex", "codex-cli 0.171.0"), VersionVerdict::Tested);
        assert_eq!(judge("claude", "command not found"), VersionVerdict::Unknown);
        assert_eq!(judge("claude", ""), VersionVerdict::Unknown);
        assert_eq!(judge("nosuch", "1.2.3"), VersionVerdict::Unknown);
    }

    #[test]
    fn a_fault_inside_tmux_counts_only_there() {
        for version in ["1.0.70", "1.0.72", "1.0.74"] {
            let inside = check_version("copilot", version, true);
            assert!(matches!(inside, VersionVerdict::Bad(ref rule) if rule.in_tmux), "{version}");
            assert!(!matches!(check_version("copilot", version, false), VersionVerdict::Bad(_)), "{version}");
        }
        for version in ["1.0.69", "1.0.75", "1.0.102"] {
            assert!(!matches!(check_version("copilot", version, true), VersionVerdict::Bad(_)), "{version}");
        }
    }
}
