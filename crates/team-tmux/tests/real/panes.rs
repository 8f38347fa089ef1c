//! Panes: open, list, close.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, Stdio};

use nix::pty::{Winsize, openpty};
use team_tmux::{CleanEnv, Closed, Exit, OpenPane, Pane, PaneId, Terminal, TmuxError, Viewers, attach_argv};

use crate::support::{BASE, SESSION, Server, eventually, fence, shell};

/// A person at a small terminal.
struct Person {
    client: std::process::Child,
    // Its output is never read; what little there is fits into the kernel's buffer.
    _terminal: OwnedFd,
}

impl Person {
    fn attach(server: &Server, read_only: bool) -> Self {
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).unwrap();
        let argv = attach_argv(server.terminal.endpoint(), SESSION, None, read_only);
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).env("TERM", "xterm").env_remove("TMUX");
        let tty = || Stdio::from(pty.slave.try_clone().unwrap());
        let client = command.stdin(tty()).stdout(tty()).stderr(tty()).spawn().unwrap();
        Self { client, _terminal: pty.master }
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _ = self.client.kill();
        let _ = self.client.wait();
    }
}

#[test]
fn words_and_directories_of_any_kind_arrive_exactly() {
    let mut server = Server::start();
    let nasty: Vec<OsString> = [
        "",
        " ",
        ";",
        "a;",
        "\\;",
        "foo\\",
        "$HOME",
        "~",
        "#{pane_id}",
        "%1",
        "-d",
        "--",
        "'",
        "\"",
        "a\nb  c\n #x",
        "\t",
        "{",
        "}",
        "{ kill-server }",
        "中文 ①",
        "👩‍👩‍👧",
        "*",
        "!x",
        "\u{1b}[0m",
    ]
    .map(OsString::from)
    .into_iter()
    .chain([OsString::from_vec(b"\xff\xfe not utf-8 \xe4".to_vec())])
    .collect();
    for (at, name) in ["a b'c\"d ψ中", "x#[y##[z", "#{pane_id}##", "%H$HOME~;", "-d"].into_iter().enumerate()
    {
        let cwd = server.path(name);
        fs::create_dir(&cwd).unwrap();
        let file = server.path(&format!("words-{at}"));
        let script = format!(
            "{{ pwd; printf '%s\\0' \"$@\"; }} > {0}.new; mv {0}.new {0}; exec sleep 1000",
            file.display()
        );
        let mut asked = OpenPane { cwd: cwd.clone(), ..shell(&format!("w{at}"), &script) };
        asked.argv.push("sh".into());
        asked.argv.extend(nasty.clone());
        server.open(asked);
        let found = eventually("the words are written", || fs::read(&file).ok());
        let mut expected = cwd.as_os_str().as_bytes().to_vec();
        expected.push(b'\n');
        for word in &nasty {
            expected.extend(word.as_bytes());
            expected.push(0);
        }
        assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(&expected));
        assert_eq!(found, expected);
    }
}

#[test]
fn many_panes_open_in_one_call_and_each_has_its_own_mark() {
    let mut server = Server::start();
    let padding = "x".repeat(600);
    let asked: Vec<_> = (0..40)
        .map(|at| OpenPane {
            session: format!("team-{}", at % 2),
            ..shell(&format!("w{at}"), &format!(": {padding}; exec sleep 1000"))
        })
        .collect();
    let opened = server.terminal.open(&asked).unwrap();
    assert_eq!(opened.iter().map(|it| it.index).collect::<Vec<_>>(), (0..40).collect::<Vec<_>>());
    let panes = server.terminal.panes().unwrap();
    for it in opened {
        let info = panes.iter().find(|info| info.pane == it.pane).unwrap();
        assert_eq!(info.tag, asked[it.index].tag);
        assert_eq!(info.window_name, asked[it.index].window_name);
        assert_eq!(info.session, asked[it.index].session);
        assert_eq!((info.window, info.width, info.height), (it.window, 200, 50));
    }
    // A gap among the windows is not filled by a pane that then gets a neighbour's mark.
    let third = panes.iter().find(|info| info.tag.as_deref() == Some("x-w3")).unwrap().pane;
    assert_eq!(server.terminal.close(&[third]).unwrap(), [Closed::Done]);
    let again = server.open(OpenPane { session: "team-1".to_owned(), ..shell("again", "exec sleep 1000") });
    assert_eq!(server.info_of(again).unwrap().tag.as_deref(), Some("x-again"));
}

