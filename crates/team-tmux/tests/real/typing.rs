//! Typing: what arrives, and what must not.

use std::time::Duration;

use team_tmux::{Guard, Key, Pane, PaneId, Paste, Pasted, Press, Pressed, Terminal, TmuxError};

use crate::support::{Server, bracketed, eventually, expect_bytes, fence, press, shell};

fn enter() -> Paste {
    Paste { enter: true, ..Paste::default() }
}

#[test]
fn any_text_arrives_byte_for_byte_inside_tmuxs_own_brackets() {
    let mut server = Server::start();
    let long = "0123456789 中文 ".repeat(12_000);
    let texts = [
        "plain",
        "echo hi;",
        "ends in \\;",
        ";",
        "\\",
        "#{pane_id} #[fg=red] ##",
        "$HOME ~ `id` $(id) !! %1",
        "line one\nline two\n\n\tline three\n",
        "-t %0",
        "{ kill-server }",
        "'\"'\"'",
        "请检查 ① 👩‍👩‍👧 e\u{301} ﷽ \u{200b}",
        &long,
    ];
    for (at, text) in texts.into_iter().enumerate() {
        let (pane, log) = server.open_log(&format!("w{at}"), true);
        assert_eq!(server.terminal.paste(pane, text, &enter()).unwrap(), Pasted::Done);
        let mut expected = bracketed(text);
        expected.push(b'\r');
        expect_bytes(&log, &expected);
        server.terminal.close(&[pane]).unwrap();
    }
    assert_eq!(server.tmux(&["list-buffers"]), "");
}

#[test]
fn control_characters_never_reach_the_program() {
    let mut server = Server::start();
    let (pane, log) = server.open_log("w1", true);
    let hostile = "a\x1b[201~\rtouch /tmp/pwn\r\n\x03\x04\x15\0\u{9b}31m\x7fz";
    assert_eq!(server.terminal.paste(pane, hostile, &Paste::default()).unwrap(), Pasted::Done);
    expect_bytes(&log, &bracketed("a[201~\ntouch /tmp/pwn\n31mz"));
    assert!(matches!(server.terminal.paste(pane, "\x1b\x03", &enter()), Err(TmuxError::EmptyText)));
}

#[test]
fn a_pane_remembers_what_was_typed_last_and_nothing_that_was_refused() {
    let mut server = Server::start();
    let (pane, log) = server.open_log("w1", true);
    let typed = |server: &mut Server| {
        let panes = server.terminal.panes().unwrap();
        panes.into_iter().find(|it| it.pane == pane).and_then(|it| it.typed)
    };
    assert_eq!(typed(&mut server), None);
    let paste = |mark: &str| Paste { mark: Some(mark.to_owned()), ..Paste::default() };
    assert_eq!(server.terminal.paste(pane, "one", &paste("p-17")).unwrap(), Pasted::Done);
    assert_eq!(typed(&mut server).as_deref(), Some("p-17"));
    let enter = Press { mark: Some("e-17".to_owned()), ..press(pane, Key::Enter) };
    assert_eq!(server.terminal.press(std::slice::from_ref(&enter)).unwrap(), [Pressed::Done]);
    assert_eq!(typed(&mut server).as_deref(), Some("e-17"));
    let mut expected = bracketed("one");
    expected.push(b'\r');
    expect_bytes(&log, &expected);
    // What a guard or a newer epoch refuses leaves no mark.
    let guard = Guard { only_if: vec!["never shown".to_owned()], ..Guard::default() };
    assert_eq!(
        server.terminal.paste(pane, "two", &Paste { guard, ..paste("p-18") }).unwrap(),
        Pasted::Guarded
    );
    let mut old = server.another();
    old.claim_epoch(&fence(1)).unwrap();
    server.terminal.claim_epoch(&fence(2)).unwrap();
    assert!(matches!(old.paste(pane, "two", &paste("p-18")), Err(TmuxError::Fenced { .. })));
    assert!(matches!(old.press(&[enter]), Err(TmuxError::Fenced { .. })));
    assert_eq!(typed(&mut server).as_deref(), Some("e-17"));
    assert!(server.terminal.paste(pane, "two", &paste("p 18")).is_err());
}

#[test]
fn without_brackets_asked_for_none_are_made_up() {
    let mut server = Server::start();
    let (pane, log) = server.open_log("w1", false);
    assert_eq!(server.terminal.paste(pane, "text", &Paste::default()).unwrap(), Pasted::Done);
    expect_bytes(&log, b"text");
}

