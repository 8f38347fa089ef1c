//! One thing at a time: a start of the program, a message, a report, a look at the status.

use std::fs;

use anyhow::{Context as _, Result, bail};

use super::Plan;
use super::bed::{Bed, time_of, until, wall};
use super::figure::{Figures, Target, ms, quantile};
use super::floor::{Empty, Server};
use super::team::{Team, timed_program};

/// `--help` against a program that does nothing.
pub(super) fn program(bed: &Bed, plan: &Plan, empty: &Empty, figures: &mut Figures) -> Result<()> {
    let (mut floors, mut helps) = (Vec::new(), Vec::new());
    for _ in 0..plan.times(60, 20) {
        floors.push(timed_program(bed, &empty.path(), &[])?);
        helps.push(bed.timed(&["--help"])?.took);
    }
    let floor = quantile(&floors.iter().copied().map(ms).collect::<Vec<_>>(), 0.5);
    figures.times("floor: an empty program", 0, &floors, Target::none(), None);
    figures.times("--help", 0, &helps, Target::median(3.0 * floor), Some(floor));
    Ok(())
}

/// `status --json` of a stopped team on a log that nobody has read before: no snapshot is written by looking.
pub(super) fn status_without_team(bed: &Bed, plan: &Plan, figures: &mut Figures) -> Result<()> {
    if bed.ws.path().join(".team/runtime/snapshot.json").exists() {
        return Ok(());
    }
    let mut times = Vec::new();
    for _ in 0..plan.times(10, 3) {
        times.push(bed.timed(&["status", "--json", "--team", "past"])?.took);
    }
    figures.times("status --json, without snapshot", 0, &times, Target::median(300.0), None);
    Ok(())
}

/// `status --json` of a running team, with the snapshot that is there.
pub(super) fn status(bed: &Bed, team: &Team, plan: &Plan, figures: &mut Figures) -> Result<()> {
    let mut times = Vec::new();
    for _ in 0..plan.times(40, 10) {
        let done = bed.timed(&["status", "--json", "--team", &team.key])?;
        if done.code != Some(0) {
            bail!("status failed: {}", done.stdout);
        }
        times.push(done.took);
    }
    figures.times("status --json, with snapshot", team.size(), &times, Target::median(10.0), None);
    let snapshot = fs::metadata(bed.ws.path().join(".team/runtime/snapshot.json")).map_or(0, |it| it.len());
    #[expect(clippy::cast_precision_loss, reason = "a small file")]
    figures.add("snapshot", team.size(), "KiB", &[snapshot as f64 / 1024.0], Target::median(256.0), None);
    Ok(())
}

/// One message to one idle agent, again and again.
pub(super) fn send(bed: &Bed, team: &Team, plan: &Plan, figures: &mut Figures) -> Result<()> {
    let server = Server::new()?;
    server.windows(1)?;
    let (mut floors, mut text, mut submitted) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..plan.times(60, 12) {
        let agent = &team.agents[round % team.size()];
        team.idle(bed, agent)?;
        let marker = format!("marker-{}-{round}-{}", team.key, wall());
        floors.push(ms(server.guarded_paste(&marker)?));
        let words = format!("please look at this: {marker}");
        let sent = bed.timed(&[
            "send",
            agent,
            &words,
            "--wait",
            "submitted",
            "--timeout",
            "20",
            "--team",
            &team.key,
        ])?;
        if sent.code != Some(0) {
            bail!("a message was not submitted: {}", sent.stdout.trim());
        }
        let came = team.received(bed, agent, &marker)?.context("the text is not in the byte log")?;
        text.push((came - sent.began).max(0.0));
        submitted.push(ms(sent.took));
    }
    let floor = quantile(&floors, 0.5);
    let size = team.size();
    figures.add("floor: one guarded paste", size, "ms", &floors, Target::none(), None);
    figures.add("send -> text in an idle pane", size, "ms", &text, Target::both(12.0, 40.0), Some(floor));
    figures.add("send -> submitted, command back", size, "ms", &submitted, Target::median(40.0), Some(floor));
    for agent in &team.agents {
        team.idle(bed, agent)?;
    }
    Ok(())
}

/// From a program's call for permission to the question in `approvals`, and from the answer to the program's going on.
pub(super) fn question(bed: &Bed, team: &Team, plan: &Plan, figures: &mut Figures) -> Result<()> {
    let (mut shown, mut answered) = (Vec::new(), Vec::new());
    for round in 0..plan.times(30, 6) {
        let agent = &team.agents[round % team.size()];
        team.idle(bed, agent)?;
        let ask = format!("fake: ask-permission Bash {{\"command\":\"touch {round}\"}}");
        bed.json(&["send", agent, &ask, "--team", &team.key])?;
        let id = until("the question is shown", || {
            let open = bed.json(&["approvals", agent, "--team", &team.key])?;
            Ok(open["approvals"][0]["request_id"].as_str().map(str::to_owned))
        })?;
        let seen = wall();
        let asked = team.wrote(bed, agent, &[("event", "hook"), ("hook", "PermissionRequest")])?;
        shown.push((seen - asked.context("the program did not ask")?).max(0.0));
        let given = bed.timed(&["approve", agent, &id, "--allow", "--team", &team.key])?;
        if given.code != Some(0) {
            bail!("a question was not answered: {}", given.stdout.trim());
        }
        let went_on = until("the program has its answer", || {
            let last = team.wrote(bed, agent, &[("event", "permission_by_hook")])?;
            Ok(last.filter(|it| *it + 1.0 >= given.began))
        })?;
        answered.push((went_on - given.began).max(0.0));
    }
    let size = team.size();
    figures.add("question -> approvals", size, "ms", &shown, Target::both(50.0, 150.0), None);
    figures.add("approve -> agent goes on", size, "ms", &answered, Target::both(50.0, 150.0), None);
    Ok(())
}

/// From the line of a report to the end of a command that waits for it.
pub(super) fn report(bed: &Bed, team: &Team, plan: &Plan, figures: &mut Figures) -> Result<()> {
    let mut times = Vec::new();
    for round in 0..plan.times(30, 6) {
        let agent = &team.agents[round % team.size()];
        team.idle(bed, agent)?;
        let mut tail = bed.tail()?;
        let work = "fake: think 400\nfake: report status=success summary=done";
        let sent = bed.json(&["send", "--watch-result", agent, work, "--team", &team.key])?;
        let task = sent["case_id"].as_str().context("no task was made")?;
        let mut waits = bed.background(&["wait", "--task", task, "--timeout", "20", "--team", &team.key])?;
        let status = waits.wait()?;
        let ended = wall();
        if !status.success() {
            bail!("`wait` failed with {status}");
        }
        let line = tail.wait("the report", |it| it["event"]["type"] == "mcp.report_result")?;
        // The log's time is cut to whole milliseconds: half of one is what that costs on average.
        times.push((ended - time_of(&line).unwrap_or(ended) - 0.5).max(0.0));
        bed.timed(&["collect", "--team", &team.key])?;
    }
    figures.add("report -> wait is back", team.size(), "ms", &times, Target::median(8.0), None);
    Ok(())
}
