//! Telling the leader in its own pane: one line, only when its program is proved idle and its composer empty.
//!
//! The pane is on the person's own tmux server: it is queried and given the one guarded paste, nothing else.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use team_model::{Event, LeaderBinding, NoticeCause, Team, TeamKey, TeamState, Untold};
use team_provider::{ActivityKind, Composer, Fact, Provider, RecordKind, SeatPlaces};
use team_tmux::{Endpoint, Guard, Pasted, UserPane};

use super::core::Core;
use crate::error::EngineError;
use crate::{process, screen};

/// How long a leader that cannot be told is left alone.
const RETRY: Duration = Duration::from_secs(2);

/// What is known of leaders' panes.
#[derive(Debug, Default)]
pub(super) struct LeaderDesk {
    tried: BTreeMap<TeamKey, Duration>,
    /// When to look again at a leader that has something to hear.
    pub wake: Option<Duration>,
}

impl Core {
    /// Teams whose leader has something to hear and can hear it now.
    pub(super) fn leaders_to_tell(&mut self) -> Vec<TeamKey> {
        let now = self.clock.elapsed();
        self.leader.wake = None;
        let mut ready = Vec::new();
        for (key, team) in &self.store.state.teams {
            let nothing = team.untold.is_empty() && team.leader.telling.is_none();
            if team.state != TeamState::Running || team.leader.bound.is_none() || nothing {
                continue;
            }
            let due = self.leader.tried.get(key).map_or(Duration::ZERO, |it| *it + RETRY);
            if now < due {
                self.leader.wake = Some(self.leader.wake.map_or(due, |it| it.min(due)));
            } else {
                ready.push(key.clone());
            }
        }
        ready
    }

    pub(super) fn tell(&mut self, key: &TeamKey) -> Result<(), EngineError> {
        let now = self.clock.elapsed();
        self.leader.tried.insert(key.clone(), now);
        let Some(team) = self.store.state.teams.get(key) else { return Ok(()) };
        let Some(bound) = team.leader.bound.clone() else { return Ok(()) };
        if let Some(through) = team.leader.telling {
            // Another coordinator was at it. On a person's own tmux there is no mark that tells whether it got that
            // far; what is not told once more still waits in `collect` and `status`.
            return self.record(Some(key), vec![Event::LeaderTold { through, unsure: true }]);
        }
        let Some(through) = team.untold.back().map(|it| it.seq) else { return Ok(()) };
        let text = sentence(team);
        if !self.processes.is_alive(&bound.process) || !self.processes.is_alive(&bound.server) {
            let why = "its pane has ended".to_owned();
            return self.record(Some(key), vec![Event::LeaderLost { why }]);
        }
        let Some((pane, guard)) = listening(&bound) else { return Ok(()) };
        self.fail.pass("tell", "before")?;
        self.record(Some(key), vec![Event::LeaderTelling { through }])?;
        let told = matches!(pane.paste(&text, true, &guard), Ok(Pasted::Done));
        self.fail.pass("tell", "orphan")?;
        let outcome = if told {
            Event::LeaderTold { through, unsure: false }
        } else {
            Event::LeaderNotTold { through }
        };
        self.record(Some(key), vec![outcome])?;
        self.fail.pass("tell", "after")?;
        Ok(())
    }

    /// When to go round for a leader's sake.
    pub fn leader_wake(&self) -> Option<Duration> {
        self.leader.wake
    }
}

/// One line that says what waits.
fn sentence(team: &Team) -> String {
    let count = |cause| team.untold.iter().filter(|it| it.cause == cause).count();
    let mut parts = Vec::new();
    let results = count(NoticeCause::Result);
    if results > 0 {
        let plural = if results == 1 { "result waits" } else { "results wait" };
        parts.push(format!("{results} {plural}: run `team-agent collect`"));
    }
    let messages = count(NoticeCause::Message);
    if messages > 0 {
        let plural = if messages == 1 { "message waits" } else { "messages wait" };
        parts.push(format!("{messages} {plural}: run `team-agent inbox leader`"));
    }
    let other = |it: &&Untold| !matches!(it.cause, NoticeCause::Result | NoticeCause::Message);
    let asks = |agent: &str| team.find_seat(agent).is_some_and(|(_, it)| !it.approvals.is_empty());
    for it in team.untold.iter().filter(other).take(5) {
        parts.push(match it.cause {
            NoticeCause::Exit => {
                format!("{} ended by itself: run `team-agent explain {}`", it.about, it.about)
            }
            NoticeCause::StartFailed => {
                format!("{} did not start: run `team-agent explain {}`", it.about, it.about)
            }
            NoticeCause::Approval if asks(&it.about) => {
                format!("{} asks for permission: run `team-agent approvals`", it.about)
            }
            NoticeCause::Approval => {
                format!("{} waits for a person: run `team-agent attach {}`", it.about, it.about)
            }
            NoticeCause::Limit => {
                format!("{} is at its provider's limit: run `team-agent status`", it.about)
            }
            NoticeCause::Human => {
                format!("question {} waits for a person: run `team-agent status`", it.about)
            }
            _ => format!("{} {}", it.cause, it.about),
        });
    }
    format!("Team notice ({}): {}.", team.name, parts.join("; "))
}

/// The leader's pane, if the program there is known, idle by its own record, and its composer is empty; and what has
/// to hold still when a line is pasted. Anything else waits.
fn listening(bound: &LeaderBinding) -> Option<(UserPane, Guard)> {
    let tmux = team_tmux::find_tmux(&process::search_path()).ok()?;
    let endpoint = Endpoint { tmux, socket: PathBuf::from(&bound.socket) };
    let pane = UserPane::bind(endpoint, bound.pane.parse().ok()?).ok()??;
    if pane.pane().pid != bound.process.pid || pane.server_pid() != bound.server.pid {
        return None;
    }
    let provider = idle_program(bound.process.pid)?;
    let shown = pane.screen().ok()??;
    let reading = provider.read_screen(&screen::read(&shown));
    let free = !shown.in_mode && reading.dialog.is_none() && reading.composer == Composer::Empty;
    // Only if nothing was typed since the look.
    free.then(|| (pane, Guard { cursor: Some(shown.cursor), ..Guard::default() }))
}

/// Finds the agent program in a pane by its own status record, and only if that says idle.
fn idle_program(pane_pid: u32) -> Option<&'static dyn Provider> {
    let mut pids = vec![pane_pid];
    pids.extend(process::descendants(pane_pid));
    for pid in pids {
        let env = process::environment(pid)?;
        for known in team_provider::providers() {
            let provider = known.provider();
            let Some(home) = provider.records_home(&env) else { continue };
            let places = SeatPlaces {
                config_home: &home,
                cwd: std::path::Path::new("/"),
                native_id: None,
                transcript: None,
                provider_pid: Some(pid),
            };
            for file in provider.files_to_watch(&places) {
                if file.kind != RecordKind::Status {
                    continue;
                }
                let Ok(text) = std::fs::read_to_string(&file.path) else { continue };
                let facts = provider.read_record(RecordKind::Status, &text);
                if facts.iter().any(|it| matches!(it, Fact::Activity { kind: ActivityKind::Idle, .. })) {
                    return Some(provider);
                }
            }
        }
    }
    None
}
