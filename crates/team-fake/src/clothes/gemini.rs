//! The clothes of Gemini CLI: its settings, trust, conversations, hooks, screens and habits.
//!
//! Long: one program, whose parts are told by the same few places and words.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Call, Clothes, Doing, Look, Manners, Moment, Scene, Seen};
use crate::args::{Args, ArgsError};
use crate::clock;
use crate::dialog::{Dialog, Kind, Style};
use crate::logs::replace;
use crate::mcp;
use crate::screen::{Line, text_width, wrap_draft};
use crate::settings::{Answer, Settings};
use crate::setup::{Given, StartError};
use crate::transcript::{Of, Record};

/// Plays `gemini`.
#[derive(Debug)]
pub(crate) struct Gemini;

/// Folder of the program's files in its home.
const FOLDER: &str = ".gemini";
/// The hint of an empty box, behind the cursor that the program draws itself.
const HINT: &str = " Type your message or @path/to/file";

impl Clothes for Gemini {
    fn name(&self) -> &'static str {
        "gemini"
    }

    fn version(&self) -> &'static str {
        "0.61.0"
    }

    fn args(&self, words: Vec<String>) -> Result<Args, ArgsError> {
        args(words)
    }

    fn home(&self, _logs: &Path) -> PathBuf {
        home().join(FOLDER)
    }

    fn given(&self, args: &Args, home: &Path, cwd: &str) -> Result<Given, StartError> {
        given(args, home, cwd)
    }

    fn new_transcript(&self, home: &Path, cwd: &str, id: &str) -> PathBuf {
        let minute: String =
            clock::now_iso().chars().take(16).map(|it| if it == ':' { '-' } else { it }).collect();
        chats(home, cwd).join(format!("session-{minute}-{}.jsonl", first_letters(id)))
    }

    /// The name holds the minute of the start, so the folder is looked through.
    fn transcript(&self, home: &Path, cwd: &str, id: &str) -> Option<PathBuf> {
        let end = format!("-{}.jsonl", first_letters(id));
        let is_its = |path: &PathBuf| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let head: Option<Value> = text.lines().next().and_then(|it| serde_json::from_str(it).ok());
            path.to_string_lossy().ends_with(&end) && head.is_some_and(|it| it["sessionId"] == id)
        };
        fs::read_dir(chats(home, cwd)).ok()?.flatten().map(|it| it.path()).find(is_its)
    }

    fn lines(&self, of: &Of<'_>, record: &Record<'_>) -> Option<Vec<Value>> {
        Some(lines(of, record))
    }

    fn said(&self, line: &Value) -> Option<String> {
        (line["type"] == "user").then(|| line["content"][0]["text"].as_str().map(str::to_owned))?
    }

    fn calls(&self, moment: Moment, fields: Value, scene: &Scene<'_>) -> Vec<Call> {
        calls(moment, &fields, scene)
    }

    /// A hook decides by `decision` alone; a permission question is nothing that it answers.
    fn answer(&self, _event: &str, code: i32, out: &[u8], err: &[u8]) -> Answer {
        let answer = Answer::read(code, out, err);
        let denied =
            serde_json::from_slice::<Value>(out).ok().filter(|it| it["decision"] == "deny" && code == 0);
        let reason = denied.map(|it| it["reason"].as_str().unwrap_or_default().to_owned());
        Answer { block: reason.or(answer.block), context: answer.context, ..Answer::default() }
    }

    fn child_env(&self, scene: &Scene<'_>, nested: bool) -> Vec<(&'static str, String)> {
        if nested {
            return vec![("GEMINI_CLI", "1".to_owned())];
        }
        vec![
            ("GEMINI_SESSION_ID", scene.session.to_owned()),
            ("GEMINI_PROJECT_DIR", scene.cwd.to_owned()),
            ("GEMINI_CWD", scene.cwd.to_owned()),
        ]
    }

    fn tool_prefix(&self) -> &'static str {
        "mcp_team_orchestrator_"
    }

    fn manners(&self) -> Manners {
        Manners {
            // 50 ms were too soon at all times, 200 ms at some.
            eat_enter: Duration::from_millis(60),
            takes_up_after_tools: false,
            gives_back: false,
            shell_mode: false,
            status_file: false,
            asks_at_limit: true,
            ignores_signals: true,
            permission_untold: true,
            // A paste was lost 1.5 s after the box had appeared.
            deaf_after_resume: Duration::from_millis(1500),
            ..Manners::default()
        }
    }

    fn look(&self) -> Look {
        Look {
            heading: " ▝▜▄     Gemini CLI",
            glyph: ">",
            placeholder: HINT,
            footer: " workspace (/directory)        sandbox        /model",
            answer: "✦ ",
            work: " ⠦ Thinking... (esc to cancel, 0s)",
            queued: "  Queued (press ↑ to edit): ",
        }
    }

    fn label(&self, text: &str, _number: u32) -> Option<String> {
        let (lines, chars) = (text.split('\n').count(), text.chars().count());
        if lines > 5 {
            Some(format!("[Pasted Text: {lines} lines]"))
        } else {
            (chars > 500).then(|| format!("[Pasted Text: {chars} chars]"))
        }
    }

    fn lower(&self, seen: &Seen<'_>) -> (Vec<Line>, Option<(usize, usize)>) {
        lower(seen)
    }

    fn dialog(&self, kind: Kind, detail: &str) -> Dialog {
        dialog(kind, detail)
    }

    fn picked(&self, kind: Kind, number: usize, home: &Path, cwd: &str) {
        let rule = match number {
            1 => "TRUST_FOLDER",
            2 => "TRUST_PARENT",
            _ => "DO_NOT_TRUST",
        };
        if kind == Kind::Trust {
            let file = trusted_file(home);
            let mut rules = json_of(&file).filter(Value::is_object).unwrap_or_else(|| json!({}));
            rules[cwd] = json!(rule);
            let _ = file.parent().map(fs::create_dir_all);
            let _ = replace(&file, &format!("{rules:#}"));
        }
    }

    fn title(&self, doing: Doing, cwd: &str) -> Option<String> {
        let name = Path::new(cwd).file_name().unwrap_or_default().to_string_lossy();
        let sign = match doing {
            Doing::Idle => "◇  Ready",
            Doing::Working => "✦  Working…",
            Doing::Asking => "✋  Action Required",
        };
        Some(format!("{:<80}", format!("{sign} ({name})")))
    }

    fn goodbye(&self, session: &str) -> String {
        format!("To resume this session: gemini --resume {session}")
    }
}

