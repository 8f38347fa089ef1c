//! Which crate names which.

use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::Found;
use super::rules::EDGES;
use crate::repo;

/// Returns each edge between our crates that is not in the list.
pub(crate) fn check() -> Result<Found> {
    let mut command = repo::cargo();
    command.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let output = command.stdin(Stdio::null()).output().context("failed to start cargo")?;
    if !output.status.success() {
        bail!("cargo cannot read the workspace: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo printed no JSON")?;
    Ok(wrong(&metadata))
}

fn wrong(metadata: &Value) -> Found {
    let mut found = Found::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = EDGES.iter().find(|(it, _)| *it == name) else {
            found.push(format!("{name}: is in no list of crates; see `EDGES` in xtask/src/check/rules.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let other = dependency["name"].as_str().unwrap_or_default();
            // Ours have a path; what only tests need is free.
            let counts = dependency["path"].is_string() && dependency["kind"] != "dev";
            if counts && !allowed.contains(&other) {
                found.push(format!("{name} must not know {other}: that is a change of the design"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_new_edge_is_noticed_and_one_for_tests_is_not() {
        let on = |name: &str, kind: Value| json!({"name": name, "path": "/x", "kind": kind});
        let dependencies = [
            on("team-tmux", Value::Null),
            on("team-testkit", json!("dev")),
            json!({"name": "serde", "path": null, "kind": null}),
        ];
        let metadata = json!({"packages": [{"name": "team-model", "dependencies": dependencies}]});
        assert_eq!(wrong(&metadata), ["team-model must not know team-tmux: that is a change of the design"]);
    }

    #[test]
    fn crates_point_down() {
        let place = |name: &str| {
            let order = [
                "team-scenarios",
                "xtask",
                "team-agent",
                "team-selftest",
                "team-testkit",
                "team-mcp",
                "team-engine",
                "team-fake",
                "team-tmux",
            ];
            order.iter().position(|it| *it == name).unwrap_or(order.len() + usize::from(name == "team-model"))
        };
        for (from, to) in EDGES.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to))) {
            assert!(place(from) < place(to), "{from} -> {to}");
        }
    }
}
