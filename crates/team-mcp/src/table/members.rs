//! The tools for lasting members: personas, their names, memory and sessions.

use super::{
    Argument, Audience, DRAWS, ENDS, Hints, ID, ITEMS, Kind, LINE, NAME, PARAGRAPH, PATH, READS, SETTLES,
    Status, Tool, WRITES, Word, word,
};

/// Reads are for every seat, changes for the leader.
const fn member(
    name: &'static str,
    hints: Hints,
    about: &'static str,
    arguments: &'static [Argument],
) -> Tool {
    let audience = if hints.read_only { Audience::MembersRead } else { Audience::MembersWrite };
    Tool { name, audience, hints, status: Status::Later, about, arguments, aliases: &[] }
}

const MEMBER: Argument = Argument::required("id", ID, "The member, by slug or id");
const SLUG: Argument = Argument::required("slug", ID, "The member, by slug or id");
const SCOPE: Argument = Argument::optional("scope", LINE, "Where it applies");
const REASON: Argument = Argument::optional("reason", PARAGRAPH, "Why");
const HANDLE: Argument = Argument::required("runtime_handle", ID, "The session");
const OVERWRITE: Argument =
    Argument::optional("overwrite", Kind::Flag, "Whether files that exist are replaced");
const MODEL_POLICY: Argument =
    Argument::optional("model_policy", NAME, "Which model is named; `inherit` if left out");
const ACTIVE_ONLY: Argument = Argument::optional("active_only", Kind::Flag, "Whether only active ones count");
const NAME_KIND: Argument = Argument::optional("kind", NAME, "Only names of this kind");
const TASK_HINTS: Argument = Argument::optional("task_hints", ITEMS, "What the work is about");

const TYPES: &[Word] = &[word("human"), word("ai-agent"), word("service"), word("consultant")];
const SENIORITIES: &[Word] =
    &[word("junior"), word("specialist"), word("expert"), word("senior"), word("principal")];

const PERSONALITY: Kind = Kind::Record(&[
    Argument::optional("communication_style", PARAGRAPH, "How it writes"),
    Argument::optional("voice", PARAGRAPH, "How it sounds"),
    Argument::optional("boundaries", ITEMS, "What it does not do"),
    Argument::optional("declared_expertise", ITEMS, "What it knows well"),
]);
const WINDOW: Kind = Kind::Record(&[
    Argument::required("starts_at", NAME, "The first moment"),
    Argument::required("ends_at", NAME, "The last moment"),
]);

const LAUNCH_HARNESS: Argument = Argument::optional("harness", NAME, "The program to run it in");
const LAUNCH_WRITE_SCOPE: Argument = Argument::optional("write_scope", ITEMS, "Paths it may write");
const LAUNCH_CONTEXT: Argument =
    Argument::optional("can_write_context", Kind::Flag, "Whether it may write shared context");
const LAUNCH_MCP: Argument = Argument::optional("can_use_mcp", Kind::Flag, "Whether it may use other tools");
const LAUNCH_REFRESH: Argument =
    Argument::optional("refresh_adapter", Kind::Flag, "Whether its files are written anew");
const LAUNCH_TASK: Argument = Argument::optional("task", Kind::Body(64 * 1024), "What it has to do");