fn args(words: Vec<String>) -> Result<Args, ArgsError> {
    let mut args = Args::default();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let (flag, glued) = match word.split_once('=') {
            Some((flag, value)) if word.starts_with("--") => (flag.to_owned(), Some(value.to_owned())),
            _ => (word.clone(), None),
        };
        let mut value =
            || glued.clone().or_else(|| words.next()).ok_or_else(|| ArgsError::NoValue(flag.clone()));
        match flag.as_str() {
            "--session-id" => args.session_id = Some(value()?),
            "--resume" | "-r" => args.resume = Some(value()?),
            "--model" | "-m" => args.model = Some(value()?),
            "--approval-mode" => args.permission_mode = Some(value()?),
            "--yolo" | "-y" => args.permission_mode = Some("yolo".to_owned()),
            "--prompt-interactive" | "-i" => args.prompt = Some(value()?),
            "--prompt" | "-p" => {
                args.prompt = Some(value()?);
                (args.headless, args.once) = (true, true);
            }
            "--nested-session-start" => args.nested = Some(value()?),
            "--skip-trust" => {}
            "--version" | "-v" => args.version = true,
            other if other.starts_with('-') => return Err(ArgsError::Unknown(word)),
            _ => args.prompt = Some(word),
        }
    }
    if let Some(id) = args.session_id.iter().find(|it| uuid::Uuid::parse_str(it).is_err()) {
        return Err(ArgsError::NotUuid(id.clone()));
    }
    Ok(args)
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from)
}

fn home() -> PathBuf {
    variable("GEMINI_CLI_HOME").or_else(|| variable("HOME")).unwrap_or_default()
}