#[test]
fn what_tmux_would_misunderstand_is_refused_before_anything_opens() {
    let mut server = Server::start();
    let good = shell("w1", "exec sleep 1000");
    let bad = [
        OpenPane { cwd: "/no/such/directory".into(), ..good.clone() },
        OpenPane { argv: vec!["/no/such/program".into(), "x".into()], ..good.clone() },
        OpenPane { argv: vec!["/bin/sh".into()], ..good.clone() },
        OpenPane { session: "a.b".into(), ..good.clone() },
        OpenPane { window_name: "a\nb".into(), ..good.clone() },
        OpenPane { tag: Some("x\t".into()), ..good.clone() },
    ];
    for pane in bad {
        let outcome = server.terminal.open(&[good.clone(), pane]);
        assert!(outcome.as_ref().is_err_and(TmuxError::had_no_effect), "{outcome:?}");
    }
    assert_eq!(server.terminal.panes().unwrap().len(), 1);
    assert_eq!(server.terminal.open(&[]).unwrap(), []);
}

#[test]
fn every_end_of_a_program_has_its_cause() {
    let mut server = Server::start();
    let asked: Vec<_> = (0..24)
        .map(|at| shell(&format!("w{at}"), if at % 2 == 0 { "exit 7" } else { "kill -KILL $$" }))
        .collect();
    let opened = server.terminal.open(&asked).unwrap();
    for it in opened {
        let info = server.wait_for_pane(it.pane, |info| info.exit.is_some());
        let cause = if it.index % 2 == 0 { Exit::Code(7) } else { Exit::Signal("9".to_owned()) };
        assert_eq!(info.exit, Some(cause), "{info:?}");
    }
}

#[test]
fn a_window_keeps_its_size_whatever_a_person_looks_at_it_with() {
    let mut server = Server::start();
    let size = "while :; do stty size; sleep 0.05; done";
    let first = server.open(shell("w1", size));
    server.wait_for_text(first, "50 200");
    let looking = Person::attach(&server, true);
    server.wait_for_pane(first, |info| info.viewers == Viewers { attached: 1, can_type: 0 });
    let _typing = Person::attach(&server, false);
    server.wait_for_pane(first, |info| info.viewers == Viewers { attached: 2, can_type: 1 });
    let second = server.open(shell("w2", size));
    server.wait_for_text(second, "50 200");
    for pane in [first, second] {
        let info = server.info_of(pane).unwrap();
        assert_eq!((info.width, info.height), (200, 50));
    }
    drop(looking);
    server.wait_for_pane(second, |info| info.viewers == Viewers { attached: 1, can_type: 1 });
    let screen = server.terminal.screen(first).unwrap().unwrap();
    let sizes: Vec<_> = screen.text().lines().map(str::to_owned).collect();
    assert!(sizes.iter().all(|line| line == "50 200"), "{sizes:?}");
}

#[test]
fn a_person_who_comes_to_look_finds_a_window_with_a_program() {
    let mut server = Server::start();
    let current = |server: &Server| {
        server
            .tmux(&["display-message", "-p", "-t", &format!("={BASE}:"), "#{window_name}"])
            .trim()
            .to_owned()
    };
    for name in ["w1", "w2"] {
        server.open(OpenPane { session: BASE.to_owned(), ..shell(name, "exec sleep 1000") });
        assert_eq!(current(&server), "w1", "the first one is shown, and no later one instead");
    }
}

#[test]
fn a_strangers_pane_with_the_same_id_is_left_alone() {
    let mut server = Server::start();
    let ours = server.open(shell("w1", "exec sleep 1000"));
    server.terminal.kill_server(&server.info).unwrap();
    server.info = server.terminal.start_server(&CleanEnv::of_this_process(), BASE).unwrap();
    server.terminal.claim_epoch(&fence(2)).unwrap();
    let strangers = server.open(shell("other", "exec sleep 1000"));
    assert_eq!(strangers.id, ours.id, "ids start again");
    let none = Pane { id: PaneId::new(999), pid: 1 };
    assert_eq!(server.terminal.close(&[ours, none]).unwrap(), [Closed::Gone, Closed::Gone]);
    assert_eq!(server.terminal.screen(ours).unwrap(), None);
    assert!(server.info_of(strangers).is_some_and(|info| info.exit.is_none()));
    assert_eq!(server.terminal.close(&[strangers]).unwrap(), [Closed::Done]);
    assert_eq!(server.info_of(strangers), None);
    server.assert_alive();
}

#[test]
fn a_title_or_a_program_cannot_rename_the_window() {
    let mut server = Server::start();
    let pane =
        server.open(shell("w1", "printf '\\033]2;new title\\007\\033kname\\033\\\\'; exec sleep 1000"));
    let info = server.wait_for_pane(pane, |info| info.title == "new title");
    assert_eq!(info.window_name, "w1");
}
