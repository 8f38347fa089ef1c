//! The real claude talks to the model stub and nobody else, started the way the project starts it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use team_testkit::real::{self, RealClient};
use team_testkit::{ModelStub, TestHome, TestPane, TestWorkspace};

const SESSION: &str = "0b6ee25a-33ba-4f02-9925-dfbbe144b0f9";
const SOON: Duration = Duration::from_secs(60);

/// How far apart two rings must be: claude waits until a file has been at rest for half a second.
const RING: Duration = Duration::from_millis(1500);

/// What a hook runs: it keeps what it was told, asks for the bell to be watched, and hands over what lies in the
/// inbox.
const HOOK: &str = r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
case $1 in
record) cat >>events; echo >>events
    test "$2" = SessionStart && printf '{"hookSpecificOutput":{"hookEventName":"SessionStart","watchPaths":["%s/bell"]}}' "$PWD" ;;
drain) mv inbox "taken.$$" 2>/dev/null && cat "taken.$$" >&2 && exit 2 ;;
esac
exit 0
"#;

/// A claude in a pane, with hooks in a directory of their own.
struct Claude<'a> {
    workspace: &'a TestWorkspace,
    home: TestHome,
    pane: TestPane<'a>,
}

impl<'a> Claude<'a> {
    fn start(workspace: &'a TestWorkspace, stub: &ModelStub, client: &RealClient, first: &str) -> Self {
        let hooks = workspace.root().join("run");
        fs::write(hooks.join("hook"), HOOK).expect("writable");
        fs::set_permissions(hooks.join("hook"), fs::Permissions::from_mode(0o755)).expect("ours");
        fs::write(hooks.join("bell"), "0").expect("writable");
        fs::write(hooks.join("inbox"), first).expect("writable");
        fs::write(hooks.join("role.md"), "You are the coder.").expect("writable");
        fs::write(hooks.join("settings.json"), settings(&hooks).to_string()).expect("writable");
        let home = TestHome::at(&workspace.home(), stub);
        home.trust(workspace.path());
        let of = |name: &str| hooks.join(name).to_string_lossy().into_owned();
        let program = client.program.to_string_lossy();
        let arguments = [
            &*program,
            "--session-id",
            SESSION,
            "--settings",
            &of("settings.json"),
            "--append-system-prompt-file",
            &of("role.md"),
            "--allowedTools",
            "Bash(echo:*)",
        ];
        let pane = TestPane::open(workspace, &arguments);
        Self { workspace, home, pane }
    }

    fn hooks(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.workspace.root().join("run/events")).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    fn count(&self, event: &str) -> usize {
        self.hooks().iter().filter(|hook| hook["hook_event_name"] == event).count()
    }

    /// Puts a message into the inbox and rings until it is taken.
    fn hand_over(&self, message: &str) {
        let run = self.workspace.root().join("run");
        fs::write(run.join("inbox.new"), message).expect("writable");
        fs::rename(run.join("inbox.new"), run.join("inbox")).expect("writable");
        let mut ring = 0;
        self.workspace.wait_until(
            "the bell is heard",
            || {
                ring += 1;
                fs::write(run.join("bell"), ring.to_string()).expect("writable");
                team_testkit::process::wait_until(|| !run.join("inbox").exists(), RING)
            },
            SOON,
        );
    }

    fn wait_for_turns(&self, count: usize) {
        let done = || self.count("Stop") >= count;
        assert!(team_testkit::process::wait_until(done, SOON), "{}\n{:#?}", self.pane.screen(), self.hooks());
    }
}

fn settings(directory: &Path) -> Value {
    let hook = directory.join("hook").to_string_lossy().into_owned();
    let record = |event: &str| json!({"type": "command", "command": format!("{hook} record {event}")});
    let drain = json!({
        "type": "command", "command": format!("{hook} drain"), "asyncRewake": true, "timeout": 30,
        "rewakeMessage": "Message from your team:", "rewakeSummary": "message from your team",
    });
    let mut hooks = json!({});
    for event in ["SessionStart", "FileChanged", "Stop"] {
        hooks[event] = json!([{ "hooks": [record(event), drain] }]);
    }
    for event in ["UserPromptSubmit", "StopFailure", "SessionEnd"] {
        hooks[event] = json!([{ "hooks": [record(event)] }]);
    }
    json!({ "hooks": hooks })
}

#[test]
fn the_real_claude_takes_messages_from_hooks_and_talks_to_the_stub_alone() {
    let Some(client) = real::client_or_skip("claude") else { return };
    let stub = ModelStub::start().expect("loopback works");
    let workspace = TestWorkspace::with_program("/bin/true".into());
    let claude = Claude::start(&workspace, &stub, &client, "stub: bash echo hello\nstub: say first done\n");
    let before = claude.home.theirs();

    // What lies in the inbox at the start becomes the first turn.
    claude.wait_for_turns(1);
    let turns = stub.turns();
    assert_eq!(turns.len(), 2, "{turns:#?}");
    assert!(turns.iter().all(|turn| turn.session.as_deref() == Some(SESSION)), "{turns:#?}");
    assert!(turns[0].system.contains("You are the coder.") && turns[0].offers("Bash"));
    assert_eq!(turns[0].headers["authorization"], "Bearer stub-token");

    // A message to an idle session starts a turn, and the session remembers the one before.
    claude.hand_over("stub: say second done\n");
    claude.wait_for_turns(2);
    claude.hand_over("stub: recall 1\n");
    claude.wait_for_turns(3);
    let last = stub.turns().pop().expect("there were turns");
    let said = last.outcome.expect("the turn has ended").said;
    assert!(said.contains("stub: say second done"), "{said}");

    // A refused request ends the turn with another hook.
    claude.hand_over("stub: error 500\n");
    workspace.wait_until("StopFailure", || claude.count("StopFailure") == 1, SOON);

    // Seen first: a key that comes before the text is taken for part of it.
    claude.pane.type_text("/exit");
    claude.pane.wait_for("/exit", SOON);
    claude.pane.keys(&["Enter"]);
    workspace.wait_until("the program ends", || claude.pane.exit_code() == Some(0), SOON);
    assert_eq!(claude.home.theirs().changes_since(&before), Vec::<String>::new());
    assert_eq!(claude.home.sessions(), Vec::<Value>::new());
    assert!(claude.home.transcript(SESSION).len() > 5);
    drop(claude);
    workspace.finish();
}
