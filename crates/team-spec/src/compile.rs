//! All files of a team together: what one file alone cannot say.
//!
//! Knows how the files complete each other. Must not know how a single value is
//! checked; that is said where the file is read.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use crate::dotenv::LineError;
use crate::error::{SpecError, SpecErrors, quoted};
use crate::fields::Located;
use crate::known::{AuthMode, Known, list};
use crate::models::{Models, Verdict, any_of};
use crate::place::{DEFAULT_KEY, TEAM_FILE, TeamSource, role_files};
use crate::profile::Profile;
use crate::profile_file::{ProfileError, read_profile};
use crate::role_file::{self, RoleFile};
use crate::spec::{ModelChoice, ModelSource, Place, SPEC_VERSION, Spec, SpecSeat, session_name};
use crate::team_file::{self, TeamFile};
use crate::text::Text;

/// The largest file that is read, in bytes.
const LARGEST: u64 = 16 * 1024 * 1024;

/// Reads all files of a team, or says everything that is wrong in any of them.
///
/// Writes nothing.
pub fn compile(source: &TeamSource, known: &Known) -> Result<Spec, SpecErrors> {
    let mut errors = Vec::new();
    let team_path = source.dir.join(TEAM_FILE);
    let team_shown = source.shown(&team_path);
    let has_team_file = !source.flat && team_path.symlink_metadata().is_ok();
    let team_text = if has_team_file {
        read_file(source, &team_path).map_err(|error| errors.push(error)).ok()
    } else {
        None
    };
    let team =
        team_text.as_ref().map_or_else(TeamFile::default, |text| team_file::read(text, known, &mut errors));

    let mut roles: Vec<(String, Text, RoleFile)> = Vec::new();
    match role_files(&source.roles(), source.flat) {
        Ok(paths) => {
            for path in paths {
                if let Some(role) = read_role(source, &path, known, &mut errors) {
                    roles.push(role);
                }
            }
        }
        Err(cause) => errors.push(SpecError::whole_file(source.shown(&source.roles()), cause.to_string())),
    }
    same_names(&roles, &mut errors);

    let mut seats = Vec::new();
    let mut warnings = Vec::new();
    let team_file = (team_text.as_ref(), &team);
    for (path, text, role) in &roles {
        if let Some(seat) = seat(source, known, team_file, path, text, role, &mut errors, &mut warnings) {
            seats.push(seat);
        }
    }
    if let (Some(text), Some(fast)) = (&team_text, &team.fast) {
        check_fast(text, fast, known, &roles, &mut errors);
    }
    if !errors.is_empty() {
        return Err(SpecErrors::new(errors));
    }

    let line = |at: usize| team_text.as_ref().map_or(0, |text| text.line(at));
    let name = team.name.as_ref().map_or_else(|| source.key.to_string(), |it| it.value.clone());
    let session = team.session_name.as_ref().or(team.name.as_ref());
    let mut spec = Spec {
        schema_version: SPEC_VERSION,
        digest: String::new(),
        key: source.key.clone(),
        session_name_at: Place { file: team_shown, line: session.map_or(0, |it| line(it.at.start)) },
        session_name: session_name(session.map_or(&name, |it| &it.value)),
        name,
        objective: team.objective,
        goal: team.goal,
        fast: team.fast.is_some_and(|it| it.value),
        approvals: team.approvals,
        seats,
        warnings: SpecErrors::new(warnings).0,
    };
    spec.digest = spec.compute_digest();
    Ok(spec)
}

fn read_role(
    source: &TeamSource,
    path: &Path,
    known: &Known,
    errors: &mut Vec<SpecError>,
) -> Option<(String, Text, RoleFile)> {
    if path.extension().is_none_or(|it| it != "md") {
        let error = SpecError::whole_file(source.shown(path), "the name of a role file must end in `.md`");
        errors.push(error.with_hint("rename it, with small letters at the end"));
        return None;
    }
    let text = read_file(source, path).map_err(|error| errors.push(error)).ok()?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let role = role_file::read(&text, &stem, known, errors)?;
    let inside = path.strip_prefix(&source.dir).unwrap_or(path).display().to_string();
    let inside = if source.flat { format!("agents/{inside}") } else { inside };
    Some((inside, text, role))
}

