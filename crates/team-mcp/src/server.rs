//! The server: answers requests by asking the backend.
//!
//! Knows rmcp and the runtime. Must not know the bytes on the wire or what a call does.

use std::{any::Any, borrow::Cow, fs::File, io, sync::Arc, time::Duration};

use rmcp::{
    RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest, CustomResult,
        ErrorCode, ErrorData, Implementation, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
        ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
    },
    service::{RequestContext, serve_directly},
};
use serde_json::{Map, Value, json};
use tokio::{
    runtime::Builder,
    sync::Mutex,
    task::{JoinError, spawn_blocking},
};

use crate::{
    Answer, Backend, SERVER_NAME, ToolError, answer,
    process::{self, Parent},
    resolve::{Resolved, only_reads, resolve},
    schema, table,
    transport::Lanes,
};

const INSTRUCTIONS: &str = "You are one of a team: write to it with send_message, look at it with team_read, and hand in \
                            your work with report_result, once per task. Who you are is known from your session, so no \
                            tool needs to be told.";

/// How long calls that are under way may take once the client is gone.
const LAST_CALLS: Duration = Duration::from_secs(10);

/// Why the server could not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Signal handlers could not be set.
    #[error("failed to set signal handlers")]
    Signals(#[source] io::Error),
    /// Standard input or output cannot be used.
    #[error("failed to take over standard input and output")]
    Stdio(#[source] io::Error),
    /// A thread or the runtime could not be started.
    #[error("failed to start the server's threads")]
    Threads(#[source] io::Error),
}

/// Serves one client on standard input and output until it is gone.
///
/// Returns only when the input has ended or the parent process has; signals that ask for an end are let pass. While it
/// runs, standard input is empty and standard output goes to standard error for everybody else in the process.
///
/// A panic of the backend becomes an error of that call. That needs unwinding: built with `panic = "abort"`, and with a
/// panic hook that exits, the process ends there instead.
pub fn serve(backend: Arc<dyn Backend>) -> Result<(), ServeError> {
    let parent = Parent::find();
    process::outlive_signals().map_err(ServeError::Signals)?;
    let (input, output) = process::take_stdio().map_err(ServeError::Stdio)?;
    serve_on(backend, input, output, parent)
}

pub(crate) fn serve_on(
    backend: Arc<dyn Backend>,
    input: File,
    output: File,
    parent: Option<Parent>,
) -> Result<(), ServeError> {
    // Calls that change something wait for each other, so few threads are enough.
    const BLOCKING_THREADS: usize = 4;
    let runtime = Builder::new_current_thread()
        .enable_time()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(ServeError::Threads)?;
    let lanes = Lanes::open(input, output, parent, Arc::clone(&backend)).map_err(ServeError::Threads)?;
    runtime.block_on(async {
        let server = Server { backend, order: Mutex::new(()) };
        // The handshake is a request like any other: nothing a client says before it can end the server.
        let running = serve_directly(server, lanes, None);
        // The only other way out is a bug in the loop, after which there is nothing left to serve.
        let _ = running.waiting().await;
    });
    runtime.shutdown_timeout(LAST_CALLS);
    Ok(())
}

struct Server {
    backend: Arc<dyn Backend>,
    /// Held by a call that may change something; those waiting get it in the order in which they came.
    order: Mutex<()>,
}

impl Server {
    async fn call(
        &self,
        name: String,
        given: Map<String, Value>,
        meta: Map<String, Value>,
    ) -> Result<Answer, ToolError> {
        let _turn = if only_reads(&name) { None } else { Some(self.order.lock().await) };
        let backend = Arc::clone(&self.backend);
        let done = spawn_blocking(move || {
            let Resolved { call, shape, focus } = resolve(backend.set(), &name, given, meta)?;
            answer::dress(shape, focus.as_deref(), backend.call(call)?)
        });
        done.await.unwrap_or_else(|error| Err(broken(error)))
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
            .with_server_info(Implementation::new(SERVER_NAME, env!("CARGO_PKG_VERSION")))
            .with_instructions(self.backend.instructions().unwrap_or_else(|| INSTRUCTIONS.to_owned()))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&ProtocolVersion::LATEST_WITH_INITIALIZE))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let backend = Arc::clone(&self.backend);
        let set = spawn_blocking(move || backend.set())
            .await
            .map_err(|error| ErrorData::internal_error(broken(error).message, None))?;
        Ok(ListToolsResult::with_all_items(table::listed(set).map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let given = request.arguments.unwrap_or_default();
        let answer = self.call(request.name.into_owned(), given, context.meta.0.0).await;
        Ok(result(answer).into())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        if matches!(method.as_str(), "initialize" | "ping" | "tools/list" | "tools/call") {
            return Err(ErrorData::invalid_params(
                format!("the parameters of `{method}` cannot be understood"),
                None,
            ));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("no method is named `{method}`"), None))
    }
}

fn tool(row: &'static table::Tool) -> Tool {
    let hints = row.hints;
    let annotations = ToolAnnotations::new()
        .read_only(hints.read_only)
        .destructive(hints.destructive)
        .idempotent(hints.idempotent)
        .open_world(false);
    Tool::new(row.name, row.about, schema::object(row.arguments)).with_annotations(annotations)
}

fn result(answer: Result<Answer, ToolError>) -> CallToolResult {
    let (mut result, structured) = match answer {
        Ok(Answer { text, structured }) => {
            (CallToolResult::success(vec![ContentBlock::text(text)]), structured)
        }
        Err(error) => (CallToolResult::error(vec![ContentBlock::text(error.text())]), error.structured()),
    };
    // The protocol wants an object here.
    result.structured_content = Some(match structured {
        Value::Object(_) => structured,
        other => json!({ "value": other }),
    });
    result
}

/// Returns what to say of a call that panicked.
fn broken(error: JoinError) -> ToolError {
    let what = match error.try_into_panic() {
        Ok(panic) => panic_text(panic.as_ref()),
        Err(_) => "it was given up".to_owned(),
    };
    ToolError {
        code: "internal".to_owned(),
        message: format!("the call failed inside: {what}"),
        hint: Some("this is a bug; look at the state with team_read before you try again".to_owned()),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it panicked".to_owned())
}

#[cfg(test)]
mod tests;
