//! A role file: one agent, its provider, rights and instructions.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Component, Path};

use team_model::AgentName;

use crate::error::{SpecError, quoted};
use crate::fields::{Fields, Keys, Located};
use crate::known::{AuthMode, Capabilities, Effort, Known, Tool, list};
use crate::models::{Verdict, any_of};
use crate::similar::did_you_mean;
use crate::team_file::{self, unknown_provider};
use crate::text::Text;

/// What a role file may hold.
const KEYS: Keys = Keys {
    accepted: ACCEPTED,
    reserved: &["manager", "member", "lead", "max_turns", "worktree", "write_scope"],
    elsewhere: (team_file::ACCEPTED, "TEAM.md"),
};

pub(crate) const ACCEPTED: &[&str] =
    &["name", "role", "provider", "model", "effort", "auth_mode", "profile", "tools", "working_directory"];

/// The longest line that says what an agent is for, in characters.
const LONGEST_ROLE: usize = 200;
/// The longest name of a model, in characters.
const LONGEST_MODEL: usize = 128;

/// A role file as read: values with places, checked one by one.
#[derive(Debug)]
pub(crate) struct RoleFile {
    /// `None` when the name is wrong, which was said already.
    pub(crate) name: Option<Located<AgentName>>,
    pub(crate) role: Option<String>,
    /// The provider's own name; `None` when it is wrong, which was said already.
    pub(crate) provider: Option<String>,
    pub(crate) model: Option<Located<String>>,
    pub(crate) effort: Option<Effort>,
    pub(crate) auth_mode: Option<Located<AuthMode>>,
    pub(crate) profile: Option<Located<String>>,
    pub(crate) tools: BTreeSet<Tool>,
    pub(crate) working_directory: Located<String>,
    pub(crate) body: Range<usize>,
}

/// Reads a role file; what is wrong goes to `errors`.
pub(crate) fn read(text: &Text, stem: &str, known: &Known, errors: &mut Vec<SpecError>) -> Option<RoleFile> {
    let parts = match text.parts() {
        Ok(parts) => parts,
        Err(error) => {
            errors.push(error);
            return None;
        }
    };
    let start = 0..text.content.find('\n').unwrap_or(0);
    let mut fields = Fields::read(text, parts.head, &KEYS);
    if fields.unreadable() {
        errors.append(&mut fields.errors);
        return None;
    }
    let name = name(&mut fields, stem, start.clone());
    let role = role(&mut fields);
    let provider = provider(&mut fields, known, start.clone());
    let model = fields.line("model").and_then(|it| model(&mut fields, it, known, provider.map(|it| it.0)));
    let effort = effort(&mut fields, provider);
    let auth_mode = auth_mode(&mut fields, provider);
    let profile = profile(&mut fields);
    let tools = tools(&mut fields);
    let working_directory = working_directory(&mut fields, start);
    errors.append(&mut fields.errors);
    Some(RoleFile {
        name,
        role,
        provider: provider.map(|it| it.0.to_owned()),
        model,
        effort,
        auth_mode,
        profile,
        tools,
        working_directory,
        body: parts.body,
    })
}

fn name(fields: &mut Fields<'_>, stem: &str, start: Range<usize>) -> Option<Located<AgentName>> {
    let given = fields.has("name");
    let found = match fields.text("name") {
        Some(it) => it,
        None if given => return None,
        None => Located { value: stem.to_owned(), at: start },
    };
    match AgentName::new(&found.value) {
        Ok(value) => Some(Located { value, at: found.at }),
        Err(cause) => {
            let message = if given {
                cause.to_string()
            } else {
                format!("the file's own name cannot name an agent: {cause}")
            };
            let hint =
                if given { cause.hint() } else { Some("add a line such as `name: coder-1`".to_owned()) };
            fields.wrong(found.at, message, hint);
            None
        }
    }
}

fn role(fields: &mut Fields<'_>) -> Option<String> {
    let role = fields.line("role")?;
    let length = role.value.chars().count();
    if length > LONGEST_ROLE {
        let message = format!("`role` is {length} characters long, {LONGEST_ROLE} are allowed");
        fields.wrong(role.at, message, Some("say more in the text below the front matter".to_owned()));
        return None;
    }
    Some(role.value)
}

type Provider<'a> = (&'a str, &'a Capabilities);

fn provider<'a>(fields: &mut Fields<'_>, known: &'a Known, start: Range<usize>) -> Option<Provider<'a>> {
    let given = fields.has("provider");
    let Some(word) = fields.text("provider") else {
        // A key that was misspelt was named already.
        let misspelt = |it: &SpecError| it.hint.as_deref() == Some("did you mean `provider`?");
        if !given && !fields.errors.iter().any(misspelt) {
            let hint = format!("add a line such as `provider: claude`; known: {}", list(known.names()));
            fields.wrong(start, "`provider` is missing", Some(hint));
        }
        return None;
    };
    let found = known.canonical(&word.value).and_then(|name| known.providers.get_key_value(name));
    if found.is_none() {
        unknown_provider(fields, &word, known);
    }
    found.map(|(name, it)| (name.as_str(), it))
}

