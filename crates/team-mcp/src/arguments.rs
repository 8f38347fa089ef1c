//! Checks the arguments of a call against the table.
//!
//! Forgives what models commonly get wrong where the meaning is plain (a number in quotes, one text where a list is
//! wanted, a list written as JSON inside a string) and says nothing about it. Everything else is refused, all of it
//! at once, in words that tell what to do.

use serde_json::{Map, Value};

use crate::{
    near,
    table::{Argument, Kind, Word},
};

/// Returns the arguments in the form the table gives them, or everything that is wrong with them.
pub(crate) fn check(
    arguments: &[Argument],
    given: Map<String, Value>,
    tool: &str,
) -> Result<Map<String, Value>, Vec<String>> {
    let mut problems = Vec::new();
    let checked = record(arguments, given, "", tool, &mut problems);
    if problems.is_empty() { Ok(checked) } else { Err(problems) }
}

fn record(
    arguments: &[Argument],
    mut given: Map<String, Value>,
    path: &str,
    owner: &str,
    problems: &mut Vec<String>,
) -> Map<String, Value> {
    let mut checked = Map::new();
    for argument in arguments {
        let name = format!("{path}{}", argument.name);
        let value = given.remove(argument.name).unwrap_or(Value::Null);
        match one(argument, value, &name, problems) {
            Checked::Value(value) => {
                checked.insert(argument.name.to_owned(), value);
            }
            Checked::Absent if argument.required => {
                problems.push(format!("`{name}` is missing: {}", lower_first(argument.about)));
            }
            Checked::Absent | Checked::Refused => {}
        }
    }
    for name in given.keys() {
        let known = arguments.iter().map(|it| it.name);
        let advice = match near::one(name, known.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if arguments.is_empty() => "it takes none".to_owned(),
            None => format!("it takes {}", near::quoted(known)),
        };
        problems.push(format!("`{path}{}` is not an argument of `{owner}`; {advice}", clip(name)));
    }
    checked
}

enum Checked {
    Value(Value),
    Absent,
    Refused,
}

fn one(argument: &Argument, value: Value, name: &str, problems: &mut Vec<String>) -> Checked {
    if value.is_null() {
        return Checked::Absent;
    }
    let before = problems.len();
    let value = match argument.kind {
        Kind::Text(most) => text(argument, value, name, most, Unit::Characters, problems),
        Kind::Body(most) => text(argument, value, name, most, Unit::Bytes, problems),
        Kind::Number(least, most) => number(&value, name, least, most, problems),
        Kind::Flag => flag(&value, name, problems),
        Kind::Word(words) => choice(&value, name, words, problems),
        Kind::Texts { most, longest, one_is_fine } => {
            texts(argument, value, name, (most, longest, one_is_fine), problems)
        }
        Kind::Records(most, of) => records(value, name, most, of, problems),
        Kind::Record(of) => match object(value) {
            Ok(fields) => Some(Value::Object(record(of, fields, &format!("{name}."), name, problems))),
            Err(value) => refuse(problems, format!("`{name}` is {}, it must be an object", shown(&value))),
        },
        Kind::Map => match object(value) {
            Ok(fields) => Some(Value::Object(fields)),
            Err(value) => refuse(problems, format!("`{name}` is {}, it must be an object", shown(&value))),
        },
    };
    match value {
        _ if problems.len() > before => Checked::Refused,
        Some(value) => Checked::Value(value),
        None => Checked::Absent,
    }
}

fn refuse(problems: &mut Vec<String>, problem: String) -> Option<Value> {
    problems.push(problem);
    None
}

#[derive(Clone, Copy)]
enum Unit {
    Characters,
    Bytes,
}

impl Unit {
    fn measure(self, text: &str) -> usize {
        match self {
            Self::Characters => text.chars().count(),
            Self::Bytes => text.len(),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Characters => "characters",
            Self::Bytes => "bytes",
        }
    }
}

fn text(
    argument: &Argument,
    value: Value,
    name: &str,
    most: usize,
    unit: Unit,
    problems: &mut Vec<String>,
) -> Option<Value> {
    let text = match plain(value) {
        Ok(text) => text,
        Err(value) => return refuse(problems, format!("`{name}` is {}, it must be text", shown(&value))),
    };
    if text.trim().is_empty() {
        if argument.required {
            problems.push(format!("`{name}` is empty: {}", lower_first(argument.about)));
        }
        return None;
    }
    let length = unit.measure(&text);
    if length > most {
        let (unit, advice) = (unit.word(), argument.too_long);
        return refuse(
            problems,
            format!("`{name}` has {length} {unit}, at most {most} are allowed: {advice}"),
        );
    }
    Some(Value::String(text))
}

fn number(value: &Value, name: &str, least: u64, most: u64, problems: &mut Vec<String>) -> Option<Value> {
    let number = match value {
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) if text.trim().is_empty() => return None,
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    match number {
        Some(number) if (least..=most).contains(&number) => Some(number.into()),
        _ => {
            let range = if most == u64::MAX {
                format!("of at least {least}")
            } else {
                format!("from {least} to {most}")
            };
            refuse(problems, format!("`{name}` is {}, it must be a whole number {range}", shown(value)))
        }
    }
}

