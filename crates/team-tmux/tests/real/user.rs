//! A pane of the user's own server.

use team_tmux::{Endpoint, Guard, OpenPane, Paste, Pasted, Screen, Terminal, UserPane};

use crate::support::{Server, bracketed, expect_bytes, shell};

fn everything(server: &Server) -> String {
    let options = ["-s", "-g", "-gw"].map(|scope| server.tmux(&["show-options", scope])).concat();
    let windows = server.tmux(&["list-windows", "-a", "-F", "#{window_id} #{window_layout} #{window_name}"]);
    let hooks = server.tmux(&["show-hooks", "-g"]);
    format!("{options}{windows}{hooks}{}", server.tmux(&["list-buffers"]))
}

fn endpoint(server: &Server) -> Endpoint {
    server.terminal.endpoint().clone()
}

#[test]
fn a_bound_pane_is_looked_at_and_pasted_into_and_nothing_else_changes() {
    let mut server = Server::start();
    let (pane, log) = server.open_log("shell", true);
    let before = everything(&server);
    let user = UserPane::bind(endpoint(&server), pane.id).unwrap().unwrap();
    let info = user.query().unwrap().unwrap();
    assert_eq!((info.pane, info.server_pid, info.in_mode, info.dead), (pane, server.info.pid, false, false));
    assert!(info.command.starts_with("real"), "{info:?}");
    assert!(user.screen().unwrap().is_some_and(|screen: Screen| screen.contains("READY")));
    let wrong = Guard { only_if: vec!["not there".to_owned()], ..Guard::default() };
    assert_eq!(user.paste("no", true, &wrong).unwrap(), Pasted::Guarded);
    let right = Guard { only_if: vec!["READY".to_owned()], ..Guard::default() };
    assert_eq!(user.paste("hello;\n#{x}", true, &right).unwrap(), Pasted::Done);
    let mut expected = bracketed("hello;\n#{x}");
    expected.push(b'\r');
    expect_bytes(&log, &expected);
    assert_eq!(everything(&server), before);
}

#[test]
fn a_person_reading_in_copy_mode_is_left_alone() {
    let mut server = Server::start();
    let (pane, log) = server.open_log("shell", true);
    let user = UserPane::bind(endpoint(&server), pane.id).unwrap().unwrap();
    server.tmux(&["copy-mode", "-t", &pane.id.to_string()]);
    assert!(user.query().unwrap().unwrap().in_mode);
    assert_eq!(user.paste("no", true, &Guard::default()).unwrap(), Pasted::InMode);
    assert!(server.info_of(pane).unwrap().in_mode);
    assert_eq!(std::fs::read(&log).unwrap(), b"");
    assert_eq!(server.tmux(&["list-buffers"]), "");
}

#[test]
fn a_pane_that_has_gone_is_not_replaced_by_the_next_one() {
    let mut server = Server::start();
    let keep = server.open(shell("keep", "exec sleep 1000"));
    let pane = server.open(OpenPane { session: "other".to_owned(), ..shell("shell", "exec sleep 1000") });
    let user = UserPane::bind(endpoint(&server), pane.id).unwrap().unwrap();
    server.terminal.close(&[pane]).unwrap();
    assert_eq!(user.query().unwrap(), None);
    assert_eq!(user.screen().unwrap(), None);
    assert_eq!(user.paste("no", true, &Guard::default()).unwrap(), Pasted::Gone);
    assert!(UserPane::bind(endpoint(&server), pane.id).unwrap().is_none());

    // The same program in the same pane id, started anew, is another pane.
    let user = UserPane::bind(endpoint(&server), keep.id).unwrap().unwrap();
    server.tmux(&[
        "respawn-pane",
        "-k",
        "-t",
        &keep.id.to_string(),
        "--",
        "/bin/sh",
        "-c",
        "exec sleep 1000",
    ]);
    assert_eq!(user.paste("no", true, &Guard::default()).unwrap(), Pasted::Gone);

    server.terminal.kill_server(&server.info).unwrap();
    assert_eq!(user.query().unwrap(), None);
    assert_eq!(user.screen().unwrap(), None);
    assert!(user.paste("no", true, &Guard::default()).unwrap_err().is_no_server());
    assert!(server.terminal.paste(keep, "no", &Paste::default()).unwrap_err().is_no_server());
}
