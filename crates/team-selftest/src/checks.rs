//! The promises, in the order in which they are tried.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::interrupt;
use crate::person::Person;
use crate::world::{AGENT, Answer, World, until};
use crate::{Check, Figures};

/// How long a program may take to start.
const START: Duration = Duration::from_secs(120);
/// How long anything else may take.
const SOON: Duration = Duration::from_secs(60);
/// How long a command may take that waits for nothing.
const AT_ONCE: Duration = Duration::from_secs(20);

/// How often Enter is pressed for one draft.
const ENTERS: u32 = 4;

/// How many questions one command may raise.
const QUESTIONS: u32 = 3;

/// The first of all: what a program is likeliest to forget when it goes on.
const FIRST: &str = "the first words: 42 geese";
const BUSY: &str = "words to a busy agent";
const DRAFT: &str = "half-a-thought";

/// What was seen: it holds, with how it showed; or it does not.
type Seen = Result<String, String>;
/// Tries one promise.
type Promise = fn(&World) -> Seen;

/// Tries one promise after the other.
pub(crate) fn run(world: &World, tell: &mut dyn FnMut(Check)) {
    let provider = world.provider.name().to_owned();
    let check = |name, seen: Seen| {
        let ok = seen.is_ok();
        let detail = seen.unwrap_or_else(|it| it);
        Check { provider: provider.clone(), name, ok, tried: true, detail, figures: Figures::default() }
    };
    let not_tried = |name, why: &str| Check {
        provider: provider.clone(),
        name,
        ok: false,
        tried: false,
        detail: why.to_owned(),
        figures: Figures::default(),
    };
    let since = Instant::now();
    let started = start(world);
    let took = since.elapsed();
    let begun = started.is_ok();
    let figures = if begun { measured(world, took) } else { Figures::default() };
    if interrupt::exit_code().is_some() {
        return;
    }
    tell(Check { figures, ..check("start without dialog", started) });
    let all: [(&'static str, Promise); 9] = [
        ("ready proof", ready),
        ("message idle", idle),
        ("message busy", busy),
        ("100 KB and CJK exact", exact),
        ("report by MCP", report),
        ("draft untouched", draft),
        ("dialog untouched", dialog),
        ("approval answered", approval),
        ("resume proved", resume),
    ];
    for (name, promise) in all {
        let seen = if begun { check(name, promise(world)) } else { not_tried(name, "it did not start") };
        // What was cut short has neither held nor failed.
        if interrupt::exit_code().is_some() {
            return;
        }
        tell(seen);
    }
    tell(not_tried("fork proved", "no command makes a fork yet"));
    tell(check("nothing left behind", leaves_nothing(world)));
}

fn measured(world: &World, took: Duration) -> Figures {
    let memory = world.agent()["session"]["pid"].as_u64().and_then(World::memory_below);
    Figures {
        start_ms: u64::try_from(took.as_millis()).ok(),
        memory_kib: memory.map(|it| it.0),
        processes: memory.map(|it| it.1),
    }
}

fn start(world: &World) -> Seen {
    let answer = world.run(&["quick-start", "--headless"], START);
    if answer.code == Some(0) && answer.json["ready"] == true {
        return Ok("no question was on its screen".to_owned());
    }
    let explained = world.run(&["explain", AGENT], AT_ONCE).json;
    Err(format!("{}; {}", answer.error(), explained["why"].as_str().unwrap_or_default()))
}

fn ready(world: &World) -> Seen {
    let agent = world.agent();
    let proof = &agent["activity"]["evidence"];
    if agent["session"]["state"] == "running" && agent["activity"]["state"] == "idle" && !proof.is_null() {
        Ok(format!("idle, by {}", words(proof)))
    } else {
        Err(agent.to_string())
    }
}

fn idle(world: &World) -> Seen {
    let text = format!("{FIRST}\n{}", world.other_end.say("heard"));
    let sent = send(world, &text, "answered", SOON);
    came_once(world, FIRST, &sent)
}

fn busy(world: &World) -> Seen {
    let slow = send(world, &world.other_end.busy(4000), "turn_started", SOON);
    if slow.code != Some(0) {
        return Err(slow.error());
    }
    let words = BUSY;
    let sent = send(world, &format!("{words}\n{}", world.other_end.say("heard")), "answered", SOON);
    came_once(world, words, &sent)
}

/// A text that is easily cut, trimmed or changed on its way.
fn exact(world: &World) -> Seen {
    let line = "请检查 ① 👩\u{200d}👩\u{200d}👧 e\u{301} ﷽ \"quoted\" 'so' `and` $HOME \\ end\n";
    let text: String = line.repeat(100_000 / line.len() + 1);
    let sent = send(world, &text, "answered", SOON);
    if sent.code != Some(0) {
        return Err(shown(&sent));
    }
    match world.other_end.times(text.trim_end()) {
        1 => Ok("byte for byte, once".to_owned()),
        0 if world.other_end.as_file(text.trim_end()) => Ok("as a file, byte for byte".to_owned()),
        count => Err(format!("it came {count} times as it was")),
    }
}

fn report(world: &World) -> Seen {
    let summary = "it was reported";
    let text = world.other_end.report(world.provider, summary);
    let sent = world.run(&["send", "--watch-result", AGENT, &text], AT_ONCE);
    let Some(task) = sent.json["task"].as_str().map(str::to_owned).or_else(|| first_task(&sent.json)) else {
        return Err(shown(&sent));
    };
    let waited = world.run(&["wait", "--task", &task, "--timeout", "60"], SOON + AT_ONCE);
    if waited.code != Some(0) {
        return Err(waited.error());
    }
    let collected = world.run(&["collect"], AT_ONCE);
    if collected.json.to_string().contains(summary) {
        Ok("collected".to_owned())
    } else {
        Err(format!("not among what was collected: {}", collected.json))
    }
}

/// A draft is still there, whole, when a message has come or waits.
fn draft(world: &World) -> Seen {
    let mut person = sit_down(world)?;
    person.types(DRAFT);
    if !person.sees(DRAFT, AT_ONCE) {
        return Err("what was typed did not show".to_owned());
    }
    person.leaves();
    let words = "words beside a draft";
    let sent = send(
        world,
        &format!("{words}\n{}", world.other_end.say("heard")),
        "answered",
        Duration::from_secs(8),
    );
    let held = receipt(&sent.json)["reason"].as_str().unwrap_or_default().to_owned();
    let how = match sent.code {
        Some(0) if world.other_end.times(words) == 1 => "a message came beside it".to_owned(),
        Some(4) if held == "draft" && world.other_end.times(words) == 0 => {
            "a message waits for it".to_owned()
        }
        _ => return Err(shown(&sent)),
    };
    let mut person = sit_down(world)?;
    // An Enter that comes too soon after other input is a new line to some programs; a person presses it again.
    let came = (0..ENTERS).any(|_| {
        person.types("\r");
        until(SOON / ENTERS, || world.other_end.times(DRAFT) > 0)
    });
    person.leaves();
    let then = until(SOON, || world.other_end.times(words) == 1);
    match (came, world.other_end.times(DRAFT), then) {
        (true, 1, true) => Ok(how),
        (_, count, then) => Err(format!("the draft came {count} times, the message {then}")),
    }
}

/// A message that comes while a question is open does not answer it.
fn dialog(world: &World) -> Seen {
    let file = world.base().join("made-with-permission");
    let command = format!("touch {}", file.display());
    let asked = send(world, &world.other_end.ask_to_run(&command), "submitted", SOON);
    if asked.code != Some(0) {
        return Err(shown(&asked));
    }
    if !until(SOON, || world.agent()["activity"]["state"] == "awaiting_approval") {
        return Err(format!("no question is told: {}", world.agent()["activity"]));
    }
    let words = "words to an agent that asks";
    let sent = send(
        world,
        &format!("{words}\n{}", world.other_end.say("heard")),
        "submitted",
        Duration::from_secs(4),
    );
    if file.exists() || world.agent()["activity"]["state"] != "awaiting_approval" {
        return Err("the question is gone".to_owned());
    }
    Ok(format!("the message is {}", words_of(receipt(&sent.json))))
}

/// Goes on where [`dialog`] ended.
fn approval(world: &World) -> Seen {
    let file = world.base().join("made-with-permission");
    let open = || {
        let open = world.run(&["approvals", AGENT], AT_ONCE);
        open.json["approvals"][0]["request_id"].as_str().map(str::to_owned)
    };
    if open().is_none() {
        return Err("it is in no list".to_owned());
    }
    // A program may ask about the place first, then about the command.
    for _ in 0..QUESTIONS {
        if let Some(request) = open() {
            let answered = world.run(&["approve", AGENT, &request, "--allow"], SOON);
            if answered.code != Some(0) {
                return Err(answered.error());
            }
        }
        if until(SOON, || file.exists() || open().is_some()) && file.exists() {
            break;
        }
    }
    if !file.exists() {
        return Err("what was allowed was not done".to_owned());
    }
    let words = "words to an agent that asks";
    if !until(SOON, || world.other_end.times(words) > 0) {
        return Err("the message that waited did not come".to_owned());
    }
    match world.other_end.times(words) {
        1 => Ok("allowed by command; what waited has come once".to_owned()),
        count => Err(format!("the message that waited came {count} times")),
    }
}

fn resume(world: &World) -> Seen {
    let before = world.agent()["session"]["native"].clone();
    let stopped = world.run(&["shutdown"], AT_ONCE);
    if stopped.code != Some(0) {
        return Err(stopped.error());
    }
    let begun = world.run(&["restart", "--headless"], START);
    if begun.code != Some(0) {
        return Err(begun.error());
    }
    let after = world.agent()["session"]["native"].clone();
    if before != after {
        return Err(format!("conversation {} goes on as {}", words(&before), words(&after)));
    }
    let text = "words after a restart";
    let sent = send(world, &format!("{text}\n{}", world.other_end.say("heard")), "answered", SOON);
    came_once(world, text, &sent)?;
    match world.other_end.remembers(FIRST, text) {
        Some(false) => Err("its model was not told of what was said before".to_owned()),
        _ => Ok(format!("conversation {}", words(&after))),
    }
}

fn leaves_nothing(world: &World) -> Seen {
    let stopped = world.run(&["shutdown"], AT_ONCE);
    let began = stopped.json.pointer("/error/code").is_none_or(|it| it != "not_started");
    if stopped.code != Some(0) && began {
        return Err(stopped.error());
    }
    let mut left = world.left_over();
    until(Duration::from_secs(2), || {
        left = world.left_over();
        left.as_ref().is_none_or(Vec::is_empty)
    });
    match left {
        Some(left) if left.is_empty() => Ok("no process".to_owned()),
        Some(left) => Err(left.join(", ")),
        None => Err("this system does not list processes in /proc".to_owned()),
    }
}

fn sit_down(world: &World) -> Result<Person, String> {
    let mut command = world.command();
    command.args(["attach", AGENT, "--type"]);
    let person = Person::at(command).map_err(|it| it.to_string())?;
    // The program's screen is there once anything is drawn.
    if person.sees("\u{1b}[", AT_ONCE) { Ok(person) } else { Err("`attach` shows nothing".to_owned()) }
}

fn send(world: &World, text: &str, step: &str, patience: Duration) -> Answer {
    let seconds = patience.as_secs().to_string();
    // A long text does not fit on a command line.
    let file = world.base().join("message");
    if let Err(error) = std::fs::write(&file, text) {
        return Answer { code: None, json: serde_json::json!({ "error": { "message": error.to_string() } }) };
    }
    let path = file.to_string_lossy().into_owned();
    world.run(&["send", AGENT, "-f", &path, "--wait", step, "--timeout", &seconds], patience + AT_ONCE)
}

fn came_once(world: &World, text: &str, sent: &Answer) -> Seen {
    let count = world.other_end.times(text);
    if sent.code == Some(0) && count == 1 {
        Ok(format!("once, {}", words_of(receipt(&sent.json))))
    } else {
        Err(format!("it came {count} times; {}", shown(sent)))
    }
}

fn receipt(sent: &Value) -> &Value {
    &sent["receivers"][0]["receipt"]
}

fn first_task(sent: &Value) -> Option<String> {
    let task = &sent["receivers"][0]["task"];
    task.as_str().map(str::to_owned).or_else(|| task.as_u64().map(|it| it.to_string()))
}

fn shown(sent: &Answer) -> String {
    match receipt(&sent.json) {
        Value::Null => sent.error(),
        receipt => words_of(receipt),
    }
}

/// A receipt in words.
fn words_of(receipt: &Value) -> String {
    let part = |name: &str| receipt[name].as_str().map(str::to_owned);
    [part("step"), part("reason")].into_iter().flatten().collect::<Vec<_>>().join(": ")
}

/// A value without quotes.
fn words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
