//! Removes secrets from what is about to be stored. Knows JSON strings; knows no event.

use std::borrow::Cow;

/// What stands where a secret was.
pub const REDACTED: &str = "[redacted]";

/// Shorter literals are left alone: they would tear ordinary words apart.
const SHORTEST: usize = 6;

/// Knows the secrets of this process: exact values, and the shapes of well-known tokens.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Sorted by length, longest first, so that the longest match wins.
    needles: Vec<Needle>,
    /// Which bytes begin a needle.
    first: FirstBytes,
}

#[derive(Clone, PartialEq, Eq)]
enum Needle {
    /// A value in one of its written forms; `depth` counts how often it is escaped.
    Literal { form: Vec<u8>, depth: u8 },
    /// A token with a known beginning.
    Token { prefix: &'static [u8], min: usize },
}

#[derive(Clone)]
struct FirstBytes([bool; 256]);

impl Default for FirstBytes {
    fn default() -> Self {
        Self([false; 256])
    }
}

/// Beginnings of tokens, and how many characters must follow.
const TOKENS: [(&[u8], usize); 16] = [
    (b"sk-", 16),
    (b"ghp_", 20),
    (b"gho_", 20),
    (b"ghs_", 20),
    (b"ghu_", 20),
    (b"ghr_", 20),
    (b"github_pat_", 20),
    (b"glpat-", 16),
    (b"xoxb-", 16),
    (b"xoxp-", 16),
    (b"AIza", 30),
    (b"AKIA", 16),
    (b"ya29.", 20),
    (b"eyJ", 40),
    (b"Bearer ", 20),
    (b"npm_", 30),
];

impl Redactor {
    /// Makes a redactor that knows the shapes of well-known tokens.
    pub fn standard() -> Self {
        let mut redactor = Self::default();
        for (prefix, min) in TOKENS {
            redactor.add(Needle::Token { prefix, min });
        }
        redactor.settle();
        redactor
    }

    /// Adds secret values. Values below 6 bytes are ignored.
    #[must_use]
    pub fn with_literals<'a>(mut self, values: impl IntoIterator<Item = &'a str>) -> Self {
        for value in values.into_iter().filter(|value| value.len() >= SHORTEST) {
            let mut form = value.to_owned();
            for depth in 0..3 {
                self.add(Needle::Literal { form: form.clone().into_bytes(), depth });
                form = escaped(&form);
            }
        }
        self.settle();
        self
    }

