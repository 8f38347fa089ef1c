//! Texts made the same from run to run, for snapshots.
//!
//! Knows times, random identifiers and the strings a caller names. Must not know what they stand for.

/// What to replace.
#[derive(Debug, Clone, Default)]
pub struct Normal {
    fixed: Vec<(String, String)>,
}

impl Normal {
    /// Makes one that replaces times and random identifiers only.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces a string as well; one named earlier is looked for earlier.
    pub fn replace(&mut self, what: &str, with: &str) -> &mut Self {
        if !what.is_empty() {
            self.fixed.push((what.to_owned(), with.to_owned()));
        }
        self
    }

    /// Returns the text with everything replaced.
    ///
    /// Random identifiers are numbered in the order they appear, so that it shows which are the same.
    pub fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (what, with) in &self.fixed {
            text = text.replace(what, with);
        }
        let mut seen: Vec<&str> = Vec::new();
        let mut normal = String::new();
        for word in words(&text) {
            if is_time(word) {
                normal += "$TIME";
            } else if is_uuid(word) {
                let index = seen.iter().position(|it| *it == word).unwrap_or_else(|| {
                    seen.push(word);
                    seen.len() - 1
                });
                normal += "$UUID";
                normal += &(index + 1).to_string();
            } else {
                normal += word;
            }
        }
        normal
    }
}

/// Numbers ids such as `m-17` in the order they appear, each letter for itself: `m-1`, `m-2`, ...
pub fn renumber(text: &str) -> String {
    let mut seen: Vec<(String, String)> = Vec::new();
    words(text)
        .into_iter()
        .map(|word| {
            let Some((letters, number)) = word.split_once('-') else { return word.to_owned() };
            let is_id = matches!(letters, "m" | "q" | "r" | "s" | "x" | "run")
                && !number.is_empty()
                && number.bytes().all(|byte| byte.is_ascii_digit());
            if !is_id {
                return word.to_owned();
            }
            let same = |(old, _): &&(String, String)| old == word;
            if let Some((_, new)) = seen.iter().find(same) {
                return new.clone();
            }
            let count = seen.iter().filter(|(old, _)| old.split('-').next() == Some(letters)).count();
            let new = format!("{letters}-{}", count + 1);
            seen.push((word.to_owned(), new.clone()));
            new
        })
        .collect()
}

/// Splits a text into words and what stands between them.
fn words(text: &str) -> Vec<&str> {
    let is_word = |character: char| character.is_ascii_alphanumeric() || "-:.+_".contains(character);
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut inside = None;
    for (at, character) in text.char_indices() {
        let now = is_word(character);
        if inside.is_some_and(|before| before != now) {
            pieces.push(&text[start..at]);
            start = at;
        }
        inside = Some(now);
    }
    pieces.push(&text[start..]);
    // A sentence's full stop is no part of its last word.
    pieces
        .into_iter()
        .flat_map(|piece| {
            let bare = piece.trim_end_matches(['.', ':']);
            [bare, &piece[bare.len()..]]
        })
        .collect()
}

/// Tells whether a word is a time such as `2026-01-01T00:00:00.000Z`.
fn is_time(word: &str) -> bool {
    let shape = "dddd-dd-ddTdd:dd:dd";
    let fits = |(byte, wanted): (u8, u8)| if wanted == b'd' { byte.is_ascii_digit() } else { byte == wanted };
    let Some((head, tail)) = word.split_at_checked(shape.len()) else { return false };
    head.bytes().zip(shape.bytes()).all(fits)
        && tail.bytes().all(|byte| byte.is_ascii_digit() || b".Z+-:".contains(&byte))
}

fn is_uuid(word: &str) -> bool {
    let lengths = [8, 4, 4, 4, 12];
    let groups: Vec<&str> = word.split('-').collect();
    groups.len() == lengths.len()
        && groups.iter().zip(lengths).all(|(group, length)| {
            group.len() == length && group.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_times_and_identifiers_are_replaced() {
        let mut normal = Normal::new();
        normal.replace("/tmp/x/ws", "$WS").replace("/tmp/x", "$ROOT");
        let text = "at 2026-01-01T00:00:00.123Z in `/tmp/x/ws/a` and /tmp/x: \
                    0b6ee25a-33ba-4f02-9925-dfbbe144b0f9, 1b6ee25a-33ba-4f02-9925-dfbbe144b0f9, \
                    0b6ee25a-33ba-4f02-9925-dfbbe144b0f9.";
        let expected = "at $TIME in `$WS/a` and $ROOT: $UUID1, $UUID2, $UUID1.";
        assert_eq!(normal.apply(text), expected);
    }

    #[test]
    fn what_only_looks_similar_is_left_alone() {
        let text = "2026-01-01, 12:30, abc-def, v1.2.3 über 'm-1'";
        assert_eq!(Normal::new().apply(text), text);
    }

    #[test]
    fn ids_are_numbered_in_the_order_they_appear() {
        assert_eq!(renumber("m-17, m-20 and s-18 for m-17; task-3"), "m-1, m-2 and s-1 for m-1; task-3");
    }
}
