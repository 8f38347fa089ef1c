//! The fold: what a log says is true, one line at a time.
//!
//! Long: one test per kind of line, with the few helpers they share.

use chrono::{DateTime, TimeZone as _, Utc};
use proptest::prelude::*;
use team_model::{
    ANSWERED, ActivityKind, AgentName, Artifacts, Body, Cause, Channel, ClosesOn, Decision, Event,
    HoldReason, IN_PANE, MessageId, MessageKind, NoticeCause, OFF_SCREEN, Origin, ProcessIdentity, Proof,
    ReadyFact, ReceiptStep, ReportStatus, RequestId, ResultId, ResultSource, Seat, SeatSpec, SeatState,
    SpawnId, SpawnMode, State, TaskId, TeamKey, TeamState, TurnOutcome,
};

struct World {
    state: State,
    key: TeamKey,
}

fn time(seq: u64) -> DateTime<Utc> {
    Utc.timestamp_millis_opt(1_800_000_000_000 + i64::try_from(seq).expect("a small seq") * 1000)
        .single()
        .expect("a time")
}

fn name(text: &str) -> AgentName {
    AgentName::new(text).expect("a name")
}

fn proof(source: &str) -> Proof {
    Proof { source: source.to_owned(), record: "x".to_owned() }
}

fn process(pid: u32) -> ProcessIdentity {
    ProcessIdentity { pid, start: 1, boot: "b".to_owned(), namespace: String::new() }
}

impl World {
    fn new() -> Self {
        let mut world = Self { state: State::default(), key: TeamKey::new("current").expect("a key") };
        world.then(Event::TeamStarted {
            name: "crew".to_owned(),
            session_name: "crew".to_owned(),
            dir: String::new(),
            digest: String::new(),
            goal: None,
            leader: None,
        });
        world
    }

    /// Folds one more line and returns its seq.
    #[expect(clippy::needless_pass_by_value, reason = "events are made in place")]
    fn then(&mut self, event: Event) -> u64 {
        let seq = self.state.seq + 1;
        let key = self.key.clone();
        self.state.apply(seq, time(seq), Some(&key), &event);
        seq
    }

    fn add(&mut self, agent: &str) {
        let spec = SeatSpec {
            role: String::new(),
            provider: "fake".to_owned(),
            model: None,
            effort: None,
            auth_mode: "subscription".to_owned(),
            profile: None,
            tools: Vec::new(),
            working_directory: None,
            instructions: Body::inline("work"),
        };
        let agent = name(agent);
        self.then(Event::AgentAdded {
            agent: agent.clone(),
            origin: Origin::Declared,
            manager: None,
            lead: false,
            spec,
            task: None,
            run: None,
            member: None,
        });
        self.then(Event::AgentQueued { agent, mode: SpawnMode::Fresh });
    }

    /// Starts a seat up to the point where it is ready.
    fn start(&mut self, agent: &str) -> SpawnId {
        self.add(agent);
        let spawn = SpawnId(self.then(Event::SpawnPlanned {
            agent: name(agent),
            mode: SpawnMode::Fresh,
            session: None,
            native: Some("n".to_owned()),
            needs: vec![ReadyFact::ToolsListed],
            channel: Channel::Keys,
            seat: "f.json".to_owned(),
            notes: Vec::new(),
        }));
        self.then(Event::SpawnOpened { spawn, pane: "%1".to_owned(), pid: 7 });
        self.then(Event::SessionClaimed { spawn, process: process(7) });
        self.then(Event::ToolsListed { spawn, process: None });
        spawn
    }

    fn message(&mut self, to: &[&str], task: Option<u64>) -> MessageId {
        let id = MessageId::Seq(self.state.seq + 1);
        self.then(Event::MessageAccepted {
            id: id.clone(),
            kind: MessageKind::Message,
            from: "leader".to_owned(),
            to: to.iter().map(|it| name(it)).collect(),
            to_leader: false,
            addressed: to.join(", "),
            task: task.map(TaskId),
            reply_to: None,
            request: None,
            run: None,
            case_id: None,
            presentation: std::collections::BTreeMap::new(),
            ignored: std::collections::BTreeMap::new(),
            body: Body::inline("hi"),
        });
        id
    }

