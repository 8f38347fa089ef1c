//! Programs that run in panes or as processes of their own: this test binary, started again with a
//! variable that tells one of these tests to play a part.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::Path;

use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use team_tmux::CleanEnv;

use crate::support::{Server, shell};

/// The command line of a program that logs every byte it gets and shows `READY` when it is able to.
pub(crate) fn byte_log(log: &Path, brackets: bool) -> Vec<OsString> {
    let mut argv: Vec<OsString> = vec!["/usr/bin/env".into()];
    let mut variable = OsString::from("BYTE_LOG=");
    variable.push(log);
    argv.push(variable);
    argv.push(format!("BYTE_LOG_BRACKETS={}", u8::from(brackets)).into());
    argv.push(std::env::current_exe().unwrap().into());
    argv.extend(["--exact", "helpers::plays_a_program_that_logs_bytes", "--nocapture"].map(OsString::from));
    argv
}

#[test]
fn plays_a_program_that_logs_bytes() {
    let Some(path) = std::env::var_os("BYTE_LOG") else { return };
    let mut log = OpenOptions::new().append(true).create(true).open(path).unwrap();
    let mut stdin = std::io::stdin().lock();
    let mut terminal = tcgetattr(&stdin).unwrap();
    cfmakeraw(&mut terminal);
    tcsetattr(&stdin, SetArg::TCSANOW, &terminal).unwrap();
    let mut stdout = std::io::stdout().lock();
    if std::env::var("BYTE_LOG_BRACKETS").as_deref() == Ok("1") {
        stdout.write_all(b"\x1b[?2004h").unwrap();
    }
    stdout.write_all(b"READY\r\n").unwrap();
    stdout.flush().unwrap();
    let mut chunk = [0; 8192];
    loop {
        match stdin.read(&mut chunk).unwrap() {
            0 => std::process::abort(),
            count => log.write_all(&chunk[..count]).unwrap(),
        }
    }
}

#[test]
fn plays_a_caller_with_an_empty_environment() {
    if std::env::var_os("EMPTY_ENVIRONMENT").is_none() {
        return;
    }
    let mut server = Server::start_with(&CleanEnv::of_this_process());
    let mut asked = shell("研究员", "printf '\\033]2;标题 ①\\007'; exec sleep 1000");
    asked.session = "团队-研".to_owned();
    let pane = server.open(asked);
    let info = server.wait_for_pane(pane, |info| info.title == "标题 ①");
    assert_eq!((info.session.as_str(), info.window_name.as_str()), ("团队-研", "研究员"));
}

#[test]
fn names_of_any_script_stay_whole_without_a_locale() {
    let path = std::env::var_os("PATH").unwrap();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helpers::plays_a_caller_with_an_empty_environment", "--nocapture"])
        .env_clear()
        .env("PATH", path)
        .env("EMPTY_ENVIRONMENT", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}
