//! What a call gives back: an answer, or a refusal that the model can act on.
//!
//! Knows what models read. Must not know the protocol.

use serde_json::{Map, Value, json};

use crate::{near, table::Shape};

/// What a call gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Text for the model.
    pub text: String,
    /// The same for programs; an object.
    pub structured: Value,
}

/// Why a call was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// A word that programs can go by.
    pub code: String,
    /// What is wrong, naming the thing.
    pub message: String,
    /// What to do now.
    pub hint: Option<String>,
}

impl ToolError {
    /// Returns the text for the model.
    pub fn text(&self) -> String {
        let Self { code, message, hint } = self;
        match hint {
            Some(hint) => format!("error ({code}): {message}\nhint: {hint}"),
            None => format!("error ({code}): {message}"),
        }
    }

    /// Returns the same for programs.
    pub fn structured(&self) -> Value {
        json!({ "error": { "code": self.code, "message": self.message, "hint": self.hint } })
    }
}

/// Gives an answer the names that callers of an alias look for.
pub(crate) fn dress(shape: Shape, focus: Option<&str>, mut answer: Answer) -> Result<Answer, ToolError> {
    if shape == Shape::Plain {
        return Ok(answer);
    }
    let agents: Vec<Value> =
        answer.structured.get("tree").and_then(Value::as_array).into_iter().flatten().map(agent).collect();
    if let (Shape::OneAgent(_), Some(name)) = (shape, focus) {
        return one_agent(name, agents);
    }
    if let Value::Object(fields) = &mut answer.structured {
        if let Some(team) = fields.get("team").cloned() {
            fields.entry("team_id").or_insert(team);
        }
        fields.insert("agents".to_owned(), agents.into());
    }
    Ok(answer)
}

/// Returns a seat of the tree with the old name of its name.
fn agent(seat: &Value) -> Value {
    let mut fields = seat.as_object().cloned().unwrap_or_default();
    if let Some(name) = fields.get("name").cloned() {
        fields.entry("id").or_insert(name);
    }
    Value::Object(fields)
}

fn one_agent(name: &str, agents: Vec<Value>) -> Result<Answer, ToolError> {
    let names: Vec<String> =
        agents.iter().filter_map(|it| it.get("id")?.as_str().map(str::to_owned)).collect();
    let Some(found) = agents.into_iter().find(|it| it.get("id").and_then(Value::as_str) == Some(name)) else {
        let known = names.iter().map(String::as_str);
        let hint = match near::one(name, known.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("the agents are {}", near::quoted(known)),
        };
        return Err(ToolError {
            code: "unknown_agent".to_owned(),
            message: format!("no agent is named `{name}`"),
            hint: Some(hint),
        });
    };
    let text = found.as_object().map(lines).unwrap_or_default();
    let mut structured = found.as_object().cloned().unwrap_or_default();
    structured.insert("agent".to_owned(), found);
    Ok(Answer { text, structured: structured.into() })
}

fn lines(fields: &Map<String, Value>) -> String {
    let line = |(name, value): (&String, &Value)| match value {
        Value::Null => None,
        Value::String(text) => Some(format!("{name}: {text}")),
        value => Some(format!("{name}: {value}")),
    };
    fields.iter().filter(|(name, _)| *name != "id").filter_map(line).collect::<Vec<_>>().join("\n")
}