    fn sending(&mut self, id: &MessageId, agent: &str, spawn: SpawnId, attempt: u32) {
        self.then(Event::MessageSending {
            id: id.clone(),
            receiver: name(agent),
            attempt,
            channel: Channel::Keys,
            spawn,
            receiver_process: process(7),
            proof_from: 0,
            file: None,
        });
    }

    fn turn(&mut self, spawn: SpawnId, ids: &[&MessageId]) {
        self.then(Event::TurnStarted {
            spawn,
            messages: ids.iter().map(|it| (*it).clone()).collect(),
            chars: 1,
            proof: proof("hook"),
        });
    }

    fn end_turn(&mut self, spawn: SpawnId, outcome: TurnOutcome) {
        self.then(Event::TurnEnded { spawn, outcome, why: None, chars: 1, proof: proof("hook") });
    }

    fn seat(&self, agent: &str) -> &Seat {
        &self.state.teams[&self.key].seats[&name(agent)]
    }

    fn step(&self, id: &MessageId, agent: &str) -> Option<ReceiptStep> {
        Some(self.state.teams[&self.key].message(id)?.receipts[&name(agent)].step)
    }
}

#[test]
fn a_seat_is_ready_when_all_it_needs_was_seen_and_it_was_claimed() {
    let mut world = World::new();
    world.start("a");
    assert_eq!(world.seat("a").state, SeatState::Running);
    assert!(world.seat("a").is_idle());
}

#[test]
fn a_message_goes_from_accepted_to_answered_by_what_names_it() {
    let mut world = World::new();
    let spawn = world.start("a");
    let id = world.message(&["a"], None);
    assert_eq!(world.step(&id, "a"), Some(ReceiptStep::Accepted));
    world.sending(&id, "a", spawn, 1);
    assert_eq!(world.step(&id, "a"), Some(ReceiptStep::Sending));
    world.turn(spawn, &[&id]);
    assert_eq!(world.step(&id, "a"), Some(ReceiptStep::TurnStarted));
    assert_eq!(world.seat("a").activity.kind, ActivityKind::Working);
    world.end_turn(spawn, TurnOutcome::Answer);
    assert_eq!(world.step(&id, "a"), None, "a settled message leaves the state");
    assert_eq!(world.state.teams[&world.key].settled["answered"], 1);
}

#[test]
fn a_turn_that_names_a_message_that_was_never_sent_proves_nothing() {
    let mut world = World::new();
    let spawn = world.start("a");
    let id = world.message(&["a"], None);
    world.turn(spawn, &[&id]);
    assert_eq!(world.step(&id, "a"), Some(ReceiptStep::Accepted));
}

#[test]
fn an_observation_of_an_older_start_changes_nothing() {
    let mut world = World::new();
    let old = world.start("a");
    world.then(Event::AgentStopped { agent: name("a"), session: None, cause: Cause::Exit });
    let new = world.start("a");
    let before = world.seat("a").clone();
    world.turn(old, &[]);
    world.end_turn(old, TurnOutcome::Answer);
    world.then(Event::ProviderExited { spawn: old, code: Some(1), signal: None });
    assert_eq!(world.seat("a"), &before);
    world.turn(new, &[]);
    assert_ne!(world.seat("a"), &before);
}

#[test]
fn an_unknown_message_is_settled_by_a_late_proof_and_its_lane_is_clean_again() {
    let mut world = World::new();
    let spawn = world.start("a");
    let id = world.message(&["a"], None);
    world.sending(&id, "a", spawn, 1);
    let unknown = |id: &MessageId, attempt| Event::MessageUnknown {
        id: id.clone(),
        receiver: name("a"),
        attempt,
        why: "no receipt".to_owned(),
        staged: true,
    };
    world.then(unknown(&id, 2));
    assert_eq!(world.step(&id, "a"), Some(ReceiptStep::Sending), "another attempt's end is not this one's");
    world.then(unknown(&id, 1));
    assert_eq!(world.step(&id, "a"), Some(ReceiptStep::Unknown));
    assert_eq!(world.seat("a").dirty, Some(id.clone()));
    world.turn(spawn, &[&id]);
    assert_eq!(world.step(&id, "a"), Some(ReceiptStep::TurnStarted));
    assert_eq!(world.seat("a").dirty, None);
}

