//! Shows the log as it grows, in lines for people.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::say;

/// A program that follows the log, and a thread that reads it.
pub(crate) struct Live {
    child: Child,
    reader: JoinHandle<()>,
}

impl Live {
    /// Shows what the command prints, line by line.
    pub(crate) fn follow(mut command: Command) -> Result<Self> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("failed to start team-agent")?;
        let out = child.stdout.take().context("a program has no output")?;
        let reader = thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                let event: Value = serde_json::from_str(&line).unwrap_or_default();
                if let Some(text) = sentence(&event) {
                    let time = event["ts"].as_str().and_then(|it| it.get(14..23)).unwrap_or("");
                    say::line(&format!("{}  {text}", say::faint(time)));
                }
                if event["event"]["type"] == "team.stopped" {
                    return;
                }
            }
        });
        Ok(Self { child, reader })
    }

    /// Ends once all is shown.
    pub(crate) fn end(mut self) {
        // It reads up to the end of the team, or the follower has died and there is no more to read.
        self.reader.join().ok();
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Says what happened, if it is something people want to see.
fn sentence(line: &Value) -> Option<String> {
    let event = &line["event"];
    let word = |name: &str| event[name].as_str().unwrap_or("?");
    let first_line = |text: &str| text.lines().next().unwrap_or_default().to_owned();
    Some(match event["type"].as_str()? {
        "message.accepted" => {
            let text = first_line(event["body"]["text"].as_str().unwrap_or("(a long text)"));
            format!("{:>8} -> {:<8} \"{text}\"", word("from"), word("addressed"))
        }
        "message.held" => format!("{:>8} is {}: {} waits", word("receiver"), word("why"), word("id")),
        "mcp.report_result" => {
            let task = event["task"].as_str().unwrap_or("?");
            let (agent, status, via) = (word("agent"), word("status"), word("via"));
            format!("{agent:>8} reports {status} for task {task}, by {via}: \"{}\"", word("summary"))
        }
        "agent.stopped" => format!("{:>8} has ended", word("agent")),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_is_shown_by_its_first_line() {
        let line = json!({"event": {
            "type": "message.accepted", "from": "leader", "addressed": "builder",
            "body": {"text": "Build it.\nfake: report"},
        }});
        assert_eq!(sentence(&line).unwrap(), r#"  leader -> builder  "Build it.""#);
    }

    #[test]
    fn most_lines_of_the_log_are_not_for_this() {
        assert_eq!(sentence(&json!({"event": {"type": "turn.ended"}})), None);
        assert_eq!(sentence(&Value::Null), None);
    }
}
