//! The command line: which commands there are and what they share.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use team_engine::ErrorKind;
use team_engine::ops::{Engine, Scope};

use crate::commands;
use crate::error::CliError;
use crate::ui::Ui;

/// Run a team of coding agents, led by the agent you are talking to
#[derive(Debug, Parser)]
#[command(
    name = "team-agent",
    version,
    disable_help_subcommand = true,
    after_help = "A first team:
  team-agent init                                write its files
  team-agent quick-start                         start it
  team-agent send --watch-result coder 'TASK'    give a task
  team-agent status                              see what happens
  team-agent collect                             read the results
  team-agent shutdown                            end it; `restart` goes on

Exit codes: 0 ok, 1 refused or failed, 2 wrong words, 3 something is missing on this machine, 4 not yet, 70 a bug"
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) shared: Shared,
    #[command(subcommand)]
    command: Command,
}

/// The heading in help of what every command takes.
const EVERYWHERE: &str = "With every command";

/// What every command takes.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Shared {
    /// Work in this directory instead of the nearest one with a `.team`
    #[arg(long, global = true, value_name = "DIR", help_heading = EVERYWHERE)]
    pub(crate) workspace: Option<PathBuf>,
    /// Work with this team: its key, its name or its session
    #[arg(long, global = true, value_name = "TEAM", help_heading = EVERYWHERE)]
    pub(crate) team: Option<String>,
    /// Print JSON, also for errors; `team-agent schema` describes it
    #[arg(long, global = true, help_heading = EVERYWHERE)]
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
    // Writing a team.
    Init(commands::init::InitArgs) => init, "init";
    Profile(commands::profile::ProfileArgs) => profile, "profile";
    Compile(commands::compile::CompileArgs) => compile, "compile";
    // Its beginning and its ends.
    QuickStart(commands::quick_start::QuickStartArgs) => quick_start, "quick-start";
    Shutdown(commands::shutdown::ShutdownArgs) => shutdown, "shutdown";
    Restart(commands::restart::RestartArgs) => restart, "restart";
    Delete(commands::delete::DeleteArgs) => delete, "delete";
    // Work.
    Send(commands::send::SendArgs) => send, "send";
    Wait(commands::wait::WaitArgs) => wait, "wait";
    Collect(commands::collect::CollectArgs) => collect, "collect";
    Results(commands::results::ResultsArgs) => results, "results";
    Inbox(commands::inbox::InboxArgs) => inbox, "inbox";
    Report(commands::report::ReportArgs) => report, "report";
    // Looking.
    Status(commands::status::StatusArgs) => status, "status";
    Approvals(commands::approvals::ApprovalsArgs) => approvals, "approvals";
    Approve(commands::approve::ApproveArgs) => approve, "approve";
    Grant(commands::grant::GrantArgs) => grant, "grant";
    Attach(commands::attach::AttachArgs) => attach, "attach";
    Explain(commands::explain::ExplainArgs) => explain, "explain";
    Events(commands::events::EventsArgs) => events, "events";
    Doctor(commands::doctor::DoctorArgs) => doctor, "doctor";
    Selftest(commands::selftest::SelftestArgs) => selftest, "selftest";
    // For other programs.
    Mcp(commands::mcp::McpArgs) => mcp, "mcp";
    Schema(commands::schema::SchemaArgs) => schema, "schema";
    Completions(commands::completions::CompletionsArgs) => completions, "completions";
    Coordinator(commands::coordinator::CoordinatorArgs) => coordinator, "coordinator";
    #[command(hide = true)]
    Hook(commands::hook::HookArgs) => hook, "hook";
    #[command(hide = true)]
    Seat(commands::seat::SeatArgs) => seat, "seat";
    #[command(hide = true)]
    Bridge(commands::bridge::BridgeArgs) => bridge, "bridge";
}

/// Where a command works.
#[derive(Debug, Default)]
pub(crate) struct Context {
    pub(crate) shared: Shared,
}

