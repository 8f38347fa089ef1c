//! What the demo's agents are told, and what must come of it.
//!
//! The built-in agent does what the `fake:` lines of a text say; `docs/fake-agent.md` has them all.

/// The part of one agent.
pub(crate) struct Part {
    /// Its name in `templates/demo`.
    pub(crate) agent: &'static str,
    /// The first line of its task.
    pub(crate) subject: &'static str,
    /// What it does about it.
    directives: &'static [&'static str],
}

impl Part {
    /// The text of its task.
    pub(crate) fn task(&self) -> String {
        let mut text = self.subject.to_owned();
        for directive in self.directives {
            text.push_str("\nfake: ");
            text.push_str(directive);
        }
        text
    }
}

/// All parts, in the order in which they are sent: the lead comes last and sets things going.
pub(crate) const PARTS: &[Part] = &[
    Part {
        agent: "builder",
        subject: "Build the parser when the planner says so.",
        directives: &[
            "say I wait for the planner.",
            "on-message planner: busy 0.4",
            r#"on-message planner: send to=tester text="The parser is built: please try it on an empty file.""#,
            "on-message tester: think 200",
            r#"on-message tester: report summary="The parser reads empty files, too." json={"changes":["src/parser.rs"]}"#,
        ],
    },
    Part {
        agent: "tester",
        subject: "Try what the builder makes.",
        directives: &[
            "say I wait for the builder.",
            "on-message builder: busy 0.4",
            r#"on-message builder: send to=builder text="An empty file is read; two of two cases pass.""#,
            r#"on-message builder: send to=writer text="It works: you can describe it now.""#,
            r#"on-message builder: report summary="Two of two cases pass." json={"tests":[{"command":"try-parser empty.txt","status":"passed"}]}"#,
        ],
    },
    Part {
        agent: "writer",
        subject: "Describe the parser for people who will use it.",
        directives: &[
            "say I wait until it was tried.",
            "on-message tester: busy 0.4",
            r#"on-message tester: send to=planner text="The guide has a page about the parser.""#,
            r#"on-message tester: report summary="Wrote one page about the parser." json={"artifacts":["docs/parser.md"]}"#,
        ],
    },
    Part {
        agent: "planner",
        subject: "Get the parser built, tried and described.",
        directives: &[
            r#"send to=builder text="Start with the parser and keep it small.""#,
            r#"send to=writer text="Wait with the guide until the tester has spoken.""#,
            "busy 0.4",
            r#"on-message writer: report summary="Built, tried and described; nothing is open.""#,
        ],
    },
];

/// What agents write to each other: sender, receiver, and the text that must reach it.
pub(crate) const LETTERS: &[(&str, &str, &str)] = &[
    ("planner", "builder", "Start with the parser and keep it small."),
    ("planner", "writer", "Wait with the guide until the tester has spoken."),
    ("builder", "tester", "The parser is built: please try it on an empty file."),
    ("tester", "builder", "An empty file is read; two of two cases pass."),
    ("tester", "writer", "It works: you can describe it now."),
    ("writer", "planner", "The guide has a page about the parser."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_gets_a_letter_from_another_agent() {
        for part in PARTS {
            assert!(
                LETTERS.iter().any(|(from, to, _)| *to == part.agent && *from != part.agent),
                "{}",
                part.agent
            );
        }
    }

    #[test]
    fn each_letter_is_written_by_somebodys_task() {
        for (from, to, text) in LETTERS {
            let task = PARTS.iter().find(|it| it.agent == *from).map(Part::task).unwrap_or_default();
            assert!(task.contains(&format!("send to={to} text=\"{text}\"")), "{from} to {to}");
        }
    }
}