#[test]
fn what_was_not_sent_may_be_sent_again_and_nothing_else() {
    let mut world = World::new();
    let spawn = world.start("a");
    let id = world.message(&["a"], None);
    world.sending(&id, "a", spawn, 1);
    world.then(Event::MessageNotSent {
        id: id.clone(),
        receiver: name("a"),
        attempt: 1,
        proof: proof("channel"),
    });
    assert_eq!(world.step(&id, "a"), Some(ReceiptStep::Accepted));
    assert!(ReceiptStep::Accepted.may_become(ReceiptStep::Sending));
    for step in [ReceiptStep::Sending, ReceiptStep::Unknown, ReceiptStep::Submitted, ReceiptStep::Answered] {
        assert!(!step.may_become(ReceiptStep::Sending), "{step:?}");
    }
}

#[test]
fn a_result_closes_its_task_answers_its_brief_and_waits_until_it_is_collected() {
    let mut world = World::new();
    let spawn = world.start("a");
    let id = world.message(&["a"], Some(1));
    world.then(Event::TaskCreated {
        id: TaskId(1),
        creator: "leader".to_owned(),
        subject: "s".to_owned(),
        owner: Some(name("a")),
        depends_on: Vec::new(),
        closes_on: ClosesOn::Report,
        run: None,
        message: Some(id.clone()),
        case_id: None,
    });
    world.sending(&id, "a", spawn, 1);
    world.turn(spawn, &[&id]);
    assert!(world.state.teams[&world.key].tasks[&TaskId(1)].in_progress);
    let result = ResultId(world.state.seq + 1);
    world.then(Event::McpReportResult {
        id: result,
        agent: "a".to_owned(),
        status: ReportStatus::Blocked,
        summary: "no".to_owned(),
        task: Some(TaskId(1)),
        case_id: None,
        text: None,
        lists: Artifacts::default(),
        source: ResultSource::Report,
        via: "mcp".to_owned(),
        late: false,
        partial: false,
        presentation: std::collections::BTreeMap::new(),
        ignored: std::collections::BTreeMap::new(),
    });
    world.then(Event::TaskFailed { id: TaskId(1), result });
    let team = &world.state.teams[&world.key];
    assert!(team.tasks.is_empty() && team.message(&id).is_none());
    assert_eq!((team.results.total, team.results.failed, team.results.uncollected.len()), (1, 1, 1));
    assert_eq!(team.seats[&name("a")].closed.back(), Some(&(TaskId(1), Some(id))));
    assert_eq!(team.untold.back().map(|it| it.cause), Some(NoticeCause::Result));
    world.then(Event::CollectResult { results: vec![result] });
    world.then(Event::CollectResult { results: vec![result] });
    let team = &world.state.teams[&world.key];
    assert_eq!((team.results.collected, team.results.uncollected.len()), (1, 0));
}

#[test]
fn a_seat_that_ends_leaves_what_was_on_its_way_unknown_and_what_waits_waiting() {
    let mut world = World::new();
    let spawn = world.start("a");
    let taken = world.message(&["a"], None);
    world.sending(&taken, "a", spawn, 1);
    world.turn(spawn, &[&taken]);
    let waits = world.message(&["a"], None);
    world.then(Event::MessageHeld { id: waits.clone(), receiver: name("a"), why: HoldReason::Busy });
    world.then(Event::AgentStopped { agent: name("a"), session: None, cause: Cause::Exit });
    assert_eq!(world.step(&taken, "a"), Some(ReceiptStep::Unknown));
    assert_eq!(world.step(&waits, "a"), Some(ReceiptStep::Held));
}

#[test]
fn damage_makes_what_was_open_across_it_unknown() {
    let mut world = World::new();
    let spawn = world.start("a");
    let id = world.message(&["a"], None);
    world.sending(&id, "a", spawn, 1);
    let waits = world.message(&["a"], None);
    world.then(Event::LogDamaged { from: 3, to: 4 });
    assert!(world.state.damaged);
    assert_eq!(world.step(&id, "a"), Some(ReceiptStep::Unknown));
    assert_eq!(world.step(&waits, "a"), Some(ReceiptStep::Accepted));
    assert_eq!(world.seat("a").activity.kind, ActivityKind::Unknown);
}