/// Reads a file that must lie in the team's directory.
fn read_file(source: &TeamSource, path: &Path) -> Result<Text, SpecError> {
    let shown = source.shown(path);
    let failed =
        |cause: std::io::Error| SpecError::whole_file(shown.clone(), format!("cannot be read: {cause}"));
    let real = fs::canonicalize(path).map_err(failed)?;
    if !real.starts_with(&source.dir) {
        let message = format!(
            "the file is a link to {}, outside the team's directory",
            quoted(&real.to_string_lossy())
        );
        return Err(SpecError::whole_file(shown, message).with_hint("put a copy of the file in its place"));
    }
    let found = fs::metadata(&real).map_err(failed)?;
    if !found.is_file() {
        return Err(SpecError::whole_file(shown, "this is not a file"));
    }
    if found.len() > LARGEST {
        return Err(SpecError::whole_file(shown, "the file is larger than 16 MiB"));
    }
    let mut bytes = Vec::new();
    let file = fs::File::open(&real).map_err(failed)?;
    file.take(LARGEST).read_to_end(&mut bytes).map_err(failed)?;
    Text::decode(&shown, &bytes)
}

fn same_names(roles: &[(String, Text, RoleFile)], errors: &mut Vec<SpecError>) {
    for (index, (_, text, role)) in roles.iter().enumerate() {
        let Some(name) = &role.name else { continue };
        let first = roles[..index].iter().find(|(_, _, other)| {
            other.name.as_ref().is_some_and(|it| it.value.is_same(name.value.as_str()))
        });
        if let Some((_, other_text, other)) = first {
            let line = other.name.as_ref().map_or(1, |it| other_text.line(it.at.start));
            let message =
                format!("another agent is named `{}` already, in {}:{line}", name.value, other_text.file);
            errors
                .push(text.error(name.at.clone(), message).with_hint("names must differ in more than case"));
        }
    }
}

fn check_fast(
    text: &Text,
    fast: &Located<bool>,
    known: &Known,
    roles: &[(String, Text, RoleFile)],
    errors: &mut Vec<SpecError>,
) {
    if !fast.value {
        return;
    }
    let mut without: Vec<&str> = roles
        .iter()
        .filter_map(|(_, _, role)| role.provider.as_deref())
        .filter(|it| known.providers.get(*it).is_some_and(|can| !can.fast))
        .collect();
    without.sort_unstable();
    without.dedup();
    if !without.is_empty() {
        let message = format!("`fast: true` has no effect with provider {}", list(without));
        errors
            .push(text.error(fast.at.clone(), message).with_hint("write `fast: false`, or remove the line"));
    }
}

#[expect(clippy::too_many_arguments, reason = "all that a seat is made of, and where to say what is wrong")]
fn seat(
    source: &TeamSource,
    known: &Known,
    (team_text, team): (Option<&Text>, &TeamFile),
    path: &str,
    text: &Text,
    role: &RoleFile,
    errors: &mut Vec<SpecError>,
    warnings: &mut Vec<SpecError>,
) -> Option<SpecSeat> {
    check_directory(source, text, &role.working_directory, errors);
    let profile = role.profile.as_ref().map(|it| profile(source, text, role, it, errors));
    let profile = match profile {
        Some(None) => return None,
        Some(Some(it)) => Some(it),
        None => None,
    };
    let auth_mode = auth_mode(text, role, profile.as_ref(), errors);
    let provider = role.provider.clone()?;
    let one_mode = |it: &&Profile| {
        // Two that differ were said already.
        role.auth_mode.as_ref().zip(it.auth_mode).is_none_or(|(asked, own)| asked.value == own)
    };
    if let (Some(profile), Some(can)) = (profile.as_ref().filter(one_mode), known.providers.get(&provider))
        && let Err(lines) = profile.check_for(auth_mode, &provider, &can.key_names)
    {
        profile_errors(source, text, role, profile, &lines, errors);
    }
    let name = role.name.as_ref()?.value.clone();
    let (model, place) =
        model(source, text, role, profile.as_ref(), (team_text, team), known, &provider, errors);
    // Another service has models of its own.
    if auth_mode == AuthMode::Subscription
        && let Some(word) = &model.value
        && let Some(models) = known.models(&provider)
    {
        check_model(&models, word, &provider, place, errors, warnings);
    }
    Some(SpecSeat {
        model,
        role: role.role.clone().unwrap_or_else(|| "Worker".to_owned()),
        name,
        provider,
        effort: role.effort,
        auth_mode,
        profile: profile.map(|it| it.name),
        tools: role.tools.clone(),
        working_directory: role.working_directory.value.clone(),
        instructions: text.content[role.body.clone()].to_owned(),
        source: path.to_owned(),
    })
}

