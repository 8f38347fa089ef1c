//! Keys, pastes, dialogs, the end.

use nix::sys::signal::Signal;

use crate::support::World;

const THREE_LINES: &str = "first\nsecond line\nthird";

#[test]
fn a_paste_and_enter_are_one_submission_with_exact_bytes() {
    for text in [
        "plain".to_owned(),
        THREE_LINES.to_owned(),
        "请检查 ① 👩‍👩‍👧 e\u{301} ﷽ \u{200b}\ttab".to_owned(),
        "长 line\tof text\n".repeat(10_000) + "end;",
    ] {
        let world = World::new();
        let mut fake = world.start().ready();
        fake.paste(&text);
        fake.send(b"\r");
        fake.until_turns(1);
        assert!(fake.submitted() == [text.clone()], "{} bytes changed", text.len());
        let user = fake.transcript().into_iter().find(|it| it["type"] == "user").unwrap();
        assert!(user["message"]["content"] == text && user["promptSource"] == "typed");
        assert_eq!(fake.kinds(), ["user", "end_turn", "turn_duration"]);
    }
}

#[test]
fn every_byte_is_logged_as_it_came() {
    let world = World::new();
    let mut fake = world.start().ready();
    let sent = [b"a\x1b[200~p\xff\r\n\x1b[201~\x00\x9b\xc3".as_slice(), "é\x1b[1;5P".as_bytes()].concat();
    fake.send(&sent);
    fake.until(|it| (it.bytes().len() >= sent.len()).then_some(()));
    assert_eq!(fake.bytes(), sent);
}

#[test]
fn no_bytes_end_it_or_get_lost() {
    let world = World::new();
    let mut fake = world.start().ready();
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut sent = Vec::new();
    while sent.len() < 20_000 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        // Not the keys that may end it.
        sent.extend(seed.to_le_bytes().into_iter().filter(|it| !matches!(it, 3 | 4 | b'/' | b'!')));
    }
    for chunk in sent.chunks(97) {
        fake.send(chunk);
    }
    fake.until(|it| (it.bytes().len() == sent.len()).then_some(()));
    assert!(fake.bytes() == sent);
    fake.send(b"\x1b[201~\x03");
    fake.control("submit still here");
    fake.until(|it| it.submitted().contains(&"still here".to_owned()).then_some(()));
}

#[test]
fn escape_twice_empties_the_box() {
    let world = World::new();
    let mut fake = world.start().ready();
    fake.send(b"one\ntwo");
    fake.until_shown("two");
    fake.send(b"\x1b\x1b");
    fake.until_shown("❯ Try");
}

#[test]
fn an_enter_too_close_to_other_input_is_a_newline() {
    let world = World::new().script("eat-enter 400");
    let mut fake = world.start().ready();
    fake.paste(THREE_LINES);
    fake.send(b"\r");
    fake.until_event("enter_eaten");
    assert_eq!(fake.submitted(), [""; 0]);
    std::thread::sleep(std::time::Duration::from_millis(450)); // the time that the knob measures
    fake.send(b"\r");
    fake.until_turns(1);
    assert_eq!(fake.submitted(), [THREE_LINES]);
}

#[test]
fn without_bracketed_paste_each_line_end_submits() {
    let world = World::new().script("no-bracket");
    let mut fake = world.start().ready();
    fake.send(b"one\rtwo\r");
    fake.until_turns(2);
    assert_eq!(fake.submitted(), ["one", "two"]);
}

#[test]
fn the_composer_shows_labels_for_long_pastes_and_the_draft_for_others() {
    let world = World::new();
    let mut fake = world.start().ready();
    fake.paste(&"x\n".repeat(60));
    fake.until_shown("❯ [Pasted text #1 +60 lines]");
    fake.send(b"\x03");
    fake.send(b"short");
    fake.until_shown("❯ short");
    fake.send(b"\x7f\x15");
    fake.until_shown("❯ Try");
}