#[test]
fn pasting_into_dead_or_dying_panes_never_harms_the_server() {
    let mut server = Server::start();
    let dead = server.open(shell("dead", "exit 0"));
    server.wait_for_pane(dead, |info| info.exit.is_some());
    for _ in 0..3 {
        assert_eq!(server.terminal.paste(dead, "text", &enter()).unwrap(), Pasted::Dead);
    }
    assert_eq!(server.terminal.press(&[press(dead, Key::Enter)]).unwrap(), [Pressed::Dead]);
    for round in 0..20 {
        let pane = server.open(shell(&format!("w{round}"), "sleep 0.01; exit 0"));
        loop {
            match server.terminal.paste(pane, "text", &enter()).unwrap() {
                Pasted::Done => {}
                Pasted::Dead => break,
                other => panic!("{other:?}"),
            }
        }
        server.terminal.close(&[pane]).unwrap();
    }
    server.assert_alive();
    assert_eq!(server.tmux(&["list-buffers"]), "");
}

#[test]
fn a_pane_in_copy_mode_is_refused_or_brought_back_first() {
    let mut server = Server::start();
    let (pane, log) = server.open_log("w1", true);
    let id = pane.id.to_string();
    for command in [&["copy-mode", "-t", &id][..], &["clock-mode", "-t", &id], &["choose-tree", "-t", &id]] {
        server.tmux(command);
        assert!(server.info_of(pane).unwrap().in_mode);
        assert_eq!(server.terminal.paste(pane, "no", &enter()).unwrap(), Pasted::InMode);
        assert_eq!(server.terminal.press(&[press(pane, Key::Enter)]).unwrap(), [Pressed::InMode]);
    }
    let leave = Paste { leave_mode: true, enter: true, ..Paste::default() };
    assert_eq!(server.terminal.paste(pane, "a\nb", &leave).unwrap(), Pasted::Done);
    expect_bytes(&log, b"\x1b[200~a\nb\x1b[201~\r");
    assert!(!server.info_of(pane).unwrap().in_mode);
}

#[test]
fn a_pane_without_input_and_a_pane_that_is_gone_are_named_as_such() {
    let mut server = Server::start();
    let (pane, log) = server.open_log("w1", true);
    server.tmux(&["select-pane", "-d", "-t", &pane.id.to_string()]);
    assert_eq!(server.terminal.paste(pane, "no", &enter()).unwrap(), Pasted::InputOff);
    assert!(server.info_of(pane).unwrap().input_off);
    server.tmux(&["select-pane", "-e", "-t", &pane.id.to_string()]);
    let gone = [Pane { pid: pane.pid + 1, ..pane }, Pane { id: PaneId::new(4711), pid: pane.pid }];
    for gone in gone {
        assert_eq!(server.terminal.paste(gone, "no", &enter()).unwrap(), Pasted::Gone);
        assert_eq!(server.terminal.press(&[press(gone, Key::CtrlC)]).unwrap(), [Pressed::Gone]);
    }
    assert_eq!(server.terminal.paste(pane, "yes", &Paste::default()).unwrap(), Pasted::Done);
    expect_bytes(&log, &bracketed("yes"));
    assert_eq!(server.tmux(&["list-buffers"]), "");
}

#[test]
fn keys_arrive_in_order_and_only_where_they_may() {
    let mut server = Server::start();
    let (first, first_log) = server.open_log("w1", true);
    let (second, second_log) = server.open_log("w2", true);
    let gone = Pane { id: PaneId::new(4711), pid: 1 };
    let presses = [
        press(first, Key::Escape),
        press(second, Key::Digit(2)),
        press(gone, Key::Enter),
        press(first, Key::Letter('y')),
        press(first, Key::Enter),
        press(second, Key::Up),
        press(second, Key::CtrlC),
        press(second, Key::BackTab),
    ];
    let outcomes = server.terminal.press(&presses).unwrap();
    let expected: Vec<_> =
        presses.iter().map(|it| if it.pane == gone { Pressed::Gone } else { Pressed::Done }).collect();
    assert_eq!(outcomes, expected);
    expect_bytes(&first_log, b"\x1by\r");
    expect_bytes(&second_log, b"2\x1b[A\x03\x1b[Z");
    for bad in [Key::Digit(10), Key::Letter(';'), Key::Letter('é')] {
        assert!(matches!(server.terminal.press(&[press(first, bad)]), Err(TmuxError::BadKey(_))));
    }
}

