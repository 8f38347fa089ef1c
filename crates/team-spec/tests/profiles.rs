//! Profiles: made, read, refused, and never shown.

mod world;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use team_spec::{AuthMode, KeyNames, ProfileError, init_profile, parse_profile, read_profile};
use world::World;

const SECRET: &str = "sk-test-123";

#[test]
fn a_new_profile_is_private_and_readable_in_every_mode() {
    let world = World::new();
    for mode in AuthMode::ALL {
        let path = init_profile(&world.path(".team/current"), mode.as_str(), *mode).unwrap();
        assert_eq!(path, world.path(&format!(".team/current/profiles/{mode}.env")));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let profile = read_profile(path.parent().unwrap(), mode.as_str(), *mode).unwrap();
        assert_eq!(profile.auth_mode, Some(*mode));
        assert_eq!(profile.environment(&KeyNames::default()).len(), 0, "a new profile sets nothing");
    }
    let dir = fs::metadata(world.path(".team/current/profiles")).unwrap();
    assert_eq!(dir.permissions().mode() & 0o777, 0o700);
}

#[test]
fn an_existing_profile_is_left_alone() {
    let world = World::new();
    world.profile("work", "MODEL=x\n");
    let error = init_profile(&world.path(".team/current"), "work", AuthMode::Subscription).unwrap_err();
    assert!(error.to_string().starts_with("profile already exists: "), "{error}");
    assert_eq!(fs::read_to_string(world.path(".team/current/profiles/work.env")).unwrap(), "MODEL=x\n");
}

#[test]
fn names_that_leave_the_folder_are_refused() {
    let world = World::new();
    for name in ["", "../x", "a/b", ".x", "a..b", "a b", "-x", "x\n", "x\0"] {
        let error = init_profile(&world.path(".team/current"), name, AuthMode::Subscription).unwrap_err();
        assert!(matches!(error, ProfileError::BadName { .. }), "{name:?}");
    }
    assert!(!world.path(".team").exists());
}

#[test]
fn a_missing_profile_carries_the_line_that_makes_it() {
    let world = World::new();
    world.team("agents/a.md", "---\nprovider: claude\nauth_mode: official_api\nprofile: work\n---\n");
    insta::assert_snapshot!(world.errors());
}

#[test]
fn a_profile_that_others_can_read_is_refused_with_the_command() {
    let world = World::new();
    world.profile("work", "MODEL=x\n");
    for mode in [0o640, 0o604, 0o666, 0o610] {
        world.mode(".team/current/profiles/work.env", mode);
        let error =
            read_profile(&world.path(".team/current/profiles"), "work", AuthMode::Subscription).unwrap_err();
        assert!(error.to_string().contains(&format!("{mode:o}")), "{error}");
        assert!(error.hint().unwrap().starts_with("run `chmod 600 "));
    }
}

#[test]
fn a_link_in_place_of_a_profile_is_refused() {
    let world = World::new();
    world.profile("real", "MODEL=x\n");
    let link = world.path(".team/current/profiles/link.env");
    std::os::unix::fs::symlink(world.path(".team/current/profiles/real.env"), link).unwrap();
    let error =
        read_profile(&world.path(".team/current/profiles"), "link", AuthMode::Subscription).unwrap_err();
    assert!(matches!(error, ProfileError::NotAFile { .. }));
}

#[test]
fn secrets_are_given_out_in_one_place_only() {
    let text = format!(
        "API_KEY={SECRET}-a\nAUTH_TOKEN='{SECRET}-b'\nMY_KEY={SECRET}-c\nBASE_URL=http://127.0.0.1:1/v1\n"
    );
    let profile = parse_profile("work", text.as_bytes()).unwrap();
    assert!(!format!("{profile:?}").contains(SECRET));
    assert!(!serde_json::to_string(&profile).unwrap().contains(SECRET));
    assert_eq!(profile.secrets().count(), 3);
    let exposed = profile.environment(&KeyNames::new("SERVICE_URL", "SERVICE_KEY", ""));
    assert_eq!(exposed["SERVICE_KEY"], format!("{SECRET}-a"));
    assert_eq!(exposed["MY_KEY"], format!("{SECRET}-c"));
    assert_eq!(exposed["SERVICE_URL"], "http://127.0.0.1:1/v1");
    assert_eq!(exposed.len(), 3, "what the provider has no name for is not given");
}

#[test]
fn wrong_lines_are_named_without_what_they_hold() {
    let world = World::new();
    let text = format!(
        "AUTH_MODE=api\nMODEL=-x\nBASE_URL=ftp://{SECRET}\nCAPACITY=3\nLD_PRELOAD={SECRET}\nPATH={SECRET}\n"
    );
    world.profile("values", &text);
    world.profile("lines", &format!("{SECRET}\nA='{SECRET}\n"));
    world.profile("address", &format!("BASE_URL=https://me:{SECRET}@models.example.com/v1\n"));
    for name in ["values", "lines", "address"] {
        world.team(&format!("agents/{name}.md"), format!("---\nprovider: claude\nprofile: {name}\n---\n"));
    }
    let errors = world.errors();
    assert!(!errors.contains(SECRET), "{errors}");
    insta::assert_snapshot!(errors);
}

#[test]
fn a_profile_must_fit_its_mode() {
    let check = |mode: &str, text: &str| {
        let world = World::new();
        world.profile("p", text);
        world.team("agents/a.md", format!("---\nprovider: claude\nauth_mode: {mode}\nprofile: p\n---\n"));
        match world.compile() {
            Ok(_) => "fits\n\n".to_owned(),
            Err(errors) => format!("{errors}\n\n"),
        }
    };
    let said = [
        check("subscription", ""),
        check("official_api", "API_KEY=x"),
        check("official_api", "AUTH_TOKEN=x"),
        check("compatible_api", "BASE_URL=http://localhost:1\nAPI_KEY=none"),
        check("compatible_api", "BASE_URL=http://localhost:1\nANTHROPIC_AUTH_TOKEN=x"),
        check("subscription", "API_KEY=x\nBASE_URL=http://localhost:1"),
        check("official_api", "API_KEY="),
        check("official_api", "API_KEY=x\nBASE_URL=http://localhost:1"),
        check("compatible_api", "API_KEY=x"),
        check("compatible_api", "BASE_URL=http://localhost:1"),
        check("official_api", "API_KEY=x\nANTHROPIC_API_KEY=x"),
        check("subscription", "ANTHROPIC_API_KEY=x"),
        check("subscription", "AUTH_MODE=official_api\nAPI_KEY=x"),
    ];
    insta::assert_snapshot!(said.concat());
}

#[test]
fn a_key_that_a_provider_has_no_name_for_is_refused() {
    let world = World::new();
    world.profile("p", "# x\nAUTH_TOKEN=x\n");
    world.team("agents/a.md", "---\nprovider: codex\nauth_mode: official_api\nprofile: p\n---\n");
    let errors = world.errors();
    assert!(errors.starts_with("error: provider `codex` takes no `AUTH_TOKEN`"), "{errors}");
    assert!(errors.contains("p.env:2:1"), "{errors}");
}

#[test]
fn two_models_for_one_agent_are_refused() {
    let world = World::new();
    world.profile("p", "MODEL=m-2\n");
    world.team("agents/a.md", "---\nprovider: claude\nmodel: m-1\nprofile: p\n---\n");
    insta::assert_snapshot!(world.errors());
}
