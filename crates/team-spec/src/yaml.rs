//! Front matter as a tree of values, each with its place.
//!
//! Knows YAML. Must not know any key. Keys that appear twice are kept twice, so
//! that whoever reads the tree can name both places.

use std::fmt;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, Location, NonFiniteFloatPolicy, Spanned, UserMessageFormatter};

use crate::error::{SpecError, quoted};
use crate::text::Text;

/// A value and the bytes it stands at.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// What stands there.
    pub(crate) value: Value,
    /// The bytes of the file; empty for blocks and absent values.
    pub(crate) at: Range<usize>,
}

/// What a value is.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// Any number.
    Number,
    /// Any other single value.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// Keys with values, in the order of the file.
    Map(Vec<(Node, Node)>),
}

impl Node {
    /// Says what stands there, for "found ...".
    pub(crate) fn describe(&self, text: &Text) -> String {
        let source = || quoted(text.content.get(self.at.clone()).unwrap_or_default());
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(it) => format!("the truth value `{it}`"),
            Value::Number => format!("the number {}", source()),
            Value::Text(it) => format!("the text {}", quoted(it)),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }
}

/// Parses the front matter, which must be a map or empty.
pub(crate) fn parse(text: &Text, head: Range<usize>) -> Result<Vec<(Node, Node)>, SpecError> {
    let source = &text.content[head];
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: 32,
            max_nodes: 20_000,
            max_events: 50_000,
            max_aliases: 1_000,
            max_anchors: 200,
        },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        strict_booleans: true,
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    };
    let root: Spanned<Raw> = serde_saphyr::from_str_with_options(source, options)
        .map_err(|cause| syntax_error(text, source, &cause))?;
    let root = node(root, source);
    match root.value {
        Value::Map(entries) => Ok(entries),
        Value::Null => Ok(Vec::new()),
        _ => Err(text
            .error(
                root.at.clone(),
                format!("the front matter must be `key: value` lines, found {}", root.describe(text)),
            )
            .with_hint("write lines such as `name: coder`")),
    }
}

/// Turns an error of the parser into one for people who write these files.
fn syntax_error(text: &Text, source: &str, cause: &serde_saphyr::Error) -> SpecError {
    let place = cause.location().map_or(0..0, |it| bytes(it, source));
    let shown = cause.render_with_formatter(&UserMessageFormatter);
    let problem = shown.rsplit_once(" at line ").map_or(shown.as_str(), |it| it.0).to_owned();
    let begin = source[..place.start.min(source.len())].rfind('\n').map_or(0, |it| it + 1);
    let line = source[begin..].lines().next().unwrap_or_default();
    let before = &line[..place.start.saturating_sub(begin).min(line.len())];
    let rest = line.get(before.len()..).unwrap_or_default();

    if problem.contains("mapping values are not allowed") {
        if let Some((key, value)) = line.split_once(':').filter(|(key, _)| key.len() < before.len()) {
            return text
                .error(place, "a value with `: ` in it must stand in quotes")
                .with_hint(format!("write `{key}: {}`", in_quotes(value.trim())));
        }
        return text
            .error(place, "this line is indented as if it belonged to the value above")
            .with_hint("begin all keys of one level in the same column");
    }
    // The parser may stumble a line later.
    let mut at = 0;
    for line in source.split_inclusive('\n') {
        let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
        if line[..blank].contains('\t') && !line.trim().is_empty() {
            let error = text.error(at..at + blank, "a tab cannot indent a line");
            return error.with_hint("use blanks, not tabs");
        }
        at += line.len();
    }
    let unquoted = rest.split_whitespace().next().unwrap_or_default();
    if problem.contains("anchor or alias") && unquoted.starts_with('*') {
        return text.error(place, "a bare `*` begins a reference").with_hint("write it in quotes: `\"*\"`");
    }
    if problem.contains("unknown value") {
        return text
            .error(place, format!("nothing above is marked with `&{}`", unquoted.trim_start_matches('*')))
            .with_hint(format!("if a text is meant, write it in quotes: `{}`", in_quotes(unquoted)));
    }
    if problem.contains("unexpected character") && rest.starts_with(['@', '`', '%']) {
        let first = rest.chars().next().unwrap_or_default();
        return text
            .error(place, format!("an unquoted value cannot begin with {first:?}"))
            .with_hint(format!("write it in quotes: `{}`", in_quotes(rest.trim())));
    }
    if problem.contains("simple key expected") {
        return text
            .error(place, "a `:` is missing after the key")
            .with_hint("write `key: value`, with a space after the colon");
    }
    text.error(place, format!("the front matter is not valid YAML: {problem}"))
}

/// Returns a text as a YAML value in double quotes.
fn in_quotes(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

fn node(raw: Spanned<Raw>, source: &str) -> Node {
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Bool(it) => Value::Bool(it),
        Raw::Number => Value::Number,
        Raw::Text(it) => Value::Text(it),
        Raw::List(list) => Value::List(list.into_iter().map(|it| node(it, source)).collect()),
        Raw::Map(entries) => {
            Value::Map(entries.into_iter().map(|(key, it)| (node(key, source), node(it, source))).collect())
        }
    };
    Node { value, at: bytes(raw.referenced, source) }
}

/// Returns the bytes that a location stands for.
fn bytes(location: Location, source: &str) -> Range<usize> {
    let span = location.span();
    let small = |it: u64| usize::try_from(it).unwrap_or(usize::MAX).min(source.len());
    if let (Some(start), Some(length)) = (span.byte_offset(), span.byte_len()) {
        return small(start)..small(start.saturating_add(length));
    }
    let border = |it: u64| source.char_indices().nth(small(it)).map_or(source.len(), |it| it.0);
    border(span.offset())..border(span.offset().saturating_add(span.len()))
}

/// A value as the parser gives it.
#[derive(Debug)]
enum Raw {
    Null,
    Bool(bool),
    Number,
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<Raw>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Raw;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, it: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(it))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Raw, E> {
        Ok(Raw::Number)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Raw, E> {
        Ok(Raw::Number)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Raw, E> {
        Ok(Raw::Number)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Raw, E> {
        Ok(Raw::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Raw, E> {
        Ok(Raw::Number)
    }

    fn visit_str<E>(self, it: &str) -> Result<Raw, E> {
        Ok(Raw::Text(it.to_owned()))
    }

    fn visit_string<E>(self, it: String) -> Result<Raw, E> {
        Ok(Raw::Text(it))
    }

    fn visit_bytes<E>(self, it: &[u8]) -> Result<Raw, E> {
        Ok(Raw::Text(String::from_utf8_lossy(it).into_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(it) = from.next_element()? {
            list.push(it);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(it) = from.next_entry()? {
            entries.push(it);
        }
        Ok(Raw::Map(entries))
    }
}
