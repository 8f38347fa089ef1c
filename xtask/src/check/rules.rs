//! What may stand where: the borders of `docs/ARCHITECTURE.md` as data. An exception is a path and a reason.

/// Words that only some files may hold.
pub(crate) struct Rule {
    /// What it keeps apart.
    pub(crate) about: &'static str,
    /// The words. One that begins or ends with a letter matches whole words only.
    pub(crate) words: &'static [&'static str],
    /// Where the words are looked for, by the beginning of a path.
    pub(crate) within: &'static [&'static str],
    /// Where they may stand.
    pub(crate) home: &'static [&'static str],
    /// Where else, and why.
    pub(crate) except: &'static [(&'static str, &'static str)],
}

const ALL: &[&str] = &["crates/"];

/// The borders. Comments and tests are not looked at.
pub(crate) const RULES: &[Rule] = &[
    Rule {
        about: "only the program knows clap",
        words: &["clap", "clap_complete"],
        within: ALL,
        home: &["crates/team-agent/src/"],
        except: &[],
    },
    Rule {
        about: "only team-mcp knows rmcp",
        words: &["rmcp"],
        within: ALL,
        home: &["crates/team-mcp/src/"],
        except: &[],
    },
    Rule {
        about: "only team-tmux speaks to tmux",
        words: &[
            "\"tmux\"",
            "\"attach-session\"",
            "\"capture-pane\"",
            "\"display-message\"",
            "\"if-shell\"",
            "\"kill-pane\"",
            "\"kill-server\"",
            "\"kill-session\"",
            "\"list-panes\"",
            "\"load-buffer\"",
            "\"new-session\"",
            "\"new-window\"",
            "\"paste-buffer\"",
            "\"send-keys\"",
            "\"set-option\"",
        ],
        within: ALL,
        home: &["crates/team-tmux/src/"],
        except: &[
            ("crates/team-engine/src/ops/doctor.rs", "names a check after it"),
            ("crates/team-engine/src/error.rs", "names a kind of error after it"),
            ("crates/team-engine/src/workspace.rs", "names the directory entry of its socket"),
            ("crates/team-testkit/src/pane.rs", "plays a person who has a tmux of their own"),
        ],
    },
    Rule {
        about: "only team-provider knows the agent programs",
        words: &["\"claude", "\"codex", "\"copilot", "\"gemini", "\"opencode"],
        within: ALL,
        home: &["crates/team-provider/src/"],
        except: &[
            ("crates/team-fake/src/", "wears the forms of such a program"),
            ("crates/team-stub/src/", "plays their model"),
            ("crates/team-testkit/src/", "installs the real programs"),
        ],
    },
    Rule {
        about: "only the program's ui prints",
        words: &["println!", "eprintln!", "print!", "eprint!", "stdout()", "stderr()"],
        within: ALL,
        home: &["crates/team-agent/src/ui.rs"],
        except: &[
            ("crates/team-agent/src/commands/attach.rs", "asks whether there is a terminal"),
            ("crates/team-engine/src/hook.rs", "answers the program that called the hook"),
            ("crates/team-engine/src/bridge/mod.rs", "tells the seat that started it"),
            ("crates/team-engine/src/coordinator/mod.rs", "talks to a person who runs it in the foreground"),
            ("crates/team-mcp/src/process.rs", "takes the two streams away, so that nobody else prints"),
            ("crates/team-fake/src/", "is an interactive program"),
            ("crates/team-testkit/src/", "tells of skipped tests, past the capturing of the test harness"),
        ],
    },
    Rule {
        about: "the model touches nothing",
        words: &[
            "std::env",
            "std::fs",
            "std::io",
            "std::net",
            "std::process",
            "std::thread",
            "std::time",
            "Utc::now",
            "Local::now",
            "nix",
            "libc",
        ],
        within: &["crates/team-model/src/"],
        home: &[],
        except: &[],
    },
    Rule {
        about: "providers say what is to be done and do nothing",
        words: &[
            "std::env",
            "std::fs",
            "std::net",
            "std::process",
            "std::thread",
            "Command::new",
            "Utc::now",
            "SystemTime::now",
            "Instant::now",
        ],
        within: &["crates/team-provider/src/"],
        home: &[],
        except: &[],
    },
    Rule {
        about: "only the engine decides what time it is for the team",
        words: &["Utc::now", "SystemTime::now", "Local::now"],
        within: ALL,
        home: &["crates/team-engine/src/clock.rs"],
        except: &[
            ("crates/team-journal/src/options.rs", "the clock of a log is given; this is the usual one"),
            ("crates/team-journal/src/spool.rs", "names files, so that they sort"),
            ("crates/team-fake/src/", "has a clock of its own, as other programs do"),
            ("crates/team-stub/src/", "plays servers, which have clocks"),
        ],
    },
    Rule {
        about: "waiting lives in the coordinator's loop and in the tool server",
        words: &["async", ".await", "tokio"],
        within: ALL,
        home: &["crates/team-engine/src/coordinator/", "crates/team-mcp/src/"],
        except: &[("crates/team-fake/src/settings.rs", "a hook's own word for running in the background")],
    },
    Rule {
        about: "programs are started in few places",
        words: &["Command::new"],
        within: ALL,
        home: &[
            "crates/team-engine/src/crew.rs",
            "crates/team-engine/src/guardian.rs",
            "crates/team-tmux/src/call.rs",
            "crates/team-tmux/src/version.rs",
        ],
        except: &[
            ("crates/team-agent/src/commands/attach.rs", "becomes the viewer that a person asked for"),
            ("crates/team-engine/src/ops/doctor.rs", "asks programs for their version"),
            ("crates/team-engine/src/models.rs", "asks programs for the models they know"),
            ("crates/team-engine/src/process.rs", "asks ps where there is no /proc"),
            ("crates/team-tmux/src/process.rs", "asks ps where there is no /proc"),
            ("crates/team-fake/src/", "starts hooks, shells and servers, as other programs do"),
            ("crates/team-selftest/src/", "uses the program as a person does"),
            ("crates/team-testkit/src/", "runs what is tested"),
        ],
    },
    Rule {
        about: "formats are read field by field, so that errors name the place",
        words: &["flatten)]", "flatten,", "untagged)]", "untagged,"],
        within: &[
            "crates/team-journal/src/",
            "crates/team-model/src/",
            "crates/team-spec/src/",
            "crates/team-provider/src/",
        ],
        home: &[],
        except: &[],
    },
];

