//! Decisions are pure: a state and a wish become events or a refusal.

use std::collections::BTreeMap;

use chrono::{DateTime, TimeZone as _, Utc};
use team_engine::decide::{
    self, AgainCommand, AnswerCommand, ReportCommand, ReportOutcome, Reporter, SendCommand, SendOutcome,
    Sender, StartCommand, StartSeat,
};
use team_model::{
    AgentName, Artifacts, Body, Channel, Decision, Event, MessageId, MessageKind, ProcessIdentity, Proof,
    ReportStatus, RequestId, SeatSpec, SpawnId, SpawnMode, State, TaskId, TeamKey, TurnOutcome,
};

struct World {
    state: State,
    key: TeamKey,
}

fn time(seq: u64) -> DateTime<Utc> {
    Utc.timestamp_millis_opt(1_800_000_000_000 + i64::try_from(seq).expect("small")).single().expect("a time")
}

fn name(text: &str) -> AgentName {
    AgentName::new(text).expect("a name")
}

fn spec() -> SeatSpec {
    SeatSpec {
        role: String::new(),
        provider: "fake".to_owned(),
        model: None,
        effort: None,
        auth_mode: "subscription".to_owned(),
        profile: None,
        tools: Vec::new(),
        working_directory: None,
        instructions: Body::inline("work"),
    }
}

fn start_command(session: &str, agents: &[&str]) -> StartCommand {
    StartCommand {
        team: TeamKey::new("current").expect("a key"),
        name: session.to_owned(),
        session_name: session.to_owned(),
        dir: "/w/.team/current".to_owned(),
        digest: String::new(),
        goal: None,
        leader: None,
        seats: agents.iter().map(|it| StartSeat { agent: name(it), spec: spec() }).collect(),
    }
}

fn process() -> ProcessIdentity {
    ProcessIdentity { pid: 7, start: 1, boot: "b".to_owned(), namespace: String::new() }
}

impl World {
    fn empty() -> Self {
        Self { state: State::default(), key: TeamKey::new("current").expect("a key") }
    }

    fn with(agents: &[&str]) -> Self {
        let mut world = Self::empty();
        let events = decide::start_team(&world.state, &start_command("crew", agents)).expect("it may start");
        world.fold(events);
        world
    }

    fn fold(&mut self, events: Vec<Event>) {
        for event in events {
            let seq = self.state.seq + 1;
            let key = self.key.clone();
            self.state.apply(seq, time(seq), Some(&key), &event);
        }
    }

    fn run(&mut self, agent: &str) -> SpawnId {
        self.fold(vec![Event::SpawnPlanned {
            agent: name(agent),
            mode: SpawnMode::Fresh,
            session: None,
            native: Some("n".to_owned()),
            needs: Vec::new(),
            channel: Channel::Keys,
            seat: String::new(),
            notes: Vec::new(),
        }]);
        let spawn = SpawnId(self.state.seq);
        let events = decide::claim(&self.state, spawn, &process()).expect("it may be claimed");
        self.fold(events);
        self.fold(vec![Event::SessionStarted {
            spawn,
            native: "n".to_owned(),
            source: "startup".to_owned(),
        }]);
        spawn
    }

    fn wish(&self, to: &str, text: &str) -> SendCommand {
        SendCommand {
            team: self.key.clone(),
            sender: Sender::Person,
            from: "leader".to_owned(),
            to: vec![to.to_owned()],
            kind: MessageKind::Message,
            body: Body::inline(text),
            subject: text.to_owned(),
            task: None,
            reply_to: None,
            request: None,
            answer: String::new(),
            own_id: None,
            prior: None,
            case_id: None,
            watch_result: false,
            presentation: BTreeMap::new(),
            ignored: BTreeMap::new(),
        }
    }

