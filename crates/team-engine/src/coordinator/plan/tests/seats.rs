//! Starts, ends, and what is there for no seat.

use super::*;

#[test]
fn wanted_seats_start_together_and_the_server_before_them() {
    check(|it| it.queued("a"), "start a:fresh");
    check(
        |it| {
            it.queued("a");
            it.queued("b");
            it.idle("c");
        },
        "start a:fresh b:fresh",
    );
    check(
        |it| {
            it.queued("a");
            it.seen.server_alive = false;
        },
        "start server; start a:fresh",
    );
    // A team that is being stopped starts nobody.
    check(
        |it| {
            it.queued("a");
            it.log(Event::TeamStopPlanned {});
        },
        "team stopped current",
    );
}

#[test]
fn a_start_is_followed_until_it_is_ready_or_too_late() {
    check(
        |it| {
            it.planned("a", Channel::Keys);
        },
        "adopt a",
    );
    check(
        |it| {
            it.opened("a", Channel::Keys);
        },
        "@10000",
    );
    check(
        |it| {
            it.opened("a", Channel::Keys);
            it.look("a").since = ms(NOW - 10_000);
        },
        "fail a: its process did not begin",
    );
    check(
        |it| {
            it.opened("a", Channel::Keys);
            it.look("a").pane_dead = true;
        },
        "fail a: its process ended",
    );
    check(
        |it| {
            it.claimed("a", Channel::Keys);
        },
        "@1500",
    );
    check(
        |it| {
            it.claimed("a", Channel::Keys);
            it.look("a").since = ms(NOW - 1500);
        },
        "look at start of a; @58500",
    );
    check(
        |it| {
            it.claimed("a", Channel::Keys);
            it.look("a").since = ms(NOW - 4000);
            it.look("a").start_looked = Some(ms(NOW - 500));
        },
        "@1500",
    );
    check(
        |it| {
            it.claimed("a", Channel::Keys);
            it.look("a").since = ms(NOW - 60_000);
        },
        "fail a: it was not ready after 60 s: its status did not say idle",
    );
    check(
        |it| {
            it.idle("a");
        },
        "",
    );
}

#[test]
fn a_program_that_ends_is_failed_while_it_starts_and_stopped_afterwards() {
    let exited = |it: &mut World, spawn, code, signal, dead| {
        it.log(Event::ProviderExited { spawn, code, signal });
        it.look("a").process_dead = dead;
    };
    check(
        |it| {
            let spawn = it.claimed("a", Channel::Keys);
            exited(it, spawn, Some(55), None, true);
        },
        "fail a: its program ended with exit code 55",
    );
    check(
        |it| {
            let spawn = it.claimed("a", Channel::Keys);
            exited(it, spawn, Some(127), None, true);
        },
        "fail a: its program could not be started",
    );
    check(
        |it| {
            let spawn = it.claimed("a", Channel::Keys);
            exited(it, spawn, None, Some(9), true);
        },
        "fail a: its program was ended by signal 9",
    );
    check(
        |it| {
            let spawn = it.idle("a");
            exited(it, spawn, Some(0), None, true);
        },
        "stopped a: exit",
    );
    check(
        |it| {
            it.idle("a");
            it.look("a").process_dead = true;
        },
        "stopped a: exit",
    );
    // The seat's process ends what the program has left; after its time it is asked, then killed.
    check(
        |it| {
            let spawn = it.idle("a");
            exited(it, spawn, Some(0), None, false);
            it.look("a").exited = Some(ms(NOW - 1000));
        },
        "@3000",
    );
    check(
        |it| {
            let spawn = it.idle("a");
            exited(it, spawn, Some(0), None, false);
            it.look("a").exited = Some(ms(NOW - 4000));
        },
        "ask a",
    );
    // Nothing is sent to a program that has ended.
    check(
        |it| {
            let spawn = it.idle("a");
            it.message(&["a"]);
            exited(it, spawn, Some(0), None, true);
        },
        "stopped a: exit",
    );
}

