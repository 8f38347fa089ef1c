//! From a name and arguments to a checked call, or to the reason why not.
//!
//! Knows the table. Must not know what carries a call out.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    SERVER_NAME, ToolError, ToolSet, arguments,
    calls::{IgnoredArg, ToolCall, ToolRequest},
    near,
    table::{self, Alias, IGNORED, Live, Shape, Status, Tool},
};

/// A call that can be carried out, and how its answer has to look.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) call: ToolCall,
    pub(crate) shape: Shape,
    /// The agent that an alias asks about.
    pub(crate) focus: Option<String>,
}

/// Returns the call that is meant.
pub(crate) fn resolve(
    set: ToolSet,
    name: &str,
    mut given: Map<String, Value>,
    meta: Map<String, Value>,
) -> Result<Resolved, ToolError> {
    let name = bare(name);
    let (tool, alias) = find(set, name, &given)?;
    admit(set, name, tool)?;
    let Status::Live(live) = tool.status else {
        return Err(ToolError {
            code: "not_supported_yet".to_owned(),
            message: format!("`{name}` is not supported yet"),
            hint: Some(may_call(set)),
        });
    };
    let focus = alias.and_then(|it| focus(it, &mut given));
    if let Some(alias) = alias {
        translate(alias, &mut given);
    }
    let ignored = set_aside(tool, &mut given);
    let checked =
        arguments::check(tool.arguments, given, name).map_err(|problems| bad_arguments(name, &problems))?;
    let request = match live {
        Live::SendMessage => ToolRequest::SendMessage(typed(checked)?),
        Live::ReportResult => ToolRequest::ReportResult(typed(checked)?),
        Live::TeamRead => ToolRequest::TeamRead(typed(checked)?),
        Live::RequestHuman => ToolRequest::RequestHuman(typed(checked)?),
    };
    let shape = alias.map_or(Shape::Plain, |it| it.shape);
    let alias = alias.map(|it| it.name.to_owned());
    Ok(Resolved { call: ToolCall { request, ignored, alias, meta }, shape, focus })
}

/// Returns whether a call by this name changes nothing, as far as the name tells.
pub(crate) fn only_reads(name: &str) -> bool {
    let name = bare(name);
    match table::tool(name) {
        Some(tool) => tool.hints.read_only,
        None => table::aliased(name).all(|(tool, _)| tool.hints.read_only),
    }
}

/// Returns the name without what clients put before it to tell servers apart.
fn bare(name: &str) -> &str {
    match name.rsplit_once(SERVER_NAME) {
        Some((_, rest)) if rest.len() > 1 => rest.trim_start_matches(['_', '-', '.', '/', ':']),
        _ => name.trim(),
    }
}

fn find(
    set: ToolSet,
    name: &str,
    given: &Map<String, Value>,
) -> Result<(&'static Tool, Option<&'static Alias>), ToolError> {
    if let Some(tool) = table::tool(name) {
        return Ok((tool, None));
    }
    let mut forms = table::aliased(name).peekable();
    if forms.peek().is_none() {
        return Err(unknown_tool(set, name));
    }
    let forms: Vec<_> = forms.collect();
    let selector = forms.iter().find_map(|(_, alias)| alias.when.map(|(argument, _)| argument));
    let chosen = selector.and_then(|it| given.get(it)).filter(|it| !it.is_null());
    let matches = |alias: &Alias| match (alias.when, chosen) {
        (Some((_, value)), Some(chosen)) => chosen.as_str().is_some_and(|it| it.trim() == value),
        (None, None) => true,
        _ => false,
    };
    if let Some((tool, alias)) = forms.iter().find(|(_, alias)| matches(alias)) {
        return Ok((tool, Some(alias)));
    }
    let selector = selector.unwrap_or_default();
    let values = near::quoted(forms.iter().filter_map(|(_, alias)| alias.when.map(|(_, value)| value)));
    Err(bad_arguments(name, &[format!("`{selector}` must be one of {values}")]))
}

fn admit(set: ToolSet, name: &str, tool: &Tool) -> Result<(), ToolError> {
    if tool.audience.admits(set) {
        return Ok(());
    }
    let message = match set {
        ToolSet::Unbound => format!("`{name}` is not allowed: this session belongs to no agent of a team"),
        _ => format!("`{name}` is not allowed to this session"),
    };
    Err(ToolError { code: "not_allowed".to_owned(), message, hint: Some(may_call(set)) })
}

fn unknown_tool(set: ToolSet, name: &str) -> ToolError {
    let known = table::tools()
        .filter(|it| it.audience.admits(set))
        .flat_map(|it| std::iter::once(it.name).chain(it.aliases.iter().map(|alias| alias.name)));
    let mut near = near::some(name, known);
    near.dedup();
    let hint = if near.is_empty() {
        may_call(set)
    } else {
        format!("did you mean {}?", near::quoted(near.into_iter()))
    };
    ToolError {
        code: "unknown_tool".to_owned(),
        message: format!("no tool is named `{}`", name.chars().take(80).collect::<String>()),
        hint: Some(hint),
    }
}

fn may_call(set: ToolSet) -> String {
    let mut listed = table::listed(set).map(|it| it.name).peekable();
    if listed.peek().is_none() {
        return "this session can call no tool yet".to_owned();
    }
    format!("this session can call {}", near::quoted(listed))
}

/// Takes out the agent that an alias asks about, before its argument is set aside as a claim about the sender.
fn focus(alias: &Alias, given: &mut Map<String, Value>) -> Option<String> {
    let Shape::OneAgent(arguments) = alias.shape else { return None };
    let values: Vec<_> = arguments.iter().filter_map(|it| given.remove(*it)).collect();
    values
        .into_iter()
        .find_map(|it| it.as_str().map(str::trim).filter(|it| !it.is_empty()).map(str::to_owned))
}

fn translate(alias: &Alias, given: &mut Map<String, Value>) {
    if let Some((argument, _)) = alias.when {
        given.remove(argument);
    }
    for (theirs, ours) in alias.renames {
        if let Some(value) = given.remove(*theirs) {
            given.entry(*ours).or_insert(value);
        }
    }
    for dropped in alias.drops {
        given.remove(*dropped);
    }
    for (argument, value) in alias.sets {
        given.insert((*argument).to_owned(), (*value).into());
    }
}

fn set_aside(tool: &Tool, given: &mut Map<String, Value>) -> Vec<IgnoredArg> {
    let of_the_tool = |name: &str| tool.arguments.iter().any(|it| it.name == name);
    IGNORED
        .iter()
        .filter(|name| !of_the_tool(name))
        .filter_map(|name| given.remove(*name).map(|value| IgnoredArg { name: (*name).to_owned(), value }))
        .filter(|it| !it.value.is_null())
        .collect()
}

fn bad_arguments(name: &str, problems: &[String]) -> ToolError {
    let message = match problems {
        [problem] => problem.clone(),
        problems => {
            let mut message = format!("{} things are wrong with this call:", problems.len());
            for problem in problems {
                message.push_str("\n- ");
                message.push_str(problem);
            }
            message
        }
    };
    ToolError {
        code: "bad_arguments".to_owned(),
        message,
        hint: Some(format!("nothing was done; correct this and call `{name}` again")),
    }
}

fn typed<T: DeserializeOwned>(checked: Map<String, Value>) -> Result<T, ToolError> {
    serde_json::from_value(Value::Object(checked)).map_err(|error| ToolError {
        code: "internal".to_owned(),
        message: format!("the arguments passed every check and could not be read: {error}"),
        hint: None,
    })
}

#[cfg(test)]
mod tests;
