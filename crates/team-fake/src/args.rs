//! The command line. Knows the flags and nothing of what they lead to.

use std::ffi::OsString;
use std::path::PathBuf;

/// What the command line asks for.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one flag")]
pub(crate) struct Args {
    pub(crate) session_id: Option<String>,
    pub(crate) resume: Option<String>,
    pub(crate) fork: bool,
    pub(crate) settings: Option<String>,
    pub(crate) mcp_config: Option<String>,
    pub(crate) system_prompt: Option<PathBuf>,
    pub(crate) model: Option<String>,
    pub(crate) permission_mode: Option<String>,
    pub(crate) script: Option<PathBuf>,
    pub(crate) prompt: Option<String>,
    pub(crate) version: bool,
    /// Runs without a terminal: nothing is read from one or drawn.
    pub(crate) headless: bool,
    /// Prints the answer of the first turn and ends.
    pub(crate) once: bool,
    /// Internal: fire the SessionStart hooks for this session id and end.
    pub(crate) nested: Option<String>,
}

/// Why a command line is refused.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum ArgsError {
    #[error("unknown option `{0}`")]
    Unknown(String),
    #[error("option `{0}` needs a value")]
    NoValue(String),
    #[error("Invalid session ID `{0}`. Must be a valid UUID.")]
    NotUuid(String),
    #[error("--session-id can only be used with --resume if --fork-session is also specified")]
    SessionWithResume,
    #[error("there are no clothes of `{0}`")]
    NoClothes(String),
    #[error("argument `{0}` is not valid Unicode")]
    NotUnicode(String),
}

/// Returns arguments as text.
pub(crate) fn words(words: Vec<OsString>) -> Result<Vec<String>, ArgsError> {
    let text = |it: OsString| {
        it.into_string().map_err(|it| ArgsError::NotUnicode(it.to_string_lossy().into_owned()))
    };
    words.into_iter().map(text).collect()
}

/// Reads the arguments that follow the program's name.
pub(crate) fn parse(words: Vec<String>) -> Result<Args, ArgsError> {
    let mut words = words.into_iter().peekable();
    let mut args = Args::default();
    while let Some(word) = words.next() {
        let (flag, glued) = match word.split_once('=') {
            Some((flag, value)) if word.starts_with("--") => (flag.to_owned(), Some(value.to_owned())),
            _ => (word.clone(), None),
        };
        let mut value =
            || glued.clone().or_else(|| words.next()).ok_or_else(|| ArgsError::NoValue(flag.clone()));
        match flag.as_str() {
            "--session-id" => args.session_id = Some(value()?),
            "--resume" | "-r" => args.resume = Some(value()?),
            "--fork-session" => args.fork = true,
            "--settings" => args.settings = Some(value()?),
            "--mcp-config" => args.mcp_config = Some(value()?),
            "--append-system-prompt-file" => args.system_prompt = Some(value()?.into()),
            "--model" => args.model = Some(value()?),
            "--permission-mode" => args.permission_mode = Some(value()?),
            "--dangerously-skip-permissions" => args.permission_mode = Some("bypassPermissions".to_owned()),
            "--script" => args.script = Some(value()?.into()),
            "--nested-session-start" => args.nested = Some(value()?),
            "--strict-mcp-config" => {}
            "--setting-sources" | "--append-system-prompt" | "--effort" | "--tools" => drop(value()?),
            "--allowedTools" | "--disallowedTools" | "--add-dir" => {
                drop(value()?);
                while words.next_if(|it| !it.starts_with('-')).is_some() {}
            }
            "--print" | "-p" => (args.headless, args.once) = (true, true),
            "--version" | "-v" => args.version = true,
            other if other.starts_with('-') => return Err(ArgsError::Unknown(word)),
            _ => args.prompt = Some(word),
        }
    }
    if let Some(id) = &args.session_id
        && uuid::Uuid::parse_str(id).is_err()
    {
        return Err(ArgsError::NotUuid(id.clone()));
    }
    if args.session_id.is_some() && args.resume.is_some() && !args.fork {
        return Err(ArgsError::SessionWithResume);
    }
    Ok(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str]) -> Result<Args, ArgsError> {
        parse(words.iter().map(|it| (*it).to_owned()).collect())
    }

    #[test]
    fn an_unknown_option_is_named() {
        assert_eq!(check(&["--frobnicate"]), Err(ArgsError::Unknown("--frobnicate".to_owned())));
    }

    #[test]
    fn a_session_id_that_is_no_uuid_is_refused() {
        assert_eq!(check(&["--session-id", "w1"]), Err(ArgsError::NotUuid("w1".to_owned())));
    }

    #[test]
    fn a_new_id_for_a_resumed_session_needs_a_fork() {
        let id = "11111111-1111-4111-8111-111111111111";
        assert_eq!(check(&["--resume", id, "--session-id", id]), Err(ArgsError::SessionWithResume));
        assert!(check(&["--resume", id, "--fork-session", "--session-id", id]).is_ok());
    }

    #[test]
    fn lists_of_tools_end_at_the_next_option() {
        let args = check(&["--allowedTools", "a", "b", "--model", "m", "do it"]).unwrap();
        assert_eq!((args.model.as_deref(), args.prompt.as_deref()), (Some("m"), Some("do it")));
    }
}
