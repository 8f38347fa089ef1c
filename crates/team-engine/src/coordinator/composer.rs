//! Whether an input box shows a text that was pasted into it. Knows texts; reads no screen.

/// Says whether a box's contents are this text and nothing more: wrapped, or as the label that stands for a long paste.
///
/// Terminals draw blanks, joiners and wide characters in ways of their own, so only what every terminal keeps is
/// compared. An empty text is shown by nothing.
pub(super) fn shows(composer: &str, typed: &str) -> bool {
    let (shown, wanted) = (kept(composer), kept(typed));
    if wanted.is_empty() {
        return false;
    }
    shown == wanted || is_label(&shown, typed) || is_shortened(&shown, &wanted)
}

fn kept(text: &str) -> String {
    text.chars().filter(char::is_ascii_graphic).collect()
}

/// A label alone, of a paste with as many lines as the text where it says how many.
fn is_label(shown: &str, typed: &str) -> bool {
    let Some(inner) = shown.strip_prefix('[').and_then(|it| it.strip_suffix(']')) else { return false };
    if !inner.starts_with("Past") || inner.contains(['[', ']']) {
        return false;
    }
    let Some((_, lines)) = inner.split_once('+') else { return true };
    let said = lines.strip_suffix("lines").and_then(|it| it.parse::<usize>().ok());
    said.is_none_or(|it| it == typed.trim_end().matches('\n').count())
}

/// A long text with a label in place of its middle.
fn is_shortened(shown: &str, wanted: &str) -> bool {
    let Some((head, rest)) = shown.split_once("[...") else { return false };
    let Some((label, tail)) = rest.split_once("...]") else { return false };
    let whole = !head.is_empty() && !tail.is_empty() && head.len() + tail.len() < wanted.len();
    whole && label.starts_with("Truncated") && wanted.starts_with(head) && wanted.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::shows;

    #[test]
    fn a_box_shows_a_text_wrapped_or_as_a_label_with_its_lines() {
        let text = "one two three\nfour";
        assert!(shows("one two\nthree\nfour ", text));
        assert!(shows("[Pasted text #3 +1 lines]", text));
        assert!(shows("[Pasted text #3]", text));
        assert!(shows("[Pasted text #3 +1 lines]\n\n", text));
        assert!(!shows("[Pasted text #3 +2 lines]", text));
        assert!(!shows("[Pasted text #3 +1 lines] and more", text));
        assert!(!shows("[Pasted text #3 +1 lines][Pasted text #4 +1 lines]", text));
        assert!(!shows("my draft one two three\nfour", text));
        assert!(!shows("one two three\nfour five", text) && !shows("", text) && !shows("", ""));
    }

    #[test]
    fn a_long_text_may_be_shown_by_its_ends() {
        let text = format!("begin {} end", "x".repeat(100));
        assert!(shows("begin xx[...Truncated text #1 +2 lines...]x end", &text));
        assert!(!shows("mine begin xx[...Truncated text #1 +2 lines...]x end", &text));
        assert!(!shows("begin xx[...Truncated text #1 +2 lines...]x end more", &text));
    }

    #[test]
    fn what_a_terminal_draws_otherwise_is_not_compared() {
        assert!(shows("a b c", "a\u{200b}\tb e\u{301}c".replace('e', "").as_str()));
        assert!(shows("请 x", "请检 x") && !shows("请检", "请检"));
    }
}