    fn send(&mut self, wish: &SendCommand) -> Result<SendOutcome, &'static str> {
        let (events, outcome) = decide::accept_message(&self.state, wish).map_err(|it| it.code)?;
        self.fold(events);
        Ok(outcome)
    }

    /// Hands a task over and begins the turn that takes it.
    fn brief(&mut self, agent: &str, spawn: SpawnId, begin: bool) -> (TaskId, MessageId) {
        let wish = SendCommand { watch_result: true, ..self.wish(agent, "do it") };
        let sent = self.send(&wish).expect("it is accepted").messages.remove(0);
        self.fold(vec![Event::MessageSending {
            id: sent.id.clone(),
            receiver: name(agent),
            attempt: 1,
            channel: Channel::Keys,
            spawn,
            receiver_process: process(),
            proof_from: 0,
            file: None,
        }]);
        if begin {
            self.turn(spawn, &[&sent.id]);
        }
        (sent.task.expect("a task"), sent.id)
    }

    fn turn(&mut self, spawn: SpawnId, ids: &[&MessageId]) {
        let proof = Proof { source: "hook".to_owned(), record: "x".to_owned() };
        self.fold(vec![
            Event::TurnEnded {
                spawn,
                outcome: TurnOutcome::Answer,
                why: None,
                chars: 0,
                proof: proof.clone(),
            },
            Event::TurnStarted {
                spawn,
                messages: ids.iter().map(|it| (*it).clone()).collect(),
                chars: 1,
                proof,
            },
        ]);
    }

    fn report(
        &mut self,
        agent: &str,
        spawn: SpawnId,
        task: Option<&str>,
    ) -> Result<ReportOutcome, &'static str> {
        self.report_as(Reporter::Agent { agent: name(agent), spawn }, task, None)
    }

    fn report_as(
        &mut self,
        reporter: Reporter,
        task: Option<&str>,
        hint: Option<&str>,
    ) -> Result<ReportOutcome, &'static str> {
        let command = ReportCommand {
            team: self.key.clone(),
            reporter,
            task: task.map(str::to_owned),
            task_hint: hint.map(str::to_owned),
            status: ReportStatus::Success,
            summary: "done".to_owned(),
            text: None,
            lists: Artifacts::default(),
            via: "mcp",
            presentation: BTreeMap::new(),
            ignored: BTreeMap::new(),
        };
        let (events, outcome) = decide::report(&self.state, &command).map_err(|it| it.code)?;
        self.fold(events);
        Ok(outcome)
    }
}

#[test]
fn receivers_are_names_exactly_or_refused_as_a_whole() {
    let mut world = World::with(&["al", "alice", "bob"]);
    let names = |outcome: SendOutcome| -> Vec<String> {
        outcome.messages.iter().flat_map(|it| it.to.iter().map(ToString::to_string)).collect()
    };
    let mut check = |to: &str, expected: Result<&[&str], &'static str>| {
        let wish = world.wish(to, "hi");
        let got = world.send(&wish).map(names);
        assert_eq!(got, expected.map(|it| it.iter().map(|it| (*it).to_owned()).collect()), "{to}");
    };
    check("al", Ok(&["al"]));
    check("al,bob,al", Ok(&["al", "bob"]));
    check("all", Ok(&["al", "alice", "bob"]));
    check("*", Ok(&["al", "alice", "bob"]));
    check("ali", Err("unknown_receiver"));
    check("AL", Err("unknown_receiver"));
    check("al,nosuch", Err("unknown_receiver"));
    check("leader", Err("self"));
    check("", Err("unknown_receiver"));
}

#[test]
fn an_agent_reaches_everybody_but_itself() {
    let mut world = World::with(&["a", "b"]);
    let from =
        |world: &World, to: &str| SendCommand { sender: Sender::Seat(name("a")), ..world.wish(to, "hi") };
    let wish = from(&world, "all");
    assert_eq!(world.send(&wish).map(|it| it.messages[0].to.clone()), Ok(vec![name("b")]));
    let wish = from(&world, "manager");
    assert!(world.send(&wish).is_ok_and(|it| it.messages[0].to_leader));
    let wish = from(&world, "a");
    assert_eq!(world.send(&wish), Err("self"));
    let wish = SendCommand { sender: Sender::Unknown, ..world.wish("b", "hi") };
    assert_eq!(world.send(&wish), Err("not_allowed"));
}

#[test]
fn the_same_own_id_with_the_same_text_is_the_same_message() {
    let mut world = World::with(&["a"]);
    let own = |world: &World, text: &str| SendCommand {
        own_id: Some("build:1".to_owned()),
        ..world.wish("a", text)
    };
    let wish = own(&world, "hi");
    let first = world.send(&wish).expect("it is accepted");
    let wish = own(&world, "hi");
    let again = world.send(&wish).expect("it is known");
    assert!(!first.repeated && again.repeated);
    assert_eq!(first.messages[0].id, again.messages[0].id);
    let wish = own(&world, "other");
    assert_eq!(world.send(&wish), Err("id_conflict"));
    let wish = SendCommand { own_id: Some("m-3".to_owned()), ..world.wish("a", "hi") };
    assert_eq!(world.send(&wish), Err("bad_message_id"));
}

