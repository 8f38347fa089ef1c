//! Which models the installed programs know: asked once, kept in the state directory.
//!
//! Knows how to run a program for a moment and when an answer is too old. Must not know what any program prints; the
//! provider reads that. No answer is no fault: then names of models are not checked.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use sha2::Digest as _;
use team_provider::{ModelList, Provider};
use team_spec::{ModelName, Models};

use crate::clock::{Clock as _, RealClock};
use crate::launch;
use crate::process;
use crate::workspace::{make_dir, state_root, write};

/// How long a program may take to list its models; a start waits for it.
const LIMIT: Duration = Duration::from_secs(3);

/// How long a list is believed: behind a launcher another version may be chosen without a trace at its file.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// How long it is believed that a program cannot be asked.
const FAILURE_KEPT: Duration = Duration::from_secs(10 * 60);

/// The longest list that is read, in bytes.
const LONGEST: u64 = 16 * 1024 * 1024;

/// What a program answered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Answer {
    /// The file that was asked, so that another one in its place is asked again.
    of: String,
    /// Its models' names: the one it takes, the one it shows.
    models: Vec<(String, String)>,
    /// Why there are none.
    failed: Option<String>,
}

/// What was asked in this process, by the file of the answer.
static ASKED: Mutex<BTreeMap<PathBuf, Answer>> = Mutex::new(BTreeMap::new());

/// Returns the models that the program of a provider knows, if it is there, has a list and can be asked.
pub(crate) fn of_provider(name: &str) -> Option<Models> {
    let provider = team_provider::provider(name)?;
    let (list, program) = listing(provider)?;
    let answer = ask(&list, &program, KEPT, FAILURE_KEPT);
    let names = answer.models.into_iter().map(|(slug, display)| ModelName { slug, display }).collect();
    answer.failed.is_none().then(|| Models {
        command: command(provider, &list),
        beside: name.to_owned(),
        names,
    })
}

/// Says why the program of a provider cannot be asked for its models, and what shows it; a failure is not believed.
pub(crate) fn failure(provider: &dyn Provider) -> Option<(String, String)> {
    let (list, program) = listing(provider)?;
    let failed = ask(&list, &program, KEPT, Duration::ZERO).failed?;
    Some((failed, command(provider, &list)))
}

fn listing(provider: &dyn Provider) -> Option<(ModelList, PathBuf)> {
    let list = provider.model_list()?;
    let path = process::search_path();
    Some((list, launch::find_program(provider.program().file_name(), &path.to_string_lossy())?))
}

fn command(provider: &dyn Provider, list: &ModelList) -> String {
    format!("{} {}", provider.program().file_name(), list.arguments.join(" "))
}

fn ask(list: &ModelList, program: &Path, kept: Duration, failure_kept: Duration) -> Answer {
    let of = fingerprint(program);
    let digest = sha2::Sha256::digest(program.as_os_str().as_encoded_bytes());
    let name = digest.iter().take(8).fold(String::new(), |name, it| format!("{name}{it:02x}"));
    let file = state_root().map(|it| it.join("models").join(format!("{name}.json")));
    let key = file.as_ref().map_or_else(|_| program.to_owned(), Clone::clone);
    let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = asked.get(&key).cloned().or_else(|| kept_answer(file.as_ref().ok()?, kept, failure_kept));
    let answer = before.filter(|it| it.of == of).unwrap_or_else(|| {
        let answer = ask_now(list, program, of);
        // Only to be quicker the next time.
        if let (Ok(file), Ok(text)) = (&file, serde_json::to_string(&answer)) {
            let dir = file.parent().unwrap_or(file);
            make_dir(dir, 0o700).and_then(|()| write(file, &text, 0o600)).ok();
        }
        answer
    });
    asked.insert(key, answer.clone());
    answer
}

