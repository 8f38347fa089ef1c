//! One file per command: its arguments, and what it shows.

pub(crate) mod approvals;
pub(crate) mod approve;
pub(crate) mod attach;
pub(crate) mod bridge;
pub(crate) mod collect;
pub(crate) mod compile;
pub(crate) mod completions;
pub(crate) mod coordinator;
pub(crate) mod delete;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod explain;
pub(crate) mod grant;
pub(crate) mod hook;
pub(crate) mod inbox;
pub(crate) mod init;
pub(crate) mod mcp;
pub(crate) mod profile;
pub(crate) mod quick_start;
pub(crate) mod report;
pub(crate) mod restart;
pub(crate) mod results;
pub(crate) mod schema;
pub(crate) mod seat;
pub(crate) mod selftest;
pub(crate) mod send;
pub(crate) mod shutdown;
pub(crate) mod status;
pub(crate) mod wait;

/// A line of the log: its number, or the id of what began with it.
pub(crate) fn log_line(word: &str) -> Result<u64, String> {
    let number = word.rsplit_once('-').map_or(word, |(_, number)| number);
    number.parse().map_err(|_| "give the number of a line, or an id such as m-14".to_owned())
}

/// A number of things to show: none is no answer.
pub(crate) fn at_least_one(word: &str) -> Result<usize, String> {
    match word.parse() {
        Ok(0) | Err(_) => Err("give a number from 1".to_owned()),
        Ok(many) => Ok(many),
    }
}
