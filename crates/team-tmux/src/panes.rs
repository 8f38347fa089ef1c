//! Lists, opens and closes panes.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::batch::{all, equals, literal_format, quote, when};
use crate::call::Client;
use crate::guard::{STATE, Scope, State, is_pane};
use crate::pane::{Closed, Exit, HEIGHT, OpenPane, OpenedPane, Pane, PaneInfo, Viewers, WIDTH};
use crate::server::IDLE_MARK;
use crate::terminal::Fence;
use crate::{Result, TmuxError, process};

const LIST: &str = "P\t#{pane_id}\t#{pane_pid}\t#{pane_dead}\t#{pane_dead_status}\t#{pane_dead_signal}\t\
     #{window_id}\t#{pane_in_mode}\t#{pane_input_off}\t#{pane_width}\t#{pane_height}\t#{cursor_x}\t\
     #{cursor_y}\t#{window_activity}\t#{session_name}\t#{@team_spawn}\t#{@team_typed}\t#{window_name}\t#{pane_title}";
/// A control client that only reads, or that wants no output, is a program and nobody who looks.
pub(crate) const CLIENTS: &str = "C\t#{client_readonly}\t\
     #{&&:#{client_control_mode},#{||:#{client_readonly},#{m:*no-output*,#{client_flags}}}}\t#{client_session}";
const OPENED: &str = "#{pane_id}\t#{pane_pid}\t#{window_id}";

/// How often a pane that died without a cause is asked about again.
const NUDGES: u32 = 5;

pub(crate) fn list(client: &Client) -> Result<Vec<PaneInfo>> {
    let mut listing = list_once(client)?;
    for nudge in 0..NUDGES {
        let is_vague = |info: &PaneInfo| info.exit == Some(Exit::Unknown);
        if !listing.panes.iter().any(is_vague) {
            break;
        }
        // The server may have missed the end of a child; being told again, it looks.
        let _ = process::signal(listing.server_pid, Signal::SIGCHLD);
        thread::sleep(Duration::from_millis(u64::from(nudge)));
        listing = list_once(client)?;
    }
    Ok(listing.panes)
}

struct Listing {
    server_pid: u32,
    panes: Vec<PaneInfo>,
}

fn list_once(client: &Client) -> Result<Listing> {
    let script = format!(
        "display-message -p {}\nlist-clients -F {}\nlist-panes -a -F {}\n",
        quote("S\t#{pid}"),
        quote(CLIENTS),
        quote(LIST)
    );
    let reply = client.quick_script("list-panes", &script)?;
    // A server without sessions has no panes, and says so in this way.
    if !reply.success && !reply.stderr.contains("no current target") {
        return Err(client.failure("list-panes", &reply));
    }
    parse_listing(&reply.stdout)
        .ok_or_else(|| TmuxError::Unexpected { doing: "list-panes", text: reply.stdout.clone() })
}

fn parse_listing(said: &str) -> Option<Listing> {
    let mut lines = said.lines();
    let server_pid = lines.next()?.strip_prefix("S\t")?.parse().ok()?;
    let mut viewers: HashMap<&str, Viewers> = HashMap::new();
    let mut panes = Vec::new();
    for line in lines {
        if let Some(pane) = line.strip_prefix("P\t") {
            panes.push(parse_pane(pane, &viewers)?);
        } else {
            let (session, viewer) = parse_client(line)?;
            let session = viewers.entry(session).or_default();
            session.attached += viewer.attached;
            session.can_type += viewer.can_type;
        }
    }
    Some(Listing { server_pid, panes })
}

/// Reads the session that a client shows, and what it counts for there.
pub(crate) fn parse_client(line: &str) -> Option<(&str, Viewers)> {
    let mut fields = line.strip_prefix("C\t")?.splitn(3, '\t');
    let read_only = fields.next()? == "1";
    let program = fields.next()? == "1";
    let session = fields.next()?;
    let viewers =
        if program { Viewers::default() } else { Viewers { attached: 1, can_type: u32::from(!read_only) } };
    Some((session, viewers))
}