fn trusted_file(home: &Path) -> PathBuf {
    variable("GEMINI_CLI_TRUSTED_FOLDERS_PATH").unwrap_or_else(|| home.join("trustedFolders.json"))
}

fn json_of(file: &Path) -> Option<Value> {
    serde_json::from_str(&fs::read_to_string(file).ok()?).ok()
}

/// Reads the settings: hooks, whose times are milliseconds, servers, and whether to ask for trust.
fn given(args: &Args, home: &Path, cwd: &str) -> Result<Given, StartError> {
    let own = json_of(&home.join("settings.json"));
    let system = variable("GEMINI_CLI_SYSTEM_SETTINGS_PATH").filter(|it| is_roots_alone(it));
    let mut given = Given::default();
    let mut asks = true;
    // The later one wins; hooks of both are called.
    for layer in own.into_iter().chain(system.and_then(|it| json_of(&it))) {
        let part = |name: &str| layer.get(name).cloned().unwrap_or_else(|| json!({}));
        let hooks = Settings::load(&json!({"hooks": part("hooks")}).to_string())?;
        given.settings.add(hooks.in_milliseconds());
        given.servers.extend(mcp::load(&json!({"mcpServers": part("mcpServers")}).to_string())?);
        asks = layer["security"]["folderTrust"]["enabled"].as_bool().unwrap_or(asks);
    }
    let asks = asks
        && !args.headless
        && std::env::var_os("GEMINI_CLI_TRUST_WORKSPACE").is_none_or(|it| it != "true");
    if asks && !trusts(&json_of(&trusted_file(home)).unwrap_or_default(), Path::new(cwd)) {
        given.questions.push((Kind::Trust, cwd.to_owned()));
    }
    Ok(given)
}

/// Whether a file and all folders above it are root's and nobody else may write there; else it is skipped.
fn is_roots_alone(file: &Path) -> bool {
    file.ancestors()
        .filter(|it| !it.as_os_str().is_empty())
        .all(|it| fs::metadata(it).is_ok_and(|it| it.uid() == 0 && it.permissions().mode() & 0o022 == 0))
}

/// Whether the nearest rule trusts a folder.
fn trusts(rules: &Value, cwd: &Path) -> bool {
    let rule = |folder: &Path| folder.to_str().and_then(|it| rules[it].as_str());
    let nearest = cwd.ancestors().find_map(rule);
    matches!(nearest, Some("TRUST_FOLDER" | "TRUST_PARENT"))
}