fn ask_now(list: &ModelList, program: &Path, of: String) -> Answer {
    let listed = run(program, list.arguments, LIMIT).and_then(|printed| {
        (list.read)(&printed).ok_or_else(|| "what it prints is not a list of models".to_owned())
    });
    match listed {
        Ok(models) => {
            let models = models.into_iter().map(|it| (it.slug, it.display)).collect();
            Answer { of, models, failed: None }
        }
        Err(why) => Answer { of, models: Vec::new(), failed: Some(why) },
    }
}

fn kept_answer(file: &Path, kept: Duration, failure_kept: Duration) -> Option<Answer> {
    let written = fs::metadata(file).ok()?.modified().ok()?;
    let age = SystemTime::from(RealClock::default().now()).duration_since(written).ok()?;
    let answer: Answer = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    let limit = if answer.failed.is_some() { failure_kept } else { kept };
    (age < limit).then_some(answer)
}

/// Tells a file from another one in its place. Packages may set the time of a change, but not that of the change of the
/// file's record.
fn fingerprint(program: &Path) -> String {
    let real = fs::canonicalize(program).unwrap_or_else(|_| program.to_owned());
    let told = fs::metadata(&real).map(|it| {
        let times = (it.mtime(), it.mtime_nsec(), it.ctime(), it.ctime_nsec());
        format!("{} {} {} {times:?}", it.dev(), it.ino(), it.size())
    });
    format!("{} {}", real.display(), told.unwrap_or_default())
}

/// Runs a program and returns what it prints, or says why not; nothing of it is left.
pub(crate) fn run(program: &Path, arguments: &[&str], limit: Duration) -> Result<String, String> {
    let all = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    let mut child = Command::new(program)
        .args(arguments.iter().map(OsStr::new))
        .env_clear()
        .envs(team_provider::clean_env(&all.collect()))
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("it cannot be run: {error}"))?;
    let group = i32::try_from(child.id()).map(Pid::from_raw);
    let (told, end) = mpsc::channel();
    std::thread::spawn(move || {
        let mut printed = Vec::new();
        if let Some(out) = child.stdout.take() {
            // What was read until then is judged by whoever reads it.
            out.take(LONGEST).read_to_end(&mut printed).ok();
        }
        told.send((printed, child.wait())).ok();
    });
    let ended = end.recv_timeout(limit);
    if matches!(ended, Err(RecvTimeoutError::Timeout))
        && let Ok(group) = group
    {
        // Gone already is as good.
        killpg(group, Signal::SIGKILL).ok();
        end.recv_timeout(limit).ok();
    }
    match ended {
        Ok((printed, Ok(status))) if status.success() => Ok(String::from_utf8_lossy(&printed).into_owned()),
        Ok((_, Ok(status))) => Err(format!("it ended with {status}")),
        Ok((_, Err(error))) => Err(format!("its end cannot be waited for: {error}")),
        Err(_) => Err(format!("it took longer than {limit:?}")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn script(dir: &Path, body: &str) -> PathBuf {
        let path = dir.join("program");
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn a_program_that_does_not_end_is_ended_with_all_it_started() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("pids");
        let body = format!("sleep 600 & echo $! >{0}; echo $$ >>{0}; wait", file.display());
        let program = script(dir.path(), &body);
        let limit = Duration::from_secs(1);
        assert_eq!(run(&program, &[], limit).unwrap_err(), "it took longer than 1s");
        let pids = fs::read_to_string(file).unwrap();
        let lives =
            |pid: &str| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|it| !it.contains(") Z "));
        assert!(pids.lines().count() == 2 && !pids.lines().any(lives), "{pids}");
    }

    #[test]
    fn a_program_is_asked_again_only_if_another_file_lies_there() {
        let dir = tempfile::tempdir().unwrap();
        let program = script(dir.path(), "echo \"$1\"");
        assert_eq!(run(&program, &["list"], LIMIT), Ok("list\n".to_owned()));
        let first = fingerprint(&program);
        assert_eq!(fingerprint(&program), first);
        fs::remove_file(&program).unwrap();
        let program = script(dir.path(), "exit 3");
        assert_ne!(fingerprint(&program), first);
        assert_eq!(run(&program, &[], LIMIT).unwrap_err(), "it ended with exit status: 3");
    }
}
