//! The table of tools: who may call what, with which hints, arguments and other names.
//!
//! Knows every tool that is or will be offered, as plain data. Must not know how a call is carried out, nor the
//! protocol that brings it.

mod members;
mod team;

use crate::ToolSet;

/// Who a tool is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Every seat, and a caller that nobody can name.
    Anybody,
    /// Every seat.
    Worker,
    /// Seats that may have seats of their own, and the leader.
    Lead,
    /// The leader alone.
    Leader,
    /// Reads about members: every seat may call them, only the set for members lists them.
    MembersRead,
    /// Changes of members: the leader and the set for members.
    MembersWrite,
}

impl Audience {
    /// Returns whether a caller of this set may use the tool.
    pub(crate) fn admits(self, set: ToolSet) -> bool {
        use ToolSet as S;
        match self {
            Self::Anybody => matches!(set, S::Unbound | S::Worker | S::Lead | S::Leader),
            Self::Worker => matches!(set, S::Worker | S::Lead | S::Leader),
            Self::Lead => matches!(set, S::Lead | S::Leader),
            Self::Leader => set == S::Leader,
            Self::MembersRead => set != S::Unbound,
            Self::MembersWrite => matches!(set, S::Leader | S::Members),
        }
    }

    /// Returns whether the tool is shown to a caller of this set.
    pub(crate) fn shows(self, set: ToolSet) -> bool {
        match self {
            Self::MembersRead | Self::MembersWrite => set == ToolSet::Members,
            _ => self.admits(set),
        }
    }

    /// Names the audience in the reference.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Anybody => "worker, unbound",
            Self::Worker => "worker",
            Self::Lead => "lead",
            Self::Leader => "leader",
            Self::MembersRead => "members, read",
            Self::MembersWrite => "members",
        }
    }
}

/// What a client may assume about a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hints {
    pub(crate) read_only: bool,
    pub(crate) destructive: bool,
    pub(crate) idempotent: bool,
}

/// Changes something each time.
const WRITES: Hints = Hints { read_only: false, destructive: false, idempotent: false };
/// Changes something; a second call changes nothing more.
const SETTLES: Hints = Hints { read_only: false, destructive: false, idempotent: true };
/// Ends or takes something away; a second call takes nothing more.
const ENDS: Hints = Hints { read_only: false, destructive: true, idempotent: true };
/// Ends or takes something away each time.
const DESTROYS: Hints = Hints { read_only: false, destructive: true, idempotent: false };
/// Changes nothing.
const READS: Hints = Hints { read_only: true, destructive: false, idempotent: true };
/// Changes nothing, and may answer differently each time.
const DRAWS: Hints = Hints { read_only: true, destructive: false, idempotent: false };

/// The calls that can be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Live {
    SendMessage,
    ReportResult,
    TeamRead,
    RequestHuman,
}

/// Whether a tool can be called yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Live(Live),
    Later,
}

/// One row.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) audience: Audience,
    pub(crate) hints: Hints,
    pub(crate) status: Status,
    pub(crate) about: &'static str,
    pub(crate) arguments: &'static [Argument],
    pub(crate) aliases: &'static [Alias],
}

impl Tool {
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.status, Status::Live(_))
    }
}

/// Another name under which a tool can be called, with the argument names that go with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alias {
    pub(crate) name: &'static str,
    /// Applies only when the named argument has this value; without it, when that argument is absent too.
    pub(crate) when: Option<(&'static str, &'static str)>,
    /// Argument names of the alias, and what they are here. A name given directly wins.
    pub(crate) renames: &'static [(&'static str, &'static str)],
    /// Arguments that the alias stands for.
    pub(crate) sets: &'static [(&'static str, &'static str)],
    /// Arguments of the alias that mean nothing here.
    pub(crate) drops: &'static [&'static str],
    /// The names that callers of the alias look for in its answer.
    pub(crate) shape: Shape,
}

/// The old names in the answer to an alias.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// As the tool itself.
    Plain,
    /// With `agents`, a flat list.
    Agents,
    /// Cut down to the agent named by one of these arguments.
    OneAgent(&'static [&'static str]),
}

