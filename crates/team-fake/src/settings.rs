//! The settings file: which commands run at which event. Runs nothing.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

/// Hooks by event name.
#[derive(Debug, Default, Clone)]
pub(crate) struct Settings {
    hooks: BTreeMap<String, Vec<Hook>>,
}

/// One command that runs at an event.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hook {
    /// Run by `/bin/sh -c`, unless `argv` is given.
    #[serde(default)]
    command: String,
    /// Started directly; an extension that saves the shell.
    #[serde(default)]
    argv: Vec<String>,
    #[serde(default)]
    timeout: Option<f64>,
    #[serde(default, rename = "async")]
    background: bool,
    #[serde(default)]
    pub(crate) async_rewake: bool,
    #[serde(default)]
    pub(crate) rewake_message: Option<String>,
    #[serde(default)]
    pub(crate) rewake_summary: Option<String>,
}

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SettingsError {
    #[error("settings file `{0}` cannot be read")]
    Read(String, #[source] std::io::Error),
    #[error("settings are not valid JSON")]
    Json(#[from] serde_json::Error),
}

/// Longest time in seconds that a 32-bit count of milliseconds holds.
const TIMEOUT_OVERFLOW: f64 = 2_147_483.0;

impl Hook {
    /// Returns the words to start.
    pub(crate) fn argv(&self) -> Vec<String> {
        if self.argv.is_empty() {
            return ["/bin/sh", "-c", &self.command].map(str::to_owned).to_vec();
        }
        self.argv.clone()
    }

    /// Tells whether nothing waits for it.
    pub(crate) fn in_background(&self) -> bool {
        self.background || self.async_rewake
    }

    /// Returns how long it may run; an overflowing time ends it at once.
    pub(crate) fn timeout(&self) -> Duration {
        match self.timeout {
            Some(seconds) if seconds > TIMEOUT_OVERFLOW => Duration::ZERO,
            Some(seconds) => Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO),
            None => Duration::from_secs(60),
        }
    }
}

impl Settings {
    /// Reads a file, or the text itself when it starts with a brace.
    pub(crate) fn load(source: &str) -> Result<Self, SettingsError> {
        if source.trim_start().starts_with('{') {
            return Self::parse(source);
        }
        let text = std::fs::read_to_string(Path::new(source))
            .map_err(|error| SettingsError::Read(source.to_owned(), error))?;
        Self::parse(&text)
    }

    fn parse(text: &str) -> Result<Self, SettingsError> {
        #[derive(Deserialize)]
        struct File {
            #[serde(default)]
            hooks: BTreeMap<String, Vec<Group>>,
        }
        #[derive(Deserialize)]
        struct Group {
            #[serde(default)]
            hooks: Vec<Hook>,
        }
        let file: File = serde_json::from_str(text)?;
        let hooks = file
            .hooks
            .into_iter()
            .map(|(event, groups)| (event, groups.into_iter().flat_map(|it| it.hooks).collect()))
            .collect();
        Ok(Self { hooks })
    }

    /// Adds the hooks of another file.
    pub(crate) fn add(&mut self, other: Self) {
        for (event, hooks) in other.hooks {
            self.hooks.entry(event).or_default().extend(hooks);
        }
    }

    /// Takes the times for milliseconds.
    pub(crate) fn in_milliseconds(mut self) -> Self {
        for hook in self.hooks.values_mut().flatten() {
            hook.timeout = hook.timeout.map(|it| it / 1000.0);
        }
        self
    }

    /// Returns the hooks of an event, in the file's order.
    pub(crate) fn hooks(&self, event: &str) -> &[Hook] {
        self.hooks.get(event).map_or(&[], Vec::as_slice)
    }
}

/// What a hook answered.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Answer {
    pub(crate) context: Option<String>,
    /// The reason when the hook decided to block.
    pub(crate) block: Option<String>,
    /// For PermissionRequest: allowed, or denied with a message.
    pub(crate) permission: Option<Result<(), String>>,
    pub(crate) watch: Vec<String>,
}

impl Answer {
    /// Reads the end of a hook: exit code, standard output, standard error.
    pub(crate) fn read(code: i32, out: &[u8], err: &[u8]) -> Self {
        if code == 2 {
            let reason = String::from_utf8_lossy(err).trim_end().to_owned();
            return Self { block: Some(reason), ..Self::default() };
        }
        let Ok(json) = serde_json::from_slice::<Value>(out) else { return Self::default() };
        if code != 0 {
            return Self::default();
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let specific = &json["hookSpecificOutput"];
        let decision = &specific["decision"];
        let message = || text(&decision["message"]).unwrap_or_default();
        Self {
            context: text(&specific["additionalContext"]),
            block: (json["decision"] == "block").then(|| text(&json["reason"]).unwrap_or_default()),
            permission: match decision["behavior"].as_str() {
                Some("allow") => Some(Ok(())),
                Some("deny") => Some(Err(message())),
                _ => None,
            },
            watch: specific["watchPaths"]
                .as_array()
                .map(|it| it.iter().filter_map(&text).collect())
                .unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matchers_are_ignored_and_argv_saves_the_shell() {
        let settings = Settings::load(
            r#"{"model":"x","hooks":{"Stop":[{"matcher":"Bash","hooks":[{"type":"command","command":"a b"}]},
               {"hooks":[{"type":"command","argv":["p","q r"],"asyncRewake":true,"timeout":3000000}]}]}}"#,
        )
        .unwrap();
        let hooks = settings.hooks("Stop");
        assert_eq!(hooks[0].argv(), ["/bin/sh", "-c", "a b"]);
        assert_eq!((hooks[0].in_background(), hooks[0].timeout().as_secs()), (false, 60));
        assert_eq!(hooks[1].argv(), ["p", "q r"]);
        assert_eq!((hooks[1].in_background(), hooks[1].timeout().as_secs()), (true, 0));
        assert!(settings.hooks("SessionEnd").is_empty());
    }

    #[test]
    fn answers_are_read_only_from_a_hook_that_ended_well() {
        let deny = br#"{"hookSpecificOutput":{"decision":{"behavior":"deny","message":"no"}}}"#;
        assert_eq!(Answer::read(0, deny, b"").permission, Some(Err("no".to_owned())));
        assert_eq!(Answer::read(1, deny, b""), Answer::default());
        assert_eq!(Answer::read(2, deny, b"why\n").block.as_deref(), Some("why"));
        let start = br#"{"hookSpecificOutput":{"additionalContext":"c","watchPaths":["/a","/b"]}}"#;
        let answer = Answer::read(0, start, b"");
        assert_eq!(
            (answer.context.as_deref(), answer.watch),
            (Some("c"), vec!["/a".to_owned(), "/b".to_owned()])
        );
        assert_eq!(Answer::read(0, b"plain words", b""), Answer::default());
    }
}
