//! Starting, stopping and deleting a team; claiming a spawn.

use team_model::{
    AgentName, Cause, Event, LeaderBinding, Origin, ProcessIdentity, SeatSpec, SeatState, SpawnId, SpawnMode,
    State, Team, TeamKey, TeamState,
};

use super::{Refusal, command_for};

/// A seat that a spec declares.
#[derive(Debug, Clone)]
pub struct StartSeat {
    /// Its name.
    pub agent: AgentName,
    /// What starts it.
    pub spec: SeatSpec,
}

/// A team that somebody wants to start.
#[derive(Debug, Clone)]
pub struct StartCommand {
    /// Its key.
    pub team: TeamKey,
    /// Its display name.
    pub name: String,
    /// Its tmux session.
    pub session_name: String,
    /// Where its TEAM.md is.
    pub dir: String,
    /// The digest of its spec.
    pub digest: String,
    /// What it is for.
    pub goal: Option<String>,
    /// The person's own agent.
    pub leader: Option<LeaderBinding>,
    /// Its seats.
    pub seats: Vec<StartSeat>,
}

fn started(command: &StartCommand) -> Event {
    Event::TeamStarted {
        name: command.name.clone(),
        session_name: command.session_name.clone(),
        dir: command.dir.clone(),
        digest: command.digest.clone(),
        goal: command.goal.clone(),
        leader: command.leader.clone(),
    }
}

fn session_is_free(state: &State, command: &StartCommand) -> Result<(), Refusal> {
    let Some((key, other)) =
        state.team_with_session(&command.session_name).filter(|(key, _)| **key != command.team)
    else {
        return Ok(());
    };
    let (session, name) = (&command.session_name, &other.name);
    let message = if matches!(other.state, TeamState::Running | TeamState::Stopping) {
        format!("tmux session already exists: `{session}` belongs to team `{key}` (`{name}`)")
    } else {
        format!("tmux session `{session}` is that of team `{key}` (`{name}`), which is stopped")
    };
    Err(Refusal::new("session_name_taken", message).with_hint(format!(
        "change the `name:` line of {}/TEAM.md, or give it its own `session_name:`",
        command.dir
    )))
}

/// Decides a first start.
pub fn start_team(state: &State, command: &StartCommand) -> Result<Vec<Event>, Refusal> {
    if let Some(team) = state.teams.get(&command.team) {
        let key = &command.team;
        return Err(if matches!(team.state, TeamState::Running | TeamState::Stopping) {
            Refusal::new("team_running", format!("team `{key}` is running already"))
                .with_hint(format!(
                    "run `{}` to see it; `{}` ends it, then `{}` goes on and `team-agent delete {key} --confirm` forgets it",
                    command_for("status", key),
                    command_for("shutdown", key),
                    command_for("restart", key),
                ))
        } else {
            Refusal::new("team_exists", format!("team `{key}` was started before and has state")).with_hint(
                format!(
                    "run `{}` to go on with it, or `team-agent delete {key} --confirm` to forget it",
                    command_for("restart", key)
                ),
            )
        });
    }
    session_is_free(state, command)?;
    let mut events = vec![started(command)];
    for seat in &command.seats {
        events.push(added(seat));
        events.push(Event::AgentQueued { agent: seat.agent.clone(), mode: SpawnMode::Fresh });
    }
    Ok(events)
}

fn added(seat: &StartSeat) -> Event {
    Event::AgentAdded {
        agent: seat.agent.clone(),
        origin: Origin::Declared,
        manager: None,
        lead: false,
        spec: seat.spec.clone(),
        task: None,
        run: None,
        member: None,
    }
}

/// Decides the return of a stopped team: the same people, with their conversations where these are proved.
///
/// `resumable` says for a seat whether its conversation can still be found.
pub fn restart_team(
    state: &State,
    command: &StartCommand,
    resumable: &dyn Fn(&AgentName) -> Result<bool, String>,
) -> Result<Vec<Event>, Refusal> {
    let key = &command.team;
    let team = state.teams.get(key).ok_or_else(|| {
        Refusal::new("no_such_team", format!("no team `{key}` was started here"))
            .with_hint(format!("run `team-agent quick-start .team/{key}`"))
    })?;
    if matches!(team.state, TeamState::Running | TeamState::Stopping) {
        return Err(Refusal::new("team_running", format!("team `{key}` is running"))
            .with_hint(format!("run `{}` first", command_for("shutdown", key))));
    }
    session_is_free(state, command)?;
    let mut events = vec![started(command)];
    for seat in &command.seats {
        events.push(added(seat));
        queue_again(team, seat, resumable, &mut events);
    }
    for agent in team.seats.keys().filter(|it| !command.seats.iter().any(|seat| seat.agent == **it)) {
        events.push(Event::AgentRemoved { agent: agent.clone() });
    }
    Ok(events)
}

