//! What is said about models, where the installed program tells which it knows.

mod world;

use team_spec::{ModelName, Models};
use world::World;

fn two_models(provider: &str) -> Option<Models> {
    let names = [("gpt-5.5", "GPT-5.5"), ("gpt-6-sol", "GPT-6-Sol")]
        .map(|(slug, display)| ModelName { slug: slug.into(), display: display.into() });
    (provider == "codex").then(|| Models {
        command: "codex debug models".into(),
        beside: provider.into(),
        names: names.into(),
    })
}

#[test]
fn a_model_s_name_for_people_is_pointed_at_wherever_it_stands() {
    let mut world = World::new();
    world.known.models = Some(two_models);
    world.team("TEAM.md", "---\nprovider_models:\n  claude: GPT-5.5\n  codex: GPT-6-Sol\n---\n");
    world.team("agents/a.md", "---\nprovider: codex\nmodel: GPT-5.5\n---\nx\n");
    world.team("agents/b.md", "---\nprovider: codex\n---\nx\n");
    world.team("agents/b2.md", "---\nprovider: codex\n---\nx\n");
    world.team("agents/c.md", "---\nprovider: codex\nprofile: p\n---\nx\n");
    world.profile("p", "AUTH_MODE=subscription\nMODEL=gpt_5.5\n");
    world.team("agents/d.md", "---\nprovider: codex\nmodel: GPT 5.5 Codex\n---\nx\n");
    world.team("agents/e.md", "---\nprovider: claude\n---\nx\n");
    insta::assert_snapshot!(world.errors());
}

#[test]
fn a_model_that_the_installed_program_does_not_list_is_a_warning() {
    let mut world = World::new();
    world.known.models = Some(two_models);
    world.team("TEAM.md", "---\ndefault_model: gpt-5.5-codex\n---\n");
    world.team("agents/a.md", "---\nprovider: codex\nmodel: my-own\n---\nx\n");
    world.team("agents/b.md", "---\nprovider: codex\n---\nx\n");
    world.team("agents/c.md", "---\nprovider: codex\nmodel: gpt-6-sol\n---\nx\n");
    // Another service has models of its own.
    world.team("agents/d.md", "---\nprovider: codex\nmodel: GPT-5.5\nprofile: p\n---\nx\n");
    world.profile("p", "AUTH_MODE=compatible_api\nBASE_URL=http://127.0.0.1:1/v1\nAPI_KEY=k\n");
    let spec = world.compile().unwrap();
    let warnings: Vec<String> = spec.warnings.iter().map(|it| format!("warning: {it}")).collect();
    insta::assert_snapshot!(warnings.join("\n\n"));
    assert!(!spec.to_json().contains("does not list"));
}