fn first_letters(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

/// The folder of a project's conversations, under a short name of the project.
fn chats(home: &Path, cwd: &str) -> PathBuf {
    let name =
        Path::new(cwd).file_name().map_or_else(|| "root".into(), |it| it.to_string_lossy().to_lowercase());
    home.join("tmp").join(name).join("chats")
}

fn lines(of: &Of<'_>, record: &Record<'_>) -> Vec<Value> {
    let now = clock::now_iso();
    let line = |mut fields: Value| {
        fields["id"] = json!(uuid::Uuid::new_v4().to_string());
        fields["timestamp"] = json!(now);
        vec![fields]
    };
    match *record {
        Record::Opened { resumed: false } => vec![json!({
            "sessionId": of.session, "projectHash": format!("{:x}", of.cwd.len()), "startTime": now,
            "lastUpdated": now, "kind": "main",
        })],
        Record::Opened { resumed: true } => vec![json!({"$set": {"lastUpdated": now}})],
        Record::User { text, .. } | Record::TakenUp { text, .. } | Record::Meta { text } => {
            line(json!({"type": "user", "content": [{"text": text}]}))
        }
        Record::Assistant { text } => {
            line(json!({"type": "gemini", "content": text, "model": of.model, "tokens": {"total": 10}}))
        }
        Record::ToolUse { id, tool, input } => line(
            json!({"type": "gemini", "content": "", "toolCalls": [{"id": id, "name": tool, "args": input}]}),
        ),
        Record::ToolResult { id, tool, content, is_error } => {
            let key = if is_error { "error" } else { "output" };
            line(json!({"type": "user", "content": [
                {"functionResponse": {"id": id, "name": tool, "response": {key: content}}},
            ]}))
        }
        Record::ApiError { kind: "rate_limit", .. } => line(json!({
            "type": "error", "content": "[API Error: You have exhausted your daily quota on this model.]",
        })),
        Record::ApiError { kind, text, status } => {
            let error = json!({"error": {"code": status, "message": text, "status": kind.to_uppercase()}});
            line(json!({"type": "error", "content": format!("[API Error: {error}]")}))
        }
        Record::Interrupted { .. } => line(json!({"type": "info", "content": "Request cancelled."})),
        Record::Compacted { .. } => line(json!({"type": "info", "content": "Chat history compressed."})),
        Record::Queue { .. } | Record::Context { .. } | Record::TurnOver { .. } => Vec::new(),
    }
}

fn calls(moment: Moment, fields: &Value, scene: &Scene<'_>) -> Vec<Call> {
    let field = |name: &str| fields[name].clone();
    let (event, more, waits) = match moment {
        Moment::SessionStart => ("SessionStart", json!({"source": field("source")}), true),
        Moment::PromptTaken => ("BeforeAgent", json!({"prompt": scene.prompt}), true),
        Moment::ToolBegun => {
            ("BeforeTool", json!({"tool_name": field("tool_name"), "tool_input": field("tool_input")}), false)
        }
        Moment::ToolEnded => (
            "AfterTool",
            json!({
                "tool_name": field("tool_name"), "tool_input": field("tool_input"),
                "tool_response": {"llmContent": field("text")},
            }),
            false,
        ),
        // The dialog is there already; nobody answers it by a hook.
        Moment::PermissionAsked => (
            "Notification",
            json!({
                "notification_type": "ToolPermission", "message": "Tool requires permission",
                "details": details(fields),
            }),
            false,
        ),
        Moment::Answered | Moment::Failed => {
            ("AfterAgent", json!({"prompt": scene.prompt, "prompt_response": scene.said}), true)
        }
        Moment::Interrupted => {
            ("AfterAgent", json!({"prompt": field("prompt"), "prompt_response": ""}), false)
        }
        Moment::CompactBegun => ("PreCompress", json!({"trigger": "manual"}), true),
        Moment::SessionEnd => ("SessionEnd", json!({"reason": "exit"}), true),
        Moment::Limited
        | Moment::LimitOver
        | Moment::PermissionShown
        | Moment::PermissionSettled
        | Moment::TurnOver
        | Moment::FileChanged
        | Moment::CompactEnded => {
            return Vec::new();
        }
    };
    let mut input = json!({
        "session_id": scene.session, "transcript_path": scene.transcript, "cwd": scene.cwd,
        "hook_event_name": event, "timestamp": clock::now_iso(),
    });
    if let (Some(input), Value::Object(more)) = (input.as_object_mut(), more) {
        input.extend(more);
    }
    vec![Call { event, input, waits }]
}

/// What a question for permission is about, as the program words it.
fn details(fields: &Value) -> Value {
    let input = &fields["tool_input"];
    match (fields["tool_name"].as_str().unwrap_or_default(), input["command"].as_str()) {
        (_, Some(command)) => json!({
            "type": "exec", "title": "Confirm Shell Command", "command": command,
            "rootCommand": command.split_whitespace().next(),
        }),
        (tool, None) => json!({
            "type": "mcp", "title": "Confirm MCP Tool Execution", "serverName": "team_orchestrator",
            "toolName": tool, "toolArgs": input,
        }),
    }
}

/// An input box between rules with the program's own cursor in it, or a framed dialog in its place.
fn lower(seen: &Seen<'_>) -> (Vec<Line>, Option<(usize, usize)>) {
    if let Some(dialog) = seen.dialog {
        return (dialog.lines(seen.columns), None);
    }
    let rule = Line::plain("─".repeat(seen.columns));
    let mut lines = vec![rule.clone(), Line::plain(" Shift+Tab to accept edits"), rule.clone()];
    let start = format!(" {} ", seen.glyph);
    if seen.draft.is_empty() {
        let text = format!("{start} {}", seen.placeholder);
        lines.push(Line { text, dim_from: None, reverse_at: Some(start.len()) });
        lines.extend([rule, Line::plain(seen.footer)]);
        return (lines, None);
    }
    let indent = text_width(&start);
    let drafted = wrap_draft(seen.draft, seen.columns.saturating_sub(indent + 2));
    let last = drafted.len() - 1;
    for (index, line) in drafted.into_iter().enumerate() {
        let start = if index == 0 { start.clone() } else { " ".repeat(indent) };
        let text = format!("{start}{line}");
        let at = text.len();
        lines.push(if index == last {
            Line { text: text + " ", dim_from: None, reverse_at: Some(at) }
        } else {
            Line::plain(text)
        });
    }
    lines.extend([rule, Line::plain(seen.footer)]);
    (lines, None)
}

fn dialog(kind: Kind, detail: &str) -> Dialog {
    let style = Style { mark: '●', framed: true };
    let dialog = |heading: &str, body: &[&str], choices: &[&str], no: Option<usize>| {
        let body = body.iter().map(|it| (*it).to_owned()).collect();
        let choices = choices.iter().map(|it| (*it).to_owned()).collect();
        Dialog::styled(kind, heading, body, choices, no, style)
    };
    match kind {
        Kind::Trust => {
            let name = |path: Option<&Path>| {
                path.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned()
            };
            let folder = Path::new(detail);
            dialog(
                "Do you trust the files in this folder?",
                &["Trusting a folder allows Gemini CLI to load its local configurations."],
                &[
                    &format!("Trust folder ({})", name(Some(folder))),
                    &format!("Trust parent folder ({})", name(folder.parent())),
                    "Don't trust",
                ],
                None,
            )
        }
        Kind::Permission => {
            let shown = detail.split_once('(').map_or(detail, |it| it.1.trim_end_matches(')'));
            dialog(
                &format!("? Shell  {shown}"),
                &["Allow execution of [Shell]?"],
                &["Allow once", "Allow for this session", "No, suggest changes (esc)"],
                Some(3),
            )
            .boxing(shown, "")
        }
        Kind::Limit => dialog(
            "Usage limit reached for all Pro models.",
            &["/stats model for usage details", "/model to switch models."],
            &["Keep trying", "Stop"],
            None,
        ),
        _ => Dialog::new(kind, detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paste_of_many_lines_or_characters_is_labelled() {
        let label = |text: &str| Gemini.label(text, 1);
        assert_eq!(label("a\nb\nc\nd\ne"), None);
        assert_eq!(label(&"x\n".repeat(29)).as_deref(), Some("[Pasted Text: 30 lines]"));
        assert_eq!(label(&"x".repeat(1950)).as_deref(), Some("[Pasted Text: 1950 chars]"));
    }

    #[test]
    fn the_nearest_rule_says_whether_a_folder_is_trusted() {
        let rules = json!({"/a": "TRUST_FOLDER", "/a/b": "DO_NOT_TRUST"});
        assert!(trusts(&rules, Path::new("/a/c")) && !trusts(&rules, Path::new("/a/b/c")));
        assert!(!trusts(&json!({}), Path::new("/a")));
    }

    #[test]
    fn settings_that_others_could_write_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("system.json");
        fs::write(&file, "{}").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!is_roots_alone(&file));
        assert!(is_roots_alone(Path::new("/")) && !is_roots_alone(Path::new("/no/such/file")));
    }

    #[test]
    fn the_flags_of_a_start_are_read() {
        let id = "11111111-1111-4111-8111-111111111111";
        let words = ["--session-id", id, "--model", "m", "--approval-mode", "yolo"].map(str::to_owned);
        let read = args(words.to_vec()).unwrap();
        assert_eq!(
            (read.session_id.as_deref(), read.model.as_deref(), read.permission_mode.as_deref()),
            (Some(id), Some("m"), Some("yolo"))
        );
        assert_eq!(args(vec!["--settings".to_owned()]), Err(ArgsError::Unknown("--settings".to_owned())));
    }
}
