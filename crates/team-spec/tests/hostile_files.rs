//! Files that nobody would write by hand.

mod world;

use proptest::prelude::*;
use team_spec::{SpecError, compile};
use world::World;

fn check(team: &[u8], role: &[u8]) -> Result<(), TestCaseError> {
    let world = World::new();
    world.team("TEAM.md", team);
    world.team("agents/w1.md", role);
    let source = world.source(None, None);
    if let Err(errors) = compile(&source, &world.known) {
        prop_assert!(!errors.0.is_empty());
        let shown = errors.to_string();
        prop_assert!(!shown.chars().any(|it| it.is_control() && it != '\n'), "{:?}", shown);
        for SpecError { file, line, .. } in &errors.0 {
            let content = if file.ends_with("TEAM.md") { team } else { role };
            prop_assert!(*line <= content.split(|it| *it == b'\n').count());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_give_a_spec_or_errors(team in any::<Vec<u8>>(), role in any::<Vec<u8>>()) {
        check(&team, &role)?;
    }

    #[test]
    fn any_front_matter_gives_a_spec_or_errors(
        team in "(name|fast|provider_models|tools|[a-z:\\-*&!|>%@`'\"\\[\\]{}, \t#?~\r\n\\\\]|研|\u{1b}){0,60}",
        role in "(name|role|provider: fake\n|tools|model|[a-z:\\-*&!|>%@`'\"\\[\\]{}, \t#?~\r\n\\\\]|é|\u{7}){0,60}",
    ) {
        check(format!("---\n{team}\n---\n").as_bytes(), format!("---\n{role}\n---\n").as_bytes())?;
    }
}

#[test]
fn values_that_multiply_themselves_are_refused() {
    let level = |it: usize| format!("a{it}: &a{it} [{}]\n", format!("*a{},", it - 1).repeat(9));
    let head = "a: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned() + &(1..12).map(level).collect::<String>();
    assert!(check(format!("---\n{head}---\n").as_bytes(), b"").is_ok());
    let deep = format!("---\na: {}{}\n---\n", "[".repeat(5000), "]".repeat(5000));
    assert!(check(deep.as_bytes(), deep.as_bytes()).is_ok());
}
