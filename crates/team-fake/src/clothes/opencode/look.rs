//! What the program draws: the input box, its foot, a question for permission. Knows no key and no turn.

use crate::screen::{Line, text_width, wrap};

/// The bar at the left of everything that is boxed.
const BAR: &str = "  ┃";
/// The answers to a question for permission.
const ANSWERS: [&str; 3] = ["Allow once", "Allow always", "Reject"];
/// Lines of a draft or question that are drawn at most.
const MOST: usize = 20;

/// The input box with its draft, and where the cursor stands: line and column.
pub(crate) fn composer(columns: usize, draft: &str, model: &str) -> (Vec<Line>, (usize, usize)) {
    let indent = text_width(BAR) + 2;
    let mut shown = wrap(draft, columns.saturating_sub(indent + 3));
    shown.drain(..shown.len().saturating_sub(MOST));
    let column = (indent + shown.last().map_or(0, |it| text_width(it))).min(columns.saturating_sub(1));
    let cursor = (shown.len(), column);
    let (service, model) = model.split_once('/').unwrap_or(("Fake", model));
    let mut lines = vec![boxed("")];
    lines.extend(shown.iter().map(|it| boxed(it)));
    lines.extend([boxed(""), boxed(&format!("Build · {model} {service}"))]);
    lines.push(Line::plain(format!("  ╹{}", "▀".repeat(columns.saturating_sub(5)))));
    (lines, cursor)
}

/// The line below the input box.
pub(crate) fn foot(columns: usize, text: &str) -> Line {
    let gap = columns.saturating_sub(text_width(text) + 2);
    Line::plain(format!("{}{text}", " ".repeat(gap)))
}

/// Any other question.
pub(crate) fn question(heading: &str, choices: &[String], highlighted: usize) -> Vec<Line> {
    let mut lines = vec![boxed(""), boxed(heading), boxed("")];
    lines.extend(choices.iter().enumerate().map(|(index, it)| {
        let mark = if index == highlighted { "\x1b[7m" } else { "" };
        boxed(&format!("{mark}{}. {it}\x1b[0m", index + 1))
    }));
    lines.extend([boxed(""), boxed("↑↓ select  enter submit  esc dismiss"), boxed("")]);
    lines
}

/// A question for permission, in place of the input box.
pub(crate) fn permission(columns: usize, permission: &str, what: &str, highlighted: usize) -> Vec<Line> {
    let mut lines = vec![boxed(""), boxed("△ Permission required")];
    lines.push(boxed(&if permission == "bash" {
        "  # Shell command".to_owned()
    } else {
        format!("  {permission}")
    }));
    lines.push(boxed(""));
    let what = if permission == "bash" { format!("$ {what}") } else { what.to_owned() };
    lines.extend(wrap(&what, columns.saturating_sub(8)).iter().take(MOST).map(|it| boxed(it)));
    lines.extend([boxed(""), boxed("")]);
    let answers: Vec<String> = ANSWERS
        .iter()
        .enumerate()
        .map(
            |(index, it)| {
                if index == highlighted { format!("\x1b[7m {it} \x1b[0m") } else { format!(" {it} ") }
            },
        )
        .collect();
    lines.push(boxed(&format!("{}           ⇆ select  enter confirm", answers.join(" "))));
    lines.push(boxed(""));
    lines
}

fn boxed(text: &str) -> Line {
    Line::plain(format!("{BAR}  {text}"))
}