/// Checks the name of a model, which ends up as an argument of a program.
pub(crate) fn model(
    fields: &mut Fields<'_>,
    found: Located<String>,
    known: &Known,
    provider: Option<&str>,
) -> Option<Located<String>> {
    match model_problem(&found.value) {
        Some(problem) => {
            let models = provider.and_then(|it| known.models(it)).unwrap_or_default();
            let hint = match models.judge(&found.value) {
                Verdict::Shown(slug) => Some(format!("write `{slug}`, the model's own name")),
                Verdict::Unknown(near) if !near.is_empty() => {
                    Some(format!("did you mean {}?", any_of(&near)))
                }
                _ => None,
            };
            fields.wrong(found.at, format!("{} cannot be a model: {problem}", quoted(&found.value)), hint);
            None
        }
        None => Some(found),
    }
}

/// Says what is wrong with the name of a model.
pub(crate) fn model_problem(model: &str) -> Option<&'static str> {
    if model.starts_with('-') {
        Some("it begins with `-`")
    } else if model.chars().any(|it| it.is_whitespace() || it.is_control()) {
        Some("it has a blank in it")
    } else if model.chars().count() > LONGEST_MODEL {
        Some("it is longer than 128 characters")
    } else {
        None
    }
}

fn effort(fields: &mut Fields<'_>, provider: Option<Provider<'_>>) -> Option<Effort> {
    let effort = fields.word("effort", Effort::ALL, Effort::as_str)?;
    let (name, can) = provider?;
    if can.efforts.contains(&effort.value) {
        return Some(effort.value);
    }
    if can.efforts.is_empty() {
        let message = format!("provider `{name}` has no setting for effort");
        fields.wrong(effort.at, message, Some("remove the line".to_owned()));
    } else {
        let hint = format!("it knows {}", list(can.efforts.iter().map(|it| it.as_str())));
        fields.wrong(effort.at, format!("provider `{name}` has no effort `{}`", effort.value), Some(hint));
    }
    None
}

fn auth_mode(fields: &mut Fields<'_>, provider: Option<Provider<'_>>) -> Option<Located<AuthMode>> {
    let mode = fields.word("auth_mode", AuthMode::ALL, AuthMode::as_str)?;
    if let Some((name, can)) = provider
        && !can.auth_modes.contains(&mode.value)
    {
        let hint = format!("it knows {}", list(can.auth_modes.iter().map(|it| it.as_str())));
        fields.wrong(mode.at, format!("provider `{name}` has no auth mode `{}`", mode.value), Some(hint));
        return None;
    }
    Some(mode)
}

fn profile(fields: &mut Fields<'_>) -> Option<Located<String>> {
    let profile = fields.line("profile")?;
    if let Err(problem) = crate::profile_file::check_name(&profile.value) {
        fields.wrong(profile.at, problem.to_string(), problem.hint());
        return None;
    }
    Some(profile)
}

fn tools(fields: &mut Fields<'_>) -> BTreeSet<Tool> {
    let all = || Tool::ALL.iter().copied().collect();
    let given = fields.has("tools");
    let start = fields.at("tools");
    let Some(words) = fields.texts("tools", "*") else { return if given { BTreeSet::new() } else { all() } };
    if words.is_empty() {
        // Providers take an empty list for their own set, which would be more.
        let hint = "name at least one, or remove the line to allow all";
        fields.wrong(start, "`tools` is empty", Some(hint.to_owned()));
    }
    let mut tools = BTreeSet::new();
    for word in words {
        if word.value == "*" {
            tools.extend(Tool::ALL.iter().copied());
        } else if let Some(tool) = Tool::parse(&word.value) {
            tools.insert(tool);
        } else {
            let known = Tool::ALL.iter().map(|it| it.as_str());
            let hint = did_you_mean(&word.value, known.clone())
                .unwrap_or_else(|| format!("known tools: {}, or `\"*\"` for all", list(known)));
            fields.wrong(word.at, format!("no tool is named {}", quoted(&word.value)), Some(hint));
        }
    }
    tools
}

fn working_directory(fields: &mut Fields<'_>, start: Range<usize>) -> Located<String> {
    let here = Located { value: ".".to_owned(), at: start };
    let Some(found) = fields.text("working_directory") else { return here };
    let hint = Some("give a path below the workspace, for example `crates/parser`".to_owned());
    let mut kept: Vec<&str> = Vec::new();
    for part in Path::new(&found.value).components() {
        match part {
            Component::CurDir => {}
            Component::Normal(it) => kept.extend(it.to_str()),
            Component::ParentDir if kept.pop().is_some() => {}
            Component::ParentDir => {
                fields.wrong(found.at, format!("{} leaves the workspace", quoted(&found.value)), hint);
                return here;
            }
            Component::RootDir | Component::Prefix(_) => {
                let message = format!("{} is not relative to the workspace", quoted(&found.value));
                fields.wrong(found.at, message, hint);
                return here;
            }
        }
    }
    if found.value.chars().any(char::is_control) {
        fields.wrong(found.at, "`working_directory` has a control character in it", None);
        return here;
    }
    let value = if kept.is_empty() { ".".to_owned() } else { kept.join("/") };
    Located { value, at: found.at }
}
