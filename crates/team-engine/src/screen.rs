//! From the terminal's screens to the providers': the two crates do not know each other.

use team_provider::Screen;

/// Turns a captured screen into what a provider reads.
pub(crate) fn read(shown: &team_tmux::Screen) -> Screen {
    let mut lines = Vec::with_capacity(shown.lines.len());
    let mut marks = Vec::with_capacity(shown.lines.len());
    for line in &shown.lines {
        let mut text = String::new();
        let mut row = Vec::new();
        for span in &line.spans {
            text.push_str(&span.text);
            let mark = team_provider::Mark { dim: span.style.is_faint(), reverse: span.style.reverse };
            row.extend(span.text.chars().map(|_| mark));
        }
        lines.push(text.trim_end().to_owned());
        marks.push(row);
    }
    let cursor = Some((usize::from(shown.cursor.0), usize::from(shown.cursor.1)));
    Screen { lines, marks: Some(marks), cursor }
}
