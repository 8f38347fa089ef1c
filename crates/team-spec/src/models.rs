//! Whether a model is one that the provider's program knows, and what it is called.
//!
//! Knows names. Must not know how a program is asked for them.

use crate::error::quoted;

/// The models that a provider's program knows by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Models {
    /// What shows them to a person.
    pub command: String,
    /// A word that people put beside a model's name.
    pub beside: String,
    /// Their names, the best first.
    pub names: Vec<ModelName>,
}

/// A model's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelName {
    /// The one that the program takes.
    pub slug: String,
    /// The one that the program shows.
    pub display: String,
}

/// How many similar names are worth showing.
const MOST_SIMILAR: usize = 3;

/// What a word for a model turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict<'a> {
    /// A model's own name.
    Known,
    /// Another way to write the model with this name.
    Shown(&'a str),
    /// No model in the list, but similar to these.
    Unknown(Vec<&'a str>),
}

impl Models {
    /// Says what a word for a model is.
    pub(crate) fn judge(&self, word: &str) -> Verdict<'_> {
        if self.names.iter().any(|it| it.slug == word) {
            return Verdict::Known;
        }
        let asked = plain(word);
        let is = |asked: &str| {
            self.names.iter().find(|it| plain(&it.slug) == asked || plain(&it.display) == asked)
        };
        // The program's name beside that of the model is for people; in a name of small letters without blanks it
        // may be a part of it.
        let shortened = || (asked != word).then(|| self.without(&asked)).and_then(|it| is(&it));
        match is(&asked).or_else(shortened) {
            Some(model) => Verdict::Shown(&model.slug),
            None => Verdict::Unknown(self.similar(&asked)),
        }
    }

    /// Returns a name without what people add to it.
    fn without(&self, plain: &str) -> String {
        plain.split('-').filter(|it| *it != self.beside).collect::<Vec<_>>().join("-")
    }

    fn similar(&self, asked: &str) -> Vec<&str> {
        let near = |slug: &str| {
            let (one, other) = (slug.to_lowercase(), asked.to_lowercase());
            if one.starts_with(&other) || other.starts_with(&one) {
                return Some(0);
            }
            let edits = strsim::damerau_levenshtein(&one, &other);
            (edits <= one.len().max(other.len()).div_ceil(4)).then_some(edits)
        };
        let mut found: Vec<(usize, usize, &str)> = self
            .names
            .iter()
            .enumerate()
            .filter_map(|(place, it)| Some((near(&it.slug)?, place, it.slug.as_str())))
            .collect();
        found.sort_unstable();
        found.into_iter().take(MOST_SIMILAR).map(|it| it.2).collect()
    }
}

/// Joins names for "did you mean".
pub(crate) fn any_of(names: &[&str]) -> String {
    names.iter().map(|it| quoted(it)).collect::<Vec<_>>().join(" or ")
}

/// Returns a name as names of models are mostly written.
fn plain(word: &str) -> String {
    let parts = word.to_lowercase();
    let parts = parts.split(|it: char| it.is_whitespace() || matches!(it, '-' | '_'));
    parts.filter(|it| !it.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models() -> Models {
        let names = [
            ("gpt-6.1-terra", "GPT-6.1 Terra"),
            ("gpt-6-sol", "GPT-6-Sol"),
            ("gpt-5.5", "GPT-5.5"),
            ("gpt-daybreak-latest", "Daybreak Blue"),
        ];
        let names = names.map(|(slug, display)| ModelName { slug: slug.into(), display: display.into() });
        Models { command: "list models".into(), beside: "prog".into(), names: names.into() }
    }

    #[test]
    fn a_name_for_people_leads_to_the_model_s_own() {
        for (word, slug) in [
            ("GPT-5.5", "gpt-5.5"),
            ("gpt 5.5", "gpt-5.5"),
            ("GPT 5.5 Prog", "gpt-5.5"),
            ("GPT_6.1_Terra", "gpt-6.1-terra"),
            ("Daybreak Blue", "gpt-daybreak-latest"),
            ("daybreak-blue", "gpt-daybreak-latest"),
        ] {
            assert_eq!(models().judge(word), Verdict::Shown(slug), "{word}");
        }
        assert_eq!(models().judge("gpt-5.5"), Verdict::Known);
    }

    #[test]
    fn a_name_that_is_not_listed_has_its_neighbours() {
        for (word, near) in [
            ("gpt-5.5-prog", vec!["gpt-5.5"]),
            ("gpt-6", vec!["gpt-6.1-terra", "gpt-6-sol"]),
            ("gpt-5.7", vec!["gpt-5.5"]),
            ("gtp-6-sol", vec!["gpt-6-sol"]),
            ("something-else", vec![]),
        ] {
            assert_eq!(models().judge(word), Verdict::Unknown(near), "{word}");
        }
    }
}
