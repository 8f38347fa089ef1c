//! The keys of one front matter, read one by one while errors are gathered.
//!
//! Knows which kind of value a key holds. Must not know what values mean.

use std::ops::Range;

use team_model::fold_case;

use crate::error::{SpecError, quoted};
use crate::known::list;
use crate::similar::did_you_mean;
use crate::text::Text;
use crate::yaml::{self, Node, Value};

/// The keys that a kind of file may have.
pub(crate) struct Keys {
    /// What this build reads.
    pub(crate) accepted: &'static [&'static str],
    /// What later builds will read.
    pub(crate) reserved: &'static [&'static str],
    /// What belongs to the other kind of file, and what that is called.
    pub(crate) elsewhere: (&'static [&'static str], &'static str),
}

/// A value and the bytes it stands at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Located<T> {
    /// The value.
    pub(crate) value: T,
    /// Its bytes in the file.
    pub(crate) at: Range<usize>,
}

/// The keys and values of one file.
pub(crate) struct Fields<'a> {
    text: &'a Text,
    entries: Vec<(String, Range<usize>, Node)>,
    broken: bool,
    /// What was wrong so far.
    pub(crate) errors: Vec<SpecError>,
}

impl<'a> Fields<'a> {
    /// Reads the front matter and complains about every key that is not accepted.
    pub(crate) fn read(text: &'a Text, head: Range<usize>, keys: &Keys) -> Self {
        let mut fields = Self { text, entries: Vec::new(), broken: false, errors: Vec::new() };
        match yaml::parse(text, head) {
            Ok(entries) => {
                for (key, value) in entries {
                    fields.add(key, value, keys);
                }
            }
            Err(error) => {
                fields.broken = true;
                fields.errors.push(error);
            }
        }
        fields
    }

    fn add(&mut self, key: Node, value: Node, keys: &Keys) {
        let Value::Text(name) = &key.value else {
            let message = format!("a key must be a word, found {}", key.describe(self.text));
            self.wrong(key.at, message, None);
            return;
        };
        let name = name.clone();
        if let Some((_, first, _)) = self.entries.iter().find(|it| it.0 == name) {
            let message =
                format!("{} stands twice, first in line {}", quoted(&name), self.text.line(first.start));
            self.wrong(key.at, message, Some("keep one of the two".to_owned()));
            return;
        }
        if keys.reserved.contains(&name.as_str()) {
            self.wrong(
                key.at.clone(),
                format!("`{name}` is not supported yet"),
                Some("remove the key; a later version reads it".to_owned()),
            );
        } else if !keys.accepted.contains(&name.as_str()) {
            let hint = if keys.elsewhere.0.contains(&name.as_str()) {
                format!("`{name}` belongs in {}", keys.elsewhere.1)
            } else {
                did_you_mean(&name, keys.accepted.iter().copied())
                    .unwrap_or_else(|| format!("known keys: {}", list(keys.accepted.iter().copied())))
            };
            self.wrong(key.at.clone(), format!("unknown key {}", quoted(&name)), Some(hint));
        }
        self.entries.push((name, key.at, value));
    }

    /// Takes note of something wrong.
    pub(crate) fn wrong(&mut self, at: Range<usize>, message: impl Into<String>, hint: Option<String>) {
        let mut error = self.text.error(at, message);
        error.hint = hint;
        self.errors.push(error);
    }

    /// Returns the value of a key, unless it is absent or empty.
    fn value(&self, key: &str) -> Option<Node> {
        let (_, _, node) = self.entries.iter().find(|it| it.0 == key)?;
        (!matches!(node.value, Value::Null)).then(|| node.clone())
    }

    /// Says whether a key has a value, right or wrong.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Returns where the value of a key stands.
    pub(crate) fn at(&self, key: &str) -> Range<usize> {
        self.value(key).map_or(0..0, |it| it.at)
    }

    /// Says whether nothing could be read at all.
    pub(crate) fn unreadable(&self) -> bool {
        self.broken
    }

    /// Returns a text that is not blank.
    pub(crate) fn text(&mut self, key: &str) -> Option<Located<String>> {
        let node = self.value(key)?;
        self.as_text(key, node)
    }

    /// Returns a text of one line.
    pub(crate) fn line(&mut self, key: &str) -> Option<Located<String>> {
        let found = self.text(key)?;
        let value = found.value.trim();
        if value.chars().any(char::is_control) {
            self.wrong(found.at, format!("`{key}` must be one line without control characters"), None);
            return None;
        }
        Some(Located { value: value.to_owned(), at: found.at })
    }

