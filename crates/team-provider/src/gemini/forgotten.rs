//! What a conversation that goes on has forgotten.
//!
//! The program keeps what it says to the model by itself as entries of their own, which it leaves out when it goes on.
//! When it writes its history anew, as after a tool that somebody has cancelled, it joins such an entry with the message
//! behind it, and leaves both out. Knows whole transcripts. Must not know whether anything goes on.

use serde_json::Value;

use crate::lines;

/// How texts begin that the program says by itself.
const OWN: [&str; 2] = ["<session_context>", "<hook_context>"];

/// An entry of the user's side.
struct Entry {
    id: String,
    texts: Vec<String>,
}

impl Entry {
    fn read(record: &Value) -> Option<Self> {
        let texts = record["content"].as_array()?.iter();
        let texts: Vec<String> = texts.filter_map(|it| it["text"].as_str().map(str::to_owned)).collect();
        (record["type"] == "user")
            .then(|| Self { id: record["id"].as_str().unwrap_or_default().to_owned(), texts })
    }

    /// Whether it is left out when the conversation goes on.
    fn is_left_out(&self) -> bool {
        self.texts.first().is_some_and(|it| is_own(it))
    }

    /// What is left out with it although somebody else has said it.
    fn said(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(|it| it.trim()).filter(|it| !it.is_empty() && !is_own(it))
    }

    /// Whether a text stands in it, or was told again with it.
    fn tells(&self, text: &str) -> bool {
        let wanted = as_told(text);
        self.texts.iter().any(|it| as_told(it).contains(&wanted))
    }
}

/// Says whether the program has said a text by itself.
pub(super) fn is_own(text: &str) -> bool {
    OWN.iter().any(|own| text.trim_start().starts_with(own))
}

/// A text as it can be compared: what is added to a message is quoted, and the program rewrites two characters of it.
fn as_told(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    let lines = text.lines().map(|it| it.strip_prefix("> ").unwrap_or(it.strip_prefix('>').unwrap_or(it)));
    lines.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Returns the texts that are in a transcript and not in the conversation that goes on with it, oldest first.
pub(super) fn texts(transcript: &str) -> Vec<String> {
    let mut lost: Vec<String> = Vec::new();
    let mut history: Vec<Entry> = Vec::new();
    // Nothing of the model's is needed, and it is most of the file.
    let records = transcript.lines().filter(|it| it.contains("\"user\"") || it.contains("\"$rewindTo\""));
    for record in records.flat_map(lines::records) {
        let before = history.len();
        if let Some(messages) = record["$set"]["messages"].as_array() {
            history = messages.iter().filter_map(Entry::read).collect();
        } else if let Some(to) = record["$rewindTo"].as_str() {
            let at = history.iter().position(|it| it.id == to);
            history.truncate(at.unwrap_or(before));
        } else if let Some(entry) = Entry::read(&record) {
            history.retain(|it| it.id != entry.id);
            history.push(entry);
        }
        for entry in history.iter().filter(|it| it.is_left_out()) {
            for text in entry.said() {
                if !lost.iter().any(|it| it == text) {
                    lost.push(text.to_owned());
                }
            }
        }
    }
    lost.retain(|text| !history.iter().any(|it| !it.is_left_out() && it.tells(text)));
    lost
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn user(id: &str, texts: &[&str]) -> Value {
        let parts: Vec<Value> = texts.iter().map(|it| json!({ "text": it })).collect();
        json!({ "id": id, "type": "user", "content": parts })
    }

    fn check(records: &[Value], expected: &[&str]) {
        let transcript = records.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
        assert_eq!(texts(&transcript), expected, "{transcript}");
    }

    const CONTEXT: &str = "<session_context>\nToday is a day.\n</session_context>";

    #[test]
    fn a_message_that_was_joined_with_the_programs_own_words_is_forgotten_until_it_is_told_again() {
        let (context, first, second) =
            (user("a", &[CONTEXT]), user("b", &["(id m-1)\n<b> & go"]), user("c", &["(id m-2)\nmore"]));
        let heard = json!({ "id": "d", "type": "gemini", "content": "heard" });
        let set = |messages: &[&Value]| json!({ "$set": { "messages": messages } });
        let begun = [set(&[&context]), first, heard.clone(), second.clone()];
        check(&begun, &[]);

        // A tool was cancelled: the history is written anew.
        let joined = user("e", &[CONTEXT, "(id m-1)\n<b> & go"]);
        let mut records = begun.to_vec();
        records.extend([joined.clone(), second.clone(), set(&[&joined, &heard, &second])]);
        check(&records, &["(id m-1)\n<b> & go"]);

        // It has gone on once.
        records.push(set(&[&context, &heard, &second]));
        check(&records, &["(id m-1)\n<b> & go"]);
        let added = "<hook_context>It was:\n&gt; (id m-1)\n&gt; &lt;b&gt; & go\n</hook_context>";
        let third = user("f", &["(id m-3)\nafter", added]);
        records.push(third.clone());
        check(&records, &[]);
        records.push(set(&[&context, &heard, &second, &third]));
        check(&records, &[]);

        // The turn in which it was told again is taken back.
        records.push(set(&[&context, &heard, &second]));
        check(&records, &["(id m-1)\n<b> & go"]);
    }

    #[test]
    fn lines_that_are_cut_or_of_another_kind_are_no_loss() {
        check(&[], &[]);
        assert_eq!(texts("{\"type\":\"user\",\"content\":[{\"te\n\n{}\n\"user\"\n"), Vec::<String>::new());
        check(
            &[user("a", &["/x"]), json!({ "$rewindTo": "a" }), json!({ "type": "user", "content": "x" })],
            &[],
        );
    }
}