impl Context {
    /// What the arguments say of place and team.
    pub(crate) fn scope(&self) -> Scope {
        Scope { workspace: self.shared.workspace.clone(), team: self.shared.team.clone(), seat_file: None }
    }

    /// A command of ours that is about the same team as this one.
    pub(crate) fn paste(&self, words: &str) -> String {
        paste(words, self.shared.team.as_deref())
    }

    /// The workspace to read; writes nothing.
    pub(crate) fn look(&self) -> Result<Engine, CliError> {
        Ok(Engine::look(&self.scope())?)
    }

    /// The directory that a new workspace would be in.
    pub(crate) fn root(&self) -> PathBuf {
        let here = || std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
        match &self.shared.workspace {
            Some(given) => {
                team_engine::workspace::discover(Some(given), &here()).unwrap_or_else(|_| given.clone())
            }
            None => team_engine::workspace::discover(None, &here()).unwrap_or_else(|_| here()),
        }
    }
}

/// A command of ours as it can be pasted: with `--team` where another team than the default one is meant.
pub(crate) fn paste(words: &str, team: Option<&str>) -> String {
    match team.filter(|it| *it != team_spec::DEFAULT_KEY) {
        Some(team)
            if team.contains(|it: char| {
                it.is_whitespace() || it.is_ascii_punctuation() && !"-_".contains(it)
            }) =>
        {
            format!("team-agent {words} --team '{}'", team.replace('\'', r"'\''"))
        }
        Some(team) => format!("team-agent {words} --team {team}"),
        None => format!("team-agent {words}"),
    }
}

/// The whole command line, for those who describe it.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

/// Whether the caller asked for JSON, by arguments that may be wrong otherwise.
pub(crate) fn wants_json(arguments: &[OsString]) -> bool {
    arguments.iter().skip(1).take_while(|it| *it != "--").any(|it| it == "--json")
}

/// The command that the caller wrote, by arguments that may be wrong otherwise.
pub(crate) fn command_word(arguments: &[OsString]) -> Option<String> {
    let mut rest = arguments.iter().skip(1).map(|it| it.to_string_lossy());
    while let Some(word) = rest.next() {
        match word.as_ref() {
            "--workspace" | "--team" => drop(rest.next()),
            it if it.starts_with('-') => {}
            it => return Some(it.to_owned()),
        }
    }
    None
}

/// Runs the command that the arguments name and returns the exit code.
pub(crate) fn run(arguments: &[OsString]) -> u8 {
    if let Some(refused) = unsupported(std::env::consts::OS) {
        let command = command_word(arguments).unwrap_or_default();
        return Ui::new(wants_json(arguments), &command).error(&refused);
    }
    if let Some((command, name)) = called_by_ourselves(arguments) {
        return carry_out(command, &Ui::new(false, name), &Context::default());
    }
    let asked = help_words(arguments);
    let arguments = asked.as_deref().unwrap_or(arguments);
    // Where nothing says how wide it is, as wide as everything else here.
    let plain = !crate::ui::is_terminal();
    let command = if plain { Cli::command().term_width(80) } else { Cli::command() };
    let matches = match command.try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) => return usage(&error, arguments),
    };
    let cli = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, arguments),
    };
    let ui = Ui::new(cli.shared.json, cli.command.name());
    carry_out(cli.command, &ui, &Context { shared: cli.shared })
}

fn carry_out(command: Command, ui: &Ui, context: &Context) -> u8 {
    let code = match command.run(ui, context) {
        Ok(code) => code,
        Err(error) => ui.error(&error),
    };
    match ui.lost().filter(|_| ui.failed()) {
        Some(why) => {
            ui.say(&format!("error: the output could not be written: {why}"));
            code.max(1)
        }
        None => code,
    }
}

