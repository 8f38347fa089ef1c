//! `profile`

use team_engine::ops;
use team_spec::AuthMode;

use crate::cli::Context;
use crate::error::CliError;
use crate::ui::Ui;

/// Manage profiles: how agents log in
#[derive(Debug, clap::Args)]
pub(crate) struct ProfileArgs {
    #[command(subcommand)]
    command: ProfileCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ProfileCommand {
    /// Write a commented profile that only you can read
    #[command(after_help = "Example:\n  team-agent profile init work --auth-mode subscription")]
    Init {
        /// Its name
        name: String,
        /// How an agent with it logs in: subscription, official_api or compatible_api
        #[arg(long, value_name = "MODE", value_parser = auth_mode)]
        auth_mode: AuthMode,
    },
}

fn auth_mode(word: &str) -> Result<AuthMode, String> {
    AuthMode::parse(word).ok_or_else(|| "use subscription, official_api or compatible_api".to_owned())
}

pub(crate) fn run(ui: &Ui, context: &Context, args: &ProfileArgs) -> Result<u8, CliError> {
    let ProfileCommand::Init { name, auth_mode } = &args.command;
    let root = match &context.shared.workspace {
        Some(given) => given.clone(),
        None => context.root(),
    };
    let written = ops::init_profile(&root, context.shared.team.as_deref(), name, *auth_mode)?;
    Ok(ui.answer(&written, None, |ui| {
        ui.line(&format!("wrote {}", written.path.display()));
        ui.line(&format!("Use it with `profile: {name}` in a role file."));
    }))
}
