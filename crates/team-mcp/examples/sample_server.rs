//! A server with a backend that repeats what it is asked, to try a client against.
//!
//! `TEAM_MCP_SAMPLE_SET` chooses the set of tools. Messages with certain texts make the backend misbehave.

use std::{io::Write as _, sync::Arc};

use serde_json::json;
use team_mcp::{Answer, Backend, ToolCall, ToolError, ToolRequest, ToolSet};

struct Sample(ToolSet);

impl Backend for Sample {
    fn set(&self) -> ToolSet {
        self.0
    }

    fn call(&self, call: ToolCall) -> Result<Answer, ToolError> {
        if let ToolRequest::SendMessage(message) = &call.request {
            match message.content.as_str() {
                "panic" => panic!("the backend fell over"),
                // Straight to where a stray print would go.
                "print" => drop(std::io::stdout().write_all(b"printed\n")),
                _ => {}
            }
        }
        Ok(Answer { text: format!("{:?}", call.request), structured: json!({ "tool": call.request.tool() }) })
    }
}

fn main() -> Result<(), team_mcp::ServeError> {
    let set = match std::env::var("TEAM_MCP_SAMPLE_SET").as_deref() {
        Ok("lead") => ToolSet::Lead,
        Ok("leader") => ToolSet::Leader,
        Ok("members") => ToolSet::Members,
        Ok("unbound") => ToolSet::Unbound,
        _ => ToolSet::Worker,
    };
    team_mcp::serve(Arc::new(Sample(set)))
}