#[test]
fn an_end_is_asked_for_then_forced_then_recorded() {
    let stopping = |it: &mut World, asked: Option<u64>, killed| {
        it.idle("a");
        it.log(Event::AgentStopPlanned { agent: name("a"), cause: Cause::Stop });
        it.look("a").asked = asked.map(|ago| ms(NOW - ago));
        it.look("a").killed = killed;
    };
    check(|it| stopping(it, None, false), "ask a");
    check(|it| stopping(it, Some(1000), false), "@3000");
    check(|it| stopping(it, Some(4000), false), "kill a");
    check(|it| stopping(it, Some(4000), true), "@500");
    check(
        |it| {
            stopping(it, Some(10), false);
            it.look("a").process_dead = true;
        },
        "stopped a: stop",
    );
    // Never opened, so there is nothing to end.
    check(
        |it| {
            it.planned("a", Channel::Keys);
            it.log(Event::AgentStopPlanned { agent: name("a"), cause: Cause::Shutdown });
        },
        "stopped a: shutdown",
    );
    // A team has ended when its last seat has.
    check(
        |it| {
            it.idle("a");
            it.idle("b");
            it.log(Event::TeamStopPlanned {});
            it.log(Event::AgentStopPlanned { agent: name("a"), cause: Cause::Shutdown });
            it.log(Event::AgentStopped { agent: name("b"), session: None, cause: Cause::Shutdown });
            it.look("a").asked = Some(ms(NOW));
        },
        "@4000",
    );
    check(
        |it| {
            it.idle("a");
            it.log(Event::TeamStopPlanned {});
            it.log(Event::AgentStopped { agent: name("a"), session: None, cause: Cause::Shutdown });
        },
        "team stopped current",
    );
}

#[test]
fn a_team_whose_server_is_gone_is_lost() {
    check(
        |it| {
            it.idle("a");
            it.message(&["a"]);
            it.seen.server_alive = false;
        },
        "team lost current",
    );
    // Nobody lived there: nothing is lost.
    check(
        |it| {
            it.idle("a");
            it.log(Event::AgentStopped { agent: name("a"), session: None, cause: Cause::Exit });
            it.seen.server_alive = false;
        },
        "",
    );
}

#[test]
fn the_leader_is_told_and_nothing_else_waits_for_it() {
    check(
        |it| {
            it.idle("a");
            it.seen.leader_ready.push(key());
        },
        "tell current",
    );
}

#[test]
fn with_no_team_to_serve_the_server_ends_and_then_the_coordinator() {
    check(
        |it| {
            it.log(Event::TeamStopped { clean: true });
        },
        "stop server; exit",
    );
    check(
        |it| {
            it.log(Event::TeamStopped { clean: true });
            it.seen.server_alive = false;
        },
        "exit",
    );
    check(
        |it| {
            it.log(Event::TeamLost { why: "x".to_owned() });
        },
        "stop server; exit",
    );
    check(
        |it| {
            it.log(Event::TeamDeleted {});
        },
        "stop server; exit",
    );
    // A team without a live seat is still a team that runs.
    check(|_| {}, "");
}

#[test]
fn the_time_in_which_a_question_waits_for_a_person_is_not_the_programs() {
    let asked = |it: &mut World, ago: u64| {
        let spawn = it.claimed("a", Channel::Bell);
        it.is(spawn, ActivityKind::AwaitingTrust);
        it.look("a").since = ms(NOW - 90_000);
        it.look("a").start_looked = Some(ms(NOW));
        it.look("a").start_asked = Some(ms(NOW - ago));
    };
    check(|it| asked(it, 0), "@2000");
    check(|it| asked(it, 59_500), "@500");
    check(|it| asked(it, 60_000), "fail a: it was not ready after 60 s: its status did not say idle");
}

#[test]
fn a_limit_ends_when_its_time_has_come() {
    let limited = |it: &mut World, ends: u64| {
        let spawn = it.idle_by("a", Channel::Bell);
        let (activity, proof) = (ActivityKind::Limited, proof());
        let until = Utc.timestamp_opt(1_700_000_100, 0).single();
        it.log(Event::ActivityObserved { spawn, activity, reason: None, until, at: None, proof });
        it.look("a").limit_ends = Some(ms(ends));
    };
    check(|it| limited(it, NOW + 700), "@700");
    check(|it| limited(it, NOW), "limit of a over");
    check(
        |it| {
            limited(it, NOW + 700);
            it.message(&["a"]);
        },
        "hold 1>a:limited; @700",
    );
}

#[test]
fn a_question_is_compared_with_the_rules_once_and_an_answer_is_laid_once() {
    let asking = |it: &mut World, key: Option<&str>| {
        let spawn = it.idle_by("a", Channel::Bell);
        let (tool, key, proof) = ("Bash".to_owned(), key.map(str::to_owned), proof());
        it.log(Event::ApprovalRequested {
            spawn,
            tool,
            input: None,
            choices: Vec::new(),
            key,
            by_keys: false,
            proof,
        });
        (spawn, RequestId(it.state.seq))
    };
    check(|it| _ = asking(it, None), "");
    check(|it| _ = asking(it, Some("k")), "weigh q-9 of a");
    // What a rule answers is no news: the leader is told after that.
    check(
        |it| {
            asking(it, Some("k"));
            it.seen.leader_ready.push(key());
        },
        "weigh q-9 of a",
    );
    check(
        |it| {
            let (_, request) = asking(it, Some("k"));
            it.look("a").weighed.insert(request);
            it.seen.leader_ready.push(key());
        },
        "tell current",
    );
    let answered = |it: &mut World| {
        let (spawn, request) = asking(it, Some("k"));
        let (decision, by) = (Decision::Allow, "person".to_owned());
        it.log(Event::ApprovalAnswering {
            spawn,
            request,
            decision,
            by,
            pattern: None,
            message: None,
            message_id: None,
        });
        request
    };
    check(|it| _ = answered(it), "lay the answer to q-9 for a");
    check(
        |it| {
            let request = answered(it);
            it.look("a").laid.insert(request);
        },
        "",
    );
}

