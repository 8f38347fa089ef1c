//! `schema`: what answers look like in JSON, generated from the structs that are serialized.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value, json};
use team_engine::{ErrorKind, ops};

use super::completions::Completions;
use crate::cli::Context;
use crate::error::{CliError, Failure};
use crate::ui::Ui;

/// Print the JSON schemas of the answers to `--json`
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  team-agent schema status\n  team-agent schema | jq keys")]
pub(crate) struct SchemaArgs {
    /// Only this command's answer; `error` is what every command answers when it fails
    #[arg(value_name = "COMMAND")]
    of: Option<String>,
}

/// Schemas by command.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Schemas {
    /// The schema of each command's answer.
    schemas: BTreeMap<String, Value>,
}

pub(crate) fn run(ui: &Ui, _context: &Context, args: &SchemaArgs) -> Result<u8, CliError> {
    let mut schemas = all();
    if let Some(wanted) = &args.of {
        if !schemas.contains_key(wanted) {
            let names: Vec<_> = schemas.keys().cloned().collect();
            return Err(CliError::new(
                ErrorKind::User,
                "no_schema",
                format!("no answer of `{wanted}` is described"),
            )
            .with_hint(format!("there is: {}", names.join(", "))));
        }
        schemas.retain(|name, _| name == wanted);
    }
    let answer = Schemas { schemas };
    Ok(ui.answer(&answer, None, |ui| {
        let shown = match &args.of {
            Some(wanted) => answer.schemas.get(wanted).map(pretty),
            None => serde_json::to_value(&answer.schemas).ok().as_ref().map(pretty),
        };
        ui.raw(&shown.unwrap_or_default());
    }))
}

/// A schema as it stands in its file.
fn pretty(schema: &Value) -> String {
    let mut text = serde_json::to_string_pretty(schema).unwrap_or_default();
    text.push('\n');
    text
}

/// All schemas by command.
fn all() -> BTreeMap<String, Value> {
    let mut all: BTreeMap<String, Value> = [
        answer::<ops::Approvals>("approvals"),
        answer::<ops::Approved>("approve"),
        answer::<ops::Attach>("attach"),
        answer::<ops::Collected>("collect"),
        answer::<ops::Compiled>("compile"),
        answer::<Completions>("completions"),
        answer::<ops::Deleted>("delete"),
        answer::<ops::Doctor>("doctor"),
        answer::<ops::Explained>("explain"),
        answer::<ops::GrantsShown>("grant"),
        answer::<ops::Inbox>("inbox"),
        answer::<ops::Initialized>("init"),
        answer::<ops::ProfileWritten>("profile"),
        answer::<ops::Started>("quick-start"),
        answer::<ops::Reported>("report"),
        answer::<ops::Started>("restart"),
        answer::<ops::Results>("results"),
        answer::<Schemas>("schema"),
        answer::<super::selftest::Selftest>("selftest"),
        answer::<ops::Sent>("send"),
        answer::<ops::ShutDown>("shutdown"),
        answer::<ops::Status>("status"),
        answer::<ops::Waited>("wait"),
    ]
    .into_iter()
    .map(|(name, schema)| (name.to_owned(), schema))
    .collect();
    let failure = || head(schema_of::<Failure>(), None, &json!({ "const": false }));
    all.insert(
        "error".to_owned(),
        titled(
            failure(),
            "error",
            "What every command answers when it fails. A command \
         that got further before it failed adds the fields of its answer.",
        ),
    );
    // Lines of the log, one object each, as they are.
    let line = titled(
        schema_of::<ops::EventLine>(),
        "events",
        "One line of the log. `events --json` prints one such \
         object a line, and an object of the form `error` if it fails.",
    );
    all.insert("events".to_owned(), line);
    all
}

/// The schema of a command: its answer, or the form of all errors.
fn answer<T: JsonSchema>(command: &'static str) -> (&'static str, Value) {
    let mut good = head(schema_of::<T>(), Some(command), &json!({ "const": true }));
    let mut bad = head(schema_of::<Failure>(), Some(command), &json!({ "const": false }));
    let mut definitions = Map::new();
    for form in [&mut good, &mut bad] {
        form.remove("$schema");
        form.remove("title");
        if let Some(Value::Object(found)) = form.remove("$defs") {
            definitions.extend(found);
        }
    }
    let mut both = Map::new();
    both.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    both.insert("$defs".to_owned(), Value::Object(definitions));
    both.insert("oneOf".to_owned(), json!([good, bad]));
    (command, titled(both, command, "What `--json` prints, on one line."))
}

fn schema_of<T: JsonSchema>() -> Map<String, Value> {
    let schema = SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>();
    match schema.to_value() {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Adds the fields that every answer begins with.
fn head(mut schema: Map<String, Value>, command: Option<&str>, ok: &Value) -> Map<String, Value> {
    let command = command.map_or_else(|| json!({ "type": "string" }), |it| json!({ "const": it }));
    let version = json!({ "const": ops::SCHEMA_VERSION });
    let fields = [("schema_version", version), ("ok", ok.clone()), ("command", command)];
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    for (name, value) in &fields {
        if let Some(properties) = properties.as_object_mut() {
            properties.insert((*name).to_owned(), value.clone());
        }
    }
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Some(required) = required.as_array_mut() {
        required.extend(fields.iter().map(|(name, _)| json!(name)));
    }
    schema
}

fn titled(mut schema: Map<String, Value>, command: &str, about: &str) -> Value {
    schema.insert("title".to_owned(), json!(format!("team-agent {command}")));
    schema.insert("description".to_owned(), json!(about));
    Value::Object(schema)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// Run `cargo xtask schema` when this fails.
    #[test]
    fn the_schema_files_are_what_the_program_prints() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema");
        let wanted = all();
        for (name, schema) in &wanted {
            let file = dir.join(format!("{name}.json"));
            let found = fs::read_to_string(&file).unwrap_or_default();
            assert!(found == pretty(schema), "`{}` is stale: run `cargo xtask schema`", file.display());
        }
        for file in fs::read_dir(&dir).unwrap().map(|it| it.unwrap().path()) {
            let name = file.file_stem().unwrap().to_string_lossy().into_owned();
            assert!(wanted.contains_key(&name), "`{}` describes no command", file.display());
        }
    }

    #[test]
    fn every_command_that_answers_is_described() {
        let silent = ["hook", "seat", "bridge", "mcp", "coordinator"];
        let described = all();
        for command in crate::cli::command().get_subcommands().map(clap::Command::get_name) {
            assert_eq!(described.contains_key(command), !silent.contains(&command), "{command}");
        }
    }
}
