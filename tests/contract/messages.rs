//! Twenty messages to each of two workers, idle and busy: byte for byte or as a file, once, with a proved receipt, and
//! a status that is never wrong.
//!
//! What an agent was given is told by its model: the user text of the turn that holds the message's id line. Of such a
//! text only two things count as ours or the program's: the head (two lines), and what stands behind the body, which
//! is one of [`ENDS`] or the next message.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use team_testkit::stub::{Kind as Asked, ModelStub};

use crate::team::{CLAUDE, CODEX, COPILOT, GEMINI, Kind, OPENCODE, Team, Worker};

/// What may stand behind a body that is last in its text: nothing, our closing line, or a program's own wrapper.
const ENDS: [&str; 4] = ["", "\n(end of message)", "\n</system-reminder>", "\n</system-reminder>\n"];
/// What stands in the files that texts name.
const INSIDE: &str = "the inside of a file";
/// What stands between two messages.
const NEXT: &str = "\n\n[Team message from leader to ";

/// The longest that `status` may say something else than an agent's model sees.
const LAG: Duration = Duration::from_millis(2500);
/// How often `status` is looked at.
const LOOK: Duration = Duration::from_millis(150);

/// Twenty texts that are easily cut, trimmed, completed, or taken for a command on their way.
fn texts() -> Vec<(&'static str, String)> {
    let line = "请检查 ① 👩\u{200d}👩\u{200d}👧 e\u{301} \"quoted\" 'so' `and` $HOME \\ end\n";
    let long = line.repeat(100_000 / line.len() + 1);
    let short = [
        ("short", "Look at the parser."),
        ("Chinese", "请检查解析器，然后报告。「引号」"),
        ("emoji", "👩\u{200d}👩\u{200d}👧 🏳\u{fe0f}\u{200d}🌈 👍🏽 done"),
        ("tabs", "a\tb\tc\n\tindented\t"),
        ("leading white space", "   three blanks\n\n\n  and two"),
        ("trailing newline", "it ends in a newline\n"),
        ("trailing blank lines", "it ends in blank lines\n\n \n"),
        ("trailing backslash", "it ends in a backslash \\"),
        ("leading @word", "@src/main.rs has a fault"),
        ("trailing @word", "look at\n@src/main"),
        ("leading slash", "/help me with this"),
        ("last line of a slash", "run\n/quit"),
        ("exclamation mark", "!ls -la"),
        ("hash", "# A heading\n\n# another"),
        ("semicolon", "echo done;"),
        ("CRLF", "one\r\ntwo\r\n"),
        ("paste end", "a\u{1b}[201~; touch x\n[201~ and ^[[201~"),
        ("tags", "</system-reminder> </task-notification>\n<b>&amp;</b> {{x}} %s \\n \\t $(ls)"),
        ("marks", "e\u{301} é ﷽ \u{200b}x\u{a0}y\u{2028}z\u{feff} שלום"),
    ];
    let mut all: Vec<(&str, String)> = short.map(|(name, text)| (name, text.to_owned())).into();
    all.push(("100 KB", long));
    all
}

/// What is to arrive of a text: only control characters that act as keys are taken out, and the sender is told.
fn cleaned(text: &str) -> String {
    text.replace('\u{1b}', "")
}

/// Sends all texts to a worker, every second one while it is idle and the others while it works; returns their ids.
fn hand_over(team: &Team, worker: &Worker, idle_first: bool) -> BTreeMap<String, (&'static str, String)> {
    let mut ids = BTreeMap::new();
    let mut note = |sent: &Value, (name, text): (&'static str, String)| {
        let removed = text.chars().filter(|it| *it == '\u{1b}').count();
        assert_eq!(sent["cleaned"], removed, "{name}: {sent}");
        ids.insert(sent["message_id"].as_str().expect("it has an id").to_owned(), (name, text));
    };
    let (idle, busy): (Vec<_>, Vec<_>) =
        texts().into_iter().enumerate().partition(|(at, _)| (at % 2 == 0) == idle_first);
    for (_, it) in idle {
        let sent = team.send(&worker.name, &it.1, "accepted");
        let id = sent["message_id"].as_str().expect("it has an id");
        // On a busy machine its proof may come late: it counts all the same.
        team.wait(&format!("{id} is answered"), || receipts(team, &worker.name)[id]["step"] == "answered");
        note(&sent, it);
    }
    team.send(&worker.name, "stub: think 6000\nstub: say that was slow", "turn_started");
    for (_, it) in busy {
        let sent = team.send(&worker.name, &it.1, "accepted");
        note(&sent, it);
    }
    team.wait(&format!("{} has answered all", worker.name), || {
        let receipts = receipts(team, &worker.name);
        ids.keys().all(|id| receipts.get(id).is_some_and(|it| it["step"] == "answered"))
    });
    ids
}

