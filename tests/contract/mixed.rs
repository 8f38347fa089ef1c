//! One of each in one team: they write to each other and report, whatever program they are.

use team_testkit::process;
use team_testkit::stub::Kind as Asked;

use crate::team::{ALL, SOON, Team};

#[test]
fn one_of_each_works_in_one_team() {
    let names = ALL.map(|it| format!("{}-1", it.provider));
    let workers: Vec<_> = names.iter().map(String::as_str).zip(ALL).collect();
    let Some(team) = Team::started(&workers) else { return };
    let ws = &team.crew.ws;
    for (at, kind) in ALL.iter().enumerate() {
        let (provider, tools) = (kind.provider, kind.tools);
        let next = ALL[(at + 1) % ALL.len()].provider;
        let task = format!(
            "stub: call {tools}send_message {{\"to\":\"{next}-1\",\"content\":\"greetings from {provider}\"}}\n\
             stub: call {tools}report_result {{\"summary\":\"{provider} is done\",\"status\":\"success\"}}\n\
             stub: say reported"
        );
        ws.ok(["send", "--watch-result", &format!("{provider}-1"), &task]);
    }
    for task in 1..=ALL.len() {
        ws.ok(["wait", "--task", &task.to_string(), "--timeout", "90"]);
    }
    let collected = ws.ok(["collect"]);
    for (at, provider) in ALL.iter().map(|it| it.provider).enumerate() {
        let receiver = &team.workers[(at + 1) % ALL.len()];
        assert!(collected.contains(&format!("{provider} is done")), "{collected}");
        let head = format!("[Team message from {provider}-1 to {}:]", receiver.name);
        let times = || {
            let all: Vec<_> = team.workers.iter().flat_map(|it| it.stub.requests()).collect();
            let given = all.iter().filter(|it| it.kind == Asked::Turn).flat_map(|it| &it.texts);
            given.map(|it| it.matches(head.as_str()).count()).sum::<usize>()
        };
        assert!(process::wait_until(|| times() > 0, SOON), "{head} did not come");
        assert_eq!(times(), 1, "{head}");
    }
    team.finish();
}
