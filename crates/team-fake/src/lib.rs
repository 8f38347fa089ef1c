//! The built-in fake agent: a real interactive terminal program that plays a coding agent.
//!
//! It has a composer, dialogs, hooks, a transcript, sessions that resume and fork, and a client of MCP
//! servers; it obeys a script, a control file and `fake:` lines in the text it gets. It never reaches a
//! network. `docs/fake-agent.md` describes all of it.

mod agent;
mod args;
mod child;
mod clock;
mod clothes;
mod composer;
mod control;
mod dialog;
mod directive;
mod input;
mod logs;
mod mcp;
mod nested;
mod place;
mod screen;
mod settings;
mod setup;
mod signals;
mod term;
mod transcript;
mod watch;

use std::ffi::OsString;
use std::io::Write as _;

use crate::args::ArgsError;
use crate::clothes::{Clothes, Worn};

/// Runs the program with the arguments that follow its name, and returns its exit code.
pub fn main(args: Vec<OsString>) -> i32 {
    clock::mono_ms();
    let Request { clothes, words } = match request(args) {
        Ok(request) => request,
        Err(End::Done) => return 0,
        Err(End::Refused(error)) => return refuse(&*error),
    };
    if let Some(code) = clothes.command(&words) {
        return code;
    }
    let args = match clothes.args(words) {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    if args.version {
        let _ = writeln!(std::io::stdout(), "{}", clothes.version_line(&version(&*clothes)));
        return 0;
    }
    if let Some(session) = &args.nested {
        return match nested::run(&clothes, &args, session) {
            Ok(()) => 0,
            Err(error) => refuse(&error),
        };
    }
    match setup::start(clothes, args) {
        Ok(agent) => agent.run(),
        Err(error) => refuse(&error),
    }
}

/// Programs in whose clothes it can be started.
pub fn clothes() -> &'static [&'static str] {
    clothes::NAMES
}

/// Whom it plays, and the arguments of that program.
struct Request {
    clothes: Worn,
    words: Vec<String>,
}

/// Why there is nothing to play.
enum End {
    Done,
    Refused(Box<dyn std::error::Error>),
}

/// Reads what stands before the program's own arguments: `--as NAME`, or `--wear DIR NAME...`, which writes scripts.
fn request(args: Vec<OsString>) -> Result<Request, End> {
    let refused = |error: ArgsError| End::Refused(Box::new(error));
    let mut words = args::words(args).map_err(refused)?;
    let known = |name: Option<&str>| {
        let unknown = || refused(ArgsError::NoClothes(name.unwrap_or_default().to_owned()));
        clothes::find(name).ok_or_else(unknown)
    };
    match words.first().map(String::as_str) {
        Some("--wear") if words.len() > 2 => {
            for name in &words[2..] {
                known(Some(name))?;
                let written = clothes::write_script(words[1].as_ref(), name);
                let path = written.map_err(|error| End::Refused(Box::new(error)))?;
                let _ = writeln!(std::io::stdout(), "{}", path.display());
            }
            Err(End::Done)
        }
        Some("--as") if words.len() > 1 => {
            let clothes = known(Some(&words[1]))?;
            words.drain(..2);
            Ok(Request { clothes, words })
        }
        Some(flag @ ("--as" | "--wear")) => Err(refused(ArgsError::NoValue(flag.to_owned()))),
        _ => Ok(Request { clothes: known(None)?, words }),
    }
}

/// The version it claims: `FAKE_VERSION`, else that of its clothes.
pub(crate) fn version(clothes: &dyn Clothes) -> String {
    std::env::var("FAKE_VERSION").unwrap_or_else(|_| clothes.version().to_owned())
}

fn refuse(error: &dyn std::error::Error) -> i32 {
    let mut text = format!("Error: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    let _ = writeln!(std::io::stderr(), "{text}");
    1
}
