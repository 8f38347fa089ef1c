//! The program's questions, in its words and its look.

use crate::dialog::{Dialog, Kind, Style};

const HINT: &str = "↑/↓ to navigate · enter to select · esc to cancel";

/// Builds a dialog.
pub(super) fn dialog(kind: Kind, detail: &str) -> Dialog {
    let style = Style { mark: '❯', framed: true };
    let dialog = |heading: &str, boxed: &str, body: &[&str], choices: &[&str]| {
        let body = body.iter().map(|it| (*it).to_owned()).collect();
        let choices = choices.iter().map(|it| (*it).to_owned()).collect();
        Dialog::styled(kind, heading, body, choices, Some(3), style).boxing(boxed, HINT)
    };
    match kind {
        Kind::Trust => dialog(
            "Confirm folder trust",
            detail,
            &[
                "Copilot can read files in this folder and, with your permission, edit them or run code and shell \
                 commands. It will remember your permissions for the rest of this session.",
                "",
                "Do you trust the files in this folder?",
            ],
            &["Yes", "Yes, and remember this folder for future sessions", "No (Esc)"],
        ),
        Kind::Permission => {
            let (tool, about) = detail.split_once('(').unwrap_or((detail, ""));
            let about = about.strip_suffix(')').unwrap_or(about);
            let no = "No, and tell Copilot what to do differently (Esc to stop)";
            if tool == "Bash" {
                let word = about.split_whitespace().next().unwrap_or_default();
                let always = format!("Yes, and don't ask again for `{word}` in this directory");
                dialog(super::INTENTION, about, &["Do you want to run this command?"], &["Yes", &always, no])
                    .moving(3)
            } else {
                let always = format!("Yes, and don't ask again for `{tool}`");
                dialog(tool, about, &["Do you want to use this tool?"], &["Yes", &always, no]).moving(3)
            }
        }
        _ => Dialog::new(kind, detail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Event;
    use crate::screen::text_width;

    #[test]
    fn a_question_shows_its_command_in_a_box_and_enter_says_yes() {
        let mut question = dialog(Kind::Permission, "Bash(touch (x))");
        let shown: Vec<String> = question.lines(80).into_iter().map(|it| it.text).collect();
        assert!(shown[4].starts_with("│ │ touch (x) ") && shown[4].ends_with(" │ │"), "{shown:#?}");
        assert!(shown.iter().any(|it| it.starts_with("│ ❯ 1. Yes ")), "{shown:#?}");
        assert!(shown.iter().all(|it| text_width(it) == 80), "{shown:#?}");
        assert!(question.key(&Event::Enter).is_some_and(|it| it.is(1)));
        assert!(question.key(&Event::Char('2')).is_some_and(|it| it.is(2)));
        // Words can be typed there first.
        assert_eq!(question.key(&Event::Char('3')), None);
        assert!(question.key(&Event::Enter).is_some_and(|it| it.is(3)));
        assert!(question.refuses(3) && !question.refuses(2));
    }
}