/// Returns the number if it is whole and exact: `50.0`, not `1.5` or `1e300`.
fn whole(number: f64) -> Option<u64> {
    let exact = number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&number);
    exact.then(|| format!("{number:.0}").parse().ok()).flatten()
}

fn flag(value: &Value, name: &str, problems: &mut Vec<String>) -> Option<Value> {
    let flag = match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => match text.trim().to_lowercase().as_str() {
            "" => return None,
            "true" | "yes" => Some(true),
            "false" | "no" => Some(false),
            _ => None,
        },
        _ => None,
    };
    match flag {
        Some(flag) => Some(flag.into()),
        None => refuse(problems, format!("`{name}` is {}, it must be true or false", shown(value))),
    }
}

fn choice(value: &Value, name: &str, words: &[Word], problems: &mut Vec<String>) -> Option<Value> {
    if let Some(text) = value.as_str() {
        let text = text.trim().to_lowercase();
        if let Some(word) = words.iter().find(|it| it.word == text) {
            return Some(word.word.into());
        }
        let text = text.replace(['-', ' '], "_");
        let taken = |it: &&Word| it.word == text || it.also.contains(&text.as_str());
        if let Some(word) = words.iter().find(taken) {
            return Some(word.word.into());
        }
    }
    let words = near::quoted(words.iter().map(|it| it.word));
    refuse(problems, format!("`{name}` is {}, it must be one of {words}", shown(value)))
}

fn texts(
    argument: &Argument,
    value: Value,
    name: &str,
    (most, longest, one_is_fine): (usize, usize, bool),
    problems: &mut Vec<String>,
) -> Option<Value> {
    let items = match value {
        Value::Array(items) => items,
        Value::String(text) => match encoded(&text) {
            Some(Value::Array(items)) => items,
            _ if one_is_fine && !text.contains("::") => text.split(',').map(Value::from).collect(),
            _ => vec![Value::String(text)],
        },
        value => vec![value],
    };
    let mut texts = Vec::with_capacity(items.len());
    for item in items {
        let item = match item {
            // Some models describe an item by an object; its text keeps what was meant.
            Value::Object(_) if !one_is_fine => Ok(item.to_string()),
            item => plain(item),
        };
        let Ok(item) = item else {
            return refuse(problems, format!("`{name}` must be a list of texts"));
        };
        let item = if one_is_fine { item.trim() } else { &item };
        if item.trim().is_empty() {
            continue;
        }
        let length = item.chars().count();
        if length > longest {
            problems.push(format!(
                "an item of `{name}` has {length} characters, at most {longest} are allowed: {}",
                argument.too_long
            ));
        }
        texts.push(Value::from(item));
    }
    if texts.len() > most {
        let count = texts.len();
        problems.push(format!("`{name}` has {count} items, at most {most} are allowed"));
    }
    if texts.is_empty() {
        if argument.required {
            problems.push(format!("`{name}` is empty: {}", lower_first(argument.about)));
        }
        return None;
    }
    Some(Value::Array(texts))
}

fn records(
    value: Value,
    name: &str,
    most: usize,
    of: &'static [Argument],
    problems: &mut Vec<String>,
) -> Option<Value> {
    let items = match value {
        Value::Array(items) => items,
        Value::String(text) if text.trim().is_empty() => return None,
        Value::String(text) => match encoded(&text) {
            Some(Value::Array(items)) => items,
            Some(object) => vec![object],
            None => vec![Value::String(text)],
        },
        value => vec![value],
    };
    if items.len() > most {
        let count = items.len();
        return refuse(problems, format!("`{name}` has {count} items, at most {most} are allowed"));
    }
    let mut records = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let name = format!("{name}[{index}]");
        match object(item) {
            Ok(fields) => {
                records.push(Value::Object(record(of, fields, &format!("{name}."), &name, problems)));
            }
            Err(value) => {
                let fields = near::quoted(of.iter().map(|it| it.name));
                problems.push(format!("`{name}` is {}, it must be an object with {fields}", shown(&value)));
            }
        }
    }
    Some(Value::Array(records))
}

/// Returns the fields of an object, also of one that is written as JSON inside a string.
fn object(value: Value) -> Result<Map<String, Value>, Value> {
    match value {
        Value::Object(fields) => Ok(fields),
        Value::String(text) => match encoded(&text) {
            Some(Value::Object(fields)) => Ok(fields),
            _ => Err(Value::String(text)),
        },
        value => Err(value),
    }
}

/// Returns the list or object that a string spells out.
fn encoded(text: &str) -> Option<Value> {
    let text = text.trim();
    if !text.starts_with(['[', '{']) {
        return None;
    }
    serde_json::from_str(text).ok().filter(|it: &Value| it.is_array() || it.is_object())
}

/// Returns the text of a value that has an obvious one.
fn plain(value: Value) -> Result<String, Value> {
    match value {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        other => Err(other),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) => format!("`{}`", clip(text)),
        other => format!("`{other}`"),
    }
}

fn clip(text: &str) -> String {
    const MOST: usize = 60;
    if text.chars().count() <= MOST {
        text.to_owned()
    } else {
        text.chars().take(MOST).chain(['…']).collect()
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}
