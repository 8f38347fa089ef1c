//! What a start looks like, and what must never be in it.
//!
//! Long: one table of starts, a part for each program.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use proptest::prelude::*;
use team_provider::{
    Auth, Channel, FolderTrust, Launch, SeatContext, Start, Unsupported, clean_env, provider,
};

const ID: &str = "11111111-2222-4333-8444-555555555555";
const PARENT: &str = "99999999-2222-4333-8444-555555555555";

/// The world of one seat, with values that are easy to recognise.
struct World {
    provider: &'static str,
    profile: BTreeMap<String, String>,
    env: BTreeMap<String, String>,
    tools: Vec<String>,
}

impl World {
    fn new(provider: &'static str) -> Self {
        Self { provider, profile: BTreeMap::new(), env: BTreeMap::new(), tools: Vec::new() }
    }

    fn profile(mut self, name: &str, value: &str) -> Self {
        self.profile.insert(name.to_owned(), value.to_owned());
        self
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    fn tools(mut self, words: &[&str]) -> Self {
        self.tools = words.iter().map(|word| (*word).to_owned()).collect();
        self
    }

    fn context(&self) -> SeatContext<'_> {
        SeatContext {
            agent: "w1",
            team: "current",
            cwd: Path::new("/home/me/app"),
            git_root: None,
            program: Path::new("/usr/bin/program"),
            self_exe: Path::new("/usr/bin/team-agent"),
            seat_file: Path::new("/s/w1/seat.json"),
            seat_dir: Path::new("/s/w1"),
            socket: Path::new("/s/w1/socket"),
            port: 4096,
            secret: "a-random-word",
            preamble: "You are w1.\n",
            model: None,
            effort: None,
            tools: &self.tools,
            auth: Auth::Subscription,
            profile: &self.profile,
            env: &self.env,
            home: Path::new("/home/me"),
            own_settings: &[],
            start: Start::Fresh { native_id: ID },
            trust: FolderTrust::OwnConfig,
            skip_permissions: false,
            version: None,
        }
    }

    fn launch_with<'a>(&'a self, change: impl FnOnce(&mut SeatContext<'a>)) -> Result<Launch, Unsupported> {
        let mut context = self.context();
        change(&mut context);
        provider(self.provider).expect("known").launch(&context)
    }
}

/// Writes a launch as a person would read it.
fn show(launch: &Launch) -> String {
    let mut out = String::new();
    let words: Vec<String> = launch.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    writeln!(out, "argv: {}", words.join(" ")).expect("write");
    writeln!(out, "set: {:?}", launch.env_set).expect("write");
    writeln!(out, "secret: {:?}", launch.secret_env.keys().collect::<Vec<_>>()).expect("write");
    writeln!(out, "remove: {}", launch.env_remove.join(" ")).expect("write");
    writeln!(out, "ids: {:?} of {:?}", launch.native_id, launch.start_ids).expect("write");
    writeln!(out, "channel: {:?}, else {:?}", launch.channel, launch.fallback).expect("write");
    writeln!(out, "ready: {:?}", launch.ready).expect("write");
    writeln!(out, "home: {} managed {:?}", launch.config_home.display(), launch.managed_home).expect("write");
    for note in &launch.notes {
        writeln!(out, "note: {note}").expect("write");
    }
    for link in &launch.links {
        writeln!(out, "link {} to {}", link.path.display(), link.target.display()).expect("write");
    }
    for file in &launch.files {
        let keep = if file.keep_existing { " kept if there" } else { "" };
        writeln!(out, "file {} {:o}{keep}\n{}", file.path.display(), file.mode, file.contents)
            .expect("write");
    }
    out
}

#[test]
fn claude_with_the_persons_log_in() {
    let world = World::new("claude").env("HOME", "/home/me");
    let launch = world.launch_with(|it| {
        it.model = Some("claude-sonnet-4-6");
        it.effort = Some("high");
    });
    insta::assert_snapshot!(show(&launch.expect("launch")));
}