#[test]
fn only_a_plain_word_after_a_slash_is_a_command_and_a_bang_is_shell_mode() {
    let world = World::new();
    let mut fake = world.start().ready();
    fake.send(b"/nosuch thing\r");
    fake.until_shown("Unknown command: /nosuch");
    fake.send(b"!touch pwned\r");
    let shell = fake.until_event("ran_shell");
    assert_eq!(shell["command"], "touch pwned");
    assert!(!fake.cwd.join("pwned").exists());
    assert_eq!(fake.submitted(), [""; 0]);
    for text in ["/tmp/x is broken", "# title", "@alice hi"] {
        fake.paste(text);
        fake.send(b"\r");
    }
    fake.until_turns(3);
    assert_eq!(fake.submitted(), ["/tmp/x is broken", "# title", "@alice hi"]);
}

#[test]
fn a_backslash_and_a_half_file_name_take_the_enter() {
    let world = World::new();
    let mut fake = world.start().ready();
    std::fs::write(fake.cwd.join("README.md"), "").unwrap();
    fake.send(b"one\\\r");
    fake.send(b"see @REA\r");
    fake.until_event("completed");
    fake.send(b"\r");
    fake.until_turns(1);
    assert_eq!(fake.submitted(), ["one\nsee @README.md"]);
}

#[test]
fn a_dialog_takes_all_keys_and_the_paste_is_lost() {
    let world = World::new();
    let mut fake = world.start().ready();
    fake.send(b"draft");
    fake.until_shown("❯ draft");
    fake.control("dialog update");
    assert_eq!(fake.until_status("waiting")["waitingFor"], "dialog open");
    fake.until_shown("❯ 1. Update now");
    fake.paste("lost\ntext");
    fake.send(b"xyz\x1b[B\r");
    assert_eq!(fake.until_event("dialog_answered")["choice"], 2);
    assert_eq!(fake.until_event("paste_discarded")["bytes"], 9);
    fake.until_status("idle");
    fake.until_shown("❯ draft");
    fake.control("dialog mcp");
    fake.until_shown("❯ 1. Use this MCP server");
    fake.send(b"\x1b");
    assert_eq!(fake.until_event("dialog_refused")["kind"], "mcp");
    fake.send(b"\r");
    fake.until_turns(1);
    assert_eq!(fake.submitted(), ["draft"]);
}

#[test]
fn nothing_works_while_the_trust_dialog_of_the_start_is_open() {
    let world = World::new().script("dialog trust\nwait 1\nsay started");
    let mut fake = world.start();
    fake.until_shown("❯ 1. Yes, I trust this folder");
    assert_eq!(fake.status(), None);
    fake.paste("lost");
    fake.send(b"\r");
    let fake = fake.ready();
    fake.until_shown("started");
    assert_eq!(fake.submitted(), [""; 0]);

    let mut refused = world.start();
    refused.until_shown("❯ 1. Yes, I trust this folder");
    refused.send(b"2");
    assert_eq!(refused.ended(), 1);
}

#[test]
fn text_sent_while_busy_is_queued_and_taken_up_in_the_turn() {
    let world = World::new();
    let mut fake = world.start().ready();
    fake.control("busy 600");
    fake.until_status("busy");
    fake.paste("later\nfake: say taken");
    fake.send(b"\r");
    fake.until(|it| it.submissions().get(1).filter(|it| it["queued"] == true).map(|_| ()));
    fake.control("escape");
    fake.until_event("interrupted");
    fake.until_shown("❯ later");
    fake.send(b"\x03\x03");
    fake.paste("fake: busy 0.3\nfake: busy 0.1");
    fake.send(b"\r");
    fake.until(|it| it.kinds().ends_with(&["tool_use".to_owned()]).then_some(()));
    fake.paste("fake: say taken");
    fake.send(b"\r");
    fake.until_turns(1);
    let kinds = fake.kinds();
    let turn = &kinds[kinds.iter().rposition(|it| it == "user").unwrap()..];
    assert_eq!(
        turn,
        [
            "user",
            "tool_use",
            "enqueue",
            "tool_result",
            "remove",
            "queued_command",
            "tool_use",
            "tool_result",
            "end_turn",
            "turn_duration"
        ]
    );
    assert_eq!(fake.last_answer(), "taken");
}

