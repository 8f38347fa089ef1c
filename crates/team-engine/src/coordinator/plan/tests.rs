//! Rows of a table: a story of the log, what was seen, and what is planned.

use chrono::{TimeZone as _, Utc};
use team_model::{
    Body, ClosesOn, Decision, Event, MessageKind, Origin, ProcessIdentity, Proof, ReadyFact, SeatSpec,
    SpawnId, TaskId, TurnOutcome,
};

use super::*;

mod messages;
mod seats;

/// When every row is planned.
const NOW: u64 = 100_000;

/// A log with one running team, and what was seen of it.
struct World {
    state: State,
    /// The lines that accepted messages.
    messages: Vec<u64>,
    seen: Observed,
}

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn key() -> TeamKey {
    TeamKey::new("current").expect("a name")
}

fn name(agent: &str) -> AgentName {
    AgentName::new(agent).expect("a name")
}

fn process(pid: u32) -> ProcessIdentity {
    ProcessIdentity { pid, start: 1, boot: "b".to_owned(), namespace: String::new() }
}

fn proof() -> Proof {
    Proof { source: "hook".to_owned(), record: "x".to_owned() }
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            state: State::default(),
            messages: Vec::new(),
            seen: Observed { server_alive: true, ..Observed::default() },
        };
        world.log(Event::ServerStarted {
            socket: "s".to_owned(),
            process: process(1),
            version: "3.3a".to_owned(),
        });
        world.log(Event::TeamStarted {
            name: "crew".to_owned(),
            session_name: "crew".to_owned(),
            dir: ".team/current".to_owned(),
            digest: "d".to_owned(),
            goal: None,
            leader: None,
        });
        world
    }

    /// Folds one more line and returns its seq.
    #[expect(clippy::needless_pass_by_value, reason = "events are made in place")]
    fn log(&mut self, event: Event) -> u64 {
        let seq = self.state.seq + 1;
        let ts = Utc.timestamp_opt(1_700_000_000, 0).single().expect("a time");
        self.state.apply(seq, ts, Some(&key()), &event);
        seq
    }

    fn queued(&mut self, agent: &str) {
        let spec = SeatSpec {
            role: String::new(),
            provider: "fake".to_owned(),
            model: None,
            effort: None,
            auth_mode: "subscription".to_owned(),
            profile: None,
            tools: Vec::new(),
            working_directory: None,
            instructions: Body::default(),
        };
        let agent = name(agent);
        let (origin, manager) = (Origin::Declared, None);
        let added = Event::AgentAdded {
            agent: agent.clone(),
            origin,
            manager,
            lead: false,
            spec,
            task: None,
            run: None,
            member: None,
        };
        self.log(added);
        self.log(Event::AgentQueued { agent, mode: SpawnMode::Fresh });
    }

    fn planned(&mut self, agent: &str, channel: Channel) -> SpawnId {
        self.queued(agent);
        let needs = vec![ReadyFact::StatusIdle];
        let (session, native) = (None, Some("n".to_owned()));
        let mode = SpawnMode::Fresh;
        let spawn = self.log(Event::SpawnPlanned {
            agent: name(agent),
            mode,
            session,
            native,
            needs,
            channel,
            seat: "seat.json".to_owned(),
            notes: Vec::new(),
        });
        let spawn = SpawnId(spawn);
        let look = Seen { spawn: Some(spawn), since: ms(NOW), ..Seen::default() };
        self.seen.seats.insert((key(), name(agent)), look);
        spawn
    }

    fn opened(&mut self, agent: &str, channel: Channel) -> SpawnId {
        let spawn = self.planned(agent, channel);
        self.log(Event::SpawnOpened { spawn, pane: "%1".to_owned(), pid: 7 });
        self.look(agent).pane_known = true;
        spawn
    }

    fn claimed(&mut self, agent: &str, channel: Channel) -> SpawnId {
        let spawn = self.opened(agent, channel);
        self.log(Event::SessionClaimed { spawn, process: process(7) });
        spawn
    }

    /// A running, idle seat.
    fn idle_by(&mut self, agent: &str, channel: Channel) -> SpawnId {
        let spawn = self.claimed(agent, channel);
        self.is(spawn, ActivityKind::Idle);
        spawn
    }

    fn idle(&mut self, agent: &str) -> SpawnId {
        self.idle_by(agent, Channel::Keys)
    }

    fn is(&mut self, spawn: SpawnId, activity: ActivityKind) {
        let proof = proof();
        self.log(Event::ActivityObserved { spawn, activity, reason: None, until: None, at: None, proof });
    }

    fn look(&mut self, agent: &str) -> &mut Seen {
        self.seen.seats.get_mut(&(key(), name(agent))).expect("it was planned")
    }

    fn message(&mut self, to: &[&str]) -> MessageId {
        let id = MessageId::Seq(self.state.seq + 1);
        self.messages.push(self.state.seq + 1);
        self.log(Event::MessageAccepted {
            id: id.clone(),
            kind: MessageKind::Message,
            from: "leader".to_owned(),
            to: to.iter().map(|it| name(it)).collect(),
            to_leader: false,
            addressed: to.join(", "),
            task: None,
            reply_to: None,
            request: None,
            run: None,
            case_id: None,
            presentation: BTreeMap::new(),
            ignored: BTreeMap::new(),
            body: Body::inline("text"),
        });
        id
    }

    fn held(&mut self, id: &MessageId, to: &str, why: HoldReason) {
        self.log(Event::MessageHeld { id: id.clone(), receiver: name(to), why });
    }

    /// A message that is on its way.
    fn sending(&mut self, to: &str, spawn: SpawnId, channel: Channel) -> MessageId {
        let id = self.message(&[to]);
        self.log(Event::MessageSending {
            id: id.clone(),
            receiver: name(to),
            attempt: 1,
            channel,
            spawn,
            receiver_process: process(7),
            proof_from: 1,
            file: None,
        });
        id
    }

    /// A text of ours in a composer, pasted so long ago, and entered so long ago, so often.
    fn typed(&mut self, agent: &str, pasted: u64, entered: Option<(u64, u32)>) {
        let spawn = self.idle(agent);
        let id = self.sending(agent, spawn, Channel::Keys);
        self.look(agent).typing = TypingTimes { settle: ms(10), look_after: ms(300), after_start: ms(0) };
        self.look(agent).lane = Lane::Typed(Typed {
            ids: vec![id],
            text: "text".into(),
            pasted: ms(NOW - pasted),
            entered: entered.map(|(ago, _)| ms(NOW - ago)),
            touched: ms(NOW - entered.map_or(pasted, |(ago, _)| ago)),
            presses: entered.map_or(0, |(_, presses)| presses),
            staged: true,
        });
    }

    /// An action in a few words; messages by their number in the story.
    fn words(&self, action: &Action) -> String {
        let number =
            |seq: u64| self.messages.iter().position(|it| *it == seq).map_or(0, |it| it + 1).to_string();
        let seat = |at: &SeatKey| at.1.to_string();
        let list = |items: Vec<String>| items.join(" ");
        match action {
            Action::StartServer => "start server".to_owned(),
            Action::Start(seats) => {
                format!("start {}", list(seats.iter().map(|(it, mode)| format!("{}:{mode}", it.1)).collect()))
            }
            Action::Adopt(at) => format!("adopt {}", seat(at)),
            Action::LookAtStart(at) => format!("look at start of {}", seat(at)),
            Action::LookAtWork(at) => format!("look at work of {}", seat(at)),
            Action::Fail(at, why) => format!("fail {}: {why}", seat(at)),
            Action::Ask(at) => format!("ask {}", seat(at)),
            Action::Kill(at) => format!("kill {}", seat(at)),
            Action::Stopped(at, cause) => format!("stopped {}: {cause}", seat(at)),
            Action::TeamStopped(it) => format!("team stopped {it}"),
            Action::TeamLost(it) => format!("team lost {it}"),
            Action::Hold(held) => {
                format!(
                    "hold {}",
                    list(
                        held.iter()
                            .map(|(_, id, to, why)| format!("{}>{to}:{why}", number(seq_of(id))))
                            .collect()
                    )
                )
            }
            Action::Send(sends) => format!(
                "send {}",
                list(
                    sends
                        .iter()
                        .map(|(at, channel, seqs)| format!(
                            "{}:{channel}:{}",
                            at.1,
                            seqs.iter().map(|it| number(*it)).collect::<Vec<_>>().join("+")
                        ))
                        .collect()
                )
            ),
            Action::Enter(seats) => format!("enter {}", list(seats.iter().map(seat).collect())),
            Action::Look(at) => format!("look at {}", seat(at)),
            Action::RingAgain(at) => format!("ring {} again", seat(at)),
            Action::GiveUp(at) => format!("give up {}", seat(at)),
            Action::Conclude(at) => format!("conclude {}", seat(at)),
            Action::Prove(at) => format!("prove {}", seat(at)),
            Action::Weigh(at, id) => format!("weigh {id} of {}", seat(at)),
            Action::LayAnswer(at, id) => format!("lay the answer to {id} for {}", seat(at)),
            Action::AnswerByKey(at, id) => format!("press the answer to {id} for {}", seat(at)),
            Action::LimitOver(at) => format!("limit of {} over", seat(at)),
            Action::Tell(it) => format!("tell {it}"),
            Action::StopServer => "stop server".to_owned(),
            Action::Exit => "exit".to_owned(),
        }
    }

    fn rung(&mut self, agent: &str, first: u64, last: u64) {
        let spawn = self.idle_by(agent, Channel::Bell);
        let id = self.sending(agent, spawn, Channel::Bell);
        self.look(agent).lane = Lane::Rung { ids: vec![id], at: ms(NOW - first), rung: ms(NOW - last) };
    }
}

fn seq_of(id: &MessageId) -> u64 {
    match id {
        MessageId::Seq(seq) => *seq,
        MessageId::Own(_) => 0,
    }
}

/// Tells a story and compares the plan with what is expected: actions, and after `@` the milliseconds until the wake.
#[track_caller]
fn check(story: impl FnOnce(&mut World), expected: &str) {
    let mut world = World::new();
    story(&mut world);
    let plan = plan(&world.state, &world.seen, ms(NOW));
    let mut parts: Vec<String> = plan.actions.iter().map(|it| world.words(it)).collect();
    if let Some(wake) = plan.wake {
        parts.push(format!(
            "@{}",
            i128::from(u64::try_from(wake.as_millis()).unwrap_or(u64::MAX)) - i128::from(NOW)
        ));
    }
    assert_eq!(parts.join("; "), expected);
}
