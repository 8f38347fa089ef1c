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
    Init {
        /// Its name
        name: String,
        /// subscription, official_api or compatible_api
        #[arg(long, value_parser = auth_mode)]
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
    let path = ops::init_profile(&root, name, *auth_mode)?;
    if ui.is_json() {
        ui.json(&serde_json::json!({ "profile": name, "path": path }));
    } else {
        ui.line(&format!("wrote {}", path.display()));
        ui.line(&format!("Use it with `profile: {name}` in a role file."));
    }
    Ok(0)
}
