//! The only place that prints. Data goes to standard output, talk to standard error.

use std::io::{IsTerminal as _, Write as _};

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::{CliError, exit_code};

/// Where output goes, and in which form.
#[derive(Debug)]
pub(crate) struct Ui {
    json: bool,
    command: String,
    color: bool,
}

impl Ui {
    pub(crate) fn new(json: bool, command: &str) -> Self {
        let color = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self { json, command: command.to_owned(), color }
    }

    /// Whether answers are JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a line of data.
    pub(crate) fn line(&self, text: &str) {
        write(&mut std::io::stdout().lock(), text);
    }

    /// Prints a line of talk.
    pub(crate) fn say(&self, text: &str) {
        write(&mut std::io::stderr().lock(), text);
    }

    /// Prints text exactly.
    pub(crate) fn raw(&self, text: &str) {
        let _ = std::io::stdout().lock().write_all(text.as_bytes());
    }

    /// Makes a word stand out where the terminal can.
    pub(crate) fn loud(&self, text: &str) -> String {
        if self.color { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Prints an answer as one flat JSON object.
    pub(crate) fn json(&self, answer: &impl Serialize) {
        self.json_with(true, answer);
    }

    /// Prints an answer as one flat JSON object that says whether all went well.
    pub(crate) fn json_with(&self, ok: bool, answer: &impl Serialize) {
        let mut all = Map::new();
        all.insert("schema_version".to_owned(), Value::from(team_engine::ops::SCHEMA_VERSION));
        all.insert("ok".to_owned(), Value::from(ok));
        all.insert("command".to_owned(), Value::from(self.command.as_str()));
        if let Ok(Value::Object(fields)) = serde_json::to_value(answer) {
            all.extend(fields);
        }
        self.line(&Value::Object(all).to_string());
    }

    /// Prints an error and returns its exit code.
    pub(crate) fn error(&self, error: &CliError) -> u8 {
        if self.json {
            let fields = serde_json::json!({
                "error": {"code": error.code, "message": error.message, "hint": error.hint}
            });
            self.json_with(false, &fields);
        } else {
            if error.verbatim {
                self.say(error.message.trim_end());
            } else {
                self.say(&format!("error: {}", error.message));
            }
            if let Some(hint) = &error.hint {
                self.say(&format!("hint: {hint}"));
            }
        }
        exit_code(error.kind)
    }

    /// Prints a table whose last column takes the rest of 80 columns.
    pub(crate) fn table(&self, head: &[&str], rows: &[Vec<String>]) {
        let mut widths: Vec<usize> = head.iter().map(|it| width(it)).collect();
        for row in rows {
            for (at, cell) in row.iter().enumerate() {
                if at + 1 < head.len() {
                    widths[at] = widths[at].max(width(cell)).min(24);
                }
            }
        }
        let used: usize = widths.iter().rev().skip(1).map(|it| it + 2).sum();
        if let Some(last) = widths.last_mut() {
            *last = 80usize.saturating_sub(used).max(10);
        }
        let head: Vec<String> = head.iter().map(|it| (*it).to_owned()).collect();
        for row in std::iter::once(&head).chain(rows) {
            let mut text = String::new();
            for (cell, room) in row.iter().zip(&widths) {
                let cell = fit(cell, *room);
                text.push_str(&cell);
                text.extend(std::iter::repeat_n(' ', room.saturating_sub(width(&cell)) + 2));
            }
            self.line(text.trim_end());
        }
    }
}

/// A closed pipe is the reader's business: whatever cannot be written is dropped.
fn write(out: &mut dyn std::io::Write, text: &str) {
    let _ = writeln!(out, "{text}");
}

/// Columns that a text takes: wide scripts take two each.
fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(it: char) -> usize {
    match u32::from(it) {
        0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60
        | 0xffe0..=0xffe6 | 0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

fn fit(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for it in text.chars() {
        if used + char_width(it) + 1 > room {
            break;
        }
        used += char_width(it);
        out.push(it);
    }
    out.push('…');
    out
}