fn receipts(team: &Team, agent: &str) -> BTreeMap<String, Value> {
    let inbox = team.crew.ws.json(["inbox", agent]);
    let entries = inbox["messages"].as_array().cloned().unwrap_or_default();
    entries
        .into_iter()
        .filter_map(|it| Some((it["message_id"].as_str()?.to_owned(), it["receipt"].clone())))
        .collect()
}

/// Checks that a message came once, word for word or as a file; says what is wrong else.
fn came_as_it_is(stub: &ModelStub, id: &str, body: &str) -> Result<(), String> {
    let id_line = format!("(id {id})\n");
    let turns = stub.turns();
    let given: Vec<&String> =
        turns.iter().flat_map(|it| &it.texts).filter(|it| it.contains(&id_line)).collect();
    let times: usize = given.iter().map(|it| it.matches(&id_line).count()).sum();
    let &[text] = given.as_slice() else { return Err(format!("in {} texts: {given:?}", given.len())) };
    if times != 1 {
        return Err(format!("{times} times in {text:?}"));
    }
    let remembered = turns.last().map_or(0, |it| it.body.to_string().matches(&format!("(id {id})")).count());
    if remembered != 1 {
        return Err(format!("{remembered} times in the whole conversation"));
    }
    let (_, rest) = text.split_once(&id_line).unwrap_or_default();
    if let Some(behind) = rest.strip_prefix(body)
        && (ENDS.contains(&behind) || behind.starts_with(NEXT))
    {
        return Ok(());
    }
    let wrong = || format!("{:?}", rest.chars().take(400).collect::<String>());
    let path = rest.split_whitespace().find(|it| it.starts_with('/')).ok_or_else(wrong)?;
    let file = fs::read_to_string(path).map_err(|error| format!("`{path}`: {error}"))?;
    let mode = fs::metadata(path).map_err(|it| it.to_string())?.permissions().mode() & 0o777;
    match file.split_once(&id_line) {
        Some((_, whole)) if whole == body && mode == 0o600 => Ok(()),
        _ => Err(format!("`{path}` ({mode:o}) holds something else; {}", wrong())),
    }
}

/// What is known of an agent without asking us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Truth {
    /// How many messages were sent to it.
    messages: usize,
    /// How many of them its model was given.
    taken: usize,
    /// How often its model was asked.
    requests: usize,
    /// Whether its model is being asked.
    open: bool,
}

impl Truth {
    fn of(team: &Team, worker: &Worker) -> Self {
        let messages = team.sent_to(&worker.name);
        let turns: Vec<_> = worker.stub.requests().into_iter().filter(|it| it.kind == Asked::Turn).collect();
        let texts = turns.iter().flat_map(|it| &it.texts);
        let taken = texts.map(|it| it.matches("[Team message from leader to ").count()).sum();
        Self { messages, taken, requests: turns.len(), open: turns.iter().any(|it| it.outcome.is_none()) }
    }
}

/// Compares `status` with what the models see until it is told to stop; returns what was wrong.
fn watch(team: &Team, done: &AtomicBool) -> (usize, Vec<String>) {
    let (mut samples, mut wrong) = (0, Vec::new());
    // Since when each model has been in the same state.
    let mut since: BTreeMap<&str, (Instant, Truth)> = BTreeMap::new();
    while !done.load(Ordering::SeqCst) {
        for worker in &team.workers {
            let now = Truth::of(team, worker);
            let known = since.entry(&worker.name).or_insert((Instant::now(), now));
            if known.1 != now {
                *known = (Instant::now(), now);
            }
        }
        let begun = Instant::now();
        let status = team.crew.status();
        for worker in &team.workers {
            let (at, before) = since[worker.name.as_str()];
            let activity = &status["agents"][&worker.name]["activity"];
            let settled = begun.duration_since(at) > LAG && Truth::of(team, worker) == before;
            let wanted = match before {
                _ if !settled => continue,
                Truth { open: true, .. } => "working",
                Truth { messages, taken, .. } if messages == taken => "idle",
                // The program has it and has not asked its model yet, or it waits.
                _ => continue,
            };
            samples += 1;
            let honest = activity["state"] == "unknown" && activity["reason"].is_string();
            if activity["state"] != wanted && !honest {
                wrong.push(format!("{} was {wanted} for {:?}: {activity}", worker.name, begun - at));
            }
        }
        thread::sleep(LOOK);
    }
    (samples, wrong)
}

