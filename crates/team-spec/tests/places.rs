//! Where a team is found, and how it gets below `.team/`.

mod world;

use std::fs;
use std::path::Path;

use team_spec::{CopyError, LocateError, compile, copy_into, init_team, locate};
use world::World;

const ROLE: &str = "---\nprovider: fake\n---\n";

fn refused(world: &World, dir: Option<&str>, team_id: Option<&str>) -> LocateError {
    locate(&world.root(), dir.map(Path::new), team_id).expect_err("it is no team")
}

#[test]
fn a_directory_below_dot_team_is_used_in_place_under_its_own_name() {
    let world = World::new();
    world.write(".team/web/agents/a.md", ROLE);
    world.team("TEAM.md", "---\n---\n");
    for dir in [".team/web", ".team/web/", "./.team/../.team/web", ".team/web/agents"] {
        let source = world.source(Some(dir), None);
        assert_eq!((source.key.as_str(), source.in_place), ("web", true), "{dir}");
        assert_eq!(source.home(), world.path(".team/web"));
    }
    assert_eq!(world.source(None, None).key.as_str(), "current");
    assert_eq!(world.source(None, Some("web")).dir, world.path(".team/web"));
    assert_eq!(world.source(Some(".team/web"), Some("web")).key.as_str(), "web");
    assert!(matches!(refused(&world, Some(".team/web"), Some("other")), LocateError::OtherKey { .. }));
}

#[test]
fn a_directory_elsewhere_is_read_and_gets_the_key_that_was_asked_for() {
    let world = World::new();
    world.write("teams/web/TEAM.md", "---\n---\n");
    world.write("roles/a.md", ROLE);
    world.write("roles/README.md", "# no role\n");
    world.write("with/agents/a.md", ROLE);
    let web = world.source(Some("teams/web"), None);
    assert_eq!((web.key.as_str(), web.in_place, web.flat), ("current", false, false));
    assert_eq!(world.source(Some("teams/web"), Some("web")).home(), world.path(".team/web"));
    assert!(world.source(Some("roles"), None).flat);
    assert!(!world.source(Some("with"), None).flat);
    assert!(world.source(Some("with/agents"), None).flat);
    assert!(!world.path(".team").exists(), "looking creates nothing");
}

#[test]
fn the_workspace_itself_may_describe_a_team() {
    let world = World::new();
    world.write("README.md", "# x\n");
    assert!(matches!(refused(&world, None, None), LocateError::NoTeam { init: Some(_), .. }));
    assert!(matches!(refused(&world, Some("."), None), LocateError::NoTeam { init: Some(_), .. }));
    world.write("agents/a.md", ROLE);
    for dir in [None, Some(".")] {
        let source = world.source(dir, None);
        assert_eq!((&source.dir, source.in_place), (&world.root(), false));
    }
}

#[test]
fn what_is_no_team_says_what_to_do() {
    let world = World::new();
    world.write("file.md", "");
    world.team("shared/x.md", "");
    world.team("TEAM.md", "---\n---\n");
    world.write(".team/logs/agents/a.md", ROLE);
    fs::create_dir_all(world.path("empty")).unwrap();
    let say = |dir: Option<&str>, id: Option<&str>| {
        let error = refused(&world, dir, id);
        let text = format!("{error}\n  hint: {}\n", error.hint().unwrap_or_default());
        text.replace(&world.root().display().to_string(), "$WS")
    };
    let said = [
        say(Some("missing"), None),
        say(Some("file.md"), None),
        say(Some("empty"), None),
        say(Some(".team"), None),
        say(Some(".team/current/shared"), None),
        say(Some(".team/logs"), None),
        say(None, Some("web")),
        say(None, Some("team")),
        say(None, Some("a/b")),
        say(None, Some("../x")),
        say(None, Some("runtime")),
    ];
    insta::assert_snapshot!(said.concat());
}

#[test]
fn a_copy_is_made_once_and_follows_its_original() {
    let world = World::new();
    world.write("web/TEAM.md", "---\nname: web\n---\n");
    world.write("web/agents/a.md", ROLE);
    world.write("web/agents/b.md", ROLE);
    let source = world.source(Some("web"), None);
    let spec = compile(&source, &world.known).unwrap();

    let (copy, written) = copy_into(&source).unwrap();
    assert_eq!((copy.in_place, written.len()), (true, 3));
    let copied = compile(&copy, &world.known).unwrap();
    assert_eq!((&copied.digest, &copied.seats), (&spec.digest, &spec.seats));
    assert_eq!(copy_into(&source).unwrap().1, [] as [std::path::PathBuf; 0]);
    assert_eq!(copy_into(&copy).unwrap().1, [] as [std::path::PathBuf; 0]);

    world.write("web/agents/a.md", "---\nprovider: claude\n---\n");
    fs::remove_file(world.path("web/agents/b.md")).unwrap();
    assert_eq!(copy_into(&source).unwrap().1, [world.path(".team/current/agents/a.md")]);
    assert!(!world.path(".team/current/agents/b.md").exists(), "a copy goes with its original");
}