/// Recognizes the calls that this program writes into seats and configurations itself: they are many, somebody waits
/// for each, and their form is known. Whatever differs in the least is read like any other command line.
fn called_by_ourselves(arguments: &[OsString]) -> Option<(Command, &'static str)> {
    let words: Vec<Option<&str>> = arguments.iter().skip(1).map(|it| it.to_str()).collect();
    let file = |word: &str| (!word.starts_with('-')).then(|| PathBuf::from(word));
    match words[..] {
        [Some("hook"), Some("--seat-file"), Some(path), Some(event)] if !event.starts_with('-') => {
            let args = commands::hook::HookArgs { seat_file: file(path)?, event: event.to_owned() };
            Some((Command::Hook(args), "hook"))
        }
        [Some("seat"), Some("--seat-file"), Some(path)] => {
            Some((Command::Seat(commands::seat::SeatArgs { seat_file: file(path)? }), "seat"))
        }
        [Some("bridge"), Some("--seat-file"), Some(path)] => {
            Some((Command::Bridge(commands::bridge::BridgeArgs { seat_file: file(path)? }), "bridge"))
        }
        [Some("mcp"), Some("--seat-file"), Some(path)] => Some((
            Command::Mcp(commands::mcp::McpArgs { seat_file: Some(file(path)?), instructions: None }),
            "mcp",
        )),
        _ => None,
    }
}

/// Wrong words are said in JSON to those who asked for JSON.
fn usage(error: &clap::Error, arguments: &[OsString]) -> u8 {
    use clap::error::ErrorKind as K;
    if matches!(error.kind(), K::DisplayHelp | K::DisplayVersion) {
        let _ = error.print();
        return 0;
    }
    if wants_json(arguments) {
        let word = command_word(arguments);
        let known = word.as_deref().is_some_and(|it| command().find_subcommand(it).is_some());
        let help = word.as_deref().filter(|_| known).map_or_else(String::new, |it| format!("{it} "));
        let (message, tip) = match error.kind() {
            K::MissingSubcommand => ("a command is missing".to_owned(), None),
            K::InvalidSubcommand => {
                let word = word.clone().unwrap_or_default();
                (format!("there is no command `{word}`"), Some(meant(&word)))
            }
            _ => words_of(&error.render().to_string()),
        };
        let hint = tip.unwrap_or_else(|| format!("run `team-agent {help}--help`"));
        return Ui::new(true, &word.unwrap_or_default()).error(&CliError::usage(message, hint));
    }
    if let (K::InvalidSubcommand, Some(word)) = (error.kind(), command_word(arguments)) {
        let ui = Ui::new(false, "");
        return ui.error(&CliError::usage(format!("there is no command `{word}`"), meant(&word)));
    }
    let _ = error.print();
    2
}

/// What somebody meant by a word that is no command: a habit of other programs, or a slip.
fn meant(word: &str) -> String {
    let habit = match word {
        "start" | "up" | "run" | "launch" => Some("quick-start"),
        "stop" | "kill" | "down" | "end" => Some("shutdown"),
        "list" | "ls" | "ps" | "show" | "agents" => Some("status"),
        "log" | "logs" => Some("events"),
        "rm" | "remove" => Some("delete"),
        "resume" => Some("restart"),
        _ => None,
    };
    let command = command();
    let known = command.get_subcommands().filter(|it| !it.is_hide_set()).map(clap::Command::get_name);
    let near = team_engine::decide::near_names(word, known);
    match habit.map(str::to_owned).or_else(|| near.into_iter().next()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "run `team-agent --help` to see the commands".to_owned(),
    }
}

/// `help VERB` asks for what `VERB --help` shows.
fn help_words(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let (program, rest) = arguments.split_first()?;
    let (first, verb) = rest.split_first()?;
    (first == "help").then(|| {
        let mut words = vec![program.clone()];
        words.extend(verb.iter().filter(|it| !it.to_string_lossy().starts_with('-')).cloned());
        words.push("--help".into());
        words
    })
}

/// What is wrong, in one line, and what clap advises.
fn words_of(rendered: &str) -> (String, Option<String>) {
    let first = rendered.lines().take_while(|it| !it.trim().is_empty());
    let message = first.map(|it| it.trim().trim_start_matches("error: ")).collect::<Vec<_>>().join(" ");
    let tip = rendered.lines().find_map(|it| it.trim().strip_prefix("tip: ").map(str::to_owned));
    (message, tip)
}

