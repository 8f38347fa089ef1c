//! The tools for working in a team: the room, the board, agents and runs.

use super::{
    Alias, Argument, Audience, DESTROYS, ENDS, Hints, ID, ITEMS, Kind, LINE, Live, MEBIBYTE, NAME, PARAGRAPH,
    PATH, READS, SETTLES, Shape, Status, Tool, WRITES, Word, word, word_also,
};

const fn later(
    name: &'static str,
    audience: Audience,
    hints: Hints,
    about: &'static str,
    arguments: &'static [Argument],
    aliases: &'static [Alias],
) -> Tool {
    Tool { name, audience, hints, status: Status::Later, about, arguments, aliases }
}

const PRESENTATION: Argument = Argument::optional(
    "presentation",
    Kind::Record(&[
        Argument::optional("case_id", Kind::Text(64), "A label of your choice to find results by"),
        Argument::optional("sink", Kind::Text(64), "Where it should be shown"),
        Argument::optional("class", Kind::Text(64), "What sort of text it is"),
    ]),
    "How it is shown and filed",
);

const MESSAGE_KINDS: &[Word] = &[
    word("message"),
    word_also("ack", &["acknowledge", "acknowledgement"]),
    word("plan"),
    word("question"),
    word_also("progress", &["status", "update"]),
];

const RESULT_STATUS: &[Word] = &[word("success"), word("partial"), word("failed"), word("blocked")];

const TASK_STATUS: &[Word] = &[
    word("pending"),
    word("in_progress"),
    word("blocked"),
    word("completed"),
    word("failed"),
    word_also("canceled", &["cancelled"]),
];

const TESTS: &[Argument] = &[
    Argument::required("command", PARAGRAPH, "The command that was run"),
    Argument::required(
        "status",
        Kind::Word(&[
            word_also("passed", &["pass", "ok", "success"]),
            word_also("failed", &["fail", "failure", "error"]),
            word_also("skipped", &["skip", "not_run"]),
        ]),
        "How it ended",
    ),
    Argument::optional("note", PARAGRAPH, "What to know about it"),
];

const TASK_ID: Argument = Argument::required("id", ID, "The task");
const EXPECTED_VERSION: Argument = Argument::optional(
    "expected_version",
    Kind::Number(0, u64::MAX),
    "Refuse the change if the task has another version by now",
);
const REASON: Argument = Argument::optional("reason", PARAGRAPH, "Why");

