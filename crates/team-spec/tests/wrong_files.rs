//! What is said about files that are wrong.

mod world;

use world::World;

fn role(head: &str) -> String {
    let world = World::new();
    world.write("here.txt", "");
    world.team("agents/w1.md", format!("---\n{head}---\n"));
    world.errors()
}

fn team(head: &str) -> String {
    let world = World::new();
    world.team("TEAM.md", format!("---\n{head}---\n"));
    world.team("agents/w1.md", "---\nprovider: claude\n---\n");
    world.errors()
}

fn table(check: impl Fn(&str) -> String, heads: &[&str]) -> String {
    heads.iter().map(|head| check(head) + "\n\n").collect()
}

#[test]
fn every_error_of_every_file_is_told_at_once() {
    let world = World::new();
    world.team("TEAM.md", "---\nname: x\nobjectve: y\nprovider_models:\n  claud: z\nfast: yes\n---\n");
    world.team("agents/a.md", "---\nname: Coder\nprovider: claude\ntools: [fs_raed, fs_write]\n---\n");
    world.team("agents/b.md", "---\nname: coder\nprovdier: claude\neffort: hgih\n---\n");
    world.team("agents/c.md", "---\nname: leader\nprovider: gemini_cli\nprofile: work\n---\n");
    world.team("agents/d.md", "---\nname: d\nrole: Fix: things\n---\n");
    let before = world.files();
    insta::assert_snapshot!(world.errors());
    assert_eq!(world.files(), before, "reading a team writes nothing");
}

#[test]
fn yaml_that_cannot_be_read_is_explained() {
    insta::assert_snapshot!(table(
        role,
        &[
            "provider: claude\nrole: Fix: the \"parser\"\n",
            "provider: claude\n role: x\n",
            "provider: claude\ntools: *\n",
            "provider: claude\ntools:\n  - *\n",
            "provider: claude\nrole: *reviewer\n",
            "provider: claude\nrole: @reviewer\n",
            "provider: claude\nrole: `x`\n",
            "provider: claude\nrole: 'abc\n",
            "provider: claude\nrole Worker\n",
            "provider: claude\ntools:\n\t- fs_read\n",
            "provider: claude\ntools: [fs_read, fs_write\n",
            "provider: claude\nrole: \"a\\qb\"\n",
            "- provider\n",
            "just a text\n",
            "? [a]\n: b\nprovider: claude\n",
            "provider: &a [*a]\n",
        ]
    ));
}

#[test]
fn wrong_values_of_a_role_are_pointed_at() {
    insta::assert_snapshot!(table(
        role,
        &[
            "role: x\n",
            "provider: clod\n",
            "provider: Claude\n",
            "provider: something-else\n",
            "provider: [claude]\n",
            "provider: claude\nname: 研究 员\n",
            "provider: claude\nname: Everyone\n",
            "provider: claude\nname: 7\n",
            "provider: claude\nname: ''\n",
            "provider: claude\nmodel: 5.5\n",
            "provider: claude\nmodel: --dangerous\n",
            "provider: claude\nmodel: a b\n",
            "provider: claude\neffort: extreme\n",
            "provider: claude\neffort: hi\n",
            "provider: codex\neffort: max\n",
            "provider: claude\nauth_mode: api\n",
            "provider: claude\nauth_mode: compatible_api\n",
            "provider: claude\nprofile: ../x\n",
            "provider: claude\ntools: fs_read, fs_write\n",
            "provider: claude\ntools: []\n",
            "provider: claude\ntools: [Bash, fs-read]\n",
            "provider: claude\ntools:\n  fs_read: true\n",
            "provider: claude\nworking_directory: ../x\n",
            "provider: claude\nworking_directory: a/../../x\n",
            "provider: claude\nworking_directory: /etc\n",
            "provider: claude\nworking_directory: missing\n",
            "provider: claude\nworking_directory: here.txt\n",
            "provider: claude\nprovider: fake\n",
            "provider: claude\n5: x\n",
            "provider: claude\ngoal: x\n",
            "provider: claude\ndescription: x\n",
            "provider: claude\nrole: |\n  two\n  lines\n",
        ]
    ));
}

