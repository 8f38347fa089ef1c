//! Reads what panes show. Says what is there, not what it means.

use std::collections::HashMap;

use crate::batch::{quote, when};
use crate::call::Client;
use crate::guard::is_pane;
use crate::pane::Pane;
use crate::panes::{CLIENTS, parse_client};
use crate::styled::{Line, Reader};
use crate::{Result, TmuxError};

/// What a pane shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Screen {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
    /// Column and row of the cursor, from 0.
    pub cursor: (u16, u16),
    /// Whether the cursor is shown; many programs hide it and draw their own.
    pub cursor_shown: bool,
    /// Whether the program uses the alternate screen.
    pub alternate: bool,
    /// Whether the pane is in copy mode or another mode; the lines are the program's all the same.
    pub in_mode: bool,
    /// How many people's clients are attached to its session.
    pub attached: u16,
    /// All rows, from the top.
    pub lines: Vec<Line>,
}

impl Screen {
    /// Makes a screen of plain rows, with the cursor after the last one.
    pub fn plain(text: &str) -> Self {
        let lines: Vec<_> = text.lines().map(Line::plain).collect();
        let row = lines.len().saturating_sub(1);
        let column = lines.last().map_or(0, |line| line.text().chars().count());
        Self {
            width: crate::WIDTH,
            height: crate::HEIGHT,
            cursor: (clamp(column), clamp(row)),
            cursor_shown: true,
            lines,
            ..Self::default()
        }
    }

    /// Returns all rows as text, without the empty ones at the end.
    pub fn text(&self) -> String {
        let rows: Vec<_> = self.lines.iter().map(Line::text).collect();
        let mut text = rows.join("\n");
        text.truncate(text.trim_end().len());
        text
    }

    /// Tells whether a row contains this text.
    pub fn contains(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line.text().contains(text))
    }
}

fn clamp(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// Reads several panes at one moment.
pub(crate) fn read(client: &Client, panes: &[Pane]) -> Result<Vec<Option<Screen>>> {
    if panes.is_empty() {
        return Ok(Vec::new());
    }
    let header = quote(
        "SCREEN\t#{pane_width}\t#{pane_height}\t#{cursor_x}\t#{cursor_y}\t#{cursor_flag}\t#{alternate_on}\t\
         #{pane_in_mode}\t#{session_name}",
    );
    let mut script = format!("list-clients -F {}\n", quote(CLIENTS));
    for pane in panes {
        let target = pane.id.to_string();
        let show = format!("display-message -p -t {target} {header} ; capture-pane -p -e -t {target}");
        script.push_str(&when(Some(&target), &is_pane(*pane), &show, "display-message -p GONE"));
    }
    let said = client.expect_quickly("capture-pane", &script)?;
    parse(&said, panes.len()).ok_or_else(|| {
        let start = said.chars().take(80).collect();
        TmuxError::Unexpected { doing: "capture-pane", text: start }
    })
}

/// The number of rows is in the header, so nothing a program shows can be taken for one.
fn parse(said: &str, count: usize) -> Option<Vec<Option<Screen>>> {
    let mut rows = said.strip_suffix('\n')?.split('\n').peekable();
    let mut watched: HashMap<&str, u16> = HashMap::new();
    while let Some((session, viewer)) = rows.peek().and_then(|it| parse_client(it)) {
        *watched.entry(session).or_default() += clamp(viewer.attached as usize);
        rows.next();
    }
    let mut screens = Vec::with_capacity(count);
    for _ in 0..count {
        let header = rows.next()?;
        if header == "GONE" {
            screens.push(None);
            continue;
        }
        let (numbers, session) = header.strip_prefix("SCREEN\t")?.rsplit_once('\t')?;
        let fields: Vec<u16> = numbers.split('\t').map(|field| field.parse().unwrap_or(0)).collect();
        let [width, height, column, row, cursor_flag, alternate, in_mode] = fields[..] else {
            return None;
        };
        let mut reader = Reader::default();
        let lines: Vec<_> = rows.by_ref().take(usize::from(height)).map(|raw| reader.line(raw)).collect();
        if lines.len() != usize::from(height) {
            return None;
        }
        screens.push(Some(Screen {
            width,
            height,
            cursor: (column, row),
            cursor_shown: cursor_flag != 0,
            alternate: alternate != 0,
            in_mode: in_mode != 0,
            attached: watched.get(session).copied().unwrap_or(0),
            lines,
        }));
    }
    rows.next().is_none().then_some(screens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_that_shows_a_header_is_not_taken_apart() {
        let said = "C\t0\t0\tb\nC\t1\t1\tb\nC\t0\t0\ta\nC\t1\t0\ta\n\
                    SCREEN\t20\t2\t1\t0\t1\t0\t0\tb\nGONE\nSCREEN\t1\t1\t0\t0\t0\t0\tb\nGONE\n\
                    SCREEN\t20\t1\t0\t0\t0\t1\t1\ta\n\n";
        let screens = parse(said, 3).unwrap();
        let first = screens[0].as_ref().unwrap();
        assert_eq!(first.text(), "GONE\nSCREEN\t1\t1\t0\t0\t0\t0\tb");
        assert_eq!(screens[1], None);
        let third = screens[2].as_ref().unwrap();
        assert!(third.alternate);
        assert_eq!((first.attached, third.attached), (1, 2));
        assert_eq!(parse("SCREEN\t20\t2\t1\t0\t1\t0\t0\ta\nonly one\n", 1), None);
        assert_eq!(parse("", 1), None);
    }
}
