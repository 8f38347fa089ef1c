//! Texts that the program brings along: a first team, the demo, what agents are told.
//!
//! Knows the files below `templates/`. Must not know who asks for them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::place::{DEFAULT_KEY, TEAM_DIR};

/// A file of a template: its path below the team's directory, and its text.
pub type TemplateFile = (&'static str, &'static str);

/// How the template names its team.
const TEMPLATE_NAME: &str = "name: my-team";

/// What `team-agent init` writes.
pub const TEAM_TEMPLATE: &[TemplateFile] = &[
    ("TEAM.md", include_str!("../../../templates/team/TEAM.md")),
    ("agents/coder.md", include_str!("../../../templates/team/agents/coder.md")),
];

/// The team of the demo.
pub const DEMO_TEMPLATE: &[TemplateFile] = &[
    ("TEAM.md", include_str!("../../../templates/demo/TEAM.md")),
    ("agents/builder.md", include_str!("../../../templates/demo/agents/builder.md")),
    ("agents/planner.md", include_str!("../../../templates/demo/agents/planner.md")),
    ("agents/tester.md", include_str!("../../../templates/demo/agents/tester.md")),
    ("agents/writer.md", include_str!("../../../templates/demo/agents/writer.md")),
];

/// What every worker is told before its own instructions.
pub const WORKER_PREAMBLE: &str = include_str!("../../../templates/preamble/worker.md");

/// What fills the places of the worker's preamble.
#[derive(Debug, Clone, Copy)]
pub struct Preamble<'a> {
    /// The agent's name.
    pub agent: &'a str,
    /// The line that says what it is for.
    pub role: &'a str,
    /// The team's name.
    pub team: &'a str,
    /// What the team is to reach; blank if nobody said.
    pub goal: &'a str,
    /// The other agents, each with its role.
    pub peers: &'a [(&'a str, &'a str)],
    /// The provider's own name for `send_message`.
    pub send_tool: &'a str,
    /// The provider's own name for `report_result`.
    pub report_tool: &'a str,
    /// The provider's own name for `team_read`.
    pub read_tool: &'a str,
    /// The provider's own name for `request_human`.
    pub human_tool: &'a str,
}

impl Preamble<'_> {
    /// Returns the preamble as this agent is told it.
    pub fn render(&self) -> String {
        let peers = if self.peers.is_empty() {
            "nobody else yet".to_owned()
        } else {
            self.peers.iter().map(|(name, role)| format!("{name} ({role})")).collect::<Vec<_>>().join(", ")
        };
        let goal =
            if self.goal.trim().is_empty() { "not stated; your tasks say it" } else { self.goal.trim() };
        fill(
            WORKER_PREAMBLE,
            &BTreeMap::from([
                ("agent", self.agent),
                ("role", self.role),
                ("team", self.team),
                ("goal", goal),
                ("peers", &peers),
                ("send_tool", self.send_tool),
                ("report_tool", self.report_tool),
                ("read_tool", self.read_tool),
                ("human_tool", self.human_tool),
            ]),
        )
    }
}

/// Puts values for `{words}` into a text. Values are not looked at again, and
/// words without a value stay as they are.
pub fn fill(text: &str, values: &BTreeMap<&str, &str>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('{') {
        filled.push_str(&rest[..start]);
        rest = &rest[start..];
        let value = rest.find('}').and_then(|end| Some((end, values.get(&rest[1..end])?)));
        if let Some((end, value)) = value {
            filled.push_str(value);
            rest = &rest[end + 1..];
        } else {
            filled.push('{');
            rest = &rest[1..];
        }
    }
    filled.push_str(rest);
    filled
}

/// Writes the first team of a workspace, except files that exist already, and
/// returns what was written.
pub fn init_team(workspace: &Path, key: &str) -> io::Result<Vec<PathBuf>> {
    // Two teams of one name could not run side by side.
    let text = TEAM_TEMPLATE[0].1.replace(TEMPLATE_NAME, &format!("name: {key}"));
    let mut template: Vec<(&str, &str)> = TEAM_TEMPLATE.to_vec();
    if key != DEFAULT_KEY {
        template[0].1 = &text;
    }
    write_template(&template, &workspace.join(TEAM_DIR).join(key))
}

/// Writes the files of a template that do not exist yet and returns them. Role
/// files are left out where the team has some already.
pub fn write_template(template: &[(&str, &str)], dir: &Path) -> io::Result<Vec<PathBuf>> {
    let has_roles = fs::read_dir(dir.join("agents")).is_ok_and(|mut it| {
        it.any(|it| it.is_ok_and(|it| it.path().extension().is_some_and(|it| it == "md")))
    });
    let mut written = Vec::new();
    for (name, text) in template.iter().filter(|it| !(has_roles && it.0.starts_with("agents/"))) {
        let path = dir.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                file.write_all(text.as_bytes())?;
                written.push(path);
            }
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(written)
}