fn parse_pane(line: &str, viewers: &HashMap<&str, Viewers>) -> Option<PaneInfo> {
    let fields: Vec<_> = line.splitn(18, '\t').collect();
    let [
        id,
        pid,
        dead,
        status,
        signal,
        window,
        in_mode,
        input_off,
        width,
        height,
        column,
        row,
        activity,
        session,
        tag,
        typed,
        window_name,
        title,
    ] = fields[..]
    else {
        return None;
    };
    let is_set = |field: &str| !matches!(field, "" | "0");
    let exit = is_set(dead).then(|| match (signal, status.parse()) {
        ("" | "0", Ok(code)) => Exit::Code(code),
        ("" | "0", Err(_)) => Exit::Unknown,
        (signal, _) => Exit::Signal(signal.to_owned()),
    });
    Some(PaneInfo {
        pane: Pane { id: id.parse().ok()?, pid: pid.parse().ok()? },
        exit,
        window: window.parse().ok()?,
        window_name: window_name.to_owned(),
        session: session.to_owned(),
        tag: Some(tag.to_owned()).filter(|tag| !tag.is_empty()),
        typed: Some(typed.to_owned()).filter(|typed| !typed.is_empty()),
        title: title.to_owned(),
        in_mode: is_set(in_mode),
        input_off: is_set(input_off),
        width: width.parse().ok()?,
        height: height.parse().ok()?,
        cursor: (column.parse().unwrap_or(0), row.parse().unwrap_or(0)),
        activity: activity.parse().unwrap_or(0),
        viewers: viewers.get(session).copied().unwrap_or_default(),
    })
}

/// Opens panes in one call. Each is opened, marked and pinned in one line of the script, which the
/// server gives up at its first error, so a mark never lands on a neighbour.
pub(crate) fn open(client: &Client, fence: &Fence, panes: &[OpenPane]) -> Result<Vec<OpenedPane>> {
    for pane in panes {
        check(pane)?;
    }
    if panes.is_empty() {
        return Ok(Vec::new());
    }
    let condition = all(Scope::Ours(fence).conditions());
    let report = format!("display-message -p {}", quote(STATE));
    let script: String = panes
        .iter()
        .enumerate()
        .map(|(index, pane)| when(None, &condition, &open_one(index, pane), &report))
        .collect();
    let reply = client.try_script("new-window", &script)?;
    let mut opened = Vec::with_capacity(panes.len());
    for line in reply.stdout.lines() {
        if let Some(state) = State::parse(line) {
            state.check_fence(fence)?;
        }
        let unexpected = || TmuxError::Unexpected { doing: "new-window", text: line.to_owned() };
        opened.push(parse_opened(line, panes).ok_or_else(unexpected)?);
    }
    if opened.len() == panes.len() && reply.success {
        return Ok(opened);
    }
    let failure = client.failure("new-window", &reply);
    if opened.is_empty() {
        return Err(failure);
    }
    Err(TmuxError::OpenedSome { opened, asked: panes.len(), text: failure.to_string() })
}

fn open_one(index: usize, pane: &OpenPane) -> String {
    let session = format!("={}:", pane.session);
    let last = quote(format!("{session}{{end}}"));
    let new_session = quote(literal_format(OsStr::new(&pane.session)));
    let name = quote(literal_format(OsStr::new(&pane.window_name)));
    let cwd = quote(literal_format(pane.cwd.as_os_str()));
    let argv = pane.argv.iter().map(quote).collect::<Vec<_>>().join(" ");
    let report = quote(format!("OPENED\t{index}\t{OPENED}"));
    // A person who comes to look should not find the window that has no program.
    let show = when(Some(&session), &format!("#{{{IDLE_MARK}}}"), &format!("select-window -t {last}"), "");
    let program = format!("-n {name} -c {cwd} -P -F {report} -- {argv}");
    let tag = pane.tag.as_ref();
    let mark = tag.map(|tag| format!("set-option -p -t {last} @team_spawn {} ; ", quote(tag)));
    let finish = format!("{}resize-window -t {last} -x {WIDTH} -y {HEIGHT}", mark.unwrap_or_default());
    // Of a target that does not exist a client that looks elsewhere would tell: so the name is compared.
    let there = equals("session_name", pane.session.replace(',', "#,").replace('}', "#}"));
    when(
        Some(&session),
        &there,
        &format!("new-window -d -a -t {last} {program} ; {finish} ; {}", show.trim_end()),
        &format!("new-session -d -s {new_session} -x {WIDTH} -y {HEIGHT} {program} ; {finish}"),
    )
    .trim_end()
    .to_owned()
}

fn parse_opened(line: &str, panes: &[OpenPane]) -> Option<OpenedPane> {
    let fields: Vec<_> = line.strip_prefix("OPENED\t")?.split('\t').collect();
    let [index, id, pid, window] = fields[..] else { return None };
    let index = index.parse().ok()?;
    Some(OpenedPane {
        index,
        pane: Pane { id: id.parse().ok()?, pid: pid.parse().ok()? },
        window: window.parse().ok()?,
        tag: panes.get(index)?.tag.clone(),
    })
}

/// Checks what tmux would silently take for something else.
fn check(pane: &OpenPane) -> Result<()> {
    check_words(pane)?;
    let program = pane.argv.first().map(Path::new);
    if let Some(program) = program.filter(|program| program.is_absolute() && !program.exists()) {
        return Err(TmuxError::NoProgram { path: program.to_path_buf() });
    }
    if !pane.cwd.is_dir() {
        return Err(TmuxError::NoDirectory { path: pane.cwd.clone() });
    }
    Ok(())
}