#[test]
fn what_people_wrote_is_never_replaced() {
    let world = World::new();
    world.write("web/agents/a.md", ROLE);
    world.team("agents/a.md", "mine\n");
    let source = world.source(Some("web"), None);
    let before = world.files();
    assert!(matches!(copy_into(&source), Err(CopyError::Differs { .. })));
    fs::rename(world.path(".team/current/agents/a.md"), world.path(".team/current/agents/b.md")).unwrap();
    assert!(matches!(copy_into(&source), Err(CopyError::OtherRole { .. })));
    assert_eq!(world.files().len(), before.len());

    // A copy that somebody changed counts as theirs.
    let other = world.source(Some("web"), Some("web"));
    copy_into(&other).unwrap();
    world.write(".team/web/agents/a.md", "changed\n");
    world.write("web/agents/a.md", "---\nprovider: claude\n---\n");
    assert!(matches!(copy_into(&other), Err(CopyError::Differs { .. })));
}

#[test]
fn copies_stay_below_dot_team() {
    let world = World::new();
    world.write("web/agents/a.md", ROLE);
    fs::create_dir_all(world.path("outside")).unwrap();
    fs::create_dir_all(world.path(".team")).unwrap();
    std::os::unix::fs::symlink(world.path("outside"), world.path(".team/current")).unwrap();
    let source = world.source(Some("web"), None);
    assert!(matches!(copy_into(&source), Err(CopyError::Outside(_))));
    let other = world.source(Some("web"), Some("Web"));
    copy_into(&other).unwrap();
    assert!(matches!(copy_into(&world.source(Some("web"), Some("wEB"))), Err(CopyError::SameKey(_))));
}

#[test]
fn a_link_out_of_the_original_is_not_copied() {
    let world = World::new();
    world.write("private.txt", "secret");
    world.write("web/TEAM.md", "---\n---\n");
    fs::create_dir_all(world.path("web/agents")).unwrap();
    std::os::unix::fs::symlink(world.path("private.txt"), world.path("web/agents/a.md")).unwrap();
    assert!(matches!(copy_into(&world.source(Some("web"), None)), Err(CopyError::Outside(_))));
    assert!(
        world
            .files()
            .iter()
            .all(|(path, content)| !path.ends_with("current/agents/a.md") || content.is_empty())
    );
}

#[test]
fn paths_may_hold_blanks_quotes_and_any_script() {
    let world = World::new();
    world.write("a b'c\"d ψ中/agents/w 1.md", "---\nname: w1\nprovider: fake\nrole: [x]\n---\n");
    let source = world.source(Some("a b'c\"d ψ中"), None);
    let errors = compile(&source, &world.known).unwrap_err().to_string();
    assert!(errors.contains("--> a b'c\"d ψ中/agents/w 1.md:4:7"), "{errors}");
    world.write("a b'c\"d ψ中/agents/w 1.md", "---\nname: w1\nprovider: fake\n---\n");
    let (copy, _) = copy_into(&source).unwrap();
    assert_eq!(compile(&copy, &world.known).unwrap().seats[0].source, "agents/w 1.md");
}

#[test]
fn a_first_team_is_written_once_and_compiles() {
    let world = World::new();
    let written = init_team(&world.root(), "current").unwrap();
    assert_eq!(written, [world.path(".team/current/TEAM.md"), world.path(".team/current/agents/coder.md")]);
    assert_eq!(world.compile().unwrap().seats.len(), 1);
    assert_eq!(init_team(&world.root(), "current").unwrap(), [] as [std::path::PathBuf; 0]);

    let other = World::new();
    other.team("agents/mine.md", ROLE);
    assert_eq!(init_team(&other.root(), "current").unwrap(), [other.path(".team/current/TEAM.md")]);
}

#[test]
fn the_team_of_the_demo_compiles() {
    let world = World::new();
    team_spec::write_template(team_spec::DEMO_TEMPLATE, &world.path(".team/current")).unwrap();
    let spec = world.compile().unwrap();
    let names: Vec<&str> = spec.seats.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["builder", "planner", "tester", "writer"]);
    assert!(spec.seats.iter().all(|it| it.provider == "fake"));
}
