//! The words a test puts into a message to say what the stubbed model does.
//!
//! Knows the grammar of directives and which of them are still to be carried out in a conversation. Must not
//! know any model's wire format: a protocol module turns its request into [`Turn`]s and plays the [`Act`]s.

use std::time::Duration;

use serde_json::{Value, json};

/// The mark in tool call ids that says how far a script had got when the call was made.
const CALL_ID_MARK: &str = "stub_";

/// What a user can be interrupted with; whatever was asked before it is given up.
pub(crate) const INTERRUPTED: [&str; 2] = ["[Request interrupted by user", "<turn_aborted>"];

/// How texts begin that the program adds by itself.
const ADDED: [&str; 7] = [
    "<system-reminder>",
    "<local-command-",
    "<command-name>",
    "<environment_context>",
    "# AGENTS.md instructions",
    INTERRUPTED[0],
    INTERRUPTED[1],
];

/// Closing tags that wrappers leave at the end of a directive's line.
const CLOSING_TAGS: [&str; 4] = ["</system-reminder>", "</task-notification>", "</summary>", "</event>"];

/// Who said something in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    User,
    Assistant,
}

/// One message of a conversation, reduced to what scripts need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) role: Role,
    /// The texts, without tool results.
    pub(crate) texts: Vec<String>,
    /// The ids of the tool calls made in it (assistant only).
    pub(crate) calls: Vec<String>,
}

/// One thing to do, as written in a message.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Directive {
    /// Says a text.
    Say(String),
    /// Calls a tool and goes on with the next directive when its result has come.
    Call { tool: String, input: Value },
    /// Runs a shell command by the program's own tool for that.
    Bash(String),
    /// Runs a shell command in such a way that the program asks a person for permission, where it has one.
    Ask(String),
    /// Does nothing for a while.
    Think(Duration),
    /// Refuses the request with an HTTP status: once if it says when to come again, else until somebody says
    /// something more.
    Error { status: u16, retry_after: Option<u64> },
    /// Says the user text that stands so many places before the present one.
    Recall(usize),
    /// Says a text spread over a time.
    Slow { lasts: Duration, text: String },
    /// Could not be understood; the stub says so instead of guessing.
    Bad(String),
}

/// A directive with its position among all directives of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Act {
    pub(crate) directive: Directive,
    pub(crate) position: usize,
}

impl Act {
    /// Returns an id for the tool call that this act makes, unique by `unique`.
    pub(crate) fn call_id(&self, prefix: &str, unique: &str) -> String {
        format!("{prefix}{CALL_ID_MARK}{}_{unique}", self.position)
    }

    /// Tells whether a reply ends with this act, because the program must answer first.
    pub(crate) fn ends_reply(&self) -> bool {
        matches!(
            self.directive,
            Directive::Call { .. } | Directive::Bash(_) | Directive::Ask(_) | Directive::Error { .. }
        )
    }
}

/// Returns the acts of one reply: those not yet carried out, up to and including the first that ends a reply.
///
/// `spent` says of an act that it was carried out without leaving a trace in the conversation, as a refused
/// request does.
pub(crate) fn next_acts(turns: &[Turn], spent: impl Fn(&Act) -> bool) -> Vec<Act> {
    let mut tape: Vec<Act> = Vec::new();
    let mut position = 0;
    for turn in turns {
        match turn.role {
            Role::User => {
                for text in &turn.texts {
                    if INTERRUPTED.iter().any(|it| text.trim_start().starts_with(it)) {
                        tape.clear();
                    }
                    for directive in directives(text) {
                        tape.push(Act { directive, position });
                        position += 1;
                    }
                }
            }
            Role::Assistant if turn.calls.is_empty() => tape.clear(),
            Role::Assistant => {
                let reached = turn.calls.iter().filter_map(|id| position_in_call_id(id)).max();
                tape.retain(|act| reached.is_none_or(|reached| act.position > reached));
            }
        }
    }
    tape.retain(|act| !spent(act));
    let end = tape.iter().position(Act::ends_reply).map_or(tape.len(), |index| index + 1);
    tape.truncate(end);
    tape
}

/// Returns every directive in a text, in order.
pub(crate) fn directives(text: &str) -> Vec<Directive> {
    text.lines().filter_map(directive_in_line).collect()
}

/// Returns the user text `back` places before the last one, with wrappers left as they are.
pub(crate) fn recall(turns: &[Turn], back: usize) -> Option<&str> {
    let said: Vec<&str> = turns
        .iter()
        .filter(|turn| turn.role == Role::User)
        .flat_map(|turn| turn.texts.iter())
        .map(|text| text.trim())
        .filter(|text| !text.is_empty() && !is_context(text))
        .collect();
    said.len().checked_sub(back + 1).and_then(|index| said.get(index).copied())
}

