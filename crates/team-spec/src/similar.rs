//! The nearest known word to one that is not known.

/// Returns "did you mean" for a word, if a known one is near enough.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|it| format!("did you mean `{it}`?"))
}

/// Returns the known word nearest to `word`, if it is near enough.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    let plain = |it: &str| it.to_lowercase().replace(['-', ' ', '.'], "_");
    let asked = plain(word);
    let score = |it: &str| {
        let known = plain(it);
        let edits = strsim::damerau_levenshtein(&asked, &known);
        let allowed = (known.chars().count().max(asked.chars().count())).div_ceil(3).min(3);
        (edits <= allowed).then_some(edits)
    };
    known.into_iter().filter_map(|it| score(it).map(|edits| (edits, it))).min().map(|(_, it)| it)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_find_their_word() {
        let known = ["provider", "profile", "role", "tools", "working_directory"];
        for (word, meant) in [
            ("provder", Some("provider")),
            ("Provider", Some("provider")),
            ("profil", Some("profile")),
            ("rloe", Some("role")),
            ("working-directory", Some("working_directory")),
            ("description", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
    }
}
