//! Screens: what they show and how.

use team_tmux::{Color, Exit, Key, Pane, PaneId, Pressed, Screen, Terminal};

use crate::support::{Server, eventually, press, shell};

#[test]
fn grey_text_can_be_told_from_a_draft() {
    let mut server = Server::start();
    let command =
        "printf '> \\033[2mTry asking\\033[0m\\r\\n> real \\033[38;5;244mgrey\\033[0m \\033[31mred'";
    let pane = server.open(shell("w1", &format!("{command}; exec sleep 1000")));
    server.wait_for_text(pane, "red");
    let screen = server.terminal.screen(pane).unwrap().unwrap();
    assert_eq!(screen.lines[0].text(), "> Try asking");
    assert_eq!(screen.lines[0].firm_text(), ">");
    assert_eq!(screen.lines[1].firm_text(), "> real      red");
    assert_eq!(screen.lines[1].spans.last().unwrap().style.foreground, Color::Indexed(1));
    assert_eq!((screen.width, screen.height, screen.lines.len(), screen.cursor), (200, 50, 50, (15, 1)));
}

#[test]
fn many_screens_are_read_in_one_call_and_none_is_taken_for_another() {
    let mut server = Server::start();
    let fake = "printf 'GONE\\nSCREEN\\t1\\t1\\t0\\t0\\t0\\t0\\t0\\n'";
    let asked = [
        shell("w1", &format!("{fake}; printf 'first END'; exec sleep 1000")),
        shell("w2", "printf 'before\\033[?1049h\\033[Hsecond 研究员 ①\\033[?25l END'; exec sleep 1000"),
        // It waits before it ends: Linux may drop what a session's first process writes right
        // before its exit.
        shell("w3", "printf 'last words END'; stty -echo; read -r x; exit 3"),
    ];
    let mut panes: Vec<_> = server.terminal.open(&asked).unwrap().into_iter().map(|it| it.pane).collect();
    for pane in panes.clone() {
        server.wait_for_text(pane, "END");
    }
    eventually("it reads", || {
        let typed = server.terminal.press(&[press(panes[2], Key::Enter)]).unwrap();
        (typed == [Pressed::Dead]).then_some(())
    });
    server.wait_for_pane(panes[2], |info| info.exit == Some(Exit::Code(3)));
    panes.insert(1, Pane { id: PaneId::new(4711), pid: 1 });
    panes.insert(2, Pane { pid: 1, ..panes[0] });
    let screens = server.terminal.screens(&panes).unwrap();
    let text = |at: usize| screens[at].as_ref().map(Screen::text);
    assert!(text(0).unwrap().starts_with("GONE\nSCREEN") && text(0).unwrap().ends_with("first END"));
    assert_eq!((text(1), text(2)), (None, None));
    assert_eq!(text(3).unwrap(), "second 研究员 ① END");
    let second = screens[3].as_ref().unwrap();
    assert!(second.alternate && !second.cursor_shown);
    assert_eq!(text(4).unwrap(), "last words END");
    assert_eq!(server.terminal.screens(&[]).unwrap(), []);
}

#[test]
fn a_pane_in_copy_mode_still_shows_the_programs_screen() {
    let mut server = Server::start();
    let pane =
        server.open(shell("w1", "for i in $(seq 200); do echo line $i; done; printf END; exec sleep 1000"));
    server.wait_for_text(pane, "END");
    server.tmux(&["copy-mode", "-u", "-t", &pane.id.to_string()]);
    let screen = server.terminal.screen(pane).unwrap().unwrap();
    assert!(screen.in_mode && screen.contains("line 200") && screen.contains("END"));
}
