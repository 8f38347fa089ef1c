//! Messages: which go, which wait and for what, and what happens on their way.

use super::*;

#[test]
fn waiting_messages_go_together_to_a_seat_that_is_free() {
    check(
        |it| {
            it.idle("a");
            it.message(&["a"]);
            it.message(&["a"]);
        },
        "send a:keys:1+2",
    );
    check(
        |it| {
            it.idle("a");
            it.idle_by("b", Channel::Bell);
            it.message(&["a", "b"]);
        },
        "send a:keys:1 b:bell:1",
    );
    // What was held goes as soon as nothing stands against it, the oldest first.
    check(
        |it| {
            it.idle("a");
            let id = it.message(&["a"]);
            it.held(&id, "a", HoldReason::Busy);
            it.message(&["a"]);
        },
        "send a:keys:1+2",
    );
    // A bell reaches a busy program, too; a deaf one gets keys.
    check(
        |it| {
            let spawn = it.idle_by("a", Channel::Bell);
            it.is(spawn, ActivityKind::Working);
            it.message(&["a"]);
        },
        "send a:bell:1",
    );
    check(
        |it| {
            it.idle_by("a", Channel::Bell);
            it.look("a").deaf = true;
            it.message(&["a"]);
        },
        "send a:keys:1",
    );
    // Over a bridge it goes to an idle program only.
    check(
        |it| {
            let busy = it.idle_by("a", Channel::Bell);
            it.is(busy, ActivityKind::Working);
            it.idle_by("b", Channel::Bell);
            it.look("a").bridged = true;
            it.look("b").bridged = true;
            it.message(&["a", "b"]);
        },
        "hold 1>a:busy; send b:bell:1",
    );
}

#[test]
fn a_message_waits_and_the_log_says_for_what() {
    let told = |story: &dyn Fn(&mut World), expected: &str| check(|it| story(it), expected);
    told(
        &|it| {
            it.queued("a");
            it.log(Event::AgentStopped { agent: name("a"), session: None, cause: Cause::Stop });
            it.message(&["a"]);
        },
        "hold 1>a:no_session",
    );
    told(
        &|it| {
            it.claimed("a", Channel::Keys);
            it.message(&["a"]);
        },
        "hold 1>a:no_session; @1500",
    );
    let rows = [
        (ActivityKind::Working, "busy"),
        (ActivityKind::Compacting, "busy"),
        (ActivityKind::AwaitingApproval, "dialog"),
        (ActivityKind::AwaitingTrust, "dialog"),
        (ActivityKind::Unknown, "dialog"),
        (ActivityKind::Limited, "limited"),
    ];
    for (activity, reason) in rows {
        told(
            &|it| {
                let spawn = it.idle("a");
                it.is(spawn, activity);
                it.message(&["a"]);
            },
            &format!("hold 1>a:{reason}"),
        );
    }
    told(
        &|it| {
            let spawn = it.idle_by("a", Channel::Bell);
            it.is(spawn, ActivityKind::Limited);
            it.message(&["a"]);
        },
        "hold 1>a:limited",
    );
    // An open question is a dialog whatever the activity says.
    told(
        &|it| {
            let spawn = it.idle("a");
            let (tool, proof) = ("Bash".to_owned(), proof());
            it.log(Event::ApprovalRequested {
                spawn,
                tool,
                input: None,
                choices: Vec::new(),
                key: None,
                by_keys: false,
                proof,
            });
            it.message(&["a"]);
        },
        "hold 1>a:dialog",
    );
    // The same reason again is no line; another one is.
    told(
        &|it| {
            let spawn = it.idle("a");
            it.is(spawn, ActivityKind::Working);
            let id = it.message(&["a"]);
            it.held(&id, "a", HoldReason::Busy);
        },
        "",
    );
    told(
        &|it| {
            let spawn = it.idle("a");
            it.is(spawn, ActivityKind::Limited);
            let id = it.message(&["a"]);
            it.held(&id, "a", HoldReason::Busy);
        },
        "hold 1>a:limited",
    );
    // Being stopped, it takes nothing more.
    told(
        &|it| {
            it.idle("a");
            it.message(&["a"]);
            it.log(Event::AgentStopPlanned { agent: name("a"), cause: Cause::Stop });
        },
        "ask a",
    );
}

#[test]
fn what_the_screen_showed_in_the_way_is_looked_at_again_ever_less_often() {
    let blocked = |it: &mut World, reason, since: u64, looked: u64| {
        it.idle("a");
        it.message(&["a"]);
        it.look("a").blocked = Some(Blocked { reason, since: ms(NOW - since), looked: ms(NOW - looked) });
    };
    check(|it| blocked(it, HoldReason::Draft, 0, 0), "hold 1>a:draft; @250");
    check(|it| blocked(it, HoldReason::Person, 250, 250), "send a:keys:1");
    check(|it| blocked(it, HoldReason::Draft, 4000, 0), "hold 1>a:draft; @1000");
    check(|it| blocked(it, HoldReason::Draft, 90_000, 0), "hold 1>a:draft; @5000");
    check(|it| blocked(it, HoldReason::Dialog, 90_000, 5000), "send a:keys:1");
    // A bell needs no composer.
    check(
        |it| {
            blocked(it, HoldReason::Draft, 0, 0);
            it.look("a").deaf = false;
            let spawn = it.idle_by("b", Channel::Bell);
            let _ = spawn;
            it.message(&["b"]);
            it.look("b").blocked =
                Some(Blocked { reason: HoldReason::Draft, since: ms(NOW), looked: ms(NOW) });
        },
        "hold 1>a:draft; send b:bell:2; @250",
    );
}

