//! What must hold after the demo. Each check reads what the parties themselves wrote, not what the program says.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use team_testkit::{TestWorkspace, leftovers, process};

use super::script::{LETTERS, PARTS};
use crate::say;

/// Each letter stands once in what its receiver took as a prompt, and its bytes came through the terminal.
pub(crate) fn messages_arrived(workspace: &TestWorkspace) -> Result<()> {
    for (from, to, text) in LETTERS {
        let home = home_of(workspace, to)?;
        let prompts: Vec<Value> = read_all(&home.join("submissions"))?
            .lines()
            .map(|line| serde_json::from_str(line).context("a submission is no JSON"))
            .collect::<Result<_>>()?;
        let head = format!("[Team message from {from} to {to}:]");
        let has = |it: &&Value| it["text"].as_str().is_some_and(|it| it.contains(&head) && it.contains(text));
        let times = prompts.iter().filter(has).count();
        ensure!(times == 1, "{to} has the message of {from} {times} times, not once: \"{text}\"");
        let bytes = bytes_of(&home)?;
        ensure!(contains(&bytes, text.as_bytes()), "the terminal of {to} never got \"{text}\" from {from}");
    }
    say::line(&format!("  ok  {} messages between agents arrived, once each", LETTERS.len()));
    Ok(())
}

/// Each agent has reported once, through the tool server, in its own name.
pub(crate) fn reports_came_by_mcp(events: &[Value]) -> Result<()> {
    let reports: Vec<&Value> =
        events.iter().filter(|it| it["event"]["type"] == "mcp.report_result").collect();
    for part in PARTS {
        let of_agent = |it: &&&Value| it["event"]["agent"] == part.agent;
        let own: Vec<_> = reports.iter().filter(of_agent).collect();
        let [report] = own.as_slice() else {
            bail!("{} has reported {} times, not once", part.agent, own.len());
        };
        ensure!(report["event"]["via"] == "mcp", "{} did not report by MCP: {report}", part.agent);
        ensure!(report["event"]["status"] == "success", "{} reports no success: {report}", part.agent);
        ensure!(
            report["by"]["agent"] == part.agent,
            "the report of {} is not proved to be its own: {report}",
            part.agent
        );
    }
    ensure!(reports.len() == PARTS.len(), "there are {} reports, not {}", reports.len(), PARTS.len());
    say::line(&format!("  ok  {} reports came by MCP, one from each agent", reports.len()));
    Ok(())
}

/// Each result was collected in one line of the log.
pub(crate) fn results_were_collected_once(events: &[Value]) -> Result<()> {
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    for event in events.iter().map(|it| &it["event"]) {
        match event["type"].as_str() {
            Some("mcp.report_result") => {
                times.entry(event["id"].as_str().unwrap_or_default()).or_default();
            }
            Some("collect.result") => {
                for id in event["results"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                    *times.entry(id).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    let wrong: Vec<_> = times.iter().filter(|(_, times)| **times != 1).collect();
    ensure!(wrong.is_empty(), "results that were not collected once: {wrong:?}");
    say::line(&format!("  ok  {} results were collected, once each", times.len()));
    Ok(())
}

/// No process and no socket is left.
pub(crate) fn nothing_runs(workspace: &TestWorkspace, patience: Duration) -> Result<()> {
    let mut left = Vec::new();
    process::wait_until(
        || {
            let processes = workspace.processes();
            left = processes.iter().map(|it| format!("process {}: {}", it.pid, it.command)).collect();
            let sockets = leftovers::listening_sockets(workspace.root());
            left.extend(sockets.iter().map(|it| format!("socket {}", it.display())));
            left.is_empty()
        },
        patience,
    );
    ensure!(left.is_empty(), "left after the shutdown:\n  {}", left.join("\n  "));
    say::line("  ok  no process and no socket is left");
    Ok(())
}

/// The directory in which the built-in agent of a seat keeps its records.
fn home_of(workspace: &TestWorkspace, agent: &str) -> Result<PathBuf> {
    let states = workspace.state_home().join("team-agent");
    for entry in fs::read_dir(&states).with_context(|| format!("failed to read `{}`", states.display()))? {
        let home = entry?.path().join("seats/current").join(agent).join("fake-home");
        if home.is_dir() {
            return Ok(home);
        }
    }
    bail!("{agent} has left no records")
}

/// All files of a directory, one after the other.
fn read_all(directory: &Path) -> Result<String> {
    let entries =
        fs::read_dir(directory).with_context(|| format!("failed to read `{}`", directory.display()))?;
    let mut paths: Vec<PathBuf> = entries.map(|it| Ok(it?.path())).collect::<Result<_>>()?;
    paths.sort();
    let mut all = String::new();
    for path in paths {
        all += &fs::read_to_string(&path).with_context(|| format!("failed to read `{}`", path.display()))?;
    }
    Ok(all)
}

/// Every byte that came through the terminal: the last word of each line, in hex.
fn bytes_of(home: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for line in read_all(&home.join("bytes"))?.lines() {
        let hex = line.rsplit(' ').next().unwrap_or_default();
        for at in (0..hex.len()).step_by(2) {
            let pair = hex.get(at..at + 2).context("a byte log is damaged")?;
            bytes.push(u8::from_str_radix(pair, 16).context("a byte log is damaged")?);
        }
    }
    Ok(bytes)
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|it| it == needle)
}