/// Tells whether a text is something the program adds by itself, not something somebody said.
pub(crate) fn is_context(text: &str) -> bool {
    ADDED.iter().any(|start| text.trim_start().starts_with(start)) && directives(text).is_empty()
}

/// Returns a number that grows with whatever is said, and that a retry leaves as it is.
pub(crate) fn length(turns: &[Turn]) -> usize {
    turns.iter().flat_map(|turn| &turn.texts).map(String::len).sum()
}

fn position_in_call_id(id: &str) -> Option<usize> {
    let (_, rest) = id.split_once(CALL_ID_MARK)?;
    rest.split('_').next()?.parse().ok()
}

/// Finds `stub: VERB ...` at the start of a line or right behind a wrapper (`>`, `]` or `:`).
fn directive_in_line(line: &str) -> Option<Directive> {
    let mut from = 0;
    while let Some(found) = line[from..].find("stub:") {
        let at = from + found;
        let before = line[..at].trim_end();
        let body = line[at + "stub:".len()..].trim();
        if (before.is_empty() || before.ends_with(['>', ']', ':']))
            && let Some(directive) = parse(strip_closing_tags(body))
        {
            return Some(directive);
        }
        from = at + "stub:".len();
    }
    None
}

fn strip_closing_tags(mut body: &str) -> &str {
    while let Some(shorter) = CLOSING_TAGS.iter().find_map(|tag| body.trim_end().strip_suffix(tag)) {
        body = shorter;
    }
    body.trim_end()
}

/// Parses what follows `stub:`; `None` if it does not begin with a verb, `Bad` if the verb's rest is wrong.
fn parse(body: &str) -> Option<Directive> {
    let (verb, rest) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
    let rest = rest.trim();
    let bad = || Directive::Bad(body.to_owned());
    Some(match verb {
        "say" => Directive::Say(rest.to_owned()),
        "call" => parse_call(rest).unwrap_or_else(bad),
        "bash" | "ask" if rest.is_empty() => bad(),
        "bash" => Directive::Bash(rest.to_owned()),
        "ask" => Directive::Ask(rest.to_owned()),
        "think" => rest.parse().map_or_else(|_| bad(), |ms| Directive::Think(Duration::from_millis(ms))),
        "error" => parse_error(rest).unwrap_or_else(bad),
        "recall" => rest.parse().map_or_else(|_| bad(), Directive::Recall),
        "slow" => parse_slow(rest).unwrap_or_else(bad),
        _ => return None,
    })
}

fn parse_call(rest: &str) -> Option<Directive> {
    let (tool, input) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    if tool.is_empty() {
        return None;
    }
    let input = match input.trim() {
        "" => json!({}),
        text => serde_json::from_str(text).ok().filter(Value::is_object)?,
    };
    Some(Directive::Call { tool: tool.to_owned(), input })
}

fn parse_error(rest: &str) -> Option<Directive> {
    let mut words = rest.split_whitespace();
    let status = words.next()?.parse().ok().filter(|status| (400..600).contains(status))?;
    let retry_after = match words.next() {
        Some(word) => Some(word.strip_prefix("retry-after=").unwrap_or(word).parse().ok()?),
        None => None,
    };
    Some(Directive::Error { status, retry_after })
}