#[test]
fn a_report_closes_the_only_open_task_or_the_one_of_this_turn_or_says_which() {
    let mut world = World::with(&["a", "b"]);
    let spawn = world.run("a");
    let other = world.run("b");
    assert_eq!(world.report("a", spawn, None).map(|it| it.task), Ok(None), "nothing is owed");
    let (one, _) = world.brief("a", spawn, true);
    assert_eq!(world.report("a", spawn, None).map(|it| it.task), Ok(Some(one)));
    assert_eq!(world.report("a", spawn, None), Err("already_reported"), "the same turn, once more");
    let (two, _) = world.brief("a", spawn, true);
    let (three, _) = world.brief("a", spawn, false);
    let outcome = world.report("a", spawn, None).expect("the one of this turn");
    assert_eq!((outcome.task, outcome.owed), (Some(two), vec![three]));
    let (four, _) = world.brief("a", spawn, false);
    world.turn(spawn, &[]);
    assert_eq!(world.report("a", spawn, None), Err("which_task"), "a turn that a person began");
    assert_eq!(world.report("a", spawn, Some("task-3")), Err("bad_task_id"));
    assert_eq!(world.report("a", spawn, Some("9")), Err("task_not_found"));
    assert_eq!(world.report("a", spawn, Some("1")), Err("already_reported"));
    assert_eq!(world.report("b", other, Some(&four.to_string())), Err("not_owner"));
    let seat = || Reporter::Agent { agent: name("a"), spawn };
    let hinted = world.report_as(seat(), None, Some(&four.to_string())).expect("a hint that fits counts");
    assert_eq!(hinted.task, Some(four));
    assert_eq!(world.report("a", spawn, Some(&three.to_string())).map(|it| it.task), Ok(Some(three)));
}

#[test]
fn a_report_after_ten_silent_minutes_in_one_turn_counts_like_any_other() {
    let mut world = World::with(&["a"]);
    let spawn = world.run("a");
    let (task, _) = world.brief("a", spawn, true);
    // Nothing but time passes, as it does for others: a line of another kind carries it.
    let later = time(world.state.seq) + chrono::TimeDelta::minutes(10);
    let key = world.key.clone();
    world.state.apply(world.state.seq + 1, later, Some(&key), &Event::Unknown);
    let outcome = world.report("a", spawn, None).expect("it counts");
    assert_eq!((outcome.task, outcome.owed), (Some(task), Vec::new()));
    assert_eq!(world.state.teams[&key].seats[&name("a")].state, team_model::SeatState::Running);
}

#[test]
fn a_report_of_an_older_start_counts_and_is_late_and_a_stranger_closes_nothing() {
    let mut world = World::with(&["a"]);
    let spawn = world.run("a");
    let (task, _) = world.brief("a", spawn, true);
    let stranger = world.report_as(Reporter::Unknown, None, Some("1")).expect("it is kept");
    assert_eq!((stranger.task, stranger.proved), (None, false));
    let late = world.report("a", SpawnId(spawn.0 - 1), None).expect("it counts");
    assert_eq!((late.task, late.late), (Some(task), true));
}

#[test]
fn results_are_collected_once() {
    let mut world = World::with(&["a"]);
    let spawn = world.run("a");
    world.report("a", spawn, None).expect("it is kept");
    let (events, ids) = decide::collect(&world.state, &world.key, None).expect("there is one");
    assert_eq!(ids.len(), 1);
    world.fold(events);
    assert_eq!(decide::collect(&world.state, &world.key, None).map(|it| it.1.len()), Ok(0));
}