#[test]
fn a_status_written_before_a_hook_is_old_news() {
    let mut world = World::new();
    let spawn = world.start("a");
    world.turn(spawn, &[]);
    let since = world.seat("a").activity.since.unwrap();
    let status = |at| Event::ActivityObserved {
        spawn,
        activity: ActivityKind::Idle,
        reason: None,
        until: None,
        at: Some(at),
        proof: proof("status_file"),
    };
    world.then(status(since - chrono::TimeDelta::milliseconds(1)));
    assert_eq!(world.seat("a").activity.kind, ActivityKind::Working);
    world.then(status(since + chrono::TimeDelta::milliseconds(1)));
    assert_eq!(world.seat("a").activity.kind, ActivityKind::Idle);
}

#[test]
fn the_state_stays_small_however_much_has_happened() {
    let mut world = World::new();
    let spawns: Vec<SpawnId> = (0..16).map(|it| world.start(&format!("worker-{it}"))).collect();
    for round in 0..3000usize {
        let at = round % 16;
        let agent = format!("worker-{at}");
        let id = world.message(&[&agent], None);
        world.sending(&id, &agent, spawns[at], 1);
        world.turn(spawns[at], &[&id]);
        world.then(Event::NoticeRaised { cause: NoticeCause::Approval, about: format!("q-{round}") });
        world.end_turn(spawns[at], TurnOutcome::Answer);
    }
    let size = serde_json::to_string(&world.state).unwrap().len();
    assert!(size <= 256 * 1024, "{size} bytes");
}

#[test]
fn a_state_reads_back_what_it_was() {
    let mut world = World::new();
    let spawn = world.start("a");
    let id = world.message(&["a"], None);
    world.sending(&id, "a", spawn, 1);
    world.then(Event::ApprovalRequested {
        spawn,
        tool: "Bash".to_owned(),
        input: None,
        choices: Vec::new(),
        key: None,
        by_keys: false,
        proof: proof("hook"),
    });
    let text = serde_json::to_string(&world.state).unwrap();
    assert_eq!(serde_json::from_str::<State>(&text).unwrap(), world.state);
}

/// Any event a newer, older or broken program might leave, about things that may not exist.
fn any_event() -> impl Strategy<Value = Event> {
    let agent = prop_oneof![Just(name("a")), Just(name("b")), Just(name("nobody"))];
    let spawn = (0u64..40).prop_map(SpawnId);
    let id = (0u64..40).prop_map(MessageId::Seq);
    (agent, spawn, id, 0u32..4, 0u8..22).prop_map(|(agent, spawn, id, attempt, kind)| match kind {
        0 => Event::AgentQueued { agent, mode: SpawnMode::Resume },
        1 => Event::AgentStopped { agent, session: None, cause: Cause::Exit },
        2 => Event::AgentFailed { agent, why: "w".to_owned(), last_lines: Vec::new() },
        3 => Event::SpawnPlanned {
            agent,
            mode: SpawnMode::Fresh,
            session: None,
            native: None,
            needs: vec![ReadyFact::StatusIdle],
            channel: Channel::Bell,
            seat: String::new(),
            notes: Vec::new(),
        },
        4 => Event::SpawnOpened { spawn, pane: "%2".to_owned(), pid: 3 },
        5 => Event::SessionClaimed { spawn, process: process(attempt) },
        6 => Event::SpawnSuperseded { spawn, why: "w".to_owned() },
        7 => Event::ProviderExited { spawn, code: None, signal: Some(9) },
        8 => Event::TurnStarted { spawn, messages: vec![id], chars: 0, proof: proof("hook") },
        9 => Event::TurnEnded {
            spawn,
            outcome: TurnOutcome::Error,
            why: Some("w".to_owned()),
            chars: 0,
            proof: proof("hook"),
        },
        10 => Event::ActivityObserved {
            spawn,
            activity: ActivityKind::Idle,
            reason: None,
            until: None,
            at: None,
            proof: proof("status_file"),
        },
        11 => Event::MessageHeld { id, receiver: agent, why: HoldReason::Busy },
        12 => Event::MessageSending {
            id,
            receiver: agent,
            attempt,
            channel: Channel::Keys,
            spawn,
            receiver_process: process(1),
            proof_from: 0,
            file: None,
        },
        13 => {
            Event::MessageSubmitted { id, receiver: agent, in_turn: attempt == 1, proof: proof("transcript") }
        }
        14 => Event::MessageNotSent { id, receiver: agent, attempt, proof: proof("channel") },
        15 => Event::MessageUnknown { id, receiver: agent, attempt, why: String::new(), staged: true },
        16 => Event::TaskCompleted { id: TaskId(spawn.0), result: ResultId(1) },
        17 => Event::CollectResult { results: vec![ResultId(spawn.0)] },
        18 => Event::TeamStopped { clean: true },
        19 => Event::TeamLost { why: String::new() },
        20 => Event::LogDamaged { from: 1, to: 2 },
        _ => Event::MessageAccepted {
            id: MessageId::Own("own".to_owned()),
            kind: MessageKind::Message,
            from: "leader".to_owned(),
            to: vec![agent],
            to_leader: attempt == 2,
            addressed: String::new(),
            task: None,
            reply_to: None,
            request: None,
            run: None,
            case_id: None,
            presentation: std::collections::BTreeMap::new(),
            ignored: std::collections::BTreeMap::new(),
            body: Body::inline("x"),
        },
    })
}

