//! Removes secrets from what is about to be stored. Knows JSON strings; knows no event.

use std::borrow::Cow;

/// What stands where a secret was.
pub const REDACTED: &str = "[redacted]";

/// Shorter literals are left alone: they would tear ordinary words apart.
const SHORTEST: usize = 6;

/// Which fields of a line hold what people and programs wrote. Everything else is read back by machines: a name or an
/// id that happens to be somebody's secret has to stay what it is.
#[derive(Debug, Clone, Copy)]
pub struct FreeFields {
    /// Names of fields with free text; all that is inside them is free, too.
    pub names: &'static [&'static str],
    /// Fields of that name that hold no text in events of this type.
    pub except: &'static [(&'static str, &'static str)],
}

/// Knows the secrets of this process: exact values, and the shapes of well-known tokens.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Sorted by length, longest first, so that the longest match wins.
    needles: Vec<Needle>,
    /// Which bytes begin a needle.
    first: FirstBytes,
    /// Where secrets are looked for in JSON; everywhere if nothing is said.
    fields: Option<FreeFields>,
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

    /// Looks into these fields of JSON only.
    #[must_use]
    pub fn in_fields(mut self, fields: FreeFields) -> Self {
        self.fields = Some(fields);
        self
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
        let mut copy = Copy::of(text.as_bytes());
        self.replace(&mut copy, 0, text.len(), false);
        match copy.finish() {
            None => Cow::Borrowed(text),
            Some(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    /// Removes secrets from the JSON at the end of `buffer`; returns whether there were any.
    pub(crate) fn redact_json(&self, buffer: &mut Vec<u8>, from: usize) -> bool {
        if self.needles.is_empty() {
            return false;
        }
        let mut copy = Copy::of(&buffer[from..]);
        self.replace_in_strings(&mut copy);
        let Some(bytes) = copy.finish() else { return false };
        buffer.truncate(from);
        buffer.extend_from_slice(&bytes);
        true
    }

    /// Goes through the strings of compact JSON and replaces secrets in those that are free text.
    fn replace_in_strings(&self, copy: &mut Copy<'_>) {
        let text = copy.text;
        // Whether all in the objects around is free, and whether the member at hand is.
        let mut around: Vec<bool> = Vec::new();
        let mut member = self.fields.is_none();
        let mut kind: &[u8] = b"";
        let mut names_kind = false;
        let mut at = 0;
        while at < text.len() {
            let inherited = around.last().copied().unwrap_or(self.fields.is_none());
            match text[at] {
                b'{' => around.push(inherited || member),
                b'}' => {
                    around.pop();
                }
                b'"' => {
                    let (start, end) = (at + 1, end_of_string(text, at + 1));
                    at = end;
                    let content = &text[start..end];
                    let is_key = text.get(end + 1) == Some(&b':');
                    if inherited || (member && !is_key) {
                        self.replace(copy, start, end, true);
                    }
                    if is_key {
                        names_kind = content == b"type";
                        member = self.is_free(content, kind);
                    } else if names_kind {
                        (kind, names_kind) = (content, false);
                    }
                }
                _ => {}
            }
            at += 1;
        }
    }

    fn is_free(&self, field: &[u8], kind: &[u8]) -> bool {
        self.fields.is_none_or(|it| {
            let excepted = |(of, name): &(&str, &str)| of.as_bytes() == kind && name.as_bytes() == field;
            it.names.iter().any(|name| name.as_bytes() == field) && !it.except.iter().any(excepted)
        })
    }

    /// Replaces secrets in a part of the text; in JSON never half an escape.
    fn replace(&self, copy: &mut Copy<'_>, start: usize, end: usize, json: bool) {
        let text = &copy.text[..end];
        let mut at = start;
        while at < end {
            let byte = text[at];
            if self.first.0[usize::from(byte)]
                && let Some(len) = self.matching(text, at, json)
            {
                copy.put_redacted(at, len);
                at += len;
            } else {
                at += if json && byte == b'\\' { 2 } else { 1 };
            }
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

/// A text that is copied only once something in it changes.
struct Copy<'a> {
    text: &'a [u8],
    out: Option<Vec<u8>>,
    copied: usize,
}

impl<'a> Copy<'a> {
    fn of(text: &'a [u8]) -> Self {
        Self { text, out: None, copied: 0 }
    }

    fn put_redacted(&mut self, at: usize, len: usize) {
        let out = self.out.get_or_insert_with(|| Vec::with_capacity(self.text.len()));
        out.extend_from_slice(&self.text[self.copied..at]);
        out.extend_from_slice(REDACTED.as_bytes());
        self.copied = at + len;
    }

    fn finish(self) -> Option<Vec<u8>> {
        let mut out = self.out?;
        out.extend_from_slice(&self.text[self.copied..]);
        Some(out)
    }
}

/// Where the string ends whose inside begins at `at`.
fn end_of_string(text: &[u8], mut at: usize) -> usize {
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    at.min(text.len())
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
        let redactor = Redactor::default().with_literals([secret, "abc"]);
        let inner = serde_json::json!({ "env": secret }).to_string();
        let value = serde_json::json!({"plain": secret, "nested": inner, "kept": "abc", "n": 17});
        let text = json(&redactor, &value);
        assert_eq!(text, r#"{"kept":"abc","n":17,"nested":"{\"env\":\"[redacted]\"}","plain":"[redacted]"}"#);
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
    fn what_machines_read_back_stays_what_it_is() {
        let fields = FreeFields { names: &["text", "why", "notes"], except: &[("message.held", "why")] };
        let redactor = Redactor::default().with_literals(["reviewer", "dialog", "a-tool"]).in_fields(fields);
        let value = serde_json::json!({
            "event": {"type": "message.held", "agent": "reviewer", "why": "dialog", "body": {"text": "a reviewer"},
                "needs": ["a-tool"], "notes": {"reviewer": ["a-tool", {"x": "dialog"}]}, "dir": "/w/reviewer"},
        });
        assert_eq!(
            json(&redactor, &value),
            r#"{"event":{"agent":"reviewer","body":{"text":"a [redacted]"},"dir":"/w/reviewer","needs":["a-tool"],"notes":{"[redacted]":["[redacted]",{"x":"[redacted]"}]},"type":"message.held","why":"dialog"}}"#,
        );
        let line = br#","event":{"type":"message.held","why":"dialog","id":"a-tool"}"#;
        let mut bytes = line.to_vec();
        assert!(!redactor.redact_json(&mut bytes, 0));
        assert_eq!(bytes, line);
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
