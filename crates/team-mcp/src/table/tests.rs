use std::collections::BTreeSet;

use super::*;

/// Name, set, hints and other names of every tool for teams.
const TEAM: &str = "\
send_message worker F/F/F team_send SendMessage
report_result worker F/F/F
team_read worker T/F/T get_team_status list_agents check_agent
task_list worker T/F/T TaskList
task_get worker T/F/T TaskGet read_agent_result
task_claim worker F/F/T
task_release worker F/F/T
task_update worker F/F/F TaskUpdate
request_human worker F/F/F
shutdown_response worker F/F/F SendMessage
memory_note worker F/F/F
team_add lead F/F/F add_agent spawn_agent Agent
team_stop lead F/T/T stop_agent cancel_agent
shutdown_request lead F/T/F SendMessage
task_create lead F/F/F TaskCreate
task_assign lead F/F/F assign_task
task_cancel lead F/T/T
task_ack_failure lead F/F/T
task_approve lead F/F/F
run_start lead F/F/F spawn_team
run_status lead T/F/T list_team
run_results lead F/F/T read_team_results
run_cancel lead F/T/T cancel_team
quick_start leader F/F/F TeamCreate
lane_integrate leader F/F/F
team_delete leader F/T/F TeamDelete
";

/// Name and hints of every tool for members.
const MEMBERS: &str = "\
create_team_member F/F/F
get_team_member T/F/T
list_team_members T/F/T
update_team_member F/F/F
deactivate_team_member F/T/T
reactivate_team_member F/F/T
get_active_interlocutor T/F/T
get_interlocutor_runtime_binding T/F/T
set_active_interlocutor F/F/T
launch_team_member F/F/F
launch_workitem_assignee F/F/F
get_team_member_runtime T/F/T
list_team_member_runtimes T/F/T
stop_team_member_runtime F/F/T
reserve_name F/F/F
release_name F/T/T
list_available_names T/F/T
suggest_name T/F/F
init_memory_tree F/F/T
export_team_member F/F/F
export_claude_subagent F/F/T
export_claude_subagents F/F/T
import_team_member F/F/F
check_consistency T/F/T
check_all_consistency T/F/T
";

fn hints(hints: Hints) -> String {
    let letter = |it: bool| if it { 'T' } else { 'F' };
    format!("{}/{}/{}", letter(hints.read_only), letter(hints.destructive), letter(hints.idempotent))
}

/// Returns the lowest of the sets for seats that may use the tool.
fn lowest(tool: &Tool) -> &'static str {
    [(ToolSet::Worker, "worker"), (ToolSet::Lead, "lead"), (ToolSet::Leader, "leader")]
        .into_iter()
        .find(|(set, _)| tool.audience.admits(*set))
        .map_or("nobody", |(_, word)| word)
}

#[test]
fn every_tool_for_teams_is_there_with_its_set_hints_and_aliases() {
    let mut rows = String::new();
    for tool in team::TOOLS {
        rows.push_str(&[tool.name, lowest(tool), &hints(tool.hints)].join(" "));
        let mut last = "";
        for alias in tool.aliases.iter().filter(|it| std::mem::replace(&mut last, it.name) != it.name) {
            rows.push(' ');
            rows.push_str(alias.name);
        }
        rows.push('\n');
    }
    assert_eq!(rows, TEAM);
}

#[test]
fn every_tool_for_members_is_there_with_its_hints_and_only_reads_are_for_all() {
    let rows: Vec<_> = members::TOOLS.iter().map(|it| format!("{} {}", it.name, hints(it.hints))).collect();
    assert_eq!(rows, MEMBERS.lines().collect::<Vec<_>>());
    for tool in members::TOOLS {
        assert_eq!(tool.audience.admits(ToolSet::Worker), tool.hints.read_only, "{}", tool.name);
        assert!(
            tool.audience.admits(ToolSet::Leader) && tool.audience.admits(ToolSet::Members),
            "{}",
            tool.name
        );
        assert!(
            tool.audience.shows(ToolSet::Members) && !tool.audience.shows(ToolSet::Worker),
            "{}",
            tool.name
        );
    }
}

#[test]
fn a_higher_set_lists_all_that_a_lower_one_does() {
    let names = |set| listed(set).map(|it| it.name).collect::<BTreeSet<_>>();
    assert!(names(ToolSet::Unbound).is_subset(&names(ToolSet::Worker)));
    assert!(names(ToolSet::Worker).is_subset(&names(ToolSet::Lead)));
    assert!(names(ToolSet::Lead).is_subset(&names(ToolSet::Leader)));
}

#[test]
fn names_mean_one_thing() {
    let names: Vec<_> = tools().map(|it| it.name).collect();
    let distinct: BTreeSet<_> = names.iter().collect();
    assert_eq!(names.len(), distinct.len());
    for (tool, alias) in tools().flat_map(|it| it.aliases.iter().map(move |alias| (it, alias))) {
        assert!(!names.contains(&alias.name), "`{}` is a tool and an alias", alias.name);
        let same: Vec<_> = aliased(alias.name).filter(|(_, it)| it.when == alias.when).collect();
        assert_eq!(same.len(), 1, "`{}` of `{}` can be taken in two ways", alias.name, tool.name);
        let renamed = alias.renames.iter().map(|(_, ours)| ours);
        for ours in renamed.chain(alias.sets.iter().map(|(ours, _)| ours)) {
            assert!(tool.arguments.iter().any(|it| it.name == *ours), "`{}` has no `{ours}`", tool.name);
        }
    }
}

#[test]
fn the_reference_is_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mcp-tools.md");
    let reference = crate::reference();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &reference).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(written, reference, "`UPDATE_DOCS=1 cargo test -p team-mcp` writes it anew");
}