proptest! {
    #[test]
    fn whatever_is_in_the_log_is_folded(events in prop::collection::vec(any_event(), 0..120)) {
        let mut world = World::new();
        world.start("a");
        world.start("b");
        for event in events {
            world.then(event);
        }
        let text = serde_json::to_string(&world.state).unwrap();
        prop_assert_eq!(serde_json::from_str::<State>(&text).unwrap(), world.state.clone());
        let team = &world.state.teams[&world.key];
        prop_assert!(matches!(team.state, TeamState::Running | TeamState::Stopped | TeamState::Lost));
    }
}

#[test]
fn a_conversation_that_a_person_replaces_is_the_seats_from_then_on() {
    let mut world = World::new();
    let spawn = world.start("a");
    let id = world.message(&["a"], None);
    world.sending(&id, "a", spawn, 1);
    world.turn(spawn, &[&id]);
    let replace = |native: &str, source: &str| Event::SessionReplaced {
        spawn,
        native: native.to_owned(),
        source: source.to_owned(),
    };
    let first = world.seat("a").session.clone().expect("it has one");
    let seq = world.then(replace("cleared", "clear"));
    let session = world.seat("a").session.clone().expect("it has one");
    assert_eq!((session.native.as_deref(), session.proved, session.used), (Some("cleared"), true, false));
    assert_eq!(session.id.0, seq);
    assert_ne!(session.id, first.id);
    assert_eq!((world.seat("a").turns, &world.seat("a").turn), (0, &None));
    world.then(replace("resumed", "resume"));
    assert!(world.seat("a").session.as_ref().is_some_and(|it| it.used));
    // The program of an earlier start has no say.
    world.then(Event::SessionReplaced {
        spawn: SpawnId(spawn.0 + 100),
        native: "other".to_owned(),
        source: "clear".to_owned(),
    });
    assert_eq!(world.seat("a").session.as_ref().and_then(|it| it.native.as_deref()), Some("resumed"));
}

#[test]
fn a_receipt_keeps_how_its_turn_ended_where_that_was_no_answer() {
    let mut world = World::new();
    let spawn = world.start("a");
    for (outcome, why) in [(TurnOutcome::Interrupted, "interrupted"), (TurnOutcome::Error, "error")] {
        let id = world.message(&["a"], None);
        world.sending(&id, "a", spawn, 1);
        world.turn(spawn, &[&id]);
        world.end_turn(spawn, outcome);
        let receipt = &world.state.teams[&world.key].message(&id).expect("it is kept").receipts[&name("a")];
        assert_eq!(receipt.step, ReceiptStep::Answered);
        assert_eq!(receipt.why.as_deref(), Some(&*format!("its turn ended: {why}")));
    }
}

