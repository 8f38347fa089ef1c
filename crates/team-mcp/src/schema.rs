//! JSON Schema for the arguments of a tool, made from the table.
//!
//! Leaves out `additionalProperties`: what is unknown is refused here, by name and with the nearest known one, which
//! a client that checks the schema itself would not do.

use serde_json::{Map, Value, json};

use crate::table::{Argument, Kind};

/// Returns the schema of an object with these fields.
pub(crate) fn object(arguments: &[Argument]) -> Map<String, Value> {
    let mut properties = Map::new();
    for argument in arguments {
        let mut schema = kind(&argument.kind);
        if !argument.about.is_empty() {
            schema.insert("description".to_owned(), argument.about.into());
        }
        if argument.required
            && let Kind::Text(_) | Kind::Body(_) = argument.kind
        {
            schema.insert("minLength".to_owned(), 1.into());
        }
        properties.insert(argument.name.to_owned(), Value::Object(schema));
    }
    let required: Vec<_> = arguments.iter().filter(|it| it.required).map(|it| it.name).collect();
    let mut schema = fields(json!({ "type": "object", "properties": properties }));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    schema
}

fn kind(kind: &Kind) -> Map<String, Value> {
    fields(match kind {
        Kind::Text(most) => json!({ "type": "string", "maxLength": most }),
        Kind::Body(_) => json!({ "type": "string" }),
        Kind::Number(least, u64::MAX) => json!({ "type": "integer", "minimum": least }),
        Kind::Number(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Word(words) => {
            json!({ "type": "string", "enum": words.iter().map(|it| it.word).collect::<Vec<_>>() })
        }
        Kind::Texts { most, one_is_fine: false, .. } => {
            json!({ "type": "array", "items": { "type": "string" }, "maxItems": most })
        }
        Kind::Texts { one_is_fine: true, .. } => {
            json!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }] })
        }
        Kind::Records(most, of) => json!({ "type": "array", "items": object(of), "maxItems": most }),
        Kind::Record(of) => return object(of),
        Kind::Map => json!({ "type": "object" }),
    })
}

fn fields(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