/// How a seat begins again: with its conversation where that is proved.
fn queue_again(
    team: &Team,
    seat: &StartSeat,
    resumable: &dyn Fn(&AgentName) -> Result<bool, String>,
    events: &mut Vec<Event>,
) {
    let known = team.seats.get(&seat.agent);
    let same_provider = known.is_none_or(|it| it.spec.provider == seat.spec.provider);
    let mode = match known.and_then(|it| it.session.as_ref()) {
        Some(session) if session.used && same_provider => match resumable(&seat.agent) {
            Ok(true) => SpawnMode::Resume,
            Ok(false) => SpawnMode::Fresh,
            Err(why) => {
                events.push(Event::RestartFreshSpawn { agent: seat.agent.clone(), why });
                SpawnMode::Fresh
            }
        },
        Some(_) if !same_provider => {
            let why = format!("its provider is `{}` now", seat.spec.provider);
            events.push(Event::RestartFreshSpawn { agent: seat.agent.clone(), why });
            SpawnMode::Fresh
        }
        _ => SpawnMode::Fresh,
    };
    events.push(Event::AgentQueued { agent: seat.agent.clone(), mode });
}

/// Decides the return of one agent of a running team that has ended or never began; the others are left alone.
pub fn restart_agent(
    state: &State,
    key: &TeamKey,
    seat: &StartSeat,
    resumable: &dyn Fn(&AgentName) -> Result<bool, String>,
) -> Result<Vec<Event>, Refusal> {
    let team = known(state, key)?;
    let agent = &seat.agent;
    if team.state != TeamState::Running {
        return Err(Refusal::new("team_not_running", format!("team `{key}` does not run"))
            .with_hint(format!("run `{}` to go on with all of it", command_for("restart", key))));
    }
    match team.seats.get(agent).map(|it| &it.state) {
        Some(SeatState::Stopped { .. } | SeatState::Failed { .. }) => {}
        Some(_) => {
            return Err(Refusal::new("agent_running", format!("agent `{agent}` runs or is being started"))
                .with_hint(format!(
                    "run `{}` to see what it does",
                    command_for(&format!("explain {agent}"), key)
                )));
        }
        None => {
            let [stop, start] = ["shutdown", "restart"].map(|verb| command_for(verb, key));
            return Err(Refusal::new(
                "no_such_agent",
                format!("agent `{agent}` was not started with the team"),
            )
            .with_hint(format!("run `{stop} && {start}`")));
        }
    }
    let mut events = vec![added(seat)];
    queue_again(team, seat, resumable, &mut events);
    Ok(events)
}

/// Decides a shutdown: every live seat is asked to end.
pub fn plan_stop(state: &State, key: &TeamKey) -> Result<Vec<Event>, Refusal> {
    let team = known(state, key)?;
    match team.state {
        TeamState::Running => {
            let mut events = vec![Event::TeamStopPlanned {}];
            for (agent, seat) in &team.seats {
                match seat.state {
                    SeatState::Waiting { .. } | SeatState::Added => events.push(Event::AgentStopped {
                        agent: agent.clone(),
                        session: None,
                        cause: Cause::Shutdown,
                    }),
                    SeatState::Starting | SeatState::Running => {
                        events.push(Event::AgentStopPlanned { agent: agent.clone(), cause: Cause::Shutdown });
                    }
                    SeatState::Stopped { .. } | SeatState::Failed { .. } => {}
                }
            }
            Ok(events)
        }
        TeamState::Lost => Ok(vec![Event::TeamStopped { clean: false }]),
        TeamState::Stopping | TeamState::Stopped => Ok(Vec::new()),
    }
}

/// Decides a deletion.
pub fn delete_team(state: &State, key: &TeamKey) -> Result<Vec<Event>, Refusal> {
    let team = known(state, key)?;
    if matches!(team.state, TeamState::Running | TeamState::Stopping) {
        return Err(Refusal::new("team_running", format!("team `{key}` is running"))
            .with_hint(format!("run `{}` first", command_for("shutdown", key))));
    }
    Ok(vec![Event::TeamDeleted {}])
}

fn known<'a>(state: &'a State, key: &TeamKey) -> Result<&'a Team, Refusal> {
    state.teams.get(key).ok_or_else(|| {
        let refusal = Refusal::new("no_such_team", format!("no team `{key}` was started here"));
        let names: Vec<_> = state.teams.keys().map(ToString::to_string).collect();
        if names.is_empty() { refusal } else { refusal.with_hint(format!("there is: {}", names.join(", "))) }
    })
}

/// Says why a spawn may not be claimed, if so.
pub fn may_claim(state: &State, spawn: SpawnId) -> Result<(), Refusal> {
    let Some((key, agent, seat)) = state.seat_of_spawn(spawn) else {
        return Err(Refusal::new(
            "superseded",
            format!("spawn `{spawn}` is not the present start of any seat"),
        ));
    };
    let team_runs = state.teams.get(key).is_some_and(|it| it.state == TeamState::Running);
    if !team_runs || seat.stopping.is_some() || seat.state != SeatState::Starting {
        return Err(Refusal::new("not_wanted", format!("agent `{agent}` is not to be started any more")));
    }
    if seat.spawn.as_ref().is_some_and(|it| it.claimed.is_some()) {
        return Err(Refusal::new("claimed", format!("spawn `{spawn}` is claimed already")));
    }
    Ok(())
}

/// Decides the claim of a spawn by a seat process.
pub fn claim(state: &State, spawn: SpawnId, process: &ProcessIdentity) -> Result<Vec<Event>, Refusal> {
    may_claim(state, spawn)?;
    Ok(vec![Event::SessionClaimed { spawn, process: process.clone() }])
}
