//! Where programs of this family keep their records.
//!
//! Knows how paths are made. Must not look whether anything is there.

use std::path::{Path, PathBuf};

use crate::fact::{RecordKind, SeatPlaces, Watched};

/// Longest folder name, in UTF-16 units, before it is cut and marked with a hash.
const SLUG_MAX: usize = 200;

/// Returns the watched file of a seat.
pub(crate) fn bell(seat_dir: &Path) -> PathBuf {
    seat_dir.join("bell")
}

/// Returns the folder of a seat's waiting messages.
pub(crate) fn inbox(seat_dir: &Path) -> PathBuf {
    seat_dir.join("inbox")
}

/// Returns where the transcript of a conversation begun in `cwd` lies.
pub(crate) fn transcript(config_home: &Path, cwd: &Path, native_id: &str) -> PathBuf {
    config_home.join("projects").join(slug(&cwd.to_string_lossy())).join(format!("{native_id}.jsonl"))
}

/// Returns the files to watch for a seat.
pub(crate) fn files_to_watch(places: &SeatPlaces<'_>) -> Vec<Watched> {
    let mut files = Vec::new();
    let usual = places.native_id.map(|id| transcript(places.config_home, places.cwd, id));
    if let Some(path) = places.transcript.map(Path::to_path_buf).or(usual) {
        files.push(Watched { path, kind: RecordKind::Transcript });
    }
    if let Some(pid) = places.provider_pid {
        let path = places.config_home.join("sessions").join(format!("{pid}.json"));
        files.push(Watched { path, kind: RecordKind::Status });
    }
    files
}

/// Returns the name of the folder that holds the transcripts of a working folder.
fn slug(cwd: &str) -> String {
    let units: Vec<u16> = cwd.encode_utf16().collect();
    let plain = |unit: &u16| match u8::try_from(*unit) {
        Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
        _ => '-',
    };
    if units.len() <= SLUG_MAX {
        return units.iter().map(plain).collect();
    }
    let mut name: String = units[..SLUG_MAX].iter().map(plain).collect();
    name.push('-');
    name.push_str(&base36(hash(&units)));
    name
}

/// Returns the absolute value of the 32-bit hash of a text's units.
fn hash(units: &[u16]) -> u32 {
    let hash = units.iter().fold(0_i32, |h, unit| h.wrapping_mul(31).wrapping_add(i32::from(*unit)));
    hash.unsigned_abs()
}

/// Writes a number with the digits and the small letters.
fn base36(mut number: u32) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit(number % 36, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_outside_letters_and_digits_becomes_a_dash() {
        assert_eq!(slug("/p/we ird.d_r-1@x/ünï"), "-p-we-ird-d-r-1-x--n-");
        // A character outside the basic plane is two units.
        assert_eq!(slug("/a/👩b"), "-a---b");
    }

    #[test]
    fn a_long_folder_is_cut_and_hashed() {
        let long = format!("/{}", "a".repeat(300));
        let name = slug(&long);
        assert!(name.starts_with(&format!("-{}-", "a".repeat(199))), "{name}");
        assert_eq!(slug(&long), name);
        assert_ne!(slug(&format!("{long}b")), name);
        assert_eq!(slug(&"a".repeat(200)), "a".repeat(200));
    }

    #[test]
    fn the_hash_is_that_of_a_signed_32_bit_number() {
        assert_eq!(hash(&"hello".encode_utf16().collect::<Vec<_>>()), 99_162_322);
        // The smallest number has no positive counterpart of its own width.
        assert_eq!(hash(&"polygenelubricants".encode_utf16().collect::<Vec<_>>()), 2_147_483_648);
        assert_eq!(base36(2_147_483_648), "zik0zk");
        assert_eq!(base36(0), "0");
    }

    #[test]
    fn a_told_transcript_wins_over_the_usual_place() {
        let mut places = SeatPlaces {
            config_home: Path::new("/h/.claude"),
            cwd: Path::new("/w"),
            native_id: Some("id"),
            transcript: None,
            provider_pid: Some(7),
        };
        let paths = |places: &SeatPlaces<'_>| {
            files_to_watch(places).into_iter().map(|it| it.path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(paths(&places), ["/h/.claude/projects/-w/id.jsonl", "/h/.claude/sessions/7.json"]);
        places.transcript = Some(Path::new("/x/id.jsonl"));
        places.provider_pid = None;
        assert_eq!(paths(&places), ["/x/id.jsonl"]);
        places.transcript = None;
        places.native_id = None;
        assert_eq!(paths(&places), Vec::<String>::new());
    }
}