fn ask(world: &mut World, spawn: SpawnId) {
    let (tool, proof) = ("Bash".to_owned(), proof("hook"));
    let key = Some(format!("k{}", world.state.seq));
    let by_keys = false;
    world.then(Event::ApprovalRequested {
        spawn,
        tool,
        input: None,
        choices: Vec::new(),
        key,
        by_keys,
        proof,
    });
}

fn close(world: &mut World, spawn: SpawnId, request: Option<RequestId>, key: Option<&str>, how: &str) {
    let (key, how) = (key.map(str::to_owned), how.to_owned());
    world.then(Event::ApprovalClosed { spawn, request, key, how });
}

#[test]
fn each_question_is_closed_alone_and_tells_afterwards_how() {
    let mut world = World::new();
    let spawn = world.start("a");
    world.turn(spawn, &[]);
    for _ in 0..4 {
        ask(&mut world, spawn);
    }
    let ids: Vec<RequestId> = world.seat("a").approvals.keys().copied().collect();
    let key = world.seat("a").approvals[&ids[0]].key.clone().expect("it has one");
    let answer = |request, decision, by: &str| Event::ApprovalAnswering {
        spawn,
        request,
        decision,
        by: by.to_owned(),
        pattern: None,
        message: None,
        message_id: None,
    };
    world.then(answer(ids[0], Decision::Allow, "person"));
    world.then(answer(ids[0], Decision::Deny, "person"));
    world.then(answer(ids[2], Decision::Deny, "rule"));
    close(&mut world, spawn, None, Some(&key), ANSWERED);
    close(&mut world, spawn, Some(ids[1]), None, IN_PANE);
    close(&mut world, spawn, Some(ids[1]), None, ANSWERED);
    assert_eq!(world.seat("a").activity.kind, ActivityKind::AwaitingApproval);
    close(&mut world, spawn, Some(ids[2]), None, ANSWERED);
    assert_eq!(world.seat("a").approvals.keys().copied().collect::<Vec<_>>(), [ids[3]]);
    world.end_turn(spawn, TurnOutcome::Error);
    let ends: Vec<&str> = world.seat("a").closed_questions.iter().map(|(_, how)| how.as_str()).collect();
    assert_eq!(
        ends,
        [
            "it was allowed by a person",
            "it was answered in the agent's own terminal",
            "it was denied by a rule of TEAM.md",
            "its turn has ended"
        ]
    );
    assert_eq!(world.seat("a").activity.kind, ActivityKind::Idle);
}

#[test]
fn a_leader_hears_of_a_limit_once_until_it_has_ended() {
    let mut world = World::new();
    let spawn = world.start("a");
    let limited = |world: &mut World, until: Option<u64>| {
        world.turn(spawn, &[]);
        world.end_turn(spawn, TurnOutcome::Error);
        let (activity, proof) = (ActivityKind::Limited, proof("hook"));
        let until = until.map(time);
        world.then(Event::ActivityObserved { spawn, activity, reason: None, until, at: None, proof });
        let heard = world.state.teams[&world.key].untold.iter().filter(|it| it.cause == NoticeCause::Limit);
        let seqs: Vec<u64> = heard.map(|it| it.seq).collect();
        seqs.contains(&world.state.seq)
    };
    assert!(limited(&mut world, Some(5000)));
    assert!(!limited(&mut world, Some(5000)), "the same one");
    assert!(!limited(&mut world, None), "whose end is not told this time");
    assert!(limited(&mut world, Some(9000)), "another one");
    world.turn(spawn, &[]);
    world.end_turn(spawn, TurnOutcome::Answer);
    assert_eq!(world.state.teams[&world.key].untold.len(), 0, "what is over is no news");
    assert!(limited(&mut world, None));
    assert!(!limited(&mut world, None));
}