    /// Returns the text without secrets.
    pub fn redact_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut out = None;
        self.replace(text.as_bytes(), false, &mut out);
        match out {
            None => Cow::Borrowed(text),
            Some(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// Removes secrets from the JSON at the end of `buffer`; returns whether there were any.
    pub(crate) fn redact_json(&self, buffer: &mut Vec<u8>, from: usize) -> bool {
        if self.needles.is_empty() {
            return false;
        }
        let mut out = None;
        self.replace(&buffer[from..], true, &mut out);
        let Some(bytes) = out else { return false };
        buffer.truncate(from);
        buffer.extend_from_slice(&bytes);
        true
    }

    /// Copies `text` without secrets into `out`, which stays `None` as long as nothing was found.
    /// In JSON only the inside of strings is looked at, and never half an escape.
    fn replace(&self, text: &[u8], json: bool, out: &mut Option<Vec<u8>>) {
        let mut at = 0;
        let mut copied = 0;
        let mut inside = !json;
        while at < text.len() {
            let byte = text[at];
            if inside
                && self.first.0[usize::from(byte)]
                && let Some(len) = self.matching(text, at, json)
            {
                let out = out.get_or_insert_with(|| Vec::with_capacity(text.len()));
                out.extend_from_slice(&text[copied..at]);
                out.extend_from_slice(REDACTED.as_bytes());
                at += len;
                copied = at;
                continue;
            }
            if json && byte == b'"' {
                inside = !inside;
            }
            at += if json && byte == b'\\' { 2 } else { 1 };
        }
        if let Some(out) = out {
            out.extend_from_slice(&text[copied.min(text.len())..]);
        }
    }

    /// Returns the length of the longest secret that starts at `at`.
    fn matching(&self, text: &[u8], at: usize, json: bool) -> Option<usize> {
        self.needles.iter().find_map(|needle| match needle {
            // In a JSON string the bare form is no possible spelling (where escaping changes nothing,
            // the escaped form is the same).
            Needle::Literal { depth: 0, .. } if json => None,
            Needle::Literal { form, .. } => text[at..].starts_with(form).then_some(form.len()),
            Needle::Token { prefix, min } => {
                let begins = at == 0 || !text[at - 1].is_ascii_alphanumeric();
                if !begins || !text[at..].starts_with(prefix) {
                    return None;
                }
                let tail = &text[at + prefix.len()..];
                let len = tail.iter().take_while(|byte| is_token(**byte)).count();
                (len >= *min && tail[..len].iter().any(u8::is_ascii_digit)).then_some(prefix.len() + len)
            }
        })
    }

    fn add(&mut self, needle: Needle) {
        if !self.needles.contains(&needle) {
            self.needles.push(needle);
        }
    }

    fn settle(&mut self) {
        self.needles.sort_by_key(|needle| std::cmp::Reverse(needle.start().len()));
        self.first = FirstBytes::default();
        for needle in &self.needles {
            if let Some(byte) = needle.start().first() {
                self.first.0[usize::from(*byte)] = true;
            }
        }
    }
}

impl Needle {
    fn start(&self) -> &[u8] {
        match self {
            Self::Literal { form, .. } => form,
            Self::Token { prefix, .. } => prefix,
        }
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} forms)", self.needles.len())
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'=' | b'+' | b'/')
}

/// The text as it stands between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(redactor: &Redactor, value: &serde_json::Value) -> String {
        let mut buffer = value.to_string().into_bytes();
        redactor.redact_json(&mut buffer, 0);
        let text = String::from_utf8(buffer).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
        text
    }

    #[test]
    fn a_secret_goes_in_each_of_its_spellings() {
        let secret = "p\"w\\d\n-long";
        let redactor = Redactor::default().with_literals([secret, "short"]);
        let inner = serde_json::json!({ "env": secret }).to_string();
        let value = serde_json::json!({"plain": secret, "nested": inner, "kept": "short", "n": 17});
        let text = json(&redactor, &value);
        assert_eq!(
            text,
            r#"{"kept":"short","n":17,"nested":"{\"env\":\"[redacted]\"}","plain":"[redacted]"}"#
        );
        assert_eq!(redactor.redact_text(&format!("x={secret};")), "x=[redacted];");
    }

    #[test]
    fn well_known_tokens_go_and_ordinary_words_stay() {
        let redactor = Redactor::standard();
        let text =
            redactor.redact_text("key sk-test-1234567890abcdef, task-list-with-a-long-name-0123456789");
        assert_eq!(text, "key [redacted], task-list-with-a-long-name-0123456789");
        assert_eq!(redactor.redact_text("sk-short"), "sk-short");
    }

    #[test]
    fn an_escape_is_never_cut_in_half() {
        let redactor = Redactor::default().with_literals(["nested-secret"]);
        let text = json(&redactor, &serde_json::json!("line\nnested-secret\nested-secret"));
        assert_eq!(text, r#""line\n[redacted]\nested-secret""#);
    }

    proptest! {
        #[test]
        fn no_secret_survives_and_the_json_stays_whole(
            secret in "[a-c\"\\\\\n\u{e9}]{6,12}",
            before in "[a-c\"\\\\\nu0]{0,12}",
            after in "[a-c\"\\\\\nu0]{0,12}",
        ) {
            let redactor = Redactor::default().with_literals([secret.as_str()]);
            let value = serde_json::json!({ "text": format!("{before}{secret}{after}") });
            let read: serde_json::Value = serde_json::from_str(&json(&redactor, &value)).unwrap();
            prop_assert!(!read["text"].as_str().unwrap().contains(&secret));
        }
    }
}