/// Where this program cannot work it says so, and nothing else happens.
pub(crate) fn unsupported(system: &str) -> Option<CliError> {
    // A test may pretend to be elsewhere.
    let forced = std::env::var("TEAM_AGENT_PLATFORM").ok();
    let system = forced.as_deref().unwrap_or(system);
    (!matches!(system, "linux" | "macos")).then(|| {
        let message = format!("team-agent does not run on {system}: it needs tmux and Unix processes");
        CliError::new(ErrorKind::Environment, "unsupported_platform", message)
            .with_hint("use Linux, macOS, or a Linux distribution under WSL 2")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(command: &clap::Command, each: &mut dyn FnMut(&clap::Command)) {
        each(command);
        command.get_subcommands().for_each(|it| all(it, each));
    }

    #[test]
    fn our_own_calls_are_read_as_any_command_line_is() {
        let read = |line: &str| {
            let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let matches = Cli::command().try_get_matches_from(&arguments).unwrap();
            let usual = Cli::from_arg_matches(&matches).unwrap().command;
            let quick = called_by_ourselves(&arguments).map(|(command, name)| {
                assert_eq!(command.name(), name);
                format!("{command:?}")
            });
            (format!("{usual:?}"), quick)
        };
        for line in
            ["x hook --seat-file /s/a.json Stop", "x seat --seat-file a", "x mcp --seat-file /s/a.json"]
        {
            let (usual, quick) = read(line);
            assert_eq!(quick.as_ref(), Some(&usual), "{line}");
        }
        for line in ["x mcp", "x status --json", "x hook Stop --seat-file a", "x mcp --seat-file a --team t"]
        {
            assert_eq!(read(line).1, None, "{line}");
        }
        let arguments = ["x", "hook", "--seat-file", "a", "--help"].map(OsString::from);
        assert!(called_by_ourselves(&arguments).is_none());
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_command_and_argument_says_in_a_line_what_it_does() {
        all(&command(), &mut |command| {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let name = command.get_name();
            assert!(about.starts_with(char::is_uppercase) && !about.ends_with('.'), "{name}: {about}");
            assert!(about.chars().count() <= 100 && !about.contains('\n'), "{name}: {about}");
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(
                    help.starts_with(char::is_uppercase) && !help.ends_with('.'),
                    "{name} {}: {help}",
                    argument.get_id()
                );
            }
        });
    }

    #[test]
    fn what_only_programs_call_is_not_listed() {
        let hidden: Vec<_> = command()
            .get_subcommands()
            .filter(|it| it.is_hide_set())
            .map(|it| it.get_name().to_owned())
            .collect();
        assert_eq!(hidden, ["hook", "seat", "bridge"]);
    }

    #[test]
    fn the_command_is_found_among_wrong_arguments() {
        let word = |text: &str| command_word(&text.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(word("team-agent --json --workspace /x send a"), Some("send".to_owned()));
        assert_eq!(word("team-agent --json"), None);
        let json = |text: &str| wants_json(&text.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(json("team-agent send a --json"));
        assert!(!json("team-agent send a -- --json"));
    }

    #[test]
    fn a_command_to_paste_names_the_team_it_is_about() {
        assert_eq!(paste("collect", None), "team-agent collect");
        assert_eq!(paste("collect", Some("current")), "team-agent collect");
        assert_eq!(paste("explain w1", Some("second")), "team-agent explain w1 --team second");
        assert_eq!(paste("collect", Some("Ann's crew")), r"team-agent collect --team 'Ann'\''s crew'");
    }

    #[test]
    fn a_platform_that_is_not_supported_is_named() {
        assert!(unsupported("windows").is_some_and(|it| it.message.contains("windows") && it.hint.is_some()));
        assert!(unsupported("linux").is_none());
    }
}
