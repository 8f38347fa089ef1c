//! Settings as the program takes them: `-c KEY=VALUE` and `config.toml`. Reads the forms that programs write, a value
//! on one line; what is not understood is a text after `-c` and is passed over in a file. Knows no setting.

use serde_json::{Map, Value};

/// All settings, as one tree.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings(Value);

impl Settings {
    /// Takes one `KEY=VALUE`.
    pub(super) fn set(&mut self, assignment: &str) -> Result<(), String> {
        let mut cursor = Cursor(assignment);
        let path = cursor.path().filter(|_| cursor.eat('=')).ok_or_else(|| format!("`{assignment}`"))?;
        let value = cursor.value().filter(|_| cursor.at_end());
        let text = assignment.split_once('=').map_or("", |it| it.1);
        place(&mut self.0, &path, value.unwrap_or_else(|| Value::from(text)));
        Ok(())
    }

    /// Takes a whole file.
    pub(super) fn read(&mut self, text: &str) {
        let mut section = Vec::new();
        for line in text.lines().map(str::trim) {
            let mut cursor = Cursor(line);
            if cursor.eat('[') {
                section = cursor.path().unwrap_or_else(|| vec![String::new()]);
                continue;
            }
            let Some(path) = cursor.path().filter(|_| cursor.eat('=')) else { continue };
            if let Some(value) = cursor.value() {
                place(&mut self.0, &[section.clone(), path].concat(), value);
            }
        }
    }

    /// Returns a setting, or null.
    pub(super) fn get(&self, path: &[&str]) -> &Value {
        path.iter().fold(&self.0, |value, key| &value[*key])
    }
}

fn place(root: &mut Value, path: &[String], value: Value) {
    let Some((first, rest)) = path.split_first() else {
        *root = value;
        return;
    };
    if !root.is_object() {
        *root = Value::Object(Map::new());
    }
    place(&mut root[first.as_str()], rest, value);
}

/// The rest of a line.
struct Cursor<'a>(&'a str);

impl Cursor<'_> {
    fn eat(&mut self, char: char) -> bool {
        let rest = self.0.trim_start().strip_prefix(char);
        self.0 = rest.unwrap_or(self.0);
        rest.is_some()
    }

    fn at_end(&self) -> bool {
        let rest = self.0.trim_start();
        rest.is_empty() || rest.starts_with('#')
    }

    fn path(&mut self) -> Option<Vec<String>> {
        let mut path = Vec::new();
        loop {
            path.push(self.key()?);
            if !self.eat('.') {
                return Some(path);
            }
        }
    }

    fn key(&mut self) -> Option<String> {
        if let Some(text) = self.text() {
            return Some(text);
        }
        self.0 = self.0.trim_start();
        let bare = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
        let end = self.0.find(|it| !bare(it)).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        (!word.is_empty()).then(|| word.to_owned())
    }

    /// A quoted text; its escapes are those of JSON.
    fn text(&mut self) -> Option<String> {
        let rest = self.0.trim_start();
        if let Some(literal) = rest.strip_prefix('\'') {
            let (text, rest) = literal.split_once('\'')?;
            self.0 = rest;
            return Some(text.to_owned());
        }
        if !rest.starts_with('"') {
            return None;
        }
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        let text = stream.next()?.ok()?;
        self.0 = &rest[stream.byte_offset()..];
        Some(text)
    }

    fn value(&mut self) -> Option<Value> {
        if let Some(text) = self.text() {
            return Some(Value::from(text));
        }
        if self.eat('[') {
            let mut list = Vec::new();
            while !self.eat(']') {
                list.push(self.value()?);
                self.eat(',');
            }
            return Some(Value::Array(list));
        }
        if self.eat('{') {
            let mut table = Value::Object(Map::new());
            while !self.eat('}') {
                let path = self.path().filter(|_| self.eat('='))?;
                place(&mut table, &path, self.value()?);
                self.eat(',');
            }
            return Some(table);
        }
        self.0 = self.0.trim_start();
        let end = self.0.find([',', ']', '}', '#', ' ']).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        serde_json::from_str(word).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_of_the_command_line_make_one_tree() {
        let mut settings = Settings::default();
        for word in [
            r#"mcp_servers.team.command="/x y""#,
            r#"mcp_servers.team.args=["mcp","--seat-file","a\n\"b\""]"#,
            r#"mcp_servers.team.env={"A B"="1",C="="}"#,
            "model=stub-model",
            "check=false",
        ] {
            settings.set(word).unwrap();
        }
        let team = json!({"command": "/x y", "args": ["mcp", "--seat-file", "a\n\"b\""], "env": {"A B": "1", "C": "="}});
        assert_eq!(settings.get(&["mcp_servers", "team"]), &team);
        assert_eq!(
            (settings.get(&["model"]), settings.get(&["check"])),
            (&json!("stub-model"), &json!(false))
        );
        assert!(settings.set("=x").is_err());
    }

    #[test]
    fn a_file_has_sections_and_inline_tables() {
        let mut settings = Settings::default();
        settings.read("a = 1 # one\nprojects = {\"/x.y\"={trust_level=\"trusted\"}}\n[projects.'/z']\ntrust_level = \"trusted\"\n[[odd]]\nb = \"\"\"\n");
        for folder in ["/x.y", "/z"] {
            assert_eq!(settings.get(&["projects", folder, "trust_level"]), "trusted");
        }
        assert_eq!(settings.get(&["a"]), 1);
    }
}
