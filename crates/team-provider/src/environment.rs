//! Which variables of the person's shell a worker must not inherit.
//!
//! Knows names. Must not read the environment of this process.

use std::collections::BTreeMap;

/// Names that say "you run inside another session", kept apart by what they would break.
const DENIED: &[&str] = &[
    // Marks and ids of an agent program's own session and of its children.
    "CLAUDECODE",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_EXECPATH",
    "CLAUDE_CODE_PARENT_SESSION_ID",
    "CLAUDE_CODE_REMOTE",
    "CLAUDE_CODE_REMOTE_SESSION_ID",
    "CLAUDE_CODE_SANDBOXED",
    "CLAUDE_CODE_SESSION_ACCESS_TOKEN",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_SESSION_KIND",
    "CLAUDE_CODE_SESSION_NAME",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_TASK_LIST_ID",
    "CLAUDE_CODE_TMPDIR",
    "CLAUDE_CODE_TMUX_PREFIX",
    "CLAUDE_CODE_TMUX_SESSION",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PLUGIN_DATA",
    "CLAUDE_PLUGIN_ROOT",
    "CLAUDE_PROJECT_DIR",
    "CLAUBBIT",
    "AI_AGENT",
    "AGENT",
    "COPILOT_AGENT_SESSION_ID",
    "COPILOT_CLI",
    "GEMINI_CLI",
    "GEMINI_CLI_NO_RELAUNCH",
    "GEMINI_SESSION_ID",
    "OPENCODE",
    "OPENCODE_PID",
    "OPENCODE_SERVER_PASSWORD",
    // The terminal the person sits at.
    "COLUMNS",
    "LINES",
    "STY",
    "TMUX",
    "TMUX_PANE",
    "TMUX_PLUGIN_MANAGER_PATH",
    "TMUX_TMPDIR",
    "WINDOW",
    // A launcher's own mode.
    "NODE_CHANNEL_FD",
    "NODE_ENV",
    "INIT_CWD",
    // The shell's bookkeeping.
    "OLDPWD",
    "PWD",
    "SHLVL",
    "_",
];

/// Names that begin like this are refused too.
const DENIED_PREFIXES: &[&str] = &["CODEX_", "npm_", "NPM_LIFECYCLE_", "TEAM_AGENT_", "TEAM_SEAT_"];

/// Names that a denied prefix covers and that are the person's settings all the same.
const KEPT: &[&str] = &["CODEX_HOME", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_CA_CERTIFICATE"];

/// Names that an agent program sets for the commands that it runs.
const MARKS: &[&str] = &[
    "AI_AGENT",
    "CLAUDECODE",
    "CODEX_SANDBOX",
    "CODEX_SANDBOX_NETWORK_DISABLED",
    "CODEX_THREAD_ID",
    "COPILOT_AGENT_SESSION_ID",
    "COPILOT_CLI",
    "GEMINI_CLI",
    "OPENCODE",
];

/// Says whether a variable of this name tells that an agent program runs the command, and not a person.
pub fn is_agents_mark(name: &str) -> bool {
    MARKS.contains(&name)
}

/// Says whether a worker must not inherit the variable.
pub fn is_denied(name: &str) -> bool {
    DENIED.contains(&name)
        || (DENIED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && !KEPT.contains(&name))
        || !is_name(name)
}

/// Returns the environment without what a worker must not inherit.
pub fn clean_env(env: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    env.iter()
        .filter(|(name, value)| !is_denied(name) && !value.contains('\0'))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Says whether a program can be given a variable of this name; exported shell functions cannot.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !name.starts_with("BASH_FUNC_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_marks_do_not_reach_a_worker() {
        for name in [
            "CLAUDECODE",
            "CLAUDE_CODE_SESSION_ID",
            "CODEX_THREAD_ID",
            "CODEX_SANDBOX",
            "TMUX",
            "TMUX_PANE",
            "npm_config_user_agent",
            "NODE_ENV",
            "TEAM_AGENT_WORKSPACE",
            "BASH_FUNC_x%%",
        ] {
            assert!(is_denied(name), "{name}");
        }
    }

    #[test]
    fn what_marks_an_agents_command_reaches_no_worker() {
        assert!(MARKS.iter().all(|it| is_denied(it)));
    }

    #[test]
    fn settings_of_the_person_do() {
        for name in [
            "PATH",
            "HOME",
            "LANG",
            "CLAUDE_CONFIG_DIR",
            "CLAUDE_CODE_USE_BEDROCK",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "ANTHROPIC_BASE_URL",
            "CODEX_HOME",
            "NODE_OPTIONS",
            "NODE_EXTRA_CA_CERTS",
            "NPM_TOKEN",
            "HTTPS_PROXY",
        ] {
            assert!(!is_denied(name), "{name}");
        }
    }

    #[test]
    fn cleaning_keeps_values_as_they_are() {
        let env = BTreeMap::from([
            ("A".to_owned(), "x=1\n 'y'".to_owned()),
            ("TMUX".to_owned(), "/tmp/s,1,0".to_owned()),
            ("B".to_owned(), "a\0b".to_owned()),
        ]);
        assert_eq!(clean_env(&env), BTreeMap::from([("A".to_owned(), "x=1\n 'y'".to_owned())]));
    }
}
