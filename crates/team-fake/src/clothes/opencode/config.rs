//! What a start is told: flags, and the settings in the environment. Starts nothing.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::args::ArgsError;
use crate::mcp::ServerConfig;

/// The command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flags {
    /// Where the server listens.
    pub(crate) address: SocketAddr,
    /// The conversation to go on with.
    pub(crate) session: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) version: bool,
}

/// Reads the arguments that follow the program's name.
pub(crate) fn flags(words: Vec<String>) -> Result<Flags, ArgsError> {
    let mut flags = Flags {
        address: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0),
        session: None,
        model: None,
        version: false,
    };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| ArgsError::NoValue(word.clone()));
        match word.as_str() {
            "--hostname" => flags.address.set_ip(number::<IpAddr>(&value()?)?),
            "--port" => flags.address.set_port(number(&value()?)?),
            "--session" | "-s" => flags.session = Some(value()?),
            "--model" | "-m" => flags.model = Some(value()?),
            "--version" | "-v" => flags.version = true,
            _ => return Err(ArgsError::Unknown(word)),
        }
    }
    Ok(flags)
}

fn number<T: std::str::FromStr>(word: &str) -> Result<T, ArgsError> {
    word.parse().map_err(|_| ArgsError::Unknown(word.to_owned()))
}

/// The settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Config {
    value: Value,
}

impl Config {
    /// Reads the settings; what is not JSON counts for nothing.
    pub(crate) fn read(text: &str) -> Self {
        Self { value: serde_json::from_str(text).unwrap_or_default() }
    }

    pub(crate) fn model(&self) -> Option<&str> {
        self.value["model"].as_str()
    }

    /// Files that are given to the model before everything.
    pub(crate) fn instructions(&self) -> Vec<PathBuf> {
        let list = self.value["instructions"].as_array().into_iter().flatten();
        list.filter_map(|it| it.as_str().map(|it| Path::new(it).to_owned())).collect()
    }

    /// The tool servers that are switched on.
    pub(crate) fn servers(&self) -> BTreeMap<String, ServerConfig> {
        let all = self.value["mcp"].as_object().into_iter().flatten();
        all.filter(|(_, it)| it["type"] == "local" && it["enabled"] != false)
            .filter_map(|(name, it)| {
                let argv: Vec<String> = serde_json::from_value(it["command"].clone()).ok()?;
                let env = serde_json::from_value(it["environment"].clone()).unwrap_or_default();
                Some((name.clone(), ServerConfig::new(argv, env)?))
            })
            .collect()
    }
}

/// Where the program keeps its conversations.
pub(crate) fn data_home() -> PathBuf {
    let named = std::env::var_os("XDG_DATA_HOME").filter(|it| !it.is_empty()).map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".local/share");
    named.unwrap_or_else(home).join("opencode")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_our_start_and_no_others() {
        let read = |line: &str| flags(line.split(' ').map(str::to_owned).collect());
        let all = read("--hostname 127.0.0.1 --port 4096 --session ses_1").unwrap();
        assert_eq!(
            (all.address.to_string().as_str(), all.session.as_deref()),
            ("127.0.0.1:4096", Some("ses_1"))
        );
        assert!(read("--version").unwrap().version);
        assert_eq!(read("--mini"), Err(ArgsError::Unknown("--mini".to_owned())));
    }

    #[test]
    fn servers_and_instructions_are_read() {
        let config = Config::read(
            r#"{"model":"team/m","instructions":["/p.md"],
            "mcp":{"one":{"type":"local","command":["/x","mcp"],"environment":{"A":"b"}},
                   "far":{"type":"remote"},"off":{"type":"local","command":["y"],"enabled":false}}}"#,
        );
        let servers = config.servers();
        assert_eq!(servers.keys().collect::<Vec<_>>(), ["one"]);
        assert_eq!(
            (servers["one"].argv(), &servers["one"].env["A"]),
            (vec!["/x".into(), "mcp".into()], &"b".into())
        );
        assert_eq!(config.instructions(), [Path::new("/p.md")]);
        assert_eq!((config.model(), Config::read("").model()), (Some("team/m"), None));
    }
}
