//! The client that stays attached: the same outcomes as with a process for each call, and nothing that a person or
//! a program could notice of it.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use team_tmux::{Key, Paste, Pasted, Pressed, Terminal, Tmux, TmuxError};

use crate::support::{Server, bracketed, eventually, expect_bytes, fence, press, shell};

fn attached() -> Server {
    let mut server = Server::start();
    let endpoint = server.terminal.endpoint().clone();
    server.terminal = Tmux::new(endpoint, Some(server.info.clone())).staying_attached();
    server.terminal.claim_epoch(&fence(1)).unwrap();
    server
}

fn clients(server: &Server) -> Vec<String> {
    server.tmux(&["list-clients", "-F", "#{client_pid}"]).lines().map(str::to_owned).collect()
}

#[test]
fn any_text_arrives_byte_for_byte_through_the_attached_client() {
    let mut server = attached();
    let (pane, log) = server.open_log("w1", true);
    let mut expected = Vec::new();
    let long = "0123456789 中文 ".repeat(12_000);
    let texts = [
        "plain",
        "ends in \\;",
        ";",
        "\\",
        "#{pane_id} #[fg=red] ##",
        "$HOME ~ `id` $(id) !! %1 ${HOME}",
        "~/x\nline two\n\n\tline three\n  indented\n",
        "-t %0",
        "} { kill-server }",
        "'\"'\"'",
        "%end 1 2 1\n%error\ndone-1",
        "请检查 ① 👩‍👩‍👧 e\u{301} ﷽ \u{200b}",
        &long,
    ];
    for text in texts {
        let enter = Paste { enter: true, ..Paste::default() };
        assert_eq!(server.terminal.paste(pane, text, &enter).unwrap(), Pasted::Done);
        expected.extend(bracketed(text));
        expected.push(b'\r');
        expect_bytes(&log, &expected);
    }
    assert_eq!(server.tmux(&["list-buffers"]), "");
    assert_eq!(clients(&server).len(), 1, "one client does it all");
}

#[test]
fn screens_and_lists_are_the_same_with_and_without_it_and_it_counts_as_nobody() {
    let mut server = attached();
    let show = "printf '\\033[1;31mred\\033[m %%end 1 2 1\\n\\n  x'; exec sleep 1000";
    let panes = [server.open(shell("w1", show)), server.open(shell("w2", "exec sleep 1000"))];
    server.wait_for_text(panes[0], "  x");
    let mut plain = server.another();
    let shown = server.terminal.screens(&panes).unwrap();
    assert_eq!(shown, plain.screens(&panes).unwrap());
    assert_eq!(shown[0].as_ref().unwrap().attached, 0);
    assert_eq!(server.terminal.panes().unwrap(), plain.panes().unwrap());
    assert!(plain.panes().unwrap().iter().all(|it| it.viewers.attached == 0));
}

#[test]
fn dead_and_gone_panes_and_a_newer_epoch_are_told_as_ever() {
    let mut server = attached();
    let dead = server.open(shell("dead", "exit 0"));
    server.wait_for_pane(dead, |info| info.exit.is_some());
    assert_eq!(server.terminal.paste(dead, "text", &Paste::default()).unwrap(), Pasted::Dead);
    assert_eq!(server.terminal.press(&[press(dead, Key::Enter)]).unwrap(), [Pressed::Dead]);
    server.terminal.close(&[dead]).unwrap();
    assert_eq!(server.terminal.paste(dead, "text", &Paste::default()).unwrap(), Pasted::Gone);
    assert_eq!(server.terminal.screens(&[dead]).unwrap(), [None]);
    let pane = server.open(shell("w1", "exec sleep 1000"));
    server.another().claim_epoch(&fence(2)).unwrap();
    let outcome = server.terminal.paste(pane, "text", &Paste::default());
    assert!(matches!(outcome, Err(TmuxError::Fenced { held: 2, ours: 1, .. })), "{outcome:?}");
    assert_eq!(server.tmux(&["list-buffers"]), "", "no text was left behind");
    server.assert_alive();
}

#[test]
fn a_client_that_somebody_ended_is_replaced_before_the_next_call() {
    let mut server = attached();
    let (pane, log) = server.open_log("w1", true);
    let mut expected = Vec::new();
    for round in 0..3 {
        let [client] = &clients(&server)[..] else { panic!("one client is attached") };
        if round == 0 {
            server.tmux(&["detach-client", "-a"]);
            let session = server.tmux(&["list-clients", "-F", "#{client_session}"]);
            server.tmux(&["detach-client", "-s", session.trim()]);
        } else {
            kill(Pid::from_raw(client.parse().unwrap()), Signal::SIGKILL).unwrap();
        }
        eventually("the client is gone", || clients(&server).is_empty().then_some(()));
        assert_eq!(server.terminal.paste(pane, "again", &Paste::default()).unwrap(), Pasted::Done);
        expected.extend(bracketed("again"));
        expect_bytes(&log, &expected);
    }
}

#[test]
fn a_server_that_was_killed_is_no_server_and_its_successor_is_found() {
    let mut server = attached();
    let pane = server.open(shell("w1", "exec sleep 1000"));
    assert!(server.terminal.screen(pane).unwrap().is_some());
    kill(Pid::from_raw(i32::try_from(server.info.pid).unwrap()), Signal::SIGKILL).unwrap();
    let outcome = eventually("the end is noticed", || server.terminal.screens(&[pane]).err());
    assert!(outcome.is_no_server(), "{outcome:?}");
    let env = team_tmux::CleanEnv::of_this_process();
    server.info = server.terminal.start_server(&env, "_base").unwrap();
    server.terminal.claim_epoch(&fence(2)).unwrap();
    let (pane, log) = server.open_log("w1", true);
    assert_eq!(server.terminal.paste(pane, "text", &Paste::default()).unwrap(), Pasted::Done);
    expect_bytes(&log, &bracketed("text"));
}

#[test]
fn sessions_that_come_and_go_beside_it_harm_nobody() {
    let mut server = attached();
    let first = server.open(shell("w1", "exec sleep 1000"));
    assert!(server.terminal.screen(first).unwrap().is_some());
    for round in 0..20 {
        let asked = team_tmux::OpenPane { session: format!("s{round}"), ..shell("w", "exec sleep 1000") };
        let pane = server.open(asked);
        assert!(server.terminal.screen(pane).unwrap().is_some());
        server.terminal.close(&[pane]).unwrap();
        assert_eq!(server.terminal.screen(pane).unwrap(), None);
    }
    server.assert_alive();
}

#[test]
fn more_than_a_pipe_holds_is_read_without_a_line_too_many() {
    let mut server = attached();
    let draw = "i=0; while [ $i -lt 49 ]; do i=$((i+1)); printf '\\033[38;5;%dm' $i; \
                printf 'x\\033[1my\\033[22m%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28; \
                echo; done; printf READY; exec sleep 1000";
    let panes: Vec<_> = (0..24).map(|it| server.open(shell(&format!("w{it}"), draw))).collect();
    for pane in &panes {
        server.wait_for_text(*pane, "READY");
    }
    let mut plain = server.another();
    let expected = plain.screens(&panes).unwrap();
    for _ in 0..20 {
        assert_eq!(server.terminal.screens(&panes).unwrap(), expected);
    }
}