fn check_directory(source: &TeamSource, text: &Text, found: &Located<String>, errors: &mut Vec<SpecError>) {
    if found.value == "." {
        return;
    }
    let path = source.workspace.join(&found.value);
    let problem = match fs::canonicalize(&path) {
        Err(_) => "does not exist in the workspace",
        Ok(real) if !real.starts_with(&source.workspace) => "is a link that leaves the workspace",
        Ok(real) if !real.is_dir() => "is not a directory",
        Ok(_) => return,
    };
    let hint = format!("create `{}`, or correct the path", found.value);
    errors.push(text.error(found.at.clone(), format!("{} {problem}", quoted(&found.value))).with_hint(hint));
}

/// Reads the profile that a role file names.
fn profile(
    source: &TeamSource,
    text: &Text,
    role: &RoleFile,
    name: &Located<String>,
    errors: &mut Vec<SpecError>,
) -> Option<Profile> {
    let wanted = role.auth_mode.as_ref().map_or(AuthMode::Subscription, |it| it.value);
    let cause = match read_profile(&source.profiles(), &name.value, wanted) {
        Ok(profile) => return Some(profile),
        Err(cause) => cause,
    };
    if let ProfileError::Lines { path, lines, .. } = &cause {
        let file = source.shown(path);
        for it in lines {
            // The line itself is not shown: it may hold a secret.
            let column = usize::from(it.line > 0);
            let mut error =
                SpecError { line: it.line, column, ..SpecError::whole_file(file.clone(), &it.message) };
            error.hint = it.hint.map(str::to_owned);
            errors.push(error);
        }
        return None;
    }
    let mut error = text.error(name.at.clone(), full_message(&cause));
    // The line that makes it makes it where this team looks.
    error.hint = match (&cause, source.key.as_str()) {
        (ProfileError::NotFound { name, auth_mode }, key) if key != DEFAULT_KEY => {
            Some(format!("run `team-agent profile init {name} --auth-mode {auth_mode} --team {key}`"))
        }
        _ => cause.hint(),
    };
    errors.push(error);
    None
}

fn full_message(cause: &ProfileError) -> String {
    match std::error::Error::source(cause) {
        Some(deeper) => format!("{cause}: {deeper}"),
        None => cause.to_string(),
    }
}

fn auth_mode(
    text: &Text,
    role: &RoleFile,
    profile: Option<&Profile>,
    errors: &mut Vec<SpecError>,
) -> AuthMode {
    let own = profile.and_then(|it| Some((it, it.auth_mode?)));
    match (&role.auth_mode, own) {
        (Some(asked), Some((profile, mode))) if asked.value != mode => {
            let message = format!("profile `{}` has auth mode `{mode}`, not `{}`", profile.name, asked.value);
            let hint = format!("write `auth_mode: {mode}`, or name another profile");
            errors.push(text.error(asked.at.clone(), message).with_hint(hint));
            asked.value
        }
        (Some(asked), _) => {
            if asked.value == AuthMode::CompatibleApi && role.profile.is_none() {
                let message = "auth mode `compatible_api` needs a profile with the address of the service";
                let hint =
                    "run `team-agent profile init NAME --auth-mode compatible_api`, then add `profile: NAME`";
                errors.push(text.error(asked.at.clone(), message).with_hint(hint));
            }
            asked.value
        }
        (None, Some((_, mode))) => mode,
        (None, None) => AuthMode::Subscription,
    }
}

