//! Servers: start, find, own, lose, end.

use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use team_tmux::{
    CleanEnv, Endpoint, Fence, Key, OpenPane, Paste, Press, ServerInfo, ServerWatch, Terminal, Tmux,
    TmuxError,
};
use tempfile::TempDir;

use crate::support::{BASE, Server, eventually, fence, is_listening, real_tmux, shell};

fn signal(server: &Server, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(server.info.pid).unwrap()), signal).unwrap();
}

#[test]
fn a_server_can_be_ended_and_started_at_once_twenty_times() {
    let mut server = Server::start();
    for _ in 0..20 {
        server.terminal.kill_server(&server.info).unwrap();
        assert_eq!(server.terminal.probe().unwrap(), None);
        let info = server.terminal.start_server(&CleanEnv::of_this_process(), BASE).unwrap();
        assert!(!info.is_same_process(&server.info));
        server.info = info;
        server.terminal.claim_epoch(&fence(1)).unwrap();
    }
}

#[test]
fn six_starts_at_once_make_one_server() {
    for _ in 0..3 {
        let dir = TempDir::new().unwrap();
        let endpoint = Endpoint { tmux: real_tmux(), socket: dir.path().join("tmux") };
        let env = CleanEnv::of_this_process();
        fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let infos: Vec<ServerInfo> = std::thread::scope(|scope| {
            let start = || Tmux::new(endpoint.clone(), None).start_server(&env, BASE).unwrap();
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(infos.windows(2).all(|pair| pair[0] == pair[1]), "{infos:?}");
        let mut terminal = Tmux::new(endpoint, None);
        terminal.claim_epoch(&fence(1)).unwrap();
        assert_eq!(terminal.panes().unwrap().len(), 1);
        terminal.kill_server(&infos[0]).unwrap();
    }
}

#[test]
fn a_newer_epoch_shuts_an_older_one_out_of_everything_that_acts() {
    let mut server = Server::start();
    let pane = server.open(shell("w1", "exec sleep 1000"));
    server.another().claim_epoch(&fence(2)).unwrap();

    let old = &mut server.terminal;
    let info = server.info.clone();
    let refused = [
        old.open(&[shell("w2", "exec sleep 1000")]).map(drop),
        old.paste(pane, "text", &Paste::default()).map(drop),
        old.press(&[Press::plain(pane, Key::Enter)]).map(drop),
        old.close(&[pane]).map(drop),
        old.kill_server(&info),
        old.claim_epoch(&fence(1)),
    ];
    for outcome in refused {
        assert!(matches!(outcome, Err(TmuxError::Fenced { held: 2, ours: 1, .. })), "{outcome:?}");
    }
    assert_eq!(old.panes().unwrap().len(), 2, "nothing was opened or closed");
    assert_eq!(server.tmux(&["list-buffers"]), "", "no text was left behind");

    let other = Fence { epoch: 9, workspace: "ws-2".to_owned() };
    let outcome = server.another().claim_epoch(&other);
    assert!(
        matches!(&outcome, Err(TmuxError::Fenced { workspace, .. }) if workspace == "ws-1"),
        "{outcome:?}"
    );
    assert!(matches!(server.another().close(&[pane]), Err(TmuxError::Unclaimed)));
    server.another().claim_epoch(&fence(10)).unwrap();
    server.terminal.claim_epoch(&fence(10)).unwrap();
    server.open(shell("w3", "exec sleep 1000"));
}

#[test]
fn a_socket_that_was_removed_under_a_running_server_comes_back() {
    let mut server = Server::start();
    let pane = server.open(shell("w1", "exec sleep 1000"));
    for remove_all in [false, true] {
        let socket = server.socket();
        if remove_all {
            fs::remove_dir_all(socket.parent().unwrap()).unwrap();
        } else {
            fs::remove_file(&socket).unwrap();
        }
        // Without knowledge of the server nothing is there; with it the same one is.
        assert_eq!(server.another().probe().unwrap(), None);
        server.assert_alive();
        assert!(server.info_of(pane).is_some());
    }
    let recalled = Tmux::new(server.terminal.endpoint().clone(), Some(server.info.clone())).probe().unwrap();
    assert_eq!(recalled, Some(server.info.clone()));
}

#[test]
fn a_socket_that_a_killed_server_left_is_no_server_and_can_be_used_again() {
    let mut server = Server::start();
    signal(&server, Signal::SIGKILL);
    eventually("the server is gone", || (!is_listening(&server.socket())).then_some(()));
    assert!(server.socket().exists());
    assert_eq!(server.terminal.probe().unwrap(), None);
    assert!(server.terminal.panes().unwrap_err().is_no_server());
    server.terminal.kill_server(&server.info).unwrap();
    let info = server.terminal.start_server(&CleanEnv::of_this_process(), BASE).unwrap();
    assert!(!info.is_same_process(&server.info));
}

#[test]
fn only_the_expected_server_is_ended() {
    let mut server = Server::start();
    let expected = ServerInfo { pid: server.info.pid, start_time: 1, version: String::new() };
    assert!(matches!(server.terminal.kill_server(&expected), Err(TmuxError::OtherServer { .. })));
    server.assert_alive();
}

#[test]
fn a_server_that_is_stopped_answers_late_and_is_not_dead() {
    let mut server = Server::start();
    signal(&server, Signal::SIGSTOP);
    let mut hasty = Tmux::new(server.terminal.endpoint().clone(), Some(server.info.clone()))
        .with_deadline(Duration::from_millis(200));
    let outcome = hasty.panes();
    let probed = hasty.probe();
    signal(&server, Signal::SIGCONT);
    assert!(matches!(outcome, Err(TmuxError::TimedOut { .. })), "{outcome:?}");
    assert_eq!(probed.unwrap(), Some(server.info.clone()));
    assert_eq!(server.terminal.panes().unwrap().len(), 1);
}

#[test]
fn a_configuration_in_the_home_directory_has_no_effect() {
    let home = TempDir::new().unwrap();
    let hostile = "set -g base-index 1\nset -g pane-base-index 1\nset -g default-command 'exec true'\n\
        set -g remain-on-exit off\nset -g automatic-rename on\nset -g prefix C-a\n\
        set-hook -g after-new-window 'rename-window hooked'\nset -g default-shell /bin/false\n";
    fs::write(home.path().join(".tmux.conf"), hostile).unwrap();
    let vars = [("HOME", home.path().as_os_str().to_owned()), ("PATH", std::env::var_os("PATH").unwrap())];
    let env = CleanEnv::new(vars.map(|(name, value)| (name.into(), value)));
    let mut server = Server::start_with(&env);
    let (first, second) = (server.open(shell("w1", "exit 3")), server.open(shell("w2", "exec sleep 1000")));
    let info = server.wait_for_pane(first, |info| info.exit.is_some());
    assert_eq!((info.window_name.as_str(), info.exit), ("w1", Some(team_tmux::Exit::Code(3))));
    assert_eq!(server.info_of(second).unwrap().window_name, "w2");
    let options = server.tmux(&["show-options", "-g"]);
    assert!(options.contains("base-index 0") && options.contains("prefix C-b"), "{options}");
}

#[test]
fn nothing_of_the_callers_environment_reaches_a_window_unless_a_server_needs_it() {
    let vars = [("PATH", "/usr/bin:/bin"), ("CLAUDECODE", "1"), ("API_KEY", "sk-test-1"), ("TMUX", "/x,1,0")];
    let mut server =
        Server::start_with(&CleanEnv::new(vars.map(|(name, value)| (name.into(), value.into()))));
    let file = server.path("env");
    let command = format!("env > {0}.new; mv {0}.new {0}; exec sleep 1000", file.display());
    server.open(shell("w1", &command));
    let env = eventually("the environment is written", || fs::read_to_string(&file).ok());
    for absent in ["CLAUDECODE", "API_KEY", "sk-test-1", "/x,1,0"] {
        assert!(!env.contains(absent), "{absent} in {env}");
    }
    assert!(env.contains("UTF-8"), "{env}");
}

#[test]
fn a_watch_learns_of_the_servers_end_within_moments_and_disturbs_nothing() {
    let mut server = Server::start();
    let pane = server.open(shell("w1", "exec sleep 1000"));
    let mut watch = ServerWatch::open(server.terminal.endpoint(), BASE).unwrap();
    let clients = eventually("the watch is attached", || {
        Some(server.tmux(&["list-clients", "-F", "#{client_flags}"])).filter(|clients| !clients.is_empty())
    });
    assert!(clients.contains("control-mode") && clients.contains("read-only"), "{clients}");
    let info = server.info_of(pane).unwrap();
    assert_eq!((info.width, info.height, info.viewers), (200, 50, team_tmux::Viewers::default()));
    let base = server.terminal.panes().unwrap().into_iter().find(|info| info.session == BASE).unwrap();
    assert_eq!(base.viewers, team_tmux::Viewers::default());
    assert_eq!(watch.wait(Some(Duration::from_millis(1))).unwrap(), None);

    signal(&server, Signal::SIGKILL);
    let since = Instant::now();
    assert!(watch.wait(Some(Duration::from_secs(10))).unwrap().is_some());
    assert!(since.elapsed() < Duration::from_secs(2), "it took {:?}", since.elapsed());
}

#[test]
fn a_watch_makes_its_session_again_and_says_when_there_is_no_server() {
    let mut server = Server::start();
    server.tmux(&["kill-session", "-t", &format!("={BASE}")]);
    assert_eq!(server.terminal.panes().unwrap(), []);
    let mut watch = ServerWatch::open(server.terminal.endpoint(), BASE).unwrap();
    eventually("the session is back", || (server.terminal.panes().unwrap().len() == 1).then_some(()));
    assert_eq!(watch.wait(Some(Duration::from_millis(1))).unwrap(), None);
    server.terminal.kill_server(&server.info).unwrap();
    assert!(watch.wait(Some(Duration::from_secs(10))).unwrap().is_some());

    let mut watch = ServerWatch::open(server.terminal.endpoint(), BASE).unwrap();
    let end = watch.wait(Some(Duration::from_secs(10))).unwrap().unwrap();
    assert!(end.text.contains("no server running"), "{end:?}");
    assert!(!is_listening(&server.socket()), "it started no server");
}

#[test]
fn a_long_workspace_path_with_odd_characters_gets_a_working_socket() {
    let dir = TempDir::new().unwrap();
    let odd = dir.path().join("a b'c\"d ψ中 #{x};");
    fs::create_dir(&odd).unwrap();
    let endpoint = Endpoint { tmux: real_tmux(), socket: odd.join("run/tmux") };
    let mut terminal = Tmux::new(endpoint, None);
    let info = terminal.start_server(&CleanEnv::of_this_process(), BASE).unwrap();
    terminal.claim_epoch(&fence(1)).unwrap();
    let asked = OpenPane { cwd: odd, ..shell("w1", "exec sleep 1000") };
    assert_eq!(terminal.open(&[asked]).unwrap().len(), 1);
    terminal.kill_server(&info).unwrap();
}