#[test]
fn a_team_starts_once_and_a_session_name_belongs_to_one_team() {
    let mut world = World::with(&["a"]);
    let code = |result: Result<Vec<Event>, decide::Refusal>| result.map(|_| ()).map_err(|it| it.code);
    assert_eq!(code(decide::start_team(&world.state, &start_command("crew", &["a"]))), Err("team_running"));
    let second = StartCommand { team: TeamKey::new("two").expect("a key"), ..start_command("crew", &["a"]) };
    let refused = decide::start_team(&world.state, &second).expect_err("the name is taken");
    assert!(refused.message.contains("tmux session already exists"), "{}", refused.message);
    assert!(refused.message.contains("current"), "{}", refused.message);
    assert!(refused.hint.as_deref().is_some_and(|it| it.contains("name:")), "{refused:?}");
    assert!(refused.hint.as_deref().is_some_and(|it| !it.contains("shutdown")), "{refused:?}");
    world.fold(vec![Event::TeamStopped { clean: true }]);
    assert_eq!(code(decide::start_team(&world.state, &start_command("crew", &["a"]))), Err("team_exists"));
}

#[test]
fn a_restart_resumes_proved_conversations_and_says_where_it_cannot() {
    let mut world = World::with(&["used", "new", "gone"]);
    for agent in ["used", "gone"] {
        let spawn = world.run(agent);
        world.turn(spawn, &[]);
    }
    world.run("new");
    world.fold(vec![Event::TeamStopped { clean: true }]);
    let resumable = |agent: &AgentName| {
        if agent.as_str() == "gone" { Err("its transcript is gone".to_owned()) } else { Ok(true) }
    };
    let events =
        decide::restart_team(&world.state, &start_command("crew", &["gone", "new", "used"]), &resumable)
            .expect("it may");
    let modes: Vec<(String, SpawnMode)> = events
        .iter()
        .filter_map(|it| match it {
            Event::AgentQueued { agent, mode } => Some((agent.to_string(), *mode)),
            _ => None,
        })
        .collect();
    let expected = [("gone", SpawnMode::Fresh), ("new", SpawnMode::Fresh), ("used", SpawnMode::Resume)];
    assert_eq!(modes, expected.map(|(agent, mode)| (agent.to_owned(), mode)));
    let fresh: Vec<_> = events.iter().filter(|it| matches!(it, Event::RestartFreshSpawn { .. })).collect();
    assert_eq!(fresh.len(), 1, "{fresh:?}");
}

#[test]
fn a_spawn_is_claimed_once_and_only_while_it_is_wanted() {
    let mut world = World::with(&["a"]);
    let spawn = world.run("a");
    let code =
        |state: &State, spawn| decide::claim(state, spawn, &process()).map(|_| ()).map_err(|it| it.code);
    assert_eq!(code(&world.state, spawn), Err("not_wanted"), "it runs already");
    assert_eq!(code(&world.state, SpawnId(999)), Err("superseded"));
    world.fold(vec![Event::AgentStopped { agent: name("a"), session: None, cause: team_model::Cause::Exit }]);
    world.fold(vec![Event::AgentQueued { agent: name("a"), mode: SpawnMode::Resume }]);
    assert_eq!(code(&world.state, spawn), Err("not_wanted"), "an older start");
}

#[test]
fn a_team_that_stopped_takes_no_messages_and_only_a_stopped_one_is_deleted() {
    let mut world = World::with(&["a"]);
    world.run("a");
    assert_eq!(
        decide::delete_team(&world.state, &world.key).map(|_| ()).map_err(|it| it.code),
        Err("team_running")
    );
    let events = decide::plan_stop(&world.state, &world.key).expect("it runs");
    assert!(events.iter().any(|it| matches!(it, Event::AgentStopPlanned { .. })), "{events:?}");
    world.fold(events);
    world.fold(vec![Event::TeamStopped { clean: true }]);
    let wish = world.wish("a", "hi");
    assert_eq!(world.send(&wish), Err("team_stopped"));
    assert!(decide::delete_team(&world.state, &world.key).is_ok());
}

/// Has an agent ask; returns the question.
fn ask(world: &mut World, spawn: SpawnId, key: Option<&str>) -> RequestId {
    let proof = Proof { source: "hook".to_owned(), record: "x".to_owned() };
    let (tool, key) = ("Bash".to_owned(), key.map(str::to_owned));
    world.fold(vec![Event::ApprovalRequested {
        spawn,
        tool,
        input: None,
        choices: Vec::new(),
        key,
        by_keys: false,
        proof,
    }]);
    RequestId(world.state.seq)
}

