//! The environment of every tmux process that is run, client or server.
//!
//! What a server is started with is what it hands to all windows, and `show-environment` prints it
//! to anybody: so it holds what a program needs to run at all, and nothing that could be a secret,
//! an identity or another tmux.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

const KEPT: &[&str] = &[
    "COLORTERM",
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_RUNTIME_DIR",
];

#[cfg(target_os = "macos")]
const UTF8_LOCALE: &str = "en_US.UTF-8";
#[cfg(not(target_os = "macos"))]
const UTF8_LOCALE: &str = "C.UTF-8";

/// An environment that is safe to start a server with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanEnv {
    vars: BTreeMap<OsString, OsString>,
}

impl CleanEnv {
    /// Keeps the few variables that a server needs and sees to a locale that can do UTF-8.
    pub fn new(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut vars: BTreeMap<_, _> = vars.into_iter().filter(|(name, _)| is_kept(name)).collect();
        make_utf8(&mut vars);
        Self { vars }
    }

    /// Cleans the environment of this process.
    pub fn of_this_process() -> Self {
        Self::new(std::env::vars_os())
    }

    /// Iterates over the variables in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.vars.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

fn is_kept(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| KEPT.contains(&name) || name.starts_with("LC_"))
}

/// tmux writes `_` for what the locale of a client or server cannot show.
fn make_utf8(vars: &mut BTreeMap<OsString, OsString>) {
    let value = |name: &str| vars.get(OsStr::new(name)).filter(|value| !value.is_empty());
    let all = value("LC_ALL");
    let effective = all.or_else(|| value("LC_CTYPE")).or_else(|| value("LANG"));
    if effective.is_some_and(|locale| is_utf8(locale)) {
        return;
    }
    let name = if all.is_some() { "LC_ALL" } else { "LC_CTYPE" };
    vars.insert(name.into(), UTF8_LOCALE.into());
}

fn is_utf8(locale: &OsStr) -> bool {
    let locale = locale.to_string_lossy().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(vars: &[(&str, &str)], clean: &[(&str, &str)]) {
        let env = CleanEnv::new(vars.iter().map(|(name, value)| (name.into(), value.into())));
        let found: Vec<_> =
            env.iter().map(|(name, value)| (name.to_str().unwrap(), value.to_str().unwrap())).collect();
        assert_eq!(found, clean);
    }

    #[test]
    fn only_what_a_server_needs_is_kept() {
        check(
            &[
                ("PATH", "/bin"),
                ("HOME", "/h"),
                ("LANG", "de_DE.UTF-8"),
                ("TMUX", "/tmp/tmux-0/default,1,0"),
                ("TMUX_PANE", "%0"),
                ("TMUX_TMPDIR", "/x"),
                ("CLAUDECODE", "1"),
                ("SOME_API_KEY", "sk-1"),
                ("NODE_ENV", "test"),
            ],
            &[("HOME", "/h"), ("LANG", "de_DE.UTF-8"), ("PATH", "/bin")],
        );
    }

    #[test]
    fn a_locale_without_utf8_is_replaced_where_it_counts() {
        check(&[], &[("LC_CTYPE", UTF8_LOCALE)]);
        check(&[("LC_ALL", "C")], &[("LC_ALL", UTF8_LOCALE)]);
        check(&[("LANG", "de_DE")], &[("LANG", "de_DE"), ("LC_CTYPE", UTF8_LOCALE)]);
        check(&[("LC_ALL", ""), ("LANG", "C.utf8")], &[("LANG", "C.utf8"), ("LC_ALL", "")]);
        check(&[("LC_ALL", "C"), ("LANG", "C.utf8")], &[("LANG", "C.utf8"), ("LC_ALL", UTF8_LOCALE)]);
    }
}