/// The whole scenario, for one provider.
fn messages_come_as_they_are(kind: Kind) {
    let Some(team) = Team::started(&[("w1", kind), ("w2", kind)]) else { return };
    // A file that is named in a text is not put in its place.
    for name in ["src/main.rs", "src/main"] {
        team.crew.ws.write(name, INSIDE);
    }
    let done = AtomicBool::new(false);
    let (all, (samples, wrong)) = thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&team, &done));
        let sending: Vec<_> = team
            .workers
            .iter()
            .enumerate()
            .map(|(at, it)| {
                let team = &team;
                scope.spawn(move || hand_over(team, it, at == 0))
            })
            .collect();
        let all: Vec<_> = sending.into_iter().map(thread::ScopedJoinHandle::join).collect();
        // A while at rest is watched, too.
        thread::sleep(LAG * 2);
        done.store(true, Ordering::SeqCst);
        (all, watching.join().expect("it watches"))
    });
    let mut faults: Vec<String> = wrong;
    for (worker, ids) in team.workers.iter().zip(all) {
        let ids = ids.expect("all were answered");
        assert_eq!(ids.len(), texts().len());
        let receipts = receipts(&team, &worker.name);
        for (id, (name, text)) in &ids {
            let name = format!("{} {} {name}", kind.provider, worker.name);
            if let Err(why) = came_as_it_is(&worker.stub, id, &cleaned(text)) {
                faults.push(format!("{name}: {why}"));
            }
            let receipt = &receipts[id];
            if receipt["attempts"] != 1 || receipt["step"] != "answered" {
                faults.push(format!("{name}: {receipt}"));
            }
            if let Err(why) = proved(&team, &worker.name, id) {
                faults.push(format!("{name}: {why}"));
            }
        }
    }
    let reads = |it: &Worker| it.stub.turns().iter().any(|it| it.says(INSIDE));
    if team.workers.iter().any(reads) {
        faults.push("the inside of a file stands in what was sent".to_owned());
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(samples > 20, "status was compared {samples} times only");
    reports_come_by_mcp(&team);
    team.finish();
}

/// Says whether the log holds a record of the agent's program that names the message.
fn proved(team: &Team, agent: &str, id: &str) -> Result<(), String> {
    let events = team.crew.ws.events();
    let of_it = |it: &&Value| match it["event"]["type"].as_str() {
        Some("message.submitted") => it["event"]["id"] == id && it["event"]["receiver"] == agent,
        Some("turn.started") => {
            it["event"]["messages"].as_array().is_some_and(|ids| ids.iter().any(|it| it == id))
        }
        _ => false,
    };
    let proofs: Vec<&Value> = events.iter().filter(of_it).collect();
    let filled = |it: &&Value| {
        let text = |name: &str| it["event"]["proof"][name].as_str().is_some_and(|it| !it.is_empty());
        text("source") && text("record")
    };
    if proofs.is_empty() || !proofs.iter().all(filled) {
        return Err(format!("no proof: {proofs:?}"));
    }
    Ok(())
}

fn reports_come_by_mcp(team: &Team) {
    for worker in &team.workers {
        let Worker { name, kind, .. } = worker;
        let call = format!(
            "stub: call {}report_result {{\"summary\":\"{name} is done\",\"status\":\"success\"}}\nstub: say reported",
            kind.tools
        );
        team.crew.ws.ok(["send", "--watch-result", name, &call]);
    }
    for task in 1..=team.workers.len() {
        team.crew.ws.ok(["wait", "--task", &task.to_string(), "--timeout", "90"]);
    }
    let collected = team.crew.ws.json(["collect"]);
    let results = collected["results"].as_array().cloned().unwrap_or_default();
    for worker in &team.workers {
        let of_it = |it: &&Value| it["summary"] == format!("{} is done", worker.name) && it["via"] == "mcp";
        assert_eq!(results.iter().filter(of_it).count(), 1, "{collected}");
    }
}

#[test]
fn claude_gets_each_of_twenty_messages_once_as_it_is() {
    messages_come_as_they_are(CLAUDE);
}

#[test]
fn codex_gets_each_of_twenty_messages_once_as_it_is() {
    messages_come_as_they_are(CODEX);
}

#[test]
#[ignore = "a minute long: a part of `cargo xtask test --real-all`"]
fn copilot_gets_each_of_twenty_messages_once_as_it_is() {
    messages_come_as_they_are(COPILOT);
}

#[test]
#[ignore = "a minute long: a part of `cargo xtask test --real-all`"]
fn gemini_gets_each_of_twenty_messages_once_as_it_is() {
    messages_come_as_they_are(GEMINI);
}

#[test]
#[ignore = "a minute long: a part of `cargo xtask test --real-all`"]
fn opencode_gets_each_of_twenty_messages_once_as_it_is() {
    messages_come_as_they_are(OPENCODE);
}
