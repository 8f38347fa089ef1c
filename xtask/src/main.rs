//! Our scripts: demo, test, check, bench, schema.
fn main() {}
