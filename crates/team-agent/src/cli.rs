//! The command line: which commands there are and what they share.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use team_engine::ErrorKind;
use team_engine::ops::{Engine, Scope};

use crate::commands;
use crate::error::CliError;
use crate::ui::Ui;

/// Run a team of coding agents, led by the agent you are talking to
#[derive(Debug, Parser)]
#[command(name = "team-agent", version, propagate_version = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Shared {
    /// Work in this directory instead of the nearest one with a `.team`
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Work with this team: its key, its name or its session
    #[arg(long, global = true, value_name = "TEAM")]
    pub(crate) team: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

macro_rules! commands {
    ($($(#[$meta:meta])* $variant:ident($args:ty) => $module:ident, $name:literal;)+) => {
        #[derive(Debug, Subcommand)]
        enum Command {
            $($(#[$meta])* #[command(name = $name)] $variant($args),)+
        }

        impl Command {
            fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)+ }
            }

            fn run(self, ui: &Ui, context: &Context) -> Result<u8, CliError> {
                match self { $(Self::$variant(args) => commands::$module::run(ui, context, &args),)+ }
            }
        }
    };
}

commands! {
    Init(commands::init::InitArgs) => init, "init";
    Compile(commands::compile::CompileArgs) => compile, "compile";
    QuickStart(commands::quick_start::QuickStartArgs) => quick_start, "quick-start";
    Restart(commands::restart::RestartArgs) => restart, "restart";
    Status(commands::status::StatusArgs) => status, "status";
    Send(commands::send::SendArgs) => send, "send";
    Report(commands::report::ReportArgs) => report, "report";
    Inbox(commands::inbox::InboxArgs) => inbox, "inbox";
    Collect(commands::collect::CollectArgs) => collect, "collect";
    Results(commands::results::ResultsArgs) => results, "results";
    Wait(commands::wait::WaitArgs) => wait, "wait";
    Events(commands::events::EventsArgs) => events, "events";
    Explain(commands::explain::ExplainArgs) => explain, "explain";
    Attach(commands::attach::AttachArgs) => attach, "attach";
    Shutdown(commands::shutdown::ShutdownArgs) => shutdown, "shutdown";
    Delete(commands::delete::DeleteArgs) => delete, "delete";
    Profile(commands::profile::ProfileArgs) => profile, "profile";
    Doctor(commands::doctor::DoctorArgs) => doctor, "doctor";
    Schema(commands::schema::SchemaArgs) => schema, "schema";
    Completions(commands::completions::CompletionsArgs) => completions, "completions";
    Mcp(commands::mcp::McpArgs) => mcp, "mcp";
    #[command(hide = true)]
    Hook(commands::hook::HookArgs) => hook, "hook";
    Coordinator(commands::coordinator::CoordinatorArgs) => coordinator, "coordinator";
    #[command(hide = true)]
    Seat(commands::seat::SeatArgs) => seat, "seat";
}

/// Where a command works.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) shared: Shared,
}

impl Context {
    /// What the arguments say of place and team.
    pub(crate) fn scope(&self) -> Scope {
        Scope { workspace: self.shared.workspace.clone(), team: self.shared.team.clone(), seat_file: None }
    }

    /// The workspace to read; writes nothing.
    pub(crate) fn look(&self) -> Result<Engine, CliError> {
        Ok(Engine::look(&self.scope())?)
    }

    /// The directory that a new workspace would be in.
    pub(crate) fn root(&self) -> PathBuf {
        let here = || std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        match &self.shared.workspace {
            Some(given) => team_engine::workspace::discover(Some(given), &here()).unwrap_or_else(|_| given.clone()),
            None => team_engine::workspace::discover(None, &here()).unwrap_or_else(|_| here()),
        }
    }
}

/// Runs the command that the arguments name.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    if let Some(refused) = unsupported(std::env::consts::OS) {
        return ExitCode::from(Ui::new(false, "").error(&refused));
    }
    let matches = match Cli::command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return usage(&error, arguments),
    };
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, arguments),
    };
    let ui = Ui::new(cli.shared.json, cli.command.name());
    let context = Context { shared: cli.shared };
    match cli.command.run(&ui, &context) {
        Ok(code) => ExitCode::from(code),
        Err(error) => ExitCode::from(ui.error(&error)),
    }
}

/// Wrong words are said in JSON to those who asked for JSON.
fn usage(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    use clap::error::ErrorKind as K;
    let asks_for_help =
        matches!(error.kind(), K::DisplayHelp | K::DisplayVersion | K::DisplayHelpOnMissingArgumentOrSubcommand);
    let json = arguments.iter().any(|it| it == "--json");
    if json && !asks_for_help {
        let command = arguments.get(1).map(|it| it.to_string_lossy().into_owned()).unwrap_or_default();
        let text = error.render().to_string();
        let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        let hint = format!("run `team-agent {command} --help`");
        return ExitCode::from(Ui::new(true, &command).error(&CliError::usage(message, hint)));
    }
    let _ = error.print();
    ExitCode::from(if matches!(error.kind(), K::DisplayHelp | K::DisplayVersion) { 0 } else { 2 })
}

/// Where this program cannot work it says so, and nothing else happens.
pub(crate) fn unsupported(system: &str) -> Option<CliError> {
    // A test may pretend to be elsewhere.
    let forced = std::env::var("TEAM_AGENT_PLATFORM").ok();
    let system = forced.as_deref().unwrap_or(system);
    (!matches!(system, "linux" | "macos")).then(|| CliError {
        kind: ErrorKind::Environment,
        code: "unsupported_platform".to_owned(),
        message: format!("team-agent does not run on {system}: it needs tmux and Unix processes"),
        hint: Some("use Linux, macOS, or a Linux distribution under WSL 2".to_owned()),
        verbatim: false,
    })
}