/// Checks the part of a request that can be checked without looking at any file.
pub(crate) fn check_words(pane: &OpenPane) -> Result<()> {
    check_session_name(&pane.session)?;
    let is_plain = |text: &str| !text.is_empty() && !text.chars().any(char::is_control);
    if !is_plain(&pane.window_name) {
        return Err(TmuxError::BadName { what: "window name", name: pane.window_name.clone() });
    }
    if let Some(tag) = pane.tag.as_ref().filter(|tag| !is_plain(tag)) {
        return Err(TmuxError::BadName { what: "pane mark", name: tag.clone() });
    }
    if pane.argv.len() < 2 {
        return Err(TmuxError::BadArgv { window: pane.window_name.clone() });
    }
    Ok(())
}

/// Refuses names that tmux would change, or read as something else in a target.
pub(crate) fn check_session_name(name: &str) -> Result<()> {
    let starts_well = name.chars().next().is_some_and(|first| first.is_alphanumeric() || first == '_');
    let fits = |char: char| !char.is_control() && !matches!(char, ':' | '.' | '\\' | '#' | '*' | '?' | '[');
    if starts_well && name.chars().all(fits) {
        return Ok(());
    }
    Err(TmuxError::BadName { what: "session name", name: name.to_owned() })
}

pub(crate) fn close(client: &Client, fence: &Fence, panes: &[Pane]) -> Result<Vec<Closed>> {
    if panes.is_empty() {
        return Ok(Vec::new());
    }
    let mut script = String::new();
    for pane in panes {
        let target = pane.id.to_string();
        let mut conditions = Scope::Ours(fence).conditions();
        conditions.push(is_pane(*pane));
        let act = format!("kill-pane -t {target} ; display-message -p OK");
        let report = format!("display-message -p -t {target} {}", quote(STATE));
        script.push_str(&when(Some(&target), &all(conditions), &act, &report));
    }
    let said = client.script("kill-pane", &script)?;
    let closed: Vec<_> = said
        .lines()
        .map(|line| match State::parse(line) {
            _ if line == "OK" => Ok(Closed::Done),
            Some(state) => state.check_fence(fence).map(|()| Closed::Gone),
            None => Err(TmuxError::Unexpected { doing: "kill-pane", text: line.to_owned() }),
        })
        .collect::<Result<_>>()?;
    if closed.len() == panes.len() {
        return Ok(closed);
    }
    Err(TmuxError::Unexpected { doing: "kill-pane", text: said })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_counts_viewers_per_session_and_keeps_odd_names_apart() {
        let said = "S\t77\nC\t1\t1\tteam\nC\t1\t0\tteam\nC\t0\t0\tteam\n\
            P\t%1\t5\t0\t\t\t@1\t1\t0\t200\t50\t3\t4\t99\tteam\tx-1\tp-5\t研究员 a\ttitle\twith tab\n\
            P\t%2\t6\t1\t3\t\t@2\t0\t1\t80\t24\t0\t0\t99\tother\t\t\tw\t\n\
            P\t%3\t7\t1\t\t9\t@3\t0\t0\t80\t24\t0\t0\t99\tother\t\t\tw\t\n\
            P\t%4\t8\t1\t\t\t@4\t0\t0\t80\t24\t0\t0\t99\tother\t\t\tw\t\n";
        let listing = parse_listing(said).unwrap();
        assert_eq!(listing.server_pid, 77);
        let [first, second, third, fourth] = &listing.panes[..] else { panic!("{:?}", listing.panes) };
        assert_eq!(first.viewers, Viewers { attached: 2, can_type: 1 });
        assert_eq!((first.window_name.as_str(), first.title.as_str()), ("研究员 a", "title\twith tab"));
        assert_eq!((first.typed.as_deref(), second.typed.as_deref()), (Some("p-5"), None));
        assert_eq!((first.exit.clone(), first.in_mode, first.cursor), (None, true, (3, 4)));
        assert_eq!(
            (second.exit.clone(), second.input_off, second.tag.clone()),
            (Some(Exit::Code(3)), true, None)
        );
        assert_eq!(third.exit, Some(Exit::Signal("9".to_owned())));
        assert_eq!(fourth.exit, Some(Exit::Unknown));
        assert!(parse_listing("").is_none() && parse_listing("S\t1\nP\t%1\n").is_none());
    }

    #[test]
    fn session_names_that_tmux_would_read_otherwise_are_refused() {
        for good in ["team-研究员", "_base", "a b", "current-0f"] {
            assert!(check_session_name(good).is_ok(), "{good}");
        }
        for bad in ["", "a.b", "a:b", "$1", "@1", "%1", "=a", "-d", "a#{b}", "a\n", "a*", "+"] {
            assert!(check_session_name(bad).is_err(), "{bad}");
        }
    }
}
