use super::*;

fn started() -> (FakeTerminal, Pane) {
    let mut terminal = FakeTerminal::new();
    terminal.start_server(&CleanEnv::new([]), "_base").unwrap();
    terminal.claim_epoch(&Fence { epoch: 1, workspace: "ws".to_owned() }).unwrap();
    let pane = OpenPane {
        session: "team".to_owned(),
        window_name: "w1".to_owned(),
        cwd: "/".into(),
        argv: vec!["prog".into(), "arg".into()],
        tag: Some("x-1".to_owned()),
    };
    let opened = terminal.open(&[pane]).unwrap();
    (terminal, opened[0].pane)
}

#[test]
fn inputs_are_kept_and_move_the_script_on() {
    let (mut terminal, pane) = started();
    assert_eq!(terminal.find("x-1"), Some(pane));
    terminal.show_after_inputs(pane, [Screen::plain("one"), Screen::plain("two")]);
    let press = Press::plain(pane, Key::Enter);
    assert_eq!(terminal.paste(pane, "hi\x1b", &Paste::default()).unwrap(), Pasted::Done);
    assert_eq!(terminal.screen(pane).unwrap().unwrap().text(), "one");
    assert_eq!(terminal.press(std::slice::from_ref(&press)).unwrap(), [Pressed::Done]);
    assert_eq!(terminal.screen(pane).unwrap().unwrap().text(), "two");
    let guard = Guard { unless: vec!["two".to_owned()], ..Guard::default() };
    assert_eq!(terminal.press(&[Press { guard, ..press }]).unwrap(), [Pressed::Guarded]);
    let paste = FakeInput::Paste { pane, text: "hi".to_owned(), enter: false };
    assert_eq!(terminal.take_inputs(), [paste, FakeInput::Press { pane, key: Key::Enter }]);
}

#[test]
fn a_pane_remembers_what_was_typed_last_and_nothing_that_was_refused() {
    let (mut terminal, pane) = started();
    let typed = |terminal: &mut FakeTerminal| terminal.panes().unwrap()[0].typed.clone();
    let paste = |mark: &str| Paste { mark: Some(mark.to_owned()), ..Paste::default() };
    assert_eq!(terminal.paste(pane, "a", &paste("p-1")).unwrap(), Pasted::Done);
    assert_eq!(typed(&mut terminal).as_deref(), Some("p-1"));
    let press = Press { mark: Some("e-1".to_owned()), ..Press::plain(pane, Key::Enter) };
    terminal.press(&[press]).unwrap();
    assert_eq!(typed(&mut terminal).as_deref(), Some("e-1"));
    terminal.edit(pane, |it| it.in_mode = true);
    assert_eq!(terminal.paste(pane, "b", &paste("p-2")).unwrap(), Pasted::InMode);
    assert!(terminal.paste(pane, "b", &paste("p 2")).is_err());
    assert_eq!(typed(&mut terminal).as_deref(), Some("e-1"));
}

#[test]
fn a_fault_strikes_once_before_or_after_the_effect() {
    let (mut terminal, pane) = started();
    let error = || TmuxError::Failed { doing: "paste-buffer", text: "hiccup".to_owned() };
    terminal.fail_next(Operation::Paste, error());
    assert!(terminal.paste(pane, "a", &Paste::default()).is_err());
    assert_eq!(terminal.inputs(), []);
    terminal.fail_next_after_effect(Operation::Paste, error());
    assert!(terminal.paste(pane, "b", &Paste::default()).is_err());
    assert_eq!(terminal.inputs().len(), 1);
    assert_eq!(terminal.paste(pane, "c", &Paste::default()).unwrap(), Pasted::Done);
    assert_eq!(terminal.calls(Operation::Paste), 3);
}

#[test]
fn an_older_epoch_and_a_dead_server_are_refused() {
    let (mut terminal, pane) = started();
    let mut newer = terminal.unclaimed();
    assert!(matches!(newer.close(&[pane]), Err(TmuxError::Unclaimed)));
    newer.claim_epoch(&Fence { epoch: 2, workspace: "ws".to_owned() }).unwrap();
    assert!(matches!(terminal.close(&[pane]), Err(TmuxError::Fenced { held: 2, .. })));
    terminal.exits(pane, Exit::Code(0));
    assert_eq!(newer.paste(pane, "x", &Paste::default()).unwrap(), Pasted::Dead);
    newer.server_dies();
    assert!(newer.panes().unwrap_err().is_no_server());
    assert_eq!(newer.probe().unwrap(), None);
}