#[test]
fn the_first_answer_to_an_open_question_counts() {
    let mut world = World::with(&["a", "b"]);
    let (spawn, _) = (world.run("a"), world.run("b"));
    let answer = |world: &mut World, agent: &str, request: RequestId, decision| {
        let command = AnswerCommand {
            team: world.key.clone(),
            agent: agent.to_owned(),
            request,
            decision,
            by: "person",
            pattern: None,
            message: None,
        };
        let (events, to) = decide::answer_approval(&world.state, &command).map_err(|it| it.code)?;
        let new = events.len();
        world.fold(events);
        Ok((to.key, new))
    };
    let asked = ask(&mut world, spawn, Some("k1"));
    assert_eq!(answer(&mut world, "b", asked, Decision::Allow), Err("no_such_request"));
    assert_eq!(answer(&mut world, "c", asked, Decision::Allow), Err("unknown_agent"));
    assert_eq!(answer(&mut world, "a", RequestId(1), Decision::Allow), Err("no_such_request"));
    assert_eq!(answer(&mut world, "a", asked, Decision::Allow), Ok(("k1".to_owned(), 1)));
    assert_eq!(answer(&mut world, "a", asked, Decision::Deny), Err("already_answered"));
    assert_eq!(answer(&mut world, "a", asked, Decision::Allow), Ok(("k1".to_owned(), 0)), "the same again");
    let how = "answered".to_owned();
    world.fold(vec![Event::ApprovalClosed { spawn, request: Some(asked), key: None, how }]);
    assert_eq!(answer(&mut world, "a", asked, Decision::Allow), Err("closed"));
    let shown_only = ask(&mut world, spawn, None);
    assert_eq!(answer(&mut world, "a", shown_only, Decision::Allow), Err("no_channel"));
    let smuggled = ask(&mut world, spawn, Some("../../b/answers/k"));
    assert_eq!(answer(&mut world, "a", smuggled, Decision::Allow), Err("no_channel"));
}

#[test]
fn the_words_of_a_no_that_is_a_key_go_as_a_message_of_the_same_append() {
    let mut world = World::with(&["a"]);
    let spawn = world.run("a");
    let proof = Proof { source: "hook".to_owned(), record: "x".to_owned() };
    let (tool, key, by_keys) = ("bash".to_owned(), Some("k".to_owned()), true);
    world.fold(vec![Event::ApprovalRequested {
        spawn,
        tool,
        input: None,
        choices: Vec::new(),
        key,
        by_keys,
        proof,
    }]);
    let command = AnswerCommand {
        team: world.key.clone(),
        agent: "a".to_owned(),
        request: RequestId(world.state.seq),
        decision: Decision::Deny,
        by: "person",
        pattern: None,
        message: Some("use make".to_owned()),
    };
    let (events, to) = decide::answer_approval(&world.state, &command).expect("it is open");
    assert!(to.by_keys);
    let [Event::MessageAccepted { id, body, to, .. }, Event::ApprovalAnswering { message_id, .. }] =
        &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!((message_id.as_ref(), &to[..]), (Some(id), &[name("a")][..]));
    let said = body.text.as_deref().unwrap_or_default();
    assert!(said.contains("bash") && said.ends_with("was denied: use make"), "{said}");
    world.fold(events);
    let (again, _) = decide::answer_approval(&world.state, &command).expect("the same again");
    assert!(again.is_empty(), "the words go once");
}

#[test]
fn what_is_lost_is_sent_anew_by_its_sender_or_a_person() {
    let mut world = World::with(&["a", "b"]);
    let spawn = world.run("a");
    let (_, id) = world.brief("a", spawn, false);
    let again = |world: &World, sender: Sender, id: &MessageId| {
        let command = AgainCommand { team: world.key.clone(), sender, id: id.clone() };
        decide::send_again(&world.state, &command).map(|(_, to)| to).map_err(|it| it.code)
    };
    assert_eq!(again(&world, Sender::Person, &id), Err("nothing_to_repeat"), "it is on its way");
    let (receiver, why) = (name("a"), "x".to_owned());
    world.fold(vec![Event::MessageUnknown { id: id.clone(), receiver, attempt: 1, why, staged: false }]);
    assert_eq!(again(&world, Sender::Seat(name("b")), &id), Err("not_allowed"));
    assert_eq!(again(&world, Sender::Unknown, &id), Err("not_allowed"));
    assert_eq!(again(&world, Sender::Person, &id), Ok(vec![name("a")]));
    assert_eq!(again(&world, Sender::Person, &MessageId::Seq(9999)), Err("nothing_to_repeat"));
}
