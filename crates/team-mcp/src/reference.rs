//! The reference of all tools, made from the table.

use std::fmt::Write as _;

use crate::{
    ToolSet,
    near::quoted,
    table::{self, Argument, IGNORED, Kind, Tool},
};

/// Returns the reference in Markdown, as it stands in `docs/mcp-tools.md`.
pub fn reference() -> String {
    let mut page = String::from(
        "# Tools\n\n\
         <!-- Made from the table in crates/team-mcp; `UPDATE_DOCS=1 cargo test -p team-mcp` writes it anew. -->\n\n\
         The server is called `team_orchestrator` and speaks on standard input and output. Who calls is known from the\n\
         session; it decides which tools are listed: a worker sees its own, a lead those and its own, the leader all of\n\
         them. A caller that belongs to no agent is unbound. Tools for members are listed apart; every seat may call\n\
         those that only read. A tool that is not for the caller answers `not_allowed`, one that is not there yet\n\
         `not_supported_yet`, an unknown one `unknown_tool`, and arguments that are wrong `bad_arguments`.\n\n\
         r/d/i: changes nothing, takes something away, may be repeated without effect. `?`: may be left out.\n\n",
    );
    let _ = writeln!(
        page,
        "Accepted everywhere, without effect on who speaks: {}.\n",
        quoted(IGNORED.iter().copied())
    );
    let of = |members: bool| table::tools().filter(move |it| it.audience.shows(ToolSet::Members) == members);
    page.push_str("## Team\n\n");
    rows(&mut page, of(false));
    page.push_str("\n## Members\n\n");
    rows(&mut page, of(true));
    page.push_str("\n## Arguments of the tools that can be called\n");
    for tool in table::tools().filter(|it| it.is_live()) {
        let _ = write!(page, "\n### {}\n\n{}\n\n", tool.name, tool.about);
        for argument in tool.arguments {
            let open = if argument.required { "" } else { "?" };
            let _ =
                writeln!(page, "- `{}{open}` ({}): {}.", argument.name, kind(&argument.kind), argument.about);
        }
    }
    page
}

fn rows(page: &mut String, tools: impl Iterator<Item = &'static Tool>) {
    page.push_str("| Tool | For | r/d/i | Now | Arguments | Also called |\n|---|---|---|---|---|---|\n");
    for tool in tools {
        let letter = |it: bool| if it { 'T' } else { 'F' };
        let hints = tool.hints;
        let _ = writeln!(
            page,
            "| `{}` | {} | {}/{}/{} | {} | {} | {} |",
            tool.name,
            tool.audience.word(),
            letter(hints.read_only),
            letter(hints.destructive),
            letter(hints.idempotent),
            if tool.is_live() { "yes" } else { "later" },
            names(tool.arguments),
            aliases(tool),
        );
    }
}

fn names(arguments: &[Argument]) -> String {
    let name = |it: &Argument| format!("`{}{}`", it.name, if it.required { "" } else { "?" });
    if arguments.is_empty() {
        "-".to_owned()
    } else {
        arguments.iter().map(name).collect::<Vec<_>>().join(" ")
    }
}

fn aliases(tool: &Tool) -> String {
    let name = |it: &table::Alias| match it.when {
        Some((argument, value)) => format!("`{}` ({argument}: {value})", it.name),
        None => format!("`{}`", it.name),
    };
    if tool.aliases.is_empty() {
        "-".to_owned()
    } else {
        tool.aliases.iter().map(name).collect::<Vec<_>>().join(", ")
    }
}

fn kind(kind: &Kind) -> String {
    match kind {
        Kind::Text(most) => format!("text, at most {most} characters"),
        Kind::Body(most) => format!("text, at most {} KiB", most >> 10),
        Kind::Number(least, u64::MAX) => format!("number from {least}"),
        Kind::Number(least, most) => format!("number, {least} to {most}"),
        Kind::Flag => "true or false".to_owned(),
        Kind::Word(words) => words.iter().map(|it| it.word).collect::<Vec<_>>().join(", "),
        Kind::Texts { one_is_fine: true, .. } => "text or list".to_owned(),
        Kind::Texts { most, .. } => format!("list of at most {most} texts"),
        Kind::Records(most, of) => format!("list of at most {most}, each with {}", names(of)),
        Kind::Record(of) => format!("with {}", names(of)),
        Kind::Map => "values by name".to_owned(),
    }
}
