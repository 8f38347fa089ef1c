//! Long texts beside the log, named by their hash. Knows texts; knows no event.

use std::fs;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::digest::sha256_hex;
use crate::error::{Doing as _, Error, Result};
use crate::journal::{Journal, make_dir, write_whole};
use crate::line::Payload;

/// Texts longer than this belong into a body.
pub const BODY_LIMIT: usize = 16 << 10;

/// Names a body.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BodyRef {
    /// The SHA-256 of the text, as 64 hex digits.
    pub sha256: String,
    /// The length of the text in bytes.
    pub bytes: u64,
}

impl<B: Serialize + DeserializeOwned + Clone, E: Payload> Journal<B, E> {
    /// Stores a text, without its secrets, and forces it to the disk before anything can name it.
    pub fn put_body(&self, text: &str) -> Result<BodyRef> {
        let redactor = self.redactor();
        let text = redactor.redact_text(text);
        let body = BodyRef { sha256: sha256_hex(text.as_bytes()), bytes: text.len() as u64 };
        let path = self.body_path(&body)?;
        if fs::read(&path).is_ok_and(|there| there == text.as_bytes()) {
            return Ok(body);
        }
        make_dir(&self.places.bodies())?;
        write_whole(&path, text.as_bytes(), self.options.sync).map_err(|error| match error {
            Error::NoSpace { path, .. } => {
                Error::NoSpace { free: self.free(), needed: text.len() as u64, path }
            }
            other => other,
        })?;
        Ok(body)
    }

    /// Returns a stored text, or refuses if it is not the one that was stored.
    pub fn get_body(&self, body: &BodyRef) -> Result<String> {
        let path = self.body_path(body)?;
        let bytes = fs::read(&path).doing("read", &path)?;
        if bytes.len() as u64 != body.bytes || sha256_hex(&bytes) != body.sha256 {
            return Err(Error::BodyChanged { path });
        }
        String::from_utf8(bytes).map_err(|_| Error::BodyChanged { path })
    }

    /// The hash becomes a file name, so it has to be one.
    fn body_path(&self, body: &BodyRef) -> Result<PathBuf> {
        let path = self.places.bodies().join(&body.sha256);
        let fits = body.sha256.len() == 64 && body.sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        if fits { Ok(path) } else { Err(Error::BodyChanged { path }) }
    }
}