#[test]
fn a_block_keeps_its_beginning_while_its_reason_stays() {
    let mut look = Seen::default();
    look.block(Some(HoldReason::Draft), ms(10));
    look.block(Some(HoldReason::Draft), ms(30));
    assert_eq!(look.blocked, Some(Blocked { reason: HoldReason::Draft, since: ms(10), looked: ms(30) }));
    look.block(Some(HoldReason::Person), ms(40));
    assert_eq!(look.blocked, Some(Blocked { reason: HoldReason::Person, since: ms(40), looked: ms(40) }));
    look.block(None, ms(50));
    assert_eq!(look.blocked, None);
}

#[test]
fn enter_follows_the_paste_once_it_has_settled_and_again_ever_later() {
    check(|it| it.typed("a", 0, None), "@10");
    check(|it| it.typed("a", 10, None), "enter a");
    check(|it| it.typed("a", 5000, None), "give up a");
    check(|it| it.typed("a", 20, Some((0, 1))), "@300");
    check(|it| it.typed("a", 320, Some((300, 1))), "look at a; @4700");
    check(|it| it.typed("a", 320, Some((300, 2))), "@600");
    check(|it| it.typed("a", 920, Some((900, 3))), "@1800");
    // Enough: from here on only a proof counts.
    check(|it| it.typed("a", 4020, Some((4000, 4))), "@1000");
    check(|it| it.typed("a", 5020, Some((5000, 4))), "give up a");
    // Several panes are entered in one call.
    check(
        |it| {
            it.typed("a", 10, None);
            it.typed("b", 10, None);
        },
        "enter a b",
    );
    // While a text is under way, the next one waits without a line.
    check(
        |it| {
            it.typed("a", 0, None);
            it.message(&["a"]);
        },
        "@10",
    );
}

#[test]
fn a_bell_is_rung_again_until_it_was_heard_or_not() {
    check(|it| it.rung("a", 0, 0), "@1250");
    check(|it| it.rung("a", 1250, 1250), "ring a again");
    check(|it| it.rung("a", 2500, 1000), "@250");
    check(|it| it.rung("a", 8000, 500), "give up a");
}

#[test]
fn what_another_coordinator_was_sending_is_concluded_before_anything_else_goes() {
    check(
        |it| {
            let spawn = it.idle("a");
            it.sending("a", spawn, Channel::Keys);
            it.message(&["a"]);
        },
        "conclude a",
    );
    check(
        |it| {
            let spawn = it.idle("a");
            it.sending("a", spawn, Channel::Keys);
            it.message(&["a"]);
            it.look("a").conclude_at = Some(ms(NOW + 100));
        },
        "@100",
    );
    // The end of a seat has ended what was on its way to it.
    check(
        |it| {
            let spawn = it.idle("a");
            it.sending("a", spawn, Channel::Bell);
            it.log(Event::AgentStopped { agent: name("a"), session: None, cause: Cause::Exit });
        },
        "",
    );
}

#[test]
fn a_text_that_may_stand_in_the_composer_stops_the_keys_until_it_is_proved_empty() {
    let dirty = |it: &mut World, channel| {
        let spawn = it.idle_by("a", channel);
        let id = it.sending("a", spawn, Channel::Keys);
        let (receiver, why) = (name("a"), "x".to_owned());
        it.log(Event::MessageUnknown { id, receiver, attempt: 1, why, staged: true });
        spawn
    };
    check(
        |it| {
            dirty(it, Channel::Keys);
        },
        "prove a",
    );
    check(
        |it| {
            dirty(it, Channel::Keys);
            it.message(&["a"]);
        },
        "prove a; hold 2>a:dirty",
    );
    check(
        |it| {
            dirty(it, Channel::Keys);
            it.look("a").blocked =
                Some(Blocked { reason: HoldReason::Dirty, since: ms(NOW), looked: ms(NOW) });
        },
        "@250",
    );
    // A busy program is not looked at.
    check(
        |it| {
            let spawn = dirty(it, Channel::Keys);
            it.is(spawn, ActivityKind::Working);
        },
        "",
    );
    // Channels without keys go on.
    check(
        |it| {
            dirty(it, Channel::Bell);
            it.message(&["a"]);
        },
        "prove a; send a:bell:2",
    );
    check(
        |it| {
            dirty(it, Channel::Keys);
            it.log(Event::LaneCleared { agent: name("a"), proof: proof() });
            it.message(&["a"]);
        },
        "send a:keys:2",
    );
}

#[test]
fn a_turn_of_a_seat_changes_nothing_for_the_others() {
    check(
        |it| {
            let spawn = it.idle("a");
            it.idle("b");
            it.log(Event::TaskCreated {
                id: TaskId(1),
                creator: "leader".to_owned(),
                subject: "s".to_owned(),
                owner: Some(name("a")),
                depends_on: Vec::new(),
                closes_on: ClosesOn::Report,
                run: None,
                message: None,
                case_id: None,
            });
            it.log(Event::TurnStarted { spawn, messages: Vec::new(), chars: 1, proof: proof() });
            it.message(&["a", "b"]);
        },
        "hold 1>a:busy; send b:keys:1",
    );
    check(
        |it| {
            let spawn = it.idle("a");
            it.log(Event::TurnStarted { spawn, messages: Vec::new(), chars: 1, proof: proof() });
            let outcome = TurnOutcome::Answer;
            it.log(Event::TurnEnded { spawn, outcome, why: None, chars: 1, proof: proof() });
            it.message(&["a"]);
        },
        "send a:keys:1",
    );
}
