//! What a profile says: how to log in, which address, which model.
//!
//! Knows the keys. Must not know where profiles lie, nor under which names a
//! provider wants to be given them; the caller says that.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::dotenv::{LineError, parse_dotenv};
use crate::known::{AuthMode, KeyNames};
use crate::role_file::model_problem;
use crate::secret::Secret;

/// Names that would change which program runs, or what our own programs do.
const REFUSED: &[&str] = &[
    "BASH_ENV",
    "CLAUDECODE",
    "ENV",
    "HOME",
    "IFS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PATH",
    "PERL5LIB",
    "PERL5OPT",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYLIB",
    "RUBYOPT",
    "SHELL",
    "SHELLOPTS",
    "TMPDIR",
    "USER",
];

/// Names that begin like this would do the same.
const REFUSED_PREFIXES: &[&str] =
    &["BASH_FUNC_", "DYLD_", "GIT_", "LD_", "TEAM_AGENT_", "TEAM_SEAT_", "TMUX", "XDG_", "npm_"];

/// What a profile says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// How to log in, where the file says so.
    pub auth_mode: Option<AuthMode>,
    /// The model to use.
    pub model: Option<String>,
    /// The address of the service.
    pub base_url: Option<String>,
    /// A key, sent the way the provider sends keys.
    pub api_key: Option<Secret>,
    /// A token, sent as a bearer.
    pub auth_token: Option<Secret>,
    /// Variables given to the provider's program as they are.
    pub env: BTreeMap<String, Secret>,
    /// The line that sets each key.
    #[serde(skip)]
    pub lines: BTreeMap<String, usize>,
}

/// Reads the text of a profile, or names every line that is wrong.
pub fn parse_profile(name: &str, bytes: &[u8]) -> Result<Profile, Vec<LineError>> {
    let mut profile = Profile {
        name: name.to_owned(),
        auth_mode: None,
        model: None,
        base_url: None,
        api_key: None,
        auth_token: None,
        env: BTreeMap::new(),
        lines: BTreeMap::new(),
    };
    let mut errors = Vec::new();
    // A key without a value counts as absent: templates list keys to be filled in.
    for entry in parse_dotenv(bytes)?.into_iter().filter(|it| !it.value.expose().is_empty()) {
        let line = entry.line;
        let mut wrong = |message: &str, hint| errors.push(line_error(line, message, hint));
        let value = entry.value.expose().to_owned();
        profile.lines.insert(entry.key.clone(), line);
        match entry.key.as_str() {
            "AUTH_MODE" => {
                profile.auth_mode = AuthMode::parse(&value);
                if profile.auth_mode.is_none() {
                    let hint = "it is one of `subscription`, `official_api`, `compatible_api`";
                    wrong("`AUTH_MODE` has no such value", Some(hint));
                }
            }
            "MODEL" => {
                if let Some(problem) = model_problem(&value) {
                    wrong(&format!("`MODEL` cannot be used: {problem}"), None);
                }
                profile.model = Some(value);
            }
            "BASE_URL" => {
                if let Err((message, hint)) = check_address(&value) {
                    wrong(message, Some(hint));
                }
                profile.base_url = Some(value);
            }
            "API_KEY" => {
                profile.api_key = Some(entry.value);
            }
            "AUTH_TOKEN" => {
                profile.auth_token = Some(entry.value);
            }
            "CAPACITY" => {
                wrong("`CAPACITY` is not supported yet", Some("remove the line; a later version reads it"));
            }
            key if REFUSED.contains(&key) || REFUSED_PREFIXES.iter().any(|it| key.starts_with(it)) => {
                let hint = "set it in the shell that starts the team, if it is needed at all";
                wrong(
                    &format!("`{key}` cannot be set by a profile: it changes which programs run"),
                    Some(hint),
                );
            }
            _ => {
                profile.env.insert(entry.key, entry.value);
            }
        }
    }
    if errors.is_empty() { Ok(profile) } else { Err(errors) }
}

