//! The rules of TEAM.md that answer permission questions: `Tool` or `Tool(pattern)`, `*` for any text.
//!
//! Knows patterns. Must not know who asks or how an answer is given.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which permission questions are answered without a person.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approvals {
    /// What is allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// What is denied, also where it is allowed as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
}

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ruling<'a> {
    /// Whether the tool may run.
    pub allows: bool,
    /// The rule.
    pub pattern: &'a str,
}

/// Fields of a tool's input that say most of what it will do, the first one counts.
const SUBJECTS: &[&str] = &["command", "file_path", "notebook_path", "path", "url", "pattern"];

/// What makes more than one command of a line, or takes one from elsewhere.
const COMPOUND: &[char] = &[';', '&', '|', '<', '>', '$', '`', '(', ')', '{', '}', '\\', '\n', '\r'];

impl Approvals {
    /// Says whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.allow.is_empty() && self.deny.is_empty()
    }

    /// Finds the rule that answers a question about a tool and its input, which is JSON. A denial goes first.
    pub fn rule(&self, tool: &str, input: &str) -> Option<Ruling<'_>> {
        let subject = Subject::of(input);
        let denied = self.deny.iter().find(|it| matches(it, tool, |glob| subject.is_denied_by(glob)));
        if let Some(pattern) = denied {
            return Some(Ruling { allows: false, pattern });
        }
        let allowed = self.allow.iter().find(|it| matches(it, tool, |glob| subject.is_allowed_by(glob)));
        allowed.map(|pattern| Ruling { allows: true, pattern })
    }
}

/// Says what is wrong with a pattern.
pub(crate) fn check(pattern: &str, allows: bool) -> Result<(), String> {
    let (tool, glob) = split(pattern).ok_or_else(|| format!("`{pattern}` is no pattern for a tool"))?;
    let plain = |it: char| it.is_ascii_alphanumeric() || "_-.:*".contains(it);
    if tool.is_empty() || !tool.chars().all(plain) {
        return Err(format!("`{tool}` is no name of a tool"));
    }
    if allows && tool.chars().all(|it| it == '*') {
        return Err("a pattern that allows must name its tool".to_owned());
    }
    if glob.is_some_and(str::is_empty) {
        return Err(format!("`{pattern}` has nothing between its parentheses"));
    }
    Ok(())
}

fn split(pattern: &str) -> Option<(&str, Option<&str>)> {
    match pattern.split_once('(') {
        None => (!pattern.contains(')')).then_some((pattern, None)),
        Some((tool, rest)) => Some((tool, Some(rest.strip_suffix(')')?))),
    }
}

fn matches(pattern: &str, tool: &str, subject: impl Fn(&str) -> bool) -> bool {
    match split(pattern) {
        Some((name, glob)) => is_like(name, tool) && glob.is_none_or(subject),
        None => false,
    }
}

/// What a tool is about to work on.
struct Subject {
    text: Option<String>,
    is_command: bool,
}

impl Subject {
    /// An input that was cut is no JSON any more: nobody can say what it would do.
    fn of(input: &str) -> Self {
        let Ok(value) = serde_json::from_str::<Value>(input) else {
            return Self { text: None, is_command: false };
        };
        let named = SUBJECTS.iter().find_map(|key| Some((*key, value.get(key)?.as_str()?)));
        match named {
            Some((key, text)) => Self { text: Some(text.to_owned()), is_command: key == "command" },
            None => Self { text: Some(value.to_string()), is_command: false },
        }
    }

    /// A part that a star stands for must not smuggle in another command or another place.
    fn is_allowed_by(&self, glob: &str) -> bool {
        let Some(text) = &self.text else { return false };
        if !glob.contains('*') || glob.chars().all(|it| it == '*') {
            return is_like(glob, text);
        }
        let smuggles =
            if self.is_command { text.contains(COMPOUND) } else { text.split('/').any(|it| it == "..") };
        !smuggles && is_like(glob, text)
    }

    /// A command is denied for any part of its line.
    fn is_denied_by(&self, glob: &str) -> bool {
        let Some(text) = &self.text else { return false };
        let part = |it: &str| is_like(glob, it.trim());
        is_like(glob, text) || (self.is_command && text.split(COMPOUND).any(part))
    }
}

/// Says whether a text is like a pattern in which `*` stands for any text.
fn is_like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|it| text.strip_prefix(it)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str], deny: &[&str]) -> Approvals {
        let owned = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect();
        Approvals { allow: owned(allow), deny: owned(deny) }
    }

    fn answer(rules: &Approvals, tool: &str, input: &Value) -> &'static str {
        match rules.rule(tool, &input.to_string()) {
            None => "ask",
            Some(it) if it.allows => "allow",
            Some(_) => "deny",
        }
    }

    #[test]
    fn a_command_is_allowed_only_as_one_command() {
        let rules = rules(&["Bash(git status*)", "Bash(make; make test)"], &["Bash(git push*)"]);
        for (command, expected) in [
            ("git status", "allow"),
            ("git status --short", "allow"),
            ("git stash", "ask"),
            ("git status; rm -rf x", "ask"),
            ("git status && rm x", "ask"),
            ("git status $(rm x)", "ask"),
            ("git status `rm x`", "ask"),
            ("git status\nrm x", "ask"),
            ("git status > x", "ask"),
            ("make; make test", "allow"),
            ("git status; git push", "deny"),
            ("git push", "deny"),
        ] {
            assert_eq!(
                answer(&rules, "Bash", &serde_json::json!({ "command": command })),
                expected,
                "{command}"
            );
        }
        assert_eq!(answer(&rules, "Shell", &serde_json::json!({ "command": "git status" })), "ask");
    }

    #[test]
    fn a_path_is_allowed_only_below_what_is_written() {
        let rules = rules(&["Edit(/w/src/*)", "WebFetch", "mcp__docs__*"], &["Edit(*.env)"]);
        let edit = |path: &str| answer(&rules, "Edit", &serde_json::json!({ "file_path": path }));
        assert_eq!(edit("/w/src/a.rs"), "allow");
        assert_eq!(edit("/w/src/../x"), "ask");
        assert_eq!(edit("/w/src/.env"), "deny");
        assert_eq!(answer(&rules, "WebFetch", &serde_json::json!({ "url": "x" })), "allow");
        assert_eq!(answer(&rules, "mcp__docs__find", &serde_json::json!({})), "allow");
        assert_eq!(answer(&rules, "mcp__other__find", &serde_json::json!({})), "ask");
    }

    #[test]
    fn an_input_that_was_cut_matches_no_pattern() {
        let rules = rules(&["Bash(git*)"], &[]);
        assert_eq!(rules.rule("Bash", r#"{"command":"git status"#), None);
        assert_eq!(Approvals::default().rule("Bash", "{}"), None);
    }

    #[test]
    fn a_pattern_names_its_tool() {
        for right in ["Bash", "Bash(git status*)", "mcp__x__*", "Bash(echo (a))"] {
            assert_eq!(check(right, true), Ok(()), "{right}");
        }
        for wrong in ["*", "**(x)", "", "Bash(", "Bash()", "Bash)", "(x)", "a b"] {
            assert!(check(wrong, true).is_err(), "{wrong}");
        }
        assert_eq!(check("*", false), Ok(()));
    }
}