#[test]
fn wrong_values_of_a_team_are_pointed_at() {
    insta::assert_snapshot!(table(
        team,
        &[
            "name: 5\n",
            "name: '...'\n",
            "display_backend: iterm\n",
            "dangerous_auto_approve: true\n",
            "dangerous_auto_approve: no\n",
            "fast: true\n",
            "fast: 'false'\n",
            "default_model: [a]\n",
            "provider_models: gpt-5.5\n",
            "provider_models:\n  claude: a\n  claude: b\n",
            "provider_models:\n  claude: claude-sonnet-4-6\n  claude_code: claude-opus-4-6\n",
            "provider_models: {gemini_cli: a, gemini: b}\n",
            "provider_models: {codx: a}\n",
            "provider_models: {codex: }\n",
            "provider_models: {codex: 5}\n",
            "tools: [fs_read]\n",
            "name: a\nName: b\n",
        ]
    ));
}

#[test]
fn keys_of_later_versions_are_named() {
    let team_keys = [
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
    ];
    for key in team_keys {
        let errors = team(&format!("{key}: off\n"));
        assert!(errors.starts_with(&format!("error: `{key}` is not supported yet\n")), "{errors}");
        assert!(errors.contains("TEAM.md:2:1"), "{errors}");
    }
    for key in ["manager", "member", "lead", "max_turns", "worktree", "write_scope"] {
        let errors = role(&format!("provider: claude\n{key}: 1\n"));
        assert!(errors.starts_with(&format!("error: `{key}` is not supported yet\n")), "{errors}");
        assert!(errors.contains("w1.md:3:1"), "{errors}");
    }
}

#[test]
fn files_that_are_no_text_or_have_no_front_matter_are_named() {
    let world = World::new();
    world.team("TEAM.md", "# A team\n");
    world.team("agents/a.md", b"---\nrole: caf\xe9\n---\n");
    world.team("agents/b.md", b"\xff\xfe-\0-\0");
    world.team("agents/c.md", "---\nprovider: claude\n");
    world.team("agents/d.md", "");
    world.team("agents/e.MD", "---\nprovider: claude\n---\n");
    world.team("agents/f.md/x", "");
    world.team("agents/g.md", "---\nprovider: claude\n---\nx\0y\n");
    world.team("agents/1st.md", "---\nprovider: claude\n---\n");
    world.team("agents/.hidden.md", "no role\n");
    world.team("agents/notes.txt", "no role\n");
    insta::assert_snapshot!(world.errors());
}

#[test]
fn links_that_lead_out_of_the_team_are_refused() {
    let world = World::new();
    world.write("elsewhere/x.md", "---\nprovider: claude\n---\nsecret\n");
    world.team("agents/inside.md", "---\nprovider: claude\n---\n");
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(world.path(to), world.path(at)).unwrap();
    link("elsewhere/x.md", ".team/current/agents/outside.md");
    link("nowhere", ".team/current/agents/dangling.md");
    link(".team/current/agents/inside.md", ".team/current/agents/within.md");
    let errors = world.compile().unwrap_err();
    let told: Vec<_> = errors.0.iter().map(|it| it.file.as_str()).collect();
    assert_eq!(told, [".team/current/agents/dangling.md", ".team/current/agents/outside.md"]);
    assert!(errors.0[1].message.contains("outside the team's directory"), "{errors}");
    assert!(!errors.to_string().contains("secret"));
}

#[test]
fn a_pipe_in_place_of_a_role_file_does_not_hang() {
    let world = World::new();
    world.team("agents/a.md", "---\nprovider: claude\n---\n");
    let pipe = world.path(".team/current/agents/b.md");
    #[expect(clippy::disallowed_types, reason = "the standard library makes no pipe that has a name")]
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    assert!(world.errors().contains("this is not a file"));
}

#[test]
fn rules_for_permission_questions_must_name_tools() {
    for (rules, message) in [
        ("approvals: off\n", "`approvals` must be a map"),
        ("approvals:\n  alow: [Bash]\n", "`approvals` has no `alow`"),
        ("approvals:\n  allow: Bash\n", "`allow` must be a list"),
        ("approvals:\n  allow: ['*']\n", "a pattern that allows must name its tool"),
        ("approvals:\n  deny: ['Bash(']\n", "`Bash(` is no pattern"),
    ] {
        let errors = team(rules);
        assert!(errors.contains(message), "{rules}{errors}");
    }
}
