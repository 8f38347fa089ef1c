//! The one command line that people use on our server. It is executed by others, not here.

use std::ffi::OsString;

use crate::call::base_argv;
use crate::endpoint::Endpoint;
use crate::pane::PaneId;

/// The variables to be removed before the command line is executed, so that it works inside tmux.
pub const ATTACH_REMOVES: [&str; 2] = ["TMUX", "TMUX_PANE"];

/// Builds the command line that shows a pane, and its session, to a person.
///
/// A read-only client can look and leave, not type. The session must be one that this crate has
/// accepted when it was opened.
pub fn attach_argv(
    endpoint: &Endpoint,
    session: &str,
    pane: Option<PaneId>,
    read_only: bool,
) -> Vec<OsString> {
    let mut argv = base_argv(endpoint);
    argv.extend(["-N", "attach-session"].map(OsString::from));
    if read_only {
        argv.push("-r".into());
    }
    let target = pane.map_or_else(|| format!("={session}:"), |pane| pane.to_string());
    argv.extend(["-t".into(), target.into()]);
    argv
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_is_read_only_and_names_a_pane_by_its_id() {
        let endpoint = Endpoint { tmux: "/usr/bin/tmux".into(), socket: "/run/x/tmux".into() };
        let line = |pane, read_only| attach_argv(&endpoint, "team", pane, read_only).join(" ".as_ref());
        let base = "/usr/bin/tmux -u -S /run/x/tmux -f /dev/null -N attach-session";
        assert_eq!(line(Some(PaneId::new(7)), true), format!("{base} -r -t %7").as_str());
        assert_eq!(line(None, false), format!("{base} -t =team:").as_str());
    }
}
