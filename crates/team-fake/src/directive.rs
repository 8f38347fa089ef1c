//! The language of `fake:` lines in a prompt. Reads them; obeys none.

use std::time::Duration;

use serde_json::{Map, Value};

/// One thing that a prompt asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Directive {
    /// Call an MCP tool.
    Call {
        tool: String,
        arguments: Value,
    },
    /// Be in a tool call that takes so long.
    Busy(Duration),
    /// Be silent for so long.
    Think(Duration),
    /// Make this the answer.
    Say(String),
    Shell(String),
    AskPermission {
        tool: String,
        input: Value,
    },
    /// Say the text of this number, from 1; negative numbers count from the end.
    Recall(i64),
    Exit(i32),
    Touch(String),
    /// Not understood; the reason.
    Bad(String),
}

/// A line of a prompt that means something.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item {
    /// A team message from this sender begins.
    From(String),
    Do(Directive),
    /// Do it when a later message from this sender comes (`*`: anyone), once or each time.
    Arm {
        from: String,
        each: bool,
        directive: Directive,
    },
}

/// Reads all lines of a prompt that mean something, in order.
pub(crate) fn read(prompt: &str) -> Vec<Item> {
    prompt.lines().filter_map(item).collect()
}

fn item(line: &str) -> Option<Item> {
    // A head stands at the line's very start: bodies that imitate one are indented.
    if let Some(rest) = line.strip_prefix("[Team message from ") {
        let from = rest.split([' ', ':', ']', ',']).next().unwrap_or_default();
        return Some(Item::From(from.to_owned()));
    }
    let rest = line.trim_start().strip_prefix("fake:")?.trim();
    let (verb, tail) = split(rest);
    if let "on-message" | "on-each-message" = verb {
        let Some((from, what)) = tail.split_once(':') else {
            return Some(Item::Do(Directive::Bad(format!("`{verb}` needs `FROM: DIRECTIVE`"))));
        };
        return Some(Item::Arm {
            from: from.trim().to_owned(),
            each: verb == "on-each-message",
            directive: directive(what.trim()),
        });
    }
    Some(Item::Do(directive(rest)))
}

/// Reads one directive, without its `fake:`.
pub(crate) fn directive(text: &str) -> Directive {
    let text = text.strip_prefix("fake:").unwrap_or(text).trim();
    let (verb, tail) = split(text);
    parse(verb, tail).unwrap_or_else(Directive::Bad)
}

fn parse(verb: &str, tail: &str) -> Result<Directive, String> {
    Ok(match verb {
        "report" => {
            let mut arguments = pairs(tail)?;
            arguments.entry("status").or_insert_with(|| "success".into());
            arguments.entry("summary").or_insert_with(|| "done".into());
            Directive::Call { tool: "report_result".to_owned(), arguments: Value::Object(arguments) }
        }
        "send" => {
            let mut arguments = pairs(tail)?;
            if let Some(text) = arguments.remove("text") {
                arguments.insert("content".to_owned(), text);
            }
            Directive::Call { tool: "send_message".to_owned(), arguments: Value::Object(arguments) }
        }
        "call" => {
            let (tool, json) = split(tail);
            if tool.is_empty() {
                return Err("`call` needs a tool".to_owned());
            }
            let json = if json.is_empty() { "{}" } else { json };
            let arguments: Value =
                serde_json::from_str(json).map_err(|error| format!("arguments of `{tool}`: {error}"))?;
            Directive::Call { tool: tool.to_owned(), arguments }
        }
        "busy" => Directive::Busy(seconds(tail)?),
        "think" => Directive::Think(millis(tail)?),
        "say" => Directive::Say(unquoted(tail)),
        "shell" => Directive::Shell(tail.to_owned()),
        "ask-permission" => {
            let (tool, json) = split(tail);
            let tool = if tool.is_empty() { "Bash" } else { tool };
            let input = if json.is_empty() {
                serde_json::json!({"command": "touch made-by-fake"})
            } else {
                serde_json::from_str(json).map_err(|error| format!("input of `{tool}`: {error}"))?
            };
            Directive::AskPermission { tool: tool.to_owned(), input }
        }
        "recall" => Directive::Recall(tail.parse().map_err(|_| format!("`{tail}` is no number"))?),
        "exit" => Directive::Exit(if tail.is_empty() {
            0
        } else {
            tail.parse().map_err(|_| format!("`{tail}` is no exit code"))?
        }),
        "touch" => Directive::Touch(unquoted(tail)),
        other => return Err(format!("unknown directive `{other}`")),
    })
}