const RUN_MEMBER: &[Argument] = &[
    Argument::required("role", NAME, "The role, unique in the run; it names the agent"),
    Argument::required("task", Kind::Body(64 * 1024), "What this member has to do"),
    Argument::optional(
        "after",
        Kind::Texts { most: 16, longest: 64, one_is_fine: false },
        "Roles that have to end first",
    ),
    Argument::optional("agent", NAME, "The role file or template to use"),
    Argument::optional("model", NAME, "The model to use"),
    Argument::optional("member", ID, "The lasting member to cast"),
];

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "send_message",
        audience: Audience::Anybody,
        hints: WRITES,
        status: Status::Live(Live::SendMessage),
        about: "Send a message to one or several agents of your team, or to your leader. It is kept until the receiver \
                can take it, so send it once and go on; the answer says how far it has come. To hand in your work use \
                report_result instead.",
        arguments: &[
            Argument::required(
                "to",
                Kind::Texts { most: 64, longest: 4096, one_is_fine: true },
                "An agent's name, several names, `leader`, `manager` (whoever added you), or `all` (every agent but you)",
            ),
            Argument::required("content", Kind::Body(MEBIBYTE), "The text of the message")
                .too_long("write it to a file and send the path"),
            Argument::optional(
                "kind",
                Kind::Word(MESSAGE_KINDS),
                "What the message is; `message` if left out",
            ),
            Argument::optional("task", ID, "The task it is about"),
            Argument::optional("reply_to", ID, "The message it answers"),
            Argument::optional(
                "id",
                ID,
                "An id of your choice: sending again with the same id never sends twice",
            ),
            PRESENTATION,
        ],
        aliases: &[
            Alias::new("team_send").renames(&[
                ("recipient", "to"),
                ("recipients", "to"),
                ("agent", "to"),
                ("message", "content"),
                ("text", "content"),
            ]),
            Alias::new("SendMessage")
                .renames(&[("recipient", "to"), ("message", "content")])
                .drops(&["summary"]),
            Alias::new("SendMessage")
                .when("type", "message")
                .renames(&[("recipient", "to"), ("message", "content")])
                .drops(&["summary"]),
            Alias::new("SendMessage")
                .when("type", "broadcast")
                .renames(&[("message", "content")])
                .sets(&[("to", "all")])
                .drops(&["summary", "recipient"]),
        ],
    },
    Tool {
        name: "report_result",
        audience: Audience::Anybody,
        hints: WRITES,
        status: Status::Live(Live::ReportResult),
        about: "Hand in the result of your task, once, when the work is done or cannot go on. This closes the task and \
                tells your manager. `partial` counts as done with something left over, `blocked` as failed for a reason \
                outside your hands.",
        arguments: &[
            Argument::required("summary", Kind::Text(2000), "What came of it, in a few sentences")
                .too_long("put the rest in `text`"),
            Argument::required("status", Kind::Word(RESULT_STATUS), "How the task ended"),
            Argument::optional("task", ID, "The task; needed only if you hold several"),
            Argument::optional("text", Kind::Body(MEBIBYTE), "The full report")
                .too_long("write it to a file and name the file in `artifacts`"),
            Argument::optional("tests", Kind::Records(200, TESTS), "Commands you ran to check the work"),
            Argument::optional("changes", ITEMS, "Files you changed, and how"),
            Argument::optional("artifacts", ITEMS, "Files or links the work produced"),
            Argument::optional("risks", ITEMS, "What could be wrong"),
            Argument::optional("next_actions", ITEMS, "What should happen next"),
            Argument::optional("evidence", ITEMS, "What shows that it is so"),
            Argument::optional(
                "lessons",
                Kind::Texts { most: 5, longest: 1000, one_is_fine: false },
                "What is worth knowing next time",
            ),
            PRESENTATION,
        ],
        aliases: &[],
    },
    Tool {
        name: "team_read",
        audience: Audience::Worker,
        hints: READS,
        status: Status::Live(Live::TeamRead),
        about: "Read your team: who is there and at work on what, and the messages you may see. It marks nothing as \
                read. Messages for you arrive by themselves, so there is no need to poll.",
        arguments: &[
            Argument::optional(
                "since",
                Kind::Number(0, u64::MAX),
                "The `next` of an earlier answer: only what came after it",
            ),
            Argument::optional(
                "what",
                Kind::Word(&[word("tree"), word("room"), word("all")]),
                "`tree` for the agents, `room` for the messages, `all` for both, which is the default",
            ),
            Argument::optional("limit", Kind::Number(1, 200), "How many messages at most; 50 if left out"),
        ],
        aliases: &[
            Alias::new("get_team_status")
                .sets(&[("what", "tree")])
                .drops(&["team_id", "team"])
                .shape(Shape::Agents),
            Alias::new("list_agents")
                .sets(&[("what", "tree")])
                .drops(&["team_id", "team"])
                .shape(Shape::Agents),
            Alias::new("check_agent")
                .sets(&[("what", "tree")])
                .drops(&["team_id", "team"])
                .shape(Shape::OneAgent(&["agent_id", "agent", "name", "id"])),
        ],
    },
    later(
        "task_list",
        Audience::Worker,
        READS,
        "List the tasks of the board.",
        &[
            Argument::optional("status", Kind::Word(TASK_STATUS), "Only tasks in this state"),
            Argument::optional("owner", NAME, "Only tasks of this agent"),
            Argument::optional("ready", Kind::Flag, "Only tasks that could begin now"),
            Argument::optional("limit", Kind::Number(1, 200), "How many at most"),
        ],
        &[Alias::new("TaskList")],
    ),
    later(
        "task_get",
        Audience::Worker,
        READS,
        "Read one task with its result.",
        &[TASK_ID],
        &[
            Alias::new("TaskGet").renames(&[("taskId", "id")]),
            Alias::new("read_agent_result").renames(&[("task_id", "id"), ("agent_id", "id")]),
        ],
    ),
    later(
        "task_claim",
        Audience::Worker,
        SETTLES,
        "Take a task that is ready.",
        &[TASK_ID, EXPECTED_VERSION],
        &[],
    ),
    later("task_release", Audience::Worker, SETTLES, "Give a task back.", &[TASK_ID, EXPECTED_VERSION], &[]),
    later(
        "task_update",
        Audience::Worker,
        WRITES,
        "Change what a task says, or note how far it has come.",
        &[
            TASK_ID,
            Argument::optional("subject", LINE, "The task in one line"),
            Argument::optional("description", Kind::Text(5000), "What is to be done"),
            Argument::optional("files", ITEMS, "Files it touches"),
            Argument::optional("domains", ITEMS, "Areas it touches"),
            Argument::optional("acceptance", ITEMS, "What has to hold at the end"),
            Argument::optional("depends_on", ITEMS, "Tasks that come first"),
            Argument::optional("progress", PARAGRAPH, "How far it has come"),
            Argument::optional("blocked_reason", PARAGRAPH, "What it waits for"),
            Argument::optional(
                "status",
                Kind::Word(TASK_STATUS),
                "Completed or failed is the same as reporting",
            ),
            Argument::optional("summary", Kind::Text(2000), "The result, with such a status"),
            Argument::optional("owner", NAME, "The agent to work on it"),
            EXPECTED_VERSION,
        ],
        &[Alias::new("TaskUpdate")
            .renames(&[("taskId", "id"), ("addBlockedBy", "depends_on")])
            .drops(&["addBlocks"])],
    ),
    Tool {
        name: "request_human",
        audience: Audience::Worker,
        hints: WRITES,
        status: Status::Live(Live::RequestHuman),
        about: "Ask the person a question that only a person can answer. Ask your manager first where that is enough. \
                The answer comes later as a message; go on with what does not depend on it.",
        arguments: &[
            Argument::required("question", PARAGRAPH, "The question, with what is needed to answer it")
                .too_long("send the background to your leader with send_message first"),
            Argument::optional(
                "choices",
                Kind::Texts { most: 8, longest: 200, one_is_fine: false },
                "Answers to choose from",
            ),
        ],
        aliases: &[],
    },
    later(
        "shutdown_response",
        Audience::Worker,
        WRITES,
        "Answer a request to stop.",
        &[
            Argument::required("request_id", ID, "The request"),
            Argument::required("approve", Kind::Flag, "Whether you agree"),
            REASON,
        ],
        &[Alias::new("SendMessage")
            .when("type", "shutdown_response")
            .renames(&[("content", "reason"), ("message", "reason")])
            .drops(&["recipient", "to", "summary"])],
    ),
    later(
        "memory_note",
        Audience::Worker,
        WRITES,
        "Note something for later sessions of the member you are cast as.",
        &[
            Argument::required(
                "tier",
                Kind::Word(&[word("working"), word("journal"), word("relations"), word("lessons")]),
                "Where it belongs",
            ),
            Argument::required("text", Kind::Body(8192), "The note"),
            Argument::optional(
                "sensitivity",
                Kind::Word(&[word("public"), word("internal"), word("confidential"), word("pii")]),
                "Who may see it; `internal` if left out",
            ),
            Argument::optional("title", LINE, "A title"),
            Argument::optional("about", ID, "The member it is about"),
        ],
        &[],
    ),
    later(
        "team_add",
        Audience::Lead,
        WRITES,
        "Add an agent below you and give it a task.",
        &[
            Argument::required("name", NAME, "Its name"),
            Argument::required("role", LINE, "Its role in one line"),
            Argument::required("task", Kind::Body(64 * 1024), "What it has to do"),
            Argument::optional("goal", PARAGRAPH, "What the work is for"),
            Argument::optional("lead", Kind::Flag, "Whether it may add agents itself"),
            Argument::optional("agent", NAME, "The role file or template to use"),
            Argument::optional("model", NAME, "The model to use"),
            Argument::optional("member", ID, "The lasting member to cast"),
            Argument::optional("template", NAME, "The template to use"),
            Argument::optional("worktree", Kind::Flag, "Whether it works in a tree of its own"),
        ],
        &[
            Alias::new("add_agent"),
            Alias::new("spawn_agent"),
            Alias::new("Agent")
                .renames(&[("subagent_type", "agent"), ("prompt", "task"), ("description", "role")])
                .drops(&["team_name"]),
        ],
    ),
    later(
        "team_stop",
        Audience::Lead,
        ENDS,
        "Stop an agent below you, with everything below it.",
        &[Argument::required("name", NAME, "The agent")],
        &[
            Alias::new("stop_agent").renames(&[("agent_id", "name"), ("agent", "name")]),
            Alias::new("cancel_agent").renames(&[("agent_id", "name"), ("agent", "name")]),
        ],
    ),
    later(
        "shutdown_request",
        Audience::Lead,
        DESTROYS,
        "Ask an agent below you to finish and stop.",
        &[
            Argument::required("to", Kind::Texts { most: 64, longest: 4096, one_is_fine: true }, "The agent"),
            REASON,
            Argument::optional("force", Kind::Flag, "Stop it whatever it answers; for the leader"),
        ],
        &[Alias::new("SendMessage")
            .when("type", "shutdown_request")
            .renames(&[("recipient", "to"), ("content", "reason"), ("message", "reason")])
            .drops(&["summary"])],
    ),
    later(
        "task_create",
        Audience::Lead,
        WRITES,
        "Put a task on the board.",
        &[
            Argument::required("subject", LINE, "The task in one line"),
            Argument::required("description", Kind::Text(5000), "What is to be done")
                .too_long("write it to a file and name the file"),
            Argument::optional("owner", NAME, "The agent to work on it"),
            Argument::optional(
                "depends_on",
                Kind::Texts { most: 50, longest: 128, one_is_fine: false },
                "Tasks that come first",
            ),
            Argument::optional("files", ITEMS, "Files it touches"),
            Argument::optional("domains", ITEMS, "Areas it touches"),
            Argument::optional("requires_code_change", Kind::Flag, "Whether code has to change"),
            Argument::optional("acceptance", ITEMS, "What has to hold at the end"),
            Argument::optional("verifies", ITEMS, "Tasks that this one checks"),
        ],
        &[Alias::new("TaskCreate").drops(&["activeForm"])],
    ),
    later(
        "task_assign",
        Audience::Lead,
        WRITES,
        "Give an open task to an agent.",
        &[TASK_ID, Argument::required("owner", NAME, "The agent")],
        &[Alias::new("assign_task").renames(&[("task_id", "id"), ("agent_id", "owner"), ("agent", "owner")])],
    ),
    later("task_cancel", Audience::Lead, ENDS, "Cancel an open task.", &[TASK_ID, REASON], &[]),
    later(
        "task_ack_failure",
        Audience::Lead,
        SETTLES,
        "Note that the failure of a task is known.",
        &[TASK_ID, REASON],
        &[],
    ),
    later(
        "task_approve",
        Audience::Lead,
        WRITES,
        "Decide on the plan for a task.",
        &[TASK_ID, Argument::required("approve", Kind::Flag, "Whether the work may begin"), REASON],
        &[],
    ),
    later(
        "run_start",
        Audience::Lead,
        WRITES,
        "Start agents that work side by side and end together.",
        &[
            Argument::optional("members", Kind::Records(16, RUN_MEMBER), "Who takes part"),
            Argument::optional("goal", PARAGRAPH, "What the run is for"),
            Argument::optional(
                "keep",
                Kind::Flag,
                "Leave the agents idle at the end instead of stopping them",
            ),
            Argument::optional("preset", NAME, "A prepared set of members, instead of `members`"),
            Argument::optional("variables", Kind::Map, "Values for the preset"),
        ],
        &[Alias::new("spawn_team").renames(&[("agents", "members")])],
    ),
    later(
        "run_status",
        Audience::Lead,
        READS,
        "Show how far a run has come.",
        &[Argument::required("run", ID, "The run")],
        &[Alias::new("list_team").renames(&[("team_id", "run")])],
    ),
    later(
        "run_results",
        Audience::Lead,
        SETTLES,
        "Read the results of a run and mark them as collected.",
        &[Argument::required("run", ID, "The run")],
        &[Alias::new("read_team_results").renames(&[("team_id", "run")])],
    ),
    later(
        "run_cancel",
        Audience::Lead,
        ENDS,
        "Cancel a run.",
        &[Argument::required("run", ID, "The run")],
        &[Alias::new("cancel_team").renames(&[("team_id", "run")])],
    ),
    later(
        "quick_start",
        Audience::Leader,
        WRITES,
        "Start a team.",
        &[
            Argument::optional("dir", PATH, "The directory of the team"),
            Argument::optional("name", NAME, "The name of a new team"),
            Argument::optional("goal", PARAGRAPH, "What a new team is for"),
        ],
        &[Alias::new("TeamCreate")
            .renames(&[("team_name", "name"), ("description", "goal")])
            .drops(&["agent_type"])],
    ),
    later(
        "lane_integrate",
        Audience::Leader,
        WRITES,
        "Bring the work of an agent's own tree into the main one.",
        &[Argument::optional("agent", NAME, "The agent; all of them if left out")],
        &[],
    ),
    later(
        "team_delete",
        Audience::Leader,
        DESTROYS,
        "Delete a team with its state.",
        &[
            Argument::required("team", NAME, "The team"),
            Argument::required("confirm", Kind::Flag, "Has to be true"),
            Argument::optional("abandon", Kind::Flag, "Also when work would be lost"),
        ],
        &[Alias::new("TeamDelete").renames(&[("team_name", "team")])],
    ),
];
