//! Whether the documents name what there is: files, and every event of the log.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, Result};

use super::Found;
use crate::repo;

/// What a path of ours begins with.
const OURS: [&str; 8] =
    ["crates/", "docs/", "profiles/", "templates/", "tests/", "xtask/", ".ci/", ".cargo/"];

/// Where the events are: one file, or a directory of that name.
const EVENTS: &str = "crates/team-model/src/event";

/// Returns each path that is named and is not there, and each event that is not described or not known.
pub(crate) fn check() -> Result<Found> {
    let mut found = Found::new();
    for path in repo::files()? {
        if path.extension().is_none_or(|it| it != "md")
            || !(path.starts_with("docs") || path.components().count() == 1)
        {
            continue;
        }
        let text = read(&path.to_string_lossy())?;
        let broken = paths(&text).into_iter().filter(|it| !repo::root().join(it).exists());
        found.extend(broken.map(|it| format!("{}: `{it}` is not there", path.display())));
    }
    let mut events = BTreeSet::new();
    for path in repo::files()?.iter().map(|it| it.to_string_lossy()).filter(|it| it.starts_with(EVENTS)) {
        events.extend(events_of(&read(&path)?));
    }
    found.extend(compare(&events, &rows_of(&read("docs/events.md")?)));
    Ok(found)
}

fn read(name: &str) -> Result<String> {
    fs::read_to_string(repo::root().join(name)).with_context(|| format!("failed to read `{name}`"))
}

fn compare(known: &BTreeSet<String>, described: &BTreeSet<String>) -> Found {
    let missing = known.difference(described).map(|it| format!("docs/events.md: `{it}` is not described"));
    let extra = described.difference(known).map(|it| format!("docs/events.md: there is no event `{it}`"));
    missing.chain(extra).collect()
}

/// The names of events: those renames that have a dot.
fn events_of(source: &str) -> BTreeSet<String> {
    let names =
        source.lines().filter_map(|it| it.trim().strip_prefix("#[serde(rename = \"")?.strip_suffix("\")]"));
    names.filter(|it| it.contains('.')).map(str::to_owned).collect()
}

/// The names that begin a row of a table.
fn rows_of(page: &str) -> BTreeSet<String> {
    let names = page.lines().filter_map(|it| it.strip_prefix("| `")?.split_once('`'));
    names
        .map(|(name, _)| name)
        .filter(|it| it.contains('.') && !it.contains('/'))
        .map(str::to_owned)
        .collect()
}

/// The paths of ours that stand in backticks or behind a link; patterns are left out.
fn paths(page: &str) -> BTreeSet<String> {
    let quoted = page.split('`').skip(1).step_by(2);
    quoted
        .filter(|it| OURS.iter().any(|ours| it.starts_with(ours)))
        .filter(|it| !it.contains(['*', '<', '{', ' ', '…', '\n']))
        .map(|it| it.split(['#', ':']).next().unwrap_or(it).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_compared_both_ways() {
        let known = events_of(
            "    #[serde(rename = \"team.lost\")]\n    TeamLost {},\n #[serde(rename = \"idle\")]\n",
        );
        let described = rows_of("| `team.found` | nobody | |\n| `docs/x.md` | |\n");
        assert_eq!(
            compare(&known, &described),
            [
                "docs/events.md: `team.lost` is not described",
                "docs/events.md: there is no event `team.found`"
            ]
        );
    }

    #[test]
    fn paths_are_those_in_backticks() {
        let page = "See `crates/team-model/src/fold.rs`, `crates/*/src`, `tests/x.rs:12` and crates/none.";
        assert_eq!(
            paths(page),
            BTreeSet::from(["crates/team-model/src/fold.rs".to_owned(), "tests/x.rs".to_owned()])
        );
    }
}
