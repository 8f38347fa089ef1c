//! What is read from files that are right.

mod world;

use team_spec::{AuthMode, Effort, ModelSource, Tool};
use world::World;

const TEAM: &str = "---\nname: tea.m\ngoal: Ship it\nprovider_models: {claude_code: m-1}\n---\nnotes\n";
const ROLE: &str = "---\nname: coder\nrole: Worker\nprovider: claude_code\ntools: [fs_read, mcp_team]\neffort: high\n---\n\nDo it.\nÄ\n";

#[test]
fn a_whole_team_becomes_a_spec() {
    let world = World::new();
    world.write("src/x", "");
    world.profile("work", "AUTH_MODE=official_api\nAPI_KEY=sk-1\nMODEL=m-2\n");
    world.team("TEAM.md", TEAM);
    world.team("agents/a.md", ROLE);
    world.team(
        "agents/b.md",
        "---\nprovider: claude\nprofile: work\nworking_directory: ./src/../src/\n---\n".to_owned()
            + "Help.\n",
    );
    world.team("agents/c.md", "---\nprovider: fake\nmodel: m-3\ntools: '*'\n---\n");
    let spec = world.compile().unwrap();
    let json = spec.to_json();
    assert_eq!(json, world.compile().unwrap().to_json(), "two runs give the same bytes");
    assert!(!json.contains("sk-1"));
    insta::assert_snapshot!(json.replace(&spec.digest, "<digest>"));
    assert_eq!(serde_json::from_str::<team_spec::Spec>(&json).unwrap(), spec);

    spec.save(&world.path(".team/current")).unwrap();
    assert_eq!(team_spec::Spec::load(&world.path(".team/current")).unwrap(), spec);
}

#[test]
fn line_ends_and_byte_order_marks_change_nothing() {
    let compile = |change: &dyn Fn(&str) -> String| {
        let world = World::new();
        world.team("TEAM.md", change(TEAM));
        world.team("agents/a.md", change(ROLE));
        world.compile().unwrap()
    };
    let plain = compile(&|it| it.to_owned());
    assert_eq!(compile(&|it| it.replace('\n', "\r\n")), plain);
    assert_eq!(compile(&|it| format!("\u{feff}{it}")), plain);
    assert_eq!(compile(&|it| format!("\u{feff}{}", it.replace('\n', "\r\n"))), plain);
    assert_eq!(plain.seats[0].instructions, "\nDo it.\nÄ\n");
}

#[test]
fn all_the_ways_of_yaml_give_the_same_seat() {
    let heads = [
        "name: coder\nrole: Builds, tests\nprovider: claude\ntools: [fs_read, mcp_team]\n",
        "# comment\nname: 'coder' # comment\nrole: \"Builds, tests\"\nprovider: \"cl\\u0061ude\"\ntools:\n  - fs_read\n  - mcp_team\n",
        "tools:\n- mcp_team\n- fs_read\nprovider:    claude\nname:\tcoder\nrole: >-\n  Builds,\n  tests\n",
        "{name: coder, role: 'Builds, tests', provider: claude, tools: [mcp_team, fs_read]}\n",
        "name: &n coder\nrole: Builds,\n  tests\nprovider: claude\ntools: !!seq [!!str fs_read, mcp_team]\neffort:\nmodel: ~\n",
        "? name\n: coder\n<<: {provider: claude, role: \"Builds, tests\"}\ntools: [fs_read, mcp_team, fs_read]\n",
    ];
    let specs = heads.map(|head| {
        let world = World::new();
        world.team("agents/a.md", format!("---\n{head}...\nbody"));
        world.compile().unwrap_or_else(|errors| panic!("{errors}"))
    });
    for spec in &specs {
        assert_eq!(spec, &specs[0]);
    }
}

#[test]
fn a_team_of_role_files_alone_gets_the_defaults() {
    let world = World::new();
    world.team("agents/研究员.md", "---\nprovider: claude\n---\n");
    let spec = world.compile().unwrap();
    assert_eq!((spec.name.as_str(), spec.session_name.as_str(), spec.fast), ("current", "current", false));
    let seat = &spec.seats[0];
    assert_eq!(seat.name.as_str(), "研究员");
    assert_eq!((seat.role.as_str(), seat.auth_mode), ("Worker", AuthMode::Subscription));
    assert_eq!(seat.tools.len(), Tool::ALL.len());
    assert_eq!(seat.tool_words(), ["*"]);
    assert_eq!((seat.profile.as_deref(), seat.effort, seat.working_directory.as_str()), (None, None, "."));
}

#[test]
fn a_team_without_agents_is_a_team() {
    let world = World::new();
    world.team("TEAM.md", "---\n---\n");
    assert_eq!(world.compile().unwrap().seats, []);
}

#[test]
fn instructions_of_any_length_are_kept_to_the_byte() {
    let world = World::new();
    let body = format!("\n---\n{}\t\u{85} end without a line end", "漢字 and text; `$x` \\;\n".repeat(2000));
    assert!(body.len() > 30_000);
    world.team("agents/a.md", format!("---\nprovider: claude\n---\n{body}"));
    assert_eq!(world.compile().unwrap().seats[0].instructions, body);
}