#[test]
fn claude_with_a_key_of_a_profile() {
    let world = World::new("claude").profile("API_KEY", "sk-secret-1").profile("HTTPS_PROXY", "http://p");
    let launch = world.launch_with(|it| {
        it.auth = Auth::OfficialApi;
        it.git_root = Some(Path::new("/home/me"));
        it.trust = FolderTrust::Granted;
    });
    let launch = launch.expect("launch");
    let settings = launch.files.iter().find(|it| it.path.ends_with("settings.json")).expect("settings");
    let helper: serde_json::Value = serde_json::from_str(&settings.contents).expect("JSON");
    insta::assert_snapshot!(helper["apiKeyHelper"].to_string(), @r#""printf %s \"$TEAM_SEAT_API_KEY\"""#);
    let brief = Launch {
        files: launch.files.iter().filter(|it| it.path.ends_with(".claude.json")).cloned().collect(),
        ..launch
    };
    insta::assert_snapshot!(show(&brief));
}

/// Writes a server's arguments as a person would read them, a setting each line.
fn show_server(launch: &Launch) -> String {
    let words = launch.server.iter().flatten().map(|it| it.to_string_lossy().into_owned());
    words.collect::<Vec<_>>().join(" ").replace(" -c ", "\n  -c ")
}

#[test]
fn codex_with_the_persons_log_in() {
    let world = World::new("codex").env("HOME", "/home/me").env("XDG_STATE_HOME", "/state");
    let launch = world.launch_with(|it| {
        it.model = Some("gpt-5.5");
        it.effort = Some("high");
    });
    let launch = launch.expect("launch");
    insta::assert_snapshot!(format!("{}\n{}", show_server(&launch), show(&launch)));
}

#[test]
fn codex_is_given_the_persons_layer_for_workers_with_the_persons_log_in_alone() {
    let world = World::new("codex").profile("BASE_URL", "http://127.0.0.1:1/v1");
    let layer = Some("model_verbosity = \"high\"\n".to_owned());
    let here = |settings: &[Option<String>], auth: Auth| {
        let launch = world
            .launch_with(|it| {
                it.own_settings = settings;
                it.auth = auth;
                it.model = Some("gpt-6-sol");
            })
            .expect("it starts");
        let words: Vec<_> = launch.argv.iter().map(|it| it.to_string_lossy()).collect();
        let server = launch.server.expect("it has a server");
        assert!(!server.iter().any(|it| it == "--profile"));
        let at = words.iter().position(|it| it == "--profile");
        (at.map(|at| words[at + 1].to_string()), launch.notes.len())
    };
    assert_eq!(here(&[None, layer.clone()], Auth::Subscription), (Some("team-agent".to_owned()), 0));
    assert_eq!(here(&[None, None], Auth::Subscription), (None, 0));
    assert_eq!(here(&[None, layer.clone()], Auth::CompatibleApi), (None, 0));
    let old = Some("[profiles.team-agent]\nmodel = \"x\"\n".to_owned());
    assert_eq!(here(&[old, layer], Auth::Subscription), (None, 1));
}

#[test]
fn codex_goes_on_against_another_service_with_the_rights_of_its_role() {
    let world = World::new("codex")
        .profile("API_KEY", "sk-secret-1")
        .profile("BASE_URL", "http://127.0.0.1:1/v1")
        .tools(&["fs_read", "network", "nonsense"]);
    let launch = world.launch_with(|it| {
        it.auth = Auth::CompatibleApi;
        it.start = Start::Resume { native_id: ID, transcript: None };
        it.trust = FolderTrust::OwnConfig;
    });
    let launch = launch.expect("launch");
    let shown = format!("{}\n{}", show_server(&launch), show(&launch));
    assert!(!shown.contains("sk-secret-1"));
    insta::assert_snapshot!(shown);
}

#[test]
fn opencode_is_screen_and_server_in_one() {
    let world = World::new("opencode").env("SHELL", "/usr/bin/zsh").env("TMPDIR", "/tmp/it's");
    let launch = world.launch_with(|it| it.model = Some("maker/model-1"));
    insta::assert_snapshot!(show(&launch.expect("launch")));
    let world = World::new("opencode")
        .profile("API_KEY", "sk-secret-1")
        .profile("BASE_URL", "http://127.0.0.1:1/v1")
        .env("OPENCODE_CONFIG_CONTENT", r#"{"instructions":["a.md"],"permission":{"bash":"ask"}}"#)
        .tools(&["fs_read", "git_diff"]);
    let launch = world.launch_with(|it| {
        it.auth = Auth::CompatibleApi;
        it.model = Some("maker/model-1");
        it.start = Start::Resume { native_id: "ses_1aB", transcript: None };
    });
    let launch = Launch { files: Vec::new(), ..launch.expect("launch") };
    insta::assert_snapshot!(show(&launch));
}

#[test]
fn opencode_refuses_what_it_cannot_take() {
    let world = World::new("opencode").profile("API_KEY", "sk-secret-1");
    let refused = |change: &dyn Fn(&mut SeatContext<'_>)| {
        let mut context = world.context();
        change(&mut context);
        provider("opencode").expect("known").launch(&context).expect_err("refused").to_string()
    };
    insta::assert_snapshot!(refused(&|it| it.effort = Some("high")), @"provider `opencode` has no effort `high`");
    insta::assert_snapshot!(refused(&|it| it.auth = Auth::CompatibleApi), @"provider `opencode` cannot take `` as its model (with a profile it must be named)");
    insta::assert_snapshot!(
        refused(&|it| {
            it.auth = Auth::OfficialApi;
            it.model = Some("model-1");
        }),
        @"provider `opencode` cannot take `model-1` as its model (wanted: SERVICE/MODEL)"
    );
    insta::assert_snapshot!(
        refused(&|it| it.start = Start::Resume { native_id: "ses_../x", transcript: None }),
        @"`ses_../x` is not a session id that provider `opencode` takes"
    );
}

#[test]
fn codex_refuses_what_it_cannot_take() {
    let world = World::new("codex");
    let refused = |change: &dyn Fn(&mut SeatContext<'_>)| {
        let mut context = world.context();
        change(&mut context);
        provider("codex").expect("known").launch(&context).expect_err("refused").to_string()
    };
    insta::assert_snapshot!(refused(&|it| it.effort = Some("max")), @"provider `codex` has no effort `max`");
    insta::assert_snapshot!(refused(&|it| it.model = Some("-m")), @"provider `codex` cannot take `-m` as its model");
    insta::assert_snapshot!(
        refused(&|it| it.auth = Auth::CompatibleApi),
        @"auth mode `compatible_api` of provider `codex` needs `BASE_URL` in the profile"
    );
    insta::assert_snapshot!(
        refused(&|it| it.start = Start::Resume { native_id: "--last", transcript: None }),
        @"`--last` is not a session id that provider `codex` takes"
    );
    // A long role goes by a file.
    let long = "x".repeat(200_000);
    let launch = world.launch_with(|it| it.preamble = &long).expect("launch");
    assert!(launch.server.iter().flatten().all(|it| it.len() < 100_000));
    assert!(launch.files.iter().any(|it| it.contents == long && it.mode == 0o600));
}

#[test]
fn claude_against_another_service() {
    let world =
        World::new("claude").profile("BASE_URL", "http://127.0.0.1:1/v1").env("ANTHROPIC_API_KEY", "sk-mine");
    let launch = world.launch_with(|it| it.auth = Auth::CompatibleApi).expect("launch");
    assert_eq!(launch.secret_env.keys().collect::<Vec<_>>(), ["ANTHROPIC_BASE_URL"]);
    assert_eq!(launch.env_set["ANTHROPIC_AUTH_TOKEN"], "none");
    assert!(launch.env_remove.contains(&"ANTHROPIC_API_KEY".to_owned()), "the person's key stays at home");
}

/// Returns the arguments of a start.
fn argv<'a>(world: &'a World, change: impl FnOnce(&mut SeatContext<'a>)) -> String {
    let launch = world.launch_with(change).expect("launch");
    let words: Vec<String> =
        launch.argv[1..].iter().map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

#[test]
fn an_earlier_conversation_is_named_by_id_or_by_its_file() {
    let world = World::new("claude");
    let begin = |start: Start<'_>| {
        let all = argv(&world, |it| it.start = start);
        all.split(" --settings").next().expect("flags").to_owned()
    };
    insta::assert_snapshot!(begin(Start::Fresh { native_id: ID }),
        @"--session-id 11111111-2222-4333-8444-555555555555");
    insta::assert_snapshot!(begin(Start::Resume { native_id: ID, transcript: None }),
        @"--resume 11111111-2222-4333-8444-555555555555");
    insta::assert_snapshot!(begin(Start::Resume { native_id: ID, transcript: Some(Path::new("/h/a b.jsonl")) }),
        @"--resume /h/a b.jsonl");
    insta::assert_snapshot!(begin(Start::Fork { from: PARENT, transcript: None, native_id: ID }),
        @"--resume 99999999-2222-4333-8444-555555555555 --fork-session --session-id 11111111-2222-4333-8444-555555555555");
    let fork =
        world.launch_with(|it| it.start = Start::Fork { from: PARENT, transcript: None, native_id: ID });
    assert_eq!(fork.expect("launch").start_ids, [ID, PARENT], "a fork first tells its parent's id");
}

#[test]
fn tool_words_take_away_and_never_allow() {
    let flags = |words: &[&str]| {
        let all = argv(&World::new("claude").tools(words), |_| {});
        assert!(all.contains("--allowedTools mcp__team_orchestrator --strict-mcp-config"), "{all}");
        all.split("--strict-mcp-config").nth(1).expect("tail").trim().to_owned()
    };
    assert_eq!(flags(&[]), "");
    assert_eq!(flags(&["*"]), "");
    let everything = ["fs_read", "fs_list", "fs_write", "execute_bash", "mcp_team", "provider_builtin"];
    assert_eq!(flags(&everything), "");
    assert_eq!(flags(&["fs_read", "fs_list", "mcp_team"]), "--tools Read,Glob,Grep,LSP");
    assert_eq!(flags(&["fs_read", "network"]), "--tools Read,WebFetch,WebSearch");
    assert_eq!(flags(&["mcp_team"]), "--tools");
    assert_eq!(
        flags(&["fs_read", "fs_list", "provider_builtin"]),
        "--disallowedTools Edit,Write,NotebookEdit,Bash,Monitor,PowerShell"
    );
    let odd = World::new("claude").tools(&["fs_read", "telepathy"]).launch_with(|_| {}).expect("launch");
    assert_eq!(odd.notes, ["tool `telepathy` is not known to provider `claude`: it gives nothing"]);
}

#[test]
fn the_folder_is_trusted_only_if_somebody_said_so() {
    let world = World::new("claude");
    for (trust, set, notes) in
        [(FolderTrust::No, None, 1), (FolderTrust::OwnConfig, None, 0), (FolderTrust::Granted, Some("1"), 0)]
    {
        let launch = world.launch_with(|it| it.trust = trust).expect("launch");
        assert_eq!(launch.env_set.get("CLAUDE_CODE_SANDBOXED").map(String::as_str), set, "{trust:?}");
        assert_eq!(launch.notes.len(), notes, "{trust:?}");
    }
    let world = world.profile("API_KEY", "k");
    let seed = |trust| {
        let launch =
            world.launch_with(|it| (it.auth, it.trust) = (Auth::OfficialApi, trust)).expect("launch");
        let file = launch.files.iter().find(|it| it.path.ends_with(".claude.json")).expect("seed").clone();
        provider("claude").expect("known").trusts(&file.contents, Path::new("/home/me/app/below"))
    };
    assert!(seed(FolderTrust::Granted));
    assert!(!seed(FolderTrust::No));
}

#[test]
fn trust_is_read_from_the_folder_or_one_above() {
    let claude = provider("claude").expect("known");
    let file = r#"{"projects":{"/home/me":{"hasTrustDialogAccepted":true},"/srv":{"hasTrustDialogAccepted":false},"/x":{}}}"#;
    for (cwd, trusted) in [
        ("/home/me", true),
        ("/home/me/app/x", true),
        ("/home/met", false),
        ("/srv", false),
        ("/x", false),
        ("/", false),
    ] {
        assert_eq!(claude.trusts(file, Path::new(cwd)), trusted, "{cwd}");
    }
    for broken in
        ["", "{", "[]", r#"{"projects":[]}"#, r#"{"projects":{"/":{"hasTrustDialogAccepted":"true"}}}"#]
    {
        assert!(!claude.trusts(broken, Path::new("/a")), "{broken}");
    }
    let path = |env: &[(&str, &str)]| {
        let env = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        claude.trust_file(&env, Path::new("/home/me")).expect("file").display().to_string()
    };
    assert_eq!(path(&[]), "/home/me/.claude.json");
    assert_eq!(path(&[("CLAUDE_CONFIG_DIR", "/c")]), "/c/.claude.json");
}

#[test]
fn what_cannot_be_done_is_refused_with_a_next_step() {
    let refused = |world: &World, change: &dyn Fn(&mut SeatContext<'_>)| {
        let error = world.launch_with(|it| change(it)).expect_err("refused");
        format!("{error} / {}", error.hint().unwrap_or_default())
    };
    let world = World::new("claude");
    insta::assert_snapshot!(refused(&world, &|it| it.effort = Some("extreme")),
        @"provider `claude` has no effort `extreme` / use one of: low, medium, high, xhigh, max");
    insta::assert_snapshot!(refused(&world, &|it| it.auth = Auth::OfficialApi),
        @"auth mode `official_api` of provider `claude` needs `API_KEY` or `AUTH_TOKEN` in the profile / add `API_KEY` or `AUTH_TOKEN` to the profile's env file");
    insta::assert_snapshot!(refused(&world, &|it| it.auth = Auth::CompatibleApi),
        @"auth mode `compatible_api` of provider `claude` needs `BASE_URL` in the profile / add `BASE_URL` to the profile's env file");
    insta::assert_snapshot!(refused(&world, &|it| it.start = Start::Resume { native_id: "last", transcript: None }),
        @"`last` is not a session id that provider `claude` takes / start the agent with a fresh session");
    insta::assert_snapshot!(refused(&world, &|it| it.model = Some("--dangerously-skip-permissions")),
        @"provider `claude` cannot take `--dangerously-skip-permissions` as its model / ");
}

#[test]
fn the_fake_is_reached_by_keys_unless_the_bell_is_asked_for() {
    let by_keys = World::new("fake").launch_with(|it| it.effort = Some("high")).expect("launch");
    assert_eq!((by_keys.channel.clone(), by_keys.fallback.clone()), (Channel::Keys, None));
    let brief = Launch { files: Vec::new(), ..by_keys };
    insta::assert_snapshot!(show(&brief));
    let by_bell = World::new("fake").env("FAKE_CHANNEL", "bell").env("FAKE_HOME", "/f").launch_with(|_| {});
    insta::assert_snapshot!(show(&by_bell.expect("launch")));
}

#[test]
fn nothing_asks_unless_told_and_no_hook_fires_for_each_tool() {
    for name in ["claude", "fake"] {
        let world = World::new(name).env("FAKE_CHANNEL", "bell");
        let launch = world.launch_with(|_| {}).expect("launch");
        let all = show(&launch);
        for word in
            ["PreToolUse", "PostToolUse", "bypassPermissions", "dangerously", "acceptEdits", "\"allow\""]
        {
            assert!(!all.contains(word), "{name}: {word}");
        }
    }
    let granted = World::new("claude").launch_with(|it| it.skip_permissions = true).expect("launch");
    let all = show(&granted);
    assert!(all.contains("--permission-mode bypassPermissions"));
    assert!(all.contains("\"skipDangerousModePermissionPrompt\": true"));
}

/// Undoes the quoting of one shell word and returns it with the rest of the line.
fn unquote(line: &str) -> (String, &str) {
    let mut word = String::new();
    let mut rest = line;
    loop {
        if let Some(quoted) = rest.strip_prefix('\'') {
            let end = quoted.find('\'').expect("closed");
            word.push_str(&quoted[..end]);
            rest = &quoted[end + 1..];
        } else if let Some(after) = rest.strip_prefix(r"\'") {
            word.push('\'');
            rest = after;
        } else {
            return (word, rest);
        }
    }
}

proptest! {
    #[test]
    fn a_hook_line_means_the_same_paths_whatever_is_in_them(
        exe in "/[ -~]{1,30}", file in "/[^\\p{Cc}]{1,30}",
    ) {
        let world = World::new("claude");
        let launch = world.launch_with(|it| {
            it.self_exe = Path::new(&exe);
            it.seat_file = Path::new(&file);
        }).expect("launch");
        let settings: serde_json::Value = serde_json::from_str(&launch.files[0].contents).expect("JSON");
        let line = settings["hooks"]["Stop"][0]["hooks"][0]["command"].as_str().expect("line").to_owned();
        let rest = line.strip_prefix("exec ").expect("exec");
        let (first, rest) = unquote(rest);
        let rest = rest.strip_prefix(" hook --seat-file ").expect("words");
        let (second, rest) = unquote(rest);
        prop_assert_eq!((first.as_str(), second.as_str(), rest), (exe.as_str(), file.as_str(), " Stop"));
    }

    #[test]
    fn secrets_are_in_no_argument_no_file_and_no_debug_text(
        secret in "sk-[a-zA-Z0-9]{16,60}",
        names in prop::collection::vec(
            prop::sample::select(vec!["API_KEY", "AUTH_TOKEN", "BASE_URL", "ANTHROPIC_API_KEY",
                "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "AWS_SECRET_ACCESS_KEY", "OTHER"]), 1..5),
        auth in prop::sample::select(vec![Auth::Subscription, Auth::OfficialApi, Auth::CompatibleApi]),
        name in prop::sample::select(vec!["claude", "fake", "opencode"]),
        bell in any::<bool>(),
    ) {
        let mut world = World::new(name).env("ANTHROPIC_API_KEY", &format!("{secret}-person"));
        for name in &names {
            world = world.profile(name, &secret);
        }
        if bell {
            world = world.env("FAKE_CHANNEL", "bell");
        }
        let launch = world.launch_with(|it| {
            it.auth = auth;
            it.model = (name == "opencode").then_some("maker/model-1");
        });
        let Ok(launch) = launch else { return Ok(()) };
        // The last characters count too: they are what a program remembers a key by.
        let tail = &secret[secret.len() - 8..];
        for word in &launch.argv {
            prop_assert!(!word.to_string_lossy().contains(tail));
        }
        for file in &launch.files {
            prop_assert!(!file.contents.contains(tail), "{}", file.path.display());
        }
        let debugged = format!("{launch:?}");
        prop_assert!(!debugged.contains(tail));
        for (name, value) in &launch.env_set {
            prop_assert!(!value.contains(tail), "{name}");
        }
        for note in &launch.notes {
            prop_assert!(!note.contains(tail));
        }
        prop_assert!(launch.secret_env.values().any(|value| value == &secret));
        // What the program gets in the end: with a key of its own, nothing of the person's.
        let mut env = clean_env(&world.env);
        for name in &launch.env_remove {
            env.remove(name);
        }
        if name == "claude" && auth != Auth::Subscription {
            prop_assert!(!env.values().any(|value| value.contains(tail)));
        }
    }
}

#[test]
fn gemini_with_the_persons_log_in_and_settings() {
    let world = World::new("gemini").env("HOME", "/home/me");
    let own = "// mine\n{\"ui\": {\"theme\": \"x\"}, \"hooks\": {\"AfterAgent\": [{\"hooks\": []}]}}";
    let own = [Some(own.to_owned())];
    let launch = world.launch_with(|it| {
        it.model = Some("gemini-2.5-pro");
        it.own_settings = &own;
    });
    insta::assert_snapshot!(show(&launch.expect("launch")));
}

#[test]
fn gemini_with_a_key_of_a_profile_has_nothing_of_the_persons() {
    let world = World::new("gemini")
        .profile("API_KEY", "secret-1")
        .profile("BASE_URL", "http://m")
        .tools(&["fs_read", "mcp_team"]);
    let own = [Some("{\"ui\": {\"theme\": \"x\"}}".to_owned())];
    let launch = world.launch_with(|it| {
        it.auth = Auth::CompatibleApi;
        it.own_settings = &own;
    });
    let launch = launch.expect("launch");
    let shown = show(&launch);
    assert!(!shown.contains("secret-1") && !shown.contains("theme") && launch.links.is_empty(), "{shown}");
    assert_eq!(launch.secret_env["GEMINI_API_KEY"], "secret-1");
    insta::assert_snapshot!(shown);
}

#[test]
fn gemini_says_what_it_cannot_do() {
    let world = World::new("gemini");
    let fork =
        world.launch_with(|it| it.start = Start::Fork { from: PARENT, transcript: None, native_id: ID });
    assert_eq!(fork, Err(Unsupported::Fork { provider: "gemini" }));
    let elsewhere = world.launch_with(|it| {
        it.start = Start::Resume { native_id: ID, transcript: Some(Path::new("/t.jsonl")) };
    });
    assert!(matches!(elsewhere, Err(Unsupported::Elsewhere { .. })));
    let effort = world.launch_with(|it| it.effort = Some("high"));
    assert!(matches!(effort, Err(Unsupported::Effort { known: [], .. })));
    let key = world.launch_with(|it| it.auth = Auth::OfficialApi);
    assert!(matches!(key, Err(Unsupported::Profile { needs: "`API_KEY`", .. })));
    let untrusted = world.launch_with(|it| it.trust = FolderTrust::No).expect("it asks");
    assert!(untrusted.notes[0].contains("will ask whether `/home/me/app` is trusted"));
}

#[test]
fn copilot_with_the_persons_log_in() {
    let world =
        World::new("copilot").env("HOME", "/home/me").env("COPILOT_CUSTOM_INSTRUCTIONS_DIRS", "/home/me/ins");
    let launch = world.launch_with(|it| {
        it.model = Some("gpt-5");
        it.effort = Some("high");
    });
    let mut launch = launch.expect("launch");
    let extension =
        launch.files.iter_mut().find(|it| it.path.ends_with("extension.mjs")).expect("it has one");
    assert!(extension.contents.contains("joinSession"));
    extension.contents = "(the extension)\n".to_owned();
    insta::assert_snapshot!(show(&launch));
}

#[test]
fn copilot_with_a_profile_has_a_home_of_its_own_and_nothing_of_the_persons() {
    let world = World::new("copilot").profile("API_KEY", "secret-1").profile("BASE_URL", "http://m/v1");
    let world = world.tools(&["fs_read", "mcp_team"]);
    let with_model = |model: Option<&'static str>| {
        world.launch_with(|it| {
            it.auth = Auth::CompatibleApi;
            it.model = model;
        })
    };
    assert!(matches!(with_model(None), Err(Unsupported::Profile { needs: "`MODEL`", .. })));
    let launch = with_model(Some("m")).expect("launch");
    let shown = show(&launch);
    assert!(!shown.contains("secret-1"), "{shown}");
    assert_eq!(launch.secret_env["COPILOT_PROVIDER_API_KEY"], "secret-1");
    assert_eq!(launch.env_set["COPILOT_HOME"], "/s/w1/copilot-home");
    assert_eq!(launch.env_set["COPILOT_MODEL"], "m");
    assert!(launch.env_remove.iter().any(|it| it == "GITHUB_TOKEN"));
    let words: Vec<String> = launch.argv.iter().map(|it| it.to_string_lossy().into_owned()).collect();
    assert!(
        words.iter().any(|it| it.starts_with("--available-tools=view,team_orchestrator-send_message")),
        "{words:?}"
    );
    let config =
        launch.files.iter().find(|it| it.path.ends_with("copilot-home/config.json")).expect("trusted");
    assert!(config.contents.contains("/home/me/app"));
    let official = world.launch_with(|it| it.auth = Auth::OfficialApi);
    assert!(matches!(official, Err(Unsupported::Auth { .. })));
}
