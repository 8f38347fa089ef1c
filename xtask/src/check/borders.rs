//! Looks through all files for what must not stand where it stands.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::Found;
use super::rules::{HOST_EXCEPTIONS, HOSTS, LINES, RULES, Rule};
use crate::repo;

/// Returns each line that crosses a border, by place.
pub(crate) fn check() -> Result<Found> {
    let mut found = Found::new();
    let places = places_of_this_machine();
    for path in repo::files()? {
        let name = path.to_string_lossy().into_owned();
        let bytes = fs::read(repo::root().join(&path)).with_context(|| format!("failed to read `{name}`"))?;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        found.extend(hosts(&name, &text));
        found.extend(
            places
                .iter()
                .filter(|it| text.contains(it.as_str()))
                .map(|it| format!("{name}: names `{it}`, a place of this machine")),
        );
        if path.extension().is_some_and(|it| it == "rs") {
            found.extend(length(&name, &text));
            if !is_test(&path) {
                found.extend(RULES.iter().flat_map(|rule| crossings(rule, &name, &text)));
            }
        }
    }
    Ok(found)
}

fn crossings(rule: &Rule, name: &str, text: &str) -> Found {
    let begins = |it: &str| name.starts_with(it);
    let inside = rule.within.iter().any(|it| begins(it)) && name.contains("/src/");
    let allowed = rule.home.iter().any(|it| begins(it)) || rule.except.iter().any(|(it, _)| begins(it));
    if !inside || allowed {
        return Found::new();
    }
    code(text)
        .filter_map(|(number, line)| {
            let hit = rule.words.iter().find(|word| holds(line, word));
            hit.map(|word| format!("{name}:{number}: `{word}`: {}", rule.about))
        })
        .collect()
}

/// The lines of code with their numbers: no comments, and nothing behind the first `#[cfg(test)]` of a module.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let end = lines
        .windows(2)
        .position(|it| it[0].trim() == "#[cfg(test)]" && it[1].trim_start().starts_with("mod "))
        .unwrap_or(lines.len());
    lines.into_iter().take(end).enumerate().filter_map(|(at, line)| {
        let line = if line.trim_start().starts_with("//") { "" } else { line };
        let line = line.split(" // ").next().unwrap_or(line);
        (!line.trim().is_empty()).then_some((at + 1, line))
    })
}

/// Tells whether a line holds a word, and not only as a part of a longer one.
fn holds(line: &str, word: &str) -> bool {
    let part = |it: Option<char>| it.is_some_and(|it| it.is_alphanumeric() || it == '_');
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let begun_before = part(word.chars().next()) && part(before);
        let goes_on = part(word.chars().next_back()) && part(after);
        !begun_before && !goes_on
    })
}

fn is_test(path: &Path) -> bool {
    path.components().any(|it| it.as_os_str() == "tests") || path.ends_with("tests.rs")
}

fn length(name: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    let explained =
        text.lines().take_while(|it| it.starts_with("//!")).any(|it| it.starts_with("//! Long: "));
    (lines > LINES && !explained).then(|| {
        format!("{name}: {lines} lines; split it, or say why not in a line `//! Long: ...` at its top")
    })
}

fn hosts(name: &str, text: &str) -> Found {
    if HOST_EXCEPTIONS.iter().any(|(it, _)| *it == name) {
        return Found::new();
    }
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(at, line)| {
            let hit = HOSTS.iter().find(|it| line.contains(**it));
            hit.map(|it| format!("{name}:{}: names the host `{it}`", at + 1))
        })
        .collect()
}

/// Directories that mean something here and nowhere else. Very short ones would be found by chance.
fn places_of_this_machine() -> Vec<String> {
    let home = std::env::var("HOME").unwrap_or_default();
    let cargo = std::env::var("CARGO_HOME").unwrap_or_default();
    let root = repo::root().to_string_lossy().into_owned();
    let mut places: Vec<String> = [home, cargo, root].into_iter().filter(|it| it.len() > 4).collect();
    for it in &mut places {
        it.push('/');
    }
    places.sort();
    places.dedup();
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule {
        about: "only a knows clap",
        words: &["clap", "\"tmux\""],
        within: &["crates/"],
        home: &["crates/a/src/"],
        except: &[("crates/b/src/x.rs", "a reason")],
    };

    #[test]
    fn a_word_is_found_where_it_must_not_stand() {
        let text = "//! clap is known elsewhere\nuse clap::Args;\nlet overclap = clapper; // clap\n";
        assert_eq!(
            crossings(&RULE, "crates/b/src/y.rs", text),
            ["crates/b/src/y.rs:2: `clap`: only a knows clap"]
        );
        assert_eq!(crossings(&RULE, "crates/a/src/y.rs", text), Found::new());
        assert_eq!(crossings(&RULE, "crates/b/src/x.rs", text), Found::new());
        assert_eq!(crossings(&RULE, "xtask/src/y.rs", text), Found::new());
        assert_eq!(crossings(&RULE, "crates/b/src/y.rs", "run(\"tmux\")").len(), 1);
    }

    #[test]
    fn tests_may_name_what_they_like() {
        let text = "fn f() {}\n#[cfg(test)]\nmod tests {\n    use clap::Args;\n}\n";
        assert_eq!(crossings(&RULE, "crates/b/src/y.rs", text), Found::new());
        assert!(is_test(Path::new("crates/b/tests/y.rs")) && is_test(Path::new("crates/b/src/y/tests.rs")));
    }

    #[test]
    fn a_long_file_says_why() {
        let long = "x\n".repeat(LINES + 1);
        assert!(length("a.rs", &long).is_some());
        assert_eq!(length("a.rs", &format!("//! What it is.\n//! Long: one table.\n{long}")), None);
    }

    #[test]
    fn hosts_are_named_by_cargo_alone() {
        let line = format!("see https://{}/x\n", HOSTS[0]);
        assert_eq!(hosts("docs/x.md", &line).len(), 1);
        assert_eq!(hosts("Cargo.lock", &line), Found::new());
    }

    #[test]
    fn every_exception_has_a_reason_and_is_there() {
        for (path, reason) in RULES.iter().flat_map(|it| it.except).chain(HOST_EXCEPTIONS) {
            assert!(reason.len() > 8, "{path}");
            assert!(repo::root().join(path).exists(), "{path}");
        }
    }
}