#[test]
fn a_text_queued_behind_the_last_step_is_the_next_turn() {
    let world = World::new();
    let mut fake = world.start().ready();
    fake.send(b"fake: think 300\r");
    fake.until_status("busy");
    fake.send(b"next\r");
    fake.until_turns(2);
    let kinds = fake.kinds();
    assert_eq!(kinds[kinds.len() - 4..], ["dequeue", "user", "end_turn", "turn_duration"]);
    assert_eq!(fake.transcript().iter().rfind(|it| it["type"] == "user").unwrap()["promptSource"], "queued");
}

#[test]
fn an_interrupt_gives_the_prompt_back_unless_something_came_out() {
    let world = World::new();
    let mut fake = world.start().ready();
    fake.send(b"fake: think 60000\r");
    fake.until_status("busy");
    fake.until(|it| it.kinds().contains(&"user".to_owned()).then_some(()));
    fake.send(b"\x1b");
    fake.until_shown("❯ fake: think 60000");
    fake.until_status("idle");
    assert_eq!(fake.kinds(), ["user"]);
    fake.send(b"\x03fake: busy 60\r");
    fake.until(|it| it.kinds().contains(&"tool_use".to_owned()).then_some(()));
    fake.send(b"\x1b");
    fake.until_status("idle");
    assert_eq!(fake.kinds(), ["user", "user", "tool_use", "tool_result", "text"]);
    assert!(fake.shows("❯ Try"));
}

#[test]
fn the_end_has_the_right_code_and_leaves_no_status_file() {
    let world = World::new();
    let mut fake = world.start().ready();
    fake.send(b"x\x03\x03\x03");
    assert_eq!(fake.ended(), 0);
    assert!(!fake.status_path().exists());
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let mut fake = world.start().ready();
        fake.signal(signal);
        assert_eq!(fake.ended(), code);
        assert!(!fake.status_path().exists());
    }
    let mut fake = world.start().ready();
    fake.control("exit 55");
    assert_eq!(fake.ended(), 55);
    let mut fake = world.start().ready();
    fake.control("kill");
    assert_eq!(fake.ended(), -1);
    assert!(fake.status_path().exists());
}

#[test]
fn signals_are_ignored_on_demand() {
    let world = World::new().script("ignore-signals on");
    let fake = world.start().ready();
    fake.signal(Signal::SIGTERM);
    fake.until_event("signal_ignored");
    fake.control("submit still here");
    fake.until_turns(1);
}

#[test]
fn a_resized_terminal_is_redrawn_and_logged() {
    let world = World::new();
    let fake = world.start().ready();
    assert_eq!(fake.event("size").unwrap()["columns"], 120);
    fake.signal(Signal::SIGWINCH);
    fake.until(|it| (it.events().iter().filter(|it| it["event"] == "size").count() == 2).then_some(()));
    fake.until_shown("❯ Try");
}

#[test]
fn the_look_can_be_changed() {
    let world = World::new().script("composer-glyph $\nfooter  other footer\ndraft do not de");
    let fake = world.start();
    fake.until_shown("$ do not de");
    fake.until_shown("other footer");
}

#[cfg(target_os = "linux")]
#[test]
fn an_idle_agent_is_never_woken() {
    let world = World::new();
    let fake = world.start().ready();
    let switches = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", fake.pid())).unwrap();
        let line = status.lines().find(|it| it.starts_with("voluntary_ctxt_switches")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    fake.until_event("ready");
    std::thread::sleep(std::time::Duration::from_millis(50)); // lets the start finish
    let before = switches();
    std::thread::sleep(std::time::Duration::from_millis(400)); // the time that is measured
    assert_eq!(switches(), before);
}

#[test]
fn a_shell_that_gives_no_terminal_is_told() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_fake-agent"))
        .env("FAKE_HOME", World::new().path("home"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("must be a terminal"));
}
