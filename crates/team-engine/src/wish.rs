//! What a person asked to be started, kept where no agent can write.
//!
//! The log lies in the workspace, which agents may be able to change. A line of it can ask for a start, and only what
//! stands here is started. Must not know how.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use team_model::{AgentName, Body, SeatSpec, TeamKey};
use team_spec::Approvals;

use crate::decide::{Refusal, StartCommand, StartSeat};
use crate::error::EngineError;
use crate::workspace::{Workspace, write};

/// A team as a person started it last.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Wish {
    /// Where its files are, its profiles among them.
    dir: String,
    /// Its seats, without their instructions: these are text, and change nobody's rights.
    seats: BTreeMap<AgentName, SeatSpec>,
    /// Which permission questions are answered without a person.
    #[serde(default)]
    approvals: Approvals,
}

fn path(workspace: &Workspace, team: &TeamKey) -> PathBuf {
    workspace.state_dir.join("env").join(format!("{team}.wish.json"))
}

fn bare(spec: &SeatSpec) -> SeatSpec {
    SeatSpec { instructions: Body::default(), ..spec.clone() }
}

/// Keeps what a person starts now.
pub fn keep(workspace: &Workspace, command: &StartCommand, approvals: &Approvals) -> Result<(), EngineError> {
    let seats = command.seats.iter().map(|it| (it.agent.clone(), bare(&it.spec))).collect();
    let wish = Wish { dir: command.dir.clone(), seats, approvals: approvals.clone() };
    let text = serde_json::to_string(&wish).unwrap_or_default();
    Ok(write(&path(workspace, &command.team), &text, 0o600)?)
}

/// Keeps one seat as a person starts it now; the others stay as they were.
pub fn keep_seat(workspace: &Workspace, team: &TeamKey, seat: &StartSeat) -> Result<(), EngineError> {
    let Some(mut wish) = read(workspace, team) else { return Ok(()) };
    wish.seats.insert(seat.agent.clone(), bare(&seat.spec));
    let text = serde_json::to_string(&wish).unwrap_or_default();
    Ok(write(&path(workspace, team), &text, 0o600)?)
}

/// Forgets what was started, once it has ended.
pub fn forget(workspace: &Workspace, team: &TeamKey) {
    let _ = std::fs::remove_file(path(workspace, team));
}

fn read(workspace: &Workspace, team: &TeamKey) -> Option<Wish> {
    std::fs::read_to_string(path(workspace, team)).ok().and_then(|it| serde_json::from_str(&it).ok())
}

/// The rules for permission questions with which a person started a team.
pub fn approvals(workspace: &Workspace, team: &TeamKey) -> Approvals {
    read(workspace, team).map(|it| it.approvals).unwrap_or_default()
}

/// Refuses a seat that is not as a person started it.
pub fn check(
    workspace: &Workspace,
    team: &TeamKey,
    dir: &str,
    agent: &AgentName,
    spec: &SeatSpec,
) -> Result<(), Refusal> {
    let wish = read(workspace, team);
    let wished = wish.is_some_and(|it| it.dir == dir && it.seats.get(agent) == Some(&bare(spec)));
    if wished {
        return Ok(());
    }
    Err(Refusal::new("not_wished", format!("agent `{agent}` is in the log as nobody has started it"))
        .with_hint(format!(
            "run `team-agent shutdown --team {team}`, then `team-agent restart --team {team}`"
        )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_started_may_start_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("env")).unwrap();
        let workspace = Workspace {
            root: dir.path().to_owned(),
            id: "0123456789abcdef".to_owned(),
            state_dir: dir.path().to_owned(),
            copied_from: None,
            exists: true,
        };
        let team = TeamKey::new("current").unwrap();
        let agent = AgentName::new("w1").unwrap();
        let spec = SeatSpec {
            role: "Worker".to_owned(),
            provider: "fake".to_owned(),
            model: None,
            effort: None,
            auth_mode: "subscription".to_owned(),
            profile: None,
            tools: vec!["fs_read".to_owned()],
            working_directory: None,
            instructions: Body::inline("Work."),
        };
        let command = StartCommand {
            team: team.clone(),
            name: "crew".to_owned(),
            session_name: "crew".to_owned(),
            dir: "/d".to_owned(),
            digest: String::new(),
            goal: None,
            leader: None,
            seats: vec![StartSeat { agent: agent.clone(), spec: spec.clone() }],
        };
        let refused = |dir: &str, agent: &AgentName, spec: &SeatSpec| {
            check(&workspace, &team, dir, agent, spec).is_err()
        };
        assert!(refused("/d", &agent, &spec));
        let rules = Approvals { allow: vec!["Bash(ls)".to_owned()], deny: Vec::new() };
        keep(&workspace, &command, &rules).unwrap();
        assert_eq!(approvals(&workspace, &team), rules);
        assert!(!refused("/d", &agent, &spec));
        let other = SeatSpec { instructions: Body::inline("Rest."), ..spec.clone() };
        assert!(!refused("/d", &agent, &other));
        let wider = SeatSpec { tools: vec!["*".to_owned()], ..spec.clone() };
        assert!(refused("/d", &agent, &wider));
        assert!(refused("/elsewhere", &agent, &spec));
        assert!(refused("/d", &AgentName::new("w2").unwrap(), &spec));
        forget(&workspace, &team);
        assert!(refused("/d", &agent, &spec));
        assert!(approvals(&workspace, &team).is_empty());
    }
}
