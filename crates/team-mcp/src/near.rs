//! Names that look like a given one.

/// Returns the known name that was most likely meant.
pub(crate) fn one<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    some(name, known).into_iter().next()
}

/// Returns up to three known names that may have been meant, best first.
pub(crate) fn some<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    const LONGEST: usize = 80;
    if name.len() > LONGEST {
        return Vec::new();
    }
    let name = flat(name);
    let mut found: Vec<_> = known
        .map(|it| {
            let known = flat(it);
            let inside =
                name.len() > 3 && known.len() > 3 && (known.contains(&name) || name.contains(&known));
            (if inside { 0.9 } else { strsim::jaro_winkler(&name, &known) }, it)
        })
        .filter(|(likeness, _)| *likeness >= 0.85)
        .collect();
    found.sort_by(|left, right| right.0.total_cmp(&left.0));
    found.into_iter().map(|(_, it)| it).take(3).collect()
}

/// Returns the names in backticks, with commas.
pub(crate) fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ")
}

fn flat(name: &str) -> String {
    name.chars().filter(|it| it.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}