pub(super) const TOOLS: &[Tool] = &[
    member(
        "create_team_member",
        WRITES,
        "Create a member.",
        &[
            Argument::required("name", LINE, "The name that is shown"),
            Argument::required("type", Kind::Word(TYPES), "What it is"),
            Argument::optional("slug", NAME, "The name of its directory; made from the name if left out"),
            Argument::optional("default_role", LINE, "The role it usually takes"),
            Argument::optional("default_seniority", Kind::Word(SENIORITIES), "How senior it is"),
            Argument::optional("personality", PERSONALITY, "How it is"),
            Argument::optional("email", LINE, "Its address"),
            Argument::optional("handle", LINE, "Its handle"),
            Argument::optional("joined_at", NAME, "Since when it is there"),
            Argument::optional(
                "gender_kind",
                Kind::Word(&[word("feminine"), word("masculine"), word("neutral")]),
                "Draw a free name of this kind",
            ),
            Argument::optional("engaged_for", PARAGRAPH, "What a consultant is there for"),
            Argument::optional("engagement_window", WINDOW, "When a consultant is there"),
            Argument::optional(
                "allow_committed_pii",
                Kind::Flag,
                "Whether a person's data may be stored in the project",
            ),
            Argument::optional("init_memory", Kind::Flag, "Whether its memory is laid out at once"),
        ],
    ),
    member("get_team_member", READS, "Read a member and its sessions.", &[MEMBER]),
    member(
        "list_team_members",
        READS,
        "List members.",
        &[
            Argument::optional("type", Kind::Word(TYPES), "Only of this type"),
            ACTIVE_ONLY,
            Argument::optional("role", LINE, "Only with this role"),
            Argument::optional("limit", Kind::Number(1, 500), "How many at most"),
        ],
    ),
    member(
        "update_team_member",
        WRITES,
        "Change a member.",
        &[
            MEMBER,
            Argument::optional("name", LINE, "The name that is shown"),
            Argument::optional("default_role", LINE, "The role it usually takes"),
            Argument::optional("default_seniority", Kind::Word(SENIORITIES), "How senior it is"),
            Argument::optional("personality", PERSONALITY, "How it is"),
            Argument::optional("email", LINE, "Its address"),
            Argument::optional("handle", LINE, "Its handle"),
            Argument::optional(
                "relationships",
                Kind::Records(
                    200,
                    &[
                        Argument::required("with", ID, "The other member"),
                        Argument::required("kind", NAME, "What binds them"),
                        Argument::optional("since", NAME, "Since when"),
                    ],
                ),
                "Whom it knows",
            ),
            Argument::optional("exportable", Kind::Flag, "Whether it may be exported"),
            Argument::optional("provider", NAME, "The program it likes to run in"),
            Argument::optional("model", NAME, "The model it likes to run on"),
            Argument::optional("effort", NAME, "The effort it likes to run with"),
            Argument::optional("engaged_for", PARAGRAPH, "What a consultant is there for"),
            Argument::optional("engagement_window", WINDOW, "When a consultant is there"),
            Argument::optional(
                "allow_committed_pii",
                Kind::Flag,
                "Whether a person's data may be stored in the project",
            ),
        ],
    ),
    member(
        "deactivate_team_member",
        ENDS,
        "Let a member take no part any more.",
        &[MEMBER, REASON, Argument::optional("left_at", NAME, "Since when")],
    ),
    member("reactivate_team_member", SETTLES, "Let a member take part again.", &[MEMBER]),
    member("get_active_interlocutor", READS, "Tell which member speaks with the person.", &[SCOPE]),
    member(
        "get_interlocutor_runtime_binding",
        READS,
        "Tell what the speaking member runs on.",
        &[
            SCOPE,
            Argument::optional("observed_model", NAME, "The model that was seen"),
            Argument::optional("observed_effort", NAME, "The effort that was seen"),
            TASK_HINTS,
        ],
    ),
    member(
        "set_active_interlocutor",
        SETTLES,
        "Choose which member speaks with the person.",
        &[Argument::optional("id", ID, "The member, by slug or id; none if left out"), SCOPE],
    ),
    member(
        "launch_team_member",
        WRITES,
        "Start a session of a member.",
        &[
            MEMBER,
            LAUNCH_HARNESS,
            SCOPE,
            Argument::optional("workitem_id", ID, "The task it works on"),
            LAUNCH_TASK,
            LAUNCH_WRITE_SCOPE,
            LAUNCH_CONTEXT,
            LAUNCH_MCP,
            TASK_HINTS,
            LAUNCH_REFRESH,
        ],
    ),
    member(
        "launch_workitem_assignee",
        WRITES,
        "Start a session of the member that owns a task.",
        &[
            Argument::required("workitem_id", ID, "The task"),
            LAUNCH_HARNESS,
            SCOPE,
            LAUNCH_TASK,
            LAUNCH_WRITE_SCOPE,
            LAUNCH_CONTEXT,
            LAUNCH_MCP,
            TASK_HINTS,
            LAUNCH_REFRESH,
        ],
    ),
    member("get_team_member_runtime", READS, "Read a member's session.", &[HANDLE]),
    member(
        "list_team_member_runtimes",
        READS,
        "List the sessions of members.",
        &[
            Argument::optional("team_member_id", ID, "Only of this member"),
            Argument::optional("runtime_state", NAME, "Only in this state"),
            ACTIVE_ONLY,
        ],
    ),
    member("stop_team_member_runtime", SETTLES, "Stop a member's session.", &[HANDLE, REASON]),
    member(
        "reserve_name",
        WRITES,
        "Reserve a name for a member.",
        &[
            Argument::required("name", NAME, "The name"),
            Argument::required("team_member_slug", ID, "The member"),
        ],
    ),
    member("release_name", ENDS, "Give a name back.", &[Argument::required("name", NAME, "The name")]),
    member("list_available_names", READS, "List the names that are free.", &[NAME_KIND]),
    member("suggest_name", DRAWS, "Suggest a free name.", &[NAME_KIND]),
    member("init_memory_tree", SETTLES, "Lay out a member's memory.", &[SLUG]),
    member(
        "export_team_member",
        WRITES,
        "Write a member to a bundle.",
        &[
            SLUG,
            Argument::optional("output_path", PATH, "The file to write"),
            OVERWRITE,
            Argument::optional("sign", Kind::Flag, "Whether the bundle is signed"),
        ],
    ),
    member(
        "export_claude_subagent",
        SETTLES,
        "Write a member as a subagent definition.",
        &[
            SLUG,
            Argument::optional("output_dir", PATH, "The directory to write to"),
            OVERWRITE,
            MODEL_POLICY,
            Argument::optional("with_memory", Kind::Flag, "Whether its memory goes along"),
        ],
    ),
    member(
        "export_claude_subagents",
        SETTLES,
        "Write all members as subagent definitions.",
        &[
            Argument::optional("output_dir", PATH, "The directory to write to"),
            ACTIVE_ONLY,
            Argument::optional("include_humans", Kind::Flag, "Whether people go along"),
            OVERWRITE,
            MODEL_POLICY,
        ],
    ),
    member(
        "import_team_member",
        WRITES,
        "Read a member from a bundle.",
        &[Argument::required("tarball_path", PATH, "The bundle")],
    ),
    member("check_consistency", READS, "Check the files of a member.", &[SLUG]),
    member(
        "check_all_consistency",
        READS,
        "Check the files of all members.",
        &[Argument::optional("include_inactive", Kind::Flag, "Whether inactive ones count")],
    ),
];