    /// Returns one of a few words; any other is an error with the nearest word.
    pub(crate) fn word<T: Copy>(
        &mut self,
        key: &str,
        known: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Option<Located<T>> {
        let found = self.text(key)?;
        if let Some(it) = known.iter().copied().find(|it| name(*it) == found.value) {
            return Some(Located { value: it, at: found.at });
        }
        let words: Vec<&str> = known.iter().map(|it| name(*it)).collect();
        let all = format!("one of {}", list(words.iter().copied()));
        let hint =
            did_you_mean(&found.value, words).map_or_else(|| all.clone(), |it| format!("{it} It is {all}"));
        self.wrong(found.at, format!("`{key}` cannot be {}", quoted(&found.value)), Some(hint));
        None
    }

    /// Returns a truth value.
    pub(crate) fn truth(&mut self, key: &str) -> Option<Located<bool>> {
        let node = self.value(key)?;
        if let Value::Bool(value) = node.value {
            return Some(Located { value, at: node.at });
        }
        let hint = match &node.value {
            Value::Text(it) => match fold_case(it).as_str() {
                "yes" | "on" | "true" => Some("write `true`".to_owned()),
                "no" | "off" | "false" => Some("write `false`".to_owned()),
                _ => None,
            },
            _ => None,
        };
        let message = format!("`{key}` must be `true` or `false`, found {}", node.describe(self.text));
        self.wrong(node.at, message, hint);
        None
    }

    /// Returns a list of texts; with `single`, that text alone may stand for it.
    pub(crate) fn texts(&mut self, key: &str, single: &str) -> Option<Vec<Located<String>>> {
        let node = self.value(key)?;
        match node.value {
            Value::List(list) => Some(list.into_iter().filter_map(|it| self.as_text(key, it)).collect()),
            Value::Text(it) if it == single => Some(vec![Located { value: it, at: node.at }]),
            _ => {
                let message = format!("`{key}` must be a list, found {}", node.describe(self.text));
                let hint = match &node.value {
                    Value::Text(it) => {
                        let words: Vec<&str> =
                            it.split([',', ' ']).map(str::trim).filter(|it| !it.is_empty()).collect();
                        Some(format!("write `{key}: [{}]`", words.join(", ")))
                    }
                    _ => None,
                };
                self.wrong(node.at, message, hint);
                None
            }
        }
    }

    /// Returns a map of lists of texts, in the order of the file.
    pub(crate) fn lists(&mut self, key: &str) -> Vec<(Located<String>, Vec<Located<String>>)> {
        let Some(node) = self.value(key) else { return Vec::new() };
        let Value::Map(entries) = node.value else {
            let message =
                format!("`{key}` must be a map of `name: [..]` lines, found {}", node.describe(self.text));
            self.wrong(node.at, message, None);
            return Vec::new();
        };
        let mut lists: Vec<(Located<String>, Vec<Located<String>>)> = Vec::new();
        for (name, value) in entries {
            let Some(name) = self.as_text(key, name) else { continue };
            if lists.iter().any(|it| it.0.value == name.value) {
                let hint = Some("keep one of the two".to_owned());
                self.wrong(name.at, format!("{} stands twice", quoted(&name.value)), hint);
                continue;
            }
            match value.value {
                Value::Null => {}
                Value::List(list) => {
                    let texts = list.into_iter().filter_map(|it| self.as_text(&name.value, it)).collect();
                    lists.push((name, texts));
                }
                _ => {
                    let message =
                        format!("`{}` must be a list, found {}", name.value, value.describe(self.text));
                    self.wrong(value.at, message, None);
                }
            }
        }
        lists
    }

    /// Returns a map of texts, in the order of the file.
    pub(crate) fn pairs(&mut self, key: &str) -> Vec<(Located<String>, Located<String>)> {
        let Some(node) = self.value(key) else { return Vec::new() };
        let Value::Map(entries) = node.value else {
            let message =
                format!("`{key}` must be a map of `name: value` lines, found {}", node.describe(self.text));
            self.wrong(node.at, message, None);
            return Vec::new();
        };
        let mut pairs: Vec<(Located<String>, Located<String>)> = Vec::new();
        for (name, value) in entries {
            let Some(name) = self.as_text(key, name) else { continue };
            if let Some((first, _)) = pairs.iter().find(|it| it.0.value == name.value) {
                let message = format!(
                    "{} stands twice, first in line {}",
                    quoted(&name.value),
                    self.text.line(first.at.start)
                );
                self.wrong(name.at, message, Some("keep one of the two".to_owned()));
                continue;
            }
            if let Some(value) = self.as_text(&name.value, value) {
                pairs.push((name, value));
            }
        }
        pairs
    }

    fn as_text(&mut self, key: &str, node: Node) -> Option<Located<String>> {
        let key = quoted(key);
        match node.value {
            Value::Text(it) if it.trim().is_empty() => {
                self.wrong(node.at, format!("{key} is empty"), None);
                None
            }
            Value::Text(value) => Some(Located { value, at: node.at }),
            _ => {
                let message = format!("{key} must be a text, found {}", node.describe(self.text));
                let hint = match node.value {
                    Value::Bool(_) | Value::Number => self
                        .text
                        .content
                        .get(node.at.clone())
                        .map(|it| format!("write it in quotes: `\"{it}\"`")),
                    _ => None,
                };
                self.wrong(node.at, message, hint);
                None
            }
        }
    }
}