#[test]
fn a_guard_is_checked_against_the_screen_of_that_very_moment() {
    let mut server = Server::start();
    let dialog = "Do you want, to (proceed)? {y/n} #{pane_id} a.b*c [1] $x ^~|\\+; 研究员 100%";
    let command = format!("printf '%s' '{dialog}'; exec sleep 1000");
    let pane = server.open(shell("w1", &command));
    server.wait_for_text(pane, "100%");
    let mut check = |guard: Guard, outcome: Pressed| {
        let press = Press { guard: guard.clone(), ..Press::plain(pane, Key::Enter) };
        assert_eq!(server.terminal.press(&[press]).unwrap(), [outcome], "{guard:?}");
        let screen = server.terminal.screen(pane).unwrap().unwrap();
        assert_eq!(guard.allows(&screen), outcome == Pressed::Done, "{guard:?}");
    };
    let list = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    for part in [
        dialog,
        "Do you want, to",
        "(proceed)?",
        "{y/n}",
        "#{pane_id}",
        "a.b*c",
        "[1]",
        "$x",
        "^~|\\+;",
        "研究员",
        "100%",
        "}",
        "{",
        ",",
    ] {
        check(Guard { only_if: list(&[part]), ..Guard::default() }, Pressed::Done);
        check(Guard { unless: list(&[part]), ..Guard::default() }, Pressed::Guarded);
    }
    for part in ["do you", "aXb", "bc", "(proceed)?x", "研员", "%1", "y/n}x"] {
        check(Guard { only_if: list(&[part]), ..Guard::default() }, Pressed::Guarded);
        check(Guard { unless: list(&[part]), ..Guard::default() }, Pressed::Done);
    }
    check(
        Guard { only_if: list(&["Do", "100%"]), unless: list(&["nope", "none"]), cursor: None },
        Pressed::Done,
    );
    check(Guard { only_if: list(&["Do", "nope"]), ..Guard::default() }, Pressed::Guarded);
    check(Guard { unless: list(&["nope", "Do"]), ..Guard::default() }, Pressed::Guarded);
}

#[test]
fn a_draft_that_appears_after_the_look_moves_the_cursor_and_stops_the_paste() {
    let mut server = Server::start();
    let pane = server.open(shell("w1", "printf 'READY> '; exec cat"));
    server.wait_for_text(pane, "READY>");
    let seen = server.terminal.screen(pane).unwrap().unwrap();
    assert_eq!(seen.cursor, (7, 0));
    let guard = Guard { cursor: Some(seen.cursor), ..Guard::default() };
    server.tmux(&["send-keys", "-t", &pane.id.to_string(), "-l", "dr"]);
    server.wait_for_text(pane, "dr");
    let paste = Paste { enter: true, guard, ..Paste::default() };
    assert_eq!(server.terminal.paste(pane, "text", &paste).unwrap(), Pasted::Guarded);
    assert_eq!(server.terminal.screen(pane).unwrap().unwrap().text(), "READY> dr");
    assert_eq!(server.tmux(&["list-buffers"]), "");
}

#[test]
fn texts_of_several_senders_are_never_mixed() {
    let mut server = Server::start();
    let (pane, log) = server.open_log("w1", true);
    std::thread::scope(|scope| {
        for sender in 0..3 {
            let mut terminal = server.another();
            scope.spawn(move || {
                terminal.claim_epoch(&fence(1)).unwrap();
                for at in 0..10 {
                    let text = format!("<{sender}:{at}:{}>", sender.to_string().repeat(2000));
                    assert_eq!(terminal.paste(pane, &text, &enter()).unwrap(), Pasted::Done);
                }
            });
        }
    });
    let all = eventually("all have arrived", || {
        let bytes = std::fs::read(&log).unwrap();
        (bytes.split(|byte| *byte == b'\r').count() == 31).then_some(bytes)
    });
    let text = String::from_utf8(all).unwrap();
    let mut last = [-1; 3];
    for piece in text.split_terminator('\r') {
        let inner =
            piece.strip_prefix("\x1b[200~<").and_then(|rest| rest.strip_suffix(">\x1b[201~")).unwrap();
        let fields: Vec<_> = inner.split(':').collect();
        let (sender, at) = (fields[0].parse::<usize>().unwrap(), fields[1].parse::<i32>().unwrap());
        assert_eq!(at, last[sender] + 1);
        assert_eq!(fields[2], sender.to_string().repeat(2000));
        last[sender] = at;
    }
    assert_eq!(last, [9; 3]);
}

#[test]
fn a_program_that_reads_late_loses_nothing_and_blocks_nobody() {
    let mut server = Server::start();
    let file = server.path("late");
    let command = format!(
        "stty raw -echo; printf READY; read -r x < {0}.go; dd bs=1 count=100000 of={0} 2>/dev/null; exec sleep 1000",
        file.display()
    );
    let go = server.path("late.go");
    nix::unistd::mkfifo(&go, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let pane = server.open(shell("w1", &command));
    server.wait_for_text(pane, "READY");
    let text = "x".repeat(100_000);
    let before = std::time::Instant::now();
    assert_eq!(server.terminal.paste(pane, &text, &Paste::default()).unwrap(), Pasted::Done);
    assert!(before.elapsed() < Duration::from_secs(5));
    std::fs::write(&go, "go\n").unwrap();
    expect_bytes(&file, text.as_bytes());
}