/// Reads seconds, decimals allowed.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.trim().parse().map_err(|_| format!("`{text}` is no number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("`{text}` is no length of time"))
}

/// Reads whole milliseconds.
pub(crate) fn millis(text: &str) -> Result<Duration, String> {
    text.trim()
        .parse()
        .map(Duration::from_millis)
        .map_err(|_| format!("`{text}` is no number of milliseconds"))
}

/// Splits off the first word.
pub(crate) fn split(text: &str) -> (&str, &str) {
    match text.split_once(char::is_whitespace) {
        Some((word, rest)) => (word, rest.trim()),
        None => (text, ""),
    }
}

fn unquoted(text: &str) -> String {
    serde_json::from_str(text).unwrap_or_else(|_| text.to_owned())
}

/// Reads `key=value` pairs. A value is a JSON string, object or list, or a bare word, which is a string.
/// The object of the key `json` is merged into the others.
fn pairs(mut text: &str) -> Result<Map<String, Value>, String> {
    let mut pairs = Map::new();
    loop {
        text = text.trim_start();
        if text.is_empty() {
            return Ok(pairs);
        }
        let (key, rest) = text.split_once('=').ok_or_else(|| format!("`{text}` is no `key=value`"))?;
        let value = if rest.starts_with(['"', '{', '[']) {
            let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            let value = stream
                .next()
                .ok_or_else(|| format!("`{key}` has no value"))?
                .map_err(|error| format!("value of `{key}`: {error}"))?;
            text = &rest[stream.byte_offset()..];
            value
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            text = &rest[end..];
            Value::String(rest[..end].to_owned())
        };
        match value {
            Value::Object(object) if key == "json" => pairs.extend(object),
            value => drop(pairs.insert(key.to_owned(), value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_report_takes_pairs_quotes_and_json() {
        let report =
            directive(r#"report status=partial summary="a \"b\"\nc" task=3 json={"tests":[{"x":1}]}"#);
        let arguments = json!({"status":"partial","summary":"a \"b\"\nc","task":"3","tests":[{"x":1}]});
        assert_eq!(report, Directive::Call { tool: "report_result".to_owned(), arguments });
    }

    #[test]
    fn a_message_carries_directives_for_its_receiver() {
        let items = read("[Team message from lead to w1:]\nhello\nfake: send to=w2 text=\"fake: say hi\"\n");
        let arguments = json!({"to":"w2","content":"fake: say hi"});
        assert_eq!(
            items,
            [
                Item::From("lead".to_owned()),
                Item::Do(Directive::Call { tool: "send_message".to_owned(), arguments }),
            ]
        );
    }

    #[test]
    fn an_indented_head_is_part_of_the_body() {
        assert_eq!(read(" [Team message from boss to w1:]"), []);
        assert_eq!(read("[Team message from leader (Hana) to all:]"), [Item::From("leader".to_owned())]);
    }

    #[test]
    fn directives_may_wait_for_a_sender() {
        let items = read("fake: on-message w2: busy 0.5\nfake: on-each-message *: say got it");
        assert_eq!(
            items,
            [
                Item::Arm {
                    from: "w2".to_owned(),
                    each: false,
                    directive: Directive::Busy(Duration::from_millis(500)),
                },
                Item::Arm {
                    from: "*".to_owned(),
                    each: true,
                    directive: Directive::Say("got it".to_owned())
                },
            ]
        );
    }

    #[test]
    fn what_is_not_understood_says_so() {
        assert_eq!(directive("dance"), Directive::Bad("unknown directive `dance`".to_owned()));
        assert!(matches!(directive("busy soon"), Directive::Bad(_)));
        assert!(matches!(directive("report summary"), Directive::Bad(_)));
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd_to_read(text in any::<String>(), verb in "(report|send|call|busy|recall|exit) ") {
            read(&text);
            directive(&format!("{verb}{text}"));
        }
    }
}
