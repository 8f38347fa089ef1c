//! A `tmux` that is a script: logs, refuses and stumbles.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use team_tmux::{
    CleanEnv, Endpoint, Guard, Key, Paste, ServerWatch, Terminal, Tmux, TmuxError, UserPane, attach_argv,
    version,
};
use tempfile::TempDir;

use crate::support::{BASE, SESSION, Server, eventually, fence, press, real_tmux, shell};

/// Writes a script that may end by running the real program, as `$REAL "$@"`.
fn wrapper(dir: &TempDir, body: &str) -> PathBuf {
    let path = dir.path().join("tmux");
    let script =
        format!("#!/bin/sh\nDIR='{}'\nREAL='{}'\n{body}\n", dir.path().display(), real_tmux().display());
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

#[test]
fn every_call_has_our_socket_our_options_and_a_reason_to_start_a_server_or_not() {
    let dir = TempDir::new().unwrap();
    let log = dir.path().join("calls");
    let body = "printf '%s|' \"TMUX=$TMUX\" \"$@\" | tr '\\n' ' ' >> \"$DIR/calls\"; echo >> \"$DIR/calls\"\n\
        exec \"$REAL\" \"$@\"";
    let tmux = wrapper(&dir, body);
    let mut server = Server::start_on(TempDir::new().unwrap(), tmux, &CleanEnv::of_this_process());
    let pane = server.open(shell("w1", "printf READY; exec cat"));
    server.wait_for_text(pane, "READY");
    let terminal = &mut server.terminal;
    terminal.panes().unwrap();
    terminal.paste(pane, "text", &Paste::default()).unwrap();
    terminal.press(&[press(pane, Key::Enter)]).unwrap();
    terminal.screens(&[pane]).unwrap();
    let user = UserPane::bind(terminal.endpoint().clone(), pane.id).unwrap().unwrap();
    user.query().unwrap();
    user.screen().unwrap();
    user.paste("text", false, &Guard::default()).unwrap();
    let mut watch = ServerWatch::open(terminal.endpoint(), BASE).unwrap();
    eventually("the watch is attached", || (!server.tmux(&["list-clients"]).is_empty()).then_some(()));
    let terminal = &mut server.terminal;
    terminal.close(&[pane]).unwrap();
    let info = server.info.clone();
    terminal.kill_server(&info).unwrap();
    watch.wait(None).unwrap();
    terminal.probe().unwrap();

    let base = format!("-u|-S|{}|-f|/dev/null|", terminal.endpoint().socket.display());
    let calls = fs::read_to_string(&log).unwrap();
    let mut starts = 0;
    for call in calls.lines() {
        let rest = call.strip_prefix(&format!("TMUX=|{base}")).unwrap_or_else(|| panic!("{call}"));
        starts += usize::from(rest.starts_with("start-server|"));
        assert!(rest.starts_with("-N|") || rest.starts_with("start-server|"), "{call}");
    }
    assert_eq!(starts, 1, "{calls}");
    assert!(calls.lines().count() >= 12, "{calls}");
    let attach = attach_argv(terminal.endpoint(), SESSION, Some(pane.id), true);
    let words: Vec<_> = attach.iter().skip(1).map(|word| word.to_str().unwrap()).collect();
    assert!(format!("{}|", words.join("|")).starts_with(&base), "{words:?}");
}

#[test]
fn what_tmux_says_when_it_fails_is_what_the_error_says() {
    let dir = TempDir::new().unwrap();
    let body = "case \"$*\" in *paste-buffer*) echo 'command paste-buffer: unknown flag -r' >&2; exit 1;; esac\n\
        exec \"$REAL\" \"$@\"";
    let tmux = wrapper(&dir, body);
    let mut server = Server::start_on(TempDir::new().unwrap(), tmux, &CleanEnv::of_this_process());
    let pane = server.open(shell("w1", "exec cat"));
    let error = server.terminal.paste(pane, "text", &Paste::default()).unwrap_err();
    assert_eq!(error.to_string(), "tmux paste-buffer failed: command paste-buffer: unknown flag -r");
    assert!(!error.had_no_effect());

    let silent = wrapper(&dir, "exit 9");
    let mut terminal = Tmux::new(Endpoint { tmux: silent, socket: server.socket() }, None);
    let error = terminal.panes().unwrap_err().to_string();
    assert!(error.contains("exit status: 9"), "{error}");
    let missing = Endpoint { tmux: dir.path().join("missing"), socket: server.socket() };
    let error = Tmux::new(missing, None).panes().unwrap_err();
    assert!(matches!(error, TmuxError::NoTmux { .. }) && error.hint().is_some(), "{error:?}");
}

#[test]
fn one_stumble_in_five_calls_is_one_error_and_no_more() {
    let dir = TempDir::new().unwrap();
    let body = "if [ -e \"$DIR/armed\" ]; then\n\
          echo x >> \"$DIR/count\"\n\
          if [ $(( $(wc -l < \"$DIR/count\") % 5 )) = 0 ]; then echo 'stumbled' >&2; exit 1; fi\n\
        fi\nexec \"$REAL\" \"$@\"";
    let tmux = wrapper(&dir, body);
    let mut server = Server::start_on(TempDir::new().unwrap(), tmux, &CleanEnv::of_this_process());
    let pane = server.open(shell("w1", "printf READY; exec cat"));
    fs::write(dir.path().join("armed"), "").unwrap();
    let mut failed = Vec::new();
    for call in 1..=20 {
        let outcome = server.terminal.panes();
        assert_eq!(server.terminal.probe().unwrap(), Some(server.info.clone()), "a stumble is no death");
        match outcome {
            Ok(panes) => assert!(panes.iter().any(|info| info.pane == pane && info.exit.is_none())),
            Err(TmuxError::Failed { text, .. }) if text == "stumbled" => failed.push(call),
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(failed, [5, 10, 15, 20]);
    server.terminal.claim_epoch(&fence(1)).unwrap();
}

#[test]
fn the_version_is_asked_of_the_program_itself() {
    let dir = TempDir::new().unwrap();
    let said = version(&real_tmux()).unwrap();
    assert!(said.is_supported(), "{said}");
    assert_eq!(version(&wrapper(&dir, "echo tmux 3.7b")).unwrap().to_string(), "3.7b");
    assert!(matches!(version(&wrapper(&dir, "echo nonsense")), Err(TmuxError::Unexpected { .. })));
    assert!(matches!(version(&dir.path().join("none")), Err(TmuxError::NoTmux { .. })));
}