#[test]
fn a_model_comes_from_the_nearest_place() {
    let check = |team: &str, role: &str, profile: &str| {
        let world = World::new();
        world.profile("p", profile);
        world.team("TEAM.md", format!("---\n{team}---\n"));
        world.team("agents/a.md", format!("---\n{role}profile: p\n---\n"));
        let model = world.compile().unwrap().seats.remove(0).model;
        (model.value.unwrap_or_default(), model.source)
    };
    let claude = "provider: claude\n";
    let team = "default_model: m-d\nprovider_models: {claude_code: m-p, claude: m-p}\n";
    assert_eq!(check(team, "provider: claude\nmodel: m-r\n", ""), ("m-r".to_owned(), ModelSource::Role));
    assert_eq!(
        check(team, "provider: claude\nmodel: m-r\n", "MODEL=m-r"),
        ("m-r".to_owned(), ModelSource::Role)
    );
    assert_eq!(check(team, claude, "MODEL=m-f"), ("m-f".to_owned(), ModelSource::Profile));
    assert_eq!(check(team, claude, "MODEL="), ("m-p".to_owned(), ModelSource::ProviderModels));
    assert_eq!(check("default_model: m-d\n", claude, ""), ("m-d".to_owned(), ModelSource::DefaultModel));
    assert_eq!(check("", claude, ""), ("claude-sonnet-4-6".to_owned(), ModelSource::BuiltIn));
    assert_eq!(check("", "provider: codex\n", ""), ("gpt-5.5".to_owned(), ModelSource::BuiltIn));
    assert_eq!(check("", "provider: fake\n", ""), (String::new(), ModelSource::ProviderDefault));
}

#[test]
fn the_digest_follows_the_meaning_alone() {
    let digest = |file: &str, role: &str| {
        let world = World::new();
        world.team(file, role);
        world.compile().unwrap().digest
    };
    let first = digest("agents/a.md", ROLE);
    assert_eq!(digest("agents/other.md", ROLE), first);
    assert_eq!(digest("agents/a.md", &ROLE.replace("---\nname", "---\n# x\nname")), first);
    assert_ne!(digest("agents/a.md", &ROLE.replace("Do it", "Do that")), first);
    assert_ne!(digest("agents/a.md", &ROLE.replace("high", "low")), first);
}

#[test]
fn faster_answers_are_asked_for_where_every_provider_can() {
    let mut world = World::new();
    world.known.providers.get_mut("claude").unwrap().fast = true;
    world.team("TEAM.md", "---\nfast: true\n---\n");
    world.team("agents/a.md", "---\nprovider: claude\n---\n");
    assert!(world.compile().unwrap().fast);
    world.team("agents/b.md", "---\nprovider: codex\n---\n");
    assert!(world.errors().contains("no effect with provider `codex`"));
}

#[test]
fn a_session_name_of_its_own_wins() {
    let world = World::new();
    world.team("TEAM.md", "---\nname: a.b\nsession_name: c:d\n---\n");
    let spec = world.compile().unwrap();
    assert_eq!((spec.name.as_str(), spec.session_name.as_str()), ("a.b", "c_d"));
    assert_eq!((spec.session_name_at.file.as_str(), spec.session_name_at.line), (".team/current/TEAM.md", 3));
}

#[test]
fn a_seat_goes_into_events_whole() {
    let world = World::new();
    world.team("agents/a.md", ROLE);
    let seat = world.compile().unwrap().seats.remove(0);
    assert_eq!(seat.effort, Some(Effort::High));
    let event = seat.to_event();
    assert_eq!((event.provider.as_str(), event.effort.as_deref()), ("claude", Some("high")));
    assert_eq!(event.tools, ["fs_read", "mcp_team"]);
    assert_eq!(event.instructions.text.as_deref(), Some("\nDo it.\nÄ\n"));
}

#[test]
fn a_team_in_one_paste_is_read_after_its_profile_was_made() {
    let world = World::new();
    let home = world.path(".team/current");
    team_spec::init_profile(&home, "work-login", AuthMode::Subscription).unwrap();
    world.team(
        "TEAM.md",
        "---\nname: pasted\nobjective: One agent does small tasks and says what came of them.\n\
         dangerous_auto_approve: false\nfast: false\nprovider_models:\n  codex: m-1\n  claude: m-2\n  \
         claude_code: m-2\n---\n\nThis text is for people.\n",
    );
    world.team(
        "agents/helper.md",
        "---\nname: helper\nrole: Small Tasks\nprovider: codex\nauth_mode: subscription\nprofile: work-login\n\
         tools:\n  - fs_read\n  - execute_bash\n  - mcp_team\n---\n\nOne task at a time.\n",
    );
    let spec = world.compile().unwrap();
    assert_eq!(spec.goal_text(), Some("One agent does small tasks and says what came of them."));
    assert_eq!(spec.seats[0].model.to_string(), "m-1 (TEAM.md provider_models)");
    assert_eq!(spec.seats[0].profile.as_deref(), Some("work-login"));
}

#[test]
fn rules_for_permission_questions_are_kept_in_their_order() {
    let world = World::new();
    world.team("TEAM.md", "---\napprovals:\n  allow: [Bash(git status*), 'WebFetch(https://x/*)']\n  deny:\n    - Edit(*.env)\n---\n");
    let spec = world.compile().unwrap();
    assert_eq!(spec.approvals.allow, ["Bash(git status*)", "WebFetch(https://x/*)"]);
    assert_eq!(spec.approvals.deny, ["Edit(*.env)"]);
    assert!(spec.to_json().contains("git status"));
    let plain = World::new();
    plain.team("TEAM.md", "---\n---\n");
    assert!(!plain.compile().unwrap().to_json().contains("approvals"));
}
