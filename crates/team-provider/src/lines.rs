//! Lines of a program's record that hold JSON.
//!
//! Knows how such a line may be damaged. Must not know what a record means.

use serde_json::Value;

/// Returns the records of a line, which should be one: a program that is killed can glue two together.
pub(crate) fn records(line: &str) -> impl Iterator<Item = Value> + '_ {
    serde_json::Deserializer::from_str(line).into_iter::<Value>().map_while(Result::ok)
}