impl Alias {
    const fn new(name: &'static str) -> Self {
        Self { name, when: None, renames: &[], sets: &[], drops: &[], shape: Shape::Plain }
    }

    const fn when(mut self, argument: &'static str, value: &'static str) -> Self {
        self.when = Some((argument, value));
        self
    }

    const fn renames(mut self, renames: &'static [(&'static str, &'static str)]) -> Self {
        self.renames = renames;
        self
    }

    const fn sets(mut self, sets: &'static [(&'static str, &'static str)]) -> Self {
        self.sets = sets;
        self
    }

    const fn drops(mut self, drops: &'static [&'static str]) -> Self {
        self.drops = drops;
        self
    }

    const fn shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }
}

/// One argument of a tool, or one field of a record in an argument.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Argument {
    pub(crate) name: &'static str,
    pub(crate) required: bool,
    pub(crate) kind: Kind,
    pub(crate) about: &'static str,
    /// What to do with a value that is too long.
    pub(crate) too_long: &'static str,
}

impl Argument {
    const fn required(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, required: true, kind, about, too_long: "shorten it" }
    }

    const fn optional(name: &'static str, kind: Kind, about: &'static str) -> Self {
        Self { name, required: false, kind, about, too_long: "shorten it" }
    }

    const fn too_long(mut self, advice: &'static str) -> Self {
        self.too_long = advice;
        self
    }
}

/// What values an argument takes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    /// Text of at most so many characters.
    Text(usize),
    /// Text of at most so many bytes, where a message or file is meant.
    Body(usize),
    /// A whole number in a range.
    Number(u64, u64),
    /// True or false.
    Flag,
    /// One of these words.
    Word(&'static [Word]),
    /// One text, or a list of at most so many; always a list when checked.
    Texts { most: usize, longest: usize, one_is_fine: bool },
    /// At most so many records with these fields.
    Records(usize, &'static [Argument]),
    /// One record with these fields.
    Record(&'static [Argument]),
    /// A record with fields of the caller's own choice.
    Map,
}

/// A word that an argument takes, and what is taken for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    pub(crate) word: &'static str,
    pub(crate) also: &'static [&'static str],
}

const fn word(word: &'static str) -> Word {
    Word { word, also: &[] }
}

const fn word_also(word: &'static str, also: &'static [&'static str]) -> Word {
    Word { word, also }
}

/// A name of an agent, a role or the like.
const NAME: Kind = Kind::Text(64);
/// An id of a task, message, run or member.
const ID: Kind = Kind::Text(128);
/// One line.
const LINE: Kind = Kind::Text(200);
/// A path of a file or directory.
const PATH: Kind = Kind::Text(4096);
/// A paragraph.
const PARAGRAPH: Kind = Kind::Text(4000);
/// The largest text the room takes.
const MEBIBYTE: usize = 1 << 20;
/// A few items of text.
const ITEMS: Kind = Kind::Texts { most: 200, longest: 4000, one_is_fine: false };

/// Arguments that models add of themselves: taken, without effect on who speaks.
pub(crate) const IGNORED: &[&str] =
    &["sender", "from", "agent_id", "task_id", "requires_ack", "schema_version"];

/// Returns every tool, in the order in which they are listed.
pub(crate) fn tools() -> impl Iterator<Item = &'static Tool> {
    team::TOOLS.iter().chain(members::TOOLS)
}

/// Returns the tool of this name, aliases not counted.
pub(crate) fn tool(name: &str) -> Option<&'static Tool> {
    tools().find(|tool| tool.name == name)
}

/// Returns all tools that have this alias.
pub(crate) fn aliased(name: &str) -> impl Iterator<Item = (&'static Tool, &'static Alias)> {
    tools()
        .flat_map(|tool| tool.aliases.iter().map(move |alias| (tool, alias)))
        .filter(move |(_, alias)| alias.name == name)
}

/// Returns what is listed for a set: what can be called, and is meant for it.
pub(crate) fn listed(set: ToolSet) -> impl Iterator<Item = &'static Tool> {
    tools().filter(move |tool| tool.is_live() && tool.audience.shows(set))
}

#[cfg(test)]
mod tests;
