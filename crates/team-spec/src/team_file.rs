//! TEAM.md: what holds for the whole team.

use team_model::fold_case;

use crate::approvals::{self, Approvals};
use crate::error::{SpecError, quoted};
use crate::fields::{Fields, Keys, Located};
use crate::known::{Known, list};
use crate::role_file;
use crate::similar::did_you_mean;
use crate::text::Text;

/// What TEAM.md may hold.
pub(crate) const KEYS: Keys = Keys {
    accepted: ACCEPTED,
    reserved: &[
        "delegation",
        "worktrees",
        "verification",
        "plan_approval",
        "coordination",
        "auto_assign",
        "intake",
        "run_timeout",
        "members_root",
        "notify",
        "capacity",
        "agents",
        "language",
    ],
    elsewhere: (role_file::ACCEPTED, "a role file, agents/<name>.md"),
};

pub(crate) const ACCEPTED: &[&str] = &[
    "name",
    "objective",
    "goal",
    "provider_models",
    "default_model",
    "display_backend",
    "dangerous_auto_approve",
    "fast",
    "session_name",
    "approvals",
];

/// The longest name of a team or its session, in characters.
const LONGEST_NAME: usize = 64;

/// TEAM.md as read: values with places, checked one by one.
#[derive(Debug, Default)]
pub(crate) struct TeamFile {
    pub(crate) name: Option<Located<String>>,
    pub(crate) objective: Option<String>,
    pub(crate) goal: Option<String>,
    /// Models by the providers' own names.
    pub(crate) provider_models: Vec<(String, Located<String>)>,
    pub(crate) default_model: Option<Located<String>>,
    pub(crate) fast: Option<Located<bool>>,
    pub(crate) session_name: Option<Located<String>>,
    pub(crate) approvals: Approvals,
}

/// Reads TEAM.md; what is wrong goes to `errors`.
pub(crate) fn read(text: &Text, known: &Known, errors: &mut Vec<SpecError>) -> TeamFile {
    let parts = match text.parts() {
        Ok(parts) => parts,
        Err(error) => {
            errors.push(error);
            return TeamFile::default();
        }
    };
    let mut fields = Fields::read(text, parts.head, &KEYS);
    let team = TeamFile {
        name: name(&mut fields, "name"),
        objective: fields.text("objective").map(|it| it.value),
        goal: fields.text("goal").map(|it| it.value),
        provider_models: provider_models(&mut fields, known),
        default_model: fields
            .line("default_model")
            .and_then(|it| role_file::model(&mut fields, it, known, None)),
        fast: fields.truth("fast"),
        session_name: name(&mut fields, "session_name"),
        approvals: approvals(&mut fields),
    };
    if let Some(backend) = fields.text("display_backend")
        && backend.value != "none"
    {
        let message = format!("display backend {} is not supported yet", quoted(&backend.value));
        fields.wrong(backend.at, message, Some("write `display_backend: none`".to_owned()));
    }
    if let Some(it) = fields.truth("dangerous_auto_approve")
        && it.value
    {
        let hint = "write `dangerous_auto_approve: false`, or remove the line";
        fields.wrong(it.at, "`dangerous_auto_approve: true` is not supported yet", Some(hint.to_owned()));
    }
    errors.append(&mut fields.errors);
    team
}

fn name(fields: &mut Fields<'_>, key: &str) -> Option<Located<String>> {
    let name = fields.line(key)?;
    let length = name.value.chars().count();
    if length > LONGEST_NAME {
        let message = format!("`{key}` is {length} characters long, {LONGEST_NAME} are allowed");
        fields.wrong(name.at, message, None);
        return None;
    }
    if !name.value.chars().any(char::is_alphanumeric) {
        let message = format!("`{key}` has neither letter nor digit: {}", quoted(&name.value));
        fields.wrong(name.at, message, None);
        return None;
    }
    Some(name)
}

/// Which permission questions are answered without a person.
fn approvals(fields: &mut Fields<'_>) -> Approvals {
    let mut found = Approvals::default();
    for (word, patterns) in fields.lists("approvals") {
        let allows = word.value == "allow";
        if !allows && word.value != "deny" {
            let hint = "write `allow:` or `deny:`, each with a list of patterns".to_owned();
            fields.wrong(word.at, format!("`approvals` has no {}", quoted(&word.value)), Some(hint));
            continue;
        }
        for pattern in patterns {
            match approvals::check(&pattern.value, allows) {
                Ok(()) if allows => found.allow.push(pattern.value),
                Ok(()) => found.deny.push(pattern.value),
                Err(why) => {
                    let hint = "write `Tool` or `Tool(pattern)`, for example `Bash(git status*)`".to_owned();
                    fields.wrong(pattern.at, why, Some(hint));
                }
            }
        }
    }
    found
}

fn provider_models(fields: &mut Fields<'_>, known: &Known) -> Vec<(String, Located<String>)> {
    let mut models: Vec<(String, String, Located<String>)> = Vec::new();
    for (word, model) in fields.pairs("provider_models") {
        let Some(provider) = known.canonical(&word.value).map(str::to_owned) else {
            unknown_provider(fields, &word, known);
            continue;
        };
        let Some(model) = role_file::model(fields, model, known, Some(&provider)) else { continue };
        match models.iter().find(|it| it.0 == provider) {
            Some((_, first, other)) if other.value != model.value => {
                let message = format!(
                    "{} and {} are the same provider but have different models, {} and {}",
                    quoted(first),
                    quoted(&word.value),
                    quoted(&other.value),
                    quoted(&model.value)
                );
                fields.wrong(
                    model.at,
                    message,
                    Some(format!("keep one of the two, best under `{provider}`")),
                );
            }
            Some(_) => {}
            None => models.push((provider, word.value, model)),
        }
    }
    models.into_iter().map(|(provider, _, model)| (provider, model)).collect()
}

/// Complains about a word that is no provider.
pub(crate) fn unknown_provider(fields: &mut Fields<'_>, word: &Located<String>, known: &Known) {
    let folded = fold_case(&word.value);
    let hint = did_you_mean(&folded, known.words())
        .unwrap_or_else(|| format!("known providers: {}", list(known.providers.keys().map(String::as_str))));
    fields.wrong(word.at.clone(), format!("no provider is named {}", quoted(&word.value)), Some(hint));
}
