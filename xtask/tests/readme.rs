//! The first team of README.md does what is printed there.

use std::path::Path;

use team_testkit::TestWorkspace;

/// A command and the lines that stand below it.
#[derive(Debug, Default)]
struct Example {
    command: String,
    output: Vec<String>,
}

/// Reads the examples: indented lines, of which those with a `$` begin a command that may go on until its quote ends.
fn examples(page: &str) -> Vec<Example> {
    let mut all: Vec<Example> = Vec::new();
    let mut open = false;
    for line in page.lines() {
        let Some(line) = line.strip_prefix("    ") else {
            open = false;
            continue;
        };
        if let Some(command) = line.strip_prefix("$ ") {
            all.push(Example { command: command.to_owned(), ..Example::default() });
            open = true;
            continue;
        }
        let Some(last) = all.last_mut().filter(|_| open) else { continue };
        if last.command.matches('\'').count() % 2 == 1 {
            last.command.push('\n');
            last.command.push_str(line);
        } else {
            last.output.push(line.to_owned());
        }
    }
    all
}

/// Takes out what differs from run to run: numbers of ids, and the steps on the way to a ready agent.
fn steady(lines: impl Iterator<Item = String>) -> Vec<String> {
    let on_the_way = |it: &String| it.ends_with(" waiting") || it.ends_with(" starting");
    let number = |word: &str| {
        let (prefix, rest) = word.split_at(word.len().min(2));
        let is_id =
            matches!(prefix, "m-" | "r-") && !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_digit());
        if is_id { format!("{prefix}N") } else { word.to_owned() }
    };
    lines
        .filter(|it| !on_the_way(it))
        .map(|it| it.trim_end().split(' ').map(number).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn the_first_team_of_the_readme_works_as_printed() {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md")).unwrap();
    let workspace = TestWorkspace::new();
    let all = examples(&page);
    assert!(all.len() >= 5, "{all:?}");
    for example in &all {
        if example.command == "team-agent collect" {
            workspace.ok(["wait", "--task", "1", "--timeout", "20"]);
        }
        let output =
            workspace.command("/bin/sh").arg("-c").arg(format!("{} 2>&1", example.command)).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        // Talk and data go to two streams, so their order is not fixed.
        let mut said = steady(said.lines().map(str::to_owned));
        let mut wanted = steady(example.output.iter().cloned());
        said.sort();
        wanted.sort();
        assert_eq!(said, wanted, "$ {}", example.command);
        if example.command == "team-agent init" {
            let role = ".team/current/agents/coder.md";
            let text = workspace.read(role).replace("provider: claude\n", "provider: fake\n");
            workspace.write(role, &text);
        }
    }
    workspace.finish();
}