#[test]
fn a_message_that_came_back_is_sent_anew_only_when_somebody_says_so() {
    let mut world = World::new();
    let spawn = world.start("a");
    let id = world.message(&["a"], None);
    let step = |world: &World| {
        world.state.teams[&world.key].message(&id).expect("it is kept").receipts[&name("a")].step
    };
    let again = |world: &mut World| world.then(Event::MessageAgain { id: id.clone(), receiver: name("a") });
    again(&mut world);
    assert_eq!(step(&world), ReceiptStep::Accepted, "nothing to repeat");
    world.sending(&id, "a", spawn, 1);
    world.turn(spawn, &[&id]);
    world.then(Event::MessageReturned { id: id.clone(), receiver: name("a"), why: "interrupted".to_owned() });
    world.end_turn(spawn, TurnOutcome::Interrupted);
    assert_eq!(step(&world), ReceiptStep::Returned);
    again(&mut world);
    assert_eq!(step(&world), ReceiptStep::Accepted);
    world.sending(&id, "a", spawn, 2);
    assert_eq!(step(&world), ReceiptStep::Sending);
    world.then(Event::MessageReturned { id: id.clone(), receiver: name("a"), why: "interrupted".to_owned() });
    // The person sends what stands in the box.
    world.turn(spawn, &[&id]);
    assert_eq!(step(&world), ReceiptStep::TurnStarted);
}

#[test]
fn a_question_stays_open_when_its_turn_is_told_after_it() {
    let mut world = World::new();
    let spawn = world.start("a");
    ask(&mut world, spawn);
    world.turn(spawn, &[]);
    assert_eq!(world.seat("a").approvals.len(), 1);
    assert_eq!(world.seat("a").activity.kind, ActivityKind::AwaitingApproval);
    // The next turn is another one: the question of this one is over.
    world.turn(spawn, &[]);
    assert_eq!(world.seat("a").approvals.len(), 0);
    assert_eq!(world.seat("a").activity.kind, ActivityKind::Working);
}

#[test]
fn a_leader_hears_of_a_question_only_while_it_is_open() {
    let mut world = World::new();
    let spawn = world.start("a");
    world.turn(spawn, &[]);
    ask(&mut world, spawn);
    let untold =
        |world: &World| world.state.teams[&world.key].untold.iter().map(|it| it.cause).collect::<Vec<_>>();
    assert_eq!(untold(&world), [NoticeCause::Approval]);
    close(&mut world, spawn, None, None, "denied");
    assert_eq!(untold(&world), []);
}

#[test]
fn a_turn_goes_on_after_a_compaction_inside_it() {
    let mut world = World::new();
    let spawn = world.start("a");
    let compacting = |world: &mut World| {
        let (activity, proof) = (ActivityKind::Compacting, proof("hook"));
        world.then(Event::ActivityObserved { spawn, activity, reason: None, until: None, at: None, proof });
        world.then(Event::SessionCompacted { spawn });
        world.seat("a").activity.kind
    };
    assert_eq!(
        compacting(&mut world),
        ActivityKind::Compacting,
        "only its status says that it is idle again"
    );
    world.turn(spawn, &[]);
    assert_eq!(compacting(&mut world), ActivityKind::Working);
}

#[test]
fn a_collected_result_is_no_news_any_more() {
    let mut world = World::new();
    world.start("a");
    let id = ResultId(world.state.seq + 1);
    world.then(Event::McpReportResult {
        id,
        agent: "a".to_owned(),
        status: ReportStatus::Success,
        summary: "done".to_owned(),
        task: None,
        case_id: None,
        text: None,
        lists: Artifacts::default(),
        source: ResultSource::Report,
        via: "mcp".to_owned(),
        late: false,
        partial: false,
        presentation: std::collections::BTreeMap::new(),
        ignored: std::collections::BTreeMap::new(),
    });
    assert_eq!(world.state.teams[&world.key].untold.len(), 1);
    world.then(Event::CollectResult { results: vec![id] });
    assert!(world.state.teams[&world.key].untold.is_empty());
}

#[test]
fn what_a_conversation_tells_again_proves_nothing_for_a_session_that_ended() {
    let mut world = World::new();
    let old = world.start("a");
    let id = world.message(&["a"], None);
    world.sending(&id, "a", old, 1);
    world.turn(old, &[&id]);
    world.then(Event::AgentStopped { agent: name("a"), session: None, cause: Cause::Shutdown });
    assert_eq!(world.step(&id, "a"), Some(ReceiptStep::Unknown));
    let new = world.start("a");
    world.then(Event::MessageSubmitted {
        id: id.clone(),
        receiver: name("a"),
        in_turn: true,
        proof: proof("transcript"),
    });
    world.turn(new, &[]);
    world.end_turn(new, TurnOutcome::Answer);
    assert_eq!(world.step(&id, "a"), Some(ReceiptStep::Unknown));
}

