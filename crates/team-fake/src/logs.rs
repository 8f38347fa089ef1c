//! The files that tests read: every byte, every submission, every event, all MCP traffic. Writes only.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::clock;
use crate::place::Home;

/// The log files of one session.
#[derive(Debug)]
pub(crate) struct Logs {
    bytes: File,
    events: File,
    submissions: PathBuf,
    mcp: PathBuf,
}

impl Logs {
    /// Opens the logs of `session`, keeping what a session of this id wrote before.
    pub(crate) fn open(home: &Home, session: &str) -> io::Result<Self> {
        Ok(Self {
            bytes: append_to(&home.bytes(session))?,
            events: append_to(&home.events(session))?,
            submissions: home.submissions(session),
            mcp: home.mcp(session),
        })
    }

    /// Records what one read of the terminal gave: `<wall ms> <monotonic ms> <hex>`.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let mut line = format!("{} {} ", clock::wall_ms(), clock::mono_ms());
        line.reserve(bytes.len() * 2 + 1);
        for byte in bytes {
            let _ = write!(line, "{byte:02x}");
        }
        line.push('\n');
        let _ = self.bytes.write_all(line.as_bytes());
    }

    /// Records something that happened; `fields` must be an object.
    pub(crate) fn event(&mut self, name: &str, fields: Value) {
        let mut record =
            json!({"ts": clock::now_iso(), "ms": clock::wall_ms(), "mono": clock::mono_ms(), "event": name});
        if let (Some(record), Value::Object(fields)) = (record.as_object_mut(), fields) {
            record.extend(fields);
        }
        let _ = write_line(&mut self.events, &record);
    }

    /// Records a text that was sent to the model.
    pub(crate) fn submission(&self, text: &str, source: &str, queued: bool) {
        let record = json!({
            "ts": clock::now_iso(), "ms": clock::wall_ms(), "mono": clock::mono_ms(), "text": text,
            "len": text.chars().count(), "bytes": text.len(), "source": source, "queued": queued,
        });
        let _ = append_line(&self.submissions, &record);
    }

    /// Records one line of MCP traffic; `direction` is `out`, `in`, `err` or `state`.
    pub(crate) fn mcp(&self, server: &str, direction: &str, message: &Value) {
        let record = json!({"ts": clock::now_iso(), "ms": clock::wall_ms(), "server": server, "dir": direction, "message": message});
        let _ = append_line(&self.mcp, &record);
    }
}

/// Opens a private file for appending.
pub(crate) fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Appends one record to a file in one write.
pub(crate) fn append_line(path: &Path, record: &Value) -> io::Result<()> {
    write_line(&mut append_to(path)?, record)
}

fn write_line(file: &mut File, record: &Value) -> io::Result<()> {
    let mut line = record.to_string();
    line.push('\n');
    file.write_all(line.as_bytes())
}

/// Replaces a file in one step, so that no reader sees half of it.
pub(crate) fn replace(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension(format!("tmp-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&temporary, path)
}