fn profile_errors(
    source: &TeamSource,
    text: &Text,
    role: &RoleFile,
    profile: &Profile,
    lines: &[LineError],
    errors: &mut Vec<SpecError>,
) {
    let file = source.shown(&source.profiles().join(format!("{}.env", profile.name)));
    for it in lines {
        let column = usize::from(it.line > 0);
        let mut error =
            SpecError { line: it.line, column, ..SpecError::whole_file(file.clone(), &it.message) };
        error.hint = it.hint.map(str::to_owned);
        if it.line == 0
            && let Some(name) = &role.profile
        {
            // What is missing has no line of its own; the role file asked for it.
            let message = format!("profile `{}` cannot be used: {}", profile.name, it.message);
            let hint = error.hint.map(|hint| format!("in {file}, {hint}"));
            error = text.error(name.at.clone(), message);
            error.hint = hint;
        }
        errors.push(error);
    }
}

/// Returns the model with the place where it was chosen, an error that says nothing yet.
#[expect(clippy::too_many_arguments, reason = "a model may come from any of these")]
fn model(
    source: &TeamSource,
    text: &Text,
    role: &RoleFile,
    profile: Option<&Profile>,
    (team_text, team): (Option<&Text>, &TeamFile),
    known: &Known,
    provider: &str,
    errors: &mut Vec<SpecError>,
) -> (ModelChoice, SpecError) {
    let chosen = |value: &str, source| ModelChoice { value: Some(value.to_owned()), source };
    let nowhere = || SpecError::whole_file(&text.file, "");
    let in_team = |it: &Located<String>| team_text.map_or_else(nowhere, |text| text.error(it.at.clone(), ""));
    let own = profile.and_then(|it| Some((it, it.model.as_deref()?)));
    if let Some(model) = &role.model {
        if let Some((profile, other)) = own.filter(|it| it.1 != model.value) {
            let message = format!(
                "the role file says model {}, its profile `{}` says {}",
                quoted(&model.value),
                profile.name,
                quoted(other)
            );
            errors.push(text.error(model.at.clone(), message).with_hint("keep one of the two"));
        }
        return (chosen(&model.value, ModelSource::Role), text.error(model.at.clone(), ""));
    }
    if let Some((profile, model)) = own {
        let file = source.shown(&source.profiles().join(format!("{}.env", profile.name)));
        let line = profile.lines.get("MODEL").copied().unwrap_or_default();
        let place = SpecError { line, column: usize::from(line > 0), ..SpecError::whole_file(file, "") };
        return (chosen(model, ModelSource::Profile), place);
    }
    if let Some((_, model)) = team.provider_models.iter().find(|it| it.0 == provider) {
        return (chosen(&model.value, ModelSource::ProviderModels), in_team(model));
    }
    if let Some(model) = &team.default_model {
        return (chosen(&model.value, ModelSource::DefaultModel), in_team(model));
    }
    let choice = match known.providers.get(provider).and_then(|it| it.default_model.as_deref()) {
        Some(model) => chosen(model, ModelSource::BuiltIn),
        None => ModelChoice { value: None, source: ModelSource::ProviderDefault },
    };
    (choice, nowhere())
}

/// Says what is wrong with a model, going by the list of the program that is installed.
fn check_model(
    models: &Models,
    word: &str,
    provider: &str,
    place: SpecError,
    errors: &mut Vec<SpecError>,
    warnings: &mut Vec<SpecError>,
) {
    match models.judge(word) {
        Verdict::Known => {}
        Verdict::Shown(slug) => {
            let message = format!("{} is not the model's own name, which is `{slug}`", quoted(word));
            errors.push(SpecError { message, ..place }.with_hint(format!("write `{slug}`")));
        }
        Verdict::Unknown(near) => {
            let message = format!("the installed `{provider}` does not list a model {}", quoted(word));
            let hint = if near.is_empty() {
                format!("run `{}` to see those it does", models.command)
            } else {
                format!("did you mean {}?", any_of(&near))
            };
            warnings.push(SpecError { message, ..place }.with_hint(hint));
        }
    }
}