#[test]
fn an_answer_by_a_key_is_looked_after_until_its_question_is_closed() {
    let asking = |it: &mut World, answered: bool| {
        let spawn = it.idle_by("a", Channel::Bell);
        let (tool, key, by_keys, proof) = ("Bash".to_owned(), Some("k".to_owned()), true, proof());
        it.log(Event::ApprovalRequested {
            spawn,
            tool,
            input: None,
            choices: Vec::new(),
            key,
            by_keys,
            proof,
        });
        let request = RequestId(it.state.seq);
        it.look("a").weighed.insert(request);
        let (decision, by, pattern) = (Decision::Allow, "person".to_owned(), None);
        if answered {
            it.log(Event::ApprovalAnswering {
                spawn,
                request,
                decision,
                by,
                pattern,
                message: None,
                message_id: None,
            });
        }
        (spawn, request)
    };
    check(|it| _ = asking(it, false), "");
    // Whoever comes after a crash goes on with what the log holds.
    check(|it| _ = asking(it, true), "press the answer to q-9 for a");
    let due = |it: &mut World, request, due| {
        let pressing = crate::coordinator::press::Pressing { due: ms(due), ..Default::default() };
        it.look("a").pressing.insert(request, pressing);
    };
    check(
        |it| {
            let (_, request) = asking(it, true);
            due(it, request, NOW + 100);
        },
        "@100",
    );
    check(
        |it| {
            let (_, request) = asking(it, true);
            due(it, request, NOW);
        },
        "press the answer to q-9 for a",
    );
    // What could not be given is not given by itself a second time, and the leader hears of it.
    check(
        |it| {
            let (spawn, request) = asking(it, true);
            it.log(Event::ApprovalNotGiven { spawn, request, why: "x".to_owned(), pressed: true });
            it.seen.leader_ready.push(key());
        },
        "tell current",
    );
    check(
        |it| {
            let (spawn, request) = asking(it, true);
            it.log(Event::ApprovalClosed { spawn, request: Some(request), key: None, how: "x".to_owned() });
        },
        "",
    );
}

#[test]
fn a_program_that_hides_its_dialogs_is_looked_at_while_it_works_and_only_then() {
    let begin = |it: &mut World, spawn| {
        it.log(Event::TurnStarted { spawn, messages: Vec::new(), chars: 0, proof: proof() });
    };
    check(
        |it| {
            let spawn = it.idle("a");
            it.look("a").hides_dialogs = true;
            begin(it, spawn);
        },
        "look at work of a",
    );
    check(
        |it| {
            let spawn = it.idle("a");
            it.look("a").hides_dialogs = true;
            it.look("a").work_looked = Some(ms(NOW - 1000));
            begin(it, spawn);
        },
        "@2000",
    );
    check(
        |it| {
            let spawn = it.idle("a");
            begin(it, spawn);
        },
        "",
    );
    check(
        |it| {
            it.idle("a");
            it.look("a").hides_dialogs = true;
        },
        "",
    );
}

#[test]
fn nothing_is_typed_in_the_time_after_a_start_in_which_it_would_be_lost() {
    let start = |it: &mut World, ago| {
        it.idle("a");
        it.message(&["a"]);
        it.look("a").typing.after_start = ms(2500);
        it.look("a").ready = Some(ms(NOW - ago));
    };
    check(|it| start(it, 500), "@2000");
    check(|it| start(it, 2500), "send a:keys:1");
}

#[test]
fn an_agent_that_is_silent_in_a_long_tool_call_is_left_alone() {
    for minutes in [1, 10, 60 * 24] {
        let mut world = World::new();
        let spawn = world.idle("a");
        world.log(Event::TurnStarted { spawn, messages: Vec::new(), chars: 1, proof: proof() });
        let plan = plan(&world.state, &world.seen, ms(NOW + minutes * 60_000));
        let actions: Vec<String> = plan.actions.iter().map(|it| world.words(it)).collect();
        assert!(actions.is_empty(), "after {minutes} minutes: {actions:?}");
    }
}