#[test]
fn a_question_that_a_key_answers_tells_whether_the_key_was_pressed() {
    let ends = |pressed: Option<bool>, decision, end: &dyn Fn(&mut World, SpawnId)| {
        let mut world = World::new();
        let spawn = world.start("a");
        world.turn(spawn, &[]);
        let (tool, key, by_keys, proof) = ("Bash".to_owned(), Some("k".to_owned()), true, proof("hook"));
        world.then(Event::ApprovalRequested {
            spawn,
            tool,
            input: None,
            choices: Vec::new(),
            key,
            by_keys,
            proof,
        });
        let request = *world.seat("a").approvals.keys().next().expect("it asks");
        let (by, pattern, message) = ("person".to_owned(), None, None);
        let message_id = Some(MessageId::Seq(7)).filter(|_| decision == Decision::Deny);
        world.then(Event::ApprovalAnswering { spawn, request, decision, by, pattern, message, message_id });
        if let Some(pressed) = pressed {
            world.then(Event::ApprovalPressing { spawn, request, attempt: 1, refused: !pressed });
        }
        end(&mut world, spawn);
        world.seat("a").closed_questions.back().expect("it is closed").1.clone()
    };
    let record = |world: &mut World, spawn| close(world, spawn, None, None, "permission.completed");
    let off_screen = |world: &mut World, spawn| close(world, spawn, None, None, OFF_SCREEN);
    let interrupted = |world: &mut World, spawn| world.end_turn(spawn, TurnOutcome::Interrupted);
    let elsewhere = "it was answered in the agent's own terminal";
    assert_eq!(ends(Some(true), Decision::Allow, &record), "it was allowed by a person");
    let unsure = "it was allowed by a person; its dialog is gone, more is not known yet";
    assert_eq!(ends(Some(true), Decision::Allow, &off_screen), unsure);
    for pressed in [None, Some(false)] {
        assert_eq!(ends(pressed, Decision::Allow, &record), elsewhere);
        assert_eq!(ends(pressed, Decision::Allow, &off_screen), elsewhere);
    }
    let words = "; your words go to it as message m-7";
    assert_eq!(ends(Some(true), Decision::Deny, &interrupted), format!("it was denied by a person{words}"));
    assert_eq!(ends(None, Decision::Deny, &interrupted), format!("{elsewhere}{words}"));
    assert_eq!(ends(Some(true), Decision::Allow, &interrupted), elsewhere);
    // A short turn may end before anything else tells that its question was answered.
    let ended = |world: &mut World, spawn| world.end_turn(spawn, TurnOutcome::Answer);
    assert_eq!(ends(Some(true), Decision::Allow, &ended), "it was allowed by a person");
    assert_eq!(ends(None, Decision::Allow, &ended), elsewhere);
}

#[test]
fn an_answer_that_did_not_reach_its_program_leaves_the_question_open_and_tells_the_leader() {
    let mut world = World::new();
    let spawn = world.start("a");
    world.turn(spawn, &[]);
    ask(&mut world, spawn);
    let request = *world.seat("a").approvals.keys().next().expect("it asks");
    let (decision, by, pattern) = (Decision::Allow, "rule".to_owned(), Some("Bash".to_owned()));
    world.then(Event::ApprovalAnswering {
        spawn,
        request,
        decision,
        by,
        pattern,
        message: None,
        message_id: None,
    });
    assert!(world.state.teams[&world.key].untold.is_empty());
    world.then(Event::ApprovalNotGiven { spawn, request, why: "x".to_owned(), pressed: true });
    let open = &world.seat("a").approvals[&request];
    assert_eq!((&open.answering, open.not_given.as_ref().map(|it| it.pressed)), (&None, Some(true)));
    assert_eq!(world.state.teams[&world.key].untold.len(), 1);
    // Nothing was on its way.
    world.then(Event::ApprovalNotGiven { spawn, request, why: "y".to_owned(), pressed: false });
    assert_eq!(world.seat("a").approvals[&request].not_given.as_ref().map(|it| it.why.as_str()), Some("x"));
}