/// Which of our crates may name which; a new edge is a change of the design. Tests may use the testkit besides.
pub(crate) const EDGES: &[(&str, &[&str])] = &[
    ("team-agent", &["team-engine", "team-fake", "team-mcp", "team-model", "team-selftest", "team-spec"]),
    ("team-engine", &["team-journal", "team-model", "team-provider", "team-spec", "team-tmux"]),
    // Its HTTP server, for clothes whose program has one; nothing of the model.
    ("team-fake", &["team-stub"]),
    ("team-journal", &[]),
    ("team-mcp", &[]),
    ("team-model", &[]),
    ("team-provider", &[]),
    ("team-scenarios", &["team-testkit"]),
    ("team-selftest", &["team-provider", "team-stub"]),
    ("team-spec", &["team-model"]),
    ("team-stub", &[]),
    ("team-testkit", &["team-stub"]),
    ("team-tmux", &[]),
    ("xtask", &["team-engine", "team-journal", "team-model", "team-testkit"]),
];

/// Hosts that no file may name: packages are named by their names.
pub(crate) const HOSTS: &[&str] =
    &["crates.io", "npmjs.", "pypi.org", "pythonhosted.", "deb.debian.", "proxy.golang."];

/// Files that may name a host, and why.
pub(crate) const HOST_EXCEPTIONS: &[(&str, &str)] =
    &[("Cargo.lock", "cargo writes where a package comes from"), ("xtask/src/check/rules.rs", "this list")];

/// A source file may be this long; a longer one says why in a line `//! Long: ...` at its top.
pub(crate) const LINES: usize = 500;