impl Profile {
    /// Names every key that a mode needs and the profile lacks, or the other way
    /// round, and every key that the provider has no name for.
    pub fn check_for(&self, mode: AuthMode, provider: &str, names: &KeyNames) -> Result<(), Vec<LineError>> {
        let mut errors = Vec::new();
        for (key, value, own) in self.keys(names) {
            if value.is_none() {
                continue;
            }
            match own {
                None => {
                    let hint = "set the variable that its program reads, under its own name";
                    errors.push(self.at(key, &format!("provider `{provider}` takes no `{key}`"), hint));
                }
                Some(own) if own != key && self.env.contains_key(own) => {
                    errors.push(self.at(
                        own,
                        &format!("`{own}` says the same as `{key}`"),
                        "keep one of the two",
                    ));
                }
                Some(_) => {}
            }
        }
        let set = |key| self.set(key, names);
        let mut refuse = |key, why| {
            if let Some(it) = set(key) {
                errors.push(self.at(it, &format!("`{it}` has no place in auth mode `{mode}`"), why));
            }
        };
        let other_service = "for another service use `compatible_api`";
        if mode == AuthMode::Subscription {
            let why = "a subscription uses the provider's own log-in; for a key use `official_api`";
            refuse("API_KEY", why);
            refuse("AUTH_TOKEN", why);
        }
        if mode != AuthMode::CompatibleApi {
            refuse("BASE_URL", other_service);
        } else if set("BASE_URL").is_none() {
            let hint = "write the address of the service after `BASE_URL=`";
            errors.push(line_error(0, "`BASE_URL` has no value", Some(hint)));
        }
        if mode != AuthMode::Subscription && set("API_KEY").or(set("AUTH_TOKEN")).is_none() {
            let hint = "write the key after `API_KEY=`; a service without keys takes any word";
            errors.push(line_error(0, "`API_KEY` has no value", Some(hint)));
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// Returns the variables for a provider's program, under the names it knows and
    /// secrets included; only for the one place that writes a seat's environment.
    pub fn environment(&self, names: &KeyNames) -> BTreeMap<String, String> {
        let mut all: BTreeMap<String, String> =
            self.env.iter().map(|(key, it)| (key.clone(), it.expose().to_owned())).collect();
        let known = self
            .keys(names)
            .into_iter()
            .filter_map(|(_, value, own)| Some((own?.to_owned(), value?.to_owned())));
        all.extend(known);
        all
    }

    /// Returns every secret value, for the place that removes them from what is logged: keys, whatever is called one,
    /// and what looks like one. An ordinary word or path would be missed in texts.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let other = self.env.iter().map(|(name, value)| (name.as_str(), value.expose()));
        let other = other.filter(|(name, value)| is_called_secret(name) || looks_secret(value));
        self.api_key.iter().chain(&self.auth_token).map(Secret::expose).chain(other.map(|(_, value)| value))
    }

    /// Returns the keys that providers have names for: key, value, the provider's name.
    fn keys<'a>(&'a self, names: &'a KeyNames) -> [(&'static str, Option<&'a str>, Option<&'a str>); 3] {
        [
            ("BASE_URL", self.base_url.as_deref(), names.base_url.as_deref()),
            ("API_KEY", self.api_key.as_ref().map(Secret::expose), names.api_key.as_deref()),
            ("AUTH_TOKEN", self.auth_token.as_ref().map(Secret::expose), names.auth_token.as_deref()),
        ]
    }

    /// Returns the word under which a key is set, its own or the provider's.
    fn set<'a>(&'a self, key: &'static str, names: &'a KeyNames) -> Option<&'a str> {
        let (_, value, own) = self.keys(names).into_iter().find(|it| it.0 == key)?;
        value.map(|_| key).or(own.filter(|it| self.env.contains_key(*it)))
    }

    fn at(&self, key: &str, message: &str, hint: &'static str) -> LineError {
        line_error(self.lines.get(key).copied().unwrap_or(0), message, Some(hint))
    }
}

fn is_called_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH", "COOKIE"].iter().any(|it| name.contains(it))
}

fn looks_secret(value: &str) -> bool {
    let has = |what: fn(&char) -> bool| value.chars().any(|it| what(&it));
    let mixed = has(char::is_ascii_alphabetic) && has(char::is_ascii_digit);
    let address_with_password = value.contains("://") && value.contains('@');
    let is_plain = value.starts_with(['/', '~', '.']) || value.contains("://") || value.contains(' ');
    address_with_password || (value.len() >= LIKE_A_KEY && mixed && !is_plain)
}

/// A shorter value under an ordinary name is no key.
const LIKE_A_KEY: usize = 12;

pub(crate) fn line_error(line: usize, message: &str, hint: Option<&'static str>) -> LineError {
    LineError { line, message: message.to_owned(), hint }
}

fn check_address(address: &str) -> Result<(), (&'static str, &'static str)> {
    let rest = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    let host = rest.and_then(|it| it.split(['/', '?', '#']).next()).unwrap_or_default();
    if host.is_empty() || address.chars().any(|it| it.is_whitespace() || it.is_control()) {
        return Err((
            "`BASE_URL` is not an address",
            "write for example `BASE_URL=https://models.example.com/v1`",
        ));
    }
    if host.contains('@') {
        return Err(("`BASE_URL` holds a user name", "write the key after `API_KEY=` or `AUTH_TOKEN=`"));
    }
    Ok(())
}