fn parse_slow(rest: &str) -> Option<Directive> {
    let (ms, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let lasts = Duration::from_millis(ms.parse().ok()?);
    let text = if text.trim().is_empty() { "still at it" } else { text.trim() };
    Some(Directive::Slow { lasts, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> Turn {
        Turn { role: Role::User, texts: vec![text.to_owned()], calls: Vec::new() }
    }

    fn said() -> Turn {
        Turn { role: Role::Assistant, texts: vec!["x".to_owned()], calls: Vec::new() }
    }

    fn called(act: &Act) -> Turn {
        Turn { role: Role::Assistant, texts: Vec::new(), calls: vec![act.call_id("toolu_", "f00")] }
    }

    fn result() -> Turn {
        Turn { role: Role::User, texts: Vec::new(), calls: Vec::new() }
    }

    fn say(text: &str) -> Directive {
        Directive::Say(text.to_owned())
    }

    fn check(turns: &[Turn], expected: &[Directive]) {
        let acts: Vec<Directive> = next_acts(turns, |_| false).into_iter().map(|act| act.directive).collect();
        assert_eq!(acts, expected);
    }

    #[test]
    fn a_directive_stands_at_the_start_of_a_line_or_behind_a_wrapper() {
        let wrapped = "<task-notification>\n<summary>message</summary>\n</task-notification>\n\
                       <system-reminder>\nFrom your team: [Team message from a to b:] stub: say hi\n</system-reminder>";
        assert_eq!(directives(wrapped), [say("hi")]);
        assert_eq!(directives("<system-reminder>stub: say hi</system-reminder>"), [say("hi")]);
        assert_eq!(
            directives("  stub: say a\nplain\nstub: think 5"),
            [say("a"), Directive::Think(Duration::from_millis(5))]
        );
        assert_eq!(directives("write `stub: say x` in a message"), []);
        assert_eq!(directives("the stub: sayings"), []);
    }

    #[test]
    fn a_directive_that_cannot_be_understood_is_named_not_guessed() {
        for line in [
            "stub: think soon",
            "stub: call",
            "stub: call T [1]",
            "stub: call T {",
            "stub: error 42",
            "stub: bash",
        ] {
            let body = line.strip_prefix("stub: ").expect("every line has the prefix");
            assert_eq!(directives(line), [Directive::Bad(body.to_owned())]);
        }
    }

    #[test]
    fn an_error_may_name_when_to_come_again() {
        assert_eq!(directives("stub: error 529"), [Directive::Error { status: 529, retry_after: None }]);
        assert_eq!(directives("stub: error 429 2"), [Directive::Error { status: 429, retry_after: Some(2) }]);
        assert_eq!(
            directives("stub: error 429 retry-after=2"),
            [Directive::Error { status: 429, retry_after: Some(2) }]
        );
    }

    #[test]
    fn a_script_goes_on_behind_each_tool_result_of_its_turn() {
        let script = user("stub: say a\nstub: bash ls\nstub: call T {\"x\":1}\nstub: say b");
        let mut turns = vec![script];
        check(&turns, &[say("a"), Directive::Bash("ls".to_owned())]);
        let acts = next_acts(&turns, |_| false);
        turns.extend([called(&acts[1]), result()]);
        check(&turns, &[Directive::Call { tool: "T".to_owned(), input: json!({"x": 1}) }]);
        let acts = next_acts(&turns, |_| false);
        turns.extend([called(&acts[0]), result()]);
        check(&turns, &[say("b")]);
    }

    #[test]
    fn a_message_taken_up_inside_a_turn_follows_the_script_that_runs() {
        let mut turns = vec![user("stub: bash ls\nstub: say a")];
        let acts = next_acts(&turns, |_| false);
        turns.extend([called(&acts[0]), result(), user("stub: say b")]);
        check(&turns, &[say("a"), say("b")]);
    }

    #[test]
    fn what_a_finished_turn_asked_is_not_done_again() {
        check(&[user("stub: say a"), said(), user("hello")], &[]);
        check(&[user("stub: say a"), said(), user("stub: say b")], &[say("b")]);
    }

    #[test]
    fn what_was_interrupted_or_spent_is_not_done_again() {
        check(
            &[user("stub: think 9000"), user("[Request interrupted by user]"), user("stub: say b")],
            &[say("b")],
        );
        let turns = [user("stub: error 529"), user("stub: say b")];
        let acts: Vec<Directive> =
            next_acts(&turns, |act| act.position == 0).into_iter().map(|act| act.directive).collect();
        assert_eq!(acts, [say("b")]);
    }

    #[test]
    fn recall_counts_back_from_the_present_text_and_skips_added_context() {
        let turns = [
            user("<system-reminder>about the project</system-reminder>"),
            user("first"),
            said(),
            user("<local-command-stdout>Bye!</local-command-stdout>"),
            user("second"),
            said(),
            user("stub: recall 2"),
        ];
        assert_eq!(recall(&turns, 1), Some("second"));
        assert_eq!(recall(&turns, 2), Some("first"));
        assert_eq!(recall(&turns, 3), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_too_odd_to_be_read(text in "(stub: ?(say|call|bash|think|error|recall|slow|nonsense)|[<>:/\\]{}0-9 \\n\"é])*") {
            let turns = [user(&text), said(), user(&text)];
            let acts = next_acts(&turns, |_| false);
            let asked = directives(&text).len();
            proptest::prop_assert!(acts.len() <= asked);
            // What the first turn asked is over; the positions go on behind it, one by one.
            for (index, act) in acts.iter().enumerate() {
                proptest::prop_assert_eq!(act.position, asked + index);
            }
            proptest::prop_assert!(acts.iter().rev().skip(1).all(|act| !act.ends_reply()));
        }
    }
}
